/* spectra.c - Householder's reflections a matrix at a time, eigenvalues of eight matrices at a time: the iteration is a
   chain of divisions, in which one matrix leaves most of a processor idle */
#include "numerics/spectra_kernels.h"

#include <math.h>

#include "numerics/cpu/cpu.h"

/* Eight numbers are SPLIT vectors of DOUBLES. A product has BLOCK rows of them in registers. */
enum { DOUBLES = LANES / 2, EIGHT = SPECTRA_LANES, BLOCK = LANES == 16 ? 8 : 4 };
typedef double dvec_loose __attribute__((vector_size(8 * DOUBLES), aligned(8), may_alias));
typedef int64_t lvec __attribute__((vector_size(8 * DOUBLES)));
#define DVEC(p) (*(dvec_loose *)(p))
#define ALL_D(x) ((x) - (dvec){0})

/* The fixed order in which eight parts of a sum become one. */
INLINE double whole(const dvec *part)
{
  double x[EIGHT];
  UNROLL
  for (int q = 0; q < SPLIT; q++) DVEC(x + q * DOUBLES) = part[q];
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

/* Over [from, to), both multiples of EIGHT. */
INLINE double dot(const double *x, const double *y, long from, long to)
{
  dvec part[SPLIT] = {{0}};
  for (long i = from; i < to; i += EIGHT) {
    UNROLL
    for (int q = 0; q < SPLIT; q++)
      part[q] = fused_d(DVEC(x + i + q * DOUBLES), DVEC(y + i + q * DOUBLES), part[q]);
  }
  return whole(part);
}

/* y += c x */
INLINE void add_to(double *y, double c, const double *x, long from, long to)
{
  dvec all = ALL_D(c);
  for (long i = from; i < to; i += DOUBLES) DVEC(y + i) = fused_d(all, DVEC(x + i), DVEC(y + i));
}

static double largest(const real *w, long rows, long cols, long ld)
{
  enum { MANY = 32 };
  real most[MANY] = {0}, wrong[MANY] = {0};
  for (long i = 0; i < rows; i++) {
    const real *row = w + i * ld;
    for (long j = 0; j < cols; j += MANY) {
      long n = cols - j < MANY ? cols - j : MANY;
      for (long k = 0; k < n; k++) {
        real x = row[j + k] < 0 ? -row[j + k] : row[j + k];
        most[k] = x > most[k] ? x : most[k];
        wrong[k] += x - x; /* NaN if an entry is not finite */
      }
    }
  }
  for (int k = 1; k < MANY; k++) {
    most[0] = most[k] > most[0] ? most[k] : most[0];
    wrong[0] += wrong[k];
  }
  return (double)most[0] + (double)wrong[0];
}

static void copy(const real *w, long rows, long cols, long ld, double factor, int turned, long stride,
                 double *out)
{
  if (!turned)
    for (long i = 0; i < rows; i++) {
      for (long j = 0; j < cols; j++) out[i * stride + j] = (double)w[i * ld + j] * factor;
      for (long j = cols; j < stride; j++) out[i * stride + j] = 0;
    }
  else
    for (long i = 0; i < stride; i += EIGHT) /* a line of memory at a time */
      for (long j = 0; j < cols; j++) {
        UNROLL
        for (long k = 0; k < EIGHT; k++)
          out[j * stride + i + k] = i + k < rows ? (double)w[(i + k) * ld + j] * factor : 0;
      }
}

static void product(const double *a, long na, const double *b, long nb, long rows, double *out)
{
  for (long i = 0; i < na; i += BLOCK)
    for (long j = a == b ? i / EIGHT * EIGHT : 0; j < nb; j += EIGHT) {
      dvec sum[BLOCK][SPLIT] = {{{0}}};
      for (long k = 0; k < rows; k++) {
        const double *left = a + k * na + i, *right = b + k * nb + j;
        UNROLL
        for (int r = 0; r < BLOCK; r++) {
          UNROLL
          for (int q = 0; q < SPLIT; q++)
            sum[r][q] = fused_d(ALL_D(left[r]), DVEC(right + q * DOUBLES), sum[r][q]);
        }
      }
      for (int r = 0; r < BLOCK; r++) {
        UNROLL
        for (int q = 0; q < SPLIT; q++) DVEC(out + (i + r) * nb + j + q * DOUBLES) = sum[r][q];
      }
    }
  for (long i = 0; a == b && i < na; i++)
    for (long j = 0; j < i / EIGHT * EIGHT; j++) out[i * nb + j] = out[j * nb + i];
}

/* p = sum over rows i in [from, to) of v[i] g[i], `count` vectors of it */
INLINE void times_vectors(const double *g, long stride, const double *v, long from, long to, double *p,
                          const int count)
{
  dvec sum[8] = {{0}};
  for (long i = from; i < to; i++) {
    dvec all = ALL_D(v[i]);
    UNROLL
    for (int q = 0; q < count; q++) sum[q] = fused_d(all, DVEC(g + i * stride + q * DOUBLES), sum[q]);
  }
  UNROLL
  for (int q = 0; q < count; q++) DVEC(p + q * DOUBLES) = sum[q];
}

static void symmetric_times(const double *g, long stride, const double *v, long first, long from, long to,
                            double *p)
{
  long j = first;
  for (; j + 8 * DOUBLES <= stride; j += 8 * DOUBLES) times_vectors(g + j, stride, v, from, to, p + j, 8);
  for (; j + 4 * DOUBLES <= stride; j += 4 * DOUBLES) times_vectors(g + j, stride, v, from, to, p + j, 4);
  for (; j + 2 * DOUBLES <= stride; j += 2 * DOUBLES) times_vectors(g + j, stride, v, from, to, p + j, 2);
  for (; j < stride; j += DOUBLES) times_vectors(g + j, stride, v, from, to, p + j, 1);
}

/* The reflection 1 - tau v v^T, v[at] = 1, that turns x [at, to) into beta at x[at]; before `at` x is 0, and becomes v.
   (Golub and Van Loan, 5.1.3) */
INLINE double reflection(double *x, long at, long first, long to, double *beta)
{
  double head = x[at], tail;
  x[at] = 0;
  tail = dot(x, x, first, to);
  x[at] = 1;
  *beta = head;
  if (tail == 0) return 0;
  *beta = head > 0 ? -sqrt(head * head + tail) : sqrt(head * head + tail);
  double inverse = 1 / (head - *beta);
  for (long i = at + 1; i < to; i++) x[i] *= inverse;
  return (*beta - head) / *beta;
}

static void tridiagonal(double *g, long n, long stride, double *d, double *e, double *tau, double *room)
{
  double *p = room, *w = room + stride;
  for (long k = 0; k < n; k++) {
    double *v = g + k * stride;
    long first = (k + 1) / EIGHT * EIGHT;
    d[k * EIGHT] = v[k];
    tau[k] = e[k * EIGHT] = 0;
    if (k == n - 1) break;
    for (long j = 0; j <= k; j++) v[j] = 0;
    tau[k] = reflection(v, k + 1, first, stride, &e[k * EIGHT]);
    if (tau[k] == 0) continue;
    symmetric_times(g, stride, v, first, k + 1, n, p);
    for (long j = first; j <= k; j++) p[j] = 0;
    double half = tau[k] / 2 * dot(p, v, first, stride);
    for (long j = first; j < stride; j++) w[j] = -tau[k] * (p[j] - half * v[j]);
    for (long i = k + 1; i < n; i++) {
      dvec wi = ALL_D(w[i]), vi = ALL_D(v[i]);
      double *row = g + i * stride;
      for (long j = first; j < stride; j += DOUBLES)
        DVEC(row + j) = fused_d(vi, DVEC(w + j), fused_d(wi, DVEC(v + j), DVEC(row + j)));
    }
  }
}

static void turn_back(const double *g, long n, long stride, const double *tau, double *z)
{
  for (long k = n - 2; k >= 0; k--) {
    const double *v = g + k * stride;
    long first = (k + 1) / EIGHT * EIGHT;
    if (tau[k] != 0) add_to(z, -tau[k] * dot(v, z, first, stride), v, first, stride);
  }
}

static void triangle(double *a, long rows, long d, long stride, double *room)
{
  for (long j = 0; j < rows && j < d; j++) {
    double *x = a + j * stride, beta;
    long first = j / EIGHT * EIGHT;
    for (long i = first; i < stride; i++) {
      room[i] = i < j ? 0 : x[i];
      if (i >= j) x[i] = 0;
    }
    double tau = reflection(room, j, first, stride, &beta);
    x[j] = beta;
    for (long r = j + 1; r < rows && tau != 0; r++) {
      double *row = a + r * stride;
      add_to(row, -tau * dot(room, row, first, stride), room, first, stride);
    }
  }
}

static void times(const double *a, long rows, long stride, const double *z, double *out)
{
  for (long i = 0; i < rows; i++) out[i] = dot(a + i * stride, z, 0, stride);
}

/* --- eigenvalues ------------------------------------------------------------------------------------------------ */

/* For each lane: x where the mask is set, else y. */
INLINE dvec either(lvec mask, dvec x, dvec y) { return (dvec)((mask & (lvec)x) | (~mask & (lvec)y)); }

INLINE dvec root(dvec x)
{
#if defined __AVX512F__
  return (dvec)_mm512_sqrt_pd((__m512d)x);
#elif defined __AVX2__
  return (dvec)_mm256_sqrt_pd((__m256d)x);
#else
  UNROLL
  for (int i = 0; i < DOUBLES; i++) x[i] = sqrt(x[i]);
  return x;
#endif
}

/* Where each lane's block that begins in row `at` ends; how far the longest of them reaches. */
static long block_ends(const double *f, const double *small, long at, long n, double *end)
{
  long most = at;
  for (int l = 0; l < EIGHT; l++) {
    long i = at;
    while (i < n - 1 && f[i * EIGHT + l] > small[l]) i++;
    end[l] = (double)i;
    if (i > most) most = i;
  }
  return most;
}

struct chase { /* of a sweep, DOUBLES lanes */
  dvec end, shift, c, s, gamma, p;
};

INLINE struct chase begin(const double *d, const double *f, long at, dvec end)
{
  const dvec one = ALL_D(1.);
  struct chase x = {.end = end, .c = one};
  dvec off = root(DVEC(f)), goes = (dvec)(end > ALL_D((double)at));
  dvec slope = (DVEC(d + EIGHT) - DVEC(d)) / (2 * either((lvec)goes, off, one));
  dvec side = root(slope * slope + one);
  x.shift = DVEC(d) - off / (slope + either(slope < (dvec){0}, -side, side));
  return x;
}

/* Row i, where the lanes that end in row i + 1 begin. */
INLINE void chase(struct chase *x, double *d, double *f, long i)
{
  const dvec one = ALL_D(1.), zero = {0}, row = ALL_D((double)i);
  lvec inside = x->end > row, begins = x->end == row + one;
  dvec first = DVEC(d + EIGHT) - x->shift;
  x->gamma = either(begins, first, x->gamma);
  x->p = either(begins, first * first, x->p);
  x->c = either(begins, one, x->c);
  dvec b = DVEC(f), r = either(inside, x->p + b, one), instead = x->c * b, alpha = DVEC(d);
  lvec tiny = x->p < ALL_D(0x1p-900);
  DVEC(f + EIGHT) = either(inside & ~begins, x->s * r, DVEC(f + EIGHT));
  x->c = either(tiny, zero, x->p / r);
  x->s = b / r;
  dvec next = x->c * (alpha - x->shift) - x->s * x->gamma;
  DVEC(d + EIGHT) = either(inside, x->gamma + (alpha - next), DVEC(d + EIGHT));
  x->p = either(tiny, instead, next * next * (r / x->p));
  x->gamma = next;
}

/* Over rows [at, most] of all lanes, each to its own end. */
static void sweep(double *d, double *f, long at, long most, const double *end)
{
  struct chase x[SPLIT];
  double *first = d + at * EIGHT, *off = f + at * EIGHT;
  for (int q = 0; q < SPLIT; q++)
    x[q] = begin(first + q * DOUBLES, off + q * DOUBLES, at, DVEC(end + q * DOUBLES));
  for (long i = most - 1; i >= at; i--) {
    UNROLL
    for (int q = 0; q < SPLIT; q++) chase(&x[q], d + i * EIGHT + q * DOUBLES, f + i * EIGHT + q * DOUBLES, i);
  }
  for (int q = 0; q < SPLIT; q++) {
    lvec goes = x[q].end > ALL_D((double)at);
    DVEC(off + q * DOUBLES) = either(goes, x[q].s * x[q].p, DVEC(off + q * DOUBLES));
    DVEC(first + q * DOUBLES) = either(goes, x[q].shift + x[q].gamma, DVEC(first + q * DOUBLES));
  }
}

static int eigenvalues(double *d, double *f, long n)
{
  const double eps = 0x1p-53;
  double small[EIGHT] = {0}, end[EIGHT];
  for (int l = 0; l < EIGHT; l++) {
    for (long i = 0; i < n; i++)
      if (d[i * EIGHT + l] > small[l]) small[l] = d[i * EIGHT + l];
    small[l] *= eps, small[l] *= small[l];
  }
  for (long at = 0; at < n - 1; at++)
    for (int sweeps = 0;; sweeps++) {
      long most = block_ends(f, small, at, n, end);
      if (most == at) break;
      if (sweeps == 60) return 0;
      sweep(d, f, at, most, end);
    }
  return 1;
}

/* --- rotations: nothing is fused, so that base gives the same bits, too ------------------------------------------ */

/* Over [0, to) of x and y: (x, y) = (c x - s y, s x + c y). Returns the product of the new x with z, if there is
   one, in eight parts. */
INLINE double rotate(double *x, double *y, const double *z, long to, double c, double s)
{
  const dvec cosine = ALL_D(c), sine = ALL_D(s);
  dvec part[SPLIT] = {{0}};
  for (long i = 0; i < to; i += EIGHT) {
    UNROLL
    for (int q = 0; q < SPLIT; q++) {
      const long at = i + q * DOUBLES;
      const dvec xi = DVEC(x + at), yi = DVEC(y + at), turned = cosine * xi - sine * yi;
      DVEC(x + at) = turned;
      DVEC(y + at) = sine * xi + cosine * yi;
      if (z) part[q] += turned * DVEC(z + at);
    }
  }
  return whole(part);
}

INLINE double dot_rounded(const double *x, const double *y, long to)
{
  dvec part[SPLIT] = {{0}};
  for (long i = 0; i < to; i += EIGHT) {
    UNROLL
    for (int q = 0; q < SPLIT; q++) part[q] += DVEC(x + i + q * DOUBLES) * DVEC(y + i + q * DOUBLES);
  }
  return whole(part);
}

static int rotations(const struct rotated *r)
{
  int rotated = 0;
  double *const square = r->square;
  for (long p = 0; p < r->n; p++) {
    const double *x = r->a + p * r->stride;
    square[p] = dot_rounded(x, x, r->stride);
  }
  for (long p = 0; p < r->n; p++) {
    double *x = r->a + p * r->stride, xy = 0;
    int told = 0; /* xy by the rotation before, of p and q */
    for (long q = p + 1; q < r->n; q++) {
      double *y = r->a + q * r->stride;
      const int known = told;
      told = 0;
      if (square[p] < r->nothing || square[q] < r->nothing) continue;
      if (!known) xy = dot_rounded(x, y, r->stride);
      if (fabs(xy) <= r->orthogonal * sqrt(square[p]) * sqrt(square[q])) continue;
      const double zeta = (square[q] - square[p]) / (2 * xy);
      const double t = (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(1 + zeta * zeta)), c = 1 / sqrt(1 + t * t),
                   s = c * t;
      square[p] -= t * xy;
      square[q] += t * xy;
      xy = rotate(x, y, q + 1 < r->n ? y + r->stride : x, r->stride, c, s);
      rotate(r->v + p * r->stride_v, r->v + q * r->stride_v, NULL, r->stride_v, c, s);
      told = rotated = 1;
    }
  }
  return rotated;
}

const struct spectra_kernels EXPORT(cpu_spectra) = {largest,  copy,  product,     tridiagonal, turn_back,
                                                    triangle, times, eigenvalues, rotations};
