/* check_model.c - the whole model: gradients, identities, names, messages; in float and in double */
#include <stdio.h>
#include "model_fixture.h"

#define SMALL "layers=2 width=12 heads=4 head_dim=4 context=7 ffn_width=16 vocab=11 "

static struct fixture *small_on(const char *device, int threads, const char *attention, const char *more,
                                const char *stack, struct error *e)
{
  char settings[512];
  snprintf(settings, sizeof settings, SMALL "attention=%s %s%s", attention, fixture_wants(attention), more);
  return fixture_on(device, threads, settings, stack, NULL, e);
}

static struct fixture *small(const char *attention, const char *more, const char *stack, struct error *e)
{
  return small_on("reference", 1, attention, more, stack, e);
}

static struct fixture *small_or_fail(const char *attention, const char *more, const char *stack)
{
  struct error e = {0};
  struct fixture *f = small(attention, more, stack, &e);
  ck_assert_msg(f != NULL, "%s", e.text);
  return f;
}

static void same_bits(const struct tensor *a, const struct tensor *b, long rows)
{
  ck_assert_int_eq(a->cols, b->cols);
  ck_assert(!memcmp(a->data, b->data, (size_t)(rows * a->cols) * sizeof(real)));
}

/* --- gradients ------------------------------------------------------------------------------------------ */

#ifdef MAXLOGIT_DOUBLE
static double norm_of(const struct tensor *t)
{
  double sum = 0;
  for (long i = 0; i < t->rows * t->cols; i++) sum += REALS(t)[i] * REALS(t)[i];
  return sqrt(sum);
}

static double loss_moved(const struct fixture *f, struct model_program *mp, struct param *p,
                         const double *start, const double *way, double h)
{
  for (long i = 0; i < p->value.rows * p->value.cols; i++) REALS(&p->value)[i] = start[i] + h * way[i];
  return fixture_loss(f, mp);
}

/* The derivative along a random direction of one tensor against a five-point difference of step h, whose
   rounding is a few eps * loss / h. The step is so small that, for these numbers, no score moves across the
   kink of the hard cap, nor across the step of softpick: its weight of a single key goes from 0 to 1 at the score
   0. */
static void check_direction(const struct fixture *f, struct model_program *mp, struct param *p,
                            const char *what)
{
  long size = p->value.rows * p->value.cols;
  double *start = memory_new((size_t)size, sizeof *start), *way = memory_new((size_t)size, sizeof *way);
  double along = 0, h = 1e-7;
  memcpy(start, p->value.data, (size_t)size * sizeof *start);
  for (long i = 0; i < size; i++) {
    way[i] = draw_normal((struct draw){7, STREAM_TEST, (uint64_t)size}, (uint64_t)i);
    along += way[i] * REALS(&p->grad)[i];
  }
  double near = loss_moved(f, mp, p, start, way, h) - loss_moved(f, mp, p, start, way, -h);
  double far = loss_moved(f, mp, p, start, way, 2 * h) - loss_moved(f, mp, p, start, way, -2 * h);
  double difference = (8 * near - far) / (12 * h), size_of_it = fmax(fabs(along), norm_of(&p->grad));
  double rounding = 4 * REAL_EPS * fabs(loss_moved(f, mp, p, start, way, 0)) / h;
  ck_assert_msg(fabs(along - difference) <= 1e-7 * size_of_it + rounding,
                "%s: %s: %.12g, by differences %.12g", what, p->name, along, difference);
  /* RMSNorm follows upon the latents of mla: a scalar before it has no effect */
  int normed = strstr(p->name, "w_dq.sigma_gain") || strstr(p->name, "w_dkv.sigma_gain");
  ck_assert_msg(normed || size_of_it > 1e-4, "%s: %s: no gradient", what, p->name);
  memcpy(p->value.data, start, (size_t)size * sizeof *start);
  memory_free(start);
  memory_free(way);
}

static void check_gradients(struct fixture *f, const char *what)
{
  fixture_shake(f, 0.2);
  struct model_program train = fixture_program(f, 2, 7, 1), mp = fixture_program(f, 2, 7, 0);
  fixture_pack(f, &train, 3);
  fixture_pack(f, &mp, 3);
  fixture_loss(f, &train);
  for (int i = 0; i < f->model.params.count; i++)
    if (f->model.params.list[i]->kind != PARAM_STATE) check_direction(f, &mp, f->model.params.list[i], what);
  model_program_free(&train);
  model_program_free(&mp);
}

/* Every stabilizer at its defaults, caps where the scores are, and what options change in the graph. */
static const char *const more_stacks[] = {"soft_cap cap=0.7",
                                          "hard_cap cap=0.4",
                                          "qk_norm kind=rms_full",
                                          "qk_norm kind=l2",
                                          "qk_norm;soft_cap cap=0.5",
                                          "ssmax;k_norm",
                                          NULL};

static void check_stack(const char *attention, const char *stack, int *checked)
{
  static const char *const variant[] = {"", "bias=1 z_loss=0.1", "tied=1 init=fixed init_std=0.3",
                                        "q_rank=0 z_loss=0.1"};
  for (int i = 0; i < 4; i++) {
    char what[128];
    struct error e = {0};
    snprintf(what, sizeof what, "%s, %s, %s", attention, stack, variant[i]);
    struct fixture *f = small(attention, variant[i], stack, &e);
    if (!f) {
      ck_assert_msg(strlen(e.text) > 20, "%s: refused without a reason", what);
      continue;
    }
    check_gradients(f, what);
    fixture_close(f);
    ++*checked;
  }
}

