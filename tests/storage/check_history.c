/* check_history.c - a run's file does not tell what its run went through
   Run, kill, resume, stop, resume, extend, rerun: every fact of the file (facts.h) is that of one run in one go, but
   for the lists below. What may differ is checked by itself: times add up, bookkeeping is in its place. And as both
   could be wrong alike, the rows of every file are held against what else tells them: export --follow, the steps.
   Run where ./maxlogit is. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "child.h"
#include "facts.h"
#include "../same_run.h"
#include "storage/layout.h"
#include "storage/seal.h"

/* --- what may differ ----------------------------------------------------------------------------------- */

#define CLOCK \
  {"/ @date", "when it began"}, {"head date", "the same"}, {"/status @date", "when it was last written"}, \
    {"/status @wall_seconds", "how long it took"}, {"head wall_seconds", "the same"}, \
    {"/timing/seconds rows", "how long each step took"}, \
  { \
    "/notes row * date", "when somebody wrote it" \
  }
/* Of an interrupted run the events that tell of it are not compared (is_of_the_numbers), so that there are more. */
static const struct facts_freedom interrupted[] = {CLOCK,
                                                   {"/events room", "it was resumed"},
                                                   {"/events storage", "the same: few rows are one chunk"},
                                                   {NULL, NULL}};

static int is_of_the_numbers(const char *object, const unsigned char *row, hid_t type)
{
  const char *kind = strcmp(object, "/events") ? "" : (const char *)facts_field(row, type, "kind");
  return strcmp(kind, "checkpoint") && strcmp(kind, "resume") && strcmp(kind, "rerun");
}

/* --- runs ---------------------------------------------------------------------------------------------- */

static char folder[] = "check_history.XXXXXX";
static double spent; /* by the commands since a run began */

/* What a run that is done prints of itself. */
static char told[512];

static void keep_report(const char *log)
{
  const char *begin = strstr(log, "\n  loss"), *end = begin ? strstr(begin, "\n  record") : NULL;
  if (!end) return;
  snprintf(told, sizeof told, "%.*s", (int)(end - begin), begin);
  if (strstr(told, "nan")) wrong("%s", told);
}

#define GO(wanted, in, fault, ...) go(wanted, in, fault, (const char *const[]){__VA_ARGS__, NULL})
static void go(int wanted, const char *in, const char *fault, const char *const *words)
{
  double began = clock_seconds();
  int status = child_end(child_start(in, fault, 0, words));
  spent += clock_seconds() - began;
  if (status != wanted)
    wrong("%s %s (%s): exit %d, not %d: %s", words[0], words[1], fault ? fault : "", status, wanted,
          last_log());
  keep_report(last_log());
}

/* A new run. */
static void begin(int wanted, const char *in, const char *fault, const char *const *settings, long steps)
{
  const char *words[CHILD_WORDS] = {"run", "record.path=r.h5"};
  char text[64];
  int n = 2;
  snprintf(text, sizeof text, "train.steps=%ld", steps);
  words[n++] = text;
  while (*settings) words[n++] = *settings++;
  words[n] = NULL;
  spent = 0;
  go(wanted, in, fault, words);
}

/* --- facts of a run ------------------------------------------------------------------------------------ */

static void add_head(struct facts *f, const char *path)
{
  size_t length = 0;
  char *head = head_read(path, &length);
  if (!head) wrong("%s has no head", path);
  for (char *key = head; key && key < head + length;) {
    char *value = key + strlen(key) + 1;
    facts_text(f, "head", key, value);
    key = value + strlen(value) + 1;
  }
  memory_free(head);
}

/* The rows as export --follow prints them. */
static void add_lines(struct facts *f, const char *path)
{
  char line[9000], *text = NULL;
  struct error e = {0};
  size_t length = 0;
  snprintf(line, sizeof line, "'%s' export --follow '%s' > lines", child_program, path);
  if (system(line) || file_read("lines", &text, &length, &e)) wrong("%s: %s", line, e.text);
  facts_add(f, text, length + 1, 0, "lines");
  memory_free(text);
}

