/* soft_cap.c - cap tanh(s / cap) in place of the score s (Gemma 2, arXiv 2408.00118 sec. 2)
   The input of the softmax stays within +-cap. The score before the cap may grow on; it is recorded as the max
   logit. */
#include "model/stabilizer.h"

struct soft_cap {
  double cap;
};

static const struct option_row rows[] = {
  REAL_ROW(struct soft_cap, cap, "50", 1e-6, 1e30, "nat", "limit on the scores that enter the softmax", 0),
  END_ROW};

struct soft_cap_state {
  struct tensor *cap; /* [1] */
};

static int init(struct stabilizer_context *c, struct error *e)
{
  (void)e;
  ((struct soft_cap_state *)c->state)->cap =
    numbers_constant(c->numbers, ((const struct soft_cap *)c->options)->cap);
  return STATUS_OK;
}

static void on_score(struct stabilizer_context *c, int layer, struct attention_spec *spec)
{
  (void)layer;
  spec->score.cap = 1;
  spec->score.cap_value = ((struct soft_cap_state *)c->state)->cap;
}

const struct stabilizer stabilizer_soft_cap = {
  .name = "soft_cap",
  .help = "a smooth cap on the score: cap tanh(s / cap)",
  .options = rows,
  .options_size = sizeof(struct soft_cap),
  .state_size = sizeof(struct soft_cap_state),
  .init = init,
  .on_score = on_score,
  .flags = STABILIZER_CAPS,
};
