#include "run/dist.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread.h"
#include "observe/observers.h"
#include "storage/provenance.h"
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
  if (threads || t->comm->ranks == 1) return threads;
  int share = thread_cores() / comm_neighbours();
  return share > 0 ? share : 1;
}

/* Ranks that can neither be along the context nor divide the batch. A resume, which has its configuration from the
   file, may cut otherwise, a rerun may not. */
static int check_context(const struct trainer *t, struct error *e)
{
  const int ranks = t->comm->ranks;
  const long context = ((const struct model_options *)config_section(t->config, "model"))->context;
  if (t->context == 1) return STATUS_OK;
  if (t->context & (t->context - 1))
    return error_set(e, STATUS_USAGE, "comm.context = %ld: allowed is a power of two", t->context);
  if (context % (2 * t->context))
    return error_set(e, STATUS_USAGE,
                     "comm.context = %ld cannot cut model.context = %ld: it is cut into %ld pieces of equal "
                     "length, two for each rank",
                     t->context, context, 2 * t->context);
  if (ranks % t->context)
    return error_set(
      e, STATUS_USAGE,
      "comm.context = %ld, and %d rank%s there: `mpirun -n %ld maxlogit ...` starts so many; allowed are "
      "multiples of it%s",
      t->context, ranks, ranks == 1 ? " is" : "s are", t->context,
      t->origin && t->owns_config ? ". comm.context=1 goes on with one rank, to other roundings" : "");
  return STATUS_OK;
}

/* Who is asked for another number must be told before anyone waits for a group that will not come about. */
static int check_contexts(const struct trainer *t, struct error *e)
{
  long *all = memory_new((size_t)t->comm->ranks, sizeof *all);
  comm_gather(t->comm, &t->context, all, sizeof *all);
  for (int i = 1; i < t->comm->ranks && !e->status; i++)
    if (all[i] != all[0])
      error_set(e, STATUS_FAIL,
                "rank %d on %s has comm.context = %ld, and rank %d has %ld: all ranks must be alike",
                comm_number(t->comm, i), comm_host(t->comm, i), all[i], comm_number(t->comm, 0), all[0]);
  memory_free(all);
  return e->status;
}

int dist_split(struct trainer *t, struct error *e)
{
  const struct comm_options *o = config_section(t->config, "comm");
  comm_patience(o->timeout);
  if (!t->context) t->context = o->context;
  check_context(t, e);
  if (comm_agree(t->comm, NULL, e)) return e->status;
  if (t->comm->ranks > 1 && check_contexts(t, e)) return e->status;
  if (t->context == 1) return STATUS_OK;
  int along = (int)(t->comm->rank % t->context), batch = (int)(t->comm->rank / t->context);
  t->part[RANKS_CONTEXT] = comm_split(t->comm, batch, 0);
  t->part[RANKS_BATCH] = comm_split(t->comm, along, 0);
  return STATUS_OK;
}

long dist_shards(const struct trainer *t)
{
  return t->comm->ranks > 1 ? ((const struct comm_options *)config_section(t->config, "comm"))->shard
                            : SHARD_NONE;
}

int dist_reduces_early(const struct trainer *t)
{
  return t->comm->ranks > 1 && t->context == 1 && dist_shards(t) != SHARD_WEIGHTS && !t->device->stream &&
         !t->device->enter && t->train->micro_batches == t->comm->ranks;
}

int dist_check_shards(const struct trainer *t, struct error *e)
{
  const struct override_options *override = config_section(t->config, "override");
  if (dist_shards(t) != SHARD_WEIGHTS) return STATUS_OK;
  if (t->context > 1)
    return error_set(e, STATUS_USAGE, "comm.shard = weights with comm.context = %ld; allowed: one of the two",
                     t->context);
  if (strcmp(t->top->device, "cpu") || sizeof(real) != sizeof(float))
    return error_set(e, STATUS_USAGE, "comm.shard = weights with device = %s; allowed: device = cpu",
                     t->top->device);
  if (t->train->micro_batches & (t->train->micro_batches - 1))
    return error_set(e, STATUS_USAGE,
                     "comm.shard = weights with train.micro_batches = %ld; allowed: a power of two, so that "
                     "ranks can join their gradients after each",
                     t->train->micro_batches);
  if (override->match != MATCH_LR)
    return error_set(e, STATUS_USAGE,
                     "comm.shard = weights with override.match: whole updates are on no rank; allowed: "
                     "override.match = lr");
  return STATUS_OK;
}

