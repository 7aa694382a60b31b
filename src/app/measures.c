#include "app/measures.h"

#include <math.h>
#include <string.h>

#include "analysis/json.h"
#include "base/memory.h"
#include "base/text.h"

struct table_of {
  const struct runset *set;
  struct metric *metric;
  struct measured *value; /* [runs, metrics] */
  int metrics;
  enum measures_mean mean;
};

static const struct measured *values_of(const struct table_of *t, const struct run *run)
{
  return t->value + (run - t->set->run) * t->metrics;
}

/* --- groups -------------------------------------------------------------------------------------------- */

struct measure measure_group(const struct run_group *group, const struct metric *metric,
                             const struct measured *values, int stride, enum measures_mean mean)
{
  struct measure out = {.is_time = metric->reduction == TAKE_ABOVE};
  double *x = memory_new((size_t)group->count + 1, sizeof *x);
  int *censored = memory_new((size_t)group->count + 1, sizeof *censored);
  for (int i = 0; i < group->count; i++) {
    const struct measured *v = &values[(long)i * stride];
    if (!metric_counts(metric, &group->run[i], v)) continue;
    censored[out.n] = v->censored;
    x[out.n++] = v->value;
  }
  if (out.is_time) {
    struct survival s = survival_of(x, censored, out.n);
    out.middle = out.n ? s.median : NAN, out.lo = s.lo, out.hi = s.hi, out.events = s.events;
  } else if (mean == MEAN_MEDIAN) {
    struct median m = median_of(x, out.n);
    out.middle = m.middle, out.lo = m.low, out.hi = m.high;
  } else {
    struct interval i = interval_of(x, out.n, mean == MEAN_GEOMETRIC);
    out.middle = i.mean, out.lo = i.lo, out.hi = i.hi;
  }
  memory_free(x);
  memory_free(censored);
  return out;
}

static struct measure measure_of(const struct table_of *t, const struct run_group *group, int k)
{
  return measure_group(group, &t->metric[k], values_of(t, group->run) + k, t->metrics, t->mean);
}

static int diverged_in(const struct run_group *group)
{
  int n = 0;
  for (int i = 0; i < group->count; i++) n += run_is_diverged(&group->run[i]);
  return n;
}

static const char *about_mean(enum measures_mean mean)
{
  static const char *const texts[] = {
    [MEAN_ARITHMETIC] = "Mean and 95 % interval (Student's t)",
    [MEAN_GEOMETRIC] = "Geometric mean and 95 % interval (Student's t on logarithms)",
    [MEAN_MEDIAN] = "Median and 95 % interval (order statistics)",
  };
  return texts[mean];
}

/* --- text ---------------------------------------------------------------------------------------------- */

static void number(double value, char out[32])
{
  if (isfinite(value))
    snprintf(out, 32, "%.5g", value);
  else if (isnan(value))
    snprintf(out, 32, "NaN");
  else
    snprintf(out, 32, value > 0 ? "Inf" : "-Inf");
}

static void measured_text(const struct measured *v, char out[48])
{
  char text[32];
  number(v->value, text);
  snprintf(out, 48, "%s%s", !v->has ? "-" : v->censored ? ">" : "", v->has ? text : "");
}

static void measure_text(const struct measure *m, char out[120])
{
  char middle[32], lo[32], hi[32];
  number(m->middle, middle), number(m->lo, lo), number(m->hi, hi);
  if (m->n == 0)
    snprintf(out, 120, "-");
  else if (m->is_time)
    snprintf(out, 120, "%s [%s, %s] n=%d, %d reached", isinf(m->middle) ? "not reached" : middle, lo, hi,
             m->n, m->events);
  else if (isnan(m->lo) && !isnan(m->middle))
    snprintf(out, 120, "%s n=%d", middle, m->n);
  else
    snprintf(out, 120, "%s [%s, %s] n=%d", middle, lo, hi, m->n);
}

struct grid { /* cells of a text table: each column as wide as its widest */
  int rows, columns;
  char (*cell)[256];
};

static char *cell_of(const struct grid *g, int row, int column) { return g->cell[row * g->columns + column]; }

static void print_grid(const struct grid *g)
{
  for (int row = 0; row < g->rows; row++)
    for (int c = 0; c < g->columns; c++) {
      int width = 0;
      for (int r = 0; r < g->rows; r++)
        if ((int)strlen(cell_of(g, r, c)) > width) width = (int)strlen(cell_of(g, r, c));
      int last = c == g->columns - 1;
      printf("%-*s%s", last ? 0 : width, cell_of(g, row, c), last ? "\n" : "  ");
    }
}

