/* product.cu - products of matrices, and Newton-Schulz, which is made of them; definitions: ref/product.c, ref/update.c
   A block makes a tile of c from tiles of a and b in shared memory, [k, row], two of each: while one pair is
   multiplied the next comes into registers. In single precision a sum is of fused multiply-adds in the order of k;
   where a tile's k are shared out to groups of threads, the groups' sums are added in their order. With device.math
   = tf32 or bf16 numbers are rounded on their way into shared memory, where they lie as words along k, and tensor cores
   multiply. The order of a sum follows from the shape alone. */
#include "cuda/tensor_core.h"
#include <limits.h>

/* c [m,n] = alpha op(a) op(b) + what `add` and `beta` say, `batch` of them, so many numbers apart */
struct tiled_product {
  view a, b, c, d;
  long m, n, k;
  int ta, tb, add;       /* add: to what c holds; d, if it is there, is added instead */
  int symmetric;         /* c is: only tiles on and below the diagonal are made, and written twice */
  float alpha, beta;     /* beta a is added, where a [m,m] is symmetric, */
  const float *diagonal; /* and this number of the run to the diagonal, if not NULL; coefficients a | b | c */
  long batch, next_a, next_b, next_c;
  int full; /* whatever the device's math is */
  int wide; /* see `is_wide`; and on tensor cores k is of whole tiles */
};

/* --- from memory to tiles ----------------------------------------------------------------------------------------- */

/* Brings tiles of SIZE rows (or columns) and DEPTH of k from x to shared memory, by four numbers that are neighbors in
   memory: along k or, where x is turned, along rows. They become numbers [k, row] (PER 0) or words [row, k / PER].
   WIDE: all fours are whole and aligned (`is_wide`), and are loads of 128 bits; rows beyond the last four repeat them,
   and their sums are dropped. Otherwise each number has its own load, and what is outside is 0. TURNED: 0, 1, or 2 if
   it is known when the kernel runs. A warp loads whole sectors and stores into 32 banks. */
template <int SIZE, int DEPTH, int THREADS, int PER, bool WIDE, int TURNED> struct carrier {
  enum {
    FOURS = SIZE * DEPTH / 4 / THREADS,
    PAIRS = DEPTH / 8,                /* of fours of a row: a warp has one pair of 16 rows */
    DOWN = THREADS / 32 / PAIRS * 16, /* rows between two fours of a thread; */
    DOWN_TURNED = THREADS / 16 * 4,   /* those of a turned x that becomes words; */
    ALONG = THREADS / (SIZE / 4),     /* and the distance along k, of one that becomes numbers */
    EACH = PER ? PER : 1
  };
  const float *from; /* the first four of the next tile */
  long ld;
  int left, at_run_time; /* left: rows from that four to the last, which may be negative */
  float part[FOURS][4];

  struct place {
    int row, k;
  };
  __device__ inline bool turned() const { return TURNED == 2 ? at_run_time != 0 : TURNED == 1; }
  __device__ inline place first() const
  {
    const int i = (int)threadIdx.x, warp = i / 32;
    const place across = {warp / PAIRS * 16 + i / 16 % 2 * 8 + i % 8, warp % PAIRS * 8 + i / 8 % 2 * 4},
                along = {PER ? i / 16 * 4 : i % (SIZE / 4) * 4, PER ? i % 16 * EACH : i / (SIZE / 4)};
    return turned() ? along : across;
  }
  /* From the first four of a thread to number l. */
  __device__ inline place on(int l) const
  {
    const place across = {l * DOWN, 0}, along = {PER ? l / EACH * DOWN_TURNED : 0, PER ? l % EACH : l * ALONG};
    return turned() ? along : across;
  }
  __device__ inline void begin(const float *x, long ld_, int turned_, long row, long rows)
  {
    ld = ld_, at_run_time = turned_;
    const place at = first();
    const long last = rows - (WIDE && turned() ? 4 : 1);
    long mine = row + at.row;
    if (mine > last && (WIDE || !turned())) mine = last;
    left = (int)(last - mine < SIZE ? last - mine : (long)SIZE);
    from = x + (turned() ? at.k * ld + mine : mine * ld + at.k);
  }
  /* The next tile; `depth` of it are there, of the others zeros. */
  __device__ inline void fetch(int depth)
  {
    const int k = first().k;
    UNROLL
    for (int l = 0; l < FOURS; l++) {
      const int down = on(l).row, row = (WIDE || !turned()) && down > left ? left : down;
      const float *at = from + (turned() ? on(l).k * ld + row : row * ld);
      const bool there = (WIDE && PER) || k + on(l).k < depth;
      if (WIDE) {
        const float4 four = there ? *(const float4 *)at : make_float4(0, 0, 0, 0);
        part[l][0] = four.x, part[l][1] = four.y, part[l][2] = four.z, part[l][3] = four.w;
      } else {
        UNROLL
        for (int c = 0; c < 4; c++)
          part[l][c] = (turned() ? there && down + c <= left : k + c < depth) ? at[c] : 0;
      }
    }
    from += turned() ? DEPTH * ld : (long)DEPTH;
  }
  /* Numbers, with LD to a k. */
  template <int LD> __device__ inline void store(float *to) const
  {
    const place at = first();
    UNROLL
    for (int l = 0; l < FOURS; l++) {
      float *one = to + (at.k + on(l).k) * LD + at.row + on(l).row;
      if (turned()) {
        *(float4 *)one = make_float4(part[l][0], part[l][1], part[l][2], part[l][3]);
      } else {
        UNROLL
        for (int c = 0; c < 4; c++) one[c * LD] = part[l][c];
      }
    }
  }
  /* Words, with LD to a row. */
  template <int LD> __device__ inline void store(unsigned *to) const
  {
    const place at = first();
    to += at.row * LD + at.k / EACH;
    if (turned()) {
      UNROLL
      for (int l = 0; l < FOURS; l += EACH) UNROLL
      for (int c = 0; c < 4; c++)
        to[(l / EACH * DOWN_TURNED + c) * LD] = word_of<PER>(part[l][c], part[l + EACH - 1][c]);
    } else {
      UNROLL
      for (int l = 0; l < FOURS; l++) {
        unsigned *one = to + l * DOWN * LD;
        const float *x = part[l];
        if (PER == 1)
          *(uint4 *)one = make_uint4(word_of<PER>(x[0], 0), word_of<PER>(x[1], 0), word_of<PER>(x[2], 0),
                                     word_of<PER>(x[3], 0));
        else
          *(uint2 *)one = make_uint2(word_of<PER>(x[0], x[1]), word_of<PER>(x[2], x[3]));
      }
    }
  }
};

