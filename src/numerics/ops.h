/* ops.h - the table of operations, and the checked front through which a model is recorded */
#ifndef MAXLOGIT_NUMERICS_OPS_H
#define MAXLOGIT_NUMERICS_OPS_H
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/thread.h"
#include "numerics/tensor.h"

/* One argument struct per operation: struct matmul_args { struct tensor *c, *a, *b; long ta, ...; }.
   Every field takes 8 bytes, also where a pointer has 4, so that op_tensor(), tests and tools can walk them by the rows
   of op_fields(). */
#define TENSOR(n) struct tensor *n __attribute__((aligned(8)));
#define OUT(n) TENSOR(n)
#define ADD(n) TENSOR(n)
#define IN(n) TENSOR(n)
#define MAY(n) TENSOR(n)
#define MAYADD(n) TENSOR(n)
#define NUMBER(n) TENSOR(n)
#define SIZE(n) int64_t n;
#define SCALAR(n) double n;
#define STRUCT(name, fields) \
  struct name { \
    fields \
  };
#define SCORE \
  union { \
    struct { \
      SCORE_FIELDS \
    }; \
    struct attention_score score; \
  };
#define OP(name, what, fields) \
  struct name##_args { \
    fields \
  };
#include "numerics/ops.def"
#undef OP
#undef STRUCT

struct device;

enum op {
#define OP(name, what, fields) OP_##name,
#include "numerics/ops.def"
#undef OP
  OP_COUNT
};
/* A device's table: one function per operation. An operation that needs scratch memory has a second one, which
   returns the bytes of device_scratch of a call. It depends only on the shapes of the arguments and does not read
   their memory. */
typedef size_t op_scratch(const struct device *, const void *args);
struct ops {
#define OP(name, what, fields) void (*name)(struct device *, const struct name##_args *);
#include "numerics/ops.def"
#undef OP
  op_scratch *scratch[OP_COUNT]; /* NULL: none */
  /* `norm` sums squares(x) over every `squared` numbers of a row, in their order, and over the rest. NULL: in another
     way. */
  double (*squares)(const real *, long n);
  long squared;
  /* Data that several calls for some rows of one call share, such as a packed factor (fusion.h). shared returns its
     bytes; share computes part `part` of `parts` of it. The calls find it in device->shared. NULL: nothing. */
  op_scratch *shared[OP_COUNT];
  void (*share[OP_COUNT])(struct device *, const void *args, void *room, long part, long parts);
};
#undef TENSOR
#undef OUT
#undef ADD
#undef IN
#undef MAY
#undef MAYADD
#undef NUMBER
#undef SIZE
#undef SCALAR

union op_args {
#define OP(name, what, fields) struct name##_args name;
#include "numerics/ops.def"
#undef OP
};

enum op_field_kind {
  FIELD_OUT,
  FIELD_ADD,
  FIELD_IN,
  FIELD_MAY,
  FIELD_MAYADD,
  FIELD_NUMBER,
  FIELD_SIZE,
  FIELD_SCALAR
};
enum pointwise_kind { POINTWISE_NOT, POINTWISE_SQUARE, POINTWISE_SIGMOID, POINTWISE_SOFTPICK };
#define SOFTPICK_EPS 1e-8
/* If no weight of a row exceeds this, its entropy (pointwise_forward) counts as 0. */
#define POINTWISE_NONE 1e-30
enum merge_kind { MERGE_NOT = -1, MERGE_SUM = -2, MERGE_MAX = -3, MERGE_FIRST = -4 };
enum reduce_kind { REDUCE_MIN, REDUCE_MAX, REDUCE_SUM, REDUCE_PRODUCT };
struct op_field {
  const char *name;
  enum op_field_kind kind;
};
static inline int op_field_is_written(enum op_field_kind kind)
{
  return kind == FIELD_OUT || kind == FIELD_ADD || kind == FIELD_MAYADD;
}
const char *op_name(enum op);
const char *op_what(enum op);
const struct op_field *op_fields(enum op, int *count);
/* Where field `i` of a call's arguments, a tensor, lies. */
static inline struct tensor **op_tensor(const union op_args *args, int i)
{
  return (struct tensor **)((char *)(size_t)args + 8 * i);
}
/* Do the arguments have the shapes that the operation demands (shapes.c)? */
int op_check(enum op, const union op_args *, struct error *);
/* Does it communicate between ranks? Such calls are made in the order of recording, by the host if the device keeps
   calls. */
