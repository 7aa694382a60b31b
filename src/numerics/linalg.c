/* linalg.c - spectra of small matrices in double
   Matrices are scaled by a power of two so that no square overflows; that changes no bit of the result. */
#include "numerics/linalg.h"
#include <math.h>
#include <string.h>
#include "base/elementary.h"
#include "base/memory.h"
#include "numerics/blas.h"
#include "numerics/spectra_kernels.h"

/* A matrix [rows, cols] stands with its shorter side along rows, `stride` apart. */
struct spectra {
  const struct spectra_kernels *kernels;
  long longer, shorter;    /* sides of the largest matrix */
  long together;           /* matrices at a time */
  double *a, *b, *c;       /* area: matrices */
  double *g;               /* [together] of [shorter, stride]: Gram matrices, then their reflections */
  double *tau;             /* [together, shorter] */
  double *d, *e;           /* [shorter, SPECTRA_LANES]: tridiagonal matrices */
  double *lambda, *square; /* likewise: their eigenvalues; squares of e */
  double *vector, *room;   /* [longer's stride], [2 of it] */
  size_t area;
  struct decomposition *decomposition; /* NULL: not needed yet */
};

static long shorter_of(long rows, long cols) { return rows < cols ? rows : cols; }
static long longer_of(long rows, long cols) { return rows > cols ? rows : cols; }

/* From this size on a Gram matrix keeps a processor busy alone. */
enum { LARGE = 160 };

struct spectra *spectra_new(long rows, long cols)
{
  REQUIRE(rows > 0 && cols > 0);
  struct spectra *s = memory_new(1, sizeof *s);
  s->kernels = cpu_spectra();
  s->longer = longer_of(rows, cols);
  s->shorter = shorter_of(rows, cols);
  s->together = s->shorter < LARGE ? SPECTRA_LANES : 1;
  s->area = (size_t)spectra_stride(s->longer) * (size_t)spectra_stride(s->shorter);
  size_t n = (size_t)s->shorter, many = (size_t)s->together, lanes = SPECTRA_LANES;
  s->a = memory_new(s->area, sizeof *s->a);
  s->b = memory_new(s->area, sizeof *s->b);
  s->c = memory_new(s->area, sizeof *s->c);
  s->g = memory_new(many * (size_t)(spectra_stride(s->shorter) * spectra_stride(s->shorter)), sizeof *s->g);
  s->tau = memory_new(many * n, sizeof *s->tau);
  s->d = memory_new(n * lanes, sizeof *s->d);
  s->e = memory_new(n * lanes, sizeof *s->e);
  s->lambda = memory_new(n * lanes, sizeof *s->lambda);
  s->square = memory_new(n * lanes, sizeof *s->square);
  s->vector = memory_new((size_t)spectra_stride(s->longer), sizeof *s->vector);
  s->room = memory_new(2 * (size_t)spectra_stride(s->longer), sizeof *s->room);
  return s;
}

void spectra_free(struct spectra *s)
{
  if (!s) return;
  double *block[] = {s->a, s->b, s->c, s->g, s->tau, s->d, s->e, s->lambda, s->square, s->vector, s->room};
  for (size_t i = 0; i < sizeof block / sizeof *block; i++) memory_free(block[i]);
  decomposition_free(s->decomposition);
  memory_free(s);
}

static void require_room(const struct spectra *s, long rows, long cols)
{
  REQUIRE(rows > 0 && cols > 0 && shorter_of(rows, cols) <= s->shorter && longer_of(rows, cols) <= s->longer);
}

/* w / 2^k so that the largest entry lies in [1/2, 1), into out [rows, stride], zeros behind its rows; or turned,
   [cols, stride]. Returns 2^k, NaN where an entry is not finite. The zero matrix has 1. */
static double load(const struct spectra *s, const real *w, long rows, long cols, long ld, int turned,
                   long stride, double *out)
{
  double largest = s->kernels->largest(w, rows, cols, ld);
  int exponent = 0;
  if (isnan(largest)) return NAN;
  if (largest > 0) frexp(largest, &exponent);
  s->kernels->copy(w, rows, cols, ld, ldexp(1, -exponent), turned, stride, out);
  return ldexp(1, exponent);
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
    entropy_p -= p > 0 || isnan(p) ? p * same_log(p) : 0;
    entropy_r -= r > 0 || isnan(r) ? r * same_log(r) : 0;
  }
  *out = (struct spectrum){.spectral_norm = largest,
                           .frobenius_norm = largest == 0 ? 0 : largest * sqrt(squares),
                           .svd_entropy = n > 1 ? entropy_p / same_log((double)n) : NAN,
                           .effective_rank_p = same_exp(entropy_p),
                           .effective_rank_r = same_exp(entropy_r),
                           .stable_rank = squares};
}

