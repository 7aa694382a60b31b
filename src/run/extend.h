/* extend.h - a longer run of a sweep continues a finished shorter run, with the bits of a run that was never shorter
   This needs a constant schedule, where no step depends on the number of steps, and the checkpoint at the end of the
   shorter run. The shorter run is not changed. */
#ifndef MAXLOGIT_RUN_EXTEND_H
#define MAXLOGIT_RUN_EXTEND_H
#include "config/config.h"

struct shorter; /* the finished runs of a folder, listed on first use */
struct shorter *shorter_new(const char *folder);
void shorter_free(struct shorter *);

/* Find the longest finished run that differs from this resolved configuration only by fewer steps: its file in `from`,
   or "". `id`: of the configuration with its texts and weights. `why` is then the reason why an existing shorter run
   cannot be used ("": there is none). */
void shorter_find(struct shorter *, const struct config *, const char *id, char from[4096], char why[128]);

/* Make `path` the run of this configuration, stopped where `from` ended; a resume continues it. An existing file at
   `path` is replaced. */
int extend_run(const char *from, const char *path, const struct config *, struct error *);
#endif
