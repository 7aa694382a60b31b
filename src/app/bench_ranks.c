/* bench_ranks.c - steps of one run on all ranks against one rank, and bytes sent against the least possible
   Both kinds of steps alternate, two of each, and the second counts: in the first other ranks may still sleep, and rank
   0 has in its caches the data of the step before, unlike in a run. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "analysis/json.h"
#include "app/bench.h"
#include "base/clock.h"
#include "base/memory.h"
#include "comm/comm.h"

/* How a run is divided. */
enum way { BATCH, STATES, WEIGHTS, CONTEXT, WAYS };
static const struct {
  const char *name, *shard;
} ways[WAYS] = {{"micro-batches", "comm.shard=none"},
                {"micro-batches, states", "comm.shard=states"},
                {"micro-batches, weights", "comm.shard=weights"},
                {"context", "comm.shard=none"}};

struct both {
  struct engine alone, ranked; /* alone: on rank 0 */
  struct comm *all;
  struct error *error;
  double sent; /* bytes of this rank in the last ranked step */
};

struct rank_times {
  struct median ratio, seconds; /* one rank's step by a ranked one; a ranked one */
  double sent, least, messages; /* bytes a step of the rank that sends most; share of the step in messages */
};

static int both_open(struct both *x, const struct bench *b, const struct bench_stack *stack, enum way way,
                     const char *optimizer)
{
  char name[64], batch[64], parts[64], context[64];
  const int ranks = x->all->ranks, micro_batches = way == CONTEXT ? 1 : 2 * ranks;
  snprintf(name, sizeof name, "optimizer=%s", optimizer);
  snprintf(batch, sizeof batch, "train.batch=%d",
           (7 / micro_batches + 1) * micro_batches); /* 8, or a little more */
  snprintf(parts, sizeof parts, "train.micro_batches=%d", micro_batches);
  snprintf(context, sizeof context, "comm.context=%d", way == CONTEXT ? ranks : 1);
  const char *keys[] = {name, "device.threads=1", batch, parts, context, ways[way].shard, NULL};
  trainer_use_ranks(x->all);
  engine_open(&x->ranked, bench_config(b, stack, keys, -1, x->error), TRAINER_NO_RECORD, x->error);
  trainer_use_ranks(NULL);
  keys[4] = NULL;
  if (!comm_agree(x->all, NULL, x->error) && !x->all->rank)
    engine_open(&x->alone, bench_config(b, stack, keys, -1, x->error), TRAINER_NO_RECORD, x->error);
  return comm_agree(x->all, NULL, x->error);
}

/* Seconds of the second of two steps: alone, or as a run makes it, with the meeting before it. */
static double seconds_of_both(void *context, int ranked)
{
  struct both *x = context;
  struct engine *g = ranked ? &x->ranked : &x->alone;
  double seconds = 0;
  if (comm_agree(x->all, NULL, x->error)) return NAN;
  for (int i = 0, stops = 0; i < 2 && g->trainer && !isnan(seconds); i++) {
    const double sent = comm_sent(), began = clock_seconds();
    if (ranked && trainer_barrier(g->trainer, &stops, x->error)) return NAN;
    seconds = isnan(engine_step(g, x->error)) ? NAN : clock_seconds() - began;
    if (ranked) x->sent = comm_sent() - sent;
  }
  return seconds;
}

/* Of the sums over R ranks that all are to have 2 (R-1)/R go from each (Patarasuk and Yuan 2009), whether the states
   are shared out or not (Rajbhandari et al., arXiv 1910.02054); of weights that no rank keeps, for each micro-batch,
   (R-1)/R of them twice and of their gradients once (ibid., sec. 7.2.2); of a ring keys and values three times past all
   others, each its own (Liu et al., arXiv 2310.01889). */
static double least_of(const struct both *x, enum way way, int ranks)
{
  const struct model *m = trainer_model(x->ranked.trainer);
  const struct model_options *o = &m->options;
  const struct train_options *t = config_section(x->ranked.config, "train");
  double others = ranks - 1, least = 2 * others / ranks * (double)m->params.total;
  if (way == WEIGHTS) least *= 1.5 * (double)trainer_part(x->ranked.trainer, 0).micro_batches;
  if (way == CONTEXT)
    least += 3 * others * (double)(o->layers * t->batch * (o->context / ranks)) *
             (double)(2 * o->heads * o->head_dim);
  return least * sizeof(real);
}

