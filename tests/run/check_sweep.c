/* check_sweep.c - the plan of a sweep: every point sound and named as its run, for little work */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/file.h"
#include "base/memory.h"
#include "base/thread.h"
#include "../gpu_here.h"
#include "run/sweep.h"
#include "run/trainer.h"

static struct config *configured(const char *const *settings)
{
  struct config *c = config_new();
  struct error e = {0};
  for (; *settings; settings++) ck_assert_msg(!config_assign(c, *settings, &e), "%s", e.text);
  return c;
}

static void plan(struct sweep *s, const struct config *c, long shard, long shards)
{
  struct error e = {0};
  ck_assert_msg(!sweep_plan(s, c, "check_sweep.none", shard, shards, &e), "%s", e.text);
}

static void write_text(const char *path, const char *text)
{
  struct error e = {0};
  ck_assert_msg(!file_write(path, text, strlen(text), &e), "%s", e.text);
}

/* A list of everything that can change an id: structure, rates, seeds, the text. */
START_TEST(ids_are_those_of_the_trainers)
{
  char text[2][64] = {"/tmp/check_sweep.XXXXXX", "/tmp/check_sweep.XXXXXX"}, paths[160];
  for (int i = 0; i < 2; i++) ck_assert_int_ge(mkstemp(text[i]), 0);
  write_text(text[0],
             "the quick brown fox jumps over the lazy dog; the quick brown fox jumps over the lazy dog");
  write_text(text[1],
             "pack my box with five dozen liquor jugs; pack my box with five dozen liquor jugs, please");
  snprintf(paths, sizeof paths, "data.path=%s,%s", text[0], text[1]);
  const char *const settings[] = {
    "model.context=4",           "model.layers=1",    "data=markov,bytes", paths,
    "preset=adam,muonclip",      "model.width=16,32", "model.heads=2",     "train.lr=0.01,0.02",
    "data.val_fraction=0.2,0.3", "qk_clip.tau=20",    "train.seed=1,2",    NULL};
  struct config *c = configured(settings);
  struct sweep s;
  struct error e = {0};
  plan(&s, c, 1, 1);
  ck_assert_int_eq(s.count + s.doubles, 128);
  ck_assert_int_eq(s.count, 32 + 64); /* markov does not know the text */
  for (long i = 0; i < s.count; i++) {
    struct config *point = config_point(c, s.points[i].index);
    struct trainer *t;
    ck_assert(!config_finish(point, &e));
    ck_assert_msg(!trainer_init(&t, point, TRAINER_NO_RECORD, &e), "%s", e.text);
    ck_assert_msg(!strcmp(trainer_id(t), s.points[i].id), "%s: %s, not %s", s.points[i].label, s.points[i].id,
                  trainer_id(t));
    ck_assert_int_eq(trainer_status(t).steps, s.points[i].steps);
    trainer_abandon(t);
    config_free(point);
    for (long k = 0; k < i; k++) ck_assert_str_ne(s.points[k].id, s.points[i].id);
  }
  sweep_free(&s);
  config_free(c);
  for (int i = 0; i < 2; i++) unlink(text[i]);
}
END_TEST

