/* summary.h - the facts of a run in the lines of `show` and the table of `sweep`, and their formats */
#ifndef MAXLOGIT_APP_SUMMARY_H
#define MAXLOGIT_APP_SUMMARY_H
#include "analysis/json.h"
#include "storage/notes.h"

/* A max logit and where it was seen; step NaN: there is none. layer, head -1: the series has no such axis. */
struct place {
  double value, step;
  int layer, head;
};
/* "L1H2", "L1" or "": the axes that there are; returns out. */
const char *summary_place(const struct place *, char out[32]);
json_t *summary_place_json(const struct place *); /* null where there is none */
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
