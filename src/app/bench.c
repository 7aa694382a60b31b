#include "app/bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/json.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/status_line.h"
#include "config/config.h"

const struct bench_stack bench_stacks[BENCH_STACKS] = {
  {"toy", "fp32", {"model.width=64", "model.layers=2", "model.heads=4", "model.context=64", "train.batch=8"}},
  {"small",
   "fp32",
   {"model.width=256", "model.layers=4", "model.heads=8", "model.context=256", "train.batch=8"}},
  {"medium",
   "fp32",
   {"model.width=512", "model.layers=6", "model.heads=8", "model.context=512", "train.batch=4"}},
  {"vocabulary",
   "fp32",
   {"model.width=256", "model.layers=2", "model.heads=8", "model.context=256", "train.batch=4",
    "markov.symbols=32768"}},
  {"large",
   "bf16",
   {"model.width=2048", "model.layers=12", "model.heads=16", "model.context=2048", "train.batch=4"}},
  {"tiny", "fp32", {"model.width=8", "model.layers=1", "model.heads=1", "model.context=4", "train.batch=1"}},
};
const char *const bench_stack_names[] = {"toy", "small", "medium", "vocabulary", "large", "tiny", NULL};

struct config *bench_config(const struct bench *b, const struct bench_stack *stack, const char *const *keys,
                            int file, struct error *e)
{
  static const char *const plain[] = {
    "train.steps=1000000",    "data=markov",          "train.lr=0.001",
    "train.val_every=0",      "checkpoint.every=0",   "checkpoint.seconds=0",
    "record.spectra_every=0", "record.probe_every=0", NULL};
  const char *const *const sets[] = {plain, stack->keys, keys};
  char path[96];
  struct config *c = config_new();
  int status = STATUS_OK;
  for (int s = 0; s < 3; s++)
    for (const char *const *key = sets[s]; *key && !status; key++) status = config_assign(c, *key, e);
  snprintf(path, sizeof path, "record.path=%s/%d.h5", b->folder, file);
  if (!status && file >= 0) status = config_assign(c, path, e);
  if (!status) status = config_finish(c, e);
  if (!status) return c;
  config_free(c);
  return NULL;
}

void bench_forget(const struct bench *b, int file)
{
  static const char *const ends[] = {"h5", "journal", "lock"};
  for (int k = 0; k < 3; k++) {
    char path[96];
    snprintf(path, sizeof path, "%s/%d.%s", b->folder, file, ends[k]);
    file_remove(path);
  }
}

int bench_step(struct trainer *t, struct bench_operations *o, struct error *e)
{
  struct device *d = trainer_device(t);
  *o = (struct bench_operations){0};
  int status = trainer_settle(t, e);
  d->op_seconds = o->seconds, d->op_calls = o->calls, d->op_work = o->work;
  if (!status) status = trainer_step(t, e);
  if (!status && d->times) d->times(d);
  d->op_seconds = d->op_work = NULL, d->op_calls = NULL;
  return status;
}

void bench_doing(const char *what, const char *which)
{
  char doing[256];
  if (!isatty(STDERR_FILENO)) {
    if (what) fprintf(stderr, "bench: %s, %s\n", what, which);
    return;
  }
  if (what) snprintf(doing, sizeof doing, "%s, %s ...", what, which);
  status_line((const char *const[]){what ? doing : "", NULL});
}

double bench_sum(const double of_operations[OP_COUNT])
{
  double sum = 0;
  for (int op = 0; op < OP_COUNT; op++) sum += of_operations[op];
  return sum;
}

int bench_contrast(double seconds, int rounds, double (*time)(void *context, int which), void *context,
                   struct contrast *c)
{
  enum { MOST_ROUNDS = 400 };
  double ratio[MOST_ROUNDS], of_x[MOST_ROUNDS], end = clock_seconds() + seconds;
  int n = 0;
  *c = (struct contrast){.least = {INFINITY, INFINITY}};
  for (; n < MOST_ROUNDS && (n < rounds || clock_seconds() < end); n++) {
    double took[2];
    for (int turn = 0; turn < 2; turn++) took[turn ^ (n & 1)] = time(context, turn ^ (n & 1));
    if (isnan(took[0]) || isnan(took[1])) return 0;
    ratio[n] = took[0] / took[1], of_x[n] = took[0];
    for (int i = 0; i < 2; i++) c->least[i] = fmin(c->least[i], took[i]);
  }
  c->ratio = median_of(ratio, n), c->x = median_of(of_x, n);
  return n;
}

json_t *bench_operations(const struct bench_operations *o, int has_work)
{
  json_t *all = json_object();
  for (int op = 0; op < OP_COUNT; op++) {
    if (!o->calls[op]) continue;
    json_t *one = json_pack("{s:o}", "seconds", json_number(o->seconds[op]));
    if (has_work) json_object_set_new(one, "flops", json_number(o->work[op]));
    json_object_set_new(one, "calls", json_integer(o->calls[op]));
    json_object_set_new(all, op_name(op), one);
  }
  return all;
}

json_t *bench_ratio(const struct median *r)
{
  return json_pack("[o, o, o]", json_number(r->middle), json_number(r->low), json_number(r->high));
}

void bench_put(json_t *object, const char *name, const char *line, const struct median *r)
{
  if (object)
    json_object_set_new(object, name, bench_ratio(r));
  else if (!isnan(r->middle))
    printf("  %-34s %+.2f %%   (95 %%: %+.2f to %+.2f)\n", line, 100 * (r->middle - 1), 100 * (r->low - 1),
           100 * (r->high - 1)),
      fflush(stdout);
}
