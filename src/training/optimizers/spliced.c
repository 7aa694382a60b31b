/* spliced.c - a counterfactual: the singular vectors of one optimiser's update with the spectrum of another's
   Which part of Muon's update makes logits grow, its directions or its flat spectrum? For every hidden matrix,
   with X = G + momentum M (Muon's input), Y Adam's direction, and X = U S V^T etc. by decomposition:

     vectors    U, V of X (muon), of Y (adam), or of a fresh Gaussian matrix at every step (random)
     spectrum   0.2 sqrt(max(rows, columns)) for all (muon), or the singular values of Y (adam)

   paired from the largest down; then scaled to the RMS asked for. vectors=muon spectrum=muon is muon with
   coefficients=svd; vectors=adam spectrum=adam is adam. */
#include <math.h>
#include "base/memory.h"
#include "base/random.h"
#include "training/optimizer.h"
#include "training/spectral.h"

enum { FROM_MUON, FROM_ADAM, FROM_CHANCE };

struct spliced_options {
  long vectors, spectrum;
  double rms, momentum;
  long nesterov;
  double beta1, beta2, eps;
};

static const char *const vector_names[] = {"muon", "adam", "random", NULL};
static const char *const spectrum_names[] = {"muon", "adam", NULL};

static const struct option_row rows[] = {
  CHOICE_ROW(struct spliced_options, vectors, "muon", vector_names, "whose singular vectors", 0),
  CHOICE_ROW(struct spliced_options, spectrum, "adam", spectrum_names, "whose singular values", 0),
  REAL_ROW(struct spliced_options, rms, "0.2", 0, 1e6, "1",
           "root mean square of the update; 0: as the spectrum has it", 0),
  REAL_ROW(struct spliced_options, momentum, "0.95", 0, 1, "1", "of muon's part", 0),
  BOOL_ROW(struct spliced_options, nesterov, "1", "of muon's part", 0),
  REAL_ROW(struct spliced_options, beta1, "0.9", 0, 0.999999, "1", "of adam's part", 0),
  REAL_ROW(struct spliced_options, beta2, "0.95", 0, 0.999999, "1", "of adam's part", 0),
  REAL_ROW(struct spliced_options, eps, "1e-8", 0, 1, "1", "of adam's part", 0),
  END_ROW};

static const char *const states[] = {"momentum", "m", "v", NULL};

struct job {
  const struct spliced_options *options;
  struct device *device;
  const struct update *list;
  uint64_t seed;
  char *work;
  size_t work_size; /* of one worker */
};

static size_t work_of_worker(const struct update *list, int count)
{
  size_t most = 0;
  for (int i = 0; i < count; i++) {
    size_t size = (size_t)(list[i].direction->rows * list[i].direction->cols) * sizeof(real);
    most = size > most ? size : most;
  }
  return (most + 63) / 64 * 64;
}

static void adam_direction(const struct job *job, struct device *device, const struct update *u,
                           struct tensor *out)
{
  const struct spliced_options *o = job->options;
  double t = (double)u->step + 1;
  device->ops.adam(device, &(struct adam_args){.direction = out,
                                               .m = u->state[1],
                                               .v = u->state[2],
                                               .g = &u->param->grad,
                                               .b1 = o->beta1,
                                               .b2 = o->beta2,
                                               .c1 = 1 - pow(o->beta1, t),
                                               .c2 = 1 - pow(o->beta2, t),
                                               .eps = o->eps});
}

static void draw_gaussian(const struct job *job, struct device *device, const struct update *u, long piece,
                          struct tensor *out)
{
  struct draw draw = {job->seed, STREAM_OPTIMIZER, (uint64_t)u->step};
  size_t size = (size_t)(out->rows * out->cols);
  real *host = memory_new(size, sizeof *host);
  for (size_t i = 0; i < size; i++) host[i] = (real)draw_normal(draw, (uint64_t)piece << 32 | i);
  device->upload(device, out->data, host, size * sizeof *host);
  memory_free(host);
}

/* Singular values for the vectors of `from`. Where `from` has no rank left (below what rounding makes of 0), a
   flat spectrum has none. */
static void set_spectrum(const struct job *job, const struct svd *adam, struct svd *from)
{
  const struct spliced_options *o = job->options;
  const double none = from->sigma[0] * REAL_EPS * fmax((double)from->rows, (double)from->cols);
  double squares = 0, flat = 0.2 * sqrt(fmax((double)from->rows, (double)from->cols));
  for (long k = 0; k < from->n; k++) {
    from->sigma[k] = o->spectrum == FROM_ADAM ? adam->sigma[k] : from->sigma[k] > none ? flat : 0;
    squares += from->sigma[k] * from->sigma[k];
  }
  double scale = o->rms > 0 && squares > 0 ? o->rms * sqrt((double)(from->rows * from->cols) / squares) : 1;
  for (long k = 0; k < from->n; k++) from->sigma[k] *= scale;
}

static void step_one(void *context, long piece, int worker)
{
  const struct job *job = context;
  const struct spliced_options *o = job->options;
  const struct update *u = &job->list[piece];
  struct device *device = device_worker(job->device, worker);
  struct tensor other =
    tensor_of(job->work + (size_t)worker * job->work_size, u->direction->rows, u->direction->cols);
  struct svd muon, adam, chance = {0};
  momentum_step(device, u->state[0], &u->param->grad, u->direction, o->momentum, (int)o->nesterov);
  int status = svd_of(&muon, device, u->direction);
  adam_direction(job, device, u, &other);
  status |= svd_of(&adam, device, &other);
  if (o->vectors == FROM_CHANCE) {
    draw_gaussian(job, device, u, piece, &other);
    status |= svd_of(&chance, device, &other);
  }
  struct svd *from = o->vectors == FROM_MUON ? &muon : o->vectors == FROM_ADAM ? &adam : &chance;
  if (status) {
    device->ops.fill(device, &(struct fill_args){.y = u->direction, .value = NAN});
  } else {
    set_spectrum(job, &adam, from);
    svd_compose(from, device, u->direction);
  }
  svd_free(&muon);
  svd_free(&adam);
  svd_free(&chance);
}

static size_t work_size(const void *options, struct device *device, const struct update *list, int count)
{
  (void)options;
  return (size_t)pool_threads(device->pool) * work_of_worker(list, count);
}

static void step(const void *options, struct device *device, uint64_t seed, struct update *list, int count,
                 void *work)
{
  parallel_for(device->pool, count, step_one,
               &(struct job){options, device, list, seed, work, work_of_worker(list, count)});
}

static int takes(const struct param *p) { return p->kind == PARAM_MATRIX; }

const struct optimizer optimizer_spliced = {
  .name = "spliced",
  .help = "a counterfactual: one optimiser's singular vectors with another's spectrum",
  .options = rows,
  .options_size = sizeof(struct spliced_options),
  .state_names = states,
  .takes = takes,
  .work = work_size,
  .step = step,
};
