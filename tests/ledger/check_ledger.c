/* check_ledger.c - the rule by which claims are settled: each verdict, its error rates, and the rows that it is
   applied to */
#include <check.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/memory.h"
#include "../folder.h"
#include "ledger/ledger.h"
#include "ledger/page.h"
#include "ledger/tell.h"
#include "config/config.h"

/* --- verdicts ------------------------------------------------------------------------------------------- */

/* Three effects m - d, m, m + d: error d / sqrt(3), and the interval of a look is m +- 8.860235671... d / sqrt(3): t of
   2 degrees of freedom is (2 p - 1) sqrt(2 / (4 p (1 - p))), here with p = 1 - 0.05 / 8. */
static struct judgement judge3(double m, double d, enum prediction what, double matters, int last)
{
  return judge((double[]){m - d, m, m + d}, 3, what, matters, last);
}

static void expect(struct judgement j, enum verdict verdict, int settled)
{
  ck_assert_msg(j.verdict == verdict && j.settled == settled,
                "%s, settled %d (wanted %s, %d); effect %g [%g, %g]", verdict_name(j.verdict), j.settled,
                verdict_name(verdict), settled, j.effect.mean, j.effect.lo, j.effect.hi);
}

START_TEST(every_verdict)
{
  struct judgement j = judge3(2, 0.1, PREDICT_MORE, 1, 0);
  double p = 1 - 0.05 / 8, t = (2 * p - 1) * sqrt(2 / (4 * p * (1 - p))), half = t * 0.1 / sqrt(3);
  ck_assert_double_eq_tol(j.effect.lo, 2 - half, 1e-9);
  ck_assert_double_eq_tol(j.effect.hi, 2 + half, 1e-9);
  /* t = 2 / (.1 / sqrt 3) = 34.64: tail (1 - t / sqrt(2 + t^2)) / 2, twice, four looks */
  double above = 2 * sqrt(3) / 0.1;
  ck_assert_double_eq_tol(j.p, 4 * (1 - above / sqrt(2 + above * above)), 1e-9);
  /* what three pairs find with a chance of 80 %: the quantiles of t with two degrees of freedom */
  ck_assert_double_eq_tol(j.detectable, 0.1 / sqrt(3) * (t + 0.6 * sqrt(2 / 0.64)), 1e-9);
  expect(j, VERDICT_HOLDS, 1);
  expect(judge3(2, 0.1, PREDICT_MORE, 4, 0), VERDICT_PARTLY,
         1); /* there, and surely smaller than what matters */
  expect(judge3(0, 0.1, PREDICT_MORE, 1, 0), VERDICT_REFUTED, 1);  /* none that matters */
  expect(judge3(-2, 0.1, PREDICT_MORE, 1, 0), VERDICT_REFUTED, 1); /* the other sign */
  expect(judge3(2, 1, PREDICT_MORE, 1, 0), VERDICT_INCONCLUSIVE, 0);
  expect(judge3(2, 1, PREDICT_MORE, 1, 1), VERDICT_INCONCLUSIVE, 1);
  expect(judge3(0.9, 0.1, PREDICT_MORE, 1, 0), VERDICT_INCONCLUSIVE, 0); /* there; its size is open */
  expect(judge3(0.9, 0.1, PREDICT_MORE, 1, 1), VERDICT_PARTLY, 1);
  expect(judge3(-2, 0.1, PREDICT_LESS, 1, 0), VERDICT_HOLDS, 1);
  expect(judge3(2, 0.1, PREDICT_LESS, 1, 0), VERDICT_REFUTED, 1);
  j = judge3(-2, 0.1, PREDICT_LESS, 1, 0);
  ck_assert_double_eq_tol(j.effect.lo, -2 - half, 1e-9); /* told as it was measured */
  expect(judge3(0.1, 0.1, PREDICT_SAME, 1, 0), VERDICT_HOLDS, 1);
  expect(judge3(-2, 0.1, PREDICT_SAME, 1, 0), VERDICT_REFUTED, 1);
  expect(judge3(1, 0.1, PREDICT_SAME, 1, 1), VERDICT_INCONCLUSIVE, 1);
  expect(judge3(-2, 0.1, PREDICT_NOT_MORE, 1, 0), VERDICT_HOLDS, 1);
  expect(judge3(0.4, 0.05, PREDICT_NOT_MORE, 1, 0), VERDICT_HOLDS, 1); /* a rise that does not matter */
  expect(judge3(2, 0.1, PREDICT_NOT_MORE, 1, 0), VERDICT_REFUTED, 1);
  expect(judge3(0.9, 0.1, PREDICT_NOT_MORE, 1, 1), VERDICT_PARTLY, 1);
  expect(judge3(0.2, 0.5, PREDICT_NOT_MORE, 1, 1), VERDICT_INCONCLUSIVE, 1);
  expect(judge3(2, 0.1, PREDICT_NOT_LESS, 1, 0), VERDICT_HOLDS, 1);
  expect(judge3(-2, 0.1, PREDICT_NOT_LESS, 1, 0), VERDICT_REFUTED, 1);
}
END_TEST

