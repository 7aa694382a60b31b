/* head_spectrum.c - the linear factors of one head's logits, their spectra, and bounds on the logits */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "zoo/spectra.h"
#include "base/memory.h"
#include "numerics/reach.h"

struct head_work {
  struct spectra *spectra;
  long rows, inputs;
  real *q, *k, *a, *b;         /* [rows, inputs]: as stored; with the gain of the norm before */
  double *line, *gain, *shift; /* [max(rows, inputs)] */
  double *gain_q, *gain_k;     /* [rows] */
  double *c_q, *c_k;           /* [rows] */
  struct joint *joint;         /* NULL: no head so far had two parts */
};

/* Both parts of a head, one below the other: queries, keys. */
struct joint {
  struct spectra *spectra;
  long cols;
  real *q, *k; /* [rows of all parts, cols] */
  struct reach reach_q[MOST_PARTS], reach_k[MOST_PARTS];
};

struct head_work *head_work_new(long rows, long inputs)
{
  struct head_work *w = memory_new(1, sizeof *w);
  size_t area = (size_t)rows * (size_t)inputs, most = (size_t)(rows > inputs ? rows : inputs);
  *w = (struct head_work){.spectra = spectra_new(rows, inputs), .rows = rows, .inputs = inputs};
  real **matrix[] = {&w->q, &w->k, &w->a, &w->b};
  for (size_t i = 0; i < 4; i++) *matrix[i] = memory_new(area, sizeof(real));
  double **vector[] = {&w->line, &w->gain, &w->shift, &w->gain_q, &w->gain_k, &w->c_q, &w->c_k};
  for (size_t i = 0; i < 7; i++) *vector[i] = memory_new(most, sizeof(double));
  return w;
}

void head_work_free(struct head_work *w)
{
  if (!w) return;
  spectra_free(w->spectra);
  if (w->joint) {
    spectra_free(w->joint->spectra);
    memory_free(w->joint->q);
    memory_free(w->joint->k);
    memory_free(w->joint);
  }
  void *all[] = {w->q, w->k, w->a, w->b, w->line, w->gain, w->shift, w->gain_q, w->gain_k, w->c_q, w->c_k};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) memory_free(all[i]);
  memory_free(w);
}

/* --- reading ------------------------------------------------------------------------------------------- */

/* Numbers [first, first+count) of a vector, whatever its shape. */
static void read_vector(const struct weight *w, long first, long count, double *out)
{
  for (long i = 0; i < count; i++) weight_read(w, (first + i) / w->cols, (first + i) % w->cols, 1, &out[i]);
}

/* The head's rows into x [rows, width], zero beyond the projection's own inputs. */
static void read_rows(const struct head_work *w, const struct projection *p, long width, real *x)
{
  memset(x, 0, (size_t)p->rows * (size_t)width * sizeof *x);
  for (long i = 0; i < (p->columns ? p->inputs : p->rows); i++) {
    weight_read(p->weight, p->columns ? i : p->first + i, p->columns ? p->first : 0,
                p->columns ? p->rows : p->inputs, w->line);
    for (long j = 0; j < (p->columns ? p->rows : p->inputs); j++)
      x[p->columns ? j * width + i : i * width + j] = (real)w->line[j];
  }
}

/* The factors by which a norm multiplies its input. */
static void read_gain(const struct norm *n, long count, double *out)
{
  for (long i = 0; i < count; i++) out[i] = 1;
  if (n->gain && n->gain->rows * n->gain->cols == 1) { /* one number for all */
    read_vector(n->gain, 0, 1, out);
    for (long i = 1; i < count; i++) out[i] = out[0];
  } else if (n->gain) {
    read_vector(n->gain, n->first, count, out);
  }
  if (n->kind == NORM_RMS_PLUS_ONE || n->kind == NORM_LAYER_PLUS_ONE)
    for (long i = 0; i < count; i++) out[i] += 1;
}

/* The factor by which rotation multiplies dimension i. */
static double stretch_of(const struct logit_part *part, long i)
{
  return part->rotary != ROTARY_NONE && i < part->rotary_size ? 1 + part->stretch : 1;
}

/* The rows x [rows, width] and their bias, multiplied by the factor of rotation; `a` also has the gain of the norm
   before. */
