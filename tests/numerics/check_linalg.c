/* check_linalg.c - spectra against matrices whose singular values are known, and one route against another */
#include "base/memory.h"
#include "base/random.h"
#include "numerics/linalg.h"
#include "numerics/svd.h"
#include <cblas.h>
#include <check.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const long shapes[][2] = {{1, 1},  {1, 9},   {6, 1},    {5, 5},   {20, 7},
                                 {7, 20}, {64, 64}, {100, 33}, {40, 130}};
enum { SHAPES = sizeof shapes / sizeof *shapes, MAX = 130, AREA = MAX * MAX, PAD = 3 };
#define DOUBLE_EPS 2.220446049250313e-16

static long lesser(long a, long b) { return a < b ? a : b; }

static void normals(double *x, long n, uint64_t key)
{
  for (long i = 0; i < n; i++) x[i] = draw_normal((struct draw){11, STREAM_TEST, key}, (uint64_t)i);
}

/* Orthonormal columns: q [rows, n], row-major. */
static void orthonormal(double *q, long rows, long n, uint64_t key)
{
  static double tau[MAX];
  normals(q, rows * n, key);
  ck_assert_int_eq(LAPACKE_dgeqrf(LAPACK_ROW_MAJOR, (int)rows, (int)n, q, (int)n, tau), 0);
  ck_assert_int_eq(LAPACKE_dorgqr(LAPACK_ROW_MAJOR, (int)rows, (int)n, (int)n, q, (int)n, tau), 0);
}

/* w [rows, cols] = u diag(sigma) v^T, rows cols + PAD apart. Rounding w to `real` moves no singular value by
   more than |rounding|_2 <= REAL_EPS/2 |w|_F. */
static void matrix_of(const double *sigma, long rows, long cols, real *w)
{
  static double u[AREA], v[AREA];
  long n = lesser(rows, cols);
  orthonormal(u, rows, n, 1);
  orthonormal(v, cols, n, 2);
  for (long i = 0; i < rows; i++)
    for (long j = 0; j < cols + PAD; j++) {
      double sum = 0;
      for (long k = 0; j < cols && k < n; k++) sum += u[i * n + k] * sigma[k] * v[j * n + k];
      w[i * (cols + PAD) + j] = j < cols ? (real)sum : (real)NAN;
    }
}

/* A falling spectrum over three decades; rank-deficient where `rank` < n. */
static void falling(double *sigma, long n, long rank)
{
  for (long i = 0; i < n; i++) sigma[i] = i < rank ? 5 * pow(1e-3, (double)i / (double)n) : 0;
}

static double norm_of(const double *x, long n)
{
  double sum = 0;
  for (long i = 0; i < n; i++) sum += x[i] * x[i];
  return sqrt(sum);
}

static real w[MAX * (MAX + PAD)];
static double sigma[MAX], got[MAX], u1[MAX], v1[MAX];

/* | w v - s u | and | w^T u - s v | within `allowed`, u and v of norm one */
static void ck_pair(long rows, long cols, double s, double allowed)
{
  ck_assert_double_eq_tol(norm_of(u1, rows), 1, 1e-13);
  ck_assert_double_eq_tol(norm_of(v1, cols), 1, 1e-13);
  for (long i = 0; i < rows; i++) {
    double sum = 0;
    for (long j = 0; j < cols; j++) sum += w[i * (cols + PAD) + j] * v1[j];
    ck_assert_double_eq_tol(sum, s * u1[i], allowed);
  }
  for (long j = 0; j < cols; j++) {
    double sum = 0;
    for (long i = 0; i < rows; i++) sum += w[i * (cols + PAD) + j] * u1[i];
    ck_assert_double_eq_tol(sum, s * v1[j], allowed);
  }
}

static int pair_of(struct spectra *s, long rows, long cols, long ld, struct spectrum *out)
{
  struct spectra_job job = {.w = w, .rows = rows, .cols = cols, .ld = ld, .u1 = u1, .v1 = v1};
  int status = spectra_of(s, &job, 1, NULL);
  *out = job.spectrum;
  return status;
}

