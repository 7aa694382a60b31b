/* check_runsets.c - sets of run files that are made up: every metric, condition, order, group and pair of them against
   what is worked out here from the same numbers, by the words of their headers; what gnuplot is told, and what is said
   of it */
#include <check.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "analysis/gnuplot.h"
#include "analysis/script_values.h"
#include "analysis/pairs.h"
#include "analysis/share.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/random.h"
#include "../configuration.h"
#include "../folder.h"
#include "storage/recorder.h"

static char folder[FOLDER_PATH];

static void enter_folder(void) { folder_enter(folder); }
static void leave_folder(void) { folder_leave(folder); }

/* --- runs */

enum { LAYERS = 2, HEADS = 2, EXPERTS = 3, TENSORS = 3, MOST_ROWS = 13, MOST_WIDTH = 6 };
enum { LOSS, VAL, LOGIT, LOAD, NORM, BY_LAYER, SERIES };
static const struct series series[SERIES] = {
  {"loss", PER_STEP, AXIS_STEP, "nat", "training loss", "made up", EVENT_NONE},
  {"val_loss", PER_STEP, AXIS_VAL, "nat", "validation loss", "made up", EVENT_NONE},
  {"attn/max_logit", PER_HEAD, AXIS_STEP, "nat", "max logit", "made up", EVENT_NONE},
  {"moe/load", PER_EXPERT, AXIS_STEP, "1", "load", "made up", EVENT_NONE},
  {"weight/spectral_norm", PER_TENSOR, AXIS_SPECTRA, "1", "norm", "made up", EVENT_NONE},
  {"moe/max_vio", PER_LAYER, AXIS_STEP, "%", "violation", "made up", EVENT_NONE}};
static const int width[SERIES] = {1, 1, LAYERS *HEADS, LAYERS *EXPERTS, TENSORS, LAYERS};
static const char *const value_names[SERIES][MOST_WIDTH] = {
  [LOGIT] = {"l0h0", "l0h1", "l1h0", "l1h1"},
  [LOAD] = {"l0e0", "l0e1", "l0e2", "l1e0", "l1e1", "l1e2"},
  [NORM] = {"embed", "w_q", "w_k"},
  [BY_LAYER] = {"l0", "l1"}};

struct made {
  const char *name, *id, *state, *settings; /* settings NULL: of another program */
  long last_step;
  uint64_t data, start;
  int rows[SERIES], clips, spikes;
  double step[SERIES][MOST_ROWS], value[SERIES][MOST_ROWS][MOST_WIDTH];
};

static const char *const tensor_names[TENSORS] = {"embed", "w_q", "w_k"};

static void write_rows(struct recorder *r, const struct made *m, const int *id, enum series_axis axis, int of)
{
  for (int row = 0; row < m->rows[of]; row++) {
    for (int s = 0; s < SERIES; s++) {
      float x[MOST_WIDTH];
      if (series[s].axis != axis) continue;
      for (int i = 0; i < width[s]; i++) x[i] = (float)m->value[s][row][i];
      if (width[s] > 1) recorder_put(r, id[s], x);
      if (width[s] == 1) recorder_put_number(r, id[s], m->value[s][row][0]);
    }
    recorder_row(r, axis, lround(m->step[of][row]));
  }
}

static void write_run(const struct made *m)
{
  const struct run_facts facts = {.id = m->id,
                                  .device = "cpu",
                                  .data = "markov",
                                  .data_text = "made up",
                                  .layers = LAYERS,
                                  .heads = HEADS,
                                  .experts = EXPERTS,
                                  .tensors = TENSORS,
                                  .tensor_names = tensor_names,
                                  .loss_floor = NAN,
                                  .data_content = m->data,
                                  .start_content = m->start};
  struct config *c = m->settings ? configuration("model.layers=2 model.heads=2 %s", m->settings) : NULL;
  struct recorder *r;
  struct error e = {0};
  char path[64];
  int id[SERIES];
  snprintf(path, sizeof path, "%s.h5", m->name);
  ck_assert_msg(!recorder_create(&r, path, 1, c, &facts, &e), "%s", e.text);
  if (!c) recorder_parameter(r, "optimizer", "lion", "", "");
  for (int s = 0; s < SERIES; s++) id[s] = recorder_series(r, &series[s]);
  write_rows(r, m, id, AXIS_STEP, LOSS);
  write_rows(r, m, id, AXIS_VAL, VAL);
  write_rows(r, m, id, AXIS_SPECTRA, NORM);
  for (int i = 0; i < m->clips + m->spikes; i++)
    recorder_event(r, i, i < m->clips ? "clip" : "spike", -1, -1, 1);
  ck_assert_msg(!recorder_snapshot(r, m->state, m->last_step, 1, 1, &e), "%s", e.text);
  recorder_free(r);
  if (c) config_free(c);
}

/* Steps that increase, values of few kinds; of some runs two of three are told by nobody. */
static void fill(struct made *m, uint64_t which, const int rows[3])
{
  const double values[] = {missing_value(), NAN, INFINITY, -INFINITY, -2, 0, 1, 1, 3.5, 4, 5, 0.25, 2, 3};
  const struct draw d = {77, STREAM_TEST, which};
  const uint64_t from = which % 3 == 0 ? 0 : which % 3 == 1 ? 4 : 6; /* hostile; finite; above zero */
  for (int axis = 0; axis < 3; axis++) {
    double step = which % 2 ? -1 : (double)axis;
    for (int row = 0; row < rows[axis]; row++) {
      step += 1 + (double)draw_below(d, (uint64_t)(axis * 50 + row), 3);
      for (int s = 0; s < SERIES; s++) {
        if (series[s].axis != (axis == 0 ? AXIS_STEP : axis == 1 ? AXIS_VAL : AXIS_SPECTRA)) continue;
        m->rows[s] = rows[axis];
        m->step[s][row] = step;
        for (int i = 0; i < width[s]; i++) {
          const uint64_t at = (uint64_t)(1000 * (s + 1) + row * 10 + i);
          const int untold = which % 9 > 5 && draw_below(d, at + 50000, 3);
          m->value[s][row][i] = untold ? missing_value() : values[from + draw_below(d, at, 14 - from)];
        }
      }
    }
  }
}

static void opened(struct runset *set, char *const *path, int paths, unsigned flags)
{
  struct error e = {0};
  ck_assert_msg(!runset_select(set, &(struct selection){.path = path, .paths = paths}, flags, &e), "%s",
                e.text);
}

/* --- metrics */

static const char *const windows[] = {"last",    "last1",    "last2",  "last3",     "last12", "last99",
                                      "last50%", "last100%", "last1%", "last12.5%", "all",    "0-3",
                                      "2-7",     "5-5",      "3-1000", "0-0",       "900-901"};
static const char *const reductions[] = {"",        "mean",      "max",     "min",
                                         "median",  "slope",     "over=1",  "over=-3",
                                         "above=1", "above=1e9", "below=1", "below=-inf"};

