/* table.h - columns over steps: joined, reduced, averaged over seeds, thinned, written
   `export` prints the table from which figures are drawn. */
#ifndef MAXLOGIT_ANALYSIS_TABLE_H
#define MAXLOGIT_ANALYSIS_TABLE_H
#include <stdio.h>
#include "analysis/statistics.h"
#include "storage/run_file.h"

/* The values of a column that thinning keeps: both extremes of a bin, or only the smallest or largest
   (the edges of a band, which must not cross). */
enum column_kind { COLUMN_EXTREMES, COLUMN_LOW, COLUMN_HIGH };

struct column {
  char name[128];
  enum column_kind kind;
};
struct table {
  long rows;
  int columns;
  double *step;          /* [rows], increasing */
  double *value;         /* [rows, columns] */
  struct column *column; /* [columns] */
};

void table_new(struct table *, long rows, int columns); /* zeros, no names */
/* The name of value i of a row: l0h0 (per head), l0e0 (per expert), l0 (per layer), a tensor's name, or the
   series'. */
void series_value_name(const struct run_series *, long i, char *out, size_t room);
/* A column for each of them; with `prefix` != 0 every name is "series:column". layer, head: -1 for all; others keep
   only these. */
void table_from_series(struct table *, const struct run_series *, int prefix, int layer, int head);
void table_free(struct table *);
/* Append the columns of `more`: rows of either, a missing value (base/number.h) where one has none. Missing values are
   skipped by later reductions, and an empty field in CSV and TSV; a NaN comes from the run. */
void table_join(struct table *, const struct table *more);
/* Keep the columns whose name matches the pattern; 0: none matches, and all stay. */
int table_keep(struct table *, const char *pattern);
/* Replace all columns by one: the largest of each row, or the mean. A NaN stays NaN. */
void table_reduce_max(struct table *, const char *name);
void table_reduce_mean(struct table *, const char *name);
/* Keep rows from step `first` to step `last`, of these the multiples of n (0: all). */
void table_keep_steps(struct table *, long n, double first, double last);
/* At most 2 rows for each of `bins` equal intervals of the step, and the first and last rows as they
   are. An extreme keeps its order in time; the two rows stand at the bin's first and last step.
   A NaN makes both values NaN, so that a gap stays a gap. */
void table_bins(struct table *, long bins);
/* One row for each of `bins` runs of neighbouring rows: the mean step and the means of known values. */
void table_means(struct table *, long bins);

/* Have both the same columns, by their names? */
int table_columns_agree(const struct table *, const struct table *);
/* Statistics over runs with the same columns: "n", then for every column NAME, NAME:lo, NAME:hi
   (mean, lo, hi where there is one column). n counts the runs that have a value, of several columns of that which most
   have. Between two of its rows a run has a value on the line between them. Without a run (count 0) the columns are
   those of *runs, and there is no row. */
void table_band(struct table *out, const struct table *runs, int count, int geometric);

enum table_format { TABLE_COLUMNS, TABLE_CSV, TABLE_TSV };
/* The digits that restore the value: of a float where it is one, else of a double. */
const char *table_number(double value, char out[32]); /* returns out */
/* A text as a cell; cell_add. */
void table_write_text(FILE *, enum table_format, const char *text);
/* The header: a `#` comment in columns, a plain first row in CSV and TSV. `extra`: a text column after
   the step, NULL for none. */
void table_write_header(FILE *, const struct table *, enum table_format, const char *extra);
void table_write_rows(FILE *, const struct table *, enum table_format, const char *extra);
#endif