/* Masks. Experts: scores, groups, one choice, shared and dense blocks, the loss of balance. Modules that look ahead. */
static const char *const experts[] = {
  "ffn=moe moe.experts=6",
  "ffn=moe moe.experts=6 moe.score=softmax moe.shared=0 moe.route_scale=2.5 moe.balance=none",
  ("ffn=moe moe.experts=8 moe.active=4 moe.groups=4 moe.groups_kept=2 moe.balance=both moe.aux=0.3 "
   "moe.shared=2"),
  "ffn=moe moe.experts=4 moe.active=1 moe.hidden=5 moe.score=softmax moe.balance=aux moe.aux=0.2 z_loss=0.1",
  "ffn=moe moe.experts=4 moe.active=1 moe.hidden=5 moe.dense_layers=1 init=fixed init_std=0.3",
  "ffn=moe moe.experts=3 moe.active=3 moe.shared=0",
  "ffn=moe moe.experts=3 moe.hidden=1 moe.shared=1",
  "ffn_width=1", /* matrices of one row */
  "mask=full",
  "mask=window window=2 window_every=2",
  "mask=window window=3 mtp=1",
  "mask=prefix prefix=3 mtp=1",
  "mtp=1 z_loss=0.1",
  "mtp=2 mtp_weight=0.8 tied=1",
  "norm_gain=scalar mtp=1",
  "norm_gain=none mtp=1",
  "norm_gain=zero_centered mtp=1",
  "mtp=3 mtp_weight=2 ffn=moe moe.experts=4 moe.dense_layers=2 moe.balance=aux moe.aux=0.3",
};
enum { EXPERTS = sizeof experts / sizeof *experts };

START_TEST(gradients_of_experts)
{
  static const char *const stacks[] = {"none", "sigma_reparam", "qk_norm;soft_cap cap=0.5"};
  for (int s = 0; s < 3; s++) {
    struct fixture *f = small_or_fail(s == 1 ? "mla" : "mha", experts[_i], stacks[s]);
    check_gradients(f, experts[_i]);
    fixture_close(f);
  }
}
END_TEST

START_TEST(gradients)
{
  const char *attention = attentions[_i]->name;
  int checked = 0;
  for (const struct stabilizer *const *s = stabilizers; *s; s++) check_stack(attention, (*s)->name, &checked);
  for (const char *const *s = more_stacks; *s; s++) check_stack(attention, *s, &checked);
  ck_assert_int_ge(checked, 12);
}
END_TEST
#endif

/* --- shapes, names, numbers of parameters --------------------------------------------------------------- */

START_TEST(default_stack)
{
  static const char *const name[] = {"embed",
                                     "norm",
                                     "head",
                                     "blocks.0.attn.norm",
                                     "blocks.0.attn.w_q",
                                     "blocks.0.attn.w_k",
                                     "blocks.0.attn.w_v",
                                     "blocks.0.attn.w_o",
                                     "blocks.0.ffn.norm",
                                     "blocks.0.ffn.w_gate",
                                     "blocks.0.ffn.w_up",
                                     "blocks.0.ffn.w_down",
                                     "blocks.1.attn.norm"};
  struct fixture *f = fixture_open("vocab=65", "none", NULL);
  const struct params *p = &f->model.params;
  ck_assert_int_eq(p->count, 3 + 2 * 9);
  long total = 0;
  for (int i = 0; i < p->count; i++) total += p->list[i]->value.rows * p->list[i]->value.cols;
  for (int i = 0; i < 13; i++) ck_assert_str_eq(p->list[i]->name, name[i]);
  /* D=64, F=176 (8/3 D to a multiple of 16), V=65 */
  ck_assert_int_eq(f->model.options.ffn_width, 176);
  ck_assert_int_eq(total, 2 * 65 * 64 + 64 + 2 * (2 * 64 + 4 * 64 * 64 + 3 * 176 * 64));
  ck_assert_int_eq(model_param(&f->model, 0, "attn.w_k")->head_rows, 16);
  ck_assert_int_eq(model_param(&f->model, 0, "attn.w_o")->head_rows, 0);
  fixture_close(f);
}
END_TEST

START_TEST(shapes_of_options)
{
  struct fixture *f = small_or_fail("gqa", "bias=1 tied=1", "none");
  static const struct {
    const char *name;
    long rows, cols;
  } wanted[] = {{"attn.w_q", 16, 12}, {"attn.w_k", 8, 12}, {"attn.w_v", 8, 12}, {"attn.w_o", 12, 16},
                {"attn.b_q", 1, 16},  {"attn.b_k", 1, 8},  {"attn.b_v", 1, 8},  {"attn.b_o", 1, 12}};
  for (int i = 0; i < 8; i++) {
    const struct tensor *t = &model_param(&f->model, 1, wanted[i].name)->value;
    ck_assert_int_eq(t->rows, wanted[i].rows);
    ck_assert_int_eq(t->cols, wanted[i].cols);
  }
  ck_assert_ptr_null(params_find(&f->model.params, "head"));
  fixture_close(f);
}
END_TEST

START_TEST(shapes_of_mla)
{
  static const struct {
    const char *name;
    long rows, cols, head_rows;
  } wanted[] = {{"attn.w_dq", 10, 12, 0}, {"attn.q_norm", 1, 10, 0}, {"attn.w_qc", 16, 10, 4},
                {"attn.w_qr", 16, 10, 4}, {"attn.w_dkv", 8, 12, 0},  {"attn.kv_norm", 1, 8, 0},
                {"attn.w_kc", 16, 8, 4},  {"attn.w_kr", 4, 12, 0},   {"attn.w_v", 24, 8, 6},
                {"attn.w_o", 12, 24, 0}};
  struct fixture *f = small_or_fail("mla", "", "none"), *direct = small_or_fail("mla", "q_rank=0", "none");
  for (int i = 0; i < 10; i++) {
    const struct param *p = model_param(&f->model, 1, wanted[i].name);
    ck_assert_int_eq(p->value.rows, wanted[i].rows);
    ck_assert_int_eq(p->value.cols, wanted[i].cols);
    ck_assert_int_eq(p->head_rows, wanted[i].head_rows);
  }
  ck_assert_ptr_null(params_find(&direct->model.params, "blocks.0.attn.w_dq"));
  ck_assert_int_eq(model_param(&direct->model, 0, "attn.w_qr")->value.cols, 12);
  fixture_close(f);
  fixture_close(direct);
}
END_TEST

/* What is not given follows from the rest, and is always possible. */
START_TEST(defaults_of_mla)
{
  static const long wanted[][4] = {/* head_dim, then kv_rank, rope_dim, value_dim */
                                   {16, 64, 8, 16},
                                   {6, 24, 2, 6},
                                   {4, 16, 2, 4},
                                   {3, 12, 2, 3},
                                   {10, 40, 4, 10}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    struct model_options o = fixture_options("attention=mla heads=4 vocab=11");
    struct error e = {0};
    o.head_dim = wanted[i][0];
    ck_assert_msg(model_resolve(&o, 5, &e) == STATUS_OK, "%s", e.text);
    ck_assert(o.kv_rank == wanted[i][1] && o.rope_dim == wanted[i][2] && o.value_dim == wanted[i][3]);
    ck_assert(o.kv_heads == 4 && o.q_rank == 0);
  }
}
END_TEST

