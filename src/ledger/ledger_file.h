/* ledger_file.h - the ledger's file, claims.json in the folder of its runs: what was found, and what stood there before
   A claim whose registered hash differs from that of the verdict that stands there was changed after the fact: both are
   told. Claims that are not asked for stay in the file as they are. */
#ifndef MAXLOGIT_LEDGER_LEDGER_FILE_H
#define MAXLOGIT_LEDGER_LEDGER_FILE_H
#include "ledger/ledger.h"

/* Fill in what the entries were before, if they were, with the settings of this ledger. */
void ledger_recall(struct ledger *);
/* Write the file; what it was is replaced whole, or not at all. */
int ledger_save(const struct ledger *, struct error *);
#endif
