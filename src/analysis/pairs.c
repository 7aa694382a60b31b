#include "analysis/pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/runset_parts.h"
#include "base/memory.h"
#include "base/platform.h"

/* --- runs that form a pair ------------------------------------------------------------------------------ */

static int compare_places(const struct run *x, const struct run *y, const struct key_list *by)
{
  int order = 0;
  for (int k = 0; k < by->count && !order; k++) order = run_order(x, y, by->name[k]);
  return order ? order : (x->seed > y->seed) - (x->seed < y->seed);
}

static int compare_in_order(const void *a, const void *b, void *by)
{
  return compare_places(*(const struct run *const *)a, *(const struct run *const *)b, by);
}

/* The runs by their places; STATUS_USAGE where two have the same. */
static int sort_by_place(const struct runset *set, const struct key_list *by, const struct run ***out,
                         struct error *error)
{
  const struct run **run = memory_new((size_t)set->runs + 1, sizeof *run);
  struct keys keys;
  int status = STATUS_OK;
  for (int i = 0; i < set->runs; i++) run[i] = &set->run[i];
  platform_sort(run, (size_t)set->runs, sizeof *run, compare_in_order, (void *)(uintptr_t)by);
  keys_init(&keys);
  for (int i = 1; i < set->runs && !status; i++) {
    if (compare_places(run[i - 1], run[i], by)) continue;
    const char *differs = "nothing that counts";
    char room[2][RUN_VALUE];
    for (size_t k = 0; k < keys.count; k++)
      if (strcmp(run_value(run[i - 1], keys.key[k].name, room[0]),
                 run_value(run[i], keys.key[k].name, room[1])) != 0) {
        differs = keys.key[k].name;
        break;
      }
    status = error_set(
      error, STATUS_USAGE,
      "%s and %s have the same seed, %ld, and one would be its partner; they differ in %s: choose with "
      "--where, or compare for each value with --by %s",
      run[i - 1]->path, run[i]->path, run[i]->seed, differs, strchr(differs, ' ') ? "KEY" : differs);
  }
  memory_free(keys.key);
  if (status)
    memory_free(run);
  else
    *out = run;
  return status;
}

/* --- did they start alike? ------------------------------------------------------------------------------ */

static void find_shape_difference(const struct run *a, const struct run *b, char found[96])
{
  static const char *const prefixes[] = {"model.", "data", "train.batch", "train.plant", NULL};
  struct keys keys;
  uint64_t content[4];
  const char *source = run_parameter_or(a, "data", "");
  *found = 0;
  keys_init(&keys);
  for (size_t k = 0; k < keys.count && !*found; k++) {
    const char *key = keys.key[k].name, *value = run_parameter_or(a, key, keys.key[k].standard);
    size_t length = strlen(source);
    int counts = !strncmp(key, source, length) && key[length] == '.';
    for (int i = 0; prefixes[i]; i++) counts |= !strncmp(key, prefixes[i], strlen(prefixes[i]));
    if (!counts || !strcmp(value, run_parameter_or(b, key, keys.key[k].standard))) continue;
    snprintf(found, 96, "%s", key);
  }
  memory_free(keys.key);
  if (*found) return;
  run_contents(a->file, &content[0], &content[1]);
  run_contents(b->file, &content[2], &content[3]);
  if (content[0] != content[2]) snprintf(found, 96, "the data's content");
  if (content[1] != content[3]) snprintf(found, 96, "the weights of train.init_from");
}

/* Equal numbers of the tensors that both have, in the row of step 0; -1: there is none, or too many to search. Most
   runs have the same tensors in the same order. */
static int same_norms(const struct run_series *a, const struct run_series *b)
{
  enum { MOST = 1 << 14 };
  int common = 0;
  if (!a->rows || !b->rows || a->step[0] != 0 || b->step[0] != 0 || !a->labels || !b->labels) return -1;
  if (a->width > MOST || b->width > MOST) return -1;
  for (long i = 0; i < a->width; i++)
    for (long n = 0, k = i % b->width; n < b->width; n++, k = (k + 1) % b->width) {
      if (strcmp(a->labels[i], b->labels[k]) != 0) continue;
      if (a->value[i] != b->value[k]) return 0;
      common++;
      break;
    }
  return common ? 1 : -1;
}

