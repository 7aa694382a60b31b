#include "run/bits.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "run/state.h"
#include "storage/run_file.h"

static void add_text(XXH64_state_t *hash, const char *text) { XXH64_update(hash, text, strlen(text) + 1); }

static void add_number(XXH64_state_t *hash, double x)
{
  static const uint64_t nan_bits = 0x7ff8000000000000;
  XXH64_update(hash, isnan(x) ? (const void *)&nan_bits : &x, sizeof x);
}

struct named {
  const char *name;
  int at;
};

static int by_name(const void *a, const void *b)
{
  return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* By name, as in a run file. */
static void add_series(XXH64_state_t *hash, const struct recorder *r)
{
  struct held_series s;
  int count = 0;
  while (recorder_holding(r, count, &s)) count++;
  struct named *order = memory_new((size_t)count + 1, sizeof *order);
  for (int i = 0; i < count; i++) {
    recorder_holding(r, i, &s);
    order[i] = (struct named){s.name, i};
  }
  qsort(order, (size_t)count, sizeof *order, by_name);
  for (int i = 0; i < count; i++) {
    recorder_holding(r, order[i].at, &s);
    double *row = memory_new((size_t)s.width + 1, sizeof *row), step;
    add_text(hash, s.name);
    for (long k = 0; k < s.rows; k++) {
      recorder_held(r, order[i].at, k, &step, row);
      add_number(hash, step);
    }
    for (long k = 0; k < s.rows; k++) {
      recorder_held(r, order[i].at, k, &step, row);
      for (long x = 0; x < s.width; x++) add_number(hash, row[x]);
    }
    memory_free(row);
  }
  memory_free(order);
}

static void add_events(XXH64_state_t *hash, const struct recorder *r)
{
  static const char *const of_numbers[] = {"clip", "spike", "nonfinite"};
  struct run_event x;
  for (long n = 0; recorder_held_event(r, n, &x); n++)
    for (int k = 0; k < 3; k++) {
      if (strcmp(x.kind, of_numbers[k]) != 0) continue;
      add_text(hash, x.kind);
      const double number[] = {(double)x.step, x.layer, x.head, x.value};
      for (int i = 0; i < 4; i++) add_number(hash, number[i]);
    }
}

/* By name, as in a checkpoint. */
static void add_weights(XXH64_state_t *hash, struct trainer *t)
{
  struct tensor_list l;
  trainer_tensors(t, &l);
  trainer_tensors_fetch(t, &l);
  struct named *order = memory_new((size_t)l.count + 1, sizeof *order);
  for (int i = 0; i < l.count; i++) order[i] = (struct named){l.item[i].name, i};
  qsort(order, (size_t)l.count, sizeof *order, by_name);
  for (int i = 0; i < l.count; i++) {
    const struct checkpoint_tensor *x = &l.item[order[i].at];
    add_text(hash, x->name);
    for (long k = 0; k < x->rows * x->cols; k++) add_number(hash, (double)((const real *)x->data)[k]);
  }
  memory_free(order);
  trainer_tensors_forget(&l);
}

static int train(struct trainer *t, bits_look *look, void *context, struct error *e)
{
  int status = STATUS_OK;
  if (look) look(context, t);
  while (!status && trainer_more(t)) status = trainer_step(t, e);
  return status ? status : trainer_settle(t, e);
}

int bits_of(const char *const *settings, size_t count, bits_look *look, void *context, char bits[BITS_TEXT],
            struct error *e)
{
  struct config *c = config_new();
  struct trainer *t = NULL;
  int status = STATUS_OK;
  for (size_t i = 0; i < count && !status; i++) status = config_assign(c, settings[i], e);
  if (!status) status = config_finish(c, e);
  if (!status) status = trainer_init(&t, c, TRAINER_IN_MEMORY, e);
  if (!status) status = train(t, look, context, e);
  if (!status) {
    XXH64_state_t *hash = XXH64_createState();
    XXH64_reset(hash, 0);
    add_series(hash, t->record.recorder);
    add_events(hash, t->record.recorder);
    add_weights(hash, t);
    snprintf(bits, BITS_TEXT, "%016llx", (unsigned long long)XXH64_digest(hash));
    XXH64_freeState(hash);
  }
  if (t) trainer_abandon(t);
  config_free(c);
  return status;
}

int bits_of_fixed_run(bits_look *look, void *context, char bits[BITS_TEXT], struct error *e)
{
  static const char *const settings[] = {"preset=muonclip", "qk_clip.tau=3", "train.steps=50", "train.seed=1",
                                         "record.spectra_every=0"};
  return bits_of(settings, sizeof settings / sizeof *settings, look, context, bits, e);
}

int bits_are_own(void) { return !strcmp(ops_cpu_level(), "base"); }

void bits_warn(const char *device)
{
  static atomic_flag told = ATOMIC_FLAG_INIT;
  if (strcmp(device, "cpu") != 0 || !bits_are_own() || atomic_flag_test_and_set(&told)) return;
  warning("the base kernels have no fused multiply-add: the last bits of a run's numbers may be others than "
          "elsewhere");
}
