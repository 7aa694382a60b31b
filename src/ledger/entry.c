/* entry.c - descriptions of a settled claim as text */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "ledger/judging.h"

struct interval entry_effect(const struct entry *x)
{
  struct interval e = x->judgement.effect;
  return x->claim->contrast == CONTRAST_RATIO ? (struct interval){e.n, exp(e.mean), exp(e.lo), exp(e.hi)} : e;
}

/* Is a run among those of the entries before i, or of the arms of entry i before arm a? */
static int is_earlier(const struct ledger *l, int i, int a, const char *id)
{
  for (int e = 0; e <= i; e++)
    for (int b = 0; b < (e < i ? ALL_ARMS : a); b++)
      for (int k = 0; k < arm_of(&l->entry[e], b)->runs; k++)
        if (!strcmp(arm_of(&l->entry[e], b)->run[k].id, id)) return 1;
  return 0;
}

int ledger_asks_first(const struct ledger *l, int i)
{
  int k = 0;
  while (strcmp(l->entry[k].question, l->entry[i].question) != 0) k++;
  return k == i;
}

double entry_seconds(const struct ledger *l, int i)
{
  double sum = 0;
  for (int a = 0; a < ALL_ARMS; a++)
    for (int k = 0; k < arm_of(&l->entry[i], a)->runs; k++) {
      const struct entry_run *run = &arm_of(&l->entry[i], a)->run[k];
      if (!is_earlier(l, i, a, run->id)) sum += run->seconds;
    }
  return sum;
}

static void reason_of_test(const struct entry *x, char out[512])
{
  static const char *const more[] = {
    [VERDICT_HOLDS] = "the predicted effect is there, and matters",
    [VERDICT_PARTLY] = "the effect has the predicted sign; whether it is as large as matters is open"};
  static const char *const denied[][VERDICT_DIFFERS + 1] = {
    [PREDICT_SAME] = {[VERDICT_HOLDS] = "a difference that matters is excluded",
                      [VERDICT_REFUTED] = "there is a difference, and it matters",
                      [VERDICT_DIFFERS] = "there is a difference; whether it matters is open"},
    [PREDICT_NOT_MORE] = {[VERDICT_HOLDS] = "a rise that matters is excluded",
                          [VERDICT_REFUTED] = "there is a rise, and it matters",
                          [VERDICT_DIFFERS] = "there is a rise; whether it matters is open"},
    [PREDICT_NOT_LESS] = {[VERDICT_HOLDS] = "a fall that matters is excluded",
                          [VERDICT_REFUTED] = "there is a fall, and it matters",
                          [VERDICT_DIFFERS] = "there is a fall; whether it matters is open"},
  };
  const struct judgement *j = &x->judgement;
  int is_directed = x->claim->prediction == PREDICT_MORE || x->claim->prediction == PREDICT_LESS;
  int opposite = x->claim->prediction == PREDICT_MORE ? j->effect.hi < 0 : j->effect.lo > 0;
  if (!is_directed)
    snprintf(out, 512, "%s", denied[x->claim->prediction][j->verdict]);
  else if (j->verdict == VERDICT_REFUTED)
    snprintf(out, 512, "an effect of the size that matters is excluded: %s",
             opposite ? "it has the opposite sign" : "it is negligible at most");
  else
    snprintf(out, 512, "%s", more[j->verdict]);
}

static int lacks_optimum(const struct entry *x)
{
  return x->claim->equal == EQUAL_TUNED && !x->rates.optimum[0].n;
}

/* Would the verdict be settled by the same runs if the best rates were known exactly? */
static int is_open_by_rates(const struct entry *x)
{
  return x->claim->equal == EQUAL_TUNED && x->rates.optimum[0].n && x->judgement.verdict > VERDICT_REFUTED &&
         x->judgement.verdict <= VERDICT_INCONCLUSIVE && x->rates.if_known <= VERDICT_REFUTED;
}

const char *entry_grid_rate(const struct entry *x, int arm, int k)
{
  return k == 1 ? x->rates.best[arm] : x->rates.beside[2 * arm + k / 2];
}

double entry_grid_loss(const struct entry *x, int arm, int k)
{
  double sum = 0;
  for (int s = 0; s < TUNING_SEEDS; s++) sum += x->rates.loss[arm][k][s] / TUNING_SEEDS;
  return sum;
}

const char *entry_rates_text(const struct entry *x, char out[64])
{
  const struct interval *o = x->rates.optimum;
  *out = 0;
  if (o[0].n) snprintf(out, 64, "%.3g and %.3g", o[0].mean, o[1].mean);
  return out;
}

