/* check_stacks.c - every stack of up to three stabilizers, in every order, on every attention variant: it trains,
   or it is refused with a reason that two of its members have already; of three `make check` tries one order each, on
   one variant */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../long.h"
#include "model/stabilizer.h"
#include "run/trainer.h"

enum { MOST = 32 };

static const char *wants(const char *attention)
{
  return strcmp(attention, "gqa") ? "model.rope_dim=0" : "model.kv_heads=1";
}

static void assign(struct config *c, const char *assignment)
{
  struct error e = {0};
  ck_assert_msg(!config_assign(c, assignment, &e), "%s", e.text);
}

static struct config *configured(const char *attention, const char *stack)
{
  static const char *const small[] = {
    "model.layers=1",         "model.width=8",       "model.heads=2",    "model.context=4",
    "model.ffn_width=8",      "train.batch=1",       "train.steps=2",    "train.warmup=0",
    "train.val_every=0",      "train.val_batches=1", "device.threads=1", "qk_clip.tau=0.01",
    "markov.symbols=8",       "soft_cap.cap=1",      "hard_cap.cap=1",   "max_output_clip.tau=0.01",
    "spectral_clip.bound=0.1"};
  struct config *c = config_new();
  char text[256];
  for (size_t i = 0; i < sizeof small / sizeof *small; i++) assign(c, small[i]);
  snprintf(text, sizeof text, "model.attention=%s", attention), assign(c, text);
  snprintf(text, sizeof text, "stabilizers=%s", stack), assign(c, text);
  assign(c, wants(attention));
  struct error e = {0};
  ck_assert_msg(!config_finish(c, &e), "%s", e.text);
  return c;
}

/* 1 where the stack trains, 0 where it is refused. */
static int trains(const char *attention, const char *stack)
{
  struct config *c = configured(attention, stack);
  struct trainer *t;
  struct error e = {0};
  int status = trainer_init(&t, c, TRAINER_NO_RECORD, &e);
  if (status) {
    ck_assert_int_eq(status, STATUS_USAGE);
    ck_assert_msg(strstr(e.text, "keep one") || strstr(e.text, "allowed"), "%s %s: %s", attention, stack,
                  e.text);
  }
  while (!status && trainer_more(t)) {
    ck_assert_msg(!trainer_step(t, &e), "%s %s: %s", attention, stack, e.text);
    ck_assert_msg(isfinite(trainer_status(t).loss), "%s %s", attention, stack);
  }
  if (!status) {
    ck_assert_str_eq(trainer_status(t).state, "finished");
    trainer_abandon(t);
  }
  config_free(c);
  return !status;
}

/* Of the six orders of three one, on one of the variants, by turns; in check-long all on all. */
static int is_tried(int a, int b, int c, int variant, int variants)
{
  static const int orders[] = {0, 2, 3, 4, 5, 7};
  const int turn = a + b + c;
  return is_long() ||
         (turn / 6 % variants == variant && orders[turn % 6] == 4 * (a > b) + 2 * (b > c) + (a > c));
}

START_TEST(stacks)
{
  const char *attention = attentions[_i]->name;
  static int pair[MOST][MOST];
  char name[256];
  int n = 0, variants = 0, refused = 0;
  ck_assert(freopen("/dev/null", "w", stderr)); /* many stacks are warned about */
  while (attentions[variants]) variants++;
  while (stabilizers[n]) n++;
  ck_assert_int_le(n, MOST);
  for (int a = 0; a < n; a++)
    for (int b = 0; b < n; b++) {
      snprintf(name, sizeof name, "%s%s%s", stabilizers[a]->name, a == b ? "" : "+",
               a == b ? "" : stabilizers[b]->name);
      pair[a][b] = trains(attention, name);
      refused += !pair[a][b];
    }
  ck_assert_int_gt(refused, 0);
  for (int a = 0; a < n; a++)
    for (int b = 0; b < n; b++)
      for (int c = 0; c < n; c++) {
        if (a == b || b == c || a == c || !is_tried(a, b, c, _i, variants)) continue;
        snprintf(name, sizeof name, "%s+%s+%s", stabilizers[a]->name, stabilizers[b]->name,
                 stabilizers[c]->name);
        ck_assert_msg(trains(attention, name) == (pair[a][b] && pair[b][c] && pair[a][c]), "%s %s", attention,
                      name);
      }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("stacks");
  TCase *tests = tcase_create("stacks");
  int n = 0;
  while (attentions[n]) n++;
  tcase_set_timeout(tests, 0); /* hundreds of runs each, in full thousands */
  tcase_add_loop_test(tests, stacks, 0, n);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
