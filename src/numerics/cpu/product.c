/* product.c - dense products: matmul, symmetric ones, and those of experts
   The right factor is packed once into panels of NR columns; a tile of MR x NR sums lives in registers
   and walks down k, while the left factor is read in place or, transposed, through a packed block. A sum
   runs over blocks of KC along k, in order, so no cut along rows or columns changes a bit.
   (Goto and van de Geijn, Anatomy of high-performance matrix multiplication, 2008.) */
#include <string.h>
#include "numerics/cpu/cpu.h"

/* IN_PLACE: numbers that a block of the right factor spans, up to which it is near enough as it lies. SMALL_PRODUCT:
   numbers of a product that stays near while k is passed over in slices. AHEAD: steps of k. */
enum {
  KC = 256,
  BLOCK_COLS = 512,
  BLOCK_FLOPS = 4000000,
  IN_PLACE = 3 << 14,
  SMALL_PRODUCT = 3 << 17,
  AHEAD = 16
};

/* c [m,n] = alpha a b + beta d; symmetric: only tiles that reach j <= i are computed. */
struct product {
  long m, n, k;
  const float *a;
  long a_row, a_step; /* a[i*a_row + p*a_step] */
  const float *b;
  long b_row, b_step; /* b[j*b_row + p*b_step] */
  float *c;
  long ldc;
  const float *d;
  long ldd;
  float alpha, beta;
  int symmetric;
  int pack_a, pack_b;
  long from, to; /* the terms that are packed and added now */
  float *right;  /* panel j/NR, then p - from, then j%NR; columns beyond n are 0 */
  float *left;   /* [threads][block_rows*KC]: strip i/MR, then p, then i%MR */
  long block_rows, row_blocks, block_cols;
};

/* The right factor's panels: one at a time where columns lie along k; where rows do, AHEAD of them, since memory is
   read best as it lies. */
static void pack_panel(const struct product *g, long panel)
{
  const long k = g->to - g->from;
  for (long j = panel * NR; j < min_long((panel + 1) * NR, g->n); j += WIDTH)
    pack_transposed(g->b + j * g->b_row + g->from, g->b_row, g->n - j, k, g->right + panel * NR * k + j % NR,
                    NR);
}

static void pack_rows(const struct product *g, long p)
{
  const long k = g->to - g->from, steps = min_long(AHEAD, k - p);
  for (long j = 0; j < g->n; j += WIDTH) {
    const float *x = g->b + (g->from + p) * g->b_step + j;
    float *to = g->right + j / NR * NR * k + p * NR + j % NR;
    const long cols = min_long(WIDTH, g->n - j);
    for (long u = 0; u < steps; u++, x += g->b_step, to += NR) {
      __builtin_prefetch(x + AHEAD * g->b_step, 0, 2);
      if (cols == WIDTH)
        WIDE(to) = WIDE(x);
      else
        for (long i = 0; i < WIDTH; i++) to[i] = i < cols ? x[i] : 0;
    }
  }
}

static long right_pieces(const struct product *g)
{
  if (!g->pack_b) return 0;
  return g->b_step == 1 ? (g->n + NR - 1) / NR : (g->to - g->from + AHEAD - 1) / AHEAD;
}
static void pack_right(void *context, long piece, int worker)
{
  (void)worker;
  const struct product *g = context;
  if (g->b_step == 1)
    pack_panel(g, piece);
  else
    pack_rows(g, piece * AHEAD);
}

/* A block of a transposed left factor into strips: some steps of k at a time, so that lines are written whole. */
static void pack_left(const struct product *g, long i0, long rows, long p0, long k, float *to)
{
  const float *from = g->a + i0 + p0 * g->a_step;
  for (long p = 0; p < k; p += AHEAD, from += AHEAD * g->a_step, to += AHEAD * MR) {
    const long steps = min_long(AHEAD, k - p);
    for (long i = 0; i < rows; i += MR) {
      const long lanes = min_long(MR, rows - i);
      for (long u = 0; u < steps; u++) {
        const float *x = from + u * g->a_step + i;
        float *y = to + i * k + u * MR;
        if (i % PARTS == 0) __builtin_prefetch(x + AHEAD * g->a_step, 0, 2);
        if (lanes == MR)
          memcpy(y, x, MR * sizeof *y);
        else
          for (long r = 0; r < lanes; r++) y[r] = x[r];
      }
    }
  }
}

