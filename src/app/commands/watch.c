/* watch.c - follow a run, or the runs of a folder, until they end */
#include <dirent.h>
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "analysis/runset.h"
#include "app/chart.h"
#include "app/command.h"
#include "app/summary.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/markup.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/status_line.h"
#include "base/text.h"
#include "run/sweep.h"
#include "storage/layout.h"
#include "storage/live_rows.h"
#include "storage/run_file.h"

struct live_view {
  struct request request;
  double interval;
  const char *run_path;
  char resolved[4096];
  char *shown; /* the path as it is printed */
  struct live_rows live;
  int terminal;
};

/* --- drawing ------------------------------------------------------------------------------------------- */

static void values_of(const struct live_rows *l, long row, double out[LIVE_FIELDS])
{
  for (int f = 0; f < LIVE_FIELDS; f++) out[f] = l->value[f][row];
}

static void add_values(struct buffer *b, const double value[LIVE_FIELDS])
{
  char text[32];
  buffer_add(b, "step %.0f", value[LIVE_STEP]);
  if (!is_missing(value[LIVE_LOSS])) buffer_add(b, "  loss %.4f", without_nan_sign(value[LIVE_LOSS]));
  if (!isnan(value[LIVE_VAL_LOSS])) buffer_add(b, "  val %.4f", value[LIVE_VAL_LOSS]);
  const struct place place = {.layer = (int)value[LIVE_LAYER], .head = (int)value[LIVE_HEAD]};
  if (place.layer >= 0 || !isnan(value[LIVE_MAX_LOGIT]))
    buffer_add(b, "  max logit %.4g", without_nan_sign(value[LIVE_MAX_LOGIT]));
  if (place.layer >= 0) buffer_add(b, " (%s)", summary_place(&place, text));
  buffer_add(b, "\n");
}

static void print_lines(const struct live_view *w, long from)
{
  struct buffer b = {0};
  double value[LIVE_FIELDS];
  for (long row = from; row < w->live.rows; row++) {
    values_of(&w->live, row, value);
    add_values(&b, value);
  }
  if (b.text) fputs(b.text, stdout);
  fflush(stdout);
  memory_free(b.text);
}

/* A line never wraps. */
static void add_cut(struct buffer *out, struct buffer *line, int columns)
{
  char fits[512];
  text_fill(fits, columns < 511 ? (size_t)columns + 1 : sizeof fits, line->text);
  buffer_add(out, "%s\n", fits);
  memory_free(line->text);
}

static void print_screen(struct buffer *b)
{
  printf("\033[H\033[J%s", b->text);
  fflush(stdout);
  memory_free(b->text);
}

static void draw_curve(struct buffer *b, const struct live_rows *l, enum live_field field, const char *title,
                       int columns, int rows)
{
  const struct chart_curve curve = {.x = l->value[LIVE_STEP], .y = l->value[field], .count = l->rows};
  struct chart chart = {.title = title,
                        .curve = &curve,
                        .curves = 1,
                        .columns = columns,
                        .rows = rows,
                        .log_y = field == LIVE_MAX_LOGIT,
                        CHART_ENDS};
  struct chart_page page;
  chart_page_new(&page, columns, rows, terminal_is_utf8());
  chart_draw(&page, &chart, 0, 0);
  chart_page_end(b, &page, 0);
}

static void draw(const struct live_view *w)
{
  struct terminal_size size = terminal_size(STDOUT_FILENO);
  struct buffer b = {0};
  int rows = (size.rows - 3) / 2;
  if (w->live.rows > 0) {
    double value[LIVE_FIELDS];
    values_of(&w->live, w->live.rows - 1, value);
    struct buffer head = {0};
    buffer_add(&head, "%s  ", w->shown);
    add_values(&head, value);
    head.text[head.length - 1] = 0; /* the line's end */
    add_cut(&b, &head, size.columns);
    draw_curve(&b, &w->live, LIVE_LOSS, "loss (nat per token)", size.columns, rows);
    draw_curve(&b, &w->live, LIVE_MAX_LOGIT, "max logit (log scale)", size.columns, rows);
  } else
    buffer_add(&b, "%s: no step yet\n", w->shown);
  print_screen(&b);
}

