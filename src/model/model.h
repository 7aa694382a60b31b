/* model.h - the decoder stack: pre-norm blocks of attention and a feed-forward block, RMSNorm, RoPE */
#ifndef MAXLOGIT_MODEL_MODEL_H
#define MAXLOGIT_MODEL_MODEL_H
#include "base/option.h"
#include "base/series.h"
#include "model/params.h"
#include "model/zigzag.h"
#include "numerics/exchange.h"

/* Section [model]. Zero means "follows from others" where noted; model_resolve fills it in. */
struct model_options {
  long layers, width, heads;
  long kv_heads; /* 0: heads for mha; must be given for gqa */
  long head_dim; /* 0: width / heads */
  long context;
  long ffn_width;                            /* 0: 8/3 width rounded to a multiple of 16 */
  long vocab;                                /* 0: what the data source has */
  const char *attention, *ffn;               /* names of plug-ins: mha, gqa, mla; swiglu, moe */
  long q_rank, kv_rank, rope_dim, value_dim; /* mla: Rq (0: no query latent), Rkv, Dr, Dv */
  long tied, bias;
  double rope_base, rope_scale, norm_eps, z_loss;
  long init; /* enum model_init_kind */
  double init_std;
  long mtp; /* modules of multi-token prediction */
  double mtp_weight;
  long mask;         /* enum mask */
  long window;       /* keys that a row of a layer with a window sees; 0: half the context */
  long window_every; /* of so many layers the last has no window; 0: all have one */
  long prefix;       /* tokens of a document that all of it sees; 0: half the context */
  void *ffn_options; /* the struct that the option rows of `ffn` describe; NULL where it has none */
};
enum mask { MASK_CAUSAL, MASK_FULL, MASK_WINDOW, MASK_PREFIX };
extern const char *const model_masks[]; /* their names */
enum model_init_kind { MODEL_INIT_FAN_IN, MODEL_INIT_FIXED };
extern const struct option_row model_rows[];
/* Blocks: those of the stack, then one of every module of multi-token prediction. Whatever is told by layer or by head
   is of all of them. */
static inline long model_blocks(const struct model_options *o) { return o->layers + o->mtp; }
/* Fill in what follows from others, given the data's vocabulary; complain about shapes that do not fit. */
int model_resolve(struct model_options *, long data_vocab, struct error *);

/* Which keys a row of a sequence sees, [start, end), in layers with a window [window, end). */
struct row_range {
  int start, end, window;
};
/* Of row t of a document that lies at [from, to) of the sequence. */
struct row_range model_row_range(const struct model_options *, long t, long from, long to);
/* Does the layer see a window only? */
int model_has_window(const struct model_options *, int layer);

/* Section [precision]: formats (enum number_format) that attention rounds to. */
struct precision_options {
  long scores, qk;
};
extern const struct option_row precision_rows[];

enum { MAX_LOGIT_BLOCKS = 8, MAX_PARTS = 8, MAX_STABILIZERS = 8, MAX_MODULES = 8 };

/* --- attention variants (model/attention/NAME.c, one file and one row) -------------------------------- */

/* A block of rows of a tensor that is a linear factor of one head's logits (design D5, science 1.4-1.6). */
enum role {
  ROLE_Q_HEAD,
  ROLE_K_HEAD,
  ROLE_K_GROUP,
  ROLE_Q_ROPE,
  ROLE_K_ROPE_SHARED,
  ROLE_OUTPUT /* w_o: of no logit, of what attention adds to the residual stream */
};
static inline int role_is_query(enum role role) { return role == ROLE_Q_HEAD || role == ROLE_Q_ROPE; }
static inline int role_is_rotary(enum role role) { return role == ROLE_Q_ROPE || role == ROLE_K_ROPE_SHARED; }
struct logit_block {
  enum role role;
  struct param *weight; /* rows [row, row+rows) belong to the head or its group */
  struct param *bias;   /* [1, out]: columns [row, row+rows); NULL if none */
  long row, rows;
  struct param *gain; /* of the RMSNorm that makes the weight's input */
};

