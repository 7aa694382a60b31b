#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "run/dist.h"
#include "storage/provenance.h"

/* Properties that must be equal on all ranks. */
struct facts {
  char program[160], kernels[16], device[16], id[16];
  uint64_t data;
  long steps, shards;
};

static struct facts facts_of(const struct trainer *t)
{
  struct provenance p;
  struct facts f = {.data = t->engine.data.content, .steps = t->plan.train->steps, .shards = dist_shards(t)};
  provenance_get(&p);
  snprintf(f.program, sizeof f.program, "%.40s, revision %.60s%s, numerics %d", p.version, p.revision,
           p.dirty > 0 ? " (changed)" : "", NUMERICS_VERSION);
  /* all levels with a fused multiply-add have the same bits */
  snprintf(f.kernels, sizeof f.kernels, "%s", strcmp(ops_cpu_level(), "base") ? "fused" : "base");
  snprintf(f.device, sizeof f.device, "%.15s", t->engine.device->name);
  snprintf(f.id, sizeof f.id, "%.15s", t->plan.id);
  return f;
}

static void tell_as(int status, const struct trainer *t, struct error *e, int rank, const char *what,
                    const char *there, const char *here)
{
  error_set(e, status, "rank %d on %s has %s %s, and rank %d on %s has %s: all ranks must be alike",
            comm_number(t->ranks.comm, rank), comm_host(t->ranks.comm, rank), what, there,
            comm_number(t->ranks.comm, 0), comm_host(t->ranks.comm, 0), here);
}

static void describe_difference(const struct trainer *t, struct error *e, int rank, const char *what,
                                const char *there, const char *here)
{
  tell_as(STATUS_FAIL, t, e, rank, what, there, here);
}

/* train.steps is part of the id as well. It has its own message, because a resume may request it. */
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
  if (t->ranks.comm->ranks == 1) return STATUS_OK;
  if (comm_agree(t->ranks.comm, NULL, e)) return e->status;
  struct facts own = facts_of(t), *all = memory_new((size_t)t->ranks.comm->ranks, sizeof *all);
  comm_gather(t->ranks.comm, &own, all, sizeof own);
  for (int i = 1; i < t->ranks.comm->ranks; i++) compare(t, e, i, &all[i], &all[0]);
  memory_free(all);
  return e->status;
}
