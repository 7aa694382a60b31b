/* maxlogit sweep: run the product of lists, and report the outcome of each point */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "app/command.h"
#include "app/summary.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/status_line.h"
#include "base/text.h"
#include "run/drive.h"
#include "run/farm.h"
#include "run/sweep.h"
#include "storage/run_file.h"

enum { BAR = 30, MOST_LINES = 64 };

struct options {
  struct request request;
  long jobs, list, quiet;
  const char *shard;
};

static const struct command_option options[] = {
  WHOLE(jobs, 'j', "N", "0", 1, 1024, JOBS_HELP),
  TEXT(shard, 's', "I/N", "1/1", "only part I of N parts, I from 1"),
  FLAG(list, 'l', "print the points, run nothing"),
  FLAG(quiet, 'q', "no progress"),
  NO_OPTION,
};

/* --- progress ------------------------------------------------------------------------------------------- */

struct view {
  int quiet, terminal, has_bar;
  double started, drawn, before; /* before: share of the work that was done when we started */
  char *line[MOST_LINES];
  int lines; /* messages of workers, each printed once */
};

static int is_over(const struct sweep_point *p) { return p->fate > SWEEP_RUNNING; }

static double share(const struct sweep *s)
{
  double done = 0;
  for (long i = 0; i < s->count; i++) {
    const struct sweep_point *p = &s->points[i];
    done += is_over(p) ? 1 : p->fate == SWEEP_RUNNING && p->steps ? (double)p->step / (double)p->steps : 0;
  }
  return done / (double)s->count;
}

static long count_over(const struct sweep *s)
{
  long over = 0;
  for (long i = 0; i < s->count; i++) over += is_over(&s->points[i]);
  return over;
}

static void clear_bar(struct view *v)
{
  if (v->has_bar) status_line_clear();
  v->has_bar = 0;
}

static void draw_bar(struct view *v, const struct sweep *s)
{
  double now = clock_seconds(), done = share(s), gained = done - v->before;
  if (!v->terminal || now - v->drawn < 0.1) return;
  v->drawn = now;
  char left[32], time_left[40], runs[64], bar[BAR + 3] = "[";
  const char *const parts[] = {time_left, runs, bar, NULL};
  duration_text(left, round((now - v->started) * (1 - done) / gained));
  snprintf(time_left, sizeof time_left, "%s left", left);
  snprintf(runs, sizeof runs, "%ld/%ld", count_over(s), s->count);
  for (int i = 0; i < BAR; i++) bar[1 + i] = i < done * BAR ? '=' : ' ';
  bar[1 + BAR] = ']';
  status_line(gained > 0 ? parts : parts + 1);
  v->has_bar = 1;
}

/* The state as `show` has it: of a run that finished and failed, too. */
static const char *state_of(const struct sweep_point *p, char out[16])
{
  struct run_file *run = NULL;
  struct error e = {0};
  snprintf(out, 16, "%s", sweep_fate_name(p->fate));
  if (p->fate != SWEEP_FINISHED || access(p->path, R_OK) || run_open(&run, p->path, &e)) return out;
  if (run_blew_up(run)) snprintf(out, 16, "%s", run_shown_state(run));
  run_close(run);
  return out;
}

static void look(void *context, const struct sweep *s, long point)
{
  struct view *v = context;
  if (point >= 0) {
    const struct sweep_point *p = &s->points[point];
    char state[16];
    clear_bar(v);
    if (p->fate == SWEEP_FAILED)
      message("%s %s failed: %s", p->id, p->label, p->reason);
    else if (!v->quiet)
      message("%ld/%ld %s %s %s", count_over(s), s->count, p->id, state_of(p, state), p->label);
  }
  if (!v->quiet) draw_bar(v, s);
}

static void say(void *context, const struct sweep *s, long point, long count, const char *line)
{
  struct view *v = context;
  const char *text = strncmp(line, "maxlogit: ", 10) ? line : line + 10;
  for (int i = 0; i < v->lines; i++)
    if (!strcmp(v->line[i], text)) return;
  if (v->lines < MOST_LINES) v->line[v->lines++] = memory_text(text);
  clear_bar(v);
  if (count > 1)
    message("%s or one of the %ld computed with it: %s", s->points[point].id, count - 1, text);
  else
    message("%s: %s", s->points[point].id, text);
}

/* --- results -------------------------------------------------------------------------------------------- */

/* The columns of one run as `show` has them. */
struct sweep_result {
  char val_loss[32], peak[32], last[32], wall[32];
};