static int read_reach(const struct head_work *w, const struct logit_part *part, const struct projection *p,
                      long width, real *x, real *a, double *c, struct reach *out, struct error *e)
{
  const struct norm *n = &p->before;
  struct normed_rows rows = {.w = x,
                             .rows = p->rows,
                             .cols = p->inputs,
                             .ld = width,
                             .gain = w->gain,
                             .shift = n->shift ? w->shift : NULL,
                             .centred = n->kind == NORM_LAYER || n->kind == NORM_LAYER_PLUS_ONE,
                             .length = n->kind ? sqrt((double)n->size) : INFINITY};
  read_gain(n, p->inputs, w->gain);
  if (n->shift) read_vector(n->shift, 0, p->inputs, w->shift);
  for (long i = 0; i < p->rows; i++) c[i] = 0;
  if (p->bias) read_vector(p->bias, p->first, p->rows, c);
  for (long i = 0; i < p->rows; i++) {
    double stretch = stretch_of(part, i);
    c[i] *= stretch;
    for (long j = 0; j < width; j++) x[i * width + j] = (real)(x[i * width + j] * stretch);
  }
  return reach_of(w->spectra, SPECTRA_SVD, &rows, a, width, c, out, e);
}

/* --- bounds -------------------------------------------------------------------------------------------- */

static void add_term(struct head_spectrum *h, const char *name, double value)
{
  struct bound_term *t = &h->term[h->terms++];
  snprintf(t->name, sizeof t->name, "%s", name);
  t->value = value;
  h->bound += value;
}

/* The dimension that is rotated together with i; i itself if there is none. */
static long partner(const struct logit_part *part, long i)
{
  long n = part->rotary_size;
  if (part->rotary == ROTARY_NONE || i >= n) return i;
  if (part->rotary == ROTARY_INTERLEAVED) return i ^ 1;
  return i < n / 2 ? i + n / 2 : i - n / 2;
}

static double larger_of(double a, double b) { return isnan(a) || a > b ? a : b; }

/* max over pairs of max|gain_q| max|gain_k|, and the pair's first dimension */
static double largest_pair(const struct head_work *w, const struct logit_part *part, long *at)
{
  double most = -1;
  for (long i = 0; i < part->q.rows; i++) {
    long j = partner(part, i);
    double both =
      larger_of(fabs(w->gain_q[i]), fabs(w->gain_q[j])) * larger_of(fabs(w->gain_k[i]), fabs(w->gain_k[j]));
    if (!(both <= most) && !isnan(most)) {
      most = both;
      *at = i;
    }
  }
  return most;
}

/* The largest length of normalized queries or keys. */
static double normed_length(const struct norm *n, const double *gain, long rows)
{
  double most = 0;
  for (long i = 0; i < rows; i++) most = larger_of(fabs(gain[i]), most);
  return sqrt((double)n->size) * most;
}

static void read_after(const struct logit_part *part, const struct projection *p, double *gain,
                       struct reach *out)
{
  if (!p->after.kind) return;
  read_gain(&p->after, p->rows, gain);
  for (long i = 0; i < p->rows; i++) gain[i] *= stretch_of(part, i);
  *out = (struct reach){normed_length(&p->after, gain, p->rows), 0};
}

static void clip_reach(const struct logit_part *part, long rows, double clip, struct reach *out)
{
  double most = clip * sqrt((double)rows) * larger_of(1 + part->stretch, 1);
  if (clip > 0 && !(out->weights + out->rest <= most)) *out = (struct reach){most, 0};
}

/* |a^T c| */
static double turned(const struct head_work *w, const real *a, const double *c, long rows, long width)
{
  double squares = 0;
  for (long j = 0; j < width; j++) w->line[j] = 0;
  for (long i = 0; i < rows; i++)
    for (long j = 0; j < width; j++) w->line[j] += (double)a[i * width + j] * c[i];
  for (long j = 0; j < width; j++) squares += w->line[j] * w->line[j];
  return sqrt(squares);
}

/* (A n + c_q) . (B m + c_k), term by term */
enum { TERM_WEIGHTS, TERM_QUERY_BIAS, TERM_KEY_BIAS, TERM_BIASES, TERMS };

/* Norms of products, for no rotation between query and key. Returns 0 if they do not apply. */
static int still_terms(const struct head_work *w, const struct head_logits *in, const struct logit_part *part,
                       double form, long width, double x[TERMS])
{
  double x_q = sqrt((double)part->q.before.size), x_k = sqrt((double)part->k.before.size), inner = 0;
  if (part->q.after.kind || part->k.after.kind || !part->q.before.kind || !part->k.before.kind ||
      in->clip > 0)
    return 0;
  for (long i = 0; i < part->q.rows; i++) inner += w->c_q[i] * w->c_k[i];
  x[TERM_WEIGHTS] = x_q * x_k * form;
  x[TERM_QUERY_BIAS] = x_k * turned(w, w->b, w->c_q, part->q.rows, width);
  x[TERM_KEY_BIAS] = x_q * turned(w, w->a, w->c_k, part->q.rows, width);
  x[TERM_BIASES] = fabs(inner);
  return 1;
}