int op_is_between_ranks(enum op);
/* Necessary floating-point operations of a call (causal and symmetric products by half); elementwise
   operations count 0: they are overhead against the sgemm limit. */
double op_flops(enum op, const union op_args *);
/* How many steps newton_schulz makes between two products with X, from a step on that begins with one. */
static inline long newton_schulz_run(const struct newton_schulz_args *a, long step)
{
  const long most = step ? a->then : a->first;
  return most < a->steps - step ? most : a->steps - step;
}
/* Bytes of device_scratch that a call takes on this device. */
size_t op_scratch_bytes(const struct device *, enum op, const union op_args *);
void op_run(struct device *, enum op, const union op_args *);
/* Only where the number `guard` [1] is not 0; NULL: always. */
void op_run_if(struct device *, const struct tensor *guard, enum op, const union op_args *);

/* The plain definition of every operation. */
extern const struct ops ops_ref;

/* --- the checked front: records into a program (program.h) and returns the result --------------------- */
struct program;
struct tensor *op_embed(struct program *, struct tensor *tokens, struct tensor *w);
/* gain may be NULL; group = columns normalized together (D, or Dh for per-head norms); eps [1] */
struct tensor *op_rmsnorm(struct program *, struct tensor *x, struct tensor *gain, long group,
                          struct tensor *eps);
/* x w^T [+ bias] [+ residual]; bias and residual may be NULL */
struct tensor *op_linear(struct program *, struct tensor *x, struct tensor *w, struct tensor *bias,
                         struct tensor *residual);
/* x w^T in full single precision, regardless of device.math */
struct tensor *op_linear_full(struct program *, struct tensor *x, struct tensor *w);
struct tensor *op_add(struct program *, struct tensor *a, struct tensor *b);
struct tensor *op_rope(struct program *, struct tensor *x, struct tensor *position, struct tensor *table,
                       long dim);
struct tensor *op_scale(struct program *, struct tensor *x, struct tensor *s);
/* per head a | b, [N, heads*(Da+Db)]; a [N, heads*Da]; b [N, heads*Db], or [N, Db] shared by all heads */
struct tensor *op_join_heads(struct program *, struct tensor *a, struct tensor *b, long heads, int shared);
/* gain/sigma w, sigma = u^T w v: no gradient flows into u [1, rows] and v [1, cols] */
struct tensor *op_reparam(struct program *, struct tensor *w, struct tensor *u, struct tensor *v,
                          struct tensor *gain);
/* matrices of the same width, one below the other */
struct tensor *op_join_rows(struct program *, struct tensor *const *part, int parts);
struct tensor *op_swiglu(struct program *, struct tensor *gate_up);
/* columns [from, from + cols) of x, sharing memory and gradient */
struct tensor *op_columns(struct program *, struct tensor *x, long from, long cols);

/* x rounded to a number format; the gradient passes straight through */
struct tensor *op_round(struct program *, struct tensor *x, long format);

struct attention_spec {
  struct attention_score score;
  long qk_format;       /* enum number_format that queries and keys are rounded to; 0: they are not */
  struct tensor *stats; /* where the statistics go; NULL: a tensor of their own */
  struct tensor
    *sink;        /* [1,H]: score of one more key, without a value, in every softmax (sink); NULL: none */
  long pointwise; /* enum pointwise_kind; unless it is POINTWISE_NOT, a sink is not allowed */
};
/* *stats: [H,4], kept until the next run; may be NULL, as `end` may */
struct tensor *op_attention(struct program *, struct tensor *q, struct tensor *k, struct tensor *v,
                            struct tensor *start, struct tensor *end, const struct attention_spec *,
                            struct tensor **stats);
/* The same if each rank of the context has a part of every sequence, in rows that need not be adjacent. stage[i], one
   for each rank, gives the keys of the i-th rank before this one that rows attend to, as ranges of its rows. In every
   stage `seen`, which may be NULL, may record calls that read it: its keys, values and statistics. */
struct ring_stage {
  struct tensor *start, *end;
};
typedef void ring_seen(void *context, int stage, struct tensor *q, struct tensor *k, struct tensor *v,
                       struct tensor *stats);
