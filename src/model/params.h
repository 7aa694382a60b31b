/* params.h - the named tensors of a model, in one block of memory, with their gradients in another
   Matrices that are declared one after another with the same number of columns lie one after another, so
   that w_q | w_k | w_v can be used as one [H*Dh+2*G*Dh, D] matrix; so do biases, as one longer row. */
#ifndef MAXLOGIT_MODEL_PARAMS_H
#define MAXLOGIT_MODEL_PARAMS_H
#include <stdint.h>
#include "base/memory.h"
#include "numerics/shards.h"

enum param_kind {
  PARAM_MATRIX, /* hidden matrices: for Muon */
  PARAM_EMBED,
  PARAM_HEAD,
  PARAM_GAIN, /* RMSNorm gains, learned scalars */
  PARAM_BIAS,
  PARAM_STATE /* not trained; saved in checkpoints: state of a stabilizer */
};

enum param_init { INIT_FAN_IN, INIT_NORMAL, INIT_CONSTANT };

struct param {
  char name[96]; /* "blocks.0.attn.w_q" */
  enum param_kind kind;
  int layer;                 /* -1 outside blocks */
  int order;                 /* index among the trained parameters, in the order of memory */
  long place;                /* of a trained parameter, in the row of all */
  long head_rows;            /* rows of one head's block of a projection to heads (w_q, w_k, w_v); else 0 */
  long block_rows;           /* of matrices one below the other (experts): rows of one; else 0 */
  struct tensor value, grad; /* [rows, cols]; gains [1, n]; ld = cols */
  struct tensor update;      /* the optimizer's update per unit rate, if it has one */
  enum param_init init;
  double init_scale; /* FAN_IN: times 1/sqrt(cols); NORMAL: standard deviation; CONSTANT: value */
};

/* First moments of optimizers: a row [1,n] for the trained numbers from `from` on. */
struct moments {
  struct tensor *row;
  long from;
};

struct params {
  struct device *device;
  struct param **list; /* in order of declaration; pointers stay valid */
  int count;
  struct shards *shards;       /* the shards of the parameters (params_hold); NULL: not sharded */
  long total;                  /* trained numbers, and gaps, which are 0, in a row: after params_allocate */
  real *base;                  /* address of the first parameter's value, in memory or only reserved */
  struct tensor values, grads; /* [1, total], or this rank's shards of them */
  struct tensor update_values; /* likewise, with optimizers */
  struct moments *moments;     /* [moment_count] likewise: those of this rank */
  int moment_count;
  struct arena *arena; /* of the struct params and spans */
};

void params_init(struct params *, struct device *);
/* Declare a tensor; before params_allocate. The name is formatted as "blocks.%d.attn.w_q". */
struct param *params_add(struct params *, enum param_kind, int layer, long rows, long cols, enum param_init,
                         double init_scale, const char *format, ...) __attribute__((format(printf, 8, 9)));
void params_allocate(struct params *);
/* Allocate this rank's shards, which `shards` lists. Call it before any value is set. */
void params_hold(struct params *);
/* The place and length of rows of a parameter in the row of all trained parameters, as the operations on segments
   require; for a bias, columns. */
void param_segment(const struct param *, long row, long rows, int out[2]);
/* The local parts of n segments (place | length) of that row: their places in `values`, and the indices of their
   segments. Returns their number; there must be room for params_cut_most(all, n). */
int params_cut(const struct params *, const int *segment, int n, int *own, int *index);
size_t params_cut_most(const struct params *, int n);
/* Copy all of a parameter's values to the host, and back; if they are sharded, all ranks must call. */
void params_read(const struct params *, const struct param *, real *host);
void params_write(struct params *, struct param *, const real *host);
/* Copy all of a row like `values` to the host, [total]. If it is sharded, only rank 0 receives it and all ranks must
   call. */
void params_copy(const struct params *, const struct tensor *row, real *host);
/* Fill in all values. The i-th drawn parameter uses the random numbers (seed, STREAM_INIT, i, index). Constants
   (gains, biases, states) use none, so that adding some does not change other draws. */
void params_draw(struct params *, uint64_t seed);
/* Multiply every trained number by 1 + relative * N(0,1), to measure the effect of rounding. Returns the old values,
   for params_put_back, which frees them. */
real *params_perturb(struct params *, double relative);
void params_put_back(struct params *, real *values);
/* Rows of one of the parameter's matrices (experts); all rows if it is a single matrix. */
long param_block_rows(const struct param *);
/* Matrices, embedding and head: the entries of a per-tensor series; and their number. */
int param_is_matrix(const struct param *);
int params_matrices(const struct params *);
struct param *params_find(const struct params *, const char *name);
/* The matrix made of `first` and the next count-1 parameters, value and gradient (see the top); lives as
   long as the params. */
struct tensor *params_span(struct params *, struct param *first, int count);
void params_free(struct params *);
#endif
