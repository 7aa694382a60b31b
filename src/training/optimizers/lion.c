/* lion.c - Lion (arXiv 2302.06675 alg. 2): the sign of a blend of momentum and gradient
   c = b1 m + (1-b1) g;  update = sign(c);  m <- b2 m + (1-b2) g, of the m before the step in both */
#include "training/optimizer.h"

struct lion_options {
  double beta1, beta2;
};

static const struct option_row rows[] = {
  REAL_ROW(struct lion_options, beta1, "0.9", 0, 1, "1", "weight of the momentum in the update", 0),
  REAL_ROW(struct lion_options, beta2, "0.99", 0, 1, "1", "decay of the momentum", 0), END_ROW};

static const char *const states[] = {"m", NULL};

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct lion_options *o = options;
  PROGRAM_CALL(p, copy, .y = u->update, .x = u->state[0]);
  average_record(p, n, u->update, u->grad, o->beta1);
  PROGRAM_CALL(p, sign, .y = u->update, .x = u->update);
  average_record(p, n, u->state[0], u->grad, o->beta2);
}

const struct optimizer optimizer_lion = {
  .name = "lion",
  .help = "the sign of a blend of momentum and gradient",
  .options = rows,
  .options_size = sizeof(struct lion_options),
  .state_names = states,
  .elementwise = 1,
  .record = record,
};