/* Whether every four of x [.., ld], `next` numbers from one matrix to the next, is whole and aligned to 16 bytes. */
static int is_wide(const view &x, int turned, long rows, long k, long next)
{
  return (turned ? rows : k) % 4 == 0 && x.ld % 4 == 0 && next % 4 == 0 && x.stride % 16 == 0 &&
         (uintptr_t)x.data % 16 == 0;
}

/* --- in single precision ------------------------------------------------------------------------------------------ */

/* Tiles of MxN; a thread makes YxX of it (by fours) in single precision. GROUPS of threads share every SPAN of k, so
   that a sum has the same order in every tile with groups. */
template <int M, int N, int K, int Y, int X, int GROUPS> struct tile {
  enum {
    ROWS = M,
    COLS = N,
    DEPTH = K,
    HEIGHT = Y,
    WIDTH = X,
    TEAMS = GROUPS,
    SPAN = GROUPS > 1 ? 32 : K,
    EACH = M / Y * (N / X),
    THREADS = EACH * GROUPS,
    A_LD = M + 4,
    B_LD = N + 4,
    STAGE = K * (A_LD + B_LD),
    BATCH = 2 * STAGE / (GROUPS * N) < M ? 32 : M, /* rows of which the groups' sums have room at once */
    SUMS = GROUPS > 1 ? GROUPS * BATCH * N : 0,
    BLOCKS = GROUPS > 1 ? 2 : 1, /* registers for so many on a multiprocessor */
    WORDS = 2 * STAGE > SUMS ? 2 * STAGE : SUMS,
    BYTES = 4 * WORDS
  };
};
typedef tile<32, 32, 64, 4, 4, 4> small_tile;
typedef tile<64, 64, 32, 8, 8, 4> crowd_tile; /* of many runs: the same sums as in small tiles, with fewer loads */
typedef tile<64, 64, 16, 4, 4, 1> middle_tile;
typedef tile<128, 128, 16, 8, 8, 1> large_tile;

/* Row (or column) i of a tile that the i-th number of a thread is: four in a row, then the next four further on. */
template <int SIZE, int PART> static __device__ inline int spread(int thread, int i)
{
  return thread * 4 + i / 4 * (SIZE / (PART / 4)) + i % 4;
}

/* c times a product, b times a number of the matrix, and a on the diagonal: a step of Newton-Schulz */
static __device__ inline float polynomial(const float *coefficient, float product, float number, int on_diagonal)
{
  float value = coefficient[2] * product;
  if (coefficient[1] != 0) value += coefficient[1] * number;
  return on_diagonal ? value + coefficient[0] : value;
}

/* The run's coefficients, if there are any. */
static __device__ inline const float *in_run(const float *coefficients, size_t stride)
{
  return coefficients ? (const float *)((const char *)coefficients + blockIdx.z * stride) : NULL;
}

/* Sum number (i, j) goes to its place. */
static __device__ inline void finish(const struct tiled_product &p, float *c, const float *a, long i, long j,
                                     float sum)
{
  if (i >= p.m || j >= p.n || (p.symmetric && j > i)) return;
  float value = p.alpha * sum;
  if (p.symmetric) {
    const float *coefficient = in_run(p.diagonal, p.c.stride);
    if (coefficient)
      value = polynomial(coefficient, sum, a[i * p.a.ld + j], i == j);
    else if (p.beta != 0)
      value += p.beta * a[i * p.a.ld + j];
    c[j * p.c.ld + i] = value;
  }
  if (p.add)
    value += c[i * p.c.ld + j];
  else if (p.d.data)
    value += p.d.at(i, j);
  c[i * p.c.ld + j] = value;
}

/* What of a product is this block's: where its tile begins, and the matrices. */
struct share {
  long row, col;
  const float *a, *b;
  float *c;
};
template <class T> static __device__ inline struct share share_of(const struct tiled_product &p)
{
  long across = (p.n + T::COLS - 1) / T::COLS;
  return {blockIdx.x / across * T::ROWS, blockIdx.x % across * T::COLS, p.a.base() + blockIdx.y * p.next_a,
          p.b.base() + blockIdx.y * p.next_b, p.c.base() + blockIdx.y * p.next_c};
}

