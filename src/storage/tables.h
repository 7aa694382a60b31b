/* tables.h - tables of rows (storage/rows.h) as datasets of a run file
   A dataset per column, labelled by the step axis of its table; /events is one dataset of records. */
#ifndef MAXLOGIT_STORAGE_TABLES_H
#define MAXLOGIT_STORAGE_TABLES_H
#include "storage/rows.h"

void tables_write(struct h5 *, const struct rows *, int compress);
int tables_read(struct h5 *, struct rows *, struct error *); /* into no rows */
/* Can this be a column of a table: records are events, and other tables begin with their steps? */
int table_takes(const struct h5_shape *, int table, int column);
#endif