/* What lies in the run's folder, by name; checkpoints by their number, as a shorter run's end has one. */
static void add_listing(struct facts *f, const char *path)
{
  char line[256];
  int checkpoints = 0;
  snprintf(line, sizeof line, "cd $(dirname %s) && find . -type f | sort", path);
  FILE *names = popen(line, "r");
  while (names && fgets(line, sizeof line, names)) {
    line[strcspn(line, "\n")] = 0;
    if (!fnmatch("./r.ckpt/step-????????.h5", line, 0))
      checkpoints++;
    else
      facts_text(f, "file", line, "");
  }
  if (!names || pclose(names)) wrong("no listing of %s", path);
  facts_add(f, &checkpoints, sizeof checkpoints, 0, "checkpoints");
}

static struct facts facts_of(const char *path, facts_row *counts)
{
  struct facts f = {0};
  if (!facts_read(&f, path, counts)) wrong("HDF5 cannot open %s", path);
  add_head(&f, path);
  add_lines(&f, path);
  add_listing(&f, path);
  facts_sort(&f);
  return f;
}

static const void *rows_of(const struct facts *f, const char *object, size_t *count)
{
  char key[300];
  snprintf(key, sizeof key, "%.255s rows", object);
  const struct fact *x = facts_find(f, key);
  *count = x && x->row ? x->size / x->row : 0;
  return x ? x->bytes : NULL;
}

static double real_of(const struct facts *f, const char *key)
{
  const struct fact *x = facts_find(f, key);
  double value = NAN;
  if (x && x->size == sizeof value) memcpy(&value, x->bytes, sizeof value);
  return value;
}

static const char *text_of(const struct facts *f, const char *key)
{
  const struct fact *x = facts_find(f, key);
  return x ? (const char *)x->bytes : "";
}

/* --- is a file right by itself? ------------------------------------------------------------------------ */

static void check_steps(const struct facts *f, const char *path, const char *axis, int all)
{
  size_t count;
  const int64_t *step = rows_of(f, axis, &count);
  for (size_t i = 0; i < count; i++)
    if (i && (all ? step[i] != step[i - 1] + 1 : step[i] <= step[i - 1])) {
      wrong("%s: %s has %" PRId64 " in row %zu", path, axis, step[i], i);
      return;
    }
}

/* The time of all steps is part of the whole, and that of what the commands took. */
static void check_times(const struct facts *f, const char *path)
{
  double wall = real_of(f, "/status @wall_seconds"), sum = 0,
         head = strtod(text_of(f, "head wall_seconds"), NULL);
  size_t count;
  const double *seconds = rows_of(f, "/timing/seconds", &count);
  for (size_t i = 0; i < count; i++) {
    if (!(seconds[i] > 0)) wrong("%s: row %zu of /timing/seconds is %g", path, i, seconds[i]);
    sum += seconds[i];
  }
  if (!(sum <= wall && wall <= spent))
    wrong("%s: %g s in all, of which the steps took %g and what was run %g", path, wall, sum, spent);
  if (head != wall) wrong("%s: its head tells %.17g s, the rest %.17g", path, head, wall);
}

static long cell_count, series_count;

/* A line is a row of the series. */
static void check_lines(const struct facts *f, const char *path)
{
  static const char *const name[] = {"loss", "val_loss", "lr", "grad_norm", "attn/max_logit"};
  enum { NAMES = sizeof name / sizeof *name };
  const char *line = strchr(text_of(f, "lines"), '\n');
  size_t steps, row = 0, vals, val = 0;
  const int64_t *step = rows_of(f, "/series/step", &steps), *val_step = rows_of(f, "/series/val_step", &vals);
  for (; line && line[1]; line = strchr(line + 1, '\n'), row++) {
    char *at, want[32], have[32];
    if (row == steps || strtoll(line + 1, &at, 10) != step[row]) {
      wrong("%s: line %zu: %.20s, row %" PRId64, path, row, line + 1, row < steps ? step[row] : -1);
      return;
    }
    while (val + 1 < vals && val_step[val + 1] <= step[row]) val++;
    for (int i = 0; i < NAMES; i++) {
      char object[64];
      size_t count;
      snprintf(object, sizeof object, "/series/%s", name[i]);
      const double *values = rows_of(f, object, &count);
      double number = values && i < 4 ? values[i == 1 ? val : row] : NAN;
      if (i == 1 && (!vals || val_step[val] > step[row])) number = NAN;
      if (i == 4) { /* the largest of a row */
        const struct fact *x = facts_find(f, "/series/attn/max_logit rows");
        const float *logit = x ? (const float *)(const void *)(x->bytes + row * x->row) : NULL;
        number = -INFINITY;
        for (size_t k = 0; logit && k < x->row / sizeof *logit; k++) number = fmax(number, (double)logit[k]);
      }
      snprintf(want, sizeof want, "%.9g", strtod(at, &at));
      snprintf(have, sizeof have, "%.9g", number);
      cell_count++;
      if (strcmp(want, have)) {
        wrong("%s: %s at step %" PRId64 " is %s, in its line %s", path, name[i], step[row], have, want);
        return;
      }
    }
  }
  if (row != steps) wrong("%s: %zu rows, %zu lines", path, steps, row);
}

