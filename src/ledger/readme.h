/* readme.h - reads a ledger from a README: its verdicts are under version control, its runs are not */
#ifndef MAXLOGIT_LEDGER_README_H
#define MAXLOGIT_LEDGER_README_H
#include <jansson.h>
#include "base/error.h"

/* The marks around a ledger in a README. */
extern const char readme_open_mark[], readme_close_mark[];
/* Read the verdicts of all claims from the text of a README.md, which is cleaned, as entries like those of claims.json,
   with the fields id, verdict, effect, registered, settings, made_by. NULL: there are none. */
json_t *readme_read(char *text, size_t length);
#endif
