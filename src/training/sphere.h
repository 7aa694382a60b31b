/* sphere.h - for stabilizers that hold the norm of weights: a step has a fixed size, and its change of the norm is
   reverted
   Blocks are matrices (struct qk_block, spectral.h); everything is recorded in the second half of the update. */
#ifndef MAXLOGIT_TRAINING_SPHERE_H
#define MAXLOGIT_TRAINING_SPHERE_H
#include "model/stabilizer.h"
#include "training/spectral.h"

enum { SPHERE_MATRICES, SPHERE_QK };
enum { SPHERE_BY_TENSOR, SPHERE_BY_HEAD };
extern const char *const sphere_tensors[], *const sphere_scopes[]; /* choices of options, by these enums */

/* The held blocks: all hidden matrices, or the weights behind the logits; whole, or every head's rows if a weight has
   heads. From the model's arena. */
struct qk_block *sphere_blocks(struct model *, long tensors, long scope, int *count);
/* Record: update of block i gets the Frobenius norm size[i]; one of zeros stays. size [1, count] */
void sphere_size_directions(struct stabilizer_context *, struct program *, const struct qk_block *, int count,
                            struct tensor *size);
/* Record the blocks' Frobenius norms, y [1, count]. */
void sphere_norms(struct stabilizer_context *, struct program *, const struct qk_block *, int count,
                  struct tensor *y);
/* Record: block i times factor[i]; a factor of 1 leaves it as it is. */
void sphere_scale(struct stabilizer_context *, struct program *, const struct qk_block *, int count,
                  struct tensor *factor);
#endif
