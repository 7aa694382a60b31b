#include "numerics/waves.h"
#include <stddef.h>

static size_t element(const struct tensor *t) { return t->type == TENSOR_INT ? sizeof(int) : sizeof(real); }

static const char *end_of(const struct tensor *t)
{
  return (const char *)t->data + (size_t)((t->rows - 1) * t->ld + t->cols) * element(t);
}

/* May they share memory? Columns of one matrix that lie side by side do not. */
static int overlap(const struct tensor *a, const struct tensor *b)
{
  const char *from_a = a->data, *from_b = b->data;
  if (from_a >= end_of(b) || from_b >= end_of(a)) return 0;
  if (a->ld != b->ld || a->type != b->type || (a->rows == 1 && b->rows == 1)) return 1;
  long ld = a->ld, off = (long)((from_b - from_a) / (long)element(a));
  long column = (off % ld + ld) % ld; /* of b, where a's are 0 .. cols-1 */
  if (column + b->cols > ld) return 1;
  return column < a->cols;
}

static int depends(const struct footprint *later, const struct footprint *earlier)
{
  if (later->barrier || earlier->barrier) return 1;
  for (int i = 0; i < later->count; i++)
    for (int k = 0; k < earlier->count; k++)
      if ((later->access[i].writes || earlier->access[k].writes) &&
          overlap(later->access[i].tensor, earlier->access[k].tensor))
        return 1;
  return 0;
}

int waves_find(const struct footprint *f, int calls, int *wave)
{
  int waves = 0;
  for (int i = 0; i < calls; i++) {
    wave[i] = 0;
    for (int k = 0; k < i; k++)
      if (wave[k] >= wave[i] && depends(&f[i], &f[k])) wave[i] = wave[k] + 1;
    if (wave[i] >= waves) waves = wave[i] + 1;
  }
  return waves;
}