template <class T, bool WIDE>
static __global__ void __launch_bounds__(T::THREADS, T::BLOCKS)
  product_kernel(struct guarded guard, struct tiled_product p)
{
  DYNAMIC_SHARED(float, shared);
  const struct share own = share_of<T>(p);
  const long row = own.row, col = own.col;
  if (p.symmetric && col > row) return; /* the whole block */
  const int team = threadIdx.x / T::EACH, me = threadIdx.x % T::EACH;
  const int y = me / (T::COLS / T::WIDTH), x = me % (T::COLS / T::WIDTH);
  float sum[T::HEIGHT][T::WIDTH] = {};
  carrier<T::ROWS, T::DEPTH, T::THREADS, 0, WIDE, 2> a;
  carrier<T::COLS, T::DEPTH, T::THREADS, 0, WIDE, 2> b;
  a.begin(own.a, p.a.ld, p.ta, row, p.m);
  b.begin(own.b, p.b.ld, !p.tb, col, p.n);
  auto store = [&](float *to) {
    a.template store<T::A_LD>(to);
    b.template store<T::B_LD>(to + T::DEPTH * T::A_LD);
  };

  int depth = (int)p.k; /* that is left */
  a.fetch(depth), b.fetch(depth); /* under way while the guard comes */
  if (guard.off()) return;
  store(shared);
  __syncthreads();
  for (int turn = 0; depth > 0; turn ^= 1) {
    const float *as = shared + turn * T::STAGE, *bs = as + T::DEPTH * T::A_LD;
    const int here = depth;
    depth -= T::DEPTH;
    if (depth > 0) a.fetch(depth), b.fetch(depth);
    UNROLL
    for (int span = 0; span < T::DEPTH; span += T::SPAN) {
      if (span > 0 && span >= here) break;
      UNROLL
      for (int i = 0; i < T::SPAN / T::TEAMS; i++) {
        const int k = span + team * (T::SPAN / T::TEAMS) + i;
        float left[T::HEIGHT], right[T::WIDTH];
        UNROLL
        for (int j = 0; j < T::HEIGHT; j += 4) {
          const float4 four = *(const float4 *)&as[k * T::A_LD + spread<T::ROWS, T::HEIGHT>(y, j)];
          left[j] = four.x, left[j + 1] = four.y, left[j + 2] = four.z, left[j + 3] = four.w;
        }
        UNROLL
        for (int j = 0; j < T::WIDTH; j += 4) {
          const float4 four = *(const float4 *)&bs[k * T::B_LD + spread<T::COLS, T::WIDTH>(x, j)];
          right[j] = four.x, right[j + 1] = four.y, right[j + 2] = four.z, right[j + 3] = four.w;
        }
        UNROLL
        for (int h = 0; h < T::HEIGHT; h++) UNROLL
        for (int j = 0; j < T::WIDTH; j++) sum[h][j] = fmaf(left[h], right[j], sum[h][j]);
      }
    }
    /* the other pair was last read before the barrier that let this one in */
    if (depth > 0) store(shared + (turn ^ 1) * T::STAGE);
    __syncthreads();
  }
  if constexpr (T::TEAMS > 1) { /* all teams add their sums, row by row of the tile */
    UNROLL
    for (int from = 0; from < T::ROWS; from += T::BATCH) {
      if (from > 0) __syncthreads(); /* those before have been added */
      UNROLL
      for (int i = 0; i < T::HEIGHT * T::WIDTH; i++) {
        const int to = spread<T::ROWS, T::HEIGHT>(y, i / T::WIDTH) - from;
        if (to >= 0 && to < T::BATCH)
          shared[(team * T::BATCH + to) * T::COLS + spread<T::COLS, T::WIDTH>(x, i % T::WIDTH)] =
            sum[i / T::WIDTH][i % T::WIDTH];
      }
      __syncthreads();
      UNROLL
      for (int e = threadIdx.x; e < T::BATCH * T::COLS; e += T::THREADS) {
        float all = shared[e];
        UNROLL
        for (int t = 1; t < T::TEAMS; t++) all += shared[t * T::BATCH * T::COLS + e];
        finish(p, own.c, own.a, row + from + e / T::COLS, col + e % T::COLS, all);
      }
    }
  } else {
    UNROLL
    for (int i = 0; i < T::HEIGHT; i++) UNROLL
    for (int j = 0; j < T::WIDTH; j++)
      finish(p, own.c, own.a, row + spread<T::ROWS, T::HEIGHT>(y, i), col + spread<T::COLS, T::WIDTH>(x, j),
             sum[i][j]);
  }
}

/* --- on tensor cores ---------------------------------------------------------------------------------------------- */

/* Tiles of MxN, DOWN x ACROSS warps share them; WORDS along k at a time; registers of AT_ONCE blocks find room. Rows of
   words lie 4 apart: then the lanes of `add_product` meet 32 banks. */
template <int M, int N, int DOWN, int ACROSS, int AT_ONCE> struct core_tile {
  enum {
    ROWS = M,
    COLS = N,
    BESIDE = ACROSS,
    BLOCKS = AT_ONCE,
    HEIGHT = M / DOWN,
    WIDTH = N / ACROSS,
    THREADS = 32 * DOWN * ACROSS,
    WORDS = 16,
    LD = WORDS + 4,
    STAGE = (M + N) * LD,
    BYTES = 4 * 2 * STAGE
  };
};
typedef core_tile<32, 32, 2, 2, 5> small_core_tile;
typedef core_tile<64, 64, 2, 2, 2> middle_core_tile;
typedef core_tile<128, 128, 2, 4, 1> large_core_tile;

