/* attention.c - attention by ranges, forward and backward, without a [T,T] matrix
   A strip of STRIP queries of one head meets blocks of BLOCK keys, with a running maximum and sum (online softmax:
   Milakov and Gimelshein, arXiv 1805.02867; tiles: Dao et al., arXiv 2205.14135). Keys are packed once per head into
   panels of COLS. Scores are computed in tiles that stay in registers; fully masked tiles are skipped. The softmax
   yields the maxima. A NaN among a row's scores makes its sum NaN; only then are the scores searched for it.
   Sums over the context consist of sums of at most CHUNK keys or ROWS rows, so that rounding errors do not grow with
   its length. The outer sums are in double, or, over keys, compensated (Kahan, Comm. ACM 8 (1965) 40). */
#include <float.h>
#include <math.h>
#include <string.h>
#include "numerics/cpu/attention.h"

#ifdef __AVX512F__
enum { STRIP = 8, VECS = 2 };
static const float all_ones[STRIP] = {1, 1, 1, 1, 1, 1, 1, 1};
#else
enum { STRIP = 4, VECS = SPLIT };
static const float all_ones[STRIP] = {1, 1, 1, 1};
#endif
/* STRIDE between the rows of a strip keeps them apart in the cache; ALIGN is the same for every level, so
   that blocks begin at the same keys. */
enum {
  EIGHT = 8,
  COLS = VECS * LANES,
  BLOCK = 512,
  STRIDE = BLOCK + LANES,
  ALIGN = 32,
  CHUNK = 128,
  ROWS = 256
};

/* One head of one sequence, and a worker's memory for it. Padded widths are whole vectors. */
struct attention_head {
  long length, dim, value_dim, padded_dim, padded_value;
  const int *start, *end; /* [length]; end NULL: row t attends up to key t */
  long cap;
  float cap_value;
  float *keys;       /* panel j/COLS, then dimension, then j%COLS */
  float *values;     /* backward: packed like keys */
  float *key_rows;   /* backward: [length, padded_dim] */
  float *value_rows; /* forward: [length, padded_value] */
  float *dk, *dv;    /* backward: [length, padded_dim], [length, padded_value]: of up to ROWS rows */
  double *dk_before, *dv_before; /* of the rows before, where there are more than ROWS; else NULL */
  float *q;             /* [LANES, padded_dim]: of one strip, or of forward_strips, times the scale */
  float *do_;           /* of a strip: [STRIP, padded_value] */
  float *score, *other; /* [STRIP, STRIDE]; forward: one, of up to LANES rows */
  float *sum;           /* per strip [2, STRIP, padded_dim or padded_value]: sums and their rounding errors */
};

/* LONG_BACKWARD: more than ROWS rows add to a key. */
enum pass { FORWARD, BACKWARD, LONG_BACKWARD };

static long head_floats(const struct attention_head *h, enum pass pass)
{
  long panels = round_up(h->length, ALIGN), width = h->padded_dim + h->padded_value;
  const long wider = h->padded_dim > h->padded_value ? h->padded_dim : h->padded_value;
  long strip = LANES * h->padded_dim + STRIP * h->padded_value + LANES * 2 * wider + 2 * STRIP * STRIDE;
  const long more[] = {
    [FORWARD] = 0, [BACKWARD] = width + h->padded_dim, [LONG_BACKWARD] = 3 * width + h->padded_dim};
  return strip + panels * (width + more[pass]);
}

static void head_place(struct attention_head *h, enum pass pass, float *memory)
{
  long panels = round_up(h->length, ALIGN);
#define TAKE(pointer, count) h->pointer = memory, memory += (count)
  TAKE(q, LANES * h->padded_dim);
  TAKE(do_, STRIP * h->padded_value);
  TAKE(sum, 2 * LANES * (h->padded_dim > h->padded_value ? h->padded_dim : h->padded_value));
  TAKE(score, STRIP * STRIDE);
  TAKE(other, STRIP * STRIDE);
  TAKE(keys, panels * h->padded_dim);
  TAKE(value_rows, panels * h->padded_value);
  h->values = h->value_rows;
  if (pass == FORWARD) return;
  TAKE(key_rows, panels * h->padded_dim);
  TAKE(dk, panels * h->padded_dim);
  TAKE(dv, panels * h->padded_value);
  if (pass == BACKWARD) return;
#undef TAKE
  h->dk_before = (double *)memory; /* all that lies before is whole vectors */
  h->dv_before = h->dk_before + panels * h->padded_dim;
}

/* rows [count, width] into panels */
static void pack_panels(const float *from, long ld, long count, long width, float *to)
{
  for (long j = 0; j < count; j += COLS, to += COLS * width)
    for (long half = 0; half < COLS; half += WIDTH)
      pack_transposed(from + (j + half) * ld, ld, count - j - half, width, to + half, COLS);
}

/* Rows [count, width] times `scale` to rows of whole vectors, the rest of which is 0; and back. Rows as wide as the
   parts of a sum, the smallest there are, are not counted through. */
INLINE void widen_rows(const float *from, long from_ld, long count, long width, float scale, float *to,
                       long to_ld)
{
  if (width == PARTS) {
    for (long i = 0; i < count; i++) EACH_PART(j, v, PARTS)
      {
        VEC(to + i * PARTS + v * LANES) = scale * VEC(from + i * from_ld + v * LANES);
      }
  } else if (width == to_ld) {
    for (long i = 0; i < count; i++)
      EACH(j, width) { VEC(to + i * width + j) = scale * VEC(from + i * from_ld + j); }
  } else {
    for (long i = 0; i < count; i++)
      EACH(j, to_ld) { VEC(to + i * to_ld + j) = scale * get(from + i * from_ld + j, width - j); }
  }
}
INLINE void narrow_rows(const float *from, long from_ld, long count, long width, float scale, float *to,
                        long to_ld)
{
  if (width == PARTS) {
    for (long i = 0; i < count; i++) EACH_PART(j, v, PARTS)
      {
        VEC(to + i * to_ld + v * LANES) = scale * VEC(from + i * PARTS + v * LANES);
      }
  } else if (width == from_ld) {
    for (long i = 0; i < count; i++)
      EACH(j, width) { VEC(to + i * to_ld + j) = scale * VEC(from + i * width + j); }
  } else {
    for (long i = 0; i < count; i++)
      EACH(j, width) { put(to + i * to_ld + j, scale * VEC(from + i * from_ld + j), width - j); }
  }
}

