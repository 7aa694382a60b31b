/* told.h - a ledger as a README tells it: its verdicts outlive its runs, which are in no repository */
#ifndef MAXLOGIT_LEDGER_TOLD_H
#define MAXLOGIT_LEDGER_TOLD_H
#include <jansson.h>
#include "base/error.h"

/* What a README has of a ledger stands between these two. */
extern const char told_open[], told_close[];
/* Of a README.md with the verdicts of all claims, entries as claims.json has them, as far as it tells: id, verdict,
   effect, registered, settings, made_by. NULL: none stands there, or it cannot be read. */
json_t *told_read(const char *path);
#endif
