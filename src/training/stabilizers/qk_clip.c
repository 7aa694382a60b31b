/* qk_clip.c - rescale the weights of attention logits that passed tau (Kimi K2, arXiv 2507.20534 Alg. 1)
   After the optimizer's step, with S the max logit of the step's forward pass: where S > tau,
   gamma = tau / S, and the head's logits shrink by gamma: rows of w_q by gamma^alpha, rows of w_k by
   gamma^(1-alpha), rotary queries beside a shared rotary key by gamma, that key not at all. Biases shrink
   with their rows. S <= tau touches nothing; nor does an S that is not finite, which is an event
   (but the key that such a head shares follows its group).

   maximum        S is the signed maximum (K2) or the largest |logit| (kexue.fm/archives/11126 can be read so)
   scope = layer  one S for all heads, their largest (kexue.fm/archives/11126, first version)
   scope = head   every head its own
   gqa            where a group of heads shares a key, with g the smallest gamma of the group:
     group_max      w_q by g^alpha, w_k by g^(1-alpha): all heads shrink with the worst (Megatron-LM)
     own_q_min_k    w_q by gamma^alpha, w_k by g^(1-alpha): exact for the worst head alone
     q_only         w_q by gamma, w_k not at all: exact for every head, as with the shared key of K2
     compensated    w_q by gamma g^(alpha-1), w_k by g^(1-alpha): exact for every head; the w_q of heads
                    that need no clip grow
   mla            where all heads share a rotary key
     exact          rotary queries by gamma, that key not at all: logits shrink by exactly gamma
     kr_layer       rotary queries by gamma^alpha, that key by the layer's smallest gamma^(1-alpha)
     kr_head        rotary queries by gamma^alpha, that key by gamma^(1-alpha) for one head after the other
   The last two are naive rules, for comparison: they take heads along that need no clip.
   when = after   the step's update first, then the clip (K2, and all others but one)
   when = before  the weights that made S are clipped, then updated (the order of ms-swift)
   momentum       keep: the optimizer's states stay (all known code); scale: its first moments of the rows
                  that are clipped shrink with them. Second moments stay.
   statistic      S is of the step's training batch (K2), or of the probe batch, the same in every step and
                  run, with the weights before the update: one more forward pass per step */
#include "training/stabilizers/qk_clip.h"
#include "model/model.h"
#include "training/clip.h"

static const char *const scopes[] = {"head", "layer", NULL};
const char *const qk_clip_gqa_rules[] = {"group_max", "own_q_min_k", "q_only", "compensated", NULL};
static const char *const mla_rules[] = {"exact", "kr_layer", "kr_head", NULL};

enum { SIGNED, ABSOLUTE };
static const char *const maxima[] = {"signed", "absolute", NULL};

enum { AFTER, BEFORE };
static const char *const times[] = {"after", "before", NULL};

enum { KEEP, SCALE };
static const char *const momenta[] = {"keep", "scale", NULL};

enum { BATCH, PROBE };
static const char *const statistics[] = {"batch", "probe", NULL};

static const struct option_row rows[] = {
  REAL_ROW(struct qk_clip, tau, "100", 1e-6, 1e30, "nat",
           "clip heads whose max logit in the step exceeds this", OPTION_THRESHOLD),
  REAL_ROW(struct qk_clip, alpha, "0.5", 0, 1, "1", "exponent of w_q's share; w_k takes the rest", 0),
  CHOICE_ROW(struct qk_clip, maximum, "signed", maxima, "max of the logits, or of their absolute values", 0),
  CHOICE_ROW(struct qk_clip, scope, "head", scopes, "one factor per head, or per layer", 0),
  CHOICE_ROW(struct qk_clip, gqa, "q_only", qk_clip_gqa_rules,
             "how the factor is split between queries and shared keys", 0),
  CHOICE_ROW(struct qk_clip, mla, "exact", mla_rules, "treatment of the rotary key that all heads share", 0),
  CHOICE_ROW(struct qk_clip, when, "after", times, "clip after or before the optimizer's update", 0),
  CHOICE_ROW(struct qk_clip, momentum, "keep", momenta,
             "momentum of clipped rows: unchanged, or scaled with them", 0),
  CHOICE_ROW(struct qk_clip, statistic, "batch", statistics,
             "max logits of the step's batch, or of the fixed probe batch", 0),
  END_ROW};

static const struct series emits[] = {
  {"qk_clip/gamma", PER_HEAD, AXIS_STEP, "1", "QK-Clip factor",
   "factor by which QK-Clip scaled the head's logits (under a naive mla rule: their content part) in this "
   "step; 1 where it did not",
   EVENT_CLIP},
  {0}};

static int init(struct stabilizer_context *c, struct error *e)
{
  (void)e;
  c->wants_probe = ((const struct qk_clip *)c->options)->statistic == PROBE;
  return STATUS_OK;
}