/* s[r][j] = sum_p a[r][p] panel[p][j], of the panel's first vectors */
INLINE void tile(int rows, int vecs, const float *a, long lda, const float *panel, long k, vec s[STRIP][VECS])
{
  UNROLL
  for (int r = 0; r < rows; r++) UNROLL
  for (int v = 0; v < vecs; v++) s[r][v] = (vec){0};
#pragma GCC unroll 4
  for (long p = 0; p < k; p++, a++, panel += COLS) {
    vec b[VECS];
    UNROLL
    for (int v = 0; v < vecs; v++) b[v] = VEC(panel + v * LANES);
    UNROLL
    for (int r = 0; r < rows; r++) UNROLL
    for (int v = 0; v < vecs; v++) s[r][v] = fused(ALL(a[r * lda]), b[v], s[r][v]);
  }
}

/* sum += x, where `lost` is how much too large the sum is by rounding */
INLINE void add_kept(vec x, float *sum, float *lost)
{
  const vec old = VEC(sum), y = x - VEC(lost), total = old + y;
  VEC(lost) = (total - old) - y;
  VEC(sum) = total;
}

/* sum[r][c] = keep[r] sum[r][c] + sum_j weight[r][j] m[j][c] over the keys in [from, to) that row r attends to. These
   keys are summed separately first: long sums consist of short ones. */
INLINE void gather(int rows, int vecs, const float *weight, long from, long to, long diagonal, const float *m,
                   long ld, const float *keep, float *sum)
{
  vec s[STRIP][VECS];
  UNROLL
  for (int r = 0; r < rows; r++) UNROLL
  for (int v = 0; v < vecs; v++) s[r][v] = (vec){0};
  long j = from;
#pragma GCC unroll 4
  for (; j < min_long(to, diagonal); j++) UNROLL
  for (int v = 0; v < vecs; v++) {
    vec b = VEC(m + j * ld + v * LANES);
    UNROLL
    for (int r = 0; r < rows; r++) s[r][v] = fused(ALL(weight[r * STRIDE + j]), b, s[r][v]);
  }
  if (to > diagonal) /* rows u and later attend to key diagonal+u */
    UNROLL
  for (int u = 0; u < rows; u++) UNROLL
  for (int v = 0; v < vecs; v++) {
    vec b = VEC(m + (diagonal + u) * ld + v * LANES);
    UNROLL
    for (int r = u; r < rows; r++) s[r][v] = fused(ALL(weight[r * STRIDE + diagonal + u]), b, s[r][v]);
  }
  UNROLL
  for (int r = 0; r < rows; r++) UNROLL
  for (int v = 0; v < vecs; v++) {
    float *to_sum = sum + r * ld + v * LANES;
    if (keep) {
      float *lost = to_sum + STRIP * ld;
      VEC(to_sum) *= keep[r];
      VEC(lost) *= keep[r];
      add_kept(s[r][v], to_sum, lost);
    } else {
      VEC(to_sum) = s[r][v];
    }
  }
}

/* m[j][c] += sum_r weight[r][j] a[r][c] over the rows that attend to key j in [from, to) */
INLINE void scatter(int rows, int vecs, const float *weight, long from, long to, long diagonal, float *m,
                    long ld, const float *a)
{
  vec x[STRIP][VECS];
  UNROLL
  for (int r = 0; r < rows; r++) UNROLL
  for (int v = 0; v < vecs; v++) x[r][v] = VEC(a + r * ld + v * LANES);
  long j = from;
#pragma GCC unroll 2
  for (; j < min_long(to, diagonal); j++) UNROLL
  for (int v = 0; v < vecs; v++) {
    vec s = VEC(m + j * ld + v * LANES);
    UNROLL
    for (int r = 0; r < rows; r++) s = fused(ALL(weight[r * STRIDE + j]), x[r][v], s);
    VEC(m + j * ld + v * LANES) = s;
  }
  if (to > diagonal) UNROLL
  for (int u = 0; u < rows; u++) UNROLL
  for (int v = 0; v < vecs; v++) {
    vec s = VEC(m + (diagonal + u) * ld + v * LANES);
    UNROLL
    for (int r = u; r < rows; r++) s = fused(ALL(weight[r * STRIDE + diagonal + u]), x[r][v], s);
    VEC(m + (diagonal + u) * ld + v * LANES) = s;
  }
}

/* Keys of up to EIGHT rows: row r attends to [lo[r], hi[r]), within [low, high); all rows attend to [from, to). */
struct visible_keys {
  long low, high, from, to, lo[EIGHT], hi[EIGHT];
};

INLINE int sees(const struct visible_keys *seen, int r, long j)
{
  return seen->lo[r] <= j && j < seen->hi[r];
}

/* gather and scatter of such a strip; keys [from, to) are within one chunk */
INLINE void gather_seen(int rows, int vecs, const float *weight, long from, long to,
                        const struct visible_keys *seen, const float *m, long ld, const float *keep,
                        float *sum)
{
  vec s[STRIP][VECS];
  UNROLL
  for (int r = 0; r < rows; r++) UNROLL
  for (int v = 0; v < vecs; v++) s[r][v] = (vec){0};
#define KEYS(end, r_sees_j) \
  for (; j < min_long(to, end); j++) UNROLL \
  for (int v = 0; v < vecs; v++) { \
    vec b = VEC(m + j * ld + v * LANES); \
    UNROLL \
    for (int r = 0; r < rows; r++) \
      if (r_sees_j) s[r][v] = fused(ALL(weight[r * STRIDE + j]), b, s[r][v]); \
  }
  long j = from;
  KEYS(seen->from, sees(seen, r, j))
  KEYS(seen->to, 1)
  KEYS(to, sees(seen, r, j))
#undef KEYS
  UNROLL
  for (int r = 0; r < rows; r++) UNROLL
  for (int v = 0; v < vecs; v++) {
    float *to_sum = sum + r * ld + v * LANES, *lost = to_sum + STRIP * ld;
    VEC(to_sum) *= keep[r];
    VEC(lost) *= keep[r];
    add_kept(s[r][v], to_sum, lost);
  }
}
INLINE void scatter_seen(int rows, int vecs, const float *weight, long from, long to,
                         const struct visible_keys *seen, float *m, long ld, const float *a)
{
  vec x[STRIP][VECS];
  UNROLL
  for (int r = 0; r < rows; r++) UNROLL
  for (int v = 0; v < vecs; v++) x[r][v] = VEC(a + r * ld + v * LANES);
#define KEYS(end, r_sees_j) \
  for (; j < min_long(to, end); j++) UNROLL \
  for (int v = 0; v < vecs; v++) { \
    vec s = VEC(m + j * ld + v * LANES); \
    UNROLL \
    for (int r = 0; r < rows; r++) \
      if (r_sees_j) s = fused(ALL(weight[r * STRIDE + j]), x[r][v], s); \
    VEC(m + j * ld + v * LANES) = s; \
  }
  long j = from;
  KEYS(seen->from, sees(seen, r, j))
  KEYS(seen->to, 1)
  KEYS(to, sees(seen, r, j))
#undef KEYS
}

