/* adamuon.c - Muon of the momentum's signs with a second moment of each number (AdaMuon, arXiv 2507.11005 alg. 1)
   M <- b M + G;  O = msign(sign(M));  V <- b2 V + (1-b2) O^2;  O / (sqrt(V) + eps), scaled to the RMS asked for.
   No correction of V's bias: the scale takes it out. */
#include "training/orthogonal.h"

struct adamuon_options {
  double momentum, beta2, eps;
  long coefficients;
  double rms;
  long per_head;
};

static const struct option_row rows[] = {
  REAL_ROW(struct adamuon_options, momentum, "0.95", 0, 1, "1", "decay of the momentum", 0),
  REAL_ROW(struct adamuon_options, beta2, "0.95", 0, 0.999999, "1", "decay of the second moment", 0),
  REAL_ROW(struct adamuon_options, eps, "1e-8", 1e-30, 1, "1", "added to the root of the second moment", 0),
  COEFFICIENTS_ROW(struct adamuon_options),
  REAL_ROW(struct adamuon_options, rms, "0.2", 0, 1e6, "1", "RMS of the update", 0),
  PER_HEAD_ROW(struct adamuon_options),
  END_ROW};

static const char *const states[] = {"m", "v", NULL};

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct adamuon_options *o = options;
  struct tensor *x = u->update, *now = program_temporary(p, 1, x->cols, "orthogonal factors");
  struct tensor *rms = numbers_constant(n, o->rms), *one = numbers_constant(n, 1);
  struct matrices m;
  PROGRAM_CALL(p, momentum, .update = x, .m = u->state[0], .g = u->grad,
               .mu = numbers_constant(n, o->momentum));
  PROGRAM_CALL(p, sign, .y = x, .x = x);
  for (int i = 0; i < u->count; i++)
    if (matrices_of(p, u, o->per_head, i, &m))
      orthogonal_record(p, x, &m, &(struct orthogonal){.coefficients = o->coefficients}, NULL, 1, 1);
  PROGRAM_CALL(p, fill, .y = now); /* without a first moment Adam's update is g / (sqrt(v) + eps) */
  PROGRAM_CALL(p, adam, .update = x, .m = now, .v = u->state[1], .g = x, .b1 = numbers_constant(n, 0),
               .b2 = numbers_constant(n, o->beta2), .c1 = one, .c2 = one, .eps = numbers_constant(n, o->eps));
  for (int i = 0; i < u->count; i++)
    if (matrices_of(p, u, o->per_head, i, &m)) matrices_rms_record(p, x, &m, rms);
}

const struct optimizer optimizer_adamuon = {
  .name = "adamuon",
  .help = "muon of the momentum's signs, with a second moment of each number; other tensors use adam",
  .options = rows,
  .options_size = sizeof(struct adamuon_options),
  .state_names = states,
  .takes = takes_matrices,
  .record = record,
};