/* --- heads that are clipped together ------------------------------------------------------------------------ */

/* First head of the layer with the same rows. */
static int first_with(const struct model *m, int layer, const struct logit_block *f)
{
  struct logit_block g[MAX_LOGIT_BLOCKS];
  for (int h = 0;; h++)
    for (int i = 0, n = m->attention->logit_blocks(m, layer, h, g); i < n; i++)
      if (g[i].weight == f->weight && g[i].row == f->row) return h;
}

/* First head with the same key, where keys are shared by groups, alike in all layers; else -1. */
static int group_of(const struct model *m, int head)
{
  struct logit_block f[MAX_LOGIT_BLOCKS];
  for (int i = 0, n = m->attention->logit_blocks(m, 0, head, f); i < n; i++)
    if (f[i].role == ROLE_K_GROUP) return first_with(m, 0, &f[i]);
  return -1;
}

/* --- the factors of heads --------------------------------------------------------------------------------- */

/* Record y[head] = reduction of x over the heads of its layer, or of its group in there; x as a vector [L*H]. */
static struct tensor *over(struct program *p, const struct qk_clip_factors *f, struct tensor *x, long kind,
                           const int *group)
{
  int heads = f->heads, n = (int)(x->rows * x->cols), at = 0;
  int *member = program_memory(p, (size_t)n * (size_t)heads, sizeof *member);
  int *first = program_memory(p, (size_t)n + 1, sizeof *first);
  for (int i = 0; i < n; i++) {
    for (int h = 0; h < heads; h++)
      if (!group || group[i % heads] == group[h]) member[at++] = i / heads * heads + h;
    first[i + 1] = at;
  }
  struct tensor *y = program_temporary(p, 1, n, "over heads");
  PROGRAM_CALL(p, reduce, .y = y, .x = x, .member = program_ints(p, 1, at, member, "heads"),
               .first = program_ints(p, 1, n + 1, first, "heads"), .kind = kind);
  return y;
}

static struct tensor *copy(struct program *p, struct tensor *x)
{
  struct tensor *y = program_temporary(p, 1, x->cols, "factors");
  PROGRAM_CALL(p, copy, .y = y, .x = x);
  return y;
}

/* x^e */
static struct tensor *power(struct program *p, struct tensor *x, struct tensor *e)
{
  struct tensor *y = copy(p, x);
  PROGRAM_CALL(p, power, .y = y, .by = e, .exponent = 1);
  return y;
}

static struct tensor *product(struct program *p, struct tensor *x, struct tensor *y)
{
  PROGRAM_CALL(p, multiply, .y = x, .x = y);
  return x;
}

struct qk_clip_factors qk_clip_factors(struct program *p, struct numbers *n, const struct qk_clip *o,
                                       struct tensor *logit, int heads, const int *group)
{
  struct qk_clip_factors f = {.options = o,
                              .heads = heads,
                              .group = group,
                              .logit = logit,
                              .gamma = program_temporary(p, 1, logit->rows, "gamma"),
                              .alpha = numbers_constant(n, o->alpha),
                              .rest = numbers_constant(n, 1 - o->alpha)};
  /* A value that is not finite prevents the clip of its layer: the largest is then not finite. */
  struct tensor *by = o->scope == QK_CLIP_LAYER ? over(p, &f, logit, REDUCE_MAX, NULL) : logit;
  PROGRAM_CALL(p, clip_factor, .y = f.gamma, .x = by, .limit = numbers_constant(n, o->tau));
  f.lowest = group ? over(p, &f, f.gamma, REDUCE_MIN, group) : f.gamma;
  return f;
}

/* The factor of a head's own query rows. */
static struct tensor *query_factor(struct program *p, const struct qk_clip_factors *f)
{
  struct tensor *y;
  if (!f->group || f->options->gqa == QK_CLIP_OWN_Q_MIN_K)
    y = power(p, f->gamma, f->alpha);
  else if (f->options->gqa == QK_CLIP_GROUP_MAX)
    y = power(p, f->lowest, f->alpha);
  else if (f->options->gqa == QK_CLIP_Q_ONLY)
    y = copy(p, f->gamma);
  else { /* gamma g^alpha / g */
    y = product(p, power(p, f->lowest, f->alpha), f->gamma);
    PROGRAM_CALL(p, divide, .y = y, .x = f->lowest);
  }
  PROGRAM_CALL(p, one_unless_finite, .y = y, .x = f->logit);
  return y;
}

/* The factor of the shared rotary key: one per layer, or the product over heads. */
static struct tensor *shared_rope_factor(struct program *p, const struct qk_clip_factors *f)
{
  if (f->options->mla == QK_CLIP_EXACT) return NULL;
  if (f->options->mla == QK_CLIP_KR_LAYER) return power(p, over(p, f, f->gamma, REDUCE_MIN, NULL), f->rest);
  return over(p, f, power(p, f->gamma, f->rest), REDUCE_PRODUCT, NULL);
}

