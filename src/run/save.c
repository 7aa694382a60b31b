/* save.c - writes the state of a run to a checkpoint and reads it back */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "numerics/blas.h"
#include "run/dist.h"
#include "run/state.h"

int trainer_save(struct trainer *t, struct error *e)
{
  int status = STATUS_OK;
  struct tensor_list l;
  struct checkpoint c = {.step = t->done,
                         .wall = trainer_wall(t),
                         .peak = t->record.health.peak.value,
                         .peak_step = t->record.health.peak.step,
                         .peak_at = t->record.health.peak.at};
  if (!recorder_keeps(t->record.recorder) && !dist_shards(t)) return STATUS_OK;
  if (recorder_holds(t->record.recorder, e)) return e->status;
  trainer_tensors(t, &l);
  trainer_tensors_fetch(t, &l);
  if (!recorder_keeps(t->record.recorder)) {
    trainer_tensors_forget(&l);
    t->checkpointed = t->done;
    return STATUS_OK;
  }
  const int ends = t->done == t->plan.train->steps;
  status = recorder_keep(t->record.recorder, t->done, trainer_wall(t), ends, e);
  if (status) {
    trainer_tensors_forget(&l);
    return status;
  }
  snprintf(c.id, sizeof c.id, "%s", t->plan.id);
  snprintf(c.core, sizeof c.core, "%s", device_blas_core());
  c.config_text = config_text(t->plan.config);
  c.count = l.count;
  c.tensors = l.item;
  status = checkpoint_write(t->plan.path, &c, strtol(t->plan.keep->keep, NULL, 10), e); /* "all" becomes 0 */
  trainer_tensors_forget(&l);
  memory_free(c.config_text);
  if (!status) {
    recorder_event(t->record.recorder, t->done, "checkpoint", -1, -1, NAN);
    t->checkpointed = t->done;
    t->checkpointed_at = clock_seconds();
  }
  return status;
}

void trainer_sizes(struct trainer *t, double *parameters, double *checkpoint)
{
  struct tensor_list l;
  trainer_tensors(t, &l);
  *parameters = *checkpoint = 0;
  for (int i = 0; i < l.count; i++) {
    double numbers = (double)l.item[i].rows * (double)l.item[i].cols;
    *checkpoint += numbers * (double)sizeof(real);
    if (!strncmp(l.item[i].name, "params/", strlen("params/"))) *parameters += numbers;
  }
  trainer_tensors_free(&l);
}

int trainer_load(struct trainer *t, const struct checkpoint *c, struct error *e)
{
  struct tensor_list l;
  int status = STATUS_OK;
  trainer_tensors(t, &l);
  for (int i = 0; !status && i < l.count; i++) {
    const struct checkpoint_tensor *want = &l.item[i], *have = checkpoint_find(c, NULL, want->name);
    if (!have || have->rows != want->rows || have->cols != want->cols)
      status = error_set(e, STATUS_FAIL, "checkpoint of step %ld: %s is missing or has another shape",
                         c->step, want->name);
    else if (trainer_state_at(t, i) >= 0)
      updates_state_write(t->engine.updates, trainer_state_at(t, i), have->data);
    else if (l.device[i])
      params_write(&t->engine.model.params, t->engine.model.params.list[i], have->data);
    else
      memcpy(t->record.health.spike_window, have->data, (size_t)(want->rows * want->cols) * sizeof(real));
  }
  trainer_tensors_free(&l);
  return status;
}
