/* ffn.h - a feed-forward block: ffn/NAME.c, one file and one row */
#ifndef MAXLOGIT_MODEL_FFN_H
#define MAXLOGIT_MODEL_FFN_H
#include "model/params.h"
#include "model/pass.h"

/* The router of a layer: it chooses experts. */
struct router {
  long experts;       /* that it chooses from; 0: the layer has none */
  long active;        /* for each token */
  struct param *bias; /* [1, experts]: added to scores for the choice alone */
  int has_bias;       /* does it move? */
  int has_loss;       /* is there a loss of balance? */
};

struct ffn {
  const char *name, *help;
  const struct option_row *options;
  size_t options_size;
  size_t state_size; /* of m->ffn_state, zeroed */
  /* checks its options against the model's, and fills in defaults; may be NULL */
  int (*resolve)(struct model_options *, void *options, struct error *);
  void (*declare)(struct model *, int layer); /* its tensors, into layer[layer].ffn */
  /* x [N,D] normed input, residual [N,D]; returns the residual plus the output of the block */
  struct tensor *(*forward)(struct model *, struct program *, int layer, const struct layer_inputs *,
                            struct tensor *x, struct tensor *residual);
  void (*init)(struct model *); /* once, after parameters and numbers exist; may be NULL */
  struct router (*router)(const struct model *, int layer); /* NULL: no layer has one */
  void (*after_step)(struct model *, struct program *); /* record: weights have been updated; may be NULL */
};
extern const struct ffn *const ffns[]; /* NULL-terminated, generated registry */
const struct ffn *ffn_find(const char *name);

/* The router of a layer, if it has one. */
struct router model_router(const struct model *, int layer);
/* Record: the operations of the feed-forward blocks after the weights have been updated. */
void model_record_after_step(struct model *, struct program *);
#endif