static int same_first(const struct run *a, const struct run *b, const char *name,
                      int (*same)(const struct run_series *, const struct run_series *))
{
  struct run_series x, y;
  int answer = -1;
  if (!run_rows(a->file, name) || !run_rows(b->file, name)) return -1;
  if (run_read(a->file, name, &x, NULL) != STATUS_OK) return -1;
  if (run_read(b->file, name, &y, NULL) == STATUS_OK) {
    if (x.rows && y.rows) answer = same(&x, &y);
    run_series_free(&y);
  }
  run_series_free(&x);
  return answer;
}

static int same_loss(const struct run_series *a, const struct run_series *b)
{
  return a->step[0] == 0 && b->step[0] == 0 && a->value[0] == b->value[0];
}

static enum start compare_starts(const struct run *a, const struct run *b)
{
  int norms = -1, alike = same_first(a, b, "loss", same_loss) == 1;
  if (!alike) norms = same_first(a, b, "weight/frobenius_norm", same_norms);
  run_rest(a->file);
  run_rest(b->file);
  return alike || norms == 1 ? START_EQUAL : norms == 0 ? START_DIFFERS : START_UNKNOWN;
}

int pairs_of(const struct runset *a, const struct runset *b, const char *by, struct pair **pairs, int *count,
             struct error *error)
{
  struct key_list keys = {0};
  const struct run **x = NULL, **y = NULL;
  int status = by ? key_list_read(&keys, "--by", by, a, error) : STATUS_OK, both = 0;
  *pairs = NULL;
  *count = 0;
  if (!status) status = sort_by_place(a, &keys, &x, error);
  if (!status) status = sort_by_place(b, &keys, &y, error);
  if (!status) {
    *pairs = memory_new((size_t)(a->runs + b->runs) + 1, sizeof **pairs);
    for (int i = 0, k = 0; i < a->runs || k < b->runs;) {
      struct pair *p = &(*pairs)[(*count)++];
      int order = i >= a->runs ? 1 : k >= b->runs ? -1 : compare_places(x[i], y[k], &keys);
      p->a = order <= 0 ? x[i++] : NULL;
      p->b = order >= 0 ? y[k++] : NULL;
      if (order) continue;
      find_shape_difference(p->a, p->b, p->shape_key);
      p->start = compare_starts(p->a, p->b);
      both++;
    }
  }
  if (!status && !both) {
    memory_free(*pairs);
    *pairs = NULL;
    status = error_set(error, STATUS_USAGE, "no run has a partner of the same seed%s%s",
                       by ? " and the same " : "", by ? by : "");
  }
  memory_free(x);
  memory_free(y);
  key_list_free(&keys);
  return status;
}

int pairs_together(const struct pair *p, const struct pair *q, const char *by)
{
  struct key_list keys = {0};
  int same = 1;
  if (by) key_list_split(&keys, by);
  for (int k = 0; k < keys.count && same; k++)
    same = run_order(p->a ? p->a : p->b, q->a ? q->a : q->b, keys.name[k]) == 0;
  key_list_free(&keys);
  return same;
}

void pairs_values(const struct pair *p, const char *by, int in_short, char *out, size_t room)
{
  struct key_list keys = {0};
  char value[RUN_VALUE];
  *out = 0;
  if (!by) return;
  key_list_split(&keys, by);
  for (int k = 0; k < keys.count; k++) {
    size_t used = strlen(out);
    snprintf(out + used, room - used, "%s%s=%s", used ? " " : "",
             in_short ? text_last_part(keys.name[k]) : keys.name[k],
             run_value(p->a ? p->a : p->b, keys.name[k], value));
  }
  key_list_free(&keys);
}

static int both_differ(const struct pair *p, const char *key)
{
  const char *a = p->a && p->b ? run_parameter(p->a->file, key) : NULL;
  const char *b = a ? run_parameter(p->b->file, key) : NULL;
  return b && strcmp(a, b) != 0;
}

