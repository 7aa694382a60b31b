/* module.h - the interface of maxlogit_mpi.so
   The module is a separate library, so that the program needs no MPI to build or start. */
#ifndef MAXLOGIT_COMM_MODULE_H
#define MAXLOGIT_COMM_MODULE_H
#include "comm/comm.h"

enum { COMM_MODULE_VERSION = 5 };

/* The end of a transfer: done; or a rank of the group is silent, and this rank (TRANSFER_TELL) or another one reports
   it. */
enum transfer_end { TRANSFER_DONE, TRANSFER_TELL, TRANSFER_LOST };

struct comm_module {
  int version;
  /* Version of the library; may be called before open. */
  void (*library)(char *out, size_t room);
  /* Start MPI; returns the handle of all ranks. NULL, with the reason in `why`, on failure. Only open, close and await
     may wait for other ranks, open and close without a limit. */
  void *(*open)(int *rank, int *ranks, char *why, size_t room);
  /* A group of members of another group, including this rank, with a number that all of them pass (comm_split). Does
     not communicate. */
  void *(*split)(void *handle, const int *member, int members, int number, int own_call);
  void (*drop)(void *handle);
  /* See comm_begin (transfer.h); await frees the transfer. *lost: the silent rank of the group, or -1. */
  void *(*begin)(void *handle, int channel, const struct parcel *out, int outs, const struct parcel *in,
                 int ins);
  int (*is_done)(void *transfer);
  enum transfer_end (*await)(void *transfer, double seconds, int *lost);
  void (*stop)(void *handle); /* see comm_stop, comm_is_stopped */
  int (*is_stopped)(void *handle);
  void (*close)(void);
  void (*abort)(int status); /* ends all ranks; does not return */
};
typedef const struct comm_module *comm_module_entry(void);
#define COMM_MODULE_ENTRY "maxlogit_mpi"
#endif
