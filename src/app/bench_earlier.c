/* bench_earlier.c - results of an earlier bench, to compare with */
#include <math.h>
#include <string.h>
#include "analysis/json.h"
#include "app/bench.h"
#include "base/memory.h"

struct earlier {
  json_t *all, *stacks;
};

struct earlier *earlier_open(const char *path, struct error *e)
{
  json_error_t wrong;
  json_t *all = json_load_file(path, JSON_REJECT_DUPLICATES, &wrong);
  json_t *stacks = json_object_get(all, "stacks");
  if (!all)
    error_set(e, STATUS_USAGE, "bench --against=%s: %s", path, wrong.text);
  else if (!json_object_get(json_array_get(stacks, 0), "step_seconds"))
    error_set(e, STATUS_USAGE, "bench --against=%s: not what bench --json prints (no step_seconds)", path);
  else {
    struct earlier *x = memory_new(1, sizeof *x);
    *x = (struct earlier){all, stacks};
    return x;
  }
  json_decref(all);
  return NULL;
}

void earlier_free(struct earlier *x)
{
  if (x) json_decref(x->all);
  memory_free(x);
}

static double number_at(const json_t *list, size_t i)
{
  const json_t *x = json_array_get(list, i);
  return json_is_number(x) ? json_number_value(x) : NAN;
}

/* Both intervals are of a median; that of the ratio has, of logarithms, the root of the sum of their squares. */
static struct median over(const struct median *a, const struct median *b)
{
  const double below = hypot(log(a->middle / a->low), log(b->high / b->middle)),
               above = hypot(log(a->high / a->middle), log(b->middle / b->low)),
               middle = a->middle / b->middle;
  return (struct median){middle, middle * exp(-below), middle * exp(above)};
}

struct median earlier_speed(const struct earlier *x, const char *stack, const char *optimizer,
                            const struct median *seconds, double gflops, double *sgemm)
{
  size_t i;
  json_t *r;
  *sgemm = NAN;
  json_array_foreach(x->stacks, i, r)
  {
    const char *name = json_string_value(json_object_get(r, "stack")),
               *by = json_string_value(json_object_get(r, "optimizer"));
    if (!name || !by || strcmp(name, stack) != 0 || strcmp(by, optimizer) != 0) continue;
    const json_t *step = json_object_get(r, "step_seconds"), *limit = json_object_get(r, "sgemm_gflops");
    const struct median then = {number_at(step, 0), number_at(step, 1), number_at(step, 2)};
    if (json_is_number(limit)) *sgemm = gflops / json_number_value(limit);
    return over(&then, seconds);
  }
  return (struct median){NAN, NAN, NAN};
}
