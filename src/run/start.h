/* start.h - initial weights from another run */
#ifndef MAXLOGIT_RUN_START_H
#define MAXLOGIT_RUN_START_H
#include <stdint.h>
#include "storage/checkpoint.h"

struct model;

/* Load the newest checkpoint of the run at `path`, if it belongs to that run; or the checkpoint file `path` itself, of
   any run. */
int start_state(const char *path, struct checkpoint *, struct error *);
/* Does a checkpoint have all parameters of a model, by name and shape? States of stabilizers may be missing. */
int start_check(const struct model *, const struct checkpoint *, const char *path, struct error *);
/* Load parameters, by name and shape, from a checkpoint, from a run's latest checkpoint, or from the ended run with
   this seed in a folder (train.init_from; "": none). All trained parameters must be there; states of stabilizers that
   are missing keep their initial values. *content: their hash, 0 for none. `expected`: the required hash; NULL: any. */
int start_from(struct model *, const char *from, long seed, const uint64_t *expected, uint64_t *content,
               struct error *);
#endif
