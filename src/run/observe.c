#include "run/observe.h"

#include "base/memory.h"

struct row_writer {
  struct observers *observers;
  struct recorder *recorder;
  const struct recorded *recorded;
  long count;
  int *id; /* the recorder's id of each series */
};

struct row_writer *row_writer_new(struct observers *w, struct recorder *r)
{
  struct row_writer *o = memory_new(1, sizeof *o);
  *o = (struct row_writer){.observers = w, .recorder = r};
  o->recorded = observers_recorded(w, &o->count);
  o->id = memory_new((size_t)o->count + 1, sizeof *o->id);
  for (long i = 0; i < o->count; i++) o->id[i] = recorder_series(r, o->recorded[i].series);
  return o;
}

void row_writer_free(struct row_writer *o)
{
  if (!o) return;
  memory_free(o->id);
  memory_free(o);
}

int row_writer_put(struct row_writer *o, enum series_axis axis, const struct step_scalars *now,
                   double batches, int with_update, struct error *e)
{
  int status = observers_read(o->observers, axis, now, batches, with_update, e);
  for (long i = 0; i < o->count; i++) {
    const struct recorded *x = &o->recorded[i];
    if (x->series->axis != axis) continue;
    if (x->row->value)
      recorder_put(o->recorder, o->id[i], x->row->value);
    else
      recorder_put_number(o->recorder, o->id[i], x->row->number);
  }
  recorder_row(o->recorder, axis, now->step);
  return status;
}
