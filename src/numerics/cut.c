#include "numerics/cut.h"
#include "base/error.h"

struct tensor tensor_cut(real **at, long rows, long cols)
{
  struct tensor t = tensor_of(*at, rows, cols);
  *at += rows * cols;
  return t;
}

struct tensor tensor_diagonal(const struct tensor *t)
{
  REQUIRE(t->rows == t->cols && t->type == TENSOR_REAL);
  struct tensor diagonal = tensor_of(t->data, t->rows, 1);
  diagonal.ld = t->ld + 1;
  return diagonal;
}
