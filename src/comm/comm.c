#include "comm/comm.h"
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/platform.h"
#include "base/text.h"
#include "base/thread.h"
#include "comm/guard.h"
#include "comm/launcher.h"
#include "comm/transfer.h"

enum { SAID = 4096 }; /* bytes of message lines that are kept */

/* Data that all ranks have about each rank. */
struct rank_place {
  char host[64];
  uint64_t cores; /* a hash of the cores that it may run on */
};

static struct {
  struct comm comm;                 /* ranks 0: not opened */
  const struct comm_module *module; /* NULL: one rank */
  struct rank_place *place;
  char library[256];
  unsigned parts; /* a bit for each open group; bit 0: all ranks */
  double patience, sent;
  char *said; /* lines: on rank 0 those already printed, on others those not yet printed */
  size_t said_bytes;
} world = {.patience = 600, .parts = 1};

void comm_patience(double seconds) { world.patience = seconds; }
const char *comm_library(void) { return *world.library ? world.library : NULL; }
double comm_sent(void) { return world.sent; }

const char *comm_host(const struct comm *c, int rank)
{
  return c->of_all ? world.place[c->of_all[rank]].host : "this host";
}

int comm_number(const struct comm *c, int rank) { return c->of_all ? c->of_all[rank] : rank; }

int comm_neighbours(void)
{
  int n = 0;
  for (int i = 0; world.module && i < world.comm.ranks; i++)
    n += !memcmp(&world.place[i], &world.place[world.comm.rank], sizeof *world.place);
  return n ? n : 1;
}

/* --- all ranks ------------------------------------------------------------------------------------------------ */

static void name_here(char *out, size_t room)
{
  *out = 0;
  gethostname(out, room - 1);
  out[room - 1] = 0;
}

/* MPI cannot report a silent rank while it begins or ends. A stuck rank is known only from the processes of this
   host. */
static void late(void)
{
  char host[64];
  const int stuck = launcher_stuck(), ranks = launcher_ranks();
  name_here(host, sizeof host);
  messages_to(NULL);
  if (stuck >= 0)
    message("rank %d of %d on %s has not answered for %g s: lost, or stuck (comm.timeout), while ranks begin "
            "or end",
            stuck, ranks, host, world.patience);
  else
    message("rank %d of %d on %s has waited for %g s (comm.timeout) for others to begin or end: one is "
            "lost, or stuck",
            launcher_rank(), ranks, host, world.patience);
}

/* Limit the time of MPI calls that wait for other ranks. Lower ranks time out first and report, because the first
   report ends all ranks. */
static void limit_begin(void)
{
  const int rank = launcher_rank();
  if (!launcher_is_simulated()) guard_begin(world.patience + 2 * (rank < 20 ? rank : 20), late);
}

static void limit_end(void)
{
  if (!launcher_is_simulated()) guard_end();
}

enum { TO_ABORT = 10 }; /* seconds for MPI_Abort */

/* A library may end the process by exit(); its handlers must not come here again. */
static void end_all(void)
{
  const struct comm_module *m = world.module;
  world.module = NULL;
  if (!launcher_is_simulated()) guard_begin(TO_ABORT, NULL);
  m->abort(STATUS_FAIL);
  _exit(STATUS_FAIL);
}

/* A process that exits must not leave the others waiting. */
static void at_exit(void)
{
  if (!world.module) return;
  fflush(NULL);
  end_all();
}

void comm_lacks(char *out, size_t room)
{
  struct error e = {0};
  const struct comm_module *m = launcher_module(&e);
  snprintf(out, room, "%s", e.text);
  if (m && !*world.library) m->library(world.library, sizeof world.library);
}

/* The message hook: rank 0 prints the line, the others store it for comm_tell. */
static int hear(const char *line)
{
  size_t n = strlen(line) + 1;
  if (world.said_bytes + n > SAID) return world.comm.rank == 0;
  world.said = memory_grow(world.said, world.said_bytes, world.said_bytes + n, 1);
  memcpy(world.said + world.said_bytes, line, n);
  world.said_bytes += n;
  return world.comm.rank == 0;
}

static int was_said(const char *line)
{
  for (size_t at = 0; at < world.said_bytes; at += strlen(world.said + at) + 1)
    if (!strcmp(world.said + at, line)) return 1;
  return 0;
}

void comm_tell(void)
{
  if (!world.module) return;
  int any = world.comm.rank && world.said_bytes;
  for (int d = 1; d < world.comm.ranks; d *= 2) {
    int other;
    comm_pass(&world.comm, d, &any, &other, sizeof any);
    any |= other;
  }
  if (!any) return;
  char *own = memory_new(SAID + 1, 1), *all = memory_new((size_t)world.comm.ranks, SAID + 1);
  if (world.said_bytes) memcpy(own, world.said, world.said_bytes);
  comm_gather(&world.comm, own, all, SAID + 1);
  for (int i = 1; world.comm.rank == 0 && i < world.comm.ranks; i++)
    for (const char *line = all + (size_t)i * (SAID + 1); *line; line += strlen(line) + 1)
      if (!was_said(line)) message("rank %d on %s: %s", i, comm_host(&world.comm, i), line), hear(line);
  if (world.comm.rank) world.said_bytes = 0;
  memory_free(own);
  memory_free(all);
}

