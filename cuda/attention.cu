/* attention.cu - attention and its reverse, tile by tile; definitions: ops.def, ref/attention.c
   A block has SIDE rows (of queries, or of keys) of one head and goes through the other side in tiles of SIDE.
   Scores are made in registers and become weights, which multiply rows of values (forward), of keys (dq), of
   queries (dk) or of do (dv). So each gradient has one owner, and no sum has atomics. Maxima meet in codes whose
   order is that of the floats, NaN above all: lanes, block, then one atomic maximum a block.
   Who multiplies: by_units, fused multiply-adds in single precision; by_cores, tensor cores, where device.math is
   tf32 or bf16, the result is at most 128 wide, and the tiles fit into shared memory (SHARED_MOST): with tf32 heads
   of 128 x 128 do, just so. With tf32 or bf16 every input of a product is rounded first (q, k, v,
   do, the weights p and ds), whoever multiplies. */
#include "cuda/score.h"
#include "cuda/tensor_core.h"
#include <limits.h>

enum { SIDE = 64, LOOK_THREADS = 256 };
/* QUIET: forward without maxima and entropy, to measure what they cost */
enum way { FORWARD, QUIET, TO_Q, TO_K, TO_V };

struct cuda_attention {
  view q, k, v, o, do_, ml, stats, to; /* to: the gradient that is made */
  ints start, end;                     /* end: without data where every row sees up to itself */
  view_of<double> entropy;             /* [heads, tiles * batch] */
  view through;                        /* do.o [N, heads] */
  long batch, heads, groups, length, tiles;
  int dim, value_dim, cap;
  float scale;
  view limit; /* of the cap */
  enum number_format format;
  enum device_math math;
};

/* Some rows of a tensor, from column `at` on; beyond the last is nothing. */
struct cuda_rows {
  const float *data;
  int ld, count;
};
static __device__ inline struct cuda_rows rows_of(const view &t, long first, long count, long at)
{
  struct cuda_rows r = {t.row(first) + at, (int)t.ld, (int)(count < SIDE ? count : (long)SIDE)};
  return r;
}

/* What is to be known of a query: which keys it sees, beyond the last query none; for the reverse pass m, 1 / l
   and do.o. */
struct query {
  float m, by, through;
  int first, end;
};

/* What the kernel wants of who multiplies: a thread has ROWS x COLS of a tile's scores, those of row(i) and
   column(j), and SUMS of a row's sums, those of sum_column(c); SHARE neighbouring lanes have a row.
   keep: the block's own rows, side 0 and 1; scores: s = own[side] y^T; gather: sum += w y. put and query_at: the
   queries of a tile, where the block has keys; a barrier of `scores` is between them. */

/* --- fused multiply-adds: chunks of both sides go through shared memory, and so do weights ------------------- */
template <int EACH> struct by_units {
  enum {
    CHUNK = 32,
    LD = SIDE + 4,
    THREADS = 256,
    ROWS = 4,
    COLS = 4,
    SUMS = EACH,
    BLOCKS = EACH <= 2 ? 2 : 1, /* on a multiprocessor at once; a few registers are spilt for it */
    SHARE = 16,
    Y_LD = 16 * EACH + 4
  };
  struct query *queries;    /* [SIDE] */
  float *xs, *ys, *ws, *zs; /* zs [CHUNK, Y_LD] */
  struct cuda_rows own[2];
  enum device_math math;

  static constexpr size_t bytes(int, int, int)
  {
    return SIDE * sizeof(struct query) + sizeof(float) * (2 * CHUNK * LD + SIDE * LD + CHUNK * Y_LD);
  }
  __device__ __forceinline__ by_units(float *shared, const struct cuda_attention &x, int)
  {
    queries = (struct query *)shared;
    xs = (float *)(queries + SIDE), ys = xs + CHUNK * LD, ws = ys + CHUNK * LD, zs = ws + SIDE * LD;
    math = x.math;
  }
  static __device__ int row(int i) { return threadIdx.x / 16 * 4 + i; }
  static __device__ int column(int j) { return threadIdx.x % 16 * 4 + j; }
  /* by fours where there are so many */
  static __device__ int sum_column(int c)
  {
    const int by = EACH < 4 ? EACH : 4;
    return c / by * 16 * by + (int)(threadIdx.x % 16) * by + c % by;
  }
  __device__ __forceinline__ void keep(int side, struct cuda_rows x, int) { own[side] = x; }
  template <int WAY>
  __device__ __forceinline__ void put(const struct cuda_attention &, int j, const struct query &q)
  {
    queries[j] = q;
  }
  template <int WAY>
  __device__ __forceinline__ struct query query_at(const struct cuda_attention &, int j) const
  {
    return queries[j];
  }

  /* s[i][j] = sum over depth of x[row(i)] y[column(j)], in its order */
  __device__ __forceinline__ void scores(float s[ROWS][COLS], int side, struct cuda_rows y, int depth)
  {
    const struct cuda_rows x = own[side];
    const int warp = threadIdx.x / 32, part = threadIdx.x / 8 % 4, d = threadIdx.x % 8, up = row(0),
              across = column(0);
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < COLS; j++) s[i][j] = 0;
    for (int d0 = 0; d0 < depth; d0 += CHUNK) {
      __syncthreads(); /* the chunk before has been read */
      UNROLL
      for (int l = 0; l < SIDE * CHUNK / THREADS; l++) { /* a warp: 8 columns of 4 rows */
        int block = l * (THREADS / 32) + warp, r = block / 4 * 4 + part, c = block % 4 * 8 + d;
        float left = r < x.count && d0 + c < depth ? x.data[r * x.ld + d0 + c] : 0,
              right = r < y.count && d0 + c < depth ? y.data[r * y.ld + d0 + c] : 0;
        xs[c * LD + r] = product_input(left, math), ys[c * LD + r] = product_input(right, math);
      }
      __syncthreads();
      int end = depth - d0 < CHUNK ? depth - d0 : (int)CHUNK;
      for (int c = 0; c < end; c++) {
        float4 u = *(const float4 *)&xs[c * LD + up], v = *(const float4 *)&ys[c * LD + across];
        float left[4] = {u.x, u.y, u.z, u.w}, right[4] = {v.x, v.y, v.z, v.w};
        UNROLL
        for (int i = 0; i < ROWS; i++) UNROLL
        for (int j = 0; j < COLS; j++) s[i][j] = fmaf(left[i], right[j], s[i][j]);
      }
    }
  }

  /* sum[i][c] += sum over the rows j of y, in their order, of w[row(i)][j] y[j][sum_column(c)] */
  __device__ __forceinline__ void gather(float sum[ROWS][SUMS], const float w[ROWS][COLS], struct cuda_rows y,
                                         int width)
  {
    const int up = row(0);
    /* the weights of the tile before have been read: the barriers of `scores` are behind all */
    UNROLL
    for (int i = 0; i < ROWS; i++)
      *(float4 *)&ws[(up + i) * LD + column(0)] =
        make_float4(product_input(w[i][0], math), product_input(w[i][1], math), product_input(w[i][2], math),
                    product_input(w[i][3], math));
    for (int j0 = 0; j0 < y.count; j0 += CHUNK) {
      __syncthreads(); /* the weights are written, and the chunk before has been read */
      for (int l = threadIdx.x; l < CHUNK * 16 * EACH; l += THREADS) {
        int j = l / (16 * EACH), c = l % (16 * EACH);
        zs[j * Y_LD + c] =
          product_input(j0 + j < y.count && c < width ? y.data[(j0 + j) * y.ld + c] : 0, math);
      }
      __syncthreads();
      for (int j = 0; j < CHUNK; j += 4) {
        float weight[4][4];
        UNROLL
        for (int i = 0; i < 4; i++) {
          float4 four = *(const float4 *)&ws[(up + i) * LD + j0 + j];
          weight[i][0] = four.x, weight[i][1] = four.y, weight[i][2] = four.z, weight[i][3] = four.w;
        }
        UNROLL
        for (int k = 0; k < 4; k++) UNROLL
        for (int c = 0; c < SUMS; c++) {
          float value = zs[(j + k) * Y_LD + sum_column(c)];
          UNROLL
          for (int i = 0; i < ROWS; i++) sum[i][c] = fmaf(weight[i][k], value, sum[i][c]);
        }
      }
    }
  }
};

