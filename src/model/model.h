/* model.h - the decoder stack: pre-norm blocks of attention and a feed-forward block, RMSNorm, RoPE */
#ifndef MAXLOGIT_MODEL_MODEL_H
#define MAXLOGIT_MODEL_MODEL_H
#include "model/ffn.h"
#include "model/stabilizer.h"

enum { MAX_STABILIZERS = 8, MAX_MODULES = 8 };

/* The parameters of one block; attention, except for its output, and the feed-forward block keep theirs
   themselves. */
struct layer {
  struct param *attn_norm, *w_o, *b_o; /* b_o: NULL without biases */
  struct param *ffn_norm;
  void *attention, *ffn; /* set by the plug-in's declare, in the arena of the parameters */
};

/* Module k = 1.. of multi-token prediction, its block apart (that is layer[layers + k - 1]). */
struct module {
  struct param *norm_h, *norm_e, *w_join, *norm;
};

struct model {
  struct model_options options; /* resolved */
  struct device *device;
  const struct attention *attention;
  const struct ffn *ffn;
  struct params params;
  struct param *embed, *norm, *head; /* head: embed where tied */
  struct layer *layer;               /* [layers + modules] */
  struct module *module;             /* [modules] */
  int stabilizer_count;
  const struct stabilizer *stabilizer[MAX_STABILIZERS];
  struct stabilizer_context context[MAX_STABILIZERS];
  /* zero after model_init; for programs that are made afterwards */
  struct precision_options precision;
  long most_logits; /* that exist at one time, of programs that are made afterwards; 0: 2^24 */
  long experts;     /* of a router, at most; 0: there is none */
  void *ffn_state;
  /* of the program that is being recorded: */
  const struct tally *into;
  double share;               /* the program's fraction of a batch */
  struct tensor *stats_at;    /* [H,4], of its layer */
  struct tensor *tracked_max; /* [S*L,1] */
  struct tensor *routes_at;   /* [1,E+4], for `forward` to write: its layer's row of the tally's routes */
  struct numbers *numbers;
  struct tensor *lr;                /* the step's learning rate, [1] */
  struct tensor *norm_eps, *z_loss; /* [1] */
  struct tensor *ahead_weight;      /* [1]: of each module's loss, mtp_weight / modules */
  struct tensor *no_z;              /* [1]: 0 */
  struct report *report;
  struct tally step, probe, val; /* of the step's batch; of the probe batch; of validation batches */
};

/* `stabilizer`: the stabilizers in order, with their option structs. Rejects incompatible ones. Declares and
   allocates all parameters, in the order embed, norm, head, blocks, then those of stabilizers. Values are zero until
   params_draw or a checkpoint fills them in. Each context's `series` arrays are allocated here. */
int model_init(struct model *, const struct model_options *, struct device *,
               const struct stabilizer *const *stabilizer, const void *const *stabilizer_options,
               int stabilizer_count, struct error *);
/* Start a new run, after its weights have their initial values. A resumed run has its states from a checkpoint. */
void model_begin(struct model *);
void model_free(struct model *);
/* Returns 1 and the text if stabilizers cancel out (QK-Clip under QK-Norm). */
int model_warning(const struct model *, char *text, size_t room);
/* The name of a stabilizer that changes queries, keys or weights in the pass, so that weights alone do not bound
   logits; NULL: none does. */
const char *model_changes_qk(const struct model *);
/* Length of a stabilizer's series array of this shape. */
long model_series_size(const struct model *, enum series_shape);
/* Find the parameter "blocks.<layer>.<name>" ("attn.w_q") by its name; a programming error if there is none. */
struct param *model_param(const struct model *, int layer, const char *name);

/* For plug-ins: declare tensors "blocks.<layer>.<name>" (head_rows as in struct param) ... */
struct param *model_add_matrix(struct model *, int layer, long rows, long cols, long head_rows,
                               const char *name);
struct param *model_add_gain(struct model *, int layer, long cols, double value, const char *name);
/* The gain of an RMSNorm of `cols` columns, as model.norm_gain selects it; NULL if it has none. The name is whole. */
struct param *model_add_norm(struct model *, int layer, long cols, const char *format, ...)
  __attribute__((format(printf, 4, 5)));
struct param *model_add_bias(struct model *, int layer, long cols, const char *name);
/* ... RMSNorm of all columns with a gain of model_add_norm ... */
struct tensor *model_norm(struct model *, struct program *, struct tensor *x, struct param *gain);
/* ... number j of the gain of such a norm, from its values on the host (NULL: none) ... */
double model_gain_at(const struct model *, const real *values, long j);
/* ... and apply the stabilizers to weights: `first` and the next count-1 parameters as one matrix. */
struct tensor *model_weight(struct model *, struct program *, struct param *first, int count);
#endif
