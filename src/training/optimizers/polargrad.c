/* polargrad.c - Muon times the momentum's nuclear norm (PolarGrad, arXiv 2505.21799, momentum first)
   M <- b M + (1-b) G;  U = msign(M);  update = <U, M> U, where <U, M> is the sum of M's singular values.
   The steepest descent of the spectral norm: unlike Muon's, its step vanishes with the gradient. */
#include "training/orthogonal.h"

struct polargrad_options {
  double momentum;
  long coefficients, per_head;
};

static const struct option_row rows[] = {
  REAL_ROW(struct polargrad_options, momentum, "0.95", 0, 1, "1", "decay of the momentum", 0),
  COEFFICIENTS_ROW(struct polargrad_options), PER_HEAD_ROW(struct polargrad_options), END_ROW};

static const char *const states[] = {"m", NULL};

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct polargrad_options *o = options;
  struct matrices m;
  average_record(p, n, u->state[0], u->grad, o->momentum);
  PROGRAM_CALL(p, copy, .y = u->update, .x = u->state[0]);
  for (int i = 0; i < u->count; i++) {
    if (!matrices_of(p, u, o->per_head, i, &m)) continue;
    orthogonal_record(p, u->update, &m, &(struct orthogonal){.coefficients = o->coefficients}, NULL, 1, 1);
    int *own_row = program_memory(p, (size_t)m.rows, sizeof *own_row);
    for (long row = 0; row < m.rows; row++) own_row[row] = (int)row;
    struct tensor *place = program_ints(p, m.rows, 1, own_row, "rows");
    for (long k = 0; k < m.count; k++) {
      struct tensor *own = program_matrix(p, u->update, m.place[k], m.rows, m.cols);
      struct tensor *dots = program_temporary(p, m.rows, 1, "products of rows"),
                    *norm = program_temporary(p, 1, 1, "nuclear norm");
      PROGRAM_CALL(p, dot_rows, .y = dots, .x = own,
                   .z = program_matrix(p, u->state[0], m.place[k], m.rows, m.cols), .place = place);
      PROGRAM_CALL(p, sum_rows, .y = norm, .x = dots);
      PROGRAM_CALL(p, scale, .y = own, .by = norm, .alpha = 1);
    }
  }
}

static struct ns_use orthogonalizes(const void *options)
{
  const struct polargrad_options *o = options;
  return ns_use_of(o->coefficients, 0, o->per_head);
}

const struct optimizer optimizer_polargrad = {
  .name = "polargrad",
  .help = "muon times the nuclear norm of the momentum; other tensors use adam",
  .options = rows,
  .options_size = sizeof(struct polargrad_options),
  .state_names = states,
  .takes = takes_matrices,
  .orthogonalizes = orthogonalizes,
  .record = record,
};
