/* optimizer.h - one file and one row per optimizer
   An optimizer turns gradients into updates. The shared code then applies the decoupled update w <- w (1 - lr
   weight_decay) - lr update, so that recordings and counterfactuals use the same quantity for every optimizer.
   Everything is recorded once, as programs of the update. */
#ifndef MAXLOGIT_TRAINING_OPTIMIZER_H
#define MAXLOGIT_TRAINING_OPTIMIZER_H
#include "comm/comm.h"
#include "model/stabilizer.h"

enum { MAX_STATES = 7 };

/* Tensors of one optimizer that lie one after another, as one row of n numbers. Between tensors there may be gaps
   of a few zeros. */
struct update {
  struct tensor *grad;              /* [1,n] */
  struct tensor *state[MAX_STATES]; /* [1,n], in the order of state_names; 0 at the start; see state_shape */
  struct tensor *update;            /* out, [1,n] */
  struct param *const *param;       /* the tensors, ... */
  const long *place;                /* ... and where in the row each begins */
  const long *state_place[MAX_STATES]; /* begin of each tensor's part of state[k] */
  int count;
  long from;                 /* begin of the row among all trained parameters */
  uint64_t seed;             /* of the run */
  const struct model *model; /* with all weights, as they are before the step: see reads_weights */
};

struct ns_use;
struct optimizer {
  const char *name, *help;
  const struct option_row *options;
  size_t options_size;
  void (*resolve)(void *options); /* set options that are derived from others; may be NULL */
  const char *const *state_names; /* NULL-terminated: "m", "v"; may be empty */
  /* The shape of a tensor's k-th state; NULL: the tensor's own. With another shape, state[k] is as long as all of
     them. A state "m" or "momentum" has the tensor's own shape: stabilizers scale it with the weights. */
  void (*state_shape)(const struct param *, int k, long *rows, long *cols);
  /* Is every number updated independently? Then a row may be cut anywhere (comm.shard), and begin or end within a
     tensor. */
  int elementwise;
  int reads_weights; /* also of other tensors than its own: not with sharded weights */
  /* Does it take this tensor? If not, the tensor goes to `adam`. NULL: takes all. */
  int (*takes)(const struct param *);
  /* The Newton-Schulz iteration whose input is the momentum of a hidden matrix (with Nesterov that plus the gradient);
     NULL: there is none. */
  struct ns_use (*orthogonalizes)(const void *options);
  /* Record the calls from gradient to update, states included. Use numbers_constant for values of options and
     numbers_varying for values that vary with the step. NULL: its tensors are not changed, not even by decay. */
  void (*record)(const void *options, struct program *, struct numbers *, const struct update *);
};
extern const struct optimizer *const optimizers[];
const struct optimizer *optimizer_find(const char *name);

/* --- Newton-Schulz ---------------------------------------------------------------------------------------- */
/* Coefficient sets: step i maps every singular value s to a s + b s^3 + c s^5. Beyond the last of its steps
   a set repeats that one; with fewer, it stops early. */
struct ns_step {
  double a, b, c;
};
struct ns_set {
  const char *source;
  double norm_scale; /* the matrix is divided by this times its Frobenius norm */
  int steps;         /* the set's own number, >= steps listed */
  struct {
    int first, then;
  } gram; /* steps on the Gram matrix before the first product with X, and between two: as many as rounding allows */
  int listed;
  struct ns_step step[10];
};
enum ns_choice {
  NS_KELLER,
  NS_QUINTIC,
  NS_TAYLOR,
  NS_SU_FIXED,
  NS_SU,
  NS_YOUJIACHENG,
  NS_POLAR_EXPRESS,
  NS_POLAR_EXPRESS_5,
  NS_CANS,
  NS_CUBIC,
  NS_DEEPSEEK_V4,
  NS_AOL,
  NS_SVD,          /* the exact polar factor */
  NS_NONE,         /* the momentum itself, scaled to the norm of an orthogonal matrix */
  NS_SETS = NS_SVD /* these are not sets */
};
extern const struct ns_set ns_sets[NS_SETS];
extern const char *const ns_names[]; /* by enum ns_choice, then NULL: choices of an option */
const struct ns_step *ns_step_at(const struct ns_set *, int step);
/* The value that `steps` steps (0: the set's own number) make of a singular value of the divided matrix. */
double ns_value(const struct ns_set *, long steps, double sigma);
/* An optimizer's use of a set: set NULL: not a polynomial. */
struct ns_use {
  const struct ns_set *set;
  long steps, heads_split; /* enum heads_split */
};
struct ns_use ns_use_of(long coefficients, long steps, long heads_split);
/* The same polynomials of the same matrix, with products by X after each step, or several steps on its Gram matrix.
   NS_AUTO chooses the faster one for the shape. */
