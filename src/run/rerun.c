#include "run/rerun.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "run/dist.h"
#include "run/origin.h"
#include "storage/journal.h"
#include "storage/layout.h"
#include "storage/run_file.h"

/* --- repeat the run ------------------------------------------------------------------------------------- */

static int check_change(const struct config *c, const char *assignment, struct error *e)
{
  struct config_entry x;
  if (!config_assigned(c, assignment, &x)) return STATUS_OK; /* config_assign reports the error */
  if (!strcmp(x.key, "record.path") || !strcmp(x.key, "record.overwrite"))
    return error_set(e, STATUS_USAGE, "%s: the run keeps its file; --output writes another", x.key);
  if (x.row->flags & (OPTION_FREE | OPTION_CONTENT)) return STATUS_OK;
  return error_set(
    e, STATUS_USAGE,
    "%s would make another run of it; rerun takes what is recorded (record.probe_every, ...), checkpoints, "
    "paths and threads",
    x.key);
}

/* A run that was resumed with another division of its sequences rounds differently from that step on. */
static int check_cut(const char *path, struct error *e)
{
  struct run_file *r = NULL;
  struct run_event *x = NULL;
  long n = 0;
  int status = run_open(&r, path, e);
  if (!status) status = run_events(r, &x, &n, e);
  for (long i = 0; i < n && !status; i++)
    if (!strcmp(x[i].kind, "context"))
      status = error_set(
        e, STATUS_USAGE,
        "%s: from step %ld on this run had comm.context = %g, by a resume: no run in one go has its bits",
        path, x[i].step, x[i].value);
  memory_free(x);
  if (r) run_close(r);
  return status;
}

void rerun_path(char out[4096], const char *path, const char *output)
{
  run_sibling(out, path, ".rerun.h5");
  if (output) snprintf(out, 4096, "%s", output);
}

/* The run file goes last: it names the run of the other files. */
static void remove_files(const char *record_path)
{
  char journal[4096], lock[4096];
  struct error ignored = {0};
  run_sibling(lock, record_path, ".lock");
  if (lock_is_held(lock)) return; /* another process has made them */
  run_sibling(journal, record_path, ".journal");
  checkpoint_remove_folder(record_path, &ignored);
  journal_remove(journal, &ignored);
  file_remove(record_path);
}

/* Remove the files that an earlier rerun of this run left. Files of other runs stay. */
static int remove_left(const char *record_path, const char *id, struct error *e)
{
  struct run_file *r = NULL;
  struct error ignored = {0};
  if (recorder_refuse_rest(record_path, "--output takes another name", e)) return e->status;
  if (access(record_path, F_OK)) return STATUS_OK;
  const int is_left = !run_open(&r, record_path, &ignored) && !strcmp(run_id(r), id);
  if (r) run_close(r);
  if (is_left) remove_files(record_path);
  if (is_left && access(record_path, F_OK)) return STATUS_OK;
  return error_set(e, STATUS_USAGE, "%s exists, and is not of a rerun of this run: rename or remove it",
                   record_path);
}

int rerun_init(struct trainer **out, struct config **config, const char *path, const char *output,
               const char *const *changes, int count, long from, struct error *e)
{
  struct config *c = NULL;
  char record_path[4096];
  rerun_path(record_path, path, output);
  char id[16];
  *out = NULL;
  *config = NULL;
  struct origin origin;
  if (origin_read(path, &c, &origin, e)) return e->status;
  snprintf(id, sizeof id, "%s", origin.id);
  int status = STATUS_OK;
  if (!output && origin.additions.status) status = error_set(e, STATUS_USAGE, "%s", origin.additions.text);
  if (!status && ((const struct train_options *)config_section(c, "train"))->max_time >
                   0) /* that limited the first run */
    status = config_set(c, "train.max_time", "0", "rerun", e);
  for (int i = 0; i < count && !status; i++) {
    status = check_change(c, changes[i], e);
    if (!status) status = config_assign(c, changes[i], e);
  }
  if (!status && output) status = config_set(c, "record.path", output, "rerun", e);
  if (!status) status = check_cut(path, e);
  if (!status) status = config_finish(c, e);
  if (!status && !output) status = origin_refuse_copy(c, path, e);
  if (!status) origin_keep_private(c, 1);
  if (!status && !dist_ranks(0)->rank) status = remove_left(record_path, id, e);
  const int begins = !status && !dist_ranks(0)->rank;
  if (!status)
    status = from < 0 ? trainer_init_again(out, c, record_path, id, e)
                      : trainer_repeat(out, c, path, record_path, from, e);
  if (status && begins) remove_files(record_path);
  if (status)
    config_free(c);
  else
    *config = c;
  return status;
}