/* Where a tile reads and writes: k terms from p0 on, rows from i0 and columns from j0 on. */
struct tile_place {
  long p0, k, i0, j0;
  const float *a, *b, *ahead;
  int narrow; /* are the sums of the first strip's last line not needed? */
};

INLINE wide widened(line x)
{
#ifdef __AVX512F__
  return (wide)_mm512_zextps256_ps512((__m256)x);
#else
  return x;
#endif
}

INLINE line fused_line(float a, line b, line c)
{
#ifdef __AVX512F__
  return (line)_mm256_fmadd_ps(_mm256_set1_ps(a), (__m256)b, (__m256)c);
#else
  return fused(ALL(a), b, c);
#endif
}

INLINE void step(int rows, int cols, const float *a, long a_row, const float *b, wide s[MR][2], line last[MR])
{
  const wide b0 = WIDE(b), b1 = WIDE(cols == NR ? b + WIDTH : b);
  const line b_last = LINE(b + cols - SQUARE);
  UNROLL
  for (int i = 0; i < rows; i++) {
    const vec x = ALL(a[i * a_row]);
    if (cols >= WIDTH) s[i][0] = fused(x, b0, s[i][0]);
    if (cols == NR) s[i][1] = fused(x, b1, s[i][1]);
    if (cols % WIDTH) last[i] = fused_line(a[i * a_row], b_last, last[i]);
  }
}

/* rows x cols sums; where cols end within a register, a line of SQUARE costs half of it */
INLINE void add_products(int rows, int cols, const struct tile_place *at, long a_row, long a_step,
                         long b_step, wide s[MR][2])
{
  const float *a = at->a, *b = at->b, *ahead = at->ahead;
  line last[MR] = {{0}};
  long p = 0;
  for (; TERMS > 1 && p + TERMS <= at->k; p += TERMS, ahead += 64 / sizeof *ahead) {
    __builtin_prefetch(ahead, 0, 2); /* a line of the panel that comes next */
    UNROLL
    for (int u = 0; u < TERMS; u++, a += a_step, b += b_step) step(rows, cols, a, a_row, b, s, last);
  }
  ROLLED
  for (; p < at->k; p++, a += a_step, b += b_step) step(rows, cols, a, a_row, b, s, last);
  UNROLL
  for (int i = 0; i < rows; i++)
    if (cols % WIDTH) s[i][cols / WIDTH] = widened(last[i]);
}

INLINE wide finish(float alpha, wide sum, float beta, const float *d)
{
  wide x = alpha * sum;
  if (beta != 0) x = fused(ALL(beta), WIDE(d), x);
  return x;
}

/* rows x (halves*WIDTH) sums in registers, if narrow none of the last line; then c = alpha sum + beta d (+ c after
   the first block of k) */