static int is_near(double a, double b)
{
  if (is_missing(a) || is_missing(b) || isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  return a == b || fabs(a - b) <= 1e-9 * fabs(b);
}

static int ascending(const void *a, const void *b)
{
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Of values of which none is missing. */
static double reduced(const char *how, const double *values, int n)
{
  double x[MOST_ROWS * MOST_WIDTH], sum = 0, least = INFINITY, most = -INFINITY;
  int nan = 0, over = 0;
  const double level = strchr(how, '=') ? strtod(strchr(how, '=') + 1, NULL) : 0;
  for (int i = 0; i < n; i++) {
    x[i] = values[i];
    sum += x[i], nan |= isnan(x[i]), over += isnan(x[i]) || x[i] > level;
    if (x[i] < least) least = x[i];
    if (x[i] > most) most = x[i];
  }
  if (!strncmp(how, "over", 4)) return (double)over / n;
  if (nan) return NAN;
  if (!strcmp(how, "max")) return most;
  if (!strcmp(how, "min")) return least;
  if (!strcmp(how, "median")) {
    qsort(x, (size_t)n, sizeof *x, ascending);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
  }
  return sum / n;
}

static int in_window(const char *w, const struct made *m, int s, int row)
{
  const double step = m->step[s][row];
  double number = 1, to;
  char percent = 0;
  if (!strcmp(w, "all")) return 1;
  if (!strncmp(w, "last", 4)) {
    sscanf(w + 4, "%lf%c", &number, &percent);
    if (percent) return step >= (100 - number) * (double)m->last_step / 100;
    const int first = m->rows[s] > number ? m->rows[s] - (int)number : 0;
    return row >= first && !(number > 1 && first + 1 < m->rows[s] && row == first && step == 0);
  }
  sscanf(w, "%lf-%lf", &number, &to);
  return step >= number && step <= to;
}

/* What the header says of a metric; its unit. */
static struct measured wanted_of(const struct made *m, int s, const char *glob, const char *w,
                                 const char *how)
{
  struct measured out = {.value = NAN};
  double all[MOST_ROWS * MOST_WIDTH], u[MOST_ROWS], v[MOST_ROWS], last = NAN;
  const double level = strchr(how, '=') ? strtod(strchr(how, '=') + 1, NULL) : 0;
  const int above = !strncmp(how, "above", 5), below = !strncmp(how, "below", 5),
            slopes = !strcmp(how, "slope");
  int n = 0, points = 0;
  for (int row = 0; row < m->rows[s]; row++) {
    double own[MOST_WIDTH];
    int k = 0;
    if (!in_window(w, m, s, row)) continue;
    last = m->step[s][row];
    for (int i = 0; i < width[s]; i++) {
      const double x = m->value[s][row][i];
      if ((*glob && fnmatch(glob, value_names[s][i], 0)) || is_missing(x)) continue;
      all[n++] = own[k++] = x;
      if (out.has || !(above || below) || !(above ? isnan(x) || x > level : x < level)) continue;
      out = (struct measured){1, last, 0};
    }
    if (last > 0 && k) u[points] = log(last), v[points++] = log(reduced("max", own, k));
  }
  if ((above || below) && !out.has && !isnan(last)) out = (struct measured){1, last, 1};
  if (above || below || isnan(last)) return out;
  out.has = 1;
  if (slopes) {
    double mu = 0, mv = 0, uv = 0, uu = 0;
    for (int i = 0; i < points; i++) mu += u[i] / points, mv += v[i] / points;
    for (int i = 0; i < points; i++) uv += (u[i] - mu) * (v[i] - mv), uu += (u[i] - mu) * (u[i] - mu);
    out.value = points > 1 ? uv / uu : NAN;
    for (int i = 0; i < points; i++)
      if (!isfinite(v[i])) out.value = NAN;
  } else if (n)
    out.value = reduced(how, all, n);
  else
    out.has = 0;
  return out;
}

/* Row by row: the largest, or what the metric makes of a row. */
static void check_curve(struct metric *metric, const struct run *run, const struct made *m, int s,
                        const char *glob, const char *how)
{
  struct table t;
  struct error e = {0};
  const char *by = !strncmp(how, "below", 5) ? "min" : !*how || *how == 'a' || *how == 's' ? "max" : how;
  ck_assert_msg(!metric_curve(metric, run, &t, &e), "%s: %s", metric->name, e.text);
  ck_assert_int_eq(t.columns, 1);
  ck_assert_int_eq(t.rows, m->rows[s]);
  for (int row = 0; row < m->rows[s]; row++) {
    double own[MOST_WIDTH];
    int k = 0;
    for (int i = 0; i < width[s]; i++)
      if (!(*glob && fnmatch(glob, value_names[s][i], 0)) && !is_missing(m->value[s][row][i]))
        own[k++] = m->value[s][row][i];
    ck_assert(t.step[row] == m->step[s][row]);
    const double wanted = k ? reduced(by, own, k) : missing_value();
    ck_assert_msg(is_missing(t.value[row]) == !k && is_near(t.value[row], wanted),
                  "%s of %s, row %d: %g, not %g", metric->name, m->name, row, t.value[row], wanted);
  }
  table_free(&t);
}

/* At its end, and the mean of the last tenth is a tenth above the first loss, or above ln 64 that it was below once. */
static int has_blown_up(const struct made *m)
{
  const int rows = m->rows[LOSS];
  double sum = 0, least = INFINITY;
  int n = 0, at_end = !strcmp(m->state, "finished") || (!strcmp(m->state, "stopped") && m->last_step >= 40);
  if (rows < 2 || !at_end || !isfinite(m->value[LOSS][0][0])) return 0;
  for (int row = 0; row < rows; row++) {
    double x = m->value[LOSS][row][0];
    if (is_missing(x)) continue;
    if (x < least) least = x;
    if (row == rows - 1 || m->step[LOSS][row] >= 0.9 * (m->step[LOSS][rows - 1] + 1)) sum += x, n++;
  }
  const double mean = sum / n, first = m->value[LOSS][0][0], guess = log(64);
  return isfinite(mean) && (mean - first > 0.1 * fabs(first) || (least < guess && mean > 1.1 * guess));
}

/* A row whose values are all missing is none. */
static void drop_missing_rows(struct made *m)
{
  for (int s = 0; s < SERIES; s++) {
    int kept = 0;
    for (int row = 0; row < m->rows[s]; row++) {
      int known = 0;
      for (int i = 0; i < width[s]; i++) known += !is_missing(m->value[s][row][i]);
      if (!known) continue;
      m->step[s][kept] = m->step[s][row];
      memmove(m->value[s][kept++], m->value[s][row], sizeof m->value[s][row]);
    }
    m->rows[s] = kept;
  }
}

START_TEST(every_metric)
{
  enum { RUNS = 9 };
  static const int rows[RUNS][3] = {{0, 0, 0}, {1, 1, 1}, {2, 1, 0}, {12, 4, 3}, {13, 5, 4},
                                    {5, 0, 2}, {3, 2, 1}, {7, 3, 2}, {12, 6, 5}};
  static const struct {
    int series;
    const char *glob;
  } looked_at[] = {{LOSS, ""},     {VAL, ""},        {LOGIT, ""}, {LOGIT, "l1*"}, {LOGIT, "*h1"},
                   {LOAD, "l1e2"}, {NORM, "w_[qk]"}, {NORM, ""},  {BY_LAYER, ""}, {BY_LAYER, "l1"}};
  static struct made m[RUNS];
  static const char *const paths[RUNS] = {"r0.h5", "r1.h5", "r2.h5", "r3.h5", "r4.h5",
                                          "r5.h5", "r6.h5", "r7.h5", "r8.h5"};
  struct runset set;
  char names[RUNS][8], ids[RUNS][16];
  int compared = 0, with_value = 0;
  for (int i = 0; i < RUNS; i++) {
    snprintf(names[i], sizeof names[i], "r%d", i);
    snprintf(ids[i], sizeof ids[i], "%012d", i);
    m[i] = (struct made){.name = names[i],
                         .id = ids[i],
                         .state = i == 4   ? "diverged"
                                  : i == 5 ? "stopped"
                                           : "finished",
                         .settings = "train.steps=40",
                         .clips = i % 4,
                         .spikes = i % 3};
    fill(&m[i], (uint64_t)i, rows[i]);
    m[i].last_step = rows[i][0] ? lround(m[i].step[LOSS][rows[i][0] - 1]) + 1 : 0;
    write_run(&m[i]);
    drop_missing_rows(&m[i]);
  }
  for (int i = 0; i < RUNS; i++) {
    opened(&set, (char *const *)(uintptr_t)&paths[i], 1, 0);
    for (size_t l = 0; l < sizeof looked_at / sizeof *looked_at; l++)
      for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
        for (size_t k = 0; k < sizeof reductions / sizeof *reductions; k++) {
          const int s = looked_at[l].series;
          const char *glob = looked_at[l].glob, *how = reductions[k];
          char text[96];
          struct metric metric;
          struct measured found;
          struct error e = {0};
          snprintf(text, sizeof text, "%s%s%s:%s%s%s", series[s].name, *glob ? "@" : "", glob, windows[w],
                   *how ? ":" : "", how);
          ck_assert_msg(!metric_read(&metric, text, &e), "%s", e.text);
          ck_assert_str_eq(metric.name, text);
          const int status = metric_of(&metric, set.run, &found, &e);
          if (!*how && width[s] > 1 && m[i].rows[s]) {
            ck_assert_int_eq(status, STATUS_USAGE);
            ck_assert(strstr(e.text, "has several values a step; say which: ") != NULL);
            continue;
          }
          ck_assert_msg(!status, "%s", e.text);
          const struct measured wanted = wanted_of(&m[i], s, glob, windows[w], how);
          ck_assert_msg(found.has == wanted.has && found.censored == wanted.censored &&
                          (!found.has || is_near(found.value, wanted.value)),
                        "%s of %s: %d %.12g %d, not %d %.12g %d", text, m[i].name, found.has, found.value,
                        found.censored, wanted.has, wanted.value, wanted.censored);
          const int is_time = *how == 'a' || *how == 'b';
          ck_assert_int_eq(metric_is_time(&metric), is_time);
          ck_assert_int_eq(metric_counts(&metric, set.run, &found),
                           wanted.has && (is_time || (i != 4 && !has_blown_up(&m[i]))));
          if (m[i].rows[s])
            ck_assert_str_eq(metric.unit, is_time                      ? "step"
                                          : *how == 's' || *how == 'o' ? "1"
                                                                       : series[s].unit);
          compared++, with_value += wanted.has;
          if (w == 0) check_curve(&metric, set.run, &m[i], s, glob, how);
        }
    struct metric *short_ones;
    int count;
    struct error e = {0};
    ck_assert(!metrics_read(&short_ones, &count, "clips,spikes,loss,val,peak,last", &e) && count == 6);
    for (int k = 0; k < 6; k++) {
      struct measured found, wanted = {1, k ? m[i].spikes : m[i].clips, 0};
      const int s = k < 3 ? LOSS : k == 3 ? VAL : LOGIT;
      ck_assert(!metric_of(&short_ones[k], set.run, &found, &e));
      if (k > 1) wanted = wanted_of(&m[i], s, "", k == 4 ? "all" : "last", k > 3 ? "max" : "");
      ck_assert_msg(found.has == wanted.has && (!found.has || is_near(found.value, wanted.value)),
                    "%s of %s: %g, not %g", short_ones[k].name, m[i].name, found.value, wanted.value);
    }
    memory_free(short_ones);
    runset_close(&set);
  }
  ck_assert(compared > 10000 && with_value > compared / 3);
}
END_TEST

/* What is not a metric is refused in its words; of a set that has none of it the nearest is named. */
START_TEST(what_is_no_metric)
{
  static const struct {
    const char *text, *says;
  } known[] = {
    {"", "metric : SERIES:WINDOW:REDUCTION is wanted"},
    {":last", "metric :last: SERIES:WINDOW:REDUCTION is wanted"},
    {"loss:", "metric loss:: SERIES:WINDOW:REDUCTION is wanted"},
    {"loss:all:mean:x", "metric loss:all:mean:x: SERIES:WINDOW:REDUCTION is wanted"},
    {"@l0:last", "metric @l0:last: SERIES or SERIES@GLOB is wanted before the first colon"},
    {"loss@:last", "metric loss@:last: SERIES or SERIES@GLOB is wanted before the first colon"},
    {"loss:last0", "metric loss:last0: the window is last0"},
    {"loss:last1.5", "metric loss:last1.5: the window is last1.5"},
    {"loss:last101%", "metric loss:last101%: the window is last101"},
    {"loss:last0%", "metric loss:last0%: the window is last0%"},
    {"loss:lastx", "metric loss:lastx: the window is lastx"},
    {"loss:lastnan", "metric loss:lastnan: the window is lastnan"},
    {"loss:5-3", "metric loss:5-3: the window is 5-3"},
    {"loss:-5-3", "metric loss:-5-3: the window is -5-3"},
    {"loss:5", "metric loss:5: the window is 5"},
    {"loss:5-", "metric loss:5-: the window is 5-"},
    {"loss:all:most", "metric loss:all:most: the reduction is most"},
    {"loss:all:above=", "metric loss:all:above=: the reduction is above="},
    {"loss:all:over=nan", "metric loss:all:over=nan: the reduction is over=nan"},
    {"loss:all:below=1x", "metric loss:all:below=1x: the reduction is below=1x"},
  };
  static const struct {
    const char *text, *says;
  } of_none[] = {
    {"los", "metric los: a.h5 has no series los; did you mean loss?"},
    {"peek", "metric peek: a.h5 has no series peek; did you mean peak?"},
    {"xyzzy", "metric xyzzy: a.h5 has no series xyzzy"},
    {"val", "metric val: a.h5: no row of val_loss"},
    {"val_loss:all:mean", "metric val_loss:all:mean: a.h5: no row of val_loss"},
  };
  struct metric m;
  char most[96 + 8] = "loss@", long_part[200] = "loss:all:above=1";
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    struct error e = {0};
    ck_assert_int_eq(metric_read(&m, known[k].text, &e), STATUS_USAGE);
    ck_assert_msg(!strncmp(e.text, known[k].says, strlen(known[k].says)), "%s: %s", known[k].text, e.text);
  }
  for (int n = 62; n < 66; n++) { /* a glob has 63 letters */
    memset(most + 5, 'x', (size_t)n), most[5 + n] = 0;
    ck_assert_int_eq(metric_read(&m, most, NULL) == STATUS_OK, n < 64);
  }
  for (size_t n = strlen(long_part); n < 112; n++) { /* a part 95 */
    long_part[n] = '0', long_part[n + 1] = 0;
    ck_assert_int_eq(metric_read(&m, long_part, NULL) == STATUS_OK, n + 1 - 9 < 96);
  }
  struct made one = {
    .name = "a", .id = "00000000000a", .state = "finished", .settings = "train.steps=40", .last_step = 3};
  fill(&one, 1, (const int[]){3, 0, 0});
  write_run(&one);
  struct runset set;
  struct measured *all;
  char path[] = "a.h5", *paths[] = {path};
  opened(&set, paths, 1, 0);
  for (size_t k = 0; k < sizeof of_none / sizeof *of_none; k++) {
    struct error e = {0};
    ck_assert(!metric_read(&m, of_none[k].text, &e));
    ck_assert_int_eq(metrics_of(&m, 1, &set, &all, &e), STATUS_USAGE);
    ck_assert_msg(!strncmp(e.text, of_none[k].says, strlen(of_none[k].says)), "%s: %s", of_none[k].text,
                  e.text);
  }
  struct error e = {0};
  static const char *const globs[][2] = {
    {"loss@l0:last", "metric loss@l0:last: loss has one value a step, none by name"},
    {"attn/max_logit@l7*:last:max", "metric attn/max_logit@l7*:last:max: nothing of attn/max_logit in a.h5 "
                                    "matches l7*; the last is called l1h1"}};
  for (int k = 0; k < 2; k++) {
    struct measured v;
    struct table t;
    e = (struct error){0};
    ck_assert(!metric_read(&m, globs[k][0], &e));
    ck_assert_int_eq(metric_of(&m, set.run, &v, &e), STATUS_USAGE);
    ck_assert_str_eq(e.text, globs[k][1]);
    ck_assert_int_eq(v.has, 0);
    ck_assert_int_eq(metric_curve(&m, set.run, &t, NULL), STATUS_USAGE);
    ck_assert_int_eq(t.rows, 0);
    table_free(&t);
  }
  runset_close(&set);
}
END_TEST

/* --- which runs */

enum { CHOICE = 9 };
static const struct made choice[CHOICE] = {
  {.name = "a",
   .id = "0000000000a1",
   .state = "finished",
   .settings = "preset=adam train.lr=0.01 train.seed=2",
   .last_step = 600},
  {.name = "b",
   .id = "0000000000b2",
   .state = "diverged",
   .settings = "preset=adam train.lr=0.01 train.seed=10",
   .last_step = 7},
  {.name = "c",
   .id = "0000000000c3",
   .state = "finished",
   .settings = "preset=muon train.lr=0.02 train.seed=1 train.batch=4",
   .last_step = 600},
  {.name = "d",
   .id = "0000000000d4",
   .state = "stopped",
   .settings = "preset=muon train.lr=0.1 train.seed=1 train.schedule=cosine",
   .last_step = 60},
  {.name = "e",
   .id = "0000000000e5",
   .state = "finished",
   .settings = "preset=muonclip qk_clip.tau=30 train.lr=0.02 train.seed=1",
   .last_step = 600},
  {.name = "f",
   .id = "0000000000f6",
   .state = "running",
   .settings = "preset=muon train.lr=0.02 train.seed=2 train.batch=4",
   .last_step = 0},
  {.name = "g",
   .id = "000000000017",
   .state = "finished",
   .settings = "optimizer=sgd stabilizers=soft_cap train.lr=9e-05 train.seed=1",
   .last_step = 9},
  {.name = "h",
   .id = "000000000018",
   .state = "finished",
   .settings = "preset=adam train.lr=0.01 train.seed=2",
   .last_step = 600,
   .data = 5},
  {.name = "i", .id = "000000000019", .state = "finished", .settings = NULL, .last_step = 12},
};
/* What conditions and orders compare, of each. */
static const struct {
  const char *key, *value[CHOICE];
} facts[] = {
  {"kind", {"adam", "adam", "muon", "muon", "muonclip", "muon", "sgd+soft_cap", "adam", "lion"}},
  {"state",
   {"finished", "diverged", "finished", "stopped", "finished", "killed", "finished", "finished", "finished"}},
  {"seed", {"2", "10", "1", "1", "1", "2", "1", "2", "0"}},
  {"steps", {"600", "7", "600", "60", "600", "0", "9", "600", "12"}},
  {"train.lr", {"0.01", "0.01", "0.02", "0.1", "0.02", "0.02", "9e-05", "0.01", ""}},
  {"train.batch", {"8", "8", "4", "8", "8", "4", "8", "8", ""}},
  {"train.schedule",
   {"constant", "constant", "constant", "cosine", "constant", "constant", "constant", "constant", ""}},
  {"optimizer", {"adam", "adam", "muon", "muon", "muon", "muon", "sgd", "adam", "lion"}},
  {"id",
   {"0000000000a1", "0000000000b2", "0000000000c3", "0000000000d4", "0000000000e5", "0000000000f6",
    "000000000017", "000000000018", "000000000019"}},
};
enum { FACTS = sizeof facts / sizeof *facts };
static char *all_paths[] = {(char[]){"."}};

static void write_choice(void)
{
  for (int i = 0; i < CHOICE; i++) {
    struct made m = choice[i];
    fill(&m, 1, (const int[]){m.last_step > 0, 0, 0});
    write_run(&m);
  }
}

static const char *names_of(const struct runset *set)
{
  static char text[100];
  *text = 0;
  for (int i = 0; i < set->runs; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%c",
             set->list[i]->path[strlen(set->list[i]->path) - 4]);
  return text;
}

static int number_of(const char *text, double *x)
{
  char *end;
  *x = strtod(text, &end);
  return end != text && !*end;
}

static int is_one_of(const char *value, const char *list)
{
  char part[64];
  for (const char *at = list;; at++) {
    const size_t n = strcspn(at, ",");
    double a, b;
    snprintf(part, sizeof part, "%.*s", (int)n, at);
    if (!strcmp(part, value) || (number_of(part, &a) && number_of(value, &b) && a == b)) return 1;
    at += n;
    if (!*at) return 0;
  }
}

static int fulfils(const char *value, const char *sign, const char *wanted)
{
  double a, b;
  if (!strcmp(sign, "=")) return is_one_of(value, wanted);
  if (!strcmp(sign, "!=")) return !is_one_of(value, wanted);
  if (!number_of(value, &a) || !number_of(wanted, &b)) return 0;
  return !strcmp(sign, "<") ? a < b : !strcmp(sign, "<=") ? a <= b : !strcmp(sign, ">") ? a > b : a >= b;
}

static int by_letter(const void *a, const void *b) { return *(const char *)a - *(const char *)b; }

/* Each key, each sign, values that occur, lie between, or are several; two at once. */
START_TEST(every_condition)
{
  static const char *const signs[] = {"=", "!=", "<", "<=", ">", ">="};
  write_choice();
  for (int f = 0; f < FACTS; f++)
    for (int s = 0; s < 6; s++)
      for (int v = 0; v < CHOICE + 3; v++)
        for (int twice = 0; twice < (v == f ? 2 : 1); twice++) {
          char where[200], wanted[20] = "", found[20], values[100], *list[] = {where};
          struct runset set;
          struct error e = {0};
          int n = 0, numeric;
          double number;
          snprintf(values, sizeof values, "%s",
                   v < CHOICE        ? facts[f].value[v]
                   : v == CHOICE     ? "0.015"
                   : v == CHOICE + 1 ? "1"
                                     : "");
          if (v == CHOICE + 2) snprintf(values, sizeof values, "%s,%s", facts[f].value[1], facts[f].value[4]);
          int again = 0; /* a value that was asked for */
          for (int k = 0; k < v && v < CHOICE; k++) again |= !strcmp(facts[f].value[k], facts[f].value[v]);
          if (again) continue;
          numeric = number_of(values, &number);
          snprintf(where, sizeof where, twice ? "%s%s%s & state != stopped,killed" : "%s %s  %s",
                   facts[f].key, signs[s], values);
          for (int i = 0; i < CHOICE; i++)
            if (fulfils(facts[f].value[i], signs[s], values) &&
                (!twice || (strcmp(choice[i].state, "stopped") && strcmp(choice[i].state, "running"))))
              wanted[n++] = choice[i].name[0];
          const int status = runset_select(
            &set, &(struct selection){.path = all_paths, .paths = 1, .where = list, .wheres = 1}, 0, &e);
          if (s > 1 && !numeric) {
            ck_assert_int_eq(status, STATUS_USAGE);
            ck_assert_msg(strstr(e.text, "wants one number"), "%s: %s", where, e.text);
          } else if (!n) {
            ck_assert_int_eq(status, STATUS_USAGE);
            ck_assert_msg(strstr(e.text, ": no such run; there is "), "%s: %s", where, e.text);
          } else {
            ck_assert_msg(!status, "%s: %s", where, e.text);
            snprintf(found, sizeof found, "%s", names_of(&set));
            qsort(found, strlen(found), 1, by_letter);
            ck_assert_msg(!strcmp(found, wanted), "%s: %s, not %s", where, found, wanted);
          }
          if (!status) runset_close(&set);
        }
}
END_TEST

static int in_order(const char *x, const char *y)
{
  double a, b;
  const int first = number_of(x, &a), second = number_of(y, &b);
  return first && second ? (a > b) - (a < b) : first ? -1 : second ? 1 : strcmp(x, y);
}

/* Numbers before texts, equal ones as they stand; downwards; the last of it. */
START_TEST(every_order)
{
  struct runset set;
  struct error e = {0};
  char standing[20];
  write_choice();
  opened(&set, all_paths, 1, 0);
  snprintf(standing, sizeof standing, "%s", names_of(&set));
  runset_close(&set);
  ck_assert_int_eq(strlen(standing), CHOICE);
  for (int f = 1; f < FACTS; f++)
    for (int down = 0; down < 2; down++)
      for (long last = 0; last < CHOICE + 2; last += 2) {
        char key[40], wanted[20], opening[20] = "abcdefghi";
        snprintf(key, sizeof key, "%s%s", down ? "-" : "", facts[f].key);
        const struct selection chosen = {.path = all_paths, .paths = 1, .sort = key, .last = last};
        ck_assert_msg(!runset_select(&set, &chosen, 0, &e), "%s", e.text);
        snprintf(wanted, sizeof wanted, "%s", last ? opening : standing);
        if (!last) {
          for (int i = 1; i < CHOICE; i++) /* by insertion: what is equal stays */
            for (int k = i; k > 0; k--) {
              const int order =
                in_order(facts[f].value[wanted[k - 1] - 'a'], facts[f].value[wanted[k] - 'a']);
              if ((down ? -order : order) <= 0) break;
              const char x = wanted[k];
              wanted[k] = wanted[k - 1], wanted[k - 1] = x;
            }
          ck_assert_msg(!strcmp(names_of(&set), wanted), "%s: %s, not %s", key, names_of(&set), wanted);
        }
        const int count = last && last < CHOICE ? (int)last : CHOICE;
        ck_assert_int_eq(set.runs, count);
        int larger = 0; /* than the first that is kept: all of them are */
        const char first = *names_of(&set);
        for (int i = 0; i < CHOICE; i++) {
          const int order = in_order(facts[f].value[i], facts[f].value[first - 'a']);
          larger += (down ? -order : order) > 0;
          if ((down ? -order : order) > 0) ck_assert(strchr(names_of(&set), 'a' + i) != NULL);
        }
        ck_assert_int_le(larger, count);
        for (int i = 1; i < set.runs; i++) {
          const int order =
            in_order(facts[f].value[names_of(&set)[i - 1] - 'a'], facts[f].value[names_of(&set)[i] - 'a']);
          ck_assert_int_le(down ? -order : order, 0);
        }
        for (int g = 0, seen = 0; g < set.groups; g++) { /* groups by the first of their runs */
          int at = 0;
          while (set.list[at] < set.group[g].run || set.list[at] >= set.group[g].run + set.group[g].count)
            at++;
          ck_assert(g == 0 || at > seen);
          seen = at;
        }
        runset_close(&set);
      }
}
END_TEST

/* Groups by what they are called, how many are in each, how many have not finished and how many count. */
START_TEST(every_group)
{
  static const struct {
    const char *by, *where, *groups;
    int over_seeds;
  } known[] = {
    {NULL, "seed>=0",
     "adam start of 000000000018 1/0/1; adam start of 0000000000a1 2/0/1; lion 1/0/1; muon batch=4 lr=0.02 "
     "schedule=constant 2/1/2; muon batch=8 lr=0.1 schedule=cosine 1/1/1; muonclip 1/0/1; sgd+soft_cap 1/0/1",
     1},
    {NULL, "kind=muon",
     "muon batch=4 lr=0.02 schedule=constant 2/1/2; muon batch=8 lr=0.1 schedule=cosine 1/1/1", 1},
    {NULL, "id=0000000000a1,0000000000b2", "adam 2/0/1", 1},
    {"optimizer", "optimizer=muon,adam", "adam 3/0/2; muon 4/2/4", 0},
    {"kind,seed", "kind=muon,muonclip", "muon seed=1 2/1/2; muon seed=2 1/1/1; muonclip seed=1 1/0/1", 0},
    {"seed", "train.lr=0.02", "seed=1 2/0/2; seed=2 1/1/1", 0},
    {"train.lr", "seed<=1", "lr=0.02 2/0/2; lr=0.1 1/1/1; lr=9e-05 1/0/1; lr=none 1/0/1", 0},
    {"train.batch,train.schedule", "kind=muon",
     "batch=4 schedule=constant 2/1/2; batch=8 schedule=cosine 1/1/1", 1},
    {"state", "kind=muon", "state=finished 1/0/1; state=killed 1/1/1; state=stopped 1/1/1", 1},
  };
  write_choice();
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    struct runset set;
    struct error e = {0};
    char *where[] = {(char *)(uintptr_t)known[k].where}, text[4000] = "", line[CHOICE][300];
    const struct selection chosen = {
      .path = all_paths, .paths = 1, .where = where, .wheres = 1, .by = known[k].by};
    ck_assert_msg(!runset_select(&set, &chosen, 0, &e), "%s", e.text);
    int runs = 0;
    for (int g = 0; g < set.groups; g++) {
      const struct run *counted[CHOICE];
      const struct run_group *group = &set.group[g];
      snprintf(line[g], sizeof line[g], "%s %d/%d/%d", group->label, group->count,
               run_group_unfinished(group), run_group_counted(group, counted));
      ck_assert_ptr_eq(group->run, set.run + runs);
      for (int i = 1; i < group->count; i++) ck_assert_int_le(group->run[i - 1].seed, group->run[i].seed);
      runs += group->count;
      const char *blank = strchr(group->label, ' ');
      if (!known[k].by)
        ck_assert_int_eq(group->kind_length, blank ? blank - group->label : (int)strlen(group->label));
    }
    ck_assert_int_eq(runs, set.runs);
    qsort(line, (size_t)set.groups, sizeof *line, (int (*)(const void *, const void *))strcmp);
    for (int g = 0; g < set.groups; g++)
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", g ? "; " : "", line[g]);
    ck_assert_str_eq(text, known[k].groups);
    ck_assert_int_eq(runset_over_seeds(&set), known[k].over_seeds);
    runset_close(&set);
  }
}
END_TEST