/* The linear factors of a head's logits: which rows of which tensors, in which role, behind which norm. */
START_TEST(factors_of_heads)
{
  static const struct {
    const char *attention, *more;
    struct {
      enum role role;
      const char *weight, *norm;
      long step, rows; /* rows of head h begin at step h; step -1: two heads share them */
    } want[MAX_LOGIT_BLOCKS];
  } known[] = {
    {"mha", "", {{ROLE_Q_HEAD, "attn.w_q", "attn.norm", 4, 4}, {ROLE_K_HEAD, "attn.w_k", "attn.norm", 4, 4}}},
    {"gqa",
     "",
     {{ROLE_Q_HEAD, "attn.w_q", "attn.norm", 4, 4}, {ROLE_K_GROUP, "attn.w_k", "attn.norm", -1, 4}}},
    {"mla",
     "head_dim=6",
     {{ROLE_Q_HEAD, "attn.w_qc", "attn.q_norm", 6, 6},
      {ROLE_K_HEAD, "attn.w_kc", "attn.kv_norm", 6, 6},
      {ROLE_Q_ROPE, "attn.w_qr", "attn.q_norm", 4, 4},
      {ROLE_K_ROPE_SHARED, "attn.w_kr", "attn.norm", 0, 4}}},
    {"mla",
     "q_rank=0",
     {{ROLE_Q_HEAD, "attn.w_qc", "attn.norm", 4, 4},
      {ROLE_K_HEAD, "attn.w_kc", "attn.kv_norm", 4, 4},
      {ROLE_Q_ROPE, "attn.w_qr", "attn.norm", 4, 4},
      {ROLE_K_ROPE_SHARED, "attn.w_kr", "attn.norm", 0, 4}}},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct fixture *f = small_or_fail(known[i].attention, known[i].more, "none");
    for (int h = 0; h < 4; h++) {
      struct logit_block found[MAX_LOGIT_BLOCKS];
      int count = f->model.attention->logit_blocks(&f->model, 1, h, found), wanted = 0;
      while (wanted < MAX_LOGIT_BLOCKS && known[i].want[wanted].weight) wanted++;
      ck_assert_int_eq(count, wanted);
      for (int k = 0; k < count; k++) {
        long step = known[i].want[k].step, row = step < 0 ? h / 2 * 4 : h * step;
        ck_assert_int_eq(found[k].role, known[i].want[k].role);
        ck_assert_ptr_eq(found[k].weight, model_param(&f->model, 1, known[i].want[k].weight));
        ck_assert_ptr_eq(found[k].gain, model_param(&f->model, 1, known[i].want[k].norm));
        ck_assert_int_eq(found[k].row, row);
        ck_assert_int_eq(found[k].rows, known[i].want[k].rows);
      }
    }
    fixture_close(f);
  }
}
END_TEST

/* A span is its members, value and gradient. */
START_TEST(spans)
{
  struct fixture *f = small_or_fail("gqa", "bias=1", "none");
  struct param *q = model_param(&f->model, 0, "attn.w_q"), *b = model_param(&f->model, 0, "attn.b_q");
  struct tensor *w = params_span(&f->model.params, q, 3), *bias = params_span(&f->model.params, b, 3);
  ck_assert_int_eq(w->rows, 32);
  ck_assert_int_eq(bias->cols, 32);
  ck_assert_int_eq(bias->rows, 1);
  const struct param *v = model_param(&f->model, 0, "attn.w_v"), *b_v = model_param(&f->model, 0, "attn.b_v");
  ck_assert_ptr_eq(REALS(w) + 24 * 12, v->value.data);
  ck_assert_ptr_eq(REALS(w->grad) + 24 * 12, v->grad.data);
  ck_assert_ptr_eq(REALS(bias) + 24, b_v->value.data);
  ck_assert_ptr_eq(REALS(bias->grad) + 24, b_v->grad.data);
  fixture_close(f);
}
END_TEST

/* --- initialisation ------------------------------------------------------------------------------------- */

static double variance(const struct param *p)
{
  double sum = 0;
  long size = p->value.rows * p->value.cols;
  for (long i = 0; i < size; i++) sum += (double)REALS(&p->value)[i] * (double)REALS(&p->value)[i];
  return sum / (double)size;
}

/* The mean of n squares of N(0, v) is v (1 +- sqrt(2/n)); five of those. */
static void check_variance(const struct fixture *f, const char *name, double wanted)
{
  const struct param *p = params_find(&f->model.params, name);
  double n = (double)(p->value.rows * p->value.cols);
  ck_assert_msg(fabs(variance(p) / wanted - 1) <= 5 * sqrt(2 / n), "%s: %g, not %g", name, variance(p),
                wanted);
}

START_TEST(initial_values)
{
  struct fixture *f = fixture_open("vocab=65", "none", NULL);
  check_variance(f, "embed", 1);
  check_variance(f, "head", 1.0 / 64);
  check_variance(f, "blocks.1.attn.w_k", 1.0 / 64);
  check_variance(f, "blocks.0.ffn.w_down", 1.0 / 176);
  ck_assert(REALS(&params_find(&f->model.params, "norm")->value)[63] == 1);
  fixture_close(f);
  f = fixture_open("vocab=65 init=fixed init_std=0.05", "none", NULL);
  check_variance(f, "embed", 0.0025);
  check_variance(f, "head", 0.0025);
  check_variance(f, "blocks.0.ffn.w_down", 0.0025);
  fixture_close(f);
  f = fixture_open("vocab=65 tied=1", "none", NULL);
  check_variance(f, "embed", 1.0 / 64);
  fixture_close(f);
}
END_TEST

/* No two matrices are drawn alike: every pair of numbers in the same place differs. */
START_TEST(draws_differ)
{
  struct fixture *f = fixture_open("vocab=64 ffn_width=64", "none", NULL);
  const struct params *all = &f->model.params;
  for (int i = 0; i < all->count; i++)
    for (int j = 0; j < i; j++) {
      const struct tensor *a = &all->list[i]->value, *b = &all->list[j]->value;
      long same = 0, size = a->rows * a->cols;
      if (a->rows == 1 || size != b->rows * b->cols) continue;
      for (long k = 0; k < size; k++) same += REALS(a)[k] == REALS(b)[k];
      ck_assert_msg(same < size / 1000, "%s and %s", all->list[i]->name, all->list[j]->name);
    }
  fixture_close(f);
}
END_TEST

