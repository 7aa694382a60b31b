/* check_figures.c - the columns that a figure draws, against values worked out by hand from made-up runs */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "app/figure.h"
#include "base/file.h"
#include "base/memory.h"
#include "ledger/tuning.h"
#include "../configuration.h"
#include "storage/recorder.h"

/* --- runs of three steps: two seeds of Muon, one of Adam whose logits end in NaN, and some that diverged: a third seed
   of Muon, both of SGD ------------------------------------------------------------------------------------ */

enum { LAYERS = 2, HEADS = 2, STEPS = 3, RUNS = 6, TENSORS = 14 };
static const char *const tensors[TENSORS] = {
  "embed",
  "blocks.0.attn.w_dq",
  "blocks.0.attn.w_qc",
  "blocks.0.attn.w_qr",
  "blocks.0.attn.w_dkv",
  "blocks.0.attn.w_kc",
  "blocks.0.attn.w_kr",
  "blocks.0.attn.w_v",
  "blocks.0.attn.w_o",
  "blocks.0.ffn.experts.w_gate",
  "blocks.0.ffn.w_up",
  "blocks.0.ffn.w_down",
  "head",
  "blocks.0.ffn.w_router",
};
static const struct series series[] = {
  {"loss", PER_STEP, AXIS_STEP, "nat", "training loss", "made up", EVENT_NONE},
  {"attn/max_logit", PER_HEAD, AXIS_STEP, "1", "max logit", "made up", EVENT_NONE},
  {"val_loss", PER_STEP, AXIS_VAL, "nat", "validation loss", "made up", EVENT_NONE},
  {"weight/spectral_norm", PER_TENSOR, AXIS_SPECTRA, "1", "spectral norm", "made up", EVENT_NONE},
  {"weight/svd_entropy", PER_TENSOR, AXIS_SPECTRA, "1", "SVD entropy", "made up", EVENT_NONE},
  {"weight/stable_rank", PER_TENSOR, AXIS_SPECTRA, "1", "stable rank", "made up", EVENT_NONE},
};
enum { LOSS, MAX_LOGIT, VAL_LOSS, SPECTRAL_NORM, SVD_ENTROPY, STABLE_RANK, SERIES };

static const char *const settings[RUNS][2] = {
  {"optimizer=muon", "train.seed=1"}, {"optimizer=muon", "train.seed=2"}, {"optimizer=adam", "train.seed=1"},
  {"optimizer=muon", "train.seed=0"}, {"optimizer=sgd", "train.seed=4"},  {"optimizer=sgd", "train.seed=5"}};
enum { FIRST_DIVERGED = 3 };
static const float logits[RUNS][STEPS][LAYERS * HEADS] = {
  {{1, 2, 3, 8}, {8, 1, 1, 2}, {1, 9, 1, 1}},
  {{1, 2, 1, 1}, {2, 1, 1, 1}, {4, 1, 1, 1}},
  {{5, 1, 1, 1}, {1, 1, 7, 1}, {NAN, NAN, NAN, NAN}},
  {{100, 100, 100, 100}, {100, 100, 100, 100}, {100, 100, 100, 100}},
  {{2, 1, 1, 1}, {2, 1, 1, 1}, {1e9F, -1, NAN, 1}},
  {{8, 1, 1, 1}, {8, 1, 1, 1}, {8, 1, 1, 1}},
};
static const double loss[RUNS][STEPS] = {{3, 2, 1}, {5, 4, 3}, {6, 6, 6}, {90, 90, 90}, {7, 7, 7}, {9, 9, 9}};
static const double val_loss[RUNS] = {2, 4, 6, 90, 7, 9};
static const float norm_of_first[RUNS] = {1, 3, 1, 90, 1, 1}; /* tensor i: i more */

static char folder[] = "/tmp/check_figures.XXXXXX";
static char paths[RUNS][64];
static struct runset set;

static struct config *configure(int run)
{
  return configuration("%s %s model.layers=2 model.heads=2 train.steps=3", settings[run][0],
                       settings[run][1]);
}