static void print_end_of_run(const struct live_view *w)
{
  struct run_file *run;
  if (run_open(&run, w->run_path, NULL) != STATUS_OK) {
    message("%s: no writer any more, and no run file: `maxlogit run` starts it anew", w->run_path);
    return;
  }
  const char *state = run_shown_state(run);
  char *word = shell_word(w->run_path);
  int failed = !strcmp(state, "diverged") || run_blew_up(run);
  if (strcmp(state, "killed") == 0)
    message("%s: no writer any more; `maxlogit resume %s` continues it", w->run_path, word);
  else
    message("%s: %s after %ld step%s", w->run_path, state, run_last_step(run), text_s(run_last_step(run)));
  if (failed) message("`maxlogit show --why %s` shows how", word);
  memory_free(word);
  run_close(run);
}

static int show(void *context, long from)
{
  const struct live_view *w = context;
  if (w->terminal)
    draw(w);
  else
    print_lines(w, from);
  return !ferror(stdout);
}

/* --- a folder ------------------------------------------------------------------------------------------ */

enum { QUIET = 10 }; /* seconds without a writer after which a sweep is over; a look at least twice in them */

struct watched_run {
  char *path, *shown;
  struct live_rows live; /* while it is written */
  int is_live;
  struct file_stamp end; /* of the file that was read to its end */
  char state[32];
  double last[LIVE_FIELDS], steps, lr;
  struct run about; /* kind and seed */
};
struct folder_view {
  const struct live_view *view;
  struct watched_run *run;
  int runs;
  void *known; /* tsearch: the paths of the runs */
  struct file_stamp plan_read;
  char *plan; /* the file of the last sweep, its lines cut into texts */
  void *ids;  /* tsearch: those of its points */
  long points;
};

static int by_text(const void *a, const void *b) { return strcmp(a, b); }
/* Free a tree of texts, but not the texts. */
static void forget(void **tree)
{
  while (*tree) tdelete(*(char **)*tree, tree, by_text);
}

static int is_run_name(const struct dirent *entry) { return run_stem(entry->d_name) > 0; }

static void add_run(struct folder_view *f, const char *path)
{
  if (tfind(path, &f->known, by_text)) return;
  f->run = memory_grow(f->run, (size_t)f->runs, (size_t)f->runs + 1, sizeof *f->run);
  struct watched_run *r = &f->run[f->runs++];
  *r = (struct watched_run){
    .path = memory_text(path), .lr = NAN, .about.seed = -1, .shown = text_stem(path, ".h5"), .is_live = 1};
  text_clean(r->shown, strlen(r->shown) + 1, "");
  tsearch(r->path, &f->known, by_text);
  for (int i = 0; i < LIVE_FIELDS; i++) r->last[i] = NAN;
  live_begin(&r->live, path);
}

static int find_runs(struct folder_view *f, struct error *e)
{
  struct dirent **list;
  int n = scandir(f->view->run_path, &list, is_run_name, alphasort);
  if (n < 0) return error_set(e, STATUS_USAGE, "%s: cannot be read", f->view->shown);
  for (int i = 0; i < n; i++) {
    char path[4096 + 256];
    snprintf(path, sizeof path, "%s/%s", f->view->run_path, list[i]->d_name);
    add_run(f, path);
    free(list[i]);
  }
  free(list);
  return STATUS_OK;
}

enum { MOST_PLAN = 1 << 26 }; /* bytes; a longer file is not that of a sweep */

static void forget_plan(struct folder_view *f)
{
  forget(&f->ids);
  memory_free(f->plan);
  f->ids = f->plan = NULL, f->points = 0;
}

/* The points of the last sweep into this folder, once per sweep. */
static void read_plan(struct folder_view *f)
{
  struct buffer path = {0};
  size_t length;
  buffer_add(&path, "%s/" SWEEP_PLAN, f->view->run_path);
  if (file_has_changed(path.text, &f->plan_read)) {
    f->plan_read = file_stamp(path.text);
    forget_plan(f);
    if (f->plan_read.size > MOST_PLAN || file_read_real(path.text, &f->plan, &length, NULL)) f->plan = NULL;
    for (char *line = f->plan; line && *line;) {
      char *end = line + strcspn(line, "\n"), *next = end + (*end == '\n');
      line[strcspn(line, "\t\n")] = 0;
      f->points += *(char **)tsearch(line, &f->ids, by_text) == line;
      line = next;
    }
  }
  memory_free(path.text);
}

static int is_done(const struct watched_run *r)
{
  return !r->is_live &&
         (!strcmp(r->state, "finished") || !strcmp(r->state, "diverged") || !strcmp(r->state, "blown-up"));
}