/* Both over all columns; weight[r*STRIDE + j] belongs to key j. Not inlined into all callers: compilation would take
   a minute. */
INLINE void gather_columns(int rows, const float *weight, long from, long to, long diagonal, const float *m,
                           long ld, const float *keep, float *sum)
{
  for (long end; from < to; from = end, keep = all_ones) {
    end = from + CHUNK;
    if (end > diagonal / 8 * 8 || end > to)
      end = to; /* the diagonal is done once, by strips of 8 rows or fewer */
    long c = 0;
    for (; c + COLS <= ld; c += COLS)
      gather(rows, VECS, weight, from, end, diagonal, m + c, ld, keep, sum + c);
    if (c < ld) gather(rows, 1, weight, from, end, diagonal, m + c, ld, keep, sum + c);
  }
}
INLINE void scatter_columns(int rows, const float *weight, long from, long to, long diagonal, float *m,
                            long ld, const float *a)
{
  long c = 0;
  for (; c + COLS <= ld; c += COLS) scatter(rows, VECS, weight, from, to, diagonal, m + c, ld, a + c);
  if (c < ld) scatter(rows, 1, weight, from, to, diagonal, m + c, ld, a + c);
}
/* Chunks begin at multiples of CHUNK, so that a row's sums do not depend on which rows it is in a strip with. */
INLINE void gather_columns_seen(int rows, const float *weight, long from, long to,
                                const struct visible_keys *seen, const float *m, long ld, const float *keep,
                                float *sum)
{
  for (long end; from < to; from = end, keep = all_ones) {
    end = min_long((from / CHUNK + 1) * CHUNK, to);
    long c = 0;
    for (; c + COLS <= ld; c += COLS)
      gather_seen(rows, VECS, weight, from, end, seen, m + c, ld, keep, sum + c);
    if (c < ld) gather_seen(rows, 1, weight, from, end, seen, m + c, ld, keep, sum + c);
  }
}
INLINE void scatter_columns_seen(int rows, const float *weight, long from, long to,
                                 const struct visible_keys *seen, float *m, long ld, const float *a)
{
  long c = 0;
  for (; c + COLS <= ld; c += COLS) scatter_seen(rows, VECS, weight, from, to, seen, m + c, ld, a + c);
  if (c < ld) scatter_seen(rows, 1, weight, from, to, seen, m + c, ld, a + c);
}
#define APART static __attribute__((noinline)) void
#define BOTH(name, rows) \
  APART gather_##name(const float *weight, long from, long to, long diagonal, const float *m, long ld, \
                      const float *keep, float *sum) \
  { \
    gather_columns(rows, weight, from, to, diagonal, m, ld, keep, sum); \
  } \
  APART scatter_##name(const float *weight, long from, long to, long diagonal, float *m, long ld, \
                       const float *a) \
  { \
    scatter_columns(rows, weight, from, to, diagonal, m, ld, a); \
  } \
  APART gather_seen_##name(const float *weight, long from, long to, const struct visible_keys *seen, \
                           const float *m, long ld, const float *keep, float *sum) \
  { \
    gather_columns_seen(rows, weight, from, to, seen, m, ld, keep, sum); \
  } \
  APART scatter_seen_##name(const float *weight, long from, long to, const struct visible_keys *seen, \
                            float *m, long ld, const float *a) \
  { \
    scatter_columns_seen(rows, weight, from, to, seen, m, ld, a); \
  }
BOTH(strip, STRIP)
BOTH(one, 1)
#undef BOTH
#define GATHER(rows, ...) ((rows) == STRIP ? gather_strip(__VA_ARGS__) : gather_one(__VA_ARGS__))
#define SCATTER(rows, ...) ((rows) == STRIP ? scatter_strip(__VA_ARGS__) : scatter_one(__VA_ARGS__))
#define GATHER_SEEN(rows, ...) \
  ((rows) == STRIP ? gather_seen_strip(__VA_ARGS__) : gather_seen_one(__VA_ARGS__))
#define SCATTER_SEEN(rows, ...) \
  ((rows) == STRIP ? scatter_seen_strip(__VA_ARGS__) : scatter_seen_one(__VA_ARGS__))

/* Before a strip whose rows attend to `keys` keys. A single chunk overwrites its sums, unless ranges are arbitrary
   (`any`). */
INLINE void begin_sums(const struct attention_head *h, int any, long keys, long ld)
{
  if (any)
    memset(h->sum, 0, (size_t)(2 * STRIP * ld) * sizeof *h->sum);
  else if (keys > CHUNK)
    memset(h->sum + STRIP * ld, 0, (size_t)(STRIP * ld) * sizeof *h->sum);
}

/* p f'(s), where p = exp(power). */
INLINE vec times_slope(vec p, vec power, vec s, long cap, float value)
{
  if (cap == 1) return p * soft_slope(s, value);
  if (cap == 2) { /* 0 times p is 0, or NaN where p is infinite in truth and not by overflow */
    vec none = where_above(power, ALL(FLT_MAX), ALL(NAN), where_above(p, ALL(-1.0f), ALL(0.0f), p));
    return where_above(s, ALL(value), none, p);
  }
  return p;
}

