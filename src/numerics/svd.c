/* svd.c - one-sided Jacobi: rotations from the right until all columns are orthogonal, which are then left vectors
   times singular values (Hestenes 1958; Demmel and Veselic, SIAM J. Matrix Anal. Appl. 13 (1992) 1204, algorithm 4.1).
   Sums are made in eight parts, whatever the machine. */
#include "numerics/svd.h"
#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "numerics/spectra_kernels.h"

enum { SUMS = 8, SWEEPS = 60 };
/* Squared lengths below this count as 0: entries are at most 1, and products of shorter columns underflow. */
static const double nothing = 1e-290;

static double dot(const double *a, const double *b, long n)
{
  double s[SUMS] = {0};
  long i = 0;
  for (; i + SUMS <= n; i += SUMS)
    for (int k = 0; k < SUMS; k++) s[k] += a[i + k] * b[i + k];
  for (int k = 0; i < n; i++, k++) s[k] += a[i] * b[i];
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* A unit vector orthogonal to the `given` others [given, m], from an axis of which they leave a large part. */
static void complete(double *x, const double *const *other, long given, long m)
{
  for (long axis = 0; axis < m; axis++) {
    memset(x, 0, (size_t)m * sizeof *x);
    x[axis] = 1;
    for (int twice = 0; twice < 2; twice++)
      for (long k = 0; k < given; k++) {
        const double along = dot(other[k], x, m);
        for (long i = 0; i < m; i++) x[i] -= along * other[k][i];
      }
    const double left = dot(x, x, m);
    if (left < 0.5 * (double)(m - given) / (double)m) continue; /* the mean over the axes is twice this */
    for (long i = 0; i < m; i++) x[i] /= sqrt(left);
    return;
  }
  BUG("no axis is left");
}

/* Lengths to sigma, columns [m] to unit vectors, in the order of falling sigma; those without length are completed. */
static void finish(struct rotated *j, long m, double *sigma, double *left, double *right)
{
  const double **unit = memory_new((size_t)j->n, sizeof *unit);
  long *order = memory_new((size_t)j->n, sizeof *order);
  for (long p = 0; p < j->n; p++) {
    const double square = dot(j->a + p * j->stride, j->a + p * j->stride, m);
    j->square[p] = square < j->nothing ? 0 : sqrt(square);
    long at = p;
    for (; at > 0 && j->square[order[at - 1]] < j->square[p]; at--) order[at] = order[at - 1];
    order[at] = p;
  }
  for (long k = 0; k < j->n; k++) {
    double *x = j->a + order[k] * j->stride;
    sigma[k] = j->square[order[k]];
    if (sigma[k] > 0)
      for (long i = 0; i < m; i++) x[i] /= sigma[k];
    else
      complete(x, unit, k, m);
    unit[k] = x;
    for (long i = 0; i < m; i++) left[i * j->n + k] = x[i];
    for (long i = 0; i < j->n; i++) right[i * j->n + k] = j->v[order[k] * j->stride_v + i];
  }
  memory_free(unit);
  memory_free(order);
}

int svd_factors(const real *w, long rows, long cols, long ld, double *u, double *sigma, double *v,
                struct error *e)
{
  const int wide = rows <= cols; /* then decompose w^T, whose columns are w's rows */
  const long m = wide ? cols : rows, n = wide ? rows : cols;
  struct rotated j = {.n = n,
                      .stride = spectra_stride(m),
                      .stride_v = spectra_stride(n),
                      .nothing = nothing,
                      .orthogonal = 0x1p-52 * sqrt((double)m)};
  const struct spectra_kernels *kernels = cpu_spectra();
  double largest = 0;
  int exponent = 0, finite = 1, status = STATUS_OK;
  for (long r = 0; r < rows; r++)
    for (long c = 0; c < cols; c++) {
      const double size = fabs((double)w[r * ld + c]);
      finite &= isfinite(size) != 0;
      largest = fmax(largest, size);
    }
  if (!finite) return error_set(e, STATUS_FAIL, "svd: an entry is not finite");
  if (largest > 0) frexp(largest, &exponent); /* scaled by a power of two so that no square overflows */
  j.a = memory_new((size_t)(n * j.stride), sizeof *j.a);
  j.v = memory_new((size_t)(n * j.stride_v), sizeof *j.v);
  j.square = memory_new((size_t)n, sizeof *j.square);
  for (long p = 0; p < n; p++) {
    for (long i = 0; i < m; i++)
      j.a[p * j.stride + i] = ldexp((double)(wide ? w[p * ld + i] : w[i * ld + p]), -exponent);
    j.v[p * j.stride_v + p] = 1;
  }
  int sweeps = 0;
  while (sweeps < SWEEPS && kernels->rotations(&j)) sweeps++;
  if (sweeps == SWEEPS)
    status = error_set(e, STATUS_FAIL, "svd: %d sweeps of rotations do not suffice", SWEEPS);
  if (!status) finish(&j, m, sigma, wide ? v : u, wide ? u : v);
  for (long k = 0; !status && k < n; k++) sigma[k] = ldexp(sigma[k], exponent);
  memory_free(j.a);
  memory_free(j.v);
  memory_free(j.square);
  return status;
}

void svd_product(const double *u, const double *sigma, const double *v, long rows, long cols, real *out,
                 long ldo)
{
  const long n = rows < cols ? rows : cols;
  double *row = memory_new((size_t)n, sizeof *row);
  for (long r = 0; r < rows; r++) {
    for (long k = 0; k < n; k++) row[k] = u[r * n + k] * sigma[k];
    for (long c = 0; c < cols; c++) out[r * ldo + c] = (real)dot(row, v + c * n, n);
  }
  memory_free(row);
}

int polar_factor(const real *w, long rows, long cols, long ld, real *out, long ldo, struct error *e)
{
  const long n = rows < cols ? rows : cols;
  double *u = memory_new((size_t)(rows * n), sizeof *u), *v = memory_new((size_t)(cols * n), sizeof *v);
  double *sigma = memory_new((size_t)n, sizeof *sigma);
  int finite = 1, status = STATUS_OK;
  for (long r = 0; r < rows; r++)
    for (long c = 0; c < cols; c++) finite &= isfinite(w[r * ld + c]) != 0;
  if (finite) status = svd_factors(w, rows, cols, ld, u, sigma, v, e);
  for (long k = 0; k < n; k++) sigma[k] = 1;
  if (finite && !status) svd_product(u, sigma, v, rows, cols, out, ldo);
  for (long r = 0; !finite && r < rows; r++)
    for (long c = 0; c < cols; c++) out[r * ldo + c] = (real)NAN;
  memory_free(u);
  memory_free(v);
  memory_free(sigma);
  return status;
}

/* --- QR ------------------------------------------------------------------------------------------------ */

/* Gram and Schmidt, twice (Giraud et al., Numer. Math. 101 (2005) 87). */
void orthonormal_vectors(double *x, long count, long n)
{
  const double dependent = 1e-12;
  const double **others = memory_new((size_t)count, sizeof *others);
  for (long k = 0; k < count; k++) {
    double *own = x + k * n, before = sqrt(dot(own, own, n)), left;
    for (int twice = 0; twice < 2; twice++)
      for (long i = 0; i < k; i++) {
        const double along = dot(others[i], own, n);
        for (long j = 0; j < n; j++) own[j] -= along * others[i][j];
      }
    left = sqrt(dot(own, own, n));
    if (left > dependent * before)
      for (long j = 0; j < n; j++) own[j] /= left;
    else
      complete(own, others, k, n);
    others[k] = own;
  }
  memory_free(others);
}
