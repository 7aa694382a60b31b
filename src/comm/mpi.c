/* mpi.c - the module maxlogit_mpi.so: ranks by MPI (Open MPI, MPICH; MPI 3.1)
   Nothing blocks without a limit, because all waiting is by MPI_Test; except MPI's start and end, which comm.c
   limits. */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "comm/module.h"
#include "comm/transfer.h"

/* A group: some ranks of one communicator. Groups differ by tags, because creating a communicator waits for all of its
   ranks without a limit. Most tags are channels; two are for the roll call (CALL) and for stopping (STOP). MPI
   guarantees tags up to 32767. */
struct mpi_group {
  MPI_Comm comm;
  int *member; /* [ranks] in the communicator */
  int rank, ranks, tag;
  struct mpi_group *called;
  double looked; /* time of the last check for a roll call */
};
enum { TAGS = 1024, CALL = 1022, STOP = 1023 };
_Static_assert((int)COMM_CHANNELS < CALL && COMM_PARTS * TAGS <= 32768,
               "tags of channels, calls and groups are apart");

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void doze(double seconds)
{
  struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
  nanosleep(&t, NULL);
}

static void library(char *out, size_t room)
{
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  MPI_Get_library_version(text, &length);
  text[strcspn(text, "\n")] = 0;
  for (char *c = text; *c; c++)
    if (*c == '\t') *c = ' ';
  snprintf(out, room, "%s", text);
}

static struct mpi_group *group_of(MPI_Comm comm, int ranks, int number)
{
  struct mpi_group *own = malloc(sizeof *own);
  int *member = malloc((size_t)ranks * sizeof *member);
  if (!own || !member) MPI_Abort(MPI_COMM_WORLD, 1);
  *own = (struct mpi_group){
    .comm = comm, .member = member, .ranks = ranks, .tag = number * TAGS, .called = own, .looked = now()};
  return own;
}

static void *open_world(int *rank, int *ranks, char *why, size_t room)
{
  int given, there;
  MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Initialized(&there);
  if (!there && MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given)) {
    snprintf(why, room, "MPI_Init failed");
    return NULL;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* copies inherit it */
  if (there) MPI_Comm_dup(MPI_COMM_WORLD, &comm);             /* separates its tags from the caller's */
  MPI_Comm_rank(comm, rank);
  MPI_Comm_size(comm, ranks);
  struct mpi_group *all = group_of(comm, *ranks, 0);
  all->rank = *rank;
  for (int i = 0; i < *ranks; i++) all->member[i] = i;
  return all;
}

static void *split(void *handle, const int *member, int members, int number, int own_call)
{
  const struct mpi_group *all = handle;
  struct mpi_group *part = group_of(all->comm, members, number);
  for (int i = 0; i < members; i++) {
    part->member[i] = all->member[member[i]];
    if (member[i] == all->rank) part->rank = i;
  }
  if (!own_call) part->called = all->called;
  return part;
}

static void drop(void *handle)
{
  struct mpi_group *own = handle;
  free(own->member);
  free(own);
}

/* --- roll call -------------------------------------------------------------------------------------------- */

/* A rank that has waited too long starts a roll call; all ranks that wait, or have waited, answer, so all get the same
   result. A rank that computes does not answer: the limit must be longer than a step. */
static int is_there(const struct mpi_group *g, int what, MPI_Status *from)
{
  int there = 0;
  return !MPI_Iprobe(MPI_ANY_SOURCE, g->tag + what, g->comm, &there, from) && there;
}

/* Is there a roll call? MPI may need several probes to find a message that has arrived. */
static int is_called(struct mpi_group *g, double now)
{
  int calls = 0;
  for (int look = 0; look < 10 && !calls; look++) calls = is_there(g, CALL, MPI_STATUS_IGNORE);
  g->looked = now;
  return calls;
}

/* Send a word to all other ranks, which receive it at their next check. */
static void call(const struct mpi_group *g, int what)
{
  static const int word;
  for (int i = 0; i < g->ranks; i++) {
    MPI_Request request;
    if (i != g->rank && !MPI_Isend(&word, 1, MPI_INT, g->member[i], g->tag + what, g->comm, &request))
      MPI_Request_free(&request);
  }
}

/* Receive one such word; returns its sender. */
static int receive_message(const struct mpi_group *g, int what, const MPI_Status *from)
{
  int word;
  MPI_Recv(&word, 1, MPI_INT, from->MPI_SOURCE, g->tag + what, g->comm, MPI_STATUS_IGNORE);
  return from->MPI_SOURCE;
}

static void stop(void *handle) { call(((struct mpi_group *)handle)->called, STOP); }

static int is_stopped(void *handle)
{
  const struct mpi_group *g = ((struct mpi_group *)handle)->called;
  MPI_Status from;
  int any = 0;
  for (; is_there(g, STOP, &from); any = 1) receive_message(g, STOP, &from);
  return any;
}

