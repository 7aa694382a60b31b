#include "app/runs_page.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>
#include "analysis/json.h"
#include "analysis/share.h"
#include "app/summary.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/markup.h"
#include "base/memory.h"
#include "base/number.h"
#include "storage/layout.h"
#include "storage/live_rows.h"

enum { CURVE_BINS = 512, HEAD_BINS = 128 };      /* at most, over the steps of a run */
enum { SERIES_MOST = 4096, HEADS_MOST = 65536 }; /* of a page; values of a row that it has one by one */
/* of all heads, at most: values of a series, bytes of a run */
enum { HEAD_VALUES = 1 << 20, HEAD_BYTES = 64 << 20 };
enum { MOST_T = 33 }; /* Student's t for so many values at most */
enum part { PART_MAX, PART_MIN, PART_MEAN, PART_HEADS, PARTS };
static const char *const part_names[PARTS] = {"max", "min", "mean", "heads"};

/* The facts of a run, kept while its files are unchanged. */
struct page_series {
  char *path;
  char key[17];
  uint64_t stamp; /* of the run file and the journal */
  struct live_rows live;
  int has_live, is_written; /* is_written: there is a writer */
  int waits;                /* to be read for the first time */
  int blew_up;
  char **part; /* [series * PARTS]: their files as sent; NULL: not yet */
  int parts;
  size_t head_bytes; /* of all PART_HEADS */
  int lacks_heads;   /* a map of heads is too large */
  char *events;
  double loss, val, start; /* start: seconds since 1970 */
  struct place peak, last;
};
struct about { /* a series of some run */
  char name[SERIES_NAME], unit[32], long_name[128];
  long width;
};
struct runs_page {
  const struct selection *selection;
  int live, bare;
  struct runset set;
  struct page_series *seen; /* [set.runs] in the set's order */
  int runs;
  struct about *series; /* those that are gone stay, so that numbers do */
  int names, lacks_series;
};

struct runs_page *runs_page_new(const struct selection *selection, enum runs_page_kind kind)
{
  struct runs_page *p = memory_new(1, sizeof *p);
  p->selection = selection, p->live = kind == RUNS_PAGE_LIVE, p->bare = kind == RUNS_PAGE_BARE;
  return p;
}

static void seen_clear(struct page_series *s)
{
  for (int i = 0; i < s->parts; i++) memory_free(s->part[i]);
  memory_free(s->part);
  memory_free(s->events);
  s->part = NULL, s->events = NULL, s->parts = 0, s->head_bytes = 0;
}

static void seen_free(struct page_series *s)
{
  seen_clear(s);
  if (s->has_live) live_end(&s->live);
  memory_free(s->path);
}

void runs_page_free(struct runs_page *p)
{
  for (int i = 0; i < p->runs; i++) seen_free(&p->seen[i]);
  runset_close(&p->set);
  memory_free(p->seen);
  memory_free(p->series);
  memory_free(p);
}

int runs_page_runs(const struct runs_page *p) { return p->runs; }
int runs_page_damage(const struct runs_page *p) { return runset_damage(&p->set); }

static int is_running(const struct run *run) { return !strcmp(run_state(run->file), "running"); }

/* --- numbers ------------------------------------------------------------------------------------------- */

