/* model_fixture.h - a small model with random tokens, for the tests of models and stabilizers */
#ifndef MAXLOGIT_TESTS_MODEL_MODEL_FIXTURE_H
#define MAXLOGIT_TESTS_MODEL_MODEL_FIXTURE_H
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/random.h"
#include "model/model.h"

struct fixture {
  struct device *device;
  struct model model;
  const struct stabilizer *stack[MAX_STABILIZERS];
  void *options[MAX_STABILIZERS];
  int stacked;
  void *ffn_options;
};

/* A copy of `text` that lives as long as the process. */
static inline const char *fixture_keep(const char *text)
{
  static const char *kept[64];
  for (int i = 0; i < 64; i++) {
    if (!kept[i]) kept[i] = memory_text(text);
    if (!strcmp(kept[i], text)) return kept[i];
  }
  ck_abort_msg("too many texts in one process");
}

/* "width=12 bias=1" into the fields that `rows` describe in `base`; of "moe.active=2" those of `section`. */
static inline void fixture_assign_section(const char *section, const struct option_row *rows, void *base,
                                          const char *settings)
{
  char *copy = memory_text(settings), *state = NULL;
  for (char *word = strtok_r(copy, " ", &state); word; word = strtok_r(NULL, " ", &state)) {
    char *dot = strchr(word, '.'), *value = strchr(word, '=');
    ck_assert_ptr_nonnull(value);
    int named = dot && dot < value;
    if (named != (*section != 0) || (named && strncmp(word, section, (size_t)(dot - word)))) continue;
    if (named) word = dot + 1;
    *value++ = 0;
    const struct option_row *row = rows;
    while (row->name && strcmp(row->name, word)) row++;
    ck_assert_msg(row->name != NULL, "no option %s", word);
    struct error e = {0};
    const char *text = row->type == OPTION_TEXT ? fixture_keep(value) : value;
    ck_assert_msg(!option_parse(row, base, text, &e), "%s", e.text);
  }
  memory_free(copy);
}

static inline void fixture_assign(const struct option_row *rows, void *base, const char *settings)
{
  fixture_assign_section("", rows, base, settings);
}

/* The options of the model's feed-forward block; the caller frees them. */
static inline void *fixture_ffn(const struct model_options *o, const char *settings)
{
  const struct ffn *ffn = ffn_find(o->ffn);
  if (!ffn || !ffn->options) return NULL;
  void *options = memory_new(1, ffn->options_size);
  option_defaults(ffn->options, options);
  fixture_assign_section(ffn->name, ffn->options, options, settings);
  return options;
}

/* What each attention variant wants in a small model; one that wants nothing needs no row. */
static inline const char *fixture_wants(const char *attention)
{
  if (!strcmp(attention, "gqa")) return "kv_heads=2 ";
  return strcmp(attention, "mla") ? "" : "q_rank=10 kv_rank=8 rope_dim=4 value_dim=6 ";
}

/* bias=1 where the variant has biases. */
static inline const char *fixture_bias(const char *attention)
{
  return strcmp(attention, "mla") ? "bias=1 " : "";
}

/* The default options of a model with the settings on top, unresolved. */
static inline struct model_options fixture_options(const char *settings)
{
  struct model_options o = {0};
  option_defaults(model_rows, &o);
  fixture_assign(model_rows, &o, settings);
  return o;
}

/* "qk_norm kind=l2; qk_clip tau=3" */
static inline void fixture_stack(struct fixture *f, const char *stack)
{
  char *copy = memory_text(stack), *state = NULL;
  for (char *part = strtok_r(copy, ";", &state); part; part = strtok_r(NULL, ";", &state)) {
    part += strspn(part, " ");
    size_t length = strcspn(part, " ");
    const char *settings = part[length] ? part + length + 1 : "";
    part[length] = 0;
    const struct stabilizer *s = stabilizer_find(part);
    ck_assert_msg(s != NULL, "no stabilizer %s", part);
    void *options = memory_new(1, s->options_size + 1);
    if (s->options) {
      option_defaults(s->options, options);
      fixture_assign(s->options, options, settings);
    }
    f->stack[f->stacked] = s;
    f->options[f->stacked++] = options;
  }
  memory_free(copy);
}

static inline void fixture_close(struct fixture *f)
{
  if (f->model.device) model_free(&f->model);
  for (int i = 0; i < f->stacked; i++) memory_free(f->options[i]);
  device_close(f->device);
  memory_free(f->ffn_options);
  memory_free(f);
}

/* NULL, with the message, where the model or the stack is refused. `extra` (may be NULL) goes last in the
   stack. */
