#include "app/measures.h"

#include <math.h>
#include <string.h>

#include "analysis/json.h"
#include "analysis/pairs.h"
#include "base/markup.h"
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
  struct measure out = {.is_time = metric_is_time(metric)};
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
  if (isfinite(value)) /* steps, and others that count, are whole */
    snprintf(out, 32, value == rint(value) && fabs(value) < 0x1p53 ? "%.0f" : "%.5g", value);
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

/* Of few values there is none. */
static int has_interval(const struct measure *m) { return m->n > 1 && (isnan(m->middle) || !isnan(m->lo)); }

static void measure_text(const struct measure *m, char out[120])
{
  char middle[32], lo[32], hi[32];
  number(m->middle, middle), number(m->lo, lo), number(m->hi, hi);
  if (m->n == 0)
    snprintf(out, 120, "-");
  else if (m->is_time)
    snprintf(out, 120, "%s [%s, %s] n=%d, %d reached", isinf(m->middle) ? "not reached" : middle, lo, hi,
             m->n, m->events);
  else if (!has_interval(m) && !isnan(m->middle))
    snprintf(out, 120, "%s n=%d", middle, m->n);
  else
    snprintf(out, 120, "%s [%s, %s] n=%d", middle, lo, hi, m->n);
}

/* A table in the making: cells end with NEXT, rows with a line's end behind it. */
#define NEXT "\037"

/* Each column as wide as its widest cell. */
static void print_columns(const struct buffer *b)
{
  enum { MOST_COLUMNS = 256 };
  int width[MOST_COLUMNS] = {0}, column = 0;
  for (int printing = 0; printing < 2; printing++)
    for (const char *at = b->text; *at; at++) {
      int length = (int)strcspn(at, NEXT);
      if (length > width[column]) width[column] = length;
      at += length;
      int last = at[1] == '\n';
      if (printing) printf("%.*s%*s", length, at - length, last ? 0 : width[column] - length + 2, "");
      column = last || column == MOST_COLUMNS - 1 ? 0 : column + 1;
      at += last;
      if (printing && last) putchar('\n');
    }
}

static void print_csv(const struct buffer *b)
{
  struct buffer out = {0};
  for (char *at = b->text; *at; at++) {
    char *end = at + strcspn(at, NEXT);
    *end = 0;
    cell_add(&out, at, ',');
    buffer_add(&out, end[1] == '\n' ? "\n" : ",");
    at = end + (end[1] == '\n');
  }
  fputs(out.text ? out.text : "", stdout);
  memory_free(out.text);
}

static void add_csv_number(struct buffer *b, int has, double value)
{
  char text[32];
  buffer_add(b, "%s" NEXT, has ? table_number(value, text) : "");
}

static int is_metric(const struct table_of *t, const char *name)
{
  int k = 0;
  while (k < t->metrics && strcmp(t->metric[k].name, name) != 0) k++;
  return k < t->metrics;
}

/* Cells of the keys in which runs differ: whole names in CSV, and where a metric has the short one. */
static void add_keys(struct buffer *b, const struct table_of *t, const struct key_list *keys, int csv)
{
  for (int k = 0; k < keys->count; k++) {
    const char *name = key_list_short(keys, k);
    buffer_add(b, "%s" NEXT, csv || is_metric(t, name) ? keys->name[k] : name);
  }
}

/* Their values, of so many runs; "-", in CSV "": the runs differ, or do not have the key. */
static void add_values(struct buffer *b, const struct key_list *keys, const struct run *run, int runs,
                       int csv)
{
  char room[RUN_VALUE], other[RUN_VALUE];
  for (int k = 0; k < keys->count; k++) {
    const char *value = run_value(run, keys->name[k], room);
    for (int i = 1; i < runs; i++)
      if (strcmp(run_value(&run[i], keys->name[k], other), value) != 0) value = "";
    buffer_add(b, "%s" NEXT, *value || csv ? value : "-");
  }
}

/* --- tables of runs and of groups, for people and as CSV ------------------------------------------------- */

