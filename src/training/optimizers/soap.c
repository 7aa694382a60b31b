/* soap.c - Adam in the eigenbases of Shampoo's preconditioners (SOAP, arXiv 2409.11321 alg. 3 and 4)
   For every hidden matrix, with M <- b1 M + (1-b1) G:
     G' = Q_L^T G Q_R,  M' = Q_L^T M Q_R,  V <- b2 V + (1-b2) G'^2,  update = Q_L (M'/c1) / (sqrt(V/c2) + eps) Q_R^T
     L <- b L + (1-b) G G^T,  R <- b R + (1-b) G^T G
   The bases are those of L and R before the step. At the first step they are unit matrices, which makes it Adam's;
   at the second the eigenvectors; then, every so many steps, Q <- QR(L Q), a step of the power method. The authors'
   code skips the first step instead, and sorts the columns of Q anew. */
#include "training/eigenbases.h"

struct soap_options {
  double beta1, beta2, eps, basis_beta;
  long every;
};

static const struct option_row rows[] = {
  REAL_ROW(struct soap_options, beta1, "0.95", 0, 0.999999, "1", "decay of the first moment", 0),
  REAL_ROW(struct soap_options, beta2, "0.95", 0, 0.999999, "1", "decay of the second moment", 0),
  REAL_ROW(struct soap_options, eps, "1e-8", 0, 1, "1", "added to the root of the second moment", 0),
  REAL_ROW(struct soap_options, basis_beta, "0.95", 0, 1, "1", "decay of the preconditioners L and R", 0),
  INT_ROW(struct soap_options, every, "10", 0, 1e12, "steps",
          "steps between renewals of the eigenbases; 0: none, which makes it adam", 0),
  END_ROW};

enum { M, V, L, R, QL, QR };
static const char *const states[] = {"m", "v", "l", "r", "ql", "qr", NULL};

static void state_shape(const struct param *p, int k, long *height, long *width)
{
  *height = p->value.rows, *width = p->value.cols;
  eigenbases_shape(p, L, 0, k, height, width);
}

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct soap_options *o = options;
  struct tensor *c1 = numbers_varying(n, adam_correction, &o->beta1, sizeof o->beta1),
                *c2 = numbers_varying(n, adam_correction, &o->beta2, sizeof o->beta2);
  struct tensor *b2 = numbers_constant(n, o->beta2), *eps = numbers_constant(n, o->eps);
  struct tensor *one = numbers_constant(n, 1), *keep = numbers_constant(n, o->basis_beta),
                *add = numbers_constant(n, 1 - o->basis_beta);
  const struct eigenbases bases = {.left = L, .every = o->every, .state_shape = state_shape};
  eigenbases_record(p, n, u, &bases);
  average_record(p, n, u->state[M], u->grad, o->beta1);
  for (int i = 0; i < u->count; i++)
    for (long k = 0; k < eigen_matrices(u, i); k++) {
      const struct eigen_matrix s = eigen_matrix_of(u, &bases, i, k);
      struct tensor *g = program_matrix(p, u->grad, s.place, s.rows, s.cols);
      struct tensor *m = program_matrix(p, u->state[M], s.at[M], s.rows, s.cols);
      struct tensor *v = program_matrix(p, u->state[V], s.at[V], s.rows, s.cols);
      struct tensor *ql = program_matrix(p, u->state[QL], s.at[QL], s.rows, s.rows);
      struct tensor *qr = program_matrix(p, u->state[QR], s.at[QR], s.cols, s.cols);
      struct tensor *g_turned = program_temporary(p, s.rows, s.cols, "gradient in the bases"),
                    *m_turned = program_temporary(p, s.rows, s.cols, "momentum in the bases"),
                    *x = program_temporary(p, s.rows, s.cols, "update in the bases");
      rotate_record(p, g_turned, g, ql, qr, 0);
      rotate_record(p, m_turned, m, ql, qr, 0);
      PROGRAM_CALL(p, adam, .update = x, .m = m_turned, .v = v, .g = g_turned, .b1 = one, .b2 = b2, .c1 = c1,
                   .c2 = c2, .eps = eps); /* with b1 = 1 the moment stays as it is */
      rotate_record(p, program_matrix(p, u->update, s.place, s.rows, s.cols), x, ql, qr, 1);
      factor_record(p, program_matrix(p, u->state[L], s.at[L], s.rows, s.rows), g, 0, keep, add, 1);
      factor_record(p, program_matrix(p, u->state[R], s.at[R], s.cols, s.cols), g, 1, keep, add, 1);
    }
}

const struct optimizer optimizer_soap = {
  .name = "soap",
  .help = "adam in the eigenbases of shampoo's preconditioners; other tensors use adam",
  .options = rows,
  .options_size = sizeof(struct soap_options),
  .state_names = states,
  .state_shape = state_shape,
  .takes = takes_matrices,
  .record = record,
};
