/* save.c - the state of a run into a checkpoint and back */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "run/dist.h"
#include "run/state.h"

double trainer_wall(const struct trainer *t) { return t->earlier_wall + clock_seconds() - t->started; }

/* The tensors of a checkpoint in a fixed order: parameters, optimiser states, the spike window (which lives
   on the host: device NULL). */
struct tensor_list {
  struct checkpoint_tensor *item;
  struct tensor **device;
  int count;
};

static void list_add(struct tensor_list *l, const char *group, const char *name, struct tensor *device)
{
  struct checkpoint_tensor *x = &l->item[l->count];
  snprintf(x->name, sizeof x->name, "%s/%s", group, name);
  x->rows = device ? device->rows : 1;
  x->cols = device ? device->cols : SPIKE_WINDOW;
  l->device[l->count++] = device;
}

static void list_tensors(struct trainer *t, struct tensor_list *l)
{
  struct params *p = &t->model.params;
  int states = updates_states(t->updates);
  size_t most = (size_t)(p->count + states + 1);
  l->item = memory_new(most, sizeof *l->item);
  l->device = memory_new(most, sizeof *l->device);
  l->count = 0;
  for (int i = 0; i < p->count; i++) list_add(l, "params", p->list[i]->name, &p->list[i]->value);
  for (int i = 0; i < states; i++) {
    char name[128];
    struct tensor *state = updates_state(t->updates, i, name, sizeof name);
    list_add(l, "state", name, state);
  }
  list_add(l, "state", "trainer.spike_window", NULL);
}

static void list_free(struct tensor_list *l)
{
  memory_free(l->item);
  memory_free(l->device);
}

/* Of the i-th tensor, the number among the optimisers' states; -1: it is none. */
static int state_at(const struct trainer *t, int i)
{
  int state = i - t->model.params.count;
  return state >= 0 && state < updates_states(t->updates) ? state : -1;
}

static void fetch(struct trainer *t, const struct tensor_list *l)
{
  for (int i = 0; i < l->count; i++) {
    struct checkpoint_tensor *x = &l->item[i];
    size_t n = (size_t)(x->rows * x->cols);
    x->data = l->device[i] ? memory_new(n, sizeof(real)) : t->health.spike_window;
    if (state_at(t, i) >= 0)
      updates_state_read(t->updates, state_at(t, i), x->data);
    else if (l->device[i])
      params_read(&t->model.params, t->model.params.list[i], x->data);
  }
}

static void forget(struct tensor_list *l)
{
  for (int i = 0; i < l->count; i++)
    if (l->device[i]) memory_free(l->item[i].data);
  list_free(l);
}

int trainer_save(struct trainer *t, struct error *e)
{
  int status = STATUS_OK;
  struct tensor_list l;
  struct checkpoint c = {.step = t->done,
                         .wall = trainer_wall(t),
                         .peak = t->health.peak.value,
                         .peak_step = t->health.peak.step,
                         .peak_at = t->health.peak.at};
  if (!recorder_keeps(t->recorder) && !dist_shards(t)) return STATUS_OK;
  if (recorder_holds(t->recorder, e)) return e->status;
  list_tensors(t, &l);
  fetch(t, &l);
  if (!recorder_keeps(t->recorder)) {
    forget(&l);
    t->checkpointed = t->done;
    return STATUS_OK;
  }
  status = recorder_keep(t->recorder, t->done, trainer_wall(t), e);
  if (status) {
    forget(&l);
    return status;
  }
  snprintf(c.id, sizeof c.id, "%s", t->id);
  snprintf(c.core, sizeof c.core, "%s", device_blas_core());
  c.config_text = config_text(t->config);
  c.count = l.count;
  c.tensors = l.item;
  status = checkpoint_write(t->path, &c, strtol(t->keep->keep, NULL, 10), e); /* "all": 0 */
  forget(&l);
  memory_free(c.config_text);
  if (!status) {
    recorder_event(t->recorder, t->done, "checkpoint", -1, -1, NAN);
    t->checkpointed = t->done;
    t->checkpointed_at = clock_seconds();
  }
  return status;
}

int trainer_load(struct trainer *t, const struct checkpoint *c, struct error *e)
{
  struct tensor_list l;
  int status = STATUS_OK;
  list_tensors(t, &l);
  for (int i = 0; !status && i < l.count; i++) {
    const struct checkpoint_tensor *want = &l.item[i], *have = checkpoint_find(c, NULL, want->name);
    if (!have || have->rows != want->rows || have->cols != want->cols)
      status = error_set(e, STATUS_FAIL, "checkpoint of step %ld: %s is missing or has another shape",
                         c->step, want->name);
    else if (state_at(t, i) >= 0)
      updates_state_write(t->updates, state_at(t, i), have->data);
    else if (l.device[i])
      params_write(&t->model.params, t->model.params.list[i], have->data);
    else
      memcpy(t->health.spike_window, have->data, (size_t)(want->rows * want->cols) * sizeof(real));
  }
  list_free(&l);
  return status;
}
