/* spectral.h - singular pairs of weights, and which weights make the logits: for optimisers and stabilisers */
#ifndef MAXLOGIT_SPECTRAL_H
#define MAXLOGIT_SPECTRAL_H
#include "model/model.h"

/* w = u diag(sigma) v^T in double, on the host: w [rows, cols], u [rows, n], sigma [n], v [cols, n], n the
   smaller side. STATUS_FAIL where w is not finite or the solver does not converge. Allocates. */
struct svd {
  long rows, cols, n;
  double *u, *sigma, *v;
};
int svd_of(struct svd *, struct device *, const struct tensor *w);
void svd_free(struct svd *);
/* w = u diag(sigma) v^T back to the device. */
void svd_compose(const struct svd *, struct device *, struct tensor *w);

/* A block of rows of a weight that is a factor of logits; each block once, by tensor or by head. */
struct qk_block {
  struct param *weight, *bias;
  int layer;
  long row, rows;
};
/* All of a model's, in order of layer and factor; from the model's arena. */
struct qk_block *qk_blocks(struct model *, int by_head, int *count);
struct tensor qk_rows(const struct qk_block *);

/* The leading singular pair of w [rows, cols] by power iteration on the device, from u [1, rows] on; u and
   v [1, cols] come out with length 1. Returns sigma; NaN where w is not finite, 0 where w u is 0. */
double power_iteration(struct device *, struct tensor *w, struct tensor *u, struct tensor *v, int iterations,
                       struct tensor *number);
double norm_of(struct device *, struct tensor *x, struct tensor *number); /* Frobenius; number [1,1] */
#endif
