/* print.h - prints results of claims: as a table, as JSON, as the README of an experiment */
#ifndef MAXLOGIT_LEDGER_PRINT_H
#define MAXLOGIT_LEDGER_PRINT_H
#include <jansson.h>
#include "base/text.h"
#include "ledger/other_ledger.h"

/* A number with four significant digits, without an exponent if that is short; "-" for NaN. */
const char *print_short_number(double, char out[32]);
/* "2.9 [1.8, 4.6]" */
const char *print_interval(const struct interval *, char out[128]);
/* One line per claim on standard output: id, verdict, effect, n, detectable, prediction. */
void print_table(const struct ledger *);
/* An array with all results of every claim; the caller calls json_print or json_decref. */
json_t *ledger_json(const struct ledger *);
/* Write FOLDER/NN-question/README.md for every experiment with a claim here. The text between two marks is replaced; a
   README without marks gets them at its end; a missing README is created. `beside`: another ledger, to show its
   verdicts next to these; or NULL. */
int print_readmes(const struct ledger *, const struct other_ledger *beside, const char *folder,
                  struct error *);
/* The text between two marks in FOLDER/NN-question/README.md, or in FOLDER/README.md: see print_readmes. */
struct readme_block {
  const char *open, *close;
  struct buffer text;
};
int print_block(const struct readme_block *, const char *folder, const char *question, struct error *);
/* A table of a claim's arms, with their rates, medians and runs. */
void print_arms(struct buffer *, const struct entry *);
#endif
