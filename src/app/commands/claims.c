/* maxlogit claims: the ledger: run what is missing, and print a verdict for each claim */
#include <stdlib.h>
#include <string.h>
#include "analysis/gnuplot.h"
#include "analysis/json.h"
#include "app/command.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "ledger/page.h"
#include "ledger/tell.h"
#include "run/drive.h"

enum { QUICK_STAGES = 2 };
static const char *const levels[] = {"quick", "full", NULL};

struct options {
  struct request request;
  const char *readme, *report;
  long level, list, json, quiet, jobs;
};

static const struct command_option options[] = {
  CHOICE(level, 0, levels, "quick",
         "quick: at most 6 seeds a claim; full: at most 24. Claims that quick has settled stay as they are"),
  FLAG(list, 'l', "Print the claims and their runs, run nothing"),
  FLAG(json, 0, "The same " JSON_HELP),
  TEXT(readme, 0, "DIR", NULL, "Write the claims into DIR/NN-question/README.md, between two marks"),
  TEXT(report, 0, "DIR", NULL,
       "Write DIR/index.html: all claims with figures, one page for screen and paper"),
  WHOLE(jobs, 'j', "N", "0", 1, 1024, JOBS_HELP),
  FLAG(quiet, 'q', "No progress"),
  NO_OPTION,
};

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
  const struct options *a = context;
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

static int settle(struct ledger *l, const struct options *a, struct error *error)
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

static int claims(void *request, struct error *e)
{
  const struct options *r = request;
  struct ledger l = {0};
  drive_catch_signals();
  int status = ledger_open(&l, claim_rows, r->request.words.word, r->request.words.count, e);
  l.stages = r->level ? STAGES : QUICK_STAGES;
  l.assignment = r->request.setting, l.assignments = r->request.settings;
  l.jobs = r->jobs;
  if (!status && r->list) {
    status = ledger_plan(&l, l.stages - 1, e);
    if (!status && r->json)
      json_print(tell_json(&l));
    else if (!status)
      print_list(&l);
  } else if (!status)
    status = settle(&l, r, e);
  ledger_close(&l);
  return status;
}

const struct command command_claims = {
  .name = "claims",
  .arguments = "[ID ...] [key=value ...]",
  .help = "run the experiments, print a verdict for each claim of the literature",
  .about =
    "Settle what the literature says: run what is missing of the experiments behind the claims (of those "
    "named, "
    "or of all), in stages of 3, 6, 12 and 24 seeds from 1101 on, and print for each its effect with "
    "interval, "
    "the number of pairs, the effect that could have been seen, and the verdict: holds, refuted here, "
    "partly, "
    "inconclusive, or needs scale where no small machine can tell. key=value goes to all runs: sweep.dir "
    "(default runs/claims) or, for another ledger, data=bytes data.path=FILE. Started again it goes on where "
    "it "
    "was.",
  .more =
    "The rule was fixed before the runs. After each stage the effect's interval is judged; a claim that is "
    "settled gets no more seeds. For the four looks each interval is one of 98.75 % (Bonferroni over the "
    "looks: "
    "repeated confidence intervals), so that either one-sided error stays below 2.5 % over all of them: to "
    "see "
    "an effect where there is none, and to deny one that matters. Holds: the interval does not reach zero "
    "and "
    "the effect is as large as the claim says that matters, or, where a claim denies a difference, the "
    "interval "
    "lies within that margin. Refuted here: the interval excludes it. Partly: the sign is right, the size is "
    "not. p is corrected for the looks, and by Holm over all claims that were settled by one command.",
  OPTIONS,
  .most = MANY_WORDS,
  .settings = 1,
  .run = claims,
};
