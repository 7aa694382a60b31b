#include "ledger/tuning.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "ledger/run_batch.h"
#include "storage/run_file.h"

enum { ROUND_STEPS = 2, RESAMPLES = 2000 };

/* --- values of a key ------------------------------------------------------------------------------------ */

struct key_state { /* state of a key in a configuration */
  const char *name;
  const struct option_row *row;
  char text[64];
  int used;
};

static int see_key(void *context, const struct config_entry *x)
{
  struct key_state *k = context;
  if (strcmp(x->key, k->name) != 0) return 0;
  k->row = x->row;
  k->used = x->used;
  snprintf(k->text, sizeof k->text, "%s", x->value);
  return 1;
}

static int find_key(const struct config *c, const char *name, struct key_state *k)
{
  *k = (struct key_state){.name = name};
  return config_each(c, see_key, k);
}

static int is_numeric(const struct option_row *row)
{
  return row->type == OPTION_REAL || row->type == OPTION_INT;
}

/* The value `at` factors from the start, clipped to the key's range, rounded to the digits of its text. */
static double value_at(const struct tuning *t, const struct tuning_arm *a, int key, int at, char text[32])
{
  struct key_state x;
  double value = a->start[key] * pow(TUNING_FACTOR, at);
  REQUIRE(find_key(a->config, t->key[key], &x));
  if (x.row->type == OPTION_INT)
    snprintf(text, 32, "%.0f", value);
  else
    snprintf(text, 32, "%.4g", value);
  value = strtod(text, NULL);
  if (value < x.row->min || value > x.row->max) {
    value = value < x.row->min ? x.row->min : x.row->max;
    text_number(value, text);
  }
  return value;
}

/* Is there no further value in this direction? */
static int is_limit(const struct tuning *t, const struct tuning_arm *a, int key, int at, int step)
{
  char text[2][32];
  double here = value_at(t, a, key, at, text[0]), beyond = value_at(t, a, key, at + step, text[1]);
  return beyond == here || !(beyond > 0);
}

static int start_key(struct tuning *t, struct tuning_arm *a, int key, const struct config *finished,
                     struct error *error)
{
  struct key_state x;
  const char *name = t->key[key];
  if (!find_key(finished, name, &x)) {
    const char *near = config_near_key(finished, name);
    return error_set(error, STATUS_USAGE, "%s: unknown key%s%s%s", name, near ? "; did you mean '" : "",
                     near ? near : "", near ? "'?" : "");
  }
  if (!is_numeric(x.row))
    return error_set(error, STATUS_USAGE, "%s is not a number: its values cannot be a grid", name);
  a->start[key] = strtod(x.text, NULL);
  if (!x.used)
    return error_set(error, STATUS_USAGE, "arm %s does not use %s: there is nothing to tune", a->name, name);
  if (!(a->start[key] > 0))
    return error_set(error, STATUS_USAGE,
                     "arm %s: %s is %s, and a grid of factors has to start above zero; give %s=VALUE",
                     a->name, name, x.text, name);
  return STATUS_OK;
}

int tuning_add(struct tuning *t, const char *name, const struct config *config, struct error *error)
{
  t->arm = memory_grow(t->arm, (size_t)t->arms, (size_t)t->arms + 1, sizeof *t->arm);
  struct tuning_arm *a = &t->arm[t->arms++];
  *a = (struct tuning_arm){.config = config_point(config, 0), .best = -1};
  snprintf(a->name, sizeof a->name, "%s", name);
  struct config *finished = config_point(config, 0);
  int status = config_finish(finished, error);
  for (int k = 0; k < t->keys && !status; k++) {
    status = start_key(t, a, k, finished, error);
    if (status) break;
    for (int step = -1; step <= 1; step += 2)
      for (int i = 0; i < TUNING_START / 2; i++) {
        int *end = step < 0 ? &a->low[k] : &a->high[k];
        if (!is_limit(t, a, k, *end, step)) *end += step;
      }
  }
  config_free(finished);
  return status;
}

void tuning_free(struct tuning *t)
{
  for (int i = 0; i < t->arms; i++) {
    struct tuning_arm *a = &t->arm[i];
    for (int p = 0; p < a->points; p++) {
      for (long s = 0; s < t->seeds; s++) memory_free(a->point[p].run[s].path);
      memory_free(a->point[p].run);
    }
    memory_free(a->point);
    config_free(a->config);
  }
  memory_free(t->arm);
  memory_free(t->folder);
  t->arm = NULL, t->folder = NULL, t->arms = 0;
}

/* --- a round of runs ------------------------------------------------------------------------------------ */