/* As JavaScript has them. */
static void add_number(struct buffer *b, const char *before, double x)
{
  if (isfinite(x))
    buffer_add(b, "%s%.6g", before, x);
  else
    buffer_add(b, "%s%s", before, isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity");
}

static void add_step(struct buffer *b, const char *before, double step)
{
  buffer_add(b, "%s%.0f", before, step);
}

static long last_step_of(const struct page_series *s, const struct run *run)
{
  long last = run_last_step(run->file);
  if (s->has_live && s->live.rows) last = whole_step(s->live.value[LIVE_STEP][s->live.rows - 1]) + 1;
  return last;
}

static long total_of(const struct page_series *s, const struct run *run)
{
  long last = last_step_of(s, run), planned = whole_step(run_number(run, "train.steps", 0));
  return planned > last ? planned : last;
}

/* Steps of an interval: a power of two, so that runs of other lengths share their limits. */
static long width_of(long steps, long bins)
{
  long width = 1;
  while ((steps - 1) / bins >= width) width *= 2;
  return width;
}

static long bin_of(const struct page_series *s, const struct run *run, long bins)
{
  return width_of(total_of(s, run), bins);
}

/* One number of a row. A NaN stays one. */
static double reduce(const double *x, long n, enum part part)
{
  double out = missing_value();
  long known = 0;
  for (long i = 0; i < n; i++) {
    if (is_missing(x[i])) continue;
    if (isnan(x[i])) return NAN;
    out = !known++            ? x[i]
          : part == PART_MEAN ? out + x[i]
          : part == PART_MIN  ? fmin(out, x[i])
                              : fmax(out, x[i]);
  }
  return part == PART_MEAN && known ? out / (double)known : out;
}

/* Live rows behind those of the run file, as one column. */
static void add_live(struct table *t, const struct live_rows *l, const char *series, enum part part)
{
  int field = !strcmp(series, "loss") ? LIVE_LOSS : !strcmp(series, "val_loss") ? LIVE_VAL_LOSS : -1;
  if (!strcmp(series, "attn/max_logit") && part == PART_MAX) field = LIVE_MAX_LOGIT;
  if (field < 0) return;
  long rows = t->rows;
  t->step = memory_grow(t->step, (size_t)rows, (size_t)(rows + l->rows) + 1, sizeof *t->step);
  t->value = memory_grow(t->value, (size_t)rows, (size_t)(rows + l->rows) + 1, sizeof *t->value);
  for (long i = 0; i < l->rows; i++) {
    double step = l->value[LIVE_STEP][i], x = l->value[field][i];
    if ((rows && step <= t->step[rows - 1]) || (field == LIVE_VAL_LOSS && isnan(x))) continue;
    t->step[t->rows] = step, t->value[t->rows++] = x;
  }
}

/* {w: steps of an interval, s: steps, m: means, l: smallest, h: largest}; l and h where they differ from m. */
static char *curve_text(const struct table *t, long width)
{
  struct buffer step = {0}, mean = {0}, low = {0}, high = {0}, out = {0};
  int thinned = 0;
  for (long first = 0, end; first < t->rows; first = end) {
    double bin = floor(t->step[first] / (double)width);
    for (end = first + 1; end < t->rows && floor(t->step[end] / (double)width) == bin;) end++;
    const char *comma = first ? "," : "";
    add_step(&step, comma, end - first > 1 ? bin * (double)width : t->step[first]);
    add_number(&mean, comma, reduce(t->value + first, end - first, PART_MEAN));
    add_number(&low, comma, reduce(t->value + first, end - first, PART_MIN));
    add_number(&high, comma, reduce(t->value + first, end - first, PART_MAX));
    thinned |= end - first > 1;
  }
  buffer_add(&out, "{w:%ld,s:[%s],m:[%s]", width, step.text ? step.text : "", mean.text ? mean.text : "");
  if (thinned) buffer_add(&out, ",l:[%s],h:[%s]", low.text, high.text);
  buffer_add(&out, "}");
  memory_free(step.text), memory_free(mean.text), memory_free(low.text), memory_free(high.text);
  return out.text;
}

struct window {
  long first, last; /* steps, both within */
};

static long window_width(const struct window *w) { return width_of(w->last - w->first + 1, CURVE_BINS); }

/* Of a window, whole intervals that have a step in it; NULL: of all steps. */
static char *tell_curve(const struct page_series *s, const struct run *run, const struct run_series *x,
                        enum part part, const struct window *window)
{
  struct table t;
  long width = window ? window_width(window) : bin_of(s, run, CURVE_BINS), rows = 0;
  table_new(&t, x->rows, 1);
  for (long r = 0; r < x->rows; r++) {
    t.step[r] = x->step[r];
    t.value[r] = reduce(x->value + r * x->width, x->width, part);
  }
  if (s->has_live) add_live(&t, &s->live, x->name, part);
  for (long r = 0; window && r < t.rows; r++) {
    double bin = floor(t.step[r] / (double)width) * (double)width;
    if (bin + (double)width <= (double)window->first || bin > (double)window->last) continue;
    t.step[rows] = t.step[r], t.value[rows++] = t.value[r];
  }
  if (window) t.rows = rows;
  char *text = curve_text(&t, width);
  table_free(&t);
  return text;
}

/* {w, s, n: names, v: a list a name, of the largest of each interval} */
static char *tell_heads(const struct page_series *s, const struct run *run, const struct run_series *x)
{
  struct buffer out = {0};
  const long intervals = x->width > HEAD_VALUES / HEAD_BINS ? HEAD_VALUES / x->width : HEAD_BINS;
  long width = bin_of(s, run, intervals), bins = 0, *first = memory_new((size_t)x->rows + 1, sizeof *first);
  for (long r = 0; r < x->rows; r++)
    if (!r || floor(x->step[r] / (double)width) != floor(x->step[r - 1] / (double)width)) first[bins++] = r;
  first[bins] = x->rows;
  buffer_add(&out, "{w:%ld,s:[", width);
  for (long b = 0; b < bins; b++) add_step(&out, b ? "," : "", x->step[first[b]]);
  buffer_add(&out, "],n:");
  json_t *names = json_array();
  for (long i = 0; i < x->width; i++) {
    char name[96];
    series_value_name(x, i, name, sizeof name);
    json_array_append_new(names, json_text(name));
  }
  char *text = json_line(names);
  buffer_add(&out, "%s,v:[", text);
  memory_free(text);
  json_decref(names);
  for (long i = 0; i < x->width; i++) {
    buffer_add(&out, "%s[", i ? "," : "");
    for (long b = 0; b < bins; b++) {
      double most = x->value[first[b] * x->width + i];
      for (long r = first[b] + 1; r < first[b + 1]; r++) most = max_known(most, x->value[r * x->width + i]);
      add_number(&out, b ? "," : "", most);
    }
    buffer_add(&out, "]");
  }
  buffer_add(&out, "]}");
  memory_free(first);
  return out.text;
}

/* [[step, kind, how many, layer, head, value], ...]: of a kind and an interval one, the largest. */
static char *tell_events(const struct page_series *s, const struct run *run)
{
  enum { KINDS = 64 };
  struct run_event *event;
  struct last {
    char kind[24];
    double bin;
    long count;
    struct run_event event;
  } *last = memory_new(KINDS, sizeof *last);
  struct buffer out = {0};
  long count = 0, width = bin_of(s, run, CURVE_BINS);
  int kinds = 0, k;
  if (run_events(run->file, &event, &count, NULL)) event = NULL, count = 0;
  buffer_add(&out, "[");
  for (long i = 0; i <= count; i++) {
    for (k = 0; i < count && k < kinds && strcmp(last[k].kind, event[i].kind);) k++;
    if (i < count && k == KINDS) continue;
    for (int j = i < count ? k : 0; j < (i < count ? k + 1 : kinds); j++) { /* at the end all that wait */
      double bin = i < count ? floor((double)event[i].step / (double)width) : NAN;
      if (j == kinds && i < count) {
        kinds++;
        text_fill(last[j].kind, sizeof last[j].kind, event[i].kind);
        last[j].bin = NAN;
      }
      struct last *l = &last[j];
      if (l->count && l->bin != bin) {
        json_t *name = json_text(l->kind);
        char *text = json_line(name);
        buffer_add(&out, "%s[%ld,%s,%ld,%d,%d,", out.length > 1 ? "," : "", l->event.step, text, l->count,
                   l->event.layer, l->event.head);
        add_number(&out, "", l->event.value);
        buffer_add(&out, "]");
        memory_free(text);
        json_decref(name);
        l->count = 0;
      }
      if (i == count) continue;
      if (!l->count || event[i].value > l->event.value) l->event = event[i];
      l->bin = bin, l->count++;
    }
  }
  buffer_add(&out, "]");
  memory_free(event);
  memory_free(last);
  return out.text;
}

/* Where a part is kept. */
static char **slot_of(const struct runs_page *p, struct page_series *s, int series, enum part part)
{
  if (s->parts < p->names * PARTS) {
    s->part = memory_grow(s->part, (size_t)s->parts, (size_t)(p->names * PARTS), sizeof *s->part);
    s->parts = p->names * PARTS;
  }
  return &s->part[series * PARTS + (int)part];
}

/* NULL: the run has no such series. For memory_free. */
static char *make_part(const struct runs_page *p, const struct page_series *s, const struct run *run,
                       int series, enum part part, const struct window *window)
{
  struct run_series x;
  if (run_rows(run->file, p->series[series].name) + (s->has_live ? s->live.rows : 0) == 0 ||
      run_read(run->file, p->series[series].name, &x, NULL))
    return NULL;
  char *text = part != PART_HEADS      ? tell_curve(s, run, &x, part, window)
               : x.width <= HEADS_MOST ? tell_heads(s, run, &x)
                                       : NULL;
  run_series_free(&x);
  return text;
}

/* Made where it is not yet. */
static const char *part_of(const struct runs_page *p, struct page_series *s, const struct run *run,
                           int series, enum part part)
{
  char **text = slot_of(p, s, series, part);
  if (*text) return *text;
  if (part != PART_HEADS || s->head_bytes <= HEAD_BYTES) *text = make_part(p, s, run, series, part, NULL);
  if (!*text && part == PART_HEADS && run_rows(run->file, p->series[series].name) && !s->lacks_heads++)
    warning("%s: no map of heads of %s on the page: it has too many values; maxlogit export has them",
            run->path, p->series[series].name);
  if (part == PART_HEADS && *text) s->head_bytes += strlen(*text);
  return *text;
}

/* --- looking ------------------------------------------------------------------------------------------- */

static uint64_t stamp_of(const char *path)
{
  char journal[4096];
  run_sibling(journal, path, ".journal");
  const struct file_stamp stamps[] = {file_stamp(path), file_stamp(journal)};
  return XXH3_64bits(stamps, sizeof stamps);
}

static double seconds_of(const char *iso8601)
{
  struct tm t = {0};
  int n = sscanf(iso8601, "%4d-%2d-%2dT%2d:%2d:%2d", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour, &t.tm_min,
                 &t.tm_sec);
  t.tm_year -= 1900, t.tm_mon -= 1;
  return n == 6 ? (double)timegm(&t) : NAN;
}

/* The numbers of the table and of the first curves. The caller calls run_rest. */
static void summarise(const struct runs_page *p, struct page_series *s, const struct run *run)
{
  struct run_series logits = {.rows = 0};
  summary_last(run->file, "loss", &s->loss);
  s->blew_up = run_blew_up(run->file);
  summary_last(run->file, "val_loss", &s->val);
  int status = run_read(run->file, "attn/max_logit", &logits, NULL);
  summary_places_of(&logits, &s->peak, &s->last);
  s->start = seconds_of(run_date(run->file));
  for (int i = 0; i < p->names && logits.rows; i++)
    if (!strcmp(p->series[i].name, logits.name))
      *slot_of(p, s, i, PART_MAX) = tell_curve(s, run, &logits, PART_MAX, NULL);
  if (!status) run_series_free(&logits);
  if (!s->has_live || !s->live.rows) return;
  const struct live_rows *l = &s->live;
  long end = l->rows - 1;
  s->loss = l->value[LIVE_LOSS][end];
  for (long i = 0; i <= end; i++) {
    double x = l->value[LIVE_MAX_LOGIT][i];
    const int layer = (int)l->value[LIVE_LAYER][i],
              has = !isnan(x) || layer >= 0; /* a NaN of a run has a layer */
    struct place now = {x, has ? l->value[LIVE_STEP][i] : NAN, layer, (int)l->value[LIVE_HEAD][i]};
    if (!isnan(l->value[LIVE_VAL_LOSS][i])) s->val = l->value[LIVE_VAL_LOSS][i];
    if (!isnan(s->peak.value) && !(x <= s->peak.value)) s->peak = now;
    if (isnan(s->peak.step)) s->peak = now;
    s->last = now;
  }
}

static void add_series(struct runs_page *p, const struct run *run, const char *name)
{
  struct run_series s;
  for (int i = 0; i < p->names; i++)
    if (!strcmp(p->series[i].name, name)) return;
  if (p->names == SERIES_MOST) {
    if (!p->lacks_series++)
      warning("%s: a page has %d series: without %s and others; maxlogit export has them", run->path,
              SERIES_MOST, name);
    return;
  }
  if (run_describe(run->file, name, &s, NULL)) return;
  p->series = memory_grow(p->series, (size_t)p->names, (size_t)p->names + 1, sizeof *p->series);
  struct about *a = &p->series[p->names++];
  *a = (struct about){.width = s.width};
  text_fill(a->name, sizeof a->name, name);
  text_fill(a->unit, sizeof a->unit, text_unit(s.unit));
  text_fill(a->long_name, sizeof a->long_name, s.long_name);
  run_series_free(&s);
}

struct adding {
  struct runs_page *page;
  const struct run *run;
};

static int take_name(void *context, const char *name)
{
  struct adding *a = context;
  add_series(a->page, a->run, name);
  return 0;
}

static void look_at(struct runs_page *p, struct page_series *s, const struct run *run)
{
  struct adding a = {p, run};
  long from;
  seen_clear(s);
  if (is_running(run)) {
    if (!s->has_live) live_begin(&s->live, run->path);
    s->has_live = 1;
    live_news(&s->live, &from);
  } else if (s->has_live) { /* it has ended: all is in the file */
    live_end(&s->live);
    s->has_live = 0;
  }
  run_series_names(run->file, take_name, &a);
  summarise(p, s, run);
  run_rest(run->file);
}

/* The facts known before a run is read. */
static void wait_for(struct page_series *s)
{
  s->waits = 1, s->blew_up = 0;
  s->loss = s->val = NAN;
  s->peak = s->last = (struct place){NAN, NAN, -1, -1};
}

static int is_written(const struct page_series *s, const struct run *run)
{
  return s->has_live && is_running(run) && !live_is_over(&s->live);
}

int runs_page_read(struct runs_page *p)
{
  int i = 0, left = 0;
  while (i < p->runs && !p->seen[i].waits) i++;
  if (i == p->runs) return 0;
  struct page_series *s = &p->seen[i];
  s->stamp = stamp_of(s->path);
  look_at(p, s, &p->set.run[i]);
  s->is_written = is_written(s, &p->set.run[i]);
  s->waits = 0;
  while (++i < p->runs) left += p->seen[i].waits;
  return left;
}

static struct page_series *seen_before(struct page_series *seen, int runs, const char *path)
{
  for (int i = 0; i < runs; i++)
    if (seen[i].path && !strcmp(seen[i].path, path)) return &seen[i];
  return NULL;
}

int runs_page_look(struct runs_page *p, struct error *error)
{
  struct runset set;
  int status = runset_select(
    &set, p->selection, RUNSET_FIRST | (p->bare ? RUNSET_BARE : 0) | (p->live ? 0 : RUNSET_MEANS), error);
  if (status) return status;
  if (set.copies > p->set.copies)
    warning("left out of the page: %s%s", set.copy, set.copies > 1 ? ", and others" : "");
  struct page_series *seen = memory_new((size_t)set.runs + 1, sizeof *seen);
  for (int i = 0; i < set.runs; i++) {
    struct page_series *old = seen_before(p->seen, p->runs, set.run[i].path), *s = &seen[i];
    uint64_t stamp = stamp_of(set.run[i].path);
    if (old) {
      *s = *old;
      *old = (struct page_series){0};
    } else {
      s->path = memory_text(set.run[i].path);
      snprintf(s->key, sizeof s->key, "%016" PRIx64,
               p->bare ? (uint64_t)i : XXH3_64bits(s->path, strlen(s->path)));
    }
    if (!old && p->live) wait_for(s);
    if (s->waits) continue;
    if (!old || s->stamp != stamp) look_at(p, s, &set.run[i]);
    s->stamp = stamp;
    s->is_written = is_written(s, &set.run[i]);
  }
  for (int i = 0; i < p->runs; i++) seen_free(&p->seen[i]);
  memory_free(p->seen);
  runset_close(&p->set);
  p->set = set, p->seen = seen, p->runs = set.runs;
  return STATUS_OK;
}

void runs_page_all(struct runs_page *p)
{
  for (int r = 0; r < p->runs; r++) {
    for (int i = 0; i < p->names; i++)
      for (enum part part = 0; part < PARTS; part++)
        if (!part || p->series[i].width > 1) part_of(p, &p->seen[r], &p->set.run[r], i, part);
    run_rest(p->set.run[r].file);
  }
}

/* --- data sent to the page ------------------------------------------------------------------------------ */

/* Seconds of a step, as a mean; NaN: not known. */
static double seconds_a_step(const struct page_series *s, const struct run *run)
{
  long done = run_last_step(run->file), now = last_step_of(s, run);
  double a_step = done > 0 ? run_wall_seconds(run->file) / (double)done : NAN;
  if (!(a_step > 0) && s->is_written && now > 0) /* no snapshot yet */
    a_step = ((double)time(NULL) - s->start) / (double)now;
  return a_step > 0 ? a_step : NAN;
}

/* Seconds until the planned end; NaN: not known. */
static double time_left(const struct page_series *s, const struct run *run)
{
  long now = last_step_of(s, run);
  return s->is_written && now > 0 ? seconds_a_step(s, run) * (double)(total_of(s, run) - now) : NAN;
}

/* A path, or a value that may be one: without its folders on a bare page. */
static json_t *path_json(const struct runs_page *p, const char *text)
{
  return json_text(p->bare ? text_file_name(text) : text);
}

struct own {
  const struct runs_page *page;
  json_t *to, *common;
};

static int take_own(void *context, const char *key, const char *value)
{
  struct own *o = context;
  if (!json_object_get(o->common, key)) json_object_set_new(o->to, key, path_json(o->page, value));
  return 0;
}

struct shared {
  const struct runs_page *page;
  json_t *to;
};

static int take_common(void *context, const char *key, const char *value)
{
  struct shared *c = context;
  for (int i = 1; i < c->page->set.runs; i++) {
    const char *other = run_parameter(c->page->set.run[i].file, key);
    if (!other || strcmp(other, value)) return 0;
  }
  json_object_set_new(c->to, key, path_json(c->page, value));
  return 0;
}

static json_t *run_json(const struct runs_page *p, int r, const char *group, json_t *common)
{
  const struct run *run = &p->set.run[r];
  const struct page_series *s = &p->seen[r];
  char stamp[17] = "";
  struct own own = {p, json_object(), common};
  double left = time_left(s, run), a_step = p->bare ? NAN : seconds_a_step(s, run), tau = run_threshold(run);
  int unfinished = is_running(run) && !s->is_written && !s->waits;
  if (!s->waits) snprintf(stamp, sizeof stamp, "%016" PRIx64, p->bare ? 0 : s->stamp);
  run_parameters(run->file, take_own, &own);
  return json_pack(
    "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "key",
    s->key, "stamp", stamp, "path", path_json(p, run->path), "id", json_text(run_id(run->file)), "group",
    json_text(group), "kind", json_text(run->kind), "seed", json_number((double)run->seed), "date",
    json_text(p->bare ? "" : run_date(run->file)), "state",
    json_text(unfinished   ? "killed"
              : s->blew_up ? run_shown_state(run->file)
                           : run_state(run->file)),
    "step", (json_int_t)last_step_of(s, run), "steps", (json_int_t)total_of(s, run), "left",
    json_known(!isnan(left), left), "seconds_per_step", json_known(!isnan(a_step), a_step), "loss",
    json_known(!s->waits, s->loss), "val", json_known(!s->waits, s->val), "peak",
    summary_place_json(&s->peak), "last", summary_place_json(&s->last), "tau", json_known(!isnan(tau), tau),
    "own", own.to);
}

/* "file" is the N of the files that have its numbers. */
static json_t *series_json(const struct runs_page *p, int i)
{
  const struct about *a = &p->series[i];
  return json_pack("{s:o, s:o, s:o, s:b, s:i}", "name", json_text(a->name), "unit", json_text(a->unit),
                   "about", json_text(a->long_name), "heads", a->width > 1, "file", i);
}

/* The options that chose the runs, as words of a command. */
static void add_selection(const struct runs_page *p, json_t *words)
{
  for (int i = 0; i < p->set.runs && p->bare; i++)
    json_array_append_new(words, path_json(p, p->set.run[i].path));
  if (p->bare) return;
  for (int i = 0; i < p->selection->paths; i++)
    json_array_append_new(words, json_text(p->selection->path[i]));
  for (int i = 0; i < p->selection->wheres; i++) {
    json_array_append_new(words, json_string("--where"));
    json_array_append_new(words, json_text(p->selection->where[i]));
  }
  if (p->selection->last) { /* the page then names the runs itself */
    char last[32];
    snprintf(last, sizeof last, "%ld", (long)p->selection->last);
    json_array_append_new(words, json_string("--last"));
    json_array_append_new(words, json_text(last));
  }
}

static char *tell_index(const struct runs_page *p)
{
  json_t *all = json_object(), *series = json_array(), *runs = json_array(), *words = json_array(),
         *t = json_array(), *common = json_object();
  struct shared shared = {p, common};
  struct buffer out = {0};
  char now[32];
  if (p->set.runs) run_parameters(p->set.run[0].file, take_common, &shared);
  for (int i = 0; i < p->names; i++) json_array_append_new(series, series_json(p, i));
  for (int g = 0; g < p->set.groups; g++)
    for (int i = 0; i < p->set.group[g].count; i++)
      json_array_append_new(
        runs, run_json(p, (int)(p->set.group[g].run + i - p->set.run), p->set.group[g].label, common));
  add_selection(p, words);
  for (int n = 2; n <= MOST_T; n++) { /* of {1, 0, 0, ...} the standard error is 1 / n */
    double x[MOST_T] = {1};
    struct interval v = interval_of(x, n, 0);
    json_array_append_new(t, json_real((v.hi - v.mean) * n));
  }
  clock_iso8601(now);
  json_object_set_new(all, "play", json_boolean(share_has("play.html")));
  json_object_set_new(all, "live", json_boolean(p->live));
  json_object_set_new(all, "made", json_string(p->bare ? "" : now));
  json_object_set_new(all, "words", words);
  json_object_set_new(all, "t", t);
  json_object_set_new(all, "series", series);
  json_object_set_new(all, "common", common);
  json_object_set_new(all, "runs", runs);
  char *text = json_line(all);
  buffer_add(&out, "take(\"index\",%s)\n", text);
  memory_free(text);
  json_decref(all);
  return out.text;
}

/* Is the key among those, with commas between? */
static int is_wanted(const char *runs, const char *key)
{
  return !runs || strstr(runs, key) != NULL; /* keys are of one length */
}

/* take("FILE",{KEY:...,KEY:...}); series < 0: the events. */
static char *tell_numbers(struct runs_page *p, int series, enum part part, const char *runs,
                          const struct window *window)
{
  struct buffer out = {0};
  const char *comma = "";
  if (series < 0)
    buffer_add(&out, "take(\"events\",{");
  else if (window)
    buffer_add(&out, "take(\"%d.%s@%ld-%ld\",{", series, part_names[part], window->first, window->last);
  else
    buffer_add(&out, "take(\"%d.%s\",{", series, part_names[part]);
  for (int r = 0; r < p->runs; r++) {
    struct page_series *s = &p->seen[r];
    if (s->waits || !is_wanted(runs, s->key)) continue;
    if (series < 0 && !s->events) s->events = tell_events(s, &p->set.run[r]);
    char *fine = window ? make_part(p, s, &p->set.run[r], series, part, window) : NULL;
    const char *text = series < 0 ? s->events : window ? fine : part_of(p, s, &p->set.run[r], series, part);
    run_rest(p->set.run[r].file);
    if (text) {
      buffer_add(&out, "%s\n\"%s\":", comma, s->key);
      buffer_add(&out, "%s", text);
      comma = ",";
    }
    memory_free(fine);
  }
  buffer_add(&out, "})\n");
  return out.text;
}

/* --- files --------------------------------------------------------------------------------------------- */

static const struct fixed {
  const char *name, *type;
} fixed[] = {{"index.html", "text/html; charset=utf-8"},    {"draw.js", "text/javascript; charset=utf-8"},
             {"save.js", "text/javascript; charset=utf-8"}, {"runs.js", "text/javascript; charset=utf-8"},
             {"runs.css", "text/css; charset=utf-8"},       {"style.css", "text/css; charset=utf-8"},
             {"play.html", "text/html; charset=utf-8"},     {NULL, NULL}};

/* The page that trains is there only where it was built. */
static int is_there(const struct fixed *f) { return strcmp(f->name, "play.html") || share_has(f->name); }

int runs_page_may_replace(const char *folder, struct error *error)
{
  enum { FIXED = sizeof fixed / sizeof *fixed };
  const char *names[FIXED + 1] = {"data/index.js"}; /* which is always in the folder of the series */
  for (int i = 0; i < FIXED; i++) names[i + 1] = fixed[i].name;
  return page_may_replace(folder, "maxlogit: runs", names, error);
}

/* "data/12.max.js" */
static int read_name(const struct runs_page *p, const char *name, int *series, enum part *part)
{
  char again[64];
  *series = -1;
  if (sscanf(name, "data/%d.", series) != 1 || *series < 0 || *series >= p->names) return 0;
  for (*part = 0; *part < PARTS; ++*part) {
    snprintf(again, sizeof again, "data/%d.%s.js", *series, part_names[*part]);
    if (!strcmp(name, again)) return 1;
  }
  return 0;
}

/* "2048-4095", as it would be written again */
static int read_window(const char *text, struct window *w)
{
  char again[64];
  if (strlen(text) > 40 || sscanf(text, "%18ld-%18ld", &w->first, &w->last) != 2) return 0;
  snprintf(again, sizeof again, "%ld-%ld", w->first, w->last);
  return !strcmp(text, again) && w->first >= 0 && w->first <= w->last;
}

int runs_page_file(struct runs_page *p, const char *name, const char *runs, const char *steps, char **text,
                   size_t *length, const char **type, struct error *error)
{
  struct window window;
  int series;
  enum part part;
  for (const struct fixed *f = fixed; f->name; f++)
    if (!strcmp(f->name, name) && is_there(f)) {
      *type = f->type;
      return share_text(f->name, text, length, error);
    }
  *type = fixed[1].type;
  if (!strcmp(name, "data/index.js"))
    *text = tell_index(p);
  else if (!strcmp(name, "data/events.js"))
    *text = tell_numbers(p, -1, PART_MAX, runs, NULL);
  else if (read_name(p, name, &series, &part) &&
           (!steps || (part < PART_HEADS && read_window(steps, &window))))
    *text = tell_numbers(p, series, part, runs, steps ? &window : NULL);
  else
    return error_set(error, STATUS_USAGE, "no such file");
  *length = strlen(*text);
  return STATUS_OK;
}

int runs_page_lacks(const struct runs_page *p, const char *name)
{
  char *end, full[64];
  const long series = strtol(name, &end, 10);
  for (enum part part = 0; part < PARTS; part++) {
    snprintf(full, sizeof full, "%ld.%s.js", series, part_names[part]);
    if (!strcmp(full, name))
      return series >= p->names || (series >= 0 && part && p->series[series].width == 1);
  }
  return 0;
}

int runs_page_names(struct runs_page *p, int (*each)(void *, const char *name), void *context)
{
  char name[64];
  int stop = 0;
  for (const struct fixed *f = fixed; f->name && !stop; f++)
    if (is_there(f)) stop = each(context, f->name);
  if (!stop) stop = each(context, "data/index.js");
  if (!stop) stop = each(context, "data/events.js");
  for (int i = 0; i < p->names; i++)
    for (enum part part = 0; part < PARTS && !stop; part++) {
      if (part && p->series[i].width == 1) continue; /* all the same */
      snprintf(name, sizeof name, "data/%d.%s.js", i, part_names[part]);
      stop = each(context, name);
    }
  return stop;
}