/* Data count by their content: groups that no key tells apart bear their text's name, and where that is the same what
   they start from; one content under two names is one group. */
START_TEST(groups_of_texts)
{
  static const struct {
    const char *name, *id, *settings, *labels;
    uint64_t data;
  } known[] = {
    {"t1", "000000000001", "train.seed=1 data.path=x/one.txt", "muon", 7},
    {"t2", "000000000002", "train.seed=1 data.path=y/two.txt", "muon one.txt; muon two.txt", 8},
    {"t4", "000000000004", "train.seed=2 data.path=y/again.txt", "muon one.txt; muon two.txt", 7},
    {"t3", "000000000003", "train.seed=1 data.path=z/one.txt",
     "muon one.txt start of 000000000001; muon one.txt start of 000000000003; muon two.txt", 9},
  };
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    char words[100], text[600] = "", label[4][100];
    struct made m = {.name = known[k].name,
                     .id = known[k].id,
                     .state = "finished",
                     .settings = words,
                     .data = known[k].data};
    struct runset set;
    snprintf(words, sizeof words, "preset=muon data=bytes %s", known[k].settings);
    write_run(&m);
    opened(&set, all_paths, 1, 0);
    for (int g = 0; g < set.groups && g < 4; g++)
      snprintf(label[g], sizeof *label, "%.99s", set.group[g].label);
    qsort(label, (size_t)set.groups, sizeof *label, (int (*)(const void *, const void *))strcmp);
    for (int g = 0; g < set.groups; g++)
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", g ? "; " : "", label[g]);
    ck_assert_str_eq(text, known[k].labels);
    runset_close(&set);
  }
}
END_TEST

