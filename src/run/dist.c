#include "run/dist.h"

#include <string.h>

#include "base/memory.h"
#include "base/thread.h"
#include "observe/observers.h"
#include "training/optimizer.h"

static struct comm *of_runs;

void trainer_use_ranks(struct comm *c) { of_runs = c; }

struct comm *dist_ranks(int beside_others)
{
  static struct comm one = {.ranks = 1};
  return of_runs && !beside_others ? of_runs : &one;
}

int dist_threads(const struct trainer *t, int threads)
{
  if (threads || t->ranks.comm->ranks == 1) return threads;
  int share = thread_cores() / comm_neighbours();
  return share > 0 ? share : 1;
}

/* Check that the ranks along the context divide the ranks. A resume, which has its configuration from the file, may
   choose another division; a rerun may not. */
static int check_context(const struct trainer *t, struct error *e)
{
  const int ranks = t->ranks.comm->ranks;
  const long context = ((const struct model_options *)config_section(t->plan.config, "model"))->context;
  if (t->ranks.context == 1) return STATUS_OK;
  if (t->ranks.context & (t->ranks.context - 1))
    return error_set(e, STATUS_USAGE, "comm.context = %ld: allowed is a power of two", t->ranks.context);
  if (context % (2 * t->ranks.context))
    return error_set(e, STATUS_USAGE,
                     "comm.context = %ld cannot cut model.context = %ld: it is cut into %ld pieces of equal "
                     "length, two for each rank",
                     t->ranks.context, context, 2 * t->ranks.context);
  if (ranks % t->ranks.context)
    return error_set(
      e, STATUS_USAGE,
      "comm.context = %ld, and %d rank%s there: `mpirun -n %ld maxlogit ...` starts so many; allowed are "
      "multiples of it%s",
      t->ranks.context, ranks, ranks == 1 ? " is" : "s are", t->ranks.context,
      t->plan.origin && t->plan.owns_config ? ". comm.context=1 goes on with one rank, to other roundings"
                                            : "");
  return STATUS_OK;
}

/* All ranks must agree on comm.context before they split: a missing rank would block the others. */
static int check_contexts(const struct trainer *t, struct error *e)
{
  long *all = memory_new((size_t)t->ranks.comm->ranks, sizeof *all);
  comm_gather(t->ranks.comm, &t->ranks.context, all, sizeof *all);
  for (int i = 1; i < t->ranks.comm->ranks && !e->status; i++)
    if (all[i] != all[0])
      error_set(e, STATUS_FAIL,
                "rank %d on %s has comm.context = %ld, and rank %d has %ld: all ranks must be alike",
                comm_number(t->ranks.comm, i), comm_host(t->ranks.comm, i), all[i],
                comm_number(t->ranks.comm, 0), all[0]);
  memory_free(all);
  return e->status;
}

int dist_split(struct trainer *t, struct error *e)
{
  const struct comm_options *o = config_section(t->plan.config, "comm");
  comm_patience(o->timeout);
  if (!t->ranks.context) t->ranks.context = o->context;
  check_context(t, e);
  if (comm_agree(t->ranks.comm, NULL, e)) return e->status;
  if (t->ranks.comm->ranks > 1 && check_contexts(t, e)) return e->status;
  if (t->ranks.context == 1) return STATUS_OK;
  int along = (int)(t->ranks.comm->rank % t->ranks.context),
      batch = (int)(t->ranks.comm->rank / t->ranks.context);
  t->ranks.part[RANKS_CONTEXT] = comm_split(t->ranks.comm, batch, 0);
  t->ranks.part[RANKS_BATCH] = comm_split(t->ranks.comm, along, 0);
  return STATUS_OK;
}

long dist_shards(const struct trainer *t)
{
  return t->ranks.comm->ranks > 1
           ? ((const struct comm_options *)config_section(t->plan.config, "comm"))->shard
           : SHARD_NONE;
}

int dist_reduces_early(const struct trainer *t)
{
  return t->ranks.comm->ranks > 1 && t->ranks.context == 1 && dist_shards(t) != SHARD_WEIGHTS &&
         !t->engine.device->stream && !t->engine.device->enter &&
         t->plan.train->micro_batches == t->ranks.comm->ranks;
}

int dist_check_shards(const struct trainer *t, struct error *e)
{
  const struct override_options *override = config_section(t->plan.config, "override");
  if (dist_shards(t) != SHARD_WEIGHTS) return STATUS_OK;
  if (t->ranks.context > 1)
    return error_set(e, STATUS_USAGE, "comm.shard = weights with comm.context = %ld; allowed: one of the two",
                     t->ranks.context);
  if (strcmp(t->plan.top->device, "cpu") || sizeof(real) != sizeof(float))
    return error_set(e, STATUS_USAGE, "comm.shard = weights with device = %s; allowed: device = cpu",
                     t->plan.top->device);
  if (t->plan.train->micro_batches & (t->plan.train->micro_batches - 1))
    return error_set(e, STATUS_USAGE,
                     "comm.shard = weights with train.micro_batches = %ld; allowed: a power of two, so that "
                     "ranks can join their gradients after each",
                     t->plan.train->micro_batches);
  if (override->match != MATCH_LR)
    return error_set(e, STATUS_USAGE,
                     "comm.shard = weights with override.match: whole updates are on no rank; allowed: "
                     "override.match = lr");
  return STATUS_OK;
}

