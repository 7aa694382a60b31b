/* look.c - the loss on validation batches, and of single tokens */
#include "base/memory.h"
#include "run/company.h"

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

void trainer_run_validation(const struct company *c, company_choice *chosen, double *sum, double *count)
{
  const struct train_options *o = c->run[0]->train;
  company_replay(c, PART_BEGIN_LOOK);
  for (long b = 0; b < o->val_batches; b++) {
    company_draw(c, chosen, DATA_VAL, (uint64_t)b);
    for (long m = 0; m < o->micro_batches; m++) {
      company_run_part(c, chosen, PART_LOOK, m);
      if (sum) add_positions(c->run[0], &c->run[0]->look_program, m, sum, count);
    }
  }
}

double trainer_validated(struct trainer *t)
{
  real loss;
  t->device->download(t->device, &loss, t->model.probe.loss->data, sizeof loss);
  return (double)loss / (double)t->train->val_batches;
}

double trainer_evaluate(struct trainer *t, double *by_position)
{
  long context = t->look_program.context;
  double *count = by_position ? memory_new((size_t)context, sizeof *count) : NULL;
  for (long i = 0; by_position && i < context; i++) by_position[i] = 0;
  trainer_run_validation(ALONE(t), NULL, by_position, count);
  for (long i = 0; by_position && i < context; i++) by_position[i] /= count[i];
  memory_free(count);
  return trainer_validated(t);
}