/* WIDE, TA, TB: see `carrier`; TB of b as a tile's rows. */
template <class T, int PER, bool WIDE, int TA, int TB>
static __device__ __forceinline__ void core_product(const struct guarded &guard, const struct tiled_product &p)
{
  DYNAMIC_SHARED(unsigned, shared);
  const struct share own = share_of<T>(p);
  const long row = own.row, col = own.col;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int up = warp / T::BESIDE * T::HEIGHT, left = warp % T::BESIDE * T::WIDTH;
  enum { DEPTH = T::WORDS * PER };
  float sum[T::HEIGHT / 16][T::WIDTH / 8][4] = {};
  carrier<T::ROWS, DEPTH, T::THREADS, PER, WIDE, TA> a;
  carrier<T::COLS, DEPTH, T::THREADS, PER, WIDE, TB> b;
  a.begin(own.a, p.a.ld, p.ta, row, p.m);
  b.begin(own.b, p.b.ld, !p.tb, col, p.n);
  auto store = [&](unsigned *to) {
    a.template store<T::LD>(to);
    b.template store<T::LD>(to + T::ROWS * T::LD);
  };

  int depth = (int)p.k; /* that is left */
  a.fetch(depth), b.fetch(depth); /* under way while the guard comes */
  if (guard.off()) return;
  store(shared);
  __syncthreads();
  for (int turn = 0; depth > 0; turn ^= 1) {
    const unsigned *as = shared + turn * T::STAGE + (up + lane % 16) * T::LD + lane / 16 * 4,
                   *bs = shared + turn * T::STAGE + (T::ROWS + left + lane / 16 * 8 + lane % 8) * T::LD +
                         lane / 8 % 2 * 4;
    depth -= DEPTH;
    if (depth > 0) a.fetch(depth), b.fetch(depth);
    UNROLL
    for (int w = 0; w < T::WORDS; w += 8) {
      unsigned x[T::HEIGHT / 16][4], y[4];
      UNROLL
      for (int i = 0; i < T::HEIGHT / 16; i++) load_words(x[i], as + 16 * i * T::LD + w);
      UNROLL
      for (int j = 0; j < T::WIDTH / 8; j++) {
        if (j % 2 == 0) load_words(y, bs + 8 * j * T::LD + w); /* of two columns of eight */
        UNROLL
        for (int i = 0; i < T::HEIGHT / 16; i++)
          add_product<PER>(sum[i][j][0], sum[i][j][1], sum[i][j][2], sum[i][j][3], x[i], y[j % 2 * 2],
                           y[j % 2 * 2 + 1]);
      }
    }
    /* the other stage was last read before the barrier that let this one in */
    if (depth > 0) store(shared + (turn ^ 1) * T::STAGE);
    __syncthreads();
  }
  UNROLL
  for (int i = 0; i < T::HEIGHT / 16; i++) UNROLL
  for (int j = 0; j < T::WIDTH / 8; j++) UNROLL
  for (int k = 0; k < 4; k++)
    finish(p, own.c, own.a, row + up + lane / 4 + 16 * i + k / 2 * 8, col + left + 8 * j + lane % 4 * 2 + k % 2,
           sum[i][j][k]);
}

/* The loop is there once for each way in which large matrices lie. */
template <class T, int PER>
static __global__ void __launch_bounds__(T::THREADS, T::BLOCKS)
  core_product_kernel(struct guarded guard, struct tiled_product p)
{
  if (p.symmetric && share_of<T>(p).col > share_of<T>(p).row) return; /* the whole block */
  if (!p.wide || (p.ta && p.tb))
    core_product<T, PER, false, 2, 2>(guard, p);
  else if (p.ta)
    core_product<T, PER, true, 1, 1>(guard, p);
  else if (p.tb)
    core_product<T, PER, true, 0, 0>(guard, p);
  else
    core_product<T, PER, true, 0, 1>(guard, p);
}

/* --- which tile --------------------------------------------------------------------------------------------------- */

template <class T> static dim3 grid_of(const struct queue &q, const struct tiled_product &p)
{
  return dim3((unsigned)(ceil_div(p.m, T::ROWS) * ceil_div(p.n, T::COLS)), (unsigned)p.batch, q.runs);
}

static int on_units(const struct queue &q, const struct tiled_product &p)
{
  return p.full || q.device->math == MATH_FP32;
}

template <class T, bool WIDE> static void launch_product(const struct queue &q, const struct tiled_product &p)
{
  static_assert((int)T::BYTES <= (int)SHARED_GIVEN, "");
  LAUNCH((product_kernel<T, WIDE>), grid_of<T>(q, p), T::THREADS, T::BYTES, q.stream, q.guard, p);
}

template <class T> static void launch_core_product(const struct queue &q, const struct tiled_product &p)
{
  static_assert((int)T::BYTES <= (int)SHARED_GIVEN, "");
  if (q.device->math == MATH_BF16)
    LAUNCH((core_product_kernel<T, 2>), grid_of<T>(q, p), T::THREADS, T::BYTES, q.stream, q.guard, p);
  else
    LAUNCH((core_product_kernel<T, 1>), grid_of<T>(q, p), T::THREADS, T::BYTES, q.stream, q.guard, p);
}

/* UNITS: of fused multiply-adds */
template <class UNITS, class CORES>
static void launch_tile(const struct queue &q, const struct tiled_product &p)
{
  if (!on_units(q, p))
    launch_core_product<CORES>(q, p);
  else if (p.wide)
    launch_product<UNITS, true>(q, p);
  else
    launch_product<UNITS, false>(q, p);
}

#ifndef TILES_THAT_FILL
#define TILES_THAT_FILL 128 /* about as many as a GPU has multiprocessors */
#endif
#ifndef ENOUGH_FOR_CROWDS
#define ENOUGH_FOR_CROWDS (4 * TILES_THAT_FILL) /* tiles of all runs; small tiles have the same sums */
#endif

static long tiles_of(const struct tiled_product *p, long size)
{
  return ceil_div(p->m, size) * ceil_div(p->n, size) * p->batch;
}

static void multiply_by(const struct queue &q, struct tiled_product p)
{
  REQUIRE(p.k <= INT_MAX);
  const int units = on_units(q, p), words = q.device->math == MATH_BF16 ? 32 : 16;
  p.wide = is_wide(p.a, p.ta, p.m, p.k, p.next_a) && is_wide(p.b, !p.tb, p.n, p.k, p.next_b) &&
           (units || p.k % words == 0);
  if (tiles_of(&p, large_tile::ROWS) >= TILES_THAT_FILL)
    launch_tile<large_tile, large_core_tile>(q, p);
  else if (tiles_of(&p, middle_tile::ROWS) >= TILES_THAT_FILL)
    launch_tile<middle_tile, middle_core_tile>(q, p);
  else if (units && p.wide && tiles_of(&p, crowd_tile::ROWS) * q.runs >= ENOUGH_FOR_CROWDS)
    launch_product<crowd_tile, true>(q, p);
  else
    launch_tile<small_tile, small_core_tile>(q, p);
}

/* --- operations --------------------------------------------------------------------------------------------------- */

#ifndef WORTH_A_LIBRARY
#define WORTH_A_LIBRARY (256. * 1024 * 1024) /* multiplications and additions */
#endif
#define WORTH_OF_LANES (WORTH_A_LIBRARY / 4) /* of Newton-Schulz, whose own kernels have half of a symmetric product to do */

