/* pointwise.c - attention without a softmax, forward and backward: a row of one head at a time
   Keys and values lie transposed, so that a row's scores are made side by side, each a sum in the order of the
   columns; sums over keys are sums of sums of CHUNK. */
#include <float.h>
#include <math.h>
#include "base/elementary.h"
#include "numerics/cpu/attention.h"

enum { CHUNK = 128 };

/* One head of one sequence, and a worker's memory for it. */
struct pointwise_head {
  long length, padded, dim, value_dim; /* padded: length in whole parts */
  const int *start, *end;              /* [length]; end NULL: row t attends up to key t */
  long cap, kind;
  float cap_value, scale;
  float share, most, down; /* of a row: 1 / n; softpick: e^m / D, m = max(0, largest f), e^-m */
  float *keys, *values;    /* [dim, padded], [value_dim, padded] */
  float *q, *w, *ds; /* [dim], times the scale; [padded], weights over share, and their slopes times f' */
  float *dk, *dv;    /* backward: [length, dim], [length, value_dim] */
};

static long head_floats(const struct pointwise_head *h, int backward)
{
  const long width = h->dim + h->value_dim;
  return round_up(width * h->padded + h->dim + 2 * h->padded + (backward ? width * h->length : 0), PARTS);
}

static struct pointwise_head head_of(const struct tensor *q, const struct tensor *v,
                                     const struct attention_score *x, long kind)
{
  struct pointwise_head h = {.length = q->rows / x->batch,
                             .dim = q->cols / x->heads,
                             .value_dim = v->cols / x->groups,
                             .cap = x->cap,
                             .kind = kind,
                             .scale = (float)x->scale};
  h.padded = round_up(h.length, PARTS);
  return h;
}

static void begin(struct pointwise_head *h, long sequence, const struct tensor *start,
                  const struct tensor *end, const struct attention_score *x, float *memory)
{
  h->start = INTS(start) + sequence * h->length;
  h->end = end ? INTS(end) + sequence * h->length : NULL;
  h->cap_value = (float)number(x->cap_value);
  h->keys = memory;
  h->values = h->keys + h->dim * h->padded;
  h->w = h->values + h->value_dim * h->padded;
  h->ds = h->w + h->padded;
  h->q = h->ds + h->padded;
  h->dk = h->q + h->dim;
  h->dv = h->dk + h->length * h->dim;
}

static void transpose(const float *from, long ld, long count, long width, float *to, long padded)
{
  for (long c = 0; c < width; c++) {
    for (long j = 0; j < count; j++) to[c * padded + j] = from[j * ld + c];
    for (long j = count; j < padded; j++) to[c * padded + j] = 0;
  }
}

static long end_of(const struct pointwise_head *h, long t) { return h->end ? h->end[t] : t + 1; }

/* a . column of keys or values, of a vector's lanes */
INLINE vec products(const float *a, const float *columns, long width, long padded)
{
  vec s = {0};
  for (long c = 0; c < width; c++) s = fused(ALL(a[c]), VEC(columns + c * padded), s);
  return s;
}

INLINE vec relu(vec f) { return where_above(ALL(0.0f), f, ALL(0.0f), f); }

/* softpick: |e^f - 1| and *e = e^f, both times e^-m. e^f - 1 = tanh(f/2) (e^f + 1) does not cancel near 0. */
INLINE vec pick(const struct pointwise_head *h, vec f, vec *e)
{
  *e = vec_exp_nonpositive(f - h->most);
  return vec_tanh(0.5f * larger(-f, f)) * (*e + h->down);
}

/* Weights over the share, and their slopes by f while it stays; where e is infinite they are 0. */
INLINE vec over_share(const struct pointwise_head *h, vec f, vec *by_f)
{
  if (h->kind == POINTWISE_SOFTPICK) {
    const vec size = pick(h, f, by_f);
    return where_above(ALL(0.0f), f, ALL(0.0f), size);
  }
  if (h->kind == POINTWISE_SIGMOID) {
    const vec e = vec_exp(-f), w = 1.0f / (h->share + e);
    *by_f = where_above(e, ALL(FLT_MAX), ALL(0.0f), e * w * w);
    return w;
  }
  const vec a = relu(f);
  *by_f = 2.0f * a;
  return a * a;
}

