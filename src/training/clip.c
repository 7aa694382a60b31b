/* clip.c - what every clip does to the weights */
#include "training/clip.h"
#include "training/optimizer.h"

void clip_record(struct stabilizer_context *c, struct program *p, const struct logit_block *f, int count,
                 struct tensor *scale, int momentum)
{
  int *segment = program_memory(p, 4 * (size_t)count, sizeof *segment), n = 0;
  int *owner = program_memory(p, 2 * (size_t)count, sizeof *owner);
  for (int i = 0; i < count; i++) {
    model_segment(c->model, f[i].weight, f[i].row, f[i].rows, segment + 2 * n);
    owner[n++] = i;
    if (!f[i].bias) continue;
    model_segment(c->model, f[i].bias, f[i].row, f[i].rows, segment + 2 * n);
    owner[n++] = i;
  }
  struct tensor *factor = program_temporary(p, 1, n, "clip factors");
  PROGRAM_CALL(p, take, .y = factor, .x = scale, .index = program_ints(p, 1, n, owner, "clipped"));
  PROGRAM_CALL(p, scale_segments, .x = &c->model->params.values,
               .segment = program_ints(p, n, 2, segment, "clipped"), .factor = factor);
  if (momentum) updates_record_scale_momentum(c->updates, p, f, count, scale);
}