INLINE void tile(int rows, int halves, int narrow, const struct product *g, const struct tile_place *at,
                 long a_row, long a_step, long b_step)
{
  float *c = g->c + at->i0 * g->ldc + at->j0;
  UNROLL
  for (int i = 0; i < rows; i++) {
    __builtin_prefetch(c + i * g->ldc, 1);
    if (halves == 2) __builtin_prefetch(c + i * g->ldc + WIDTH, 1);
  }
  wide s[MR][2] = {{{0}}};
  if (SQUARE < WIDTH && __builtin_expect(narrow, 0))
    add_products(rows, halves * WIDTH - SQUARE, at, a_row, a_step, b_step, s);
  else
    add_products(rows, halves * WIDTH, at, a_row, a_step, b_step, s);

  const int first = at->p0 == 0;
  const float beta = first ? g->beta : 1;
  const float *d = first ? g->d + at->i0 * g->ldd + at->j0 : c;
  const long ldd = first ? g->ldd : g->ldc, cols = g->n - at->j0;
  if (cols >= halves * WIDTH) {
    UNROLL
    for (int i = 0; i < rows; i++) {
      WIDE(c + i * g->ldc) = finish(g->alpha, s[i][0], beta, d + i * ldd);
      if (halves == 2) WIDE(c + i * g->ldc + WIDTH) = finish(g->alpha, s[i][1], beta, d + i * ldd + WIDTH);
    }
  } else {
    float x[MR][NR];
    UNROLL
    for (int i = 0; i < rows; i++) {
      WIDE(x[i]) = g->alpha * s[i][0];
      if (halves == 2) WIDE(x[i] + WIDTH) = g->alpha * s[i][1];
    }
    for (int i = 0; i < rows; i++)
      for (long j = 0; j < cols; j++)
        c[i * g->ldc + j] = beta != 0 ? fused_one(beta, d[i * ldd + j], x[i][j]) : x[i][j];
  }
}

/* All strips of a block and one panel of columns, next_a apart in the left factor. One function, since the overhead
   around a tile of short k is noticeable. */
INLINE void strips(long rows, int halves, const struct product *g, struct tile_place *at, long a_row,
                   long a_step, long next_a, long b_step)
{
  int narrow = at->narrow; /* here, for whole strips alone: tile() would read it from memory */
  const long share = rows >= MR ? NR * at->k / (rows / MR) : 0;
  for (; rows >= MR; rows -= MR, at->i0 += MR, at->a += next_a, at->ahead += share, narrow = 0)
    tile(MR, halves, narrow, g, at, a_row, a_step, b_step);
  switch (rows) {
/* clang-format off */
#define CASE(r) case r: tile(r, halves, 0, g, at, a_row, a_step, b_step); break;
    CASE(1) CASE(2) CASE(3)
#if defined __AVX2__ || defined __aarch64__
    CASE(4) CASE(5)
#endif
#if defined __AVX512F__ || defined __aarch64__
    CASE(6) CASE(7)
#endif
/* clang-format on */
#undef CASE
  }
}
INLINE void strips_with(long rows, int halves, const struct product *g, struct tile_place *at)
{
  const long b_step = g->pack_b ? NR : g->b_step;
  if (g->pack_a)
    strips(rows, halves, g, at, 1, MR, MR * at->k, b_step);
  else if (g->a_step == 1)
    strips(rows, halves, g, at, g->a_row, 1, MR * g->a_row, b_step);
  else
    strips(rows, halves, g, at, 1, g->a_step, MR, b_step);
}
/* Passed by value: a struct visible to the caller would be written after every strip. */
static void strips_full(long rows, const struct product *g, struct tile_place at)
{
  strips_with(rows, 2, g, &at);
}
static void strips_half(long rows, const struct product *g, struct tile_place at)
{
  strips_with(rows, 1, g, &at);
}

/* One piece: a block of rows times a block of columns, over a slice of k. */
static void multiply_block(void *context, long piece, int worker)
{
  const struct product *g = context;
  long i0 = piece % g->row_blocks * g->block_rows, rows = min_long(g->block_rows, g->m - i0);
  long from = piece / g->row_blocks * g->block_cols, to = min_long(from + g->block_cols, g->n);
  if (g->symmetric) to = min_long(to, i0 + rows);
  if (from >= to) return;
  float *left = g->left + worker * round_up(g->block_rows, MR) * KC;
  const long packed = g->to - g->from;
  for (long p0 = g->from; p0 < g->to; p0 += KC) {
    struct tile_place at = {.p0 = p0, .k = min_long(KC, g->to - p0)};
    if (g->pack_a) pack_left(g, i0, rows, p0, at.k, left);
    for (at.j0 = from; at.j0 < to; at.j0 += NR) {
      at.b = g->pack_b ? g->right + at.j0 * packed + (p0 - g->from) * NR : g->b + at.j0 + p0 * g->b_step;
      at.ahead = at.b + NR * packed;
      /* rows of the block: those above the diagonal are left out, and those that reach half a panel come first;
         of either the first strip may end a line sooner, on the diagonal */
      const long past = at.j0 - i0, none = g->symmetric && past > 0 ? past / MR * MR : 0;
      long half = none;
      if (g->n - at.j0 <= WIDTH)
        half = rows;
      else if (g->symmetric && past + WIDTH > none)
        half = min_long(rows, (past + WIDTH) / MR * MR);
      at.i0 = i0 + none;
      at.a = g->pack_a ? left + none * at.k : g->a + at.i0 * g->a_row + p0 * g->a_step;
      at.narrow = g->symmetric && none + MR <= past + WIDTH - SQUARE;
      if (half > none) strips_half(half - none, g, at);
      at.a += (half - none) * (g->pack_a ? at.k : g->a_row);
      at.i0 += half - none;
      at.narrow = g->symmetric && half + MR <= past + NR - SQUARE;
      if (rows > half) strips_full(rows - half, g, at);
    }
  }
}