/* A series says what it is, and has the rows of its axis. */
static void check_definition(const struct facts *f, const char *path, const char *name)
{
  static const char *const attribute[] = {"units", "long_name", "definition"};
  char key[256], axis[128] = "";
  size_t rows, steps;
  series_count++;
  for (size_t i = 0; i < 3; i++) {
    snprintf(key, sizeof key, "/series/%s @%s", name, attribute[i]);
    if (!*text_of(f, key)) wrong("%s: no %s", path, key);
  }
  for (int dim = 0; dim < 3; dim++) {
    snprintf(key, sizeof key, "/series/%s dimension %d", name, dim);
    const char *text = text_of(f, key), *place = strstr(text, ": /series/");
    if (facts_find(f, key) && (!place || place == text)) wrong("%s: %s is '%s'", path, key, text);
    if (!dim && place) snprintf(axis, sizeof axis, "%s", place + 2);
  }
  snprintf(key, sizeof key, "/series/%s", name);
  rows_of(f, key, &rows);
  rows_of(f, axis, &steps);
  snprintf(key, sizeof key, "head series/%s", name);
  if (rows != steps || (size_t)strtol(text_of(f, key), NULL, 10) != rows)
    wrong("%s: %s has %zu rows, its axis %zu, its head tells %s", path, name, rows, steps, text_of(f, key));
}

/* What our own reader gives is what HDF5 reads. */
static void check_reading(const struct facts *f, const char *path, const struct run_file *run,
                          const char *name)
{
  struct run_series s;
  struct error e = {0};
  char object[256];
  size_t count;
  if (run_read(run, name, &s, &e)) {
    wrong("%s: %s", path, e.text);
    return;
  }
  snprintf(object, sizeof object, "/series/%s", name);
  const void *rows = rows_of(f, object, &count);
  long bad = s.rows != (long)count;
  for (long i = 0; !bad && i < s.rows * s.width; i++) {
    double number = s.shape == PER_STEP ? ((const double *)rows)[i] : (double)((const float *)rows)[i];
    bad = memcmp(&number, &s.value[i], sizeof number) && !(isnan(number) && isnan(s.value[i]));
    cell_count++;
  }
  if (bad) wrong("%s: %s is read wrongly", path, name);
  run_series_free(&s);
}

struct seen {
  const struct facts *facts;
  const char *path;
  const struct run_file *run;
};

static int check_series(void *context, const char *name)
{
  const struct seen *s = context;
  check_definition(s->facts, s->path, name);
  check_reading(s->facts, s->path, s->run, name);
  return 0;
}

/* The head's parameters are those of the table. */
static void check_parameters(const struct facts *f, const char *path)
{
  for (size_t i = 0; i < f->count; i++) {
    char name[64], key[128];
    int end = 0;
    if (sscanf(f->list[i].key, "/parameters/table row %*d %63s value%n", name, &end) != 1 || !end) continue;
    snprintf(key, sizeof key, "head parameters/%s", name);
    if (strcmp(text_of(f, key), (const char *)f->list[i].bytes))
      wrong("%s: %s is not %s", path, key, (const char *)f->list[i].bytes);
  }
}

/* A checkpoint's event is there, or that of going on from it. */
static void check_bookkeeping(const char *path, long every)
{
  struct run_file *r = NULL;
  struct run_event *event = NULL;
  struct error e = {0};
  long count = 0;
  if (run_open(&r, path, &e) || run_events(r, &event, &count, &e)) wrong("%s", e.text);
  for (long step = every, found = 0; r && step <= run_last_step(r); step += every, found = 0) {
    for (long i = 0; i < count; i++)
      found += event[i].step == step && (!strcmp(event[i].kind, "checkpoint") ||
                                         !strcmp(event[i].kind, "resume") || !strcmp(event[i].kind, "rerun"));
    if (!found) wrong("%s: no event tells of the checkpoint of step %ld", path, step);
  }
  memory_free(event);
  run_close(r);
}

