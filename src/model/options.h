/* options.h - sections [model] and [precision]: the shape of a stack, and its attention masks */
#ifndef MAXLOGIT_MODEL_OPTIONS_H
#define MAXLOGIT_MODEL_OPTIONS_H
#include "base/option.h"

/* Zero means "follows from others" where noted; model_resolve fills it in. */
struct model_options {
  long layers, width, heads;
  long kv_heads; /* 0: heads for mha; must be given for gqa */
  long head_dim; /* 0: width / heads */
  long context;
  long ffn_width;                            /* 0: 8/3 width rounded to a multiple of 16 */
  long vocab;                                /* 0: that of the data source */
  const char *attention, *ffn;               /* names of plug-ins: mha, gqa, mla; swiglu, moe */
  long q_rank, kv_rank, rope_dim, value_dim; /* mla: Rq (0: no query latent), Rkv, Dr, Dv */
  long tied, bias;
  double rope_base, rope_scale, norm_eps, z_loss;
  long init; /* enum model_init_kind */
  double init_std;
  long norm_gain; /* enum norm_gain */
  long mtp;       /* modules of multi-token prediction */
  double mtp_weight;
  long mask;         /* enum mask */
  long window;       /* keys of a row in a layer with a window; 0: half the context */
  long window_every; /* of so many layers the last has no window; 0: all have one */
  long prefix;       /* first tokens of a document, which all its rows attend to; 0: half the context */
  void *ffn_options; /* the struct that the option rows of `ffn` describe; NULL where it has none */
};
enum mask { MASK_CAUSAL, MASK_FULL, MASK_WINDOW, MASK_PREFIX };
extern const char *const model_masks[]; /* their names */
enum model_init_kind { MODEL_INIT_FAN_IN, MODEL_INIT_FIXED };
enum norm_gain { NORM_GAIN_VECTOR, NORM_GAIN_SCALAR, NORM_GAIN_NONE, NORM_GAIN_ZERO_CENTERED };
extern const struct option_row model_rows[];
/* Blocks: those of the stack, then one of every module of multi-token prediction. Series by layer or by head
   have all of them. */
static inline long model_blocks(const struct model_options *o) { return o->layers + o->mtp; }
/* Fill in derived options, given the data's vocabulary; reject shapes that do not fit. */
int model_resolve(struct model_options *, long data_vocab, struct error *);

/* The keys that a row of a sequence attends to: [start, end), in layers with a window [window, end). */
struct row_range {
  int start, end, window;
};
/* Of row t of a document that lies at [from, to) of the sequence. */
struct row_range model_row_range(const struct model_options *, long t, long from, long to);
/* Number of distances, from 0 on, that the layer's mask allows from a query to earlier keys, or to later ones. */
long model_distances(const struct model_options *, int layer, int later);
/* Does the layer have a window? */
int model_has_window(const struct model_options *, int layer);

/* Formats (enum number_format) that attention rounds to. */
struct precision_options {
  long scores, qk;
};
extern const struct option_row precision_rows[];
#endif
