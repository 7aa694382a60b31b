/* comm.h - ranks: processes that a launcher (mpirun, srun) has started together, and what they send each other
   Ranks call alike: what one does with the others, all of a group do, in the same order. A rank that does not answer
   within comm_patience ends the run on all of them, with one message (exit 1). Without a launcher there is one rank,
   and MPI is never asked; with one, the module maxlogit_mpi.so is opened, as that of a GPU is. */
#ifndef MAXLOGIT_COMM_COMM_H
#define MAXLOGIT_COMM_COMM_H
#include <stddef.h>
#include "base/error.h"

/* Bytes to a rank of the group, or from one. */
struct parcel {
  int rank;
  void *data;
  size_t bytes;
};

/* A group of ranks, as one of them sees it. */
struct comm {
  int rank, ranks;
  void *handle;              /* the module's; NULL: one rank */
  int *of_all;               /* [ranks] their numbers among all */
  const struct comm *called; /* the group that is asked where one is silent; NULL: this one */
  int status;                /* on which they have agreed that all ends (comm_agree) */
  int number;                /* of the group, of those that a rank has open; 0: all */
  int
    is_apart; /* where one of them is lost the others of the group wait to be ended, and the rest of all goes on */
};

/* All ranks. The first call opens the module where there are several; STATUS_USAGE and NULL: it cannot be opened. */
struct comm *comm_world(struct error *);
/* The group of those ranks that say the same color, in their order; all of `comm` call. One rank: a copy. Where one is
   silent all of `comm` are asked, which must outlive it: a rank of one part may wait for a rank that waits in another.
   own_call: the new group alone, which meets by itself. COMM_PARTS are open at a time, at most, all ranks' one of
   them. */
enum { COMM_PARTS = 31 };
struct comm *comm_split(const struct comm *, int color, int own_call);
void comm_free(struct comm *);
/* Seconds within which a rank must answer; said before comm_world, also for MPI to begin. */
void comm_patience(double seconds);
/* What the module is ("Open MPI v4.1.4, ..."); NULL: not opened. comm_lacks: why there is none on this machine, or ""
   (it is opened to know, MPI is not). */
const char *comm_library(void);
void comm_lacks(char *out, size_t room);
/* Where a rank of the group is, and its number among all, by which it is told. */
const char *comm_host(const struct comm *, int rank);
int comm_number(const struct comm *, int rank);
/* Ranks of all that may run on the very cores that this one may, itself included. */
int comm_neighbours(void);

/* Send all of `out`, and wait until it is taken and all of `in` is there. Messages between two ranks keep their
   order. */
void comm_transfer(const struct comm *, const struct parcel *out, int outs, const struct parcel *in, int ins);
/* Bytes to the rank `distance` further in the ring, and those of the rank as far before. */
void comm_pass(const struct comm *, int distance, const void *send, void *receive, size_t bytes);
/* Bytes of every rank, in their order: all [ranks * bytes]. */
void comm_gather(const struct comm *, const void *own, void *all, size_t bytes);
/* All of the group are to stop: a word that nobody waits for. Has one of the others said it? */
void comm_stop(const struct comm *);
int comm_is_stopped(const struct comm *);
/* Bytes that this process has sent so far. */
double comm_sent(void);

/* The ranks of a group meet: STATUS_OK where none has an error. Otherwise each gets the worst status, rank 0 the texts
   (of which ranks they are is said where they differ), the others none; these ranks meet no more, every later call says
   the same. `flags` are joined by or; may be NULL. */
int comm_agree(struct comm *, unsigned *flags, struct error *);
/* Rank 0 of all tells, once, what the others had to say (message, warning) and it had not. All call it. */
void comm_tell(void);
/* The end of the program, with its status: all ranks meet, the error is told, and MPI is left. A process that ends
   without it ends the others. */
int comm_end(int status, struct error *);
#endif
