/* tensor.h - a matrix on a device: `rows` rows of `cols` numbers, `ld` apart
   Activations are [B*T, features]; weights [out, in]; vectors are one row. A view of some columns (the
   q part of a joint q,k,v result) is the same struct with a larger ld. */
#ifndef MAXLOGIT_NUMERICS_TENSOR_H
#define MAXLOGIT_NUMERICS_TENSOR_H
#include "numerics/real.h"

enum tensor_type { TENSOR_REAL, TENSOR_INT }; /* real, int32_t */

struct tensor {
  void *data;          /* device memory */
  long rows, cols, ld; /* ld >= cols, in elements */
  enum tensor_type type;
  const char *name;
  /* book-keeping of the program that owns it (program.c); zero for parameters */
  struct tensor *grad; /* same shape; NULL where no gradient flows */
  struct tensor *base; /* a view's owner */
  long offset;         /* of a view in its owner, elements */
  int first, last;     /* calls that write it first and use it last */
  unsigned flags;
};

#define REALS(t) ((real *)(t)->data)
#define INTS(t) ((int *)(t)->data)

/* A tensor around memory with another owner. */
struct tensor tensor_of(void *data, long rows, long cols);
/* Rows [row, row + rows) of t, sharing its memory. */
struct tensor tensor_rows(const struct tensor *t, long row, long rows);
#endif
