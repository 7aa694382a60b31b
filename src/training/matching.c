/* matching.c - updates of hidden matrices scaled to one size, whatever the optimizer (override.match) */
#include <math.h>
#include "model/model.h"
#include "training/orthogonal.h"
#include "training/spectral.h"
#include "training/updates_parts.h"

/* Scale an update to a spectral norm of rms sqrt(max(rows, cols)), as of a matrix of equal singular values. */
static void match_block(double rms, struct device *device, struct tensor d)
{
  struct svd s;
  int failed = svd_of(&s, device, &d);
  double size = failed ? NAN : s.sigma[0] / sqrt(fmax((double)d.rows, (double)d.cols));
  svd_free(&s);
  if (size == 0) return;
  op_run(device, OP_scale, &(union op_args){.scale = {.y = &d, .alpha = rms / size}});
}

static void match_one(void *context, struct device *device, long i)
{
  const struct updates *u = context;
  const struct param *p = u->params[i];
  long rows = param_block_rows(p);
  if (p->kind != PARAM_MATRIX || !u->rules[i].optimizer->record) return;
  for (long row = 0; row < p->value.rows; row += rows)
    match_block(u->match_rms, device, tensor_rows(&u->params[i]->update, row, rows));
}

static void match_spectral(struct device *device, void *context)
{
  struct updates *u = *(struct updates **)context;
  host_each(device, u->count, match_one, u);
}

static void match_rms(struct updates *u, struct program *p)
{
  int *segment = program_memory(p, 2 * (size_t)u->count, sizeof *segment), n = 0;
  for (int i = 0; i < u->count; i++) {
    const struct param *x = u->params[i];
    if (x->kind == PARAM_MATRIX && u->rules[i].optimizer->record)
      param_segment(x, 0, x->value.rows, segment + 2 * (long)n++);
  }
  if (n) segments_rms_record(p, u->all, segment, n, numbers_constant(u->model->numbers, u->match_rms));
}

void updates_match(struct updates *u, struct program *p)
{
  if (u->match == MATCH_UPDATE_RMS) match_rms(u, p);
  if (u->match == MATCH_UPDATE_SPECTRAL_NORM) program_host(p, match_spectral, &u, sizeof u);
}
