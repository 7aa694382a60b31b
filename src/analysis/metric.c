#include "analysis/metric.h"

#include <ctype.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"

const struct metric_name metric_names[] = {
  {"loss", "loss:last", "training loss of the last step", "training loss"},
  {"val", "val_loss:last", "last validation loss", "validation loss"},
  {"peak", "attn/max_logit:all:max", "largest max logit of the recorded steps", "peak max logit"},
  {"last", "attn/max_logit:last:max", "largest max logit of the last step", "last max logit"},
  {"clips", "@clip", "how often a head was clipped", "clips"},
  {"spikes", "@spike", "how often the loss jumped (train.spike)", "loss spikes"},
  {NULL, NULL, NULL, NULL},
};

/* --- reading one --------------------------------------------------------------------------------------- */

static int whole_number(const char *text, double *number)
{
  char *end;
  *number = strtod(text, &end);
  return end != text && !*end && !isnan(*number);
}

int metric_steps(const char *text, double *first, double *last)
{
  char *end;
  *first = strtod(text, &end);
  return end != text && *end == '-' && whole_number(end + 1, last) && *first >= 0 && *last >= *first;
}

static int read_window(struct metric *m, const char *text, struct error *error)
{
  char room[96];
  snprintf(room, sizeof room, "%s", text);
  size_t length = strlen(room);
  m->window = WINDOW_ROWS;
  m->first = 1;
  if (!strcmp(text, "last")) return STATUS_OK;
  if (!strncmp(text, "last", 4)) {
    if (room[length - 1] == '%') m->window = WINDOW_SHARE, room[length - 1] = 0;
    if (whole_number(room + 4, &m->first) && m->first > 0 &&
        (m->window == WINDOW_SHARE ? m->first <= 100 : m->first == floor(m->first)))
      return STATUS_OK;
  }
  m->window = WINDOW_STEPS;
  m->first = 0, m->last = INFINITY;
  if (!strcmp(text, "all")) return STATUS_OK;
  if (metric_steps(room, &m->first, &m->last)) return STATUS_OK;
  return error_set(
    error, STATUS_USAGE,
    "metric %s: the window is %s; last, lastN (rows), lastP%% (of the steps), all or A-B (steps) is "
    "wanted",
    m->name, text);
}

static int read_reduction(struct metric *m, const char *text, struct error *error)
{
  static const char *const names[] = {[TAKE_DEFAULT] = "", [TAKE_MEAN] = "mean",     [TAKE_MAX] = "max",
                                      [TAKE_MIN] = "min",  [TAKE_MEDIAN] = "median", [TAKE_SLOPE] = "slope"};
  for (int r = TAKE_MEAN; r <= TAKE_SLOPE; r++)
    if (!strcmp(text, names[r])) {
      m->reduction = (enum reduction)r;
      return STATUS_OK;
    }
  m->reduction = TAKE_ABOVE;
  if (!strncmp(text, "above=", 6) && whole_number(text + 6, &m->level)) return STATUS_OK;
  m->reduction = TAKE_BELOW;
  if (!strncmp(text, "below=", 6) && whole_number(text + 6, &m->level)) return STATUS_OK;
  m->reduction = TAKE_OVER;
  if (!strncmp(text, "over=", 5) && whole_number(text + 5, &m->level)) return STATUS_OK;
  return error_set(error, STATUS_USAGE,
                   "metric %s: the reduction is %s; mean, max, min, median, slope, over=NUMBER, above=NUMBER "
                   "or below=NUMBER "
                   "is wanted",
                   m->name, text);
}

/* SERIES or SERIES@GLOB. */
static int read_series(struct metric *m, char *text, const char *before, struct error *error)
{
  char *at = strchr(text, '@');
  if (at) *at++ = 0;
  if (!*text || (at && (!*at || strlen(at) >= sizeof m->glob)))
    return error_set(error, STATUS_USAGE, "metric %s: SERIES or SERIES@GLOB is wanted%s", m->name, before);
  snprintf(m->series, sizeof m->series, "%s", text);
  snprintf(m->glob, sizeof m->glob, "%s", at ? at : "");
  return STATUS_OK;
}

