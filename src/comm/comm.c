#include "comm/comm.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"
#include "comm/launcher.h"

enum { HOST_NAME = 64 };

static struct {
  struct comm comm;                 /* ranks 0: not opened */
  const struct comm_module *module; /* NULL: one rank */
  char (*host)[HOST_NAME];
  char library[256];
  double patience, sent;
  int status; /* on which the ranks have agreed that all ends */
} world = {.patience = 600};

int comm_launched(void) { return launcher_ranks() > 1; }
void comm_patience(double seconds) { world.patience = seconds; }
const char *comm_library(void) { return *world.library ? world.library : NULL; }
double comm_sent(void) { return world.sent; }
const char *comm_host(int rank) { return world.module ? world.host[rank] : "this host"; }

int comm_neighbours(void)
{
  int n = 0;
  for (int i = 0; world.module && i < world.comm.ranks; i++)
    n += !strcmp(world.host[i], world.host[world.comm.rank]);
  return n ? n : 1;
}

/* --- all ranks ------------------------------------------------------------------------------------------------ */

/* A process that ends by itself must not leave the others waiting. */
static void at_exit(void)
{
  if (!world.module) return;
  fflush(NULL);
  world.module->abort(STATUS_FAIL);
}

void comm_lacks(char *out, size_t room)
{
  struct error e = {0};
  const struct comm_module *m = launcher_module(&e);
  snprintf(out, room, "%s", e.text);
  if (m && !*world.library) m->library(world.library, sizeof world.library);
}

struct comm *comm_world(struct error *e)
{
  char why[512] = "", own[HOST_NAME] = "";
  if (world.comm.ranks) return &world.comm;
  world.comm = (struct comm){.ranks = 1};
  int ranks = launcher_ranks();
  if (ranks == 1) return &world.comm;
  world.comm.ranks = 0;
  const struct comm_module *m = launcher_module(e);
  if (!m) {
    error_prefix(e, "a launcher has started %d ranks", ranks);
    return NULL;
  }
  m->library(world.library, sizeof world.library);
  struct comm c = {0};
  c.handle = m->open(&c.rank, &c.ranks, why, sizeof why);
  if (!c.handle || c.ranks != ranks) {
    error_set(e, STATUS_USAGE,
              "a launcher has started %d ranks, and they do not find each other%s%s by %s: mpirun of another "
              "library? "
              "With Slurm: srun --mpi=pmix",
              ranks, *why ? ": " : "", why, world.library);
    return NULL;
  }
  world.module = m;
  world.comm = c;
  atexit(at_exit);
  gethostname(own, sizeof own - 1);
  world.host = memory_new((size_t)ranks, sizeof *world.host);
  comm_gather(&world.comm, own, world.host, sizeof own);
  /* what results go to is rank 0's */
  if (c.rank && !freopen("/dev/null", "w", stdout)) fclose(stdout);
  return &world.comm;
}

struct comm *comm_split(const struct comm *c, int color)
{
  struct comm *part = memory_new(1, sizeof *part);
  *part = (struct comm){.ranks = 1};
  if (c->ranks > 1) part->handle = world.module->split(c->handle, color, c->rank, &part->rank, &part->ranks);
  return part;
}

void comm_free(struct comm *c)
{
  if (!c) return;
  if (c->handle) world.module->drop(c->handle);
  memory_free(c);
}

/* --- messages --------------------------------------------------------------------------------------------------- */

static void lost(enum transfer_end end, int rank)
{
  if (end == TRANSFER_TELL) {
    if (rank >= 0)
      message("rank %d of %d on %s has not answered for %g s: lost, or stuck; go on with `maxlogit resume`, "
              "on as many "
              "ranks as there are (comm.timeout)",
              rank, world.comm.ranks, comm_host(rank), world.patience);
    else
      message("the connection between ranks has failed");
  } else {
    sleep(5); /* another one tells */
  }
  fflush(NULL);
  world.module->abort(STATUS_FAIL);
  _exit(STATUS_FAIL);
}

