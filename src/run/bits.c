#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "run/bits.h"
#include <ftw.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "storage/checkpoint.h"
#include "storage/recorder.h"

struct hashing {
  const struct run_file *run;
  XXH64_state_t *hash;
  struct error *error;
};

static void add_text(struct hashing *h, const char *text) { XXH64_update(h->hash, text, strlen(text) + 1); }

static void add_number(struct hashing *h, double x)
{
  static const uint64_t nan_bits = 0x7ff8000000000000;
  XXH64_update(h->hash, isnan(x) ? (const void *)&nan_bits : &x, sizeof x);
}

static int add_series(void *context, const char *name)
{
  struct hashing *h = context;
  struct run_series s;
  if (run_read(h->run, name, &s, h->error)) return h->error->status;
  add_text(h, name);
  for (long i = 0; i < s.rows; i++) add_number(h, s.step[i]);
  for (long i = 0; i < s.rows * s.width; i++) add_number(h, s.value[i]);
  run_series_free(&s);
  return STATUS_OK;
}

static int add_events(struct hashing *h)
{
  static const char *const of_numbers[] = {"clip", "spike", "nonfinite"};
  struct run_event *event = NULL;
  long count = 0;
  if (run_events(h->run, &event, &count, h->error)) return h->error->status;
  for (struct run_event *x = event; x < event + count; x++)
    for (int k = 0; k < 3; k++) {
      if (strcmp(x->kind, of_numbers[k]) != 0) continue;
      add_text(h, x->kind);
      const double number[] = {(double)x->step, x->layer, x->head, x->value};
      for (int i = 0; i < 4; i++) add_number(h, number[i]);
    }
  memory_free(event);
  return STATUS_OK;
}

static int add_weights(struct hashing *h, const char *path)
{
  struct checkpoint c;
  if (checkpoint_latest(path, &c, h->error)) return h->error->status;
  for (int i = 0; i < c.count; i++) {
    const struct checkpoint_tensor *t = &c.tensors[i];
    add_text(h, t->name);
    for (long k = 0; k < t->rows * t->cols; k++) add_number(h, (double)((const real *)t->data)[k]);
  }
  checkpoint_free(&c);
  return STATUS_OK;
}

static int hash_of(const char *path, char bits[BITS_TEXT], struct error *e)
{
  struct run_file *run = NULL;
  int status = run_open(&run, path, e);
  if (status) return status;
  struct hashing h = {run, XXH64_createState(), e};
  XXH64_reset(h.hash, 0);
  status = run_series_names(run, add_series, &h);
  if (!status) status = add_events(&h);
  if (!status) status = add_weights(&h, path);
  snprintf(bits, BITS_TEXT, "%016llx", (unsigned long long)XXH64_digest(h.hash));
  XXH64_freeState(h.hash);
  run_close(run);
  return status;
}

static int run_into(const char *path, const char *const *settings, size_t count, drive_tick *tick,
                    void *context, struct error *e)
{
  struct config *c = config_new();
  struct trainer *t;
  int status = STATUS_OK;
  for (size_t i = 0; i < count && !status; i++) status = config_assign(c, settings[i], e);
  if (!status) status = config_finish(c, e);
  if (!status) status = trainer_init_into(&t, c, path, e);
  if (!status) status = drive(t, 0, tick, context, e);
  config_free(c);
  return status;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *w)
{
  (void)s, (void)kind, (void)w;
  return remove(path);
}

int bits_of(const char *const *settings, size_t count, drive_tick *tick, void *context, char bits[BITS_TEXT],
            struct error *e)
{
  const char *tmp = getenv("TMPDIR");
  char folder[4096 - 16], path[4096];
  int length = snprintf(folder, sizeof folder, "%s/maxlogit-bits.XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (length >= (int)sizeof folder || !mkdtemp(folder))
    return error_set(e, STATUS_FAIL, "cannot make a folder in %s", tmp && *tmp ? tmp : "/tmp");
  snprintf(path, sizeof path, "%s/run.h5", folder);
  int status = run_into(path, settings, count, tick, context, e);
  if (!status) status = hash_of(path, bits, e);
  nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  return status;
}

int bits_are_own(void) { return !strcmp(ops_cpu_level(), "base"); }

void bits_warn(const char *device)
{
  static atomic_flag told = ATOMIC_FLAG_INIT;
  if (strcmp(device, "cpu") != 0 || !bits_are_own() || atomic_flag_test_and_set(&told)) return;
  warning("the base kernels have no fused multiply-add: the last bits of a run's numbers may be others than "
          "elsewhere");
}