static int read_parts(struct metric *m, const char *text, struct error *error)
{
  char part[3][96] = {"", "last", ""};
  int parts = 0;
  for (const char *at = text;; at++) {
    size_t length = strcspn(at, ":");
    if (parts == 3 || length >= sizeof part[0] || !length)
      return error_set(error, STATUS_USAGE, "metric %s: SERIES:WINDOW:REDUCTION is wanted", m->name);
    snprintf(part[parts++], sizeof part[0], "%.*s", (int)length, at);
    at += length;
    if (!*at) break;
  }
  if (read_series(m, part[0], " before the first colon", error)) return STATUS_USAGE;
  if (read_window(m, part[1], error)) return error->status;
  return *part[2] ? read_reduction(m, part[2], error) : STATUS_OK;
}

const char *metric_named(const char *name)
{
  for (const struct metric_name *n = metric_names; n->name; n++)
    if (!strcmp(n->name, name)) return n->metric;
  return NULL;
}

const char *metric_near(const char *text)
{
  const char *names[sizeof metric_names / sizeof *metric_names];
  size_t count = 0;
  for (; metric_names[count].name; count++) names[count] = metric_names[count].name;
  return text_nearest(text, names, count);
}

int metric_read(struct metric *m, const char *text, struct error *error)
{
  *m = (struct metric){.reduction = TAKE_DEFAULT};
  snprintf(m->name, sizeof m->name, "%s", text);
  const char *whole = metric_named(text);
  if (whole && *whole == '@') {
    snprintf(m->glob, sizeof m->glob, "%s", whole + 1);
    return STATUS_OK;
  }
  return read_parts(m, whole ? whole : text, error);
}

struct listing {
  struct metric **list;
  int *count;
  struct error *error;
};

static int add_metric(void *context, const char *part)
{
  struct listing *l = context;
  *l->list = memory_grow(*l->list, (size_t)*l->count, (size_t)*l->count + 1, sizeof **l->list);
  return metric_read(&(*l->list)[(*l->count)++], part, l->error);
}

int metrics_read(struct metric **list, int *count, const char *text, struct error *error)
{
  struct listing l = {list, count, error};
  *list = NULL;
  *count = 0;
  return text_split(text, ',', add_metric, &l);
}

/* --- of a run ------------------------------------------------------------------------------------------ */

static int count_events(const char *kind, const struct run *run, struct measured *out, struct error *error)
{
  struct run_event *events;
  long count;
  int status = run_events(run->file, &events, &count, error);
  if (status) return status;
  *out = (struct measured){.has = 1};
  for (long i = 0; i < count; i++) out->value += strcmp(events[i].kind, kind) == 0;
  memory_free(events);
  return STATUS_OK;
}

/* Keep the values whose name matches; STATUS_USAGE where none does. */
static int keep_matching(const struct metric *m, const struct run *run, struct run_series *s,
                         struct error *error)
{
  long kept = 0, *from = memory_new((size_t)s->width + 1, sizeof *from);
  char name[64] = "";
  for (long i = 0; i < s->width; i++) {
    series_value_name(s, i, name, sizeof name);
    if (s->shape != PER_STEP && !fnmatch(m->glob, name, 0)) from[kept++] = i;
  }
  for (long row = 0; row < s->rows; row++)
    for (long i = 0; i < kept; i++) s->value[row * kept + i] = s->value[row * s->width + from[i]];
  s->width = kept;
  memory_free(from);
  if (kept) return STATUS_OK;
  if (s->shape == PER_STEP)
    return error_set(error, STATUS_USAGE, "metric %s: %s has one value a step, none by name", m->name,
                     m->series);
  return error_set(error, STATUS_USAGE, "metric %s: nothing of %s in %s matches %s; the last is called %s",
                   m->name, m->series, run->path, m->glob, name);
}