/* A piece of queries or keys between projection and score, for on_qk: x [N, heads*dim]. */
struct qk_part {
  enum role role;
  struct tensor *x;
  long heads, dim;
  /* Decoding from a latent: these keys are never formed but for the new position, so a norm of them is left
     here for the score: 1/rms [N, heads] and gain [dim]. See qk_part_norm. */
  int absorbed;
  struct tensor *rstd, *gain;
};
/* RMSNorm of every head; the way for a stabiliser to normalise, so that absorbed keys can be decoded. */
void qk_part_norm(struct program *, struct qk_part *, struct tensor *gain, struct tensor *eps);

/* Decoding: one position at a time, or some, over a cache of the earlier ones.
   materialised  keys and values by head (or group)
   absorbed      the latents and the shared rotary key, and, where keys are normalised, one 1/rms by head:
                 the matrices from latent to keys and values are absorbed into queries and outputs */
enum decode_form { DECODE_MATERIALISED, DECODE_ABSORBED };
struct decoding {
  enum decode_form form;
  long length;         /* positions that the cache has room for */
  struct tensor *slot; /* int [N]: place of each new position in its sequence */
  long cached;         /* numbers kept a position, so far */
  int refused;         /* a stabiliser has changed absorbed keys in another way than qk_part_norm */
};

/* int [N], what rows of a sequence see. start: where the row's document begins; end: NULL where every row sees up to
   itself; window: the first key that is seen in layers with a window, NULL without such */
struct key_ranges {
  struct tensor *start, *end, *window;
};

struct model;
struct layer_inputs {                  /* inputs of one program, shared by its layers */
  struct tensor *position;             /* int [N]: position for RoPE */
  struct tensor *start, *end, *window; /* see struct key_ranges */
  /* Where the context is cut over ranks, one for each of them: of the keys of the i-th rank before this one; [0] is as
     above. Else NULL. */
  const struct key_ranges *stage;
  struct tensor *rope_table; /* [positions, dim] */
  long batch, context;
  double share; /* of a batch that the program sees: 1 over micro-batches times ranks of the context */
  struct decoding *decoding; /* NULL: whole sequences */
};

struct attention {
  const char *name, *help;
  int (*resolve)(struct model_options *, struct error *); /* shapes; may be NULL */
  /* its tensors, into layer[layer]: w_o, b_o and attention */
  void (*declare)(struct model *, int layer);
  /* x [N,D] normed input, residual [N,D]; returns residual + attention(x) w_o^T; *stats [H,4] */
  struct tensor *(*forward)(struct model *, struct program *, int layer, const struct layer_inputs *,
                            struct tensor *x, struct tensor *residual, struct tensor **stats);
  int (*logit_blocks)(const struct model *, int layer, int head,
                      struct logit_block out[MAX_LOGIT_BLOCKS]); /* count */
  long (*rope_dim)(const struct model_options *);                /* dimension that RoPE turns */
  int absorbs;                                                   /* has DECODE_ABSORBED */
};
extern const struct attention *const attentions[]; /* NULL-terminated, generated registry */
const struct attention *attention_find(const char *name);

/* --- feed-forward blocks (model/ffn/NAME.c, one file and one row) ------------------------------------- */

/* What chooses experts in a layer. */
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
  /* its options and what they have to do with the model's; may be NULL */
  int (*resolve)(struct model_options *, void *options, struct error *);
  void (*declare)(struct model *, int layer); /* its tensors, into layer[layer].ffn */
  /* x [N,D] normed input, residual [N,D]; returns their sum with what the block makes of x */
  struct tensor *(*forward)(struct model *, struct program *, int layer, const struct layer_inputs *,
                            struct tensor *x, struct tensor *residual);
  void (*init)(struct model *); /* once, after parameters and numbers exist; may be NULL */
  struct router (*router)(const struct model *, int layer); /* NULL: no layer has one */
  void (*after_step)(struct model *, struct program *); /* record: weights have been updated; may be NULL */
};
extern const struct ffn *const ffns[]; /* NULL-terminated, generated registry */
const struct ffn *ffn_find(const char *name);

/* --- what flows through the model, for whoever observes it --------------------------------------------- */

