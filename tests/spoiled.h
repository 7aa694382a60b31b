/* spoiled.h - what a checkpoint restores is NaN before it is loaded: a tensor that is not restored cannot pass for one
   that happens to begin with the right values. The program is linked with --wrap=trainer_load (tests/list.am). */
#ifndef MAXLOGIT_TESTS_SPOILED_H
#define MAXLOGIT_TESTS_SPOILED_H
#include <math.h>
#include "base/memory.h"
#include "run/state.h"

static int spoiled_loads; /* trainers that were spoiled and then loaded */

int __real_trainer_load(struct trainer *, const struct checkpoint *, struct error *);
int __wrap_trainer_load(struct trainer *, const struct checkpoint *, struct error *);

static real *spoiled_row(const struct tensor *x)
{
  const size_t n = (size_t)(x->rows * x->cols);
  real *row = memory_new(n + 1, sizeof *row);
  for (size_t i = 0; i < n; i++) row[i] = (real)NAN;
  return row;
}

/* The gradient, too, which no step may read before it has written it. */
static void spoil_param(struct trainer *t, struct param *p)
{
  real *row = spoiled_row(&p->value);
  const size_t bytes = (size_t)(p->value.rows * p->value.cols) * sizeof *row;
  params_write(&t->engine.model.params, p, row);
  if (p->grad.data && !t->ranks.shards) t->engine.device->upload(t->engine.device, p->grad.data, row, bytes);
  memory_free(row);
}

int __wrap_trainer_load(struct trainer *t, const struct checkpoint *c, struct error *e)
{
  for (int i = 0; i < t->engine.model.params.count; i++) spoil_param(t, t->engine.model.params.list[i]);
  for (int i = 0; i < updates_states(t->engine.updates); i++) {
    char name[128];
    real *row = spoiled_row(updates_state(t->engine.updates, i, name, sizeof name));
    updates_state_write(t->engine.updates, i, row);
    memory_free(row);
  }
  for (int i = 0; i < SPIKE_WINDOW; i++) t->record.health.spike_window[i] = (real)NAN;
  spoiled_loads++;
  return __real_trainer_load(t, c, e);
}
#endif
