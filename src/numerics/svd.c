/* svd.c - one-sided Jacobi: rotations from the right until all columns are orthogonal, which are then left vectors
   times singular values (Hestenes 1958; Demmel and Veselic, SIAM J. Matrix Anal. Appl. 13 (1992) 1204, algorithm 4.1).
   Sums are made in eight parts, whatever the machine. */
#include "numerics/svd.h"
#include <math.h>
#include <string.h>
#include "base/memory.h"

/* a [n, m]: column j of the matrix that is decomposed is row j here; v [n, n]: column j of the right factor likewise */
struct jacobi {
  long m, n;
  double *a, *v, *square; /* [n]: squared lengths of the columns */
};

enum { SUMS = 8, SWEEPS = 60 };
/* Below it a squared length is 0: entries are of size 1 at most, and products of shorter columns underflow. */
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

static void rotate(double *x, double *y, long n, double c, double s)
{
  for (long i = 0; i < n; i++) {
    const double xi = x[i], yi = y[i];
    x[i] = c * xi - s * yi;
    y[i] = s * xi + c * yi;
  }
}

/* Makes columns p and q orthogonal; 0 where they are. */
static int rotate_pair(struct jacobi *j, long p, long q)
{
  double *x = j->a + p * j->m, *y = j->a + q * j->m;
  if (j->square[p] < nothing || j->square[q] < nothing) return 0;
  const double xy = dot(x, y, j->m);
  if (fabs(xy) <= 0x1p-52 * sqrt((double)j->m) * sqrt(j->square[p]) * sqrt(j->square[q])) return 0;
  const double zeta = (j->square[q] - j->square[p]) / (2 * xy);
  const double t = (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(1 + zeta * zeta)), c = 1 / sqrt(1 + t * t),
               s = c * t;
  rotate(x, y, j->m, c, s);
  rotate(j->v + p * j->n, j->v + q * j->n, j->n, c, s);
  j->square[p] -= t * xy;
  j->square[q] += t * xy;
  return 1;
}

static int sweep(struct jacobi *j)
{
  int rotated = 0;
  for (long p = 0; p < j->n; p++) j->square[p] = dot(j->a + p * j->m, j->a + p * j->m, j->m);
  for (long p = 0; p < j->n; p++)
    for (long q = p + 1; q < j->n; q++) rotated |= rotate_pair(j, p, q);
  return rotated;
}

/* A unit vector orthogonal to the `given` others [given, m]: of the axes one that they leave most of, or nearly. */
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

/* Lengths to sigma, columns to unit vectors, in the order of falling sigma; those without length are completed. */
static void finish(struct jacobi *j, double *sigma, double *left, double *right)
{
  const double **unit = memory_new((size_t)j->n, sizeof *unit);
  long *order = memory_new((size_t)j->n, sizeof *order);
  for (long p = 0; p < j->n; p++) {
    const double square = dot(j->a + p * j->m, j->a + p * j->m, j->m);
    j->square[p] = square < nothing ? 0 : sqrt(square);
    long at = p;
    for (; at > 0 && j->square[order[at - 1]] < j->square[p]; at--) order[at] = order[at - 1];
    order[at] = p;
  }
  for (long k = 0; k < j->n; k++) {
    double *x = j->a + order[k] * j->m;
    sigma[k] = j->square[order[k]];
    if (sigma[k] > 0)
      for (long i = 0; i < j->m; i++) x[i] /= sigma[k];
    else
      complete(x, unit, k, j->m);
    unit[k] = x;
    for (long i = 0; i < j->m; i++) left[i * j->n + k] = x[i];
    for (long i = 0; i < j->n; i++) right[i * j->n + k] = j->v[order[k] * j->n + i];
  }
  memory_free(unit);
  memory_free(order);
}

int svd_factors(const real *w, long rows, long cols, long ld, double *u, double *sigma, double *v,
                struct error *e)
{
  const int wide = rows <= cols; /* then w^T is decomposed, whose columns are w's rows */
  struct jacobi j = {.m = wide ? cols : rows, .n = wide ? rows : cols};
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
  j.a = memory_new((size_t)(j.m * j.n), sizeof *j.a);
  j.v = memory_new((size_t)(j.n * j.n), sizeof *j.v);
  j.square = memory_new((size_t)j.n, sizeof *j.square);
  for (long p = 0; p < j.n; p++) {
    for (long i = 0; i < j.m; i++)
      j.a[p * j.m + i] = ldexp((double)(wide ? w[p * ld + i] : w[i * ld + p]), -exponent);
    j.v[p * j.n + p] = 1;
  }
  int sweeps = 0;
  while (sweeps < SWEEPS && sweep(&j)) sweeps++;
  if (sweeps == SWEEPS)
    status = error_set(e, STATUS_FAIL, "svd: %d sweeps of rotations do not suffice", SWEEPS);
  if (!status) finish(&j, sigma, wide ? v : u, wide ? u : v);
  for (long k = 0; !status && k < j.n; k++) sigma[k] = ldexp(sigma[k], exponent);
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