START_TEST(what_settles_nothing)
{
  expect(judge((double[]){1}, 1, PREDICT_MORE, 1, 0), VERDICT_INCONCLUSIVE, 0);
  expect(judge((double[]){1, NAN, 1}, 3, PREDICT_MORE, 1, 0), VERDICT_INCONCLUSIVE, 0);
  expect(judge((double[]){1, INFINITY, 1}, 3, PREDICT_NOT_MORE, 1, 1), VERDICT_INCONCLUSIVE, 1);
  expect(judge(NULL, 0, PREDICT_SAME, 1, 1), VERDICT_INCONCLUSIVE, 1);
  ck_assert(isnan(judge(NULL, 0, PREDICT_SAME, 1, 1).p));
  /* runs that agree to the bit have an interval of no width */
  struct judgement j = judge((double[]){0, 0, 0}, 3, PREDICT_SAME, 1e-9, 0);
  expect(j, VERDICT_HOLDS, 1);
  ck_assert_double_eq(j.p, 0);
  expect(judge((double[]){2, 2, 2}, 3, PREDICT_MORE, 1, 0), VERDICT_HOLDS, 1);
}
END_TEST

/* --- error rates ---------------------------------------------------------------------------------------- */

enum { LEDGERS = 8000 };

/* The share of trials, of normal effects with deviation 1, that end with `verdict` by the stages. */
static double share(double mean, enum prediction what, double matters, enum verdict verdict, double *seeds)
{
  gsl_rng *random = gsl_rng_alloc(gsl_rng_mt19937);
  double effect[24], found = 0;
  gsl_rng_set(random, 20250712);
  *seeds = 0;
  for (int trial = 0; trial < LEDGERS; trial++) {
    struct judgement j = {0};
    int n = 0, stage = 0;
    do {
      while (n < stage_seeds[stage]) effect[n++] = mean + gsl_ran_ugaussian(random);
      j = judge(effect, n, what, matters, stage + 1 == STAGES);
    } while (++stage < STAGES && !j.settled);
    found += j.verdict == verdict;
    *seeds += (double)n / LEDGERS;
  }
  gsl_rng_free(random);
  return found / LEDGERS;
}

/* Three deviations of a share of 2.5 % over so many trials. */
#define SPREAD (3 * sqrt(0.025 * 0.975 / LEDGERS))

