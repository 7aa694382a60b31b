/* check_play.c - play.h in the program's own code, as a page calls it in the module */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "play/play.h"
#include "run/bits.h"

#define SMALL \
  "model.width=16 model.heads=2 model.context=12 train.batch=2 train.val_every=5 record.spectra_every=5 "

static void put(const char *text) { memcpy(play_room((int)strlen(text) + 1), text, strlen(text) + 1); }

static int begin(const char *text)
{
  put(text);
  const int run = play_new();
  ck_assert_msg(run > 0, "%s", play_error());
  return run;
}

static int series(int run, const char *name)
{
  for (int i = 0; i < play_series(run); i++)
    if (!strcmp(play_name(run, i), name)) return i;
  ck_abort_msg("no series %s", name);
}

static double last(int run, const char *name)
{
  const int s = series(run, name), rows = play_rows(run, s), width = play_width(run, s);
  ck_assert_int_gt(rows, 0);
  return play_values(run, s)[rows * width - 1];
}

static const char doctor_settings[] =
  "preset=muonclip qk_clip.tau=3 train.steps=50 train.seed=1 record.spectra_every=0";

START_TEST(runs_have_the_bits_of_the_program)
{
  put(doctor_settings);
  ck_assert_str_eq(play_bits(), play_doctor());
  if (!bits_are_own()) ck_assert_str_eq(play_doctor(), play_doctor_reference());
}
END_TEST

/* Two runs side by side, one of them looked at between its steps, have the numbers that each has alone. */
START_TEST(runs_do_not_meet)
{
  const int alone = begin("preset=muonclip qk_clip.tau=0.5 train.steps=20 " SMALL);
  ck_assert_int_eq(play_step(alone, 100), 20);
  const int a = begin("preset=muonclip qk_clip.tau=0.5 train.steps=20 " SMALL),
            b = begin("preset=adam train.seed=2 " SMALL);
  for (int i = 0; i < 20; i++) {
    ck_assert_int_eq(play_step(a, 1), 1);
    ck_assert_int_eq(play_step(b, 1), 1);
    ck_assert_ptr_nonnull(play_attention(a, i % 2, i / 2 % 2));
    ck_assert_ptr_nonnull(play_spectrum(a, 0, 1));
  }
  ck_assert_int_eq(play_series(a), play_series(alone));
  for (int s = 0; s < play_series(a); s++) {
    const int rows = play_rows(a, s), width = play_width(a, s);
    ck_assert_str_eq(play_name(a, s), play_name(alone, s));
    ck_assert_int_eq(rows, play_rows(alone, s));
    if (!rows) continue;
    ck_assert_mem_eq(play_values(a, s), play_values(alone, s), (size_t)(rows * width) * sizeof(double));
    ck_assert_mem_eq(play_row_steps(a, s), play_row_steps(alone, s), (size_t)rows * sizeof(double));
  }
  ck_assert_str_eq(play_events(a), play_events(alone));
  ck_assert_ptr_nonnull(strstr(play_events(a), "\"kind\": \"clip\""));
  ck_assert_str_eq(play_state(a), "finished");
  ck_assert_str_eq(play_state(b), "running");
  ck_assert_int_eq(play_step(a, 1), 0);
  play_free(alone), play_free(a), play_free(b);
  ck_assert_int_eq(play_step(a, 1), -1);
  ck_assert_str_eq(play_error(), "there is no such run");
}
END_TEST

START_TEST(heads_are_looked_at)
{
  const int run =
    begin("model.attention=gqa model.heads=4 model.kv_heads=2 model.width=16 model.context=12 train.batch=2");
  play_step(run, 3);
  const int n = play_context(run);
  ck_assert_int_eq(n, 12);
  for (int head = 0; head < 4; head++) {
    const float *a = play_attention(run, 1, head);
    for (int i = 0; i < n; i++) {
      double sum = 0;
      for (int j = 0; j < n; j++) {
        ck_assert(j <= i ? a[i * n + j] > 0 : a[i * n + j] == 0);
        sum += (double)a[i * n + j];
      }
      ck_assert_double_eq_tol(sum, 1, 1e-5);
    }
  }
  ck_assert_ptr_null(play_attention(run, 2, 0));
  ck_assert_int_eq(play_spectrum_size(run, 0, 0), 4);
  const double *sigma = play_spectrum(run, 0, 3);
  for (int i = 1; i < 4; i++) ck_assert(sigma[i - 1] >= sigma[i] && sigma[i] > 0);
  play_free(run);
}
END_TEST

/* The largest singular value is that of the record, of the same weights. */
START_TEST(spectra_are_those_of_the_record)
{
  const int run = begin("preset=adam train.steps=5 " SMALL);
  play_step(run, 5);
  const int s = series(run, "head_qk/spectral_norm"), width = play_width(run, s);
  const double *row = play_values(run, s) + (play_rows(run, s) - 1) * width;
  for (int i = 0; i < width; i++)
    ck_assert_float_eq((float)row[i], (float)play_spectrum(run, i / 2, i % 2)[0]);
  play_free(run);
}
END_TEST

