/* check_ops_attention.c - operations of ops.def in attention.c, pointwise.c and cures.c: attention with and without a
   softmax, and what cures add to it */
#include "check_ops.h"

/* Row n of a sequence of `length` sees from its document's begin: documents of `document` rows, 0: one. */
static struct tensor *starts(struct made *m, long rows, long length, long document)
{
  struct tensor *t = integers(m, rows, 1);
  for (long n = 0; n < rows; n++) INTS(t)[n] = (int)(document ? n % length / document * document : 0);
  return t;
}

/* Which keys rows see; of a window or a prefix `number` says how long. */
enum { UP_TO_ITSELF, ALL_KEYS, WINDOW, PREFIX, ANY_KEYS, ANY_OR_NONE, NO_KEYS };

/* What rows of attention see, over what `starts` has made for UP_TO_ITSELF; returns where ranges end. */
static struct tensor *ranges(struct made *m, struct tensor *start, long length, int kind, long number)
{
  struct tensor *end = kind == UP_TO_ITSELF || kind == WINDOW ? NULL : integers(m, start->cols, length + 1);
  for (long n = 0; n < start->cols; n++) {
    const long t = n % length, at = (long)below(m, 7 * n + 1, length + 1),
               wide =
                 kind == ANY_KEYS ? 1 + (long)below(m, 7 * n + 2, length) : (long)below(m, 7 * n + 2, 9) - 3;
    int *from = INTS(start) + n;
    if (kind == WINDOW) *from = (int)(t + 1 > number ? t + 1 - number : 0);
    if (!end) continue;
    int *to = INTS(end) + n;
    if (kind == ALL_KEYS) *to = (int)length;
    if (kind == PREFIX) *to = (int)(t + 1 > number ? t + 1 : number);
    if (kind < ANY_KEYS) continue;
    *from = (int)(kind == ANY_KEYS && at == length ? length - 1 : at);
    *to = (int)(kind == NO_KEYS         ? *from
                : *from + wide > length ? length
                : *from + wide < 0      ? 0
                                        : *from + wide);
  }
  return end;
}

/* batch, length, heads, groups, Dqk, Dv, document, cap; scale, cap value and format of the scores with it, ranges */
static const struct {
  long batch, length, heads, groups, dim, value, document, cap;
  double scale, cap_value;
  enum number_format scores_format;
  int ranges;
} attentions_of[] = {
  {1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, UP_TO_ITSELF},
  {2, 3, 2, 1, 4, 5, 0, 0, 0.5, 0, 0, UP_TO_ITSELF},
  {1, 17, 1, 1, 8, 8, 0, 0, 0.35, 0, 0, UP_TO_ITSELF},
  {2, 33, 4, 2, 16, 16, 0, 0, 0.25, 0, 0, UP_TO_ITSELF},
  {1, 70, 2, 2, 16, 8, 0, 0, 3, 0, 0, UP_TO_ITSELF},
  {3, 20, 3, 1, 6, 3, 7, 0, 0.4, 0, 0, UP_TO_ITSELF},
  {2, 40, 2, 2, 8, 16, 1, 0, 1, 0, 0, UP_TO_ITSELF},
  {1, 65, 4, 4, 16, 16, 16, 1, 1, 2, 0, UP_TO_ITSELF},
  {2, 19, 2, 1, 5, 7, 0, 1, 2, 0.5, 0, UP_TO_ITSELF},
  {1, 50, 2, 1, 12, 12, 0, 2, 1, 0.75, 0, UP_TO_ITSELF},
  {1, 130, 1, 1, 32, 32, 0, 0, 0.18, 0, 0, UP_TO_ITSELF},
  {1, 37, 6, 2, 64, 64, 0, 2, 2, 30, 0, UP_TO_ITSELF},
  {1, 1100, 1, 1, 8, 3, 0, 0, 1, 0, 0, UP_TO_ITSELF},
  {1, 1, 300, 1, 64, 64, 0, 0, 0.125, 0, 0, UP_TO_ITSELF},
  {1, 40, 2, 1, 12, 12, 0, 1, 1, 0.02, 0, UP_TO_ITSELF},
  {2, 21, 2, 1, 8, 6, 5, 0, 3, 0, FORMAT_BF16, UP_TO_ITSELF},
  {1, 30, 2, 2, 6, 8, 0, 1, 2, 3, FORMAT_FP16, UP_TO_ITSELF},
  {1, 33, 4, 2, 16, 8, 0, 2, 90, 400, FORMAT_FP8_E4M3, UP_TO_ITSELF},
  {1, 90, 1, 1, 4, 4, 40, 0, 1, 0, 0, UP_TO_ITSELF},
  {1, 420, 2, 1, 5, 6, 139, 0, 1, 0, 0, UP_TO_ITSELF},
  {1, 66, 1, 1, 128, 128, 0, 0, 0.09, 0, 0, UP_TO_ITSELF},
  {1, 20, 2, 1, 130, 136, 0, 1, 0.09, 1, 0, UP_TO_ITSELF},
  {2, 1, 2, 1, 3, 4, 0, 0, 1, 0, 0, NO_KEYS},
  {2, 26, 2, 2, 8, 6, 0, 0, 0.5, 0, 0, NO_KEYS},
  {2, 41, 2, 1, 16, 16, 0, 0, 0.25, 0, 0, ALL_KEYS},
  {1, 650, 1, 1, 5, 4, 0, 0, 1, 0, 0, ALL_KEYS},
  {2, 67, 4, 2, 8, 20, 16, 0, 1, 0, 0, WINDOW},
  {1, 90, 2, 1, 8, 8, 1, 0, 1, 0, 0, WINDOW},
  {1, 1100, 1, 1, 6, 3, 530, 0, 1, 0, 0, WINDOW},
  {1, 140, 2, 1, 24, 8, 37, 1, 1, 2, 0, WINDOW},
  {1, 77, 2, 2, 8, 8, 30, 0, 2, 0, 0, PREFIX},
  {2, 50, 2, 1, 12, 12, 9, 2, 1, 0.75, 0, PREFIX},
  {2, 70, 3, 1, 6, 3, 0, 0, 0.4, 0, 0, ANY_KEYS},
  {2, 45, 2, 2, 16, 8, 0, 0, 1, 0, 0, ANY_OR_NONE},
  {1, 300, 2, 1, 5, 7, 0, 1, 2, 0.5, 0, ANY_OR_NONE},
  {2, 33, 2, 1, 8, 6, 0, 0, 3, 0, FORMAT_BF16, ANY_OR_NONE},
};
enum { ATTENTIONS = sizeof attentions_of / sizeof *attentions_of };

