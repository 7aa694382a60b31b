/* optimizer.h - one file and one row per optimiser
   An optimiser turns gradients into directions; the shared code then does the decoupled update
   w <- w (1 - lr weight_decay) - lr direction, so that every recording and every counterfactual sees the
   same quantity whatever the optimiser. */
#ifndef MAXLOGIT_OPTIMIZER_H
#define MAXLOGIT_OPTIMIZER_H
#include "model/model.h"

enum { MAX_STATES = 4 };

struct update { /* one tensor in one step */
  struct param *param;
  struct tensor *state[MAX_STATES]; /* like the parameter, in the order of state_names */
  struct tensor *direction;         /* out, [rows, cols] */
  long step;                        /* updates of this tensor so far: 0, 1, ... */
};

struct optimizer {
  const char *name, *help;
  const struct option_row *options;
  size_t options_size;
  void (*resolve)(void *options); /* fill in what follows from other options; may be NULL */
  const char *const *state_names; /* NULL-terminated: "m", "v"; may be empty */
  /* Does it take this tensor? If not, the tensor goes to `adam`. NULL: takes all. */
  int (*takes)(const struct param *);
  /* Bytes of device memory that `step` wants for temporaries; NULL: none. */
  size_t (*work)(const void *options, struct device *, const struct update *list, int count);
  /* Directions for all its tensors; allocates nothing. NULL: its tensors are left alone, decay included. */
  void (*step)(const void *options, struct device *, uint64_t seed, struct update *list, int count,
               void *work);
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
  NS_SVD,
  NS_SETS = NS_SVD /* the exact polar factor: not a set */
};
extern const struct ns_set ns_sets[NS_SETS];
extern const char *const ns_names[]; /* by enum ns_choice, then NULL: choices of an option */
const struct ns_step *ns_step_at(const struct ns_set *, int step);
/* Orthogonalise x [rows, cols] in place: the near-polar factor after `steps` steps (0: the set's own number).
   A zero matrix stays zero; non-finite numbers give NaN everywhere. `eps` is added to the norm. `work` is
   device memory of newton_schulz_work bytes. */
void newton_schulz(struct device *, struct tensor *x, const struct ns_set *, int steps, double eps,
                   void *work);
size_t newton_schulz_work(long rows, long cols);
/* The same by a singular value decomposition on the host, exact to rounding; allocates. */
void exact_polar_factor(struct device *, struct tensor *x);

/* m <- momentum m + g; direction = m, or g + momentum m with nesterov. All of one shape. */
void momentum_step(struct device *, struct tensor *m, struct tensor *g, struct tensor *direction,
                   double momentum, int nesterov);

/* --- the set of updates of a model ---------------------------------------------------------------------- */
/* Which optimiser and which factors each tensor has: from `optimizer`, `takes`, and the patterns
   override.optimizer, override.lr, override.weight_decay = "GLOB:VALUE+GLOB:VALUE": the last match counts;
   lr and weight_decay are factors. A glob is matched against the whole name of a tensor
   (blocks.0.attn.w_q) and against its ends after a dot (w_q, attn.w_*). */
enum { MATCH_LR, MATCH_UPDATE_RMS, MATCH_UPDATE_SPECTRAL_NORM };
struct override_options {
  const char *optimizer, *lr, *weight_decay;
  long match;
  double match_rms; /* what is held equal between optimisers, for the hidden matrices */
};
extern const struct option_row override_rows[];

struct update_rule { /* settings of training that the update needs */
  double weight_decay;
  long decay_gains;
  long decay_independent; /* train.decay = scaled | independent */
  double lr;              /* train.lr: of it, the rate of a step is the schedule's and the warm-up's share */
  uint64_t seed;
};

struct updates;
/* options_of(context, name): the option struct of an optimiser by name. After params_allocate. */
struct updates *updates_new(struct model *, const char *optimizer, const struct override_options *,
                            const struct update_rule *, const void *(*options_of)(void *, const char *),
                            void *context, struct error *);
void updates_free(struct updates *);
/* Directions from gradients, then the decoupled update with the stabilisers' factors: w <- w keep - rate
   direction, keep = 1 - rate weight_decay, rate = lr times its factors; independent of the base rate (Loshchilov and
   Hutter, arXiv 1711.05101, Alg. 2; Wortsman et al., arXiv 2309.14322): keep = 1 - (lr / rule.lr) weight_decay. */
void updates_step(struct updates *, long step, double lr);
/* The two halves, for a caller that wants to look at the directions in between. */
void updates_directions(struct updates *, long step);
void updates_apply(struct updates *, double lr);
const struct tensor *updates_direction(const struct updates *, const struct param *);
/* States for checkpoints: names like "adam.m.blocks.0.attn.w_q". */
int updates_states(const struct updates *);
struct tensor *updates_state(const struct updates *, int index, char *name, size_t room);
/* Multiply what the optimisers hold as first moments (states called m or momentum) of a factor's rows by c. */
void updates_scale_momentum(struct updates *, const struct factor *, double c);
const char *updates_optimizer_of(const struct updates *, const struct param *);
#endif
