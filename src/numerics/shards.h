/* shards.h - a row of numbers that is distributed in pieces over the ranks (comm.shard)
   All ranks have the map of all pieces. A row whose other pieces are not stored here (device_set_shards) still has
   reserved addresses without memory, so that tensors can be cut from it and distinguished by address. A program
   gathers such a tensor before it reads it. A program that adds to its gradient accumulates in a temporary, which is
   summed to the owners: see program_unit. */
#ifndef MAXLOGIT_NUMERICS_SHARDS_H
#define MAXLOGIT_NUMERICS_SHARDS_H
#include "comm/comm.h"
#include "numerics/device.h"

/* Numbers [from, from + n) of the row; they lie at `at` in their owner's memory. */
struct shard {
  long from, n;
  int owner;
  long at;
};

enum shard_row { SHARD_VALUES, SHARD_GRADS, SHARD_ROWS };

struct shards {
  const struct comm *comm; /* a power of two of ranks */
  struct shard *piece;     /* [count], in the order of the row */
  int count, room;
  long total, own;                 /* numbers of the row, and of this rank's pieces */
  real *place[SHARD_ROWS];         /* NULL: the row is here */
  struct tensor *held[SHARD_ROWS]; /* [1, own], if the row is not here */
  struct parcel *parcel;           /* [2 count] to work with */
  long *group;                     /* [groups]: begins of groups (layers), gathered and summed as one */
  int groups, group_room;
};

struct shards *shards_new(const struct comm *);
void shards_free(struct device *, struct shards *);
/* Add the next piece, after all earlier ones; at: see struct shard. */
void shards_add(struct shards *, long from, long n, int owner, long at);
/* Begin the next group, after all earlier ones. */
void shards_group(struct shards *, long at);
/* The end of group g. */
long shards_end(const struct shards *, int g);
/* Reserve addresses for rows of `total` numbers; then, with all pieces added, allocate memory for this rank's
   pieces. */
void shards_reserve(struct shards *, long total);
void shards_hold(struct device *, struct shards *);

/* For numbers [from, from + n) of the row. take, put: copy this rank's pieces between its memory `own` and their
   places in whole [n]. gather: each rank has put its pieces into whole and receives the rest: (R-1)/R of them from
   each rank, the minimum. */
void shards_take(const struct shards *, long from, long n, const real *own, real *whole);
void shards_put(const struct shards *, long from, long n, real *own, const real *whole);
void shards_gather(const struct shards *, long from, long n, real *whole);
/* Send the whole row to rank 0; other ranks do not use whole [total]. */
void shards_to_first(const struct shards *, const real *own, real *whole);
/* The owner of all of [from, from + n), and *at, their place in its memory; -1: several owners, or none. */
int shards_owner(const struct shards *, long from, long n, long *at);

/* Shard the parameters of the device from now on. Call it before they are allocated, for a synchronous device. */
void device_set_shards(struct device *, struct shards *);
#endif
