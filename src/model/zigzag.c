#include "model/zigzag.h"

static long chunk_of(const struct zigzag *z) { return z->length / (2 * z->ranks); }

long zigzag_position(const struct zigzag *z, long row)
{
  if (z->ranks == 1) return row;
  const long chunk = chunk_of(z);
  return row < chunk ? z->rank * chunk + row : (2 * z->ranks - 2 - z->rank) * chunk + row;
}

static long within(long x, long most) { return x < 0 ? 0 : x < most ? x : most; }

long zigzag_before(const struct zigzag *z, int rank, long position)
{
  if (z->ranks == 1) return position;
  const long chunk = chunk_of(z), head = rank * chunk, tail = (2 * z->ranks - 1 - rank) * chunk;
  return within(position - head, chunk) + within(position - tail, chunk);
}
