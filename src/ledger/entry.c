/* entry.c - descriptions of a settled claim as text */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "ledger/ledger.h"

struct interval entry_effect(const struct entry *x)
{
  struct interval e = x->judgement.effect;
  return x->claim->contrast == CONTRAST_RATIO ? (struct interval){e.n, exp(e.mean), exp(e.lo), exp(e.hi)} : e;
}

/* The arms of the claim, then those at the neighboring rates. */
enum { ALL_ARMS = CLAIM_ARMS + NEIGHBOURS };
static const struct entry_arm *arm_at(const struct entry *x, int a)
{
  return a < CLAIM_ARMS ? &x->arm[a] : &x->rates.arm[a - CLAIM_ARMS];
}

/* Is a run among those of the entries before i, or of the arms of entry i before arm a? */
static int is_earlier(const struct ledger *l, int i, int a, const char *id)
{
  for (int e = 0; e <= i; e++)
    for (int b = 0; b < (e < i ? ALL_ARMS : a); b++)
      for (int k = 0; k < arm_at(&l->entry[e], b)->runs; k++)
        if (!strcmp(arm_at(&l->entry[e], b)->run[k].id, id)) return 1;
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
    for (int k = 0; k < arm_at(&l->entry[i], a)->runs; k++) {
      const struct entry_run *run = &arm_at(&l->entry[i], a)->run[k];
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

void entry_reason(const struct entry *x, char out[512])
{
  const struct claim *c = x->claim;
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
    snprintf(out, 512, "%s is %g in every run of both arms: there was nothing to tell them by",
             claim_metric(c, 0), x->arm[0].run[0].value.value);
  else if (j->verdict == VERDICT_OPEN)
    snprintf(out, 512, "it has not been run");
  else if (x->rates.falls && x->rates.at_best <= VERDICT_REFUTED)
    snprintf(out, 512,
             "at the best rates (%s and %s) it %s, beside them, at %s of %.60s, it is %s: it does not stand",
             x->rates.best[0], x->rates.best[1], x->rates.at_best == VERDICT_HOLDS ? "holds" : "is refuted",
             x->rates.beside[x->rates.falls - 1], c->arm[(x->rates.falls - 1) / 2].name,
             verdict_name(x->rates.judgement[x->rates.falls - 1].verdict));
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
  const struct judgement *beside =
    x->rates.falls && x->rates.at_best <= VERDICT_REFUTED ? &x->rates.judgement[x->rates.falls - 1] : NULL;
  if (j->verdict == VERDICT_NOTHING)
    buffer_add(b, x->uncontrolled ? "a regime in which this is seen" : "a regime in which the arms differ");
  else if (beside && beside->pairs > n && beside->pairs < 1000)
    buffer_add(b, "about %.0f seeds more beside the best rates", beside->pairs - n);
  else if (beside)
    buffer_add(b, "rates that are known better than by a factor of %.3g", TUNING_FACTOR);
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
  const struct entry_rates *r = &x->rates;
  if (x->claim->equal != EQUAL_TUNED)
    buffer_add(b, "; rates: this regime's alone was looked at");
  else if (r->falls)
    buffer_add(b, "; rates: best %s and %s; %s of %.60s, where it is %s", r->best[0], r->best[1],
               r->beside[r->falls - 1], x->claim->arm[(r->falls - 1) / 2].name,
               verdict_name(r->judgement[r->falls - 1].verdict));
  else
    buffer_add(b, "; rates: best %s and %s, and it stands beside them", r->best[0], r->best[1]);
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
  if (!x->replicas) buffer_add(b, "; width and data: this ledger's alone were looked at");
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
