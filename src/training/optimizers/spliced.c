/* spliced.c - a counterfactual: the singular vectors of one optimizer's update with the spectrum of another's
   Which part of Muon's update makes logits grow, its directions or its flat spectrum? For every hidden matrix,
   with X = G + momentum M (Muon's input), Y Adam's direction, and X = U S V^T etc. by decomposition:

     vectors    U, V of X (muon), of Y (adam), or of a fresh Gaussian matrix at every step (random)
     spectrum   0.2 sqrt(max(rows, columns)) for all (muon), or the singular values of Y (adam), or those of the
                vectors' own matrix to a power p that may change with the steps (power): U S^p V^T, spectral shaping
                (DynMuon, arXiv 2605.17109, from a positive p early to a mildly negative one late)

   paired from the largest down; then scaled to the RMS asked for. vectors=muon spectrum=muon is muon with
   coefficients=svd, and so is p = 0; vectors=adam spectrum=adam is adam. */
#include <math.h>
#include "base/elementary.h"
#include "base/memory.h"
#include "base/random.h"
#include "training/optimizer.h"
#include "training/spectral.h"

enum { FROM_MUON, FROM_ADAM, FROM_CHANCE }; /* by vector_names; by spectrum_names the first two, and */
enum { BY_POWER = FROM_ADAM + 1 };

struct spliced_options {
  long vectors, spectrum;
  double rms, momentum;
  long nesterov;
  double beta1, beta2, eps;
  double power, power_end;
  long power_steps;
};

static const char *const vector_names[] = {"muon", "adam", "random", NULL};
static const char *const spectrum_names[] = {"muon", "adam", "power", NULL};

static const struct option_row rows[] = {
  CHOICE_ROW(struct spliced_options, vectors, "muon", vector_names, "source of the singular vectors", 0),
  CHOICE_ROW(struct spliced_options, spectrum, "adam", spectrum_names,
             "source of the singular values; power: those of the vectors' source, raised to a power", 0),
  REAL_ROW(struct spliced_options, rms, "0.2", 0, 1e6, "1", "RMS of the update; 0: as given by the spectrum",
           0),
  REAL_ROW(struct spliced_options, momentum, "0.95", 0, 1, "1", "of the Muon part", 0),
  BOOL_ROW(struct spliced_options, nesterov, "1", "of the Muon part", 0),
  REAL_ROW(struct spliced_options, beta1, "0.9", 0, 0.999999, "1", "of the Adam part", 0),
  REAL_ROW(struct spliced_options, beta2, "0.95", 0, 0.999999, "1", "of the Adam part", 0),
  REAL_ROW(struct spliced_options, eps, "1e-8", 0, 1, "1", "of the Adam part", 0),
  REAL_ROW(struct spliced_options, power, "0", -4, 4, "1", "exponent of spectrum=power at the first step",
           OPTION_LATER),
  REAL_ROW(struct spliced_options, power_end, "0", -4, 4, "1",
           "exponent after power_steps, with linear interpolation", OPTION_LATER),
  INT_ROW(struct spliced_options, power_steps, "0", 0, 1e12, "steps",
          "steps until the exponent is power_end; 0: the exponent is constant", OPTION_LATER),
  END_ROW};

static const char *const states[] = {"momentum", "m", "v", NULL};

struct splice_job {
  struct spliced_options options;
  struct numbers *numbers;
  struct update update;
  struct tensor *adam; /* Adam's updates, as update.update lies */
};

/* A matrix gets the same random numbers in any row of tensors. */
static void draw_gaussian(const struct splice_job *job, const struct param *p, long size, real *out)
{
  struct draw draw = {job->update.seed, STREAM_OPTIMIZER, (uint64_t)numbers_scalars(job->numbers)->step};
  for (long i = 0; i < size; i++) out[i] = (real)draw_normal(draw, (uint64_t)p->order << 32 | (uint64_t)i);
}

