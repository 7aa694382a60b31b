/* decode.c - validation batches decoded through a cache, block by block, compared with the training form */
#include <math.h>

#include "base/memory.h"
#include "run/batched.h"

/* Upload positions [c, c + block) of each sequence. `from`: [batch, context]; NULL uploads the positions themselves. */
static void feed(struct trainer *t, const struct model_program *d, struct tensor *input, const int *from,
                 long c)
{
  const long block = d->context, context = t->engine.host.context;
  for (long i = 0; i < d->batch * block; i++) {
    const long at = c + i % block;
    t->engine.columns[i] = from ? from[i / block * context + at] : (int)at;
  }
  t->engine.device->upload(t->engine.device, input->data, t->engine.columns,
                           (size_t)(d->batch * block) * sizeof *t->engine.columns);
}

/* Token losses [batch*context] of micro-batch `part`, block by block. The last block ends with the context and
   recomputes the positions where it overlaps the block before. */
static void decode_part(struct trainer *t, struct model_program *d, long part, real *out)
{
  struct host_batch *h = &t->engine.host;
  const long n = h->context, block = d->context, at = part * d->batch * n;
  real *losses = t->engine.token_loss_host;
  for (long next = 0; next < n; next += block) {
    const long c = next + block < n ? next : n - block;
    feed(t, d, d->tokens, h->tokens + at, c);
    feed(t, d, d->targets, h->targets[0] + at, c);
    feed(t, d, d->position, h->position + at, c);
    feed(t, d, d->start, h->start + at, c);
    if (d->window) feed(t, d, d->window, h->window + at, c);
    feed(t, d, d->slot, NULL, c);
    program_run(d->program);
    trainer_token_losses(t, d, losses);
    for (long i = 0; i < d->batch * block; i++) out[i / block * n + c + i % block] = losses[i];
  }
}

static void look_at_part(struct trainer *t, long part, real *losses)
{
  batched_run_micro(ALONE(t), NULL, PART_LOOK, part);
  trainer_token_losses(t, &t->engine.look_program, losses);
}

static double wider(double most, double a, double b)
{
  double off = fabs(a - b);
  return isnan(most) || off <= most ? most : off;
}

static void compare_part(struct trainer *t, long part, const real *training, const real *decoded,
                         const real *off, struct decode_result *r)
{
  long n = t->engine.look_program.batch * t->engine.look_program.context;
  for (long i = 0; i < n; i++) {
    double weight = (double)t->engine.host.weight[0][part * n + i] / (double)t->plan.train->val_batches;
    if (weight == 0) continue;
    r->training_loss += weight * (double)training[i];
    r->decoded_loss += weight * (double)decoded[i];
    r->difference = wider(r->difference, (double)training[i], (double)decoded[i]);
    r->rounding = wider(r->rounding, (double)training[i], (double)off[i]);
    r->tokens++;
  }
}

static void decode(struct trainer *t, struct model_program *decoder, struct decode_result *r)
{
  const size_t n = (size_t)(t->engine.look_program.batch * t->engine.look_program.context);
  double relative = sqrt(REAL_EPS); /* far above rounding, but still a small change */
  *r = (struct decode_result){.cached = decoder->cached};
  real *training = memory_new(3 * n, sizeof *training), *decoded = training + n, *off = decoded + n;
  for (long b = 0; b < t->plan.train->val_batches; b++) {
    host_batch_draw(&t->engine.host, &t->engine.data, DATA_VAL, COMMON_SEED, (uint64_t)b);
    for (long part = 0; part < t->plan.train->micro_batches; part++) {
      look_at_part(t, part, training);
      decode_part(t, decoder, part, decoded);
      real *weights = params_perturb(&t->engine.model.params, relative);
      look_at_part(t, part, off);
      params_put_back(&t->engine.model.params, weights);
      compare_part(t, part, training, decoded, off, r);
    }
  }
  r->rounding *= REAL_EPS / relative;
  memory_free(training);
}

int trainer_decode(struct trainer *t, enum decode_form form, long block, struct decode_result *r,
                   struct error *e)
{
  struct model_program *p = &t->engine.look_program, decoder;
  if (block > p->context) block = p->context;
  if (model_decoder_init(&t->engine.model, &decoder, p->batch, block, p->context, form, e)) return e->status;
  decode(t, &decoder, r);
  model_program_free(&decoder);
  return STATUS_OK;
}

void trainer_decode_end(struct trainer *t)
{
  struct decode_result r;
  if (!t->engine.decoder.program) return;
  decode(t, &t->engine.decoder, &r);
  observers_set_decoded(t->record.observers, (struct decode_check){r.difference, r.rounding});
}
