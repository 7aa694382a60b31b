#include "analysis/dead.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"

static const char *const dead_series[] = {"attn/max_logit", "head_q/frobenius_norm", "head_k/frobenius_norm",
                                          NULL};

struct found {
  struct dead_head *head;
  long count, room;
};

static void add(struct found *f, const struct dead_head *one)
{
  if (f->count == f->room) {
    f->room = 2 * f->room + 16;
    f->head = memory_grow(f->head, (size_t)f->count, (size_t)f->room, sizeof *f->head);
  }
  f->head[f->count++] = *one;
}

/* One head, down its column. */
static void follow(const struct run_series *s, long column, double share, const char *series, struct found *f)
{
  struct dead_head now = {
    .series = series, .layer = (int)(column / s->heads), .head = (int)(column % s->heads)};
  int is_dead = 0;
  long row = 0;
  while (row < s->rows && is_missing(s->value[row * s->width + column])) row++;
  if (row < s->rows) now.start = s->value[row * s->width + column];
  if (!isfinite(now.start) || !(now.start > 0)) return;
  while (++row < s->rows) {
    double x = s->value[row * s->width + column];
    if (!isfinite(x)) continue;
    if (!is_dead && x < share * now.start) {
      is_dead = 1;
      now.step = s->step[row], now.least = x;
    } else if (is_dead && x >= 2 * share * now.start) {
      is_dead = 0;
      now.back = s->step[row];
      add(f, &now);
    }
    if (is_dead) now.least = fmin(now.least, x);
  }
  now.back = NAN;
  if (is_dead) add(f, &now);
}

/* Clips lower the max logit of a head that lives: such a head is judged by its norms alone. */
static int find_clipped(const struct run_file *run, const struct run_series *s, char **clipped,
                        struct error *error)
{
  struct run_event *event;
  long count;
  *clipped = NULL;
  int status = run_events(run, &event, &count, error);
  if (status) return status;
  *clipped = memory_new((size_t)s->width + 1, 1);
  for (long i = 0; i < count; i++) {
    long column = event[i].layer * s->heads + event[i].head;
    if (!strcmp(event[i].kind, "clip") && event[i].head >= 0 && column >= 0 && column < s->width)
      (*clipped)[column] = 1; /* clips of a whole layer, of its output, are without a head */
  }
  memory_free(event);
  return STATUS_OK;
}

int dead_heads(const struct run_file *run, double share, struct dead_head **out, long *count, int *looked,
               struct error *error)
{
  struct found f = {0};
  int status = STATUS_OK;
  *looked = 0;
  for (int i = 0; dead_series[i] && !status; i++) {
    struct run_series s;
    if (!run_rows(run, dead_series[i])) continue;
    status = run_read(run, dead_series[i], &s, error);
    if (status) break;
    ++*looked;
    char *clipped = NULL;
    if (i == 0) status = find_clipped(run, &s, &clipped, error);
    for (long column = 0; column < s.width && s.shape == PER_HEAD && !status; column++)
      if (!clipped || !clipped[column]) follow(&s, column, share, dead_series[i], &f);
    memory_free(clipped);
    run_series_free(&s);
  }
  *out = f.head, *count = f.count;
  if (status) memory_free(f.head), *out = NULL, *count = 0;
  return status;
}