START_TEST(known_singular_values)
{
  long rows = shapes[_i][0], cols = shapes[_i][1], n = lesser(rows, cols);
  struct spectra *s = spectra_new(MAX, MAX);
  falling(sigma, n, n);
  matrix_of(sigma, rows, cols, w);
  ck_assert_int_eq(singular_values(s, w, rows, cols, cols + PAD, got, u1, v1, NULL), STATUS_OK);
  size_t calls = memory_calls(); /* the first has made room */
  double allowed = REAL_EPS * norm_of(sigma, n) + 16 * MAX * DOUBLE_EPS * sigma[0];
  for (long i = 0; i < n; i++) ck_assert_double_eq_tol(got[i], sigma[i], allowed);
  ck_pair(rows, cols, got[0], 16 * MAX * DOUBLE_EPS * sigma[0]);
  struct spectrum x, y;
  ck_assert_int_eq(spectrum_of(s, SPECTRA_SVD, w, rows, cols, cols + PAD, &x, NULL), STATUS_OK);
  spectrum_from(got, n, &y);
  ck_assert_double_eq_tol(x.spectral_norm, y.spectral_norm, 16 * MAX * DOUBLE_EPS * sigma[0]);
  ck_assert_double_eq_tol(x.effective_rank_r, y.effective_rank_r, 1e-10);
  ck_assert_int_eq(spectrum_of(s, SPECTRA_GRAM, w, rows, cols, cols + PAD, &x, NULL), STATUS_OK);
  ck_assert_uint_eq(memory_calls(), calls);
  spectra_free(s);
}
END_TEST

START_TEST(summaries_of_known_spectra)
{
  struct spectrum x;
  for (int i = 0; i < 8; i++) sigma[i] = 2.5;
  spectrum_from(sigma, 8, &x);
  ck_assert_double_eq_tol(x.svd_entropy, 1, 1e-15);
  ck_assert_double_eq_tol(x.effective_rank_p, 8, 1e-13);
  ck_assert_double_eq_tol(x.effective_rank_r, 8, 1e-13);
  ck_assert_double_eq_tol(x.stable_rank, 8, 1e-13);
  ck_assert_double_eq_tol(x.frobenius_norm, 2.5 * sqrt(8), 1e-14);
  spectrum_from((double[]){3, 4}, 2, &x); /* p = 9/25, 16/25; r = 3/7, 4/7; logarithms by hand */
  ck_assert_double_eq(x.spectral_norm, 4);
  ck_assert_double_eq_tol(x.frobenius_norm, 5, 1e-15);
  ck_assert_double_eq_tol(x.stable_rank, 1.5625, 1e-15);
  ck_assert_double_eq_tol(x.svd_entropy, 0.9426831892554922, 1e-14);
  ck_assert_double_eq_tol(x.effective_rank_p, exp(0.9426831892554922 * log(2)), 1e-14);
  ck_assert_double_eq_tol(x.effective_rank_r, 7 / (pow(3, 3.0 / 7) * pow(4, 4.0 / 7)), 1e-14);
  spectrum_from((double[]){7, 0, 0}, 3, &x);
  ck_assert_double_eq(x.svd_entropy, 0);
  ck_assert_double_eq(x.effective_rank_p, 1);
  ck_assert_double_eq(x.effective_rank_r, 1);
  ck_assert_double_eq(x.stable_rank, 1);
  spectrum_from((double[]){7}, 1, &x);
  ck_assert_double_eq(x.effective_rank_p, 1);
  ck_assert(isnan(x.svd_entropy));
  spectrum_from((double[]){0, 0}, 2, &x);
  ck_assert(x.spectral_norm == 0 && x.frobenius_norm == 0 && isnan(x.svd_entropy) && isnan(x.stable_rank));
  spectrum_from((double[]){3, NAN, 1}, 3, &x);
  ck_assert(isnan(x.spectral_norm) && isnan(x.frobenius_norm) && isnan(x.svd_entropy) &&
            isnan(x.effective_rank_r));
}
END_TEST

/* The Gram matrix is formed and solved with a backward error of c eps sigma_1^2, c = longest + n. A p moves
   by that much relative to the largest, an entropy by (1 + ln 1/error) for each of n of them; a sigma near
   zero becomes the square root of the error. */