static struct attention_score score_of(struct made *m, int i)
{
  return (struct attention_score){.batch = attentions_of[i].batch,
                                  .heads = attentions_of[i].heads,
                                  .groups = attentions_of[i].groups,
                                  .scale = attentions_of[i].scale,
                                  .cap = attentions_of[i].cap,
                                  .cap_value =
                                    number(m, attentions_of[i].cap > 0, attentions_of[i].cap_value),
                                  .scores_format = attentions_of[i].scores_format};
}

static void put_ranges(struct made *m, int i, struct tensor *start, struct tensor **end)
{
  const long number = attentions_of[i].document;
  if (attentions_of[i].ranges == UP_TO_ITSELF) return;
  *end = ranges(m, start, attentions_of[i].length, attentions_of[i].ranges, number);
}

static int make_attention_forward(struct made *m, int i, union op_args *args)
{
  if (i >= ATTENTIONS) return 0;
  long n = attentions_of[i].batch * attentions_of[i].length, heads = attentions_of[i].heads;
  long groups = attentions_of[i].groups, dim = attentions_of[i].dim, value = attentions_of[i].value;
  m->rounds = attentions_of[i].scores_format != FORMAT_F32;
  args->attention_forward =
    (struct attention_forward_args){.o = out(m, n, heads * value, 0),
                                    .ml = out(m, n, (2 + i % 2) * heads, 0), /* with entropies, too */
                                    .stats = out(m, heads, 4, 0),
                                    .q = in(m, n, heads * dim),
                                    .k = in(m, n, groups * dim),
                                    .v = in(m, n, groups * value),
                                    .start = starts(m, n, attentions_of[i].length, attentions_of[i].document),
                                    .score = score_of(m, i)};
  put_ranges(m, i, args->attention_forward.start, &args->attention_forward.end);
  return 1;
}

static int make_attention_backward(struct made *m, int i, union op_args *args)
{
  union op_args forward;
  if (!make_attention_forward(m, i, &forward)) return 0;
  const struct attention_forward_args *f = &forward.attention_forward;
  op_run(m->reference, OP_attention_forward, &forward);
  now_read(f->o);
  now_read(f->ml);
  args->attention_backward = (struct attention_backward_args){.dq = out(m, f->q->rows, f->q->cols, 0),
                                                              .dk = out(m, f->k->rows, f->k->cols, 0),
                                                              .dv = out(m, f->v->rows, f->v->cols, 0),
                                                              .do_ = in(m, f->o->rows, f->o->cols),
                                                              .o = f->o,
                                                              .q = f->q,
                                                              .k = f->k,
                                                              .v = f->v,
                                                              .ml = f->ml,
                                                              .start = f->start,
                                                              .end = f->end,
                                                              .score = f->score};
  return 1;
}

/* Of a row, what two parts of its keys have made: m, l, entropy; now and then one, or both, see none. */
static struct tensor *softmaxes(struct made *m, long n, long heads, int which)
{
  struct tensor *t = in(m, n, 3 * heads);
  for (long i = 0; i < n; i++)
    for (long h = 0; h < heads; h++) {
      real *row = REALS(t) + i * t->ld;
      const int none = (i + h + 1) % (which ? 3 : 5) == 0;
      row[2 * h] = none ? -(real)INFINITY : 3 * row[2 * h];
      row[2 * h + 1] = none ? 0 : 1 + (real)fabs((double)row[2 * h + 1]);
      row[2 * heads + h] = none ? 0 : (real)fabs((double)row[2 * heads + h]);
    }
  return t;
}

static int make_attention_merge(struct made *m, int i, union op_args *args)
{
  static const long shapes[][3] = {
    {1, 1, 1},  {5, 2, 3},   {17, 1, 8}, {33, 4, 16},
    {70, 3, 5}, {130, 2, 7}, {9, 5, 64}, {600, 1, 12}}; /* rows, heads, columns of a head */
  if (i >= (int)(sizeof shapes / sizeof *shapes)) return 0;
  const long *s = shapes[i];
  args->attention_merge = (struct attention_merge_args){.o = in(m, s[0], s[1] * s[2]),
                                                        .ml = softmaxes(m, s[0], s[1], 1),
                                                        .stats = in(m, s[1], 4),
                                                        .other_o = in(m, s[0], s[1] * s[2]),
                                                        .other_ml = softmaxes(m, s[0], s[1], 0),
                                                        .other_stats = in(m, s[1], 4)};
  return 1;
}

static int make_attention_cached(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * ATTENTIONS) return 0;
  int scaled = i % 2,
      block = i % 3; /* with or without factors; several new positions of each sequence, or one */
  i /= 2;
  long batch = attentions_of[i].batch, length = attentions_of[i].length, heads = attentions_of[i].heads;
  long news = block ? (length + 2) / 3 : 1, n = batch * news;
  long groups = attentions_of[i].groups, dim = attentions_of[i].dim, value = attentions_of[i].value;
  m->rounds = attentions_of[i].scores_format != FORMAT_F32;
  struct attention_cached_args *a = &args->attention_cached;
  *a = (struct attention_cached_args){.o = out(m, n, heads * value, 0),
                                      .ml = out(m, n, 2 * heads, 0),
                                      .stats = out(m, heads, 4, 0),
                                      .keys = in(m, batch * length, groups * dim),
                                      .values = in(m, batch * length, groups * value),
                                      .factors = scaled ? in(m, batch * length, heads) : NULL,
                                      .q = in(m, n, heads * dim),
                                      .k = in(m, n, groups * dim),
                                      .v = in(m, n, groups * value),
                                      .factor = scaled ? in(m, n, heads) : NULL,
                                      .slot = integers(m, n, length),
                                      .start = integers(m, n, 1),
                                      .scaled = scaled * (dim + 1) / 2,
                                      .score = score_of(m, i)};
  for (long b = 0; b < n; b++) /* no two of a sequence are one */
    INTS(a->slot)[b] = (INTS(a->slot)[b / news * news] + (int)(b % news)) % (int)length;
  for (long b = 0; b < n; b++)
    INTS(a->start)[b] = INTS(a->slot)[b] / 3 + (attentions_of[i].ranges >= ANY_OR_NONE ? (int)length : 0);
  return 1;
}

