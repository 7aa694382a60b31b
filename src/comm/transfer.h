/* transfer.h - messages under way while something else is done (comm_transfer: begun and awaited at once) */
#ifndef MAXLOGIT_COMM_TRANSFER_H
#define MAXLOGIT_COMM_TRANSFER_H
#include "comm/comm.h"

enum { COMM_CHANNELS = 1000 };

struct transfer {
  const struct comm *comm;
  void *handle; /* the module's; NULL: ended */
  double bytes; /* that are sent */
};

/* On a channel, 1 to COMM_CHANNELS, on which messages between two ranks keep their order (comm_transfer's is 0). They
   move on while MPI is called. comm_await waits, and ends it; where a rank is silent, as comm_transfer does. */
struct transfer comm_begin(const struct comm *, int channel, const struct parcel *out, int outs,
                           const struct parcel *in, int ins);
int comm_is_done(const struct transfer *);
void comm_await(struct transfer *);
#endif
