/* words.h - the words behind a command's options: [FILE] key=value ...
   An argp child: the command's own parser gives it `struct words` in child_inputs at ARGP_KEY_INIT. */
#ifndef MAXLOGIT_WORDS_H
#define MAXLOGIT_WORDS_H
#include <argp.h>

struct words {
  const char *wanted; /* what to say where FILE is missing; NULL: it may be */
  const char *once;   /* what to say of a second one */
  const char *file;   /* NULL: none given */
  const char **assignment;
  int count;
};
extern const struct argp_child words_child[]; /* for the command's struct argp */
void words_free(struct words *);
/* What -j says: launches at a time, 1 to 1024. */
long words_jobs(const char *text, struct argp_state *);
#endif
