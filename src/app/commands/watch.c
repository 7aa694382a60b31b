/* watch.c - follow a run by its live rows, until it ends */
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <fcntl.h>
#include <unistd.h>
#include "app/chart.h"
#include "app/command.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/layout.h"
#include "storage/recorder.h"

/* Columns of RUN.live.tsv that are used, by name: a newer file may have more. */
enum { STEP, LOSS, VAL_LOSS, MAX_LOGIT, LAYER, HEAD, FIELDS };
static const char *const field_names[FIELDS] = {"step", "loss", "val_loss", "max_logit", "layer", "head"};
enum { MOST_COLUMNS = 32 };

struct watch {
  struct request request;
  double interval;
  const char *run_path;
  char live_path[4096], lock_path[4096];
  FILE *live;
  long offset;       /* of the first byte not yet understood */
  int place[FIELDS]; /* column of each field, -1 if missing */
  long rows, room;
  double *value[FIELDS]; /* [rows] each */
  int terminal;
  double last_news;
};

/* --- reading ------------------------------------------------------------------------------------------- */

static int split_line(char *line, char *column[MOST_COLUMNS])
{
  int n = 0;
  for (char *rest = line, *part; n < MOST_COLUMNS && (part = strsep(&rest, "\t\n")) != NULL;)
    column[n++] = part;
  return n;
}

static int read_header(struct watch *w, char *line, struct error *error)
{
  char *column[MOST_COLUMNS];
  int n = split_line(line, column);
  for (int f = 0; f < FIELDS; f++) {
    w->place[f] = -1;
    for (int c = 0; c < n; c++)
      if (strcmp(column[c], field_names[f]) == 0) w->place[f] = c;
    if (w->place[f] < 0)
      return error_set(error, STATUS_USAGE, "%s: not the rows of a run: its first line names no column '%s'",
                       w->live_path, field_names[f]);
  }
  return STATUS_OK;
}

static void read_row(struct watch *w, char *line)
{
  char *column[MOST_COLUMNS];
  int n = split_line(line, column);
  if (w->rows == w->room) {
    long room = 2 * w->room + 256;
    for (int f = 0; f < FIELDS; f++)
      w->value[f] = memory_grow(w->value[f], (size_t)w->room, (size_t)room, sizeof *w->value[f]);
    w->room = room;
  }
  for (int f = 0; f < FIELDS; f++)
    w->value[f][w->rows] = w->place[f] < n ? strtod(column[w->place[f]], NULL) : NAN;
  w->rows++;
}

/* Whole lines that have come since, the first in row `from`; a file that has become shorter (a resume cut it) is read
   again. */
static int read_news(struct watch *w, long *from, struct error *error)
{
  char line[1024];
  struct stat info;
  *from = w->rows;
  if (!w->live) w->live = fopen(w->live_path, "r");
  if (!w->live || fstat(fileno(w->live), &info) != 0) return STATUS_OK;
  if (info.st_size < w->offset) w->offset = w->rows = *from = 0;
  fseek(w->live, w->offset, SEEK_SET);
  while (fgets(line, sizeof line, w->live) && strchr(line, '\n')) {
    int header = w->offset == 0;
    w->offset += (long)strlen(line);
    if (!header)
      read_row(w, line);
    else if (read_header(w, line, error))
      return error->status;
  }
  if (w->rows != *from) w->last_news = clock_seconds();
  return STATUS_OK;
}

/* A writer holds the lock and removes it at the end. Where one was killed the file stays, unlocked; it is
   only tried after a silence, since trying could disturb a writer that starts at that very moment. */
static int is_over(const struct watch *w)
{
  int lock = open(w->lock_path, O_RDONLY | O_CLOEXEC), over = 1;
  if (lock < 0) return 1;
  if (clock_seconds() - w->last_news < 3)
    over = 0;
  else if (flock(lock, LOCK_SH | LOCK_NB) != 0)
    over = 0;
  close(lock);
  return over;
}

/* --- drawing ------------------------------------------------------------------------------------------- */

static void add_row_text(struct buffer *b, const struct watch *w, long row)
{
  buffer_add(b, "step %.0f  loss %.4f", w->value[STEP][row], w->value[LOSS][row]);
  if (!isnan(w->value[VAL_LOSS][row])) buffer_add(b, "  val %.4f", w->value[VAL_LOSS][row]);
  buffer_add(b, "  max logit %.4g", w->value[MAX_LOGIT][row]);
  if (w->value[LAYER][row] >= 0) buffer_add(b, " (L%.0fH%.0f)", w->value[LAYER][row], w->value[HEAD][row]);
}

