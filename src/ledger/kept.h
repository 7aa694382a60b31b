/* kept.h - a ledger as its file, claims.json, has it: this one's of before, or another that is told beside it */
#ifndef MAXLOGIT_KEPT_H
#define MAXLOGIT_KEPT_H
#include <jansson.h>
#include "ledger/ledger.h"

/* The entries of the file, or of that in a folder; for json_decref, and its path for memory_free, whatever comes.
   STATUS_USAGE: there is none. */
int kept_read(const char *file_or_folder, json_t **, char **path, struct error *);
/* The entry of a claim; NULL: it is not there. */
const json_t *kept_claim(const json_t *all, const char *id);
/* What an entry says: "", NaN or VERDICT_OPEN where it does not. */
const char *kept_text(const json_t *entry, const char *key);
double kept_number(const json_t *entry, const char *key);
struct interval kept_interval(const json_t *entry, const char *key);
enum verdict kept_verdict(const json_t *entry);
/* What a ledger's runs were trained on, in a word, by their settings: a text's file, or the built-in chain. */
void kept_name(const char *settings, char out[64]);
#endif
