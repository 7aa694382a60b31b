/* normuon.c - Muon with rows of equal size (NorMuon, arXiv 2510.05491 alg. 1)
   O = msign(momentum);  v <- b2 v + (1-b2) mean over the row of O^2;  O / (sqrt(v) + eps), scaled to the RMS asked for.
   As its authors' code: Nesterov momentum by default. Rows have equal sizes in the mean over steps, not in each. */
#include "training/orthogonal.h"

struct normuon_options {
  double momentum;
  long nesterov;
  double beta2, eps;
  long coefficients;
  double rms;
  long per_head;
};

static const struct option_row rows[] = {
  REAL_ROW(struct normuon_options, momentum, "0.95", 0, 1, "1", "decay of the momentum", 0),
  BOOL_ROW(struct normuon_options, nesterov, "1", "Nesterov momentum: gradient + momentum * M", 0),
  REAL_ROW(struct normuon_options, beta2, "0.95", 0, 0.999999, "1", "decay of the rows' second moment", 0),
  REAL_ROW(struct normuon_options, eps, "1e-8", 1e-30, 1, "1", "added to the root of the second moment", 0),
  COEFFICIENTS_ROW(struct normuon_options),
  REAL_ROW(struct normuon_options, rms, "0.2", 0, 1e6, "1", "RMS of the update", 0),
  PER_HEAD_ROW(struct normuon_options),
  END_ROW};

static const char *const states[] = {"m", "v", NULL};

static void state_shape(const struct param *p, int k, long *height, long *width)
{
  *height = p->value.rows;
  *width = k ? 1 : p->value.cols;
}

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct normuon_options *o = options;
  struct tensor *beta2 = numbers_constant(n, o->beta2), *eps = numbers_constant(n, o->eps);
  struct tensor *rms = numbers_constant(n, o->rms);
  struct matrices m;
  PROGRAM_CALL(p, momentum, .update = u->update, .m = u->state[0], .g = u->grad,
               .mu = numbers_constant(n, o->momentum), .nesterov = o->nesterov);
  for (int i = 0; i < u->count; i++) {
    if (!matrices_of(p, u, o->per_head, i, &m)) continue;
    orthogonal_record(p, u->update, &m, &(struct orthogonal){.coefficients = o->coefficients}, NULL, 1, 1);
    for (long k = 0; k < m.count; k++)
      PROGRAM_CALL(p, row_moment, .x = program_matrix(p, u->update, m.place[k], m.rows, m.cols),
                   .v =
                     program_matrix(p, u->state[1], u->state_place[1][m.tensor[k]] + m.first[k], m.rows, 1),
                   .b2 = beta2, .eps = eps);
    matrices_rms_record(p, u->update, &m, rms);
  }
}

static struct ns_use orthogonalizes(const void *options)
{
  const struct normuon_options *o = options;
  return ns_use_of(o->coefficients, 0, o->per_head);
}

const struct optimizer optimizer_normuon = {
  .name = "normuon",
  .help = "muon with rows of equal size; other tensors use adam",
  .options = rows,
  .options_size = sizeof(struct normuon_options),
  .state_names = states,
  .state_shape = state_shape,
  .takes = takes_matrices,
  .orthogonalizes = orthogonalizes,
  .record = record,
};
