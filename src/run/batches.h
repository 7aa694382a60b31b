/* batches.h - one batch on the host: drawn from the data, given to a program in parts */
#ifndef MAXLOGIT_RUN_BATCHES_H
#define MAXLOGIT_RUN_BATCHES_H
#include "base/memory.h"
#include "model/model.h"
#include "training/data.h"

/* Validation and probe batches do not depend on the seed: runs stay comparable. */
enum { COMMON_SEED = 0 };

/* One batch of `rows` sequences, and the input tensors that are made from it. With K prediction modules the sequences
   of `batch` are K tokens longer than the context. */
struct host_batch {
  struct batch batch;
  long rows, context; /* of the whole batch */
  long ahead;         /* K */
  const struct model_options *model;
  int *tokens, *targets[1 + MAX_MODULES], *position;
  int *start, *end, *window;     /* see struct row_range */
  void *part;                    /* staging buffer of one upload: three ints or one real per position */
  real *weight[1 + MAX_MODULES]; /* targets and their weights, of the main head, then of every module */
};
void host_batch_init(struct host_batch *, struct arena *, const struct model_options *, long rows);
/* Fill it; returns the number of the main head's targets that count. */
double host_batch_draw(struct host_batch *, const struct data *, enum data_split, uint64_t seed,
                       uint64_t index);
/* Give a program the rows of micro-batch `part`. */
void host_batch_feed(const struct host_batch *, struct device *, struct model_program *, long part);
#endif