struct tensor *qk_clip_factor(struct program *p, const struct qk_clip_factors *f, enum role role)
{
  const struct qk_clip *o = f->options;
  switch (role) {
  case ROLE_Q_HEAD: return query_factor(p, f);
  case ROLE_K_HEAD: return power(p, f->gamma, f->rest);
  case ROLE_K_GROUP: return o->gqa == QK_CLIP_Q_ONLY ? NULL : power(p, f->lowest, f->rest);
  case ROLE_Q_ROPE: return o->mla == QK_CLIP_EXACT ? f->gamma : power(p, f->gamma, f->alpha);
  default: return shared_rope_factor(p, f);
  }
}

/* The factor of the heads' logits. For a head that is not finite it is that of its group's key. */
void qk_clip_logit_scale(struct program *p, const struct qk_clip_factors *f, struct tensor *to)
{
  const struct qk_clip *o = f->options;
  if (f->group && o->gqa == QK_CLIP_COMPENSATED) { /* exactly gamma: 1 is not a clip */
    struct tensor *key = power(p, f->lowest, f->rest), *unless_finite = copy(p, key);
    PROGRAM_CALL(p, one_unless_finite, .y = unless_finite, .x = f->logit);
    PROGRAM_CALL(p, divide, .y = key, .x = unless_finite);
    PROGRAM_CALL(p, copy, .y = to, .x = product(p, key, f->gamma));
    return;
  }
  if (f->group && o->gqa != QK_CLIP_Q_ONLY) {
    PROGRAM_CALL(p, copy, .y = to, .x = product(p, query_factor(p, f), power(p, f->lowest, f->rest)));
    return;
  }
  PROGRAM_CALL(p, copy, .y = to, .x = f->gamma);
  PROGRAM_CALL(p, one_unless_finite, .y = to, .x = f->logit);
}

/* --- the weights to scale ----------------------------------------------------------------------------------- */

/* Rows of one role, each once, and the head that determines their factor. */
static int rows_of(const struct model *m, enum role role, struct logit_block *out, int *head)
{
  struct logit_block f[MAX_LOGIT_BLOCKS];
  int heads = (int)m->options.heads, count = 0;
  for (int l = 0; l < model_blocks(&m->options); l++)
    for (int h = 0; h < heads; h++)
      for (int i = 0, n = m->attention->logit_blocks(m, l, h, f); i < n; i++)
        if (f[i].role == role && first_with(m, l, &f[i]) == h) {
          out[count] = f[i];
          head[count++] = l * heads + h;
        }
  return count;
}

void qk_clip_record(struct stabilizer_context *c, struct program *p, const struct qk_clip *o,
                    struct tensor *logit)
{
  const int heads = (int)c->model->options.heads;
  size_t most = (size_t)(model_blocks(&c->model->options) * heads);
  int *group = program_memory(p, (size_t)heads, sizeof *group);
  for (int h = 0; h < heads; h++) group[h] = group_of(c->model, h);
  struct qk_clip_factors f = qk_clip_factors(p, c->numbers, o, logit, heads, group[0] < 0 ? NULL : group);
  for (enum role role = ROLE_Q_HEAD; role <= ROLE_K_ROPE_SHARED; role++) {
    struct logit_block *rows_clipped = program_memory(p, most, sizeof *rows_clipped);
    int *head = program_memory(p, most, sizeof *head), count = rows_of(c->model, role, rows_clipped, head);
    struct tensor *by_head = count ? qk_clip_factor(p, &f, role) : NULL;
    if (!by_head) continue;
    struct tensor *scale = program_temporary(p, 1, count, "clip factors");
    PROGRAM_CALL(p, gather, .y = scale, .x = by_head, .index = program_ints(p, 1, count, head, "heads"));
    clip_record(c, p, rows_clipped, count, scale, o->momentum == SCALE);
  }
  qk_clip_logit_scale(p, &f, c->series[0]);
}

static void clip(struct stabilizer_context *c, struct program *p)
{
  const struct qk_clip *o = c->options;
  qk_clip_record(c, p, o, o->maximum == SIGNED ? c->max_logit : c->max_abs_logit);
}

static void before_update(struct stabilizer_context *c, struct program *p)
{
  if (((const struct qk_clip *)c->options)->when == BEFORE) clip(c, p);
}

static void after_step(struct stabilizer_context *c, struct program *p)
{
  if (((const struct qk_clip *)c->options)->when == AFTER) clip(c, p);
}

const struct stabilizer stabilizer_qk_clip = {
  .name = "qk_clip",
  .help = "rescale the query and key weights of heads whose max logit exceeded tau (QK-Clip)",
  .options = rows,
  .options_size = sizeof(struct qk_clip),
  .emits = emits,
  .init = init,
  .before_update = before_update,
  .after_step = after_step,
  .flags = STABILIZER_SCALES_QK,
};
