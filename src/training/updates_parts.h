/* updates_parts.h - shared by the files of a model's updates: rules.c and matching.c, which updates.c calls */
#ifndef MAXLOGIT_TRAINING_UPDATES_PARTS_H
#define MAXLOGIT_TRAINING_UPDATES_PARTS_H
#include "base/memory.h"
#include "numerics/shards.h"
#include "training/optimizer.h"

/* Optimizer and factors of one parameter. */
struct rule {
  const struct optimizer *optimizer;
  double lr, weight_decay;
  struct ns_use use; /* of the momentum */
};

struct updates {
  struct model *model;
  struct update_rule rule;
  long match;
  double match_rms;
  struct param **params; /* [count] trained parameters, in the order of memory */
  struct rule *rules;    /* [count] */
  int count;
  struct shards *shards; /* the owner of each update; NULL: each rank computes all */
  int owns_shards;       /* weights are whole: only states are sharded */
  long *used;            /* for every rank, numbers assigned to it so far */
  struct tensor *all;    /* [1,n] updates, as params.values lies */
  struct update *rows;   /* rows of tensors for the optimizers' records */
  int row_count;
  struct update_block *blocks; /* rows of parameters with separate factors */
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

/* Set the trained parameters, in the order of memory, and their rules. */
int updates_decide(struct updates *, const char *optimizer, const struct override_options *, struct error *);
/* sharing.c: shard a run of parameters that one optimizer takes. */
void sharing_divide(struct updates *, int first, int count);
/* Steps of the host. For sharded states: gather all updates on all ranks. For sharded weights: the norm of all
   gradients. */
host_step sharing_collect, sharing_norm;
/* host: each rank's part in place, the rest 0, becomes the whole. */
void sharing_join(const struct updates *, void *host, size_t bytes);
/* Record: scale updates of hidden matrices to their common size (override.match). */
void updates_match(struct updates *, struct program *);
#endif