static struct rank_place place_here(void)
{
  struct rank_place own = {.cores = 14695981039346656037u};
  size_t bytes;
  int cores;
  unsigned char *set = platform_affinity(&bytes, &cores);
  name_here(own.host, sizeof own.host);
  for (size_t i = 0; set && i < bytes; i++) own.cores = (own.cores ^ set[i]) * 1099511628211u;
  free(set);
  return own;
}

struct comm *comm_world(struct error *e)
{
  char why[512] = "";
  if (world.comm.ranks) return &world.comm;
  world.comm = (struct comm){.ranks = 1};
  int ranks = launcher_ranks();
  if (ranks == 1) return &world.comm;
  world.comm.ranks = 0;
  const struct comm_module *m = launcher_module(e);
  if (!m) {
    error_prefix(e, "a launcher has started %d ranks", ranks);
    if (launcher_rank()) { /* only rank 0 reports; a launcher may end all when one has ended */
      *e->text = 0;
      sleep(2);
    }
    return NULL;
  }
  m->library(world.library, sizeof world.library);
  struct comm c = {0};
  limit_begin();
  c.handle = m->open(&c.rank, &c.ranks, why, sizeof why);
  limit_end();
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
  world.place = memory_new((size_t)ranks, sizeof *world.place);
  world.comm.of_all = memory_new((size_t)ranks, sizeof *world.comm.of_all);
  for (int i = 0; i < ranks; i++) world.comm.of_all[i] = i;
  struct rank_place own = place_here();
  comm_gather(&world.comm, &own, world.place, sizeof own);
  /* only rank 0 prints results and messages */
  if (c.rank && !freopen("/dev/null", "w", stdout)) fclose(stdout);
  messages_to(hear);
  return &world.comm;
}

/* Data that ranks exchange for a split: the requested part, and the group numbers in use. */
struct wish {
  int color;
  unsigned parts;
};

struct comm *comm_split(const struct comm *c, int color, int own_call)
{
  struct comm *part = memory_new(1, sizeof *part);
  *part = (struct comm){.ranks = 1, .is_apart = c->is_apart};
  if (c->ranks == 1) return part;
  if (!own_call) part->called = c->called ? c->called : c;
  struct wish own = {color, world.parts}, *all = memory_new((size_t)c->ranks, sizeof *all);
  comm_gather(c, &own, all, sizeof own);
  int *member = memory_new((size_t)c->ranks, sizeof *member), members = 0, number = 0;
  unsigned used = 0;
  for (int i = 0; i < c->ranks; i++) {
    used |= all[i].parts;
    if (i == c->rank) part->rank = members;
    if (all[i].color == color) member[members++] = i;
  }
  while (number < COMM_PARTS && used >> number & 1) number++;
  REQUIRE(number < COMM_PARTS);
  world.parts |= 1u << number;
  part->number = number;
  part->ranks = members;
  part->handle = world.module->split(c->handle, member, members, number, own_call);
  for (int i = 0; i < members; i++) member[i] = c->of_all[member[i]];
  part->of_all = member;
  memory_free(all);
  return part;
}

void comm_free(struct comm *c)
{
  if (!c) return;
  if (c->handle && world.module) world.module->drop(c->handle);
  world.parts &= ~(c->number ? 1u << c->number : 0);
  memory_free(c->of_all);
  memory_free(c);
}

/* --- messages --------------------------------------------------------------------------------------------------- */

/* The host of a rank; the launcher's information if the rank has never sent its name. */
static const char *host_of(const struct comm *c, int rank, char *here, size_t room)
{
  if (*comm_host(c, rank)) return comm_host(c, rank);
  if (!launcher_is_here(c->of_all[rank])) return "its host";
  name_here(here, room);
  return here;
}

static void lost(const struct comm *c, enum transfer_end end, int rank)
{
  char here[64];
  messages_to(NULL);
  if (end == TRANSFER_TELL) {
    if (rank >= 0)
      message("rank %d of %d on %s has not answered for %g s: lost, or stuck (comm.timeout); %s",
              c->of_all[rank], world.comm.ranks, host_of(c, rank, here, sizeof here), world.patience,
              c->is_apart ? "others take its work"
                          : "what is done is kept: go on with `maxlogit resume`, or start a sweep again, on "
                            "as many ranks as there are");
    else
      message("rank %d of %d on %s: a message between ranks has failed", world.comm.rank, world.comm.ranks,
              host_of(&world.comm, world.comm.rank, here, sizeof here));
  } else if (!c->is_apart) {
    sleep(5); /* another rank reports */
  }
  fflush(NULL);
  while (c->is_apart) pause();
  end_all();
}

