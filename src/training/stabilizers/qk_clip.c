/* qk_clip.c - rescale the weights of attention logits that passed tau (Kimi K2, arXiv 2507.20534 Alg. 1)
   After the optimiser's step, with S the max logit of the step's forward pass: where S > tau,
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
   momentum       keep: the optimiser's states stay (all known code); scale: its first moments of the rows
                  that are clipped shrink with them. Second moments stay.
   statistic      S is of the step's training batch (K2), or of the probe batch, the same in every step and
                  run, with the weights before the update: one more forward pass a step */
#include <math.h>
#include "base/memory.h"
#include "training/clip.h"

enum { SCOPE_HEAD, SCOPE_LAYER };
static const char *const scopes[] = {"head", "layer", NULL};
enum gqa_rule { GROUP_MAX, OWN_Q_MIN_K, Q_ONLY, COMPENSATED };
static const char *const gqa_rules[] = {"group_max", "own_q_min_k", "q_only", "compensated", NULL};

enum mla_rule { EXACT, KR_LAYER, KR_HEAD };
static const char *const mla_rules[] = {"exact", "kr_layer", "kr_head", NULL};

enum { SIGNED, ABSOLUTE };
static const char *const maxima[] = {"signed", "absolute", NULL};

enum { AFTER, BEFORE };
static const char *const times[] = {"after", "before", NULL};

enum { KEEP, SCALE };
static const char *const momenta[] = {"keep", "scale", NULL};

enum { BATCH, PROBE };
static const char *const statistics[] = {"batch", "probe", NULL};

struct qk_clip {
  double tau, alpha;
  long maximum, scope, gqa, mla, when, momentum, statistic;
};

static const struct option_row rows[] = {
  REAL_ROW(struct qk_clip, tau, "100", 1e-6, 1e30, "nat", "clip where the step's max logit is above this", 0),
  REAL_ROW(struct qk_clip, alpha, "0.5", 0, 1, "1", "exponent of w_q's share; w_k takes the rest", 0),
  CHOICE_ROW(struct qk_clip, maximum, "signed", maxima, "of the logits, or of their absolute values", 0),
  CHOICE_ROW(struct qk_clip, scope, "head", scopes, "one factor a head, or one a layer", 0),
  CHOICE_ROW(struct qk_clip, gqa, "q_only", gqa_rules, "who takes the factor where heads share a key", 0),
  CHOICE_ROW(struct qk_clip, mla, "exact", mla_rules, "what becomes of a rotary key that all heads share", 0),
  CHOICE_ROW(struct qk_clip, when, "after", times, "clip after the optimiser's update, or before", 0),
  CHOICE_ROW(struct qk_clip, momentum, "keep", momenta,
             "the optimiser's momentum of clipped rows: as it is, or scaled with them", 0),
  CHOICE_ROW(struct qk_clip, statistic, "batch", statistics,
             "max logits of the step's batch, or of the fixed probe batch", 0),
  END_ROW};

static const struct series emits[] = {
  {"qk_clip/gamma", PER_HEAD, AXIS_STEP, "1", "QK-Clip factor",
   "factor by which QK-Clip scaled the head's logits (under a naive mla rule: their content part) in this "
   "step; 1 where it did not"},
  {0}};

struct head {
  int count;
  struct factor factor[MAX_FACTORS];
  int shares[MAX_FACTORS]; /* first head of the layer with the same rows */
  int group;               /* first head with the same key, where keys are shared by groups; else -1 */
  double gamma, lowest;    /* own factor; the smallest of the group */
  double lowest_of_layer;
  int finite;
};
struct qk_clip_state {
  struct head *head; /* [layers*heads] */
};

static struct head *heads_of(const struct stabilizer_context *c, int layer)
{
  return ((struct qk_clip_state *)c->state)->head + (long)layer * c->model->options.heads;
}

static int first_with(const struct head *head, const struct factor *f)
{
  for (int h = 0;; h++)
    for (int i = 0; i < head[h].count; i++)
      if (head[h].factor[i].weight == f->weight && head[h].factor[i].row == f->row) return h;
}

static int init(struct stabilizer_context *c, struct error *e)
{
  (void)e;
  struct model *m = c->model;
  long layers = m->options.layers, heads = m->options.heads;
  struct qk_clip_state *state = c->state;
  c->wants_probe = ((const struct qk_clip *)c->options)->statistic == PROBE;
  state->head = arena_get(m->params.arena, (size_t)(layers * heads), sizeof *state->head);
  for (int l = 0; l < layers; l++)
    for (int h = 0; h < heads; h++) {
      struct head *layer = heads_of(c, l), *own = layer + h;
      own->count = m->attention->factors(m, l, h, own->factor);
      own->group = -1;
      for (int i = 0; i < own->count; i++) {
        own->shares[i] = first_with(layer, &own->factor[i]);
        if (own->factor[i].role == ROLE_K_GROUP) own->group = own->shares[i];
      }
    }
  return STATUS_OK;
}

