/* adam.c - Adam with decoupled decay (arXiv 1412.6980 alg. 1, arXiv 1711.05101 alg. 2)
   m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2;  direction = m/(1-b1^t) / (sqrt(v/(1-b2^t)) + eps) */
#include <math.h>
#include "training/optimizer.h"

struct adam_options {
  double beta1, beta2, eps;
};

static const struct option_row rows[] = {
  REAL_ROW(struct adam_options, beta1, "0.9", 0, 0.999999, "1", "decay of the first moment", 0),
  REAL_ROW(struct adam_options, beta2, "0.95", 0, 0.999999, "1", "decay of the second moment", 0),
  REAL_ROW(struct adam_options, eps, "1e-8", 0, 1, "1", "added to the root of the second moment", 0),
  END_ROW};

static const char *const states[] = {"m", "v", NULL};

struct job {
  const struct adam_options *options;
  struct device *device;
  struct update *list;
};

static void step_one(void *context, long piece, int worker)
{
  const struct job *job = context;
  const struct adam_options *o = job->options;
  const struct update *u = &job->list[piece];
  double t = (double)u->step + 1;
  struct adam_args args = {.direction = u->direction,
                           .m = u->state[0],
                           .v = u->state[1],
                           .g = &u->param->grad,
                           .b1 = o->beta1,
                           .b2 = o->beta2,
                           .c1 = 1 - pow(o->beta1, t),
                           .c2 = 1 - pow(o->beta2, t),
                           .eps = o->eps};
  job->device->ops.adam(device_worker(job->device, worker), &args);
}

static void step(const void *options, struct device *device, uint64_t seed, struct update *list, int count,
                 void *work)
{
  (void)seed, (void)work;
  parallel_for(device->pool, count, step_one, &(struct job){options, device, list});
}

const struct optimizer optimizer_adam = {
  .name = "adam",
  .help = "AdamW; also takes what others leave: embedding, head, gains, biases",
  .options = rows,
  .options_size = sizeof(struct adam_options),
  .state_names = states,
  .step = step,
};