START_TEST(gram_route_against_svd)
{
  long rows = shapes[_i / 2][0], cols = shapes[_i / 2][1], n = lesser(rows, cols);
  struct spectra *s = spectra_new(rows, cols);
  struct spectrum svd, gram, pair;
  falling(sigma, n, _i % 2 ? n : (n + 1) / 2);
  matrix_of(sigma, rows, cols, w);
  ck_assert_int_eq(spectrum_of(s, SPECTRA_SVD, w, rows, cols, cols + PAD, &svd, NULL), STATUS_OK);
  ck_assert_int_eq(spectrum_of(s, SPECTRA_GRAM, w, rows, cols, cols + PAD, &gram, NULL), STATUS_OK);
  double error = (double)(rows + cols + n) * DOUBLE_EPS, root = sqrt(error), count = (double)n;
  double entropy = count * error * (1 - log(error)), entropy_r = count * root * (1 - log(root));
  ck_assert_double_eq_tol(gram.spectral_norm, svd.spectral_norm, error * svd.spectral_norm);
  ck_assert_double_eq_tol(gram.frobenius_norm, svd.frobenius_norm, count * error * svd.frobenius_norm);
  ck_assert_double_eq_tol(gram.stable_rank, svd.stable_rank, 2 * count * error * svd.stable_rank);
  ck_assert_double_eq_tol(gram.effective_rank_p, svd.effective_rank_p, 2 * entropy * svd.effective_rank_p);
  ck_assert_double_eq_tol(gram.effective_rank_r, svd.effective_rank_r, 2 * entropy_r * svd.effective_rank_r);
  if (n > 1) ck_assert_double_eq_tol(gram.svd_entropy, svd.svd_entropy, 2 * entropy / log(count));
  ck_assert_int_eq(pair_of(s, rows, cols, cols + PAD, &pair), STATUS_OK);
  ck_assert(memcmp(&pair, &gram, sizeof pair) == 0 || n == 1);
  ck_pair(rows, cols, gram.spectral_norm, 16 * count * error * sigma[0]);
  spectra_free(s);
}
END_TEST

/* What a matrix gets does not depend on those beside it, and is the same to the bit at every level with a fused
   multiply-add. */
START_TEST(company_changes_no_bit)
{
  enum { COUNT = 2 * SHAPES };
  static real all[COUNT][MAX * (MAX + PAD)];
  static double pairs[2][COUNT][2 * MAX];
  struct spectra_job job[2][COUNT];
  struct spectra *s = spectra_new(MAX, MAX);
  for (int i = 0; i < COUNT; i++) {
    long rows = shapes[i % SHAPES][0], cols = shapes[i % SHAPES][1], n = lesser(rows, cols);
    falling(sigma, n, i < SHAPES ? n : (n + 1) / 2);
    matrix_of(sigma, rows, cols, all[i]);
    for (int k = 0; k < 2; k++)
      job[k][i] = (struct spectra_job){.w = all[i],
                                       .b = i % 5 == 4 ? all[i] : NULL,
                                       .rows = rows,
                                       .cols = cols,
                                       .ld = cols + PAD,
                                       .ldb = cols + PAD,
                                       .u1 = i % 5 == 4 ? NULL : pairs[k][i],
                                       .v1 = pairs[k][i] + rows};
  }
  all[7][0] = (real)NAN; /* nor on what is not finite */
  ck_assert_int_eq(spectra_of(s, job[0], COUNT, NULL), STATUS_OK);
  for (int i = 0; i < COUNT; i++) ck_assert_int_eq(spectra_of(s, &job[1][i], 1, NULL), STATUS_OK);
  for (int i = 0; i < COUNT; i++)
    ck_assert(!memcmp(&job[0][i].spectrum, &job[1][i].spectrum, sizeof job[0][i].spectrum));
  ck_assert(!memcmp(pairs[0], pairs[1], sizeof pairs[0]));
  ck_assert(isnan(job[0][7].spectrum.spectral_norm) && job[0][6].spectrum.spectral_norm > 4);
  spectra_free(s);
}
END_TEST

/* Where random matrices do not come: a first direction that the leading vector lacks, and rows that a reflection has
   hardly to turn. */
START_TEST(nearly_diagonal)
{
  enum { N = 24 };
  struct spectra *s = spectra_new(N, N);
  struct spectrum svd, gram;
  for (int coupled = 0; coupled < 2; coupled++) {
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N + PAD; j++) w[i * (N + PAD) + j] = i == j ? (real)(i ? 1 + 0.1 * i : 1e-4) : 0;
    for (int i = 2; i < N; i++) w[i * (N + PAD) + i - 1] = (real)0.3; /* from the second on they meet */
    if (coupled) {
      w[0] = 1, w[1] = (real)0.5;
      for (int j = 2; j < N; j++) w[j] = (real)1e-9;
    }
    ck_assert_int_eq(spectrum_of(s, SPECTRA_SVD, w, N, N, N + PAD, &svd, NULL), STATUS_OK);
    ck_assert_int_eq(pair_of(s, N, N, N + PAD, &gram), STATUS_OK);
    ck_assert_double_eq_tol(gram.spectral_norm, svd.spectral_norm, 1e-13 * svd.spectral_norm);
    ck_assert_double_eq_tol(gram.effective_rank_r, svd.effective_rank_r, 1e-6);
    ck_pair(N, N, gram.spectral_norm, 1e-12);
  }
  spectra_free(s);
}
END_TEST

