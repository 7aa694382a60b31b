/* sigma_reparam.c - weights that are used as gamma / sigma(W) W (sigmaReparam, Zhai et al., arXiv 2303.06296)
   sigma = u^T W v is the spectral norm as far as one power iteration per step has found it, gamma a learned
   scalar that starts at 1. Gradients flow through W and gamma, not through u and v.
   Adds to each weight blocks.{l}.NAME: NAME.sigma_gain [1], and the states NAME.sigma_u [rows], NAME.sigma_v
   [columns]. The weight itself, and every spectrum recorded of it, is W. */
#include <stdio.h>
#include "model/model.h"
#include "training/spectral.h"

enum { FIRST_ITERATIONS = 100 }; /* before step 0, where no earlier u is there to start from */

enum { ALL, QK };
static const char *const kinds[] = {"all", "qk", NULL};

struct sigma_reparam {
  long weights;
};

static const struct option_row rows[] = {
  CHOICE_ROW(struct sigma_reparam, weights, "all", kinds, "every hidden matrix, or queries and keys", 0),
  END_ROW};

struct singular_pair {
  struct param *weight, *gain, *u, *v;
};
struct sigma_state {
  struct singular_pair *pair;
  int count;
};

static int is_factor(const struct model *m, const struct param *p)
{
  struct logit_block factor[MAX_LOGIT_BLOCKS];
  int count = m->attention->logit_blocks(m, p->layer, 0, factor);
  for (int i = 0; i < count; i++)
    if (factor[i].weight == p) return 1;
  return 0;
}

static void declare(struct stabilizer_context *c, int layer)
{
  const struct sigma_reparam *o = c->options;
  struct params *params = &c->model->params;
  for (int i = 0, before = params->count; i < before; i++) {
    const struct param *p = params->list[i];
    if (p->layer != layer || p->kind != PARAM_MATRIX || p->block_rows)
      continue; /* experts stay as they are */
    if (o->weights == QK && !is_factor(c->model, p)) continue;
    params_add(params, PARAM_GAIN, layer, 1, 1, INIT_CONSTANT, 1, "%s.sigma_gain", p->name);
    params_add(params, PARAM_STATE, layer, 1, p->value.rows, INIT_NORMAL, 1, "%s.sigma_u", p->name);
    params_add(params, PARAM_STATE, layer, 1, p->value.cols, INIT_CONSTANT, 0, "%s.sigma_v", p->name);
  }
}

static struct param *companion(const struct params *params, const struct param *p, const char *what)
{
  char name[128];
  snprintf(name, sizeof name, "%s.%s", p->name, what);
  return params_find(params, name);
}

static int init(struct stabilizer_context *c, struct error *e)
{
  (void)e;
  struct sigma_state *s = c->state;
  const struct params *params = &c->model->params;
  s->pair = arena_get(params->arena, (size_t)params->count, sizeof *s->pair);
  for (int i = 0; i < params->count; i++) {
    struct param *p = params->list[i], *gain = companion(params, p, "sigma_gain");
    if (gain)
      s->pair[s->count++] =
        (struct singular_pair){p, gain, companion(params, p, "sigma_u"), companion(params, p, "sigma_v")};
  }
  return STATUS_OK;
}

static void iterate(struct stabilizer_context *c, struct program *p)
{
  const struct sigma_state *s = c->state;
  for (int i = 0; i < s->count; i++)
    power_iteration_record(p, &s->pair[i].weight->value, &s->pair[i].u->value, &s->pair[i].v->value, 1,
                           program_temporary(p, 1, 1, "sigma"));
}

static struct tensor *on_weight(struct stabilizer_context *c, struct program *program, struct param *p,
                                struct tensor *w)
{
  const struct sigma_state *s = c->state;
  for (int i = 0; i < s->count; i++)
    if (s->pair[i].weight == p)
      return op_reparam(program, w, &s->pair[i].u->value, &s->pair[i].v->value, &s->pair[i].gain->value);
  return w;
}

const struct stabilizer stabilizer_sigma_reparam = {
  .name = "sigma_reparam",
  .help = "weights divided by their spectral norm, times a learned scalar",
  .options = rows,
  .options_size = sizeof(struct sigma_reparam),
  .state_size = sizeof(struct sigma_state),
  .declare = declare,
  .init = init,
  .begin = iterate,
  .on_weight = on_weight,
  .begin_times = FIRST_ITERATIONS,
  .after_step = iterate,
  .flags = STABILIZER_NORMS_QK,
};
