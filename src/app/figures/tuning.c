/* tuning.c - how good each value of a tuned key is, by arm, with the best and its neighbours */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/gnuplot.h"
#include "analysis/table.h"
#include "app/figure.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/config.h"
#include "ledger/tuning.h"

enum { KIND_ROOM = 64 };
enum { ROOM = 3 }; /* points on either side of the best that set the axis */

struct tuning_figure {
  const struct tuning *tuning;
  double *best_x, *best_y; /* [keys, arms] */
  double *cross_x, *cross_g, *cross_k;
  int crosses;
  struct extent x[TUNING_KEYS];
  struct spread y;
};

/* Those that differ from the best in this key alone. */
static int is_drawn(const struct tuning_arm *a, const struct tuning_point *p, int keys, int key)
{
  for (int k = 0; k < keys; k++)
    if (k != key && p->at[k] != a->point[a->best < 0 ? 0 : a->best].at[k]) return 0;
  return 1;
}

static int is_beside(const struct tuning_arm *a, const struct tuning_point *p, int key)
{
  return p == tuning_beside(a, key, -1) || p == tuning_beside(a, key, 1);
}

/* x score, is it beside the best; a line without a score is a gap. */
static void put_curve(FILE *f, struct tuning_figure *d, int key, int g)
{
  const struct tuning *t = d->tuning;
  const struct tuning_arm *a = &t->arm[g];
  char number[2][32];
  for (int p = 0; p < a->points; p++) {
    const struct tuning_point *x = &a->point[p];
    if (!is_drawn(a, x, t->keys, key)) continue;
    extent_see(&d->x[key], x->value[key]);
    if (isfinite(x->score)) /* far away a curve may lie anywhere */
      spread_see(&d->y, a->best < 0 || abs(x->at[key] - a->point[a->best].at[key]) <= ROOM, 0, x->score, NAN,
                 NAN);
    else
      d->cross_x[d->crosses] = x->value[key], d->cross_k[d->crosses] = key + 1,
      d->cross_g[d->crosses++] = g + 1;
    fprintf(f, "%s %s %d\n", table_number(x->value[key], number[0]), gnuplot_value(x->score, number[1]),
            is_beside(a, x, key));
  }
  fputs("\n\n", f);
}

static void put_runs(FILE *f, struct tuning_figure *d, int key, int g)
{
  const struct tuning *t = d->tuning;
  const struct tuning_arm *a = &t->arm[g];
  char number[2][32];
  fprintf(f, "# x value\n%s NaN\n", table_number(a->start[key], number[0]));
  for (int p = 0; p < a->points; p++)
    for (long s = 0; s < t->seeds && is_drawn(a, &a->point[p], t->keys, key); s++) {
      const struct tuning_run *run = &a->point[p].run[s];
      int shown = run->fate == SWEEP_FINISHED && run->value.has && !run->value.censored;
      if (shown) spread_see(&d->y, 0, 0, run->value.value, NAN, NAN);
      if (shown)
        fprintf(f, "%s %s\n", table_number(a->point[p].value[key], number[0]),
                gnuplot_value(run->value.value, number[1]));
    }
  fputs("\n\n", f);
}

static void put_best(struct tuning_figure *d)
{
  const struct tuning *t = d->tuning;
  for (int k = 0; k < t->keys; k++)
    for (int g = 0; g < t->arms; g++) {
      const struct tuning_arm *a = &t->arm[g];
      d->best_x[k * t->arms + g] = a->best < 0 ? NAN : a->point[a->best].value[k];
      d->best_y[k * t->arms + g] = a->best < 0 ? NAN : a->point[a->best].score;
    }
}

static int find_kind(void *kind, const struct config_entry *x)
{
  const int is_preset = !strcmp(x->key, "preset");
  if (*x->value && (is_preset || (!strcmp(x->key, "optimizer") && !*(char *)kind)))
    snprintf(kind, KIND_ROOM, "%s", x->value);
  return 0;
}