/* Groups that have the same values of other keys, as one, in the order of their first. */
START_TEST(merged_groups)
{
  struct runset set, merged;
  struct key_list by;
  struct error e = {0};
  int of[CHOICE];
  write_choice();
  static const char *const keys[] = {"optimizer", "seed", "train.lr,seed", "state"};
  for (int k = 0; k < 4; k++) {
    opened(&set, all_paths, 1, 0);
    ck_assert(!key_list_read(&by, "--by", keys[k], NULL, &e));
    runset_merge(&set, &by, &merged, of);
    int runs = 0;
    for (int m = 0; m < merged.groups; m++) runs += merged.group[m].count;
    ck_assert_int_eq(runs, CHOICE);
    for (int g = 0, most = 0; g < set.groups; g++) {
      char room[2][RUN_VALUE], label[200] = "";
      ck_assert(of[g] >= 0 && of[g] <= most && of[g] < merged.groups);
      most = of[g] == most ? most + 1 : most;
      for (int h = 0; h < g; h++) {
        int same = 1;
        for (int i = 0; i < by.count; i++)
          same &= !strcmp(run_value(set.group[g].run, by.name[i], room[0]),
                          run_value(set.group[h].run, by.name[i], room[1]));
        ck_assert_int_eq(same, of[g] == of[h]);
      }
      for (int i = 0; i < by.count; i++) {
        const char *value = run_value(set.group[g].run, by.name[i], room[0]);
        snprintf(label + strlen(label), sizeof label - strlen(label), "%s%s%s", i ? " " : "",
                 !strcmp(by.name[i], "optimizer")  ? ""
                 : !strcmp(by.name[i], "train.lr") ? "lr="
                 : !i && k == 3                    ? "state="
                                                   : "seed=",
                 *value ? value : "none");
      }
      ck_assert_str_eq(merged.group[of[g]].label, label);
    }
    memory_free(merged.group);
    key_list_free(&by);
    runset_close(&set);
  }
}
END_TEST