/* --- tensor cores --------------------------------------------------------------------------------------------- */
/* The block's own rows stay in shared memory, as words; a warp has 16 of them. Of the other side a tile at a time is
   there, as words along its columns for scores, along its rows to be gathered. Weights go from the registers of sums
   to those of inputs: as words of a, lane for lane, they lie as the sums do. */
template <int EACH, int PER> struct by_cores {
  enum {
    THREADS = 128,
    ROWS = 2,
    COLS = 16,
    SUMS = 4 * EACH,
    BLOCKS = 1,
    SHARE = 4,
    WIDTH = 16 * EACH,
    Y_LD = WIDTH + 4 * PER /* lanes meet 32 banks, as they do in rows of words + 4 */
  };
  unsigned *own[2], *other;

  /* of a row in words along its columns, without the 4 that part it from the next */
  static constexpr __host__ __device__ int words(int depth) { return (depth + 8 * PER - 1) / (8 * PER) * 8; }
  static constexpr __host__ __device__ int tile(int depth) { return SIDE * (words(depth) + 4); }
  static constexpr __host__ __device__ int two_sided(int way) { return way == TO_Q || way == TO_K; }
  static constexpr size_t bytes(int way, int dim, int value_dim)
  {
    int other = SIDE / PER * Y_LD, both = two_sided(way) ? tile(value_dim) : 0;
    other = tile(dim) > other ? tile(dim) : other;
    return sizeof(unsigned) * (size_t)(tile(dim) + both + (both > other ? both : other));
  }
  __device__ __forceinline__ by_cores(float *shared, const struct cuda_attention &x, int way)
  {
    own[0] = (unsigned *)shared;
    own[1] = own[0] + tile(x.dim);
    other = own[1] + (two_sided(way) ? tile(x.value_dim) : 0);
  }
  static __device__ int row(int i) { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * i; }
  static __device__ int column(int j) { return j / 2 * 8 + (int)(threadIdx.x % 4) * 2 + j % 2; }
  static __device__ int sum_column(int c) { return column(c); }
  static __device__ float at(const struct cuda_rows &x, int r, int c, int columns)
  {
    return r < x.count && c < columns ? x.data[r * x.ld + c] : 0;
  }
  /* 8 words of 16 rows at a time */
  static __device__ void along_columns(unsigned *to, const struct cuda_rows &x, int depth)
  {
    const int n = words(depth), ld = n + 4;
    for (int w = threadIdx.x % 8; w < n; w += 8) {
      UNROLL_BY(4 / PER)
      for (int l = 0; l < SIDE * 8 / THREADS; l++) {
        const int r = l * (THREADS / 8) + threadIdx.x / 8;
        to[r * ld + w] = word_of<PER>(at(x, r, w * PER, depth), PER > 1 ? at(x, r, w * PER + 1, depth) : 0);
      }
    }
  }
  __device__ __forceinline__ void keep(int side, struct cuda_rows x, int depth)
  {
    along_columns(own[side], x, depth);
  }
  /* A query lies in the 4 words after row j of own[0], and the rest of it after that of own[1]: there is no other room
     beside tiles of 128 x 128 in tf32. */
  __device__ __forceinline__ float *after(int side, int j, int depth) const
  {
    return (float *)(own[side] + j * (words(depth) + 4) + words(depth));
  }
  template <int WAY>
  __device__ __forceinline__ void put(const struct cuda_attention &x, int j, const struct query &q)
  {
    *(float4 *)after(0, j, x.dim) =
      make_float4(q.m, q.by, __uint_as_float((unsigned)q.first), __uint_as_float((unsigned)q.end));
    if (two_sided(WAY)) *after(1, j, x.value_dim) = q.through;
  }
  template <int WAY>
  __device__ __forceinline__ struct query query_at(const struct cuda_attention &x, int j) const
  {
    const float4 four = *(const float4 *)after(0, j, x.dim);
    return {four.x, four.y, two_sided(WAY) ? *after(1, j, x.value_dim) : 0, (int)__float_as_uint(four.z),
            (int)__float_as_uint(four.w)};
  }

  __device__ __forceinline__ void scores(float s[ROWS][COLS], int side, struct cuda_rows y, int depth)
  {
    const int ld = words(depth) + 4, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const unsigned *x = own[side] + row(0) * ld + t, *z = other + g * ld + t;
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < COLS; j++) s[i][j] = 0;
    __syncthreads(); /* the tile before, scored or gathered, has been read */
    along_columns(other, y, depth);
    __syncthreads();
    UNROLL_BY(1)
    for (int w = 0; w < ld - 4; w += 8) {
      const unsigned a[4] = {x[w], x[8 * ld + w], x[w + 4], x[8 * ld + w + 4]};
      UNROLL
      for (int n = 0; n < SIDE / 8; n++)
        add_product<PER>(s[0][2 * n], s[0][2 * n + 1], s[1][2 * n], s[1][2 * n + 1], a, z[n * 8 * ld + w],
                         z[n * 8 * ld + w + 4]);
    }
  }

  __device__ __forceinline__ void gather(float sum[ROWS][SUMS], const float w[ROWS][COLS], struct cuda_rows y,
                                         int width)
  {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    __syncthreads(); /* the tile has been scored */
    UNROLL_BY(4 / PER)
    for (int l = threadIdx.x; l < SIDE / PER * WIDTH; l += THREADS) {
      int r = l / WIDTH, c = l % WIDTH;
      other[r * Y_LD + c] =
        word_of<PER>(at(y, r * PER, c, width), PER > 1 ? at(y, r * PER + 1, c, width) : 0);
    }
    __syncthreads();
    UNROLL
    for (int n = 0; n < SIDE / 8 / PER; n++) { /* 8 words along the rows of y; which is the first, is free */
      const int j = 2 * PER * n;
      const unsigned a[4] = {
        word_of<PER>(w[0][j], w[0][j + 1]), word_of<PER>(w[1][j], w[1][j + 1]),
        PER > 1 ? word_of<PER>(w[0][(j + 2) % COLS], w[0][(j + 3) % COLS]) : word_of<PER>(w[0][j + 1], 0),
        PER > 1 ? word_of<PER>(w[1][(j + 2) % COLS], w[1][(j + 3) % COLS]) : word_of<PER>(w[1][j + 1], 0)};
      const unsigned *b = other + (8 * n + (PER > 1 ? t : 2 * t)) * Y_LD + g;
      UNROLL
      for (int c = 0; c < WIDTH / 8; c++)
        add_product<PER>(sum[0][2 * c], sum[0][2 * c + 1], sum[1][2 * c], sum[1][2 * c + 1], a, b[8 * c],
                         b[(PER > 1 ? 4 : 1) * Y_LD + 8 * c]);
    }
  }
};

