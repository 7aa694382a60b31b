/* tables.h - tables of rows (storage/rows.h) as datasets, the same in a run file and in a checkpoint
   A dataset a column, labelled by the step axis of its table; /events is one dataset of records. A run file has all
   rows, a checkpoint those since the last snapshot, and in /first_row how many rows of each table
   are before its own. */
#ifndef MAXLOGIT_STORAGE_TABLES_H
#define MAXLOGIT_STORAGE_TABLES_H
#include "storage/rows.h"

/* The columns that every table has, where they are not there yet. */
void tables_start(struct rows *);
void tables_write(struct h5 *, const struct rows *, int compress);
void tables_write_unsaved(struct h5 *, const struct rows *);
/* Of either; the rows before them are `saved`. Into no rows. */
int tables_read(struct h5 *, struct rows *, struct error *);
#endif