static int make_attention_look(struct made *m, int i, union op_args *args)
{
  union op_args forward;
  if (!make_attention_forward(m, i, &forward)) return 0;
  const struct attention_forward_args *f = &forward.attention_forward;
  args->attention_look = (struct attention_look_args){.look = out(m, f->heads, 5, 0),
                                                      .q = f->q,
                                                      .k = f->k,
                                                      .start = f->start,
                                                      .end = f->end,
                                                      .level = number(m, i % 2, 0.5),
                                                      .score = f->score};
  return 1;
}

static const long kinds[3] = {POINTWISE_SQUARE, POINTWISE_SIGMOID, POINTWISE_SOFTPICK};

/* All kinds of each shape; in `make check` they take turns, every `each` shapes. */
static int shape_of(int i) { return is_long() ? i / 3 : i; }
static long kind_of(int i, int each) { return kinds[(is_long() ? i : i / each) % 3]; }

static int make_pointwise_forward(struct made *m, int i, union op_args *args)
{
  union op_args soft;
  if (!make_attention_forward(m, shape_of(i), &soft)) return 0;
  const struct attention_forward_args *f = &soft.attention_forward;
  args->pointwise_forward = (struct pointwise_forward_args){.o = f->o,
                                                            .stats = f->stats,
                                                            .q = f->q,
                                                            .k = f->k,
                                                            .v = f->v,
                                                            .start = f->start,
                                                            .end = f->end,
                                                            .kind = kind_of(i, 1),
                                                            .score = f->score};
  return 1;
}

static int make_pointwise_backward(struct made *m, int i, union op_args *args)
{
  union op_args forward;
  if (!make_pointwise_forward(m, i, &forward)) return 0;
  const struct pointwise_forward_args *f = &forward.pointwise_forward;
  const int picks = f->kind == POINTWISE_SOFTPICK;
  if (picks) {
    op_run(m->reference, OP_pointwise_forward, &forward);
    now_read(f->o);
  }
  args->pointwise_backward = (struct pointwise_backward_args){.dq = out(m, f->q->rows, f->q->cols, 0),
                                                              .dk = out(m, f->k->rows, f->k->cols, 0),
                                                              .dv = out(m, f->v->rows, f->v->cols, 0),
                                                              .do_ = in(m, f->o->rows, f->o->cols),
                                                              .o = picks ? f->o : NULL,
                                                              .q = f->q,
                                                              .k = f->k,
                                                              .v = f->v,
                                                              .start = f->start,
                                                              .end = f->end,
                                                              .kind = kind_of(i, 1),
                                                              .score = f->score};
  return 1;
}

static int make_pointwise_cached(struct made *m, int i, union op_args *args)
{
  union op_args soft;
  if (!make_attention_cached(m, shape_of(i), &soft)) return 0;
  const struct attention_cached_args *c = &soft.attention_cached;
  args->pointwise_cached = (struct pointwise_cached_args){.o = c->o,
                                                          .stats = c->stats,
                                                          .keys = c->keys,
                                                          .values = c->values,
                                                          .factors = c->factors,
                                                          .q = c->q,
                                                          .k = c->k,
                                                          .v = c->v,
                                                          .factor = c->factor,
                                                          .slot = c->slot,
                                                          .start = c->start,
                                                          .scaled = c->scaled,
                                                          .kind = kind_of(i, 6),
                                                          .score = c->score};
  return 1;
}

/* A softmax that has been made. */
static int made_softmax(struct made *m, int i, union op_args *forward)
{
  if (!make_attention_forward(m, i, forward)) return 0;
  op_run(m->reference, OP_attention_forward, forward);
  now_read(forward->attention_forward.o);
  now_read(forward->attention_forward.ml);
  return 1;
}

static int make_sink(struct made *m, int i, union op_args *args)
{
  union op_args soft;
  if (!made_softmax(m, i, &soft)) return 0;
  const struct attention_forward_args *f = &soft.attention_forward;
  args->sink = (struct sink_args){.o = f->o, .ml = f->ml, .b = vector(m, f->heads)};
  if (i % 3 == 0) REALS(args->sink.b)[0] += 200; /* above all keys, where exp(b - m) is infinite */
  return 1;
}

static int make_sink_backward(struct made *m, int i, union op_args *args)
{
  union op_args soft;
  if (!made_softmax(m, i, &soft)) return 0;
  const struct attention_forward_args *f = &soft.attention_forward;
  struct tensor *b = vector(m, f->heads);
  union op_args with = {.sink = {.o = f->o, .ml = f->ml, .b = b}};
  op_run(m->reference, OP_sink, &with);
  args->sink_backward = (struct sink_backward_args){
    .db = vector(m, f->heads), .do_ = in(m, f->o->rows, f->o->cols), .o = f->o, .ml = f->ml, .b = b};
  return 1;
}

/* rows, gates, columns of each */
static const long gates[][3] = {{1, 1, 1},   {3, 5, 1},  {7, 33, 1},  {5, 4, 8},
                                {33, 3, 17}, {2, 40, 3}, {1, 2, 1100}};
enum { GATES = sizeof gates / sizeof *gates };

static int make_gate(struct made *m, int i, union op_args *args)
{
  if (i >= GATES) return 0;
  const long *s = gates[i];
  args->gate = (struct gate_args){
    .y = out(m, s[0], s[1] * s[2], 0), .x = in(m, s[0], s[1] * s[2]), .g = in(m, s[0], s[1])};
  REALS(args->gate.g)[0] *= 100;
  return 1;
}

