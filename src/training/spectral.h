/* spectral.h - singular pairs of weights, and the weights behind the logits: for optimizers and stabilizers */
#ifndef MAXLOGIT_TRAINING_SPECTRAL_H
#define MAXLOGIT_TRAINING_SPECTRAL_H
#include "model/params.h"

struct model;
/* w = u diag(sigma) v^T in double, on the host: w [rows, cols], u [rows, n], sigma [n], v [cols, n], n the
   smaller side. STATUS_FAIL where w is not finite or the solver does not converge. Allocates. */
struct svd {
  long rows, cols, n;
  double *u, *sigma, *v;
};
int svd_of(struct svd *, struct device *, const struct tensor *w);
int svd_of_host(struct svd *, const real *w, long rows, long cols);
void svd_free(struct svd *);
/* w = u diag(sigma) v^T back to the device. */
void svd_compose(const struct svd *, struct device *, struct tensor *w);
void svd_put_nan(struct device *, struct tensor *w);

/* A block of rows of a weight that is a factor of logits; each block once, by tensor or by head. */
struct qk_block {
  struct param *weight, *bias;
  int layer;
  long row, rows;
};
/* All of a model's, in order of layer and factor; from the model's arena. */
struct qk_block *qk_blocks(struct model *, int by_head, int *count);
/* Record: y[l] = the smallest (REDUCE_MIN) or largest (REDUCE_MAX) x[i] among the blocks i of layer l; x [1, count],
   y [1, layers]. */
void qk_reduce_layers(const struct model *, struct program *, const struct qk_block *, int count, long kind,
                      struct tensor *x, struct tensor *y);

/* Numbers of blocks in order of layers that are part of a run's state: copied between a row of all and the layers'
   parameters "blocks.L.NAME", which do not train. */
void copy_kept(struct model *, struct program *, struct tensor *all, const char *name, int save);

/* Record `iterations` of power iteration for the leading singular pair of w [rows, cols], from u [1, rows] on; u and
   v [1, cols] come out with length 1, sigma [1] the value: NaN where w is not finite, 0 where w^T u is 0. */
void power_iteration_record(struct program *, struct tensor *w, struct tensor *u, struct tensor *v,
                            int iterations, struct tensor *sigma);

/* In a step of the host: a copy of w [rows, cols], to be freed with memory_free. */
real *host_copy(struct device *, const struct tensor *w);
/* In a step of the host: one(context, device, i) for every i < count, on the device's threads. */
void host_each(struct device *, long count, void (*one)(void *context, struct device *, long i),
               void *context);
/* x <- scale times its polar factor U V^T, by a decomposition on the host, exact to rounding; a zero matrix stays zero,
   one that is not finite becomes NaN. Allocates. */
void exact_polar_factor(struct device *, struct tensor *x, double scale);
#endif
