/* clip.c - maxlogit/clip.h: training/stabilizers/qk_clip.c on the numbers of one layer, rounded where that rounds */
#include "maxlogit/clip.h"
#include <math.h>
#include "base/c_locale.h"
#include "base/elementary.h"
#include "base/error_export.h"

static int check(const struct maxlogit_clip *c, long heads, long kv_heads, struct error *e)
{
  if (!(c->tau > 0) || !isfinite(c->tau)) return error_set(e, STATUS_USAGE, "tau is %g; more than 0", c->tau);
  if (!(c->alpha >= 0 && c->alpha <= 1)) return error_set(e, STATUS_USAGE, "alpha is %g; 0 to 1", c->alpha);
  if (heads < 1 || kv_heads < 1 || heads % kv_heads)
    return error_set(e, STATUS_USAGE, "%ld heads with %ld keys: heads is a multiple of keys", heads,
                     kv_heads);
  if ((int)c->scope < 0 || c->scope > MAXLOGIT_SCOPE_LAYER || (int)c->gqa < 0 ||
      c->gqa > MAXLOGIT_GQA_COMPENSATED || (int)c->mla < 0 || c->mla > MAXLOGIT_MLA_KR_HEAD)
    return error_set(e, STATUS_USAGE, "no such scope or rule");
  return STATUS_OK;
}

/* A step's numbers are float32, exponents too. */
static float power(float x, double exponent) { return (float)same_pow((double)x, (double)(float)exponent); }

static float product(float x, float y) { return (float)((double)x * (double)y); }

/* NaN is above all. */
static double largest(const float *x, long n)
{
  double most = -INFINITY;
  for (long i = 0; i < n && !isnan(most); i++)
    if (!((double)x[i] <= most)) most = (double)x[i];
  return most;
}

static float gamma_of(const struct maxlogit_clip *c, const float *max_logit, long heads, long h)
{
  double tau = (double)(float)c->tau;
  double s = c->scope == MAXLOGIT_SCOPE_LAYER ? largest(max_logit, heads) : (double)max_logit[h];
  return isfinite(s) && s > tau ? (float)(tau / s) : 1;
}

static float lowest(const struct maxlogit_clip *c, const float *max_logit, long heads, long first, long end)
{
  float least = INFINITY;
  for (long h = first; h < end; h++) least = fminf(least, gamma_of(c, max_logit, heads, h));
  return least;
}

/* What a head's own query rows take; grouped: others share its key. */
static float query_factor(const struct maxlogit_clip *c, int grouped, float gamma, float low)
{
  if (!grouped || c->gqa == MAXLOGIT_GQA_OWN_Q_MIN_K) return power(gamma, c->alpha);
  if (c->gqa == MAXLOGIT_GQA_GROUP_MAX) return power(low, c->alpha);
  if (c->gqa == MAXLOGIT_GQA_Q_ONLY) return gamma;
  return (float)((double)product(power(low, c->alpha), gamma) / (double)low);
}

int maxlogit_clip_factors(const struct maxlogit_clip *c, const float *max_logit, long heads, long kv_heads,
                          float *q, float *k, float *gamma, struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  int status = check(c, heads, kv_heads, &e), grouped = kv_heads < heads;
  if (status) return error_export(error, status, &e);
  for (long g = 0, each = heads / kv_heads; g < kv_heads; g++) {
    float low = lowest(c, max_logit, heads, g * each, (g + 1) * each);
    k[g] = grouped && c->gqa == MAXLOGIT_GQA_Q_ONLY ? 1 : power(low, 1 - c->alpha);
    for (long h = g * each; h < (g + 1) * each; h++) {
      float own = gamma_of(c, max_logit, heads, h);
      int finite = isfinite(max_logit[h]);
      q[h] = !finite ? 1 : query_factor(c, grouped, own, low);
      if (!gamma) continue;
      int exact = !grouped || c->gqa == MAXLOGIT_GQA_Q_ONLY || c->gqa == MAXLOGIT_GQA_COMPENSATED;
      gamma[h] = exact ? (finite ? own : grouped ? k[g] : 1) : product(q[h], k[g]);
    }
  }
  return error_export(error, STATUS_OK, &e);
}

int maxlogit_clip_factors_mla(const struct maxlogit_clip *c, const float *max_logit, long heads, float *q,
                              float *k, float *q_rope, float *k_rope, float *gamma,
                              struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  int status = check(c, heads, heads, &e);
  if (status) return error_export(error, status, &e);
  double all = 1; /* reduced in double, rounded once */
  for (long h = 0; h < heads; h++) {
    float own = gamma_of(c, max_logit, heads, h);
    q[h] = isfinite(max_logit[h]) ? power(own, c->alpha) : 1;
    k[h] = power(own, 1 - c->alpha);
    q_rope[h] = c->mla == MAXLOGIT_MLA_EXACT ? own : power(own, c->alpha);
    if (gamma) gamma[h] = isfinite(max_logit[h]) ? own : 1;
    all *= (double)k[h];
  }
  *k_rope = c->mla == MAXLOGIT_MLA_EXACT     ? 1
            : c->mla == MAXLOGIT_MLA_KR_HEAD ? (float)all
                                             : power(lowest(c, max_logit, heads, 0, heads), 1 - c->alpha);
  return error_export(error, STATUS_OK, &e);
}