START_TEST(form_against_the_product)
{
  static const long form[][2] = {{1, 1}, {4, 16}, {8, 64}, {16, 16}, {12, 5}, {1, 30}};
  static real a[AREA], b[AREA], product[AREA];
  long dh = form[_i][0], d = form[_i][1];
  static double draws[AREA];
  normals(draws, dh * d, 5);
  for (long i = 0; i < dh * d; i++) a[i] = (real)draws[i];
  normals(draws, dh * d, 6);
  for (long i = 0; i < dh * d; i++) b[i] = (real)(1e-3 * draws[i]);
  for (long i = 0; i < d; i++)
    for (long j = 0; j < d; j++) {
      double sum = 0;
      for (long k = 0; k < dh; k++) sum += (double)a[k * d + i] * b[k * d + j];
      product[i * d + j] = (real)sum;
    }
  struct spectra *s = spectra_new(d, dh), *whole = spectra_new(d, d);
  struct spectrum x, y;
  ck_assert_int_eq(spectrum_of_form(s, a, d, b, d, dh, d, &x, NULL), STATUS_OK);
  ck_assert_int_eq(spectrum_of(whole, SPECTRA_SVD, product, d, d, d, &y, NULL), STATUS_OK);
  double off = (REAL_EPS + 100 * DOUBLE_EPS) * y.frobenius_norm; /* of any sigma */
  double relative = off / y.spectral_norm, count = (double)d;
  ck_assert_double_eq_tol(x.spectral_norm, y.spectral_norm, off);
  ck_assert_double_eq_tol(x.frobenius_norm, y.frobenius_norm, off);
  ck_assert_double_eq_tol(x.stable_rank, y.stable_rank, 4 * relative * y.stable_rank);
  double entropy = 2 * count * relative * (1 - log(relative));
  ck_assert_double_eq_tol(x.effective_rank_p, y.effective_rank_p, entropy * y.effective_rank_p);
  ck_assert_double_eq_tol(x.effective_rank_r, y.effective_rank_r, entropy * y.effective_rank_r);
  if (dh > 1) ck_assert_double_eq_tol(x.svd_entropy, log(x.effective_rank_p) / log((double)dh), 1e-12);
  spectra_free(s);
  spectra_free(whole);
}
END_TEST

/* o = U V^T: orthonormal on its shorter side, and o^T w = V S V^T is symmetric with trace sum sigma. */
START_TEST(polar_factor_is_one)
{
  long rows = shapes[_i][0], cols = shapes[_i][1], n = lesser(rows, cols), ld = cols + PAD;
  static real o[MAX * (MAX + PAD)];
  falling(sigma, n, n);
  matrix_of(sigma, rows, cols, w);
  memcpy(o, w, sizeof o);
  ck_assert_int_eq(polar_factor(o, rows, cols, ld, o, ld, NULL), STATUS_OK);
  double allowed = 4 * MAX * REAL_EPS, trace = 0, sum = 0;
  for (long i = 0; i < n; i++)
    for (long j = 0; j < n; j++) {
      double dot = 0;
      for (long k = 0; k < (rows > cols ? rows : cols); k++)
        dot += rows <= cols ? (double)o[i * ld + k] * o[j * ld + k] : (double)o[k * ld + i] * o[k * ld + j];
      ck_assert_double_eq_tol(dot, i == j, allowed);
    }
  for (long i = 0; i < cols; i++)
    for (long j = 0; j < cols; j++) {
      double there = 0, back = 0;
      for (long k = 0; k < rows; k++) {
        there += (double)o[k * ld + i] * w[k * ld + j];
        back += (double)o[k * ld + j] * w[k * ld + i];
      }
      ck_assert_double_eq_tol(there, back, allowed * sigma[0]);
      trace += i == j ? there : 0;
    }
  for (long i = 0; i < n; i++) sum += sigma[i];
  ck_assert_double_eq_tol(trace, sum, allowed * sum);
  ck_assert(cols == 0 || isnan(o[cols])); /* the padding stayed */
}
END_TEST

