/* namo.c - Muon with Adam's step size of each matrix (NAMO, arXiv 2602.17080)
   M <- b1 M + (1-b1) G;  v <- b2 v + (1-b2) |G|^2, one number per matrix;  update = alpha c msign(M) with
   alpha = |M|/(1-b1^t) / ((sqrt(v) + eps) / sqrt(1-b2^t)), Frobenius norms, and Muon's c = rms sqrt(max(rows, cols)).
   A gradient that stays has alpha = 1; noise makes it smaller. The paper multiplies the decay by alpha, too; here it is
   decoupled. */
#include <math.h>
#include "training/orthogonal.h"

struct namo_options {
  double momentum, beta2, eps;
  long coefficients;
  double rms;
};

static const struct option_row rows[] = {
  REAL_ROW(struct namo_options, momentum, "0.95", 0, 0.999999, "1", "decay of the momentum", 0),
  REAL_ROW(struct namo_options, beta2, "0.95", 0, 0.999999, "1", "decay of the gradient's squared norm", 0),
  REAL_ROW(struct namo_options, eps, "1e-8", 0, 1, "1", "added to the root of the second moment", 0),
  COEFFICIENTS_ROW(struct namo_options),
  REAL_ROW(struct namo_options, rms, "0.2", 0, 1e6, "1",
           "RMS of the update of a gradient that does not change", 0),
  END_ROW};

static const char *const states[] = {"m", "v", NULL};

static void state_shape(const struct param *p, int k, long *height, long *width)
{
  *height = k ? p->value.rows / param_block_rows(p) : p->value.rows;
  *width = k ? 1 : p->value.cols;
}

/* sqrt(1-b2^t) / (1-b1^t) */
static struct tensor *record_correction(struct program *p, struct numbers *n, const struct namo_options *o)
{
  struct tensor *c = program_temporary(p, 1, 1, "correction");
  PROGRAM_CALL(p, copy, .y = c, .x = numbers_varying(n, adam_correction, &o->beta2, sizeof o->beta2));
  PROGRAM_CALL(p, power, .y = c, .exponent = 0.5);
  PROGRAM_CALL(p, divide, .y = c, .x = numbers_varying(n, adam_correction, &o->momentum, sizeof o->momentum));
  return c;
}

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct namo_options *o = options;
  struct tensor *keep = numbers_constant(n, o->beta2), *add = numbers_constant(n, 1 - o->beta2);
  struct tensor *eps = numbers_constant(n, o->eps), *rms = numbers_constant(n, o->rms);
  struct tensor *correction = record_correction(p, n, o);
  struct matrices m;
  average_record(p, n, u->state[0], u->grad, o->momentum);
  PROGRAM_CALL(p, copy, .y = u->update, .x = u->state[0]);
  for (int i = 0; i < u->count; i++) {
    if (!matrices_of(p, u, HEADS_NONE, i, &m)) continue;
    orthogonal_record(p, u->update, &m, &(struct orthogonal){.coefficients = o->coefficients}, rms, o->rms,
                      sqrt((double)(m.rows > m.cols ? m.rows : m.cols)));
    for (long k = 0; k < m.count; k++) {
      const long size = m.rows * m.cols, at = u->state_place[1][m.tensor[k]] + m.first[k] / m.rows;
      struct tensor *v = program_view(p, u->state[1], at, 1),
                    *own = program_view(p, u->update, m.place[k], size);
      struct tensor *norm = program_temporary(p, 1, 1, "gradient's norm"),
                    *root = program_temporary(p, 1, 1, "root of v"),
                    *step = program_temporary(p, 1, 1, "alpha");
      PROGRAM_CALL(p, norm, .y = norm, .x = program_view(p, u->grad, m.place[k], size));
      PROGRAM_CALL(p, multiply, .y = norm, .x = norm);
      PROGRAM_CALL(p, axpby, .y = v, .x = norm, .a = add, .b = keep, .alpha = 1, .beta = 1);
      PROGRAM_CALL(p, copy, .y = root, .x = v);
      PROGRAM_CALL(p, power, .y = root, .exponent = 0.5);
      PROGRAM_CALL(p, axpby, .y = root, .x = eps, .alpha = 1, .beta = 1);
      PROGRAM_CALL(p, norm, .y = step, .x = program_view(p, u->state[0], m.place[k], size));
      PROGRAM_CALL(p, divide, .y = step, .x = root);
      PROGRAM_CALL(p, multiply, .y = step, .x = correction);
      PROGRAM_CALL(p, scale, .y = own, .by = step, .alpha = 1);
    }
  }
}

static struct ns_use orthogonalizes(const void *options)
{
  const struct namo_options *o = options;
  return ns_use_of(o->coefficients, 0, HEADS_NONE);
}

const struct optimizer optimizer_namo = {
  .name = "namo",
  .help = "muon with adam's step size of each matrix; other tensors use adam",
  .options = rows,
  .options_size = sizeof(struct namo_options),
  .state_names = states,
  .state_shape = state_shape,
  .takes = takes_matrices,
  .orthogonalizes = orthogonalizes,
  .record = record,
};
