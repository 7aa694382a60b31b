/* A number of the configuration (a rate, a threshold, a cap) enters a recorded call as a tensor, never as a constant
   of the program: runs that differ in nothing else are the same program. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "run/trainer.h"
#include "../configuration.h"

/* --- a device that notes which calls it does, with their constants -------------------------------------------- */

static struct ops plain;
static uint64_t noted;
static int depth; /* what an operation is composed of is its own affair */

static void note(enum op op, const void *args)
{
  int count;
  const struct op_field *field = op_fields(op, &count);
  noted = XXH3_64bits_withSeed(&op, sizeof op, noted);
  for (int i = 0; i < count; i++)
    if (field[i].kind == FIELD_SIZE || field[i].kind == FIELD_SCALAR)
      noted = XXH3_64bits_withSeed((const char *)args + 8 * i, 8, noted);
}

#define OP(name, what, fields) \
  static void noted_##name(struct device *d, const struct name##_args *args) \
  { \
    if (!depth++) note(OP_##name, args); \
    plain.name(d, args); \
    depth--; \
  }
#include "numerics/ops.def"
#undef OP
static const struct ops noting = {
#define OP(name, what, fields) .name = noted_##name,
#include "numerics/ops.def"
#undef OP
};

/* --- every number of the options of these runs ------------------------------------------------------------------ */

#define SMALL \
  "model.width=8 model.heads=2 model.layers=1 model.context=8 train.batch=2 train.steps=4 " \
  "train.val_batches=1 " \
  "train.val_every=1 device.threads=1 model.z_loss=0.1 record.level=0.1 record.pairs=1 " \
  "record.probe_every=1 " \
  "checkpoint.every=0 train.grad_clip=0.01 override.lr=w_q:0.5 override.weight_decay=w_k:3 "

static const char *const runs[] = {
  "optimizer=muon stabilizers=qk_clip+soft_cap+quack qk_clip.tau=0.001 soft_cap.cap=3",
  "optimizer=sgd stabilizers=hard_cap+spectral_decay hard_cap.cap=0.5 override.match=update_rms",
  "optimizer=adam stabilizers=spectral_clip+max_output_clip spectral_clip.method=msign "
  "spectral_clip.bound=1e-3 "
  "max_output_clip.tau=1e-3",
  "optimizer=adam stabilizers=qk_norm+sigma_reparam train.decay=independent",
};
enum { RUNS = sizeof runs / sizeof *runs };

static struct config *configured(const char *settings) { return configuration("%s %s", SMALL, settings); }

/* The calls of two steps. */
static uint64_t calls_of(struct config *c)
{
  struct trainer *t;
  struct error e = {0};
  ck_assert_msg(!trainer_init(&t, c, TRAINER_NO_RECORD, &e), "%s", e.text);
  struct ops *ops = &trainer_device(t)->ops;
  plain = *ops;
  *ops = noting;
  noted = 0;
  for (int i = 0; i < 2; i++) ck_assert_msg(!trainer_step(t, &e), "%s", e.text);
  trainer_abandon(t);
  config_free(c);
  return noted;
}

struct walk {
  const char *run;
  uint64_t calls;
  int numbers;
};

static int try_key(void *context, const struct config_entry *x)
{
  struct walk *w = context;
  char changed[256], settings[1024];
  if (!x->used || x->row->type != OPTION_REAL) return 0;
  const double old = strtod(x->value, NULL), more = old * 1.0625 + (old == 0);
  if (!strcmp(x->key, "train.max_time")) return 0;
  snprintf(changed, sizeof changed, "%.17g", more <= x->row->max ? more : old * 0.9375);
  snprintf(settings, sizeof settings, "%s %s=%s", w->run, x->key, changed);
  ck_assert_msg(calls_of(configured(settings)) == w->calls, "%s: %s=%s is in a call's constants", w->run,
                x->key, changed);
  w->numbers++;
  return 0;
}

START_TEST(numbers_are_no_constants)
{
  struct walk w = {.run = runs[_i], .calls = calls_of(configured(runs[_i]))};
  struct config *c = configured(runs[_i]);
  char other[1024];
  config_each(c, try_key, &w);
  config_free(c);
  ck_assert_int_gt(w.numbers, 12);
  snprintf(other, sizeof other, "%s model.width=12", runs[_i]); /* and structure is seen */
  ck_assert(calls_of(configured(other)) != w.calls);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("numbers");
  TCase *tests = tcase_create("numbers");
  tcase_set_timeout(tests, 120);
  tcase_add_loop_test(tests, numbers_are_no_constants, 0, RUNS);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