/* Blocks of rows of about BLOCK_FLOPS or, for long k, of about 128 rows, so that each panel of the right factor is
   reused while it is in the nearest cache. Blocks are as equal as strips allow. A product with too few rows is cut by
   its columns, unless each block would pack the left factor again. */
static void cut(struct product *g)
{
  const long cols = min_long(g->n, BLOCK_COLS);
  const double flops = 2.0 * (double)g->m * (double)cols * (double)g->k;
  const long wanted = flops < BLOCK_FLOPS ? 1 : round_up((long)(flops / BLOCK_FLOPS) + 1, 4);
  const long blocks = g->m <= 128 ? 1 : min_long(wanted, round_up((g->m + 127) / 128, 4));
  g->block_rows = round_up((g->m + blocks - 1) / blocks, MR);
  g->row_blocks = (g->m + g->block_rows - 1) / g->block_rows;
  g->block_cols = blocks > 1 || g->pack_a ? BLOCK_COLS : round_up((cols + wanted - 1) / wanted, NR);
}

/* Terms packed at a time: blocks of KC for a small product, so that the packed factors stay in cache; else all terms,
   so that the product is written once. */
static long slice_of(const struct product *g)
{
  return g->m * g->n <= SMALL_PRODUCT ? min_long(g->k, KC) : g->k;
}

static int next_slice(struct product *g)
{
  g->from = g->to;
  g->to = min_long(g->from + slice_of(g), g->k);
  return g->from < g->k;
}

/* Choose blocks, and the factors to pack: packing pays unless a factor is read few times or is already contiguous.
   Returns the room for packed factors, in numbers; *right: where the left factor's begins. */
static long plan_product(struct product *g, int threads, long *right)
{
  g->pack_a = g->a_step != 1 && g->a_step > 512;
  cut(g);
  g->pack_b = g->b_row != 1 || g->n % WIDTH != 0 || min_long(g->k, KC) * g->b_step > IN_PLACE;
  long panels = g->pack_b ? (g->n + NR - 1) / NR : 0;
  *right = round_up(panels * NR * slice_of(g), LANES);
  return *right + (g->pack_a ? round_up(g->block_rows, MR) * KC * threads : 0);
}

static long blocks_of(const struct product *g)
{
  return g->row_blocks * ((g->n + g->block_cols - 1) / g->block_cols);
}

/* --- sums over rows that lie in the threads' caches --------------------------------------------------------- */
/* Both factors may have a row for each term (the gradient of a weight: for each token). Threads that compute
   different columns then all read all rows, mostly from other threads' caches. For a small result each block of KC
   terms is a separate product, on the thread that has its rows in cache from earlier calls. The blocks are added in
   their order: the same bits. */
enum { PARTIAL = 1 << 17 }; /* numbers of all blocks but the first, at most */

struct by_terms {
  struct product g;
  long blocks, each, ld;
  long right, left; /* numbers of a block's packed right factor; of a worker's packed left one */
  float *partial;   /* [blocks - 1][m, ld] */
};

