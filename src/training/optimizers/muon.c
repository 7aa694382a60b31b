/* muon.c - orthogonalized momentum for the hidden matrices (arXiv 2502.16982 sec. 2, after Keller Jordan)
   M <- momentum M + G;  update = scale * orthogonalize(G + momentum M, or M without nesterov),
   scale = rms sqrt(max(rows, cols)), which makes the update's RMS `rms` whatever the shape.
   With per_head, every head's block of rows is a matrix of its own (GLM-5, arXiv 2602.15763, Muon Split); every
   expert's always is. */
#include <math.h>
#include "training/orthogonal.h"

enum { SCALE_MOONLIGHT, SCALE_KELLER, SCALE_MUP, SCALE_NONE };

struct muon_options {
  double momentum;
  long nesterov, ns_steps, coefficients, iteration;
  double rms;
  long scale, per_head;
};

static const char *const scale_names[] = {"moonlight", "keller", "mup", "none", NULL};

static const struct option_row rows[] = {
  REAL_ROW(struct muon_options, momentum, "0.95", 0, 1, "1", "decay of the momentum", 0),
  BOOL_ROW(struct muon_options, nesterov, "1", "Nesterov momentum: gradient + momentum * M", 0),
  INT_ROW(struct muon_options, ns_steps, "0", 0, 100, "1",
          "Newton-Schulz steps; 0: the number of coefficients in the set; further steps repeat the last "
          "coefficients",
          0),
  COEFFICIENTS_ROW(struct muon_options),
  CHOICE_ROW(struct muon_options, iteration, "auto", ns_iterations,
             "Newton-Schulz on the matrix, or several steps at a time on its Gram matrix; auto: the faster "
             "one for the shape",
             0),
  REAL_ROW(struct muon_options, rms, "0.2", 0, 1e6, "1", "RMS of the update, with scale=moonlight", 0),
  CHOICE_ROW(struct muon_options, scale, "moonlight", scale_names,
             "moonlight: rms sqrt(max(out, in)); keller: sqrt(max(1, out/in)); mup: sqrt(out/in); none: 1",
             0),
  PER_HEAD_ROW(struct muon_options),
  END_ROW};

static const char *const states[] = {"m", NULL};

static void resolve(void *options)
{
  struct muon_options *o = options;
  if (o->ns_steps == 0 && o->coefficients < NS_SETS) o->ns_steps = ns_sets[o->coefficients].steps;
}

/* The factor for a matrix [out, in], without rms. */
static double scale_of(const struct muon_options *o, double out, double in)
{
  switch (o->scale) {
  case SCALE_MOONLIGHT: return sqrt(fmax(out, in));
  case SCALE_KELLER: return sqrt(fmax(1, out / in));
  case SCALE_MUP: return sqrt(out / in);
  default: return 1;
  }
}

/* --- the step ----------------------------------------------------------------------------------------- */

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct muon_options *o = options;
  PROGRAM_CALL(p, momentum, .update = u->update, .m = u->state[0], .g = u->grad,
               .mu = numbers_constant(n, o->momentum), .nesterov = o->nesterov);
  struct tensor *rms = o->scale == SCALE_MOONLIGHT ? numbers_constant(n, o->rms) : NULL;
  struct matrices m;
  for (int i = 0; i < u->count; i++)
    if (matrices_of(p, u, o->per_head, i, &m))
      orthogonal_record(p, u->update, &m, &(struct orthogonal){o->coefficients, o->ns_steps, o->iteration},
                        rms, rms ? o->rms : 1, scale_of(o, (double)m.rows, (double)m.cols));
}

static struct ns_use orthogonalizes(const void *options)
{
  const struct muon_options *o = options;
  return ns_use_of(o->coefficients, o->ns_steps, o->per_head);
}

const struct optimizer optimizer_muon = {
  .name = "muon",
  .help = "orthogonalized momentum for hidden matrices (Newton-Schulz); other tensors use adam",
  .options = rows,
  .options_size = sizeof(struct muon_options),
  .resolve = resolve,
  .state_names = states,
  .takes = takes_matrices,
  .orthogonalizes = orthogonalizes,
  .record = record,
};