struct tensor *op_attention_ring(struct program *, struct tensor *q, struct tensor *k, struct tensor *v,
                                 const struct ring_stage *stage, const struct attention_spec *,
                                 struct tensor **stats, ring_seen *seen, void *context);
/* Attention with the same unrounded queries and keys but other values, into o; no gradient flows. */
void op_attention_again(struct program *, struct tensor *o, struct tensor *q, struct tensor *k,
                        struct tensor *v, struct tensor *start, struct tensor *end,
                        const struct attention_spec *);
/* x sigmoid(g), a column of g [N,G] for as many of x */
struct tensor *op_gate(struct program *, struct tensor *x, struct tensor *g);
/* x s[h] ln n, for each of s's heads; n: the number of keys that a row attends to, see ssmax_scale; end and slot may
   be NULL */
struct tensor *op_ssmax_scale(struct program *, struct tensor *x, struct tensor *s, struct tensor *start,
                              struct tensor *end, struct tensor *slot, long batch);
/* Decoding (forward only): the cached positions; see attention_cached. `factors` may be NULL. */
struct attention_cache {
  struct tensor *keys, *values, *factors, *slot;
};
struct tensor *op_attention_cached(struct program *, const struct attention_cache *, struct tensor *q,
                                   struct tensor *k, struct tensor *v, struct tensor *factor, long scaled,
                                   struct tensor *start, const struct attention_spec *,
                                   struct tensor **stats);
/* per head (x * gain) w_h, w_h rows of w, or its transpose; gain may be NULL (forward only) */
struct tensor *op_heads_product(struct program *, struct tensor *x, struct tensor *w, struct tensor *gain,
                                long heads, int transposed);
/* 1/sqrt(mean(x^2)+eps) of every group of columns, [N, cols/group] (forward only) */
struct tensor *op_inverse_rms(struct program *, struct tensor *x, long group, struct tensor *eps);
/* --- mixture of experts (ops_front_experts.c): N tokens, E experts, K choices per token; see route, sort_choices */
struct routing_spec {
  long active, softmax, groups, kept; /* K, ... */
  struct tensor *bias, *scale;        /* [1,E], may be NULL; [1] */
};
struct routing {
  struct tensor *score, *gate, *chosen, *stats; /* [N,E] [N,K] int [N,K] [N,E+2] */
  struct tensor *first, *order, *place;         /* int [1,E+1] [1,NK] [N,K] */
};
struct routing op_route(struct program *, struct tensor *logits, const struct routing_spec *);
/* a row for every choice, by expert: [NK,D] of x [N,D] */
struct tensor *op_spread(struct program *, struct tensor *x, const struct routing *);
/* x [NK,I] of each expert by its block of each w [E*O,I]: x w_e^T of all parts side by side [NK, parts*O] */
struct tensor *op_expert_linear(struct program *, struct tensor *x, struct tensor *const *w, int parts,
                                const struct routing *);
/* residual [N,D] + each token's choices, x [NK,D], by their gates */
struct tensor *op_combine(struct program *, struct tensor *x, const struct routing *,
                          struct tensor *residual);
/* loss [1] = weight alpha times the mean over `batch` sequences of sum f P (balance_loss); its gradient flows into the
   scores beside that of the program's loss */
struct tensor *op_balance(struct program *, const struct routing *, long batch, struct tensor *alpha,
                          double weight);
/* loss [1,2] = cross-entropy | z term, z [1]; the gradient flows from their sum */
struct tensor *op_cross_entropy(struct program *, struct tensor *logits, struct tensor *targets,
                                struct tensor *weight, struct tensor *z, struct tensor **ml);
/* The same in addition to the program's own loss: `by` [1] times its gradient is added. */
struct tensor *op_side_loss(struct program *, struct tensor *logits, struct tensor *targets,
                            struct tensor *weight, struct tensor *z, struct tensor *by);
/* op_cross_entropy of logits x w^T that exist for `rows` rows at a time. With token_loss [N,1] (written) the program
   has no reverse; without it, the loss is computed in the reverse, just before its gradients. */
struct tensor *op_split_loss(struct program *, struct tensor *x, struct tensor *w, struct tensor *targets,
                             struct tensor *weight, struct tensor *z, long rows, struct tensor *token_loss);
#endif
