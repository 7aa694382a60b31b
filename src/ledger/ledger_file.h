/* ledger_file.h - the ledger's file, claims.json in the folder of its runs: present and former findings
   If the registered hash of a claim differs from that of its stored verdict, the claim was changed after the fact, and
   both are recorded. Entries of claims that were not chosen stay in the file unchanged. */
#ifndef MAXLOGIT_LEDGER_LEDGER_FILE_H
#define MAXLOGIT_LEDGER_LEDGER_FILE_H
#include "ledger/ledger.h"

/* Fill in the former findings of the entries with the settings of this ledger, if there are any. */
void ledger_recall(struct ledger *);
/* Write the file. The write is atomic: a reader never gets a partial file. */
int ledger_save(const struct ledger *, struct error *);
#endif
