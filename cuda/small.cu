/* small.cu - the arithmetic of heads, layers and tensors, a few hundred numbers long; definitions: ref/small.c
   Computed in double, as they are defined. */
#include "cuda/kernels.h"

/* y[i] = the expression, of y[i] as `to` and x[i] as `from` */
#define ELEMENTWISE(name, expression) \
  struct name##_each { \
    view y, x; \
    __device__ void operator()(long, long i) const \
    { \
      double to = (double)y.element(i), from = (double)x.element(i); \
      (void)to, (void)from; \
      y.element(i) = (float)(expression); \
    } \
  }; \
  static void name(struct device *device, const struct name##_args *x) \
  { \
    each(device, 1, x->y->rows * x->y->cols, name##_each{VIEW(x->y), VIEW(x->x)}); \
  }

ELEMENTWISE(multiply, to *from)                         /* "y *= x" */
ELEMENTWISE(divide, from == 0 ? 1 : to / from)          /* "y /= x; 1 where x is 0" */
ELEMENTWISE(sign, from > 0 ? 1 : from < 0 ? -1 : from)  /* "a NaN stays one; y may be x" */
ELEMENTWISE(maximum, max_nan(to, from))                 /* "y = max(y, x), NaN if either is" */
ELEMENTWISE(one_unless_finite, isfinite(from) ? to : 1) /* "y = 1 where x is not finite" */

struct power_each {
  view y, by;
  double exponent;
  __device__ void operator()(long, long i) const
  {
    y.element(i) = (float)pow((double)y.element(i), exponent * number(by));
  }
};
/* "y = y^(exponent by), computed in double" */
static void power(struct device *device, const struct power_args *x)
{
  each(device, 1, x->y->rows * x->y->cols, power_each{VIEW(x->y), VIEW(x->by), x->exponent});
}

struct clip_factor_each {
  view y, x, limit;
  __device__ void operator()(long, long i) const
  {
    double from = (double)x.element(i), most = number(limit);
    y.element(i) = (float)(isfinite(from) && from > most ? most / from : 1);
  }
};
/* "y = limit / x where x > limit, else, also where x is not finite, 1" */
static void clip_factor(struct device *device, const struct clip_factor_args *x)
{
  each(device, 1, x->y->rows * x->y->cols, clip_factor_each{VIEW(x->y), VIEW(x->x), VIEW(x->limit)});
}

struct above_each {
  view y, x, limit;
  __device__ void operator()(long, long i) const
  {
    y.element(i) = (double)x.element(i) > number(limit) ? 1 : 0;
  }
};
/* "y = 1 where x > limit, else 0" */
static void greater_than(struct device *device, const struct greater_than_args *x)
{
  each(device, 1, x->y->rows * x->y->cols, above_each{VIEW(x->y), VIEW(x->x), VIEW(x->limit)});
}

struct all_finite_each {
  view y, x;
  __device__ void operator()(long n, long j) const
  {
    if (!isfinite(x.at(n, j))) atomicExch(y.base(), 0.0f);
  }
};
/* "y [1] = 0 if anything in x is not finite" */
static void all_finite(struct device *device, const struct all_finite_args *x)
{
  each(device, x->x->rows, x->x->cols, all_finite_each{VIEW(x->y), VIEW(x->x)});
}

struct take_each {
  view y, x;
  ints index;
  __device__ void operator()(long, long i) const
  {
    int from = index.base()[i];
    y.element(i) = from < 0 ? 1 : x.element(from);
  }
};
/* "y[i] = x[index[i]], or 1 where index[i] < 0; y and x as vectors" */
static void gather(struct device *device, const struct gather_args *x)
{
  each(device, 1, x->y->rows * x->y->cols, take_each{VIEW(x->y), VIEW(x->x), INTS_VIEW(x->index)});
}

struct reduce_each {
  view y, x;
  ints member, first;
  enum reduce_kind kind;
  __device__ void operator()(long, long i) const
  {
    double all = kind == REDUCE_MIN ? INFINITY : kind == REDUCE_MAX ? -INFINITY : kind == REDUCE_SUM ? 0 : 1;
    for (int j = first.base()[i]; j < first.base()[i + 1]; j++) {
      double one = (double)x.element(member.base()[j]);
      all = kind == REDUCE_MIN   ? min_nan(all, one)
            : kind == REDUCE_MAX ? max_nan(all, one)
            : kind == REDUCE_SUM ? all + one
                                 : all * one;
    }
    y.element(i) = (float)all;
  }
};
/* "y[i] = the smallest (kind 0), largest (1), sum (2) or product (3) of x[member[j]] over first[i] <= j < first[i+1];
   NaN if one is; of none: Inf, -Inf, 0, 1" */
static void reduce(struct device *device, const struct reduce_args *x)
{
  each(device, 1, x->y->rows * x->y->cols,
       reduce_each{VIEW(x->y), VIEW(x->x), INTS_VIEW(x->member), INTS_VIEW(x->first),
                   (enum reduce_kind)x->kind});
}

struct see_each {
  view seen, stats;
  double share;
  __device__ void operator()(long, long n) const
  {
    for (int j = 0; j < 3; j++) seen.at(n, j) = max_nan(seen.at(n, j), stats.at(n, j));
    seen.at(n, 3) += (float)(share * (double)stats.at(n, 3));
  }
};
/* "columns 0 to 2 the larger (NaN if either is), column 3 += share stats" */
static void accumulate_stats(struct device *device, const struct accumulate_stats_args *x)
{
  each(device, 1, x->seen->rows, see_each{VIEW(x->seen), VIEW(x->stats), x->share});
}

struct accumulate_pairs_each {
  view seen, look, stats, largest;
  __device__ void operator()(long, long n) const
  {
    float *to = seen.row(n);
    const float *from = look.row(n);
    if (from[1] > 0) to[0] += (float)((double)from[0] * (double)from[1]);
    to[1] += from[1];
    float now = stats.at(n, 0), before = largest.at(n, 0);
    if (!(isnan(now) ? !isnan(before) : now > before)) return;
    for (int j = 2; j < 5; j++) to[j] = from[j];
  }
};
/* "shares times their pairs are added, and pairs, and the rest is look's where stats[:,0] is above largest[:,0], the
   largest so far, or the first NaN" */
static void accumulate_pairs(struct device *device, const struct accumulate_pairs_args *x)
{
  each(device, 1, x->seen->rows,
       accumulate_pairs_each{VIEW(x->seen), VIEW(x->look), VIEW(x->stats), VIEW(x->largest)});
}

extern "C" void ops_cuda_small(struct ops *ops)
{
  ops->multiply = multiply;
  ops->divide = divide;
  ops->power = power;
  ops->sign = sign;
  ops->maximum = maximum;
  ops->clip_factor = clip_factor;
  ops->greater_than = greater_than;
  ops->one_unless_finite = one_unless_finite;
  ops->all_finite = all_finite;
  ops->gather = gather;
  ops->reduce = reduce;
  ops->accumulate_stats = accumulate_stats;
  ops->accumulate_pairs = accumulate_pairs;
}
