/* sums.h - sums over ranks, blocking or in the background; and early sums of gradients */
#ifndef MAXLOGIT_NUMERICS_SUMS_H
#define MAXLOGIT_NUMERICS_SUMS_H
#include "numerics/shards.h"

/* y [n] becomes its sum over the ranks, by the balanced tree of their order. work [n], or [ranks * n] if the number
   of ranks is not a power of two. */
void sums_at_once(const struct comm *, real *y, long n, real *work);

/* Steps of the host (program_host). begin: starts a sum over a power of two of ranks, on a device without a queue.
   end: awaits all sums in progress. Meanwhile y and work, which has as many numbers, must not be used. */
struct sum_beginning {
  struct tensor *y, *work;
  enum rank_axis axis;
};
void sums_begin(struct device *, void *sum_beginning);
void sums_end(struct device *, void *);
/* Between calls: add received data and send the next messages. */
void sums_go_on(struct device *);

/* Sum the gradients of groups early: of a row that is here, without pieces (comm NULL). They are summed over the
   ranks of the batch as soon as the reverse pass has completed them (program_unit), and sums_end ends the sums. Call
   it before parameters are allocated, which sets groups, places and the held gradients. It has no effect if no group
   is large. The held values are the work space of the sums. NULL: no early sums from now on. */
void device_set_early(struct device *, struct shards *);
/* Is the group worth messages of its own? */
int early_is_large(const struct shards *, int group);
#endif