/* --- the kernel ------------------------------------------------------------------------------------------------ */

template <int SHARE> static __device__ inline float sum_of_row(float x)
{
  for (int by = SHARE / 2; by; by /= 2) x += __shfl_xor_sync(ALL, x, by);
  return x;
}
template <int SHARE> static __device__ inline float max_of_row(float x)
{
  for (int by = SHARE / 2; by; by /= 2) x = max_nan(x, __shfl_xor_sync(ALL, x, by));
  return x;
}

/* Running softmax of a row, f - m and all: o = sum p v / l, entropy = ln l - e / l with e = sum p (f - m). */
struct running {
  float m, l, e;
};

/* Weights of a row's 64 scores f (`seen` has the bits of this thread's; others get 0) against the new maximum; what
   was summed before is to be multiplied by the result. */
template <int WAY, class BY>
static __device__ __forceinline__ float advance(struct running *r, float f[BY::COLS], unsigned seen)
{
  float top = -INFINITY;
  UNROLL
  for (int j = 0; j < BY::COLS; j++)
    if (seen >> j & 1) top = max_nan(top, f[j]);
  float before = r->m, now = max_nan(before, max_of_row<BY::SHARE>(top)), l = 0, e = 0;
  float base = now == -INFINITY ? 0 : now; /* -inf - -inf would be a NaN too early */
  UNROLL
  for (int j = 0; j < BY::COLS; j++) {
    float under = f[j] - base, p = seen >> j & 1 ? expf(under) : 0;
    l += p;
    if (WAY == FORWARD) e += seen >> j & 1 ? p * under : 0;
    f[j] = p;
  }
  float shrink = r->l == 0 ? 0 : expf(before - base);
  if (WAY == FORWARD && r->l != 0) r->e = shrink * (r->e + (before - base) * r->l);
  r->l = r->l * shrink + sum_of_row<BY::SHARE>(l);
  if (WAY == FORWARD) r->e += sum_of_row<BY::SHARE>(e);
  r->m = now;
  return shrink;
}