/* Biases and a stabilizer's gains change no other tensor's draw. */
START_TEST(draws_stay)
{
  struct fixture *plain = small_or_fail("mha", "", "none"), *more = small_or_fail("mha", "bias=1", "qk_norm");
  for (int i = 0; i < plain->model.params.count; i++) {
    const struct param *p = plain->model.params.list[i];
    same_bits(&p->value, &params_find(&more->model.params, p->name)->value, p->value.rows);
  }
  fixture_close(plain);
  fixture_close(more);
}
END_TEST

/* Logits of variance s^2 give ln V + s^2/2: 1 by fan-in; D init_std^2 fixed. */
/* What modules predict is beside the main head: its logits have the same bits with and without them. */
START_TEST(modules_leave_the_main_head_alone)
{
  struct fixture *f = small_or_fail("mha", "", "none"), *g = small_or_fail("mha", "mtp=2", "none");
  struct model_program a = fixture_program(f, 2, 7, 0), b = fixture_program(g, 2, 7, 0);
  ck_assert_double_lt(fixture_loss(f, &a), fixture_loss(g, &b));
  same_bits(a.logits, b.logits, 14);
  ck_assert_int_eq(b.all_stats->rows, 2 * a.all_stats->rows);
  same_bits(a.all_stats, b.all_stats, a.all_stats->rows);
  model_program_free(&a), model_program_free(&b);
  fixture_close(f), fixture_close(g);
}
END_TEST

START_TEST(loss_at_the_start)
{
  static const struct {
    const char *settings;
    double spread;
  } cases[] = {{"vocab=65", 1}, {"vocab=65 tied=1", 1}, {"vocab=65 init=fixed", 64 * 0.0004}};
  for (int i = 0; i < 3; i++) {
    struct fixture *f = fixture_open(cases[i].settings, "none", NULL);
    struct model_program mp = fixture_program(f, 4, 64, 0);
    double n = 256, wanted = log(65) + cases[i].spread / 2;
    ck_assert_double_eq_tol(fixture_loss(f, &mp), wanted, 5 * sqrt(cases[i].spread / n) + 0.05);
    model_program_free(&mp);
    fixture_close(f);
  }
}
END_TEST

/* The z term is z_loss times the weighted mean of (log Z)^2, apart from the cross-entropy. */
START_TEST(z_loss_stands_apart)
{
  struct fixture *f = small_or_fail("mha", "z_loss=0.25", "none"), *plain = small_or_fail("mha", "", "none");
  struct model_program mp = fixture_program(f, 2, 7, 0), without = fixture_program(plain, 2, 7, 0);
  double squares = 0;
  program_run(mp.program);
  program_run(without.program);
  for (int i = 0; i < 14; i++) { /* log Z: a token's loss and its logit */
    const double logit = (double)REALS(mp.logits)[i * mp.logits->ld + INTS(mp.targets)[i]];
    squares += pow((double)REALS(mp.token_loss)[i] + logit, 2) / 14;
  }
  ck_assert_double_eq_tol((double)REALS(mp.loss)[1], 0.25 * squares, 14 * REAL_EPS * squares);
  ck_assert(REALS(mp.loss)[0] == REALS(without.loss)[0]);
  ck_assert(REALS(without.loss)[1] == 0);
  model_program_free(&mp);
  model_program_free(&without);
  fixture_close(f);
  fixture_close(plain);
}
END_TEST

/* --- identities ----------------------------------------------------------------------------------------- */

START_TEST(gqa_with_every_head_is_mha)
{
  struct fixture *f[2] = {small_or_fail("mha", "bias=1", "none"), NULL};
  struct error e = {0};
  f[1] = fixture_try(SMALL "bias=1 attention=gqa kv_heads=4", "none", NULL, &e);
  struct model_program mp[2];
  for (int i = 0; i < 2; i++) {
    fixture_shake(f[i], 0.2);
    mp[i] = fixture_program(f[i], 2, 7, 1);
    program_run(mp[i].program);
  }
  same_bits(mp[0].loss, mp[1].loss, 1);
  same_bits(mp[0].stats[1], mp[1].stats[1], 4);
  same_bits(&f[0]->model.params.grads, &f[1]->model.params.grads, 1);
  for (int i = 0; i < 2; i++) {
    model_program_free(&mp[i]);
    fixture_close(f[i]);
  }
}
END_TEST

static void same_losses(const struct model_program *a, const struct model_program *b)
{
  same_bits(a->loss, b->loss, 1);
  same_bits(a->all_stats, b->all_stats, a->all_stats->rows);
  same_bits(a->ahead[0].loss, b->ahead[0].loss, 1);
}

static double sum_of(const struct tensor *t)
{
  double sum = 0;
  for (long i = 0; i < t->cols; i++) sum += (double)REALS(t)[i];
  return sum;
}

/* At the start all gains are 1. Later zero_centered is 1 + w, and scalar a vector of equal gains; powers of two
   multiply without rounding. The gradient of a scalar is the sum of those of the vector. */
