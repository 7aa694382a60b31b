/* linalg.c - spectra of small matrices in double, through LAPACKE without its row-major copies
   A row-major w [rows, cols] is the column-major w^T: same singular values, left and right vectors swapped.
   Matrices are scaled by a power of two so that no square overflows; that changes no bit of the result. */
#include "numerics/linalg.h"
#include "base/memory.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

struct spectra {
  long longer, shorter;   /* sides of the largest matrix */
  double *a;              /* [longer, shorter]: the matrix, destroyed by the solvers */
  double *b;              /* [longer, shorter]: a second one; left vectors */
  double *square, *other; /* [shorter, shorter]: a Gram matrix or product; right vectors */
  double *sigma, *d, *e, *tau;
  double *vector; /* [longer] */
  double *work;
  long work_size;
  int *integers; /* 8 shorter */
};

struct spectra *spectra_new(long rows, long cols)
{
  REQUIRE(rows > 0 && cols > 0);
  struct spectra *s = memory_new(1, sizeof *s);
  s->longer = rows > cols ? rows : cols;
  s->shorter = rows > cols ? cols : rows;
  size_t area = (size_t)s->longer * (size_t)s->shorter, n = (size_t)s->shorter;
  s->a = memory_new(area, sizeof *s->a);
  s->b = memory_new(area, sizeof *s->b);
  s->square = memory_new(n * n, sizeof *s->square);
  s->other = memory_new(area, sizeof *s->other);
  s->sigma = memory_new(n, sizeof *s->sigma);
  s->d = memory_new(n, sizeof *s->d);
  s->e = memory_new(n, sizeof *s->e);
  s->tau = memory_new(n, sizeof *s->tau);
  s->vector = memory_new((size_t)s->longer, sizeof *s->vector);
  /* gesdd asks for 4 n^2 + 7 n and for 3 n + max(longer, 7 n) at least; blocked QR and tridiagonalisation
     for 64 columns at a time */
  s->work_size = 4 * s->shorter * s->shorter + 16 * s->shorter + 64 * s->longer;
  s->work = memory_new((size_t)s->work_size, sizeof *s->work);
  s->integers = memory_new(8 * n, sizeof *s->integers);
  return s;
}

void spectra_free(struct spectra *s)
{
  if (!s) return;
  double *block[] = {s->a, s->b, s->square, s->other, s->sigma, s->d, s->e, s->tau, s->vector, s->work};
  for (size_t i = 0; i < sizeof block / sizeof *block; i++) memory_free(block[i]);
  memory_free(s->integers);
  memory_free(s);
}

static long shorter_of(long rows, long cols) { return rows < cols ? rows : cols; }

static void require_room(const struct spectra *s, long rows, long cols)
{
  long n = shorter_of(rows, cols);
  REQUIRE(rows > 0 && cols > 0 && n <= s->shorter && (rows > cols ? rows : cols) <= s->longer);
}

/* w / 2^k into out [rows, cols] so that the largest entry lies in [1/2, 1); returns 2^k, NaN where an entry
   is not finite. The zero matrix has 1. */
static double load(const real *w, long rows, long cols, long ld, double *out)
{
  double largest = 0, inverse = 1;
  int exponent = 0, finite = 1;
  for (long i = 0; i < rows; i++)
    for (long j = 0; j < cols; j++) {
      double x = fabs((double)w[i * ld + j]);
      finite &= isfinite(x) != 0;
      if (x > largest) largest = x;
    }
  if (!finite) return NAN;
  if (largest > 0) frexp(largest, &exponent);
  inverse = ldexp(1, -exponent);
  for (long i = 0; i < rows; i++)
    for (long j = 0; j < cols; j++) out[i * cols + j] = (double)w[i * ld + j] * inverse;
  return ldexp(1, exponent);
}

static int solved(int info, const char *solver, struct error *e)
{
  if (info < 0) BUG("%s: argument %d", solver, -info);
  return info ? error_set(e, STATUS_FAIL, "%s did not converge (info %d)", solver, info) : STATUS_OK;
}

