/* sums.h - sums over ranks, at once or under way beside other calls; and gradients that are summed so */
#ifndef MAXLOGIT_NUMERICS_SUMS_H
#define MAXLOGIT_NUMERICS_SUMS_H
#include "numerics/shards.h"

/* y [n] becomes its sum over the ranks, by the balanced tree of their order; work [n], or [ranks * n] where they are no
   power of two. */
void sums_at_once(const struct comm *, real *y, long n, real *work);

/* Steps of the host (program_host). begin: of a power of two of ranks, on a device without a queue; it goes on until
   end, which awaits all that has begun. Nothing else may touch y meanwhile, nor work, as many numbers. */
struct sum_beginning {
  struct tensor *y, *work;
  enum rank_axis axis;
};
void sums_begin(struct device *, void *sum_beginning);
void sums_end(struct device *, void *);
/* Between calls: what has come is added, and the next messages begin. */
void sums_go_on(struct device *);

/* Groups of a row that is here, of which no rank has pieces (comm NULL): their gradients are summed over the ranks of
   the batch as soon as the reverse pass has completed them (program_unit), to be ended by sums_end. Before parameters
   are allocated, which sets groups, places, and what is held of gradients; where no group is large it lets it be. What
   is held of values is what the passes sum with. NULL: no longer. */
void device_set_early(struct device *, struct shards *);
/* Is the group worth messages of its own? */
int early_is_large(const struct shards *, int group);
#endif