static inline struct fixture *fixture_on(const char *device, int threads, const char *settings,
                                         const char *stack, const struct stabilizer *extra, struct error *e)
{
  struct fixture *f = memory_new(1, sizeof *f);
  struct model_options o = fixture_options(settings);
  o.ffn_options = f->ffn_options = fixture_ffn(&o, settings);
  ck_assert_int_eq(device_open(&f->device, device, threads, e), STATUS_OK);
  fixture_stack(f, stack);
  if (extra) f->stack[f->stacked++] = extra;
  if (model_resolve(&o, 1, e) ||
      model_init(&f->model, &o, f->device, f->stack, (const void *const *)f->options, f->stacked, e)) {
    f->model.device = NULL;
    fixture_close(f);
    return NULL;
  }
  struct program *clear = program_new(f->device);
  report_record_clear(f->model.report, clear);
  program_plan(clear);
  program_run(clear);
  program_free(clear);
  params_draw(&f->model.params, 1);
  model_begin(&f->model);
  return f;
}

static inline struct fixture *fixture_try(const char *settings, const char *stack,
                                          const struct stabilizer *extra, struct error *e)
{
  return fixture_on("reference", 1, settings, stack, extra, e);
}

static inline struct fixture *fixture_open_on(const char *device, const char *settings, const char *stack,
                                              const struct stabilizer *extra)
{
  struct error e = {0};
  struct fixture *f = fixture_on(device, 1, settings, stack, extra, &e);
  ck_assert_msg(f != NULL, "%s", e.text);
  return f;
}

static inline struct fixture *fixture_open(const char *settings, const char *stack,
                                           const struct stabilizer *extra)
{
  return fixture_open_on("reference", settings, stack, extra);
}

/* --- device memory, by download and upload alone ------------------------------------------------------- */

static inline size_t fixture_bytes(const struct tensor *t)
{
  return (size_t)(t->rows * t->cols) * (t->type == TENSOR_INT ? sizeof(int) : sizeof(real));
}

/* What a tensor of one block holds; the caller frees it. */
static inline real *fixture_copy(const struct fixture *f, const struct tensor *t)
{
  real *host = memory_new(1, fixture_bytes(t));
  ck_assert(t->ld == t->cols || t->rows == 1);
  f->device->download(f->device, host, t->data, fixture_bytes(t));
  return host;
}

static inline void fixture_put(const struct fixture *f, struct tensor *t, const void *host)
{
  f->device->upload(f->device, t->data, host, fixture_bytes(t));
}

static inline double fixture_at(const struct fixture *f, const struct tensor *t, long i)
{
  real x;
  f->device->download(f->device, &x, REALS(t) + i, sizeof x);
  return (double)x;
}

static inline void fixture_put_at(const struct fixture *f, struct tensor *t, long i, double value)
{
  real x = (real)value;
  f->device->upload(f->device, REALS(t) + i, &x, sizeof x);
}

/* t[i] *= c for i in [from, to) */
static inline void fixture_scale(const struct fixture *f, struct tensor *t, long from, long to, double c)
{
  real *host = fixture_copy(f, t);
  for (long i = from; i < to; i++) host[i] *= (real)c;
  fixture_put(f, t, host);
  memory_free(host);
}

/* Gains, biases and scalars away from their neutral starts: values += size N(0,1), by tensor. */
static inline void fixture_shake(struct fixture *f, double size)
{
  for (int i = 0; i < f->model.params.count; i++) {
    struct tensor *t = &f->model.params.list[i]->value;
    real *host = fixture_copy(f, t);
    for (long j = 0; j < t->rows * t->cols; j++)
      host[j] += (real)(size * draw_normal((struct draw){3, STREAM_TEST, (uint64_t)i}, (uint64_t)j));
    fixture_put(f, t, host);
    memory_free(host);
  }
}

/* --- hooks ---------------------------------------------------------------------------------------------- */

typedef void fixture_hook(struct stabilizer_context *, struct program *);

/* Record the hook of stabilizer i, run it at this moment, read the report. */
static inline void fixture_run(struct fixture *f, int i, fixture_hook *hook, const struct step_scalars *now)
{
  struct program *p = program_new(f->device);
  hook(&f->model.context[i], p);
  program_plan(p);
  scalars_upload(f->model.numbers, now);
  program_run(p);
  program_free(p);
  report_read(f->model.report);
}

/* Column `column` of what the step is said to have seen, [L*H]: 0 signed maxima, 1 absolute ones. */
static inline void fixture_seen(struct fixture *f, int column, const real *maxima)
{
  struct tensor *stats = f->model.step.stats;
  for (long n = 0; n < stats->rows; n++)
    fixture_put_at(f, stats, n * stats->cols + column, (double)maxima[n]);
}

