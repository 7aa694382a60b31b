/* updates_parts.h - what the files of a model's updates share: rules.c and matching.c, which updates.c calls */
#ifndef MAXLOGIT_UPDATES_PARTS_H
#define MAXLOGIT_UPDATES_PARTS_H
#include "base/memory.h"
#include "training/optimizer.h"

/* What one parameter has. */
struct rule {
  const struct optimizer *optimizer;
  double lr, weight_decay;
};

/* Directions of trained numbers that one rank makes. */
struct piece {
  long from, n;
  int owner;
};

struct updates {
  struct model *model;
  struct update_rule rule;
  long match;
  double match_rms;
  struct param **params; /* [count] those that train, in the order of memory */
  struct rule *rules;    /* [count] */
  int count;
  struct tensor *all;  /* [1, total] every direction, as params.values lies */
  struct update *rows; /* what optimisers record */
  int row_count;
  struct piece *pieces; /* where states are shared out, of all ranks */
  int piece_count;
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
  struct program *directions, *apply;
  struct arena *arena;
};

/* Which parameters train, in the order of memory, and what each has. */
int updates_decide(struct updates *, const char *optimizer, const struct override_options *, struct error *);
/* sharing.c: owner[count] of tensors that are taken whole; then, with the pieces there, sharing_collect is a step of
   the host after which all ranks have all directions. */
void sharing_owners(const struct updates *, int first, int count, int *owner);
host_step sharing_collect;
/* host [n]: each rank's part in place, the rest 0, becomes the whole. */
void sharing_join(const struct updates *, real *host, long n);
/* Record: directions of hidden matrices to the size that they have in common (override.match). */
void updates_match(struct updates *, struct program *);
#endif
