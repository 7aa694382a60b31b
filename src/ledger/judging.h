/* judging.h - verdicts from the runs of a stage, for each claim and for all together */
#ifndef MAXLOGIT_LEDGER_JUDGING_H
#define MAXLOGIT_LEDGER_JUDGING_H
#include "ledger/ledger.h"

/* The arms of the claim, then those at the neighboring rates. */
enum { ALL_ARMS = CLAIM_ARMS + NEIGHBOURS };
static inline struct entry_arm *arm_of(struct entry *x, int a)
{
  return a < CLAIM_ARMS ? &x->arm[a] : &x->rates.arm[a - CLAIM_ARMS];
}

/* Judge every claim that is not settled, from the runs of a stage's sweep. */
int judge_stage(struct ledger *, int stage, const struct sweep *, struct error *);
/* Correct the p values for the family: all claims that could be tested, whichever were chosen or have data. */
void judge_family(struct ledger *);
#endif
