/* check_resume.c - every optimizer and every stabilizer, with choices of each: a run that goes on from a checkpoint
   has the bits of one that was not interrupted, though everything that a checkpoint restores was NaN when it was built;
   from drawn weights and from those of another run */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "../configuration.h"
#include "../folder.h"
#include "../long.h"
#include "../spoiled.h"
#include "model/model.h"
#include "training/optimizer.h"

enum { STEPS = 5, KEPT = 3, ROOM = 512 };

static char dir[FOLDER_PATH];
static int tried;

#define SMALL \
  "model.layers=1 model.width=8 model.heads=2 model.context=6 model.ffn_width=8 markov.symbols=8 " \
  "train.batch=2 " \
  "train.warmup=1 train.lr=0.03 train.val_every=0 train.val_batches=1 device.threads=1 " \
  "record.spectra_every=0 " \
  "checkpoint.every=0 checkpoint.seconds=0 train.steps=5 "
/* so that everything acts from the first step on */
#define ACTIVE \
  "qk_clip.tau=0.01 soft_cap.cap=1 hard_cap.cap=1 max_output_clip.tau=0.01 spectral_clip.bound=0.1 " \
  "quack.tau=0.5 bound_clip.tau=0.1 "

static const char *const variants[] = {"model.attention=gqa model.kv_heads=1",
                                       "model.attention=mla model.q_rank=6 model.kv_rank=6 model.rope_dim=2"};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* A trainer of a new run; NULL where its settings are rejected. */
static struct trainer *begun(const char *settings, unsigned flags, struct config **c)
{
  struct trainer *t;
  struct error e = {0};
  *c = configuration(SMALL ACTIVE "record.path=%s/a.h5 record.overwrite=1 %s", dir, settings);
  if (!trainer_init(&t, *c, flags, &e)) return t;
  ck_assert_msg(e.status == STATUS_USAGE, "%s: %s", settings, e.text);
  config_free(*c);
  return NULL;
}

struct trace {
  double loss[STEPS], norm[STEPS];
  real max[STEPS][2];
  struct peak kept; /* at the checkpoint */
  uint64_t state;   /* hash of all weights and states at the end */
};

static void add_tensor(struct trace *x, const real *row, const struct tensor *shape)
{
  x->state = x->state * 31 + XXH3_64bits(row, (size_t)(shape->rows * shape->cols) * sizeof *row);
}

static void read_end(struct trainer *t, struct trace *x)
{
  enum { MOST = 4096 };
  static real row[MOST];
  for (int i = 0; i < t->engine.model.params.count; i++) {
    const struct param *p = t->engine.model.params.list[i];
    ck_assert_int_le(p->value.rows * p->value.cols, MOST);
    params_read(&t->engine.model.params, p, row);
    add_tensor(x, row, &p->value);
  }
  for (int i = 0; i < updates_states(t->engine.updates); i++) {
    char name[128];
    const struct tensor *state = updates_state(t->engine.updates, i, name, sizeof name);
    updates_state_read(t->engine.updates, i, row);
    add_tensor(x, row, state);
  }
  add_tensor(x, t->record.health.spike_window, &(struct tensor){.rows = 1, .cols = SPIKE_WINDOW});
}

static void steps_to(struct trainer *t, int last, struct trace *x)
{
  struct error e = {0};
  for (long i = trainer_status(t).done; i < last; i++) {
    ck_assert_msg(!trainer_step(t, &e) && !trainer_settle(t, &e), "%s", e.text);
    ck_assert(isfinite(trainer_status(t).loss));
    x->loss[i] = trainer_status(t).loss, x->norm[i] = trainer_status(t).grad_norm;
    memcpy(x->max[i], trainer_status(t).max_logit, sizeof x->max[i]);
    if (i + 1 == KEPT) x->kept = trainer_status(t).peak;
  }
}

/* A checkpoint, a step more, and the end as by a kill. */
static void stop_after(struct trainer *t, struct trace *x)
{
  struct trace lost;
  struct error e = {0};
  steps_to(t, KEPT, x);
  ck_assert_msg(!trainer_checkpoint(t, &e), "%s", e.text);
  steps_to(t, KEPT + 1, &lost);
  trainer_abandon(t);
}

