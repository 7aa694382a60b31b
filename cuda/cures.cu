/* cures.cu - what cures inside attention add to it: a sink, a gate, a factor by the number of keys; definitions:
   ops.def, ref/cures.c */
#include "cuda/kernels.h"

struct sink_row {
  view o, ml, b;
  long dim;
  __device__ void operator()(long i) const
  {
    const long n = i / b.cols, h = i - n * b.cols;
    float *out = o.row(n) + h * dim, *own = ml.row(n) + 2 * h;
    const double m = own[0], l = own[1], score = b.at(0, h), top = max_nan(m, score);
    const double keys = l * exp(m - top), all = keys + exp(score - top);
    const float factor = (float)(keys / all);
    __syncwarp(); /* everybody has read the row's m and l */
    for (long c = lane(); c < dim; c += team()) out[c] *= factor;
    if (lane() == 0) own[0] = (float)top, own[1] = (float)all;
  }
};
/* "o *= l exp(m - M) / l', then l = l', m = M": a warp has a row of a head */
static void sink(struct device *device, const struct sink_args *x)
{
  const long heads = x->b->cols;
  each_row(device, x->o->rows * heads, 1, sink_row{VIEW(x->o), VIEW(x->ml), VIEW(x->b), x->o->cols / heads});
}

struct sink_term {
  view do_, o, ml, b;
  long dim;
  __device__ double operator()(long n, long h) const
  {
    double through = 0;
    for (long c = h * dim; c < (h + 1) * dim; c++) through += (double)do_.at(n, c) * (double)o.at(n, c);
    return -exp((double)b.at(0, h) - (double)ml.at(n, 2 * h)) / (double)ml.at(n, 2 * h + 1) * through;
  }
};
/* "db[h] -= sum_n exp(b[h] - m) / l do.o" */
SCRATCH(sink_backward, 8 * column_parts_of(x->o->rows, x->b->cols))
static void sink_backward(struct device *device, const struct sink_backward_args *x)
{
  const long heads = x->b->cols;
  sum_columns(device, x->o->rows, heads,
              sink_term{VIEW(x->do_), VIEW(x->o), VIEW(x->ml), VIEW(x->b), x->o->cols / heads},
              put_column{VIEW(x->db), 1});
}

struct gate_each {
  view y, x, g;
  long width;
  __device__ void operator()(long n, long j) const { y.at(n, j) = x.at(n, j) * sigmoid(g.at(n, j / width)); }
};
/* "y = x sigmoid(g)" */
static void gate(struct device *device, const struct gate_args *x)
{
  each(device, x->x->rows, x->x->cols,
       gate_each{VIEW(x->y), VIEW(x->x), VIEW(x->g), x->x->cols / x->g->cols});
}

struct gate_back_each {
  view dx, dg, dy, x, g;
  long width;
  __device__ void operator()(long n, long k) const
  {
    const float in = g.at(n, k), s = sigmoid(in);
    double sum = 0;
    for (long j = k * width; j < (k + 1) * width; j++) {
      const float d = dy.at(n, j);
      sum += (double)d * (double)x.at(n, j);
      dx.at(n, j) = d * s;
    }
    dg.at(n, k) = (float)(sum * (double)(s * sigmoid(-in)));
  }
};
/* "dx = dy s; dg = s (1 - s) sum dy x over the gate's columns" */
static void gate_backward(struct device *device, const struct gate_backward_args *x)
{
  each(
    device, x->g->rows, x->g->cols,
    gate_back_each{VIEW(x->dx), VIEW(x->dg), VIEW(x->dy), VIEW(x->x), VIEW(x->g), x->x->cols / x->g->cols});
}

/* How many keys a row sees. */
struct keys_of {
  ints start, end, slot;
  long length;
  __device__ double log_of(long n) const
  {
    const long to = end.data    ? end.base()[n]
                    : slot.data ? slot.base()[n] + 1
                                : n % length + 1,
               keys = to - start.base()[n];
    return log((double)(keys > 1 ? keys : 1));
  }
};
#define KEYS_OF(x) \
  keys_of { INTS_VIEW((x)->start), INTS_VIEW((x)->end), INTS_VIEW((x)->slot), (x)->x->rows / (x)->batch }

struct ssmax_scale_each {
  view y, x, s;
  struct keys_of keys;
  long dim;
  int add;
  __device__ void operator()(long n, long j) const
  {
    const float value = x.at(n, j) * (float)((double)s.at(0, j / dim) * keys.log_of(n));
    y.at(n, j) = add ? y.at(n, j) + value : value;
  }
};
/* "y = x s[h] ln n" */
static void ssmax_scale(struct device *device, const struct ssmax_scale_args *x)
{
  each(device, x->x->rows, x->x->cols,
       ssmax_scale_each{VIEW(x->y), VIEW(x->x), VIEW(x->s), KEYS_OF(x), x->x->cols / x->s->cols, 0});
}

struct keys_term {
  view dy, x;
  struct keys_of keys;
  long dim;
  __device__ double operator()(long n, long h) const
  {
    double sum = 0;
    for (long j = h * dim; j < (h + 1) * dim; j++) sum += (double)dy.at(n, j) * (double)x.at(n, j);
    return sum * keys.log_of(n);
  }
};
/* "dx [+]= dy s[h] ln n; ds[h] += sum dy x ln n" */
SCRATCH(ssmax_scale_backward, 8 * column_parts_of(x->x->rows, x->s->cols))
static void ssmax_scale_backward(struct device *device, const struct ssmax_scale_backward_args *x)
{
  const long dim = x->x->cols / x->s->cols;
  const struct keys_of keys = KEYS_OF(x);
  sum_columns(device, x->x->rows, x->s->cols, keys_term{VIEW(x->dy), VIEW(x->x), keys, dim},
              put_column{VIEW(x->ds), 1});
  each(device, x->x->rows, x->x->cols,
       ssmax_scale_each{VIEW(x->dx), VIEW(x->dy), VIEW(x->s), keys, dim, x->add != 0});
}

extern "C" void ops_cuda_cures(struct ops *ops)
{
  ops->sink = sink, ops->sink_backward = sink_backward;
  ops->gate = gate, ops->gate_backward = gate_backward;
  ops->ssmax_scale = ssmax_scale, ops->ssmax_scale_backward = ssmax_scale_backward;
  ops->scratch[OP_sink_backward] = sink_backward_scratch;
  ops->scratch[OP_ssmax_scale_backward] = ssmax_scale_backward_scratch;
}