static int make_gate_backward(struct made *m, int i, union op_args *args)
{
  if (i >= GATES) return 0;
  const long *s = gates[i];
  args->gate_backward = (struct gate_backward_args){.dx = out(m, s[0], s[1] * s[2], 0),
                                                    .dg = out(m, s[0], s[1], 0),
                                                    .dy = in(m, s[0], s[1] * s[2]),
                                                    .x = in(m, s[0], s[1] * s[2]),
                                                    .g = in(m, s[0], s[1])};
  REALS(args->gate_backward.g)[0] *= 100;
  return 1;
}

/* What rows see as in attention; every third variant's rows are new positions, each of a sequence. */
static int make_ssmax_scale(struct made *m, int i, union op_args *args)
{
  if (i >= ATTENTIONS) return 0;
  const long length = attentions_of[i].length, n = attentions_of[i].batch * length,
             heads = attentions_of[i].heads, cols = heads * attentions_of[i].dim;
  struct ssmax_scale_args *a = &args->ssmax_scale;
  *a = (struct ssmax_scale_args){.y = out(m, n, cols, 0),
                                 .x = in(m, n, cols),
                                 .s = vector(m, heads),
                                 .start = starts(m, n, length, attentions_of[i].document),
                                 .batch = i % 3 ? attentions_of[i].batch : n};
  if (i % 3)
    put_ranges(m, i, a->start, &a->end);
  else
    a->slot = integers(m, n, 40);
  return 1;
}

static int make_ssmax_scale_backward(struct made *m, int i, union op_args *args)
{
  union op_args forward;
  if (!make_ssmax_scale(m, i / 2, &forward)) return 0;
  const struct ssmax_scale_args *f = &forward.ssmax_scale;
  args->ssmax_scale_backward = (struct ssmax_scale_backward_args){.dx = out(m, f->x->rows, f->x->cols, i % 2),
                                                                  .ds = vector(m, f->s->cols),
                                                                  .dy = in(m, f->x->rows, f->x->cols),
                                                                  .x = f->x,
                                                                  .s = f->s,
                                                                  .start = f->start,
                                                                  .end = f->end,
                                                                  .slot = f->slot,
                                                                  .batch = f->batch,
                                                                  .add = i % 2};
  return 1;
}

/* --- identities, on every device */

enum { T = 24, H = 4, DIM = 8, VALUE = 6 };

/* One attention call on a device's memory (the host's here). */
struct attention_case {
  struct device *device;
  struct tensor *q, *k, *v, *start, *o, *ml, *stats;
  struct attention_forward_args args;
};

static void attention_begin(struct attention_case *c, struct device *device, long batch, long groups)
{
  *c = (struct attention_case){.device = device};
  c->q = tensor_new(device, TENSOR_REAL, T, H * DIM, "q");
  c->k = tensor_new(device, TENSOR_REAL, T, groups * DIM, "k");
  c->v = tensor_new(device, TENSOR_REAL, T, groups * VALUE, "v");
  c->start = tensor_new(device, TENSOR_INT, 1, T, "start");
  c->o = tensor_new(device, TENSOR_REAL, T, H * VALUE, "o");
  c->ml = tensor_new(device, TENSOR_REAL, T, 2 * H, "ml");
  c->stats = tensor_new(device, TENSOR_REAL, H, 4, "stats");
  draw(c->q, 1);
  draw(c->k, 2);
  draw(c->v, 3);
  c->args =
    (struct attention_forward_args){.o = c->o,
                                    .ml = c->ml,
                                    .stats = c->stats,
                                    .q = c->q,
                                    .k = c->k,
                                    .v = c->v,
                                    .start = c->start,
                                    .score = {.batch = batch, .heads = H, .groups = groups, .scale = 0.5}};
}

static void attention_run(struct attention_case *c)
{
  op_run(c->device, OP_attention_forward,
         (const union op_args *)&(union op_args){.attention_forward = c->args});
}

static void attention_end(struct attention_case *c)
{
  tensor_free(c->device, c->q);
  tensor_free(c->device, c->k);
  tensor_free(c->device, c->v);
  tensor_free(c->device, c->start);
  tensor_free(c->device, c->o);
  tensor_free(c->device, c->ml);
  tensor_free(c->device, c->stats);
}

static void look(struct device *device, struct attention_look_args *args, double level)
{
  real number = (real)level;
  struct tensor t = tensor_of(&number, 1, 1);
  args->level = &t;
  op_run(device, OP_attention_look, &(union op_args){.attention_look = *args});
}

/* All pairs are above -infinity, one is above a little less than the largest score; its q and k make it. */
START_TEST(look_at_pairs)
{
  struct device *device = host_device(_i);
  struct attention_case a;
  attention_begin(&a, device, 2, 2);
  attention_run(&a);
  struct tensor *result = tensor_new(device, TENSOR_REAL, H, 5, "look");
  struct attention_look_args args = {.look = result,
                                     .q = a.q,
                                     .k = a.k,
                                     .start = a.start,
                                     .batch = 2,
                                     .heads = H,
                                     .groups = 2,
                                     .scale = a.args.scale};
  for (long h = 0; h < H; h++) {
    const real *x = REALS(result) + 5 * h;
    double top = REALS(a.stats)[4 * h], near = 64 * REAL_EPS * top;
    ck_assert(top > 0);
    look(device, &args, -INFINITY);
    ck_assert(x[0] == 1 && x[1] == T * (T / 2 + 1) / 2);
    ck_assert_double_eq_tol(args.scale * (double)x[2] * (double)x[3] * (double)x[4], top, near);
    look(device, &args, top - near);
    ck_assert_double_eq_tol((double)x[0] * (double)x[1], 1, near);
    look(device, &args, top + near);
    ck_assert(x[0] == 0);
  }
  tensor_free(device, result);
  attention_end(&a);
  device_close(device);
}
END_TEST

