/* update.cu - what optimisers do to long rows of numbers; definitions: ref/update.c */
#include "cuda/kernels.h"

/* "m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; update = (m/c1) / (sqrt(v/c2) + eps), of m and v as stored. A v
   beyond the range is infinite, now and later, and its update NaN: 0 would hide it." Coefficients are made of the
   numbers once, by each thread. */
struct adam_each {
  view update, m, v, g, b1, b2, c1, c2, eps;
  __device__ void operator()(long n, long j) const
  {
    double keep1 = number(b1), keep2 = number(b2);
    float first = (float)keep1 * m.at(n, j) + (float)(1 - keep1) * g.at(n, j);
    float second = (float)keep2 * v.at(n, j) + (float)(1 - keep2) * g.at(n, j) * g.at(n, j);
    m.at(n, j) = first;
    v.at(n, j) = second;
    float root = sqrtf(second) * (float)(1 / sqrt(number(c2))) + (float)number(eps);
    update.at(n, j) = first / root * (float)(1 / number(c1)) + (second - second); /* inf - inf is NaN */
  }
};
static void adam(struct device *device, const struct adam_args *x)
{
  each(device, x->g->rows, x->g->cols,
       adam_each{VIEW(x->update), VIEW(x->m), VIEW(x->v), VIEW(x->g), VIEW(x->b1), VIEW(x->b2), VIEW(x->c1),
                 VIEW(x->c2), VIEW(x->eps)});
}

struct momentum_each {
  view update, m, g, mu;
  int nesterov;
  __device__ void operator()(long n, long j) const
  {
    float keep = (float)number(mu), gradient = g.at(n, j), now = keep * m.at(n, j) + gradient;
    m.at(n, j) = now;
    update.at(n, j) = nesterov ? gradient + keep * now : now;
  }
};
/* "m = mu m + g; update = m, or g + mu m where nesterov=1" */
static void momentum(struct device *device, const struct momentum_args *x)
{
  each(device, x->g->rows, x->g->cols,
       momentum_each{VIEW(x->update), VIEW(x->m), VIEW(x->g), VIEW(x->mu), x->nesterov != 0});
}

struct row_moment_row {
  view x, v, b2, eps;
  __device__ void operator()(long n) const
  {
    float *row = x.row(n);
    double squares = 0, keep = number(b2), before = (double)v.at(n, 0);
    for (long j = lane(); j < x.cols; j += team()) squares += (double)row[j] * (double)row[j];
    squares = team_sum(squares);
    float moment = (float)(keep * before + (1 - keep) * squares / (double)x.cols);
    if (lane() == 0) v.at(n, 0) = moment;
    float by = (float)(sqrt((double)moment) + number(eps)), lost = moment - moment;
    for (long j = lane(); j < x.cols; j += team()) row[j] = row[j] / by + lost;
  }
};
/* "v[n] = b2 v[n] + (1-b2) mean_j x[n,j]^2; x[n,:] /= sqrt(v[n]) + eps, of v as stored; a v beyond the range is infinite,
   and its row NaN" */
static void row_moment(struct device *device, const struct row_moment_args *x)
{
  each_row(device, x->x->rows, x->x->cols,
           row_moment_row{VIEW(x->x), VIEW(x->v), VIEW(x->b2), VIEW(x->eps)});
}

extern "C" void ops_cuda_update(struct ops *ops)
{
  ops->adam = adam;
  ops->momentum = momentum;
  ops->row_moment = row_moment;
}
