#include "app/sensitivity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/json.h"
#include "app/measures.h"
#include "app/summary.h"
#include "base/memory.h"
#include "base/number.h"

enum { LEAST_VALUES = 3 };

struct sensitivity {
  const struct runset *set;
  const char *key;
  double *of_run; /* [runs]: values of the key, as they stand in the set */
  double *value;  /* these, increasing */
  int values, left_out;
};

/* Of a group. */
struct sensitivity_result {
  struct interval over_seeds;
  double best, loss;             /* value of the key with the least mean loss */
  int seeds, failed, unfinished; /* runs of the values that count */
};

/* Sort the numbers and keep each once; returns how many are left. */
static int unique(double *x, int n)
{
  int kept = 0;
  qsort(x, (size_t)n, sizeof *x, number_order);
  for (int i = 0; i < n; i++)
    if (!kept || x[i] != x[kept - 1]) x[kept++] = x[i];
  return kept;
}

/* Run i of the group is the first with its seed. */
static int is_new_seed(const struct run_group *g, int i)
{
  for (int j = 0; j < i; j++)
    if (g->run[j].seed == g->run[i].seed) return 0;
  return 1;
}

static double value_of(const struct sensitivity *s, const struct run *run)
{
  return s->of_run[run - s->set->run];
}

/* The group's only run with this value and seed; NULL: there is none. */
static const struct run *run_at(const struct sensitivity *s, const struct run_group *g, double value,
                                long seed)
{
  for (int i = 0; i < g->count; i++)
    if (g->run[i].seed == seed && value_of(s, &g->run[i]) == value) return &g->run[i];
  return NULL;
}

static int check_runs(const struct sensitivity *s, struct error *e)
{
  for (int g = 0; g < s->set->groups; g++)
    for (int i = 0; i < s->set->group[g].count; i++) {
      const struct run *run = &s->set->group[g].run[i];
      const double value = value_of(s, run);
      if (isnan(value))
        return error_set(e, STATUS_USAGE, "show --sensitivity=%s: %s has no such number", s->key, run->shown);
      if (run_at(s, &s->set->group[g], value, run->seed) != run)
        return error_set(
          e, STATUS_USAGE,
          "show --sensitivity: two runs of %s have %s = %g and seed %ld; --by names the keys that "
          "tell groups apart",
          s->set->group[g].label, s->key, value, run->seed);
    }
  return STATUS_OK;
}

static int is_everywhere(const struct sensitivity *s, double value)
{
  for (int g = 0; g < s->set->groups; g++)
    for (int i = 0; i < s->set->group[g].count; i++)
      if (!run_at(s, &s->set->group[g], value, s->set->group[g].run[i].seed)) return 0;
  return 1;
}

static int find_values(struct sensitivity *s, struct error *e)
{
  const size_t runs = (size_t)s->set->runs;
  s->of_run = memory_new(runs + 1, sizeof *s->of_run);
  s->value = memory_new(runs + 1, sizeof *s->value);
  for (size_t i = 0; i < runs; i++) s->of_run[i] = run_number(&s->set->run[i], s->key, NAN);
  if (check_runs(s, e)) return e->status;
  memcpy(s->value, s->of_run, runs * sizeof *s->value);
  const int all = unique(s->value, s->set->runs);
  for (int i = 0; i < all; i++)
    if (is_everywhere(s, s->value[i])) s->value[s->values++] = s->value[i];
  s->left_out = all - s->values;
  if (s->values >= LEAST_VALUES) return STATUS_OK;
  return error_set(
    e, STATUS_USAGE,
    "show --sensitivity: %d of %d values of %s are there in every group with each seed; at least %d "
    "are needed",
    s->values, all, s->key, LEAST_VALUES);
}

/* min(loss at the end, loss at the start), the latter where the run failed. */
static int loss_of(const struct run *run, double *loss, struct error *e)
{
  struct run_series start;
  double end = INFINITY;
  if (run_read(run->file, "loss", &start, e)) return e->status;
  const int some = start.rows > 0 && (run_has_failed(run) || summary_last(run->file, "val_loss", &end));
  *loss = some ? start.value[0] : NAN;
  if (end < *loss) *loss = end;
  run_series_free(&start);
  run_rest(run->file);
  if (some) return STATUS_OK;
  return error_set(e, STATUS_USAGE, "show --sensitivity: %s has no loss and val_loss", run->shown);
}