/* Two values of every option of every source: other data, and other runs, whose ids are those of their trainers. */
START_TEST(options_of_sources_tell_data_apart)
{
  static const char *const cases[][3] = {
    {"data=markov", "markov.symbols=32,48", NULL},  {"data=markov", "markov.branches=4,5", NULL},
    {"data=markov", "markov.exponent=1,1.5", NULL}, {"data=markov", "markov.lag=2,3", NULL},
    {"data=markov", "markov.classes=2,3", NULL},    {"data=markov", "markov.language=1,2", NULL},
    {"data=copy", "copy.symbols=32,48", NULL},      {"data=copy", "copy.distinct=0,1", NULL},
    {"data=recall", "recall.symbols=32,48", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct config *c = configured(cases[i]);
    struct sweep s;
    struct error e = {0};
    plan(&s, c, 1, 1);
    ck_assert_int_eq(s.count, 2);
    for (long p = 0; p < 2; p++) {
      struct config *point = config_point(c, p);
      struct trainer *t;
      ck_assert(!config_finish(point, &e) && !trainer_init(&t, point, TRAINER_NO_RECORD, &e));
      ck_assert_msg(!strcmp(trainer_id(t), s.points[p].id), "%s: not the id of its trainer",
                    s.points[p].label);
      trainer_abandon(t);
      config_free(point);
    }
    sweep_free(&s);
    config_free(c);
  }
}
END_TEST

static int count_key(void *context, const struct config_entry *x)
{
  (void)x;
  ++*(long *)context;
  return 0;
}

/* Seeds and rates cost no trainer: no device, no weights, no text. A part of the sweep costs its part. */
START_TEST(a_plan_is_little_work)
{
  const char *const few[] = {"model.width=256", "train.lr=1e-3:1e-1:log:10", "train.seed=1,2", NULL};
  const char *const many[] = {"model.width=256", "train.lr=1e-3:1e-1:log:10", "train.seed=1:100:lin:100",
                              NULL};
  struct config *a = configured(few), *b = configured(many);
  struct sweep s;
  size_t before = memory_calls();
  plan(&s, a, 1, 1);
  size_t for_few = memory_calls() - before;
  ck_assert_int_eq(s.count, 20);
  ck_assert_int_eq(s.trainers, 1);
  sweep_free(&s);
  before = memory_calls();
  plan(&s, b, 1, 1);
  size_t for_many = memory_calls() - before;
  ck_assert_int_eq(s.count, 1000);
  ck_assert_int_eq(s.trainers, 1);
  sweep_free(&s);
  printf("calls of the allocator: 20 points %zu, 1000 points %zu\n", for_few, for_many);
  long keys = 0;
  config_each(b, count_key, &keys);
  ck_assert_uint_le((for_many - for_few) / 980,
                    (size_t)(keys + keys / 2)); /* the configuration's own pieces */
  before = memory_calls();
  plan(&s, b, 3, 50);
  ck_assert_int_eq(s.count, 20);
  ck_assert_int_eq(s.points[1].index, 52);
  ck_assert_uint_le(memory_calls() - before, for_few + for_few / 10);
  sweep_free(&s);
  config_free(a);
  config_free(b);
}
END_TEST

/* Of 50 million weights none is drawn: their pages are never touched. */
START_TEST(a_plan_draws_no_weights)
{
  static const char *const settings[] = {"model.width=1024", "model.layers=4",   "model.context=16",
                                         "train.batch=1",    "device.threads=1", NULL};
  struct config *c = configured(settings);
  struct rusage before, after;
  struct sweep s;
  getrusage(RUSAGE_SELF, &before);
  plan(&s, c, 1, 1);
  getrusage(RUSAGE_SELF, &after);
  ck_assert_int_eq(s.trainers, 1);
#ifndef __SANITIZE_ADDRESS__                                      /* which touches what it allocates */
  ck_assert_int_lt(after.ru_maxrss - before.ru_maxrss, 50 << 10); /* kB of 200000 */
#endif
  sweep_free(&s);
  config_free(c);
}
END_TEST

/* What a trainer would refuse is refused by the plan, with the point's name. */
START_TEST(an_unsound_point_is_named)
{
  static const struct {
    const char *settings[6], *what;
  } cases[] = {
    {{"model.heads=2,4,5", "train.lr=1,2", NULL}, "point 5 (model.heads=5 train.lr=1)"},
    {{"train.batch=8,6", "train.micro_batches=4", NULL}, "point 2 (train.batch=6)"},
    {{"stabilizers=qk_norm,soft_cap+hard_cap", NULL}, "both cap"},
    {{"override.lr=w_q:0.5,w_z:0.5", NULL}, "no tensor matches"},
    {{"train.plant=*:0:2,9:0:2", NULL}, "train.plant"},
    {{"data=markov,bytes", NULL}, "data.path"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct config *c = configured(cases[i].settings);
    struct sweep s;
    struct error e = {0};
    ck_assert_int_eq(sweep_plan(&s, c, "check_sweep.none", 1, 1, &e), STATUS_USAGE);
    ck_assert_msg(strstr(e.text, cases[i].what) && strstr(e.text, "point "), "%s", e.text);
    sweep_free(&s);
    config_free(c);
  }
}
END_TEST

/* One GPU takes one launch of many runs, whose batches and files the cores make; processors a run each. The plan has
   not looked at the GPU itself: workers can use it. */
START_TEST(the_machine_is_shared)
{
  struct sweep s;
  const char *settings[] = {"device=cpu",
                            "model.width=8",
                            "model.heads=2",
                            "model.layers=1",
                            "train.batch=1",
                            "model.context=4",
                            "train.seed=1:300:lin:300",
                            NULL,
                            NULL};
  long cores = thread_cores();
  struct config *c = configured(settings);
  plan(&s, c, 1, 1);
  sweep_share(&s);
  ck_assert(s.together == 1 && s.threads == 1 && s.jobs == cores);
  sweep_free(&s);
  config_free(c);
  if (*gpu_here().lacks) return;
  settings[0] = "device=cuda";
  c = configured(settings);
  plan(&s, c, 1, 1);
  sweep_share(&s);
  ck_assert(s.together == 128 && s.jobs == 1 && s.threads == (cores < 128 ? cores : 128));
  ck_assert_int_eq(s.trainers, 1);
  struct gpu gpu = gpu_here();
  ck_assert_msg(!*gpu.lacks, "%s", gpu.lacks);
  sweep_free(&s);
  config_free(c);
  settings[7] = "device.threads=1"; /* leaves cores, but no other GPU */
  c = configured(settings);
  plan(&s, c, 1, 1);
  sweep_share(&s);
  ck_assert(s.threads == 1 && s.jobs == 1);
  sweep_free(&s);
  config_free(c);
}
END_TEST

/* `context`: does another point fail? */
static void stop_at_the_first(void *context, const struct sweep *s, long point)
{
  if (point < 0 || s->points[point].fate != SWEEP_FINISHED) return;
  if (*(int *)context) s->points[(point + 1) % 3].fate = SWEEP_FAILED;
  raise(SIGTERM);
}

/* A sweep that is told to stop when a point is done, and the others have not begun, is not done; with one that has
   failed, it has failed. */
START_TEST(stopped_between_points)
{
  char folder[] = "/tmp/check_sweep.XXXXXX", dir[64];
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(dir, sizeof dir, "sweep.dir=%s", folder);
  const char *const settings[] = {"model.width=8",
                                  "model.heads=2",
                                  "model.layers=1",
                                  "train.batch=1",
                                  "model.context=4",
                                  "train.steps=2",
                                  "train.seed=1,2,3",
                                  dir,
                                  NULL};
  struct config *c = configured(settings);
  struct sweep s;
  struct error e = {0};
  plan(&s, c, 1, 1);
  s.jobs = 1, s.look = stop_at_the_first, s.context = &_i;
  ck_assert_int_eq(sweep_run(&s, &e), _i ? STATUS_FAIL : STATUS_STOPPED);
  long done = 0;
  for (long i = 0; i < 3; i++) {
    done += s.points[i].fate == SWEEP_FINISHED;
    ck_assert(_i || s.points[i].fate == SWEEP_FINISHED || s.points[i].fate == SWEEP_WAITING);
  }
  ck_assert_int_eq(done, 1);
  sweep_free(&s);
  config_free(c);
  snprintf(dir, sizeof dir, "rm -rf %s", folder);
  ck_assert_int_eq(system(dir), 0);
}
END_TEST

int main(void)
{
  gpu_twin();
  Suite *suite = suite_create("sweep");
  TCase *k = tcase_create("plan");
  tcase_set_timeout(k, 300);
  tcase_add_test(k, ids_are_those_of_the_trainers);
  tcase_add_test(k, options_of_sources_tell_data_apart);
  tcase_add_loop_test(k, stopped_between_points, 0, 2);
  tcase_add_test(k, a_plan_is_little_work);
  tcase_add_test(k, a_plan_draws_no_weights);
  tcase_add_test(k, an_unsound_point_is_named);
  tcase_add_test(k, the_machine_is_shared);
  suite_add_tcase(suite, k);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed > 0;
}