static void put_tensors(struct recorder *r, int id, float first, float each)
{
  float values[TENSORS];
  for (int i = 0; i < TENSORS; i++) values[i] = first + each * (float)i;
  recorder_put(r, id, values);
}

static void write_run(int run)
{
  struct run_facts facts = {"0123456789ab", "cpu",   "bytes", "a text", LAYERS, HEADS, 0,
                            TENSORS,        tensors, NAN,     0,        0};
  struct config *config = configure(run);
  struct recorder *r;
  struct error e = {0};
  int id[SERIES];
  snprintf(paths[run], sizeof paths[run], "%s/%d.h5", folder, run);
  ck_assert_msg(!recorder_create(&r, paths[run], 0, config, &facts, &e), "%s", e.text);
  for (int s = 0; s < SERIES; s++) id[s] = recorder_series(r, &series[s]);
  for (int step = 0; step < STEPS; step++) {
    recorder_put_number(r, id[LOSS], loss[run][step]);
    recorder_put(r, id[MAX_LOGIT], logits[run][step]);
    recorder_row(r, AXIS_STEP, step);
  }
  recorder_put_number(r, id[VAL_LOSS], val_loss[run]);
  recorder_row(r, AXIS_VAL, STEPS);
  put_tensors(r, id[SPECTRAL_NORM], norm_of_first[run], 1);
  put_tensors(r, id[SVD_ENTROPY], run == 0 ? 0.2F : run == 1 ? 0.8F : 0.5F, 0);
  put_tensors(r, id[STABLE_RANK], 2, 0);
  recorder_row(r, AXIS_SPECTRA, 0);
  ck_assert_msg(!recorder_snapshot(r, run < FIRST_DIVERGED ? "finished" : "diverged", STEPS, 1, 1, &e), "%s",
                e.text);
  recorder_free(r);
  config_free(config);
}

static void setup(void)
{
  struct error e = {0};
  char *list[RUNS];
  strcpy(folder + strlen(folder) - 6, "XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  for (int i = 0; i < RUNS; i++) {
    write_run(i);
    list[i] = paths[i];
  }
  ck_assert_msg(!runset_select(&set, &(struct selection){.path = list, .paths = RUNS}, 0, &e), "%s", e.text);
}

static void teardown(void)
{
  runset_close(&set);
  for (int i = 0; i < RUNS; i++) file_remove(paths[i]);
  rmdir(folder);
}

/* --- what a figure writes ------------------------------------------------------------------------------ */

static char *text_of(const char *name)
{
  char *text = NULL;
  size_t size;
  struct error e = {0};
  for (int i = 0; figures[i]; i++) {
    if (strcmp(figures[i]->name, name) != 0) continue;
    FILE *f = open_memstream(&text, &size);
    ck_assert_msg(!figures[i]->data(f, &(struct figure_request){.set = &set}, &e), "%s", e.text);
    fclose(f);
  }
  ck_assert_msg(text != NULL, "no figure %s", name);
  return text;
}

/* Column (from 1) of row (from 1, comments not counted) in block g (from 0) of $name. */
static double cell(const char *text, const char *name, int g, int row, int column)
{
  char start[32];
  snprintf(start, sizeof start, "$%s << EOD\n", name);
  const char *at = strstr(text, start);
  ck_assert_msg(at != NULL, "no $%s", name);
  at += strlen(start);
  for (; g > 0; g--) {
    at = strstr(at, "\n\n\n");
    ck_assert_ptr_nonnull(at);
    at += 3;
  }
  if (*at == '#') row++;
  for (; row > 1; row--) {
    at = strchr(at, '\n') + 1;
    ck_assert_msg(*at && *at != '\n' && *at != 'E', "no such row");
  }
  char *end = (char *)at;
  for (; column > 1; column--) strtod(end, &end);
  ck_assert_int_ne(*end, '\n');
  return strtod(end, NULL);
}

