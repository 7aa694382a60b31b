/* points.c - the points of a sweep: the configuration of each, and existing run files */
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/text.h"
#include "model/model.h"
#include "numerics/run_arena.h"
#include "run/extend.h"
#include "run/farm.h"
#include "run/plan.h"
#include "run/sweep_parts.h"
#include "storage/run_file.h"

enum { MOST_POINTS = 100000 };

const char *sweep_fate_name(enum sweep_fate fate)
{
  static const char *const names[] = {"waiting", "running",   "finished", "diverged",
                                      "stopped", "elsewhere", "failed"};
  return names[fate];
}

struct config *sweep_config_of(const struct sweep_point *p, const char *path, struct error *e)
{
  struct config *c = config_point(p->config, p->index);
  int status = config_finish(c, e);
  if (!status && ((const struct device_options *)config_section(c, "device"))->threads == 0)
    status = config_set(c, "device.threads", "1", "sweep", e);
  if (!status && *((const struct record_options *)config_section(c, "record"))->path)
    status = error_set(e, STATUS_USAGE, "record.path: a sweep names its runs itself, in sweep.dir");
  if (!status && path) status = config_set(c, "record.path", path, "sweep", e);
  if (!status) status = config_finish(c, e);
  if (!status) return c;
  config_free(c);
  return NULL;
}

struct lacking {
  const struct run_file *run;
  char *out;
  size_t room;
};

/* Does a run recorded with `has` lack rows or series that `wanted` requires? Interval 0 means off. An interval's rows
   include those of every multiple. */
static int is_lacking(const struct option_row *row, const char *wanted, const char *has)
{
  if (!strcmp(wanted, has)) return 0;
  if (strcmp(row->unit, "steps")) return strcmp(wanted, row->standard) != 0;
  long interval = strtol(wanted, NULL, 10), recorded = strtol(has, NULL, 10);
  return interval && (!recorded || interval % recorded);
}

static int add_lacking(void *context, const struct config_entry *x)
{
  struct lacking *l = context;
  int is_arm = !strcmp(x->key, "arm");
  if ((strncmp(x->key, "record.", 7) && !is_arm) || !strcmp(x->row->name, "path") ||
      !strcmp(x->row->name, "overwrite"))
    return 0;
  const char *has = run_parameter(l->run, x->key);
  size_t used = strlen(l->out);
  if (!has || !is_lacking(x->row, x->value, has)) return 0;
  char *value = text_cleaned(x->value, "");
  snprintf(l->out + used, l->room - used, "%s%s=%s (has %s)", used ? " " : "", x->key, value, has);
  memory_free(value);
  return 0;
}

int sweep_is_done(const struct sweep_point *p, enum sweep_fate *fate, const struct config *wanted,
                  char lacks[256])
{
  struct run_file *run = NULL;
  struct error e = {0};
  if (access(p->path, F_OK) || run_open(&run, p->path, &e)) return 0;
  if (strcmp(p->id, run_id(run))) { /* it was to be extended to a longer run */
    run_close(run);
    return 0;
  }
  int finished = !strcmp(run_state(run), "finished"), diverged = !strcmp(run_state(run), "diverged");
  const char *policy = run_parameter(run, "train.on_nonfinite");
  int fails = diverged && policy && !strcmp(policy, "fail");
  if (finished || diverged) *fate = finished ? SWEEP_FINISHED : fails ? SWEEP_FAILED : SWEEP_DIVERGED;
  if (wanted) config_each(wanted, add_lacking, &(struct lacking){run, lacks, 256});
  run_close(run);
  return finished || diverged;
}

struct planning {
  struct sweep *sweep;
  struct plan *plan;
  const char *folder;
  struct shorter *shorter;
  void *seen; /* tsearch: the points by id */
};

static int by_id(const void *a, const void *b)
{
  return strcmp(((const struct sweep_point *)a)->id, ((const struct sweep_point *)b)->id);
}

int sweep_is_begun(const struct sweep_point *p)
{
  struct run_file *run = NULL;
  struct error e = {0};
  if (access(p->path, F_OK) || run_peek(&run, p->path, &e)) return 0;
  int same = !strcmp(run_id(run), p->id);
  run_close(run);
  return same;
}

/* The approximate cost of a run, to find the longest. */
static double work_of(const struct config *c)
{
  const struct train_options *t = config_section(c, "train");
  const struct model_options *m = config_section(c, "model");
  double tokens = (double)t->steps * (double)t->batch * (double)m->context, width = (double)m->width;
  return tokens * width * ((double)model_blocks(m) * (12 * width + (double)m->context) + (double)m->vocab);
}