static int goes_by_terms(const struct device *device, const struct product *g)
{
  return pool_threads(device->pool) > 1 && !device->is_worker && g->a_row == 1 && g->a_step != 1 &&
         g->b_row == 1 && g->k > KC && (g->k - 1) / KC * g->m * g->n <= PARTIAL;
}

/* As for the whole product, except for the packed factors. Returns the numbers that it takes. */
static long plan_by_terms(struct by_terms *x, struct product g, int threads)
{
  long right;
  plan_product(&g, threads, &right);
  *x = (struct by_terms){.g = g,
                         .blocks = (g.k + KC - 1) / KC,
                         .each = blocks_of(&g),
                         .ld = round_up(g.n, LANES),
                         .right = right,
                         .left = g.pack_a ? round_up(g.block_rows, MR) * KC : 0};
  return x->blocks * x->right + threads * x->left + (x->blocks - 1) * g.m * x->ld;
}

/* Terms of one block, as a product. */
static struct product block_of_terms(const struct by_terms *x, long block)
{
  struct product g = x->g;
  const long from = block * KC;
  g.k = g.to = min_long(KC, g.k - from);
  g.a += from * g.a_step;
  g.b += from * g.b_step;
  g.right += block * x->right;
  if (block) g.c = x->partial + (block - 1) * g.m * x->ld, g.ldc = x->ld, g.beta = 0;
  return g;
}

static void pack_terms(void *context, long piece, int worker)
{
  const struct by_terms *x = context;
  const struct product g = block_of_terms(x, piece / (KC / AHEAD));
  if (piece % (KC / AHEAD) < right_pieces(&g)) pack_right((void *)&g, piece % (KC / AHEAD), worker);
}

static void multiply_terms(void *context, long piece, int worker)
{
  const struct by_terms *x = context;
  const struct product g = block_of_terms(x, piece / x->each);
  multiply_block((void *)&g, piece % x->each, worker);
}

static void add_terms(void *context, long row, int worker)
{
  (void)worker;
  const struct by_terms *x = context;
  float *c = x->g.c + row * x->g.ldc;
  for (long block = 1; block < x->blocks; block++) {
    const float *more = x->partial + ((block - 1) * x->g.m + row) * x->ld;
    EACH(j, x->g.n) put(c + j, get(c + j, x->g.n - j) + get(more + j, x->g.n - j), x->g.n - j);
  }
}

static void multiply_by_terms(struct device *device, const struct product *g)
{
  struct by_terms x;
  const long room = plan_by_terms(&x, *g, pool_threads(device->pool));
  x.g.right = device_scratch(device, sizeof(float) * (size_t)room);
  x.g.left = x.g.right + x.blocks * x.right;
  x.partial = x.g.left + pool_threads(device->pool) * x.left;
  if (x.g.pack_b) parallel_for(device->pool, x.blocks * (KC / AHEAD), pack_terms, &x);
  parallel_for(device->pool, x.blocks * x.each, multiply_terms, &x);
  parallel_for(device->pool, g->m, add_terms, &x);
}

static void multiply(struct device *device, struct product *g)
{
  if (goes_by_terms(device, g)) {
    multiply_by_terms(device, g);
    return;
  }
  long right, room = plan_product(g, pool_threads(device->pool), &right);
  g->right = device_scratch(device, sizeof(float) * (size_t)room);
  g->left = g->right + right;
  while (next_slice(g)) {
    parallel_for(device->pool, right_pieces(g), pack_right, g);
    parallel_for(device->pool, blocks_of(g), multiply_block, g);
  }
}

/* The room by terms is at least that of the whole product. */
static size_t product_scratch(const struct device *device, struct product g)
{
  long right;
  struct by_terms x;
  if (goes_by_terms(device, &g))
    return sizeof(float) * (size_t)plan_by_terms(&x, g, pool_threads(device->pool));
  return sizeof(float) * (size_t)plan_product(&g, pool_threads(device->pool), &right);
}

