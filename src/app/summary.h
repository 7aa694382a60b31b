/* summary.h - the facts of a run in the lines of `show` and the table of `sweep`, and their formats */
#ifndef MAXLOGIT_APP_SUMMARY_H
#define MAXLOGIT_APP_SUMMARY_H
#include "storage/notes.h"

/* A max logit and where it was seen; layer -1: there is none. */
struct place {
  double value, step;
  int layer, head;
};
/* The largest of the whole run, and of its last row. A NaN exceeds any number; the first of several is reported. */
void summary_places(const struct run_file *, struct place *peak, struct place *last);
void summary_places_of(const struct run_series *, struct place *peak,
                       struct place *last); /* once it is read */
/* The last row of a series with one value a step; 0 and NaN: there is none. */
int summary_last(const struct run_file *, const char *series, double *value);
/* A loss; "-" where there is none. */
void summary_number(int has, double value, char out[32]);
/* A note, behind `before`: date and text. Further lines are indented to the start of the text. */
void summary_note(const char *before, const struct note *);
#endif