START_TEST(gains_of_norms)
{
  static const char *const kinds[] = {"vector", "scalar", "none", "zero_centered"};
  struct fixture *f[4];
  struct model_program mp[4];
  for (int i = 0; i < 4; i++) {
    char settings[64];
    snprintf(settings, sizeof settings, "mtp=1 norm_gain=%s", kinds[i]);
    f[i] = small_or_fail(attentions[_i]->name, settings, "none");
    mp[i] = fixture_program(f[i], 2, 7, 1);
    program_run(mp[i].program);
    same_losses(&mp[0], &mp[i]);
  }
  ck_assert_ptr_null(params_find(&f[2]->model.params, "norm"));
  for (int n = 0; n < f[0]->model.params.count; n++) {
    struct param *gain = f[0]->model.params.list[n], *one, *w;
    const double power[] = {0.5, 2, 4}, value = power[n % 3];
    one = params_find(&f[1]->model.params, gain->name), w = params_find(&f[3]->model.params, gain->name);
    if (gain->kind != PARAM_GAIN) {
      same_bits(&gain->grad, &w->grad, gain->grad.rows);
      continue;
    }
    ck_assert(one->value.cols == 1 && w->value.cols == gain->value.cols && REALS(&w->value)[0] == 0);
    same_bits(&gain->grad, &w->grad, 1);
    for (long i = 0; i < gain->value.cols; i++) {
      REALS(&gain->value)[i] = (real)value;
      REALS(&w->value)[i] = (real)(value - 1);
    }
    REALS(&one->value)[0] = (real)value;
  }
  for (int i = 0; i < 4; i++) program_run(mp[i].program);
  same_losses(&mp[0], &mp[1]);
  same_losses(&mp[0], &mp[3]);
  ck_assert(REALS(mp[2].loss)[0] != REALS(mp[0].loss)[0]);
  for (int n = 0; n < f[1]->model.params.count; n++) {
    struct param *one = f[1]->model.params.list[n], *gain = params_find(&f[0]->model.params, one->name);
    double size = 0;
    for (long i = 0; i < gain->grad.cols; i++) size += fabs((double)REALS(&gain->grad)[i]);
    if (one->kind == PARAM_GAIN)
      ck_assert_double_eq_tol((double)REALS(&one->grad)[0], sum_of(&gain->grad), 1000 * REAL_EPS * size);
  }
  for (int i = 0; i < 4; i++) model_program_free(&mp[i]), fixture_close(f[i]);
}
END_TEST

/* Sharing is what repeating the key and value rows of a group in MHA gives. */
START_TEST(gqa_is_mha_with_repeated_keys)
{
  struct fixture *g = small_or_fail("gqa", "", "none"), *m = small_or_fail("mha", "", "none");
  for (int i = 0; i < m->model.params.count; i++) {
    struct tensor *to = &m->model.params.list[i]->value, *from = &g->model.params.list[i]->value;
    size_t head = (size_t)(to->cols * 4) * sizeof(real);
    if (to->rows == from->rows) memcpy(to->data, from->data, (size_t)(to->rows * to->cols) * sizeof(real));
    for (int h = 0; to->rows != from->rows && h < 4; h++)
      memcpy((char *)to->data + (size_t)h * head, (char *)from->data + (size_t)(h * 2 / 4) * head, head);
  }
  struct model_program a = fixture_program(g, 2, 7, 0), b = fixture_program(m, 2, 7, 0);
  program_run(a.program);
  program_run(b.program);
  same_bits(a.logits, b.logits, 14);
  same_bits(a.stats[1], b.stats[1], 4);
  model_program_free(&a);
  model_program_free(&b);
  fixture_close(g);
  fixture_close(m);
}
END_TEST

/* Logits that exist for three rows of fourteen at a time, with weights of its own and with the embedding's. */
START_TEST(logits_in_parts)
{
  struct fixture *f[2];
  struct model_program mp[2];
  for (int i = 0; i < 2; i++) {
    f[i] = small_or_fail("mha", _i ? "tied=1 z_loss=0.1" : "z_loss=0.1", "none");
    f[i]->model.most_logits = i ? 3 * 11 : 0;
    mp[i] = fixture_program(f[i], 2, 7, 1);
    program_run(mp[i].program);
  }
  const struct tensor *whole = &f[0]->model.params.grads, *parts = &f[1]->model.params.grads;
  for (int k = 0; k < 2; k++)
    ck_assert_double_eq_tol((double)REALS(mp[1].loss)[k], (double)REALS(mp[0].loss)[k], 14 * REAL_EPS);
  for (long j = 0; j < whole->cols; j++)
    ck_assert_double_eq_tol((double)REALS(parts)[j], (double)REALS(whole)[j], 14 * REAL_EPS);
  for (int i = 0; i < 2; i++) {
    model_program_free(&mp[i]);
    mp[i] = fixture_program(f[i], 2, 7, 0);
    program_run(mp[i].program);
  }
  ck_assert(!mp[1].logits);
  same_bits(mp[0].token_loss, mp[1].token_loss, 14);
  for (int i = 0; i < 2; i++) {
    model_program_free(&mp[i]);
    fixture_close(f[i]);
  }
}
END_TEST

START_TEST(causal)
{
  struct fixture *f = small_or_fail(attentions[_i]->name, "", "none");
  struct model_program a = fixture_program(f, 1, 7, 0), b = fixture_program(f, 1, 7, 0);
  INTS(b.tokens)[5] = (INTS(a.tokens)[5] + 1) % 11;
  program_run(a.program);
  program_run(b.program);
  same_bits(a.logits, b.logits, 5);
  ck_assert(memcmp(REALS(a.logits) + 5 * 11, REALS(b.logits) + 5 * 11, 11 * sizeof(real)));
  model_program_free(&a);
  model_program_free(&b);
  fixture_close(f);
}
END_TEST

/* Row i of a model of two layers feels token j where a way leads there: by a layer's mask, or through both. */
START_TEST(masks)
{
  static const struct {
    const char *settings;
    long seen[7];
  } of[] = {
    {"mask=full", {7, 7, 7, 7, 7, 7, 7}},
    {"mask=prefix prefix=4", {4, 4, 4, 4, 5, 6, 7}},
    {"mask=window window=2 window_every=1", {1, 2, 3, 4, 5, 6, 7}}, /* no layer has one */
  };
  for (int s = 0; s < 6; s++) {
    const char *windows[] = {"mask=window window=2", "mask=window window=3",
                             "mask=window window=2 window_every=2"};
    const int reach[] = {2, 4, 6}; /* tokens back; of the last the second layer sees all */
    struct fixture *f = small_or_fail(attentions[_i]->name, s < 3 ? of[s].settings : windows[s - 3], "none");
    struct model_program a = fixture_program(f, 1, 7, 0), b = fixture_program(f, 1, 7, 0);
    program_run(a.program);
    for (int j = 0; j < 7; j++) {
      INTS(b.tokens)[j] = (INTS(a.tokens)[j] + 1) % 11;
      program_run(b.program);
      INTS(b.tokens)[j] = INTS(a.tokens)[j];
      for (int i = 0; i < 7; i++) {
        int sees = s < 3 ? j < of[s].seen[i] : j <= i && j >= i - reach[s - 3];
        int same = !memcmp(REALS(a.logits) + i * 11, REALS(b.logits) + i * 11, 11 * sizeof(real));
        ck_assert_msg(same == !sees, "%d: token %d, row %d", s, j, i);
      }
    }
    /* the layers without a window are those before a multiple of window_every */
    const struct model_options *o = &f->model.options;
    if (s == 5) ck_assert(model_has_window(o, 0) && !model_has_window(o, 1) && model_has_window(o, 2));
    model_program_free(&a);
    model_program_free(&b);
    fixture_close(f);
  }
}
END_TEST

