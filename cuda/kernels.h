/* kernels.h - what kernels share: views of tensors in the block's run, the guard, launches, reductions
   Sums are in a fixed order: the threads of a block take elements a block apart, then halves are added. Integers
   alone are updated atomically. A NaN wins every maximum. */
#ifndef MAXLOGIT_CUDA_KERNELS_H
#define MAXLOGIT_CUDA_KERNELS_H
#include "cuda/launch.h"
extern "C" {
#include "numerics/number_format.h"
}
#ifdef __CUDACC__
/* Counts launches. MAXLOGIT_CUDA_SYNC=1: waits for each. MAXLOGIT_CUDA_KERNELS=FILE: writes each kernel's name there once,
   before the kernel has ended (device.cu). */
void cuda_launched(const void *kernel, dim3 block, size_t bytes, cudaStream_t);
#define LAUNCH(kernel, grid, block, bytes, stream, ...) \
  ((kernel)<<<grid, block, bytes, stream>>>(__VA_ARGS__), \
   cuda_launched((const void *)(kernel), dim3(block), bytes, stream))
#define DYNAMIC_SHARED(type, name) \
  extern __shared__ float4 cuda_dynamic_shared[]; \
  type *name = (type *)cuda_dynamic_shared
#define UNROLL _Pragma("unroll")
#define PRAGMA(x) _Pragma(#x)
#define UNROLL_BY(n) PRAGMA(unroll n)
/* What is long and seldom needed is not to be repeated wherever a loop around it is unrolled. */
#define SELDOM __noinline__
#define SET_SHARED(kernel, bytes) \
  cudaFuncSetAttribute((const void *)(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes))
#else
#include "cuda_on_host.h"
#define UNROLL
#define UNROLL_BY(n)
#define SELDOM
#endif
/* A kernel that wants more dynamic shared memory than all are given says so, once for so much. */
#define ALLOW_SHARED(kernel, bytes) \
  do { \
    static size_t allowed = SHARED_GIVEN; \
    if ((bytes) > allowed) SET_SHARED(kernel, allowed = (bytes)); \
  } while (0)
#include <math.h>
#include <stdint.h>

#define ALL 0xffffffffu /* lanes of a warp */
/* Shared memory of a block: without asking, its own arrays and the dynamic one; where it asks, on every GPU from sm_80 on. */
enum { SHARED_GIVEN = 48 << 10, SHARED_MOST = 99 << 10 };

/* --- views: pointers that know the run ------------------------------------------------------------------- */

/* i / n, neither negative; a division of 64 bits takes ten times as many instructions. */
static __device__ inline long quotient(long i, long n)
{
  return (i | n) >> 32 ? i / n : (long)((unsigned)i / (unsigned)n);
}

template <class T> struct view_of {
  T *data; /* of run 0; NULL: absent */
  long rows, cols, ld;
  size_t stride;
  __device__ T *base() const { return (T *)((char *)data + blockIdx.z * stride); }
  __device__ T *row(long i) const { return base() + i * ld; }
  __device__ T &at(long i, long j) const { return base()[i * ld + j]; }
  /* element i, row by row */
  __device__ T &element(long i) const { return base()[ld == cols ? i : i + quotient(i, cols) * (ld - cols)]; }
  long size() const { return rows * cols; }
};
typedef view_of<float> view;
typedef view_of<int> ints;

/* A NUMBER: 1 where it is absent. */
static __device__ inline double number(const view &t) { return t.data ? (double)*t.base() : 1; }

template <class T> static view_of<T> view_as(const struct device *device, const struct tensor *t)
{
  view_of<T> none = {}, v = {t ? (T *)t->data : NULL, 0, 0, 0, device->stride};
  if (!t) return none;
  v.rows = t->rows, v.cols = t->cols, v.ld = t->ld;
  return v;
}
#define VIEW(t) view_as<float>(device, t)
#define INTS_VIEW(t) view_as<int>(device, t)