static void all_nan(struct spectrum *out) { *out = (struct spectrum){NAN, NAN, NAN, NAN, NAN, NAN}; }

const struct spectrum_field spectrum_fields[SPECTRUM_FIELDS] = {
  {"spectral_norm", "spectral", "spectral norm", "largest singular value",
   offsetof(struct spectrum, spectral_norm)},
  {"frobenius_norm", "Frobenius", "Frobenius norm", "root of the sum of squares",
   offsetof(struct spectrum, frobenius_norm)},
  {"svd_entropy", "entropy", "SVD entropy",
   "-(1/ln n) sum p ln p, p = sigma^2 / sum sigma^2 (arXiv 2502.16982)",
   offsetof(struct spectrum, svd_entropy)},
  {"effective_rank_p", "eff.rank p", "effective rank (energy)", "exp(-sum p ln p), p = sigma^2 / sum sigma^2",
   offsetof(struct spectrum, effective_rank_p)},
  {"effective_rank_r", "eff.rank r", "effective rank (Roy-Vetterli)",
   "exp(-sum r ln r), r = sigma / sum sigma", offsetof(struct spectrum, effective_rank_r)},
  {"stable_rank", "stable rank", "stable rank", "squared Frobenius over squared spectral norm",
   offsetof(struct spectrum, stable_rank)},
};

double spectrum_number(const struct spectrum *s, int field)
{
  return *(const double *)((const char *)s + spectrum_fields[field].offset);
}

void spectrum_from(const double *sigma, long n, struct spectrum *out)
{
  double largest = 0, sum = 0, squares = 0, entropy_p = 0, entropy_r = 0;
  for (long i = 0; i < n; i++) {
    if (sigma[i] > largest || isnan(sigma[i])) largest = sigma[i];
    sum += sigma[i];
  }
  for (long i = 0; i < n; i++) squares += sigma[i] / largest * (sigma[i] / largest);
  for (long i = 0; i < n; i++) {
    double p = sigma[i] / largest * (sigma[i] / largest) / squares, r = sigma[i] / sum;
    entropy_p -= p > 0 || isnan(p) ? p * log(p) : 0;
    entropy_r -= r > 0 || isnan(r) ? r * log(r) : 0;
  }
  *out = (struct spectrum){.spectral_norm = largest,
                           .frobenius_norm = largest == 0 ? 0 : largest * sqrt(squares),
                           .svd_entropy = n > 1 ? entropy_p / log((double)n) : NAN,
                           .effective_rank_p = exp(entropy_p),
                           .effective_rank_r = exp(entropy_r),
                           .stable_rank = squares};
}

/* Singular values of the column-major a [m, n] (destroyed) into s->sigma; with `vectors`, u [m, k] in s->b
   and v^T [k, n] in s->other, k = min(m, n). */
static int decompose(struct spectra *s, double *a, long m, long n, int vectors, struct error *e)
{
  long k = shorter_of(m, n);
  int info = LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, vectors ? 'S' : 'N', (int)m, (int)n, a, (int)m, s->sigma,
                                 s->b, (int)m, s->other, (int)k, s->work, (int)s->work_size, s->integers);
  return solved(info, "dgesdd", e);
}

static void rescale(double *sigma, long n, double scale)
{
  for (long i = 0; i < n; i++) sigma[i] *= scale;
}

/* Eigenvalues of the smaller Gram matrix of s->a (w [rows, cols]) as singular values, largest first. Its
   tridiagonal form stays in s->d and s->e, the reflectors in s->square and s->tau. */
