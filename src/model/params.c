#include "model/params.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/random.h"
#include "numerics/sums.h"

enum {
  ALIGNMENT = 16,      /* elements: where a new row of matrices begins */
  DRAW_PIECE = 1 << 14 /* elements drawn by one piece of work */
};

void params_init(struct params *params, struct device *device)
{
  *params = (struct params){.device = device, .arena = arena_new()};
}

struct param *params_add(struct params *params, enum param_kind kind, int layer, long rows, long cols,
                         enum param_init init, double init_scale, const char *format, ...)
{
  struct param *p = arena_get(params->arena, 1, sizeof *p);
  p->kind = kind;
  p->layer = layer;
  p->init = init;
  p->init_scale = init_scale;
  p->value = tensor_of(NULL, rows, cols);
  va_list list;
  va_start(list, format);
  int length = vsnprintf(p->name, sizeof p->name, format, list);
  va_end(list);
  REQUIRE(!params->total && rows > 0 && cols > 0 && length < (int)sizeof p->name);
  REQUIRE(!params_find(params, p->name));
  p->value.name = p->name;
  params->list = memory_grow(params->list, params->count, params->count + 1, sizeof *params->list);
  params->list[params->count++] = p;
  return p;
}

int param_is_matrix(const struct param *p)
{
  return p->kind == PARAM_MATRIX || p->kind == PARAM_EMBED || p->kind == PARAM_HEAD;
}

long param_block_rows(const struct param *p) { return p->block_rows ? p->block_rows : p->value.rows; }

int params_matrices(const struct params *params)
{
  int count = 0;
  for (int i = 0; i < params->count; i++) count += param_is_matrix(params->list[i]);
  return count;
}

static long size_of(const struct param *p) { return p->value.rows * p->value.cols; }

static int trains(const struct param *p) { return p->kind != PARAM_STATE; }

/* May a span run over both? */
static int joins(const struct param *p, const struct param *next)
{
  if (p->kind == PARAM_BIAS || next->kind == PARAM_BIAS) return p->kind == next->kind;
  return param_is_matrix(p) && param_is_matrix(next) && p->value.cols == next->value.cols;
}

/* Trainable parameters in the order of memory: hidden matrices first, so that the parameters of one optimizer are
   adjacent; otherwise in the order of declaration. */
static int in_order(const struct params *params, int out[])
{
  static const enum param_kind kinds[] = {PARAM_MATRIX, PARAM_EMBED, PARAM_HEAD, PARAM_GAIN, PARAM_BIAS};
  int n = 0;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (int i = 0; i < params->count; i++)
      if (params->list[i]->kind == kinds[k]) out[n++] = i;
  return n;
}

static void place(struct params *params, struct param *p, long at)
{
  const struct shards *s = params->shards;
  p->place = at;
  p->value.data = params->base + at;
  p->grad = tensor_of((s ? s->place[SHARD_GRADS] : REALS(&params->grads)) + at, p->value.rows, p->value.cols);
  p->grad.name = p->name;
  p->value.grad = &p->grad;
}

/* If no group is large enough, all gradients are summed at the end. */
static void set_early(struct params *params, struct shards *s)
{
  int large = 0;
  s->total = params->total;
  s->place[SHARD_VALUES] = params->base, s->place[SHARD_GRADS] = REALS(&params->grads);
  for (int g = 0; g < s->groups; g++) large += early_is_large(s, g);
  if (!large) {
    device_set_early(params->device, NULL);
    return;
  }
  s->held[SHARD_GRADS] = &params->grads;
}