/* Does any of the SIDE queries from t0 on see one of the SIDE keys from u0 on? The same for all lanes. */
static __device__ inline int meet(const struct cuda_attention &x, long n0, long t0, long u0)
{
  int any = 0;
  for (int by = 0; by < SIDE; by += 32) {
    const long t = t0 + by + threadIdx.x % 32;
    if (t >= x.length) continue;
    const long first = x.start.base()[n0 + t], end = x.end.data ? x.end.base()[n0 + t] : t + 1;
    any |= first < end && first < u0 + SIDE && end > u0;
  }
  return warp_max(any) > 0;
}

static __device__ inline struct query query_of(const struct cuda_attention &x, int way, long n0, long t,
                                               long h)
{
  struct query q = {0, 0, 0, INT_MAX, 0};
  if (t >= x.length) return q;
  q.first = x.start.base()[n0 + t];
  q.end = x.end.data ? x.end.base()[n0 + t] : (int)t + 1;
  if (way == FORWARD || way == QUIET) return q;
  const float *ml = &x.ml.at(n0 + t, 2 * h);
  q.m = ml[0], q.by = 1 / ml[1], q.through = x.through.at(0, (n0 + t) * x.heads + h);
  return q;
}

template <int WAY, class BY>
static __global__ void __launch_bounds__(BY::THREADS, BY::BLOCKS)
  attention_kernel(struct guarded guard, struct cuda_attention x)
{
  DYNAMIC_SHARED(float, shared);
  if (guard.off()) return;
  BY by(shared, x, WAY);
  const int forward = WAY == FORWARD || WAY == QUIET;
  const int by_key = WAY == TO_K || WAY == TO_V; /* the block has keys, and goes through queries */
  const long shared_by = x.heads / x.groups, sides = by_key ? x.groups : x.heads;
  long tile = blockIdx.x % x.tiles, head = blockIdx.x / x.tiles % sides, b = blockIdx.x / x.tiles / sides;
  if (!by_key) tile = x.tiles - 1 - tile;         /* the longest first */
  const long t0 = tile * SIDE, n0 = b * x.length; /* first of the block's rows; of the sequence */
  const int dim = x.dim, value_dim = x.value_dim, width = forward || WAY == TO_V ? value_dim : dim;
  const float limit = (float)number(x.limit);

  float sum[BY::ROWS][BY::SUMS] = {}, most = -INFINITY, most_abs = 0;
  struct running row[BY::ROWS];
  struct query own[BY::ROWS];
  for (int i = 0; i < BY::ROWS; i++) {
    row[i].m = -INFINITY, row[i].l = row[i].e = 0;
    if (!by_key) own[i] = query_of(x, WAY, n0, t0 + by.row(i), head);
  }
  by.keep(0, rows_of(by_key ? x.k : x.q, n0 + t0, x.length - t0, head * dim), dim);
  if (WAY == TO_Q) by.keep(1, rows_of(x.do_, n0 + t0, x.length - t0, head * value_dim), value_dim);
  if (WAY == TO_K) by.keep(1, rows_of(x.v, n0 + t0, x.length - t0, head * value_dim), value_dim);

  for (long h = by_key ? head * shared_by : head; h < (by_key ? (head + 1) * shared_by : head + 1); h++) {
    const long g = h / shared_by;
    const long end = by_key || x.end.data || t0 + SIDE > x.length ? x.length : t0 + SIDE;
    for (long u0 = by_key && !x.end.data ? t0 : 0; u0 < end; u0 += SIDE) {
      if (!(by_key ? meet(x, n0, u0, t0) : meet(x, n0, t0, u0))) continue;
      const long left = x.length - u0; /* of the other side */
      float s[BY::ROWS][BY::COLS];
      unsigned seen[BY::ROWS];
      const struct cuda_rows y =
        by_key ? rows_of(x.q, n0 + u0, left, h * dim) : rows_of(x.k, n0 + u0, left, g * dim);
      const struct cuda_rows z =
        by_key ? rows_of(x.do_, n0 + u0, left, h * value_dim) : rows_of(x.v, n0 + u0, left, g * value_dim);
      /* those before are no longer read: a barrier of `gather` is behind all */
      if (by_key && threadIdx.x < SIDE)
        by.template put<WAY>(x, threadIdx.x, query_of(x, WAY, n0, u0 + threadIdx.x, h));
      by.scores(s, 0, y, dim);
      UNROLL
      for (int i = 0; i < BY::ROWS; i++) {
        seen[i] = 0;
        UNROLL
        for (int j = 0; j < BY::COLS; j++) {
          const int mine = (int)t0 + by.row(i), theirs = (int)u0 + by.column(j), u = by_key ? mine : theirs;
          const struct query q = by_key ? by.template query_at<WAY>(x, by.column(j)) : own[i];
          const int sees = u < q.end && u >= q.first;
          const float score = x.scale * s[i][j];
          struct adjusted a = {score, 1};
          if (WAY == FORWARD && sees) most = max_nan(most, score), most_abs = max_nan(most_abs, fabsf(score));
          if (x.cap || x.format != FORMAT_F32) a = adjust(x.cap, limit, x.format, score);
          seen[i] |= sees ? 1u << j : 0;
          s[i][j] = a.f;
          if (forward) continue;
          const float p = expf(a.f - q.m) * q.by;
          s[i][j] = !sees ? 0 : WAY == TO_V ? p : x.scale * a.slope * p;
        }
        if (forward) {
          float shrink = advance<WAY, BY>(&row[i], s[i], seen[i]);
          UNROLL
          for (int c = 0; c < BY::SUMS; c++) sum[i][c] *= shrink;
        }
      }
      if (WAY == TO_Q || WAY == TO_K) {
        float dp[BY::ROWS][BY::COLS];
        by.scores(dp, 1, z, value_dim);
        UNROLL
        for (int i = 0; i < BY::ROWS; i++) UNROLL
        for (int j = 0; j < BY::COLS; j++) /* where nothing is seen, no NaN either */
          if (seen[i] >> j & 1)
            s[i][j] *= dp[i][j] - (by_key ? by.template query_at<WAY>(x, by.column(j)) : own[i]).through;
      }
      by.gather(sum, s, WAY == TO_Q || WAY == TO_K ? y : z, width);
    }
  }

  double entropy = 0;
  float most_f = -INFINITY;
  const view &to = forward ? x.o : x.to;
  UNROLL
  for (int i = 0; i < BY::ROWS; i++) {
    const long t = t0 + by.row(i);
    if (t >= x.length) continue;
    if (forward) {
      const int none = own[i].first >= own[i].end;
      float l = none ? 0 : row[i].m == -INFINITY ? NAN : row[i].l; /* NaN: all are -inf */
      most_f = max_nan(most_f, row[i].m);
      const float by_l = 1 / l;
      for (int c = 0; c < BY::SUMS; c++) sum[i][c] = none ? 0 : sum[i][c] * by_l;
      if (threadIdx.x % BY::SHARE == 0) {
        x.ml.at(n0 + t, 2 * head) = row[i].m, x.ml.at(n0 + t, 2 * head + 1) = l;
        const float of_row = none ? 0 : logf(l) - row[i].e / l;
        if (WAY == FORWARD) entropy += of_row;
        if (x.ml.cols > 2 * x.heads) x.ml.at(n0 + t, 2 * x.heads + head) = of_row;
      }
    }
    UNROLL
    for (int c = 0; c < BY::SUMS; c++)
      if (by.sum_column(c) < width) to.at(n0 + t, head * width + by.sum_column(c)) = sum[i][c];
  }
  if (WAY != FORWARD) return;
  most = block_max(most), most_abs = block_max(most_abs), most_f = block_max(most_f);
  entropy = block_sum(entropy);
  if (threadIdx.x > 0) return;
  unsigned *codes = (unsigned *)x.stats.row(head);
  atomicMax(&codes[0], order_code(most));
  atomicMax(&codes[1], order_code(most_abs));
  atomicMax(&codes[2], order_code(most_f));
  x.entropy.at(0, (head * x.batch + b) * x.tiles + tile) = entropy;
}