START_TEST(errors_stay_below_what_is_promised)
{
  double n;
  const double most = LEDGER_ERROR / 2 + SPREAD;
  /* no effect, said to be there; however small what matters is */
  ck_assert_double_le(share(0, PREDICT_MORE, 0.01, VERDICT_HOLDS, &n), most);
  ck_assert_double_le(share(0, PREDICT_MORE, 0.8, VERDICT_HOLDS, &n), most);
  ck_assert_double_le(share(0, PREDICT_LESS, 0.01, VERDICT_HOLDS, &n), most);
  ck_assert_double_le(share(0, PREDICT_NOT_MORE, 0.01, VERDICT_REFUTED, &n), most);
  /* an effect that matters, denied */
  ck_assert_double_le(share(0.8, PREDICT_MORE, 0.8, VERDICT_REFUTED, &n), most);
  ck_assert_double_le(share(-0.8, PREDICT_LESS, 0.8, VERDICT_REFUTED, &n), most);
  ck_assert_double_le(share(0.8, PREDICT_NOT_MORE, 0.8, VERDICT_HOLDS, &n), most);
  ck_assert_double_le(share(-0.8, PREDICT_NOT_LESS, 0.8, VERDICT_HOLDS, &n), most);
  /* equivalence: at the margin's edge either answer is an error */
  ck_assert_double_le(share(0.8, PREDICT_SAME, 0.8, VERDICT_HOLDS, &n), most);
  ck_assert_double_le(share(-0.8, PREDICT_SAME, 0.8, VERDICT_HOLDS, &n), most);
  ck_assert_double_le(share(0.8, PREDICT_SAME, 0.8, VERDICT_REFUTED, &n), most);
  /* the rule is no idler: four looks spend a good part of what they may */
  ck_assert_double_ge(share(0, PREDICT_MORE, 0.01, VERDICT_HOLDS, &n), 0.012);
}
END_TEST

START_TEST(power_and_stopping)
{
  double n;
  ck_assert_double_ge(share(0.8, PREDICT_MORE, 0.6, VERDICT_HOLDS, &n), 0.8); /* .8 deviations in up to 24 */
  ck_assert_double_ge(share(0, PREDICT_SAME, 0.9, VERDICT_HOLDS, &n), 0.8);
  ck_assert_double_ge(share(6, PREDICT_MORE, 1, VERDICT_HOLDS, &n), 0.99);
  ck_assert_double_le(n, 6); /* what is large is settled early */
  ck_assert(stage_seeds[0] == 3 && stage_seeds[1] == 6 && stage_seeds[2] == 12 && stage_seeds[3] == 24);
}
END_TEST

/* --- the rows ------------------------------------------------------------------------------------------- */

START_TEST(rows_are_sound)
{
  struct error e = {0};
  int count = 0;
  for (const struct claim_row *r = claim_rows; r->claim; r++, count++) {
    const struct claim *c = r->claim;
    for (const struct claim_row *other = claim_rows; other != r; other++)
      ck_assert_msg(strcmp(other->claim->id, c->id) != 0, "%s stands twice", c->id);
    ck_assert_msg(c->source && *c->source && c->sentence && *c->sentence, "%s: source and sentence", c->id);
    ck_assert_msg(c->scale || c->regime, "%s: what is not run has a reason", c->id);
    if (!c->regime) continue;
    ck_assert_msg(!strstr(c->regime, "seed"), "%s: the seeds are the rule's", c->id);
    /* a run's id does not tell what was recorded, so that claims that share a run must record the same */
    ck_assert_msg(!strstr(c->regime, "record.") || strstr(c->regime, "record.level"), "%s: records", c->id);
    ck_assert_msg(c->matters > (c->contrast == CONTRAST_RATIO), "%s: what matters is %g", c->id, c->matters);
    ck_assert_msg(c->contrast == CONTRAST_DIFFERENCE || claim_compared(c) == 2 || c->level > 0, "%s: level",
                  c->id);
    ck_assert_msg(c->refute && *c->refute && c->explored && *c->explored, "%s: refute and explored", c->id);
    for (int a = 0; a < claim_arms(c); a++) {
      struct metric m;
      ck_assert_msg(metric_read(&m, claim_metric(c, a), &e) == STATUS_OK, "%s: %s", c->id, e.text);
      ck_assert_msg(strncmp(m.series, "attn/max", 8) != 0 || strstr(c->sentence, "batch"),
                    "%s: a maximum over training batches is no measure; probe/max_logit is", c->id);
    }
  }
  ck_assert_int_gt(count, 0);
}
END_TEST