static int gram_values(struct spectra *s, long rows, long cols, struct error *e)
{
  long n = shorter_of(rows, cols);
  int wide = rows <= cols; /* w w^T is the smaller one */
  cblas_dsyrk(CblasColMajor, CblasLower, wide ? CblasTrans : CblasNoTrans, (int)n, (int)(wide ? cols : rows),
              1, s->a, (int)cols, 0, s->square, (int)n);
  LAPACKE_dsytrd_work(LAPACK_COL_MAJOR, 'L', (int)n, s->square, (int)n, s->d, s->e, s->tau, s->work,
                      (int)s->work_size);
  double *lambda = s->work, *off = s->work + n;
  cblas_dcopy((int)n, s->d, 1, lambda, 1);
  cblas_dcopy((int)n - 1, s->e, 1, off, 1);
  int status = solved(LAPACKE_dsterf_work((int)n, lambda, off), "dsterf", e);
  for (long i = 0; i < n; i++) s->sigma[i] = lambda[n - 1 - i] < 0 ? 0 : sqrt(lambda[n - 1 - i]);
  return status;
}

/* The leading eigenvector of the tridiagonal form that gram_values left, turned back: s->vector [n]. */
static int gram_vector(struct spectra *s, long n, struct error *e)
{
  int found, splits, *block = s->integers, *split = block + n, *integers = split + n, failed;
  double *lambda = s->work, *work = s->work + n;
  int info = LAPACKE_dstebz_work('I', 'B', (int)n, 0, 0, (int)n, (int)n, 0, s->d, s->e, &found, &splits,
                                 lambda, block, split, work, integers);
  if (solved(info, "dstebz", e)) return STATUS_FAIL;
  info = LAPACKE_dstein_work(LAPACK_COL_MAJOR, (int)n, s->d, s->e, 1, lambda, block, split, s->vector, (int)n,
                             work, integers, &failed);
  if (solved(info, "dstein", e)) return STATUS_FAIL;
  info = LAPACKE_dormtr_work(LAPACK_COL_MAJOR, 'L', 'L', 'N', (int)n, 1, s->square, (int)n, s->tau, s->vector,
                             (int)n, s->work, (int)s->work_size);
  return solved(info, "dormtr", e);
}

int spectrum_of(struct spectra *s, enum spectra_method method, const real *w, long rows, long cols, long ld,
                struct spectrum *out, struct error *e)
{
  require_room(s, rows, cols);
  all_nan(out);
  double scale = load(w, rows, cols, ld, s->a);
  if (isnan(scale)) return STATUS_OK;
  int status = method == SPECTRA_GRAM ? gram_values(s, rows, cols, e) : decompose(s, s->a, cols, rows, 0, e);
  if (status) return status;
  long n = shorter_of(rows, cols);
  rescale(s->sigma, n, scale);
  spectrum_from(s->sigma, n, out);
  return STATUS_OK;
}

/* to = w from / |w from| (or w^T from), w [rows, cols] in s->a */
static void other_side(const struct spectra *s, long rows, long cols, int transposed, const double *from,
                       double *to)
{
  cblas_dgemv(CblasRowMajor, transposed ? CblasTrans : CblasNoTrans, (int)rows, (int)cols, 1, s->a, (int)cols,
              from, 1, 0, to, 1);
  long n = transposed ? cols : rows;
  double norm = cblas_dnrm2((int)n, to, 1);
  for (long i = 0; i < n; i++) to[i] /= norm;
}

int spectrum_and_pair(struct spectra *s, const real *w, long rows, long cols, long ld, struct spectrum *out,
                      double *u1, double *v1, struct error *e)
{
  long n = shorter_of(rows, cols);
  require_room(s, rows, cols);
  all_nan(out);
  for (long i = 0; i < rows; i++) u1[i] = NAN;
  for (long j = 0; j < cols; j++) v1[j] = NAN;
  double scale = load(w, rows, cols, ld, s->a);
  if (isnan(scale)) return STATUS_OK;
  if (gram_values(s, rows, cols, e)) return STATUS_FAIL;
  double leading = s->sigma[0];
  rescale(s->sigma, n, scale);
  spectrum_from(s->sigma, n, out);
  if (leading == 0) return STATUS_OK;
  if (gram_vector(s, n, e)) return STATUS_FAIL;
  double *near = rows <= cols ? u1 : v1;
  cblas_dcopy((int)n, s->vector, 1, near, 1);
  other_side(s, rows, cols, rows <= cols, near, rows <= cols ? v1 : u1);
  return STATUS_OK;
}