INLINE vec slope(vec s, long cap, float value)
{
  if (cap == 1) return soft_slope(s, value);
  return cap == 2 ? where_above(s, ALL(value), ALL(0.0f), ALL(1.0f)) : ALL(1.0f);
}

INLINE vec where(ivec mask, vec x, vec y) { return (vec)((mask & (ivec)x) | (~mask & (ivec)y)); }

INLINE ivec lanes_from(long j)
{
  ivec lane = __builtin_convertvector(LANE, ivec);
  return lane + (int32_t)j;
}

INLINE ivec inside(long j, long first, long end)
{
  const ivec lane = lanes_from(j);
  return (lane >= (int32_t)first) & (lane < (int32_t)end);
}

/* softpick: the share of a row with its scores in h->w, still to be capped like that. m >= 0 keeps e^-m finite where
   all scores are negative. */
static void share_picks(struct pointwise_head *h, long first, long end, long cap)
{
  vec most = {0}, sum[SPLIT] = {{0}}, e;
  for (long j = first / LANES * LANES; j < end; j += LANES) {
    const vec f = capped(VEC(h->w + j), cap, h->cap_value);
    most = larger(where(inside(j, first, end), f, ALL(0.0f)), most);
  }
  h->most = lane_max(most);
  h->down = (float)same_exp(-h->most);
  for (long j = first / LANES * LANES; j < end; j += LANES) {
    const vec size = pick(h, capped(VEC(h->w + j), cap, h->cap_value), &e);
    sum[j / LANES % SPLIT] += where(inside(j, first, end), size, ALL(0.0f));
  }
  h->share = 1 / (lane_sum(sum_of_parts(sum)) + (float)SOFTPICK_EPS * h->down);
}

/* Weights of row t over their share, and their statistics; fills h->q. The entropy is computed relative to the largest
   weight. */
static void weigh_row(struct pointwise_head *h, long t, struct maxima *m)
{
  const long first = h->start[t], end = end_of(h, t);
  vec high = ALL(-INFINITY), low = ALL(INFINITY), most = ALL(-INFINITY), largest = {0}, any = {0},
      sum[SPLIT] = {{0}}, mean[SPLIT] = {{0}};
  ivec bad = {0};
  for (long i = first / PARTS * PARTS; i < end; i += PARTS) UNROLL
  for (int part = 0; part < SPLIT; part++) {
    const long j = i + part * LANES;
    const ivec seen = inside(j, first, end);
    const vec s = products(h->q, h->keys + j, h->dim, h->padded), f = capped(s, h->cap, h->cap_value);
    bad |= seen & (s != s);
    high = larger(where(seen, s, ALL(-INFINITY)), high);
    low = smaller(where(seen, s, ALL(INFINITY)), low);
    most = larger(where(seen, f, ALL(-INFINITY)), most);
    VEC(h->w + j) = f;
  }
  if (h->kind == POINTWISE_SOFTPICK) share_picks(h, first, end, 0);
  for (long j = first / PARTS * PARTS; j < round_up(end, PARTS); j += LANES) {
    vec by_f;
    const vec w = where(inside(j, first, end), over_share(h, VEC(h->w + j), &by_f), ALL(0.0f));
    largest = larger(w, largest);
    any += w - w; /* NaN where a weight is not finite */
    VEC(h->w + j) = w;
  }
  const float heaviest = lane_max(largest) + lane_sum(any);
  for (long i = first / PARTS * PARTS; i < end; i += PARTS) UNROLL
  for (int part = 0; part < SPLIT; part++) {
    const vec share = VEC(h->w + i + part * LANES) / heaviest;
    sum[part] += share;
    mean[part] += where_above(share, ALL(0.0f), share * vec_log(share), ALL(0.0f));
  }
  for (int i = 0; i < LANES; i++) m->nan |= bad[i] != 0;
  m->top = fmaxf(m->top, lane_max(high));
  m->bottom = fminf(m->bottom, -lane_max(-low));
  m->capped = fmaxf(m->capped, lane_max(most));
  const double all = (double)lane_sum(sum_of_parts(sum)), terms = (double)lane_sum(sum_of_parts(mean));
  if (!(heaviest <= (float)POINTWISE_NONE)) m->entropy += same_log(all) - terms / all;
}

