/* clip.c - scaling of weights and moments, shared by all clips */
#include "training/clip.h"
#include "model/model.h"

/* Scale the parts of these n segments of the trained parameters that lie in a row of moments, each by its owner's
   factor. */
static void scale_moments(struct program *p, const struct moments *x, const int *segment, const int *owner,
                          int n, struct tensor *scale)
{
  int *own = program_memory(p, 2 * (size_t)n + 1, sizeof *own);
  int *from = program_memory(p, (size_t)n + 1, sizeof *from), count = 0;
  for (int i = 0; i < n; i++) {
    long begin = segment[2 * i] - x->from, end = begin + segment[2 * i + 1];
    if (begin < 0) begin = 0;
    if (end > x->row->cols) end = x->row->cols;
    if (begin >= end) continue;
    own[2 * count] = (int)begin, own[2 * count + 1] = (int)(end - begin);
    from[count++] = owner[i];
  }
  if (!count) return;
  struct tensor *factor = program_temporary(p, 1, count, "factors");
  PROGRAM_CALL(p, gather, .y = factor, .x = scale, .index = program_ints(p, 1, count, from, "factors"));
  PROGRAM_CALL(p, scale_segments, .x = x->row, .segment = program_ints(p, count, 2, own, "rows"),
               .factor = factor);
}

static double is_due(const void *every, const struct step_scalars *now)
{
  return (now->step + 1) % *(const long *)every == 0;
}

struct tensor *clip_every(struct stabilizer_context *c, struct program *p, long every)
{
  struct tensor *finite = program_guard_of(p), *due = program_temporary(p, 1, 1, "due");
  program_guard(p, NULL); /* the inputs of a guard are computed in any case */
  PROGRAM_CALL(p, copy, .y = due, .x = numbers_varying(c->numbers, is_due, &every, sizeof every));
  if (finite) PROGRAM_CALL(p, multiply, .y = due, .x = finite);
  program_guard(p, due);
  return finite;
}

void clip_record(struct stabilizer_context *c, struct program *p, const struct logit_block *f, int count,
                 struct tensor *scale, int momentum)
{
  int *segment = program_memory(p, 4 * (size_t)count, sizeof *segment), n = 0;
  int *owner = program_memory(p, 2 * (size_t)count, sizeof *owner);
  for (int i = 0; i < count; i++) {
    param_segment(f[i].weight, f[i].row, f[i].rows, segment + 2 * n);
    owner[n++] = i;
    if (!f[i].bias) continue;
    param_segment(f[i].bias, f[i].row, f[i].rows, segment + 2 * n);
    owner[n++] = i;
  }
  struct params *all = &c->model->params;
  size_t most = params_cut_most(all, n);
  int *own = program_memory(p, 2 * most, sizeof *own), *of = program_memory(p, most, sizeof *of);
  int here = params_cut(all, segment, n, own, of);
  for (int i = 0; i < here; i++) of[i] = owner[of[i]];
  if (here) {
    struct tensor *factor = program_temporary(p, 1, here, "clip factors");
    PROGRAM_CALL(p, gather, .y = factor, .x = scale, .index = program_ints(p, 1, here, of, "clipped"));
    PROGRAM_CALL(p, scale_segments, .x = &all->values, .segment = program_ints(p, here, 2, own, "clipped"),
                 .factor = factor);
  }
  for (int k = 0; momentum && k < all->moment_count; k++)
    scale_moments(p, &all->moments[k], segment, owner, n, scale);
}