static void put_groups(FILE *f, const struct tuning *t)
{
  struct gnuplot_group *group = memory_new((size_t)t->arms + 1, sizeof *group);
  char kind[KIND_ROOM] = ""; /* of a sole arm, which has no name of its own */
  if (t->arms == 1 && !strcmp(t->arm->name, TUNING_UNNAMED)) {
    struct config *c = config_point(t->arm->config, 0);
    if (!config_finish(c, NULL)) config_each(c, find_kind, kind);
    config_free(c);
  }
  for (int g = 0; g < t->arms; g++)
    group[g] =
      (struct gnuplot_group){*kind ? kind : t->arm[g].name, "",
                             t->arm[g].end == TUNING_BRACKETED ? "" : " (no bracket)", (double)t->seeds, 1};
  gnuplot_groups(f, group, t->arms);
  memory_free(group);
}

static int tuning_data(FILE *f, const struct figure_request *r, struct error *error)
{
  const struct tuning *t = r->tuning;
  int all = t->keys * t->arms, points = 0;
  char title[256];
  struct buffer heading = {0};
  for (int g = 0; g < t->arms; g++) points += t->arm[g].points;
  if (t->arms > FIGURE_GROUPS)
    return error_set(error, STATUS_USAGE, "%d arms; a figure takes %d", t->arms, FIGURE_GROUPS);
  double *room = memory_new(2 * (size_t)all + 6 * (size_t)points + 1, sizeof *room);
  struct tuning_figure d = {.tuning = t, .best_x = room, .best_y = room + all, .cross_x = room + 2 * all};
  d.cross_g = d.cross_x + 2 * points, d.cross_k = d.cross_g + 2 * points;
  for (int k = 0; k < TUNING_KEYS; k++) d.x[k] = (struct extent){NAN, NAN, 0};
  d.y = SPREAD_EMPTY;
  put_groups(f, t);
  fprintf(f, "$curves << EOD\n");
  for (int i = 0; i < all; i++) put_curve(f, &d, i / t->arms, i % t->arms);
  fprintf(f, "EOD\n$runs << EOD\n");
  for (int i = 0; i < all; i++) put_runs(f, &d, i / t->arms, i % t->arms);
  fprintf(f, "EOD\n");
  put_best(&d);
  gnuplot_number(f, "keys", t->keys);
  gnuplot_texts(f, "key_name", t->key, t->keys);
  metric_title(&t->metric, title, sizeof title);
  gnuplot_axis(f, "y_name", title, t->metric.unit);
  buffer_add(&heading, "%s against %s%s%s", title, t->key[0], t->keys > 1 ? " and " : "",
             t->keys > 1 ? t->key[1] : "");
  figure_put_title(f, heading.text);
  memory_free(heading.text);
  gnuplot_number(f, "maximise", t->maximise);
  gnuplot_number(f, "seeds_each", (double)t->seeds);
  for (int k = 0; k < t->keys; k++) {
    fprintf(f, k ? "x2_low = %.17g; x2_high = %.17g\n" : "x1_low = %.17g; x1_high = %.17g\n", d.x[k].low,
            d.x[k].high);
  }
  struct extent axis = spread_axis(&d.y, 0);
  spread_put(f, &d.y, &axis);
  gnuplot_numbers(f, "best_x", d.best_x, all);
  gnuplot_numbers(f, "best_y", d.best_y, all);
  fprintf(f, "crosses = %d\n", d.crosses);
  if (d.crosses) gnuplot_numbers(f, "cross_x", d.cross_x, d.crosses);
  if (d.crosses) gnuplot_numbers(f, "cross_g", d.cross_g, d.crosses);
  if (d.crosses) gnuplot_numbers(f, "cross_k", d.cross_k, d.crosses);
  int empty = isnan(axis.low);
  memory_free(room);
  return empty ? error_set(error, STATUS_USAGE, "no point has a score") : STATUS_OK;
}

const struct figure figure_tuning = {
  .name = "tuning",
  .help = "a metric over a key that is tuned, with the best and its neighbors",
  .data = tuning_data,
  .asked = "maxlogit tune",
};