/* to[c] = by sum_j w[j] m[j][c] over keys [first, end); m's rows are ld apart */
static void gather(const float *w, long first, long end, const float *m, long ld, long width, float by,
                   float *to)
{
  EACH(c, width) {
    vec all = {0};
    for (long j = first; j < end;) {
      vec part = {0};
      for (long last = min_long((j / CHUNK + 1) * CHUNK, end); j < last; j++)
        part = fused(ALL(w[j]), get(m + j * ld + c, width - c), part);
      all += part;
    }
    put(to + c, all * by, width - c);
  }
}

static float share_of_one(long first, long end)
{
  return end > first ? (float)(1 / (double)(end - first)) : 0;
}

static void scale_query(const struct pointwise_head *h, const float *q)
{
  for (long c = 0; c < h->dim; c++) h->q[c] = h->scale * q[c];
}

/* --- forward ------------------------------------------------------------------------------------------- */

struct pointwise_forward_job {
  const struct pointwise_forward_args *x;
  float *memory;
  struct maxima *maxima; /* of every head of every sequence */
  long floats;
};

static void forward_head(void *context, long piece, int worker)
{
  const struct pointwise_forward_job *job = context;
  const struct pointwise_forward_args *x = job->x;
  const long sequence = piece / x->heads, number = piece % x->heads, group = number * x->groups / x->heads;
  struct pointwise_head h = head_of(x->q, x->v, &x->score, x->kind);
  begin(&h, sequence, x->start, x->end, &x->score, job->memory + worker * job->floats);
  const long n = sequence * h.length;
  transpose(AT(x->k, n, group * h.dim), x->k->ld, h.length, h.dim, h.keys, h.padded);
  struct maxima m = {.top = -INFINITY, .bottom = INFINITY, .capped = -INFINITY};
  for (long t = 0; t < h.length; t++) {
    const long first = h.start[t], end = end_of(&h, t);
    scale_query(&h, AT(x->q, n + t, number * h.dim));
    h.share = share_of_one(first, end);
    if (end > first) weigh_row(&h, t, &m);
    gather(h.w, first, end, AT(x->v, n, group * h.value_dim), x->v->ld, h.value_dim, h.share,
           AT(x->o, n + t, number * h.value_dim));
  }
  job->maxima[piece] = m;
}

static struct pointwise_forward_job forward_job_of(const struct pointwise_forward_args *x)
{
  struct pointwise_head h = head_of(x->q, x->v, &x->score, x->kind);
  return (struct pointwise_forward_job){.x = x, .floats = head_floats(&h, 0)};
}

static size_t forward_work(const struct device *device, const struct pointwise_forward_job *job)
{
  return (size_t)(job->floats * pool_threads(device->pool)) * sizeof(float);
}

static size_t forward_scratch(const struct device *device, const void *args)
{
  const struct pointwise_forward_args *x = args;
  if (x->scores_format) return ops_ref.scratch[OP_pointwise_forward](device, x);
  struct pointwise_forward_job job = forward_job_of(x);
  return forward_work(device, &job) + (size_t)(x->batch * x->heads) * sizeof *job.maxima;
}

/* A separate number format for scores is only used in studies: use the reference. */
static void pointwise_forward(struct device *device, const struct pointwise_forward_args *x)
{
  if (x->scores_format) {
    ops_ref.pointwise_forward(device, x);
    return;
  }
  struct pointwise_forward_job job = forward_job_of(x);
  job.memory = device_scratch(device, forward_scratch(device, x));
  job.maxima = (void *)((char *)job.memory + forward_work(device, &job));
  parallel_for(device->pool, x->batch * x->heads, forward_head, &job);
  put_stats(x->stats, job.maxima, x->q->rows, &x->score);
}

/* --- backward ------------------------------------------------------------------------------------------ */

struct pointwise_backward_job {
  const struct pointwise_backward_args *x;
  float *memory;
  long floats;
};

/* m[j][c] += w[j] a[c] */
static void scatter(const float *w, long first, long end, const float *a, long width, float *m)
{
  for (long j = first; j < end; j++)
    EACH(c, width)
      put(m + j * width + c, fused(ALL(w[j]), get(a + c, width - c), get(m + j * width + c, width - c)),
          width - c);
}