/* Element i (from 1) of "array name[n] = [a, b]". */
static double element(const char *text, const char *name, int i)
{
  char start[48];
  snprintf(start, sizeof start, "array %s[", name);
  const char *at = strstr(text, start);
  ck_assert_msg(at != NULL, "no array %s", name);
  at = strstr(at, "= [") + 3;
  for (; i > 1; i--) at = strchr(at, ',') + 1;
  return strtod(at, NULL);
}

static double number(const char *text, const char *name)
{
  char start[48];
  snprintf(start, sizeof start, "\n%s = ", name);
  const char *at = strstr(text, start);
  if (strncmp(text, start + 1, strlen(start) - 1) == 0) at = text - 1;
  ck_assert_msg(at != NULL, "no %s", name);
  return strtod(at + strlen(start), NULL);
}

enum { ADAM, MUON, SGD }; /* blocks: in the order of the presets, then others */

START_TEST(logits_are_the_geometric_mean_of_the_largest_head)
{
  char *text = text_of("logits");
  ck_assert_int_eq(set.groups, 3);
  static const double mean[STEPS] = {4, 4, 6}; /* of 8 and 2, 8 and 2, 9 and 4 */
  for (int step = 0; step < STEPS; step++) {
    ck_assert_double_eq(cell(text, "data", MUON, step + 1, 1), step);
    ck_assert_double_eq(cell(text, "data", MUON, step + 1, 2), 2);
    ck_assert_double_eq_tol(cell(text, "data", MUON, step + 1, 3), mean[step], 1e-6);
  }
  ck_assert_double_eq_tol(element(text, "last", MUON + 1), 6, 1e-6);
  ck_assert_double_eq_tol(element(text, "last", ADAM + 1), 7, 1e-6); /* the last that is finite */
  ck_assert_double_nan(cell(text, "data", ADAM, 3, 3));
  ck_assert_double_eq_tol(cell(text, "data", ADAM, 1, 4), 5, 1e-6); /* one seed: an interval of no width */
  /* the axis: means from 4 to 7, and the intervals up to as far again at both ends */
  ck_assert_double_eq_tol(number(text, "high"), 14, 1e-6);
  ck_assert_double_eq_tol(number(text, "low"), 2, 1e-6);
  ck_assert_double_gt(number(text, "all_high"), 1000);
  ck_assert_double_lt(number(text, "all_low"), 1);
  free(text);
}
END_TEST

START_TEST(every_head_has_its_column_of_each_run)
{
  static const int run_of[] = {2, 0, 1,
                               4}; /* of Adam; the seeds of Muon that did not fail; the first of SGD */
  static const int group_of[] = {ADAM, MUON, MUON, SGD};
  char *text = text_of("heads");
  ck_assert_double_eq(number(text, "panels"), 4);
  ck_assert_double_eq(number(text, "runs"), 4);
  for (int run = 0; run < 4; run++) {
    ck_assert_double_eq(element(text, "group_of", run + 1), group_of[run] + 1);
    for (int step = 0; step < STEPS; step++)
      for (int h = 0; h < LAYERS * HEADS; h++) {
        const double is = (double)logits[run_of[run]][step][h],
                     has = cell(text, "data", run, step + 1, 2 + h);
        ck_assert(isnan(is) ? isnan(has) : is == has);
      }
  }
  ck_assert_double_eq(number(text, "low"), 1);
  ck_assert_double_eq(number(text, "high"), 9); /* not of SGD, all of whose runs failed */
  ck_assert_double_eq(number(text, "all_high"), 1e9);
  free(text);
}
END_TEST

START_TEST(the_heat_map_has_the_first_seed_as_it_is)
{
  char *text = text_of("heatmap");
  for (int step = 0; step < STEPS; step++)
    for (int h = 0; h < LAYERS * HEADS; h++) {
      int row = 1 + step * LAYERS * HEADS + h;
      ck_assert_double_eq(cell(text, "data", MUON, row, 2), h);
      ck_assert_double_eq_tol(cell(text, "data", MUON, row, 3), (double)logits[0][step][h], 1e-6);
    }
  ck_assert_double_nan(cell(text, "data", ADAM, 9, 3));
  ck_assert_double_eq(cell(text, "data", SGD, 10, 3), -1); /* a logit below zero is a value, too */
  ck_assert_double_eq_tol(number(text, "high"), 9, 1e-6);
  free(text);
}
END_TEST