/* --- by the Gram matrix ------------------------------------------------------------------------------------------- */

/* A matrix in progress. */
struct passage {
  long n, stride, longer; /* of the Gram matrix; rows of a */
  double scale;           /* NaN: something is not finite */
  double *g, *tau;
};

static struct passage passage_of(const struct spectra *s, long lane, long n, long longer)
{
  const long stride = spectra_stride(s->shorter);
  return (struct passage){
    n, spectra_stride(n), longer, 1, s->g + lane * stride * stride, s->tau + lane * s->shorter};
}

/* The tridiagonal form of a^T a, s->a [longer, n], in lane `lane`. */
static void reduce(struct spectra *s, const struct passage *p, long lane)
{
  s->kernels->product(s->a, p->stride, s->a, p->stride, p->longer, p->g);
  s->kernels->tridiagonal(p->g, p->n, p->stride, s->d + lane, s->e + lane, p->tau, s->room);
}

/* Keep the first `to` numbers of each row; rows are `from` apart before. */
static void keep_columns(double *a, long rows, long from, long to)
{
  for (long i = 1; i < rows; i++) memmove(a + i * to, a + i * from, (size_t)to * sizeof *a);
}

/* The triangular factors of a^T = Qa Ra and b^T = Qb Rb, transposed, go into s->c and s->b. */
static struct passage load_factors(struct spectra *s, const struct spectra_job *j, long lane)
{
  const long dh = j->rows, d = j->cols, k = shorter_of(dh, d), stride = spectra_stride(d);
  struct passage p = passage_of(s, lane, k, spectra_stride(k));
  double scale_a = load(s, j->w, dh, d, j->ld, 0, stride, s->c),
         scale_b = load(s, j->b, dh, d, j->ldb, 0, stride, s->b);
  p.scale = scale_a * scale_b;
  if (isnan(p.scale)) return p;
  s->kernels->triangle(s->c, dh, d, stride, s->room);
  s->kernels->triangle(s->b, dh, d, stride, s->room);
  keep_columns(s->c, dh, stride, p.stride);
  keep_columns(s->b, dh, stride, p.stride);
  return p;
}

/* a^T b = Qa (Ra Rb^T) Qb^T. That product goes into s->a. */
static struct passage load_form(struct spectra *s, const struct spectra_job *j, long lane)
{
  struct passage p = load_factors(s, j, lane);
  if (!isnan(p.scale)) s->kernels->product(s->c, p.stride, s->b, p.stride, j->rows, s->a);
  return p;
}

static struct passage load_matrix(struct spectra *s, const struct spectra_job *j, long lane)
{
  struct passage p = passage_of(s, lane, shorter_of(j->rows, j->cols), longer_of(j->rows, j->cols));
  p.scale = load(s, j->w, j->rows, j->cols, j->ld, j->rows < j->cols, p.stride, s->a);
  return p;
}

static double at_least(double x, double least) { return x > -least && x < least ? -least : x; }

/* z [n]: the vector of the largest eigenvalue of the tridiagonal matrix in a lane. The matrix minus that eigenvalue
   is negative semidefinite, so its factorizations from both ends are stable. The vector is largest where they match
   best. (Dhillon and Parlett, Linear Algebra Appl. 387, 2004: twisted factorizations) */
static void leading_vector(struct spectra *s, long lane, long n, double lambda, double *z)
{
  const double *d = s->d + lane, *e = s->e + lane, least = lambda * 0x1p-104;
  enum { LANES = SPECTRA_LANES };
  double *down = s->room, *up = s->room + n, best = INFINITY;
  long twist = 0;
  for (long i = 0; i < n; i++) {
    double square = i ? e[(i - 1) * LANES] * e[(i - 1) * LANES] / down[i - 1] : 0;
    down[i] = at_least(d[i * LANES] - lambda - square, least);
  }
  for (long i = n - 1; i >= 0; i--) {
    double square = i < n - 1 ? e[i * LANES] * e[i * LANES] / up[i + 1] : 0;
    up[i] = at_least(d[i * LANES] - lambda - square, least);
    double here = fabs(down[i] + up[i] - (d[i * LANES] - lambda));
    if (here < best) best = here, twist = i;
  }
  double squares = 1;
  z[twist] = 1;
  for (long i = twist - 1; i >= 0; i--) z[i] = -e[i * LANES] / down[i] * z[i + 1];
  for (long i = twist + 1; i < n; i++) z[i] = -e[(i - 1) * LANES] / up[i] * z[i - 1];
  for (long i = 0; i < n; i++) squares += i == twist ? 0 : z[i] * z[i];
  for (long i = 0; i < n; i++) z[i] /= sqrt(squares);
}