/* The library, where so many products of numbers are worth its launch. */
static const struct cuda_blas *library_for(const struct device *device, double products, double worth)
{
  return products >= worth ? ((const struct cuda_launch *)device->private_state)->blas : NULL;
}

static double products_of(long m, long n, long k) { return (double)m * (double)n * (double)k; }

/* The library's part of p, without what `finish` does; 0: it refuses. narrow: see struct cuda_product. */
static int multiply_by_library(const struct cuda_blas *blas, struct device *device, const struct tiled_product *p,
                               float beta, enum device_math math, void *narrow)
{
  const struct cuda_product call = {
    p->a.data, p->b.data, p->c.data, p->m, p->n, p->k, p->a.ld, p->b.ld, p->c.ld, p->ta, p->tb, p->alpha, beta,
    device->runs, device->stride, math, narrow, p->batch, p->next_a, p->next_b, p->next_c};
  return !blas->product(blas->handle, device->stream, &call);
}

static int by_library(struct device *device, const struct tiled_product *p, const struct matmul_args *x)
{
  const struct cuda_blas *blas = library_for(device, products_of(p->m, p->n, p->k), WORTH_A_LIBRARY);
  const enum device_math math = p->full ? MATH_FP32 : device->math;
  if (!blas || device->guard) return 0; /* it knows no guard */
  if (x->d) {
    struct copy_args before = {};
    before.y = x->c, before.x = x->d;
    device->ops.copy(device, &before);
  }
  void *narrow = math == MATH_BF16 ? device_scratch(device, cuda_narrow_bytes(1, p->m, p->n, p->k)) : NULL;
  return multiply_by_library(blas, device, p, p->add || x->d, math, narrow);
}

/* "c [+]= a b^T (ta=0,tb=1 is x W^T), plus d [m,n] if it is there (never with add); a [m,k] or, ta=1, [k,m]; b [k,n]
   or, tb=1, [n,k]" */
static size_t matmul_scratch(const struct device *device, const void *args)
{
  const struct matmul_args *x = (const struct matmul_args *)args;
  const long m = x->c->rows, n = x->c->cols, k = x->ta ? x->a->rows : x->a->cols;
  if (!library_for(device, products_of(m, n, k), WORTH_A_LIBRARY)) return 0;
  return device->math == MATH_BF16 ? cuda_narrow_bytes(1, m, n, k)
                                   : 1; /* its work space is one for all, as scratch is */
}
static void matmul(struct device *device, const struct matmul_args *x)
{
  struct tiled_product p = {};
  p.a = VIEW(x->a), p.b = VIEW(x->b), p.c = VIEW(x->c), p.d = VIEW(x->d);
  p.m = x->c->rows, p.n = x->c->cols, p.k = x->ta ? x->a->rows : x->a->cols;
  p.ta = x->ta != 0, p.tb = x->tb != 0, p.add = x->add != 0, p.alpha = (float)x->alpha, p.batch = 1;
  p.full = x->full != 0;
  if (!by_library(device, &p, x)) multiply_by(queue_of(device), p);
}

/* "c [m,m] = alpha a a^T + beta a or, ta=1, alpha a^T a; beta only where a [m,m] is symmetric; c exactly symmetric" */
static void gram(struct device *device, const struct gram_args *x)
{
  struct tiled_product p = {};
  p.a = p.b = VIEW(x->a), p.c = VIEW(x->c);
  p.m = p.n = x->c->rows, p.k = x->ta ? x->a->rows : x->a->cols, p.symmetric = 1, p.batch = 1;
  p.ta = x->ta != 0, p.tb = !x->ta;
  p.alpha = (float)x->alpha, p.beta = (float)x->beta;
  multiply_by(queue_of(device), p);
}

/* "c [m,m] = a b where that is symmetric" */
static void symmetric_product(struct device *device, const struct symmetric_product_args *x)
{
  struct tiled_product p = {};
  p.a = VIEW(x->a), p.b = VIEW(x->b), p.c = VIEW(x->c);
  p.m = p.n = p.k = x->c->rows, p.symmetric = 1, p.batch = 1, p.alpha = 1;
  multiply_by(queue_of(device), p);
}

struct heads_product_each {
  view y, x, w, gain;
  long from, to;
  int transposed;
  enum device_math math;
  __device__ void operator()(long n, long c) const
  {
    long h = c / to, i = c - h * to;
    const float *in = x.row(n) + h * from;
    float sum = 0;
    for (long j = 0; j < from; j++) {
      float left = gain.data ? in[j] * gain.base()[j] : in[j],
            right = transposed ? w.at(c, j) : w.at(h * from + j, i);
      sum = fmaf(product_input(left, math), product_input(right, math), sum);
    }
    y.at(n, c) = sum;
  }
};
/* "per head h: y_h = (x_h * gain) w_h, w_h the rows h of w [heads*I, O]; transposed=1: y_h = (x_h * gain) w_h^T, w_h
   the rows h of w [heads*O, I]; gain [I], or absent (1)" */
static void heads_product(struct device *device, const struct heads_product_args *x)
{
  each(device, x->y->rows, x->y->cols,
       heads_product_each{VIEW(x->y), VIEW(x->x), VIEW(x->w), VIEW(x->gain), x->x->cols / x->heads,
                          x->y->cols / x->heads, x->transposed != 0, device->math});
}

/* --- Newton-Schulz ------------------------------------------------------------------------------------------------ */
/* "the matrix [rows, cols] at each x[place[i]], lying row by row, with X it or, where rows > cols, its transpose: X /=
   norm_scale |X| + eps; `steps` times X = a X + (b A + c A A) X, A = X X^T, with the row a | b | c of coefficients
   (the last is repeated); X *= scale by. The first `first` steps, then every `then` more, are made on R = X X^T and Q = 1:
   H = a + b R + c R R, Q = Q H, R = R H H, then X = Q X. Zero stays zero; what is not finite is NaN everywhere." Small
   matrices are a block each, and all one launch. Of larger ones all places (as many as work has lanes) in all runs are one
   launch a product. */