/* Those that look at, or write, whole matrices outside of passes. */
static int check_whole(const struct trainer *t, struct error *e)
{
  for (int i = 0; t->shards && i < t->model.stabilizer_count; i++)
    if (t->model.stabilizer[i]->flags & STABILIZER_WHOLE)
      return error_set(
        e, STATUS_USAGE,
        "stabilizers: %s changes whole matrices, of which comm.shard = weights leaves each rank "
        "pieces; allowed: others, or comm.shard = states",
        t->model.stabilizer[i]->name);
  return STATUS_OK;
}

int dist_check_parts(const struct trainer *t, struct error *e)
{
  const char *whole = observers_whole(t->record.observe);
  if (check_whole(t, e) || t->context == 1) return e->status;
  if (whole)
    return error_set(e, STATUS_USAGE,
                     "record.observe: %s looks at whole sequences, which comm.context = %ld cuts; allowed: "
                     "without it, or comm.context = 1",
                     whole, t->context);
  for (int i = 0; i < t->model.stabilizer_count; i++)
    if (t->model.stabilizer[i]->flags & (STABILIZER_WEIGHS | STABILIZER_SCALES_QUERIES))
      return error_set(
        e, STATUS_USAGE,
        "stabilizers: %s makes weights of whole rows of scores, which comm.context = %ld cuts; "
        "allowed: others, or comm.context = 1",
        t->model.stabilizer[i]->name, t->context);
  for (int l = 0; l < model_blocks(&t->model.options); l++)
    if (model_router(&t->model, l).has_loss)
      return error_set(
        e, STATUS_USAGE,
        "moe.balance: the loss of balance is that of whole sequences, which comm.context = %ld "
        "cuts; allowed: bias, none, or comm.context = 1",
        t->context);
  return STATUS_OK;
}

int dist_divide(struct trainer *t, struct error *e)
{
  const struct comm_options *o = config_section(t->config, "comm");
  int ranks = t->comm->ranks;
  if (o->ranks && o->ranks != ranks)
    return error_set(
      e, STATUS_USAGE,
      "comm.ranks = %ld, and %d %s there: `mpirun -n %ld maxlogit ...` starts so many; comm.ranks=0 takes "
      "what there is",
      o->ranks, ranks, ranks == 1 ? "is" : "are", o->ranks);
  ranks /= (int)t->context;
  if ((ranks & (ranks - 1)) || t->train->micro_batches % ranks)
    return error_set(
      e, STATUS_USAGE,
      "%d ranks cannot divide train.micro_batches = %ld: allowed is a power of two of ranks that divides "
      "it, so that the sums over micro-batches are one balanced tree on any of them",
      ranks, t->train->micro_batches);
  t->micro_batches = t->train->micro_batches / ranks;
  t->first_micro = t->comm->rank / t->context * t->micro_batches;
  t->micro_stride = 1;
  if (t->shards) t->first_micro = t->comm->rank, t->micro_stride = ranks;
  return STATUS_OK;
}

struct rank_part trainer_part(const struct trainer *t, int rank)
{
  const struct zigzag cut = {t->host.context, (int)(rank % t->context), (int)t->context};
  const long rows = zigzag_rows(&cut), half = rows / 2;
  const long head = zigzag_position(&cut, 0), tail = zigzag_position(&cut, rows - half);
  return (struct rank_part){t->shards ? rank : rank / t->context * t->micro_batches,
                            t->micro_stride,
                            t->micro_batches,
                            t->context,
                            {head, tail},
                            {head + rows - half, tail + half}};
}