static void print_runs(const struct table_of *t)
{
  struct grid g = {t->set->runs + 1, t->metrics + 4, NULL};
  g.cell = memory_new((size_t)g.rows * (size_t)g.columns, sizeof *g.cell);
  for (int row = 0; row < g.rows; row++) {
    const struct run *run = row ? t->set->list[row - 1] : NULL;
    snprintf(cell_of(&g, row, 0), sizeof *g.cell, "%s", run ? run->kind : "kind");
    if (run)
      snprintf(cell_of(&g, row, 1), sizeof *g.cell, "%ld", run->seed);
    else
      snprintf(cell_of(&g, row, 1), sizeof *g.cell, "seed");
    snprintf(cell_of(&g, row, 2), sizeof *g.cell, "%s", run ? run_state(run->file) : "state");
    for (int k = 0; k < t->metrics; k++) {
      char text[48];
      if (run) measured_text(&values_of(t, run)[k], text);
      snprintf(cell_of(&g, row, 3 + k), sizeof *g.cell, "%s", run ? text : t->metric[k].name);
    }
    snprintf(cell_of(&g, row, g.columns - 1), sizeof *g.cell, "%.250s",
             run ? text_file_name(run->path) : "file");
  }
  print_grid(&g);
  memory_free(g.cell);
}

void measures_print_unfinished(int runs)
{
  if (runs)
    printf(" %d run%s not finished: taken as %s.", runs, runs > 1 ? "s have" : " has",
           runs > 1 ? "they stand" : "it stands");
  printf("\n");
}

static void print_groups(const struct table_of *t)
{
  struct grid g = {t->set->groups + 1, t->metrics + 3, NULL};
  int diverged = 0, times = 0, unfinished = 0;
  g.cell = memory_new((size_t)g.rows * (size_t)g.columns, sizeof *g.cell);
  snprintf(cell_of(&g, 0, 0), sizeof *g.cell, "group");
  snprintf(cell_of(&g, 0, 1), sizeof *g.cell, "runs");
  snprintf(cell_of(&g, 0, 2), sizeof *g.cell, "diverged");
  for (int k = 0; k < t->metrics; k++)
    snprintf(cell_of(&g, 0, 3 + k), sizeof *g.cell, "%s", t->metric[k].name);
  for (int i = 0; i < t->set->groups; i++) {
    const struct run_group *group = &t->set->group[i];
    snprintf(cell_of(&g, i + 1, 0), sizeof *g.cell, "%.250s", group->label);
    snprintf(cell_of(&g, i + 1, 1), sizeof *g.cell, "%d", group->count);
    snprintf(cell_of(&g, i + 1, 2), sizeof *g.cell, "%d", diverged_in(group));
    diverged += diverged_in(group);
    unfinished += run_group_unfinished(group);
    for (int k = 0; k < t->metrics; k++) {
      struct measure m = measure_of(t, group, k);
      char text[120];
      measure_text(&m, text);
      snprintf(cell_of(&g, i + 1, 3 + k), sizeof *g.cell, "%s", text);
      times |= m.is_time;
    }
  }
  print_grid(&g);
  printf("%s over n runs.%s%s", about_mean(t->mean),
         times
           ? " Of steps until a level is passed the median (Kaplan and Meier), those that never did counted."
           : "",
         diverged ? " Runs that diverged are counted, and left out of every mean." : "");
  measures_print_unfinished(unfinished);
  memory_free(g.cell);
}

/* --- CSV ----------------------------------------------------------------------------------------------- */

static void csv_text(const char *text)
{
  int quoted = strpbrk(text, ",\"\n") != NULL;
  if (quoted) putchar('"');
  for (; *text; text++) {
    if (*text == '"') putchar('"');
    putchar(*text);
  }
  if (quoted) putchar('"');
}

static void csv_number(int has, double value)
{
  char text[32] = "";
  if (has) table_number(value, text);
  printf(",%s", text);
}