/* The softmax does not see a constant: keys k + u move the scores of a query by q.u. */
START_TEST(shift_of_all_keys)
{
  struct device *device = host_device(_i);
  struct attention_case a, b;
  attention_begin(&a, device, 1, H);
  attention_begin(&b, device, 1, H);
  for (long i = 0; i < T; i++)
    for (long j = 0; j < H * DIM; j++) REALS(b.k)[i * H * DIM + j] += (real)(0.25 * (double)(j % 5));
  attention_run(&a);
  attention_run(&b);
  ck_near(a.o, b.o, 0, "shifted keys");
  ck_assert(REALS(a.stats)[0] != REALS(b.stats)[0]);
  for (long h = 0; h < H; h++)
    ck_assert_double_eq_tol(REALS(a.stats)[4 * h + 3], REALS(b.stats)[4 * h + 3], 64 * REAL_EPS);
  attention_end(&a);
  attention_end(&b);
  device_close(device);
}
END_TEST

/* The last row sees every key: their order does not matter. */
START_TEST(order_of_keys)
{
  struct device *device = host_device(_i);
  struct attention_case a, b;
  attention_begin(&a, device, 1, H);
  attention_begin(&b, device, 1, H);
  for (long i = 0; i < T; i++) {
    long from = (5 * i + 3) % T;
    memcpy(REALS(b.k) + i * b.k->ld, REALS(a.k) + from * a.k->ld, (size_t)(H * DIM) * sizeof(real));
    memcpy(REALS(b.v) + i * b.v->ld, REALS(a.v) + from * a.v->ld, (size_t)(H * VALUE) * sizeof(real));
  }
  attention_run(&a);
  attention_run(&b);
  ck_near(a.o, b.o, T - 1, "permuted keys");
  ck_near(a.ml, b.ml, T - 1, "permuted keys, ml");
  attention_end(&a);
  attention_end(&b);
  device_close(device);
}
END_TEST

/* Two heads that share a key/value head, and two with copies of it. */
START_TEST(grouped_equals_repeated)
{
  struct device *device = host_device(_i);
  struct attention_case a, b;
  attention_begin(&a, device, 1, H / 2);
  attention_begin(&b, device, 1, H);
  for (long i = 0; i < T; i++)
    for (long h = 0; h < H; h++) {
      memcpy(REALS(b.k) + i * b.k->ld + h * DIM, REALS(a.k) + i * a.k->ld + h / 2 * DIM, DIM * sizeof(real));
      memcpy(REALS(b.v) + i * b.v->ld + h * VALUE, REALS(a.v) + i * a.v->ld + h / 2 * VALUE,
             VALUE * sizeof(real));
    }
  attention_run(&a);
  attention_run(&b);
  ck_near(a.o, b.o, 0, "grouped");
  ck_near(a.ml, b.ml, 0, "grouped, ml");
  ck_near(a.stats, b.stats, 0, "grouped, statistics");
  attention_end(&a);
  attention_end(&b);
  device_close(device);
}
END_TEST

/* Documents of 8 in one row of 24, and a batch of three sequences of 8. */
START_TEST(documents_equal_sequences)
{
  struct device *device = host_device(_i);
  struct attention_case a, b;
  attention_begin(&a, device, 1, H);
  attention_begin(&b, device, 3, H);
  for (long n = 0; n < T; n++) INTS(a.start)[n] = (int)(n / 8 * 8);
  attention_run(&a);
  attention_run(&b);
  ck_near(a.o, b.o, 0, "documents");
  ck_near(a.ml, b.ml, 0, "documents, ml");
  ck_near(a.stats, b.stats, 0, "documents, statistics");
  attention_end(&a);
  attention_end(&b);
  device_close(device);
}
END_TEST

static struct tensor *with_end(struct attention_case *c)
{
  return c->args.end = tensor_new(c->device, TENSOR_INT, 1, T, "end");
}

/* A window as long as the row, a prefix of one, and ends that are said are causal. In a full mask every row is as the
   last one is, whose keys it sees: with one query for all, the last row of a causal mask. */
START_TEST(masks_meet_in_the_causal_one)
{
  struct device *device = host_device(_i);
  struct attention_case a, b;
  attention_begin(&a, device, 1, H);
  attention_begin(&b, device, 1, H);
  struct tensor *end = with_end(&b);
  attention_run(&a);
  for (int n = 0; n < T; n++) INTS(end)[n] = n + 1;
  attention_run(&b);
  ck_near(a.o, b.o, 0, "causal");
  ck_near(a.ml, b.ml, 0, "causal, ml");
  ck_near(a.stats, b.stats, 0, "causal, statistics");
  for (int n = 0; n < T; n++) {
    INTS(end)[n] = T;
    for (long c = 0; c < H * DIM; c++)
      REALS(a.q)[n * a.q->ld + c] = REALS(b.q)[n * b.q->ld + c] = (real)(c % 5);
  }
  attention_run(&a);
  attention_run(&b);
  for (long n = 0; n < T; n++)
    for (long c = 0; c < H * VALUE; c++)
      ck_assert_double_eq_tol((double)REALS(b.o)[n * b.o->ld + c], (double)REALS(a.o)[(T - 1) * a.o->ld + c],
                              32 * REAL_EPS);
  tensor_free(device, end);
  attention_end(&a);
  attention_end(&b);
  device_close(device);
}
END_TEST

/* Do tiles of a device pass what is not a number to rows that do not see it (0 * NaN)? */
static int tiles_mix(int kind)
{
#ifdef CUDA_ON_HOST
  return kind > 0;
#elif defined(ON_A_GPU)
  return (void)kind, 1;
#else
  return (void)kind, 0;
#endif
}

static int is_near(double got, double expected) { return got == expected || fabs(got - expected) < 1e-5; }

/* Rows that see nothing make zeros and are in no maximum, sum or gradient; where no row sees anything neither is the
   head. What is not seen may be what it likes. */