static int plan_point(struct tuning *t, const struct tuning_arm *a, struct tuning_point *p,
                      struct run_batch *r, struct error *error)
{
  struct sweep s = {0};
  char seeds[64];
  struct config *c = config_point(a->config, 0);
  run_batch_own(r, c);
  int status = STATUS_OK;
  for (int k = 0; k < t->keys && !status; k++) status = config_set(c, t->key[k], p->text[k], "tuning", error);
  snprintf(seeds, sizeof seeds, "train.seed=%d:%ld:lin:%ld", TUNING_SEED, TUNING_SEED + t->seeds - 1,
           t->seeds);
  if (t->seeds == 1) snprintf(seeds, sizeof seeds, "train.seed=%d", TUNING_SEED);
  if (!status) status = config_assign(c, seeds, error);
  if (!status) status = sweep_plan(&s, c, t->name, 1, 1, error);
  if (status) return error_prefix(error, "arm %s", a->name);
  for (long i = 0; i < s.count; i++) {
    memory_free(p->run[i].path);
    p->run[i] = (struct tuning_run){.seed = TUNING_SEED + i, .path = memory_text(s.points[i].path)};
    snprintf(p->run[i].id, sizeof p->run[i].id, "%s", s.points[i].id);
  }
  run_batch_join(r, &s, &t->folder);
  return STATUS_OK;
}

static int find_point(const struct tuning *t, const struct tuning_arm *a, const int *at)
{
  for (int p = 0; p < a->points; p++)
    if (!memcmp(a->point[p].at, at, (size_t)t->keys * sizeof *at)) return p;
  return -1;
}

static void add_point(const struct tuning *t, struct tuning_arm *a, const int *at)
{
  a->point = memory_grow(a->point, (size_t)a->points, (size_t)a->points + 1, sizeof *a->point);
  struct tuning_point *p = &a->point[a->points++];
  *p = (struct tuning_point){.score = NAN, .run = memory_new((size_t)t->seeds, sizeof *p->run)};
  for (int k = 0; k < t->keys; k++) {
    p->at[k] = at[k];
    p->value[k] = value_at(t, a, k, at[k], p->text[k]);
  }
}

/* Add all points of the grid that do not exist yet. */
static void fill_grid(const struct tuning *t, struct tuning_arm *a)
{
  for (int i = a->low[0]; i <= a->high[0]; i++)
    for (int k = a->low[1]; k <= a->high[1]; k++) {
      int at[TUNING_KEYS] = {i, k};
      if (find_point(t, a, at) < 0) add_point(t, a, at);
    }
}

static void hear_fates(struct tuning_point *p, long seeds, const struct sweep *s)
{
  for (long i = 0; i < seeds; i++)
    for (long k = 0; k < s->count; k++)
      if (!strcmp(s->points[k].id, p->run[i].id)) p->run[i].fate = s->points[k].fate;
}

static int plan_round(void *context, struct run_batch *r, int again, struct error *error)
{
  struct tuning *t = context;
  int status = STATUS_OK;
  *r = (struct run_batch){0};
  for (int i = 0; i < t->arms && !status; i++) {
    struct tuning_arm *a = &t->arm[i];
    if (a->end != TUNING_OPEN) continue;
    for (int p = 0; p < a->points && !status; p++)
      if (isnan(a->point[p].score)) status = plan_point(t, a, &a->point[p], r, error);
  }
  if (t->jobs) r->sweep.jobs = t->jobs;
  r->sweep.look = t->look, r->sweep.say = t->say, r->sweep.context = t->context;
  if (!status && t->begin && !again) t->begin(t->context, &r->sweep);
  return status;
}

/* --- scores --------------------------------------------------------------------------------------------- */

static int is_better(const struct tuning *t, double a, double b) { return t->maximise ? a > b : a < b; }
static double worst(const struct tuning *t) { return t->maximise ? -INFINITY : INFINITY; }

/* A time that was not reached counts as infinite. */
double tuning_worth(const struct tuning *t, const struct tuning_run *run)
{
  const struct measured *v = &run->value;
  if (run->fate != SWEEP_FINISHED || !v->has || isnan(v->value)) return worst(t);
  return v->censored ? INFINITY : v->value;
}

static double score_of(const struct tuning *t, const struct tuning_point *p, const struct draw *draw)
{
  double sum = 0;
  for (long i = 0; i < t->seeds; i++) {
    uint64_t s = draw ? draw_below(*draw, (uint64_t)i, (uint64_t)t->seeds) : (uint64_t)i;
    double one = tuning_worth(t, &p->run[s]);
    if (one == worst(t)) return one; /* a point with any lost run gets the worst score */
    sum += one;
  }
  return sum / (double)t->seeds;
}

