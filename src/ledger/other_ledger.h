/* other_ledger.h - a ledger read from its file, claims.json: an earlier version of this one, or another one */
#ifndef MAXLOGIT_LEDGER_OTHER_LEDGER_H
#define MAXLOGIT_LEDGER_OTHER_LEDGER_H
#include <jansson.h>
#include "ledger/ledger.h"

struct other_ledger {
  json_t *all; /* its entries */
  char *path;
  char name[64]; /* of its training data, see training_text_name */
};
/* Open claims.json, the one in a folder, or a README.md with a ledger (readme.h). STATUS_USAGE if there is none. Call
   other_ledger_close in either case. */
int other_ledger_open(struct other_ledger *, const char *file_or_folder, struct error *);
/* All entries of a file, with cleaned texts (text_clean); NULL if there is none; with an error if it cannot be
   read. The lock (may be NULL) guards the file (file_read_held). The caller calls json_decref. */
struct lock;
json_t *other_ledger_read(const char *path, struct lock *, struct error *);
void other_ledger_close(struct other_ledger *);
/* The first entry, and the entry of a claim, with the same settings if there is one. NULL if there is none, or
   the ledger is NULL. */
const json_t *other_ledger_first(const struct other_ledger *);
const json_t *other_ledger_claim(const struct other_ledger *, const char *id);
/* A value of an entry; "", NaN or VERDICT_OPEN if it is missing. */
const char *entry_text(const json_t *entry, const char *key);
double entry_number(const json_t *entry, const char *key);
struct interval entry_interval(const json_t *entry, const char *key);
enum verdict entry_verdict(const json_t *entry);
/* A short name of the training data in these settings: the file of a text, or the built-in chain. */
void training_text_name(const char *settings, char out[64]);
#endif
