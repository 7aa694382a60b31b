/* tables.h - tables of rows (storage/rows.h) as datasets of a run file
   Each column is a dataset, labeled by the step axis of its table; /events is one dataset of records. */
#ifndef MAXLOGIT_STORAGE_TABLES_H
#define MAXLOGIT_STORAGE_TABLES_H
#include "storage/rows.h"

void tables_write(struct h5 *, const struct rows *, int compress);
int tables_read(struct h5 *, struct rows *, struct error *); /* `rows` must be empty */
/* Is this a valid column of a table? Events are records, and other tables begin with their steps. */
int table_takes(const struct h5_shape *, int table, int column);
#endif