/* Parts that read or write whole matrices outside of passes. */
static int check_whole(const struct trainer *t, struct error *e)
{
  for (int i = 0; t->ranks.shards && i < t->engine.model.stabilizer_count; i++)
    if (t->engine.model.stabilizer[i]->flags & STABILIZER_WHOLE)
      return error_set(
        e, STATUS_USAGE,
        "stabilizers: %s changes whole matrices, of which comm.shard = weights leaves each rank "
        "pieces; allowed: others, or comm.shard = states",
        t->engine.model.stabilizer[i]->name);
  return STATUS_OK;
}

int dist_check_parts(const struct trainer *t, struct error *e)
{
  const char *whole = observers_whole(t->plan.record.observe);
  if (check_whole(t, e) || t->ranks.context == 1) return e->status;
  if (whole)
    return error_set(e, STATUS_USAGE,
                     "record.observe: %s looks at whole sequences, which comm.context = %ld cuts; allowed: "
                     "without it, or comm.context = 1",
                     whole, t->ranks.context);
  for (int i = 0; i < t->engine.model.stabilizer_count; i++)
    if (t->engine.model.stabilizer[i]->flags & (STABILIZER_WEIGHS | STABILIZER_SCALES_QUERIES))
      return error_set(
        e, STATUS_USAGE,
        "stabilizers: %s makes weights of whole rows of scores, which comm.context = %ld cuts; "
        "allowed: others, or comm.context = 1",
        t->engine.model.stabilizer[i]->name, t->ranks.context);
  for (int l = 0; l < model_blocks(&t->engine.model.options); l++)
    if (model_router(&t->engine.model, l).has_loss)
      return error_set(
        e, STATUS_USAGE,
        "moe.balance: the loss of balance is that of whole sequences, which comm.context = %ld "
        "cuts; allowed: bias, none, or comm.context = 1",
        t->ranks.context);
  return STATUS_OK;
}

int dist_divide(struct trainer *t, struct error *e)
{
  const struct comm_options *o = config_section(t->plan.config, "comm");
  int ranks = t->ranks.comm->ranks;
  if (o->ranks && o->ranks != ranks)
    return error_set(
      e, STATUS_USAGE,
      "comm.ranks = %ld, and %d %s there: `mpirun -n %ld maxlogit ...` starts so many; comm.ranks=0 takes "
      "what there is",
      o->ranks, ranks, ranks == 1 ? "is" : "are", o->ranks);
  ranks /= (int)t->ranks.context;
  if ((ranks & (ranks - 1)) || t->plan.train->micro_batches % ranks)
    return error_set(
      e, STATUS_USAGE,
      "%d ranks cannot divide train.micro_batches = %ld: allowed is a power of two of ranks that divides "
      "it, so that the sums over micro-batches are one balanced tree on any of them",
      ranks, t->plan.train->micro_batches);
  t->ranks.micro_batches = t->plan.train->micro_batches / ranks;
  t->ranks.first_micro = t->ranks.comm->rank / t->ranks.context * t->ranks.micro_batches;
  t->ranks.micro_stride = 1;
  if (t->ranks.shards) t->ranks.first_micro = t->ranks.comm->rank, t->ranks.micro_stride = ranks;
  return STATUS_OK;
}

struct rank_part trainer_part(const struct trainer *t, int rank)
{
  const struct zigzag cut = {t->engine.host.context, (int)(rank % t->ranks.context), (int)t->ranks.context};
  const long rows = zigzag_rows(&cut), half = rows / 2;
  const long head = zigzag_position(&cut, 0), tail = zigzag_position(&cut, rows - half);
  return (struct rank_part){t->ranks.shards ? rank : rank / t->ranks.context * t->ranks.micro_batches,
                            t->ranks.micro_stride,
                            t->ranks.micro_batches,
                            t->ranks.context,
                            {head, tail},
                            {head + rows - half, tail + half}};
}

int dist_barrier(struct trainer *t, int *stops, struct error *e)
{
  enum { STOPS = 1, SAVES = 2 };
  unsigned flags = (*stops ? STOPS : 0) | (t->saves && !t->ranks.comm->rank ? SAVES : 0);
  int status = comm_agree(t->ranks.comm, &flags, e);
  *stops = (flags & STOPS) != 0;
  t->saves = (flags & SAVES) != 0;
  return status;
}
