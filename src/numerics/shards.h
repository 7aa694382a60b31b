/* shards.h - a row of numbers of which each rank has pieces (comm.shard)
   Where the pieces lie is known to all. A row of which nothing else is here (device_set_shards) has a place all the
   same, at which there is no memory: tensors of it can be cut and told apart as if there were. A program that reads
   such a tensor gathers it first; one that adds to its gradient adds up in a temporary, which is summed to the owners:
   see program_unit. */
#ifndef MAXLOGIT_NUMERICS_SHARDS_H
#define MAXLOGIT_NUMERICS_SHARDS_H
#include "comm/comm.h"
#include "numerics/device.h"

/* Numbers [from, from + n) of the row; they lie at `at` of what their owner has. */
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
  long total, own;                 /* numbers of the row, and of what this rank has of it */
  real *place[SHARD_ROWS];         /* NULL: the row is here */
  struct tensor *held[SHARD_ROWS]; /* [1, own], where it is not */
  struct parcel *parcel;           /* [2 count] to work with */
  long *group; /* [groups] where what programs gather and sum at a time begins: a layer's numbers */
  int groups, group_room;
};

struct shards *shards_new(const struct comm *);
void shards_free(struct device *, struct shards *);
/* The next piece, behind those that were added; at: see struct shard. */
void shards_add(struct shards *, long from, long n, int owner, long at);
/* The next group begins here, behind those that were added. */
void shards_group(struct shards *, long at);
/* Where group g ends. */
long shards_end(const struct shards *, int g);
/* A place for rows of `total` numbers; then, with all pieces there, memory for what this rank has of them. */
void shards_reserve(struct shards *, long total);
void shards_hold(struct device *, struct shards *);

/* Numbers [from, from + n) of the row. take, put: what this rank has of them, between its memory `own` and their places
   in whole [n]. gather: each has put its own into whole, and has all: (R-1)/R of them from each rank, the least. */
void shards_take(const struct shards *, long from, long n, const real *own, real *whole);
void shards_put(const struct shards *, long from, long n, real *own, const real *whole);
void shards_gather(const struct shards *, long from, long n, real *whole);
/* All of the row to rank 0; whole [total] of the others is not looked at. */
void shards_to_first(const struct shards *, const real *own, real *whole);
/* Whose all of [from, from + n) are, and *at, where they lie there; -1: they are of several, or nobody's. */
int shards_owner(const struct shards *, long from, long n, long *at);

/* From now on parameters of the device are shared out so. Before they are allocated; a device that computes at once. */
void device_set_shards(struct device *, struct shards *);
#endif