/* The power of this step. */
static double power_of(const struct splice_job *job)
{
  const struct spliced_options *o = &job->options;
  double share = o->power_steps ? (double)numbers_scalars(job->numbers)->step / (double)o->power_steps : 0;
  return o->power + (o->power_end - o->power) * fmin(share, 1);
}

/* Singular values for the vectors of `from`. Directions of `from` that are zero up to rounding also get 0 in a flat
   spectrum. */
static void set_spectrum(const struct splice_job *job, const struct svd *adam, struct svd *from)
{
  const struct spliced_options *o = &job->options;
  const double largest = from->sigma[0], power = o->spectrum == BY_POWER ? power_of(job) : 0;
  const double none = largest * REAL_EPS * fmax((double)from->rows, (double)from->cols);
  double squares = 0, flat = 0.2 * sqrt(fmax((double)from->rows, (double)from->cols));
  for (long k = 0; k < from->n; k++) {
    if (o->spectrum == FROM_ADAM)
      from->sigma[k] = adam->sigma[k];
    else
      from->sigma[k] = from->sigma[k] > none ? flat * same_pow(from->sigma[k] / largest, power) : 0;
    squares += from->sigma[k] * from->sigma[k];
  }
  double scale = o->rms > 0 && squares > 0 ? o->rms * sqrt((double)(from->rows * from->cols) / squares) : 1;
  for (long k = 0; k < from->n; k++) from->sigma[k] *= scale;
}

static void splice(void *context, struct device *device, long piece)
{
  const struct splice_job *job = context;
  const struct update *u = &job->update;
  const struct tensor *w = &u->param[piece]->value;
  struct tensor x = tensor_of(REALS(u->update) + u->place[piece], w->rows, w->cols);
  struct tensor y = tensor_of(REALS(job->adam) + u->place[piece], w->rows, w->cols);
  struct svd muon, adam = {0}, chance = {0};
  int status = svd_of(&muon, device, &x);
  if (job->options.spectrum != BY_POWER || job->options.vectors == FROM_ADAM)
    status |= svd_of(&adam, device, &y);
  if (job->options.vectors == FROM_CHANCE) {
    real *host = memory_new((size_t)(w->rows * w->cols), sizeof *host);
    draw_gaussian(job, u->param[piece], w->rows * w->cols, host);
    status |= svd_of_host(&chance, host, w->rows, w->cols);
    memory_free(host);
  }
  struct svd *from = job->options.vectors == FROM_MUON   ? &muon
                     : job->options.vectors == FROM_ADAM ? &adam
                                                         : &chance;
  if (status)
    svd_put_nan(device, &x);
  else {
    set_spectrum(job, &adam, from);
    svd_compose(from, device, &x);
  }
  svd_free(&muon);
  svd_free(&adam);
  svd_free(&chance);
}

static void splice_all(struct device *device, void *context)
{
  struct splice_job *job = context;
  host_each(device, job->update.count, splice, job);
}

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct spliced_options *o = options;
  struct tensor *adam = program_temporary(p, 1, u->update->cols, "adam's direction");
  PROGRAM_CALL(p, momentum, .update = u->update, .m = u->state[0], .g = u->grad,
               .mu = numbers_constant(n, o->momentum), .nesterov = o->nesterov);
  adam_record(p, n, u, adam, u->state[1], u->state[2], &(struct adam_numbers){o->beta1, o->beta2, o->eps});
  program_keep(p, adam);
  program_host(p, splice_all, &(struct splice_job){*o, n, *u, adam}, sizeof(struct splice_job));
}

const struct optimizer optimizer_spliced = {
  .name = "spliced",
  .help = "a counterfactual: singular vectors of one optimizer's update with the spectrum of another's",
  .options = rows,
  .options_size = sizeof(struct spliced_options),
  .state_names = states,
  .takes = takes_matrices,
  .record = record,
};