/* What cannot be chosen is said, and what is left out. */
START_TEST(what_is_left_out)
{
  struct runset set;
  struct error e = {0};
  write_choice();
  ck_assert(!mkdir("deep", 0777) && !mkdir("none", 0777) && !mkdir("deep/er", 0777) &&
            !link("a.h5", "deep/er/a.h5") && !link("a.h5", "copy.h5"));
  static const struct {
    const char *path, *where, *by, *sort, *says;
    unsigned flags;
  } known[] = {
    {"nothing.h5", NULL, NULL, NULL, "cannot read nothing.h5: No such file or directory", 0},
    {"none", NULL, NULL, NULL, "none: no run file (*.h5) in this folder", 0},
    {"deep", NULL, NULL, NULL, "deep: no run file (*.h5) in this folder; did you mean deep/er?", 0},
    {"f.h5", NULL, NULL, NULL, "no run with a recorded step", RUNSET_RECORDED},
    {".", NULL, NULL, NULL,
     "./a.h5 and ./copy.h5 are the same run (id 0000000000a1), which would count as two seeds; give it once",
     RUNSET_ONCE},
    {"a.h5", NULL, "lr", NULL, "--by lr: no such key; did you mean 'train.lr'?", 0},
    {"a.h5", NULL, NULL, "sead", "--sort sead: no such key; did you mean 'seed'?", 0},
    {"a.h5", NULL, NULL, "kind,seed", "--sort=kind,seed: one key is wanted", 0},
    {"a.h5", NULL, NULL, "-", "--sort", 0},
    {"a.h5", "train.lr", NULL, NULL, "--where train.lr: KEY=VALUE is wanted; or !=, <, <=, >, >=", 0},
    {"a.h5", "=1", NULL, NULL, "--where =1: KEY=VALUE is wanted; or !=, <, <=, >, >=", 0},
    {"a.h5", "train.lr=<1", NULL, NULL, "--where train.lr=<1: KEY=VALUE is wanted; or !=, <, <=, >, >=", 0},
    {"a.h5", "seed=7", NULL, NULL, "--where seed=7: no such run; there is seed = 2", 0},
    {".", "seed=7", NULL, NULL, "--where seed=7: no such run; there is seed = ", 0},
  };
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    char *path[] = {(char *)(uintptr_t)known[k].path}, *where[] = {(char *)(uintptr_t)known[k].where};
    e = (struct error){0};
    const struct selection chosen = {.path = path,
                                     .paths = 1,
                                     .where = where,
                                     .wheres = known[k].where != NULL,
                                     .by = known[k].by,
                                     .sort = known[k].sort};
    ck_assert_int_eq(runset_select(&set, &chosen, known[k].flags, &e), STATUS_USAGE);
    ck_assert_msg(!strncmp(e.text, known[k].says, strlen(known[k].says)), "%s: %s", known[k].path, e.text);
    ck_assert(!set.run && !set.runs && !set.group && !set.list);
  }
  ck_assert(!file_write("broken.h5", "words", 5, &e));
  opened(&set, all_paths, 1, 0);
  ck_assert(set.runs == CHOICE + 1 && set.damage == STATUS_FAIL);
  runset_close(&set);
  /* the values that there are, each once */
  char *nobody[] = {(char[]){"seed=7"}}, values[5][20] = {""};
  int seen = 0;
  e = (struct error){0};
  ck_assert(runset_select(&set,
                          &(struct selection){.path = all_paths, .paths = 1, .where = nobody, .wheres = 1}, 0,
                          &e) == STATUS_USAGE);
  for (const char *at = strstr(e.text, "there is seed = ") + 16; *at && seen < 5; at += strspn(at, ", ")) {
    ck_assert_int_eq(sscanf(at, "%19[0-9]", values[seen]), 1);
    at += strlen(values[seen++]);
  }
  qsort(values, (size_t)seen, sizeof *values, (int (*)(const void *, const void *))strcmp);
  ck_assert_msg(seen == 4 && !strcmp(values[0], "0") && !strcmp(values[1], "1") && !strcmp(values[2], "10") &&
                  !strcmp(values[3], "2"),
                "%s", e.text);
  e = (struct error){0};
  char alone[] = "broken.h5", *path[] = {alone};
  ck_assert(runset_select(&set, &(struct selection){.path = path, .paths = 1}, 0, &e) == STATUS_USAGE &&
            strstr(e.text, "broken.h5 is not an HDF5 file"));
  ck_assert(!unlink("broken.h5"));
  opened(&set, all_paths, 1, RUNSET_RECORDED); /* f has no step */
  ck_assert(set.runs == CHOICE && !set.damage && !strchr(names_of(&set), 'f'));
  ck_assert(is_near(run_number(set.run, "train.lr", 5), 0.01) &&
            run_number(set.run, "train.schedule", 5) == 5 && run_number(set.run, "none", 7) == 7);
  runset_close(&set);
}
END_TEST