START_TEST(all_is_planned)
{
  struct ledger l;
  struct error e = {0};
  ck_assert_int_eq(ledger_open(&l, claim_rows, NULL, 0, &e), STATUS_OK);
  ck_assert_msg(ledger_plan(&l, 0, &e) == STATUS_OK, "%s", e.text);
  for (int i = 0; i < l.entries; i++)
    for (int a = 0; a < claim_arms(l.entry[i].claim); a++) {
      ck_assert_int_eq(l.entry[i].arm[a].runs, stage_seeds[0]);
      for (int k = 0; k < stage_seeds[0]; k++)
        ck_assert_int_eq(l.entry[i].arm[a].run[k].seed, LEDGER_SEED + k);
    }
  ledger_close(&l);
  char *const wrong[] = {"C-1"};
  ck_assert_int_eq(ledger_open(&l, claim_rows, wrong, 1, &e), STATUS_USAGE);
}
END_TEST

/* --- runs of claims: what is looked at, and what counts ------------------------------------------------------ */

#define TINY \
  "preset = adam\nmodel.layers = 1\nmodel.width = 8\nmodel.heads = 2\nmodel.context = 8\ntrain.batch = 2\n" \
  "train.steps = 8\ntrain.warmup = 0\ndevice.threads = 1\n"
#define CLAIM(matter, ...) \
  { \
    &(const struct claim){.regime = TINY, .matters = matter, __VA_ARGS__}, "0-test" \
  }
/* A comparison of learning rates: A has 0.01. */
#define RATES(b) .arm = {{.name = "A"}, {.name = "B", .set = "train.lr=" #b}}
static const struct claim_row made_rows[] = {
  CLAIM(0.2, .id = "level", .arm = {{.name = "A"}}, .metric = "loss", .level = 2),
  CLAIM(1.2, .id = "level-ratio", .arm = {{.name = "A"}}, .metric = "loss", .contrast = CONTRAST_RATIO,
        .level = 2, .prediction = PREDICT_SAME),
  CLAIM(0.01, .id = "difference", RATES(0.001), .metric = "loss:all:mean", .prediction = PREDICT_LESS),
  CLAIM(1.5, .id = "ratio",
        .arm = {{.name = "A"}, {.name = "B", .set = "train.lr=0.001"}, {.name = "C", .set = "optimizer=sgd"}},
        .metric = "loss", .contrast = CONTRAST_RATIO, .prediction = PREDICT_SAME),
  CLAIM(1.1, .id = "two-metrics", .arm = {{.name = "A"}, {.name = "A", .metric = "grad_norm"}},
        .metric = "loss", .contrast = CONTRAST_RATIO, .prediction = PREDICT_NOT_LESS),
  CLAIM(0.2, .id = "first-diverges", .arm = {{.name = "A", .set = "train.lr=1e30"}, {.name = "B"}},
        .metric = "loss"),
  CLAIM(0.2, .id = "second-diverges", RATES(1e30), .metric = "loss"),
  CLAIM(1, .id = "times", RATES(0.003), .metric = "loss:all:above=4.9"),
  CLAIM(1, .id = "not-finite", RATES(0.003), .metric = "attn/max_logit:0-0:slope"),
  CLAIM(1.5, .id = "not-above-zero", RATES(0.003), .metric = "attn/max_logit:all:min",
        .contrast = CONTRAST_RATIO),
  CLAIM(0.2, .id = "silent", RATES(0.003), .metric = "spikes"),
  CLAIM(0.2, .id = "silent-as-said", RATES(0.003), .metric = "spikes", .prediction = PREDICT_SAME),
  CLAIM(0.001, .id = "falls", RATES(0.003), .metric = "lr", .prediction = PREDICT_LESS),
  CLAIM(0.001, .id = "rises", RATES(0.03), .metric = "lr"),
  CLAIM(0.2, .id = "idle",
        .arm = {{.name = "A"}, {.name = "B", .set = "stabilizers=qk_clip qk_clip.tau=1e6"}},
        .metric = "loss"),
  {0}};

static int is_used(const struct claim *c, const struct entry_run *run)
{
  const struct measured *v = &run->value;
  return v->has && !v->censored && isfinite(v->value) && (v->value > 0 || c->contrast == CONTRAST_DIFFERENCE);
}

