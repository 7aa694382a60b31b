/* other_ledger.h - a ledger read from its file, claims.json: an earlier version of this one, or another one */
#ifndef MAXLOGIT_LEDGER_OTHER_LEDGER_H
#define MAXLOGIT_LEDGER_OTHER_LEDGER_H
#include <jansson.h>
#include "ledger/ledger.h"

struct other_ledger {
  json_t *all; /* its entries */
  char *path;
  char name[64]; /* of what its runs were trained on: see training_text_name */
};
/* The file, or that in a folder, or a README.md that tells a ledger (told.h); for other_ledger_close, whatever comes.
   STATUS_USAGE: there is none. */
int other_ledger_open(struct other_ledger *, const char *file_or_folder, struct error *);
/* All entries of a file, its texts cleaned (text_clean); NULL: there is none. For json_decref. */
json_t *other_ledger_read(const char *path);
void other_ledger_close(struct other_ledger *);
/* Of NULL, no ledger, there is none: its first entry, which tells what all share; the entry of a claim. */
const json_t *other_ledger_first(const struct other_ledger *);
const json_t *other_ledger_claim(const struct other_ledger *, const char *id);
/* What an entry says: "", NaN or VERDICT_OPEN where it does not. */
const char *entry_text(const json_t *entry, const char *key);
double entry_number(const json_t *entry, const char *key);
struct interval entry_interval(const json_t *entry, const char *key);
enum verdict entry_verdict(const json_t *entry);
/* What a ledger's runs were trained on, in a word, by their settings: a text's file, or the built-in chain. */
void training_text_name(const char *settings, char out[64]);
#endif