/* The threshold of the first stabilizer that has one. */
START_TEST(thresholds_and_kinds)
{
  static const struct {
    const char *settings, *kind;
    double threshold;
  } known[] = {{"preset=muon", "muon", NAN},
               {"preset=muonclip qk_clip.tau=30", "muonclip", 30},
               {"optimizer=muon stabilizers=qk_clip qk_clip.tau=5", "muonclip", 5},
               {"preset=adam stabilizers=soft_cap soft_cap.cap=25", "adam+soft_cap", NAN},
               {"preset=muon stabilizers=qk_norm", "muon+qk_norm", NAN},
               {"preset=muon stabilizers=qk_norm+qk_clip qk_clip.tau=7", "muon+qk_norm+qk_clip", 7},
               {"preset=muon_split", "muon_split", NAN},
               {"preset=adam optimizer=muon", "muon", NAN},
               {"optimizer=sgd", "sgd", NAN}};
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    struct made m = {.name = "t", .id = "000000000001", .state = "finished", .settings = known[k].settings};
    char path[] = "t.h5", *paths[] = {path};
    struct runset set;
    write_run(&m);
    opened(&set, paths, 1, 0);
    const double t = run_threshold(set.run);
    ck_assert_msg(isnan(t) ? isnan(known[k].threshold) : t == known[k].threshold, "%s: %g", known[k].settings,
                  t);
    ck_assert_str_eq(set.run->kind, known[k].kind);
    runset_close(&set);
  }
}
END_TEST

/* --- pairs */

struct arm_of {
  const char *state, *more;
  int seed;
  double loss, first; /* of the last step; of step 0 */
};

static void write_arm(const char *name, const struct arm_of *run, int count, const char *settings,
                      uint64_t data)
{
  ck_assert(!mkdir(name, 0777));
  for (int i = 0; i < count; i++) {
    char path[32], id[16], words[200];
    struct made m = {
      .name = path, .id = id, .state = run[i].state, .settings = words, .last_step = 3, .data = data};
    snprintf(path, sizeof path, "%s/%d", name, i);
    snprintf(id, sizeof id, "%s%011d", name, i);
    snprintf(words, sizeof words, "%s train.seed=%d %s", settings, run[i].seed,
             run[i].more ? run[i].more : "");
    m.rows[LOSS] = isnan(run[i].first) ? 1 : 2;
    m.step[LOSS][0] = isnan(run[i].first) ? 2 : 0;
    m.step[LOSS][1] = 2;
    m.value[LOSS][0][0] = isnan(run[i].first) ? run[i].loss : run[i].first;
    m.value[LOSS][1][0] = run[i].loss;
    write_run(&m);
  }
}

static int same_number(double a, double b) { return (isnan(a) && isnan(b)) || a == b; }
static int same_interval(struct interval a, struct interval b)
{
  return a.n == b.n && same_number(a.mean, b.mean) && same_number(a.lo, b.lo) && same_number(a.hi, b.hi);
}

