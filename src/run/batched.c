#include "run/batched.h"

void batched_replay(const struct batched *c, enum part part)
{
  for (int i = 0; i < c->count; i++) c->program[i] = trainer_program(c->run[i], part);
  program_run_together(c->program, c->count);
}

struct batched_task {
  const struct batched *batched;
  batched_choice *chosen;
  batched_work *work;
  const void *context;
};

static void do_piece(void *context, long piece, int worker)
{
  const struct batched_task *x = context;
  struct trainer *t = x->batched->run[piece];
  (void)worker;
  if (!x->chosen || x->chosen(t)) x->work(t, x->context);
}

void batched_each(const struct batched *c, batched_choice *chosen, batched_work *work, const void *context)
{
  struct batched_task x = {c, chosen, work, context};
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
    host_batch_draw(&t->engine.host, &t->engine.data, DATA_TRAIN, (uint64_t)t->plan.train->seed,
                    (uint64_t)t->done);
  else
    host_batch_draw(&t->engine.host, &t->engine.data, w->split, COMMON_SEED, w->index);
}

void batched_draw(const struct batched *c, batched_choice *chosen, enum data_split split, uint64_t index)
{
  batched_each(c, chosen, draw, &(struct wanted){split, index});
}

void batched_run_micro(const struct batched *c, batched_choice *chosen, enum part part, long i)
{
  long micro_batch = c->run[0]->ranks.first_micro + i * c->run[0]->ranks.micro_stride;
  for (int k = 0; k < c->count; k++) {
    struct trainer *t = c->run[k];
    if (!chosen || chosen(t))
      host_batch_feed(&t->engine.host, t->engine.device,
                      part == PART_STEP ? &t->engine.step_program : &t->engine.look_program, micro_batch);
  }
  batched_replay(c, part);
}

struct folding {
  const struct batched *batched;
  enum part first;
};

static void replay_fold(void *context, int grad_reduce_part)
{
  const struct folding *f = context;
  batched_replay(f->batched, f->first + (enum part)grad_reduce_part);
}

void batched_reduce(const struct batched *c, enum part part, long i)
{
  const struct trainer *t = c->run[0];
  struct folding f = {c, part == PART_STEP ? PART_REDUCE : PART_REDUCE_LOOK};
  grad_reduce_add(t->ranks.micro_batches,
                  t->ranks.comm->ranks == 1 ? REDUCE_ONE_RANK
                  : t->ranks.shards         ? REDUCE_RANKS_FIRST
                                            : REDUCE_RANKS_LAST,
                  i, replay_fold, &f);
}

void batched_run_pass(const struct batched *c, batched_choice *chosen, enum part part)
{
  for (long i = 0; i < c->run[0]->ranks.micro_batches; i++) {
    batched_run_micro(c, chosen, part, i);
    batched_reduce(c, part, i);
  }
}
