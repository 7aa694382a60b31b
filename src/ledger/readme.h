/* readme.h - a ledger as a README tells it: its verdicts outlive its runs, which are in no repository */
#ifndef MAXLOGIT_LEDGER_README_H
#define MAXLOGIT_LEDGER_README_H
#include <jansson.h>
#include "base/error.h"

/* What a README has of a ledger stands between these two. */
extern const char readme_open_mark[], readme_close_mark[];
/* Of a README.md with the verdicts of all claims, entries as claims.json has them, as far as it tells: id, verdict,
   effect, registered, settings, made_by. NULL: none stands there, or it cannot be read. */
json_t *readme_read(const char *path);
#endif
