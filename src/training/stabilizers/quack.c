/* quack.c - learning rates of queries and keys that bound the change of the logits (arXiv 2511.21377)
   A step changes q.k by about |dW_q| |W_k| + |W_q| |dW_k|. So the rate of each factor is divided by the size of its
   partner in the product, relative to the start:

     head h's w_q   rate * tau |W_k^0| / |W_k|          its w_k   rate * tau |W_q^0| / |W_q|

   with Frobenius norms of the head's rows. Rows shared by several heads (a group's key, mla's rotary key) use the
   largest among their heads. For mla (Alg. 2) w_qc goes with |w_dq| |w_kc| |w_dkv|, w_kc with |w_dq| |w_qc| |w_dkv|,
   w_qr with |w_dq| |w_kr|, w_kr with |w_dq| |w_qr|; the latent projections keep their rates. */
#include <stdio.h>
#include "base/memory.h"
#include "model/model.h"
#include "training/spectral.h"

struct quack {
  double tau;
};

static const struct option_row rows[] = {
  REAL_ROW(struct quack, tau, "1", 1e-6, 1e6, "1", "factor on the rates of queries and keys at the start", 0),
  END_ROW};

static const struct series emits[] = {
  {"quack/q_factor", PER_HEAD, AXIS_STEP, "1", "QuacK factor of queries",
   "factor on the learning rate of the head's query rows (content rows for mla) in this step", EVENT_NONE},
  {"quack/k_factor", PER_HEAD, AXIS_STEP, "1", "QuacK factor of keys",
   "factor on the learning rate of the head's (or its group's) key rows in this step", EVENT_NONE},
  {0}};

/* One block of rows, listed once even if several heads use it. */
struct quack_entry {
  struct logit_block factor;
  int layer;
};
struct quack_state {
  struct quack_entry *entry;
  int count;
  struct tensor *rate; /* [1, count]: of this step */
};

/* Add the blocks of one layer to `out` from `count` on; returns the new count. */
static int add_layer(const struct model *m, int layer, struct quack_entry *out, int count)
{
  struct logit_block f[MAX_LOGIT_BLOCKS];
  for (int h = 0, first = count; h < m->options.heads; h++)
    for (int i = 0, n = m->attention->logit_blocks(m, layer, h, f); i < n; i++) {
      int known = 0;
      for (int j = first; j < count; j++)
        known |= out[j].factor.weight == f[i].weight && out[j].factor.row == f[i].row;
      if (!known) out[count++] = (struct quack_entry){.factor = f[i], .layer = layer};
    }
  return count;
}

/* The sizes at the start are part of a run's state: a parameter that does not train. */
static void declare(struct stabilizer_context *c, int layer)
{
  struct model *m = c->model;
  struct quack_entry *scratch = memory_new((size_t)(m->options.heads * MAX_LOGIT_BLOCKS), sizeof *scratch);
  int count = add_layer(m, layer, scratch, 0);
  params_add(&m->params, PARAM_STATE, layer, 1, count, INIT_CONSTANT, 0, "blocks.%d.quack.start", layer);
  memory_free(scratch);
}

static int init(struct stabilizer_context *c, struct error *e)
{
  (void)e;
  struct model *m = c->model;
  struct quack_state *state = c->state;
  size_t most = (size_t)(model_blocks(&m->options) * m->options.heads * MAX_LOGIT_BLOCKS);
  state->entry = arena_get(m->params.arena, most, sizeof *state->entry);
  for (int l = 0; l < model_blocks(&m->options); l++)
    state->count = add_layer(m, l, state->entry, state->count);
  state->rate = tensor_new(m->device, TENSOR_REAL, 1, state->count, "quack rates");
  return STATUS_OK;
}

/* --- sizes ---------------------------------------------------------------------------------------------- */

static int entry_of(const struct quack_state *s, const struct param *p, long row)
{
  for (int i = 0; i < s->count; i++) {
    const struct logit_block *f = &s->entry[i].factor;
    if (f->weight == p && row >= f->row && row < f->row + f->rows) return i;
  }
  return -1;
}

/* The entry of a head's factor that has role a or b. */
static int entry_of_role(const struct quack_state *s, const struct logit_block *f, int count, enum role a,
                         enum role b)
{
  for (int i = 0; i < count; i++)
    if (f[i].role == a || f[i].role == b) return entry_of(s, f[i].weight, f[i].row);
  BUG("a head without role %d or %d", (int)a, (int)b);
}

/* The partner of these rows in this head's logits. */
static int partner_in_head(const struct quack_state *s, enum role role, const struct logit_block *f,
                           int count)
{
  switch (role) {
  case ROLE_Q_HEAD: return entry_of_role(s, f, count, ROLE_K_HEAD, ROLE_K_GROUP);
  case ROLE_Q_ROPE: return entry_of_role(s, f, count, ROLE_K_ROPE_SHARED, ROLE_K_ROPE_SHARED);
  case ROLE_K_ROPE_SHARED: return entry_of_role(s, f, count, ROLE_Q_ROPE, ROLE_Q_ROPE);
  default: return entry_of_role(s, f, count, ROLE_Q_HEAD, ROLE_Q_HEAD);
  }
}

/* Record norm[i] of every entry, then of every layer's latent projections (places of none: -1); where they stand goes
   to dq and dkv [layers]. */