/* What a README says of a claim: who counts in each arm, and who was left out. */
static void check_readme(const struct ledger *l, const char *folder)
{
  char path[64], want[256], *text;
  size_t length;
  struct error e = {0};
  ck_assert_msg(tell_readmes(l, folder, &e) == STATUS_OK, "%s", e.text);
  snprintf(path, sizeof path, "%s/0-test/README.md", folder);
  ck_assert(!file_read(path, &text, &length, &e));
  for (int i = 0; i < l->entries; i++) {
    const struct entry *x = &l->entry[i];
    snprintf(want, sizeof want, "### %s: %s\n", x->claim->id, verdict_name(x->judgement.verdict));
    char *from = strstr(text, want), *to = from ? strstr(from + 1, "\n### ") : NULL;
    ck_assert_msg(from != NULL, "the README lacks %s", want);
    if (to) *to = 0;
    snprintf(want, sizeof want, "- Left out: %d seed%s with a run that diverged, %d without a value.\n",
             x->diverged, x->diverged == 1 ? "" : "s", x->left_out);
    ck_assert_msg(!strstr(from, "- Left out: ") == !(x->diverged || x->left_out), "%s: left out",
                  x->claim->id);
    ck_assert_msg(!strstr(from, "- Left out: ") || strstr(from, want), "%s: not %s", x->claim->id, want);
    for (int a = 0; a < claim_arms(x->claim); a++) {
      const struct claim_arm *arm = &x->claim->arm[a];
      snprintf(want, sizeof want, "| %s | `%s` | %d | ", arm->name, arm->set ? arm->set : "the regime",
               x->arm[a].mean.n);
      ck_assert_msg(strstr(from, want) != NULL, "%s: not %s", x->claim->id, want);
    }
    if (to) *to = '\n';
  }
  memory_free(text);
}

