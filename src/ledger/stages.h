/* stages.h - how many seeds a claim gets, and when it is settled: a rule that is fixed before the runs
   Seeds come in stages. After each the effect's interval is judged, and a claim that is settled gets no more seeds. So
   many looks would find something in pure noise too often; each therefore has a STAGES-th of the error (Bonferroni over
   the looks, the simplest way to spend it: C. Jennison and B. W. Turnbull, Group Sequential Methods, 2000, chapters
   7 and 9: repeated confidence intervals, which hold jointly at all looks, whatever stops the runs; K. K. G. Lan and
   D. L. DeMets, Biometrika 70, 1983). One rule serves both questions: is there an effect (the interval does not reach
   zero), and is there none that matters (the interval lies within the margin: two one-sided tests, D. J. Schuirmann,
   J. Pharmacokinet. Biopharm. 15, 1987). Each one-sided error stays below LEDGER_ERROR / 2 over all looks. */
#ifndef MAXLOGIT_STAGES_H
#define MAXLOGIT_STAGES_H
#include "ledger/claim.h"

/* Seeds below 1001 are for looking for a regime, those to 1100 were spent on trying the ledger itself; verdicts rest on
   those from here on. */
enum { STAGES = 4, LEDGER_SEED = 1101 };
extern const int stage_seeds[STAGES]; /* 3, 6, 12, 24 */
#define LEDGER_ERROR 0.05

enum verdict { VERDICT_HOLDS, VERDICT_REFUTED, VERDICT_PARTLY, VERDICT_INCONCLUSIVE, VERDICT_NEEDS_SCALE };
const char *verdict_name(enum verdict); /* "refuted here" */

struct judgement {
  enum verdict verdict;
  int settled;            /* no more seeds are wanted */
  struct interval effect; /* repeated interval: of level 1 - LEDGER_ERROR / STAGES at this look */
  /* Two-sided p of the test that the verdict rests on, times STAGES; NaN where it rests on none. */
  double p;
  double detectable; /* the effect that so many would show at this look with a chance of 80 % */
};
/* What n effects say (differences, or logarithms of ratios) of a prediction with a margin `matters` > 0 in the same
   units; `last`: no further stage comes. Numbers that are not finite settle nothing. */
struct judgement judge(const double *effects, int n, enum prediction, double matters, int last);
#endif
