#include "observe/watches.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

struct axis {
  struct watcher watcher; /* first: what is tapped is told to it */
  struct watch *watch;    /* [count] */
  struct row **row;       /* of each watch: by its observable's series */
  int count;
};

/* What a stabiliser has put into the report. */
struct emitted {
  const struct tensor *from;
  struct row row;
};

struct watches {
  struct model *model;
  struct arena *arena;
  struct axis axis[AXIS_COUNT];
  struct emitted *emitted;
  struct recorded *recorded;
  long emitted_count, recorded_count;
  real *weights, *directions; /* copies of all; NULL where there is nothing on the axis of spectra */
  struct updates *updates;
  struct decoded decoded;
  int has_decoded;
};

/* --- what is wanted ------------------------------------------------------------------------------------- */

static int is_named(void *name, const char *part) { return !strcmp(part, name); }

static int is_chosen(const struct observable *o, const char *names)
{
  if (o->flags & OBSERVABLE_ALWAYS) return 1;
  if (o->flags & OBSERVABLE_DEFAULT && text_split(names, '+', is_named, (void *)(uintptr_t) "default"))
    return 1;
  return text_split(names, '+', is_named, (void *)(uintptr_t)o->name);
}

const char *watches_whole(const char *names)
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

static struct row new_row(struct watches *w, const struct series *s)
{
  struct row row = {.width = model_series_size(w->model, s->shape)};
  if (s->shape != PER_STEP) row.value = arena_get(w->arena, (size_t)row.width + 1, sizeof *row.value);
  return row;
}

static void add_recorded(struct watches *w, const struct series *s, const struct row *row)
{
  w->recorded[w->recorded_count++] = (struct recorded){s, row};
}

static void add_watch(struct watches *w, const struct observable *o, enum series_axis axis,
                      const struct tally *tally, const struct record_options *record)
{
  struct axis *a = &w->axis[axis];
  struct watch *watch = &a->watch[a->count];
  const struct series *series = observable_series(o);
  struct row *row = arena_get(w->arena, (size_t)series_count(series), sizeof *row);
  int any = 0;
  *watch = (struct watch){o, axis, w->model, w->updates, record, tally, w->arena, NULL};
  for (int i = 0; series[i].name; i++) {
    if (series[i].axis != axis || (o->wanted && !o->wanted(watch, i))) continue;
    row[i] = new_row(w, &series[i]);
    add_recorded(w, &series[i], &row[i]);
    any = 1;
  }
  if (!any) return;
  a->row[a->count++] = row;
  watch->state = arena_get(w->arena, 1, o->state_size + 1);
  report_seen_by(w->model->report, axis == AXIS_STEP    ? PASSES_STEP
                                   : axis == AXIS_PROBE ? PASSES_LOOK
                                                        : PASSES_NONE);
  if (o->declare) o->declare(watch);
  report_seen_by(w->model->report, PASSES_NONE);
}

static void add_emitted(struct watches *w, const struct series *s, const struct tensor *from)
{
  struct emitted *e = &w->emitted[w->emitted_count++];
  *e = (struct emitted){from, new_row(w, s)};
  add_recorded(w, s, &e->row);
}

/* --- points --------------------------------------------------------------------------------------------- */

static void tap(struct watcher *watcher, struct program *p, enum point point, int layer,
                const struct flow *flow)
{
  struct axis *a = (struct axis *)watcher;
  for (int i = 0; i < a->count; i++)
    if (a->watch[i].observable->tap) a->watch[i].observable->tap(&a->watch[i], p, point, layer, flow);
}

void watches_before_update(struct watches *w)
{
  tap(&w->axis[AXIS_SPECTRA].watcher, NULL, POINT_BEFORE_UPDATE, -1, NULL);
}

/* --- all of a run --------------------------------------------------------------------------------------- */