static struct product product_of(const struct matmul_args *x)
{
  const struct tensor *a = x->a, *b = x->b, *c = x->c, *d = x->d ? x->d : c;
  return (struct product){
    .m = c->rows,
    .n = c->cols,
    .k = x->ta ? a->rows : a->cols,
    .a = a->data,
    .a_row = x->ta ? 1 : a->ld,
    .a_step = x->ta ? a->ld : 1,
    .b = b->data,
    .b_row = x->tb ? b->ld : 1,
    .b_step = x->tb ? 1 : b->ld,
    .c = c->data,
    .ldc = c->ld,
    .d = d->data,
    .ldd = d->ld,
    .alpha = (float)x->alpha,
    .beta = x->add || x->d ? 1 : 0,
  };
}

static size_t matmul_scratch(const struct device *device, const void *args)
{
  return product_scratch(device, product_of(args));
}

/* Calls for some rows share the right factor, packed at once. */
static size_t matmul_shared(const struct device *device, const void *args)
{
  (void)device;
  struct product g = product_of(args);
  long right;
  plan_product(&g, 1, &right);
  return g.pack_b ? sizeof(float) * (size_t)(round_up(g.n, NR) * g.k) : 0;
}

/* With it in `right`, all terms at once; the left factor is read as it lies. */
static struct product shared_product(const struct matmul_args *x, const void *right)
{
  struct product g = product_of(x);
  long numbers;
  plan_product(&g, 1, &numbers);
  g.right = g.left = (float *)right;
  g.to = g.k;
  return g;
}

static void matmul_share(struct device *device, const void *args, void *room, long part, long parts)
{
  (void)device;
  struct product g = shared_product(args, room);
  const long pieces = right_pieces(&g);
  for (long i = part * pieces / parts; i < (part + 1) * pieces / parts; i++) pack_right(&g, i, 0);
}

static void matmul(struct device *device, const struct matmul_args *x)
{
  struct product g = device->shared ? shared_product(x, device->shared) : product_of(x);
  if (device->shared)
    parallel_for(device->pool, blocks_of(&g), multiply_block, &g);
  else
    multiply(device, &g);
}

/* The first i lanes of x, the others of y. */
INLINE wide behind(int i, wide x, wide y)
{
  typedef int32_t mask __attribute__((vector_size(4 * WIDTH)));
  mask first;
  UNROLL
  for (int j = 0; j < WIDTH; j++) first[j] = j < i ? -1 : 0;
  return (wide)(((mask)x & first) | ((mask)y & ~first));
}

/* Upper triangle from the lower one, WIDTH rows at a time. */
static void mirror_rows(void *context, long strip, int worker)
{
  (void)worker;
  const struct product *g = context;
  const long ld = g->ldc, i0 = strip * WIDTH, rows = min_long(WIDTH, g->m - i0);
  const float *low = g->c + i0 * ld;
  float *high = g->c + i0, *diagonal = high + i0 * ld, turned[WIDTH * WIDTH];
  if (rows == WIDTH) {
    pack_transposed(low, ld, WIDTH, i0, high, ld);
    pack_transposed(diagonal, ld, WIDTH, WIDTH, turned, WIDTH);
    UNROLL
    for (int i = 0; i < WIDTH; i++) /* entries below the diagonal stay */
      WIDE(diagonal + i * ld) = behind(i, WIDE(diagonal + i * ld), WIDE(turned + i * WIDTH));
  } else
    for (long i = 0; i < rows; i++)
      for (long j = 0; j < i0 + i; j++) high[j * ld + i] = low[i * ld + j];
}

/* c = alpha a b, or a b^T, + beta a; mirror_rows fills the entries above the diagonal */
static struct product half_product(const struct tensor *c, const struct tensor *a, const struct tensor *b,
                                   int turned, double alpha, double beta)
{
  return (struct product){
    .m = c->rows,
    .n = c->rows,
    .k = a->cols,
    .a = a->data,
    .a_row = a->ld,
    .a_step = 1,
    .b = b->data,
    .b_row = turned ? b->ld : 1,
    .b_step = turned ? 1 : b->ld,
    .c = c->data,
    .ldc = c->ld,
    .d = a->data,
    .ldd = a->ld,
    .alpha = (float)alpha,
    .beta = (float)beta,
    .symmetric = 1,
  };
}