static int read_point(struct tuning *t, struct tuning_point *p, struct error *error)
{
  int status = STATUS_OK;
  for (long i = 0; i < t->seeds && !status; i++) {
    struct tuning_run *run = &p->run[i];
    struct run opened = {.path = run->path};
    p->diverged += run->fate == SWEEP_DIVERGED;
    if (run->fate != SWEEP_FINISHED) continue;
    status = run_open(&opened.file, run->path, error);
    if (!status) status = metric_of(&t->metric, &opened, &run->value, error);
    if (!status) p->blown_up += run_blew_up(opened.file);
    if (opened.file) run_close(opened.file);
    p->missing += !run->value.has || isnan(run->value.value);
  }
  p->score = score_of(t, p, NULL);
  return status;
}

/* The smallest distance of a point from the ends of the grid. */
static int depth(const struct tuning *t, const struct tuning_arm *a, const struct tuning_point *p)
{
  int least = TUNING_MOST;
  for (int k = 0; k < t->keys; k++) {
    int to_low = p->at[k] - a->low[k], to_high = a->high[k] - p->at[k],
        near = to_low < to_high ? to_low : to_high;
    least = near < least ? near : least;
  }
  return least;
}

/* The best point; ties go to the point deepest in the grid, then to the smallest value. -1: none has a score. */
static int find_best(const struct tuning *t, const struct tuning_arm *a, const struct draw *draw)
{
  int best = -1;
  double of_best = worst(t);
  for (int p = 0; p < a->points; p++) {
    const struct tuning_point *x = &a->point[p], *b = best < 0 ? NULL : &a->point[best];
    double score = draw ? score_of(t, x, draw) : x->score;
    if (score == worst(t)) continue;
    int deeper = b ? depth(t, a, x) - depth(t, a, b) : 1;
    if (is_better(t, score, of_best) ||
        (score == of_best && (deeper > 0 || (!deeper && x->value[0] < b->value[0]))))
      best = p, of_best = score;
  }
  return best;
}

static int is_flat(const struct tuning_arm *a)
{
  for (int p = 1; p < a->points; p++)
    if (a->point[p].score != a->point->score) return 0;
  return a->points > 1;
}

/* --- growing -------------------------------------------------------------------------------------------- */

/* Extend the grid at one end; returns the number of added values, 0 at a limit. */
static int extend(const struct tuning *t, struct tuning_arm *a, int key, int step)
{
  int *end = step < 0 ? &a->low[key] : &a->high[key], grown = 0;
  for (int i = 0; i < ROUND_STEPS && !is_limit(t, a, key, *end, step); i++) {
    if (a->high[key] - a->low[key] + 1 >= TUNING_MOST) break;
    *end += step;
    grown++;
  }
  return grown;
}

/* Without any score try smaller values: runs diverge at large ones. */
static void grow_blindly(const struct tuning *t, struct tuning_arm *a)
{
  int grown = 0;
  for (int k = 0; k < t->keys; k++) grown += extend(t, a, k, -1);
  if (!grown) a->end = TUNING_NOTHING;
}

static void grow(const struct tuning *t, struct tuning_arm *a)
{
  int grown = 0, at_limit = 0, at_end = 0;
  a->best = find_best(t, a, NULL);
  if (a->best < 0) {
    grow_blindly(t, a);
    return;
  }
  if (is_flat(a)) {
    a->end = TUNING_FLAT;
    return;
  }
  for (int k = 0; k < t->keys; k++)
    for (int step = -1; step <= 1; step += 2) {
      int at = a->point[a->best].at[k];
      if (at != (step < 0 ? a->low[k] : a->high[k])) continue;
      at_end++;
      if (is_limit(t, a, k, at, step))
        at_limit++;
      else
        grown += extend(t, a, k, step);
    }
  if (!grown) a->end = !at_end ? TUNING_BRACKETED : at_end == at_limit ? TUNING_AT_LIMIT : TUNING_TOO_FAR;
}

static int compare_points(const void *x, const void *y)
{
  const struct tuning_point *a = x, *b = y;
  for (int k = 0; k < TUNING_KEYS; k++)
    if (a->at[k] != b->at[k]) return a->at[k] < b->at[k] ? -1 : 1;
  return 0;
}

