/* tensor.c - views of matrices with other owners */
#include "numerics/tensor.h"
#include "base/error.h"
#include <stddef.h>

struct tensor tensor_of(void *data, long rows, long cols)
{
  REQUIRE(rows >= 0 && cols >= 0);
  return (struct tensor){
    .data = data, .rows = rows, .cols = cols, .ld = cols, .type = TENSOR_REAL, .name = ""};
}

struct tensor tensor_rows(const struct tensor *t, long row, long rows)
{
  REQUIRE(row >= 0 && rows >= 0 && row + rows <= t->rows);
  size_t size = t->type == TENSOR_INT ? sizeof(int) : sizeof(real);
  struct tensor part = tensor_of((char *)t->data + (size_t)(row * t->ld) * size, rows, t->cols);
  part.ld = t->ld;
  part.type = t->type;
  part.name = t->name;
  return part;
}
