/* decode.c - validation batches token by token through a cache, against the training form */
#include <math.h>

#include "base/memory.h"
#include "run/lockstep.h"

static void feed_column(struct trainer *t, struct tensor *input, const int *from, long context)
{
  int *column = t->column;
  for (long b = 0; b < input->rows; b++) column[b] = from[b * context];
  t->device->upload(t->device, input->data, column, (size_t)input->rows * sizeof *column);
}

/* Token losses [batch*context] of micro-batch `part`, one position after another. */
static void decode_part(struct trainer *t, struct model_program *d, long part, real *out)
{
  struct host_batch *h = &t->host;
  long n = h->context;
  real *column = t->token_loss_host;
  for (long c = 0; c < n; c++) {
    long at = part * d->batch * n + c;
    feed_column(t, d->tokens, h->tokens + at, n);
    feed_column(t, d->targets, h->targets[0] + at, n);
    feed_column(t, d->position, h->position + at, n);
    feed_column(t, d->start, h->start + at, n);
    if (d->window) feed_column(t, d->window, h->window + at, n);
    for (long b = 0; b < d->batch; b++) t->column[b] = (int)c;
    t->device->upload(t->device, d->slot->data, t->column, (size_t)d->batch * sizeof(int));
    program_run(d->program);
    trainer_token_losses(t, d, column);
    for (long b = 0; b < d->batch; b++) out[b * n + c] = column[b];
  }
}

static void look_at_part(struct trainer *t, long part, real *losses)
{
  lockstep_run_part(ALONE(t), NULL, PART_LOOK, part);
  trainer_token_losses(t, &t->look_program, losses);
}

static double wider(double most, double a, double b)
{
  double off = fabs(a - b);
  return isnan(most) || off <= most ? most : off;
}

static void compare_part(struct trainer *t, long part, const real *training, const real *decoded,
                         const real *off, struct decode_result *r)
{
  long n = t->look_program.batch * t->look_program.context;
  for (long i = 0; i < n; i++) {
    double weight = (double)t->host.weight[0][part * n + i] / (double)t->train->val_batches;
    if (weight == 0) continue;
    r->training_loss += weight * (double)training[i];
    r->decoded_loss += weight * (double)decoded[i];
    r->difference = wider(r->difference, (double)training[i], (double)decoded[i]);
    r->rounding = wider(r->rounding, (double)training[i], (double)off[i]);
    r->tokens++;
  }
}

int trainer_decode(struct trainer *t, enum decode_form form, struct decode_result *r, struct error *e)
{
  struct model_program *p = &t->look_program, decoder;
  size_t n = (size_t)(p->batch * p->context);
  double relative = sqrt(REAL_EPS); /* far above rounding, and still a small change */
  *r = (struct decode_result){0};
  if (model_decoder_init(&t->model, &decoder, p->batch, p->context, form, e)) return e->status;
  r->cached = decoder.cached;
  real *training = memory_new(3 * n, sizeof *training), *decoded = training + n, *off = decoded + n;
  for (long b = 0; b < t->train->val_batches; b++) {
    host_batch_draw(&t->host, &t->data, DATA_VAL, COMMON_SEED, (uint64_t)b);
    for (long part = 0; part < t->train->micro_batches; part++) {
      look_at_part(t, part, training);
      decode_part(t, &decoder, part, decoded);
      real *weights = params_perturb(&t->model.params, relative);
      look_at_part(t, part, off);
      params_put_back(&t->model.params, weights);
      compare_part(t, part, training, decoded, off, r);
    }
  }
  r->rounding *= REAL_EPS / relative;
  memory_free(training);
  model_program_free(&decoder);
  return STATUS_OK;
}
