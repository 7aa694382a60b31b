/* matrix_spectrum.c - singular values of a matrix that is read block by block */
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "zoo/spectra.h"
#include "base/memory.h"

enum {
  SVD_AREA = 1 << 19,  /* up to this number of elements the whole matrix is decomposed */
  PACKED_SIDE = 11000, /* larger Gram matrices do not fit twice into 2 GB */
  TILE = 256,          /* side of a tile of a Gram matrix */
  BLOCK_AREA = 1 << 20 /* elements of the matrix in memory */
};

/* The lower triangle, by columns, within a full matrix or packed. */
struct gram {
  long n;
  int packed;
  double *lower;
};

static double *column_of(const struct gram *g, long column)
{
  size_t n = (size_t)g->n, c = (size_t)column;
  return g->packed ? g->lower + c * n - c * (c + 1) / 2 : g->lower + c * n; /* row r is at [r] */
}

/* A block of the matrix: `length` numbers of each of the n rows or columns of the Gram matrix. */
struct matrix_block {
  struct gram *gram;
  const double *x; /* by_rows: [length, n]; else [n, length] */
  long length;
  int by_rows;
};

static long tiles_of(long n) { return (n + TILE - 1) / TILE; }

/* Tile `piece` of the lower triangle, counted along its rows. */
static void add_tile(void *context, long piece, int worker)
{
  const struct matrix_block *b = context;
  double tile[TILE * TILE];
  long i = 0, n = b->gram->n;
  (void)worker;
  while ((i + 1) * (i + 2) / 2 <= piece) i++;
  long j = piece - i * (i + 1) / 2, rows = n - i * TILE < TILE ? n - i * TILE : TILE,
       cols = n - j * TILE < TILE ? n - j * TILE : TILE, ld = b->by_rows ? n : b->length;
  const double *xi = b->x + i * TILE * (b->by_rows ? 1 : ld), *xj = b->x + j * TILE * (b->by_rows ? 1 : ld);
  cblas_dgemm(CblasRowMajor, b->by_rows ? CblasTrans : CblasNoTrans, b->by_rows ? CblasNoTrans : CblasTrans,
              (int)cols, (int)rows, (int)b->length, 1, xj, (int)ld, xi, (int)ld, 0, tile, (int)rows);
  for (long c = 0; c < cols; c++) {
    double *column = column_of(b->gram, j * TILE + c);
    for (long r = i == j ? c : 0; r < rows; r++) column[i * TILE + r] += tile[c * rows + r];
  }
}

static void add_block(struct matrix_block *b, struct pool *pool)
{
  long tiles = tiles_of(b->gram->n), pieces = tiles * (tiles + 1) / 2;
  if (pool)
    parallel_for(pool, pieces, add_tile, b);
  else
    for (long p = 0; p < pieces; p++) add_tile(b, p, 0);
}

/* Compute X^T X or X X^T, whichever is smaller. */
static void fill(struct gram *g, const struct weight *w, long row, long rows, struct pool *pool)
{
  long cols = (long)w->cols, by_rows = cols <= rows, along = by_rows ? rows : cols;
  long step = BLOCK_AREA / g->n > 0 ? BLOCK_AREA / g->n : 1;
  double *x = memory_new((size_t)step * (size_t)g->n, sizeof *x);
  for (long at = 0; at < along; at += step) {
    struct matrix_block b = {g, x, along - at < step ? along - at : step, (int)by_rows};
    for (long r = 0; r < (by_rows ? b.length : rows); r++)
      weight_read(w, row + r + (by_rows ? at : 0), by_rows ? 0 : at, by_rows ? cols : b.length,
                  x + r * (by_rows ? cols : b.length));
    add_block(&b, pool);
  }
  memory_free(x);
}

/* Singular values from the eigenvalues of the Gram matrix, which is overwritten. */
static int solve(struct gram *g, double *sigma, struct error *e)
{
  long n = g->n, size = 66 * n + 1;
  double *off = memory_new((size_t)n, sizeof *off), *tau = memory_new((size_t)n, sizeof *tau),
         *work = memory_new((size_t)size, sizeof *work);
  if (g->packed)
    LAPACKE_dsptrd_work(LAPACK_COL_MAJOR, 'L', (int)n, g->lower, sigma, off, tau);
  else
    LAPACKE_dsytrd_work(LAPACK_COL_MAJOR, 'L', (int)n, g->lower, (int)n, sigma, off, tau, work, (int)size);
  int info = LAPACKE_dsterf_work((int)n, sigma, off);
  for (long i = 0; i < n; i++) sigma[i] = sigma[i] > 0 ? sqrt(sigma[i]) : 0;
  memory_free(off);
  memory_free(tau);
  memory_free(work);
  return info ? error_set(e, STATUS_FAIL, "dsterf did not converge (info %d)", info) : STATUS_OK;
}

static int by_gram(const struct weight *w, long row, long rows, int packed, struct pool *pool,
                   struct spectrum *out, struct error *e)
{
  long n = rows < (long)w->cols ? rows : (long)w->cols;
  struct gram g = {n, packed, NULL};
  int finite = 1, status = STATUS_OK;
  g.lower = memory_new(packed ? (size_t)n * ((size_t)n + 1) / 2 : (size_t)n * (size_t)n, sizeof *g.lower);
  fill(&g, w, row, rows, pool);
  for (long i = 0; i < n; i++) finite &= isfinite(column_of(&g, i)[i]) != 0;
  if (finite) {
    double *sigma = memory_new((size_t)n, sizeof *sigma);
    status = solve(&g, sigma, e);
    if (!status) spectrum_from(sigma, n, out);
    memory_free(sigma);
  } else
    *out = (struct spectrum){NAN, NAN, NAN, NAN, NAN, NAN};
  memory_free(g.lower);
  return status;
}

static int by_svd(const struct weight *w, long row, long rows, struct spectrum *out, struct error *e)
{
  long cols = (long)w->cols;
  real *x = memory_new((size_t)rows * (size_t)cols, sizeof *x);
  double *line = memory_new((size_t)cols, sizeof *line);
  struct spectra *work = spectra_new(rows, cols);
  for (long r = 0; r < rows; r++) {
    weight_read(w, row + r, 0, cols, line);
    for (long c = 0; c < cols; c++) x[r * cols + c] = (real)line[c];
  }
  int status = spectrum_of(work, SPECTRA_SVD, x, rows, cols, cols, out, e);
  spectra_free(work);
  memory_free(line);
  memory_free(x);
  return status;
}

int matrix_spectrum(const struct weight *w, long row, long rows, enum matrix_way way, struct pool *pool,
                    struct spectrum *out, struct error *e)
{
  long side = rows < (long)w->cols ? rows : (long)w->cols;
  if (way == MATRIX_CHOSEN)
    way = rows <= SVD_AREA / (long)w->cols ? MATRIX_SVD : side > PACKED_SIDE ? MATRIX_PACKED : MATRIX_GRAM;
  return way == MATRIX_SVD ? by_svd(w, row, rows, out, e)
                           : by_gram(w, row, rows, way == MATRIX_PACKED, pool, out, e);
}
