#include "ledger/registry_hash.h"

#include <xxhash.h>

#include "base/memory.h"
#include "base/text.h"
#include "ledger/optimum.h"
#include "ledger/stages.h"
#include "ledger/tuning.h"

void registry_hash(const struct claim *c, char out[16])
{
  struct buffer b = {0};
  buffer_add(&b, "rule %d\nseeds %d from %d\n", LEDGER_RULE, stage_seeds[STAGES - 1], LEDGER_SEED);
  for (int s = 0; s < STAGES; s++) buffer_add(&b, "look %d %g\n", stage_seeds[s], stage_error(s));
  buffer_add(&b, "regime %s\nequal %s\n", c->regime ? c->regime : "-", equal_name(c->equal));
  for (int a = 0; c->regime && c->arm[a].name; a++)
    buffer_add(&b, "arm %s; %s\n", c->arm[a].set ? c->arm[a].set : "-", claim_metric(c, a));
  if (c->start) buffer_add(&b, "start %s\n", c->start);
  for (int a = 0; c->start && c->arm[a].name; a++)
    buffer_add(&b, "from %s\n", c->arm[a].start ? c->arm[a].start : "-");
  if (c->equal == EQUAL_TUNED)
    buffer_add(&b,
               "tuned by %s over train.lr, %d values a factor %g apart, at most %d, seeds %d from %d\n"
               "judged at the lowest point of a parabola, %d resamples\n",
               TUNING_METRIC, TUNING_START, TUNING_FACTOR, TUNING_MOST, TUNING_SEEDS, TUNING_SEED,
               OPTIMUM_RESAMPLES);
  buffer_add(&b, "contrast %d level %g prediction %d matters %g identity %d scale %d\n", (int)c->contrast,
             c->level, (int)c->prediction, c->matters, c->identity, c->scale != NULL);
  for (int k = 0; k < CLAIM_CONTROLS && c->control[k].metric; k++)
    buffer_add(&b, "control arm %d %s above %g\n", c->control[k].arm, c->control[k].metric,
               c->control[k].above);
  snprintf(out, 16, "%012llx", (unsigned long long)XXH3_64bits(b.text, b.length) >> 16);
  memory_free(b.text);
}