enum ns_iteration { NS_AUTO, NS_STANDARD, NS_GRAM };
extern const char *const ns_iterations[];
/* Record: orthogonalize the matrices [rows, cols] at these places of the row x, in place: the near-polar factor after
   `steps` steps (0: the set's own number), times scale by. A zero matrix stays zero; non-finite numbers give NaN
   everywhere. `eps` is added to the norm. */
void newton_schulz_record(struct program *, struct tensor *x, const long *place, long places, long rows,
                          long cols, const struct ns_set *, enum ns_iteration, long steps, double eps,
                          struct tensor *by, double scale);

/* --- shared by optimizers ------------------------------------------------------------------------------------ */
int takes_matrices(const struct param *); /* hidden ones, as `takes` */
/* Record: m = beta m + (1 - beta) g. */
void average_record(struct program *, struct numbers *, struct tensor *m, struct tensor *g, double beta);
struct adam_numbers {
  double beta1, beta2, eps;
};
/* 1 - beta^t at the t-th update, of a double beta: a number_of. */
number_of adam_correction;
/* Record Adam's update of u's gradients, with the moments m and v, all [1,n]. */
void adam_record(struct program *, struct numbers *, const struct update *u, struct tensor *update,
                 struct tensor *m, struct tensor *v, const struct adam_numbers *);

/* --- the set of updates of a model ---------------------------------------------------------------------- */
/* The optimizer and the factors of each tensor: from `optimizer`, `takes`, and the patterns override.optimizer,
   override.lr, override.weight_decay = "GLOB:VALUE+GLOB:VALUE". The last match counts; lr and weight_decay are
   factors. A glob is matched against the whole name of a tensor (blocks.0.attn.w_q) and against its ends after a dot
   (w_q, attn.w_*). */
enum { MATCH_LR, MATCH_UPDATE_RMS, MATCH_UPDATE_SPECTRAL_NORM };
struct override_options {
  const char *optimizer, *lr, *weight_decay;
  long match;
  double match_rms; /* the target that all optimizers share, for the hidden matrices */
};
extern const struct option_row override_rows[];

struct update_rule { /* settings of training that the update needs */
  double weight_decay;
  long decay_gains;
  long decay_independent; /* train.decay = scaled | independent */
  long decay_cautious;    /* only of weights that the update does not move away from 0 */
  uint64_t seed;
  double grad_clip;         /* largest norm of the gradient; 0: any */
  const struct comm *ranks; /* that share states, a power of two; NULL: sharded like weights (params.h) */
  int stops; /* a step that is not finite, and every one after it, leaves weights and states as they are */
};

struct updates;
/* Record the update half of a step: gradient norm, finite test, gradient clip, updates, the stabilizers' hooks, and
   the decoupled update with their factors: w <- w keep - rate update, keep = 1 - rate weight_decay (independent:
   1 - share weight_decay: Loshchilov and Hutter, arXiv 1711.05101, Alg. 2;
   Wortsman et al., arXiv 2309.14322), rate = lr times its factors; cautious: keep = 1 where w and the update have
   opposite signs (arXiv 2510.12402).
   options_of(context, name): the option struct of an optimizer by name. */
struct updates *updates_new(struct model *, const char *optimizer, const struct override_options *,
                            const struct update_rule *, const void *(*options_of)(void *, const char *),
                            void *context, struct error *);
void updates_free(struct updates *);
/* The programs of the two halves, for a caller that reads the updates in between; call scalars_upload first. */
struct program *updates_program(const struct updates *);
struct program *updates_apply(const struct updates *);
/* Numbers [1] of the report: the gradient's norm before the clip; 1, or 0 where the step changed nothing. */
const struct tensor *updates_grad_norm(const struct updates *);
const struct tensor *updates_finite(const struct updates *);
/* States for checkpoints: names like "adam.m.blocks.0.attn.w_q". */
int updates_states(const struct updates *);
/* Its data is NULL unless all of it is on this rank. */
struct tensor *updates_state(const struct updates *, int index, char *name, size_t room);
/* Copy the whole state to the host, and back; with sharded states all ranks call read together. */
void updates_state_read(const struct updates *, int index, real *host);
void updates_state_write(const struct updates *, int index, const real *host);
/* Does the parameter's optimizer have a momentum (a state "m" or "momentum")? *use: the iteration that takes it. */
int updates_momentum(const struct updates *, const struct param *, struct ns_use *use);
/* Copy the momenta of all parameters to the host, in the layout of params.values; 0 where there is none. With sharded
   states all ranks call it together. */
void updates_momenta(const struct updates *, real *host);
int updates_are_sharded(const struct updates *);
const char *updates_optimizer_of(const struct updates *, const struct param *);
#endif
