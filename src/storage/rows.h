/* rows.h - the record in memory: tables of columns that grow by blocks
   A row costs its bytes and nothing else: blocks are never moved, so a long run pays memory of
   rows x bytes, and one allocation per block_rows rows. */
#ifndef MAXLOGIT_STORAGE_ROWS_H
#define MAXLOGIT_STORAGE_ROWS_H
#include "base/series.h"
#include "storage/h5.h"

/* One table per step axis, and three more, are the record. Column 0 of each is its step, except in the events. */
enum { TABLE_TIMING = AXIS_COUNT, TABLE_BATCHES, TABLE_EVENTS, TABLE_COUNT };

struct row_column {
  char name[96];
  struct h5_shape shape; /* dims[1..] are those of a row */
  size_t row_bytes;
  int64_t block_rows, blocks, room;
  unsigned char **block;                     /* [blocks] of [block_rows, row_bytes] */
  const char *unit, *long_name, *definition; /* may be NULL */
  const char *label[4];                      /* of dimensions 1.., where known */
};

struct row_table {
  struct row_column *column;
  int columns, room; /* of column */
  int64_t rows;      /* complete ones */
  int64_t saved;     /* of them, rows that the run file on disk has */
  int building;      /* a row is being filled in */
};

struct rows {
  struct row_table table[TABLE_COUNT];
  struct arena *texts; /* of columns; NULL: none yet */
};

extern const char *const table_steps[TABLE_COUNT]; /* names of their first columns */
/* The columns that every table has, where they are not there yet. */
void rows_start(struct rows *);
void rows_free(struct rows *);
const char *rows_own(struct rows *, const char *text); /* a clean copy that lives as long; of NULL: NULL */
struct row_column *table_find(const struct row_table *, const char *name); /* NULL if there is none */
/* A new column; rows that are there already get the fill: NaN in numbers with a point, else 0. */
struct row_column *table_add(struct row_table *, const char *name, const struct h5_shape *);
/* The memory that a column of such rows takes when it is added behind `rows` rows, and for the next one. */
size_t column_room(const struct row_column *, int64_t rows);
/* The row being built, started with the fill where it was not; table_end completes it. */
void *table_row(struct row_table *, struct row_column *);
void table_end(struct row_table *);
/* Rows and events of all tables from `step` on are forgotten. */
void rows_go_back(struct rows *, int64_t step);
/* A complete row. */
const void *column_row(const struct row_column *, int64_t row);
/* Memory for rows that are read from elsewhere, block by block. */
void *column_space(struct row_column *, int64_t row);
void table_cut(struct row_table *, int64_t rows);

size_t rows_bytes(const struct rows *, int only_unsaved);
void rows_saved(struct rows *);
#endif
