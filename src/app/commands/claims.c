/* maxlogit claims: the ledger: run what is missing, and print a verdict for each claim */
#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/gnuplot.h"
#include "analysis/json.h"
#include "app/command.h"
#include "app/report.h"
#include "app/words.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "ledger/page.h"
#include "ledger/tell.h"
#include "run/drive.h"

enum { KEY_LEVEL = 256, KEY_JSON, KEY_README, KEY_REPORT, QUICK_STAGES = 2 };

struct arguments {
  char **id;
  const char **assignment, *readme, *report;
  int ids, assignments, list, json, quiet, stages;
  long jobs;
};

static const struct argp_option options[] = {
  {"level", KEY_LEVEL, "quick|full", 0,
   "quick (default): at most 6 seeds a claim; full: at most 24. Claims that quick has settled stay as they "
   "are",
   0},
  {"list", 'l', NULL, 0, "Print the claims and their runs, run nothing", 0},
  {"json", KEY_JSON, NULL, 0, "The same " JSON_HELP, 0},
  {"readme", KEY_README, "DIR", 0, "Write the claims into DIR/NN-question/README.md, between two marks", 0},
  {"report", KEY_REPORT, "DIR", 0,
   "Write DIR/index.html: all claims with figures, one page for screen and paper", 0},
  {"jobs", 'j', "N", 0,
   "Launches at a time, each a process (default: sweep.jobs, or as many as the cores carry)", 0},
  {"quiet", 'q', NULL, 0, "No progress", 0},
  {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
  struct arguments *a = state->input;
  switch (key) {
  case KEY_LEVEL:
    if (strcmp(text, "quick") != 0 && strcmp(text, "full") != 0)
      argp_error(state, "--level=%s: quick or full is wanted", text);
    a->stages = *text == 'q' ? QUICK_STAGES : STAGES;
    return 0;
  case KEY_JSON: a->json = 1; return 0;
  case KEY_README: a->readme = text; return 0;
  case KEY_REPORT: a->report = text; return 0;
  case 'l': a->list = 1; return 0;
  case 'q': a->quiet = 1; return 0;
  case 'j': a->jobs = words_jobs(text, state); return 0;
  case ARGP_KEY_ARG:
    if (strchr(text, '=')) {
      a->assignment =
        memory_grow(a->assignment, (size_t)a->assignments, (size_t)a->assignments + 1, sizeof *a->assignment);
      a->assignment[a->assignments++] = text;
    } else {
      a->id = memory_grow(a->id, (size_t)a->ids, (size_t)a->ids + 1, sizeof *a->id);
      a->id[a->ids++] = text;
    }
    return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

/* --- progress ------------------------------------------------------------------------------------------- */

static void begin(void *context, const struct ledger *l, int stage, const struct sweep *s)
{
  long done = 0;
  int open = 0;
  (void)context;
  for (long i = 0; i < s->count; i++) done += s->points[i].fate != SWEEP_WAITING;
  for (int i = 0; i < l->entries; i++) open += !l->entry[i].judgement.settled;
  message("stage %d of %d: %d seeds for %d claim%s; %ld run%s, %ld of them done before", stage + 1, l->stages,
          stage_seeds[stage], open, text_s(open), s->count, text_s(s->count), done);
}

static void look(void *context, const struct sweep *s, long point)
{
  const struct arguments *a = context;
  long over = 0;
  if (point < 0) return;
  const struct sweep_point *p = &s->points[point];
  if (p->fate == SWEEP_FAILED)
    message("%s %s failed: %s", p->id, p->label, p->reason);
  else if (!a->quiet) {
    for (long i = 0; i < s->count; i++) over += s->points[i].fate > SWEEP_RUNNING;
    message("%ld/%ld %s %s %s", over, s->count, p->id, sweep_fate_name(p->fate), p->label);
  }
}

/* --- results -------------------------------------------------------------------------------------------- */

static void print_list(const struct ledger *l)
{
  for (int i = 0; i < l->entries; i++) {
    const struct entry *x = &l->entry[i];
    int runs = 0, done = 0;
    for (int a = 0; a < CLAIM_ARMS; a++)
      for (int k = 0; k < x->arm[a].runs; k++) {
        runs++;
        done += x->arm[a].run[k].fate > SWEEP_RUNNING;
      }
    printf("%-7s %d/%d run%s  %s  %s%s\n", x->claim->id, done, runs, text_s(runs), x->question,
           x->claim->sentence, x->claim->scale ? " (needs scale)" : "");
  }
}

static int keep_json(const struct ledger *l, struct error *error)
{
  struct buffer path = {0};
  json_t *all = tell_json(l);
  char *text = json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
  buffer_add(&path, "%s/claims.json", l->folder);
  int status = file_write(path.text, text, strlen(text), error);
  memory_free(path.text);
  free(text);
  json_decref(all);
  return status;
}

static int settle(struct ledger *l, const struct arguments *a, struct error *error)
{
  char scripts[4096];
  if (a->report && gnuplot_scripts(NULL, scripts, error)) return error->status;
  l->look = look;
  l->context = (void *)(uintptr_t)a;
  if (!a->quiet) l->begin = begin;
  int status = ledger_run(l, error);
  if (status == STATUS_STOPPED) message("stopped; the same command goes on");
  if (status == STATUS_STOPPED || *error->text) return status;
  if (a->json)
    json_print(tell_json(l));
  else
    tell_table(l);
  if (l->folder && keep_json(l, error)) return error->status;
  if (a->report && page_write(l, a->report, scripts, error)) return error->status;
  if (a->readme && tell_readmes(l, a->readme, error)) return error->status;
  return status;
}

static int claims(int argc, char **argv)
{
  static const struct argp argp = {
    options,
    parse,
    "[ID ...] [key=value ...]",
    "Settle what the literature says: run what is missing of the experiments behind the claims (of those "
    "named, or of "
    "all), in stages of 3, 6, 12 and 24 seeds from 1101 on, and print for each its effect with interval, the "
    "number of "
    "pairs, the effect that could have been seen, and the verdict: holds, refuted here, partly, "
    "inconclusive, or needs "
    "scale where no small machine can tell. key=value goes to all runs: sweep.dir (default runs/claims) or, "
    "for another "
    "ledger, data=bytes data.path=FILE. Started again it goes on where it was.\v"
    "The rule was fixed before the runs. After each stage the effect's interval is judged; a claim that is "
    "settled gets "
    "no more seeds. For the four looks each interval is one of 98.75 % (Bonferroni over the looks: repeated "
    "confidence "
    "intervals), so that either one-sided error stays below 2.5 % over all of them: to see an effect where "
    "there is "
    "none, and to deny one that matters. Holds: the interval does not reach zero and the effect is as large "
    "as the "
    "claim says that matters, or, where a claim denies a difference, the interval lies within that margin. "
    "Refuted here: "
    "the interval excludes it. Partly: the sign is right, the size is not. p is corrected for the looks, and "
    "by Holm over "
    "all claims that were settled by one command.",
    NULL,
    NULL,
    NULL};
  struct arguments a = {.stages = QUICK_STAGES};
  struct error e = {0};
  struct ledger l = {0};
  drive_catch_signals();
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  int status = ledger_open(&l, claim_rows, a.id, a.ids, &e);
  l.stages = a.stages;
  l.assignment = a.assignment, l.assignments = a.assignments;
  l.jobs = a.jobs;
  if (!status && a.list) {
    status = ledger_plan(&l, a.stages - 1, &e);
    if (!status && a.json)
      json_print(tell_json(&l));
    else if (!status)
      print_list(&l);
  } else if (!status)
    status = settle(&l, &a, &e);
  ledger_close(&l);
  memory_free(a.id);
  memory_free(a.assignment);
  return *e.text ? report_error(&e) : status;
}

const struct command command_claims = {
  .name = "claims",
  .arguments = "[ID ...] [--level quick|full]",
  .run = claims,
  .help = "run the experiments, print a verdict for each claim of the literature",
};
