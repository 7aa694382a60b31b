#include "ledger/stages.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>

const int stage_seeds[STAGES] = {3, 6, 12, 24};

const char *verdict_name(enum verdict v)
{
  static const char *const names[] = {[VERDICT_HOLDS] = "holds",
                                      [VERDICT_REFUTED] = "refuted here",
                                      [VERDICT_PARTLY] = "partly",
                                      [VERDICT_INCONCLUSIVE] = "inconclusive",
                                      [VERDICT_NEEDS_SCALE] = "needs scale"};
  return names[v];
}

/* Two-sided p, corrected for the looks, of a mean so far above what it is tested against. */
static double p_of(double above, double error, int n)
{
  double tail = error > 0 ? gsl_cdf_tdist_Q(above / error, n - 1) : above > 0 ? 0 : 1;
  return fmin(1, STAGES * 2 * tail);
}

/* Is there an effect above zero that matters? Of effects turned so that the prediction is above. */
static void judge_more(struct judgement *j, double matters, double error, int last)
{
  const struct interval *e = &j->effect;
  if (e->lo > 0 && e->mean >= matters) {
    *j = (struct judgement){VERDICT_HOLDS, 1, *e, p_of(e->mean, error, e->n), j->detectable};
  } else if (e->hi < matters) {
    j->verdict = e->lo > 0 ? VERDICT_PARTLY : VERDICT_REFUTED;
    j->settled = 1;
    j->p = p_of(matters - e->mean, error, e->n);
  } else if (last && e->lo > 0) {
    j->verdict = VERDICT_PARTLY;
    j->p = p_of(e->mean, error, e->n);
  }
}

/* "Not more" denies "more": what refutes the one lets the other hold. An effect that is there but too small
   to matter is no objection. */
static void judge_not_more(struct judgement *j, double matters, double error, int last)
{
  judge_more(j, matters, error, last);
  if (j->settled) j->verdict = j->verdict == VERDICT_HOLDS ? VERDICT_REFUTED : VERDICT_HOLDS;
}

static void judge_same(struct judgement *j, double matters, double error)
{
  const struct interval *e = &j->effect;
  double size = fabs(e->mean);
  if (e->lo > -matters && e->hi < matters) {
    *j = (struct judgement){VERDICT_HOLDS, 1, *e, p_of(matters - size, error, e->n), j->detectable};
  } else if (e->lo > matters || e->hi < -matters) {
    *j = (struct judgement){VERDICT_REFUTED, 1, *e, p_of(size - matters, error, e->n), j->detectable};
  }
}

struct judgement judge(const double *d, int n, enum prediction prediction, double matters, int last)
{
  double level = 1 - LEDGER_ERROR / STAGES;
  struct judgement j = {VERDICT_INCONCLUSIVE, 0, interval_at(d, n, level), NAN, NAN};
  if (n < 2 || !isfinite(j.effect.lo)) {
    j.settled = last;
    return j;
  }
  double error = gsl_stats_sd(d, 1, (size_t)n) / sqrt(n);
  j.detectable = error * (gsl_cdf_tdist_Pinv((1 + level) / 2, n - 1) + gsl_cdf_tdist_Pinv(0.8, n - 1));
  int turned = prediction == PREDICT_LESS || prediction == PREDICT_NOT_LESS;
  struct interval *e = &j.effect;
  if (turned) *e = (struct interval){n, -e->mean, -e->hi, -e->lo};
  if (prediction == PREDICT_SAME)
    judge_same(&j, matters, error);
  else if (prediction == PREDICT_MORE || prediction == PREDICT_LESS)
    judge_more(&j, matters, error, last);
  else
    judge_not_more(&j, matters, error, last);
  if (turned) *e = (struct interval){n, -e->mean, -e->hi, -e->lo};
  j.settled |= last;
  return j;
}
