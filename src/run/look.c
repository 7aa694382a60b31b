/* look.c - the host's batch through a program, and the loss on validation batches */
#include "base/memory.h"
#include "run/state.h"

void trainer_run_part(struct trainer *t, struct model_program *p, long part)
{
  host_batch_feed(&t->host, t->device, p, part);
  program_run(p->program);
}

void trainer_run_pass(struct trainer *t, struct model_program *p)
{
  for (long m = 0; m < t->train->micro_batches; m++) trainer_run_part(t, p, m);
}

void trainer_token_losses(struct trainer *t, const struct model_program *p, real *out)
{
  struct tensor y = tensor_rows(t->token_loss, 0, p->batch * p->context);
  op_run(t->device, OP_token_loss, &(union op_args){.token_loss = {&y, p->logits, p->ml, p->targets}});
  t->device->download(t->device, out, y.data, (size_t)y.rows * sizeof(real));
}

/* Add the losses of micro-batch `part`, which a program has just seen, to the sums of their positions. */
static void add_positions(struct trainer *t, const struct model_program *p, long part, double *sum,
                          double *count)
{
  long n = p->batch * p->context;
  trainer_token_losses(t, p, t->token_loss_host);
  for (long i = 0; i < n; i++) {
    double counts = t->host.batch.mask[part * n + i];
    if (counts > 0) sum[i % p->context] += counts * (double)t->token_loss_host[i];
    count[i % p->context] += counts;
  }
}

void trainer_run_validation(struct trainer *t, double *sum, double *count)
{
  struct model_program *p = &t->look_program;
  program_run(t->begin_look);
  for (long b = 0; b < t->train->val_batches; b++) {
    host_batch_draw(&t->host, &t->data, DATA_VAL, COMMON_SEED, (uint64_t)b);
    for (long m = 0; m < t->train->micro_batches; m++) {
      trainer_run_part(t, p, m);
      if (sum) add_positions(t, p, m, sum, count);
    }
  }
}

double trainer_evaluate(struct trainer *t, double *by_position)
{
  long context = t->look_program.context;
  double *count = by_position ? memory_new((size_t)context, sizeof *count) : NULL;
  real loss;
  for (long i = 0; by_position && i < context; i++) by_position[i] = 0;
  trainer_run_validation(t, by_position, count);
  for (long i = 0; by_position && i < context; i++) by_position[i] /= count[i];
  memory_free(count);
  t->device->download(t->device, &loss, t->model.probe.loss->data, sizeof loss);
  return (double)loss / (double)t->train->val_batches;
}
