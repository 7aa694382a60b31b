#include "run/lockstep.h"

void lockstep_replay(const struct lockstep *c, enum part part)
{
  for (int i = 0; i < c->count; i++) c->program[i] = trainer_program(c->run[i], part);
  program_run_together(c->program, c->count);
}

struct task {
  const struct lockstep *lockstep;
  lockstep_choice *chosen;
  lockstep_work *work;
  const void *context;
};

static void do_piece(void *context, long piece, int worker)
{
  const struct task *x = context;
  struct trainer *t = x->lockstep->run[piece];
  (void)worker;
  if (!x->chosen || x->chosen(t)) x->work(t, x->context);
}

void lockstep_each(const struct lockstep *c, lockstep_choice *chosen, lockstep_work *work,
                   const void *context)
{
  struct task x = {c, chosen, work, context};
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

void lockstep_draw(const struct lockstep *c, lockstep_choice *chosen, enum data_split split, uint64_t index)
{
  lockstep_each(c, chosen, draw, &(struct wanted){split, index});
}

void lockstep_run_part(const struct lockstep *c, lockstep_choice *chosen, enum part part, long micro_batch)
{
  for (int i = 0; i < c->count; i++) {
    struct trainer *t = c->run[i];
    if (!chosen || chosen(t))
      host_batch_feed(&t->host, t->device, part == PART_STEP ? &t->step_program : &t->look_program,
                      micro_batch);
  }
  lockstep_replay(c, part);
}

void lockstep_run_pass(const struct lockstep *c, lockstep_choice *chosen, enum part part)
{
  for (long m = 0; m < c->run[0]->train->micro_batches; m++) lockstep_run_part(c, chosen, part, m);
}
