/* hard_cap.c - min(s, cap) in place of the score s: above the cap no gradient flows */
#include "model/model.h"

struct hard_cap {
  double cap;
};

static const struct option_row rows[] = {
  REAL_ROW(struct hard_cap, cap, "50", 1e-6, 1e30, "nat", "largest score that enters the softmax", 0),
  END_ROW};

static void on_score(struct stabilizer_context *c, struct attention_spec *spec)
{
  spec->cap = 2;
  spec->cap_value = ((const struct hard_cap *)c->options)->cap;
}

const struct stabilizer stabilizer_hard_cap = {
  .name = "hard_cap",
  .help = "a hard cap on the score: min(s, cap)",
  .options = rows,
  .options_size = sizeof(struct hard_cap),
  .on_score = on_score,
  .flags = STABILIZER_CAPS,
};