static struct product product_of_gram(const struct gram_args *x)
{
  const int square = x->beta != 0; /* then a is symmetric, its own transpose */
  struct product g = half_product(x->c, x->a, x->a, !square && !x->ta, x->alpha, x->beta);
  if (x->ta) g.k = x->a->rows, g.a_row = 1, g.a_step = x->a->ld;
  return g;
}

static size_t gram_scratch(const struct device *device, const void *args)
{
  return product_scratch(device, product_of_gram(args));
}

static void multiply_symmetric(struct device *device, struct product g)
{
  multiply(device, &g);
  parallel_for(device->pool, (g.m + WIDTH - 1) / WIDTH, mirror_rows, &g);
}

static void gram(struct device *device, const struct gram_args *x)
{
  multiply_symmetric(device, product_of_gram(x));
}

static struct product product_of_symmetric(const struct symmetric_product_args *x)
{
  return half_product(x->c, x->a, x->b, 0, 1, 0);
}

static size_t symmetric_product_scratch(const struct device *device, const void *args)
{
  return product_scratch(device, product_of_symmetric(args));
}

static void symmetric_product(struct device *device, const struct symmetric_product_args *x)
{
  multiply_symmetric(device, product_of_symmetric(x));
}

/* --- products by expert ---------------------------------------------------------------------------------- */
/* The experts' ranges are known only at run time. Work is cut into pieces of one expert, each a separate product on
   one worker. No cut changes a bit, since none goes along k. */

enum { EXPERT_ROWS = 256, EXPERT_COLS = 128 };

static void multiply_alone(struct product *g, float *room)
{
  long right;
  plan_product(g, 1, &right);
  g->right = room;
  g->left = room + right;
  while (next_slice(g)) {
    for (long i = 0; i < right_pieces(g); i++) pack_right(g, i, 0);
    for (long i = 0; i < blocks_of(g); i++) multiply_block(g, i, 0);
  }
}

struct expert_job {
  const void *args;
  float *room; /* [threads][width] */
  long width;
};

/* Rows [row, row + rows) of y, of expert e. */
static struct product rows_product(const struct expert_matmul_args *x, long e, long row, long rows)
{
  long block = x->w->rows / (x->first->cols - 1);
  return (struct product){
    .m = rows,
    .n = x->y->cols,
    .k = x->x->cols,
    .a = REALS(x->x) + row * x->x->ld,
    .a_row = x->x->ld,
    .a_step = 1,
    .b = REALS(x->w) + e * block * x->w->ld,
    .b_row = x->tb ? x->w->ld : 1,
    .b_step = x->tb ? 1 : x->w->ld,
    .c = REALS(x->y) + row * x->y->ld,
    .ldc = x->y->ld,
    .d = REALS(x->y) + row * x->y->ld,
    .ldd = x->y->ld,
    .alpha = 1,
    .beta = x->add ? 1 : 0,
  };
}

static long expert_matmul_width(const struct expert_matmul_args *x)
{
  long right;
  struct product g = rows_product(x, 0, 0, min_long(EXPERT_ROWS, x->y->rows));
  return round_up(plan_product(&g, 1, &right), LANES);
}

static size_t expert_matmul_scratch(const struct device *device, const void *args)
{
  return sizeof(float) * (size_t)(pool_threads(device->pool) * expert_matmul_width(args));
}

static void expert_rows(void *context, long piece, int worker)
{
  const struct expert_job *job = context;
  const struct expert_matmul_args *x = job->args;
  const int *first = INTS(x->first);
  long e = 0;
  for (;; e++) {
    long pieces = (first[e + 1] - first[e] + EXPERT_ROWS - 1) / EXPERT_ROWS;
    if (piece < pieces) break;
    piece -= pieces;
  }
  long row = first[e] + piece * EXPERT_ROWS;
  struct product g = rows_product(x, e, row, min_long(EXPERT_ROWS, first[e + 1] - row));
  multiply_alone(&g, job->room + worker * job->width);
}