/* Rows [*from, *to) of the window. */
static void find_rows(const struct metric *m, const struct run *run, const struct run_series *s, long *from,
                      long *to)
{
  double first = m->first, last = m->last;
  *from = 0, *to = s->rows;
  if (m->window == WINDOW_ROWS) {
    if (m->first < (double)s->rows) *from = s->rows - (long)m->first;
    if (m->first > 1 && *from + 1 < *to && s->step[*from] == 0) ++*from; /* before any training */
    return;
  }
  if (m->window == WINDOW_SHARE) { /* steps 0 .. n-1; a look at the end has step n; 30 % of 10 are 3 */
    first = (100 - m->first) * (double)run_last_step(run->file) / 100;
    last = INFINITY;
  }
  while (*from < *to && s->step[*from] < first) ++*from;
  while (*to > *from && s->step[*to - 1] > last) --*to;
}

/* Missing values are moved out of the way; how many others there are. */
static long drop_missing(double *x, long n)
{
  long known = 0;
  for (long i = 0; i < n; i++)
    if (!is_missing(x[i])) x[known++] = x[i];
  return known;
}

static double reduce(const struct metric *m, double *x, long n)
{
  n = drop_missing(x, n);
  if (!n) return missing_value();
  double out = x[0], sum = 0;
  switch (m->reduction) {
  case TAKE_MAX:
    for (long i = 1; i < n; i++) out = max_keeping_nan(out, x[i]);
    return out;
  case TAKE_MIN:
    for (long i = 1; i < n; i++) out = -max_keeping_nan(-out, -x[i]);
    return out;
  case TAKE_MEDIAN: return median_of(x, (int)n).middle;
  case TAKE_OVER: /* a NaN is above every level, as in is_past */
    for (long i = 0; i < n; i++) sum += !(x[i] <= m->level);
    return sum / (double)n;
  default:
    for (long i = 0; i < n; i++) sum += x[i];
    return sum / (double)n;
  }
}

static double find_slope(const struct run_series *s, long from, long to)
{
  double *largest = memory_new(2 * (size_t)(to - from) + 1, sizeof *largest), *step = largest + (to - from);
  int rows = 0;
  for (long row = from; row < to; row++) {
    double x = missing_value();
    for (long i = 0; i < s->width; i++) x = max_known(x, s->value[row * s->width + i]);
    /* step 0 has no logarithm */
    if (s->step[row] > 0 && !is_missing(x)) largest[rows] = x, step[rows++] = s->step[row];
  }
  double slope = slope_of(step, largest, rows).slope;
  memory_free(largest);
  return slope;
}

/* A NaN is above every level, and below none: a run that diverges has passed the one and will not pass the other. */
static int is_past(const struct metric *m, double x)
{
  return m->reduction == TAKE_BELOW ? x < m->level : !(x <= m->level) && !is_missing(x);
}

static void find_first(const struct metric *m, const struct run_series *s, long from, long to,
                       struct measured *out)
{
  for (long row = from; row < to; row++)
    for (long i = 0; i < s->width; i++)
      if (is_past(m, s->value[row * s->width + i])) {
        out->value = s->step[row];
        return;
      }
  out->value = s->step[to - 1];
  out->censored = 1;
}

/* Unit, words and shape of what has been read. */
static void describe(struct metric *m, const struct run_series *s, const char *unit)
{
  enum { LONGEST = 32 }; /* letters that fit beside an axis */
  snprintf(m->unit, sizeof m->unit, "%s", unit);
  text_fill(m->label, sizeof m->label,
            *s->long_name && text_letters(s->long_name) <= LONGEST ? s->long_name : m->series);
  m->shape = s->shape;
}