START_TEST(nothing_seen_is_nothing)
{
  struct device *device = host_device(_i);
  struct attention_case c;
  attention_begin(&c, device, 1, H);
  struct tensor *end = with_end(&c), *dq = tensor_new(device, TENSOR_REAL, T, H * DIM, "dq"),
                *dk = tensor_new(device, TENSOR_REAL, T, H * DIM, "dk"),
                *dv = tensor_new(device, TENSOR_REAL, T, H * VALUE, "dv"),
                *look_at = tensor_new(device, TENSOR_REAL, H, 5, "look");
  for (int pass = 0; pass < 2; pass++) { /* the second time one row sees one key */
    draw(c.k, 2);
    draw(c.v, 3);
    for (int n = 0; n < T; n++) {
      INTS(c.start)[n] = n % 3 ? n : T;
      INTS(end)[n] = pass && n == 13 ? 14 : n % 3 ? n - 1 : T;
    }
    if (pass) INTS(c.start)[13] = 13;
    const int mixes = pass && tiles_mix(_i);
    for (long n = 0; n < T && !mixes; n++) /* but for that one, nothing is a number */
      for (long i = 0; i < H * DIM; i++)
        if (n != 13) REALS(c.k)[n * c.k->ld + i] = n % 2 ? (real)NAN : (real)INFINITY;
    for (long n = 0; n < T && !mixes; n++)
      for (long i = 0; i < H * VALUE; i++)
        if (n != 13) REALS(c.v)[n * c.v->ld + i] = (real)NAN;
    attention_run(&c);
    op_run(device, OP_attention_backward,
           &(union op_args){.attention_backward = {.dq = dq,
                                                   .dk = dk,
                                                   .dv = dv,
                                                   .do_ = c.o,
                                                   .o = c.o,
                                                   .q = c.q,
                                                   .k = c.k,
                                                   .v = c.v,
                                                   .ml = c.ml,
                                                   .start = c.start,
                                                   .end = end,
                                                   .score = c.args.score}});
    op_run(device, OP_attention_look,
           &(union op_args){
             .attention_look = {
               .look = look_at, .q = c.q, .k = c.k, .start = c.start, .end = end, .score = c.args.score}});
    for (long h = 0; h < H; h++) {
      const real *stats = &REALS(c.stats)[h * 4];
      double s = 0;
      for (long i = 0; i < DIM; i++)
        s += 0.5 * (double)REALS(c.q)[13 * c.q->ld + h * DIM + i] *
             (double)REALS(c.k)[13 * c.k->ld + h * DIM + i];
      ck_assert(is_near((double)stats[0], pass ? s : -INFINITY));
      ck_assert(is_near((double)stats[1], pass ? fabs(s) : 0));
      ck_assert(is_near((double)stats[2], pass ? s : -INFINITY));
      ck_assert(is_near((double)stats[3], 0));
      ck_assert_double_eq((double)REALS(look_at)[h * 5 + 1], pass);
      if (!pass)
        for (int i = 0; i < 5; i++) ck_assert_double_eq((double)REALS(look_at)[h * 5 + i], 0);
      for (long n = 0; n < T; n++) {
        const int sees = pass && n == 13;
        ck_assert(is_near((double)REALS(c.ml)[n * c.ml->ld + 2 * h], sees ? s : -INFINITY));
        ck_assert_double_eq((double)REALS(c.ml)[n * c.ml->ld + 2 * h + 1], sees);
        for (long i = 0; i < VALUE; i++) {
          double value = sees ? (double)REALS(c.v)[n * c.v->ld + h * VALUE + i] : 0;
          ck_assert_double_eq((double)REALS(c.o)[n * c.o->ld + h * VALUE + i], value);
          ck_assert(is_near((double)REALS(dv)[n * dv->ld + h * VALUE + i], value));
        }
        for (long i = 0; i < DIM; i++) { /* one key has the weight 1 whatever its score */
          ck_assert_double_eq_tol((double)REALS(dq)[n * dq->ld + h * DIM + i], 0, 1e-5);
          ck_assert_double_eq_tol((double)REALS(dk)[n * dk->ld + h * DIM + i], 0, 1e-5);
        }
      }
    }
  }
  tensor_free(device, end), tensor_free(device, dq), tensor_free(device, dk), tensor_free(device, dv);
  tensor_free(device, look_at);
  attention_end(&c);
  device_close(device);
}
END_TEST

/* Maxima, log-sum-exp and entropy against the whole matrix of scores. */
START_TEST(by_products_equal_the_matrix)
{
  struct device *device = host_device(_i);
  struct attention_case c;
  attention_begin(&c, device, 1, H);
  c.args.cap = 1;
  real limit = 1.25;
  struct tensor cap_value = tensor_of(&limit, 1, 1);
  c.args.cap_value = &cap_value;
  attention_run(&c);
  for (long h = 0; h < H; h++) {
    double stats[4] = {-INFINITY, 0, -INFINITY, 0};
    for (long i = 0; i < T; i++) {
      double f[T], sum = 0, entropy = 0;
      for (long j = 0; j <= i; j++) {
        double s = 0;
        for (long d = 0; d < DIM; d++)
          s += 0.5 * REALS(c.q)[i * H * DIM + h * DIM + d] * REALS(c.k)[j * H * DIM + h * DIM + d];
        f[j] = 1.25 * tanh(s / 1.25);
        sum += exp(f[j]);
        stats[0] = fmax(stats[0], s);
        stats[1] = fmax(stats[1], fabs(s));
        stats[2] = fmax(stats[2], f[j]);
      }
      for (long j = 0; j <= i; j++) entropy -= exp(f[j]) / sum * log(exp(f[j]) / sum);
      stats[3] += entropy / T;
      const real *ml = REALS(c.ml) + 2 * (i * H + h);
      ck_assert_double_eq_tol((double)ml[0] + log((double)ml[1]), log(sum),
                              64 * REAL_EPS * (1 + fabs(log(sum))));
    }
    for (int k = 0; k < 4; k++)
      ck_assert_double_eq_tol(REALS(c.stats)[4 * h + k], stats[k], 64 * REAL_EPS * (1 + stats[1]));
  }
  attention_end(&c);
  device_close(device);
}
END_TEST

/* One logit of head 1 is not finite, be its key one of the first or seen by the last row alone: the statistics say so,
   the other heads' are untouched. */
