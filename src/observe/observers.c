#include "observe/observers.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

struct axis_observers {
  struct tap tap_hook;       /* first member: the tap function receives its address */
  struct observer *observer; /* [count] */
  struct series_row **row;   /* for each observer, its rows by series */
  int count;
};

/* A series of a stabilizer, in the report. */
struct emitted {
  const struct tensor *from;
  struct series_row row;
};

struct observers {
  struct model *model;
  struct arena *arena;
  struct axis_observers axis[AXIS_COUNT];
  struct emitted *emitted;
  struct recorded *recorded;
  long emitted_count, recorded_count;
  real *weights, *update_values; /* copies of all; NULL if nothing is recorded on AXIS_SPECTRA */
  real *momenta;                 /* NULL: not needed */
  struct updates *updates;
  struct decode_check decoded;
  int has_decoded;
};

/* --- selection ------------------------------------------------------------------------------------------ */

static int is_named(void *name, const char *part) { return !strcmp(part, name); }

static int is_chosen(const struct observable *o, const char *names)
{
  if (o->flags & OBSERVABLE_ALWAYS) return 1;
  if (o->flags & OBSERVABLE_DEFAULT && text_split(names, '+', is_named, (void *)(uintptr_t) "default"))
    return 1;
  return text_split(names, '+', is_named, (void *)(uintptr_t)o->name);
}

const char *observers_whole(const char *names)
{
  for (const struct observable *const *o = observables; *o; o++)
    if ((*o)->flags & OBSERVABLE_WHOLE && is_chosen(*o, names)) return (*o)->name;
  return NULL;
}

static long series_count(const struct series *s)
{
  long n = 0;
  while (s && s[n].name) n++;
  return n;
}

static struct series_row new_row(struct observers *w, const struct series *s)
{
  struct series_row row = {.width = model_series_size(w->model, s->shape)};
  if (s->shape != PER_STEP) row.value = arena_get(w->arena, (size_t)row.width + 1, sizeof *row.value);
  return row;
}

static void add_recorded(struct observers *w, const struct series *s, const struct series_row *row)
{
  w->recorded[w->recorded_count++] = (struct recorded){s, row};
}

static void add_watch(struct observers *w, const struct observable *o, enum series_axis axis,
                      const struct tally *tally, const struct record_options *record)
{
  struct axis_observers *a = &w->axis[axis];
  struct observer *observer = &a->observer[a->count];
  const struct series *series = observable_series(o);
  struct series_row *row = arena_get(w->arena, (size_t)series_count(series), sizeof *row);
  int any = 0;
  *observer = (struct observer){o, axis, w->model, w->updates, record, tally, w->arena, NULL};
  for (int i = 0; series[i].name; i++) {
    if (series[i].axis != axis || (o->wanted && !o->wanted(observer, i))) continue;
    row[i] = new_row(w, &series[i]);
    add_recorded(w, &series[i], &row[i]);
    any = 1;
  }
  if (!any) return;
  a->row[a->count++] = row;
  observer->state = arena_get(w->arena, 1, o->state_size + 1);
  report_seen_by(w->model->report, axis == AXIS_STEP    ? PASSES_STEP
                                   : axis == AXIS_PROBE ? PASSES_LOOK
                                                        : PASSES_NONE);
  if (o->declare) o->declare(observer);
  report_seen_by(w->model->report, PASSES_NONE);
}

static void add_emitted(struct observers *w, const struct series *s, const struct tensor *from)
{
  struct emitted *e = &w->emitted[w->emitted_count++];
  *e = (struct emitted){from, new_row(w, s)};
  add_recorded(w, s, &e->row);
}

/* --- points --------------------------------------------------------------------------------------------- */

static void tap(struct tap *tap_hook, struct program *p, enum point point, int layer, const struct flow *flow)
{
  struct axis_observers *a = (struct axis_observers *)tap_hook;
  for (int i = 0; i < a->count; i++)
    if (a->observer[i].observable->tap)
      a->observer[i].observable->tap(&a->observer[i], p, point, layer, flow);
}

void observers_before_update(struct observers *w)
{
  tap(&w->axis[AXIS_SPECTRA].tap_hook, NULL, POINT_BEFORE_UPDATE, -1, NULL);
}

static int has_flag(const struct axis_observers *a, unsigned flag)
{
  for (int i = 0; i < a->count; i++)
    if (a->observer[i].observable->flags & flag) return 1;
  return 0;
}

/* --- all of a run --------------------------------------------------------------------------------------- */