/* Points of a program at which something can be taken, and what `flow` then has. */
enum point {
  POINT_STREAM, /* x [N,D]: the residual stream behind a block */
  POINT_SCORES, /* of a layer's attention, behind it: the rest of struct flow */
  POINT_ROUTES, /* of a layer's router: x [N,E], its logits */
  POINT_LOGITS, /* x [N,V], layer -1 */
  POINT_BEFORE_UPDATE /* layer -1: the host, between a step's pass and all that changes weights; no program, no flow */
};
struct flow {
  struct tensor *x;
  struct tensor *q, *k, *v;           /* [N,H*Dq], [N,G*Dq], [N,G*Dv]: as they enter the products */
  struct tensor *position, *document; /* int [N]: in the sequence; the first of its document */
  struct tensor *start, *end;         /* int [N]: what is seen, see attention_forward; end may be NULL */
  struct tensor *stats;               /* [H,4] of this program */
  const struct attention_spec *spec;
  int
    stage; /* where the context is cut over ranks: queries meet the keys, and have the statistics, of the i-th before */
  double share; /* at every point: of a batch that the program sees, see struct layer_inputs */
};
/* Told while a program is recorded: it may leave calls there. */
struct tap {
  void (*tap)(struct tap *, struct program *, enum point, int layer, const struct flow *);
};

/* What passes over batches add up, all micro-batches together, for the run itself: in the report. */
struct tally {
  struct tensor *loss;  /* [1,2]: cross-entropy | z term */
  struct tensor *stats; /* [L*H,4]: see attention_forward; maxima (NaN if one is), entropy averaged */
  struct tensor
    *tracked_max; /* [S*L,1]: largest |x| of what was given to model_track_max, by stabiliser and layer */
  /* Where there are routers, else NULL. [L,E+4]: choices of each expert | sum over tokens of the entropy of
     scores | number of tokens whose choice the bias changed | loss of balance | largest |logit|; and the biases
     [L,E] of the choices */
  struct tensor *routes, *biases;
  struct tensor *ahead; /* [K,2]: of every module as `loss`; NULL where there are none */
  struct tap *tap_hook; /* of the programs that are recorded into it; may be NULL */
};

/* --- stabilisers (training/stabilizers/NAME.c, one file and one row) ---------------------------------- */

/* What a stabiliser sees. Its hooks are called once, while a program is recorded, and leave calls in it: nothing
   here is a number yet. */
struct stabilizer_context {
  struct model *model;
  const void *options;     /* the struct its option rows describe */
  void *state;             /* state_size bytes, zeroed; free it in `free` */
  struct tensor **series;  /* series[i]: where emits[i] goes, [1, length]; NaN until a step writes it */
  struct numbers *numbers; /* for numbers of its own: thresholds, ... */
  struct tensor *max_logit,
    *max_abs_logit;           /* [L*H,1], signed and absolute, before any cap, of this step's pass */
  struct tensor *tracked_max; /* [L,1]: max |x| of the tensors given to model_track_max */
  int wants_probe;            /* set by init: the maxima are of the fixed probe batch instead */
};

/* Rows of a parameter that have a learning rate of their own: see on_update. */
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
  /* refuse with the reason */
  int (*check)(const void *options, const struct model_options *, struct error *);
  /* matrices of its own, before any declare looks at what there is */
  void (*declare_matrices)(struct stabilizer_context *, int layer);
  void (*declare)(struct stabilizer_context *, int layer);      /* other parameters of its own, per layer */
  int (*init)(struct stabilizer_context *, struct error *);     /* once, after parameters exist */
  void (*begin)(struct stabilizer_context *, struct program *); /* a fresh run: weights have values */
  int begin_times;                                              /* how often that is run; 0: once */
  void (*on_qk)(struct stabilizer_context *, struct program *, int layer, const struct layer_inputs *,
                struct qk_part *, int parts);
  void (*on_score)(struct stabilizer_context *, int layer, struct attention_spec *);
  /* the heads' outputs side by side [N, H*Dv] on their way to w_o, of attention's input x [N,D] */
  struct tensor *(*on_heads)(struct stabilizer_context *, struct program *, int layer, struct tensor *x,
                             struct tensor *heads);
  /* what attention is about to add to the residual stream, w_o included: x [N, D] */
  void (*on_output)(struct stabilizer_context *, struct program *, int layer, struct tensor *x);
  /* a weight on its way into a product (sigma_reparam); returns w itself or a transformed tensor */
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
  STABILIZER_NORMS_QK_PARTLY = 8, /* as NORMS_QK, but content keys keep their scale */
  STABILIZER_NORMS_PARTS = 16,    /* norms queries or keys themselves, with gains by role: one at most */
  STABILIZER_WEIGHS = 32,         /* changes how scores become weights: one at most */
  STABILIZER_SCALES_QUERIES = 64, /* multiplies queries: in vain before one that norms them */
  STABILIZER_WHOLE = 128          /* writes whole matrices, or their updates, or looks at all in one row */
};
extern const struct stabilizer *const stabilizers[];
const struct stabilizer *stabilizer_find(const char *name);