/* to = from / |from| */
static void unit_of(const double *from, long n, double *to)
{
  double squares = 0;
  for (long i = 0; i < n; i++) squares += from[i] * from[i];
  for (long i = 0; i < n; i++) to[i] = from[i] / sqrt(squares);
}

/* near [n]: the leading vector on the shorter side; far: its companion, a near / |a near|, of the matrix in s->a. */
static void leading_pair(struct spectra *s, const struct passage *p, long lane, double lambda, double *near,
                         double *far)
{
  memset(s->vector, 0, (size_t)p->stride * sizeof *s->vector);
  leading_vector(s, lane, p->n, lambda, s->vector);
  s->kernels->turn_back(p->g, p->n, p->stride, p->tau, s->vector);
  unit_of(s->vector, p->n, near);
  s->kernels->times(s->a, p->longer, p->stride, s->vector, s->room);
  unit_of(s->room, p->longer, far);
}

static void fill(double *x, long n, double value)
{
  for (long i = 0; x && i < n; i++) x[i] = value;
}

/* Squares of the singular values of `count` matrices, number i of matrix l at lambda[i * SPECTRA_LANES + l], from their
   tridiagonal forms. */
static int solve(struct spectra *s, struct passage *p, long count, double *most, struct error *e)
{
  enum { LANES = SPECTRA_LANES };
  long n = 0;
  for (long l = 0; l < count; l++)
    if (!isnan(p[l].scale) && p[l].n > n) n = p[l].n;
  double *lambda = s->lambda, *square = s->square;
  memset(lambda, 0, (size_t)(n * LANES) * sizeof *lambda);
  memset(square, 0, (size_t)(n * LANES) * sizeof *square);
  for (long l = 0; l < count; l++)
    for (long i = 0; i < p[l].n && !isnan(p[l].scale); i++) {
      lambda[i * LANES + l] = s->d[i * LANES + l];
      square[i * LANES + l] = s->e[i * LANES + l] * s->e[i * LANES + l];
    }
  if (!s->kernels->eigenvalues(lambda, square, n))
    return error_set(e, STATUS_FAIL, "the eigenvalues of a Gram matrix did not converge");
  for (long l = 0; l < count; l++) {
    most[l] = 0;
    for (long i = 0; i < p[l].n; i++)
      if (lambda[i * LANES + l] > most[l]) most[l] = lambda[i * LANES + l];
  }
  return STATUS_OK;
}

static int some(struct spectra *s, struct spectra_job *job, long count, struct error *e)
{
  struct passage p[SPECTRA_LANES];
  double most[SPECTRA_LANES];
  for (long l = 0; l < count; l++) {
    struct spectra_job *j = &job[l];
    require_room(s, j->rows, j->cols);
    all_nan(&j->spectrum);
    fill(j->u1, j->rows, NAN);
    fill(j->v1, j->cols, NAN);
    p[l] = j->b ? load_form(s, j, l) : load_matrix(s, j, l);
    if (!isnan(p[l].scale)) reduce(s, &p[l], l);
  }
  if (solve(s, p, count, most, e)) return e ? e->status : STATUS_FAIL;
  for (long l = 0; l < count; l++) {
    struct spectra_job *j = &job[l];
    double *sigma = s->vector;
    long n = j->b ? j->rows : p[l].n;
    if (isnan(p[l].scale)) continue;
    for (long i = 0; i < n; i++) {
      double lambda = i < p[l].n ? s->lambda[i * SPECTRA_LANES + l] : 0;
      sigma[i] = lambda > 0 ? sqrt(lambda) * p[l].scale : 0;
    }
    spectrum_from(sigma, n, &j->spectrum);
    if (j->sigma) memcpy(j->sigma, sigma, (size_t)n * sizeof *sigma);
    if (!j->u1 || most[l] == 0) continue;
    if (count > 1) load_matrix(s, j, l);
    if (j->rows < j->cols)
      leading_pair(s, &p[l], l, most[l], j->u1, j->v1);
    else
      leading_pair(s, &p[l], l, most[l], j->v1, j->u1);
  }
  return STATUS_OK;
}