static struct tensor *record_norms(struct stabilizer_context *c, struct program *p, int *dq, int *dkv)
{
  const struct model *m = c->model;
  const struct quack_state *s = c->state;
  int layers = (int)model_blocks(&m->options), n = s->count;
  int *segment = program_memory(p, 2 * (size_t)(n + 2 * layers), sizeof *segment);
  for (int i = 0; i < n; i++) {
    const struct logit_block *f = &s->entry[i].factor;
    param_segment(f->weight, f->row, f->rows, segment + 2 * i);
  }
  for (int l = 0; l < layers; l++)
    for (int k = 0; k < 2; k++) {
      char name[96];
      snprintf(name, sizeof name, "blocks.%d.attn.%s", l, k ? "w_dkv" : "w_dq");
      const struct param *latent = params_find(&m->params, name);
      (k ? dkv : dq)[l] = latent ? n : -1;
      if (latent) param_segment(latent, 0, latent->value.rows, segment + 2 * (long)n++);
    }
  struct tensor *norm = program_temporary(p, 1, n, "norms");
  PROGRAM_CALL(p, norm_segments, .y = norm, .x = (struct tensor *)&m->params.values,
               .segment = program_ints(p, n, 2, segment, "rows"));
  return norm;
}

/* y[i] *= x[index[i]] */
static void multiply_at(struct program *p, struct tensor *y, struct tensor *x, const int *index)
{
  struct tensor *own = program_temporary(p, 1, y->cols, "taken");
  PROGRAM_CALL(p, gather, .y = own, .x = x, .index = program_ints(p, 1, y->cols, index, "index"));
  PROGRAM_CALL(p, multiply, .y = y, .x = own);
}

/* Record the size of every entry's partner: the largest among the heads that use it. */
static struct tensor *record_partner(struct stabilizer_context *c, struct program *p)
{
  const struct model *m = c->model;
  const struct quack_state *s = c->state;
  int heads = (int)m->options.heads, layers = (int)model_blocks(&m->options), at = 0;
  int *dq = program_memory(p, 2 * (size_t)layers, sizeof *dq), *dkv = dq + layers;
  int *member = program_memory(p, (size_t)(s->count * heads), sizeof *member);
  int *first = program_memory(p, (size_t)s->count + 1, sizeof *first);
  int *query = program_memory(p, 2 * (size_t)s->count, sizeof *query), *key = query + s->count;
  struct logit_block f[MAX_LOGIT_BLOCKS];
  struct tensor *norm = record_norms(c, p, dq, dkv);
  for (int i = 0; i < s->count; i++) {
    const struct quack_entry *e = &s->entry[i];
    for (int h = 0; h < heads; h++)
      for (int k = 0, n = m->attention->logit_blocks(m, e->layer, h, f); k < n; k++)
        if (f[k].weight == e->factor.weight && f[k].row == e->factor.row)
          member[at++] = partner_in_head(s, e->factor.role, f, n);
    first[i + 1] = at;
    query[i] = dq[e->layer];
    key[i] = role_is_rotary(e->factor.role) ? -1 : dkv[e->layer];
  }
  struct tensor *partner = program_temporary(p, 1, s->count, "partners");
  PROGRAM_CALL(p, reduce, .y = partner, .x = norm, .member = program_ints(p, 1, at, member, "partners"),
               .first = program_ints(p, 1, s->count + 1, first, "entries"), .kind = REDUCE_MAX);
  multiply_at(p, partner, norm, query);
  multiply_at(p, partner, norm, key);
  return partner;
}

/* --- hooks ---------------------------------------------------------------------------------------------- */

static void begin(struct stabilizer_context *c, struct program *p)
{
  copy_kept(c->model, p, record_partner(c, p), "quack.start", 1);
}

static void before_update(struct stabilizer_context *c, struct program *p)
{
  struct model *m = c->model;
  const struct quack_state *s = c->state;
  int heads = (int)m->options.heads, n = (int)model_blocks(&m->options) * heads;
  int *query = program_memory(p, 2 * (size_t)n, sizeof *query), *key = query + n;
  struct logit_block f[MAX_LOGIT_BLOCKS];
  struct tensor *partner = record_partner(c, p);
  copy_kept(m, p, s->rate, "quack.start", 0);
  PROGRAM_CALL(p, divide, .y = s->rate, .x = partner);
  PROGRAM_CALL(p, scale, .y = s->rate,
               .by = numbers_constant(c->numbers, ((const struct quack *)c->options)->tau), .alpha = 1);
  for (int i = 0; i < n; i++) {
    int count = m->attention->logit_blocks(m, i / heads, i % heads, f);
    query[i] = entry_of_role(s, f, count, ROLE_Q_HEAD, ROLE_Q_HEAD);
    key[i] = entry_of_role(s, f, count, ROLE_K_HEAD, ROLE_K_GROUP);
  }
  PROGRAM_CALL(p, gather, .y = c->series[0], .x = s->rate, .index = program_ints(p, 1, n, query, "queries"));
  PROGRAM_CALL(p, gather, .y = c->series[1], .x = s->rate, .index = program_ints(p, 1, n, key, "keys"));
}

static void on_update(struct stabilizer_context *c, struct program *p, const struct update_block *block,
                      int blocks, struct tensor *factor)
{
  const struct quack_state *s = c->state;
  int *index = program_memory(p, (size_t)blocks, sizeof *index);
  for (int i = 0; i < blocks; i++) index[i] = entry_of(s, block[i].param, block[i].row);
  multiply_at(p, factor, s->rate, index);
}

static void release(struct stabilizer_context *c)
{
  tensor_free(c->model->device, ((struct quack_state *)c->state)->rate);
}

const struct stabilizer stabilizer_quack = {
  .name = "quack",
  .help = "learning rates of queries and keys that fall as the other factor of the logit grows (QuacK)",
  .options = rows,
  .options_size = sizeof(struct quack),
  .state_size = sizeof(struct quack_state),
  .emits = emits,
  .declare = declare,
  .init = init,
  .begin = begin,
  .before_update = before_update,
  .on_update = on_update,
  .free = release,
  .flags = STABILIZER_WHOLE,
};