void entry_reason(const struct entry *x, char out[512])
{
  const struct claim *c = x->claim;
  char rates[64];
  const struct judgement *j = &x->judgement;
  if (c->withdrawn)
    snprintf(out, 512, "%s", c->withdrawn);
  else if (c->scale)
    snprintf(out, 512, "%s", c->scale);
  else if (x->idle)
    snprintf(out, 512,
             "the two arms are the same training to the bit: what differs between them never acted");
  else if (x->uncontrolled)
    snprintf(out, 512, "the median of %s in the runs of %.60s is %.3g, and more than %g is needed",
             c->control[x->uncontrolled - 1].metric, c->arm[c->control[x->uncontrolled - 1].arm].name,
             x->control, c->control[x->uncontrolled - 1].above);
  else if (x->silent)
    snprintf(out, 512, "%s is %g in every run of both arms: they do not differ", claim_metric(c, 0),
             x->arm[0].run[0].value.value);
  else if (j->verdict == VERDICT_OPEN)
    snprintf(out, 512, "it has not been run");
  else if (lacks_optimum(x))
    snprintf(out, 512, "an arm has no best rate with finite losses on both sides of it");
  else if (is_open_by_rates(x))
    snprintf(out, 512,
             "at exactly %s the verdict would be: %s; the uncertainty of these rates leaves it open",
             entry_rates_text(x, rates), verdict_name(x->rates.if_known));
  else if (j->verdict == VERDICT_TRUE)
    snprintf(out, 512,
             "it follows from the algebra of the update, and is so in all %d pairs: a test of the program",
             j->effect.n);
  else if (j->verdict == VERDICT_BROKEN)
    snprintf(out, 512,
             "it follows from the algebra of the update, and is not so in every pair: the program is wrong");
  else if (j->verdict <= VERDICT_DIFFERS)
    reason_of_test(x, out);
  else if (j->verdict == VERDICT_FEW_SEEDS)
    snprintf(out, 512, "%s: an interval wants six",
             x->diverged > x->left_out ? "too few pairs of runs that did not diverge"
                                       : "too few pairs with a value");
  else
    snprintf(out, 512, "%d seeds leave both open", j->effect.n);
}

static void change_by_seeds(const struct entry *x, struct buffer *b)
{
  const struct judgement *j = &x->judgement;
  int all = stage_seeds[STAGES - 1], n = j->effect.n;
  if (j->verdict == VERDICT_NOTHING)
    buffer_add(b, x->uncontrolled ? "a regime in which the control is met"
                                  : "a regime in which the arms differ");
  else if (lacks_optimum(x))
    buffer_add(b, "best rates with finite losses on both sides of them");
  else if (is_open_by_rates(x))
    buffer_add(b, "rates chosen on more than %d seeds", TUNING_SEEDS);
  else if (j->verdict == VERDICT_FEW_SEEDS)
    buffer_add(b, "%d pairs more at least", stage_seeds[1] - n);
  else if (j->settled && x->claim->contrast == CONTRAST_SHARE && !isnan(j->p))
    buffer_add(b, "pairs that differ the other way");
  else if (j->settled && j->verdict != VERDICT_INCONCLUSIVE && isnan(j->pairs))
    buffer_add(b, "%d more of the %d pairs on the other side", j->spare + 1, n);
  else if (isnan(j->pairs) || j->pairs > 1000)
    buffer_add(b, "no number of seeds, the effect being where it is");
  else if (j->pairs > n)
    buffer_add(b, "about %.0f seeds more, if the effect stays%s", j->pairs - n,
               j->pairs > all ? " (the full level has 24)" : "");
  else
    buffer_add(b, "a few seeds more");
}

static void change_by_rate(const struct entry *x, struct buffer *b)
{
  char rates[64];
  if (x->claim->equal != EQUAL_TUNED)
    buffer_add(b, "; rates: only this regime's");
  else if (*entry_rates_text(x, rates))
    buffer_add(b, "; rates: best %s", rates);
}

static int is_answer(enum verdict v)
{
  return v <= VERDICT_DIFFERS || v == VERDICT_TRUE || v == VERDICT_BROKEN;
}

/* Does the second finding contradict the first: is the effect denied, or does it have the other sign? An open verdict
   or an open size is not a contradiction. */
static int flips(const struct claim *c, const struct finding *a, const struct finding *b)
{
  double none = c->contrast == CONTRAST_RATIO;
  int denied = (a->verdict == VERDICT_HOLDS && b->verdict == VERDICT_REFUTED) ||
               (a->verdict == VERDICT_REFUTED && b->verdict == VERDICT_HOLDS) ||
               a->verdict == VERDICT_BROKEN || b->verdict == VERDICT_BROKEN;
  return denied || (a->effect.lo > none && b->effect.hi < none) ||
         (a->effect.hi < none && b->effect.lo > none);
}

const char *claim_standing(const struct claim *c, const struct finding *a, const struct finding *b)
{
  if (!is_answer(a->verdict) || !is_answer(b->verdict)) return "open";
  return a->verdict == b->verdict ? "stands" : flips(c, a, b) ? "flips" : "open";
}

static void change_by_replica(const struct entry *x, struct buffer *b)
{
  const struct finding own = {x->judgement.verdict, entry_effect(x)};
  if (!x->replicas) buffer_add(b, "; width and data: only this ledger's");
  for (int i = 0; i < x->replicas; i++) {
    const struct replica *r = &x->replica[i];
    const char *standing = claim_standing(x->claim, &own, &r->finding);
    buffer_add(b, "; %s at %s", standing, r->settings);
    if (strcmp(standing, "stands") != 0)
      buffer_add(b, " (%s, %.3g)", verdict_name(r->finding.verdict), r->finding.effect.mean);
  }
}

void entry_change(const struct entry *x, char out[512])
{
  struct buffer b = {0};
  *out = 0;
  if (!claim_is_tested(x->claim) || x->judgement.verdict == VERDICT_OPEN) return;
  change_by_seeds(x, &b);
  change_by_rate(x, &b);
  change_by_replica(x, &b);
  snprintf(out, 512, "%s", b.text);
  memory_free(b.text);
}