START_TEST(what_is_not_finite_surfaces)
{
  static const double value[] = {NAN, INFINITY, -INFINITY};
  const int kind = _i / HOSTS % 3;
  const long row = _i / HOSTS < 3 ? 5 : T - 1, key = _i / HOSTS < 3 ? 2 : T - 1;
  struct device *device = host_device(_i % HOSTS);
  struct attention_case clean, c;
  attention_begin(&clean, device, 1, H);
  attention_begin(&c, device, 1, H);
  for (long d = 0; d < DIM; d++) REALS(c.q)[row * H * DIM + DIM + d] = 1;
  REALS(c.k)[key * H * DIM + DIM] = (real)value[kind];
  attention_run(&clean);
  attention_run(&c);
  const real *stats = REALS(c.stats) + 4;
  ck_assert(!isfinite(stats[1]));
  ck_assert(!isfinite(stats[3]));
  if (kind == 0) ck_assert(isnan(stats[0]) && isnan(stats[1]) && isnan(stats[2]) && isnan(stats[3]));
  if (kind == 1) ck_assert(!isfinite(stats[0]) && !isfinite(stats[2]));
  for (long h = 0; h < H; h++)
    for (int k = 0; h != 1 && k < 4; k++)
      ck_assert(REALS(c.stats)[4 * h + k] == REALS(clean.stats)[4 * h + k]);
  attention_end(&clean);
  attention_end(&c);
  device_close(device);
}
END_TEST

/* A row that sees nothing in its first 512 keys, all of score -infinity, and -100 in the others. */
START_TEST(a_row_may_begin_with_nothing)
{
  enum { LENGTH = 640, BEGINS = 512, ROW = 600 };
  struct device *device = host_device(_i);
  real *q = memory_new(4 * LENGTH, sizeof *q), *k = q + LENGTH, *v = k + LENGTH, *o = v + LENGTH;
  real *ml = memory_new(2 * LENGTH, sizeof *ml), stats[4];
  int *first = memory_new(LENGTH, sizeof *first);
  for (long i = 0; i < LENGTH; i++) q[i] = 10, k[i] = i < BEGINS ? (real)-LARGEST : -10, v[i] = 1;
  struct tensor tensor[] = {tensor_of(q, LENGTH, 1), tensor_of(k, LENGTH, 1),  tensor_of(v, LENGTH, 1),
                            tensor_of(o, LENGTH, 1), tensor_of(ml, LENGTH, 2), tensor_of(stats, 1, 4)};
  struct tensor start = {.data = first, .rows = 1, .cols = LENGTH, .ld = LENGTH, .type = TENSOR_INT};
  const union op_args args = {
    .attention_forward = {.o = &tensor[3],
                          .ml = &tensor[4],
                          .stats = &tensor[5],
                          .q = &tensor[0],
                          .k = &tensor[1],
                          .v = &tensor[2],
                          .start = &start,
                          .score = {.batch = 1, .heads = 1, .groups = 1, .scale = 1}}};
  op_run(device, OP_attention_forward, &args);
  ck_assert(ml[2 * ROW] == -100);
  ck_assert(ml[2 * ROW + 1] == ROW + 1 - BEGINS);
  ck_assert_double_eq_tol(o[ROW], 1, 4 * REAL_EPS);
  memory_free(first);
  memory_free(ml);
  memory_free(q);
  device_close(device);
}
END_TEST

/* The weights that the reverse pass makes anew: dv under a gradient of 1 for the last row. */
START_TEST(softmax_of_large_scores)
{
  struct device *device = host_device(_i % HOSTS);
  const double size = levels_of[_i / HOSTS], tolerance = 16 * REAL_EPS;
  struct attention_case c;
  attention_begin(&c, device, 1, H);
  c.args.scale = 1;
  for (long t = 0; t < T; t++)
    for (long h = 0; h < H; h++)
      for (long d = 0; d < DIM; d++) {
        REALS(c.q)[t * c.q->ld + h * DIM + d] = (real)(d == 0 ? size : d == 1);
        REALS(c.k)[t * c.k->ld + h * DIM + d] = (real)(d == 0 ? 1 : d == 1 ? step_of(t) : 0);
      }
  attention_run(&c);
  struct tensor *dq = tensor_new(device, TENSOR_REAL, T, H * DIM, "dq");
  struct tensor *dk = tensor_new(device, TENSOR_REAL, T, H * DIM, "dk");
  struct tensor *dv = tensor_new(device, TENSOR_REAL, T, H * VALUE, "dv");
  struct tensor *do_ = tensor_new(device, TENSOR_REAL, T, H * VALUE, "do");
  for (long j = 0; j < H * VALUE; j++) REALS(do_)[(T - 1) * H * VALUE + j] = 1;
  op_run(device, OP_attention_backward,
         &(union op_args){.attention_backward = {.dq = dq,
                                                 .dk = dk,
                                                 .dv = dv,
                                                 .do_ = do_,
                                                 .o = c.o,
                                                 .q = c.q,
                                                 .k = c.k,
                                                 .v = c.v,
                                                 .ml = c.ml,
                                                 .start = c.start,
                                                 .batch = 1,
                                                 .heads = H,
                                                 .groups = H,
                                                 .scale = 1}});
  double sum = 0;
  for (long j = 0; j < T; j++) sum += exp(step_of(j));
  for (long column = 0; column < H * VALUE; column++) {
    double total = 0;
    for (long j = 0; j < T; j++) {
      double p = REALS(dv)[j * H * VALUE + column], exact = exp(step_of(j)) / sum;
      ck_assert_msg(fabs(p - exact) <= tolerance * exact, "scores near %g: p %.9g, not %.9g", size, p, exact);
      total += p;
    }
    ck_assert_double_eq_tol(total, 1, tolerance);
  }
  tensor_free(device, dq);
  tensor_free(device, dk);
  tensor_free(device, dv);
  tensor_free(device, do_);
  attention_end(&c);
  device_close(device);
}
END_TEST