static long end_of(const struct attention_head *h, long t) { return h->end ? h->end[t] : t + 1; }

static int row_has_nan(const struct attention_head *h, long t, const float *q)
{
  for (long j = h->start[t]; j < end_of(h, t); j++) {
    const float *k = h->keys + j / COLS * COLS * h->dim + j % COLS;
    float s = 0;
    for (long p = 0; p < h->dim; p++) s = fused_one(q[p], k[p * COLS], s);
    if (isnan(s)) return 1;
  }
  return 0;
}

/* One tile of scores before the softmax: updates the maxima, applies the cap, and sets masked pairs to -infinity. */
INLINE void enter(int rows, int vecs, int measured, int cut, long cap, const struct attention_head *h, long t,
                  const struct visible_keys *any, long j, vec s[STRIP][VECS], float *score,
                  vec high[STRIP][SPLIT], vec *top, vec *bottom)
{
  const vec nothing = ALL(-INFINITY);
  UNROLL
  for (int r = 0; r < rows; r++) UNROLL
  for (int v = 0; v < vecs; v++) {
    const vec key = LANE + (float)(j + v * LANES), first = ALL((float)(any ? any->lo[r] : h->start[t])),
              last = ALL((float)(any ? any->hi[r] - 1 : t + r));
#define ALLOWED(y, otherwise) \
  (cut ? where_above(key, last, otherwise, where_above(first, key, otherwise, y)) : (y))
    vec y = s[r][v];
    if (measured) *bottom = smaller(ALLOWED(y, -nothing), *bottom);
    if (cap) {
      if (measured) *top = larger(ALLOWED(y, nothing), *top);
      y = capped(y, cap, h->cap_value);
    }
    y = ALLOWED(y, nothing);
#undef ALLOWED
    high[r][v % SPLIT] = larger(y, high[r][v % SPLIT]);
    VEC(score + r * STRIDE + j + v * LANES) = y;
  }
}

/* Running statistics of a head's rows: see struct maxima. */
struct sight {
  vec top, bottom, capped;
  int nan;
  double entropy;
};

/* Queries [t, t+rows). Without `any` all rows attend from the same key up to themselves; `any` gives other ranges.
   Outputs: o [rows, ldo], ml [rows, ldm], entropies [rows, ldm] or NULL. More than STRIP rows attend to at most CHUNK
   keys: each strip has its own scores and sums, and the following steps treat all rows together. */
INLINE void forward_strips(int rows, int measured, long cap, const struct attention_head *h, long t,
                           const struct visible_keys *any, float *o, long ldo, float *ml, long ldm,
                           float *entropies, struct sight *x)
{
  const int size = rows < STRIP ? rows : STRIP, strips = rows / size, all = strips > 1 ? LANES : STRIP;
  const long first = any ? any->low : h->start[t], end = any ? any->high : t + rows;
  const long all_from = any ? any->from : first, sums_apart = 2 * STRIP * h->padded_value;
  vec m = ALL(-INFINITY), shift = {0}, keep = {0}; /* one lane per row, as in l, lost and spread */
  vec l = {0}, lost = {0}, spread = {0};
  if (strips == 1) begin_sums(h, any != NULL, end - first, h->padded_value);
  for (long from = first / ALIGN * ALIGN, next; from < end; from = next) {
    next = any ? (from / BLOCK + 1) * BLOCK : from + BLOCK; /* see gather_columns_seen */
    const int again = from > first;
    vec highest[LANES];
    UNROLL
    for (int r = rows; r < LANES; r++) highest[r] = ALL(-INFINITY);
    for (int u = 0; u < strips; u++) {
      const long own = t + u * STRIP, own_end = any ? end : own + size, to = min_long(next, own_end);
      const long all_to = any ? any->to : own + 1;
      const float *q = h->q + u * STRIP * h->padded_dim;
      float *score = h->score + u * STRIP * STRIDE - from;
      vec high[STRIP][SPLIT], top = x->top, bottom = x->bottom;
      UNROLL
      for (int r = 0; r < size; r++) UNROLL
      for (int v = 0; v < SPLIT; v++) high[r][v] = ALL(-INFINITY);
      for (long j = from; j < to; j += COLS) {
        const float *panel = h->keys + j * h->dim;
        vec s[STRIP][VECS];
        if ((int)VECS > SPLIT && j + PARTS >= own_end) { /* all visible keys are in the first vector */
          tile(size, 1, q, h->padded_dim, panel, h->dim, s);
          enter(size, 1, measured, 1, cap, h, own, any, j, s, score, high, &top, &bottom);
          continue;
        }
        tile(size, VECS, q, h->padded_dim, panel, h->dim, s);
        if (j < all_from || j + COLS > all_to)
          enter(size, VECS, measured, 1, cap, h, own, any, j, s, score, high, &top, &bottom);
        else
          enter(size, VECS, measured, 0, cap, h, own, any, j, s, score, high, &top, &bottom);
      }
      x->top = top, x->bottom = bottom;
      UNROLL
      for (int r = 0; r < size; r++) highest[u * STRIP + r] = max_of_parts(high[r]);
    }
    m = larger(m, lane_maxima(highest));
    keep = shift;
    shift = where_above(m, ALL(-INFINITY), m, (vec){0});
    if (again) {                                          /* earlier sums were relative to an older shift */
      const vec change = smaller(keep - shift, (vec){0}); /* above 0 only if all so far were -infinity */
      keep = vec_exp(change);
      spread = keep * fused(change, l, spread);
      l *= keep;
      lost *= keep;
    }
    vec sums[2 * LANES]; /* of rows; then their contributions to the entropy */
    UNROLL
    for (int r = rows; r < all; r++) sums[r] = sums[all + r] = (vec){0};
    for (int u = 0; u < strips; u++) {
      const long own = t + u * STRIP, to = min_long(next, any ? end : own + 1);
      UNROLL
      for (int r = 0; r < size; r++) {
        vec sum[SPLIT] = {{0}}, below[SPLIT] = {{0}};
        float *row = h->score + (u * STRIP + r) * STRIDE;
        EACH_PART(j, part, to - from)
        {
          const vec d = VEC(row + j + part * LANES) - shift[u * STRIP + r], e = vec_exp_nonpositive(d);
          sum[part] += e;
          if (measured) below[part] = fused(e, larger(d, ALL(-128.0f)), below[part]);
          VEC(row + j + part * LANES) = e;
        }
        sums[u * STRIP + r] = sum_of_parts(sum);
        sums[all + u * STRIP + r] = sum_of_parts(below);
      }
    }
    const vec more = lane_sums(sums);
    add_kept(more, (float *)&l, (float *)&lost);
    spread += 2 * all > LANES ? lane_sums(sums + all) : HALVES(more);
    const long seen = again ? from : first;
    if (any)
      GATHER_SEEN(rows, h->score - from, seen, min_long(next, end), any, h->value_rows, h->padded_value,
                  again ? (float *)&keep : all_ones, h->sum);
    else
      for (int u = 0; u < strips; u++) {
        const long own = t + u * STRIP;
        GATHER(size, h->score + u * STRIP * STRIDE - from, seen, min_long(next, own + size), own,
               h->value_rows, h->padded_value, again ? (float *)&keep : NULL, h->sum + u * sums_apart);
      }
  }
  /* l 0: every score is -infinity */
  const vec part = 1.0f / l, sum = where_above(l, (vec){0}, l, ALL(NAN)), high = shift + (sum - sum);
  float pair[2 * LANES], entropy[LANES];
  VEC(pair) = LOW(high, sum), VEC(pair + LANES) = HIGH(high, sum);
  for (int r = 0; r < rows; r++) {
    const float *from = h->sum + r / STRIP * sums_apart + r % STRIP * h->padded_value;
    narrow_rows(from, h->padded_value, 1, h->value_dim, part[r], o + r * ldo, ldo);
    memcpy(ml + r * ldm, pair + 2 * r, 2 * sizeof *ml);
  }
  if (!measured) return;
  VEC(entropy) = vec_log(l) - spread / l;
  for (int r = 0; r < rows; r++) {
    x->entropy += (double)entropy[r];
    if (entropies) entropies[r * ldm] = entropy[r];
  }
  x->capped = larger(m, x->capped);
  if (isnan(lane_sum(l)))
    for (int r = 0; r < rows; r++)
      if (isnan(l[r])) x->nan |= row_has_nan(h, t + r, h->q + r * h->padded_dim);
}