/* The mean over values minus the least, of one seed; losses are added to `sum`. */
static int of_seed(const struct sensitivity *s, const struct run_group *g, long seed, double *sum,
                   double *result, struct error *e)
{
  double least = INFINITY, total = 0;
  for (int v = 0; v < s->values; v++) {
    double loss;
    if (loss_of(run_at(s, g, s->value[v], seed), &loss, e)) return e->status;
    least = fmin(least, loss), total += loss, sum[v] += loss;
  }
  *result = total / s->values - least;
  return STATUS_OK;
}

static int of_group(const struct sensitivity *s, const struct run_group *g, struct sensitivity_result *r,
                    struct error *e)
{
  double *each = memory_new((size_t)g->count, sizeof *each),
         *sum = memory_new((size_t)s->values, sizeof *sum);
  int status = STATUS_OK, best = 0;
  *r = (struct sensitivity_result){0};
  for (int i = 0; i < g->count && !status; i++) {
    if (!is_new_seed(g, i)) continue;
    status = of_seed(s, g, g->run[i].seed, sum, &each[r->seeds++], e);
    for (int v = 0; v < s->values; v++) {
      const struct run *run = run_at(s, g, s->value[v], g->run[i].seed);
      r->failed += run_has_failed(run), r->unfinished += run_is_unfinished(run);
    }
  }
  for (int v = 1; v < s->values; v++)
    if (sum[v] < sum[best]) best = v;
  r->over_seeds = interval_of(each, r->seeds, 0);
  r->best = s->value[best], r->loss = sum[best] / r->seeds;
  memory_free(each), memory_free(sum);
  return status;
}

static void print_results(const struct sensitivity *s, const struct sensitivity_result *r)
{
  int width = 10, unfinished = 0;
  for (int g = 0; g < s->set->groups; g++)
    if ((int)strlen(s->set->group[g].label) > width) width = (int)strlen(s->set->group[g].label);
  printf("%-*s %5s %6s  %-28s %12s %10s\n", width, "group", "seeds", "failed", "sensitivity", "best at",
         "loss there");
  for (int g = 0; g < s->set->groups; g++) {
    const struct interval *i = &r[g].over_seeds;
    char text[64];
    unfinished += r[g].unfinished;
    snprintf(text, sizeof text, i->n < 2 ? "%.4f" : "%.4f [%.4f, %.4f]", i->mean, i->lo, i->hi);
    printf("%-*s %5d %6d  %-28s %12.4g %10.4f\n", width, s->set->group[g].label, r[g].seeds, r[g].failed,
           text, r[g].best, r[g].loss);
  }
  printf(
    "The mean over %d values of %s, %.4g to %.4g, of the validation loss [nat] minus the least, with 95 %% "
    "interval over seeds;\na run that failed or ends above its start counts with its first loss (arXiv "
    "2309.14322).",
    s->values, s->key, s->value[0], s->value[s->values - 1]);
  measures_print_unfinished(unfinished);
  if (s->left_out) printf("%d values are left out: not every group has them with each seed.\n", s->left_out);
}

static void print_json(const struct sensitivity *s, const struct sensitivity_result *r)
{
  json_t *all = json_array();
  for (int g = 0; g < s->set->groups; g++)
    json_array_append_new(all, json_pack("{s:o, s:s, s:i, s:i, s:i, s:i, s:o, s:o, s:o}", "group",
                                         json_text(s->set->group[g].label), "key", s->key, "values",
                                         s->values, "seeds", r[g].seeds, "failed", r[g].failed, "unfinished",
                                         r[g].unfinished, "sensitivity", json_interval(&r[g].over_seeds),
                                         "best", json_number(r[g].best), "loss", json_number(r[g].loss)));
  json_print(all);
}

int sensitivity_show(const struct runset *set, const char *key, int json, struct error *e)
{
  struct key_list known;
  if (key_list_read(&known, "show --sensitivity", key, set, e)) return e->status;
  key_list_free(&known);
  struct sensitivity s = {.set = set, .key = key};
  struct sensitivity_result *r = memory_new((size_t)set->groups + 1, sizeof *r);
  int status = find_values(&s, e);
  for (int g = 0; g < set->groups && !status; g++) status = of_group(&s, &set->group[g], &r[g], e);
  if (!status) (json ? print_json : print_results)(&s, r);
  memory_free(r), memory_free(s.value), memory_free(s.of_run);
  return status;
}