START_TEST(what_counts_in_a_claim)
{
  char folder[FOLDER_PATH], where[64];
  struct ledger l;
  struct error e = {0};
  folder_make(folder);
  snprintf(where, sizeof where, "sweep.dir=%s/runs", folder);
  ck_assert_int_eq(ledger_open(&l, made_rows, NULL, 0, &e), STATUS_OK);
  l.stages = 1, l.jobs = 2, l.assignment = (const char *const[]){where}, l.assignments = 1;
  ck_assert_msg(ledger_run(&l, &e) == STATUS_OK, "%s", e.text);
  int diverged = 0, censored = 0, not_finite = 0;
  for (int i = 0; i < l.entries; i++) {
    const struct entry *x = &l.entry[i];
    const struct claim *c = x->claim;
    int ratio = c->contrast == CONTRAST_RATIO, n = 0, lost = 0, out = 0;
    double effect[3];
    for (int s = 0; s < 3; s++) {
      const struct entry_run *a = &x->arm[0].run[s], *b = claim_compared(c) == 2 ? &x->arm[1].run[s] : NULL;
      ck_assert_int_eq(a->seed, LEDGER_SEED + s);
      if (a->fate == SWEEP_DIVERGED || (b && b->fate == SWEEP_DIVERGED)) {
        lost++;
        continue;
      }
      ck_assert_int_eq(a->fate, SWEEP_FINISHED);
      censored += a->value.censored, not_finite += !isfinite(a->value.value);
      if (!is_used(c, a) || (b && !is_used(c, b))) {
        out++;
        continue;
      }
      double from = b ? a->value.value : c->level, to = b ? b->value.value : a->value.value;
      effect[n++] = ratio ? log(to / from) : to - from;
    }
    for (int k = 0; k < claim_arms(c); k++) {
      double value[3];
      int count = 0;
      for (int s = 0; s < 3; s++) {
        const struct entry_run *run = &x->arm[k].run[s];
        if (run->fate == SWEEP_FINISHED && is_used(c, run)) value[count++] = run->value.value;
      }
      struct interval mean = interval_of(value, count, ratio);
      ck_assert_int_eq(x->arm[k].mean.n, count);
      ck_assert_msg(!count || x->arm[k].mean.mean == mean.mean, "%s: the mean of arm %d", c->id, k);
    }
    ck_assert_msg(x->diverged == lost && x->left_out == out, "%s: %d diverged, %d left out; here %d, %d",
                  c->id, x->diverged, x->left_out, lost, out);
    diverged += lost;
    struct judgement want = judge(effect, n, c->prediction, ratio ? log(c->matters) : c->matters, 1);
    const struct judgement *j = &x->judgement;
    int idle = !strcmp(c->id, "idle"), silent = !strcmp(c->id, "silent");
    ck_assert_msg(x->idle == idle && x->silent == silent, "%s: idle %d, silent %d", c->id, x->idle,
                  x->silent);
    if (idle || silent) want.verdict = VERDICT_INCONCLUSIVE, want.p = NAN;
    ck_assert_msg(j->verdict == want.verdict && j->settled && j->effect.n == n, "%s: %s of %d, not %s of %d",
                  c->id, verdict_name(j->verdict), j->effect.n, verdict_name(want.verdict), n);
    ck_assert_msg(!n || j->effect.mean == want.effect.mean, "%s: %g, not %g", c->id, j->effect.mean,
                  want.effect.mean);
    ck_assert_msg(j->p == want.p || (isnan(j->p) && isnan(want.p)), "%s: p %g, not %g", c->id, j->p, want.p);
    double detectable;
    struct interval told = entry_effect(x, &detectable);
    ck_assert_msg(!n || told.mean == (ratio ? exp(want.effect.mean) : want.effect.mean), "%s as told", c->id);
  }
  ck_assert_msg(diverged == 6 && censored > 0 && not_finite > 0,
                "%d diverged, %d times were not reached, %d not finite", diverged, censored, not_finite);
  check_readme(&l, folder);
  /* each run's time is told once, whichever claims share it */
  double sum = 0, each = 0;
  for (int i = 0; i < l.entries; i++) {
    sum += entry_seconds(&l, i);
    for (int a = 0; a < claim_arms(l.entry[i].claim); a++)
      for (int s = 0; s < 3; s++) {
        int first = 1;
        for (int m = 0; m <= i; m++)
          for (int b = 0; b < (m < i ? claim_arms(l.entry[m].claim) : a); b++)
            first &= strcmp(l.entry[m].arm[b].run[s].id, l.entry[i].arm[a].run[s].id) != 0;
        if (first) each += l.entry[i].arm[a].run[s].seconds;
      }
  }
  ck_assert_double_gt(each, 0);
  ck_assert_double_eq_tol(sum, each, 1e-9);
  ledger_close(&l);
  folder_remove(folder);
}
END_TEST

START_TEST(predictions_in_words)
{
  static const struct {
    enum prediction what;
    enum contrast contrast;
    const char *one, *two; /* of one arm against the level; of two */
  } said[] = {
    {PREDICT_MORE, CONTRAST_DIFFERENCE, "A \342\210\222 3 above 0, where 0.5 matters",
     "B \342\210\222 A above 0, where 0.5 matters"},
    {PREDICT_LESS, CONTRAST_RATIO, "A / 3 below 1, where a factor of 0.5 matters",
     "B / A below 1, where a factor of 0.5 matters"},
    {PREDICT_SAME, CONTRAST_DIFFERENCE,
     "A \342\210\222 3 within \302\261"
     "0.5",
     "B \342\210\222 A within \302\261"
     "0.5"},
    {PREDICT_SAME, CONTRAST_RATIO, "A / 3 within a factor of 0.5 of 1", "B / A within a factor of 0.5 of 1"},
    {PREDICT_NOT_MORE, CONTRAST_RATIO, "A / 3 not above 1, where a factor of 0.5 matters",
     "B / A not above 1, where a factor of 0.5 matters"},
    {PREDICT_NOT_LESS, CONTRAST_DIFFERENCE, "A \342\210\222 3 not below 0, where 0.5 matters",
     "B \342\210\222 A not below 0, where 0.5 matters"},
  };
  char out[256];
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
    struct claim c = {.regime = "",
                      .arm = {{.name = "A"}},
                      .contrast = said[i].contrast,
                      .level = 3,
                      .prediction = said[i].what,
                      .matters = 0.5};
    ck_assert_str_eq(prediction_text(&c, out, sizeof out), said[i].one);
    c.arm[1].name = "B";
    ck_assert_str_eq(prediction_text(&c, out, sizeof out), said[i].two);
  }
}
END_TEST