int singular_values(struct spectra *s, const real *w, long rows, long cols, long ld, double *sigma,
                    double *u1, double *v1, struct error *e)
{
  long n = shorter_of(rows, cols);
  require_room(s, rows, cols);
  for (long i = 0; i < n; i++) sigma[i] = NAN;
  for (long i = 0; u1 && i < rows; i++) u1[i] = NAN;
  for (long j = 0; v1 && j < cols; j++) v1[j] = NAN;
  double scale = load(w, rows, cols, ld, s->a);
  if (isnan(scale)) return STATUS_OK;
  int status = decompose(s, s->a, cols, rows, u1 || v1, e);
  if (status) return status;
  for (long i = 0; i < n; i++) sigma[i] = s->sigma[i] * scale;
  for (long i = 0; u1 && i < rows; i++) u1[i] = s->other[i * n];
  for (long j = 0; v1 && j < cols; j++) v1[j] = s->b[j];
  return STATUS_OK;
}

/* The triangular factor r [k, dh] of the QR factorisation of the column-major a [d, dh], in its place; what
   lies below the diagonal is zeroed. k = min(d, dh). */
static void triangle(struct spectra *s, double *a, long d, long dh)
{
  LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, (int)d, (int)dh, a, (int)d, s->tau, s->work, (int)s->work_size);
  for (long j = 0; j < dh; j++)
    for (long i = j + 1; i < d; i++) a[j * d + i] = 0;
}

/* a^T = Qa Ra, b^T = Qb Rb: a^T b = Qa (Ra Rb^T) Qb^T */
int spectrum_of_form(struct spectra *s, const real *a, long lda, const real *b, long ldb, long dh, long d,
                     struct spectrum *out, struct error *e)
{
  long k = shorter_of(dh, d);
  require_room(s, dh, d);
  all_nan(out);
  double scale_a = load(a, dh, d, lda, s->a), scale_b = load(b, dh, d, ldb, s->b);
  if (isnan(scale_a) || isnan(scale_b)) return STATUS_OK;
  triangle(s, s->a, d, dh);
  triangle(s, s->b, d, dh);
  cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, (int)k, (int)k, (int)dh, 1, s->a, (int)d, s->b, (int)d,
              0, s->square, (int)k);
  int status = decompose(s, s->square, k, k, 0, e);
  if (status) return status;
  rescale(s->sigma, k, scale_a);
  rescale(s->sigma, k, scale_b);
  double *sigma = s->vector;
  for (long i = 0; i < dh; i++) sigma[i] = i < k ? s->sigma[i] : 0;
  spectrum_from(sigma, dh, out);
  return STATUS_OK;
}

/* With b^T = Qb Rb the left vectors of a^T b are those of (Rb a)^T. */
int leading_of_form(struct spectra *s, const real *a, long lda, const real *b, long ldb, long dh, long d,
                    double *sigma, double *u1, double *v1, struct error *e)
{
  long k = shorter_of(dh, d);
  require_room(s, dh, d);
  *sigma = NAN;
  for (long i = 0; i < d; i++) u1[i] = v1[i] = NAN;
  double scale_a = load(a, dh, d, lda, s->other), scale_b = load(b, dh, d, ldb, s->b);
  if (isnan(scale_a) || isnan(scale_b)) return STATUS_OK;
  triangle(s, s->b, d, dh);
  cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)k, (int)d, (int)dh, 1, s->b, (int)d, s->other,
              (int)d, 0, s->a, (int)d);
  if (gram_values(s, k, d, e)) return STATUS_FAIL;
  if (s->sigma[0] == 0) return STATUS_OK;
  *sigma = s->sigma[0] * scale_a * scale_b;
  if (gram_vector(s, k, e)) return STATUS_FAIL;
  other_side(s, k, d, 1, s->vector, u1);
  load(b, dh, d, ldb, s->a);
  cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)dh, (int)d, 1, s->other, (int)d, u1, 1, 0, s->vector, 1);
  other_side(s, dh, d, 1, s->vector, v1);
  return STATUS_OK;
}
