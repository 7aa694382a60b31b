/* check_presets.c - every preset: what its row says is there, it trains, and a run of it has the same bits when it
   is computed together with another, which goes on from a checkpoint */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../folder.h"
#include "run/drive.h"
#include "run/batched_run.h"
#include "../same_run.h"
#include "../spoiled.h"
#include "config/preset.h"

enum { STEPS = 5, KEPT = 3 };

static char dir[FOLDER_PATH];

static const char *path_of(char path[128], const char *name)
{
  snprintf(path, 128, "%s/%s.h5", dir, name);
  return path;
}

static struct config *config_of(const char *preset, const char *name, const char *seed)
{
  static const char *const small[] = {
    "train.steps=5",        "train.warmup=2",     "train.lr=0.03",       "train.batch=2",
    "model.context=12",     "train.val_every=3",  "train.val_batches=1", "record.spectra_every=3",
    "record.batches=1",     "checkpoint.every=3", "checkpoint.keep=all", "checkpoint.seconds=0",
    "record.probe_every=2", "device.threads=1"};
  struct config *c = config_new();
  struct error e = {0};
  char path[128];
  ck_assert_msg(!config_set(c, "preset", preset, "test", &e), "%s", e.text);
  for (size_t i = 0; i < sizeof small / sizeof *small; i++)
    ck_assert_msg(!config_assign(c, small[i], &e), "%s", e.text);
  ck_assert_msg(!config_set(c, "train.seed", seed, "test", &e), "%s", e.text);
  ck_assert_msg(!config_set(c, "record.path", path_of(path, name), "test", &e), "%s", e.text);
  ck_assert_msg(!config_finish(c, &e), "%s", e.text);
  return c;
}

static struct trainer *begun(struct config *c)
{
  struct trainer *t;
  struct error e = {0};
  ck_assert_msg(!trainer_init(&t, c, 0, &e), "%s", e.text);
  return t;
}

static void same(const char *preset, const char *name, const char *other)
{
  char a[128], b[128];
  int datasets = 0;
  ck_assert_msg(!same_run(path_of(a, name), path_of(b, other), 1, &datasets, stderr), "%s: %s is not %s",
                preset, other, name);
  ck_assert_int_gt(datasets, 20);
}

/* All steps, and every head's logits. */
static void check_run(const char *preset, const char *name)
{
  struct run_file *r;
  struct run_series loss, max;
  struct error e = {0};
  char path[128];
  ck_assert_msg(!run_open(&r, path_of(path, name), &e), "%s", e.text);
  ck_assert_str_eq(run_state(r), "finished");
  ck_assert_str_eq(run_parameter(r, "preset"), preset);
  ck_assert_msg(!run_read(r, "loss", &loss, &e), "%s", e.text);
  ck_assert_msg(!run_read(r, "attn/max_logit", &max, &e), "%s", e.text);
  ck_assert_int_eq(loss.rows, STEPS);
  for (long i = 0; i < loss.rows; i++) ck_assert(isfinite(loss.value[i]));
  for (long i = 0; i < max.rows * max.width; i++) ck_assert(isfinite(max.value[i]));
  run_series_free(&loss);
  run_series_free(&max);
  run_close(r);
}

START_TEST(trains_resumes_and_shares_a_launch)
{
  const char *preset = presets[_i].name;
  struct error e = {0};
  char path[128];
  folder_make(dir);

  struct config *c[2] = {config_of(preset, "one", "1"), config_of(preset, "two", "2")};
  for (int i = 0; i < 2; i++) ck_assert_msg(!drive(begun(c[i]), 0, NULL, NULL, &e), "%s", e.text);
  for (int i = 0; i < 2; i++) config_free(c[i]);
  check_run(preset, "one");

  /* left after the checkpoint as by a kill */
  struct config *broken = config_of(preset, "parts", "2");
  struct trainer *t = begun(broken);
  for (int i = 0; i < KEPT + 1; i++) ck_assert_msg(!trainer_step(t, &e), "%s", e.text);
  trainer_abandon(t);
  config_free(broken);
  struct batched_run run[2] = {{.config = config_of(preset, "first", "1")}, {.path = path_of(path, "parts")}};
  batched_run_drive(run, 2, 2, NULL);
  for (int i = 0; i < 2; i++) ck_assert_msg(!run[i].status, "%s", run[i].error.text);
  config_free(run[0].config);
  ck_assert_int_eq(spoiled_loads, 1);
  same(preset, "one", "first");
  same(preset, "two", "parts");

  folder_remove(dir);
}
END_TEST

static int is_key(const char *what)
{
  char name[96];
  for (const struct config_section *s = config_sections(); s->rows; s++)
    for (const struct option_row *row = s->rows; row->name; row++) {
      snprintf(name, sizeof name, "%s%s%s", s->prefix, *s->prefix ? "." : "", row->name);
      if (!strcmp(name, what)) return 1;
    }
  return 0;
}

/* "7168 (64 times)" is 112 here; of these keys a number alone is the model's own. */
static void check_number(const struct preset *p, const struct preset_fact *f)
{
  static const char *const kept[] = {
    "model.rope_base",  "model.norm_eps", "model.tied",  "model.bias",         "model.mtp",
    "model.mtp_weight", "moe.shared",     "moe.aux",     "train.weight_decay", "train.decay_gains",
    "train.grad_clip",  "qk_clip.tau",    "soft_cap.cap"};
  char *end;
  int len, is_kept = 0;
  const double original = strtod(f->original, &end),
               times = strncmp(end, " (", 2) ? 0 : strtod(end + 2, NULL);
  const char *here = f->here ? NULL : preset_setting(p, f->what, &len);
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) is_kept |= !strcmp(f->what, kept[i]);
  if (!here || end == f->original || !(times > 0 || is_kept)) return;
  ck_assert_msg(strtod(here, NULL) == original / (times > 0 ? times : 1),
                "%s: %s is %.*s here, %s in the model", p->name, f->what, len, here, f->original);
}

/* A twin's facts are of keys that there are, unless they say themselves what is here. */
START_TEST(rows_are_whole)
{
  const struct preset *p = &presets[_i];
  int len;
  ck_assert_msg(p->help && *p->help && p->source && *p->source, "%s", p->name);
  for (const struct preset_fact *f = p->originals; f && f->what; f++) {
    ck_assert_msg(f->original && *f->original, "%s: %s", p->name, f->what);
    ck_assert_msg(is_key(f->what) == !f->here, "%s: %s", p->name, f->what);
    ck_assert_msg(!f->here || !preset_setting(p, f->what, &len), "%s: %s", p->name, f->what);
    check_number(p, f);
  }
}
END_TEST

int main(void)
{
  int count = 0;
  while (presets[count].name) count++;
  Suite *suite = suite_create("presets");
  TCase *k = tcase_create("rows");
  tcase_set_timeout(k, 120);
  tcase_add_loop_test(k, rows_are_whole, 0, count);
  tcase_add_loop_test(k, trains_resumes_and_shares_a_launch, 0, count);
  suite_add_tcase(suite, k);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed > 0;
}
