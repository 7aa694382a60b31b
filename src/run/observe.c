#include "run/observe.h"

#include "base/memory.h"

struct observer {
  struct watches *watches;
  struct recorder *recorder;
  const struct recorded *recorded;
  long count;
  int *id; /* of each, the recorder's */
};

struct observer *observer_new(struct watches *w, struct recorder *r)
{
  struct observer *o = memory_new(1, sizeof *o);
  *o = (struct observer){.watches = w, .recorder = r};
  o->recorded = watches_recorded(w, &o->count);
  o->id = memory_new((size_t)o->count + 1, sizeof *o->id);
  for (long i = 0; i < o->count; i++) o->id[i] = recorder_series(r, o->recorded[i].series);
  return o;
}

void observer_free(struct observer *o)
{
  if (!o) return;
  memory_free(o->id);
  memory_free(o);
}

static int put(struct observer *o, enum series_axis axis, const struct step_scalars *now, double batches,
               int directions, struct error *e)
{
  int status = watches_read(o->watches, axis, now, batches, directions, e);
  for (long i = 0; i < o->count; i++) {
    const struct recorded *x = &o->recorded[i];
    if (x->series->axis != axis) continue;
    if (x->row->value)
      recorder_put(o->recorder, o->id[i], x->row->value);
    else
      recorder_put_number(o->recorder, o->id[i], x->row->number);
  }
  return status;
}

int observer_row(struct observer *o, enum series_axis axis, const struct step_scalars *now, double batches,
                 int directions, struct error *e)
{
  int status = put(o, axis, now, batches, directions, e);
  recorder_row(o->recorder, axis, now->step);
  return status;
}

void observer_step(struct observer *o, const struct step_scalars *now, long first_step)
{
  put(o, AXIS_STEP, now, 1, 0, NULL);
  if (first_step == OBSERVE_RECORDED)
    recorder_row(o->recorder, AXIS_STEP, now->step);
  else
    recorder_aside(o->recorder, now->step, first_step);
}
