/* stabilizer.h - a stabilizer: training/stabilizers/NAME.c, one file and one row */
#ifndef MAXLOGIT_MODEL_STABILIZER_H
#define MAXLOGIT_MODEL_STABILIZER_H
#include "base/series.h"
#include "model/attention.h"

/* The arguments of a stabilizer's hooks. They are called once, while a program is recorded, and add calls to it: no
   tensor has values yet. */
struct stabilizer_context {
  struct model *model;
  const void *options;     /* the struct its option rows describe */
  void *state;             /* state_size bytes, zeroed; free it in `free` */
  struct tensor **series;  /* series[i]: the row of emits[i], [1, length]; NaN until a step writes it */
  struct numbers *numbers; /* for its thresholds and other numbers */
  struct tensor *max_logit,
    *max_abs_logit;           /* [L*H,1], signed and absolute, before any cap, of this step's pass */
  struct tensor *tracked_max; /* [L,1]: max |x| of the tensors given to model_track_max */
  int wants_probe;            /* set by init: the maxima are of the fixed probe batch instead */
};

/* Rows of a parameter with a separate learning rate: see on_update. */
struct update_block {
  struct param *param;
  long row, rows;
};

struct stabilizer {
  const char *name, *help;
  const struct option_row *options;
  size_t options_size;
  size_t state_size;
  const struct series *emits; /* ends with name NULL; may be NULL */
  /* returns an error with the reason if it cannot work */
  int (*check)(const void *options, const struct model_options *, struct error *);
  /* its own matrices, before any declare reads the list of the model's matrices */
  void (*declare_matrices)(struct stabilizer_context *, int layer);
  void (*declare)(struct stabilizer_context *, int layer);      /* its other parameters, per layer */
  int (*init)(struct stabilizer_context *, struct error *);     /* once, after parameters exist */
  void (*begin)(struct stabilizer_context *, struct program *); /* a fresh run: weights have values */
  int begin_times;                                              /* number of times to run it; 0: once */
  void (*on_qk)(struct stabilizer_context *, struct program *, int layer, const struct layer_inputs *,
                struct qk_part *, int parts);
  void (*on_score)(struct stabilizer_context *, int layer, struct attention_spec *);
  /* the heads' outputs side by side [N, H*Dv], before w_o; x [N,D]: attention's input */
  struct tensor *(*on_heads)(struct stabilizer_context *, struct program *, int layer, struct tensor *x,
                             struct tensor *heads);
  /* the output of attention, w_o included, before it is added to the residual stream: x [N, D] */
  void (*on_output)(struct stabilizer_context *, struct program *, int layer, struct tensor *x);
  /* a weight before its use in a product (sigma_reparam); returns w itself or a transformed tensor */
  struct tensor *(*on_weight)(struct stabilizer_context *, struct program *, struct param *,
                              struct tensor *w);
  /* multiply into the factors [1, blocks] on the learning rates of the blocks */
  void (*on_update)(struct stabilizer_context *, struct program *, const struct update_block *, int blocks,
                    struct tensor *factor);
  void (*before_update)(struct stabilizer_context *, struct program *); /* gradients are there */
  void (*after_step)(struct stabilizer_context *, struct program *);    /* weights have been updated */
  void (*free)(struct stabilizer_context *);
  unsigned flags; /* STABILIZER_NORMS_QK, ...: see model_warning */
};
enum {
  STABILIZER_NORMS_QK = 1,        /* logits no longer depend on the scale of w_q and w_k */
  STABILIZER_SCALES_QK = 2,       /* acts through the scale of w_q and w_k */
  STABILIZER_CAPS = 4,            /* sets the cap of attention_forward: one at most */
  STABILIZER_NORMS_QK_PARTLY = 8, /* as NORMS_QK, but mla's content keys, or queries, keep their scale */
  STABILIZER_NORMS_PARTS = 16,    /* norms queries or keys themselves, with gains by role: one at most */
  STABILIZER_WEIGHS = 32,         /* changes how scores become weights: one at most */
  STABILIZER_SCALES_QUERIES = 64, /* multiplies queries: no effect before one that normalizes them */
  STABILIZER_NORMS_QUERIES = 256, /* of NORMS_PARTS: queries among them */
  STABILIZER_WHOLE = 128          /* writes whole matrices, or their updates, or reads all in one row */
};
extern const struct stabilizer *const stabilizers[];
const struct stabilizer *stabilizer_find(const char *name);

/* For hooks of stabilizers: record max |x| as the layer's tracked maximum; once per layer. */
void model_track_max(struct stabilizer_context *, struct program *, int layer, struct tensor *x);
/* ... record the values of its parameter `name` [1,H] in every layer as its first series, by head. */
void model_tell_heads(struct stabilizer_context *, struct program *, const char *name);
#endif
