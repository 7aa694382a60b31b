/* cut.h - one block of memory, cut into tensors */
#ifndef MAXLOGIT_NUMERICS_CUT_H
#define MAXLOGIT_NUMERICS_CUT_H
#include "numerics/tensor.h"

/* The next rows x cols numbers of the block; *at moves on. */
struct tensor tensor_cut(real **at, long rows, long cols);
/* The diagonal of a square t as a column, sharing its memory. */
struct tensor tensor_diagonal(const struct tensor *t);
#endif