static void print_runs(const struct table_of *t, int csv)
{
  struct buffer b = {0};
  struct key_list keys, rest = {0};
  if (csv)
    runset_columns(t->set, NULL, &keys);
  else
    runset_text_columns(t->set, NULL, &keys, &rest);
  buffer_add(&b, "%skind" NEXT "seed" NEXT "state" NEXT, csv ? "file" NEXT "id" NEXT : "");
  for (int k = 0; k < t->metrics; k++) {
    buffer_add(&b, "%s" NEXT, t->metric[k].name);
    if (csv && metric_is_time(&t->metric[k])) buffer_add(&b, "%s:censored" NEXT, t->metric[k].name);
  }
  add_keys(&b, t, &keys, csv);
  buffer_add(&b, csv ? "\n" : "file" NEXT "\n");
  for (int i = 0; i < t->set->runs; i++) {
    const struct run *run = t->set->list[i];
    if (csv) buffer_add(&b, "%s" NEXT "%s" NEXT, run->shown, run_id(run->file));
    buffer_add(&b, "%s" NEXT "%ld" NEXT "%s" NEXT, run->kind, run->seed, run_shown_state(run->file));
    for (int k = 0; k < t->metrics; k++) {
      const struct measured *v = &values_of(t, run)[k];
      char text[48];
      measured_text(v, text);
      if (!csv)
        buffer_add(&b, "%s" NEXT, text);
      else {
        add_csv_number(&b, v->has, v->value);
        if (metric_is_time(&t->metric[k])) add_csv_number(&b, v->has, v->censored);
      }
    }
    add_values(&b, &keys, run, 1, csv);
    if (!csv) buffer_add(&b, "%s" NEXT, text_file_name(run->shown));
    buffer_add(&b, "\n");
  }
  key_list_free(&keys);
  (csv ? print_csv : print_columns)(&b);
  measures_print_rest(&rest);
  memory_free(b.text);
}

void measures_print_rest(struct key_list *rest)
{
  enum { WIDE = 100 };
  int at = rest->count ? printf("The presets differ also in (columns of --csv):") : 0;
  for (int k = 0; k < rest->count; k++) {
    if (at + (int)strlen(rest->name[k]) + 2 > WIDE) at = printf("\n ") - 1;
    at += printf(" %s%s", rest->name[k], k + 1 < rest->count ? "," : "\n");
  }
  key_list_free(rest);
}

void measures_print_unfinished(int runs)
{
  if (runs)
    printf(" %d run%s not finished: taken as %s.", runs, runs > 1 ? "s have" : " has",
           runs > 1 ? "they stand" : "it stands");
  printf("\n");
}

