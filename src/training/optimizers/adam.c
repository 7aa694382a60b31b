/* adam.c - Adam with decoupled decay (arXiv 1412.6980 alg. 1, arXiv 1711.05101 alg. 2)
   m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2;  update = m/(1-b1^t) / (sqrt(v/(1-b2^t)) + eps) */
#include "base/elementary.h"
#include "training/optimizer.h"

static const struct option_row rows[] = {
  REAL_ROW(struct adam_numbers, beta1, "0.9", 0, 0.999999, "1", "decay of the first moment", 0),
  REAL_ROW(struct adam_numbers, beta2, "0.95", 0, 0.999999, "1", "decay of the second moment", 0),
  REAL_ROW(struct adam_numbers, eps, "1e-8", 0, 1, "1", "added to the root of the second moment", 0),
  END_ROW};

static const char *const states[] = {"m", "v", NULL};

/* 1 - beta^t at the t-th update: the bias correction of moments that start at 0. beta is rounded as on the device,
   since 1 - beta changes much if beta is near 1. */
double adam_correction(const void *beta, const struct step_scalars *now)
{
  return 1 - same_pow((double)(real) * (const double *)beta, (double)now->step + 1);
}

void adam_record(struct program *p, struct numbers *n, const struct update *u, struct tensor *update,
                 struct tensor *m, struct tensor *v, const struct adam_numbers *o)
{
  PROGRAM_CALL(p, adam, .update = update, .m = m, .v = v, .g = u->grad, .b1 = numbers_constant(n, o->beta1),
               .b2 = numbers_constant(n, o->beta2),
               .c1 = numbers_varying(n, adam_correction, &o->beta1, sizeof o->beta1),
               .c2 = numbers_varying(n, adam_correction, &o->beta2, sizeof o->beta2),
               .eps = numbers_constant(n, o->eps));
}

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  adam_record(p, n, u, u->update, u->state[0], u->state[1], options);
}

const struct optimizer optimizer_adam = {
  .name = "adam",
  .help = "AdamW; also updates the tensors that other optimizers do not: embedding, head, gains, biases",
  .options = rows,
  .options_size = sizeof(struct adam_numbers),
  .state_names = states,
  .elementwise = 1,
  .record = record,
};
