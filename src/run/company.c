#include "run/company.h"

void company_replay(const struct company *c, enum part part)
{
  for (int i = 0; i < c->count; i++) c->program[i] = trainer_program(c->run[i], part);
  program_run_together(c->program, c->count);
}

struct errand {
  const struct company *company;
  company_choice *chosen;
  company_work *work;
  const void *context;
};

static void do_piece(void *context, long piece, int worker)
{
  const struct errand *x = context;
  struct trainer *t = x->company->run[piece];
  (void)worker;
  if (!x->chosen || x->chosen(t)) x->work(t, x->context);
}

void company_each(const struct company *c, company_choice *chosen, company_work *work, const void *context)
{
  struct errand x = {c, chosen, work, context};
  if (c->pool)
    parallel_for(c->pool, c->count, do_piece, &x);
  else
    for (int i = 0; i < c->count; i++) do_piece(&x, i, 0);
}

struct wanted {
  enum data_split split;
  uint64_t index;
};

static void draw(struct trainer *t, const void *context)
{
  const struct wanted *w = context;
  if (w->split == DATA_TRAIN)
    host_batch_draw(&t->host, &t->data, DATA_TRAIN, (uint64_t)t->train->seed, (uint64_t)t->done);
  else
    host_batch_draw(&t->host, &t->data, w->split, COMMON_SEED, w->index);
}

void company_draw(const struct company *c, company_choice *chosen, enum data_split split, uint64_t index)
{
  company_each(c, chosen, draw, &(struct wanted){split, index});
}

void company_run_part(const struct company *c, company_choice *chosen, enum part part, long micro_batch)
{
  for (int i = 0; i < c->count; i++) {
    struct trainer *t = c->run[i];
    if (!chosen || chosen(t))
      host_batch_feed(&t->host, t->device, part == PART_STEP ? &t->step_program : &t->look_program,
                      micro_batch);
  }
  company_replay(c, part);
}

void company_run_pass(const struct company *c, company_choice *chosen, enum part part)
{
  for (long m = 0; m < c->run[0]->train->micro_batches; m++) company_run_part(c, chosen, part, m);
}