static void print_groups(const struct table_of *t, int csv)
{
  struct buffer b = {0};
  int failed = 0, times = 0, unfinished = 0;
  struct key_list keys = {0}; /* the label has them as text, too */
  if (csv) runset_columns(t->set, NULL, &keys);
  buffer_add(&b, "group" NEXT "runs" NEXT "diverged" NEXT "%s", csv ? "" : "blown up" NEXT);
  for (int k = 0; k < t->metrics; k++) {
    const char *name = t->metric[k].name;
    if (csv)
      buffer_add(&b, "%s:n" NEXT "%s" NEXT "%s:lo" NEXT "%s:hi" NEXT, name, name, name, name);
    else
      buffer_add(&b, "%s" NEXT, name);
  }
  if (csv) buffer_add(&b, "unfinished" NEXT "blown_up" NEXT);
  add_keys(&b, t, &keys, csv);
  buffer_add(&b, "\n");
  for (int i = 0; i < t->set->groups; i++) {
    const struct run_group *group = &t->set->group[i];
    struct run_failures f = run_group_failures(group);
    buffer_add(&b, "%s" NEXT "%d" NEXT "%d" NEXT, group->label, group->count, f.diverged);
    if (!csv) buffer_add(&b, "%d" NEXT, f.blown_up);
    failed += f.diverged + f.blown_up;
    unfinished += run_group_unfinished(group);
    for (int k = 0; k < t->metrics; k++) {
      struct measure m = measure_of(t, group, k);
      char text[120];
      measure_text(&m, text);
      times |= m.is_time;
      if (csv)
        buffer_add(&b, "%d" NEXT, m.n), add_csv_number(&b, m.n > 0, m.middle),
          add_csv_number(&b, has_interval(&m), m.lo), add_csv_number(&b, has_interval(&m), m.hi);
      else
        buffer_add(&b, "%s" NEXT, text);
    }
    if (csv) buffer_add(&b, "%d" NEXT "%d" NEXT, run_group_unfinished(group), f.blown_up);
    add_values(&b, &keys, group->run, group->count, csv);
    buffer_add(&b, "\n");
  }
  key_list_free(&keys);
  (csv ? print_csv : print_columns)(&b);
  memory_free(b.text);
  if (csv) return;
  printf("%s over n runs.%s%s", about_mean(t->mean),
         times
           ? " Of steps until a level is passed the median (Kaplan and Meier), those that never did counted."
           : "",
         failed ? MEASURES_FAILED : "");
  measures_print_unfinished(unfinished);
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
      json_t *value = json_known(v->has, v->value);
      if (v->has && metric_is_time(&t->metric[k]))
        value = json_pack("{s:o, s:b}", "value", value, "censored", v->censored);
      json_object_set_new(metrics, t->metric[k].name, value);
    }
    json_array_append_new(all, json_pack("{s:o, s:o, s:o, s:I, s:o, s:o}", "file", json_text(run->path), "id",
                                         json_text(run_id(run->file)), "kind", json_text(run->kind), "seed",
                                         (json_int_t)run->seed, "state",
                                         json_text(run_shown_state(run->file)), "metrics", metrics));
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
      json_t *value = json_pack("{s:i, s:o, s:o, s:o}", "n", m.n, m.is_time ? "median" : names[t->mean],
                                json_known(m.n > 0, m.middle), "lo", json_known(has_interval(&m), m.lo), "hi",
                                json_known(has_interval(&m), m.hi));
      if (m.is_time) json_object_set_new(value, "reached", json_integer(m.events));
      json_object_set_new(metrics, t->metric[k].name, value);
    }
    struct run_failures f = run_group_failures(group);
    json_array_append_new(all, json_pack("{s:o, s:i, s:i, s:i, s:i, s:o}", "group", json_text(group->label),
                                         "runs", group->count, "diverged", f.diverged, "blown_up", f.blown_up,
                                         "unfinished", run_group_unfinished(group), "metrics", metrics));
  }
  json_print(all);
}

/* --- against a baseline -------------------------------------------------------------------------------- */

struct against {
  const struct table_of *t;
  int base;             /* its group */
  struct comparison *c; /* [groups, metrics]; of the baseline itself nothing */
  int tests;            /* comparisons with a p */
};

/* Max logits span decades, and are compared as ratios; so are no times, shares or exponents of them. */
static enum contrast contrast_of(const struct metric *m)
{
  int is_logit = strstr(m->series, "max_logit") || strstr(m->series, "max_abs_logit"),
      is_value = m->reduction <= TAKE_MEDIAN;
  return is_logit && is_value ? CONTRAST_RATIO : CONTRAST_DIFFERENCE;
}

/* By its label, "preset=muon", or by a value in it, "muon". */
static int find_group(const struct runset *set, const char *name, struct error *error)
{
  struct buffer all = {0};
  int found = -1, several = 0;
  for (int g = 0; g < set->groups; g++) {
    const char *label = set->group[g].label, *value = strchr(label, '=');
    buffer_add(&all, "%s'%s'", g ? ", " : "", label);
    if (strcmp(label, name) != 0 && !(value && !strcmp(value + 1, name))) continue;
    several |= found >= 0;
    found = g;
  }
  if (found < 0 || several)
    error_set(error, STATUS_USAGE, "show --baseline '%s': %s; allowed: %.400s", name,
              several ? "several groups have this value" : "no such group", all.text);
  memory_free(all.text);
  return several ? -1 : found;
}

