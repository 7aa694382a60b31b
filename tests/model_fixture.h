/* model_fixture.h - a small model with random tokens, for the tests of models and stabilisers */
#ifndef MAXLOGIT_MODEL_FIXTURE_H
#define MAXLOGIT_MODEL_FIXTURE_H
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/random.h"
#include "model/model.h"

enum { FIXTURE_EVENTS = 256 };
struct fixture_event {
  char kind[24];
  int layer, head;
  double value;
};

struct fixture {
  struct device *device;
  struct model model;
  const struct stabilizer *stack[MAX_STABILIZERS];
  void *options[MAX_STABILIZERS];
  int stacked;
  struct event_sink sink;
  struct fixture_event event[FIXTURE_EVENTS];
  int events;
};

static inline void fixture_put(void *context, const char *kind, int layer, int head, double value)
{
  struct fixture *f = context;
  ck_assert_int_lt(f->events, FIXTURE_EVENTS);
  struct fixture_event *e = &f->event[f->events++];
  *e = (struct fixture_event){.layer = layer, .head = head, .value = value};
  strncpy(e->kind, kind, sizeof e->kind - 1);
}

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

/* "width=12 bias=1" into the fields that `rows` describe in `base`. */
static inline void fixture_assign(const struct option_row *rows, void *base, const char *settings)
{
  char *copy = memory_text(settings), *state = NULL;
  for (char *word = strtok_r(copy, " ", &state); word; word = strtok_r(NULL, " ", &state)) {
    char *value = strchr(word, '=');
    ck_assert_ptr_nonnull(value);
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
    ck_assert_msg(s != NULL, "no stabiliser %s", part);
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
  memory_free(f);
}

/* NULL, with the message, where the model or the stack is refused. `extra` (may be NULL) goes last in the
   stack. */
static inline struct fixture *fixture_on(const char *device, int threads, const char *settings,
                                         const char *stack, const struct stabilizer *extra, struct error *e)
{
  struct fixture *f = memory_new(1, sizeof *f);
  struct model_options o = fixture_options(settings);
  ck_assert_int_eq(device_open(&f->device, device, threads, e), STATUS_OK);
  fixture_stack(f, stack);
  if (extra) f->stack[f->stacked++] = extra;
  if (model_resolve(&o, 1, e) ||
      model_init(&f->model, &o, f->device, f->stack, (const void *const *)f->options, f->stacked, e)) {
    f->model.device = NULL;
    fixture_close(f);
    return NULL;
  }
  params_draw(&f->model.params, 1);
  model_begin(&f->model);
  f->sink = (struct event_sink){fixture_put, f};
  for (int i = 0; i < f->stacked; i++) f->model.context[i].events = &f->sink;
  return f;
}

static inline struct fixture *fixture_try(const char *settings, const char *stack,
                                          const struct stabilizer *extra, struct error *e)
{
  return fixture_on("reference", 1, settings, stack, extra, e);
}

static inline struct fixture *fixture_open(const char *settings, const char *stack,
                                           const struct stabilizer *extra)
{
  struct error e = {0};
  struct fixture *f = fixture_try(settings, stack, extra, &e);
  ck_assert_msg(f != NULL, "%s", e.text);
  return f;
}

/* Gains, biases and scalars away from their neutral starts: values += size N(0,1), by tensor. */
static inline void fixture_shake(struct fixture *f, double size)
{
  for (int i = 0; i < f->model.params.count; i++) {
    struct tensor *t = &f->model.params.list[i]->value;
    for (long j = 0; j < t->rows * t->cols; j++)
      REALS(t)[j] += (real)(size * draw_normal((struct draw){3, STREAM_TEST, (uint64_t)i}, (uint64_t)j));
  }
}

static inline struct model_program fixture_program(struct fixture *f, long batch, long context, int backward)
{
  struct model_program mp;
  struct error e = {0};
  ck_assert_int_eq(model_program_init(&f->model, &mp, batch, context, backward, &e), STATUS_OK);
  long vocab = f->model.options.vocab;
  for (long i = 0; i < batch * context; i++) {
    INTS(mp.tokens)[i] = (int)draw_below((struct draw){5, STREAM_TEST, 0}, (uint64_t)i, (uint64_t)vocab);
    INTS(mp.targets)[i] = (int)draw_below((struct draw){5, STREAM_TEST, 1}, (uint64_t)i, (uint64_t)vocab);
  }
  return mp;
}

/* Two documents in every row, the second from position `cut` on; targets of some rows masked. */
static inline void fixture_pack(struct model_program *mp, long cut)
{
  for (long i = 0; i < mp->batch * mp->context; i++) {
    long t = i % mp->context;
    INTS(mp->start)[i] = (int)(t < cut ? 0 : cut);
    INTS(mp->position)[i] = (int)(t < cut ? t : t - cut);
    REALS(mp->weight)[i] = (real)(i % 5 == 1 ? 0 : 0.01 * (double)(i + 1));
  }
}

static inline double fixture_loss(struct model_program *mp)
{
  program_run(mp->program);
  return (double)REALS(mp->loss)[0] + (double)REALS(mp->loss)[1];
}

#endif
