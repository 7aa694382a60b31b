/* signum.c - the sign of the momentum (arXiv 1802.04434 alg. 2)
   m <- b m + (1-b) g;  update = sign(m) */
#include "training/optimizer.h"

struct signum_options {
  double momentum;
};

static const struct option_row rows[] = {
  REAL_ROW(struct signum_options, momentum, "0.9", 0, 1, "1", "decay of the momentum; 0: signSGD", 0),
  END_ROW};

static const char *const states[] = {"m", NULL};

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct signum_options *o = options;
  average_record(p, n, u->state[0], u->grad, o->momentum);
  PROGRAM_CALL(p, sign, .y = u->update, .x = u->state[0]);
}

const struct optimizer optimizer_signum = {
  .name = "signum",
  .help = "the sign of the momentum",
  .options = rows,
  .options_size = sizeof(struct signum_options),
  .state_names = states,
  .elementwise = 1,
  .record = record,
};
