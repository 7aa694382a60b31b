/* sgd.c - gradient descent with heavy-ball or Nesterov momentum
   m <- momentum m + g;  direction = m, or g + momentum m with nesterov (Sutskever et al. 2013) */
#include "training/optimizer.h"

struct sgd_options {
  double momentum;
  long nesterov;
};

static const struct option_row rows[] = {
  REAL_ROW(struct sgd_options, momentum, "0.9", 0, 1, "1", "share of the past kept in the momentum", 0),
  BOOL_ROW(struct sgd_options, nesterov, "0", "look ahead: gradient + momentum * m", 0), END_ROW};

static const char *const states[] = {"m", NULL};

struct job {
  const struct sgd_options *options;
  struct device *device;
  struct update *list;
};

static void step_one(void *context, long piece, int worker)
{
  const struct job *job = context;
  const struct update *u = &job->list[piece];
  momentum_step(device_worker(job->device, worker), u->state[0], &u->param->grad, u->direction,
                job->options->momentum, (int)job->options->nesterov);
}

static void step(const void *options, struct device *device, uint64_t seed, struct update *list, int count,
                 void *work)
{
  (void)seed, (void)work;
  parallel_for(device->pool, count, step_one, &(struct job){options, device, list});
}

const struct optimizer optimizer_sgd = {
  .name = "sgd",
  .help = "gradient descent with momentum",
  .options = rows,
  .options_size = sizeof(struct sgd_options),
  .state_names = states,
  .step = step,
};