static int all_nan(const struct spectrum *x)
{
  return isnan(x->spectral_norm) && isnan(x->frobenius_norm) && isnan(x->svd_entropy) &&
         isnan(x->effective_rank_p) && isnan(x->effective_rank_r) && isnan(x->stable_rank);
}

START_TEST(what_is_not_finite_gives_nan)
{
  static const double bad[] = {NAN, INFINITY, -INFINITY};
  long rows = 9, cols = 6, at[] = {0, 4 * (6 + PAD) + 3, 8 * (6 + PAD) + 5};
  struct spectra *s = spectra_new(rows, cols);
  struct spectrum x;
  falling(sigma, cols, cols);
  for (int place = 0; place < 3; place++) {
    matrix_of(sigma, rows, cols, w);
    w[at[place]] = (real)bad[_i];
    for (int method = SPECTRA_SVD; method <= SPECTRA_GRAM; method++) {
      memset(&x, 0, sizeof x);
      ck_assert_int_eq(spectrum_of(s, (enum spectra_method)method, w, rows, cols, cols + PAD, &x, NULL),
                       STATUS_OK);
      ck_assert(all_nan(&x));
    }
    ck_assert_int_eq(pair_of(s, rows, cols, cols + PAD, &x), STATUS_OK);
    ck_assert(all_nan(&x) && isnan(u1[rows - 1]) && isnan(v1[cols - 1]));
    ck_assert_int_eq(singular_values(s, w, rows, cols, cols + PAD, got, u1, v1, NULL), STATUS_OK);
    ck_assert(isnan(got[0]) && isnan(got[cols - 1]) && isnan(u1[0]) && isnan(v1[0]));
    ck_assert_int_eq(spectrum_of_form(s, w, cols + PAD, w, cols + PAD, rows, cols, &x, NULL), STATUS_OK);
    ck_assert(all_nan(&x));
    ck_assert_int_eq(polar_factor(w, rows, cols, cols + PAD, w, cols + PAD, NULL), STATUS_OK);
    ck_assert(isnan(w[0]) && isnan(w[8 * (cols + PAD) + 5]));
  }
  spectra_free(s);
}
END_TEST

/* A power of two changes norms by itself and nothing else, however large or small: no square overflows. */
START_TEST(scale_changes_no_bit)
{
  static const int exponent[] = {-100, -20, 30, 100};
  long rows = 20, cols = 12;
  struct spectra *s = spectra_new(rows, cols);
  struct spectrum x, y;
  falling(sigma, cols, cols);
  for (int method = SPECTRA_SVD; method <= SPECTRA_GRAM; method++) {
    matrix_of(sigma, rows, cols, w);
    ck_assert_int_eq(spectrum_of(s, (enum spectra_method)method, w, rows, cols, cols + PAD, &x, NULL),
                     STATUS_OK);
    for (long i = 0; i < rows * (cols + PAD); i++) w[i] = (real)ldexp((double)w[i], exponent[_i]);
    ck_assert_int_eq(spectrum_of(s, (enum spectra_method)method, w, rows, cols, cols + PAD, &y, NULL),
                     STATUS_OK);
    ck_assert_double_eq(y.spectral_norm, ldexp(x.spectral_norm, exponent[_i]));
    ck_assert_double_eq(y.frobenius_norm, ldexp(x.frobenius_norm, exponent[_i]));
    ck_assert_double_eq(y.svd_entropy, x.svd_entropy);
    ck_assert_double_eq(y.effective_rank_r, x.effective_rank_r);
    ck_assert_double_eq(y.stable_rank, x.stable_rank);
  }
  spectra_free(s);
}
END_TEST