int metric_of(struct metric *m, const struct run *run, struct measured *out, struct error *error)
{
  struct run_series s;
  long from, to;
  *out = (struct measured){.value = NAN};
  if (!*m->series) return count_events(m->glob, run, out, error);
  if (!run_rows(run->file, m->series)) return STATUS_OK;
  int status = run_read(run->file, m->series, &s, error);
  if (status) return status;
  snprintf(out->unit, sizeof out->unit, "%s", text_unit(s.unit));
  if (*m->glob) status = keep_matching(m, run, &s, error);
  find_rows(m, run, &s, &from, &to);
  describe(m, &s,
           metric_is_time(m)                                         ? "step"
           : m->reduction == TAKE_SLOPE || m->reduction == TAKE_OVER ? "1"
                                                                     : s.unit);
  if (status) {
  } else if (m->reduction == TAKE_DEFAULT && s.shape != PER_STEP)
    status =
      error_set(error, STATUS_USAGE,
                "metric %s: %s has several values a step; say which: %s:last:max (or mean, min, median)",
                m->name, m->series, m->series);
  else if (from < to) {
    out->has = 1;
    if (metric_is_time(m))
      find_first(m, &s, from, to, out);
    else if (m->reduction == TAKE_SLOPE)
      out->value = find_slope(&s, from, to);
    else
      out->value = reduce(m, s.value + from * s.width, (to - from) * s.width);
    out->has = !is_missing(out->value);
  }
  run_series_free(&s);
  return status;
}

int curve_of(struct metric *m, const struct run *run, struct table *out, struct error *error)
{
  struct run_series s;
  struct metric by_row = *m;
  if (m->reduction == TAKE_ABOVE || m->reduction == TAKE_SLOPE || m->reduction == TAKE_DEFAULT)
    by_row.reduction = TAKE_MAX;
  if (m->reduction == TAKE_BELOW) by_row.reduction = TAKE_MIN;
  int status = run_read(run->file, m->series, &s, error);
  if (status) return status;
  describe(m, &s, m->reduction == TAKE_OVER ? "1" : s.unit);
  if (*m->glob) status = keep_matching(m, run, &s, error);
  if (!status) {
    table_new(out, s.rows, 1);
    for (long row = 0; row < s.rows; row++) {
      out->step[row] = s.step[row];
      out->value[row] = reduce(&by_row, s.value + row * s.width, s.width);
    }
  }
  run_series_free(&s);
  return status;
}

int metric_curve(struct metric *m, const struct run *run, struct table *out, struct error *error)
{
  if (*m->series && run_rows(run->file, m->series)) return curve_of(m, run, out, error);
  table_new(out, 0, 1);
  return STATUS_OK;
}

/* --- a series over the steps --------------------------------------------------------------------------- */

/* A metric that was meant, as a series: "attn/max_logit:all:max" is attn/max_logit:max. */
static int refuse_metric(const char *text, const struct metric *meant, const char *reduction, struct error *e)
{
  if (!*meant->series)
    return error_set(e, STATUS_USAGE, "series %s: it counts events of a run, and has no value at each step",
                     text);
  return error_set(e, STATUS_USAGE, "series %s: one number of a run, not a curve; over the steps: %s%s%s%s%s",
                   text, meant->series, *meant->glob ? "@" : "", meant->glob, *reduction ? ":" : "",
                   reduction);
}