/* Rows of a table in FOLDER/README.md; -1 without the file. */
static int overview_rows(const char *folder)
{
  char path[64], line[1024];
  int rows = 0;
  snprintf(path, sizeof path, "%s/README.md", folder);
  FILE *f = fopen(path, "r");
  if (!f) return -1;
  while (fgets(line, sizeof line, f)) rows += !strncmp(line, "| [C-", 5);
  fclose(f);
  return rows;
}

START_TEST(all_verdicts_make_a_table)
{
  char folder[FOLDER_PATH], *const one[] = {"C-02"};
  struct ledger l;
  struct error e = {0};
  int all = 0;
  while (claim_rows[all].claim) all++;
  folder_make(folder);
  for (int ids = 1; ids >= 0; ids--) { /* of one claim there is none */
    ck_assert_int_eq(ledger_open(&l, claim_rows, one, ids, &e), STATUS_OK);
    ck_assert_msg(ledger_plan(&l, 0, &e) == STATUS_OK, "%s", e.text);
    ck_assert_msg(tell_readmes(&l, folder, &e) == STATUS_OK, "%s", e.text);
    ck_assert_int_eq(overview_rows(folder), ids ? -1 : all);
    ledger_close(&l);
  }
  folder_remove(folder);
}
END_TEST

/* What a figure's script is given of its axis: another arm's interval, and of an arm of one run, which has none, the
   value alone. */
START_TEST(axis_of_one_run)
{
  static const struct claim c = {
    .id = "C-0",
    .regime = "",
    .arm = {{.name = "three", .metric = "loss"}, {.name = "one", .metric = "val_loss"}},
    .metric = "loss",
    .contrast = CONTRAST_RATIO,
    .matters = 2};
  struct entry_run three[3] = {{0}}, one = {.fate = SWEEP_FINISHED, .value = {.has = 1, .value = 1000}};
  const double known[3] = {1, 1.01, 1.02};
  for (int i = 0; i < 3; i++)
    three[i] = (struct entry_run){.fate = SWEEP_FINISHED, .value = {.has = 1, .value = known[i]}};
  struct entry x = {.claim = &c,
                    .arm = {{.run = three, .runs = 3, .mean = interval_of(known, 3, 1)},
                            {.run = &one, .runs = 1, .mean = interval_of(&one.value.value, 1, 1)}}};
  static const char script[] = "set print '-'\nprint sprintf('<svg %.6g %.6g', value_low, value_high)\n";
  char folder[FOLDER_PATH], path[64], want[64], *svg;
  struct error e = {0};
  folder_make(folder);
  snprintf(path, sizeof path, "%s/claim.gp", folder);
  ck_assert(!file_write(path, script, strlen(script), &e));
  ck_assert_msg(claim_figure(&x, folder, "x", &svg, &e) == STATUS_OK, "%s", e.text);
  snprintf(want, sizeof want, "<svg %.6g 1000", x.arm[0].mean.lo);
  ck_assert_msg(!strncmp(svg, want, strlen(want)), "%s, not %s", svg, want);
  memory_free(svg);
  folder_remove(folder);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("ledger");
  TCase *c = tcase_create("ledger");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, every_verdict);
  tcase_add_test(c, what_settles_nothing);
  tcase_add_test(c, errors_stay_below_what_is_promised);
  tcase_add_test(c, power_and_stopping);
  tcase_add_test(c, rows_are_sound);
  tcase_add_test(c, all_is_planned);
  tcase_add_test(c, what_counts_in_a_claim);
  tcase_add_test(c, predictions_in_words);
  tcase_add_test(c, all_verdicts_make_a_table);
  if (!system("gnuplot --version >/dev/null 2>&1")) tcase_add_test(c, axis_of_one_run);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
