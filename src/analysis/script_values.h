/* script_values.h - the numbers and texts of a gnuplot script, read back for figures drawn with characters */
#ifndef MAXLOGIT_ANALYSIS_SCRIPT_VALUES_H
#define MAXLOGIT_ANALYSIS_SCRIPT_VALUES_H
#include <stdio.h>

/* Of a script that gnuplot.h wrote; values are given until they are freed. */
struct script_values;
struct script_values *script_values_read(FILE *);
void script_values_free(struct script_values *);

/* A number, or the i-th (from 0) of an array; NaN: there is none. */
double script_number(const struct script_values *, const char *name, int i);
/* The same of texts; NULL: there is none. */
const char *script_text(const struct script_values *, const char *name, int i);

/* One of the blocks of $name, row by row. Rows of fewer columns end with NaN. */
struct script_block {
  long rows;
  int columns;
  const double *value;
};
struct script_block script_block(const struct script_values *, const char *name, int index);
#endif
