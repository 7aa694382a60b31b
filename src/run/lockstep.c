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

void lockstep_run_part(const struct lockstep *c, lockstep_choice *chosen, enum part part, long i)
{
  long micro_batch = c->run[0]->first_leaf + i * c->run[0]->next_leaf;
  for (int k = 0; k < c->count; k++) {
    struct trainer *t = c->run[k];
    if (!chosen || chosen(t))
      host_batch_feed(&t->host, t->device, part == PART_STEP ? &t->step_program : &t->look_program,
                      micro_batch);
  }
  lockstep_replay(c, part);
}

struct folding {
  const struct lockstep *lockstep;
  enum part first;
};

static void replay_fold(void *context, int fold_part)
{
  const struct folding *f = context;
  lockstep_replay(f->lockstep, f->first + (enum part)fold_part);
}

void lockstep_fold(const struct lockstep *c, enum part part, long i)
{
  const struct trainer *t = c->run[0];
  struct folding f = {c, part == PART_STEP ? PART_FOLD : PART_FOLD_LOOK};
  fold_leaf(t->leaves,
            t->comm->ranks == 1 ? FOLD_ALONE
            : t->shards         ? FOLD_RANKS_FIRST
                                : FOLD_RANKS_LAST,
            i, replay_fold, &f);
}

void lockstep_run_pass(const struct lockstep *c, lockstep_choice *chosen, enum part part)
{
  for (long i = 0; i < c->run[0]->leaves; i++) {
    lockstep_run_part(c, chosen, part, i);
    lockstep_fold(c, part, i);
  }
}