/* 1: it is being written; -1: it has just ended; 0: it ended before. */
static int look_at(struct watched_run *r)
{
  struct run_file *file = NULL;
  long from;
  if (!r->is_live) {
    if (!file_has_changed(r->path, &r->end)) return 0;
    live_begin(&r->live, r->path); /* a resume, for example */
    r->is_live = 1;
  }
  r->end = file_stamp(r->path);
  int over = live_is_over(&r->live); /* before the rows are read: then none comes later */
  live_news(&r->live, &from);
  if (r->live.rows) values_of(&r->live, r->live.rows - 1, r->last);
  text_fill(r->state, sizeof r->state, "unreadable");
  if (!run_peek(&file, r->path, NULL)) {
    r->about.file = file, r->about.path = r->path;
    run_name_kind(&r->about);
    r->about.seed = (long)run_number(&r->about, "train.seed", -1);
    r->steps = run_number(&r->about, "train.steps", NAN);
    r->lr = run_number(&r->about, "train.lr", NAN);
    text_fill(r->state, sizeof r->state, run_shown_state(file));
    double val;
    if (over && summary_last(file, "val_loss", &val)) r->last[LIVE_VAL_LOSS] = val; /* that of the end, too */
    run_close(file);
  }
  if (!over) return 1;
  live_end(&r->live);
  r->is_live = 0;
  return -1;
}

/* As many letters as fit, and blanks. */
static void add_padded(struct buffer *b, const char *text, int width)
{
  char fits[64];
  text_fill(fits, (size_t)width + 1 < sizeof fits ? (size_t)width + 1 : sizeof fits, text);
  buffer_add(b, "%s%*s ", fits, width - text_columns(fits, strlen(fits)), "");
}

static void add_value(struct buffer *b, const struct watched_run *r, enum live_field field, int width,
                      const char *format)
{
  char text[32] = "-";
  if (!isnan(r->last[LIVE_STEP]) && !is_missing(r->last[field]))
    snprintf(text, sizeof text, format, without_nan_sign(r->last[field]));
  buffer_add(b, " %*s", width, text);
}

/* The columns that a narrow window cuts stand last. */
static void add_line(struct buffer *b, const struct watched_run *r, int name, int kind)
{
  char step[48] = "-", seed[24] = "-", lr[32] = "-";
  double last = r->last[LIVE_STEP];
  if (!isnan(last) && r->steps > 0)
    snprintf(step, sizeof step, "%.0f/%.0f", last + 1, r->steps);
  else if (!isnan(last))
    snprintf(step, sizeof step, "%.0f", last);
  if (r->about.seed >= 0) snprintf(seed, sizeof seed, "%ld", r->about.seed);
  if (!isnan(r->lr)) text_number(r->lr, lr);
  add_padded(b, r->shown, name);
  add_padded(b, r->about.kind, kind);
  buffer_add(b, "%6s %4s %11s %-10s", lr, seed, step, r->state);
  add_value(b, r, LIVE_LOSS, 7, "%.4f");
  add_value(b, r, LIVE_MAX_LOGIT, 9, "%.4g");
  add_value(b, r, LIVE_VAL_LOSS, 7, "%.4f");
}

static int wider(int width, const char *text, int most)
{
  int length = (int)strlen(text);
  return length <= width ? width : length < most ? length : most;
}

/* Runs that are being written stand first; a line never wraps. */
static void add_table(struct buffer *out, const struct folder_view *f, struct terminal_size size)
{
  int name = 8, kind = 4, rows = size.rows - 4, left = 0;
  for (int i = 0; i < f->runs; i++) {
    name = wider(name, f->run[i].shown, 24);
    kind = wider(kind, f->run[i].about.kind, 24);
  }
  struct buffer head = {0};
  buffer_add(&head, "%-*s %-*s %6s %4s %11s %-10s %7s %9s %7s", name, "run", kind, "kind", "lr", "seed",
             "step", "state", "loss", "max logit", "val");
  add_cut(out, &head, size.columns);
  for (int live = 1; live >= 0; live--)
    for (int i = f->runs - 1; i >= 0; i--) {
      struct buffer line = {0};
      if (f->run[i].is_live != live) continue;
      if (--rows < 0) {
        left++;
        continue;
      }
      add_line(&line, &f->run[i], name, kind);
      add_cut(out, &line, size.columns);
    }
  if (left) buffer_add(out, "%d more\n", left);
}