/* of rows [t, t+rows) */
static void look_at_rows(const struct attention_head *h, long t, long rows, struct visible_keys *s)
{
  *s = (struct visible_keys){.low = h->length, .to = h->length};
  for (long r = 0; r < rows; r++) {
    const long lo = h->start[t + r], hi = end_of(h, t + r);
    s->low = min_long(s->low, lo);
    if (lo > s->from) s->from = lo;
    s->to = min_long(s->to, hi);
    if (hi > s->high) s->high = hi;
    s->lo[r] = lo;
    s->hi[r] = hi;
  }
}

/* Do all rows [t, t+rows) attend from the same key up to themselves? */
static int is_plain(const struct attention_head *h, long t, long rows)
{
  for (long r = 0; r < rows; r++)
    if (h->start[t + r] != h->start[t] || end_of(h, t + r) != t + r + 1) return 0;
  return h->start[t] <= t;
}

/* Number of rows of a strip that begins at t: all of it if its rows attend to almost the same keys, else one. *any is
   set to `seen`, or to NULL if they attend from the same key up to themselves. That choice changes bits; it is made
   for EIGHT rows, whatever STRIP is. */
static long strip_rows(const struct attention_head *h, long t, struct visible_keys *seen,
                       const struct visible_keys **any)
{
  const long eight = t / EIGHT * EIGHT;
  const int whole = t % STRIP == 0;
  *any = NULL;
  if (whole && eight + EIGHT <= h->length && !is_plain(h, eight, EIGHT)) {
    look_at_rows(h, eight, EIGHT, seen);
    if (seen->from < seen->to && seen->from - seen->low <= EIGHT && seen->high - seen->to <= EIGHT) {
      look_at_rows(h, t, STRIP, seen);
      *any = seen;
      return STRIP;
    }
  }
  if (whole && t + STRIP <= h->length && is_plain(h, t, STRIP)) return STRIP;
  if (!is_plain(h, t, 1)) {
    look_at_rows(h, t, 1, seen);
    *any = seen;
  }
  return 1;
}

/* Results of rows without any visible key: n zeros. */
static void no_keys(float *to, long n)
{
  for (long i = 0; i < n; i++) to[i] = 0;
}

/* Do whole strips from t on fill a vector, and attend to one chunk only? */
static int fills_vector(const struct attention_head *h, long t)
{
  return (int)LANES > STRIP && t % LANES == 0 && t + LANES <= h->length && t + LANES - h->start[t] <= CHUNK &&
         is_plain(h, t, LANES);
}

struct attention_forward_job {
  const struct attention_forward_args *x;
  float *memory;
  long floats;           /* of one worker */
  struct maxima *maxima; /* [batch, heads] */
};

/* Prefetch a strip's rows of a tensor from `row` on, columns [col, col + width): they lie far apart. */
#define SOON(tensor, row, rows, col, width, write) \
  do { \
    const float *first = AT(tensor, row, col); \
    const long apart = (tensor)->ld, columns = (width); \
    UNROLL \
    for (int r = 0; r < (rows); r++, first += apart) { \
      __builtin_prefetch(first, write, 2); \
      for (long c = PARTS; c < columns; c += PARTS) __builtin_prefetch(first + c, write, 2); \
    } \
  } while (0)

/* The sizes, which follow from shapes alone. */
static struct attention_head head_sizes(const struct tensor *q, const struct tensor *v,
                                        const struct attention_score *score)
{
  struct attention_head h = {.length = q->rows / score->batch,
                             .dim = q->cols / score->heads,
                             .value_dim = v->cols / score->groups,
                             .cap = score->cap};
  h.padded_dim = round_up(h.dim, PARTS);
  h.padded_value = round_up(h.value_dim, PARTS);
  return h;
}