static struct sweep_result read_result(const char *path)
{
  struct sweep_result r = {"-", "-", "-", "-"};
  struct run_file *run = NULL;
  struct place peak, last;
  struct error e = {0};
  double value;
  if (access(path, R_OK) || run_open(&run, path, &e)) return r;
  int has = summary_last(run, "val_loss", &value);
  summary_number(has, value, r.val_loss);
  summary_places(run, &peak, &last);
  if (!isnan(peak.step)) {
    snprintf(r.peak, sizeof r.peak, "%.4g", peak.value);
    snprintf(r.last, sizeof r.last, "%.4g", last.value);
  }
  snprintf(r.wall, sizeof r.wall, "%.1f", run_wall_seconds(run));
  run_close(run);
  return r;
}

static void print_table(const struct sweep *s)
{
  printf("%-12s  %-9s  %8s  %10s  %10s  %8s  point\n", "id", "state", "val loss", "peak logit", "last logit",
         "wall s");
  for (long i = 0; i < s->count; i++) {
    const struct sweep_point *p = &s->points[i];
    struct sweep_result r = read_result(p->path);
    char state[16];
    printf("%-12s  %-9s  %8s  %10s  %10s  %8s  %s\n", p->id, state_of(p, state), r.val_loss, r.peak, r.last,
           r.wall, p->label);
  }
}

static void print_list(const struct sweep *s)
{
  long *launch = memory_new((size_t)s->count + 1, sizeof *launch);
  sweep_launches(s, launch);
  for (long i = 0; i < s->count; i++) {
    const struct sweep_point *p = &s->points[i];
    printf("%ld\t%s\t%s\t%s", p->index + 1, p->id, sweep_fate_name(p->fate), p->label);
    if (s->together > 1 && launch[i]) printf("\tlaunch %ld", launch[i]);
    if (*p->from) printf("\textends %.12s", text_file_name(p->from));
    if (*p->anew) printf("\tanew: %s", p->anew);
    printf(*p->lacks ? "\tlacks %s\n" : "\n", p->lacks);
  }
  memory_free(launch);
}

/* Runs of an earlier sweep that were recorded with other keys: nothing is trained again for them. */
static void say_what_lacks(const struct sweep *s)
{
  long lacking = 0;
  for (long i = 0; i < s->count; i++) {
    const struct sweep_point *p = &s->points[i];
    if (*p->lacks) {
      lacking++;
      warning("%s %s was %s before without %s", p->id, p->label, p->was_done ? "done" : "begun", p->lacks);
    }
  }
  if (lacking)
    warning("%ld of the runs keep%s to what %s recorded with; to record more, `maxlogit rerun FILE.h5 "
            "KEY=VALUE` repeats one bit for bit, or remove the files named above or give another "
            "sweep.dir, and they "
            "are run anew (record.overwrite=1 runs all anew)",
            lacking, lacking == 1 ? "s" : "", lacking == 1 ? "it was" : "they were");
}

static void say_what_extends(const struct sweep *s)
{
  long extended = 0, anew = 0;
  const char *why = "";
  for (long i = 0; i < s->count; i++) {
    extended += *s->points[i].from != 0;
    anew += *s->points[i].anew != 0;
    if (*s->points[i].anew) why = s->points[i].anew;
  }
  if (extended) message("%ld of the runs go on from shorter ones that are finished", extended);
  if (anew) message("%ld of the runs begin anew, though shorter ones are finished: %s", anew, why);
}

static void say_what_next(const struct sweep *s, int status)
{
  long elsewhere = 0;
  for (long i = 0; i < s->count; i++) elsewhere += s->points[i].fate == SWEEP_ELSEWHERE;
  if (elsewhere)
    message("%ld of the runs %s left to another process that is at work on %s; started again, this command "
            "tells when all are done",
            elsewhere, elsewhere == 1 ? "is" : "are", elsewhere == 1 ? "it" : "them");
  if (status == STATUS_STOPPED) message("stopped; the same command goes on");
}

/* --- the command ---------------------------------------------------------------------------------------- */

