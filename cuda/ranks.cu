/* ranks.cu - what two parts of a batch have seen, as one; what ranks send each other is, on one, a copy: between many the
   host carries it (numerics/ranks.c); definitions: ref/ranks.c */
#include "cuda/kernels.h"

struct one_nan_each {
  view y;
  __device__ void operator()(long, long i) const
  {
    if (isnan(y.element(i))) y.element(i) = NAN;
  }
};
/* "y = the largest of y over the ranks" */
static void all_reduce_max(struct device *device, const struct all_reduce_max_args *x)
{
  each(device, 1, x->y->rows * x->y->cols, one_nan_each{VIEW(x->y)});
}

/* "y = the sum of y over the ranks" */
static void all_reduce_sum(struct device *, const struct all_reduce_sum_args *) {}

struct carried_each {
  view y, x;
  __device__ void operator()(long, long i) const { y.element(i) = x.element(i); }
};
static void carry(struct device *device, struct tensor *y, struct tensor *x)
{
  each(device, 1, y->rows * y->cols, carried_each{VIEW(y), VIEW(x)});
}
/* "y = x of the rank before this one in the ring" */
static void ring_shift(struct device *device, const struct ring_shift_args *x) { carry(device, x->y, x->x); }
/* "y = x of the rank whose number has that bit turned" */
static void pairwise_exchange(struct device *device, const struct pairwise_exchange_args *x)
{
  carry(device, x->y, x->x);
}

struct gathered_each {
  view y, x;
  long from;
  __device__ void operator()(long, long i) const { y.element(i) = x.element(from + i); }
};
/* "y = the numbers from `from` on of a row" */
static void all_gather(struct device *device, const struct all_gather_args *x)
{
  each(device, 1, x->y->cols, gathered_each{VIEW(x->y), VIEW(x->x), x->from});
}

struct scattered_each {
  view y, x;
  long from;
  __device__ void operator()(long, long i) const { y.element(from + i) = x.element(i); }
};
/* "of y those from `from` on = x" */
static void reduce_scatter(struct device *device, const struct reduce_scatter_args *x)
{
  each(device, 1, x->x->cols, scattered_each{VIEW(x->y), VIEW(x->x), x->from});
}

struct follow_each {
  view y, x;
  ints kind;
  __device__ void operator()(long, long i) const
  {
    int by = kind.base()[i];
    if (by < 0) return;
    float first = x.element(by), second = y.element(by);
    if (isnan(first) || (!isnan(second) && first >= second)) y.element(i) = x.element(i);
  }
};
struct merge_each {
  view y, x;
  ints kind;
  __device__ void operator()(long, long i) const
  {
    int by = kind.base()[i];
    if (by == MERGE_SUM) y.element(i) = x.element(i) + y.element(i);
    if (by == MERGE_MAX) y.element(i) = max_nan(x.element(i), y.element(i));
    if (by == MERGE_FIRST) y.element(i) = x.element(i);
  }
};
/* "what two parts have seen ... kind j >= 0: x where x[j] is not below y[j] as they came": these before all others */
static void merge(struct device *device, const struct merge_args *x)
{
  each(device, 1, x->y->cols, follow_each{VIEW(x->y), VIEW(x->x), INTS_VIEW(x->kind)});
  each(device, 1, x->y->cols, merge_each{VIEW(x->y), VIEW(x->x), INTS_VIEW(x->kind)});
}

extern "C" void ops_cuda_ranks(struct ops *ops)
{
  ops->all_reduce_sum = all_reduce_sum;
  ops->all_reduce_max = all_reduce_max;
  ops->ring_shift = ring_shift;
  ops->pairwise_exchange = pairwise_exchange;
  ops->all_gather = all_gather;
  ops->reduce_scatter = reduce_scatter;
  ops->merge = merge;
}