static struct attention_head head_of(const struct tensor *q, const struct tensor *v,
                                     const struct tensor *start, const struct tensor *end,
                                     const struct attention_score *score, long sequence)
{
  struct attention_head h = head_sizes(q, v, score);
  h.cap_value = (float)number(score->cap_value);
  h.start = INTS(start) + sequence * h.length;
  h.end = end ? INTS(end) + sequence * h.length : NULL;
  return h;
}

#define HEAD(x, sequence) head_of((x)->q, (x)->v, (x)->start, (x)->end, &(x)->score, sequence)

static float *entropies_of(const struct attention_forward_args *x, long row, long number)
{
  return x->ml->cols > 2 * x->heads ? AT(x->ml, row, 2 * x->heads + number) : NULL;
}

/* One strip of query rows of head `number`, or one row; n: where the sequence begins. cap is h->cap, as an argument so
   that code without one is compiled apart. */
INLINE void forward_rows(int rows, int measured, long cap, const struct attention_forward_args *x,
                         const struct attention_head *h, long number, long n, long t,
                         const struct visible_keys *any, struct sight *m)
{
  const long group = number * x->groups / x->heads, q = number * h->dim, o = number * h->value_dim;
  SOON(x->o, n + t, rows, o, h->value_dim, 1);
  if (t + 2 * rows <= h->length) SOON(x->q, n + t + rows, rows, q, h->dim, 0);
  if (group + 1 < x->groups) { /* the next group's */
    SOON(x->k, n + t, rows, (group + 1) * h->dim, h->dim, 0);
    SOON(x->v, n + t, rows, (group + 1) * h->value_dim, h->value_dim, 0);
  }
  widen_rows(AT(x->q, n + t, q), x->q->ld, rows, h->dim, (float)x->scale, h->q, h->padded_dim);
  forward_strips(rows, measured, cap, h, t, any, AT(x->o, n + t, o), x->o->ld, AT(x->ml, n + t, 2 * number),
                 x->ml->ld, entropies_of(x, n + t, number), m);
}

/* All cases but whole strips of causal rows without a cap. Not inlined: compiled once. */
static __attribute__((noinline)) void forward_other_rows(long rows, const struct attention_forward_args *x,
                                                         const struct attention_head *h, long number, long n,
                                                         long t, const struct visible_keys *any,
                                                         struct sight *m)
{
  if (any && rows == 1)
    forward_rows(1, 1, h->cap, x, h, number, n, t, any, m);
  else if (any)
    forward_rows(STRIP, 1, h->cap, x, h, number, n, t, any, m);
  else if (rows == 1)
    forward_rows(1, 1, h->cap, x, h, number, n, t, NULL, m);
  else
    forward_rows(STRIP, 1, h->cap, x, h, number, n, t, NULL, m);
}

INLINE void forward_head(int measured, const struct attention_forward_job *job, long piece, int worker)
{
  const struct attention_forward_args *x = job->x;
  const long sequence = piece / x->heads, number = piece % x->heads, group = number * x->groups / x->heads;
  struct attention_head h = HEAD(x, sequence);
  head_place(&h, FORWARD, job->memory + worker * job->floats);
  const long n = sequence * h.length;
  pack_panels(AT(x->k, n, group * h.dim), x->k->ld, h.length, h.dim, h.keys);
  widen_rows(AT(x->v, n, group * h.value_dim), x->v->ld, h.length, h.value_dim, 1, h.value_rows,
             h.padded_value);
  struct sight m = {.top = ALL(-INFINITY), .bottom = ALL(INFINITY), .capped = ALL(-INFINITY)};
  struct visible_keys seen;
  const struct visible_keys *any;
  for (long t = 0, rows; t < h.length; t += rows) {
    rows = strip_rows(&h, t, &seen, &any);
    if (!any && rows == STRIP && !h.cap && fills_vector(&h, t)) rows = LANES;
    if (any && any->low >= any->high) {
      no_keys(AT(x->o, n + t, number * h.value_dim), h.value_dim);
      *AT(x->ml, n + t, 2 * number) = -INFINITY;
      *AT(x->ml, n + t, 2 * number + 1) = 0;
      if (entropies_of(x, n + t, number)) *entropies_of(x, n + t, number) = 0;
    } else if ((int)LANES > STRIP && rows == LANES)
      forward_rows(LANES, measured, 0, x, &h, number, n, t, NULL, &m);
    else if (!any && rows == STRIP && !h.cap)
      forward_rows(STRIP, measured, 0, x, &h, number, n, t, NULL, &m);
    else
      forward_other_rows(rows, x, &h, number, n, t, any, &m);
  }
  struct maxima *all = &job->maxima[piece];
  *all = (struct maxima){lane_max(m.top), -lane_max(-m.bottom), lane_max(m.capped), m.nan, m.entropy};
  if (!x->cap) all->top = all->capped;
  if (all->bottom == -INFINITY && x->cap != 1)
    all->entropy = NAN; /* 0 times -infinity, as in the definition */
}
static void forward_measured(void *job, long piece, int worker) { forward_head(1, job, piece, worker); }
static void forward_only(void *job, long piece, int worker) { forward_head(0, job, piece, worker); }

static struct attention_forward_job forward_job_of(const struct attention_forward_args *x)
{
  struct attention_head h = head_sizes(x->q, x->v, &x->score);
  return (struct attention_forward_job){.x = x, .floats = round_up(head_floats(&h, FORWARD), LANES)};
}

/* Memory for each worker, then the maxima of every head of every sequence. */
static size_t forward_work(const struct device *device, const struct attention_forward_job *job)
{
  return (size_t)(job->floats * pool_threads(device->pool)) * sizeof(float);
}

static size_t forward_scratch(const struct device *device, const void *args)
{
  const struct attention_forward_args *x = args;
  if (x->scores_format) return ops_ref.scratch[OP_attention_forward](device, x);
  struct attention_forward_job job = forward_job_of(x);
  return forward_work(device, &job) + (size_t)(x->batch * x->heads) * sizeof *job.maxima;
}