START_TEST(every_pair)
{
  enum { RUNS = 9 };
  static const struct arm_of a[RUNS] = {{"finished", NULL, 1, 2, 4},     {"finished", NULL, 2, 3, 4},
                                        {"diverged", NULL, 3, 9, 4},     {"finished", NULL, 4, INFINITY, 4},
                                        {"stopped", NULL, 5, 2.5, NAN},  {"finished", NULL, 6, -1, 4},
                                        {"finished", NULL, 7, 2.25, 4},  {"finished", NULL, 8, 2, 4},
                                        {"finished", NULL, 12, 2.125, 4}},
                             b[RUNS] = {
                               {"finished", NULL, 1, 2.5, 4}, {"finished", NULL, 2, 3.25, 5},
                               {"finished", NULL, 3, 1, 4},   {"finished", NULL, 4, 2, 4},
                               {"finished", NULL, 5, 3, NAN}, {"finished", NULL, 6, 2, 4},
                               {"running", NULL, 7, 2, 4},    {"finished", "train.batch=4", 8, 2.75, 4},
                               {"finished", NULL, 11, 2, 4}};
  static const enum start starts[] = {START_EQUAL,   START_DIFFERS, START_EQUAL, START_EQUAL,
                                      START_UNKNOWN, START_EQUAL,   START_EQUAL, START_EQUAL};
  write_arm("a", a, RUNS, "preset=adam", 0);
  write_arm("b", b, RUNS, "preset=muon", 0);
  struct runset x, y;
  struct pair *pair;
  struct error e = {0};
  int count;
  char of_a[] = "a", of_b[] = "b", *path[2][1] = {{of_a}, {of_b}}, text[100];
  opened(&x, path[0], 1, 0);
  opened(&y, path[1], 1, 0);
  ck_assert_msg(!pairs_of(&x, &y, NULL, &pair, &count, &e), "%s", e.text);
  ck_assert_int_eq(count, 10);
  for (int i = 0; i < 8; i++) {
    ck_assert(pair[i].a->seed == i + 1 && pair[i].b->seed == i + 1);
    ck_assert_msg(pair[i].start == (i == 1 ? START_UNKNOWN : starts[i]) || pair[i].start == starts[i],
                  "%d: %d", i, pair[i].start);
    ck_assert_str_eq(pair[i].shape_key, i == 7 ? "train.batch" : "");
  }
  ck_assert(!pair[8].a && pair[8].b->seed == 11 && !pair[9].b && pair[9].a->seed == 12);
  char *differs = pairs_difference(pair, count);
  ck_assert(strstr(differs, "optimizer") && strstr(differs, "train.batch") && !strstr(differs, "seed") &&
            !strstr(differs, "train.lr,"));
  memory_free(differs);
  differs = pairs_difference(pair, 7);
  ck_assert(strstr(differs, "optimizer") && !strstr(differs, "train.batch"));
  memory_free(differs);
  ck_assert_ptr_null(pairs_difference(pair + 8, 2));
  pairs_values(&pair[0], NULL, 1, text, sizeof text);
  ck_assert_str_eq(text, "");
  pairs_values(&pair[8], "seed,train.batch", 0, text, sizeof text);
  ck_assert_str_eq(text, "seed=11 train.batch=8");
  pairs_values(&pair[9], "seed,train.batch", 1, text, sizeof text);
  ck_assert_str_eq(text, "seed=12 batch=8");
  ck_assert(pairs_together(&pair[0], &pair[1], NULL) && pairs_together(&pair[0], &pair[1], "train.batch") &&
            !pairs_together(&pair[0], &pair[1], "seed") &&
            !pairs_together(&pair[0], &pair[1], "train.batch,seed") &&
            pairs_together(&pair[8], &pair[8], "seed") && !pairs_together(&pair[8], &pair[9], "seed"));
  /* what they say: pairs that count, of difference and ratio, of several at a time */
  struct metric metric[2];
  struct measured *v[2];
  ck_assert(!metric_read(&metric[0], "loss", &e) && !metric_read(&metric[1], "loss:all:above=2.4", &e));
  for (int k = 0; k < 2; k++) ck_assert_msg(!metrics_of(metric, 2, k ? &y : &x, &v[k], &e), "%s", e.text);
  const struct arm_values of_x = {&x, metric, v[0], 2}, of_y = {&y, metric, v[1], 2};
  for (int ratio = 0; ratio < 2; ratio++)
    for (int from = 0; from < 10; from++)
      for (int n = 0; from + n <= 10; n++) {
        const double margin = n % 3 ? (ratio ? 1.1 : 0.25) : 0;
        const struct comparison c = pairs_compare(pair + from, n, &of_x, &of_y, 0,
                                                  ratio ? CONTRAST_RATIO : CONTRAST_DIFFERENCE, margin);
        double p[10], q[10], d[10];
        int m = 0, lost = 0, out = 0, open = 0;
        for (int i = from; i < from + n && i < 8; i++) {
          const double one = a[i].loss, two = b[i].loss;
          if (i == 2)
            lost++;
          else if (!isfinite(one) || (ratio && one <= 0))
            out++;
          else {
            p[m] = one, q[m] = two, d[m++] = ratio ? log(two / one) : two - one;
            open += i == 4 || i == 6;
          }
        }
        ck_assert(c.n == m && c.diverged == lost && c.left_out == out && c.unfinished == open);
        ck_assert(same_interval(c.a, interval_of(p, m, ratio)) &&
                  same_interval(c.b, interval_of(q, m, ratio)));
        struct interval effect = interval_at(d, m, 0.95), drawn = interval_bootstrap(d, m, 0.95, 1);
        double detects = detectable_effect(d, m);
        if (ratio) {
          effect = (struct interval){effect.n, exp(effect.mean), exp(effect.lo), exp(effect.hi)};
          drawn = (struct interval){drawn.n, exp(drawn.mean), exp(drawn.lo), exp(drawn.hi)};
          detects = exp(detects);
        }
        ck_assert(same_interval(c.effect, effect) && same_interval(c.bootstrap, drawn) &&
                  same_number(c.detectable, detects));
        ck_assert(same_number(c.p, zero_mean_p(d, m)) && same_number(c.holm, c.p) &&
                  same_number(c.rank_p, signed_rank(d, m).p));
        ck_assert(
          same_number(c.margin, margin > 0 ? margin : NAN) &&
          same_number(c.equivalence, margin > 0 ? equivalence_p(d, m, ratio ? log(1.1) : margin) : NAN));
      }
  /* times: of a run that diverged, too; those that were not reached are left out */
  const struct comparison c = pairs_compare(pair, count, &of_x, &of_y, 1, CONTRAST_DIFFERENCE, 0);
  int reached = 0;
  for (int i = 0; i < 8; i++) {
    const int one = (a[i].first > 2.4 || a[i].loss > 2.4), two = (b[i].first > 2.4 || b[i].loss > 2.4);
    reached += one && two;
  }
  ck_assert(c.n == reached && c.diverged == 0 && c.left_out == 8 - reached);
  memory_free(v[0]), memory_free(v[1]);
  memory_free(pair);
  /* by keys, and what has no partner or too many */
  ck_assert_int_eq(pairs_of(&x, &y, "optimizer", &pair, &count, &e), STATUS_USAGE);
  ck_assert_str_eq(e.text, "no run has a partner of the same seed and the same optimizer");
  e = (struct error){0};
  ck_assert_int_eq(pairs_of(&x, &y, "lr", &pair, &count, &e), STATUS_USAGE);
  e = (struct error){0};
  ck_assert(!pairs_of(&x, &y, "train.batch", &pair, &count, &e));
  ck_assert_int_eq(count, 11); /* seed 8 has none of its batch */
  memory_free(pair);
  runset_close(&x);
  runset_close(&y);
  static const struct arm_of twice[2] = {{"finished", "train.lr=0.5", 1, 2, 4}, {"finished", NULL, 1, 2, 4}};
  write_arm("c", twice, 2, "preset=adam", 0);
  char of_c[] = "c", *third[] = {of_c};
  opened(&x, path[0], 1, 0);
  opened(&y, third, 1, 0);
  ck_assert_int_eq(pairs_of(&x, &y, NULL, &pair, &count, &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, " have the same seed, 1, and one would be its partner; they differ in "
                               "train.lr: choose with --where, or compare for each value with --by train.lr"),
                "%s", e.text);
  e = (struct error){0};
  ck_assert(!pairs_of(&x, &y, "train.lr", &pair, &count, &e) || count == 0);
  memory_free(pair);
  runset_close(&x);
  runset_close(&y);
}
END_TEST

/* --- gnuplot */

START_TEST(what_gnuplot_is_told)
{
  char *text;
  size_t length;
  FILE *f = open_memstream(&text, &length);
  const double numbers[] = {1, 0.5, NAN, INFINITY, -2e300};
  const char *const texts[] = {"a", "it's", "two\nlines\x7f"};
  gnuplot_text(f, "t", "it's a \t\"tab\"");
  gnuplot_number(f, "n", 3), gnuplot_number(f, "n", 0.1), gnuplot_number(f, "n", NAN),
    gnuplot_number(f, "n", -INFINITY);
  gnuplot_number(f, "n", 1e10);
  gnuplot_numbers(f, "v", numbers, 5), gnuplot_numbers(f, "v", numbers, 0),
    gnuplot_numbers(f, "v", numbers, 1);
  gnuplot_texts(f, "w", texts, 3), gnuplot_texts(f, "w", texts, 1);
  gnuplot_axis(f, "x", "loss", "nat"), gnuplot_axis(f, "x", "share", "1"), gnuplot_axis(f, "x", "share", "");
  gnuplot_groups(f, (const struct gnuplot_group[]){{"k", "r", "n", 3, 1}, {"l", "s", "o", 4, 0}}, 2);
  fclose(f);
  ck_assert_str_eq(
    text,
    "t = 'it'.\"\\047\".'s a ?\"tab\"'\nn = 3.0\nn = 0.1\nn = NaN\nn = NaN\nn = 10000000000.0\narray v[5] = "
    "[1, 0.5, NaN, NaN, "
    "-2e+300]\narray v[0] = []\narray v[1] = [1]\narray w[3] = ['a', 'it'.\"\\047\".'s', "
    "'two?lines?']\narray w[1] = "
    "['a']\nx = 'loss  (nat)'\nx = 'share'\nx = 'share'\ngroups = 2\narray kind[2] = ['k', 'l']\narray "
    "rest[2] = "
    "['r', 's']\narray note[2] = ['n', 'o']\narray seeds[2] = [3, 4]\narray clipped[2] = [1, 0]\n"
    "array shade[2] = [NaN, NaN]\n");
  free(text);
}
END_TEST

/* Names of files may have anything in them. */
START_TEST(where_gnuplot_draws)
{
  char *text;
  size_t length;
  FILE *f = open_memstream(&text, &length);
  gnuplot_terminal(f, "it's\nthere", "svg", "o\x01", NULL);
  fclose(f);
  ck_assert_str_eq(text,
                   "plots = 'it'.\"\\047\".'s'.\"\\012\".'there'\nout = 'o'.\"\\001\".''\nterm = 'svg'\n");
  free(text);
}
END_TEST

