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

enum { MAX_ROUNDS = 200, LEAST_ROUNDS = 6 };

/* How a run is divided. */
enum way { BATCH, STATES, WEIGHTS, CONTEXT, WAYS };
static const struct {
  const char *name, *shard;
} ways[WAYS] = {{"micro-batches", "comm.shard=none"},
                {"micro-batches, states", "comm.shard=states"},
                {"micro-batches, weights", "comm.shard=weights"},
                {"context", "comm.shard=none"}};

struct both {
  struct config *config[2];
  struct trainer *ranked, *alone; /* alone: on rank 0 */
};

struct rank_times {
  struct median ratio, seconds; /* one rank's step by a ranked one; a ranked one */
  double sent, least, messages; /* bytes a step of the rank that sends most; share of the step in messages */
};

static int both_open(struct both *x, const struct bench *b, const struct bench_stack *stack, enum way way,
                     const char *optimizer, struct comm *all, struct error *e)
{
  char name[64], batch[64], parts[64], context[64];
  const int micro_batches = way == CONTEXT ? 1 : 2 * all->ranks;
  snprintf(name, sizeof name, "optimizer=%s", optimizer);
  snprintf(batch, sizeof batch, "train.batch=%d",
           (7 / micro_batches + 1) * micro_batches); /* 8, or a little more */
  snprintf(parts, sizeof parts, "train.micro_batches=%d", micro_batches);
  snprintf(context, sizeof context, "comm.context=%d", way == CONTEXT ? all->ranks : 1);
  const char *keys[] = {name, "device.threads=1", batch, parts, context, ways[way].shard, NULL};
  *x = (struct both){0};
  x->config[0] = bench_config(b, stack, keys, -1, e);
  trainer_use_ranks(all);
  if (x->config[0]) trainer_init(&x->ranked, x->config[0], TRAINER_NO_RECORD, e);
  if (comm_agree(all, NULL, e)) return e->status;
  keys[4] = NULL;
  trainer_use_ranks(NULL);
  if (!all->rank && (x->config[1] = bench_config(b, stack, keys, -1, e)))
    trainer_init(&x->alone, x->config[1], TRAINER_NO_RECORD, e);
  return comm_agree(all, NULL, e);
}

static void both_close(struct both *x)
{
  if (x->ranked) trainer_abandon(x->ranked);
  if (x->alone) trainer_abandon(x->alone);
  for (int i = 0; i < 2; i++)
    if (x->config[i]) config_free(x->config[i]);
}

/* A step as a run makes it, with the meeting before it. */
static double ranked_step(struct both *x, struct error *e)
{
  int stops = 0;
  double began = clock_seconds();
  if (!trainer_barrier(x->ranked, &stops, e)) trainer_step(x->ranked, e);
  return clock_seconds() - began;
}

static double alone_step(struct both *x, struct error *e)
{
  double began = clock_seconds();
  if (x->alone) trainer_step(x->alone, e);
  return clock_seconds() - began;
}

/* Of the sums over R ranks that all are to have 2 (R-1)/R go from each (Patarasuk and Yuan 2009), whether the states
   are shared out or not (Rajbhandari et al., arXiv 1910.02054); of weights that no rank keeps, for each micro-batch,
   (R-1)/R of them twice and of their gradients once (ibid., sec. 7.2.2); of a ring keys and values three times past all
   others, each its own (Liu et al., arXiv 2310.01889). */
static double least_of(const struct both *x, enum way way, int ranks)
{
  const struct model *m = trainer_model(x->ranked);
  const struct model_options *o = &m->options;
  const struct train_options *t = config_section(x->config[0], "train");
  double others = ranks - 1, least = 2 * others / ranks * (double)m->params.total;
  if (way == WEIGHTS) least *= 1.5 * (double)trainer_part(x->ranked, 0).micro_batches;
  if (way == CONTEXT)
    least += 3 * others * (double)(o->layers * t->batch * (o->context / ranks)) *
             (double)(2 * o->heads * o->head_dim);
  return least * sizeof(real);
}

static int measure(const struct bench *b, struct both *x, enum way way, struct comm *all,
                   struct rank_times *r, struct error *e)
{
  double ratio[MAX_ROUNDS], seconds[MAX_ROUNDS], end = clock_seconds() + b->seconds;
  unsigned more = 1;
  int n = 0;
  ranked_step(x, e), alone_step(x, e); /* the first ones allocate */
  double *sent = memory_new((size_t)all->ranks, sizeof *sent), own = 0;
  while (!comm_agree(all, &more, e) && more) {
    ranked_step(x, e);
    own = -comm_sent();
    seconds[n] = ranked_step(x, e);
    own += comm_sent();
    if (comm_agree(all, NULL, e)) break;
    alone_step(x, e);
    ratio[n] = alone_step(x, e) / seconds[n];
    more = ++n < MAX_ROUNDS && !all->rank && (n < LEAST_ROUNDS || clock_seconds() < end);
  }
  struct bench_operations o = {0};
  if (!e->status) bench_step(x->ranked, &o, e);
  if (!comm_agree(all, NULL, e)) {
    *r = (struct rank_times){median_of(ratio, n), median_of(seconds, n), 0, least_of(x, way, all->ranks), 0};
    comm_gather(all, &own, sent, sizeof own);
    for (int i = 0; i < all->ranks; i++) r->sent = fmax(r->sent, sent[i]);
    for (int op = 0; op < OP_COUNT; op++)
      if (op_is_between_ranks((enum op)op)) r->messages += o.seconds[op] / bench_sum(o.seconds);
  }
  memory_free(sent);
  return e->status;
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
    struct both x;
    struct rank_times r;
    char what[128];
    if (b->stack ? strcmp(b->stack, stack->name) != 0 : i >= 2 * WAYS * (BENCH_ON_CPU - 1)) continue;
    snprintf(what, sizeof what, "%s, %s, %s", stack->name, optimizer, ways[way].name);
    if (!all->rank) bench_doing(what, "ranks");
    if (!both_open(&x, b, stack, way, optimizer, all, e)) measure(b, &x, way, all, &r, e);
    both_close(&x);
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