/* --- the model ---------------------------------------------------------------------------------------- */
/* The parameters of one block; those of attention but for its output, and of the feed-forward block, are their own. */
struct layer {
  struct param *attn_norm, *w_o, *b_o; /* b_o: NULL without biases */
  struct param *ffn_norm;
  void *attention, *ffn; /* what the plug-in's declare has put here, in the arena of the parameters */
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
  long experts; /* of a router, at most; 0: there is none */
  void *ffn_state;
  /* of the program that is being recorded: */
  const struct tally *into;
  double share;               /* of a batch that it sees */
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

/* `stabilizer`: those in order with their option structs. Refuses what cannot work together; declares and
   allocates all parameters, in the order embed, norm, head, blocks, then what stabilisers add. Values are
   zero until params_draw or a checkpoint fills them in. Each context's `series` arrays are allocated here. */
int model_init(struct model *, const struct model_options *, struct device *,
               const struct stabilizer *const *stabilizer, const void *const *stabilizer_options,
               int stabilizer_count, struct error *);
/* A fresh run begins: the weights have their first values. A resumed one has its states from a checkpoint. */
void model_begin(struct model *);
void model_free(struct model *);
/* 1, and the text, where stabilisers cancel out (QK-Clip under QK-Norm). */
int model_warning(const struct model *, char *text, size_t room);
/* The router of a layer, if it has one. */
struct router model_router(const struct model *, int layer);
/* Record: what the feed-forward blocks do when the weights have been updated. */
void model_record_after_step(struct model *, struct program *);
/* Length of a stabiliser's series array of this shape. */
long model_series_size(const struct model *, enum series_shape);
/* The parameter "blocks.<layer>.<name>" ("attn.w_q"), searched for by its name; a programming error if there is
   none. */
struct param *model_param(const struct model *, int layer, const char *name);

/* One recorded program over this model: training (with backward) or evaluation. */
struct model_program {
  struct program *program;
  long batch, context; /* context: rows of this rank in each sequence, which `cut` tells */
  struct zigzag cut;
  /* inputs, [N,1] each, N = batch*context; at first one whole document a row: position counts within the
     row, ranges those of a document from 0 on, weight 1/N */
  struct tensor *tokens, *targets, *weight, *position;
  struct tensor *start, *end, *window; /* see struct layer_inputs; end and window NULL where it is without */
  struct key_ranges *stage;            /* likewise */
  struct tensor *loss;                 /* [1,2] cross-entropy | z term */
  struct tensor *logits, *ml; /* [N,V], [N,2] (cross_entropy); readable after a run only without backward */
  /* Of every module, [modules]; none in a decoder. Its tokens are the targets of the one before it. At first its
     targets and weights are 0. */
  struct ahead {
    struct tensor *targets, *weight; /* inputs [N,1]: the token k + 1 further on */
    struct tensor *loss, *logits;    /* as above */
  } * ahead;
  struct tensor **stats; /* [layers] of [H,4]: see attention_forward; rows of all_stats */
  struct tensor *all_stats;
  struct tensor *tracked_max; /* [stabilisers*layers,1], by model_track_max; 0 where nothing is watched */
  struct tensor *routes;      /* [L,E+4]: see struct tally; NULL where there are no routers */
  struct tensor *slot;        /* of a decoder: [N,1]; otherwise NULL */
  long cached;                /* of a decoder: numbers kept a position, all layers together */
};
/* context may exceed options.context (evaluation at longer lengths); where the device has ranks along it, each has its
   part, a multiple of 2 rows. What the program sees goes into `into` (may be
   NULL), of which it is one part in `parts`: micro-batches of a batch. */
void model_program_init(struct model *, struct model_program *, long batch, long context, int backward,
                        const struct tally *into, long parts);
/* The same model for `block` positions of each of `batch` sequences, row by row; inputs are [batch*block,1]. Run it for
   slots from 0 up to length - 1: keys and values of the slots before are those of the runs before. */
int model_decoder_init(struct model *, struct model_program *, long batch, long block, long length,
                       enum decode_form, struct error *);
void model_program_free(struct model_program *);
/* What rows of the program see of the keys of the `stage`-th rank before this one, 0 to cut.ranks - 1: its inputs; and,
   of what is seen of the whole sequence, that part. */
struct key_ranges model_stage(const struct model_program *, int stage);
struct row_range model_stage_range(const struct model_program *, int stage, struct row_range);
/* For attention variants: declare tensors "blocks.<layer>.<name>" (head_rows as in struct param) ... */
struct param *model_add_matrix(struct model *, int layer, long rows, long cols, long head_rows,
                               const char *name);
struct param *model_add_gain(struct model *, int layer, long cols, double value, const char *name);
struct param *model_add_bias(struct model *, int layer, long cols, const char *name);
/* ... pass queries and keys, then the score, through the stabilisers ... */
void model_on_qk(struct model *, struct program *, int layer, const struct layer_inputs *, struct qk_part *,
                 int parts);
void model_on_score(struct model *, int layer, struct attention_spec *);
/* ... x [N, H*D] times s[h] ln n, n how many keys the row sees in this layer, s [1,H] ... */
struct tensor *model_ssmax_scale(struct model *, struct program *, int layer, const struct layer_inputs *,
                                 struct tensor *x, struct tensor *s);
/* ... let queries meet keys: op_attention, or, decoding, the same over the cache ... */
struct tensor *model_attend(struct model *, struct program *, int layer, const struct layer_inputs *,
                            struct tensor *q, struct tensor *k, struct tensor *v,
                            const struct attention_spec *, struct tensor **stats);
/* ... or, absorbed, queries [N, H*(R+Dr)] meet latents [N,R] and the rotary key [N,Dr] that all heads share;
   content scores times rstd [N,H] (may be NULL); returns sums of latents [N, H*R] ... */
struct tensor *model_attend_latent(struct model *, struct program *, int layer, const struct layer_inputs *,
                                   struct tensor *q, struct tensor *latent, struct tensor *rotary,
                                   struct tensor *rstd, const struct attention_spec *, struct tensor **stats);
/* ... end in residual + y w_o^T + b_o, y passed through stabilisers with attention's input x; they may hear what is
   added ... */
int model_hears_output(const struct model *);
struct tensor *model_output(struct model *, struct program *, int layer, struct tensor *x, struct tensor *y,
                            struct tensor *residual);
/* ... and take weights through it: `first` and the next count-1 parameters as one matrix. */
struct tensor *model_weight(struct model *, struct program *, struct param *first, int count);

/* Let observables take what flows at a point of the program that is being recorded. */
void model_tap(struct model *, struct program *, enum point, int layer, const struct flow *);

/* For stabilisers, in one of their hooks: record max |x| as the layer's `watched` number; once a layer. */
void model_track_max(struct stabilizer_context *, struct program *, int layer, struct tensor *x);
/* ... its first series, by head, is what its parameter `name` [1,H] is in every layer. */
void model_tell_heads(struct stabilizer_context *, struct program *, const char *name);

/* Multiply rows [row, row+rows) of a block's weight (and bias) by c, at once. */
void logit_block_scale(struct model *, const struct logit_block *, double c);
#endif