/* gamma and lowest of every head of a layer. */
static void measure(struct stabilizer_context *c, int layer, struct head *head)
{
  const struct qk_clip *o = c->options;
  const real *maximum = o->maximum == SIGNED ? c->max_logit : c->max_abs_logit;
  int heads = (int)c->model->options.heads, finite = 1;
  double layer_gamma = 1; /* the smallest */
  for (int h = 0; h < heads; h++) {
    double logit = (double)maximum[(long)layer * heads + h];
    head[h].finite = isfinite(logit);
    head[h].gamma = clip_gamma(c, layer, h, logit, o->tau);
    layer_gamma = fmin(layer_gamma, head[h].gamma);
    finite &= head[h].finite;
  }
  if (o->scope == SCOPE_LAYER) {
    if (!finite) layer_gamma = 1;
    for (int h = 0; h < heads; h++) head[h].gamma = layer_gamma;
  }
  for (int h = 0; h < heads; h++) {
    head[h].lowest = head[h].gamma;
    head[h].lowest_of_layer = layer_gamma;
    for (int i = 0; i < heads; i++)
      if (head[h].group >= 0 && head[i].group == head[h].group)
        head[h].lowest = fmin(head[h].lowest, head[i].gamma);
  }
}

/* What a head's own query rows take. */
static double query_factor(const struct qk_clip *o, const struct head *head)
{
  if (head->group < 0) return pow(head->gamma, o->alpha);
  switch ((enum gqa_rule)o->gqa) {
  case GROUP_MAX: return pow(head->lowest, o->alpha);
  case OWN_Q_MIN_K: return pow(head->gamma, o->alpha);
  case Q_ONLY: return head->gamma;
  default: return head->gamma * pow(head->lowest, o->alpha - 1);
  }
}

/* What the shared rotary key takes: once a layer, or from every head. */
static double shared_rope_factor(const struct qk_clip *o, const struct head *head)
{
  switch ((enum mla_rule)o->mla) {
  case KR_LAYER: return pow(head->lowest_of_layer, 1 - o->alpha);
  case KR_HEAD: return pow(head->gamma, 1 - o->alpha);
  default: return 1;
  }
}

static double weight_factor(const struct qk_clip *o, const struct head *head, enum role role)
{
  switch (role) {
  case ROLE_Q_HEAD: return head->finite ? query_factor(o, head) : 1;
  case ROLE_K_HEAD: return pow(head->gamma, 1 - o->alpha);
  case ROLE_K_GROUP: return o->gqa == Q_ONLY ? 1 : pow(head->lowest, 1 - o->alpha);
  case ROLE_Q_ROPE: return o->mla == EXACT ? head->gamma : pow(head->gamma, o->alpha);
  default: return shared_rope_factor(o, head);
  }
}

/* What becomes of the head's logits. */
static double logit_factor(const struct qk_clip *o, const struct head *head)
{
  if (!head->finite) return head->group >= 0 ? weight_factor(o, head, ROLE_K_GROUP) : 1;
  if (head->group >= 0 && o->gqa == GROUP_MAX) return head->lowest;
  if (head->group >= 0 && o->gqa == OWN_Q_MIN_K)
    return pow(head->gamma, o->alpha) * pow(head->lowest, 1 - o->alpha);
  return head->gamma;
}

static void clip_head(struct stabilizer_context *c, const struct head *head, int h)
{
  const struct qk_clip *o = c->options;
  for (int i = 0; i < head->count; i++) {
    enum role role = head->factor[i].role;
    double factor = weight_factor(o, head, role);
    int by_every_head = role == ROLE_K_ROPE_SHARED && o->mla == KR_HEAD;
    if (head->shares[i] == h || by_every_head)
      clip_weights(c, &head->factor[i], factor, o->momentum == SCALE);
  }
}

static void clip(struct stabilizer_context *c)
{
  long heads = c->model->options.heads;
  for (int l = 0; l < c->model->options.layers; l++) {
    struct head *head = heads_of(c, l);
    measure(c, l, head);
    for (int h = 0; h < heads; h++) {
      double factor = logit_factor(c->options, &head[h]);
      clip_head(c, &head[h], h);
      c->series[0][l * heads + h] = (real)factor;
      clip_note(c, l, h, factor);
    }
  }
}

static void before_update(struct stabilizer_context *c)
{
  if (((const struct qk_clip *)c->options)->when == BEFORE) clip(c);
}

static void after_step(struct stabilizer_context *c)
{
  if (((const struct qk_clip *)c->options)->when == AFTER) clip(c);
}

const struct stabilizer stabilizer_qk_clip = {
  .name = "qk_clip",
  .help = "rescale the query and key weights of heads whose max logit passed tau",
  .options = rows,
  .options_size = sizeof(struct qk_clip),
  .state_size = sizeof(struct qk_clip_state),
  .emits = emits,
  .init = init,
  .before_update = before_update,
  .after_step = after_step,
  .flags = STABILIZER_SCALES_QK,
};