/* Room for `count` numbers of every run between the launches of one operation, as its row of ops.scratch declares. */
template <class T> static view_of<T> scratch(struct device *device, long count)
{
  view_of<T> v = {(T *)device_scratch(device, (size_t)count * sizeof(T)), 1, count, count, device->stride};
  return v;
}
/* NAME_scratch for that row: bytes of a call with arguments x. */
#define SCRATCH(name, bytes) \
  static size_t name##_scratch(const struct device *, const void *args) \
  { \
    const struct name##_args *x = (const struct name##_args *)args; \
    return (size_t)(bytes); \
  }

/* A run whose guard is 0 stays as it is. */
struct guarded {
  view guard;
  __device__ bool off() const { return guard.data && *guard.base() == 0; }
};

/* The device's queue, runs and guard, for a launch. */
struct queue {
  struct device *device;
  cudaStream_t stream;
  unsigned runs;
  struct guarded guard;
};
static inline struct queue queue_of(struct device *device)
{
  struct queue q = {device, (cudaStream_t)device->stream, (unsigned)device->runs, {VIEW(device->guard)}};
  return q;
}

static inline long ceil_div(long a, long b) { return (a + b - 1) / b; }

/* --- elements: f(row, column) of all ------------------------------------------------------------------------- */

enum { EACH_THREADS = 256, EACH_BLOCKS = 4096 };

template <class F> static __global__ void each_kernel(struct guarded guard, long rows, long cols, F f)
{
  if (guard.off()) return;
  long total = rows * cols, step = (long)gridDim.x * blockDim.x;
  for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
    long row = rows == 1 ? 0 : quotient(i, cols);
    f(row, i - row * cols);
  }
}

template <class F> static void each_in(const struct queue &q, long rows, long cols, F f)
{
  long blocks = ceil_div(rows * cols, EACH_THREADS);
  if (blocks == 0) return;
  dim3 grid((unsigned)(blocks < EACH_BLOCKS ? blocks : (long)EACH_BLOCKS), 1, q.runs);
  LAUNCH(each_kernel<F>, grid, EACH_THREADS, 0, q.stream, q.guard, rows, cols, f);
}

template <class F> static void each(struct device *device, long rows, long cols, F f)
{
  each_in(queue_of(device), rows, cols, f);
}

/* --- reductions -------------------------------------------------------------------------------------------- */

/* NaN if either is: fmaxf would drop it. */
template <class T> static __device__ inline T max_nan(T a, T b) { return a > b || a != a ? a : b; }
template <class T> static __device__ inline T min_nan(T a, T b) { return a < b || a != a ? a : b; }

template <class T> static __device__ inline T warp_sum(T x)
{
  for (int by = 16; by; by /= 2) x += __shfl_xor_sync(ALL, x, by);
  return x;
}

template <class T> static __device__ inline T warp_max(T x)
{
  for (int by = 16; by; by /= 2) x = max_nan(x, __shfl_xor_sync(ALL, x, by));
  return x;
}