struct stats_begin {
  view stats;
  __device__ void operator()(long h, long j) const
  {
    *(unsigned *)&stats.at(h, j) = order_code(j == 1 ? 0 : -INFINITY);
  }
};
struct stats_end {
  view stats;
  view_of<double> entropy;
  long parts, rows;
  __device__ void operator()(long h) const
  {
    double sum = 0;
    for (long i = lane(); i < parts; i += team()) sum += entropy.at(0, h * parts + i);
    sum = team_sum(sum);
    if (lane() > 0) return;
    for (int j = 0; j < 3; j++) stats.at(h, j) = order_decode(*(unsigned *)&stats.at(h, j));
    stats.at(h, 3) = (float)(sum / (double)rows);
  }
};

template <int WAY, class BY>
static void launch_attention(const struct queue &q, const struct cuda_attention &x)
{
  size_t bytes = BY::bytes(WAY, x.dim, x.value_dim);
  long sides = WAY == TO_K || WAY == TO_V ? x.groups : x.heads;
  dim3 grid((unsigned)(x.tiles * sides * x.batch), 1, q.runs);
  ALLOW_SHARED((attention_kernel<WAY, BY>), bytes);
  LAUNCH((attention_kernel<WAY, BY>), grid, BY::THREADS, bytes, q.stream, q.guard, x);
}

/* Of its own arrays: those of block_sum and block_max. */
static constexpr size_t own_arrays(int way) { return way == FORWARD ? 32 * (sizeof(double) + sizeof(float)) : 0; }
static_assert(by_units<16>::bytes(FORWARD, 256, 256) + own_arrays(FORWARD) <= SHARED_MOST, "");
static_assert(by_cores<8, 1>::bytes(TO_K, 128, 128) <= SHARED_MOST, "");
static_assert(by_cores<8, 2>::bytes(FORWARD, 256, 128) + own_arrays(FORWARD) <= SHARED_MOST, "");

/* 0: the heads are too wide for it. */
template <int WAY, int PER>
static int launch_on_cores(const struct queue &q, const struct cuda_attention &x, long width)
{
  if (width > 128 || by_cores<8, PER>::bytes(WAY, x.dim, x.value_dim) + own_arrays(WAY) > SHARED_MOST) return 0;
  if (width <= 32)
    launch_attention<WAY, by_cores<2, PER>>(q, x);
  else if (width <= 64)
    launch_attention<WAY, by_cores<4, PER>>(q, x);
  else
    launch_attention<WAY, by_cores<8, PER>>(q, x);
  return 1;
}

/* A thread's columns of what a tile makes: heads are 8 to 256 wide. */
template <int WAY> static void choose_width(const struct queue &q, const struct cuda_attention &x, long width)
{
  REQUIRE(width <= 256);
  if (x.math == MATH_TF32 && launch_on_cores<WAY, 1>(q, x, width)) return;
  if (x.math == MATH_BF16 && launch_on_cores<WAY, 2>(q, x, width)) return;
  if (width <= 16)
    launch_attention<WAY, by_units<1>>(q, x);
  else if (width <= 32)
    launch_attention<WAY, by_units<2>>(q, x);
  else if (width <= 64)
    launch_attention<WAY, by_units<4>>(q, x);
  else if (width <= 128)
    launch_attention<WAY, by_units<8>>(q, x);
  else
    launch_attention<WAY, by_units<16>>(q, x);
}