static void backward_row(struct pointwise_head *h, long t, const float *k, long ldk, const float *do_,
                         const float *o, float *dq)
{
  const long first = h->start[t], end = end_of(h, t);
  for (long j = first / LANES * LANES; j < end; j += LANES) {
    VEC(h->w + j) = products(h->q, h->keys + j, h->dim, h->padded);
    VEC(h->ds + j) = products(do_, h->values + j, h->value_dim, h->padded);
  }
  const int picks = h->kind == POINTWISE_SOFTPICK;
  h->share = share_of_one(first, end);
  double through = 0; /* do.o; all keys share its error */
  for (long c = 0; picks && c < h->value_dim; c++) through += (double)do_[c] * (double)o[c];
  if (picks) share_picks(h, first, end, h->cap);
  for (long j = first / LANES * LANES; j < end; j += LANES) {
    const vec s = VEC(h->w + j), f = capped(s, h->cap, h->cap_value);
    vec by_f, back = VEC(h->ds + j);
    VEC(h->w + j) = over_share(h, f, &by_f) * h->share;
    if (picks) back = where_above(f, ALL(0.0f), back - (float)through, ALL((float)through));
    VEC(h->ds + j) = by_f * slope(s, h->cap, h->cap_value) * back * h->share;
  }
  gather(h->ds, first, end, k, ldk, h->dim, h->scale, dq);
  scatter(h->ds, first, end, h->q, h->dim, h->dk);
  scatter(h->w, first, end, do_, h->value_dim, h->dv);
}

/* One group of heads of one sequence, so that dk and dv gather over its heads in order. */
static void backward_group(void *context, long piece, int worker)
{
  const struct pointwise_backward_job *job = context;
  const struct pointwise_backward_args *x = job->x;
  const long sequence = piece / x->groups, group = piece % x->groups, shared = x->heads / x->groups;
  struct pointwise_head h = head_of(x->q, x->v, &x->score, x->kind);
  begin(&h, sequence, x->start, x->end, &x->score, job->memory + worker * job->floats);
  const long n = sequence * h.length;
  const float *k = AT(x->k, n, group * h.dim), *v = AT(x->v, n, group * h.value_dim);
  transpose(k, x->k->ld, h.length, h.dim, h.keys, h.padded);
  transpose(v, x->v->ld, h.length, h.value_dim, h.values, h.padded);
  memset(h.dk, 0, (size_t)(h.length * h.dim) * sizeof *h.dk);
  memset(h.dv, 0, (size_t)(h.length * h.value_dim) * sizeof *h.dv);
  for (long number = group * shared; number < (group + 1) * shared; number++)
    for (long t = 0; t < h.length; t++) {
      scale_query(&h, AT(x->q, n + t, number * h.dim));
      backward_row(&h, t, k, x->k->ld, AT(x->do_, n + t, number * h.value_dim),
                   x->o ? AT(x->o, n + t, number * h.value_dim) : NULL, AT(x->dq, n + t, number * h.dim));
    }
  for (long t = 0; t < h.length; t++) {
    memcpy(AT(x->dk, n + t, group * h.dim), h.dk + t * h.dim, (size_t)h.dim * sizeof(float));
    memcpy(AT(x->dv, n + t, group * h.value_dim), h.dv + t * h.value_dim,
           (size_t)h.value_dim * sizeof(float));
  }
}

static size_t backward_scratch(const struct device *device, const void *args)
{
  const struct pointwise_backward_args *x = args;
  if (x->scores_format) return ops_ref.scratch[OP_pointwise_backward](device, x);
  struct pointwise_head h = head_of(x->q, x->v, &x->score, x->kind);
  return (size_t)(head_floats(&h, 1) * pool_threads(device->pool)) * sizeof(float);
}

static void pointwise_backward(struct device *device, const struct pointwise_backward_args *x)
{
  if (x->scores_format) {
    ops_ref.pointwise_backward(device, x);
    return;
  }
  struct pointwise_head h = head_of(x->q, x->v, &x->score, x->kind);
  struct pointwise_backward_job job = {.x = x, .floats = head_floats(&h, 1)};
  job.memory = device_scratch(device, backward_scratch(device, x));
  parallel_for(device->pool, x->batch * x->groups, backward_group, &job);
}

void EXPORT(ops_cpu_pointwise)(struct ops *ops)
{
  ops->pointwise_forward = pointwise_forward;
  ops->pointwise_backward = pointwise_backward;
  ops->scratch[OP_pointwise_forward] = forward_scratch;
  ops->scratch[OP_pointwise_backward] = backward_scratch;
}
