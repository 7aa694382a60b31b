/* replication.h - which verdicts of another ledger stand with this one's settings, another width say, and which flip */
#ifndef MAXLOGIT_LEDGER_REPLICATION_H
#define MAXLOGIT_LEDGER_REPLICATION_H
#include "ledger/other_ledger.h"

/* A table in FOLDER/README.md, and one in that of every experiment with a claim here, with its arms: between marks that
   name the settings, so that other blocks stay as they are. */
int replication_print(const struct ledger *, const struct other_ledger *of, const char *folder,
                      struct error *);
#endif