/* What both ways have in common. */
template <class A> static struct cuda_attention describe(struct device *device, const A *a)
{
  struct cuda_attention x = {};
  x.q = VIEW(a->q), x.k = VIEW(a->k), x.v = VIEW(a->v), x.o = VIEW(a->o), x.ml = VIEW(a->ml);
  x.start = INTS_VIEW(a->start), x.end = INTS_VIEW(a->end);
  x.batch = a->batch, x.heads = a->heads, x.groups = a->groups, x.length = a->q->rows / a->batch;
  x.tiles = ceil_div(x.length, SIDE);
  x.dim = (int)(a->q->cols / a->heads), x.value_dim = (int)(a->v->cols / a->groups);
  x.cap = (int)a->cap, x.scale = (float)a->scale, x.limit = VIEW(a->cap_value);
  x.format = (enum number_format)a->scores_format, x.math = device->math;
  return x;
}

/* "o = softmax(f(r(scale q k^T))) v, with ml and stats" */
SCRATCH(attention_forward, 8 * x->heads * x->batch * ceil_div(x->q->rows / x->batch, SIDE))
static void attention_forward(struct device *device, const struct attention_forward_args *a)
{
  struct cuda_attention x = describe(device, a);
  x.stats = VIEW(a->stats);
  x.entropy = scratch<double>(device, x.heads * x.batch * x.tiles);
  each(device, x.heads, 3, stats_begin{x.stats});
  choose_width<FORWARD>(queue_of(device), x, x.value_dim);
  each_row(device, x.heads, x.batch * x.tiles, stats_end{x.stats, x.entropy, x.batch * x.tiles, a->q->rows});
}

/* What of a row's softmax each of two parts makes, but for their sum. */
static __device__ inline float part_of(const view &ml, const view &other, long n, long h)
{
  const float m = ml.at(n, 2 * h), l = ml.at(n, 2 * h + 1);
  return l == 0 ? 0 : l * expf(m - max_nan(m, other.at(n, 2 * h)));
}
struct merge_o {
  view o, ml, other_o, other_ml;
  long dim;
  __device__ void operator()(long n, long j) const
  {
    const long h = j / dim;
    const float own = part_of(ml, other_ml, n, h), by = part_of(other_ml, ml, n, h), l = own + by;
    if (l != 0) o.at(n, j) = (own * o.at(n, j) + by * other_o.at(n, j)) / l;
  }
};
/* sum exp(f - m) (f - m) of a part, of which that many are this row's */
static __device__ inline double spread_of(const view &ml, long heads, long n, long h, double m, double part)
{
  const double l = ml.at(n, 2 * h + 1);
  return l == 0 ? 0 : part * (log(l) - ml.at(n, 2 * heads + h) + (ml.at(n, 2 * h) - m));
}
struct merge_ml {
  view ml, other;
  long heads;
  __device__ void operator()(long n, long h) const
  {
    const float m = max_nan(ml.at(n, 2 * h), other.at(n, 2 * h));
    const double own = part_of(ml, other, n, h), by = part_of(other, ml, n, h), l = own + by;
    const double spread = spread_of(ml, heads, n, h, m, own) + spread_of(other, heads, n, h, m, by);
    ml.at(n, 2 * h) = m, ml.at(n, 2 * h + 1) = (float)l;
    ml.at(n, 2 * heads + h) = l != 0 ? (float)(log(l) - spread / l) : 0;
  }
};
struct merge_stats {
  view stats, other, ml;
  __device__ void operator()(long h) const
  {
    double sum = 0;
    for (long n = lane(); n < ml.rows; n += team()) sum += ml.at(n, 2 * stats.rows + h);
    sum = team_sum(sum);
    if (lane() > 0) return;
    for (int j = 0; j < 3; j++) stats.at(h, j) = max_nan(stats.at(h, j), other.at(h, j));
    const int none = isnan(stats.at(h, 3)) || isnan(other.at(h, 3));
    stats.at(h, 3) = none ? NAN : (float)(sum / (double)ml.rows);
  }
};
/* "o, ml and stats take in those of the same queries and other keys" */
static void attention_merge(struct device *device, const struct attention_merge_args *a)
{
  const long heads = a->stats->rows;
  each(device, a->o->rows, a->o->cols,
       merge_o{VIEW(a->o), VIEW(a->ml), VIEW(a->other_o), VIEW(a->other_ml), a->o->cols / heads});
  each(device, a->ml->rows, heads, merge_ml{VIEW(a->ml), VIEW(a->other_ml), heads});
  each_row(device, heads, a->ml->rows, merge_stats{VIEW(a->stats), VIEW(a->other_stats), VIEW(a->ml)});
}

/* The same without what it tells of scores: stats stays as it is. */
static void attention_bare(struct device *device, const struct attention_forward_args *a)
{
  struct cuda_attention x = describe(device, a);
  choose_width<QUIET>(queue_of(device), x, x.value_dim);
}

struct through_row {
  struct cuda_attention x;
  __device__ void operator()(long i) const
  {
    long n = i / x.heads, h = i - n * x.heads;
    const float *a = x.do_.row(n) + h * x.value_dim, *b = x.o.row(n) + h * x.value_dim;
    float sum = 0;
    for (int c = lane(); c < x.value_dim; c += team()) sum = fmaf(a[c], b[c], sum);
    sum = team_sum(sum);
    if (lane() == 0) x.through.at(0, i) = sum;
  }
};

