/* transfer.h - asynchronous messages (comm_transfer begins and awaits at once) */
#ifndef MAXLOGIT_COMM_TRANSFER_H
#define MAXLOGIT_COMM_TRANSFER_H
#include "comm/comm.h"

enum { COMM_CHANNELS = 1000 };

struct transfer {
  const struct comm *comm;
  void *handle; /* of the module; NULL: ended */
  double bytes; /* bytes to send */
};

/* Messages between two ranks keep their order within a channel, 1 to COMM_CHANNELS (comm_transfer uses 0). They
   progress while MPI is called. comm_await waits for the end; a silent rank is handled as in comm_transfer. */
struct transfer comm_begin(const struct comm *, int channel, const struct parcel *out, int outs,
                           const struct parcel *in, int ins);
int comm_is_done(const struct transfer *);
void comm_await(struct transfer *);
#endif
