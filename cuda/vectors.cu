/* vectors.cu - plain vectors, norms, segments; definitions: ops.def, ref/vectors.c */
#include "cuda/kernels.h"

struct fill_each {
  view y;
  float value;
  __device__ void operator()(long n, long j) const { y.at(n, j) = value; }
};
/* "y = value" */
static void fill(struct device *device, const struct fill_args *x)
{
  each(device, x->y->rows, x->y->cols, fill_each{VIEW(x->y), (float)x->value});
}

struct copy_each {
  view y, x;
  __device__ void operator()(long n, long j) const { y.at(n, j) = x.at(n, j); }
};
/* "y = x" */
static void copy(struct device *device, const struct copy_args *x)
{
  each(device, x->x->rows, x->x->cols, copy_each{VIEW(x->y), VIEW(x->x)});
}

struct round_each {
  view y, x;
  enum number_format format;
  __device__ void operator()(long n, long j) const { y.at(n, j) = rounded(x.at(n, j), format); }
};
/* "y = x rounded to a number format (number_format.h); y may be x" */
static void round_to(struct device *device, const struct round_to_args *x)
{
  each(device, x->x->rows, x->x->cols, round_each{VIEW(x->y), VIEW(x->x), (enum number_format)x->format});
}

/* "y[j,i] = x[i,j]": tiles of 32 x 32 through shared memory, so that both sides are read and written along rows */
static __global__ void transpose_kernel(struct guarded guard, view y, view x)
{
  __shared__ float tile[32][33];
  if (guard.off()) return;
  long across = (x.cols + 31) / 32, i0 = blockIdx.x / across * 32, j0 = blockIdx.x % across * 32;
  for (int k = threadIdx.y; k < 32; k += 8)
    if (i0 + k < x.rows && j0 + threadIdx.x < x.cols) tile[k][threadIdx.x] = x.at(i0 + k, j0 + threadIdx.x);
  __syncthreads();
  for (int k = threadIdx.y; k < 32; k += 8)
    if (j0 + k < x.cols && i0 + threadIdx.x < x.rows) y.at(j0 + k, i0 + threadIdx.x) = tile[threadIdx.x][k];
}
static void transpose(struct device *device, const struct transpose_args *x)
{
  struct queue q = queue_of(device);
  dim3 grid((unsigned)(ceil_div(x->x->rows, 32) * ceil_div(x->x->cols, 32)), 1, q.runs), block(32, 8);
  LAUNCH(transpose_kernel, grid, block, 0, q.stream, q.guard, VIEW(x->y), VIEW(x->x));
}

struct axpby_each {
  view y, x, a, b;
  double alpha, beta;
  __device__ void operator()(long n, long j) const
  {
    double by = alpha * number(a), keep = beta != 0 ? beta * number(b) : 0;
    y.at(n, j) = (float)(by * (double)x.at(n, j) + (keep != 0 ? keep * (double)y.at(n, j) : 0));
  }
};
/* "y = alpha a x + beta b y; where beta or b is 0, y is not read" */
static void axpby(struct device *device, const struct axpby_args *x)
{
  each(device, x->y->rows, x->y->cols,
       axpby_each{VIEW(x->y), VIEW(x->x), VIEW(x->a), VIEW(x->b), x->alpha, x->beta});
}

struct scale_each {
  view y, by;
  double alpha;
  __device__ void operator()(long n, long j) const
  {
    double factor = alpha * number(by);
    if (factor != 1) y.at(n, j) = (float)(factor * (double)y.at(n, j));
  }
};
/* "y = alpha by y; a factor of 1 leaves y as it is" */
static void scale(struct device *device, const struct scale_args *x)
{
  each(device, x->y->rows, x->y->cols, scale_each{VIEW(x->y), VIEW(x->by), x->alpha});
}

/* --- norms: squares of single precision neither overflow nor vanish in double --------------------------------- */

