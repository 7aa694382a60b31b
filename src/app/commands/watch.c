/* watch.c - follow a run until it ends */
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "app/chart.h"
#include "app/command.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/status_line.h"
#include "base/text.h"
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

static void add_row_text(struct buffer *b, const struct live_view *w, long row)
{
  buffer_add(b, "step %.0f  loss %.4f", w->live.value[LIVE_STEP][row],
             without_nan_sign(w->live.value[LIVE_LOSS][row]));
  if (!isnan(w->live.value[LIVE_VAL_LOSS][row]))
    buffer_add(b, "  val %.4f", w->live.value[LIVE_VAL_LOSS][row]);
  buffer_add(b, "  max logit %.4g", without_nan_sign(w->live.value[LIVE_MAX_LOGIT][row]));
  if (w->live.value[LIVE_LAYER][row] >= 0)
    buffer_add(b, " (L%.0fH%.0f)", w->live.value[LIVE_LAYER][row], w->live.value[LIVE_HEAD][row]);
}

static void print_lines(const struct live_view *w, long from)
{
  struct buffer b = {0};
  for (long row = from; row < w->live.rows; row++) {
    add_row_text(&b, w, row);
    buffer_add(&b, "\n");
  }
  if (b.text) fputs(b.text, stdout);
  fflush(stdout);
  memory_free(b.text);
}

static void draw(const struct live_view *w)
{
  struct terminal_size size = terminal_size(STDOUT_FILENO);
  struct buffer b = {0};
  int rows = (size.rows - 3) / 2, utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  if (w->live.rows > 0) {
    buffer_add(&b, "%s  ", w->shown);
    add_row_text(&b, w, w->live.rows - 1);
    buffer_add(&b, "\n");
    struct chart chart = {"loss (nat per token)",
                          w->live.value[LIVE_STEP],
                          w->live.value[LIVE_LOSS],
                          w->live.rows,
                          size.columns,
                          rows,
                          0,
                          utf8};
    chart_draw(&b, &chart);
    chart.title = "max logit (log scale)";
    chart.y = w->live.value[LIVE_MAX_LOGIT];
    chart.log_scale = 1;
    chart_draw(&b, &chart);
  } else
    buffer_add(&b, "%s: no step yet\n", w->shown);
  printf("\033[H\033[J%s", b.text);
  fflush(stdout);
  memory_free(b.text);
}

static void print_end(const struct live_view *w)
{
  struct run_file *run;
  if (run_open(&run, w->run_path, NULL) != STATUS_OK) {
    message("%s: no writer any more, and no run file: `maxlogit run` starts it anew", w->run_path);
    return;
  }
  const char *state = run_shown_state(run);
  int failed = !strcmp(state, "diverged") || run_blew_up(run);
  if (strcmp(state, "running") == 0)
    message("%s: no writer any more; `maxlogit resume %s` continues it", w->run_path, w->run_path);
  else
    message("%s: %s after %ld step%s", w->run_path, state, run_last_step(run), text_s(run_last_step(run)));
  if (failed) message("`maxlogit show --why %s` shows how", w->run_path);
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

/* --- command line -------------------------------------------------------------------------------------- */

static const struct command_option options[] = {
  {.row = REAL_ROW(struct live_view, interval, "0.5", 0.01, 3600, "s", "Seconds between looks for news", 0),
   .letter = 'n',
   .argument = "SECONDS"},
  NO_OPTION};

static int watch(void *request, struct error *error)
{
  struct live_view *w = request;
  setlocale(LC_CTYPE, "");
  w->terminal = isatty(STDOUT_FILENO);
  w->run_path = file_resolve(w->request.words.word[0], w->resolved);
  w->shown = text_cleaned(w->run_path, "");
  live_begin(&w->live, w->run_path);
  int status = live_follow(&w->live, w->interval, show, w, error);
  if (!status) print_end(w);
  live_end(&w->live);
  memory_free(w->shown);
  return status;
}

const struct command command_watch = {
  .name = "watch",
  .arguments = "RUN.h5",
  .help = "live curves in the terminal",
  .about = "Follow a run that is being written: curves on a terminal, plain lines elsewhere. Ends when the "
           "run ends.",
  .options = options,
  .size = sizeof(struct live_view),
  ONE_RUN,
  .run = watch,
};
