/* start.h - weights that come from another run */
#ifndef MAXLOGIT_RUN_START_H
#define MAXLOGIT_RUN_START_H
#include <stdint.h>
#include "storage/checkpoint.h"

struct model;

/* The newest checkpoint of the run at `path`, where it is that run's own; or the checkpoint that `path` names itself,
   whosever it is. */
int start_state(const char *path, struct checkpoint *, struct error *);
/* Does a checkpoint have all parameters of a model, by name and shape? States of stabilizers may be missing. */
int start_check(const struct model *, const struct checkpoint *, const char *path, struct error *);
/* The parameters of a checkpoint, or of a run's latest, or of that in a folder of the one run with this seed that is
   over (train.init_from; "": none), by name and shape: every one that trains, and such states of stabilizers as it has;
   the others start afresh. *content: their hash, 0 for none. expected: NULL, or what it must be. */
int start_from(struct model *, const char *from, long seed, const uint64_t *expected, uint64_t *content,
               struct error *);
#endif
