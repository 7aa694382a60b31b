/* stages.h - how many seeds a claim gets, and when it is settled: a rule that is fixed before the runs
   An effect is the median over pairs of equal seed of B - A, or of B / A, which is the same with logarithms or without.
   Its interval lies between order statistics of the pairs, whose chance of missing the median to one side is that of a
   row of equal signs (W. J. Conover, Practical Nonparametric Statistics, 3.2): exact for any continuous distribution,
   skewed, heavy-tailed or censored. Student's t and bootstraps of the mean are not, at such numbers and levels: the
   table of tests/ledger/check_ledger has both.
   Seeds come in stages; the looks share the error (repeated confidence intervals: C. Jennison and B. W. Turnbull, Group
   Sequential Methods, 2000, chapter 9): 0 of 6 pairs, 1 of 12, 6 of 24 may lie on the other side, so that either
   one-sided error is 2.6 % over all looks. At the three seeds of the first nothing is said but of identities, nor of
   fewer than six pairs ever. A difference that matters is denied by the same interval, which then lies within the
   margin (two one-sided tests: D. J. Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987). */
#ifndef MAXLOGIT_LEDGER_STAGES_H
#define MAXLOGIT_LEDGER_STAGES_H
#include "ledger/claim.h"

/* Seeds below 1001 are for looking for a regime, those to 1100 were spent on trying the ledger itself; verdicts rest on
   those from LEDGER_SEED on, rates are chosen on others (tuning.h). */
enum {
  STAGES = 4,
  LEDGER_SEED = 1101,
  LEDGER_RULE = 2
};                                    /* the rule's number, raised when verdicts may change by it */
extern const int stage_seeds[STAGES]; /* 3, 6, 12, 24 */
#define LEDGER_ERROR 0.03             /* either one-sided error stays below it, over all looks */
double stage_error(int stage);        /* the chance that an interval of this stage misses to one side */

enum verdict {
  VERDICT_HOLDS,   /* the interval lies beyond what matters; where a difference is denied: within */
  VERDICT_REFUTED, /* it lies short of it: negligible, or opposite; where a difference is denied: beyond */
  VERDICT_PARTLY,  /* beyond zero, and whether it matters is open */
  VERDICT_DIFFERS, /* the same where a difference is denied */
  VERDICT_INCONCLUSIVE, /* both are open */
  VERDICT_FEW_SEEDS,    /* fewer than six pairs with a value: no interval keeps its error */
  VERDICT_NOTHING, /* the symptom is absent, or the cure never acted: the runs say nothing of the claim */
  VERDICT_NEEDS_SCALE,
  VERDICT_TRUE,   /* an identity of the update, true in every run: a test of the program, which passes */
  VERDICT_BROKEN, /* or not */
  VERDICT_WITHDRAWN,
  VERDICT_OPEN, /* not run */
  VERDICTS
};
const char *verdict_name(enum verdict); /* "refuted here" */

/* Of one pair: a number, or, where a time was censored, what it may be. */
struct effect {
  double low, high;
};
struct judgement {
  enum verdict verdict;
  int settled;            /* no more seeds are wanted */
  struct interval effect; /* the median and its interval at this look; NaN edges: too few pairs */
  /* Two-sided p of the test that the verdict rests on, times the looks with an interval; NaN where it rests on none. */
  double p;
  double
    pairs; /* about so many would decide what is open, if the median stays; NaN where nothing is, or none would */
  int spare; /* of a verdict that rests on a test: more pairs that may lie otherwise */
};
/* What n effects say (differences, or logarithms of ratios) of a prediction with a margin `matters` > 0 in the same
   units, at a stage from 0; `last`: no further one comes. A NaN settles nothing. */
struct judgement judge(const struct effect *, int n, enum prediction, double matters, int stage, int last);
/* The same for shares of runs: an effect is 1 if only the second run of a pair shows the event, -1 if only the first
   does, else 0. Each share has the limit of Clopper and Pearson (Biometrika 26, 1934) at half the error, so that their
   difference misses with at most the whole error. */
struct judgement judge_shares(const struct effect *, int n, enum prediction, double matters, int stage,
                              int last);
/* Of an identity: is it so in every pair? Its interval is from the least to the largest. */
struct judgement judge_identity(const struct effect *, int n, enum prediction, double matters);
#endif
