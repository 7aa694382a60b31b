/* sgd.c - gradient descent with heavy-ball or Nesterov momentum
   m <- momentum m + g;  update = m, or g + momentum m with nesterov (Sutskever et al. 2013) */
#include "training/optimizer.h"

struct sgd_options {
  double momentum;
  long nesterov;
};

static const struct option_row rows[] = {
  REAL_ROW(struct sgd_options, momentum, "0.9", 0, 1, "1", "decay of the momentum", 0),
  BOOL_ROW(struct sgd_options, nesterov, "0", "Nesterov momentum: gradient + momentum * m", 0), END_ROW};

static const char *const states[] = {"m", NULL};

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct sgd_options *o = options;
  PROGRAM_CALL(p, momentum, .update = u->update, .m = u->state[0], .g = u->grad,
               .mu = numbers_constant(n, o->momentum), .nesterov = o->nesterov);
}

const struct optimizer optimizer_sgd = {
  .name = "sgd",
  .help = "gradient descent with momentum",
  .options = rows,
  .options_size = sizeof(struct sgd_options),
  .state_names = states,
  .elementwise = 1,
  .record = record,
};