START_TEST(a_change_is_that_of_resume)
{
  const int longer = begin("preset=muon train.steps=17 record.every=4 " SMALL);
  play_step(longer, 100);
  const int run = begin("preset=muon train.steps=10 record.every=4 " SMALL);
  ck_assert_int_eq(play_step(run, 100), 10);
  ck_assert_str_eq(play_state(run), "finished");
  put("train.lr=1");
  ck_assert_int_eq(play_change(run), 0);
  ck_assert_ptr_nonnull(strstr(play_error(), "would change the past"));
  put("train.steps=9");
  ck_assert_int_eq(play_change(run), 0);
  ck_assert_ptr_nonnull(strstr(play_error(), "less than the run's 10"));
  put("record.probe_every=5");
  ck_assert_int_eq(play_change(run), 0);
  ck_assert_ptr_nonnull(strstr(play_error(), "was 0 when this run began"));
  ck_assert_int_eq(play_steps(run), 10);
  put("train.steps=17");
  ck_assert_int_eq(play_change(run), 1);
  ck_assert_str_eq(play_state(run), "running");
  ck_assert_int_eq(play_step(run, 100), 7);
  for (int s = 0; s < play_series(run); s++) {
    const int rows = play_rows(run, s), width = play_width(run, s);
    ck_assert_msg(rows == play_rows(longer, s), "%s: %d", play_name(run, s), rows);
    if (rows)
      ck_assert_mem_eq(play_values(run, s), play_values(longer, s), (size_t)(rows * width) * sizeof(double));
  }
  ck_assert_str_eq(play_settings(run), play_settings(longer));
  play_free(run), play_free(longer);
}
END_TEST

START_TEST(errors_are_the_program_s_own)
{
  static const char *const wrong[][2] = {
    {"train.lrr=1", "unknown key; did you mean 'train.lr'?"},
    {"model.width=30 model.heads=4", "is not whole"},
    {"train.lr=0.1,0.2", "2 values where a run takes one"},
    {"[train]\nlr = much\n", "settings:2"},
    {"optimizer=muno", "muno"},
    {"nonsense", "settings:1"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    put(wrong[i][0]);
    ck_assert_int_eq(play_check(), 0);
    ck_assert_msg(strstr(play_error(), wrong[i][1]) != NULL, "%s: %s", wrong[i][0], play_error());
    put(wrong[i][0]);
    ck_assert_int_eq(play_new(), 0);
  }
  play_warnings();
  put("optimizer=adam muon.momentum=0.9");
  ck_assert_int_eq(play_check(), 1);
  ck_assert_ptr_nonnull(strstr(play_warnings(), "muon.momentum has no effect"));
  ck_assert_str_eq(play_warnings(), "");
  put("[train]\nlr = 0.02 # a comment\n[model]\nlayers = 1\n[record]\npath = mine.h5\noverwrite = 1\n");
  const int run = play_new();
  ck_assert_int_eq(play_layers(run), 1);
  ck_assert_str_eq(play_command(run), "maxlogit run model.layers=1 train.lr=0.02");
  play_free(run);
}
END_TEST

START_TEST(texts_of_a_run)
{
  const int run = begin("preset=muonclip train.steps=6 train.seed=3 record.observe=\"default\" " SMALL);
  play_step(run, 6);
  ck_assert_ptr_nonnull(strstr(play_command(run), "preset=muonclip "));
  const char *csv = play_csv(run);
  ck_assert_ptr_nonnull(strstr(csv, "\n# seed = 3\n"));
  ck_assert_ptr_nonnull(strstr(csv, "\nstep,loss,"));
  ck_assert_ptr_nonnull(strstr(csv, ",attn/max_logit:l1h1,"));
  ck_assert_int_eq(play_axis(run, series(run, "attn/max_logit")), 2);
  ck_assert_int_eq(play_axis(run, series(run, "loss")), 0);
  ck_assert_int_eq(play_axis(run, series(run, "weight/spectral_norm")), 3);
  ck_assert_ptr_nonnull(strstr(play_describe(run, series(run, "weight/spectral_norm")), "\"embed\""));
  ck_assert_ptr_nonnull(strstr(play_options(), "\"name\": \"muonclip\""));
  ck_assert_double_gt(play_bytes(run), 1e4);
  ck_assert_int_eq(play_count(run), 6);
  ck_assert_int_eq(play_heads(run), 2);
  ck_assert_str_ne(play_version(), "");
  ck_assert(isfinite(last(run, "val_loss")));
  play_free(run);
}
END_TEST

START_TEST(what_has_ended_takes_no_memory)
{
  size_t held = 0;
  for (int i = 0; i < 4; i++) {
    const int run = begin("preset=muonclip train.steps=10 " SMALL);
    play_step(run, 10);
    play_attention(run, 0, 0);
    play_csv(run);
    play_free(run);
    if (i == 1) held = memory_held();
  }
  ck_assert_uint_eq(memory_held(), held);
}
END_TEST

START_TEST(a_run_that_diverges_says_so)
{
  const int run = begin("optimizer=sgd train.lr=1e30 train.steps=8 model.width=16 model.heads=2");
  play_step(run, 100);
  ck_assert_str_eq(play_state(run), "diverged");
  play_free(run);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("play");
  TCase *t = tcase_create("play");
  suite_add_tcase(s, t);
  tcase_add_test(t, runs_have_the_bits_of_the_program);
  tcase_add_test(t, runs_do_not_meet);
  tcase_add_test(t, heads_are_looked_at);
  tcase_add_test(t, spectra_are_those_of_the_record);
  tcase_add_test(t, a_change_is_that_of_resume);
  tcase_add_test(t, errors_are_the_program_s_own);
  tcase_add_test(t, texts_of_a_run);
  tcase_add_test(t, what_has_ended_takes_no_memory);
  tcase_add_test(t, a_run_that_diverges_says_so);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