struct cuda_schulz {
  view x, work, by;
  ints place;
  long first, rows, cols, m, n; /* of the places: the first of these lanes; m <= n */
  double norm_scale, eps, scale;
  __device__ float *lane_of(long i) const { return work.row(i); }
  __device__ float *matrix(long i) const { return x.base() + place.base()[first + i]; }
};

/* By what X is multiplied first; an infinite norm would hide finite entries: NaN shows them. */
static __device__ inline double schulz_factor(const struct cuda_schulz &s, double squares)
{
  const float size = (float)sqrt(squares);
  const double divisor = s.norm_scale * (double)size + s.eps;
  return isfinite(size) ? divisor > 0 ? 1 / divisor : 1 : NAN;
}

/* Of large matrices a team has so many numbers: of one at a time, so that all of the device has something to do. */
enum { SCHULZ_PART = 8192 };

struct schulz_squares {
  struct cuda_schulz s;
  long parts;
  view_of<double> sum;
  __device__ void operator()(long i) const
  {
    const float *from = s.matrix(i / parts);
    const long first = i % parts * SCHULZ_PART, last = s.m * s.n - first;
    double squares = 0;
    UNROLL_BY(4)
    for (long j = lane(); j < last && j < SCHULZ_PART; j += team())
      squares += (double)from[first + j] * (double)from[first + j];
    squares = team_sum(squares);
    if (lane() == 0) sum.at(0, i) = squares;
  }
};

struct schulz_begin {
  struct cuda_schulz s;
  long parts;
  view_of<double> sum;
  __device__ void operator()(long i) const
  {
    const long matrix = i / parts, first = i % parts * SCHULZ_PART, end = first + SCHULZ_PART;
    const float *from = s.matrix(matrix);
    float *to = s.lane_of(matrix);
    double squares = 0;
    for (long k = lane(); k < parts; k += team()) squares += sum.at(0, matrix * parts + k);
    const double by = schulz_factor(s, team_sum(squares));
    for (long j = first + lane(); j < s.m * s.n && j < end; j += team()) {
      unsigned r = (unsigned)j / (unsigned)s.n, c = (unsigned)j - r * (unsigned)s.n;
      to[j] = (float)(by * (double)from[s.rows > s.cols ? c * s.cols + r : j]);
    }
  }
};

struct schulz_end {
  struct cuda_schulz s;
  int turn; /* where X lies */
  __device__ void operator()(long i, long j) const
  {
    const float *from = s.lane_of(i) + turn * s.m * s.n;
    long r = j / s.cols, c = j - r * s.cols;
    double factor = s.scale * number(s.by);
    s.matrix(i)[j] = (float)(factor * (double)from[s.rows > s.cols ? c * s.n + r : j]);
  }
};

/* --- the whole of it in a block's shared memory, in single precision: X [m,n], R [m,m], and where steps are made on R, Q and H
   beside it; else Q takes R's place. A thread has a tile of 4 x 4, of rows that lie a quarter of all apart: neighbouring
   lanes read neighbouring rows by 128 bits, which an odd number of such words in a row puts into different banks. Sums are
   of fused multiply-adds in the order of k; what pads a matrix to fours is zero, and adds nothing. */

enum { SCHULZ_MOST = 64, WORKERS = 256 }; /* rows: 16 x 16 tiles; of more, registers would not hold theirs */

/* Numbers that a row of n takes. */
static __host__ __device__ inline int odd_fours(int n) { return ((n + 3) / 4 | 1) * 4; }

static size_t schulz_bytes(long m, long n, int on_gram)
{
  return sizeof(float) * (size_t)((m + 3) / 4 * 4) *
         (size_t)(odd_fours((int)n) + (on_gram ? 3 : 1) * odd_fours((int)m));
}

/* sum [4,4] = four rows of y times four of z, each `apart` from the one before; four at a time along k */
static __device__ __forceinline__ void rows_by_rows(float sum[4][4], const float *y, const float *z, int ld,
                                                    int apart, int fours)
{
  UNROLL
  for (int i = 0; i < 4; i++) UNROLL
  for (int j = 0; j < 4; j++) sum[i][j] = 0;
  UNROLL_BY(1)
  for (int k = 0; k < fours; k++) {
    float left[4][4], right[4][4];
    UNROLL
    for (int i = 0; i < 4; i++) {
      const float4 u = *(const float4 *)&y[i * apart * ld + 4 * k],
                   v = *(const float4 *)&z[i * apart * ld + 4 * k];
      left[i][0] = u.x, left[i][1] = u.y, left[i][2] = u.z, left[i][3] = u.w;
      right[i][0] = v.x, right[i][1] = v.y, right[i][2] = v.z, right[i][3] = v.w;
    }
    UNROLL
    for (int l = 0; l < 4; l++) UNROLL
    for (int i = 0; i < 4; i++) UNROLL
    for (int j = 0; j < 4; j++) sum[i][j] = fmaf(left[i][l], right[j][l], sum[i][j]);
  }
}

/* `to` = y z^T, which is symmetric, over what the block has read; with coefficients a | b | c: a + b r + c y z^T. */
static __device__ __forceinline__ void symmetric_in_block(float *to, const float *y, const float *z, int ld,
                                                          int fours, int down, int to_ld, const float *r,
                                                          const float *factor)
{
  const int i = threadIdx.x / down, j = threadIdx.x % down;
  float sum[4][4];
  if (i < down) rows_by_rows(sum, y + i * ld, z + j * ld, ld, down, fours);
  __syncthreads(); /* y and z have been read */
  UNROLL
  for (int q = 0; q < 16; q++) {
    const int row = i + q / 4 * down, column = j + q % 4 * down;
    if (i >= down || row < column) continue;
    float value = sum[q / 4][q % 4];
    if (factor) {
      value = factor[2] * value;
      value += factor[1] * r[row * to_ld + column];
      if (row == column) value += factor[0];
    }
    to[row * to_ld + column] = to[column * to_ld + row] = value;
  }
  __syncthreads(); /* it is there */
}