static void print_lines(const struct watch *w, long from)
{
  struct buffer b = {0};
  for (long row = from; row < w->rows; row++) {
    add_row_text(&b, w, row);
    buffer_add(&b, "\n");
  }
  if (b.text) fputs(b.text, stdout);
  fflush(stdout);
  memory_free(b.text);
}

static void draw(const struct watch *w)
{
  struct winsize size = {.ws_row = 24, .ws_col = 80};
  struct buffer b = {0};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size.ws_row = 24, size.ws_col = 80;
  int rows = (size.ws_row - 3) / 2, utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  if (w->rows > 0) {
    buffer_add(&b, "%s  ", w->run_path);
    add_row_text(&b, w, w->rows - 1);
    buffer_add(&b, "\n");
    struct chart chart = {
      "loss (nat per token)", w->value[STEP], w->value[LOSS], w->rows, size.ws_col, rows, 0, utf8};
    chart_draw(&b, &chart);
    chart.title = "max logit (log scale)";
    chart.y = w->value[MAX_LOGIT];
    chart.log_scale = 1;
    chart_draw(&b, &chart);
  } else
    buffer_add(&b, "%s: no step yet\n", w->run_path);
  printf("\033[H\033[J%s", b.text);
  fflush(stdout);
  memory_free(b.text);
}

static void print_end(const struct watch *w)
{
  struct run_file *run;
  if (run_open(&run, w->run_path, NULL) != STATUS_OK) {
    message("%s: no writer any more, and no run file: `maxlogit run` starts it anew", w->run_path);
    return;
  }
  const char *state = run_state(run);
  if (strcmp(state, "running") == 0)
    message("%s: no writer any more; `maxlogit resume %s` continues it", w->run_path, w->run_path);
  else
    message("%s: %s after %ld step%s", w->run_path, state, run_last_step(run), text_s(run_last_step(run)));
  run_close(run);
}

static int follow(struct watch *w, struct error *error)
{
  if (access(w->live_path, R_OK) != 0 && access(w->run_path, R_OK) != 0)
    return error_set(error, STATUS_USAGE, "%s: no such run, nor %s", w->run_path, w->live_path);
  if (access(w->run_path, F_OK) == 0) { /* no waiting for what is no run */
    struct run_file *run;
    int status = run_open_trained(&run, w->run_path, error);
    if (status) return status;
    run_close(run);
  }
  for (int over = 0;;) {
    long from;
    if (read_news(w, &from, error)) return error->status;
    if (w->terminal)
      draw(w);
    else
      print_lines(w, from);
    if (over || ferror(stdout)) break;
    over = is_over(w);
    struct timespec pause = {(time_t)w->interval, (long)(fmod(w->interval, 1) * 1e9)};
    if (!over) nanosleep(&pause, NULL);
  }
  print_end(w);
  return STATUS_OK;
}

/* --- command line -------------------------------------------------------------------------------------- */

static const struct command_option options[] = {
  {.row = REAL_ROW(struct watch, interval, "0.5", 0.01, 3600, "s", "Seconds between looks for news", 0),
   .letter = 'n',
   .argument = "SECONDS"},
  NO_OPTION};

static int watch(void *request, struct error *error)
{
  struct watch *w = request;
  setlocale(LC_CTYPE, "");
  w->terminal = isatty(STDOUT_FILENO);
  w->run_path = w->request.words.word[0];
  run_sibling(w->live_path, w->run_path, ".live.tsv");
  run_sibling(w->lock_path, w->run_path, ".lock");
  w->last_news = clock_seconds();
  int status = follow(w, error);
  if (w->live) fclose(w->live);
  for (int f = 0; f < FIELDS; f++) memory_free(w->value[f]);
  return status;
}

const struct command command_watch = {
  .name = "watch",
  .arguments = "RUN.h5",
  .help = "live curves in the terminal",
  .about = "Follow a run that is being written: curves on a terminal, plain lines elsewhere. Ends when the "
           "run ends.",
  .options = options,
  .size = sizeof(struct watch),
  ONE_RUN,
  .run = watch,
};