/* A window as long as the context, and a prefix of one token, are the causal mask to the bit. */
START_TEST(masks_that_are_causal)
{
  static const char *const more[] = {"", "mask=window window=7", "mask=prefix prefix=1",
                                     "mask=window window=1 window_every=1"};
  real first[2 * 11 * 7];
  for (int i = 0; i < 4; i++) {
    struct fixture *f = small_or_fail(attentions[_i]->name, more[i], "none");
    struct model_program p = fixture_program(f, 2, 7, 0);
    program_run(p.program);
    if (!i) memcpy(first, p.logits->data, sizeof first);
    ck_assert(!memcmp(first, p.logits->data, sizeof first));
    model_program_free(&p);
    fixture_close(f);
  }
}
END_TEST

START_TEST(keys_of_other_masks)
{
  static const struct {
    const char *settings, *stats;
  } wrong[] = {{"window=3", "model.window: 3, but model.mask = causal"},
               {"mask=prefix window_every=2", "model.window_every: 2, but model.mask = prefix"},
               {"mask=full prefix=2", "model.prefix: 2, but model.mask = full"}};
  for (int i = 0; i < 3; i++) {
    struct error e = {0};
    ck_assert(!small("mha", wrong[i].settings, "none", &e));
    ck_assert_int_eq(e.status, STATUS_USAGE);
    ck_assert_msg(strstr(e.text, wrong[i].stats), "%s", e.text);
  }
  struct fixture *f = small_or_fail("mha", "mask=window", "none");
  ck_assert_int_eq(f->model.options.window, 4); /* of 7 */
  fixture_close(f);
}
END_TEST