char *pairs_difference(const struct pair *pairs, int count)
{
  struct buffer text = {0};
  struct keys keys;
  keys_init(&keys);
  for (size_t k = 0; k < keys.count; k++) {
    int differs = 0;
    for (int i = 0; i < count && !differs; i++) differs = both_differ(&pairs[i], keys.key[k].name);
    if (differs) buffer_add(&text, "%s%s", text.length ? ", " : "", keys.key[k].name);
  }
  memory_free(keys.key);
  struct key_list others = {0}; /* of other programs */
  for (int i = 0; i < count; i++)
    if (pairs[i].a && pairs[i].b) runset_add_mixed(pairs[i].a, pairs[i].b, &others);
  for (int k = 0; k < others.count; k++) buffer_add(&text, "%s%s", text.length ? ", " : "", others.name[k]);
  key_list_free(&others);
  return text.text;
}

const char *contrast_name(enum contrast contrast)
{
  static const char *const names[] = {
    [CONTRAST_DIFFERENCE] = "difference", [CONTRAST_RATIO] = "ratio", [CONTRAST_SHARE] = "share"};
  return names[contrast];
}

/* --- statistics over pairs ------------------------------------------------------------------------------ */

static const struct measured *value_of(const struct arm_values *arm, const struct run *run, int metric)
{
  return &arm->value[(run - arm->set->run) * arm->metrics + metric];
}

static int has_value(const struct measured *v, enum contrast contrast)
{
  return v->has && !v->censored && isfinite(v->value) && (contrast != CONTRAST_RATIO || v->value > 0);
}

static int is_left_out(const struct metric *m, const struct run *run, const struct measured *v)
{
  return run_has_failed(run) && !metric_counts(m, run, v);
}

static struct interval exponential(struct interval i)
{
  return (struct interval){i.n, exp(i.mean), exp(i.lo), exp(i.hi)};
}

struct comparison pairs_compare(const struct pair *pairs, int count, const struct arm_values *a,
                                const struct arm_values *b, int metric, enum contrast contrast, double margin)
{
  struct comparison c = {.margin = margin > 0 ? margin : NAN};
  double *room = memory_new(3 * (size_t)count + 1, sizeof *room), *x = room, *y = x + count, *d = y + count;
  int ratio = contrast == CONTRAST_RATIO;
  for (int i = 0; i < count; i++) {
    const struct pair *p = &pairs[i];
    if (!p->a || !p->b) continue;
    const struct measured *v = value_of(a, p->a, metric), *w = value_of(b, p->b, metric);
    if (is_left_out(&a->metric[metric], p->a, v) || is_left_out(&b->metric[metric], p->b, w)) {
      int diverged = run_is_diverged(p->a) || run_is_diverged(p->b);
      c.diverged += diverged, c.blown_up += !diverged;
    } else if (!has_value(v, contrast) || !has_value(w, contrast)) {
      c.left_out++;
    } else {
      c.unfinished += run_is_unfinished(p->a) || run_is_unfinished(p->b);
      x[c.n] = v->value, y[c.n] = w->value;
      d[c.n++] = ratio ? log(w->value / v->value) : w->value - v->value;
    }
  }
  c.a = interval_of(x, c.n, ratio);
  c.b = interval_of(y, c.n, ratio);
  c.effect = interval_at(d, c.n, 0.95);
  c.bootstrap = interval_bootstrap(d, c.n, 0.95, 1);
  c.p = c.holm = zero_mean_p(d, c.n);
  c.rank_p = signed_rank(d, c.n).p;
  c.detectable = detectable_effect(d, c.n);
  c.equivalence = margin > 0 ? equivalence_p(d, c.n, ratio ? fabs(log(margin)) : margin) : NAN;
  if (ratio) {
    c.effect = exponential(c.effect);
    c.bootstrap = exponential(c.bootstrap);
    c.detectable = exp(c.detectable);
  }
  memory_free(room);
  return c;
}
