#include "numerics/levels.h"
#include <stddef.h>

static long element(const struct tensor *t) { return t->type == TENSOR_INT ? sizeof(int) : sizeof(real); }

/* Bytes from where a begins to where b does. */
static long apart(const struct tensor *a, const struct tensor *b)
{
  return a->data ? (const char *)b->data - (const char *)a->data : (b->offset - a->offset) * element(a);
}

static long bytes(const struct tensor *t) { return ((t->rows - 1) * t->ld + t->cols) * element(t); }

/* Columns of one matrix that lie side by side do not. */
static int overlap(const struct tensor *a, const struct tensor *b)
{
  if (!a->data != !b->data) return 0; /* not placed yet: not in memory that is placed */
  if (!a->data && (a->base ? a->base : a) != (b->base ? b->base : b)) return 0;
  const long off = apart(a, b);
  if (off >= bytes(a) || -off >= bytes(b)) return 0;
  if (a->ld != b->ld || a->type != b->type || (a->rows == 1 && b->rows == 1)) return 1;
  const long ld = a->ld, column = (off / element(a) % ld + ld) % ld; /* of b, where a's are 0 .. cols-1 */
  if (column + b->cols > ld) return 1;
  return column < a->cols;
}

int accesses_meet(const struct access *a, const struct access *b)
{
  return (a->writes || b->writes) && overlap(a->tensor, b->tensor);
}

int footprints_meet(const struct footprint *later, const struct footprint *earlier)
{
  if (later->barrier || earlier->barrier) return 1;
  for (int i = 0; i < later->count; i++)
    for (int k = 0; k < earlier->count; k++)
      if (accesses_meet(&later->access[i], &earlier->access[k])) return 1;
  return 0;
}

int levels_find(const struct footprint *f, int calls, int *level)
{
  int levels = 0;
  for (int i = 0; i < calls; i++) {
    level[i] = 0;
    for (int k = 0; k < i; k++)
      if (level[k] >= level[i] && footprints_meet(&f[i], &f[k])) level[i] = level[k] + 1;
    if (level[i] >= levels) levels = level[i] + 1;
  }
  return levels;
}