START_TEST(losses_are_means_over_the_seeds)
{
  char *text = text_of("loss");
  for (int step = 0; step < STEPS; step++)
    ck_assert_double_eq_tol(cell(text, "train", MUON, step + 1, 3), 4 - step, 1e-6);
  ck_assert_double_eq_tol(cell(text, "val", MUON, 1, 3), 3, 1e-6);
  ck_assert_double_eq_tol(cell(text, "final", MUON, 1, 1), 2, 1e-6);
  ck_assert_double_eq_tol(cell(text, "final", MUON, 2, 1), 4, 1e-6);
  ck_assert_double_eq_tol(element(text, "final_mean", MUON + 1), 3, 1e-6);
  /* two seeds, one degree of freedom: t = 12.7062, standard error 1 */
  ck_assert_double_eq_tol(element(text, "final_hi", MUON + 1), 15.7062, 1e-4);
  ck_assert_double_eq_tol(element(text, "train_last", MUON + 1), 2, 1e-6);
  free(text);
}
END_TEST

START_TEST(spectra_are_means_over_the_tensors_of_a_kind)
{
  /* tensor i has i + 1 and i + 3 in the two seeds, i + 2 in the mean */
  static const double mean[] = {(3 + 4 + 5 + 6 + 7 + 8) / 6., (9 + 10) / 2., (11 + 12 + 13) / 3.,
                                (2 + 14) / 2., 15};
  char *text = text_of("spectra");
  ck_assert_double_eq(number(text, "kinds"), 5);
  ck_assert_double_eq(number(text, "panels"), 5);
  for (int k = 0; k < 5; k++) {
    ck_assert_double_eq(element(text, "panel_kind", k + 1), k);
    ck_assert_double_eq_tol(cell(text, "data", MUON, 1, 3 + 3 * k), mean[k], 1e-5);
    ck_assert_double_eq_tol(cell(text, "data", MUON, 1, 3 + 3 * (5 + k)), 0.5, 1e-6);
    ck_assert_double_eq_tol(cell(text, "data", MUON, 1, 3 + 3 * (10 + k)), 2, 1e-6);
    /* of 0.2 and 0.8 the interval is -3.3 to 4.3, but an entropy is a share */
    ck_assert_double_eq(cell(text, "data", MUON, 1, 4 + 3 * (5 + k)), 0);
    ck_assert_double_eq(cell(text, "data", MUON, 1, 5 + 3 * (5 + k)), 1);
  }
  ck_assert_double_ge(element(text, "low", 2), 0);
  ck_assert_double_le(element(text, "high", 2), 1);
  ck_assert_ptr_nonnull(strstr(text, "['w_dq w_qc w_qr w_dkv w_kc w_kr', 'w_v w_o', 'w_gate w_up w_down', "));
  free(text);
}
END_TEST

/* Counted beside the name; where nothing is left, the first seed is drawn, alone. */

