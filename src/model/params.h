/* params.h - the named tensors of a model, in one block of memory, with their gradients in another
   Matrices that are declared one after another with the same number of columns lie one after another, so
   that w_q | w_k | w_v can be used as one [H*Dh+2*G*Dh, D] matrix; so do biases, as one longer row. */
#ifndef MAXLOGIT_MODEL_PARAMS_H
#define MAXLOGIT_MODEL_PARAMS_H
#include <stdint.h>
#include "base/memory.h"
#include "numerics/shards.h"

enum param_kind {
  PARAM_MATRIX, /* hidden matrices: what Muon takes */
  PARAM_EMBED,
  PARAM_HEAD,
  PARAM_GAIN, /* RMSNorm gains, learned scalars */
  PARAM_BIAS,
  PARAM_STATE /* not trained; saved in checkpoints: a stabilizer's memory */
};

enum param_init { INIT_FAN_IN, INIT_NORMAL, INIT_CONSTANT };

struct param {
  char name[96]; /* "blocks.0.attn.w_q" */
  enum param_kind kind;
  int layer;                 /* -1 outside blocks */
  int order;                 /* among those that train, as they lie in memory */
  long place;                /* of those that train, in the row of all */
  long head_rows;            /* rows of one head's block of a projection to heads (w_q, w_k, w_v); else 0 */
  long block_rows;           /* of matrices one below the other (experts): rows of one; else 0 */
  struct tensor value, grad; /* [rows, cols]; gains [1, n]; ld = cols */
  struct tensor update;      /* once it has an optimizer: what that wants to subtract, per unit rate */
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
  struct shards *shards; /* of which a rank has pieces (params_hold); NULL: all of them is here */
  long total;            /* numbers that train, and gaps, which are 0, in a row: after params_allocate */
  real *base;            /* its address in memory, or in none: where the first parameter's value begins */
  struct tensor values, grads; /* [1, total], or what this rank has of them */
  struct tensor update_values; /* likewise, with optimizers */
  struct moments *moments;     /* [moment_count] likewise: those that are this rank's */
  int moment_count;
  struct arena *arena; /* of the struct params and spans */
};

void params_init(struct params *, struct device *);
/* Declare a tensor; before params_allocate. The name is formatted as "blocks.%d.attn.w_q". */
struct param *params_add(struct params *, enum param_kind, int layer, long rows, long cols, enum param_init,
                         double init_scale, const char *format, ...) __attribute__((format(printf, 8, 9)));
void params_allocate(struct params *);
/* Who has which pieces is in shards: memory for this rank's. Before any value is told. */
void params_hold(struct params *);
/* The place and length of rows of a parameter in the row of all that train, as the operations on segments take them; of
   a bias columns. */
void param_segment(const struct param *, long row, long rows, int out[2]);
/* Segments of that row, place | length, n of them: what of them is here, by its place in `values`, and of which it is a
   part. Returns how many; there is room for params_cut_most(all, n). */
int params_cut(const struct params *, const int *segment, int n, int *own, int *index);
size_t params_cut_most(const struct params *, int n);
/* All of a parameter's values to the host, and from there; where they are shared out all ranks call. */
void params_read(const struct params *, const struct param *, real *host);
void params_write(struct params *, struct param *, const real *host);
/* All of a row like `values` to the host, [total]; of shared ones to rank 0, all ranks call. */
void params_copy(const struct params *, const struct tensor *row, real *host);
/* Fill in all values. The i-th of those that are drawn takes the numbers (seed, STREAM_INIT, i, index):
   constants (gains, biases, states) take none, so that adding some leaves the others' draws alone. */
void params_draw(struct params *, uint64_t seed);
/* Multiply every trained number by 1 + relative * N(0,1), to see what rounding does. Returns the old values,
   for params_put_back, which frees them. */
real *params_perturb(struct params *, double relative);
void params_put_back(struct params *, real *values);
/* Rows of one of the matrices that it holds: all of them unless it holds several. */
long param_block_rows(const struct param *);
/* Matrices, embedding and head: what a series by tensor has a number for; and how many there are. */
int param_is_matrix(const struct param *);
int params_matrices(const struct params *);
struct param *params_find(const struct params *, const char *name);
/* The matrix made of `first` and the next count-1 parameters, value and gradient (see the top); lives as
   long as the params. */
struct tensor *params_span(struct params *, struct param *first, int count);
void params_free(struct params *);
#endif