void comm_transfer(const struct comm *c, const struct parcel *out, int outs, const struct parcel *in, int ins)
{
  int rank = -1;
  if (!outs && !ins) return;
  REQUIRE(world.module && c->handle);
  enum transfer_end end = world.module->transfer(c->handle, out, outs, in, ins, world.patience, &rank);
  if (end != TRANSFER_DONE) lost(end, rank);
  for (int i = 0; i < outs; i++) world.sent += (double)out[i].bytes;
}

void comm_pass(const struct comm *c, int distance, const void *send, void *receive, size_t bytes)
{
  int to = (c->rank + distance) % c->ranks, from = (c->rank - distance + c->ranks) % c->ranks;
  if (to == c->rank)
    memmove(receive, send, bytes);
  else
    comm_transfer(c, &(struct parcel){to, (void *)(uintptr_t)send, bytes}, 1,
                  &(struct parcel){from, receive, bytes}, 1);
}

/* In rounds whose blocks double, from the ranks behind (Bruck); block i is that of rank + i, until all are there. */
void comm_gather(const struct comm *c, const void *own, void *all, size_t bytes)
{
  size_t ranks = (size_t)c->ranks, rank = (size_t)c->rank, have = 1;
  char *block = memory_new(ranks, bytes);
  memcpy(block, own, bytes);
  for (; have < ranks; have *= 2) {
    size_t more = have < ranks - have ? have : ranks - have;
    comm_transfer(c, &(struct parcel){(int)((rank + ranks - have) % ranks), block, more * bytes}, 1,
                  &(struct parcel){(int)((rank + have) % ranks), block + have * bytes, more * bytes}, 1);
  }
  for (size_t i = 0; i < ranks; i++)
    memcpy((char *)all + (rank + i) % ranks * bytes, block + i * bytes, bytes);
  memory_free(block);
}

/* --- agreement -------------------------------------------------------------------------------------------------- */

struct said {
  int status;
  char text[sizeof((struct error *)0)->text];
};

/* The texts of those that failed: one for all, or each with its rank. */
static void join_texts(struct error *e, const struct said *all)
{
  char text[sizeof e->text] = "";
  const char *first = NULL;
  int same = 1;
  for (int i = 0; i < world.comm.ranks; i++) {
    if (!all[i].status) same = 0;
    if (!all[i].status || !*all[i].text) continue;
    if (!first) first = all[i].text;
    same &= !strcmp(first, all[i].text);
  }
  for (int i = 0; i < world.comm.ranks && !same; i++) {
    size_t n = strlen(text);
    if (all[i].status && *all[i].text && n < sizeof text)
      snprintf(text + n, sizeof text - n, "%srank %d on %s: %s", n ? "\n" : "", i, comm_host(i), all[i].text);
  }
  *e = (struct error){0};
  if (world.comm.rank == 0) error_set(e, world.status, "%s", same && first ? first : text);
  e->status = world.status;
}

int comm_agree(unsigned *flags, struct error *e)
{
  unsigned own[2] = {(unsigned)e->status, flags ? *flags : 0};
  if (!world.module) return e->status;
  if (world.status) {
    *e = (struct error){.status = world.status};
    return world.status;
  }
  for (int d = 1; d < world.comm.ranks; d *= 2) { /* twice the same does no harm */
    unsigned other[2];
    comm_pass(&world.comm, d, own, other, sizeof own);
    if (other[0] > own[0]) own[0] = other[0];
    own[1] |= other[1];
  }
  if (flags) *flags = own[1];
  if (!own[0]) return STATUS_OK;
  struct said mine = {.status = e->status}, *all = memory_new((size_t)world.comm.ranks, sizeof *all);
  snprintf(mine.text, sizeof mine.text, "%s", e->text);
  comm_gather(&world.comm, &mine, all, sizeof mine);
  world.status = (int)own[0];
  join_texts(e, all);
  memory_free(all);
  return e->status;
}

int comm_end(int status, struct error *e)
{
  if (!world.module) return status;
  comm_agree(NULL, e);
  world.module->close();
  world.module = NULL;
  return e->status ? e->status : status;
}
