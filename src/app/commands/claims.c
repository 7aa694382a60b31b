/* maxlogit claims: the ledger: run the missing runs, and print a verdict for each claim */
#include <stdlib.h>
#include <string.h>
#include "analysis/gnuplot.h"
#include "analysis/json.h"
#include "app/command.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/markup.h"
#include "base/memory.h"
#include "base/text.h"
#include "ledger/ledger_file.h"
#include "ledger/other_ledger.h"
#include "ledger/page.h"
#include "ledger/tuned_rates.h"
#include "ledger/replication.h"
#include "ledger/print.h"
#include "run/drive.h"
#include "run/farm.h"

enum { QUICK_STAGES = 2 };
static const char *const levels[] = {"quick", "full", NULL};

struct options {
  struct request request;
  const char *readme, *report, *replicas, *beside;
  struct words replicate;
  long level, list, rates, json, quiet, jobs;
};

static const struct command_option options[] = {
  CHOICE(
    level, 0, levels, "quick",
    "quick: at most 6 seeds a claim, tuned arms at the best rates that are kept of them "
    "(experiments/rates.def); full: at most 24, rates chosen anew. Claims that quick has settled stay as "
    "they are"),
  FLAG(list, 'l', "Print the claims and their runs, run nothing"),
  FLAG(rates, 0, "Choose the rates of tuned arms anew, and print them as experiments/rates.def keeps them"),
  FLAG(json, 0, "The same " JSON_HELP),
  MANY(replicate, "SETTINGS",
       "Settle them with these settings as well, \"model.width=128 model.heads=8\" or \"data=bytes "
       "data.path=FILE\", and "
       "say where a verdict flips (may be repeated)"),
  TEXT(readme, 0, "DIR", NULL, "Write the claims into DIR/NN-question/README.md, between two marks"),
  TEXT(report, 0, "DIR", NULL,
       "Write DIR/index.html: all claims with figures, one page for screen and paper"),
  TEXT(replicas, 0, "DIR", NULL,
       "With --beside: which verdicts of that ledger stand with these settings, another width say, and which "
       "flip: tables in DIR/README.md and DIR/NN-question/README.md, between marks of their own"),
  TEXT(
    beside, 0, "LEDGER", NULL,
    "With --report, --readme or --replicas: another ledger beside this one, a text's say: its claims.json, "
    "the folder of its runs, or the README.md that --readme wrote of it"),
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

static long count_done(const struct sweep *s)
{
  long done = 0;
  for (long i = 0; i < s->count; i++) done += s->points[i].fate > SWEEP_RUNNING;
  return done;
}

static void start(void *context, const struct sweep *s)
{
  (void)context;
  message("first phases: %ld run%s that others start from, %ld of them done before", s->count,
          text_s(s->count), count_done(s));
}

static void tune(void *context, const struct sweep *s)
{
  (void)context;
  message("rates: %ld run%s on seeds from %d, %ld of them done before", s->count, text_s(s->count),
          TUNING_SEED, count_done(s));
}

static void look(void *context, const struct sweep *s, long point)
{
  const struct options *a = context;
  if (point < 0) return;
  const struct sweep_point *p = &s->points[point];
  if (p->fate == SWEEP_FAILED)
    message("%s %s failed: %s", p->id, p->label, p->reason);
  else if (!a->quiet)
    message("%ld/%ld %s %s %s", count_done(s), s->count, p->id, sweep_fate_name(p->fate), p->label);
}

/* --- results -------------------------------------------------------------------------------------------- */

static void print_list(const struct ledger *l)
{
  double hours = 0;
  for (int i = 0; i < l->entries; i++) {
    const struct entry *x = &l->entry[i];
    const struct claim *c = x->claim;
    int runs = 0, done = 0;
    for (int a = 0; a < CLAIM_ARMS; a++)
      for (int k = 0; k < x->arm[a].runs; k++) {
        runs++;
        done += x->arm[a].run[k].fate > SWEEP_RUNNING;
      }
    printf("%-7s %d/%d run%s  %s  %s  %s%s", c->id, done, runs, text_s(runs), x->registered, x->question,
           c->sentence,
           c->withdrawn    ? " (withdrawn)"
           : c->scale      ? " (needs scale)"
           : c->identity   ? " (an identity)"
           : runs && !done ? " (open)"
                           : "");
    if (c->hours && runs) printf(" (about %g core hours)", c->hours);
    printf("\n");
    hours += c->hours;
  }
  if (hours)
    printf("%d claims; of those that say what they cost the full level takes about %g core hours\n",
           l->entries, hours);
}

/* Requirements from outside, checked before anything is run. */
static int open_beside(const struct options *a, struct other_ledger *k, struct error *error)
{
  if (a->replicas && !a->beside)
    return error_set(error, STATUS_USAGE, "claims --replicas: of which ledger? --beside is wanted");
  if (!a->beside) return STATUS_OK;
  if (!a->report && !a->readme && !a->replicas)
    return error_set(error, STATUS_USAGE,
                     "claims --beside: for --report, --readme or --replicas, and none is there");
  return other_ledger_open(k, a->beside, error) ? error_prefix(error, "claims --beside") : STATUS_OK;
}

static int write_pages(const struct ledger *l, const struct options *a, const struct other_ledger *beside,
                       const char *scripts, struct error *error)
{
  if (a->report && page_write(l, beside, a->report, scripts, error)) return error->status;
  if (a->readme && print_readmes(l, beside, a->readme, error)) return error->status;
  return a->replicas ? replication_print(l, beside, a->replicas, error) : STATUS_OK;
}

static void hear(struct ledger *l, const struct options *a)
{
  if (farm_tells()) l->look = look;
  l->context = (void *)(uintptr_t)a;
  if (!a->quiet && farm_tells()) l->begin = begin, l->start = start, l->tune = tune;
}

static int print_failure(int status)
{
  if (status == STATUS_STOPPED) message("stopped; the same command goes on");
  return status;
}

static int choose(struct ledger *l, const struct options *a, struct error *error)
{
  hear(l, a);
  int failed = 0, status = print_failure(ledger_choose(l, &failed, error));
  if (!status && farm_tells()) tuned_rates_print(l);
  return status ? status : failed ? STATUS_FAIL : STATUS_OK;
}

static int settle(struct ledger *l, const struct options *a, const struct other_ledger *beside,
                  const char *scripts, struct error *error)
{
  hear(l, a);
  int status = STATUS_OK;
  for (int i = 0; i < a->replicate.count && !status; i++)
    status = ledger_replicate(l, claim_rows, a->replicate.word[i], 0, error);
  if (!status) status = ledger_run(l, error);
  for (int i = 0; i < a->replicate.count && !status; i++)
    status = ledger_replicate(l, claim_rows, a->replicate.word[i], 1, error);
  if (print_failure(status) == STATUS_STOPPED || *error->text) return status;
  ledger_recall(l);
  if (a->json)
    json_print(ledger_json(l));
  else
    print_table(l);
  if (!farm_tells()) return status;
  if (ledger_save(l, error)) return error->status;
  return write_pages(l, a, beside, scripts, error) ? error->status : status;
}

static int claims(void *request, struct error *e)
{
  const struct options *r = request;
  struct ledger l = {0};
  drive_catch_signals();
  if (!r->list && farm_open(e)) return e->status;
  int status = ledger_open(&l, claim_rows, r->request.words.word, r->request.words.count, e);
  l.stages = r->level ? STAGES : QUICK_STAGES;
  l.assignment = r->request.setting, l.assignments = r->request.settings;
  l.jobs = r->jobs;
  l.choose = r->rates || r->level;
  if (!status && r->list) {
    status = ledger_plan(&l, l.stages - 1, e);
    if (!status && r->json)
      json_print(ledger_json(&l));
    else if (!status)
      print_list(&l);
  } else if (!status && r->rates) {
    status = choose(&l, r, e);
  } else if (!status) {
    char scripts[4096] = "";
    struct other_ledger beside = {0};
    status = open_beside(r, &beside, e);
    if (!status && r->report)
      status = page_may_replace(r->report, LEDGER_PAGE_TITLE, (const char *const[]){"index.html", NULL}, e);
    if (!status && r->report) status = gnuplot_scripts(scripts, e);
    if (!status) status = settle(&l, r, r->beside ? &beside : NULL, scripts, e);
    other_ledger_close(&beside);
  }
  ledger_close(&l);
  return status;
}

const struct command command_claims = {
  .name = "claims",
  .arguments = "[ID ...] [key=value ...]",
  .help = "run experiments and print a verdict for each claim of the literature",
  .about =
    "Settle claims of the literature: make the missing runs of the experiments behind them (of the named "
    "claims, "
    "or of all), in stages of 3, 6, 12 and 24 seeds from 1101 on. Print for each claim the quantity that is "
    "equal "
    "in its arms, the effect with its interval, the number of pairs, the verdict, and the change that would "
    "alter "
    "it. key=value goes to all runs: sweep.dir (default runs/claims) or, for another ledger, data=bytes "
    "data.path=FILE. Started again, it continues.",
  .more =
    "The rule was fixed before the runs. An effect is the median over pairs of equal seed, and its interval "
    "lies between order statistics, which is exact for any distribution: of 6 pairs none, of 12 one, of 24 "
    "six may lie on the other side. Either one-sided error stays below 3 % over all looks. Tuned arms are "
    "compared at the optimum between the rates of their grids, and the interval contains its uncertainty.\n\n"
    "Holds: the interval lies beyond the smallest effect that matters; if the claim denies a difference, "
    "within it. Partly (differs, size open): it lies beyond zero. Refuted here: it lies short of the effect "
    "that matters; if a difference is denied, beyond it. Fewer than six pairs settle nothing. Needs scale: "
    "no "
    "small machine can test it. True by construction: an identity.\n\n"
    "--level=quick stops at 6 seeds, full at 12 for a settled claim, otherwise at 24. p is corrected for the "
    "looks and for all comparisons that can be tested, by Holm and by the false discovery rate. The "
    "registered parts of a claim (rule, seeds, regime, arms, measure, margin) have a hash. If it differs "
    "from "
    "the one in claims.json, beside the runs, the former verdict is printed, too.\n\n"
    "maxlogit claims --list C-56\nmaxlogit claims C-56 --level=quick",
  OPTIONS,
  .most = MANY_WORDS,
  .settings = 1,
  .run = claims,
};