int spectra_of(struct spectra *s, struct spectra_job *job, long count, struct error *e)
{
  for (long i = 0; i < count; i += s->together) {
    int status = some(s, job + i, count - i < s->together ? count - i : s->together, e);
    if (status) return status;
  }
  return STATUS_OK;
}

int spectrum_of_form(struct spectra *s, const real *a, long lda, const real *b, long ldb, long dh, long d,
                     struct spectrum *out, struct error *e)
{
  struct spectra_job job = {.w = a, .b = b, .rows = dh, .cols = d, .ld = lda, .ldb = ldb};
  int status = spectra_of(s, &job, 1, e);
  *out = job.spectrum;
  return status;
}

static void turn_rows(double *b, long rows, long stride, const double *turn)
{
  const long half = rows / 2;
  for (long j = 0; j < half; j++) {
    double *x = b + j * stride, *y = b + (j + half) * stride;
    for (long i = 0; i < stride; i++) {
      double from = x[i];
      x[i] = turn[j] * from - turn[j + half] * y[i];
      y[i] = turn[j + half] * from + turn[j] * y[i];
    }
  }
}

int largest_of_turned_forms(struct spectra *s, const real *a, long lda, const real *b, long ldb, long dh,
                            long d, const double *turn, long count, double *sigma, struct error *e)
{
  const struct spectra_job job = {.w = a, .b = b, .rows = dh, .cols = d, .ld = lda, .ldb = ldb};
  struct passage p[SPECTRA_LANES];
  double most[SPECTRA_LANES], largest = 0;
  require_room(s, dh, d);
  const struct passage first = load_factors(s, &job, 0);
  for (long i = 0; i < count && !isnan(first.scale); i += s->together) {
    long lanes = count - i < s->together ? count - i : s->together;
    for (long l = 0; l < lanes; l++) {
      p[l] = passage_of(s, l, first.n, first.longer);
      s->kernels->product(s->c, first.stride, s->b, first.stride, dh, s->a);
      reduce(s, &p[l], l);
      turn_rows(s->b, dh, first.stride, turn);
    }
    if (solve(s, p, lanes, most, e)) return STATUS_FAIL;
    for (long l = 0; l < lanes; l++) largest = fmax(largest, most[l]);
  }
  *sigma = sqrt(largest) * first.scale;
  return STATUS_OK;
}

/* The largest singular value of s->b / sqrt(w) + s->c / sqrt(1 - w); the least so far, and its w, are kept. */
static int try_weight(struct spectra *s, struct passage *p, double w, double *value, double *least,
                      double *at, struct error *e)
{
  double most;
  for (long i = 0; i < p->longer * p->stride; i++) s->a[i] = s->b[i] / sqrt(w) + s->c[i] / sqrt(1 - w);
  reduce(s, p, 0);
  if (solve(s, p, 1, &most, e)) return STATUS_FAIL;
  *value = sqrt(most) * p->scale;
  if (*value < *least) *least = *value, *at = w;
  return STATUS_OK;
}

int least_of_weighted_forms(struct spectra *s, const real *a, long lda, const real *b, long ldb, long dh,
                            long d, long first, double *w, double *sigma, struct error *e)
{
  enum { ROUNDS = 10 }; /* to an interval of 1/200 */
  const double golden = (sqrt(5) - 1) / 2, start = fmin(fmax(*w, 0x1p-40), 1 - 0x1p-40);
  const struct spectra_job job = {.w = a, .b = b, .rows = dh, .cols = d, .ld = lda, .ldb = ldb};
  double low = 0, high = 1, at[2] = {1 - golden, golden}, value[2], ignored;
  REQUIRE(0 < first && first < dh);
  require_room(s, dh, d);
  struct passage p = load_factors(s, &job, 0);
  *sigma = NAN;
  if (isnan(p.scale)) return STATUS_OK;
  *sigma = INFINITY;
  const size_t size = (size_t)(p.stride * p.stride) * sizeof(double);
  double *c = s->c + first * p.stride, *rest = s->b + first * p.stride;
  s->kernels->product(s->c, p.stride, s->b, p.stride, first, s->a);
  s->kernels->product(c, p.stride, rest, p.stride, dh - first, p.g);
  memcpy(s->b, s->a, size);
  memcpy(s->c, p.g, size);
  int status = try_weight(s, &p, start, &ignored, sigma, w, e);
  for (int i = 0; i < 2 && !status; i++) status = try_weight(s, &p, at[i], &value[i], sigma, w, e);
  for (int i = 0; i < ROUNDS && !status; i++) {
    const int right = value[1] < value[0];
    *(right ? &low : &high) = at[!right];
    at[!right] = at[right];
    value[!right] = value[right];
    at[right] = right ? low + golden * (high - low) : high - golden * (high - low);
    status = try_weight(s, &p, at[right], &value[right], sigma, w, e);
  }
  return status;
}

