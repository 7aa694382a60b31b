/* look.c - the loss on validation batches, and of single tokens */
#include <math.h>

#include "base/memory.h"
#include "run/batched.h"

void trainer_token_losses(struct trainer *t, const struct model_program *p, real *out)
{
  t->engine.device->download(t->engine.device, out, p->token_loss->data,
                             (size_t)p->token_loss->rows * sizeof(real));
}

/* Add the losses of micro-batch `part`, from the program's last pass, to the sums of their positions. */
static void add_positions(struct trainer *t, const struct model_program *p, long part, double *sum,
                          double *count)
{
  long n = p->batch * p->context;
  trainer_token_losses(t, p, t->engine.token_loss_host);
  for (long i = 0; i < n; i++) {
    long row = i / p->context, at = i % p->context;
    double counts = t->engine.host.batch.mask[(part * p->batch + row) * t->engine.host.batch.context + at];
    if (counts > 0) sum[i % p->context] += counts * (double)t->engine.token_loss_host[i];
    count[i % p->context] += counts;
  }
}

/* --- predictions of modules that look ahead, against the main head ---------------------------------------- */

/* The index of the largest logit of each row [n, V]; -1 where one is NaN. */
static void download_choices(struct trainer *t, const struct tensor *logits, int *choice)
{
  long n = logits->rows, v = logits->cols;
  real *all = memory_new((size_t)(n * v), sizeof *all);
  t->engine.device->download(t->engine.device, all, logits->data, (size_t)(n * v) * sizeof *all);
  for (long i = 0; i < n; i++) {
    const real *row = all + i * v;
    choice[i] = 0;
    for (long j = 0; j < v && choice[i] >= 0; j++)
      if (isnan(row[j]))
        choice[i] = -1;
      else if (row[j] > row[choice[i]])
        choice[i] = (int)j;
  }
  memory_free(all);
}

/* Module k at position i and the main head at i + k predict the same token. */
static void add_agreements(struct trainer *t, const struct model_program *p, long part, double *hits,
                           double *count)
{
  long n = p->batch * p->context, modules = t->engine.model.options.mtp;
  int *main_choice = memory_new(2 * (size_t)n, sizeof *main_choice), *choice = main_choice + n;
  download_choices(t, p->logits, main_choice);
  for (long k = 1; k <= modules; k++) {
    download_choices(t, p->ahead[k - 1].logits, choice);
    for (long i = 0; i < n; i++) {
      if (i % p->context + k >= p->context || t->engine.host.weight[k][part * n + i] == 0) continue;
      hits[k - 1] += choice[i] >= 0 && choice[i] == main_choice[i + k];
      count[k - 1]++;
    }
  }
  memory_free(main_choice);
}

/* --- validation --------------------------------------------------------------------------------------------- */

/* Sums over the batches of a single run besides its losses; NULL where they are not requested. */
struct sums {
  double *position, *count; /* [context] */
  double *hits, *pairs;     /* [modules] */
};

/* After each micro-batch of every batch the sums are reduced. */
static void validate(const struct batched *c, batched_choice *chosen, const struct sums *s)
{
  struct trainer *t = c->run[0];
  batched_replay(c, PART_REDUCE_LOOK + REDUCE_CLEAR);
  for (long m = 0; m < t->ranks.micro_batches; m++) {
    for (long b = 0; b < t->plan.train->val_batches; b++) {
      batched_draw(c, chosen, DATA_VAL, (uint64_t)b);
      batched_run_micro(c, chosen, PART_LOOK, m);
      if (s->position) add_positions(t, &t->engine.look_program, m, s->position, s->count);
      if (s->hits) add_agreements(t, &t->engine.look_program, m, s->hits, s->pairs);
    }
    batched_reduce(c, PART_LOOK, m);
  }
}

void trainer_run_validation(const struct batched *c, batched_choice *chosen)
{
  validate(c, chosen, &(struct sums){0});
}

double trainer_reported_val(const struct trainer *t)
{
  return (double)report_of(t->engine.model.report, t->engine.model.val.loss)[0] /
         (double)t->plan.train->val_batches;
}

double trainer_validated(struct trainer *t)
{
  program_run(t->engine.keep_val);
  report_read(t->engine.model.report);
  return trainer_reported_val(t);
}

double trainer_evaluate(struct trainer *t, double *by_position, double *agreement)
{
  long context = t->engine.look_program.context, modules = t->engine.model.options.mtp;
  double *count = by_position ? memory_new((size_t)context, sizeof *count) : NULL, pairs[MAX_MODULES] = {0};
  for (long i = 0; by_position && i < context; i++) by_position[i] = 0;
  for (long k = 0; agreement && k < modules; k++) agreement[k] = 0;
  validate(ALONE(t), NULL, &(struct sums){by_position, count, modules ? agreement : NULL, pairs});
  for (long i = 0; by_position && i < context; i++) by_position[i] /= count[i];
  for (long k = 0; agreement && k < modules; k++) agreement[k] /= pairs[k];
  memory_free(count);
  return trainer_validated(t);
}

double trainer_ahead_loss(const struct trainer *t, long module)
{
  return (double)(report_of(t->engine.model.report, t->engine.model.val.ahead)[2 * module] /
                  (real)t->plan.train->val_batches);
}