void params_allocate(struct params *params)
{
  int *order = memory_new((size_t)params->count + 1, sizeof *order), count = in_order(params, order);
  long *at = memory_new((size_t)params->count + 1, sizeof *at), total = 0;
  for (int i = 0; i < count; i++) {
    struct param **p = &params->list[order[i]];
    if (i && (order[i] != order[i - 1] + 1 || !joins(p[-1], p[0])))
      total = (total + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    (*p)->order = i;
    at[i] = total;
    total += size_of(*p);
  }
  size_t bytes = (size_t)total * sizeof(real);
  params->total = total;
  params->shards = params->device->shards;
  if (params->shards) {
    shards_reserve(params->shards, total);
    params->base = params->shards->place[SHARD_VALUES];
  } else {
    params->values = tensor_of(device_get(params->device, bytes), 1, total);
    params->grads = tensor_of(device_get(params->device, bytes), 1, total);
    params->base = REALS(&params->values);
  }
  struct shards *groups = params->shards ? params->shards : params->device->early;
  for (int i = 0; i < count; i++) {
    const struct param *p = params->list[order[i]], *before = i ? params->list[order[i - 1]] : NULL;
    if (groups && (!i || p->layer != before->layer || p->kind != before->kind)) shards_group(groups, at[i]);
    place(params, params->list[order[i]], at[i]);
  }
  if (params->device->early) set_early(params, params->device->early);
  for (int i = 0; i < params->count; i++) {
    struct param *p = params->list[i];
    if (!trains(p)) p->value.data = device_get(params->device, (size_t)size_of(p) * sizeof(real));
  }
  memory_free(order);
  memory_free(at);
}

void params_hold(struct params *params)
{
  if (!params->shards) return;
  shards_hold(params->device, params->shards);
  params->values = *params->shards->held[SHARD_VALUES];
  params->grads = *params->shards->held[SHARD_GRADS];
}

/* --- local parts ----------------------------------------------------------------------------------------- */

void param_segment(const struct param *p, long row, long rows, int out[2])
{
  int column = p->kind == PARAM_BIAS; /* rows of a weight are columns of its bias [1, out] */
  out[0] = (int)(p->place + (column ? row : row * p->value.cols));
  out[1] = (int)(column ? rows : rows * p->value.cols);
}

size_t params_cut_most(const struct params *params, int n)
{
  return (size_t)n + (params->shards ? (size_t)params->shards->count : 0) + 1;
}

int params_cut(const struct params *params, const int *segment, int n, int *own, int *index)
{
  const struct shards *s = params->shards;
  int count = 0;
  for (int i = 0; i < n; i++) {
    const long from = segment[2 * i], end = from + segment[2 * i + 1];
    for (int k = 0; k < (s ? s->count : 1); k++) {
      const struct shard x = s ? s->piece[k] : (struct shard){0, params->total, 0, 0};
      const long begin = from > x.from ? from : x.from, stop = end < x.from + x.n ? end : x.from + x.n;
      if (begin >= stop || (s && x.owner != s->comm->rank)) continue;
      own[2 * count] = (int)(x.at + begin - x.from), own[2 * count + 1] = (int)(stop - begin);
      index[count++] = i;
    }
  }
  return count;
}

void params_read(const struct params *params, const struct param *p, real *host)
{
  const struct shards *s = params->shards;
  if (!s || !trains(p)) {
    params->device->download(params->device, host, p->value.data, (size_t)size_of(p) * sizeof *host);
    return;
  }
  shards_take(s, p->place, size_of(p), REALS(&params->values), host);
  shards_gather(s, p->place, size_of(p), host);
}

void params_write(struct params *params, struct param *p, const real *host)
{
  if (params->shards && trains(p))
    shards_put(params->shards, p->place, size_of(p), REALS(&params->values), host);
  else
    params->device->upload(params->device, p->value.data, host, (size_t)size_of(p) * sizeof *host);
}

void params_copy(const struct params *params, const struct tensor *row, real *host)
{
  if (params->shards)
    shards_to_first(params->shards, REALS(row), host);
  else
    params->device->download(params->device, host, row->data, (size_t)params->total * sizeof *host);
}

struct param_draw {
  struct draw draw;
  real *out;
  long size;
  double scale;
};

static void draw_piece(void *context, long piece, int worker)
{
  (void)worker;
  const struct param_draw *d = context;
  long end = (piece + 1) * DRAW_PIECE < d->size ? (piece + 1) * DRAW_PIECE : d->size;
  for (long i = piece * DRAW_PIECE; i < end; i++)
    d->out[i] = (real)(d->scale * draw_normal(d->draw, (uint64_t)i));
}

void params_draw(struct params *params, uint64_t seed)
{
  uint64_t drawn = 0;
  for (int i = 0; i < params->count; i++) {
    struct param *p = params->list[i];
    long size = size_of(p);
    real *values = memory_new((size_t)size, sizeof *values);
    if (p->init == INIT_CONSTANT) {
      for (long j = 0; j < size; j++) values[j] = (real)p->init_scale;
    } else {
      double fan_in = p->init == INIT_FAN_IN ? (double)p->value.cols : 1;
      struct param_draw d = {{seed, STREAM_INIT, drawn++}, values, size, p->init_scale / sqrt(fan_in)};
      parallel_for(params->device->pool, (size + DRAW_PIECE - 1) / DRAW_PIECE, draw_piece, &d);
    }
    params_write(params, p, values);
    memory_free(values);
  }
}

real *params_perturb(struct params *params, double relative)
{
  struct device *device = params->device;
  long size = params->values.cols;
  real *old = memory_new((size_t)size, sizeof *old), *values = memory_new((size_t)size, sizeof *values);
  device->download(device, old, params->values.data, (size_t)size * sizeof *old);
  for (long i = 0; i < size; i++) {
    double normal = draw_normal((struct draw){0, STREAM_TEST, 0}, (uint64_t)i);
    values[i] = (real)((double)old[i] * (1 + relative * normal));
  }
  device->upload(device, params->values.data, values, (size_t)size * sizeof *values);
  memory_free(values);
  return old;
}

void params_put_back(struct params *params, real *values)
{
  params->device->upload(params->device, params->values.data, values,
                         (size_t)params->values.cols * sizeof *values);
  memory_free(values);
}

struct param *params_find(const struct params *params, const char *name)
{
  for (int i = 0; i < params->count; i++)
    if (!strcmp(params->list[i]->name, name)) return params->list[i];
  return NULL;
}

struct tensor *params_span(struct params *params, struct param *first, int count)
{
  if (count == 1) return &first->value;
  int at = 0;
  while (at < params->count && params->list[at] != first) at++;
  REQUIRE(at + count <= params->count);
  int row = first->kind == PARAM_BIAS;
  long rows = first->value.rows, cols = first->value.cols;
  for (int i = at + 1; i < at + count; i++) {
    const struct param *p = params->list[i];
    REQUIRE(joins(params->list[i - 1], p));
    if (row)
      cols += p->value.cols;
    else
      rows += p->value.rows;
  }
  struct tensor *span = arena_get(params->arena, 2, sizeof *span);
  span[0] = tensor_of(first->value.data, rows, cols);
  span[1] = tensor_of(first->grad.data, rows, cols);
  span[0].name = span[1].name = first->name;
  span[0].grad = &span[1];
  return span;
}

void params_free(struct params *params)
{
  if (params->total) {
    for (int i = 0; i < params->count; i++)
      if (!trains(params->list[i])) device_put_back(params->device, params->list[i]->value.data);
    if (!params->shards) {
      device_put_back(params->device, params->values.data);
      device_put_back(params->device, params->grads.data);
    }
  }
  memory_free(params->list);
  arena_free(params->arena);
  *params = (struct params){0};
}
