/* klshampoo.c - Shampoo whose two preconditioners fit the gradients in the Kullback-Leibler sense (arXiv 2509.03378)
   For every hidden matrix [m, n], with M <- b1 M + (1-b1) G and bases Q_L, Q_R as soap's:
     L <- b2 L + (1-b2)/n G R^-1 G^T,  R <- b2 R + (1-b2)/m G^T L^-1 G,  update = L^-1/2 M/c1 R^-1/2
   R^-1 is Q_R diag(1/r) Q_R^T. The eigenvalues l and r are averaged at every step: with G' = Q_L^T G Q_R,
     l_i <- b2 l_i + (1-b2)/n sum_j G'_ij^2 / r_j,  r_j <- b2 r_j + (1-b2)/m sum_i G'_ij^2 / l_i
   All four use values from before the step, the update those behind it. L and R start as the RMS of the first gradient
   that is not zero, times the unit matrix; the authors' code skips the first step and starts with fixed
   eigenvalues. */
#include "training/eigenbases.h"

struct klshampoo_options {
  double beta1, beta2, eps;
  long every;
};

static const struct option_row rows[] = {
  REAL_ROW(struct klshampoo_options, beta1, "0.95", 0, 0.999999, "1", "decay of the momentum", 0),
  REAL_ROW(struct klshampoo_options, beta2, "0.95", 0, 0.999999, "1",
           "decay of the preconditioners and their eigenvalues", 0),
  REAL_ROW(struct klshampoo_options, eps, "1e-8", 1e-30, 1, "1", "added to the roots of the eigenvalues", 0),
  INT_ROW(struct klshampoo_options, every, "10", 0, 1e12, "steps",
          "steps between renewals of the eigenbases; 0: none, the bases stay unit matrices", 0),
  END_ROW};

enum { M, L, R, QL, QR, VALUES };
static const char *const states[] = {"m", "l", "r", "ql", "qr", "vl", "vr", NULL};

static void state_shape(const struct param *p, int k, long *height, long *width)
{
  *height = p->value.rows, *width = p->value.cols;
  eigenbases_shape(p, L, VALUES, k, height, width);
}

/* Numbers of the step. */
struct klshampoo_numbers {
  struct tensor *keep, *add, *one, *eps, *corrected;
};

/* x [m, n]: its rows over the roots of their eigenvalues; then its transpose. */
static struct tensor *whiten(struct program *p, const struct klshampoo_numbers *n, struct tensor *x,
                             struct tensor *values)
{
  struct tensor *y = program_temporary(p, x->cols, x->rows, "whitened on one side");
  PROGRAM_CALL(p, row_moment, .x = x, .v = values, .b2 = n->one, .eps = n->eps); /* b2 = 1: values stay */
  PROGRAM_CALL(p, transpose, .y = y, .x = x);
  return y;
}

/* One side: s gets x x^T for x = Q turned / length, whitened on the other side, and so do its eigenvalues. */
static void average_side(struct program *p, const struct klshampoo_numbers *n, struct tensor *s,
                         struct tensor *values, struct tensor *basis, struct tensor *turned)
{
  struct tensor *x = program_temporary(p, turned->rows, turned->cols, "turned back");
  PROGRAM_CALL(p, matmul, .c = x, .a = basis, .b = turned, .alpha = 1, .full = 1);
  factor_record(p, s, x, 0, n->keep, n->add, 1 / (double)turned->cols);
  PROGRAM_CALL(p, row_moment, .x = turned, .v = values, .b2 = n->keep, .eps = n->eps);
}

static void record_matrix(struct program *p, const struct klshampoo_numbers *n, const struct update *u,
                          const struct eigen_matrix *s)
{
  struct tensor *g = program_matrix(p, u->grad, s->place, s->rows, s->cols);
  struct tensor *m = program_matrix(p, u->state[M], s->at[M], s->rows, s->cols);
  struct tensor *l = program_matrix(p, u->state[VALUES], s->at[VALUES], s->rows, 1),
                *r = program_matrix(p, u->state[VALUES + 1], s->at[VALUES + 1], s->cols, 1);
  struct tensor *ql = program_matrix(p, u->state[QL], s->at[QL], s->rows, s->rows),
                *qr = program_matrix(p, u->state[QR], s->at[QR], s->cols, s->cols);
  struct tensor *x = program_temporary(p, s->rows, s->cols, "in the bases"),
                *xt = program_temporary(p, s->cols, s->rows, "in the bases, transposed");
  rotate_record(p, x, g, ql, qr, 0);
  PROGRAM_CALL(p, transpose, .y = xt, .x = x);
  struct tensor *for_r = whiten(p, n, x, l), *for_l = whiten(p, n, xt, r);
  average_side(p, n, program_matrix(p, u->state[L], s->at[L], s->rows, s->rows), l, ql, for_l);
  average_side(p, n, program_matrix(p, u->state[R], s->at[R], s->cols, s->cols), r, qr, for_r);
  struct tensor *y = program_temporary(p, s->rows, s->cols, "momentum in the bases");
  rotate_record(p, y, m, ql, qr, 0);
  y = whiten(p, n, whiten(p, n, y, l), r);
  PROGRAM_CALL(p, scale, .y = y, .by = n->corrected, .alpha = 1);
  rotate_record(p, program_matrix(p, u->update, s->place, s->rows, s->cols), y, ql, qr, 1);
}

static double inverse_correction(const void *beta, const struct step_scalars *now)
{
  return 1 / adam_correction(beta, now);
}

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct klshampoo_options *o = options;
  const struct eigenbases bases = {
    .left = L, .values = VALUES, .every = o->every, .state_shape = state_shape};
  const struct klshampoo_numbers now = {numbers_constant(n, o->beta2), numbers_constant(n, 1 - o->beta2),
                                        numbers_constant(n, 1), numbers_constant(n, o->eps),
                                        numbers_varying(n, inverse_correction, &o->beta1, sizeof o->beta1)};
  eigenbases_record(p, n, u, &bases);
  average_record(p, n, u->state[M], u->grad, o->beta1);
  for (int i = 0; i < u->count; i++)
    for (long k = 0; k < eigen_matrices(u, i); k++) {
      const struct eigen_matrix s = eigen_matrix_of(u, &bases, i, k);
      record_matrix(p, &now, u, &s);
    }
}

const struct optimizer optimizer_klshampoo = {
  .name = "klshampoo",
  .help = "shampoo with preconditioners that minimize a KL divergence; other tensors use adam",
  .options = rows,
  .options_size = sizeof(struct klshampoo_options),
  .state_names = states,
  .state_shape = state_shape,
  .takes = takes_matrices,
  .record = record,
};