/* A statistic that is NaN in either part is NaN in both together. */
START_TEST(a_merge_keeps_nan)
{
  struct device *device = host_device(_i);
  for (int k = 0; k < 8; k++) {
    real o[2] = {1, 2}, ml[6] = {0, 1, 0, 0, 1, 0}, stats[8] = {0};
    stats[k] = (real)NAN;
    struct tensor t[] = {tensor_of(o, 1, 1),     tensor_of(ml, 1, 3),     tensor_of(stats, 1, 4),
                         tensor_of(o + 1, 1, 1), tensor_of(ml + 3, 1, 3), tensor_of(stats + 4, 1, 4)};
    const struct attention_merge_args args = {&t[0], &t[1], &t[2], &t[3], &t[4], &t[5]};
    op_run(device, OP_attention_merge, &(union op_args){.attention_merge = args});
    for (int j = 0; j < 4; j++) ck_assert_int_eq(isnan(stats[j]) != 0, j == k % 4);
  }
  device_close(device);
}
END_TEST

/* Scores, and relu(e^s - 1) / (sum |e^s - 1| + 1e-8): through values of one column per key, o is the weights. The
   second row has large scores, the third small ones, and the last two attend to nothing. */
static const struct {
  double score[3], weight[3];
} picks[] = {{{2, 1, -1}, {0.73105857779350158, 0.19661193301651148, 0}},
             {{200, 199, -1000}, {0.7310585786300049, 0.2689414213699951, 0}},
             {{1e-3, -1e-3, 2e-3}, {0.2499993128143316, 0, 0.50024874998281088}},
             {{0, 0, 0}, {0, 0, 0}},
             {{-1000, -300, -2000}, {0, 0, 0}}};
enum { PICKS = sizeof picks / sizeof *picks };

START_TEST(softpick_of_known_rows)
{
  struct device *device = host_device(_i);
  for (int i = 0; i < PICKS; i++) {
    real q[3] = {0, 0, 1}, k[3], v[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, o[9], stats[4], dq[3], dk[3], dv[9],
         do_[9] = {0, 0, 0, 0, 0, 0, 1, 2, 4};
    int first[3] = {0, 0, 0};
    for (int j = 0; j < 3; j++) k[j] = (real)picks[i].score[j];
    struct tensor t[] = {tensor_of(q, 3, 1),  tensor_of(k, 3, 1),   tensor_of(v, 3, 3),
                         tensor_of(o, 3, 3),  tensor_of(dq, 3, 1),  tensor_of(dk, 3, 1),
                         tensor_of(dv, 3, 3), tensor_of(do_, 3, 3), tensor_of(stats, 1, 4)};
    struct tensor start = {.data = first, .rows = 1, .cols = 3, .ld = 3, .type = TENSOR_INT};
    const struct attention_score score = {.batch = 1, .heads = 1, .groups = 1, .scale = 1};
    op_run(device, OP_pointwise_forward,
           &(union op_args){.pointwise_forward = {.o = &t[3],
                                                  .stats = &t[8],
                                                  .q = &t[0],
                                                  .k = &t[1],
                                                  .v = &t[2],
                                                  .start = &start,
                                                  .kind = POINTWISE_SOFTPICK,
                                                  .score = score}});
    op_run(device, OP_pointwise_backward,
           &(union op_args){.pointwise_backward = {.dq = &t[4],
                                                   .dk = &t[5],
                                                   .dv = &t[6],
                                                   .do_ = &t[7],
                                                   .o = &t[3],
                                                   .q = &t[0],
                                                   .k = &t[1],
                                                   .v = &t[2],
                                                   .start = &start,
                                                   .kind = POINTWISE_SOFTPICK,
                                                   .score = score}});
    double all = 0;
    for (int j = 0; j < 3; j++) {
      const double exact = picks[i].weight[j];
      all += exact;
      ck_assert_msg(fabs(o[6 + j] - exact) <= 16 * REAL_EPS * exact, "row %d: %.9g, not %.9g", i, o[6 + j],
                    exact);
      ck_assert(fabs(dv[3 * j + 2] - 4 * exact) <= 64 * REAL_EPS * exact);
    }
    ck_assert(isfinite(stats[3]) && (all > 0 ? isfinite(dq[2]) : dq[2] == 0 && stats[3] == 0));
  }
  device_close(device);
}
END_TEST

static const struct operation_case cases[] = {CASE(attention_forward),
                                              CASE(attention_backward),
                                              CASE(attention_merge),
                                              CASE(attention_cached),
                                              CASE(attention_look),
                                              CASE(pointwise_forward),
                                              CASE(pointwise_backward),
                                              CASE(pointwise_cached),
                                              CASE(sink),
                                              CASE(sink_backward),
                                              CASE(gate),
                                              CASE(gate_backward),
                                              CASE(ssmax_scale),
                                              CASE(ssmax_scale_backward)};

static void add_identities(TCase *identities)
{
  tcase_add_loop_test(identities, shift_of_all_keys, 0, HOSTS);
  tcase_add_loop_test(identities, look_at_pairs, 0, HOSTS);
  tcase_add_loop_test(identities, order_of_keys, 0, HOSTS);
  tcase_add_loop_test(identities, a_row_may_begin_with_nothing, 0, HOSTS);
  tcase_add_loop_test(identities, grouped_equals_repeated, 0, HOSTS);
  tcase_add_loop_test(identities, documents_equal_sequences, 0, HOSTS);
  tcase_add_loop_test(identities, masks_meet_in_the_causal_one, 0, HOSTS);
  tcase_add_loop_test(identities, nothing_seen_is_nothing, 0, HOSTS);
  tcase_add_loop_test(identities, by_products_equal_the_matrix, 0, HOSTS);
  tcase_add_loop_test(identities, what_is_not_finite_surfaces, 0, 6 * HOSTS);
  tcase_add_loop_test(identities, softpick_of_known_rows, 0, HOSTS);
  tcase_add_loop_test(identities, a_merge_keeps_nan, 0, HOSTS);
  tcase_add_loop_test(identities, softmax_of_large_scores, 0, SIZES_OF_SCORES * HOSTS);
}

OPERATIONS(cases, sizeof cases / sizeof *cases, add_identities)
