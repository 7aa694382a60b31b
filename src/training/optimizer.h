/* optimizer.h - one file and one row per optimiser
   An optimiser turns gradients into directions; the shared code then does the decoupled update
   w <- w (1 - lr weight_decay) - lr direction, so that every recording and every counterfactual sees the
   same quantity whatever the optimiser. */
#ifndef MAXLOGIT_OPTIMIZER_H
#define MAXLOGIT_OPTIMIZER_H
#include "model/model.h"

enum { MAX_STATES = 4 };

struct update {                     /* one tensor in one step */
  struct param *param;
  struct tensor *state[MAX_STATES]; /* like the parameter, in the order of state_names */
  struct tensor *direction;         /* out, [rows, cols] */
  long step;                        /* updates of this tensor so far: 0, 1, ... */
};

struct optimizer {
  const char *name, *help;
  const struct option_row *options; size_t options_size;
  const char *const *state_names;   /* NULL-terminated: "m", "v"; may be empty */
  /* Does it take this tensor? If not, the tensor goes to `adam`. NULL: takes all. */
  int (*takes)(const struct param *);
  /* Directions for all its tensors. No allocation after the first call: temporaries from device_scratch. */
  void (*step)(const void *options, struct device *, uint64_t seed, struct update *list, int count);
};
extern const struct optimizer *const optimizers[];
const struct optimizer *optimizer_find(const char *name);

/* Newton-Schulz coefficient sets by name (science 2.4), shared by muon and others. */
struct ns_step { double a, b, c; };
struct ns_set { const char *name; double norm_scale; int steps; struct ns_step step[12]; const char *source; };
extern const struct ns_set ns_sets[];
extern const char *const ns_set_names[];   /* NULL-terminated, then "svd" at the end */
/* Orthogonalise x [rows, cols] in place; steps 0: the set's own number, else its steps cyclically/last
   repeated as documented. `eps` is added to the Frobenius norm. */
void newton_schulz(struct device *, struct tensor *x, const struct ns_set *, int steps, double eps,
                   void *scratch);
size_t newton_schulz_scratch(long rows, long cols);

/* --- the set of updates of a model ---------------------------------------------------------------------- */
/* Which optimiser and which factors each tensor has: from `optimizer`, `takes`, and the patterns
   override.optimizer, override.lr, override.weight_decay = "GLOB:VALUE+GLOB:VALUE" (the last match counts). */
struct override_options { const char *optimizer, *lr, *weight_decay; };
extern const struct option_row override_rows[];

struct update_rule {                /* settings of training that the update needs */
  double weight_decay; long decay_gains; long decay_independent; /* train.decay = scaled | independent */
  uint64_t seed;
};

struct updates;
/* options_of(context, name): the option struct of an optimiser by name. */
struct updates *updates_new(struct model *, const char *optimizer, const struct override_options *,
                            const struct update_rule *,
                            const void *(*options_of)(void *, const char *), void *context,
                            struct error *);
void updates_free(struct updates *);
/* Directions from gradients, then the decoupled update with the stabilisers' factors.
   hold != 0: compute directions but let the caller look (updates_direction) before updates_apply. */
void updates_step(struct updates *, long step, double lr);
void updates_directions(struct updates *, long step);
void updates_apply(struct updates *, double lr);
const struct tensor *updates_direction(const struct updates *, const struct param *);
/* States for checkpoints: names like "adam.m/blocks.0.attn.w_q". */
int updates_states(struct updates *);
struct tensor *updates_state(struct updates *, int index, char *name, size_t room);
const char *updates_optimizer_of(const struct updates *, const struct param *);
#endif