/* Fill in a point of the product; *is_new is 0 if it is the same run as an earlier point. */
static int plan_point(struct planning *g, struct sweep_point *p, int *is_new, struct error *e)
{
  config_point_label(p->config, p->index, p->label, sizeof p->label);
  text_clean(p->label, sizeof p->label, "");
  struct config *c = sweep_config_of(p, NULL, e);
  int status = c ? plan_check(g->plan, c, p->id, e) : e->status;
  if (status && *p->label) error_prefix(e, "point %ld (%s)", p->index + 1, p->label);
  *is_new = !status && *(struct sweep_point **)tsearch(p, &g->seen, by_id) == p;
  if (*is_new) {
    const struct record_options *record = config_section(c, "record");
    p->structure = config_structure(c);
    p->steps = ((const struct train_options *)config_section(c, "train"))->steps;
    p->work = work_of(c);
    struct buffer path = {0};
    buffer_add(&path, "%s/%s.h5", g->folder, p->id);
    p->path = path.text;
    p->was_done = !record->overwrite && sweep_is_done(p, &p->fate, c, p->lacks);
    if (p->was_done && p->fate == SWEEP_FAILED) snprintf(p->reason, sizeof p->reason, NONFINITE_FAILS);
    p->drops = ((const struct sweep_options *)config_section(c, "sweep"))->drop_checkpoints != 0;
    if (farm_is_open() && record->overwrite)
      status = error_set(e, STATUS_USAGE,
                         "record.overwrite: ranks that share a sweep know by its files what is done; remove "
                         "those instead");
    int groups = farm_group() && farm_group()->ranks > 1; /* which begin every run anew */
    if (!p->was_done && !record->overwrite && !groups && !sweep_is_begun(p))
      shorter_find(g->shorter, c, p->id, p->from, p->anew);
  }
  config_free(c);
  return status;
}

static int plan_points(struct planning *g, const struct config *config, long points, long shard, long shards,
                       struct error *e)
{
  struct sweep *s = g->sweep;
  int status = STATUS_OK, is_new;
  s->points = memory_new((size_t)(points / shards) + 1, sizeof *s->points);
  for (long i = shard - 1; i < points && !status; i += shards) {
    struct sweep_point *p = &s->points[s->count];
    *p = (struct sweep_point){.config = config, .index = i};
    status = plan_point(g, p, &is_new, e);
    if (is_new)
      s->count++;
    else
      s->doubles++;
  }
  for (long i = 0; i < s->count; i++) tdelete(&s->points[i], &g->seen, by_id);
  return status;
}

int sweep_plan(struct sweep *s, const struct config *config, const char *name, long shard, long shards,
               struct error *e)
{
  *s = (struct sweep){0};
  REQUIRE(shard >= 1 && shard <= shards);
  long points = config_points(config);
  if (points > MOST_POINTS)
    return error_set(e, STATUS_USAGE, "the product of the lists has more than %d points", MOST_POINTS);
  struct config *first = config_point(config, 0);
  int status = config_finish(first, e);
  if (!status) status = farm_join(config_section(first, "comm"), e);
  const struct sweep_options *o = config_section(first, "sweep");
  struct buffer folder = {0};
  if (!status) {
    buffer_add(&folder, "%s%s", *o->dir ? o->dir : "runs/", *o->dir ? "" : name);
    const char *device = ((const struct top_options *)config_section(first, ""))->device;
    s->jobs = o->jobs;
    s->one_launch = run_arenas_in_one_call(device);
    s->together = o->together ? o->together : run_arenas_default(device);
    s->threads = ((const struct device_options *)config_section(first, "device"))->threads;
    struct planning planning = {.sweep = s, .plan = plan_new(), .folder = folder.text};
    planning.shorter = shorter_new(folder.text);
    status = plan_points(&planning, config, points, shard, shards, e);
    s->trainers = plan_trainers(planning.plan);
    plan_free(planning.plan);
    shorter_free(planning.shorter);
  }
  memory_free(folder.text);
  config_free(first);
  return status;
}

void sweep_join(struct sweep *s, struct sweep *more)
{
  size_t room = (size_t)(s->count + more->count) + 1;
  void *seen = NULL;
  if (!s->count) s->jobs = more->jobs, s->together = more->together, s->threads = more->threads;
  s->points = memory_grow(s->points, (size_t)s->count, room, sizeof *s->points);
  for (long i = 0; i < s->count; i++) tsearch(&s->points[i], &seen, by_id);
  for (long i = 0; i < more->count; i++) {
    struct sweep_point *p = &s->points[s->count];
    *p = more->points[i];
    if (*(struct sweep_point **)tsearch(p, &seen, by_id) == p) {
      more->points[i].path = NULL; /* moved to `s` */
      s->count++;
    } else
      s->doubles++;
  }
  for (long i = 0; i < s->count; i++) tdelete(&s->points[i], &seen, by_id);
  s->doubles += more->doubles;
  s->trainers += more->trainers;
  sweep_free(more);
}

void sweep_free(struct sweep *s)
{
  for (long i = 0; i < s->count; i++) memory_free(s->points[i].path);
  memory_free(s->points);
  *s = (struct sweep){0};
}