struct schulz_steps {
  long steps, first, then;
};

static __global__ void __launch_bounds__(WORKERS, 2)
  schulz_kernel(struct guarded guard, struct cuda_schulz s, view coefficients, struct schulz_steps plan)
{
  DYNAMIC_SHARED(float, x);
  if (guard.off()) return;
  const int m = (int)s.m, n = (int)s.n, down = (m + 3) / 4, across = (n + 3) / 4, me = threadIdx.x;
  const int x_ld = odd_fours(n), r_ld = odd_fours(m), columns = (int)s.cols, tall = s.rows > s.cols;
  const int on_gram = plan.first > 1 || plan.then > 1;
  float *r = x + 4 * down * x_ld, *q = r + (on_gram ? 4 * down * r_ld : 0), *h = q + 4 * down * r_ld,
        *matrix = s.matrix(blockIdx.x);
  double squares = 0;
  for (int e = me; e < m * n; e += WORKERS) squares += (double)matrix[e] * (double)matrix[e];
  const double by = schulz_factor(s, block_sum(squares));
  for (int e = me; e < 4 * down * x_ld; e += WORKERS) x[e] = 0;
  __syncthreads();
  for (int e = me; e < m * n; e += WORKERS) {
    const int row = e / columns, column = e - row * columns;
    x[tall ? column * x_ld + row : row * x_ld + column] = (float)(by * (double)matrix[e]);
  }
  __syncthreads();                  /* X is there */
  const int panel = WORKERS / down; /* columns, by four, of which each thread has a tile */
  for (long step = 0, more; step < plan.steps; step += more) {
    more = step ? plan.then : plan.first;
    more = more < plan.steps - step ? more : plan.steps - step;
    symmetric_in_block(r, x, x, x_ld, across, down, r_ld, NULL, NULL);
    for (long i = 0; i < more; i++) {
      const float *factor = coefficients.row(step + i < coefficients.rows ? step + i : coefficients.rows - 1);
      float *now = i ? h : q;
      UNROLL_BY(1)
      for (int part = 0; part < 4; part++) { /* H of R; R = R H, and once more; Q = Q H */
        if ((part == 1 || part == 2) && i + 1 == more) continue;
        if (part == 3 && i == 0) continue;
        float *to = part == 0 ? now : part == 3 ? q : r;
        symmetric_in_block(to, part == 3 ? q : r, part == 0 ? r : now, r_ld, down, down, r_ld, r,
                           part == 0 ? factor : NULL);
      }
    }
    for (int first = 0; first < across; first += panel) { /* X = Q X: columns need no others */
      const int i = me / panel, j = 4 * (first + me % panel), mine = i < down && j < 4 * across;
      float next[4][4] = {};
      UNROLL_BY(1)
      for (int k = 0; k < down && mine; k++) {
        float left[4][4], right[4][4];
        UNROLL
        for (int l = 0; l < 4; l++) {
          const float4 u = *(const float4 *)&q[(i + l * down) * r_ld + 4 * k],
                       v = *(const float4 *)&x[(4 * k + l) * x_ld + j];
          left[l][0] = u.x, left[l][1] = u.y, left[l][2] = u.z, left[l][3] = u.w;
          right[l][0] = v.x, right[l][1] = v.y, right[l][2] = v.z, right[l][3] = v.w;
        }
        UNROLL
        for (int l = 0; l < 4; l++) UNROLL
        for (int a = 0; a < 4; a++) UNROLL
        for (int b = 0; b < 4; b++) next[a][b] = fmaf(left[a][l], right[l][b], next[a][b]);
      }
      __syncthreads(); /* these columns have been read */
      for (int a = 0; a < 4 && mine; a++)
        *(float4 *)&x[(i + a * down) * x_ld + j] =
          make_float4(next[a][0], next[a][1], next[a][2], next[a][3]);
    }
    __syncthreads(); /* X is there again */
  }
  const double scale = s.scale * number(s.by);
  for (int e = me; e < m * n; e += WORKERS) {
    const int row = e / columns, column = e - row * columns;
    matrix[e] = (float)(scale * (double)x[tall ? column * x_ld + row : row * x_ld + column]);
  }
}

/* 0: it has no room there, or is for tensor cores. */
static size_t schulz_in_a_block(const struct device *device, const struct newton_schulz_args *x)
{
  const long m = x->rows < x->cols ? x->rows : x->cols, n = x->rows < x->cols ? x->cols : x->rows;
  const size_t bytes = schulz_bytes(m, n, x->first > 1 || x->then > 1);
  return device->math != MATH_FP32 || m > SCHULZ_MOST ||
             bytes > ((const struct cuda_launch *)device->private_state)->shared_bytes
           ? 0
           : bytes;
}

static void schulz_by_blocks(const struct queue &q, const struct cuda_schulz &s, const view &coefficients,
                             long places, const struct newton_schulz_args *x, size_t bytes)
{
  const struct schulz_steps plan = {x->steps, x->first, x->then};
  const dim3 grid((unsigned)places, 1, q.runs);
  ALLOW_SHARED(schulz_kernel, bytes);
  LAUNCH(schulz_kernel, grid, WORKERS, bytes, q.stream, q.guard, s, coefficients, plan);
}

/* Matrices [rows, cols], row by row, at `offset` in every lane of work. */
static view in_lane(const view &work, long offset, long rows, long cols)
{
  view v = {work.data + offset, rows, cols, cols, work.stride};
  return v;
}

/* `finish`, of symmetric products that a library has made. */
struct symmetric_each {
  view c, a;
  long next;
  const float *diagonal;
  __device__ void operator()(long lane, long e) const
  {
    const long i = (unsigned)e / (unsigned)c.cols, j = e - i * c.cols;
    if (j > i) return;
    float *of = c.base() + lane * next, value = of[i * c.ld + j];
    if (const float *coefficient = in_run(diagonal, c.stride))
      value = polynomial(coefficient, value, a.base()[lane * next + i * a.ld + j], i == j);
    of[i * c.ld + j] = of[j * c.ld + i] = value;
  }
};

