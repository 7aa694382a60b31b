/* judging.h - what came of a stage's runs is judged, claim by claim and all together */
#ifndef MAXLOGIT_LEDGER_JUDGING_H
#define MAXLOGIT_LEDGER_JUDGING_H
#include "ledger/ledger.h"

/* Those of the claim, then those beside the best rates. */
enum { ALL_ARMS = CLAIM_ARMS + NEIGHBOURS };
static inline struct entry_arm *arm_of(struct entry *x, int a)
{
  return a < CLAIM_ARMS ? &x->arm[a] : &x->rates.arm[a - CLAIM_ARMS];
}

/* Every claim that is not settled, by the runs that a stage's sweep has done. */
int judge_stage(struct ledger *, int stage, const struct sweep *, struct error *);
/* Its p, corrected for the family: what could be tested, not what was asked for or came out. */
void judge_family(struct ledger *);
#endif
