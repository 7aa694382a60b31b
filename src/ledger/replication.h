/* replication.h - compares verdicts with those of another ledger, for example at another width: which stand, which
   flip */
#ifndef MAXLOGIT_LEDGER_REPLICATION_H
#define MAXLOGIT_LEDGER_REPLICATION_H
#include "ledger/other_ledger.h"

/* Write a table to FOLDER/README.md, and one to the README of every experiment with a claim here, with its arms. The
   marks name the settings, so that other blocks stay unchanged. */
int replication_print(const struct ledger *, const struct other_ledger *of, const char *folder,
                      struct error *);
#endif
