/* hard_cap.c - min(s, cap) in place of the score s: above the cap no gradient flows */
#include "model/stabilizer.h"

struct hard_cap {
  double cap;
};

static const struct option_row rows[] = {
  REAL_ROW(struct hard_cap, cap, "50", 1e-6, 1e30, "nat", "largest score that enters the softmax", 0),
  END_ROW};

struct hard_cap_state {
  struct tensor *cap; /* [1] */
};

static int init(struct stabilizer_context *c, struct error *e)
{
  (void)e;
  ((struct hard_cap_state *)c->state)->cap =
    numbers_constant(c->numbers, ((const struct hard_cap *)c->options)->cap);
  return STATUS_OK;
}

static void on_score(struct stabilizer_context *c, int layer, struct attention_spec *spec)
{
  (void)layer;
  spec->score.cap = 2;
  spec->score.cap_value = ((struct hard_cap_state *)c->state)->cap;
}

const struct stabilizer stabilizer_hard_cap = {
  .name = "hard_cap",
  .help = "a hard cap on the score: min(s, cap)",
  .options = rows,
  .options_size = sizeof(struct hard_cap),
  .state_size = sizeof(struct hard_cap_state),
  .init = init,
  .on_score = on_score,
  .flags = STABILIZER_CAPS,
};