/* What a run leaves at any time: its series, each by its definition and as our own reader gives it. */
static void check_part(const char *path, const struct facts *f, const char *state, long steps)
{
  struct run_file *r = NULL;
  struct error e = {0};
  int every = atoi(text_of(f, "head parameters/record.every"));
  check_steps(f, path, "/series/step", every == 1);
  check_steps(f, path, "/series/val_step", 0);
  check_steps(f, path, "/series/probe_step", 0);
  check_steps(f, path, "/series/spectra_step", 0);
  check_steps(f, path, "/timing/step", 1);
  check_steps(f, path, "/batches/step", 1);
  check_times(f, path);
  check_parameters(f, path);
  if (strcmp(text_of(f, "head date"), text_of(f, "/ @date"))) wrong("%s: its head tells another date", path);
  if (strcmp(text_of(f, "/series/attn @signal"), "max_logit")) wrong("%s: viewers find no signal", path);
  if (run_open(&r, path, &e)) {
    wrong("%s", e.text);
    return;
  }
  if (strcmp(run_state(r), state) || (steps >= 0 && run_last_step(r) != steps))
    wrong("%s: %s after %ld steps, not %s after %ld", path, run_state(r), run_last_step(r), state, steps);
  run_series_names(r, check_series, &(struct seen){f, path, r});
  run_close(r);
}

static void check_file(const char *path, const struct facts *f, long steps)
{
  check_part(path, f, "finished", steps);
  check_lines(f, path);
  check_bookkeeping(path, atol(text_of(f, "head parameters/checkpoint.every")));
}

/* --- histories ----------------------------------------------------------------------------------------- */

struct story {
  const char *name;
  long steps[4], from; /* at first, and when it has become longer; the whole is repeated from there */
  long per_call;       /* steps for each call that reaches the disk, at least */
  const char *settings[CHILD_WORDS];
};

static struct facts alone; /* the run in one go */
static char told_alone[sizeof told];

static void run_alone(const struct story *s, long steps)
{
  facts_free(&alone);
  shell("rm -rf one && mkdir one");
  begin(0, "one", NULL, s->settings, steps);
  memcpy(told_alone, told, sizeof told);
  GO(0, "one", NULL, "note", "r.h5", "seen");
  alone = facts_of("one/r.h5", is_of_the_numbers);
  check_file("one/r.h5", &alone, steps);
}

/* The file at "many" against that of the run in one go. */
static void compare(const struct story *s, const char *what, long steps)
{
  struct facts f = facts_of("many/r.h5", is_of_the_numbers);
  if (facts_differ(&alone, &f, interrupted)) wrong("%s, %s: not the file of one run", s->name, what);
  if (same_run("one/r.h5", "many/r.h5", 1, NULL, stdout)) wrong("%s, %s: not the same run", s->name, what);
  if (strcmp(told, told_alone))
    wrong("%s, %s: it says%s\nthe run in one go%s", s->name, what, told, told_alone);
  check_file("many/r.h5", &f, steps);
  printf("%s, %s: %zu facts\n", s->name, what, f.count);
  facts_free(&f);
}

static const char *at_call(long call, const char *kind)
{
  static char text[64];
  snprintf(text, sizeof text, "io:%ld:%s", call, kind);
  return text;
}

/* A run in hand; when it began. */
static void look(const char *state, char date[32])
{
  struct facts f = facts_of("many/r.h5", is_of_the_numbers);
  check_part("many/r.h5", &f, state, -1);
  snprintf(date, 32, "%s", text_of(&f, "/ @date"));
  facts_free(&f);
}