/* What a script says is read back: texts with quotes, arrays, blocks with gaps. */
START_TEST(values_of_a_script)
{
  struct error e = {0};
  FILE *f = gnuplot_file(&e);
  ck_assert_ptr_nonnull(f);
  gnuplot_text(f, "one", "it's 1 = 'one', \303\227");
  gnuplot_number(f, "low", 0.25);
  gnuplot_numbers(f, "many", (const double[]){1, NAN, -3e-7}, 3);
  gnuplot_texts(f, "names", (const char *const[]){"a, b", "'", ""}, 3);
  fprintf(f, "$data << EOD\n# x y\n1 2\n\n\n\n\n3 NaN 5\n4 1\nEOD\nlast = 7\n");
  struct script_values *v = script_values_read(f);
  ck_assert_str_eq(script_text(v, "one", 0), "it's 1 = 'one', \303\227");
  ck_assert(script_number(v, "low", 0) == 0.25 && script_number(v, "last", 0) == 7);
  ck_assert(script_number(v, "many", 0) == 1 && isnan(script_number(v, "many", 1)));
  ck_assert(script_number(v, "many", 2) == -3e-7 && isnan(script_number(v, "many", 3)));
  ck_assert_str_eq(script_text(v, "names", 0), "a, b");
  ck_assert_str_eq(script_text(v, "names", 1), "'");
  ck_assert_str_eq(script_text(v, "names", 2), "");
  ck_assert_ptr_null(script_text(v, "names", 3));
  ck_assert_ptr_null(script_text(v, "low", 0));
  const struct script_block first = script_block(v, "data", 0), empty = script_block(v, "data", 1),
                            third = script_block(v, "data", 2), none = script_block(v, "data", 3);
  ck_assert(first.rows == 1 && first.columns == 2 && first.value[0] == 1 && first.value[1] == 2);
  ck_assert(empty.rows == 0 && none.rows == 0);
  ck_assert(third.rows == 2 && third.columns == 3 && third.value[2] == 5 && third.value[3] == 4);
  ck_assert(isnan(third.value[1]) && isnan(third.value[5]));
  script_values_free(v);
  fclose(f);
}
END_TEST

START_TEST(extents)
{
  static const double order[][4] = {{1, 2, 3, 4}, {4, 3, 2, 1}, {2, NAN, 4, 1}, {INFINITY, 1, -INFINITY, 4}};
  for (int k = 0; k < 4; k++)
    for (int known = 0; known < 2; known++) {
      struct extent e = {known ? 0 : NAN, known ? 9 : NAN, 0};
      char *text;
      size_t length;
      for (int i = 0; i < 4; i++) extent_see(&e, order[k][i]);
      ck_assert(e.low == (known ? 0 : 1) && e.high == (known ? 9 : 4));
      FILE *f = open_memstream(&text, &length);
      e.last_step = k == 1 ? 0.5 : 7;
      extent_put(f, &e);
      fclose(f);
      char wanted[100];
      snprintf(wanted, sizeof wanted, "low = %d.0\nhigh = %d.0\nlast_of_all = %d.0\n", known ? 0 : 1,
               known ? 9 : 4, k == 1 ? 1 : 7);
      ck_assert_str_eq(text, wanted);
      free(text);
    }
}
END_TEST

static char warned[400];

static int keep_warning(const char *line)
{
  snprintf(warned, sizeof warned, "%s", line);
  return 0;
}

/* A script of ours in its place: its picture, its complaints, its end. */
START_TEST(what_gnuplot_says)
{
  static const struct {
    const char *body, *says, *warns;
  } known[] = {
    {"test \"$LC_ALL\" = C.UTF-8 && cat", NULL, NULL},
    {"cat; echo '  warning: Skipping data file with no valid points' >&2; echo '   ' >&2", NULL, NULL},
    {"cat; printf 'a warning: Skipping data file with no valid points' >&2", NULL, NULL},
    {"cat; printf 'warning: Skipping data file with no valid points\\nline 2: oh' >&2", NULL,
     "gnuplot warns: warning: Skipping data file with no valid points line 2: oh"},
    {"cat; echo 'Fontconfig error: Cannot load default config file' >&2", NULL,
     "gnuplot warns: Fontconfig error: Cannot load default config file"},
    {"echo oh >&2", "gnuplot: it has drawn nothing", "gnuplot warns: oh"},
    {"exit 3", "gnuplot: it failed, and does not say why", NULL},
    {"echo why >&2; exit 1", "gnuplot: why", NULL},
    {"kill -9 $$", "gnuplot: Killed", NULL},
    {"exit 127", "gnuplot is not installed (on Debian: apt install gnuplot-nox)", NULL},
  };
  char path[5000];
  ck_assert(!mkdir("bin", 0777));
  snprintf(path, sizeof path, "%s/bin:%s", folder, getenv("PATH"));
  setenv("PATH", path, 1);
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    char text[400], *drawn = NULL;
    size_t length = 0;
    struct error e = {0};
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", known[k].body);
    ck_assert(!file_write("bin/gnuplot", text, strlen(text), &e) && !chmod("bin/gnuplot", 0777));
    FILE *f = gnuplot_file(&e);
    ck_assert_ptr_nonnull(f);
    fputs("plot me\n", f);
    *warned = 0;
    messages_to(keep_warning);
    const int status = gnuplot_run(f, &drawn, &length, &e);
    messages_to(NULL);
    ck_assert_str_eq(warned, known[k].warns ? known[k].warns : "");
    fclose(f);
    ck_assert_int_eq(status, known[k].says ? STATUS_FAIL : STATUS_OK);
    ck_assert_str_eq(e.text, known[k].says ? known[k].says : "");
    if (known[k].says) ck_assert_ptr_null(drawn);
    if (!known[k].says) ck_assert(length == 8 && !strcmp(drawn, "plot me\n"));
    memory_free(drawn);
  }
}
END_TEST

/* The folder that is asked for, else that of the environment, else where this program lies; or it is said. */
START_TEST(folders_of_files)
{
  char out[4096], *text;
  size_t length;
  struct error e = {0};
  ck_assert(!mkdir("one", 0777) && !file_write("one/f", "words", 5, &e));
  setenv("MAXLOGIT_NONE", "one", 1);
  ck_assert(!share_folder("nothing", "things", "MAXLOGIT_NONE", out, &e) && !strcmp(out, "one"));
  setenv("MAXLOGIT_NONE", "three", 1);
  ck_assert_int_eq(share_folder("nothing", "things", "MAXLOGIT_NONE", out, &e), STATUS_USAGE);
  ck_assert_str_eq(e.text, "three: no such folder");
  e = (struct error){0};
  setenv("MAXLOGIT_NONE", "", 1);
  ck_assert_int_eq(share_folder("nothing", "things", "MAXLOGIT_NONE", out, &e), STATUS_FAIL);
  ck_assert_msg(!strncmp(e.text, "things not found (", 18) &&
                  strstr(e.text, "/nothing); MAXLOGIT_NONE may name their folder"),
                "%s", e.text);
  e = (struct error){0};
  setenv("MAXLOGIT_PAGE", "one", 1);
  ck_assert(!share_text("f", &text, &length, &e) && length == 5 && !strcmp(text, "words"));
  memory_free(text);
  ck_assert_int_ne(share_text("g", &text, &length, &e), STATUS_OK);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("runsets");
  TCase *k = tcase_create("runsets");
  tcase_set_timeout(k, 120);
  tcase_add_checked_fixture(k, enter_folder, leave_folder);
  tcase_add_test(k, every_metric);
  tcase_add_test(k, what_is_no_metric);
  tcase_add_test(k, every_condition);
  tcase_add_test(k, every_order);
  tcase_add_test(k, every_group);
  tcase_add_test(k, groups_of_texts);
  tcase_add_test(k, merged_groups);
  tcase_add_test(k, what_is_left_out);
  tcase_add_test(k, thresholds_and_kinds);
  tcase_add_test(k, every_pair);
  tcase_add_test(k, what_gnuplot_is_told);
  tcase_add_test(k, where_gnuplot_draws);
  tcase_add_test(k, values_of_a_script);
  tcase_add_test(k, extents);
  tcase_add_test(k, what_gnuplot_says);
  tcase_add_test(k, folders_of_files);
  suite_add_tcase(suite, k);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed > 0;
}