static int plan(struct sweep *s, struct config *c, const struct options *r, struct error *e)
{
  const char *file = r->request.words.count ? r->request.words.word[0] : NULL;
  long shard, shards;
  int end = -1;
  if (sscanf(r->shard, "%ld/%ld%n", &shard, &shards, &end) != 2 || end < 0 || r->shard[end] || shard < 1 ||
      shard > shards)
    return error_set(e, STATUS_USAGE, "sweep --shard: '%s' is not I/N with I from 1 to N", r->shard);
  if (!file && !r->request.settings)
    return error_set(e, STATUS_USAGE, "which sweep? maxlogit sweep [FILE.conf] [key=value ...]");
  if (file && config_file(c, file, e)) return e->status;
  for (int i = 0; i < r->request.settings; i++)
    if (config_assign(c, r->request.setting[i], e)) return e->status;
  char *name = text_stem(file ? file : "sweep", ".conf");
  int status = sweep_plan(s, c, name, shard, shards, e);
  memory_free(name);
  if (!status && s->doubles)
    warning("%ld point%s left out: the same run as an earlier one", s->doubles,
            s->doubles == 1 ? " is" : "s are");
  if (r->jobs) s->jobs = r->jobs;
  return status;
}

/* sweep.plan beside the runs, a line a point: `watch` counts the points that are left. The sweep itself reports a
   folder that cannot be written. */
static void write_plan(const struct sweep *s)
{
  struct buffer lines = {0}, path = {0};
  struct error e = {0};
  for (long i = 0; i < s->count; i++) buffer_add(&lines, "%s\t%s\n", s->points[i].id, s->points[i].label);
  const char *one = s->points->path;
  buffer_add(&path, "%.*s" SWEEP_PLAN, (int)(text_file_name(one) - one), one);
  if (!file_make_folders(path.text, &e)) file_write(path.text, lines.text, lines.length, &e);
  memory_free(lines.text);
  memory_free(path.text);
}

static int run_points(struct sweep *s, const struct options *a, struct error *e)
{
  int quiet = a->quiet || !farm_tells();
  struct view view = {.quiet = quiet,
                      .terminal = !quiet && isatty(STDERR_FILENO),
                      .started = clock_seconds(),
                      .before = share(s)};
  if (farm_tells()) s->look = look;
  s->say = say;
  s->context = &view;
  if (!quiet && s->count)
    message("%ld run%s, %ld of them done before", s->count, text_s(s->count), count_over(s));
  sweep_share(s);
  if (!quiet && s->together > 1)
    message("up to %ld runs a launch, on %ld thread%s; %ld launch%s at a time", s->together, s->threads,
            text_s(s->threads), s->jobs, s->jobs == 1 ? "" : "es");
  say_what_lacks(s);
  if (!quiet) say_what_extends(s);
  for (long i = 0; i < s->count; i++)
    if (s->points[i].fate == SWEEP_FAILED && farm_tells()) look(&view, s, i); /* in an earlier sweep */
  if (farm_tells() && count_over(s) < s->count) write_plan(s);
  int status = sweep_run(s, e);
  clear_bar(&view);
  for (int i = 0; i < view.lines; i++) memory_free(view.line[i]);
  print_table(s);
  say_what_next(s, status);
  return status;
}

static int sweep(void *request, struct error *e)
{
  const struct options *r = request;
  struct sweep s = {0};
  drive_catch_signals();
  if (!r->list && farm_open(e)) return e->status;
  struct config *c = config_new();
  int status = plan(&s, c, r, e);
  if (!status && r->list)
    print_list(&s);
  else if (!status)
    status = run_points(&s, r, e);
  sweep_free(&s);
  config_free(c);
  return status;
}

const struct command command_sweep = {
  .name = "sweep",
  .arguments = "[FILE.conf] [key=value ...]",
  .help = "run every combination of values",
  .about = "Run every combination of the values given with commas or ranges (train.lr = 1e-3, 3e-3 or "
           "1e-3:1e-1:log:5, train.seed = 1..5), several at a time, each into its own file in sweep.dir.",
  .more =
    "All points are checked before the first is run. Runs that are finished are not run again and "
    "interrupted "
    "ones go on, so a sweep that was stopped is continued by starting it again; several may share the work "
    "of "
    "one folder. With a larger train.steps, finished runs go on where the schedule is constant; the shorter "
    "ones "
    "stay.\n\n"
    "In the file [arm NAME] begins a set of keys (whole names, up to the next [) that are taken together; "
    "the "
    "arms are crossed with the lists outside of them, and a list within an arm is its own. The name is "
    "recorded: "
    "show --by arm.\n\n"
    "Exit status: 0 when every run is done (those that diverged or blew up are) or in the hands of another "
    "sweep, 1 when one "
    "failed, 75 when stopped.\n\n"
    "maxlogit sweep preset=adam,muon train.seed=1..2 train.steps=40 sweep.dir=runs\n"
    "maxlogit sweep rates.conf --list",
  OPTIONS,
  .most = 1,
  .once = "one configuration file at most",
  .settings = 1,
  .run = sweep,
};