/* The gradient of a batch is the sum over micro-batches; its maxima are the largest of theirs. */
START_TEST(micro_batches)
{
  const char *attention = attentions[_i]->name;
  struct fixture *f = small_or_fail(attention, fixture_bias(attention), "none");
  struct tensor *grads = &f->model.params.grads;
  struct model_program whole = fixture_program(f, 2, 7, 1), part = fixture_program(f, 1, 7, 1);
  size_t bytes = (size_t)grads->cols * sizeof(real);
  real *sum = memory_new((size_t)grads->cols, sizeof *sum);
  double loss = fixture_loss(f, &whole), parts = 0, top[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
  memcpy(sum, grads->data, bytes);
  memset(grads->data, 0, bytes);
  for (int b = 0; b < 2; b++) {
    for (int i = 0; i < 7; i++) {
      INTS(part.tokens)[i] = INTS(whole.tokens)[7 * b + i];
      INTS(part.targets)[i] = INTS(whole.targets)[7 * b + i];
      REALS(part.weight)[i] = REALS(whole.weight)[i];
    }
    parts += fixture_loss(f, &part);
    for (int h = 0; h < 4; h++) top[h] = fmax(top[h], (double)REALS(part.stats[0])[4 * h]);
  }
  /* sums of 14 terms of order 1 in another order */
  ck_assert_double_eq_tol(parts, loss, 14 * REAL_EPS * loss);
  for (long i = 0; i < grads->cols; i++)
    ck_assert_double_eq_tol((double)REALS(grads)[i], (double)sum[i], 100 * REAL_EPS);
  for (int h = 0; h < 4; h++) ck_assert(top[h] == (double)REALS(whole.stats[0])[4 * h]);
  memory_free(sum);
  model_program_free(&whole);
  model_program_free(&part);
  fixture_close(f);
}
END_TEST

/* Two documents packed into a row are two rows, also where a prefix would be longer than they are. */
START_TEST(packed_documents)
{
  static const char *const more[] = {"", "mask=full", "mask=window window=2 window_every=2",
                                     "mask=prefix prefix=5"};
  const long begin[] = {0, 3, 7};
  struct fixture *f = small_or_fail(attentions[_i / 4]->name, more[_i % 4], "none");
  struct model_program packed = fixture_program(f, 1, 7, 0);
  fixture_pack(f, &packed, begin[1]);
  program_run(packed.program);
  for (int i = 0; i < 2; i++) {
    const long rows = begin[i + 1] - begin[i];
    struct model_program alone = fixture_program(f, 1, rows, 0);
    memcpy(alone.tokens->data, INTS(packed.tokens) + begin[i], (size_t)rows * sizeof(int));
    program_run(alone.program);
    ck_assert(
      !memcmp(REALS(packed.logits) + begin[i] * 11, alone.logits->data, (size_t)rows * 11 * sizeof(real)));
    model_program_free(&alone);
  }
  model_program_free(&packed);
  fixture_close(f);
}
END_TEST

/* Positions twice as large, divided by two, are the same positions. */
START_TEST(rope_scale_divides_positions)
{
  const char *attention = attentions[_i]->name;
  struct fixture *f = small_or_fail(attention, "", "none");
  struct fixture *wide = small_or_fail(attention, "rope_scale=2", "none");
  struct model_program a = fixture_program(f, 1, 7, 0), b = fixture_program(wide, 1, 14, 0);
  for (int i = 0; i < 7; i++) INTS(b.position)[i] = 2 * i;
  program_run(a.program);
  program_run(b.program);
  same_bits(a.logits, b.logits, 7);
  model_program_free(&a);
  model_program_free(&b);
  fixture_close(f);
  fixture_close(wide);
}
END_TEST

static void times(struct fixture *f, const char *name, double c)
{
  struct tensor *t = &params_find(&f->model.params, name)->value;
  for (long i = 0; i < t->rows * t->cols; i++) REALS(t)[i] *= (real)c;
}

/* x / sqrt(mean(x^2) + eps): twice the x under four times the eps is the same, under the same eps it is not.
   Nothing but the embedding reaches the last norm here. */
START_TEST(norm_eps_is_beside_the_mean_square)
{
  static const struct {
    const char *eps;
    double size;
  } cases[] = {{"norm_eps=0.0625", 1}, {"norm_eps=0.25", 2}, {"norm_eps=0.0625", 2}};
  struct fixture *f[3];
  struct model_program mp[3];
  for (int i = 0; i < 3; i++) {
    f[i] = small_or_fail("mha", cases[i].eps, "none");
    times(f[i], "embed", cases[i].size);
    for (int l = 0; l < 2; l++) {
      times(f[i], l ? "blocks.1.attn.w_o" : "blocks.0.attn.w_o", 0);
      times(f[i], l ? "blocks.1.ffn.w_down" : "blocks.0.ffn.w_down", 0);
    }
    mp[i] = fixture_program(f[i], 1, 7, 0);
    program_run(mp[i].program);
  }
  same_bits(mp[0].logits, mp[1].logits, 7);
  double off = 0;
  for (int i = 0; i < 7 * 11; i++)
    off = fmax(off, fabs((double)REALS(mp[0].logits)[i] - (double)REALS(mp[2].logits)[i]));
  ck_assert_double_gt(off, 0.01);
  for (int i = 0; i < 3; i++) {
    model_program_free(&mp[i]);
    fixture_close(f[i]);
  }
}
END_TEST

/* A program longer than model.context begins with the same numbers. */
START_TEST(longer_context)
{
  struct fixture *f = small_or_fail(attentions[_i]->name, "", "none");
  struct model_program a = fixture_program(f, 1, 7, 0), b = fixture_program(f, 1, 28, 0);
  program_run(a.program);
  program_run(b.program);
  same_bits(a.logits, b.logits, 7);
  model_program_free(&a);
  model_program_free(&b);
  fixture_close(f);
}
END_TEST

/* Replaying gives the same bits, once gradients are zeroed, and allocates nothing. */
START_TEST(replay)
{
  const char *attention = attentions[_i]->name;
  struct fixture *f = small_or_fail(attention, fixture_bias(attention), "qk_norm");
  struct model_program mp = fixture_program(f, 2, 7, 1);
  struct tensor *grads = &f->model.params.grads;
  size_t bytes = (size_t)grads->cols * sizeof(real);
  real *first = memory_new((size_t)grads->cols, sizeof *first);
  program_run(mp.program);
  memcpy(first, grads->data, bytes);
  memset(grads->data, 0, bytes);
  size_t calls = memory_calls();
  program_run(mp.program);
  ck_assert_uint_eq(memory_calls(), calls);
  ck_assert(!memcmp(first, grads->data, bytes));
  memory_free(first);
  model_program_free(&mp);
  fixture_close(f);
}
END_TEST

static double gradient_norm(const struct fixture *f)
{
  const struct tensor *grads = &f->model.params.grads;
  double sum = 0;
  for (long i = 0; i < grads->cols; i++) sum += (double)REALS(grads)[i] * (double)REALS(grads)[i];
  return sqrt(sum);
}

/* The fast kernels give the gradients of the definitions, up to rounding through the 100 or so operations of
   a step; and the same bits on any number of threads. */
static void check_devices(const char *attention, const char *stack)
{
  static const struct {
    const char *name;
    int threads;
  } device[] = {{"reference", 1}, {"cpu", 1}, {"cpu", 3}};
  struct fixture *f[3];
  struct model_program mp[3];
  struct error e = {0};
  for (int i = 0; i < 3; i++) {
    f[i] = small_on(device[i].name, device[i].threads, attention, fixture_bias(attention), stack, &e);
    if (!f[i]) return; /* refused: see gradients */
    fixture_shake(f[i], 0.2);
    mp[i] = fixture_program(f[i], 2, 7, 1);
    fixture_pack(f[i], &mp[i], 3);
    program_run(mp[i].program);
  }
  const struct tensor *grads[3];
  for (int i = 0; i < 3; i++) grads[i] = &f[i]->model.params.grads;
  same_bits(grads[1], grads[2], 1);
  same_bits(mp[1].stats[1], mp[2].stats[1], 4);
  double tolerance = 1000 * REAL_EPS * gradient_norm(f[0]);
  for (long i = 0; i < grads[0]->cols; i++)
    ck_assert_msg(fabs((double)REALS(grads[0])[i] - (double)REALS(grads[1])[i]) <= tolerance,
                  "%s, %s: %g is not %g", attention, stack, (double)REALS(grads[1])[i],
                  (double)REALS(grads[0])[i]);
  for (int i = 0; i < 16; i++)
    ck_assert_double_eq_tol((double)REALS(mp[0].stats[1])[i], (double)REALS(mp[1].stats[1])[i],
                            1000 * REAL_EPS * fmax(1, fabs((double)REALS(mp[0].stats[1])[i])));
  for (int i = 0; i < 3; i++) {
    model_program_free(&mp[i]);
    fixture_close(f[i]);
  }
}

START_TEST(devices_agree)
{
  const char *attention = attentions[_i]->name;
  for (const struct stabilizer *const *s = stabilizers; *s; s++) check_devices(attention, (*s)->name);
  check_devices(attention, "qk_norm kind=l2");
  check_devices(attention, "soft_cap cap=0.7");
}
END_TEST

/* --- messages ------------------------------------------------------------------------------------------- */

static const struct {
  const char *settings, *says[3];
} wrong[] = {
  {"width=10", {"model.head_dim", "10 / 4"}},
  {"heads=64", {"model.head_dim: 1 is odd"}},
  {"width=12", {"model.head_dim: 3 is odd"}},
  {"attention=gka", {"model.attention", "must be one of mha, gqa, mla", "did you mean"}},
  {"attention=gqa", {"model.kv_heads", "wanted", "1, 2, 4"}},
  {"attention=gqa kv_heads=3", {"model.kv_heads: 3", "1, 2, 4"}},
  {"attention=mha kv_heads=2", {"model.kv_heads: 2", "allowed: 4 or 0", "gqa"}},
  {"kv_rank=8", {"model.kv_rank: 8", "mla"}},
  {"q_rank=8", {"model.q_rank: 8", "mla"}},
  {"attention=gqa kv_heads=2 rope_dim=8", {"model.rope_dim: 8", "mla"}},
  {"value_dim=8", {"model.value_dim: 8", "mla"}},
  {"attention=mla bias=1", {"model.bias", "mha or gqa"}},
  {"attention=mla kv_heads=2", {"model.kv_heads: 2", "4 or 0"}},
  {"attention=mla rope_dim=3", {"model.rope_dim: 3 is odd"}},
  {"vocab=3", {"model.vocab: 3", "5 or more"}},
};

START_TEST(wrong_shapes)
{
  struct model_options o = fixture_options(wrong[_i].settings);
  struct error e = {0};
  ck_assert_int_eq(model_resolve(&o, 5, &e), STATUS_USAGE);
  for (int i = 0; i < 3 && wrong[_i].says[i]; i++)
    ck_assert_msg(strstr(e.text, wrong[_i].says[i]) != NULL, "\"%s\" does not say \"%s\"", e.text,
                  wrong[_i].says[i]);
}
END_TEST

static const struct {
  const char *attention, *stack, *says;
} refused[] = {{"mha", "qk_norm;qk_norm kind=l2", "qk_norm is named twice"},
               {"mha", "soft_cap;qk_clip;hard_cap", "both cap the score"},
               {"mha", "qk_norm_partial", "allowed here: qk_norm"},
               {"mla", "qk_norm;qk_norm_partial", "qk_norm and qk_norm_partial both normalize"},
               {"mla", "qk_norm_partial;qk_clip;qk_norm", "qk_norm_partial and qk_norm both normalize"},
               {"mha", "k_norm;qk_norm", "k_norm and qk_norm both normalize"},
               {"mla", "qk_norm kind=l2", "allowed: rms"}};

START_TEST(refused_stacks)
{
  struct error e = {0};
  ck_assert_ptr_null(small(refused[_i].attention, "", refused[_i].stack, &e));
  ck_assert_int_eq(e.status, STATUS_USAGE);
  ck_assert_msg(strstr(e.text, refused[_i].says) != NULL, "%s", e.text);
}
END_TEST

/* A series by tensor has a number for every matrix, no more: that is what the recorder takes. */
static const struct series by_tensor[] = {
  {"test/by_tensor", PER_TENSOR, AXIS_STEP, "1", "a number", "a number by tensor", EVENT_NONE}, {0}};
static void emit_places(struct stabilizer_context *c, struct program *p)
{
  double place[64];
  for (int i = 0; i < 64; i++) place[i] = i;
  PROGRAM_CALL(p, copy, .y = c->series[0], .x = program_reals(p, 1, c->series[0]->cols, place, "places"));
}

static const struct stabilizer emitter = {.name = "emitter", .help = "for a test", .emits = by_tensor};

START_TEST(series_by_tensor)
{
  const char *const settings[] = {"", "tied=1", "bias=1"};
  for (int i = 0; i < 3; i++) {
    struct error e = {0};
    struct model_options o = fixture_options(settings[i]);
    struct fixture *f = fixture_try(settings[i], "qk_norm;quack;sigma_reparam", &emitter, &e);
    ck_assert_msg(f != NULL, "%s", e.text);
    long matrices = o.layers * 7 + (o.tied ? 1 : 2); /* q k v o gate up down, embed, head */
    ck_assert_int_eq(model_series_size(&f->model, PER_TENSOR), matrices);
    ck_assert_int_eq(params_matrices(&f->model.params), matrices);
    ck_assert_int_eq(f->model.context[3].series[0]->cols, matrices);
    fixture_run(f, 3, emit_places, &(struct step_scalars){0});
    for (long k = 0; k < matrices; k++) ck_assert(fixture_series(f, 3, 0)[k] == (real)k);
    fixture_close(f);
  }
}
END_TEST

START_TEST(cancelling_stacks)
{
  char text[256];
  struct fixture *f = small_or_fail("mha", "", "qk_norm;qk_clip");
  ck_assert_int_eq(model_warning(&f->model, text, sizeof text), 1);
  ck_assert(strstr(text, "qk_norm") && strstr(text, "qk_clip"));
  fixture_close(f);
  f = small_or_fail("mla", "", "qk_clip;qk_norm_partial");
  ck_assert_int_eq(model_warning(&f->model, text, sizeof text), 1);
  ck_assert(strstr(text, "qk_norm_partial") && strstr(text, "less than it should"));
  fixture_close(f);
  f = small_or_fail("mha", "", "soft_cap;qk_clip");
  ck_assert_int_eq(model_warning(&f->model, text, sizeof text), 0);
  fixture_close(f);
}
END_TEST

static int count_attentions(void)
{
  int n = 0;
  while (attentions[n]) n++;
  return n;
}

int main(void)
{
  Suite *suite = suite_create("model");
  TCase *c = tcase_create("model");
  int n = count_attentions();
  tcase_set_timeout(c, 60);
#ifdef MAXLOGIT_DOUBLE
  tcase_add_loop_test(c, gradients, 0, n);
  tcase_add_loop_test(c, gradients_of_experts, 0, EXPERTS);
#endif
  tcase_add_test(c, default_stack);
  tcase_add_test(c, shapes_of_options);
  tcase_add_test(c, shapes_of_mla);
  tcase_add_test(c, defaults_of_mla);
  tcase_add_test(c, factors_of_heads);
  tcase_add_test(c, spans);
  tcase_add_test(c, initial_values);
  tcase_add_test(c, draws_differ);
  tcase_add_test(c, draws_stay);
  tcase_add_test(c, modules_leave_the_main_head_alone);
  tcase_add_test(c, loss_at_the_start);
  tcase_add_test(c, z_loss_stands_apart);
  tcase_add_test(c, gqa_with_every_head_is_mha);
  tcase_add_loop_test(c, gains_of_norms, 0, n);
  tcase_add_test(c, gqa_is_mha_with_repeated_keys);
  tcase_add_loop_test(c, logits_in_parts, 0, 2);
  tcase_add_loop_test(c, causal, 0, n);
  tcase_add_loop_test(c, masks, 0, n);
  tcase_add_loop_test(c, masks_that_are_causal, 0, n);
  tcase_add_test(c, keys_of_other_masks);
  tcase_add_loop_test(c, micro_batches, 0, n);
  tcase_add_loop_test(c, packed_documents, 0, 4 * n);
  tcase_add_loop_test(c, rope_scale_divides_positions, 0, n);
  tcase_add_test(c, norm_eps_is_beside_the_mean_square);
  tcase_add_loop_test(c, longer_context, 0, n);
  tcase_add_loop_test(c, replay, 0, n);
  tcase_add_loop_test(c, devices_agree, 0, n);
  tcase_add_loop_test(c, wrong_shapes, 0, sizeof wrong / sizeof *wrong);
  tcase_add_loop_test(c, refused_stacks, 0, sizeof refused / sizeof *refused);
  tcase_add_test(c, series_by_tensor);
  tcase_add_test(c, cancelling_stacks);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
