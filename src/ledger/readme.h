/* readme.h - reads a ledger from a README: its verdicts are under version control, its runs are not */
#ifndef MAXLOGIT_LEDGER_README_H
#define MAXLOGIT_LEDGER_README_H
#include <jansson.h>
#include "base/error.h"

/* The marks around a ledger in a README. */
extern const char readme_open_mark[], readme_close_mark[];
/* Read the verdicts of all claims from a README.md, as entries like those of claims.json, with the fields id, verdict,
   effect, registered, settings, made_by. NULL: there are none, or they cannot be read. */
json_t *readme_read(const char *path);
#endif