static int check_settings(const char *settings)
{
  struct trace whole = {0}, parts = {0};
  struct config *c;
  struct error e = {0};
  char path[FOLDER_PATH + 16];
  snprintf(path, sizeof path, "%s/a.h5", dir);
  struct trainer *t = begun(settings, TRAINER_NO_RECORD, &c);
  if (!t) return 0;
  steps_to(t, STEPS, &whole), read_end(t, &whole);
  trainer_abandon(t), config_free(c);
  ck_assert_ptr_nonnull(t = begun(settings, 0, &c));
  stop_after(t, &parts), config_free(c);
  const int before = spoiled_loads;
  ck_assert_msg(!trainer_resume(&t, path, NULL, 0, &e), "%s: %s", settings, e.text);
  ck_assert_int_eq(spoiled_loads, before + 1);
  ck_assert_int_eq(trainer_status(t).done, KEPT);
  const struct peak peak = trainer_status(t).peak;
  ck_assert_msg(!memcmp(&peak, &parts.kept, sizeof peak), "%s: another peak after a resume", settings);
  steps_to(t, STEPS, &parts), read_end(t, &parts);
  trainer_abandon(t);
  ck_assert_msg(!memcmp(&whole, &parts, sizeof whole), "%s: other bits after a resume", settings);
  tried++;
  return 1;
}

/* From drawn weights, and from those that this run had at its checkpoint: another seed's draw lies between. */
static void check_both(const char *settings)
{
  char from[3 * ROOM];
  if (!check_settings(settings)) return;
  snprintf(from, sizeof from, "mv %s/a.ckpt/step-%08d.h5 %s/source.h5", dir, KEPT, dir);
  ck_assert_int_eq(system(from), 0);
  snprintf(from, sizeof from, "%s train.seed=2 train.init_from=%s/source.h5", settings, dir);
  ck_assert_msg(check_settings(from), "%s was rejected", from);
}

/* On the next variant of attention that takes it, in `make check-long` on all. Returns how many did. */
static int check_choice(const char *plugin, const char *choice)
{
  static int turn;
  const int before = tried;
  char settings[2 * ROOM];
  turn++;
  for (int i = 0; i < VARIANTS && (is_long() || tried == before); i++) {
    snprintf(settings, sizeof settings, "%s %s %s", variants[(turn + i) % VARIANTS], plugin, choice);
    if (is_long() || !*choice)
      check_both(settings);
    else
      check_settings(settings);
  }
  return tried - before;
}

/* The values of an option that is a choice; NULL: it is none. */
static const char *const *values_of(const struct option_row *row)
{
  static const char *const yes_or_no[] = {"0", "1", NULL};
  return row->type == OPTION_BOOL ? yes_or_no : row->type == OPTION_CHOICE ? row->choices : NULL;
}

/* Each value of each choice that is not the default, alone. */
static void check_each_choice(const char *plugin, const char *name, const struct option_row *row)
{
  char choice[ROOM];
  for (; row->name; row++)
    for (const char *const *value = values_of(row); value && *value; value++) {
      snprintf(choice, sizeof choice, "%s.%s=%s", name, row->name, *value);
      if (strcmp(*value, row->standard)) check_choice(plugin, choice);
    }
}

/* The last value of every choice that is not the default, all together; "" where there is none. */
static void last_choices(char all[ROOM], const char *name, const struct option_row *row)
{
  *all = 0;
  for (; row->name; row++) {
    const char *last = NULL;
    for (const char *const *value = values_of(row); value && *value; value++)
      if (strcmp(*value, row->standard)) last = *value;
    if (last) snprintf(all + strlen(all), ROOM - strlen(all), "%s.%s=%s ", name, row->name, last);
  }
}

/* The defaults and, where they are taken together, other choices; else, and in `make check-long`, each choice. */
static void check_plugin(const char *plugin, const char *name, const struct option_row *rows)
{
  char all[ROOM];
  ck_assert_msg(check_choice(plugin, ""), "%s: no run", plugin);
  if (!rows) return;
  last_choices(all, name, rows);
  if (*all && (!check_choice(plugin, all) || is_long())) check_each_choice(plugin, name, rows);
}

START_TEST(optimizers_go_on)
{
  char plugin[ROOM];
  for (const struct optimizer *const *o = optimizers; *o; o++) {
    snprintf(plugin, sizeof plugin, "optimizer=%s", (*o)->name);
    check_plugin(plugin, (*o)->name, (*o)->options);
  }
}
END_TEST

START_TEST(stabilizers_go_on)
{
  char plugin[ROOM];
  for (const struct stabilizer *const *s = stabilizers; *s; s++) {
    snprintf(plugin, sizeof plugin, "optimizer=muon stabilizers=%s", (*s)->name);
    check_plugin(plugin, (*s)->name, (*s)->options);
  }
}
END_TEST

static void make_folder(void)
{
  ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr)); /* some stacks are warned about */
  folder_make(dir);
}
static void remove_folder(void) { folder_remove(dir); }

int main(void)
{
  Suite *suite = suite_create("resume");
  TCase *k = tcase_create("resume");
  tcase_set_timeout(k, 0);
  tcase_add_checked_fixture(k, make_folder, remove_folder);
  tcase_add_test(k, optimizers_go_on); /* a process for all: each would begin its own threads */
  tcase_add_test(k, stabilizers_go_on);
  suite_add_tcase(suite, k);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed > 0;
}
