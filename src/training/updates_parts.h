/* updates_parts.h - what the files of a model's updates share: rules.c and matching.c, which updates.c calls */
#ifndef MAXLOGIT_TRAINING_UPDATES_PARTS_H
#define MAXLOGIT_TRAINING_UPDATES_PARTS_H
#include "base/memory.h"
#include "numerics/shards.h"
#include "training/optimizer.h"

/* What one parameter has. */
struct rule {
  const struct optimizer *optimizer;
  double lr, weight_decay;
};

struct updates {
  struct model *model;
  struct update_rule rule;
  long match;
  double match_rms;
  struct param **params; /* [count] those that train, in the order of memory */
  struct rule *rules;    /* [count] */
  int count;
  struct shards *shards; /* who makes which updates; NULL: each rank all */
  int owns_shards;       /* weights are whole: only states are shared out */
  long *used;            /* of every rank, numbers that lie with it so far */
  struct tensor *all;    /* [1,n] updates, as params.values lies */
  struct update *rows;   /* what optimizers record */
  int row_count;
  struct update_block *blocks; /* rows of parameters that have factors of their own */
  struct rule *block_rules;
  int block_count;
  struct tensor **states; /* by parameter, for checkpoints */
  struct state_of {
    const struct param *param;
    int state;
  } * state_of;
  char (*state_names)[160];
  int state_count;
  struct tensor **memory; /* of the rows' states */
  int memory_count;
  struct tensor *finite, *reported_finite, *grad_norm; /* [1] */
  struct program *compute, *apply;
  struct arena *arena;
};

/* Which parameters train, in the order of memory, and what each has. */
int updates_decide(struct updates *, const char *optimizer, const struct override_options *, struct error *);
/* sharing.c: the pieces of a run of parameters, which one optimizer takes. */
void sharing_divide(struct updates *, int first, int count);
/* Steps of the host. Of states: all ranks have all updates. Of weights: the norm of all gradients. */
host_step sharing_collect, sharing_norm;
/* host: each rank's part in place, the rest 0, becomes the whole. */
void sharing_join(const struct updates *, void *host, size_t bytes);
/* Record: updates of hidden matrices to the size that they have in common (override.match). */
void updates_match(struct updates *, struct program *);
#endif