struct watches *watches_new(struct model *m, struct updates *u, const struct record_options *record)
{
  struct arena *arena = arena_new();
  struct watches *w = arena_get(arena, 1, sizeof *w);
  *w = (struct watches){.model = m, .updates = u, .arena = arena};
  struct tally *tally[AXIS_COUNT] = {
    [AXIS_STEP] = &m->step, [AXIS_SPECTRA] = &m->step, [AXIS_VAL] = &m->val, [AXIS_PROBE] = &m->probe};
  long observables_count = 0, most = 0, emitted = 0;
  for (const struct observable *const *o = observables; *o; o++, observables_count++)
    most += series_count(observable_series(*o));
  for (int s = 0; s < m->stabilizer_count; s++) emitted += series_count(m->stabilizer[s]->emits);
  w->recorded = arena_get(arena, (size_t)(most + emitted) + 1, sizeof *w->recorded);
  w->emitted = arena_get(arena, (size_t)emitted + 1, sizeof *w->emitted);
  for (enum series_axis axis = 0; axis < AXIS_COUNT; axis++) {
    struct axis *a = &w->axis[axis];
    a->watcher.tap = tap;
    a->watch = arena_get(arena, (size_t)observables_count + 1, sizeof *a->watch);
    a->row = arena_get(arena, (size_t)observables_count + 1, sizeof *a->row);
    if (axis == AXIS_SPECTRA && !record->spectra_every) continue;
    for (const struct observable *const *o = observables; *o; o++)
      if (is_chosen(*o, record->observe)) add_watch(w, *o, axis, tally[axis], record);
  }
  for (int s = 0; s < m->stabilizer_count; s++)
    for (long i = 0; i < series_count(m->stabilizer[s]->emits); i++)
      add_emitted(w, &m->stabilizer[s]->emits[i], m->context[s].series[i]);
  m->step.watcher = &w->axis[AXIS_STEP].watcher;
  m->probe.watcher = &w->axis[AXIS_PROBE].watcher;
  if (!w->axis[AXIS_SPECTRA].count) return w;
  if (m->params.shards && m->params.shards->comm->rank) return w; /* rank 0 alone looks */
  w->weights = arena_get(arena, (size_t)m->params.total, sizeof *w->weights);
  w->directions = arena_get(arena, (size_t)m->params.total, sizeof *w->directions);
  return w;
}

int watches_has(const struct watches *w, const char *name)
{
  for (const struct axis *a = w->axis; a < w->axis + AXIS_COUNT; a++)
    for (int i = 0; i < a->count; i++)
      if (!strcmp(a->watch[i].observable->name, name)) return 1;
  return 0;
}

void watches_decoded(struct watches *w, struct decoded decoded)
{
  w->decoded = decoded;
  w->has_decoded = 1;
}

void watches_free(struct watches *w)
{
  if (!w) return;
  for (struct axis *a = w->axis; a < w->axis + AXIS_COUNT; a++)
    for (int i = 0; i < a->count; i++)
      if (a->watch[i].observable->free) a->watch[i].observable->free(&a->watch[i]);
  arena_free(w->arena);
}

/* --- rows ----------------------------------------------------------------------------------------------- */

const struct recorded *watches_recorded(const struct watches *w, long *count)
{
  *count = w->recorded_count;
  return w->recorded;
}

void reading_put(struct reading *rows, int i, const real *values, long stride)
{
  struct row *row = &rows->row[i];
  for (long k = 0; k < row->width; k++) row->value[k] = (float)values[k * stride];
}

void reading_put_number(struct reading *rows, int i, double value) { rows->row[i].number = value; }

static void clear(struct row *row)
{
  row->number = NAN;
  for (long k = 0; row->value && k < row->width; k++) row->value[k] = NAN;
}

static void copy_weights(const struct watches *w, int directions)
{
  const struct params *all = &w->model->params;
  params_copy(all, &all->values, w->weights);
  if (directions) params_copy(all, &all->directions, w->directions);
}

void watches_lend(const struct watches *w, int directions)
{
  if (w->model->params.shards && w->axis[AXIS_SPECTRA].count) copy_weights(w, directions);
}

int watches_read(struct watches *w, enum series_axis axis, const struct step_scalars *now, double batches,
                 int directions, struct error *e)
{
  struct axis *a = &w->axis[axis];
  struct reading rows = {.now = *now, .batches = batches, .read = w->model->report};
  if (w->has_decoded) rows.decoded = &w->decoded;
  int status = STATUS_OK;
  if (axis == AXIS_SPECTRA && a->count) {
    copy_weights(w, directions);
    rows.weights = w->weights;
    rows.directions = directions ? w->directions : NULL;
  }
  for (int i = 0; i < a->count; i++) {
    const struct watch *watch = &a->watch[i];
    struct error own = {0};
    rows.row = a->row[i];
    for (long k = 0; k < series_count(observable_series(watch->observable)); k++) clear(&rows.row[k]);
    if (watch->observable->read(&a->watch[i], &rows, &own) && !status)
      status = error_set(e, own.status, "%s", own.text);
  }
  for (long i = 0; axis == AXIS_STEP && i < w->emitted_count; i++) {
    const real *value = report_of(rows.read, w->emitted[i].from);
    rows.row = &w->emitted[i].row;
    if (rows.row->value)
      reading_put(&rows, 0, value, 1);
    else
      reading_put_number(&rows, 0, (double)*value);
  }
  return status;
}