static int measure(const struct bench *b, struct both *x, enum way way, struct rank_times *r)
{
  struct comm *all = x->all;
  struct bench_operations o = {0};
  struct contrast c;
  const double once = seconds_of_both(x, 0) + seconds_of_both(x, 1);
  /* the flags of the others are 0: rank 0 decides for all */
  unsigned rounds =
    all->rank ? 0 : (unsigned)fmin(BENCH_MOST_ROUNDS, fmax(BENCH_ROUNDS, b->seconds / (2 * once)));
  if (comm_agree(all, &rounds, x->error)) return x->error->status;
  bench_contrast(0, (int)rounds, seconds_of_both, x, &c);
  if (!x->error->status) bench_step(x->ranked.trainer, &o, x->error);
  if (comm_agree(all, NULL, x->error)) return x->error->status;
  *r = (struct rank_times){c.ratio, c.seconds[1], 0, least_of(x, way, all->ranks), 0};
  double *sent = memory_new((size_t)all->ranks, sizeof *sent);
  comm_gather(all, &x->sent, sent, sizeof *sent);
  for (int i = 0; i < all->ranks; i++) r->sent = fmax(r->sent, sent[i]);
  for (int op = 0; op < OP_COUNT; op++)
    if (op_is_between_ranks((enum op)op)) r->messages += o.seconds[op] / bench_sum(o.seconds);
  memory_free(sent);
  return STATUS_OK;
}

static void print(const struct rank_times *r, const char *what, int ranks)
{
  printf("%s, %d ranks: %.2f steps/s, %.2f times one rank's   (95 %%: %.2f to %.2f)\n", what, ranks,
         1 / r->seconds.middle, r->ratio.middle, r->ratio.low, r->ratio.high);
  printf("  %-34s %.4g kB a step, %.3f times the least (%.4g)\n", "sent by each", r->sent / 1e3,
         r->sent / r->least, r->least / 1e3);
  printf("  %-34s %.1f %% of a step, the waiting included\n", "messages", 100 * r->messages);
  fflush(stdout);
}

static json_t *object_of(const struct rank_times *r, const char *stack, const char *optimizer, enum way way)
{
  return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "stack", stack, "optimizer", optimizer,
                   "divided", ways[way].name, "step_seconds", bench_ratio(&r->seconds), "times_one_rank",
                   bench_ratio(&r->ratio), "sent_bytes", json_number(r->sent), "least_bytes",
                   json_number(r->least), "messages", json_number(r->messages));
}

int bench_ranks(const struct bench *b, struct comm *all, struct error *e)
{
  json_t *rows = b->json ? json_array() : NULL;
  for (int i = 0; i < BENCH_ON_CPU * 2 * WAYS && !e->status; i++) {
    const struct bench_stack *stack = &bench_stacks[i / (2 * WAYS)];
    const char *optimizer = i / WAYS % 2 ? "muon" : "adam";
    const enum way way = (enum way)(i % WAYS);
    struct both x = {.all = all, .error = e};
    struct rank_times r;
    char what[128];
    if (b->stack ? strcmp(b->stack, stack->name) != 0 : i >= 2 * WAYS * (BENCH_ON_CPU - 1)) continue;
    snprintf(what, sizeof what, "%s, %s, %s", stack->name, optimizer, ways[way].name);
    if (!all->rank) bench_doing(what, "ranks");
    if (!both_open(&x, b, stack, way, optimizer)) measure(b, &x, way, &r);
    engine_close(&x.ranked), engine_close(&x.alone);
    if (all->rank) continue;
    bench_doing(NULL, NULL);
    if (!e->status && rows)
      json_array_append_new(rows, object_of(&r, stack->name, optimizer, way));
    else if (!e->status)
      print(&r, what, all->ranks);
  }
  if (rows && !e->status && !all->rank)
    json_print(
      json_pack("{s:s, s:i, s:O}", "kernels", ops_cpu_level(), "ranks", all->ranks, "divided", rows));
  json_decref(rows);
  return e->status;
}