/* "runs: 3 runs: 1 running, 2 finished; 2 of 8 points of the last sweep are done" */
static void add_states(struct buffer *b, const struct folder_view *f)
{
  struct counted {
    const char *state;
    int runs;
  } *count = memory_new((size_t)f->runs + 1, sizeof *count);
  int states = 0, k;
  long done = 0;
  for (int i = 0; i < f->runs; i++) {
    for (k = 0; k < states && strcmp(count[k].state, f->run[i].state) != 0;) k++;
    if (k == states) count[states++].state = f->run[i].state;
    count[k].runs++;
    done += is_done(&f->run[i]) && tfind(f->run[i].shown, &f->ids, by_text);
  }
  buffer_add(b, "%s: %d run%s", f->view->shown, f->runs, text_s(f->runs));
  for (k = 0; k < states; k++) buffer_add(b, "%s %d %s", k ? "," : ":", count[k].runs, count[k].state);
  if (f->points) buffer_add(b, "; %ld of %ld points of the last sweep are done", done, f->points);
  memory_free(count);
}

static void show_folder(const struct folder_view *f)
{
  struct terminal_size size = terminal_size(STDOUT_FILENO);
  struct buffer b = {0}, states = {0};
  add_states(&states, f);
  add_cut(&b, &states, size.columns);
  add_table(&b, f, size);
  print_screen(&b);
}

static void print_ended(const struct watched_run *r)
{
  struct buffer b = {0};
  buffer_add(&b, "%s  %s%s%s", r->shown, r->about.kind, *r->about.kind ? "  " : "", r->state);
  if (isnan(r->last[LIVE_STEP]))
    buffer_add(&b, "\n");
  else {
    buffer_add(&b, "  ");
    add_values(&b, r->last);
  }
  fputs(b.text, stdout);
  fflush(stdout);
  memory_free(b.text);
}

static int follow_folder(struct live_view *w, struct error *e)
{
  double interval = fmin(w->interval, QUIET / 2);
  struct timespec pause = {(time_t)interval, (long)(fmod(interval, 1) * 1e9)};
  struct folder_view f = {.view = w};
  struct buffer b = {0};
  double seen = clock_seconds();
  int status;
  while (!(status = find_runs(&f, e)) && !ferror(stdout)) {
    int writers = 0;
    read_plan(&f);
    for (int i = 0; i < f.runs; i++) {
      int found = look_at(&f.run[i]);
      writers += found > 0;
      if (found < 0 && !w->terminal) print_ended(&f.run[i]);
    }
    if (w->terminal) show_folder(&f);
    if (writers) seen = clock_seconds();
    if (clock_seconds() - seen > QUIET) break;
    nanosleep(&pause, NULL);
  }
  add_states(&b, &f);
  if (!status && !f.runs)
    status = error_set(e, STATUS_USAGE, "%s: no run file (*.h5) in this folder", w->shown);
  if (!status) message("%s; nothing was written for %d s", b.text, QUIET);
  forget(&f.known);
  for (int i = 0; i < f.runs; i++) {
    if (f.run[i].is_live) live_end(&f.run[i].live);
    memory_free(f.run[i].path);
    memory_free(f.run[i].shown);
  }
  forget_plan(&f);
  memory_free(f.run);
  memory_free(b.text);
  return status;
}

/* --- command line -------------------------------------------------------------------------------------- */

static const struct command_option options[] = {
  {.row = REAL_ROW(struct live_view, interval, "0.5", 0.01, 3600, "s", "Seconds between looks for news", 0),
   .letter = 'n',
   .argument = "SECONDS"},
  NO_OPTION};

static int watch(void *request, struct error *error)
{
  struct live_view *w = request;
  w->terminal = isatty(STDOUT_FILENO);
  w->run_path = file_resolve(w->request.words.word[0], w->resolved);
  w->shown = text_cleaned(w->run_path, "");
  int status;
  if (file_is_folder(w->run_path))
    status = follow_folder(w, error);
  else {
    live_begin(&w->live, w->run_path);
    status = live_follow(&w->live, w->interval, show, w, error);
    if (!status) print_end_of_run(w);
    live_end(&w->live);
  }
  memory_free(w->shown);
  return status;
}

const struct command command_watch = {
  .name = "watch",
  .arguments = "RUN.h5\nFOLDER",
  .help = "follow a run or a folder of runs in the terminal",
  .about = "Follow a run that is being written: curves on a terminal, plain lines elsewhere. Ends when the "
           "run ends. Follow the runs of a folder: a table on a terminal, elsewhere a line for each run that "
           "has ended, and the number of points of the last sweep that are done. Ends when nothing was "
           "written in the folder for 10 seconds.",
  .more = "maxlogit watch a.h5\nmaxlogit watch runs",
  .options = options,
  .size = sizeof(struct live_view),
  ONE_RUN,
  .run = watch,
};
