/* scion.c - steps of one size in a norm of each kind of tensor, none of them Adam's (Scion, arXiv 2502.07529 alg. 1, 2)
   M <- b M + (1-b) G, and of a tensor [out, in] the update is
     radius sqrt(out/in) msign(M)     hidden matrices: spectral norm
     radius_head sign(M) / in         embedding and head: largest entry
     radius_gain M / rms(M)           gains and biases: root mean square
   With weight decay d, weights stay in balls of radius / d: Scion. Without it is unconstrained Scion. */
#include <math.h>
#include "training/orthogonal.h"

struct scion_options {
  double momentum;
  long coefficients;
  double radius, radius_head, radius_gain;
};

static const struct option_row rows[] = {
  REAL_ROW(struct scion_options, momentum, "0.9", 0, 1, "1", "decay of the momentum", 0),
  COEFFICIENTS_ROW(struct scion_options),
  REAL_ROW(struct scion_options, radius, "1", 0, 1e6, "1", "hidden matrices: factor on sqrt(out/in) msign",
           0),
  REAL_ROW(struct scion_options, radius_head, "60", 0, 1e9, "1", "embedding and head: factor on signs / in",
           0),
  REAL_ROW(struct scion_options, radius_gain, "1", 0, 1e6, "1", "gains and biases: RMS of the update", 0),
  END_ROW};

static const char *const states[] = {"m", NULL};

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct scion_options *o = options;
  struct tensor *radius = numbers_constant(n, o->radius), *radius_head = numbers_constant(n, o->radius_head),
                *radius_gain = numbers_constant(n, o->radius_gain);
  struct matrices m;
  average_record(p, n, u->state[0], u->grad, o->momentum);
  PROGRAM_CALL(p, copy, .y = u->update, .x = u->state[0]);
  for (int i = 0; i < u->count; i++) {
    const struct tensor *w = &u->param[i]->value;
    struct tensor *own = program_view(p, u->update, u->place[i], w->rows * w->cols);
    switch (u->param[i]->kind) {
    case PARAM_MATRIX:
      if (matrices_of(p, u, HEADS_NONE, i, &m))
        orthogonal_record(p, u->update, &m, &(struct orthogonal){.coefficients = o->coefficients}, radius,
                          o->radius, sqrt((double)m.rows / (double)m.cols));
      break;
    case PARAM_EMBED:
    case PARAM_HEAD:
      PROGRAM_CALL(p, sign, .y = own, .x = own);
      PROGRAM_CALL(p, scale, .y = own, .by = radius_head, .alpha = 1 / (double)w->cols);
      break;
    default:
      PROGRAM_CALL(p, normalise, .y = own, .size = program_temporary(p, 1, 1, "length"));
      PROGRAM_CALL(p, scale, .y = own, .by = radius_gain, .alpha = sqrt((double)w->cols));
    }
  }
}

static struct ns_use orthogonalizes(const void *options)
{
  const struct scion_options *o = options;
  return ns_use_of(o->coefficients, 0, HEADS_NONE);
}

const struct optimizer optimizer_scion = {
  .name = "scion",
  .help = "steps of one size in a norm of each kind of tensor: msign, signs, normalized gains",
  .options = rows,
  .options_size = sizeof(struct scion_options),
  .state_names = states,
  .orthogonalizes = orthogonalizes,
  .record = record,
};
