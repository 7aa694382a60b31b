/* muon.c - orthogonalised momentum for the hidden matrices (arXiv 2502.16982 sec. 2, after Keller Jordan)
   M <- momentum M + G;  direction = scale * orthogonalise(G + momentum M, or M without nesterov),
   scale = rms sqrt(max(rows, cols)), which makes the update's RMS `rms` whatever the shape.
   With per_head, every head's block of rows is a matrix of its own (GLM-5, arXiv 2602.15763, Muon Split). */
#include <math.h>
#include <string.h>
#include "training/optimizer.h"

enum { SCALE_MOONLIGHT, SCALE_KELLER, SCALE_MUP, SCALE_NONE };
enum { HEADS_NONE, HEADS_QK, HEADS_QKV };

struct muon_options {
  double momentum;
  long nesterov, ns_steps, coefficients;
  double rms;
  long scale, per_head;
};

static const char *const scale_names[] = {"moonlight", "keller", "mup", "none", NULL};
static const char *const head_names[] = {"none", "qk", "qkv", NULL};

static const struct option_row rows[] = {
  REAL_ROW(struct muon_options, momentum, "0.95", 0, 1, "1", "share of the past kept in the momentum", 0),
  BOOL_ROW(struct muon_options, nesterov, "1", "look ahead: gradient + momentum * M", 0),
  INT_ROW(struct muon_options, ns_steps, "0", 0, 100, "1",
          "Newton-Schulz steps; 0: the set's own number; beyond those of the set its last is repeated", 0),
  CHOICE_ROW(struct muon_options, coefficients, "keller", ns_names,
             "polynomials of Newton-Schulz, or svd: the exact polar factor", 0),
  REAL_ROW(struct muon_options, rms, "0.2", 0, 1e6, "1",
           "root mean square of the update, with scale=moonlight", 0),
  CHOICE_ROW(struct muon_options, scale, "moonlight", scale_names,
             "moonlight: rms sqrt(max(out, in)); keller: sqrt(max(1, out/in)); mup: sqrt(out/in); none: 1",
             0),
  CHOICE_ROW(struct muon_options, per_head, "none", head_names,
             "orthogonalise every head's block of rows by itself: in the projections to q and k, or also v",
             0),
  END_ROW};

static const char *const states[] = {"m", NULL};

static void resolve(void *options)
{
  struct muon_options *o = options;
  if (o->ns_steps == 0 && o->coefficients != NS_SVD) o->ns_steps = ns_sets[o->coefficients].steps;
}

/* --- blocks: what is orthogonalised as one matrix ------------------------------------------------------ */
static int is_value(const struct param *p)
{
  const char *dot = strrchr(p->name, '.');
  return dot && !strcmp(dot, ".w_v");
}

static long block_rows(const struct muon_options *o, const struct param *p)
{
  int split = p->head_rows && (o->per_head == HEADS_QKV || (o->per_head == HEADS_QK && !is_value(p)));
  return split ? p->head_rows : p->value.rows;
}

static long blocks_of(const struct muon_options *o, const struct param *p)
{
  return p->value.rows / block_rows(o, p);
}

static double scale_of(const struct muon_options *o, double out, double in)
{
  switch (o->scale) {
  case SCALE_MOONLIGHT: return o->rms * sqrt(fmax(out, in));
  case SCALE_KELLER: return sqrt(fmax(1, out / in));
  case SCALE_MUP: return sqrt(out / in);
  default: return 1;
  }
}

/* --- the step ----------------------------------------------------------------------------------------- */
struct job {
  const struct muon_options *options;
  struct device *device;
  const struct update *list;
  long blocks;
  char *work;
  size_t work_size; /* of one worker */
};

/* Pieces run from the last block to the first: a layer's large matrices are declared last, and threads end
   together when what is left is small. */
static void step_block(void *context, long piece, int worker)
{
  const struct job *job = context;
  const struct muon_options *o = job->options;
  const struct update *u = job->list;
  long block = job->blocks - 1 - piece;
  for (; block >= blocks_of(o, u->param); u++) block -= blocks_of(o, u->param);
  long height = block_rows(o, u->param), row = block * height;
  struct tensor m = tensor_rows(u->state[0], row, height), g = tensor_rows(&u->param->grad, row, height);
  struct tensor x = tensor_rows(u->direction, row, height);
  struct device *device = device_worker(job->device, worker);
  momentum_step(device, &m, &g, &x, o->momentum, (int)o->nesterov);
  if (o->coefficients == NS_SVD)
    exact_polar_factor(device, &x);
  else
    newton_schulz(device, &x, &ns_sets[o->coefficients], (int)o->ns_steps, 1e-7,
                  job->work + (size_t)worker * job->work_size);
  device->ops.scale(device,
                    &(struct scale_args){.y = &x, .alpha = scale_of(o, (double)x.rows, (double)x.cols)});
}

static size_t work_of_worker(const struct muon_options *o, const struct update *list, int count)
{
  size_t most = 0;
  for (int i = 0; i < count; i++) {
    size_t bytes = newton_schulz_work(block_rows(o, list[i].param), list[i].param->value.cols);
    most = bytes > most ? bytes : most;
  }
  return (most + 63) / 64 * 64;
}

static size_t work_size(const void *options, struct device *device, const struct update *list, int count)
{
  return (size_t)pool_threads(device->pool) * work_of_worker(options, list, count);
}

static void step(const void *options, struct device *device, uint64_t seed, struct update *list, int count,
                 void *work)
{
  (void)seed;
  struct job job = {options, device, list, 0, work, work_of_worker(options, list, count)};
  for (int i = 0; i < count; i++) job.blocks += blocks_of(options, list[i].param);
  parallel_for(device->pool, job.blocks, step_block, &job);
}

static int takes(const struct param *p) { return p->kind == PARAM_MATRIX; }

const struct optimizer optimizer_muon = {
  .name = "muon",
  .help = "orthogonalised momentum for the hidden matrices (Newton-Schulz); the rest goes to adam",
  .options = rows,
  .options_size = sizeof(struct muon_options),
  .resolve = resolve,
  .state_names = states,
  .takes = takes,
  .work = work_size,
  .step = step,
};
