/* Every series and event of a run file against an independent implementation (tests/golden/make_golden.py, SERIES:
   PyTorch, float64): names, steps, values, and nothing beside them. The runs are recorded as any run is.

   Tolerance of a row, float64 build: 1e-9 of its largest value for rounding, and half a unit of the float32 in
   which all but one number a step is stored. Float32 build: MARGIN times the deviation of PyTorch's own float32 run
   from its float64 run so far, plus float32's rounding: another order of summation may err as much as that. NaN is
   matched by NaN alone. */
#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "run/trainer.h"
#include "storage/run_file.h"

enum { MAX_CASES = 64, MAX_ROWS = 2048, MAX_WIDTH = 64 };
static const double MARGIN = 8;

struct golden_row { /* a line of a golden file */
  char series[96];
  long step, width;
  double off, value[MAX_WIDTH];
  int seen;
};
struct golden {
  struct golden_row *row;
  long rows;
  struct run_event event[MAX_ROWS];
  double event_off[MAX_ROWS];
  long events;
};

static char cases[MAX_CASES][256], folder[64] = "/tmp/maxlogit-series-XXXXXX", path[128];
static int case_count;

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

static void find_cases(void)
{
  DIR *d = opendir("tests/golden/series");
  for (struct dirent *x; d && (x = readdir(d));) {
    size_t n = strlen(x->d_name);
    if (n > 4 && !strcmp(x->d_name + n - 4, ".tsv") && case_count < MAX_CASES)
      snprintf(cases[case_count++], sizeof *cases, "%.250s", x->d_name);
  }
  if (d) closedir(d);
  qsort(cases, (size_t)case_count, sizeof *cases, by_name);
}

/* --- the golden file --------------------------------------------------------------------------------------- */

static const char *on_device; /* "device=..." */

static struct trainer *start(char *line, struct config **config)
{
  struct error e = {0};
  struct trainer *t = NULL;
  char record[160];
  snprintf(record, sizeof record, "record.path=%s", path);
  *config = config_new();
  ck_assert_msg(!config_assign(*config, record, &e), "%s", e.text);
  ck_assert_msg(!config_assign(*config, "record.overwrite=1", &e), "%s", e.text);
  ck_assert_msg(!config_assign(*config, on_device, &e), "%s", e.text);
  for (char *word = strtok(line + strlen("# config "), " \n"); word; word = strtok(NULL, " \n"))
    ck_assert_msg(!config_assign(*config, word, &e), "%s", e.text);
  ck_assert_msg(!config_finish(*config, &e), "%s", e.text);
  ck_assert_msg(!trainer_init(&t, *config, 0, &e), "%s", e.text);
  return t;
}

/* "# plant TENSOR ROW COLUMN VALUE": one number of a weight. */
static void plant(struct trainer *t, const char *line)
{
  char name[64];
  long row, column;
  double value;
  ck_assert_int_eq(sscanf(line, "# plant %63s %ld %ld %lf", name, &row, &column, &value), 4);
  struct param *p = params_find(&trainer_model(t)->params, name);
  real number = (real)value;
  struct device *device = trainer_device(t);
  ck_assert_ptr_nonnull(p);
  device->upload(device, REALS(&p->value) + row * p->value.ld + column, &number, sizeof number);
}

static void read_event(struct golden *g, char *line)
{
  struct run_event *x = &g->event[g->events];
  ck_assert_int_lt(g->events, MAX_ROWS);
  ck_assert_int_eq(sscanf(line, "event %ld %23s %d %d %lf %lf", &x->step, x->kind, &x->layer, &x->head,
                          &g->event_off[g->events], &x->value),
                   6);
  g->events++;
}

static void read_row(struct golden *g, char *line)
{
  struct golden_row *x = &g->row[g->rows++];
  ck_assert_int_le(g->rows, MAX_ROWS);
  snprintf(x->series, sizeof x->series, "%s", strtok(line, "\t\n"));
  x->step = atol(strtok(NULL, "\t\n"));
  x->off = atof(strtok(NULL, "\t\n"));
  x->width = 0;
  for (char *word; (word = strtok(NULL, "\t\n"));) {
    ck_assert_int_lt(x->width, MAX_WIDTH);
    x->value[x->width++] = atof(word);
  }
}

/* The expected rows; the run that the file describes is done on the way. */
static void read_golden(const char *name, struct golden *g)
{
  char file[512], *line = NULL;
  size_t room = 0;
  struct error e = {0};
  struct config *c = NULL;
  struct trainer *t = NULL;
  snprintf(file, sizeof file, "tests/golden/series/%s", name);
  FILE *f = fopen(file, "r");
  ck_assert_ptr_nonnull(f);
  while (getline(&line, &room, f) > 0) {
    if (!strncmp(line, "# config ", 9))
      t = start(line, &c);
    else if (!strncmp(line, "# plant ", 8))
      plant(t, line);
    else if (!strncmp(line, "event\t", 6))
      read_event(g, line);
    else if (*line != '#')
      read_row(g, line);
  }
  free(line);
  fclose(f);
  ck_assert_ptr_nonnull(t);
  while (trainer_more(t)) ck_assert_msg(!trainer_step(t, &e), "%s", e.text);
  ck_assert_msg(!trainer_done(t, &e), "%s", e.text);
  config_free(c);
}

/* --- comparing --------------------------------------------------------------------------------------------- */

/* A zero singular value comes out as the root of a rounding (its square is an eigenvalue), and this series alone
   weighs it by its first power. */