/* Killed, killed again, stopped. */
static void interrupt(const struct story *s)
{
  char began[32], date[32];
  long steps = s->steps[0];
  run_alone(s, steps);
  shell("rm -rf many && mkdir many");
  begin(128 + SIGKILL, "many", at_call(steps * 5 / 8 / s->per_call, "kill"), s->settings, steps);
  look("running", began);
  if (steps < 1000) usleep(1100000); /* dates are of whole seconds */
  GO(128 + SIGKILL, "many", at_call(steps / 4 / s->per_call, "kill"), "resume", "r.h5");
  GO(STATUS_STOPPED, "many", at_call(steps / 8 / s->per_call, "term"), "resume", "r.h5");
  look("stopped", date);
  GO(0, "many", NULL, "resume", "r.h5");
  GO(0, "many", NULL, "note", "r.h5", "seen");
  compare(s, "killed", steps);
  if (strcmp(began, date)) wrong("%s: it began at %s, and no longer at %s", s->name, date, began);
}

static void extend(const struct story *s, long steps, long more)
{
  char longer[64];
  double before = spent;
  snprintf(longer, sizeof longer, "train.steps=%ld", steps);
  run_alone(s, steps);
  spent = before;
  if (more > 1000)
    GO(STATUS_STOPPED, "many", at_call(more / 2 / s->per_call, "term"), "resume", "r.h5", longer);
  GO(128 + SIGKILL, "many", at_call(1 + more * 11 / 24 / s->per_call, "kill"), "resume", "r.h5", longer);
  GO(0, "many", NULL, "resume", "r.h5", longer);
  compare(s, "extended", steps);
}

static void tell(const struct story *s)
{
  char from[64];
  int last = 0;
  interrupt(s);
  for (; s->steps[last + 1]; last++) extend(s, s->steps[last + 1], s->steps[last + 1] - s->steps[last]);
  GO(0, "many", NULL, "rerun", "r.h5");
  compare(s, "rerun", s->steps[last]);
  snprintf(from, sizeof from, "--from=%ld", s->from);
  GO(0, "many", NULL, "rerun", "r.h5", from);
  compare(s, "rerun in part", s->steps[last]);
}

/* --- what is recorded changes -------------------------------------------------------------------------- */

#define LESS \
  "record.level=0", "record.pairs=0", "record.bound=0", "record.spectra_every=0", "record.probe_every=0", \
    "record.batches=0"
#define MORE \
  "record.level=0.3", "record.pairs=1", "record.bound=1", "record.spectra_every=7", "record.probe_every=6", \
    "record.batches=1"

static int is_nan(const unsigned char *row, size_t size, int wide)
{
  for (size_t i = 0; i < size; i += wide ? 8 : 4) {
    double number;
    float narrow;
    memcpy(&number, row + i, wide ? 8 : 0);
    memcpy(&narrow, row + i, wide ? 0 : 4);
    if (wide ? !isnan(number) : !isnan(narrow)) return 0;
  }
  return 1;
}

/* Every row of a series is that of the same step of the whole record, or of NaN alone. Returns how many those are. */
static long compare_rows(const struct facts *whole, const struct facts *f, const char *object)
{
  char key[256], axis[128];
  size_t rows, all, count;
  long missing = 0;
  snprintf(key, sizeof key, "%s dimension 0", object);
  snprintf(axis, sizeof axis, "%s", strchr(text_of(f, key), ' ') + 1);
  const int64_t *step = rows_of(f, axis, &rows), *whole_step = rows_of(whole, axis, &all);
  snprintf(key, sizeof key, "%s rows", object);
  const struct fact *x = facts_find(f, key), *y = facts_find(whole, key);
  rows_of(f, object, &count);
  if (count != rows || (rows && (!y || x->row != y->row))) {
    wrong("%s: %zu rows for %zu steps", object, count, rows);
    return 0;
  }
  for (size_t i = 0, k = 0; i < rows; i++) {
    const unsigned char *row = x->bytes + i * x->row;
    while (k + 1 < all && whole_step[k] < step[i]) k++;
    if (all && whole_step[k] == step[i] && !memcmp(row, y->bytes + k * x->row, x->row)) continue;
    if (!is_nan(row, x->row, strstr(text_of(f, key), "1:8") != NULL)) {
      wrong("%s: the row of step %" PRId64 " is another one", object, step[i]);
      return missing;
    }
    missing++;
  }
  return missing;
}

