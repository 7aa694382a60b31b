/* claim.c - the registry of claims, and their descriptions as text */
#include "ledger/claim.h"
#include <stdio.h>
#include <string.h>
#include "base/registry.h"

PLUGINS_claim(PLUGIN_DECLARED)
#define CLAIM_ROW(kind, name, folder) {&claim_##name, folder},
  const struct claim_row claim_rows[] = {PLUGINS_claim(CLAIM_ROW){NULL, NULL}};

int claim_arms(const struct claim *c)
{
  int arms = 0;
  while (c->regime && !c->withdrawn && c->arm[arms].name) arms++;
  return arms;
}

int claim_compared(const struct claim *c)
{
  int arms = claim_arms(c);
  return arms < 2 ? arms : 2;
}

const char *claim_metric(const struct claim *c, int arm)
{
  return c->arm[arm].metric ? c->arm[arm].metric : c->metric;
}

const char *equal_name(enum equal equal)
{
  static const char *const names[] = {[EQUAL_UNSAID] = "-",  [EQUAL_RATE] = "rate", [EQUAL_RMS] = "rms",
                                      [EQUAL_NORM] = "norm", [EQUAL_LOSS] = "loss", [EQUAL_TUNED] = "tuned"};
  return names[equal];
}

const char *equal_text(enum equal equal, char out[32])
{
  snprintf(out, 32, "%s%s", equal == EQUAL_TUNED ? "best rates" : "equal ",
           equal == EQUAL_TUNED ? "" : equal_name(equal));
  return out;
}

int claim_is_tested(const struct claim *c) { return claim_compared(c) && !c->scale && !c->identity; }

static int is_same_text(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

int claim_is_same_comparison(const struct claim *c, const struct claim *d)
{
  int same = claim_compared(c) == claim_compared(d) && is_same_text(c->regime, d->regime) &&
             is_same_text(c->start, d->start) && c->equal == d->equal && c->contrast == d->contrast &&
             c->level == d->level;
  for (int a = 0; a < claim_compared(c) && same; a++)
    same = is_same_text(c->arm[a].set, d->arm[a].set) && is_same_text(c->arm[a].start, d->arm[a].start) &&
           !strcmp(claim_metric(c, a), claim_metric(d, a));
  return same;
}

const char *claim_regime_value(const struct claim *c, const char *key, int *length)
{
  size_t size = strlen(key);
  for (const char *line = c->regime ? c->regime : ""; *line;
       line += strcspn(line, "\n"), line += *line == '\n') {
    if (strncmp(line, key, size) != 0 || !strchr(" =", line[size])) continue;
    line += size + strspn(line + size, " =");
    *length = (int)strcspn(line, "\n");
    return line;
  }
  *length = 0;
  return "";
}

const char *claim_rates(const struct claim *c, char out[32])
{
  int length, own = 0;
  const char *rate = claim_regime_value(c, "train.lr", &length);
  for (int a = 0; a < claim_compared(c); a++) own |= c->arm[a].set && strstr(c->arm[a].set, "train.lr=");
  *out = 0;
  if (c->equal == EQUAL_TUNED)
    snprintf(out, 32, "tuned");
  else if (length && !own)
    snprintf(out, 32, "lr %.*s", length, rate);
  return out;
}

const char *contrast_text(const struct claim *c, char *out, int room)
{
  char level[32];
  int both = claim_compared(c) > 1;
  snprintf(level, sizeof level, "%g", c->level);
  snprintf(out, (size_t)room, c->contrast == CONTRAST_RATIO ? "%.40s / %.40s" : "%.40s \342\210\222 %.40s",
           both ? c->arm[1].name : c->arm[0].name, both ? c->arm[0].name : level);
  if (c->contrast == CONTRAST_SHARE) {
    int length = (int)strlen(out);
    snprintf(out + length, (size_t)(room - length), ", shares of runs above %g", c->level);
  }
  return out;
}

const char *prediction_text(const struct claim *c, char *out, int room)
{
  static const char *const words[] = {[PREDICT_MORE] = "above",
                                      [PREDICT_LESS] = "below",
                                      [PREDICT_SAME] = "",
                                      [PREDICT_NOT_MORE] = "not above",
                                      [PREDICT_NOT_LESS] = "not below"};
  char effect[128];
  int ratio = c->contrast == CONTRAST_RATIO;
  contrast_text(c, effect, sizeof effect);
  if (c->prediction == PREDICT_SAME)
    snprintf(out, (size_t)room, ratio ? "%s within a factor of %g of 1" : "%s within \302\261%g", effect,
             c->matters);
  else
    snprintf(out, (size_t)room, ratio ? "%s %s 1, where a factor of %g matters" : "%s %s 0, where %g matters",
             effect, words[c->prediction], c->matters);
  return out;
}
