/* topics.h - help on terms that belong to several commands: `maxlogit help metrics` */
#ifndef MAXLOGIT_APP_TOPICS_H
#define MAXLOGIT_APP_TOPICS_H
struct topic {
  const char *name, *help, *text; /* lines of at most 80 columns */
  const char *examples;           /* two commands, one per line */
  const char *chapter;            /* of the manual */
};
extern const struct topic topics[]; /* ends with a NULL name */
#endif