/* With b^T = Qb Rb the left vectors of a^T b are those of (Rb a)^T. */
int leading_of_form(struct spectra *s, const real *a, long lda, const real *b, long ldb, long dh, long d,
                    double *sigma, double *u1, double *v1, struct error *e)
{
  const long k = shorter_of(dh, d), stride = spectra_stride(d);
  struct passage p = passage_of(s, 0, k, d);
  double most;
  require_room(s, dh, d);
  *sigma = NAN;
  fill(u1, d, NAN);
  fill(v1, d, NAN);
  double scale_a = load(s, a, dh, d, lda, 0, stride, s->c), scale_b = load(s, b, dh, d, ldb, 0, stride, s->b);
  p.scale = scale_a * scale_b;
  if (isnan(p.scale)) return STATUS_OK;
  s->kernels->triangle(s->b, dh, d, stride, s->room);
  keep_columns(s->b, dh, stride, p.stride);
  s->kernels->product(s->c, stride, s->b, p.stride, dh, s->a);
  reduce(s, &p, 0);
  if (solve(s, &p, 1, &most, e)) return STATUS_FAIL;
  if (most == 0) return STATUS_OK;
  *sigma = sqrt(most) * p.scale;
  leading_pair(s, &p, 0, most, v1, u1); /* v1: room for k numbers */
  memset(s->vector, 0, (size_t)stride * sizeof *s->vector);
  memcpy(s->vector, u1, (size_t)d * sizeof *u1);
  s->kernels->times(s->c, dh, stride, s->vector, s->room);
  fill(s->vector, d, 0);
  for (long i = 0; i < dh; i++)
    for (long j = 0; j < d; j++) s->vector[j] += s->room[i] * ((double)b[i * ldb + j] / scale_b);
  unit_of(s->vector, d, v1);
  return STATUS_OK;
}

/* --- by the singular value decomposition ------------------------------------------------------------------------- */

int singular_values(struct spectra *s, const real *w, long rows, long cols, long ld, double *sigma,
                    double *u1, double *v1, struct error *e)
{
  long n = shorter_of(rows, cols);
  require_room(s, rows, cols);
  if (!s->decomposition) s->decomposition = decomposition_new(s->longer, s->shorter);
  fill(sigma, n, NAN);
  fill(u1, rows, NAN);
  fill(v1, cols, NAN);
  double scale = load(s, w, rows, cols, ld, 0, cols, s->b);
  if (isnan(scale)) return STATUS_OK;
  const struct decomposition *d = s->decomposition;
  int status = decompose(s->decomposition, s->b, rows, cols, u1 || v1, e);
  if (status) return status;
  for (long i = 0; i < n; i++) sigma[i] = d->sigma[i] * scale;
  for (long i = 0; u1 && i < rows; i++) u1[i] = d->right[i * n];
  for (long j = 0; v1 && j < cols; j++) v1[j] = d->left[j];
  return STATUS_OK;
}

int spectrum_of(struct spectra *s, enum spectra_method method, const real *w, long rows, long cols, long ld,
                struct spectrum *out, struct error *e)
{
  struct spectra_job job = {.w = w, .rows = rows, .cols = cols, .ld = ld};
  if (method == SPECTRA_GRAM) {
    int status = spectra_of(s, &job, 1, e);
    *out = job.spectrum;
    return status;
  }
  all_nan(out);
  if (singular_values(s, w, rows, cols, ld, s->vector, NULL, NULL, e)) return STATUS_FAIL;
  spectrum_from(s->vector, shorter_of(rows, cols), out);
  return STATUS_OK;
}