/* A file with less recorded, now and then, against the whole record: what is there is the same, and is described. */
static void compare_part(const struct facts *whole, const char *what, long steps)
{
  struct facts f = facts_of("many/r.h5", is_of_the_numbers);
  long missing = 0, series = 0;
  for (size_t i = 0; i < f.count; i++) {
    const struct fact *x = &f.list[i], *y = facts_find(whole, x->key);
    char object[128];
    int end = 0;
    if (strncmp(x->key, "/series", 7) && strncmp(x->key, "/batches", 8)) continue;
    if (sscanf(x->key, "%127s dimension 0%n", object, &end) == 1 && end) {
      missing += compare_rows(whole, &f, object);
      series++;
    }
    if (strstr(x->key, " rows") || strstr(x->key, " room") || strstr(x->key, " storage")) continue;
    if (!y || x->size != y->size || memcmp(x->bytes, y->bytes, x->size))
      wrong("%s: %s is '%s', not '%s'", what, x->key, (const char *)x->bytes,
            y ? (const char *)y->bytes : "");
  }
  for (size_t i = 0; i < whole->count; i++) /* and none has gone */
    if (strstr(whole->list[i].key, " @definition") && !facts_find(&f, whole->list[i].key))
      wrong("%s: %s is gone", what, whole->list[i].key);
  if (!missing) wrong("%s: nothing is missing", what);
  check_file("many/r.h5", &f, steps);
  printf("%s: %ld series, %ld rows of NaN\n", what, series, missing);
  facts_free(&f);
}

static void record_otherwise(const struct story *s)
{
  const long first = s->steps[0], last = s->steps[2];
  char longer[64];
  const char *words[CHILD_WORDS], *const less[] = {LESS}, *const more[] = {MORE};
  enum { CHANGES = sizeof less / sizeof *less };
  int n = 0;
  while (s->settings[n]) words[n] = s->settings[n], n++;
  words[n + CHANGES] = NULL;
  snprintf(longer, sizeof longer, "train.steps=%ld", last);
  for (int turn = 0; turn < 3; turn++) {
    memcpy(words + n, turn ? less : more, sizeof less);
    shell("rm -rf many && mkdir many");
    begin(0, "many", NULL, words, turn < 2 ? first : last);
    if (turn == 0) {
      GO(128 + SIGKILL, "many", at_call(40, "kill"), "resume", "r.h5", longer, LESS);
      GO(0, "many", NULL, "resume", "r.h5", longer, LESS);
      compare_part(&alone, "less recorded", last);
    } else if (turn == 1) {
      GO(128 + SIGKILL, "many", at_call(40, "kill"), "resume", "r.h5", longer, MORE);
      GO(0, "many", NULL, "resume", "r.h5", longer, MORE);
      compare_part(&alone, "more recorded", last);
    } else {
      GO(0, "many", NULL, "note", "r.h5", "seen");
      GO(0, "many", NULL, "rerun", "r.h5", MORE);
      compare(s, "rerun with more", last);
    }
  }
}

/* --- sweeps: in one go alone, and in company, killed, become longer ------------------------------------- */

static const struct facts_freedom swept[] = {
  CLOCK,
  {"/events room", "it was resumed"},
  {"/events storage", "the same: few rows are one chunk"},
  {"/parameters/table row * arm origin", "set with the new steps, not read from the sweep's file"},
  {"/parameters/table row * record.path origin", "the same"},
  {"file *", "the shorter runs stay"},
  {NULL, NULL}};

/* The shorter runs were of arms of other names. */
static void write_sweep(const char *path, const char *low, const char *high)
{
  struct buffer text = {0};
  struct error e = {0};
  buffer_add(&text,
             "preset = muonclip\n[model]\nlayers = 2\nwidth = 16\nheads = 2\ncontext = 16\nffn_width = 32\n"
             "[train]\nbatch = 2\nlr = 0.02\nval_every = 10\nval_batches = 1\n"
             "[record]\nevery = 8\nspectra_every = 7\nprobe_every = 6\n"
             "batches = 1\n[checkpoint]\nevery = 5\nseconds = 0\n[device]\nthreads = 1\n"
             "[arm %s]\nqk_clip.tau = 0.6\n[arm %s]\nqk_clip.tau = 0.9\n",
             low, high);
  if (file_write(path, text.text, text.length, &e)) wrong("%s", e.text);
  memory_free(text.text);
}