struct square_of {
  view x;
  __device__ void operator()(long n, long j, double term[1]) const
  {
    double value = x.at(n, j);
    term[0] = value * value;
  }
};
struct root_to {
  view y;
  view_of<double> exact; /* where the next launch wants it */
  __device__ void operator()(const double sum[1]) const
  {
    double root = sqrt(sum[0]);
    y.at(0, 0) = (float)root;
    if (exact.data) exact.at(0, 0) = root;
  }
};
/* "y [1] = sqrt(sum x^2), summed in double in a fixed order; no square overflows or vanishes on the way" */
SCRATCH(norm, 8 * parts_of(x->x->rows, x->x->cols, 1))
static void norm(struct device *device, const struct norm_args *x)
{
  view_of<double> part = scratch<double>(device, parts_of(x->x->rows, x->x->cols, 1));
  sum_all<1>(device, x->x->rows, x->x->cols, part, square_of{VIEW(x->x)}, root_to{VIEW(x->y), {}});
}

struct divide_by_size {
  view y;
  view_of<double> size;
  __device__ void operator()(long n, long j) const
  {
    double by = size.at(0, 0);
    if (by != 0) y.at(n, j) = (float)((double)y.at(n, j) / by);
  }
};
/* "y /= |y| unless that is 0; size [1] = |y| as it was" */
SCRATCH(normalise, 8 * (parts_of(x->y->rows, x->y->cols, 1) + 1))
static void normalise(struct device *device, const struct normalise_args *x)
{
  long parts = parts_of(x->y->rows, x->y->cols, 1);
  view_of<double> part = scratch<double>(device, parts + 1), size = part;
  size.data += parts;
  sum_all<1>(device, x->y->rows, x->y->cols, part, square_of{VIEW(x->y)}, root_to{VIEW(x->size), size});
  each(device, x->y->rows, x->y->cols, divide_by_size{VIEW(x->y), size});
}

/* "y [1] = max |x|": blocks meet in an atomic maximum of codes of y */
struct max_abs_begin {
  view y;
  __device__ void operator()(long, long) const { *(unsigned *)y.base() = order_code(0); }
};
struct max_abs_end {
  view y;
  __device__ void operator()(long, long) const { *y.base() = order_decode(*(unsigned *)y.base()); }
};
static __global__ void max_abs_kernel(struct guarded guard, view y, view x)
{
  if (guard.off()) return;
  float top = 0;
  long total = x.rows * x.cols, step = (long)gridDim.x * blockDim.x;
  for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step)
    top = max_nan(top, fabsf(x.element(i)));
  top = block_max(top);
  if (threadIdx.x == 0) atomicMax((unsigned *)y.base(), order_code(top));
}
static void max_abs(struct device *device, const struct max_abs_args *x)
{
  struct queue q = queue_of(device);
  long pieces = ceil_div(x->x->rows * x->x->cols, PIECE);
  dim3 grid((unsigned)(pieces < 1024 ? pieces : 1024), 1, q.runs);
  each(device, 1, 1, max_abs_begin{VIEW(x->y)});
  LAUNCH(max_abs_kernel, grid, 256, 0, q.stream, q.guard, VIEW(x->y), VIEW(x->x));
  each(device, 1, 1, max_abs_end{VIEW(x->y)});
}

/* --- segments: place | length in int [n,2], known to the device alone -------------------------------------------- */

/* Blocks that share a segment: of the size that segments have in the mean. */
static unsigned blocks_of(long total, long segments)
{
  long blocks = ceil_div(total, segments * 2048);
  return (unsigned)(blocks < 1 ? 1 : blocks < 256 ? blocks : 256);
}

template <class F> static __global__ void segments_kernel(struct guarded guard, ints segment, F f)
{
  if (guard.off()) return;
  long i = blockIdx.y, place = segment.base()[2 * i], length = segment.base()[2 * i + 1];
  for (long j = (long)blockIdx.x * blockDim.x + threadIdx.x; j < length; j += (long)gridDim.x * blockDim.x)
    f(i, place + j);
}

