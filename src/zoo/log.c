#include "zoo/log.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"

/* --- columns ----------------------------------------------------------------------------------------- */

struct log_column *log_put(struct log *l, const char *name, double step, double value)
{
  struct log_column *c = NULL;
  char clean[1024]; /* it becomes the name of a series, and is printed */
  text_fill(clean, sizeof clean, name);
  long at = names_find(&l->names, clean);
  if (at >= 0)
    c = &l->column[at];
  else {
    if (l->columns == l->room) {
      l->column = memory_grow(l->column, (size_t)l->room, 2 * (size_t)l->room + 32, sizeof *l->column);
      l->room = 2 * l->room + 32;
    }
    c = &l->column[l->columns++];
    c->name = memory_text(clean);
    names_add(&l->names, c->name);
  }
  if (c->count == c->room) {
    long room = 2 * c->room + 64;
    c->step = memory_grow(c->step, (size_t)c->room, (size_t)room, sizeof *c->step);
    c->value = memory_grow(c->value, (size_t)c->room, (size_t)room, sizeof *c->value);
    c->room = room;
  }
  c->step[c->count] = step;
  c->value[c->count++] = value;
  return c;
}

struct point {
  double step, value;
  long at;
};

static int compare_points(const void *a, const void *b)
{
  const struct point *x = a, *y = b;
  int order = (x->step > y->step) - (x->step < y->step);
  return order ? order : (x->at > y->at) - (x->at < y->at);
}

int log_settle(struct log *l, struct error *e)
{
  for (int i = 0; i < l->columns; i++) {
    struct log_column *c = &l->column[i];
    struct point *p = memory_new((size_t)c->count + 1, sizeof *p);
    long kept = 0;
    for (long k = 0; k < c->count; k++) p[k] = (struct point){c->step[k], c->value[k], k};
    qsort(p, (size_t)c->count, sizeof *p, compare_points);
    for (long k = 0; k < c->count; k++) {
      if (kept && c->step[kept - 1] == p[k].step) kept--; /* told again after a restart */
      c->step[kept] = p[k].step;
      c->value[kept++] = p[k].value;
    }
    c->count = kept;
    memory_free(p);
  }
  return l->columns ? STATUS_OK : error_set(e, STATUS_USAGE, "no number of any step");
}

void log_free(struct log *l)
{
  for (int i = 0; i < l->columns; i++) {
    memory_free(l->column[i].name);
    memory_free(l->column[i].step);
    memory_free(l->column[i].value);
  }
  memory_free(l->column);
  names_free(&l->names);
  *l = (struct log){0};
}

/* --- what readers share ------------------------------------------------------------------------------ */

/* Of trackers, of Hugging Face's trainer, ms-swift, Megatron-LM and our own. */
static const char *const steps[] = {
  "step",      "_step", "Step",  "global_step", "train/global_step",   "global_step/max_steps",
  "iteration", "iter",  "steps", "Iteration",   "trainer/global_step", "global step",
  NULL};

int log_is_step(const struct log *l, const char *name)
{
  if (l->step) return !strcmp(name, l->step);
  if (*l->step_found) return !strcmp(name, l->step_found);
  for (int i = 0; steps[i]; i++)
    if (!strcmp(name, steps[i])) return 1;
  return 0;
}

double log_step(const char *text)
{
  char *end;
  double step = strtod(text, &end);
  while (*end == ' ') end++;
  if (end == text || (*end && *end != '/') || !(step >= 0) || step != floor(step) || step > 1e15) return -1;
  return step;
}

int log_number(const char *text, double *value)
{
  char *end;
  *value = strtod(text, &end);
  if (end == text) return 0;
  while (*end == ' ' || *end == '\r' || *end == '\n') end++;
  return !*end;
}
