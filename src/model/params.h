/* params.h - the named tensors of a model, in one block of memory, with their gradients in another
   Matrices that are declared one after another with the same number of columns lie one after another, so
   that w_q | w_k | w_v can be used as one [H*Dh+2*G*Dh, D] matrix; so do biases, as one longer row. */
#ifndef MAXLOGIT_PARAMS_H
#define MAXLOGIT_PARAMS_H
#include <stdint.h>
#include "base/memory.h"
#include "numerics/device.h"

enum param_kind {
  PARAM_MATRIX, /* hidden matrices: what Muon takes */
  PARAM_EMBED,
  PARAM_HEAD,
  PARAM_GAIN, /* RMSNorm gains, learned scalars */
  PARAM_BIAS,
  PARAM_STATE /* not trained; saved in checkpoints: a stabiliser's memory */
};

enum param_init { INIT_FAN_IN, INIT_NORMAL, INIT_CONSTANT };

struct param {
  char name[96]; /* "blocks.0.attn.w_q" */
  enum param_kind kind;
  int layer;                 /* -1 outside blocks */
  int order;                 /* among those that train, as they lie in memory */
  long head_rows;            /* rows of one head's block of a projection to heads (w_q, w_k, w_v); else 0 */
  long block_rows;           /* of matrices one below the other (experts): rows of one; else 0 */
  struct tensor value, grad; /* [rows, cols]; gains [1, n]; ld = cols */
  struct tensor direction;   /* once it has an optimiser: what that wants to subtract, per unit rate */
  enum param_init init;
  double init_scale; /* FAN_IN: times 1/sqrt(cols); NORMAL: standard deviation; CONSTANT: value */
};

/* First moments of optimisers: a row [1,n] for the trained numbers from `from` on. */
struct moments {
  struct tensor *row;
  long from;
};

struct params {
  struct device *device;
  struct param **list; /* in order of declaration; pointers stay valid */
  int count;
  struct tensor values, grads; /* everything trainable, [1, total], gaps are 0; after params_allocate */
  struct tensor directions;    /* likewise, with optimisers */
  struct moments *moments;     /* [moment_count] likewise: those that are this rank's */
  int moment_count;
  struct arena *arena; /* of the struct params and spans */
};

void params_init(struct params *, struct device *);
/* Declare a tensor; before params_allocate. The name is formatted as "blocks.%d.attn.w_q". */
struct param *params_add(struct params *, enum param_kind, int layer, long rows, long cols, enum param_init,
                         double init_scale, const char *format, ...) __attribute__((format(printf, 8, 9)));
void params_allocate(struct params *);
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