static void expert_matmul(struct device *device, const struct expert_matmul_args *x)
{
  struct expert_job job = {.args = x, .width = expert_matmul_width(x)};
  const int *first = INTS(x->first);
  long pieces = 0;
  for (long e = 0; e + 1 < x->first->cols; e++)
    pieces += (first[e + 1] - first[e] + EXPERT_ROWS - 1) / EXPERT_ROWS;
  job.room = device_scratch(device, expert_matmul_scratch(device, x));
  parallel_for(device->pool, pieces, expert_rows, &job);
}

/* Columns [col, col + EXPERT_COLS) of dw_e, from `rows` rows of dy and x from `row` on. */
static struct product outer_product(const struct expert_outer_args *x, long e, long col, long row, long rows)
{
  long block = x->dw->rows / (x->first->cols - 1);
  float *c = REALS(x->dw) + e * block * x->dw->ld + col;
  return (struct product){
    .m = block,
    .n = min_long(EXPERT_COLS, x->dw->cols - col),
    .k = rows,
    .a = REALS(x->dy) + row * x->dy->ld,
    .a_row = 1,
    .a_step = x->dy->ld,
    .b = REALS(x->x) + row * x->x->ld + col,
    .b_row = 1,
    .b_step = x->x->ld,
    .c = c,
    .ldc = x->dw->ld,
    .d = c,
    .ldd = x->dw->ld,
    .alpha = 1,
    .beta = x->add ? 1 : 0,
  };
}

static long outer_width(const struct expert_outer_args *x, long col)
{
  long right;
  struct product g = outer_product(x, 0, col, 0, x->x->rows);
  plan_product(&g, 1, &right);
  return round_up(right + (g.pack_a ? round_up(g.m, MR) * KC : 0), LANES);
}

/* The last columns may be packed where whole blocks are not. */
static long expert_outer_width(const struct expert_outer_args *x)
{
  const long first = outer_width(x, 0), last = outer_width(x, (x->dw->cols - 1) / EXPERT_COLS * EXPERT_COLS);
  return first > last ? first : last;
}

static size_t expert_outer_scratch(const struct device *device, const void *args)
{
  return sizeof(float) * (size_t)(pool_threads(device->pool) * expert_outer_width(args));
}

static void expert_columns(void *context, long piece, int worker)
{
  const struct expert_job *job = context;
  const struct expert_outer_args *x = job->args;
  long across = (x->dw->cols + EXPERT_COLS - 1) / EXPERT_COLS, e = piece / across;
  long row = INTS(x->first)[e], rows = INTS(x->first)[e + 1] - row;
  struct product g = outer_product(x, e, piece % across * EXPERT_COLS, row, rows);
  if (rows > 0)
    multiply_alone(&g, job->room + worker * job->width);
  else
    for (long i = 0; !x->add && i < g.m; i++) memset(g.c + i * g.ldc, 0, (size_t)g.n * sizeof *g.c);
}

static void expert_outer(struct device *device, const struct expert_outer_args *x)
{
  struct expert_job job = {.args = x, .width = expert_outer_width(x)};
  job.room = device_scratch(device, expert_outer_scratch(device, x));
  parallel_for(device->pool, (x->first->cols - 1) * ((x->dw->cols + EXPERT_COLS - 1) / EXPERT_COLS),
               expert_columns, &job);
}

void EXPORT(ops_cpu_product)(struct ops *ops)
{
  ops->matmul = matmul;
  ops->gram = gram;
  ops->symmetric_product = symmetric_product;
  ops->scratch[OP_matmul] = matmul_scratch;
  ops->shared[OP_matmul] = matmul_shared;
  ops->share[OP_matmul] = matmul_share;
  ops->scratch[OP_gram] = gram_scratch;
  ops->scratch[OP_symmetric_product] = symmetric_product_scratch;
  ops->expert_matmul = expert_matmul;
  ops->expert_outer = expert_outer;
  ops->scratch[OP_expert_matmul] = expert_matmul_scratch;
  ops->scratch[OP_expert_outer] = expert_outer_scratch;
}