/* Series s of stabilizer i as it was read last. */
static inline const real *fixture_series(const struct fixture *f, int i, int s)
{
  return report_of(f->model.report, f->model.context[i].series[s]);
}

/* How many values of the series are the sign of an event of this kind, as the trainer decides it. */
static inline int fixture_events(const struct fixture *f, int i, enum series_event kind)
{
  int n = 0;
  const struct series *emits = f->model.stabilizer[i]->emits;
  for (int s = 0; emits && emits[s].name; s++)
    for (long k = 0; emits[s].event == kind && k < f->model.context[i].series[s]->cols; k++) {
      double value = (double)fixture_series(f, i, s)[k];
      n += kind == EVENT_CLIP ? value < 1 : !isfinite(value);
    }
  return n;
}

static inline struct model_program fixture_program(struct fixture *f, long batch, long context, int backward)
{
  struct model_program mp;
  model_program_init(&f->model, &mp, batch, context, backward, NULL, 1);
  long vocab = f->model.options.vocab;
  struct tensor *const inputs[] = {mp.tokens, mp.targets};
  int *drawn = memory_new((size_t)(batch * context), sizeof *drawn);
  for (uint64_t k = 0; k < 2; k++) {
    for (long i = 0; i < batch * context; i++)
      drawn[i] = (int)draw_below((struct draw){5, STREAM_TEST, k}, (uint64_t)i, (uint64_t)vocab);
    fixture_put(f, inputs[k], drawn);
  }
  real *weight = memory_new((size_t)(batch * context), sizeof *weight);
  for (uint64_t k = 0; mp.ahead && k < (uint64_t)f->model.options.mtp; k++) {
    for (long i = 0; i < batch * context; i++) {
      drawn[i] = (int)draw_below((struct draw){5, STREAM_TEST, k + 2}, (uint64_t)i, (uint64_t)vocab);
      weight[i] = (real)(0.1 * (double)((i + (long)k) % 4));
    }
    fixture_put(f, mp.ahead[k].targets, drawn);
    fixture_put(f, mp.ahead[k].weight, weight);
  }
  memory_free(drawn), memory_free(weight);
  return mp;
}

/* Two documents in every row, the second from position `cut` on; targets of some rows masked. */
static inline void fixture_pack(const struct fixture *f, struct model_program *mp, long cut)
{
  long n = mp->batch * mp->context;
  struct device *device = program_device(mp->program);
  int *start = memory_new((size_t)n, sizeof *start), *position = memory_new((size_t)n, sizeof *position);
  int *end = memory_new((size_t)n, sizeof *end), *window = memory_new((size_t)n, sizeof *window);
  real *weight = memory_new((size_t)n, sizeof *weight);
  for (long i = 0; i < n; i++) {
    long t = i % mp->context;
    struct row_range r =
      model_row_range(&f->model.options, t, t < cut ? 0 : cut, t < cut ? cut : mp->context);
    start[i] = r.start, end[i] = r.end, window[i] = r.window;
    position[i] = (int)(t < cut ? t : t - cut);
    weight[i] = (real)(i % 5 == 1 ? 0 : 0.01 * (double)(i + 1));
  }
  device->upload(device, mp->start->data, start, (size_t)n * sizeof *start);
  if (mp->end) device->upload(device, mp->end->data, end, (size_t)n * sizeof *end);
  if (mp->window) device->upload(device, mp->window->data, window, (size_t)n * sizeof *window);
  device->upload(device, mp->position->data, position, (size_t)n * sizeof *position);
  device->upload(device, mp->weight->data, weight, (size_t)n * sizeof *weight);
  memory_free(start), memory_free(position), memory_free(weight);
  memory_free(end), memory_free(window);
}

/* What the reverse pass differentiates: cross-entropy, z term, losses of balance and of modules that look ahead. */
static inline double fixture_loss(const struct fixture *f, struct model_program *mp)
{
  const struct model_options *o = &f->model.options;
  real loss[2];
  double balance = 0;
  struct device *device = program_device(mp->program);
  program_run(mp->program);
  device->download(device, loss, mp->loss->data, sizeof loss);
  for (long l = 0; mp->routes && l < mp->routes->rows; l++) {
    real own;
    long at = (l + 1) * mp->routes->cols - 2;
    device->download(device, &own, REALS(mp->routes) + at, sizeof own);
    balance += (double)own;
  }
  for (long k = 0; mp->ahead && k < o->mtp; k++) {
    real own[2];
    device->download(device, own, mp->ahead[k].loss->data, sizeof own);
    balance += o->mtp_weight / (double)o->mtp * (double)own[0];
  }
  return (double)loss[0] + (double)loss[1] + balance;
}

#endif
