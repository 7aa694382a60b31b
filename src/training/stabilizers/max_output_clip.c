/* max_output_clip.c - rescale w_o where attention's output passed tau ("MaxOutput explosion -> clip W_o": the
   proposal of kexue.fm/archives/11126 to clip where it is unstable)
   S is the largest |y w_o^T + b_o| of the layer in the step's forward pass: the size of attention's contribution to
   the residual stream. Where S > tau, w_o and b_o are multiplied by tau / S after the optimizer's step; the same y
   then adds at most tau. S <= tau changes nothing; nor does an S that is not finite, which is an event. The source
   does not give tau. Under sigma_reparam, which scales w_o itself, the clip would have no effect and is rejected. */
#include "model/model.h"
#include "training/clip.h"

struct max_output_clip {
  double tau;
};

static const struct option_row rows[] = {
  REAL_ROW(struct max_output_clip, tau, "100", 1e-6, 1e30, "1",
           "clip layers whose largest |attention output| in the step exceeds this", 0),
  END_ROW};

enum { MAX_OUTPUT, GAMMA };
static const struct series emits[] = {
  {"max_output", PER_LAYER, AXIS_STEP, "1", "largest attention output",
   "largest absolute value that the layer's attention, w_o included, added to the residual stream in the "
   "step's "
   "forward pass",
   EVENT_NONFINITE},
  {"max_output_clip/gamma", PER_LAYER, AXIS_STEP, "1", "factor of w_o",
   "factor by which the clip scaled the layer's w_o and b_o after this step's update; 1 where it did not",
   EVENT_CLIP},
  {0}};

static int init(struct stabilizer_context *c, struct error *e)
{
  if (!params_find(&c->model->params, "blocks.0.attn.w_o.sigma_gain")) return STATUS_OK;
  return error_set(e, STATUS_USAGE,
                   "stabilizers: sigma_reparam divides w_o by its norm, so max_output_clip cannot "
                   "lower its output; allowed: sigma_reparam.weights = qk");
}

static void after_step(struct stabilizer_context *c, struct program *p)
{
  struct model *m = c->model;
  const struct max_output_clip *o = c->options;
  int layers = (int)model_blocks(&m->options);
  struct logit_block *f = program_memory(p, (size_t)layers, sizeof *f);
  int *all = program_memory(p, (size_t)layers, sizeof *all);
  for (int l = 0; l < layers; l++) {
    all[l] = l;
    const struct layer *b = &m->layer[l];
    f[l] =
      (struct logit_block){.role = ROLE_OUTPUT, .weight = b->w_o, .bias = b->b_o, .rows = b->w_o->value.rows};
  }
  PROGRAM_CALL(p, gather, .y = c->series[MAX_OUTPUT], .x = c->tracked_max, /* a column becomes a row */
               .index = program_ints(p, 1, layers, all, "layers"));
  PROGRAM_CALL(p, clip_factor, .y = c->series[GAMMA], .x = c->tracked_max,
               .limit = numbers_constant(c->numbers, o->tau));
  clip_record(c, p, f, layers, c->series[GAMMA], 0);
}

const struct stabilizer stabilizer_max_output_clip = {
  .name = "max_output_clip",
  .help = "rescale w_o of layers whose attention output exceeded tau",
  .options = rows,
  .options_size = sizeof(struct max_output_clip),
  .emits = emits,
  .init = init,
  .on_output = model_track_max,
  .after_step = after_step,
};