/* Of the runs of a tuned key those that have finished, with a value that was reached; crosses where none is a score. */
START_TEST(tuning_draws_finished_runs_with_reached_values)
{
  enum { POINTS = 3, SEEDS = 4 };
  struct tuning_run run[POINTS][SEEDS] = {
    {{.fate = SWEEP_FINISHED, .value = {.has = 1, .value = 90, .censored = 1}},
     {.fate = SWEEP_FINISHED, .value = {.value = 7}},
     {.fate = SWEEP_DIVERGED, .value = {.has = 1, .value = 8}},
     {.fate = SWEEP_FINISHED, .value = {.has = 1, .value = 3}}},
    {{.fate = SWEEP_FINISHED, .value = {.has = 1, .value = 2}}}};
  struct tuning_point point[POINTS] = {{.at = {-1}, .value = {0.01}, .run = run[0], .score = 3},
                                       {.at = {0}, .value = {0.02}, .run = run[1], .score = 2},
                                       {.at = {1}, .value = {0.04}, .run = run[2], .score = INFINITY}};
  struct tuning_arm arm = {
    .name = "adam", .start = {0.02}, .point = point, .points = POINTS, .best = 1, .end = TUNING_BRACKETED};
  struct tuning tuning = {.key = {"train.lr"}, .keys = 1, .seeds = SEEDS, .arm = &arm, .arms = 1};
  char *text = NULL;
  size_t size;
  struct error e = {0};
  ck_assert(!metric_read(&tuning.metric, "val", &e));
  FILE *f = open_memstream(&text, &size);
  ck_assert_msg(!figure_find("tuning")->data(f, &(struct figure_request){.tuning = &tuning}, &e), "%s",
                e.text);
  fclose(f);
  for (int p = 0; p < POINTS; p++) {
    const double score = cell(text, "curves", 0, p + 1, 2);
    ck_assert_double_eq(cell(text, "curves", 0, p + 1, 1), point[p].value[0]);
    ck_assert(p == 2 ? !isfinite(score) : score == point[p].score);
    ck_assert_double_eq(cell(text, "curves", 0, p + 1, 3), p != 1); /* is it beside the best? */
  }
  ck_assert_double_nan(cell(text, "runs", 0, 1, 2));
  for (int p = 0; p < 2; p++) {
    ck_assert_double_eq(cell(text, "runs", 0, p + 2, 1), point[p].value[0]);
    ck_assert_double_eq(cell(text, "runs", 0, p + 2, 2), 3 - p);
  }
  ck_assert_double_eq(number(text, "crosses"), 1);
  ck_assert_double_eq(element(text, "cross_x", 1), 0.04);
  ck_assert(element(text, "best_x", 1) == 0.02 && element(text, "best_y", 1) == 2);
  free(text);
}
END_TEST

START_TEST(runs_that_diverged_are_in_no_mean)
{
  char *groups = NULL, *text = text_of("logits"), *loss_text = text_of("loss");
  size_t size;
  FILE *f = open_memstream(&groups, &size);
  figure_put_groups(f, &set);
  fclose(f);
  static const double seeds[] = {1, 2, 1}, first[] = {1, 1, 4};
  for (int g = 0; g < 3; g++) {
    ck_assert_double_eq(element(groups, "seeds", g + 1), seeds[g]);
    ck_assert_double_eq(element(groups, "first_seed", g + 1), first[g]);
  }
  ck_assert_msg(strstr(groups, "['', ' (1 of 3 diverged)', ' (all 2 diverged; seed 4)']"), "%s", groups);
  ck_assert_double_eq(cell(text, "data", SGD, 2, 2), 1);
  ck_assert_double_eq_tol(cell(text, "data", SGD, 2, 3), 2, 1e-6);
  ck_assert_double_eq_tol(cell(text, "data", SGD, 2, 5), 2, 1e-6);
  ck_assert_double_eq_tol(number(text, "high"), 14, 1e-6); /* a diverged run does not change the axis */
  ck_assert_double_le(number(loss_text, "high"), 10);
  ck_assert_double_ge(number(loss_text, "all_high"), 10);
  ck_assert_double_eq_tol(element(loss_text, "final_mean", SGD + 1), 7, 1e-6);
  ck_assert_double_eq_tol(element(loss_text, "final_hi", SGD + 1), 7, 1e-6);
  free(groups);
  free(text);
  free(loss_text);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("figures");
  TCase *t = tcase_create("columns");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, logits_are_the_geometric_mean_of_the_largest_head);
  tcase_add_test(t, every_head_has_its_column_of_each_run);
  tcase_add_test(t, the_heat_map_has_the_first_seed_as_it_is);
  tcase_add_test(t, losses_are_means_over_the_seeds);
  tcase_add_test(t, spectra_are_means_over_the_tensors_of_a_kind);
  tcase_add_test(t, runs_that_diverged_are_in_no_mean);
  tcase_add_test(t, tuning_draws_finished_runs_with_reached_values);
  suite_add_tcase(s, t);
  SRunner *runner = srunner_create(s);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