static void forward(struct device *device, const struct attention_forward_args *x, int measured)
{
  const long pieces = x->batch * x->heads;
  struct attention_forward_job job = forward_job_of(x);
  const size_t work = forward_work(device, &job);
  job.memory = device_scratch(device, work + (size_t)pieces * sizeof *job.maxima);
  job.maxima = (void *)((char *)job.memory + work);
  parallel_for(device->pool, pieces, measured ? forward_measured : forward_only, &job);
  if (!measured) return;
  put_stats(x->stats, job.maxima, x->q->rows, &x->score);
}
/* A separate number format for scores is only used in studies: use the reference. */
static void attention_forward(struct device *device, const struct attention_forward_args *x)
{
  if (x->scores_format) {
    ops_ref.attention_forward(device, x);
    return;
  }
  forward(device, x, 1);
}
static void attention_forward_only(struct device *device, const struct attention_forward_args *x)
{
  forward(device, x, 0);
}

/* --- backward ----------------------------------------------------------------------------------------- */
/* p_j = exp(f_j - m) / l; dv_j += p_j do; ds_j = f'(s_j) p_j (do.v_j - do.o); dq = scale ds k;
   dk_j += scale ds_j q. Scores of pairs that are not allowed are computed where a tile is cut, never used. */

struct strip_in {
  const float *o, *ml;
  long ldo, ldm;
  float *dq;
  long ldq;
  float scale;
};

/* p and ds of a strip's rows and one panel of keys */
INLINE void backward_tile(int rows, int vecs, long cap, const struct attention_head *h, long j,
                          const float through[STRIP], const float shift[STRIP], const float part[STRIP],
                          float *p, float *ds)
{
  vec s[STRIP][VECS];
  tile(rows, vecs, h->q, h->padded_dim, h->keys + j * h->dim, h->dim, s);
  UNROLL
  for (int r = 0; r < rows; r++) UNROLL
  for (int v = 0; v < vecs; v++) {
    vec power = capped(s[r][v], cap, h->cap_value) - shift[r], e = part[r] * vec_exp_nonpositive(power);
    VEC(p + r * STRIDE + v * LANES) = e;
    if (cap) VEC(ds + r * STRIDE + v * LANES) = times_slope(e, power, s[r][v], cap, h->cap_value);
  }
  const float *slope = cap ? ds : p;
  tile(rows, vecs, h->do_, h->padded_value, h->values + j * h->value_dim, h->value_dim, s);
  UNROLL
  for (int r = 0; r < rows; r++) UNROLL
  for (int v = 0; v < vecs; v++)
    VEC(ds + r * STRIDE + v * LANES) = VEC(slope + r * STRIDE + v * LANES) * (s[r][v] - through[r]);
}

INLINE void backward_strip(int rows, long cap, const struct attention_head *h, long t,
                           const struct visible_keys *any, const struct strip_in *in)
{
  const long first = any ? any->low : h->start[t], end = any ? any->high : t + rows;
  float through[LANES], shift[STRIP], part[STRIP];
  vec sum[STRIP][SPLIT] = {{{0}}}, sums[LANES] = {{0}};
  const long whole = h->value_dim / PARTS * PARTS;
  EACH_PART(c, v, whole) UNROLL
  for (int r = 0; r < rows; r++)
    sum[r][v] = fused(VEC(h->do_ + r * h->padded_value + c + v * LANES),
                      VEC(in->o + r * in->ldo + c + v * LANES), sum[r][v]);
  UNROLL
  for (int r = 0; r < rows; r++) {
    sums[r] = sum_of_parts(sum[r]);
    shift[r] = in->ml[r * in->ldm];
    part[r] = 1 / in->ml[r * in->ldm + 1];
  }
  VEC(through) = lane_sums(sums);
  UNROLL
  for (int r = 0; r < rows; r++)
    for (long c = whole; c < h->value_dim; c++)
      through[r] = fused_one(h->do_[r * h->padded_value + c], in->o[r * in->ldo + c], through[r]);
  begin_sums(h, any != NULL, end - first, h->padded_dim);
  for (long from = first / ALIGN * ALIGN, next; from < end; from = next) {
    next = any ? (from / BLOCK + 1) * BLOCK : from + BLOCK;
    const long to = min_long(next, end), seen = from > first ? from : first;
    float *p = h->score - from, *ds = h->other - from;
    for (long j = from; j < to; j += COLS)
      if ((int)VECS > SPLIT && j + PARTS >= end) /* all visible keys are in the first vector */
        backward_tile(rows, 1, cap, h, j, through, shift, part, p + j, ds + j);
      else
        backward_tile(rows, VECS, cap, h, j, through, shift, part, p + j, ds + j);
    if (any) {
      GATHER_SEEN(rows, ds, seen, to, any, h->key_rows, h->padded_dim, all_ones, h->sum);
      SCATTER_SEEN(rows, ds, seen, to, any, h->dk, h->padded_dim, h->q);
      SCATTER_SEEN(rows, p, seen, to, any, h->dv, h->padded_value, h->do_);
      continue;
    }
    GATHER(rows, ds, seen, to, t, h->key_rows, h->padded_dim, from > first ? all_ones : NULL, h->sum);
    SCATTER(rows, ds, seen, to, t, h->dk, h->padded_dim, h->q);
    SCATTER(rows, p, seen, to, t, h->dv, h->padded_value, h->do_);
  }
  narrow_rows(h->sum, h->padded_dim, rows, h->dim, in->scale, in->dq, in->ldq);
}

struct attention_backward_job {
  const struct attention_backward_args *x;
  float *memory;
  long floats;
  enum pass pass;
};

/* to += from, which begins anew */
static void move_sum(float *from, long n, double *to)
{
  for (long i = 0; i < n; i++) {
    to[i] += (double)from[i];
    from[i] = 0;
  }
}

/* Add dk and dv of the latest rows, which attend to keys [from, to), to those of earlier rows. */
static void move_sums(const struct attention_head *h, long from, long to)
{
  const long k = from * h->padded_dim, v = from * h->padded_value;
  move_sum(h->dk + k, (to - from) * h->padded_dim, h->dk_before + k);
  move_sum(h->dv + v, (to - from) * h->padded_value, h->dv_before + v);
}

