/* arms.h - two arms as words of a command: two folders or files, or runs and two conditions */
#ifndef MAXLOGIT_ARMS_H
#define MAXLOGIT_ARMS_H
#include <argp.h>
#include "analysis/runset.h"

struct arm_words {
  char *condition[2];
  int conditions;
};
/* A word that is a condition is taken: returns 1. */
int arm_word(struct arm_words *, char *text, struct argp_state *);
/* All words were seen: are there two arms? Else argp_error. */
void arm_words_end(const struct arm_words *, const struct selection *, struct argp_state *);
/* The runs of arm `i` (0: A, 1: B) and what it is called. */
int arm_select(struct runset *, const char **name, const struct selection *, const struct arm_words *, int i,
               struct error *);
#endif
