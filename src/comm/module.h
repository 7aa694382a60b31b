/* module.h - what maxlogit_mpi.so gives to the program: a library of its own, so that a program built without MPI needs
   no other build, and one with it nothing of MPI to start */
#ifndef MAXLOGIT_COMM_MODULE_H
#define MAXLOGIT_COMM_MODULE_H
#include "comm/comm.h"

enum { COMM_MODULE_VERSION = 5 };

/* How a transfer ended: done; or some rank of the group has not answered: told by this rank, or by another. */
enum transfer_end { TRANSFER_DONE, TRANSFER_TELL, TRANSFER_LOST };

struct comm_module {
  int version;
  /* Version of the library. Before all else, too. */
  void (*library)(char *out, size_t room);
  /* Begin; the world's handle. NULL, and why, where that fails. It and close may wait for the others without a limit;
     nothing else waits but await. */
  void *(*open)(int *rank, int *ranks, char *why, size_t room);
  /* A group of members of another, this rank among them, by the number that all of them give it (comm_split): nobody
     is asked. */
  void *(*split)(void *handle, const int *member, int members, int number, int own_call);
  void (*drop)(void *handle);
  /* See comm_begin (transfer.h); a transfer is freed by await. *lost: the rank of those asked that is silent, or -1
     where none is. */
  void *(*begin)(void *handle, int channel, const struct parcel *out, int outs, const struct parcel *in,
                 int ins);
  int (*is_done)(void *transfer);
  enum transfer_end (*await)(void *transfer, double seconds, int *lost);
  void (*stop)(void *handle); /* see comm_stop, comm_is_stopped */
  int (*is_stopped)(void *handle);
  void (*close)(void);
  void (*abort)(int status); /* of all ranks; does not return */
};
typedef const struct comm_module *comm_module_entry(void);
#define COMM_MODULE_ENTRY "maxlogit_mpi"
#endif
