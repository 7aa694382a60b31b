/* kept.h - a ledger as its file, claims.json, has it: this one's of before, or another that is told beside it */
#ifndef MAXLOGIT_LEDGER_KEPT_H
#define MAXLOGIT_LEDGER_KEPT_H
#include <jansson.h>
#include "ledger/ledger.h"

struct kept {
  json_t *all; /* its entries */
  char *path;
  char name[64]; /* of what its runs were trained on: see kept_name */
};
/* The file, or that in a folder, or a README.md that tells a ledger (told.h); for kept_close, whatever comes.
   STATUS_USAGE: there is none. */
int kept_open(struct kept *, const char *file_or_folder, struct error *);
/* All entries of a file, its texts cleaned (text_clean); NULL: there is none. For json_decref. */
json_t *kept_read(const char *path);
void kept_close(struct kept *);
/* Of NULL, no ledger, there is none: its first entry, which tells what all share; the entry of a claim. */
const json_t *kept_first(const struct kept *);
const json_t *kept_claim(const struct kept *, const char *id);
/* What an entry says: "", NaN or VERDICT_OPEN where it does not. */
const char *kept_text(const json_t *entry, const char *key);
double kept_number(const json_t *entry, const char *key);
struct interval kept_interval(const json_t *entry, const char *key);
enum verdict kept_verdict(const json_t *entry);
/* What a ledger's runs were trained on, in a word, by their settings: a text's file, or the built-in chain. */
void kept_name(const char *settings, char out[64]);
#endif