/* --- compare the two runs ------------------------------------------------------------------------------- */

struct comparing {
  struct run_file *first, *again;
  double last;    /* the last step that both runs have done */
  long done;      /* steps that the first states to have done */
  int same_rows;  /* both have recorded at the same steps, */
  double resumed; /* from this one on: a resume may have changed the intervals; */
  double whole;   /* below this one: the row of the end may lack where a run went on or was killed */
  long end;       /* events before this step are compared; the step at which a run diverges is never done */
  int series;
  struct error *error;
};

static int same_rows(const struct comparing *c, const struct run_series *x, const struct run_series *y)
{
  size_t bytes = (size_t)x->width * sizeof *x->value;
  if (x->shape != y->shape || x->width != y->width)
    return error_set(c->error, STATUS_FAIL, "%s has another shape", x->name);
  for (long i = 0, k = 0; i < x->rows && x->step[i] <= c->last; i++) {
    while (k < y->rows && y->step[k] < x->step[i]) k++;
    if ((k == y->rows || y->step[k] != x->step[i]) && x->step[i] < c->resumed)
      return error_set(
        c->error, STATUS_FAIL,
        "%s: the row of step %g was recorded before the resume at step %g, which recorded less: with "
        "the keys of before (record.every, ...) rerun keeps it",
        x->name, x->step[i], c->resumed);
    if (k == y->rows || y->step[k] != x->step[i])
      return error_set(c->error, STATUS_FAIL,
                       "%s: the row of step %g was recorded the first time, and not now", x->name,
                       x->step[i]);
    if (memcmp(x->value + i * x->width, y->value + k * y->width, bytes))
      return error_set(c->error, STATUS_FAIL, "%s differs at step %g: %.9g the first time, now %.9g", x->name,
                       x->step[i], x->value[i * x->width], y->value[k * y->width]);
  }
  for (long i = 0, k = 0; c->same_rows && k < y->rows && y->step[k] < c->whole; k++) {
    while (i < x->rows && x->step[i] < y->step[k]) i++;
    if (y->step[k] >= c->resumed && (i == x->rows || x->step[i] != y->step[k]))
      return error_set(c->error, STATUS_FAIL, "%s: the row of step %g is missing from the first", x->name,
                       y->step[k]);
  }
  if (x->rows && x->step[x->rows - 1] > (double)c->done)
    return error_set(c->error, STATUS_FAIL, "%s has a row of step %g, and the run ended after %ld steps",
                     x->name, x->step[x->rows - 1], c->done);
  return STATUS_OK;
}

static int compare_series(void *context, const char *name)
{
  struct comparing *c = context;
  struct run_series x, y;
  int status = run_read_all(c->first, name, &x, c->error);
  if (status) return status;
  if (x.rows && !run_rows(c->again, name))
    status = error_set(c->error, STATUS_FAIL, "%s was recorded the first time, and not now", name);
  else if (x.rows) {
    status = run_read_all(c->again, name, &y, c->error);
    if (!status) {
      status = same_rows(c, &x, &y);
      run_series_free(&y);
    }
    c->series++;
  }
  run_series_free(&x);
  return status;
}

/* The next event that depends only on the numbers, not on the clock. */
static const struct run_event *next_event(const struct run_event *x, const struct run_event *end, long steps)
{
  while (x < end && (x->step >= steps ||
                     (strcmp(x->kind, "clip") && strcmp(x->kind, "spike") && strcmp(x->kind, "nonfinite"))))
    x++;
  return x;
}