static double rounding_of(const char *series)
{
  const char *last = strrchr(series, '/');
  return last && !strcmp(last, "/effective_rank_r") ? 1e-6 : 1e-9;
}

/* What numbers of this series are sums of, at least: one of them is 0 but for rounding, of products of size 1. */
static double size_of(const char *series) { return strcmp(series, "spectral_tangent/left") ? 0 : 1; }

static int near(double ours, double theirs, double off, double largest, int narrow, double rounding)
{
  double tolerance = sizeof(real) == sizeof(double)
                       ? rounding * largest + (narrow ? 0x1p-24 * fabs(theirs) : 0)
                       : MARGIN * (off + REAL_EPS * largest);
  if (isnan(theirs) || isnan(ours)) return isnan(theirs) && isnan(ours);
  return fabs(ours - theirs) <= tolerance;
}

static void compare_row(const struct run_series *s, long row, struct golden_row *x)
{
  double largest = size_of(x->series);
  ck_assert_int_eq(x->width, s->width);
  for (long i = 0; i < x->width; i++) largest = fmax(largest, fabs(x->value[i]));
  for (long i = 0; i < x->width; i++) {
    double ours = s->value[row * s->width + i];
    ck_assert_msg(near(ours, x->value[i], x->off, largest, s->shape != PER_STEP, rounding_of(x->series)),
                  "%s, step %ld, place %ld: %.9g, PyTorch has %.9g (its float32 is off by %.2g)", x->series,
                  x->step, i, ours, x->value[i], x->off);
  }
  x->seen = 1;
}

static struct golden_row *find_row(struct golden *g, const char *series, long step)
{
  for (long i = 0; i < g->rows; i++)
    if (g->row[i].step == step && !g->row[i].seen && !strcmp(g->row[i].series, series)) return &g->row[i];
  return NULL;
}

/* A row that is all NaN says that the series had nothing to tell in this step: PyTorch need not list it. */
static int all_nan(const struct run_series *s, long row)
{
  for (long i = 0; i < s->width; i++)
    if (!isnan(s->value[row * s->width + i])) return 0;
  return 1;
}

struct observation {
  struct golden *golden;
  struct run_file *file;
};

static int compare_series(void *context, const char *name)
{
  struct observation *r = context;
  struct run_series s;
  struct error e = {0};
  ck_assert_msg(!run_read(r->file, name, &s, &e), "%s", e.text);
  for (long i = 0; i < s.rows; i++) {
    struct golden_row *x = find_row(r->golden, name, (long)s.step[i]);
    ck_assert_msg(x || all_nan(&s, i), "%s, step %g: PyTorch has no such row", name, s.step[i]);
    if (x) compare_row(&s, i, x);
  }
  run_series_free(&s);
  return 0;
}

static int is_compared(const char *kind)
{
  return !strcmp(kind, "clip") || !strcmp(kind, "spike") || !strcmp(kind, "nonfinite");
}

static void compare_events(const struct golden *g, const struct run_file *file)
{
  struct run_event *all;
  struct error e = {0};
  long count, n = 0;
  ck_assert_msg(!run_events(file, &all, &count, &e), "%s", e.text);
  for (long i = 0; i < count; i++) {
    if (!is_compared(all[i].kind)) continue;
    ck_assert_msg(n < g->events, "step %ld: a %s event too many", all[i].step, all[i].kind);
    const struct run_event *x = &g->event[n];
    ck_assert_msg(
      x->step == all[i].step && !strcmp(x->kind, all[i].kind) && x->layer == all[i].layer &&
        x->head == all[i].head && near(all[i].value, x->value, g->event_off[n], fabs(x->value), 1, 1e-9),
      "event %ld: step %ld %s %d %d %.9g, PyTorch has step %ld %s %d %d %.9g", n, all[i].step, all[i].kind,
      all[i].layer, all[i].head, all[i].value, x->step, x->kind, x->layer, x->head, x->value);
    n++;
  }
  ck_assert_int_eq(n, g->events);
  memory_free(all);
}

START_TEST(series)
{
  struct golden *g = memory_new(1, sizeof *g);
  struct observation r = {.golden = g};
  struct error e = {0};
  g->row = memory_new(MAX_ROWS + 1, sizeof *g->row);
  on_device = _i < case_count ? "device=cpu" : "device=isolated"; /* what is observed of both */
  read_golden(cases[_i % case_count], g);
  ck_assert_msg(!run_open(&r.file, path, &e), "%s", e.text);
  run_series_names(r.file, compare_series, &r);
  compare_events(g, r.file);
  for (long i = 0; i < g->rows; i++)
    ck_assert_msg(g->row[i].seen, "%s, step %ld is not in the run file", g->row[i].series, g->row[i].step);
  ck_assert_int_gt(g->rows, 0);
  run_close(r.file);
  memory_free(g->row);
  memory_free(g);
}
END_TEST

int main(void)
{
  const char *source = getenv("srcdir");
  char clean[128];
  if (!mkdtemp(folder) || (source && chdir(source))) {
    perror("check_series");
    return 1;
  }
  snprintf(path, sizeof path, "%s/run.h5", folder);
  find_cases();
  Suite *s = suite_create("series");
  TCase *k = tcase_create("PyTorch");
  tcase_set_timeout(k, 60);
  tcase_add_loop_test(k, series, 0, 2 * case_count);
  suite_add_tcase(s, k);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  snprintf(clean, sizeof clean, "rm -rf %s", folder);
  if (system(clean)) perror(folder);
  if (!case_count) printf("no golden files in tests/golden/series\n");
  return failed || !case_count;
}