static void csv_runs(const struct table_of *t)
{
  printf("file,id,kind,seed,state");
  for (int k = 0; k < t->metrics; k++) {
    putchar(','), csv_text(t->metric[k].name);
    if (t->metric[k].reduction == TAKE_ABOVE) putchar(','), csv_text(t->metric[k].name), printf(":censored");
  }
  putchar('\n');
  for (int i = 0; i < t->set->runs; i++) {
    const struct run *run = t->set->list[i];
    csv_text(run->path);
    printf(",%s,", run_id(run->file));
    csv_text(run->kind);
    printf(",%ld,%s", run->seed, run_state(run->file));
    for (int k = 0; k < t->metrics; k++) {
      const struct measured *v = &values_of(t, run)[k];
      csv_number(v->has, v->value);
      if (t->metric[k].reduction == TAKE_ABOVE) csv_number(v->has, v->censored);
    }
    putchar('\n');
  }
}

static void csv_groups(const struct table_of *t)
{
  static const char *const parts[] = {":n", "", ":lo", ":hi"};
  printf("group,runs,diverged");
  for (int k = 0; k < t->metrics; k++)
    for (int p = 0; p < 4; p++) putchar(','), csv_text(t->metric[k].name), printf("%s", parts[p]);
  printf(",unfinished\n");
  for (int g = 0; g < t->set->groups; g++) {
    const struct run_group *group = &t->set->group[g];
    csv_text(group->label);
    printf(",%d,%d", group->count, diverged_in(group));
    for (int k = 0; k < t->metrics; k++) {
      struct measure m = measure_of(t, group, k);
      printf(",%d", m.n);
      csv_number(m.n > 0, m.middle), csv_number(m.n > 1, m.lo), csv_number(m.n > 1, m.hi);
    }
    printf(",%d\n", run_group_unfinished(group));
  }
}

/* --- JSON ---------------------------------------------------------------------------------------------- */

static void json_runs(const struct table_of *t)
{
  json_t *all = json_array();
  for (int i = 0; i < t->set->runs; i++) {
    const struct run *run = t->set->list[i];
    json_t *metrics = json_object();
    for (int k = 0; k < t->metrics; k++) {
      const struct measured *v = &values_of(t, run)[k];
      json_t *value = v->has ? json_number(v->value) : json_null();
      if (v->has && t->metric[k].reduction == TAKE_ABOVE)
        value = json_pack("{s:o, s:b}", "value", value, "censored", v->censored);
      json_object_set_new(metrics, t->metric[k].name, value);
    }
    json_array_append_new(all, json_pack("{s:o, s:o, s:o, s:I, s:o, s:o}", "file", json_text(run->path), "id",
                                         json_text(run_id(run->file)), "kind", json_text(run->kind), "seed",
                                         (json_int_t)run->seed, "state", json_text(run_state(run->file)),
                                         "metrics", metrics));
  }
  json_print(all);
}

static void json_groups(const struct table_of *t)
{
  static const char *const names[] = {"mean", "geometric_mean", "median"};
  json_t *all = json_array();
  for (int g = 0; g < t->set->groups; g++) {
    const struct run_group *group = &t->set->group[g];
    json_t *metrics = json_object();
    for (int k = 0; k < t->metrics; k++) {
      struct measure m = measure_of(t, group, k);
      json_t *value =
        json_pack("{s:i, s:o, s:o, s:o}", "n", m.n, m.is_time ? "median" : names[t->mean],
                  m.n ? json_number(m.middle) : json_null(), "lo", m.n > 1 ? json_number(m.lo) : json_null(),
                  "hi", m.n > 1 ? json_number(m.hi) : json_null());
      if (m.is_time) json_object_set_new(value, "reached", json_integer(m.events));
      json_object_set_new(metrics, t->metric[k].name, value);
    }
    json_array_append_new(all, json_pack("{s:o, s:i, s:i, s:i, s:o}", "group", json_text(group->label),
                                         "runs", group->count, "diverged", diverged_in(group), "unfinished",
                                         run_group_unfinished(group), "metrics", metrics));
  }
  json_print(all);
}

int measures_show(const struct runset *set, const char *of, int groups, enum measures_form form,
                  enum measures_mean mean, struct error *error)
{
  static void (*const show[][2])(const struct table_of *) = {[MEASURES_TEXT] = {print_runs, print_groups},
                                                             [MEASURES_CSV] = {csv_runs, csv_groups},
                                                             [MEASURES_JSON] = {json_runs, json_groups}};
  struct table_of t = {.set = set, .mean = mean};
  int status = metrics_read(&t.metric, &t.metrics, of, error);
  if (!status) status = metrics_of(t.metric, t.metrics, set, &t.value, error);
  if (!status) {
    show[form][groups](&t);
    memory_free(t.value);
  }
  memory_free(t.metric);
  return status;
}