/* Quantify the choice: compare with each point seed by seed, and resample the seeds. */
static void conclude(struct tuning *t, struct tuning_arm *a)
{
  qsort(a->point, (size_t)a->points, sizeof *a->point, compare_points);
  a->best = find_best(t, a, NULL);
  if (a->best < 0) return;
  const struct tuning_point *best = &a->point[a->best];
  for (int p = 0; p < a->points; p++) {
    struct tuning_point *x = &a->point[p];
    x->behind = t->maximise ? best->score - x->score : x->score - best->score;
    for (long s = 0; s < t->seeds; s++)
      x->worse += is_better(t, tuning_worth(t, &best->run[s]), tuning_worth(t, &x->run[s]));
  }
  for (uint64_t i = 0; i < RESAMPLES; i++) {
    struct draw draw = {1, STREAM_BOOTSTRAP, i};
    int found = find_best(t, a, &draw);
    if (found >= 0) a->point[found].chosen += 1.0 / RESAMPLES;
  }
}

static int read_round(struct tuning *t, const struct sweep *s, int *open, struct error *error)
{
  int status = STATUS_OK, some = 0;
  *open = 0;
  for (int i = 0; i < t->arms && !status; i++) {
    struct tuning_arm *a = &t->arm[i];
    if (a->end != TUNING_OPEN) continue;
    for (int p = 0; p < a->points && !status; p++) {
      if (!isnan(a->point[p].score)) continue;
      hear_fates(&a->point[p], t->seeds, s);
      status = read_point(t, &a->point[p], error);
    }
    for (int p = 0; p < a->points; p++)
      for (long k = 0; k < t->seeds; k++) some |= a->point[p].run[k].value.has || a->point[p].diverged;
    if (status) break;
    grow(t, a);
    *open |= a->end == TUNING_OPEN;
  }
  if (!status && t->arms && !some && s->count)
    status = error_set(error, STATUS_USAGE, "metric %s: no run has a value", t->metric.name);
  return status;
}

int tuning_run(struct tuning *t, struct error *error)
{
  int open = 1, status = metric_read(&t->metric, t->of ? t->of : TUNING_METRIC, error);
  while (open && !status) {
    struct run_batch r;
    for (int i = 0; i < t->arms; i++)
      if (t->arm[i].end == TUNING_OPEN) fill_grid(t, &t->arm[i]);
    status = run_batch_run(&r, plan_round, t, error);
    if (!status) status = read_round(t, &r.sweep, &open, error);
    run_batch_free(&r);
  }
  for (int i = 0; i < t->arms && !status; i++) conclude(t, &t->arm[i]);
  return status;
}

const struct tuning_point *tuning_beside(const struct tuning_arm *a, int key, int step)
{
  if (a->best < 0) return NULL;
  int at[TUNING_KEYS];
  memcpy(at, a->point[a->best].at, sizeof at);
  at[key] += step;
  for (int p = 0; p < a->points; p++)
    if (!memcmp(a->point[p].at, at, sizeof at)) return &a->point[p];
  return NULL;
}

/* Are the values beside the best a factor away? A value at a limit of the key is nearer, and small whole numbers are
   rounded. */
static int is_regular(const struct tuning_arm *a)
{
  for (int step = -1; step <= 1; step += 2) {
    const double ratio = tuning_beside(a, 0, step)->value[0] / a->point[a->best].value[0];
    if (fabs(ratio / pow(TUNING_FACTOR, step) - 1) > 0.01) return 0;
  }
  return 1;
}

struct interval tuning_optimum(const struct tuning *t, const struct tuning_arm *a)
{
  struct interval none = {0, NAN, NAN, NAN};
  if (t->keys > 1 || t->seeds < 3 || a->end != TUNING_BRACKETED || !is_regular(a)) return none;
  double *loss = memory_new((size_t)(OPTIMUM_RATES * t->seeds) + 1 + OPTIMUM_RESAMPLES, sizeof *loss),
         *at = loss + OPTIMUM_RATES * t->seeds;
  for (int k = 0; k < OPTIMUM_RATES; k++)
    for (long s = 0; s < t->seeds; s++)
      loss[k * t->seeds + s] = (t->maximise ? -1 : 1) * tuning_worth(t, &tuning_beside(a, 0, k - 1)->run[s]);
  struct interval optimum = optimum_resample(loss, (int)t->seeds, at)
                              ? optimum_rate(at, (int)t->seeds, a->point[a->best].value[0], TUNING_FACTOR)
                              : none;
  memory_free(loss);
  return optimum;
}

const char *tuning_end_text(enum tuning_end end)
{
  static const char *const texts[] = {[TUNING_OPEN] = "open",
                                      [TUNING_BRACKETED] = "bracketed",
                                      [TUNING_AT_LIMIT] = "at the limit of what the key may be",
                                      [TUNING_FLAT] = "flat: every value is equally good",
                                      [TUNING_TOO_FAR] =
                                        "not bracketed: the best is at an end of many values",
                                      [TUNING_NOTHING] = "without a score at every value of the key"};
  return texts[end];
}