static enum transfer_end roll_call(const struct mpi_group *g, double seconds, int *lost)
{
  const int rank = g->rank, ranks = g->ranks;
  int silent = ranks - 1;
  char *answered = calloc((size_t)ranks, 1);
  call(g, CALL);
  answered[rank] = 1;
  for (double end = now() + seconds; silent && now() < end; doze(1e-3)) {
    MPI_Status from;
    while (is_there(g, CALL, &from)) {
      const int who = receive_message(g, CALL, &from);
      for (int i = 0; i < ranks; i++)
        if (g->member[i] == who && !answered[i]) answered[i] = 1, silent--;
    }
  }
  int first = -1;
  *lost = -1;
  for (int i = ranks; i-- > 0;) {
    if (answered[i])
      first = i;
    else
      *lost = i;
  }
  free(answered);
  return first == rank ? TRANSFER_TELL : TRANSFER_LOST;
}

/* --- messages ------------------------------------------------------------------------------------------------- */

enum { PIECE = 1 << 30 }; /* MPI counts in int */

static int pieces_of(const struct parcel *p, int count)
{
  int n = 0;
  for (int i = 0; i < count; i++) n += (int)((p[i].bytes + PIECE - 1) / PIECE);
  return n;
}

static int start(const struct parcel *p, int count, int sends, const struct mpi_group *g, int channel,
                 MPI_Request *request)
{
  int n = 0;
  for (int i = 0; i < count; i++)
    for (size_t at = 0; at < p[i].bytes; at += PIECE, n++) {
      int size = (int)(p[i].bytes - at < PIECE ? p[i].bytes - at : PIECE);
      char *data = (char *)p[i].data + at;
      if (sends)
        MPI_Isend(data, size, MPI_BYTE, g->member[p[i].rank], g->tag + channel, g->comm, &request[n]);
      else
        MPI_Irecv(data, size, MPI_BYTE, g->member[p[i].rank], g->tag + channel, g->comm, &request[n]);
    }
  return n;
}

/* Returns 1 if all are done, or one has failed. */
static int test_all(MPI_Request *request, int n, int *failed)
{
  int all = 1, done;
  *failed = 0;
  for (int i = 0; i < n; i++) {
    if (MPI_Test(&request[i], &done, MPI_STATUS_IGNORE)) return *failed = 1;
    all &= done;
  }
  return all;
}

/* Poll first, because the message usually comes soon; then sleep, because others may need the core. A rank that is done
   also answers a roll call: the caller may have waited for this rank, which now continues to compute. */
static enum transfer_end wait_for(struct mpi_group *called, MPI_Request *request, int n, double seconds,
                                  int *lost)
{
  double began = now();
  for (;;) {
    int failed, done = test_all(request, n, &failed) && !failed;
    double t = now(), waited = t - began;
    int calling = failed || (!done && waited > 0.8 * seconds);
    if (!calling && (done ? t - called->looked > 0.05 * seconds : waited > 0.02 && t - called->looked > 0.02))
      calling = is_called(called, t);
    if (calling) {
      enum transfer_end end = roll_call(called, 0.2 * seconds, lost);
      if (*lost >= 0) return end;
      if (failed) return TRANSFER_TELL;
      began = now(); /* all ranks have answered: one was only slow */
    }
    if (done) return TRANSFER_DONE;
    if (waited < 2e-3)
      sched_yield();
    else
      doze(waited < 0.1 ? 5e-5 : 1e-3);
  }
}

struct requests {
  const struct mpi_group *own;
  int count;
  MPI_Request request[];
};

static void *begin(void *handle, int channel, const struct parcel *out, int outs, const struct parcel *in,
                   int ins)
{
  const struct mpi_group *own = handle;
  int n = pieces_of(out, outs) + pieces_of(in, ins);
  struct requests *t = malloc(sizeof *t + (size_t)n * sizeof *t->request);
  if (!t) MPI_Abort(MPI_COMM_WORLD, 1);
  t->own = own;
  t->count = n;
  int begun = start(in, ins, 0, own, channel, t->request);
  start(out, outs, 1, own, channel, t->request + begun);
  return t;
}

/* A failed transfer is not done: await reports it. */
static int is_done(void *transfer)
{
  struct requests *t = transfer;
  int failed;
  return test_all(t->request, t->count, &failed) && !failed;
}

static enum transfer_end await(void *transfer, double seconds, int *lost)
{
  struct requests *t = transfer;
  enum transfer_end end = wait_for(t->own->called, t->request, t->count, seconds, lost);
  free(t);
  return end;
}

static void close_world(void) { MPI_Finalize(); }
static void abort_world(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

const struct comm_module *maxlogit_mpi(void);
__attribute__((visibility("default"))) const struct comm_module *maxlogit_mpi(void)
{
  static const struct comm_module module = {
    COMM_MODULE_VERSION, library,     open_world, split, drop, begin, is_done, await, stop,
    is_stopped,          close_world, abort_world};
  return &module;
}