/* The batch's c = a b^T or, b_turned=0, a b. narrow: see struct cuda_product. */
static void multiply_lanes(const struct queue &q, const struct cuda_schulz &s, const view &c, const view &a,
                           const view &b, int b_turned, int symmetric, const float *diagonal, long batch,
                           void *narrow)
{
  struct tiled_product p = {};
  p.a = a, p.b = b, p.c = c, p.m = c.rows, p.n = c.cols, p.k = a.cols;
  p.tb = b_turned, p.symmetric = symmetric, p.diagonal = diagonal, p.alpha = 1, p.batch = batch;
  p.next_a = p.next_b = p.next_c = s.work.ld;
  /* they lie in work space, which no guard protects */
  const struct cuda_blas *blas = library_for(q.device, (double)batch * products_of(p.m, p.n, p.k), WORTH_OF_LANES);
  if (!blas || !multiply_by_library(blas, q.device, &p, 0, q.device->math, narrow)) {
    multiply_by(q, p);
  } else if (symmetric) {
    const struct guarded always = {};
    struct queue unguarded = q;
    unguarded.guard = always;
    each_in(unguarded, batch, c.rows * c.cols, symmetric_each{c, a, s.work.ld, diagonal});
  }
}

/* Numbers in double for the sums of squares, then room for operands in bf16. */
static long schulz_parts(const struct newton_schulz_args *x) { return ceil_div(x->rows * x->cols, SCHULZ_PART); }
static size_t schulz_sums(const struct newton_schulz_args *x)
{
  const long places = x->place->rows * x->place->cols, lanes = x->work->rows;
  const size_t bytes = sizeof(double) * (size_t)((places < lanes ? places : lanes) * schulz_parts(x));
  return (bytes + 255) / 256 * 256;
}
static size_t newton_schulz_scratch(const struct device *device, const void *args)
{
  const struct newton_schulz_args *x = (const struct newton_schulz_args *)args;
  const long m = x->rows < x->cols ? x->rows : x->cols, n = x->rows < x->cols ? x->cols : x->rows,
             places = x->place->rows * x->place->cols, batch = places < x->work->rows ? places : x->work->rows;
  if (schulz_in_a_block(device, x)) return 0;
  const int narrow = device->math == MATH_BF16 && library_for(device, (double)batch * products_of(m, n, n), WORTH_OF_LANES);
  return schulz_sums(x) + (narrow ? cuda_narrow_bytes(batch, m, m, n) : 0);
}

static void newton_schulz(struct device *device, const struct newton_schulz_args *x)
{
  struct cuda_schulz s = {};
  s.x = VIEW(x->x), s.work = VIEW(x->work), s.by = VIEW(x->by), s.place = INTS_VIEW(x->place);
  s.rows = x->rows, s.cols = x->cols, s.m = x->rows < x->cols ? x->rows : x->cols;
  s.n = x->rows < x->cols ? x->cols : x->rows;
  s.norm_scale = x->norm_scale, s.eps = x->eps, s.scale = x->scale;
  struct queue q = queue_of(device);
  long places = x->place->rows * x->place->cols, lanes = x->work->rows;
  view lane[6]; /* X and the next one; R, Q, H, and room for a product */
  for (long i = 0, at = 0; i < 6; at += lane[i].rows * lane[i].cols, i++)
    lane[i] = in_lane(s.work, at, s.m, i < 2 ? s.n : s.m);
  const view coefficients = VIEW(x->coefficients), &r = lane[2];
  const size_t bytes = schulz_in_a_block(device, x), sums = schulz_sums(x);
  if (bytes) {
    schulz_by_blocks(q, s, coefficients, places, x, bytes);
    return;
  }
  const long parts = schulz_parts(x);
  char *room_for = (char *)device_scratch(device, newton_schulz_scratch(device, x));
  void *narrow = room_for + sums;
  view_of<double> squares = {(double *)room_for, 1, 0, 0, device->stride};
  for (s.first = 0; s.first < places; s.first += lanes) {
    long batch = places - s.first < lanes ? places - s.first : lanes;
    int turn = 0, at = 3, room = 5; /* where X and Q lie, and what neither does */
    each_row(device, batch * parts, s.m * s.n, schulz_squares{s, parts, squares});
    each_row(device, batch * parts, s.m * s.n, schulz_begin{s, parts, squares});
    for (long step = 0, more; step < x->steps; step += more, turn ^= 1) {
      more = newton_schulz_run(x, step);
      multiply_lanes(q, s, r, lane[turn], lane[turn], 1, 1, NULL, batch, narrow);
      for (long i = 0; i < more; i++) {
        long row = step + i < coefficients.rows ? step + i : coefficients.rows - 1;
        const view &h = lane[i ? 4 : at];
        multiply_lanes(q, s, h, r, r, 1, 1, coefficients.data + row * coefficients.ld, batch,
                       narrow);
        if (i + 1 < more) {
          multiply_lanes(q, s, lane[room], r, h, 0, 1, NULL, batch, narrow);
          multiply_lanes(q, s, r, lane[room], h, 0, 1, NULL, batch, narrow);
        }
        if (i == 0) continue;
        multiply_lanes(q, s, lane[room], lane[at], h, 0, 1, NULL, batch, narrow);
        int was = at;
        at = room, room = was;
      }
      multiply_lanes(q, s, lane[turn ^ 1], lane[at], lane[turn], 0, 0, NULL, batch, narrow);
    }
    each(device, batch, s.rows * s.cols, schulz_end{s, turn});
  }
}

extern "C" void ops_cuda_product(struct ops *ops)
{
  ops->matmul = matmul;
  ops->gram = gram;
  ops->symmetric_product = symmetric_product;
  ops->heads_product = heads_product;
  ops->newton_schulz = newton_schulz;
  ops->scratch[OP_matmul] = matmul_scratch;
  ops->scratch[OP_newton_schulz] = newton_schulz_scratch;
}
