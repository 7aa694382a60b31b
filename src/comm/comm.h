/* comm.h - ranks: processes that a launcher (mpirun, srun) has started together, and their communication
   All functions are collective: all ranks of a group call them, in the same order. A rank that does not answer within
   comm_patience ends the run on all ranks, with one message (exit 1). Without a launcher there is one rank, and MPI is
   never used; with a launcher the module maxlogit_mpi.so is opened. */
#ifndef MAXLOGIT_COMM_COMM_H
#define MAXLOGIT_COMM_COMM_H
#include <stddef.h>
#include "base/error.h"

/* A message to a rank of the group, or from one. */
struct parcel {
  int rank;
  void *data;
  size_t bytes;
};

/* A group of ranks, from the view of one rank. */
struct comm {
  int rank, ranks;
  void *handle;              /* of the module; NULL: one rank */
  int *of_all;               /* [ranks] their numbers among all ranks */
  const struct comm *called; /* the group of the roll call when a rank is silent; NULL: this one */
  int status;                /* the status on which all ranks have agreed (comm_agree) */
  int number;                /* number of the group among those that a rank has open; 0: all ranks */
  int
    is_apart; /* if one of its ranks is lost, the others of the group wait to be ended, and the other groups continue */
};

/* All ranks. With several ranks the first call opens the module. NULL and STATUS_USAGE: it cannot be opened. */
struct comm *comm_world(struct error *);
/* The group of the ranks with the same color, in their order; all ranks of `comm` must call it. With one rank it is a
   copy. If a rank is silent, the roll call goes to all ranks of `comm`, because a rank may wait for one that waits in
   another part; `comm` must outlive the group. own_call: the roll call goes only to the new group. At most COMM_PARTS
   groups are open at a time, including that of all ranks. */
enum { COMM_PARTS = 31 };
struct comm *comm_split(const struct comm *, int color, int own_call);
void comm_free(struct comm *);
/* Seconds within which a rank must answer. Call it before comm_world: the limit also holds for MPI's start. */
void comm_patience(double seconds);
/* The library's name ("Open MPI v4.1.4, ..."); NULL: not opened. comm_lacks: the reason why this machine has no module,
   or "". It opens the module, but does not start MPI. */
const char *comm_library(void);
void comm_lacks(char *out, size_t room);
/* The host of a rank of the group, and its number among all ranks, for messages. */
const char *comm_host(const struct comm *, int rank);
int comm_number(const struct comm *, int rank);
/* The number of ranks that may run on the same cores as this one, itself included. */
int comm_neighbours(void);

/* Send all of `out`, receive all of `in`, and wait for both. Messages between two ranks keep their order. */
void comm_transfer(const struct comm *, const struct parcel *out, int outs, const struct parcel *in, int ins);
/* Send to the rank `distance` further in the ring, and receive from the rank as far before. */
void comm_pass(const struct comm *, int distance, const void *send, void *receive, size_t bytes);
/* All-gather: bytes of every rank, in their order: all [ranks * bytes]. */
void comm_gather(const struct comm *, const void *own, void *all, size_t bytes);
/* Ask all ranks of the group to stop, without waiting; comm_is_stopped: has another rank asked? */
void comm_stop(const struct comm *);
int comm_is_stopped(const struct comm *);
/* Bytes sent by this process so far. */
double comm_sent(void);

/* A barrier that exchanges errors: STATUS_OK if no rank has one. Otherwise each rank gets the worst status, and rank 0
   the error texts, with the ranks if the texts differ. The group is then finished: every later call returns the same
   status. `flags` are combined by or; may be NULL. */
int comm_agree(struct comm *, unsigned *flags, struct error *);
/* Collective: rank 0 prints, once, the messages of other ranks that it has not printed itself. */
void comm_tell(void);
/* The end of the program: a barrier, rank 0 prints the error, and MPI is left. Returns the exit status. A process that
   ends without it ends the other ranks. */
int comm_end(int status, struct error *);
#endif
