/* attention.c - maxlogit/attention.h: scores of one tile of queries and one tile of keys at a time
   If only maxima are requested, the processor's kernel computes them, unless numbers are not finite. */
#include "maxlogit/attention.h"
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "base/c_locale.h"
#include "base/elementary.h"
#include "base/memory.h"
#include "base/error_export.h"
#include "numerics/maxima_kernels.h"

enum { TILE = 64 };

/* The softmax so far, for a query of a tile, as sums relative to the largest logit. */
struct query_row {
  double most, sum, weighted; /* sum e^(s - most); sum (s - most) e^(s - most) */
};

struct work {
  const struct maxlogit_attention *a;
  float scale;
  float *q;        /* [TILE, size] */
  float *k;        /* [size, TILE]: lanes are keys */
  float s[TILE];   /* a query's logits */
  int has_entropy; /* the entropy is requested */
  struct query_row row[TILE];
  long *first, *end; /* [queries], of the current batch: the visible keys of each */
  float *room;       /* scratch of the kernel */
};

/* --- numbers --------------------------------------------------------------------------------------------- */

static float from_half(uint16_t h)
{
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023, bits;
  float f;
  if (!exponent) {
    f = (float)fraction * 0x1p-24f;
    return sign ? -f : f;
  }
  bits = sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | fraction << 13;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static float from_bfloat(uint16_t h)
{
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static float number_at(const void *x, long i, enum maxlogit_number number)
{
  if (number == MAXLOGIT_FLOAT32) return ((const float *)x)[i];
  uint16_t h = ((const uint16_t *)x)[i];
  return number == MAXLOGIT_FLOAT16 ? from_half(h) : from_bfloat(h);
}

/* --- ranges ---------------------------------------------------------------------------------------------- */

/* Keys first .. end-1 are visible to query i of a batch. */
static void range_of(const struct maxlogit_attention *a, long b, long i, long *first, long *end)
{
  long own = i + a->keys - a->queries;
  *first = a->first ? a->first[b * a->queries + i] : 0;
  *end = a->end ? a->end[b * a->queries + i] : a->keys;
  if (a->causal && *end > own + 1) *end = own + 1;
  if (a->window > 0 && *first < own + 1 - a->window) *first = own + 1 - a->window;
  if (*first < 0) *first = 0;
  if (*end > a->keys) *end = a->keys;
}

/* --- tiles ----------------------------------------------------------------------------------------------- */

static void read_queries(struct work *w, long b, long h, long from, long count)
{
  const struct maxlogit_attention *a = w->a;
  for (long i = 0; i < count; i++)
    for (long d = 0; d < a->size; d++)
      w->q[i * a->size + d] =
        number_at(a->q, b * a->q_stride[0] + h * a->q_stride[1] + (from + i) * a->q_stride[2] + d, a->number);
}

static void read_keys(struct work *w, long b, long g, long from, long count)
{
  const struct maxlogit_attention *a = w->a;
  for (long j = 0; j < TILE; j++)
    for (long d = 0; d < a->size; d++)
      w->k[d * TILE + j] =
        j < count ? number_at(a->k, b * a->k_stride[0] + g * a->k_stride[1] + (from + j) * a->k_stride[2] + d,
                              a->number)
                  : 0;
}

static void score(struct work *w, long i)
{
  const float *q = w->q + i * w->a->size;
  float sum[TILE] = {0};
  for (long d = 0; d < w->a->size; d++)
    for (int j = 0; j < TILE; j++) sum[j] += q[d] * w->k[d * TILE + j];
  for (int j = 0; j < TILE; j++) w->s[j] = sum[j] * w->scale;
}

/* NaN counts as largest. */
static float max_or_nan(float a, float b) { return isnan(a) || a >= b ? a : b; }

static void take_entropy(struct query_row *r, const float *s, long count)
{
  double most = r->most;
  for (long j = 0; j < count; j++)
    if ((double)s[j] > most) most = (double)s[j];
  if (most > r->most) {
    double shift = r->most - most, down = same_exp(shift);
    r->weighted = r->sum > 0 ? down * (r->weighted + shift * r->sum) : 0;
    r->sum *= down;
    r->most = most;
  }
  for (long j = 0; j < count; j++) {
    double x = (double)s[j] - most, weight = same_exp(x);
    r->sum += weight;
    if (weight > 0 || isnan(weight)) r->weighted += x * weight;
  }
}

struct running_maxima {
  float max, max_abs;
  double entropy;
  long queries; /* with a visible key */
};

static void take_tile(struct work *w, long i0, long queries, long j0, long keys, struct running_maxima *m)
{
  for (long i = 0; i < queries; i++) {
    const long first = w->first[i0 + i] > j0 ? w->first[i0 + i] - j0 : 0;
    const long end = w->end[i0 + i] < j0 + keys ? w->end[i0 + i] - j0 : keys;
    if (first >= end) continue;
    score(w, i);
    for (long j = first; j < end; j++) {
      m->max = max_or_nan(m->max, w->s[j]);
      m->max_abs = max_or_nan(m->max_abs, fabsf(w->s[j]));
    }
    if (w->has_entropy) take_entropy(&w->row[i], w->s + first, end - first);
  }
}

/* All keys that are visible to any of these queries are in [*first, *end). */
static void range_of_tile(const struct work *w, long i0, long queries, long *first, long *end)
{
  *first = w->a->keys;
  *end = 0;
  for (long i = i0; i < i0 + queries; i++) {
    if (w->first[i] >= w->end[i]) continue;
    *first = w->first[i] < *first ? w->first[i] : *first;
    *end = w->end[i] > *end ? w->end[i] : *end;
  }
}

static void take_head(struct work *w, long b, long h, struct running_maxima *m)
{
  const struct maxlogit_attention *a = w->a;
  for (long i0 = 0; i0 < a->queries; i0 += TILE) {
    long queries = a->queries - i0 < TILE ? a->queries - i0 : TILE, first, end;
    range_of_tile(w, i0, queries, &first, &end);
    read_queries(w, b, h, i0, queries);
    for (long i = 0; i < TILE; i++) w->row[i] = (struct query_row){-INFINITY, 0, 0};
    for (long j0 = first; j0 < end; j0 += TILE) {
      long keys = end - j0 < TILE ? end - j0 : TILE;
      read_keys(w, b, h * a->kv_heads / a->heads, j0, keys);
      take_tile(w, i0, queries, j0, keys, m);
    }
    for (long i = 0; i < queries && w->has_entropy; i++) {
      const struct query_row *r = &w->row[i];
      if (r->sum == 0) continue; /* -sum w ln w, w = e^(s - most) / sum */
      m->entropy += same_log(r->sum) - r->weighted / r->sum;
      m->queries++;
    }
  }
}

/* --- only maxima ----------------------------------------------------------------------------------------- */

static const void *row_at(const void *x, long i, enum maxlogit_number number)
{
  return (const char *)x + (size_t)i * (number == MAXLOGIT_FLOAT32 ? sizeof(float) : sizeof(uint16_t));
}

static int take_maxima(struct work *w, long b, long h, struct running_maxima *m)
{
  const struct maxlogit_attention *a = w->a;
  const long g = h * a->kv_heads / a->heads;
  struct maxima_head x = {.queries = a->queries,
                          .keys = a->keys,
                          .size = a->size,
                          .number = (enum maxima_number)a->number,
                          .q = row_at(a->q, b * a->q_stride[0] + h * a->q_stride[1], a->number),
                          .k = row_at(a->k, b * a->k_stride[0] + g * a->k_stride[1], a->number),
                          .q_row = a->q_stride[2],
                          .k_row = a->k_stride[2],
                          .first = w->first,
                          .end = w->end,
                          .room = w->room};
  float most, least;
  if (!cpu_maxima()(&x, &most, &least)) return 0;
  if (most < least) return 1; /* no pair */
  most *= w->scale, least *= w->scale;
  m->max = max_or_nan(m->max, max_or_nan(most, least));
  m->max_abs = max_or_nan(m->max_abs, max_or_nan(fabsf(most), fabsf(least)));
  return 1;
}

static int check(const struct maxlogit_attention *a, struct error *e)
{
  if (a->batch < 0 || a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads || a->queries < 0 ||
      a->keys < 0 || a->size < 1)
    return error_set(e, STATUS_USAGE,
                     "batch %ld, %ld heads, %ld keys' heads, %ld queries, %ld keys of size %ld", a->batch,
                     a->heads, a->kv_heads, a->queries, a->keys, a->size);
  if ((int)a->number < 0 || a->number > MAXLOGIT_BFLOAT16)
    return error_set(e, STATUS_USAGE, "numbers of kind %d: no such kind", (int)a->number);
  return isfinite(a->scale) ? STATUS_OK : error_set(e, STATUS_USAGE, "the scale is %g", a->scale);
}

int maxlogit_attention_maxima(const struct maxlogit_attention *attention, float *max_logit,
                              float *max_abs_logit, double *entropy, struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  struct maxlogit_attention a = *attention;
  int status = check(&a, &e);
  if (status) return error_export(error, status, &e);
  if (!a.q_stride[0] && !a.q_stride[1] && !a.q_stride[2])
    a.q_stride[2] = a.size, a.q_stride[1] = a.queries * a.size, a.q_stride[0] = a.heads * a.q_stride[1];
  if (!a.k_stride[0] && !a.k_stride[1] && !a.k_stride[2])
    a.k_stride[2] = a.size, a.k_stride[1] = a.keys * a.size, a.k_stride[0] = a.kv_heads * a.k_stride[1];
  struct work *w = memory_new(1, sizeof *w);
  struct running_maxima *m = memory_new((size_t)a.heads, sizeof *m);
  w->a = &a;
  w->scale = (float)(a.scale != 0 ? a.scale : 1 / sqrt((double)a.size));
  w->has_entropy = entropy != NULL;
  w->q = memory_new((size_t)(TILE * a.size), sizeof *w->q);
  w->k = memory_new((size_t)(TILE * a.size), sizeof *w->k);
  w->first = memory_new((size_t)a.queries, sizeof *w->first);
  w->end = memory_new((size_t)a.queries, sizeof *w->end);
  w->room = memory_new((size_t)maxima_room(a.size), sizeof *w->room);
  for (long h = 0; h < a.heads; h++) m[h] = (struct running_maxima){.max = -INFINITY};
  for (long b = 0; b < a.batch; b++) {
    for (long i = 0; i < a.queries; i++) range_of(&a, b, i, &w->first[i], &w->end[i]);
    for (long h = 0; h < a.heads; h++)
      if (entropy || !take_maxima(w, b, h, &m[h])) take_head(w, b, h, &m[h]);
  }
  for (long h = 0; h < a.heads; h++) {
    if (max_logit) max_logit[h] = m[h].max;
    if (max_abs_logit) max_abs_logit[h] = m[h].max_abs;
    if (entropy) entropy[h] = m[h].queries ? m[h].entropy / (double)m[h].queries : NAN;
  }
  memory_free(w->first);
  memory_free(w->end);
  memory_free(w->room);
  memory_free(m);
  memory_free(w->q);
  memory_free(w->k);
  memory_free(w);
  return error_export(error, STATUS_OK, &e);
}