struct observers *observers_new(struct model *m, struct updates *u, const struct record_options *record)
{
  struct arena *arena = arena_new();
  struct observers *w = arena_get(arena, 1, sizeof *w);
  *w = (struct observers){.model = m, .updates = u, .arena = arena};
  struct tally *tally[AXIS_COUNT] = {
    [AXIS_STEP] = &m->step, [AXIS_SPECTRA] = &m->step, [AXIS_VAL] = &m->val, [AXIS_PROBE] = &m->probe};
  long observables_count = 0, most = 0, emitted = 0;
  for (const struct observable *const *o = observables; *o; o++, observables_count++)
    most += series_count(observable_series(*o));
  for (int s = 0; s < m->stabilizer_count; s++) emitted += series_count(m->stabilizer[s]->emits);
  w->recorded = arena_get(arena, (size_t)(most + emitted) + 1, sizeof *w->recorded);
  w->emitted = arena_get(arena, (size_t)emitted + 1, sizeof *w->emitted);
  for (enum series_axis axis = 0; axis < AXIS_COUNT; axis++) {
    struct axis_observers *a = &w->axis[axis];
    a->tap_hook.tap = tap;
    a->observer = arena_get(arena, (size_t)observables_count + 1, sizeof *a->observer);
    a->row = arena_get(arena, (size_t)observables_count + 1, sizeof *a->row);
    if (axis == AXIS_SPECTRA && !record->spectra_every) continue;
    for (const struct observable *const *o = observables; *o; o++)
      if (is_chosen(*o, record->observe)) add_watch(w, *o, axis, tally[axis], record);
  }
  for (int s = 0; s < m->stabilizer_count; s++)
    for (long i = 0; i < series_count(m->stabilizer[s]->emits); i++)
      add_emitted(w, &m->stabilizer[s]->emits[i], m->context[s].series[i]);
  m->step.tap_hook = &w->axis[AXIS_STEP].tap_hook;
  m->probe.tap_hook = &w->axis[AXIS_PROBE].tap_hook;
  if (!w->axis[AXIS_SPECTRA].count) return w;
  if (has_flag(&w->axis[AXIS_SPECTRA], OBSERVABLE_MOMENTA))
    w->momenta = arena_get(arena, (size_t)m->params.total, sizeof *w->momenta);
  if (m->params.shards && m->params.shards->comm->rank) return w; /* only rank 0 computes rows */
  w->weights = arena_get(arena, (size_t)m->params.total, sizeof *w->weights);
  w->update_values = arena_get(arena, (size_t)m->params.total, sizeof *w->update_values);
  return w;
}

int observers_have(const struct observers *w, const char *name)
{
  for (const struct axis_observers *a = w->axis; a < w->axis + AXIS_COUNT; a++)
    for (int i = 0; i < a->count; i++)
      if (!strcmp(a->observer[i].observable->name, name)) return 1;
  return 0;
}

void observers_set_decoded(struct observers *w, struct decode_check decoded)
{
  w->decoded = decoded;
  w->has_decoded = 1;
}

void observers_free(struct observers *w)
{
  if (!w) return;
  for (struct axis_observers *a = w->axis; a < w->axis + AXIS_COUNT; a++)
    for (int i = 0; i < a->count; i++)
      if (a->observer[i].observable->free) a->observer[i].observable->free(&a->observer[i]);
  arena_free(w->arena);
}

/* --- rows ----------------------------------------------------------------------------------------------- */

const struct recorded *observers_recorded(const struct observers *w, long *count)
{
  *count = w->recorded_count;
  return w->recorded;
}

void observation_put(struct observation *rows, int i, const real *values, long stride)
{
  struct series_row *row = &rows->row[i];
  for (long k = 0; k < row->width; k++) row->value[k] = (float)values[k * stride];
}

void observation_put_number(struct observation *rows, int i, double value) { rows->row[i].number = value; }

static void clear(struct series_row *row)
{
  row->number = NAN;
  for (long k = 0; row->value && k < row->width; k++) row->value[k] = NAN;
}

static void copy_weights(const struct observers *w, int with_update)
{
  const struct params *all = &w->model->params;
  params_copy(all, &all->values, w->weights);
  if (with_update) params_copy(all, &all->update_values, w->update_values);
}

static void copy_momenta(const struct observers *w, int with_update)
{
  if (with_update && w->momenta) updates_momenta(w->updates, w->momenta);
}

void observers_lend(const struct observers *w, int with_update)
{
  if (w->model->params.shards && w->axis[AXIS_SPECTRA].count) copy_weights(w, with_update);
  if (updates_are_sharded(w->updates)) copy_momenta(w, with_update);
}

int observers_read(struct observers *w, enum series_axis axis, const struct step_scalars *now, double batches,
                   int with_update, struct error *e)
{
  struct axis_observers *a = &w->axis[axis];
  struct observation rows = {.now = *now, .batches = batches, .read = w->model->report};
  if (w->has_decoded) rows.decoded = &w->decoded;
  int status = STATUS_OK;
  if (axis == AXIS_SPECTRA && a->count) {
    copy_weights(w, with_update);
    copy_momenta(w, with_update);
    rows.weights = w->weights;
    rows.update_values = with_update ? w->update_values : NULL;
    rows.momenta = with_update ? w->momenta : NULL;
  }
  for (int i = 0; i < a->count; i++) {
    const struct observer *observer = &a->observer[i];
    struct error own = {0};
    rows.row = a->row[i];
    for (long k = 0; k < series_count(observable_series(observer->observable)); k++) clear(&rows.row[k]);
    if (observer->observable->read(&a->observer[i], &rows, &own) && !status)
      status = error_set(e, own.status, "%s", own.text);
  }
  for (long i = 0; axis == AXIS_STEP && i < w->emitted_count; i++) {
    const real *value = report_of(rows.read, w->emitted[i].from);
    rows.row = &w->emitted[i].row;
    if (rows.row->value)
      observation_put(&rows, 0, value, 1);
    else
      observation_put_number(&rows, 0, (double)*value);
  }
  return status;
}