/* All of the decomposition: orthonormal vectors, and the matrix again, whatever its shape and scale. */
START_TEST(factors_and_their_product)
{
  long rows = shapes[_i][0], cols = shapes[_i][1], n = lesser(rows, cols), ld = cols + PAD;
  static double u[AREA], v[AREA], known[MAX];
  static real again[MAX * (MAX + PAD)];
  for (int k = 0; k < 3; k++) {
    double scale = k == 0 ? 1 : k == 1 ? 1e30 : 0;
    falling(known, n, n);
    matrix_of(known, rows, cols, w);
    for (long i = 0; i < rows; i++)
      for (long j = 0; j < cols; j++) w[i * ld + j] *= (real)scale;
    ck_assert_int_eq(svd_factors(w, rows, cols, ld, u, sigma, v, NULL), STATUS_OK);
    for (long a = 0; a < n; a++) {
      ck_assert_double_le(fabs(sigma[a] - scale * known[a]),
                          8 * REAL_EPS * scale * known[0] * sqrt((double)n));
      for (long b = 0; b < n; b++) {
        double uu = 0, vv = 0;
        for (long i = 0; i < rows; i++) uu += u[i * n + a] * u[i * n + b];
        for (long j = 0; j < cols; j++) vv += v[j * n + a] * v[j * n + b];
        ck_assert_double_eq_tol(uu, a == b, 1e-12);
        ck_assert_double_eq_tol(vv, a == b, 1e-12);
      }
    }
    for (long i = 0; i < rows * ld; i++) again[i] = -7;
    svd_product(u, sigma, v, rows, cols, again, ld);
    for (long i = 0; i < rows; i++)
      for (long j = 0; j < ld; j++)
        if (j < cols)
          ck_assert_double_le(fabs((double)(again[i * ld + j] - w[i * ld + j])),
                              8 * REAL_EPS * scale * known[0] * sqrt((double)n));
        else
          ck_assert(again[i * ld + j] == -7);
  }
  w[0] = (real)INFINITY;
  struct error e = {0};
  ck_assert_int_eq(svd_factors(w, rows, cols, ld, u, sigma, v, &e), STATUS_FAIL);
  ck_assert(strstr(e.text, "not finite"));
}
END_TEST

/* Each vector is what its forerunners leave of it, or, where that is nothing, another direction. */
START_TEST(vectors_made_orthonormal)
{
  enum { N = 9 };
  const int count = _i ? 6 : N;
  double x[N * N], was[N * N];
  for (int i = 0; i < N * N; i++) was[i] = x[i] = draw_normal((struct draw){6, STREAM_TEST, 0}, (uint64_t)i);
  memset(x + 3 * N, 0, N * sizeof *x);
  for (int j = 0; j < N; j++) x[5 * N + j] = 2 * x[j] - x[4 * N + j];
  orthonormal_vectors(x, count, N);
  ck_assert(count == N || !memcmp(x + count * N, was + count * N, (size_t)(N - count) * N * sizeof *x));
  for (int i = 0; i < count; i++)
    for (int k = 0; k < count; k++) {
      const double along = cblas_ddot(N, x + i * N, 1, x + k * N, 1);
      const double before = cblas_ddot(N, was + i * N, 1, x + k * N, 1);
      ck_assert_double_eq_tol(along, i == k, 1e-14);
      if (i == 3 || i == 5) continue;
      if (i < k) ck_assert_double_eq_tol(before, 0, 1e-14);
      if (i == k) ck_assert_double_gt(before, 0);
    }
}
END_TEST

START_TEST(zero_matrix)
{
  struct spectra *s = spectra_new(5, 4);
  struct spectrum x;
  memset(w, 0, sizeof w);
  for (int method = SPECTRA_SVD; method <= SPECTRA_GRAM; method++) {
    ck_assert_int_eq(spectrum_of(s, (enum spectra_method)method, w, 5, 4, 4, &x, NULL), STATUS_OK);
    ck_assert(x.spectral_norm == 0 && x.frobenius_norm == 0 && isnan(x.svd_entropy) && isnan(x.stable_rank));
  }
  ck_assert_int_eq(pair_of(s, 5, 4, 4, &x), STATUS_OK);
  ck_assert(x.spectral_norm == 0 && isnan(u1[0]) && isnan(v1[3]));
  spectra_free(s);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("linalg");
  TCase *t = tcase_create("spectra");
  tcase_set_timeout(t, 30);
  tcase_add_loop_test(t, known_singular_values, 0, SHAPES);
  tcase_add_test(t, summaries_of_known_spectra);
  tcase_add_loop_test(t, gram_route_against_svd, 0, 2 * SHAPES);
  tcase_add_test(t, company_changes_no_bit);
  tcase_add_test(t, nearly_diagonal);
  tcase_add_loop_test(t, form_against_the_product, 0, 6);
  tcase_add_loop_test(t, polar_factor_is_one, 0, SHAPES);
  tcase_add_loop_test(t, factors_and_their_product, 0, SHAPES);
  tcase_add_loop_test(t, what_is_not_finite_gives_nan, 0, 3);
  tcase_add_loop_test(t, scale_changes_no_bit, 0, 4);
  tcase_add_loop_test(t, vectors_made_orthonormal, 0, 2);
  tcase_add_test(t, zero_matrix);
  suite_add_tcase(suite, t);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
