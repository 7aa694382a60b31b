/* wholes.c - which ranges of rows that are shared out (shards.h) a program has whole, for program.c */
#include "numerics/program_state.h"
#include "numerics/shards.h"

int whole_row(const struct shards *s, const struct tensor *t, long *from, long *n)
{
  if (!s || !t || t->flags & OWNED) return -1;
  for (int row = 0; row < SHARD_ROWS; row++) {
    if (REALS(t) < s->place[row] || REALS(t) >= s->place[row] + s->total) continue;
    *from = REALS(t) - s->place[row];
    *n = (t->rows - 1) * t->ld + t->cols;
    return row;
  }
  return -1;
}

struct whole *whole_find(const struct wholes *w, long from, long n, int any)
{
  for (int i = 0; i < w->count; i++) {
    struct whole *x = &w->item[i];
    if (any ? x->from < from + n && from < x->from + x->n : x->from <= from && from + n <= x->from + x->n)
      return x;
  }
  return NULL;
}

struct whole *whole_add(struct wholes *w, long from, long n, struct tensor *t, int unit)
{
  if (w->count == w->room) {
    int wider = w->room ? 2 * w->room : 16;
    w->item = memory_grow(w->item, (size_t)w->room, (size_t)wider, sizeof *w->item);
    w->room = wider;
  }
  w->item[w->count] = (struct whole){from, n, t, unit};
  return &w->item[w->count++];
}
