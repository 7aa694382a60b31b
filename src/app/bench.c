#include "app/bench.h"

#include <math.h>
#include <stdio.h>
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
  char path[96];
  for (int k = 0; k < 3; k++) {
    snprintf(path, sizeof path, "%s/%d.%s", b->folder, file, ends[k]);
    file_remove(path);
  }
}

int engine_open(struct engine *g, struct config *c, int flags, struct error *e)
{
  *g = (struct engine){.config = c};
  if (!c || trainer_init(&g->trainer, c, flags, e)) return e->status;
  g->ops = trainer_device(g->trainer)->ops;
  return STATUS_OK;
}

double engine_step(struct engine *g, struct error *e)
{
  trainer_device(g->trainer)->ops = g->ops;
  double began = clock_seconds();
  return trainer_step(g->trainer, e) ? NAN : clock_seconds() - began;
}

void engine_close(struct engine *g)
{
  if (g->trainer) trainer_abandon(g->trainer);
  if (g->config) config_free(g->config);
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
  double ratio[BENCH_MOST_ROUNDS], all[2][BENCH_MOST_ROUNDS], end = INFINITY;
  int n = -1; /* the first round allocates */
  *c = (struct contrast){.least = {INFINITY, INFINITY}};
  for (; n < BENCH_MOST_ROUNDS && (n < rounds || clock_seconds() < end); n++) {
    double took[2];
    for (int turn = 0; turn < 2; turn++) took[turn ^ (n & 1)] = time(context, turn ^ (n & 1));
    if (isnan(took[0]) || isnan(took[1])) return 0;
    if (n < 0) end = clock_seconds() + seconds;
    for (int i = 0; i < 2 && n >= 0; i++) all[i][n] = took[i], c->least[i] = fmin(c->least[i], took[i]);
    if (n >= 0) ratio[n] = took[0] / took[1];
  }
  c->ratio = median_of(ratio, n);
  for (int i = 0; i < 2; i++) c->seconds[i] = median_of(all[i], n);
  return n;
}

double bench_seconds_of(void *context, int which)
{
  struct bench_programs *x = context;
  struct device *d = program_device(x->of[which]);
  double began = clock_seconds();
  for (int i = 0; i < x->repeat; i++) program_run(x->of[which]);
  if (d->wait) d->wait(d);
  return clock_seconds() - began;
}

json_t *bench_operations(const struct bench_operations *o)
{
  json_t *all = json_object();
  for (int op = 0; op < OP_COUNT; op++)
    if (o->calls[op])
      json_object_set_new(all, op_name(op),
                          json_pack("{s:o, s:o, s:I}", "seconds", json_number(o->seconds[op]), "flops",
                                    json_number(o->work[op]), "calls", (json_int_t)o->calls[op]));
  return all;
}

void bench_print_operations(const struct bench_operations *o, double share)
{
  const double all = bench_sum(o->seconds);
  for (int op = 0; op < OP_COUNT; op++)
    if (o->seconds[op] > share * all) {
      printf("    %-24s %5.1f %%  %9.1f us  %6ld calls", op_name(op), 100 * o->seconds[op] / all,
             1e6 * o->seconds[op], o->calls[op]);
      if (o->work[op] > 0) printf("  %8.1f GFLOP/s", o->work[op] / o->seconds[op] * 1e-9);
      printf("\n");
    }
  fflush(stdout);
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

int bench_print(json_t *all, int status)
{
  if (all && !status)
    json_print(all);
  else
    json_decref(all);
  return status;
}