int curve_read(struct metric *m, const char *text, struct error *error)
{
  char part[96];
  struct metric meant;
  struct error none = {0};
  const char *colon = strchr(text, ':');
  if (metric_named(text) && strcmp(text, "loss") != 0 && !metric_read(&meant, text, &none))
    return refuse_metric(text, &meant, strstr(meant.series, "logit") ? "max" : "", error);
  if (colon && strchr(colon + 1, ':') && !metric_read(&meant, text, &none))
    return refuse_metric(text, &meant, strrchr(text, ':') + 1, error);
  *m = (struct metric){.window = WINDOW_STEPS, .last = INFINITY};
  snprintf(m->name, sizeof m->name, "%s", text);
  snprintf(part, sizeof part, "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text);
  if (read_series(m, part, "", error)) return STATUS_USAGE;
  m->reduction = strstr(m->series, "logit") ? TAKE_MAX : TAKE_MEAN;
  if (colon && read_reduction(m, colon + 1, NULL)) {
    const char *last = colon + 1 + (strncmp(colon + 1, "last", 4) ? 0 : 4);
    return error_set(error, STATUS_USAGE,
                     "series %s: the reduction is %s; mean, max, min, median or over=NUMBER is wanted%s",
                     text, colon + 1,
                     last > colon + 1 ? " (all steps are drawn; a window is for metrics)" : "");
  }
  if (metric_is_time(m) || m->reduction == TAKE_SLOPE)
    return error_set(error, STATUS_USAGE,
                     "series %s: %s is of a whole run; mean, max, min, median or over=NUMBER is wanted", text,
                     colon + 1);
  return STATUS_OK;
}

static const char *const statistics[] = {
  [TAKE_MEAN] = "mean", [TAKE_MAX] = "max", [TAKE_MIN] = "min", [TAKE_MEDIAN] = "median"};

/* "L1H2" of the one head l1h2; other names as they are. */
static void one_place(const struct metric *m, char *out, size_t room)
{
  snprintf(out, room, "%s", m->glob);
  if (m->shape == PER_TENSOR) return;
  for (; *out; out++) *out = (char)toupper((unsigned char)*out);
}

void curve_title(const struct metric *m, char *out, size_t room)
{
  static const char *const of[] = {
    [PER_HEAD] = "heads", [PER_EXPERT] = "experts", [PER_LAYER] = "layers", [PER_TENSOR] = "tensors"};
  const char *places = (size_t)m->shape < sizeof of / sizeof *of && of[m->shape] ? of[m->shape] : "values";
  char level[32], place[sizeof m->glob];
  one_place(m, place, sizeof place);
  if (m->reduction == TAKE_OVER)
    snprintf(out, room, "share of %s%s%s above %s", m->label, *m->glob ? " " : "", m->glob,
             table_number(m->level, level));
  else if (*m->glob && !strpbrk(m->glob, "*?["))
    snprintf(out, room, "%s, %s", m->label, place);
  else if (m->shape == PER_STEP)
    snprintf(out, room, "%s", m->label);
  else
    snprintf(out, room, "%s, %s over %s%s%s", m->label, statistics[m->reduction], places, *m->glob ? " " : "",
             m->glob);
}

/* "all steps", "the last 3 recorded steps" */
static void window_words(const struct metric *m, char *out, size_t room)
{
  if (m->window == WINDOW_ROWS)
    snprintf(out, room, "the last %g recorded steps", m->first);
  else if (m->window == WINDOW_SHARE)
    snprintf(out, room, "the last %g %% of the steps", m->first);
  else if (isinf(m->last))
    snprintf(out, room, "all steps");
  else if (m->first == m->last)
    snprintf(out, room, "step %g", m->first);
  else
    snprintf(out, room, "steps %g to %g", m->first, m->last);
}

void metric_title(const struct metric *m, char *out, size_t room)
{
  const struct metric_name *known = metric_names;
  struct metric whole = *m;
  char window[64];
  while (known->name && strcmp(known->name, m->name) != 0 && strcmp(known->metric, m->name) != 0) known++;
  if (known->name || !*m->label || metric_is_time(m) || m->reduction == TAKE_SLOPE ||
      m->reduction == TAKE_OVER) {
    snprintf(out, room, "%s", known->name ? known->title : m->name);
    return;
  }
  if (m->reduction == TAKE_DEFAULT) whole.reduction = TAKE_MEAN;
  if (m->window != WINDOW_ROWS || m->first > 1) {
    window_words(m, window, sizeof window);
    snprintf(out, room, "%s%s%s, %s over %s", m->label, *m->glob ? " " : "", m->glob,
             statistics[whole.reduction], window);
    return;
  }
  curve_title(&whole, out, room);
  const size_t length = strlen(out);
  snprintf(out + length, room - length, ", last step");
}

int metric_is_logit(const struct metric *m)
{
  return strstr(m->series, "logit") && m->reduction != TAKE_SLOPE && m->reduction != TAKE_OVER &&
         !metric_is_time(m);
}

int metric_suits_log(const struct metric *m)
{
  static const char *const words[] = {"logit", "norm", "bound", "loss", NULL};
  if (metric_is_share(m) || m->reduction == TAKE_SLOPE) return 0;
  for (const char *const *word = words; *word; word++)
    if (strstr(m->series, *word)) return 1;
  return metric_is_time(m) || !strcmp(m->series, "lr");
}

int metric_is_share(const struct metric *m)
{
  static const char *const shares[] = {"svd_entropy", "share_above", "value_share", "bound_share",
                                       "moe/moved",   "moe/load",    "sink/mass",   NULL};
  if (m->reduction == TAKE_OVER) return 1;
  if (m->reduction == TAKE_SLOPE || metric_is_time(m)) return 0;
  size_t length = strlen(m->series);
  for (const char *const *share = shares; *share; share++)
    if (length >= strlen(*share) && !strcmp(m->series + length - strlen(*share), *share)) return 1;
  return 0;
}

int metric_is_time(const struct metric *m)
{
  return m->reduction == TAKE_ABOVE || m->reduction == TAKE_BELOW;
}

int metric_counts(const struct metric *m, const struct run *run, const struct measured *v)
{
  return v->has && (metric_is_time(m) || !run_has_failed(run));
}

int metrics_of(struct metric *m, int metrics, const struct runset *set, struct measured **out,
               struct error *error)
{
  struct measured *all = memory_new((size_t)set->runs * (size_t)metrics + 1, sizeof *all);
  int status = STATUS_OK;
  for (int i = 0; i < set->runs && !status; i++) {
    for (int k = 0; k < metrics && !status; k++)
      status = metric_of(&m[k], &set->run[i], &all[i * metrics + k], error);
    run_rest(set->run[i].file);
  }
  for (int k = 0; k < metrics && !status; k++) {
    struct run_series s;
    int some = !*m[k].series || m[k].may_lack;
    for (int i = 0; i < set->runs && !some; i++) some = run_rows(set->run[i].file, m[k].series) > 0;
    if (some) continue;
    const char *near = strchr(m[k].name, ':') ? NULL : metric_near(m[k].name);
    status = run_read(set->run->file, m[k].series, &s, error); /* its message names the nearest series */
    if (status && near && strcmp(near, m[k].name) && !strstr(error->text, "did you mean")) {
      char said[sizeof error->text];
      memcpy(said, error->text, sizeof said);
      *error = (struct error){0};
      error_set(error, status, "%.1900s; did you mean %s?", said, near);
    }
    if (!status) {
      run_series_free(&s);
      status = error_set(error, STATUS_USAGE, "%s: no row of %s", set->run->path, m[k].series);
    }
    error_prefix(error, "metric %s", m[k].name);
  }
  if (status)
    memory_free(all);
  else
    *out = all;
  return status;
}

int metrics_have_one_unit(const struct metric *m, int metrics, const struct runset *sets,
                          struct measured *const *values, int count, struct error *error)
{
  for (int k = 0; k < metrics; k++) {
    struct one_unit seen = {0};
    for (int i = 0; i < count; i++)
      for (int r = 0; r < sets[i].runs; r++)
        if (one_unit_add(&seen, m[k].series, &sets[i].run[r], values[i][r * metrics + k].unit, error))
          return error->status;
  }
  return STATUS_OK;
}