/* As forward_rows. */
INLINE void backward_rows(int rows, long cap, const struct attention_backward_args *x,
                          const struct attention_head *h, long number, long n, long t,
                          const struct visible_keys *any)
{
  const long group = number * x->groups / x->heads, q = number * h->dim, o = number * h->value_dim;
  const struct strip_in in = {
    .o = AT(x->o, n + t, o),
    .ldo = x->o->ld,
    .ml = AT(x->ml, n + t, 2 * number),
    .ldm = x->ml->ld,
    .dq = AT(x->dq, n + t, q),
    .ldq = x->dq->ld,
    .scale = (float)x->scale,
  };
  SOON(x->dq, n + t, rows, q, h->dim, 1);
  SOON(x->dk, n + t, rows, group * h->dim, h->dim, 1);
  SOON(x->dv, n + t, rows, group * h->value_dim, h->value_dim, 1);
  if (t + 2 * rows <= h->length) {
    SOON(x->q, n + t + rows, rows, q, h->dim, 0);
    SOON(x->o, n + t + rows, rows, o, h->value_dim, 0);
    SOON(x->do_, n + t + rows, rows, o, h->value_dim, 0);
  }
  if (group + 1 < x->groups) { /* the next group's */
    SOON(x->k, n + t, rows, (group + 1) * h->dim, h->dim, 0);
    SOON(x->v, n + t, rows, (group + 1) * h->value_dim, h->value_dim, 0);
  }
  widen_rows(AT(x->q, n + t, q), x->q->ld, rows, h->dim, in.scale, h->q, h->padded_dim);
  widen_rows(AT(x->do_, n + t, o), x->do_->ld, rows, h->value_dim, 1, h->do_, h->padded_value);
  backward_strip(rows, cap, h, t, any, &in);
}

/* One group of heads of one sequence, so that dk and dv gather over its heads in order. */
static void backward_group(void *context, long piece, int worker)
{
  const struct attention_backward_job *job = context;
  const struct attention_backward_args *x = job->x;
  const long sequence = piece / x->groups, group = piece % x->groups, shared = x->heads / x->groups;
  struct attention_head h = HEAD(x, sequence);
  head_place(&h, job->pass, job->memory + worker * job->floats);
  const long n = sequence * h.length, keys = h.length * h.padded_dim, values = h.length * h.padded_value;
  const float *k = AT(x->k, n, group * h.dim), *v = AT(x->v, n, group * h.value_dim);
  pack_panels(k, x->k->ld, h.length, h.dim, h.keys);
  pack_panels(v, x->v->ld, h.length, h.value_dim, h.values);
  widen_rows(k, x->k->ld, h.length, h.dim, 1, h.key_rows, h.padded_dim);
  memset(h.dk, 0, (size_t)keys * sizeof *h.dk);
  memset(h.dv, 0, (size_t)values * sizeof *h.dv);
  if (h.dk_before) memset(h.dk_before, 0, (size_t)keys * sizeof *h.dk_before);
  if (h.dv_before) memset(h.dv_before, 0, (size_t)values * sizeof *h.dv_before);
  long added = 0, from = h.length, to = 0; /* rows since sums were moved, and the range of their keys */
  struct visible_keys seen;
  const struct visible_keys *any;
  for (long number = group * shared; number < (group + 1) * shared; number++)
    for (long t = 0, rows; t < h.length; t += rows) {
      rows = strip_rows(&h, t, &seen, &any);
      if (any && any->low >= any->high)
        no_keys(AT(x->dq, n + t, number * h.dim), h.dim);
      else if (any && rows == 1)
        backward_rows(1, h.cap, x, &h, number, n, t, &seen);
      else if (any)
        backward_rows(STRIP, h.cap, x, &h, number, n, t, &seen);
      else if (rows == 1)
        backward_rows(1, h.cap, x, &h, number, n, t, NULL);
      else if (h.cap)
        backward_rows(STRIP, h.cap, x, &h, number, n, t, NULL);
      else
        backward_rows(STRIP, 0, x, &h, number, n, t, NULL);
      added += rows;
      from = min_long(from, any ? any->low : h.start[t]);
      if ((any ? any->high : t + rows) > to) to = any ? any->high : t + rows;
      if (!h.dk_before || (added < ROWS && t + rows < h.length)) continue;
      move_sums(&h, from, to);
      added = 0, from = h.length, to = 0;
    }
  for (long i = 0; h.dk_before && i < keys; i++) h.dk[i] = (float)h.dk_before[i];
  for (long i = 0; h.dv_before && i < values; i++) h.dv[i] = (float)h.dv_before[i];
  narrow_rows(h.dk, h.padded_dim, h.length, h.dim, 1, AT(x->dk, n, group * h.dim), x->dk->ld);
  narrow_rows(h.dv, h.padded_value, h.length, h.value_dim, 1, AT(x->dv, n, group * h.value_dim), x->dv->ld);
}

static struct attention_backward_job backward_job_of(const struct attention_backward_args *x)
{
  struct attention_head h = head_sizes(x->q, x->v, &x->score);
  struct attention_backward_job job = {
    .x = x, .pass = h.length * (x->heads / x->groups) > ROWS ? LONG_BACKWARD : BACKWARD};
  job.floats = round_up(head_floats(&h, job.pass), LANES);
  return job;
}

static size_t backward_scratch(const struct device *device, const void *args)
{
  const struct attention_backward_args *x = args;
  if (x->scores_format) return ops_ref.scratch[OP_attention_backward](device, x);
  return (size_t)(backward_job_of(x).floats * pool_threads(device->pool)) * sizeof(float);
}

static void attention_backward(struct device *device, const struct attention_backward_args *x)
{
  if (x->scores_format) {
    ops_ref.attention_backward(device, x);
    return;
  }
  struct attention_backward_job job = backward_job_of(x);
  job.memory = device_scratch(device, backward_scratch(device, x));
  parallel_for(device->pool, x->batch * x->groups, backward_group, &job);
}

void EXPORT(ops_cpu_attention)(struct ops *ops)
{
  ops->attention_forward = attention_forward;
  ops->attention_backward = attention_backward;
  ops->scratch[OP_attention_forward] = forward_scratch;
  ops->scratch[OP_attention_backward] = backward_scratch;
}
void EXPORT(ops_cpu_attention_only)(struct ops *ops) { ops->attention_forward = attention_forward_only; }
