/* stages.h - the number of seeds of a claim, and the rule that settles it, fixed before the runs
   An effect is the median over pairs of equal seed of B - A or B / A; the median commutes with the logarithm. The
   interval lies between order statistics of the pairs. Its chance of missing the median to one side is that of a
   sequence of equal signs (W. J. Conover, Practical Nonparametric Statistics, 3.2). This is exact for any continuous
   distribution, skewed, heavy-tailed or censored. Student's t and bootstraps of the mean are not exact at such numbers
   and levels: the table of tests/ledger/check_ledger has both.
   Seeds come in stages, and the looks share the error (repeated confidence intervals: C. Jennison and B. W. Turnbull,
   Group Sequential Methods, 2000, chapter 9). 0 of 6 pairs, 1 of 12, 6 of 24 may lie on the other side, so that either
   one-sided error is 2.6 % over all looks. The three seeds of the first stage decide only identities; any other verdict
   needs at least six pairs. The same interval denies a difference if it lies within the margin (two one-sided tests: D.
   J. Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987). */
#ifndef MAXLOGIT_LEDGER_STAGES_H
#define MAXLOGIT_LEDGER_STAGES_H
#include "ledger/claim.h"

/* Seeds below 1001 are used to find regimes, those to 1100 were used to test the ledger itself. Verdicts use seeds from
   LEDGER_SEED on, and rates are chosen on others (tuning.h). */
enum {
  STAGES = 4,
  LEDGER_SEED = 1101,
  LEDGER_RULE = 2
}; /* the rule's number, increased when a change may change verdicts of all claims; that of tuned arms has a line of its
      own in the registered text (registry_hash.c) */
extern const int stage_seeds[STAGES]; /* 3, 6, 12, 24 */
#define LEDGER_ERROR 0.03             /* upper bound of either one-sided error, over all looks */
double stage_error(int stage);        /* the chance that an interval of this stage misses to one side */

enum verdict {
  VERDICT_HOLDS,   /* the interval lies beyond the margin; if a difference is denied: within it */
  VERDICT_REFUTED, /* short of the margin: negligible, or opposite; if a difference is denied: beyond it */
  VERDICT_PARTLY,  /* beyond zero, but the margin is not decided */
  VERDICT_DIFFERS, /* the same if a difference is denied */
  VERDICT_INCONCLUSIVE, /* neither is decided */
  VERDICT_FEW_SEEDS,    /* fewer than six pairs with a value: no interval keeps its error */
  VERDICT_NOTHING,      /* the symptom is absent, or the cure never acted: the runs cannot test the claim */
  VERDICT_NEEDS_SCALE,
  VERDICT_TRUE,   /* an identity of the update, true in every run: the program passes the test */
  VERDICT_BROKEN, /* an identity that fails */
  VERDICT_WITHDRAWN,
  VERDICT_OPEN, /* not run */
  VERDICTS
};
const char *verdict_name(enum verdict); /* "refuted here" */

/* The effect of one pair: a number, or a range if a time was censored. */
struct effect {
  double low, high;
};
struct judgement {
  enum verdict verdict;
  int settled;            /* no more seeds are needed */
  struct interval effect; /* the median and its interval at this look; NaN edges: too few pairs */
  /* Two-sided p of the test that the verdict uses, times the looks with an interval; NaN without a test. */
  double p;
  double
    pairs;   /* pairs that would decide an open verdict, approximately, if the median stays; NaN otherwise */
  int spare; /* for a verdict with a test: further pairs that could disagree */
};
/* Judge n effects (differences, or logarithms of ratios) against a prediction with a margin `matters` > 0 in the same
   units, at a stage from 0; `last`: this is the last stage. If an effect is NaN, the verdict is `few seeds`. */
struct judgement judge(const struct effect *, int n, enum prediction, double matters, int stage, int last);
/* The same at rates that are known only within an uncertainty: effects [1 + resamples][n], the first row at the best
   estimate of the rates. The share `tail` of the resamples may lie beyond either edge of the interval, and the p value
   is that of the same share. */
struct judgement judge_resampled(const struct effect *, int n, int resamples, double tail, enum prediction,
                                 double matters, int stage, int last);
/* The same for shares of runs: an effect is 1 if only the second run of a pair shows the event, -1 if only the first
   does, else 0. Each share has the limit of Clopper and Pearson (Biometrika 26, 1934) at half the error, so that their
   difference misses with at most the whole error. */
struct judgement judge_shares(const struct effect *, int n, enum prediction, double matters, int stage,
                              int last);
/* Judge an identity: does it hold in every pair? The interval is from the smallest to the largest effect. */
struct judgement judge_identity(const struct effect *, int n, enum prediction, double matters);
#endif