template <class F>
static void each_segment(struct device *device, const struct tensor *segment, const struct tensor *row, F f)
{
  struct queue q = queue_of(device);
  dim3 grid(blocks_of(row->rows * row->cols, segment->rows), (unsigned)segment->rows, q.runs);
  LAUNCH(segments_kernel<F>, grid, 256, 0, q.stream, q.guard, INTS_VIEW(segment), f);
}

struct apply_each {
  view w, update, keep, rate;
  long cautious;
  __device__ void operator()(long i, long j) const
  {
    float *to = w.base() + j, by = update.base()[j];
    const bool opposed = (*to > 0 && by < 0) || (*to < 0 && by > 0);
    const double kept = cautious && opposed ? 1 : (double)keep.element(i);
    *to = (float)((double)*to * kept - (double)rate.element(i) * (double)by);
  }
};
/* "w = w keep[i] - rate[i] update on segment i; cautious=1: where w and the update have opposite signs, w - rate[i]
   update" */
static void apply_segments(struct device *device, const struct apply_segments_args *x)
{
  each_segment(device, x->segment, x->w,
               apply_each{VIEW(x->w), VIEW(x->update), VIEW(x->keep), VIEW(x->rate), x->cautious});
}

struct scale_segment_each {
  view x, factor;
  __device__ void operator()(long i, long j) const
  {
    float by = factor.element(i);
    if (by != 1) x.base()[j] *= by;
  }
};
/* "x *= factor[i] on segment i; a factor of 1 leaves it as it is" */
static void scale_segments(struct device *device, const struct scale_segments_args *x)
{
  each_segment(device, x->segment, x->x, scale_segment_each{VIEW(x->x), VIEW(x->factor)});
}

/* "y[i] = |x| of segment i, see norm": every block leaves its part, then they are added in order */
static __global__ void segment_squares_kernel(struct guarded guard, view_of<double> part, view x,
                                              ints segment)
{
  if (guard.off()) return;
  long i = blockIdx.y, length = segment.base()[2 * i + 1];
  const float *from = x.base() + segment.base()[2 * i];
  double sum = 0;
  for (long j = (long)blockIdx.x * blockDim.x + threadIdx.x; j < length; j += (long)gridDim.x * blockDim.x)
    sum += (double)from[j] * (double)from[j];
  sum = block_sum(sum);
  if (threadIdx.x == 0) part.at(0, i * gridDim.x + blockIdx.x) = sum;
}
struct segment_root {
  view y;
  view_of<double> part;
  long parts;
  __device__ void operator()(long, long i) const
  {
    double sum = 0;
    for (long k = 0; k < parts; k++) sum += part.at(0, i * parts + k);
    y.element(i) = (float)sqrt(sum);
  }
};
SCRATCH(norm_segments, 8 * x->segment->rows * (long)blocks_of(x->x->rows * x->x->cols, x->segment->rows))
static void norm_segments(struct device *device, const struct norm_segments_args *x)
{
  struct queue q = queue_of(device);
  long n = x->segment->rows;
  dim3 grid(blocks_of(x->x->rows * x->x->cols, n), (unsigned)n, q.runs);
  view_of<double> part = scratch<double>(device, n * grid.x);
  LAUNCH(segment_squares_kernel, grid, 256, 0, q.stream, q.guard, part, VIEW(x->x), INTS_VIEW(x->segment));
  each(device, 1, n, segment_root{VIEW(x->y), part, (long)grid.x});
}

extern "C" void ops_cuda_vectors(struct ops *ops)
{
  ops->fill = fill;
  ops->copy = copy;
  ops->round_to = round_to;
  ops->transpose = transpose;
  ops->axpby = axpby;
  ops->scale = scale;
  ops->norm = norm;
  ops->normalise = normalise;
  ops->max_abs = max_abs;
  ops->apply_segments = apply_segments;
  ops->scale_segments = scale_segments;
  ops->norm_segments = norm_segments;
  ops->scratch[OP_norm] = norm_scratch;
  ops->scratch[OP_normalise] = normalise_scratch;
  ops->scratch[OP_norm_segments] = norm_segments_scratch;
}