static void sweep(void)
{
  char name[256], one[300], many[300];
  int runs = 0;
  shell("rm -rf one many && mkdir one many");
  write_sweep("s.conf", "low", "high");
  spent = 0;
  GO(0, "one", NULL, "sweep", "../s.conf", "sweep.dir=d", "train.steps=110", "-j1", "--quiet");
  double alone_spent = spent;
  spent = 0;
  write_sweep("s.conf", "tight", "loose");
  GO(STATUS_FAIL, "many", at_call(60, "kill"), "sweep", "../s.conf", "sweep.dir=d", "sweep.together=2",
     "train.steps=51", "-j1", "--quiet");
  GO(0, "many", NULL, "sweep", "../s.conf", "sweep.dir=d", "sweep.together=2", "train.steps=51", "-j1",
     "--quiet");
  write_sweep("s.conf", "low", "high");
  GO(0, "many", NULL, "sweep", "../s.conf", "sweep.dir=d", "sweep.together=2", "train.steps=110", "-j1",
     "--quiet");
  double many_spent = spent;
  FILE *names = popen("ls one/d/*.h5", "r");
  while (names && fgets(name, sizeof name, names)) {
    name[strcspn(name, "\n")] = 0;
    snprintf(one, sizeof one, "%s", name);
    snprintf(many, sizeof many, "many%s", name + 3);
    struct facts a = facts_of(one, is_of_the_numbers), b = facts_of(many, is_of_the_numbers);
    spent = alone_spent;
    check_file(one, &a, 110);
    spent = many_spent;
    check_file(many, &b, 110);
    if (facts_differ(&a, &b, swept)) wrong("%s: not the file of one run", many);
    if (same_run(one, many, 1, NULL, stdout)) wrong("%s: not the same run", many);
    facts_free(&a);
    facts_free(&b);
    runs++;
  }
  if (!names || pclose(names) || runs != 2) wrong("%d runs of the sweep, not 2", runs);
  printf("sweep: %d runs\n", runs);
}

/* --- the stories --------------------------------------------------------------------------------------- */

/* Every axis, and rows of several sizes, beyond the fourth block of a column. */
static const struct story at_length = {
  "long",
  {2100, 4500},
  4400,
  20,
  {"preset=muonclip", "qk_clip.tau=0.001", "model.layers=1", "model.width=8", "model.heads=2",
   "model.context=20", "model.ffn_width=16", "train.batch=4", "train.lr=0.02", "train.val_every=3",
   "train.val_batches=1", "record.spectra_every=4", "record.probe_every=4", "record.batches=1",
   "checkpoint.every=150", "checkpoint.seconds=0", "checkpoint.keep=5", "device.threads=1", NULL}};
/* Every series, axes of their own, rows some steps apart; the last steps of its parts are not due. */
static const struct story in_width = {"wide",
                                      {43, 70, 110},
                                      109,
                                      1,
                                      {"preset=muonclip",
                                       "qk_clip.tau=0.6",
                                       "model.layers=2",
                                       "model.width=16",
                                       "model.heads=2",
                                       "model.context=16",
                                       "model.ffn=moe",
                                       "moe.experts=4",
                                       "moe.active=2",
                                       "moe.hidden=8",
                                       "model.mtp=1",
                                       "train.batch=2",
                                       "train.lr=0.02",
                                       "train.val_every=10",
                                       "train.val_batches=1",
                                       "data=markov",
                                       "data.packing=documents",
                                       "markov.document=7",
                                       "record.every=8",
                                       "record.level=0.3",
                                       "record.pairs=1",
                                       "record.bound=1",
                                       "record.spectra_every=7",
                                       "record.probe_every=6",
                                       "record.batches=1",
                                       "checkpoint.every=5",
                                       "checkpoint.seconds=0",
                                       "device.threads=1",
                                       NULL}};

int main(void)
{
  static const struct story *const stories[] = {&in_width, &at_length};
  if (child_folder(folder)) return 1;
  for (size_t i = 0; i < sizeof stories / sizeof *stories && !failures; i++) tell(stories[i]);
  if (!failures) run_alone(&in_width, in_width.steps[2]);
  if (!failures) record_otherwise(&in_width);
  if (!failures) sweep();
  printf("%ld series, %ld numbers read\n", series_count, cell_count);
  if (failures) return 1;
  facts_free(&alone);
  shell("rm -rf ../%s", folder);
  return 0;
}
