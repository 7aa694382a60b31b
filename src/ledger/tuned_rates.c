#include "ledger/tuned_rates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "config/config.h"

struct tuned_rate {
  const char *registered, *best, *beside[2]; /* beside: "" if there is none */
  int arm;
  enum tuning_end end;
  double loss[OPTIMUM_RATES * TUNING_SEEDS];
};

#define NUMERICS(version)
#define RATE(id, registered, arm, below, best, above, end, ...) \
  {registered, best, {below, above}, arm, end, {__VA_ARGS__}},
static const struct tuned_rate kept[] = {
#include "../experiments/rates.def"
  {0}};
#undef NUMERICS
#undef RATE

#define NUMERICS(version) kept_numerics = version,
#define RATE(id, registered, arm, below, best, above, end, ...)
enum {
#include "../experiments/rates.def"
};

static const struct tuned_rate *find(const struct entry *x, int arm)
{
  for (const struct tuned_rate *k = kept; k->registered; k++)
    if (!strcmp(k->registered, x->registered) && k->arm == arm) return k;
  return NULL;
}

static int is_known(const struct ledger *l, const struct entry *x)
{
  struct buffer settings = {0};
  if (x->claim->equal != EQUAL_TUNED) return 0;
  ledger_settings(l, &settings);
  int known = kept_numerics == NUMERICS_VERSION && !settings.length;
  memory_free(settings.text);
  for (int a = 0; a < claim_compared(x->claim) && known; a++) known = find(x, a) != NULL;
  return known;
}

int tuned_rates_load(const struct ledger *l, struct entry *x)
{
  struct entry_rates *r = &x->rates;
  if (!is_known(l, x)) return 0;
  for (int a = 0; a < claim_compared(x->claim); a++) {
    const struct tuned_rate *k = find(x, a);
    snprintf(r->best[a], sizeof *r->best, "%s", k->best);
    for (int side = 0; side < 2; side++)
      snprintf(r->beside[2 * a + side], sizeof *r->beside, "%s", k->beside[side]);
    memcpy(r->loss[a], k->loss, sizeof k->loss);
    r->end[a] = k->end;
  }
  return r->kept = 1;
}

void tuned_rates_compare(const struct ledger *l)
{
  for (int i = 0; i < l->entries; i++) {
    const struct entry *x = &l->entry[i];
    if (!is_known(l, x)) continue;
    for (int a = 0; a < claim_compared(x->claim); a++) {
      const struct tuned_rate *k = find(x, a);
      if (*x->rates.best[a] && strcmp(k->best, x->rates.best[a]) != 0)
        message("%s, %s: the best rate here is %s, %s was chosen before (experiments/rates.def)",
                x->claim->id, x->claim->arm[a].name, x->rates.best[a], k->best);
    }
  }
}

static const char *name_of(enum tuning_end end)
{
  static const char *const name[] = {
    [TUNING_BRACKETED] = "TUNING_BRACKETED",
    [TUNING_AT_LIMIT] = "TUNING_AT_LIMIT",
    [TUNING_FLAT] = "TUNING_FLAT",
    [TUNING_TOO_FAR] = "TUNING_TOO_FAR",
  };
  return name[end];
}

/* The rates of an arm, and the losses of the seeds that chose them: below, at and above the best. */
static void print_rate(const struct entry *x, int a)
{
  const struct entry_rates *r = &x->rates;
  char number[32];
  printf("RATE(\"%s\", \"%s\", %d, \"%s\", \"%s\", \"%s\", %s", x->claim->id, x->registered, a,
         r->beside[2 * a], r->best[a], r->beside[2 * a + 1], name_of(r->end[a]));
  for (int k = 0; k < OPTIMUM_RATES; k++)
    for (int s = 0; s < TUNING_SEEDS; s++) {
      text_number(r->loss[a][k][s], number);
      printf("%s%s", s ? ", " : ",\n  ", isfinite(r->loss[a][k][s]) ? number : "INFINITY");
    }
  printf(")\n");
}

void tuned_rates_print(const struct ledger *l)
{
  printf("/* Best rates of the ledger's tuned arms, with those beside them: maxlogit claims --rates */\n"
         "NUMERICS(%d)\n",
         NUMERICS_VERSION);
  for (int i = 0; i < l->entries; i++) {
    const struct entry *x = &l->entry[i];
    for (int a = 0; a < claim_compared(x->claim); a++)
      if (*x->rates.best[a]) print_rate(x, a);
  }
}