static int compare_events(const struct comparing *c)
{
  struct run_event *x = NULL, *y = NULL;
  long n = 0, m = 0;
  int status = run_events(c->first, &x, &n, c->error);
  if (!status) status = run_events(c->again, &y, &m, c->error);
  if (!status) {
    const struct run_event *a = next_event(x, x + n, c->end), *b = next_event(y, y + m, c->end);
    while (a < x + n && b < y + m && !memcmp(a, b, sizeof *a))
      a = next_event(a + 1, x + n, c->end), b = next_event(b + 1, y + m, c->end);
    if (a < x + n || b < y + m)
      status =
        error_set(c->error, STATUS_FAIL, "the events differ from step %ld on", a < x + n ? a->step : b->step);
    for (long i = 0; i < n && !status; i++)
      if (x[i].step > c->done)
        status = error_set(c->error, STATUS_FAIL,
                           "an event is of step %ld, and the run ended after %ld steps", x[i].step, c->done);
  }
  memory_free(x);
  memory_free(y);
  return status;
}

static int is_recorded_otherwise(void *again, const char *key, const char *value)
{
  const char *now = run_parameter(again, key);
  return !strncmp(key, "record.", 7) && strcmp(key, "record.path") && strcmp(key, "record.overwrite") &&
         now && strcmp(now, value);
}

long rerun_resumed(const struct run_file *r)
{
  struct run_event *x = NULL;
  long n = 0, last = 0;
  if (run_events(r, &x, &n, NULL)) n = 0;
  for (long i = 0; i < n; i++)
    if (!strcmp(x[i].kind, "resume") && x[i].step > last) last = x[i].step;
  memory_free(x);
  return last;
}

/* Names of places, such as tensors, and facts that follow from the settings. */
static int compare_facts(const struct run_file *first, const struct run_file *again, struct error *e)
{
  static const char *const axes[] = {"tensor", "head", "layer", "expert"};
  const double floor[] = {run_loss_floor(first), run_loss_floor(again)};
  int is_same = 1;
  for (size_t i = 0; i < sizeof axes / sizeof *axes && is_same; i++) {
    long count[2];
    size_t room[2];
    char *names[] = {run_axis_names(first, axes[i], &count[0], &room[0]),
                     run_axis_names(again, axes[i], &count[1], &room[1])};
    is_same = !names[0] || (names[1] && count[0] == count[1]);
    for (long k = 0; is_same && names[0] && k < count[0]; k++)
      is_same = !strcmp(names[0] + (size_t)k * room[0], names[1] + (size_t)k * room[1]);
    memory_free(names[0]);
    memory_free(names[1]);
    if (!is_same) error_set(e, STATUS_FAIL, "the names of each %s differ", axes[i]);
  }
  if (is_same && memcmp(&floor[0], &floor[1], sizeof *floor))
    error_set(e, STATUS_FAIL, "the loss floor was %.9g the first time, now %.9g", floor[0], floor[1]);
  return e->status;
}

/* A run may have been stopped or killed the first time, but one that has ended ends likewise. */
static int compare_ends(const struct run_file *first, const struct run_file *again, struct error *e)
{
  const char *was = run_state(first), *is = run_state(again);
  const int has_ended = !strcmp(was, "finished") || !strcmp(was, "diverged");
  if (!has_ended || run_last_step(first) != run_last_step(again) || !strcmp(was, is)) return STATUS_OK;
  return error_set(e, STATUS_FAIL, "the first time it %s, now it %s", was, is);
}

int rerun_compare(const char *first, const char *again, int *series, struct error *e)
{
  struct comparing c = {.error = e};
  int status = run_open(&c.first, first, e);
  if (!status) status = run_open(&c.again, again, e);
  if (!status) {
    long done = run_last_step(c.first), now = run_last_step(c.again);
    long last = done < now ? done : now;
    c.last = (double)last;
    c.done = done;
    c.same_rows = !run_parameters(c.first, is_recorded_otherwise, c.again);
    c.resumed = (double)rerun_resumed(c.first);
    c.whole = (double)last + (done == now && !strcmp(run_state(c.first), "finished"));
    c.end = last + !strcmp(run_state(done <= now ? c.first : c.again), "diverged");
    if (!strcmp(run_state(c.first), "finished") && now < done)
      status = error_set(e, STATUS_FAIL, "the first time %ld steps were done, now %ld", done, now);
  }
  if (!status) status = run_series_names(c.first, compare_series, &c);
  if (!status) status = compare_ends(c.first, c.again, e);
  if (!status) status = compare_facts(c.first, c.again, e);
  if (!status) status = compare_events(&c);
  *series = c.series;
  if (c.first) run_close(c.first);
  if (c.again) run_close(c.again);
  return status ? error_prefix(e, "%s: not the same again", first) : status;
}
