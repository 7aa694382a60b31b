/* program_state.h - the inside of a program: recorded by program.c, planned by plan.c, replayed by replay.c */
#ifndef MAXLOGIT_NUMERICS_PROGRAM_STATE_H
#define MAXLOGIT_NUMERICS_PROGRAM_STATE_H
#include "base/memory.h"
#include "numerics/fusion.h"
#include "numerics/program.h"

enum {            /* flags of tensors */
       OWNED = 1, /* by a program: the tensor is a struct node */
       INPUT = 2,
       FLOWS = 4, /* a gradient flows into it */
       KEPT = 8
};

struct span {
  long from, to;
};

/* A tensor of the program. `written`: of a gradient, the columns that hold values; disjoint, in order. */
struct node {
  struct tensor tensor;
  struct span *written;
  int spans, room;
  size_t place, bytes;
};

/* Calls [from, from+count) of `order`. level: none depends on another; apart: each is one piece of work, all at the
   same time; fusion: they are fused (fusion.h), with so many rows per piece of work. */
struct group {
  int from, count, level, apart;
  const struct link *fusion;
  long piece;
};

/* One operation, or a step of the host. */
struct call {
  enum op op;
  union op_args args;
  struct tensor *guard; /* NULL: always */
  host_step *host;
  void *context;
};
struct reverse {
  backward_step *step;
  void *context;
};

/* A group of sharded parameters (shards.h), as temporaries [1,n]: its gathered values in this unit, and its summed
   gradients. Also the first unit that has read it, and whether the sum has been sent. */
struct whole {
  struct tensor *values, *grads;
  int unit, sent;
};

struct program {
  struct device *device;
  struct arena *arena;
  struct node **node;
  int nodes, node_room;
  struct call *call;
  int calls, call_room;
  struct reverse *reverse;
  int reverses, reverse_room;
  const struct tensor *loss;
  struct tensor *guard; /* of the calls that are being recorded */
  int host_steps;
  struct whole *whole; /* [groups]; NULL: nothing has been read */
  int unit;
  int *fusion; /* [calls]: length of the fusion that begins here */
  int *order;  /* calls level by level */
  struct group *group;
  int groups;
  /* Kept calls of the device: [calls], by the first call of each piece without a host step. Recorded at the second
     run, and again for another number of runs or other scratch. */
  void **kept;
  const void *kept_scratch;
  int ran, kept_runs;
  void *block;
  size_t bytes;
  int planned;
};

static inline size_t element(const struct tensor *t)
{
  return t->type == TENSOR_INT ? sizeof(int) : sizeof(real);
}
static inline struct tensor *owner_of(const struct tensor *t)
{
  return t->base ? t->base : (struct tensor *)t;
}
/* Discard the calls that the device keeps. */
void program_forget(struct program *);
#endif