/* Products of norms, for any rotation. */
static void turned_terms(struct reach q, struct reach k, double x[TERMS])
{
  x[TERM_WEIGHTS] = q.weights * k.weights;
  x[TERM_QUERY_BIAS] = q.rest != 0 ? q.rest * k.weights : 0;
  x[TERM_KEY_BIAS] = k.rest != 0 ? q.weights * k.rest : 0;
  x[TERM_BIASES] = q.rest * k.rest;
}

static void bound_part(const struct head_work *w, const struct head_logits *in, int number, struct reach q,
                       struct reach k, double form, long width, struct head_spectrum *h)
{
  static const char *const names[TERMS] = {"weights", "query bias", "key bias", "biases"};
  const struct logit_part *part = &in->part[number];
  double s = fabs(in->scale), x[TERMS] = {0};
  int still = still_terms(w, in, part, form, width, x);
  double sum = x[TERM_WEIGHTS] + x[TERM_KEY_BIAS] + x[TERM_QUERY_BIAS] + x[TERM_BIASES];
  h->still += still ? s * sum : NAN;
  read_after(part, &part->q, w->gain_q, &q);
  read_after(part, &part->k, w->gain_k, &k);
  clip_reach(part, part->q.rows, in->clip, &q);
  clip_reach(part, part->k.rows, in->clip, &k);
  if (part->q.after.kind && part->k.after.kind) {
    char name[32];
    long at = 0;
    double pair = largest_pair(w, part, &at);
    snprintf(name, sizeof name, "gain %ld", at);
    add_term(h, in->parts > 1 ? part->name : name,
             s * sqrt((double)part->q.after.size * (double)part->k.after.size) * pair);
  } else if (part->q.after.kind || part->k.after.kind || in->parts > 1) {
    add_term(h, in->parts > 1 ? part->name : "weights", s * (q.weights + q.rest) * (k.weights + k.rest));
  } else {
    if (!still || part->rotary != ROTARY_NONE) turned_terms(q, k, x);
    for (int i = 0; i < TERMS; i++)
      if (i == TERM_WEIGHTS || x[i] != 0) add_term(h, names[i], s * x[i]);
  }
}

/* --- two parts of one query ------------------------------------------------------------------------------ */

static int is_same_norm(const struct norm *a, const struct norm *b)
{
  return a->kind == b->kind && a->gain == b->gain && a->shift == b->shift && a->first == b->first &&
         a->size == b->size;
}

/* Whether both parts are linear in the same normalized query and in normalized keys. */
static int can_join(const struct head_logits *in)
{
  const struct logit_part *x = &in->part[0], *y = &in->part[1];
  return in->parts == 2 && !(in->clip > 0) && is_same_norm(&x->q.before, &y->q.before) &&
         x->q.inputs == y->q.inputs && x->q.before.kind && x->k.before.kind && y->k.before.kind &&
         !x->q.after.kind && !x->k.after.kind && !y->q.after.kind && !y->k.after.kind;
}

static struct joint *joint_new(const struct head_work *w)
{
  struct joint *j = memory_new(1, sizeof *j);
  const long rows = MOST_PARTS * w->rows;
  j->cols = w->inputs + w->rows;
  j->spectra = spectra_new(rows, j->cols);
  j->q = memory_new((size_t)(rows * j->cols), sizeof *j->q);
  j->k = memory_new((size_t)(rows * j->cols), sizeof *j->k);
  return j;
}

/* Rows of the queries, and the images of a unit ball of keys: of the first part its rows; of the second, which rotation
   may turn, a ball. */
static void join_part(struct head_work *w, const struct head_logits *in, int number, long width,
                      struct reach q, struct reach k)
{
  const struct logit_part *part = &in->part[number];
  const long first = number ? in->part[0].q.rows : 0;
  if (!w->joint) w->joint = joint_new(w);
  struct joint *j = w->joint;
  const double length = sqrt((double)part->k.before.size);
  j->reach_q[number] = q;
  j->reach_k[number] = k;
  for (long i = 0; i < part->q.rows; i++) {
    real *to_q = j->q + (first + i) * j->cols, *to_k = j->k + (first + i) * j->cols;
    memset(to_q, 0, (size_t)j->cols * sizeof *to_q);
    memset(to_k, 0, (size_t)j->cols * sizeof *to_k);
    memcpy(to_q, w->a + i * width, (size_t)part->q.inputs * sizeof *to_q);
    if (number == 0)
      for (long c = 0; c < part->k.inputs; c++) to_k[c] = (real)(length * w->b[i * width + c]);
    else
      to_k[in->part[0].k.inputs + i] = (real)k.weights;
  }
}