/* "dq, dk, dv from do; scores recomputed tile by tile": p_j = exp(f_j - m) / l; dv_j += p_j do;
   ds_j = f'(s_j) p_j (do.v_j - do.o); dq += scale ds_j k_j; dk_j += scale ds_j q */
SCRATCH(attention_backward, 4 * x->q->rows * x->heads)
static void attention_backward(struct device *device, const struct attention_backward_args *a)
{
  struct cuda_attention x = describe(device, a);
  struct queue q = queue_of(device);
  x.do_ = VIEW(a->do_);
  x.through = scratch<float>(device, a->q->rows * a->heads);
  each_row(device, a->q->rows * a->heads, x.value_dim, through_row{x});
  x.to = VIEW(a->dq);
  choose_width<TO_Q>(q, x, x.dim);
  x.to = VIEW(a->dk);
  choose_width<TO_K>(q, x, x.dim);
  x.to = VIEW(a->dv);
  choose_width<TO_V>(q, x, x.value_dim);
}

/* --- decoding: a block has one new position of one head ------------------------------------------------------------ */

struct cached {
  struct cuda_attention x; /* q, o, ml, stats; k and v are the whole cache */
  view factors, weights;
  ints slot;
  int scaled;
  long news; /* positions of a sequence */
};

/* "o = softmax(f(r(scale q k^T))) v over a cache, to which k and v are added"; "with factors: s = scale (factor_jh sum
   of q k over the first `scaled` columns + that over the rest)". weights [B H, L + 4]: p of every row, then what the
   head's statistics get from it */
static __global__ void cached_kernel(struct guarded guard, struct cached c)
{
  if (guard.off()) return;
  const struct cuda_attention &x = c.x;
  long n = blockIdx.x / x.heads, h = blockIdx.x - n * x.heads, g = h * x.groups / x.heads;
  long first = x.start.base()[n], last = c.slot.base()[n], row0 = n / c.news * x.length;
  const float *q = x.q.row(n) + h * x.dim;
  float *p = c.weights.base() + blockIdx.x * (x.length + 4), *stats = p + x.length;
  float most = -INFINITY, most_abs = 0, m = -INFINITY, limit = (float)number(x.limit);
  for (long j = first + threadIdx.x; j <= last; j += blockDim.x) {
    const float *k = x.k.row(row0 + j) + g * x.dim;
    float s = 0, part = 0;
    for (int d = 0; d < c.scaled; d++)
      part = fmaf(product_input(q[d], x.math), product_input(k[d], x.math), part);
    for (int d = c.scaled; d < x.dim; d++)
      s = fmaf(product_input(q[d], x.math), product_input(k[d], x.math), s);
    s = x.scale * (c.factors.data ? c.factors.at(row0 + j, h) * part + s : s);
    most = max_nan(most, s), most_abs = max_nan(most_abs, fabsf(s));
    p[j] = capped(x.cap, limit, rounded(s, x.format));
    m = max_nan(m, p[j]);
  }
  most = block_max(most), most_abs = block_max(most_abs), m = block_max(m);
  double l = 0, e = 0;
  for (long j = first + threadIdx.x; j <= last; j += blockDim.x) {
    float under = p[j] - m;
    p[j] = expf(under);
    l += p[j], e += p[j] * under;
  }
  l = block_sum(l), e = block_sum(e); /* barriers: every weight is there */
  for (int i = threadIdx.x; i < x.value_dim; i += blockDim.x) {
    float sum = 0;
    for (long j = first; j <= last; j++)
      sum =
        fmaf(product_input(p[j], x.math), product_input(x.v.at(row0 + j, g * x.value_dim + i), x.math), sum);
    x.o.at(n, h * x.value_dim + i) = first > last ? 0 : sum / (float)l;
  }
  if (threadIdx.x > 0) return;
  x.ml.at(n, 2 * h) = m, x.ml.at(n, 2 * h + 1) = (float)l;
  stats[0] = most, stats[1] = most_abs, stats[2] = m, stats[3] = first > last ? 0 : (float)(log(l) - e / l);
}

struct cached_stats {
  view stats, weights;
  long rows, heads, length;
  __device__ void operator()(long, long h) const
  {
    float top[3] = {-INFINITY, 0, -INFINITY};
    double entropy = 0;
    for (long n = 0; n < rows; n++) {
      const float *from = weights.base() + (n * heads + h) * (length + 4) + length;
      for (int j = 0; j < 3; j++) top[j] = max_nan(top[j], from[j]);
      entropy += from[3];
    }
    for (int j = 0; j < 3; j++) stats.at(h, j) = top[j];
    stats.at(h, 3) = (float)(entropy / (double)rows);
  }
};