/* Of all threads of the block, a multiple of 32; every thread gets it, and may go on to the next at once. */
static __device__ inline double block_sum(double x)
{
  __shared__ double part[32];
  int lane = threadIdx.x % 32, warps = (blockDim.x + 31) / 32;
  x = warp_sum(x);
  if (warps == 1) return x;
  if (lane == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  x = warp_sum(lane < warps ? part[lane] : 0);
  __syncthreads();
  return x;
}

static __device__ inline float block_max(float x)
{
  __shared__ float part[32];
  int lane = threadIdx.x % 32, warps = (blockDim.x + 31) / 32;
  x = warp_max(x);
  if (warps == 1) return x;
  if (lane == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  x = warp_max(lane < warps ? part[lane] : -INFINITY);
  __syncthreads();
  return x;
}

/* f(row) by a warp each where rows are short, by a block each where they are long; lanes of the row's team take
   its columns, from `lane` on, `team` apart. */
enum { TEAM_THREADS = 256, WARP_COLUMNS = 1024 };
static __device__ inline int lane() { return threadIdx.x; }
static __device__ inline int team() { return blockDim.x; }
static __device__ inline double team_sum(double x) { return blockDim.y > 1 ? warp_sum(x) : block_sum(x); }
static __device__ inline float team_sum(float x)
{
  return blockDim.y > 1 ? warp_sum(x) : (float)block_sum(x);
}
static __device__ inline float team_max(float x) { return blockDim.y > 1 ? warp_max(x) : block_max(x); }

template <class F> static __global__ void rows_kernel(struct guarded guard, long rows, F f)
{
  long row = (long)blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows || guard.off()) return;
  f(row);
}

template <class F> static void each_row(struct device *device, long rows, long cols, F f)
{
  struct queue q = queue_of(device);
  unsigned teams = cols <= WARP_COLUMNS ? TEAM_THREADS / 32 : 1;
  dim3 block(TEAM_THREADS / teams, teams), grid((unsigned)ceil_div(rows, teams), 1, q.runs);
  if (rows > 0) LAUNCH(rows_kernel<F>, grid, block, 0, q.stream, q.guard, rows, f);
}

/* Sums of COUNT things over rows x cols, f(row, column, terms) gives them; done(sums) is called by one thread. Long
   ones in pieces, of which each leaves its part. */
enum { PIECE = 16384 };

template <int COUNT, class F, class G>
static __global__ void sum_kernel(struct guarded guard, long rows, long cols, F f, view_of<double> part,
                                  G done)
{
  if (guard.off()) return;
  double sum[COUNT] = {};
  long total = rows * cols, from = (long)blockIdx.x * PIECE, to = from + PIECE < total ? from + PIECE : total;
  for (long i = from + threadIdx.x; i < to; i += blockDim.x) {
    double term[COUNT] = {};
    const long row = quotient(i, cols);
    f(row, i - row * cols, term);
    for (int k = 0; k < COUNT; k++) sum[k] += term[k];
  }
  for (int k = 0; k < COUNT; k++) sum[k] = block_sum(sum[k]);
  if (threadIdx.x > 0) return;
  for (int k = 0; k < COUNT && part.data; k++) part.at(0, (long)blockIdx.x * COUNT + k) = sum[k];
  if (!part.data) done(sum);
}

template <int COUNT, class G>
static __global__ void sum_parts_kernel(struct guarded guard, long pieces, view_of<double> part, G done)
{
  if (guard.off()) return;
  double sum[COUNT] = {};
  for (long i = threadIdx.x; i < pieces; i += blockDim.x)
    for (int k = 0; k < COUNT; k++) sum[k] += part.at(0, i * COUNT + k);
  for (int k = 0; k < COUNT; k++) sum[k] = block_sum(sum[k]);
  if (threadIdx.x == 0) done(sum);
}

template <int COUNT, class F, class G>
static void sum_all(struct device *device, long rows, long cols, view_of<double> part, F f, G done)
{
  struct queue q = queue_of(device);
  long pieces = ceil_div(rows * cols, PIECE);
  dim3 grid((unsigned)pieces, 1, q.runs);
  if (pieces <= 1) part.data = NULL;
  LAUNCH((sum_kernel<COUNT, F, G>), grid, 512, 0, q.stream, q.guard, rows, cols, f, part, done);
  dim3 one(1, 1, q.runs);
  if (part.data) LAUNCH((sum_parts_kernel<COUNT, G>), one, 512, 0, q.stream, q.guard, pieces, part, done);
}

/* Room for the parts of `sum_all`. */
static inline long parts_of(long rows, long cols, long count) { return ceil_div(rows * cols, PIECE) * count; }

/* Sums of columns: f(row, column) over the rows, done(column, sum). Rows in pieces, as above. */
enum { SUM_ROWS = 64 };

template <class F, class G>
static __global__ void columns_kernel(struct guarded guard, long rows, long cols, F f, view_of<double> part,
                                      G done)
{
  DYNAMIC_SHARED(double, shared); /* [8, 32] */
  if (guard.off()) return;
  long column = (long)blockIdx.y * 32 + threadIdx.x, from = (long)blockIdx.x * SUM_ROWS;
  long to = from + SUM_ROWS < rows ? from + SUM_ROWS : rows;
  double sum = 0;
  UNROLL_BY(4) /* four loads are under way at once */
  for (long i = from + threadIdx.y; i < to && column < cols; i += blockDim.y) sum += f(i, column);
  shared[threadIdx.y * 32 + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= cols) return;
  sum = 0;
  for (int k = 0; k < (int)blockDim.y; k++) sum += shared[k * 32 + threadIdx.x];
  if (part.data)
    part.at(0, (long)blockIdx.x * cols + column) = sum;
  else
    done(column, sum);
}

template <class G> struct column_parts {
  long pieces, cols;
  view_of<double> part;
  G done;
  __device__ void operator()(long, long column) const
  {
    double sum = 0;
    UNROLL_BY(8)
    for (long i = 0; i < pieces; i++) sum += part.at(0, i * cols + column);
    done(column, sum);
  }
};

/* Numbers of scratch that they take. */
static inline long column_parts_of(long rows, long cols)
{
  return ceil_div(rows, SUM_ROWS) > 1 ? ceil_div(rows, SUM_ROWS) * cols : 0;
}

template <class F, class G> static void sum_columns(struct device *device, long rows, long cols, F f, G done)
{
  struct queue q = queue_of(device);
  long pieces = ceil_div(rows, SUM_ROWS);
  view_of<double> part = {};
  if (pieces > 1) part = scratch<double>(device, column_parts_of(rows, cols));
  dim3 grid((unsigned)pieces, (unsigned)ceil_div(cols, 32), q.runs), block(32, 8); /* there are 2^31 - 1 in x alone */
  LAUNCH((columns_kernel<F, G>), grid, block, 8 * 32 * sizeof(double), q.stream, q.guard, rows, cols, f, part,
         done);
  if (pieces > 1) each(device, 1, cols, column_parts<G>{pieces, cols, part, done});
}

/* What a sum of a column goes into. */
struct put_column {
  view y;
  int add;
  __device__ void operator()(long j, double sum) const
  {
    y.at(0, j) = (float)(add ? (double)y.at(0, j) + sum : sum);
  }
};

static __device__ inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* number_round (number_format.h) of single precision: scaled by a power of two so that rint() does it */
static __device__ inline float rounded(float x, enum number_format format)
{
  if (format == FORMAT_F32 || x != x) return x;
  unsigned bits = __float_as_uint(x);
  if (format == FORMAT_BF16) return __uint_as_float((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
  const int digits = format == FORMAT_FP16 ? 11 : 4, smallest = format == FORMAT_FP16 ? -24 : -9;
  const float largest = format == FORMAT_FP16 ? 65504 : 448;
  if (!isinf(x)) {
    int exponent = (int)(bits >> 23 & 255) - 126 - digits;
    if (exponent < smallest) exponent = smallest;
    x = rintf(x * __uint_as_float((unsigned)(127 - exponent) << 23)) *
        __uint_as_float((unsigned)(127 + exponent) << 23);
  }
  return fabsf(x) <= largest ? x : format == FORMAT_FP16 ? copysignf(INFINITY, x) : NAN;
}

/* An input of a product on a device with this math: to the nearest number of 8 (bf16, ties to even) or 11 digits
   (tf32, ties away from zero, as cvt.rna does it), an infinity and a NaN as they are. */
static __device__ inline float product_input(float x, enum device_math math)
{
  if (math == MATH_FP32 || x != x) return x;
  if (math == MATH_BF16) return rounded(x, FORMAT_BF16);
  return __uint_as_float((__float_as_uint(x) + 0x1000) & 0xffffe000u);
}

/* Integers in the order of the floats, NaN above all. */
static __device__ inline unsigned order_code(float x)
{
  unsigned bits = __float_as_uint(x);
  return x != x ? 0xffffffffu : bits >> 31 ? ~bits : bits | 0x80000000u;
}

static __device__ inline float order_decode(unsigned code)
{
  return code == 0xffffffffu ? NAN : __uint_as_float(code >> 31 ? code ^ 0x80000000u : ~code);
}
#endif
