/* rows.h - the record in memory: tables of columns that grow by blocks
   Blocks are never moved, so a long run needs only rows x bytes of memory, and one allocation per block_rows rows. */
#ifndef MAXLOGIT_STORAGE_ROWS_H
#define MAXLOGIT_STORAGE_ROWS_H
#include "base/series.h"
#include "storage/h5.h"

/* The record has one table per step axis, and three more. Column 0 of each is its step, except in the events. */
enum { TABLE_TIMING = AXIS_COUNT, TABLE_BATCHES, TABLE_EVENTS, TABLE_COUNT };
enum { TABLE_COLUMNS = 65535 }; /* series that a table of a file may have */

struct row_column {
  char name[96];
  struct h5_shape shape; /* dims[1..] are those of a row */
  size_t row_bytes;
  int64_t block_rows, blocks, room;
  unsigned char **block;                     /* [blocks] of [block_rows, row_bytes] */
  const char *unit, *long_name, *definition; /* may be NULL */
  const char *label[4];                      /* of dimensions 1.., if known */
};

struct row_table {
  struct row_column *column;
  int columns, room; /* of column */
  int64_t rows;      /* complete ones */
  int64_t saved;     /* the number of rows that the run file on disk has */
  int building;      /* a row is being filled */
};

struct rows {
  struct row_table table[TABLE_COUNT];
  struct arena *texts; /* of columns; NULL: none yet */
};

extern const char *const table_steps[TABLE_COUNT]; /* names of the first columns */
/* Create the columns that every table has, if they are missing. */
void rows_start(struct rows *);
void rows_free(struct rows *);
const char *rows_own(struct rows *, const char *text); /* a clean copy owned by the rows; NULL stays NULL */
struct row_column *table_find(const struct row_table *, const char *name); /* NULL if there is none */
/* Add a column. Existing rows get NaN in floating-point columns, else 0. */
struct row_column *table_add(struct row_table *, const char *name, const struct h5_shape *);
/* The memory of a column of such rows that is added after `rows` rows, including the next row. */
size_t column_room(const struct row_column *, int64_t rows);
/* The row being built, begun with the fill value if necessary; table_end completes it. */
void *table_row(struct row_table *, struct row_column *);
void table_end(struct row_table *);
/* Remove rows and events of all tables from `step` on. */
void rows_go_back(struct rows *, int64_t step);
/* A complete row. */
const void *column_row(const struct row_column *, int64_t row);
/* Memory for rows that are read from a file, block by block. */
void *column_space(struct row_column *, int64_t row);
void table_cut(struct row_table *, int64_t rows);

size_t rows_bytes(const struct rows *, int only_unsaved);
void rows_saved(struct rows *);
#endif