static int compare_group(const struct against *x, int g, struct error *error)
{
  const struct table_of *t = x->t;
  const struct run_group *base = &t->set->group[x->base], *arm = &t->set->group[g];
  const struct runset a = {.run = base->run, .runs = base->count}, b = {.run = arm->run, .runs = arm->count};
  const struct arm_values values = {t->set, t->metric, t->value,
                                    t->metrics}; /* runs are those of the whole set */
  struct pair *pair;
  int pairs, status = pairs_of(&a, &b, NULL, &pair, &pairs, error);
  if (status) return error_prefix(error, "%s against %s", arm->label, base->label);
  for (int k = 0; k < t->metrics; k++)
    x->c[g * t->metrics + k] = pairs_compare(pair, pairs, &values, &values, k, contrast_of(&t->metric[k]), 0);
  memory_free(pair);
  return STATUS_OK;
}

static void correct(struct against *x)
{
  const int n = x->t->set->groups * x->t->metrics;
  double *p = memory_new((size_t)n + 1, sizeof *p);
  for (int i = 0; i < n; i++) p[i] = i / x->t->metrics == x->base ? NAN : x->c[i].p;
  x->tests = holm(p, n);
  for (int i = 0; i < n; i++) x->c[i].holm = p[i];
  memory_free(p);
}

static void effect_text(const struct comparison *c, char out[120])
{
  const struct measure m = {c->effect.n, 0, 0, c->effect.mean, c->effect.lo, c->effect.hi};
  measure_text(&m, out);
  if (c->holm < 0.05) snprintf(out + strlen(out), 120 - strlen(out), " *");
}

static void print_against(const struct against *x, int csv)
{
  const struct table_of *t = x->t;
  struct buffer b = {0};
  int failed = 0, unfinished = 0;
  buffer_add(&b, "group" NEXT "runs" NEXT);
  for (int k = 0; k < t->metrics; k++) {
    const char *name = t->metric[k].name, *what = contrast_name(contrast_of(&t->metric[k]));
    buffer_add(&b,
               csv ? "%s" NEXT "%s:%s" NEXT "%s:lo" NEXT "%s:hi" NEXT "%s:n" NEXT "%s:p_holm" NEXT
                   : "%s" NEXT "%s" NEXT,
               name, csv ? name : what, what, name, name, name, name);
  }
  buffer_add(&b, "\n");
  for (int g = 0; g < t->set->groups; g++) {
    const struct run_group *group = &t->set->group[g];
    struct run_failures f = run_group_failures(group);
    failed += f.diverged + f.blown_up, unfinished += run_group_unfinished(group);
    buffer_add(&b, "%s" NEXT "%d" NEXT, group->label, group->count);
    for (int k = 0; k < t->metrics; k++) {
      const struct comparison *c = &x->c[g * t->metrics + k];
      const enum contrast contrast = contrast_of(&t->metric[k]);
      const struct measure m = measure_group(group, &t->metric[k], values_of(t, group->run) + k, t->metrics,
                                             contrast == CONTRAST_RATIO ? MEAN_GEOMETRIC : MEAN_ARITHMETIC);
      char text[120];
      if (csv) {
        const int has = g != x->base && c->effect.n > 0, between = has && c->effect.n > 1;
        add_csv_number(&b, m.n > 0, m.middle), add_csv_number(&b, has, c->effect.mean);
        add_csv_number(&b, between, c->effect.lo), add_csv_number(&b, between, c->effect.hi);
        add_csv_number(&b, g != x->base, c->effect.n), add_csv_number(&b, between, c->holm);
        continue;
      }
      number(m.middle, text);
      buffer_add(&b, "%s" NEXT, m.n ? text : "-");
      effect_text(c, text);
      buffer_add(&b, "%s" NEXT, g == x->base ? "baseline" : text);
    }
    buffer_add(&b, "\n");
  }
  (csv ? print_csv : print_columns)(&b);
  memory_free(b.text);
  if (csv) return;
  printf("Means of groups, geometric for max logits. Differences and ratios to %s\n"
         "over n pairs of equal seed, with 95 %% interval (Student's t); *: p below 0.05 after Holm's "
         "correction for %d "
         "comparison%s.%s",
         t->set->group[x->base].label, x->tests, text_s(x->tests), failed ? MEASURES_FAILED : "");
  measures_print_unfinished(unfinished);
}