/* |A u + B v| for |u|, |v| <= 1 is at most sigma_1([A / sqrt(w), B / sqrt(1 - w)]) for every w in (0, 1), and reaches
   the least of these: two quadratic constraints leave no gap (Brickman, Proc. AMS 12, 1961; Boyd and Vandenberghe,
   Convex Optimization, appendix B). There the parts have the shares w and 1 - w. */
static int bound_jointly(struct head_work *w, const struct head_logits *in, struct head_spectrum *h,
                         struct error *e)
{
  const struct joint *j = w->joint;
  const struct reach *q = j->reach_q, *k = j->reach_k;
  const double first = q[0].weights * k[0].weights, second = q[1].weights * k[1].weights;
  const long rows = in->part[0].q.rows, turned = in->part[1].q.rows, q_cols = in->part[0].q.inputs,
             k_cols = in->part[0].k.inputs + turned;
  double share = first / (first + second), sigma;
  if (!isfinite(h->bound) || !(first > 0) || !(second > 0)) return STATUS_OK;
  int status = least_of_weighted_forms(w->joint->spectra, j->q, j->cols, j->k, j->cols, rows + turned,
                                       q_cols > k_cols ? q_cols : k_cols, rows, &share, &sigma, e);
  sigma *= sqrt((double)in->part[0].q.before.size);
  if (status || !(sigma < first + second)) return status;
  h->bound = 0;
  h->terms = 0;
  for (int p = 0; p < in->parts; p++) {
    double rest = q[p].rest * (k[p].weights + k[p].rest) + q[p].weights * k[p].rest;
    add_term(h, in->part[p].name, fabs(in->scale) * (sigma * (p ? 1 - share : share) + rest));
  }
  if (h->still > h->bound) h->still = h->bound;
  return STATUS_OK;
}

/* --- a head -------------------------------------------------------------------------------------------- */

static int put_part(struct head_work *w, const struct head_logits *in, int number, struct head_spectrum *h,
                    struct error *e)
{
  const struct logit_part *part = &in->part[number];
  struct part_spectrum *out = &h->part[number];
  const struct projection *q = &part->q, *k = &part->k;
  long rows = q->rows, width = q->inputs > k->inputs ? q->inputs : k->inputs;
  struct spectrum form;
  struct reach reach_q, reach_k;
  REQUIRE(k->rows == rows && rows <= w->rows && width <= w->inputs);
  *out = (struct part_spectrum){.name = part->name,
                                .q_name = q->name,
                                .k_name = k->name,
                                .rows = rows,
                                .q_cols = q->inputs,
                                .k_cols = k->inputs};
  read_rows(w, q, width, w->q);
  read_rows(w, k, width, w->k);
  int status = spectrum_of(w->spectra, SPECTRA_SVD, w->q, rows, q->inputs, width, &out->q, e);
  if (!status) status = spectrum_of(w->spectra, SPECTRA_SVD, w->k, rows, k->inputs, width, &out->k, e);
  if (!status) status = spectrum_of_form(w->spectra, w->q, width, w->k, width, rows, width, &out->form, e);
  if (!status) status = read_reach(w, part, q, width, w->q, w->a, w->c_q, &reach_q, e);
  if (!status) status = read_reach(w, part, k, width, w->k, w->b, w->c_k, &reach_k, e);
  if (!status) status = spectrum_of_form(w->spectra, w->a, width, w->b, width, rows, width, &form, e);
  if (status) return status;
  bound_part(w, in, number, reach_q, reach_k, form.spectral_norm, width, h);
  if (can_join(in)) join_part(w, in, number, width, reach_q, reach_k);
  return STATUS_OK;
}

int head_spectrum(struct head_work *w, const struct head_logits *in, struct head_spectrum *h, struct error *e)
{
  *h = (struct head_spectrum){.parts = in->parts, .scale = in->scale};
  for (int p = 0; p < in->parts; p++) {
    int status = put_part(w, in, p, h, e);
    if (status) return status;
  }
  if (can_join(in)) {
    int status = bound_jointly(w, in, h, e);
    if (status) return status;
  }
  for (int t = 1; t < h->terms; t++)
    if (isnan(h->term[t].value) || h->term[t].value > h->term[h->largest].value) h->largest = t;
  if (!isfinite(h->bound)) h->bound = NAN; /* without a norm before, the input is unbounded */
  if (in->parts == 0) h->bound = h->still = NAN;
  return STATUS_OK;
}
