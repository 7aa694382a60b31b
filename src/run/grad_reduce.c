#include "run/grad_reduce.h"
#include "base/memory.h"
#include "model/model.h"
#include "numerics/ranks.h"
#include "numerics/sums.h"

struct grad_reduce {
  struct model *model;
  enum passes passes;
  struct program *program[REDUCE_PARTS];
  struct tensor *grads[REDUCE_LEVELS], **kept[REDUCE_LEVELS]; /* of a level; NULL: not needed */
};

/* The number of micro-batches, halved until it is odd. */
static long odd_part(long micro_batches)
{
  while (micro_batches % 2 == 0) micro_batches /= 2;
  return micro_batches;
}

static int bits_of(long n)
{
  int bits = 0;
  for (; n; n /= 2) bits++;
  return bits;
}

/* --- the order of the sums -------------------------------------------------------------------------------------- */

struct steps {
  void (*replay)(void *context, int grad_reduce_part);
  void *context;
};

/* Add the i-th of `count` items to a binary counter that starts at this level. Returns 1 when all are added. */
static int count_up(const struct steps *s, int level, long i, long count)
{
  int k = 0;
  for (; i + 1 < count && i >> k & 1; k++) s->replay(s->context, REDUCE_JOIN + level + k);
  if (i + 1 < count) {
    s->replay(s->context, REDUCE_KEEP + level + k);
    s->replay(s->context, REDUCE_CLEAR);
    return 0;
  }
  for (; i >> k; k++)
    if (i >> k & 1) s->replay(s->context, REDUCE_JOIN + level + k);
  return 1;
}

void grad_reduce_add(long micro_batches, enum grad_reduce_ranks ranks, long i,
                     void (*replay)(void *context, int grad_reduce_part), void *context)
{
  const struct steps s = {replay, context};
  long odd = odd_part(micro_batches);
  if (ranks == REDUCE_RANKS_FIRST) replay(context, REDUCE_RANKS);
  if (count_up(&s, 0, i % odd, odd) && count_up(&s, bits_of(odd - 1), i / odd, micro_batches / odd) &&
      ranks == REDUCE_RANKS_LAST)
    replay(context, REDUCE_RANKS);
}

/* --- the programs ----------------------------------------------------------------------------------------------- */

static void record_keep(struct grad_reduce *f, int level)
{
  struct model *m = f->model;
  struct program *keep = program_new(m->device), *join = program_new(m->device);
  f->kept[level] = report_kept_new(m->report);
  report_record_keep(m->report, keep, f->kept[level]);
  report_record_join(m->report, join, f->passes, f->kept[level]);
  if (f->passes == PASSES_STEP) {
    struct tensor *grads = tensor_new(m->device, TENSOR_REAL, 1, m->params.grads.cols, "gradients of a part");
    PROGRAM_CALL(keep, copy, .y = grads, .x = &m->params.grads);
    PROGRAM_CALL(join, axpby, .y = &m->params.grads, .x = grads, .alpha = 1, .beta = 1);
    f->grads[level] = grads;
  }
  program_plan(keep);
  program_plan(join);
  f->program[REDUCE_KEEP + level] = keep;
  f->program[REDUCE_JOIN + level] = join;
}

static struct program *record_fresh(const struct grad_reduce *f)
{
  struct program *p = program_new(f->model->device);
  report_record_fresh(f->model->report, p, f->passes);
  if (f->passes == PASSES_STEP) PROGRAM_CALL(p, fill, .y = &f->model->params.grads, .value = 0);
  program_plan(p);
  return p;
}

static struct program *record_across(const struct grad_reduce *f)
{
  struct program *p = program_new(f->model->device);
  report_record_across(f->model->report, p, f->passes);
  if (f->passes == PASSES_STEP && !f->model->params.shards) { /* shards have been reduced already */
    if (f->model->device->early)
      program_host(p, sums_end, &(char){0}, 1);
    else
      op_all_reduce_sum(p, &f->model->params.grads, RANKS_BATCH);
    op_all_reduce_sum(p, &f->model->params.grads, RANKS_CONTEXT);
  }
  program_plan(p);
  return p;
}

struct grad_reduce *grad_reduce_new(struct model *m, enum passes passes, long micro_batches)
{
  struct grad_reduce *f = memory_new(1, sizeof *f);
  *f = (struct grad_reduce){.model = m, .passes = passes};
  f->program[REDUCE_CLEAR] = record_fresh(f);
  if (device_ranks(m->device, RANKS_BATCH) * device_ranks(m->device, RANKS_CONTEXT) > 1)
    f->program[REDUCE_RANKS] = record_across(f);
  long odd = odd_part(micro_batches);
  int levels = bits_of(odd - 1) + bits_of(micro_batches / odd - 1);
  REQUIRE(levels <= REDUCE_LEVELS);
  for (int level = 0; level < levels; level++) record_keep(f, level);
  return f;
}

void grad_reduce_free(struct grad_reduce *f)
{
  if (!f) return;
  struct device *device = f->model->device;
  for (int i = 0; i < REDUCE_PARTS; i++)
    if (f->program[i]) program_free(f->program[i]);
  for (int level = 0; level < REDUCE_LEVELS; level++) {
    if (f->kept[level]) report_kept_free(f->model->report, f->kept[level]);
    tensor_free(device, f->grads[level]);
  }
  memory_free(f);
}

struct program *grad_reduce_program(const struct grad_reduce *f, int grad_reduce_part)
{
  return f->program[grad_reduce_part];
}
