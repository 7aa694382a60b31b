#include "run/farm.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "run/drive.h"
#include "run/trainer.h"

static struct {
  struct comm *all, *group;
  uint64_t own, id;
  double patience;
} farm;

int farm_is_open(void) { return farm.all && farm.all->ranks > 1; }
int farm_tells(void) { return !farm.all || farm.all->rank == 0; }
uint64_t farm_id(void) { return farm.id; }
uint64_t farm_self(void) { return farm.own ^ (uint64_t)getpid(); }
double farm_patience(void) { return farm.patience; }
struct comm *farm_group(void) { return farm.group; }
int farm_groups(void) { return farm.all->ranks / farm.group->ranks; }

int farm_open(struct error *e)
{
  farm.all = comm_world(e);
  if (!farm.all) return e->status;
  farm.own = (uint64_t)(clock_seconds() * 1e9) ^ (uint64_t)getpid() << 40;
  uint64_t *all = memory_new((size_t)farm.all->ranks, sizeof *all);
  comm_gather(farm.all, &farm.own, all, sizeof farm.own);
  farm.id = all[0];
  memory_free(all);
  return STATUS_OK;
}

int farm_join(const struct comm_options *o, struct error *e)
{
  int size = o->ranks ? (int)o->ranks : 1;
  if (!farm_is_open()) return STATUS_OK;
  farm.patience = o->timeout;
  comm_patience(o->timeout);
  if (farm.group && farm.group->ranks == size) return STATUS_OK;
  if (farm.group || farm.all->ranks % size)
    error_set(e, STATUS_USAGE,
              "comm.ranks = %ld: %d ranks cannot be cut into such groups, of which each has a run at a "
              "time",
              o->ranks, farm.all->ranks);
  if (farm_barrier(e)) return e->status; /* else some wait for a group that is never formed */
  farm.group = comm_split(farm.all, farm.all->rank / size, 1);
  farm.group->is_apart = farm.all->rank >= size; /* its rank 0 prints: the sweep needs it */
  if (size > 1) trainer_use_ranks(farm.group);
  return STATUS_OK;
}

int farm_barrier(struct error *e) { return farm_is_open() ? comm_agree(farm.all, NULL, e) : e->status; }

int farm_stops(void)
{
  static int told;
  if (farm_is_open() && !drive_stopping() && comm_is_stopped(farm.all)) drive_stop(), told = 1;
  int stops = drive_stopping();
  if (farm_is_open() && stops && !told) comm_stop(farm.all), told = 1;
  return stops;
}