SCRATCH(attention_cached, 4 * x->q->rows * x->heads * (x->keys->rows / x->batch + 4))
static void attention_cached(struct device *device, const struct attention_cached_args *a)
{
  struct queue q = queue_of(device);
  struct cached c = {};
  const long rows = a->q->rows, length = a->keys->rows / a->batch, news = rows / a->batch;
  c.x.q = VIEW(a->q), c.x.k = VIEW(a->keys), c.x.v = VIEW(a->values), c.x.o = VIEW(a->o),
  c.x.ml = VIEW(a->ml);
  c.x.start = INTS_VIEW(a->start), c.slot = INTS_VIEW(a->slot), c.factors = VIEW(a->factors);
  c.x.heads = a->heads, c.x.groups = a->groups, c.x.length = length;
  c.x.dim = (int)(a->q->cols / a->heads), c.x.value_dim = (int)(a->values->cols / a->groups);
  c.x.cap = (int)a->cap, c.x.scale = (float)a->scale, c.x.limit = VIEW(a->cap_value);
  c.x.format = (enum number_format)a->scores_format, c.x.math = device->math,
  c.scaled = a->factors ? (int)a->scaled : 0;
  c.weights = scratch<float>(device, rows * a->heads * (length + 4)), c.news = news;
  each(device, rows, a->k->cols, put_rows{c.x.k, VIEW(a->k), c.slot, length, news});
  each(device, rows, a->v->cols, put_rows{c.x.v, VIEW(a->v), c.slot, length, news});
  if (a->factors) each(device, rows, a->heads, put_rows{c.factors, VIEW(a->factor), c.slot, length, news});
  dim3 grid((unsigned)(rows * a->heads), 1, q.runs);
  LAUNCH(cached_kernel, grid, 128, 0, q.stream, q.guard, c);
  each(device, 1, a->heads, cached_stats{VIEW(a->stats), c.weights, rows, a->heads, length});
}

/* --- a look at all pairs ---------------------------------------------------------------------------------------------- */

/* The first of the pairs with the largest s, or where s is NaN. */
struct candidate {
  double s;
  long pair; /* n * length + j; -1: none yet */
};
static __device__ inline int comes_before(struct candidate a, struct candidate b)
{
  if (a.pair < 0 || b.pair < 0) return b.pair < 0 && a.pair >= 0;
  int a_nan = a.s != a.s, b_nan = b.s != b.s;
  if (a_nan || b_nan) return a_nan && (!b_nan || a.pair < b.pair);
  return a.s > b.s || (a.s == b.s && a.pair < b.pair);
}

static __device__ inline double dot(const float *a, const float *b, int n)
{
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
  return sum;
}

/* "look [H,5] over all batch rows and allowed pairs: share with s > level; number of pairs; |q|, |k| and their cosine at
   the first of the pairs with the largest s, or where s is NaN": a block a head, in double, as it is defined */
static __global__ void look_kernel(struct guarded guard, struct cuda_attention x, view look, double scale,
                                   view level)
{
  __shared__ double best_s[LOOK_THREADS];
  __shared__ long best_pair[LOOK_THREADS];
  if (guard.off()) return;
  long h = blockIdx.x, g = h * x.groups / x.heads;
  double above = 0, pairs = 0;
  struct candidate best = {0, -1};
  for (long n = 0; n < x.batch * x.length; n++) {
    long t = n % x.length, end = x.end.data ? x.end.base()[n] : t + 1;
    for (long j = x.start.base()[n] + threadIdx.x; j < end; j += LOOK_THREADS) {
      struct candidate one = {scale * dot(x.q.row(n) + h * x.dim, x.k.row(n - t + j) + g * x.dim, x.dim),
                              n * x.length + j};
      above += one.s != one.s ? one.s : one.s > number(level);
      pairs++;
      if (comes_before(one, best)) best = one;
    }
  }
  best_s[threadIdx.x] = best.s, best_pair[threadIdx.x] = best.pair;
  above = block_sum(above), pairs = block_sum(pairs); /* barriers: every candidate is there */
  if (threadIdx.x > 0) return;
  for (int i = 0; i < LOOK_THREADS; i++) {
    struct candidate one = {best_s[i], best_pair[i]};
    if (comes_before(one, best)) best = one;
  }
  if (best.pair < 0) {
    for (int i = 0; i < 5; i++) look.at(h, i) = 0;
    return;
  }
  long n = best.pair / x.length, j = best.pair % x.length;
  const float *q = x.q.row(n) + h * x.dim, *k = x.k.row(n - n % x.length + j) + g * x.dim;
  double q_norm = sqrt(dot(q, q, x.dim)), k_norm = sqrt(dot(k, k, x.dim));
  look.at(h, 0) = (float)(above / pairs), look.at(h, 1) = (float)pairs;
  look.at(h, 2) = (float)q_norm, look.at(h, 3) = (float)k_norm;
  look.at(h, 4) = (float)(dot(q, k, x.dim) / (q_norm * k_norm));
}

static_assert(LOOK_THREADS * (sizeof(double) + sizeof(long)) + 32 * sizeof(double) <= SHARED_GIVEN, "");
static void attention_look(struct device *device, const struct attention_look_args *a)
{
  struct queue q = queue_of(device);
  struct cuda_attention x = {};
  x.q = VIEW(a->q), x.k = VIEW(a->k), x.start = INTS_VIEW(a->start), x.end = INTS_VIEW(a->end);
  x.batch = a->batch, x.heads = a->heads, x.groups = a->groups, x.length = a->q->rows / a->batch;
  x.dim = (int)(a->q->cols / a->heads);
  dim3 grid((unsigned)a->heads, 1, q.runs);
  LAUNCH(look_kernel, grid, LOOK_THREADS, 0, q.stream, q.guard, x, VIEW(a->look), a->scale, VIEW(a->level));
}

extern "C" void ops_cuda_without_maxima(struct ops *ops) { ops->attention_forward = attention_bare; }

extern "C" void ops_cuda_attention(struct ops *ops)
{
  ops->attention_forward = attention_forward;
  ops->attention_backward = attention_backward;
  ops->attention_cached = attention_cached;
  ops->attention_look = attention_look;
  ops->attention_merge = attention_merge;
  ops->scratch[OP_attention_forward] = attention_forward_scratch;
  ops->scratch[OP_attention_backward] = attention_backward_scratch;
  ops->scratch[OP_attention_cached] = attention_cached_scratch;
}