static void json_against(const struct against *x)
{
  const struct table_of *t = x->t;
  json_t *all = json_array();
  for (int g = 0; g < t->set->groups; g++) {
    const struct run_group *group = &t->set->group[g];
    json_t *metrics = json_object();
    for (int k = 0; k < t->metrics && g != x->base; k++) {
      const struct comparison *c = &x->c[g * t->metrics + k];
      json_object_set_new(metrics, t->metric[k].name,
                          json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "contrast",
                                    contrast_name(contrast_of(&t->metric[k])), "baseline",
                                    json_interval(&c->a), "group", json_interval(&c->b), "effect",
                                    json_interval(&c->effect), "p", json_known(!isnan(c->p), c->p), "p_holm",
                                    json_known(!isnan(c->holm), c->holm)));
    }
    json_array_append_new(all, json_pack("{s:o, s:i, s:o, s:o}", "group", json_text(group->label), "runs",
                                         group->count, "baseline", json_text(t->set->group[x->base].label),
                                         "metrics", metrics));
  }
  json_print(all);
}

static int show_against(const struct table_of *t, const char *baseline, enum measures_form form,
                        struct error *error)
{
  struct against x = {.t = t, .base = find_group(t->set, baseline, error)};
  int status = error->status;
  x.c = memory_new((size_t)(t->set->groups * t->metrics) + 1, sizeof *x.c);
  for (int g = 0; g < t->set->groups && !status; g++)
    if (g != x.base) status = compare_group(&x, g, error);
  if (!status) {
    correct(&x);
    if (form == MEASURES_JSON)
      json_against(&x);
    else
      print_against(&x, form == MEASURES_CSV);
  }
  memory_free(x.c);
  return status;
}

/* A mean and a ratio want one unit; in a list of runs it is a warning. */
static int check_units(const struct table_of *t, int groups, int is_ratio, struct error *error)
{
  struct error mixed = {0};
  int status = STATUS_OK;
  for (int g = 0; groups && !status && g < t->set->groups; g++) {
    const struct runset group = {.run = t->set->group[g].run, .runs = t->set->group[g].count};
    struct measured *value = t->value + (group.run - t->set->run) * t->metrics;
    status = metrics_have_one_unit(t->metric, t->metrics, &group, &value, 1, error);
  }
  if (status || !metrics_have_one_unit(t->metric, t->metrics, t->set, &t->value, 1, &mixed)) return status;
  if (is_ratio) return error_set(error, STATUS_USAGE, "%s", mixed.text);
  warning("%s", mixed.text);
  return STATUS_OK;
}

int measures_show(const struct runset *set, const char *of, int groups, enum measures_form form,
                  enum measures_mean mean, const char *baseline, struct error *error)
{
  struct table_of t = {.set = set, .mean = mean};
  const char *standard = baseline ? "val,peak,last,clips" : "loss,val,peak,last,clips";
  int status = metrics_read(&t.metric, &t.metrics, of ? of : standard, error);
  for (int k = 0; k < t.metrics; k++) t.metric[k].may_lack = !of;
  if (!status) status = metrics_of(t.metric, t.metrics, set, &t.value, error);
  if (!status) status = check_units(&t, groups, baseline != NULL, error);
  if (!status) {
    if (baseline)
      status = show_against(&t, baseline, form, error);
    else if (form == MEASURES_JSON)
      (groups ? json_groups : json_runs)(&t);
    else
      (groups ? print_groups : print_runs)(&t, form == MEASURES_CSV);
  }
  memory_free(t.value);
  memory_free(t.metric);
  return status;
}