/* What must be equal. */
struct facts {
  char program[160], kernels[16], device[16], id[16];
  uint64_t data;
  long steps, shards;
};

static struct facts facts_of(const struct trainer *t)
{
  struct provenance p;
  struct facts f = {.data = t->data.content, .steps = t->train->steps, .shards = dist_shards(t)};
  provenance_get(&p);
  snprintf(f.program, sizeof f.program, "%.40s, revision %.60s%s, numerics %d", p.version, p.revision,
           p.dirty > 0 ? " (changed)" : "", NUMERICS_VERSION);
  /* all but those without a fused multiply-add have the same bits */
  snprintf(f.kernels, sizeof f.kernels, "%s", strcmp(ops_cpu_level(), "base") ? "fused" : "base");
  snprintf(f.device, sizeof f.device, "%.15s", t->device->name);
  snprintf(f.id, sizeof f.id, "%.15s", t->id);
  return f;
}

static void tell_as(int status, const struct trainer *t, struct error *e, int rank, const char *what,
                    const char *there, const char *here)
{
  error_set(e, status, "rank %d on %s has %s %s, and rank %d on %s has %s: all ranks must be alike",
            comm_number(t->comm, rank), comm_host(t->comm, rank), what, there, comm_number(t->comm, 0),
            comm_host(t->comm, 0), here);
}

static void describe_difference(const struct trainer *t, struct error *e, int rank, const char *what,
                                const char *there, const char *here)
{
  tell_as(STATUS_FAIL, t, e, rank, what, there, here);
}

/* Part of the id as well: said by itself, it is what a resume was asked for. */
static void compare_steps(const struct trainer *t, struct error *e, int rank, long there, long here)
{
  char text[2][32];
  if (there == here) return;
  snprintf(text[0], sizeof text[0], "%ld", there);
  snprintf(text[1], sizeof text[1], "%ld", here);
  tell_as(STATUS_USAGE, t, e, rank, "train.steps =", text[0], text[1]);
}

static void compare(const struct trainer *t, struct error *e, int rank, const struct facts *a,
                    const struct facts *b)
{
  if (strcmp(a->program, b->program)) describe_difference(t, e, rank, "the program", a->program, b->program);
  if (strcmp(a->kernels, b->kernels))
    describe_difference(t, e, rank, "kernels with products that are", a->kernels, b->kernels);
  if (strcmp(a->device, b->device)) describe_difference(t, e, rank, "the device", a->device, b->device);
  if (a->data != b->data) describe_difference(t, e, rank, "data of", "another content", "its own");
  compare_steps(t, e, rank, a->steps, b->steps);
  if (strcmp(a->id, b->id)) describe_difference(t, e, rank, "the configuration of the run", a->id, b->id);
  if (a->shards != b->shards) describe_difference(t, e, rank, "another", "comm.shard", "its own");
}

int dist_verify(struct trainer *t, struct error *e)
{
  if (t->comm->ranks == 1) return STATUS_OK;
  if (comm_agree(t->comm, NULL, e)) return e->status;
  struct facts own = facts_of(t), *all = memory_new((size_t)t->comm->ranks, sizeof *all);
  comm_gather(t->comm, &own, all, sizeof own);
  for (int i = 1; i < t->comm->ranks; i++) compare(t, e, i, &all[i], &all[0]);
  memory_free(all);
  return e->status;
}

int dist_barrier(struct trainer *t, int *stops, struct error *e)
{
  enum { STOPS = 1, SAVES = 2 };
  unsigned flags = (*stops ? STOPS : 0) | (t->saves && !t->comm->rank ? SAVES : 0);
  int status = comm_agree(t->comm, &flags, e);
  *stops = (flags & STOPS) != 0;
  t->saves = (flags & SAVES) != 0;
  return status;
}