struct transfer comm_begin(const struct comm *c, int channel, const struct parcel *out, int outs,
                           const struct parcel *in, int ins)
{
  struct transfer t = {.comm = c};
  REQUIRE(world.module && c->handle && channel >= 0 && channel <= COMM_CHANNELS);
  t.handle = world.module->begin(c->handle, channel, out, outs, in, ins);
  for (int i = 0; i < outs; i++) t.bytes += (double)out[i].bytes;
  return t;
}

int comm_is_done(const struct transfer *t) { return world.module->is_done(t->handle); }

void comm_await(struct transfer *t)
{
  int rank = -1;
  enum transfer_end end = world.module->await(t->handle, world.patience, &rank);
  if (end != TRANSFER_DONE) lost(t->comm->called ? t->comm->called : t->comm, end, rank);
  world.sent += t->bytes;
  t->handle = NULL;
}

void comm_transfer(const struct comm *c, const struct parcel *out, int outs, const struct parcel *in, int ins)
{
  if (!outs && !ins) return;
  struct transfer t = comm_begin(c, 0, out, outs, in, ins);
  comm_await(&t);
}

void comm_stop(const struct comm *c)
{
  if (c->handle) world.module->stop(c->handle);
}

int comm_is_stopped(const struct comm *c) { return c->handle && world.module->is_stopped(c->handle); }

void comm_pass(const struct comm *c, int distance, const void *send, void *receive, size_t bytes)
{
  int to = (c->rank + distance) % c->ranks, from = (c->rank - distance + c->ranks) % c->ranks;
  if (to == c->rank)
    memmove(receive, send, bytes);
  else
    comm_transfer(c, &(struct parcel){to, (void *)(uintptr_t)send, bytes}, 1,
                  &(struct parcel){from, receive, bytes}, 1);
}

/* Bruck's all-gather: in rounds of doubling size, from the following ranks; block i is that of rank + i. */
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

/* Join the error texts: one text if all ranks have the same, else each with its rank. */
static void join_texts(const struct comm *c, struct error *e, const struct said *all)
{
  struct buffer text = {0};
  const char *first = NULL;
  int same = 1;
  for (int i = 0; i < c->ranks; i++) {
    if (!all[i].status) same = 0;
    if (!all[i].status || !*all[i].text) continue;
    if (!first) first = all[i].text;
    same &= !strcmp(first, all[i].text);
  }
  for (int i = 0; i < c->ranks && !same; i++)
    if (all[i].status && *all[i].text)
      buffer_add(&text, "%srank %d on %.64s: %s", text.length ? "\n" : "", comm_number(c, i), comm_host(c, i),
                 all[i].text);
  *e = (struct error){0};
  if (c->rank == 0) { /* each text is a line, and stays one */
    snprintf(e->text, sizeof e->text, "%s", same && first ? first : text.length ? text.text : "");
    text_clean(e->text, sizeof e->text, "\n");
  }
  memory_free(text.text);
  e->status = c->status;
}

int comm_agree(struct comm *c, unsigned *flags, struct error *e)
{
  unsigned own[2] = {(unsigned)e->status, flags ? *flags : 0};
  if (c->ranks == 1) return e->status;
  if (c->status) {
    if (!e->status) *e = (struct error){.status = c->status};
    return c->status;
  }
  for (int d = 1; d < c->ranks; d *= 2) { /* repeated values do no harm to a maximum */
    unsigned other[2];
    comm_pass(c, d, own, other, sizeof own);
    if (other[0] > own[0]) own[0] = other[0];
    own[1] |= other[1];
  }
  if (flags) *flags = own[1];
  if (!own[0]) return STATUS_OK;
  struct said mine = {.status = e->status}, *all = memory_new((size_t)c->ranks, sizeof *all);
  snprintf(mine.text, sizeof mine.text, "%s", e->text);
  comm_gather(c, &mine, all, sizeof mine);
  c->status = (int)own[0];
  join_texts(c, e, all);
  memory_free(all);
  return e->status;
}

/* Print all messages before MPI is left: if a rank leaves with an error, the launcher ends the others. */
int comm_end(int status, struct error *e)
{
  if (world.module) comm_agree(&world.comm, NULL, e), comm_tell();
  for (char *line = e->text, *end; *e->text && line; line = end) { /* one line per rank */
    end = strchr(line, '\n');
    while (end && end[1] == ' ') end = strchr(end + 1, '\n'); /* one message in several lines */
    if (end) *end++ = 0;
    message("%s", line);
  }
  if (!world.module) return e->status ? e->status : status;
  fflush(NULL);
  limit_begin();
  world.module->close();
  limit_end();
  world.module = NULL;
  return e->status ? e->status : status;
}
