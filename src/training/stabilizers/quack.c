/* quack.c - learning rates of queries and keys that bound the change of the logits (arXiv 2511.21377)
   A step changes q.k by about |dW_q| |W_k| + |W_q| |dW_k|, so each factor's rate is divided by the size of what
   it is multiplied with, relative to the start:

     head h's w_q   rate * tau |W_k^0| / |W_k|          its w_k   rate * tau |W_q^0| / |W_q|

   with Frobenius norms of the head's rows. What several heads share (a group's key, mla's rotary key) looks at
   the largest among its heads. For mla (Alg. 2) w_qc goes with |w_dq| |w_kc| |w_dkv|, w_kc with
   |w_dq| |w_qc| |w_dkv|, w_qr with |w_dq| |w_kr|, w_kr with |w_dq| |w_qr|; the latent projections keep
   their rates. */
#include <math.h>
#include <stdio.h>
#include "base/memory.h"
#include "model/model.h"

struct quack {
  double tau;
};

static const struct option_row rows[] = {
  REAL_ROW(struct quack, tau, "1", 1e-6, 1e6, "1", "factor on the rates of queries and keys at the start", 0),
  END_ROW};

static const struct series emits[] = {
  {"quack/q_factor", PER_HEAD, AXIS_STEP, "1", "QuacK factor of queries",
   "factor on the learning rate of the head's query rows (content rows for mla) in this step"},
  {"quack/k_factor", PER_HEAD, AXIS_STEP, "1", "QuacK factor of keys",
   "factor on the learning rate of the head's (or its group's) key rows in this step"},
  {0}};

/* One block of rows, once however many heads use it. */
struct entry {
  struct factor factor;
  int layer;
  double partner, rate;
};
struct quack_state {
  struct entry *entry;
  int count;
};

/* Blocks of one layer, into `out` from `count` on; returns how many there are then. */
static int add_layer(const struct model *m, int layer, struct entry *out, int count)
{
  struct factor f[MAX_FACTORS];
  for (int h = 0, first = count; h < m->options.heads; h++)
    for (int i = 0, n = m->attention->factors(m, layer, h, f); i < n; i++) {
      int known = 0;
      for (int j = first; j < count; j++)
        known |= out[j].factor.weight == f[i].weight && out[j].factor.row == f[i].row;
      if (!known) out[count++] = (struct entry){.factor = f[i], .layer = layer};
    }
  return count;
}

/* The sizes at the start are part of a run's state: a parameter that does not train. */
static void declare(struct stabilizer_context *c, int layer)
{
  struct model *m = c->model;
  struct entry *scratch = memory_new((size_t)(m->options.heads * MAX_FACTORS), sizeof *scratch);
  int count = add_layer(m, layer, scratch, 0);
  params_add(&m->params, PARAM_STATE, layer, 1, count, INIT_CONSTANT, 0, "blocks.%d.quack.start", layer);
  memory_free(scratch);
}

static int init(struct stabilizer_context *c, struct error *e)
{
  (void)e;
  struct model *m = c->model;
  struct quack_state *state = c->state;
  size_t most = (size_t)(m->options.layers * m->options.heads * MAX_FACTORS);
  state->entry = arena_get(m->params.arena, most, sizeof *state->entry);
  for (int l = 0; l < m->options.layers; l++) state->count = add_layer(m, l, state->entry, state->count);
  return STATUS_OK;
}

/* --- sizes ---------------------------------------------------------------------------------------------- */
static double norm_of_role(struct model *m, const struct factor *f, int count, enum role a, enum role b)
{
  for (int i = 0; i < count; i++)
    if (f[i].role == a || f[i].role == b) return factor_norm(m, &f[i]);
  BUG("a head without role %d or %d", (int)a, (int)b);
}

/* A latent projection of mla; 1 where there is none. */
static double latent_norm(struct model *m, int layer, const char *name)
{
  char full[96];
  snprintf(full, sizeof full, "blocks.%d.attn.%s", layer, name);
  struct param *p = params_find(&m->params, full);
  return p ? factor_norm(m, &(struct factor){.weight = p, .rows = p->value.rows}) : 1;
}

