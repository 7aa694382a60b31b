/* extend.h - a sweep's longer run goes on from the shorter one that is finished, to the bits of one that was
   never short
   Only under a constant schedule, where no step depends on how many are to come, and from the checkpoint of the
   shorter one's end. The shorter run stays what it is. */
#ifndef MAXLOGIT_RUN_EXTEND_H
#define MAXLOGIT_RUN_EXTEND_H
#include "config/config.h"

struct shorter; /* the finished runs of a folder; they are looked for when first asked for */
struct shorter *shorter_new(const char *folder);
void shorter_free(struct shorter *);

/* The longest finished run that is the one of this settled configuration but for fewer steps: its file in `from`,
   or "" and in `why` the reason why one that is there will not do ("": there is none). */
void shorter_find(struct shorter *, const struct config *, char from[4096], char why[128]);

/* Make `path` the run of this configuration, stopped where `from` ended; a resume goes on. Whatever was at `path` is
   replaced. */
int extend_run(const char *from, const char *path, const struct config *, struct error *);
#endif
