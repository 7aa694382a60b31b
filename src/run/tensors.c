/* tensors.c - the state of a run: its tensors, and its wall time */
#include <stdio.h>

#include "base/clock.h"
#include "run/state.h"

double trainer_wall(const struct trainer *t) { return t->earlier_wall + clock_seconds() - t->started; }

static void list_add(struct tensor_list *l, const char *group, const char *name, struct tensor *device)
{
  struct checkpoint_tensor *x = &l->item[l->count];
  snprintf(x->name, sizeof x->name, "%s/%s", group, name);
  x->rows = device ? device->rows : 1;
  x->cols = device ? device->cols : SPIKE_WINDOW;
  l->device[l->count++] = device;
}

void trainer_tensors(struct trainer *t, struct tensor_list *l)
{
  struct params *p = &t->engine.model.params;
  int states = updates_states(t->engine.updates);
  size_t most = (size_t)(p->count + states + 1);
  l->item = memory_new(most, sizeof *l->item);
  l->device = memory_new(most, sizeof *l->device);
  l->count = 0;
  for (int i = 0; i < p->count; i++) list_add(l, "params", p->list[i]->name, &p->list[i]->value);
  for (int i = 0; i < states; i++) {
    char name[128];
    struct tensor *state = updates_state(t->engine.updates, i, name, sizeof name);
    list_add(l, "state", name, state);
  }
  list_add(l, "state", "trainer.spike_window", NULL);
}

void trainer_tensors_free(struct tensor_list *l)
{
  memory_free(l->item);
  memory_free(l->device);
}

int trainer_state_at(const struct trainer *t, int i)
{
  int state = i - t->engine.model.params.count;
  return state >= 0 && state < updates_states(t->engine.updates) ? state : -1;
}

void trainer_tensors_fetch(struct trainer *t, const struct tensor_list *l)
{
  for (int i = 0; i < l->count; i++) {
    struct checkpoint_tensor *x = &l->item[i];
    size_t n = (size_t)(x->rows * x->cols);
    x->data = l->device[i] ? memory_new(n, sizeof(real)) : t->record.health.spike_window;
    if (trainer_state_at(t, i) >= 0)
      updates_state_read(t->engine.updates, trainer_state_at(t, i), x->data);
    else if (l->device[i])
      params_read(&t->engine.model.params, t->engine.model.params.list[i], x->data);
  }
}

void trainer_tensors_forget(struct tensor_list *l)
{
  for (int i = 0; i < l->count; i++)
    if (l->device[i]) memory_free(l->item[i].data);
  trainer_tensors_free(l);
}