static double partner_in_head(struct model *m, int layer, enum role role, const struct factor *f, int count)
{
  switch (role) {
  case ROLE_Q_HEAD:
    return norm_of_role(m, f, count, ROLE_K_HEAD, ROLE_K_GROUP) * latent_norm(m, layer, "w_dq") *
           latent_norm(m, layer, "w_dkv");
  case ROLE_Q_ROPE:
    return norm_of_role(m, f, count, ROLE_K_ROPE_SHARED, ROLE_K_ROPE_SHARED) * latent_norm(m, layer, "w_dq");
  case ROLE_K_ROPE_SHARED:
    return norm_of_role(m, f, count, ROLE_Q_ROPE, ROLE_Q_ROPE) * latent_norm(m, layer, "w_dq");
  default: /* ROLE_K_HEAD, ROLE_K_GROUP */
    return norm_of_role(m, f, count, ROLE_Q_HEAD, ROLE_Q_HEAD) * latent_norm(m, layer, "w_dq") *
           latent_norm(m, layer, "w_dkv");
  }
}

/* The largest among the heads that use the block. */
static double partner(struct model *m, const struct entry *e)
{
  double largest = 0;
  struct factor f[MAX_FACTORS];
  for (int h = 0; h < m->options.heads; h++)
    for (int i = 0, n = m->attention->factors(m, e->layer, h, f); i < n; i++)
      if (f[i].weight == e->factor.weight && f[i].row == e->factor.row) {
        double size = partner_in_head(m, e->layer, e->factor.role, f, n);
        largest = size > largest || isnan(size) ? size : largest;
      }
  return largest;
}

static void measure(struct stabilizer_context *c)
{
  struct quack_state *state = c->state;
  for (int i = 0; i < state->count; i++) state->entry[i].partner = partner(c->model, &state->entry[i]);
}

/* --- hooks ---------------------------------------------------------------------------------------------- */
/* Walk the entries with the place of each in its layer's saved parameter. */
static void each_start(struct stabilizer_context *c,
                       void (*visit)(struct stabilizer_context *, struct entry *, real *))
{
  struct quack_state *state = c->state;
  struct device *device = c->model->device;
  for (int i = 0, at = 0; i < state->count; i++) {
    struct entry *e = &state->entry[i];
    at = i > 0 && e->layer == e[-1].layer ? at + 1 : 0;
    real *place = REALS(&model_param(c->model, e->layer, "quack.start")->value) + at, start;
    device->download(device, &start, place, sizeof start);
    visit(c, e, &start);
    device->upload(device, place, &start, sizeof start);
  }
}

static void keep_start(struct stabilizer_context *c, struct entry *e, real *start)
{
  (void)c;
  *start = (real)e->partner;
}

static void set_rate(struct stabilizer_context *c, struct entry *e, real *start)
{
  double tau = ((const struct quack *)c->options)->tau;
  e->rate = e->partner == 0 ? tau : tau * (double)*start / e->partner;
}

static void begin(struct stabilizer_context *c)
{
  measure(c);
  each_start(c, keep_start);
}

static const struct entry *entry_of(const struct stabilizer_context *c, const struct param *p, long row)
{
  const struct quack_state *state = c->state;
  for (int i = 0; i < state->count; i++) {
    const struct factor *f = &state->entry[i].factor;
    if (f->weight == p && row >= f->row && row < f->row + f->rows) return &state->entry[i];
  }
  return NULL;
}

static void before_update(struct stabilizer_context *c)
{
  struct model *m = c->model;
  struct factor f[MAX_FACTORS];
  measure(c);
  each_start(c, set_rate);
  for (int l = 0; l < m->options.layers; l++)
    for (int h = 0; h < m->options.heads; h++)
      for (int i = 0, n = m->attention->factors(m, l, h, f); i < n; i++) {
        long at = l * m->options.heads + h;
        real rate = (real)entry_of(c, f[i].weight, f[i].row)->rate;
        if (f[i].role == ROLE_Q_HEAD)
          c->series[0][at] = rate;
        else if (f[i].role == ROLE_K_HEAD || f[i].role == ROLE_K_GROUP)
          c->series[1][at] = rate;
      }
}

static void on_update(struct stabilizer_context *c, const struct param *p, long row, long count,
                      struct update_factors *f)
{
  (void)count;
  const struct entry *e = entry_of(c, p, row);
  if (e) f->lr *= e->rate;
}

const struct stabilizer stabilizer_quack = {
  .name = "quack",
  .help = "learning rates of queries and keys fall as what they are multiplied with grows (QuacK)",
  .options = rows,
  .options_size = sizeof(struct quack),
  .state_size = sizeof(struct quack_state),
  .emits = emits,
  .declare = declare,
  .init = init,
  .begin = begin,
  .before_update = before_update,
  .on_update = on_update,
};
