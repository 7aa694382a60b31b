/* check_ops_experts.c - operations of ops.def in experts.c: mixtures of experts */
#include "check_ops.h"

/* Integers [rows, cols] of `values`. */
static struct tensor *in_ints(struct made *m, long rows, long cols, const int *values)
{
  struct guarded *g = new_item(m, TENSOR_INT, rows, cols, stride(m, cols));
  for (long i = 0; i < rows * cols; i++) INTS(&g->t)[i / cols * g->t.ld + i % cols] = values[i];
  g->read = 1;
  return &g->t;
}

/* tokens, experts, chosen, groups, kept */
static const long routings[][5] = {{1, 1, 1, 1, 1},   {3, 4, 2, 1, 1},   {7, 8, 2, 1, 1},  {5, 12, 4, 3, 2},
                                   {70, 16, 4, 4, 2}, {33, 64, 6, 1, 1}, {9, 8, 1, 1, 1},  {40, 32, 8, 8, 4},
                                   {6, 6, 3, 3, 2},   {4, 5, 5, 1, 1},   {300, 3, 2, 1, 1}};
enum { ROUTINGS = sizeof routings / sizeof *routings };

static int make_route(struct made *m, int i, union op_args *args)
{
  if (i >= 4 * ROUTINGS) return 0;
  const long *s = routings[i / 4];
  args->route = (struct route_args){.score = out(m, s[0], s[1], 0),
                                    .gate = out(m, s[0], s[2], 0),
                                    .chosen = out_ints(m, s[0], s[2]),
                                    .stats = out(m, s[0], s[1] + 2, 0),
                                    .logits = in(m, s[0], s[1]),
                                    .bias = i & 2 ? vector(m, s[1]) : NULL,
                                    .scale = number(m, i / 4 % 2, 2.5),
                                    .softmax = i & 1,
                                    .groups = s[3],
                                    .kept = s[4]};
  return 1;
}

static int make_route_backward(struct made *m, int i, union op_args *args)
{
  union op_args forward;
  if (!make_route(m, i, &forward)) return 0;
  const struct route_args *f = &forward.route;
  op_run(m->reference, OP_route, &forward);
  now_read(f->score), now_read(f->chosen);
  args->route_backward =
    (struct route_backward_args){.dlogits = out(m, f->score->rows, f->score->cols, 0),
                                 .dgate = in(m, f->gate->rows, f->gate->cols),
                                 .dscore = i & 2 ? in(m, f->score->rows, f->score->cols) : NULL,
                                 .score = f->score,
                                 .chosen = f->chosen,
                                 .scale = f->scale,
                                 .softmax = f->softmax};
  return 1;
}

static int make_sort_choices(struct made *m, int i, union op_args *args)
{
  if (i >= ROUTINGS) return 0;
  const long *s = routings[i];
  int *chosen = memory_new((size_t)(s[0] * s[2]), sizeof *chosen);
  for (long c = 0; c < s[0] * s[2]; c++) chosen[c] = (int)below(m, c, s[1] > 2 ? s[1] - 1 : s[1]);
  args->sort_choices = (struct sort_choices_args){.first = out_ints(m, 1, s[1] + 1),
                                                  .order = out_ints(m, 1, s[0] * s[2]),
                                                  .place = out_ints(m, s[0], s[2]),
                                                  .chosen = in_ints(m, s[0], s[2], chosen)};
  memory_free(chosen);
  return 1;
}

/* A permutation of n numbers as [rows, cols]. */
static struct tensor *permutation(struct made *m, long rows, long cols)
{
  long n = rows * cols;
  int *p = memory_new((size_t)n, sizeof *p);
  for (long i = 0; i < n; i++) p[i] = (int)i;
  for (long i = n - 1; i > 0; i--) {
    long j = below(m, i, i + 1);
    int swap = p[i];
    p[i] = p[j], p[j] = swap;
  }
  struct tensor *t = in_ints(m, rows, cols, p);
  memory_free(p);
  return t;
}

/* tokens, chosen, columns */
static const long spreads[][3] = {{1, 1, 1},   {1, 3, 7},  {3, 2, 5},     {9, 4, 33},
                                  {33, 8, 16}, {70, 2, 3}, {2, 2, 17000}, {5, 1, 300}};
enum { SPREADS = sizeof spreads / sizeof *spreads };

static int make_dispatch_tokens(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * SPREADS) return 0;
  const long *s = spreads[i / 2];
  args->dispatch_tokens = (struct dispatch_tokens_args){.y = out(m, s[0] * s[1], s[2], 0),
                                                        .x = in(m, s[0], s[2]),
                                                        .gate = i % 2 ? in(m, s[0], s[1]) : NULL,
                                                        .order = permutation(m, 1, s[0] * s[1])};
  return 1;
}

static int make_combine_tokens(struct made *m, int i, union op_args *args)
{
  if (i >= 4 * SPREADS) return 0;
  const long *s = spreads[i / 4];
  args->combine_tokens = (struct combine_tokens_args){.y = out(m, s[0], s[2], i & 1),
                                                      .x = in(m, s[0] * s[1], s[2]),
                                                      .gate = i & 2 ? in(m, s[0], s[1]) : NULL,
                                                      .place = permutation(m, s[0], s[1]),
                                                      .add = i & 1};
  return 1;
}

static int make_dot_rows(struct made *m, int i, union op_args *args)
{
  if (i >= SPREADS) return 0;
  const long *s = spreads[i];
  args->dot_rows = (struct dot_rows_args){.y = out(m, s[0], s[1], 0),
                                          .x = in(m, s[0], s[2]),
                                          .z = in(m, s[0] * s[1], s[2]),
                                          .place = permutation(m, s[0], s[1])};
  return 1;
}

/* rows of all experts, experts, columns in and out */
static const long products[][4] = {{1, 1, 1, 1},     {5, 3, 7, 2},      {64, 4, 33, 17},
                                   {40, 8, 16, 48},  {600, 2, 9, 65},   {7, 12, 5, 5},
                                   {3, 4, 130, 200}, {330, 3, 20, 150}, {150, 1, 300, 9}};
enum { PRODUCTS = sizeof products / sizeof *products };

/* Where experts begin: some have no row, the last of four variants gives all of them to one. */
static struct tensor *begins(struct made *m, int i, long rows, long experts)
{
  int *first = memory_new((size_t)experts + 1, sizeof *first);
  for (long e = 1; e < experts; e++)
    first[e] = i % 4 == 3 ? (int)rows * (e > experts / 2) : (int)below(m, e, rows + 1);
  for (long e = 1; e < experts; e++)
    for (long k = e; k > 1 && first[k - 1] > first[k]; k--) {
      int swap = first[k];
      first[k] = first[k - 1], first[k - 1] = swap;
    }
  first[experts] = (int)rows;
  struct tensor *t = in_ints(m, 1, experts + 1, first);
  memory_free(first);
  return t;
}

static int make_expert_matmul(struct made *m, int i, union op_args *args)
{
  if (i >= 4 * PRODUCTS) return 0;
  const long *s = products[i / 4], tb = i & 1;
  args->expert_matmul =
    (struct expert_matmul_args){.y = out(m, s[0], s[3], i >> 1 & 1),
                                .x = in(m, s[0], s[2]),
                                .w = tb ? in(m, s[1] * s[3], s[2]) : in(m, s[1] * s[2], s[3]),
                                .first = begins(m, i, s[0], s[1]),
                                .tb = tb,
                                .add = i >> 1 & 1};
  return 1;
}

static int make_expert_outer(struct made *m, int i, union op_args *args)
{
  if (i >= 4 * PRODUCTS) return 0;
  const long *s = products[i / 4];
  args->expert_outer = (struct expert_outer_args){.dw = out(m, s[1] * s[3], s[2], i & 1),
                                                  .dy = in(m, s[0], s[3]),
                                                  .x = in(m, s[0], s[2]),
                                                  .first = begins(m, i, s[0], s[1]),
                                                  .add = i & 1};
  return 1;
}

/* sequences, tokens of each, experts, chosen */
static const long balances[][4] = {{1, 1, 1, 1}, {2, 3, 4, 2}, {3, 7, 8, 3}, {1, 40, 12, 4}, {5, 9, 33, 1}};
enum { BALANCES = sizeof balances / sizeof *balances };

static int make_balance_loss(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * BALANCES) return 0;
  const long *s = balances[i / 2];
  args->balance_loss = (struct balance_loss_args){.loss = out(m, 1, 1, 0),
                                                  .share = out(m, s[0], s[2], 0),
                                                  .score = positive(m, in(m, s[0] * s[1], s[2])),
                                                  .alpha = number(m, i % 2, 0.01),
                                                  .active = s[3],
                                                  .weight = i % 2 ? 0.25 : 1};
  return 1;
}

static int make_balance_loss_backward(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * BALANCES) return 0;
  const long *s = balances[i / 2];
  args->balance_loss_backward =
    (struct balance_loss_backward_args){.dscore = out(m, s[0] * s[1], s[2], 0),
                                        .share = positive(m, in(m, s[0], s[2])),
                                        .score = positive(m, in(m, s[0] * s[1], s[2])),
                                        .alpha = number(m, i % 2, 0.01),
                                        .weight = i % 2 ? 0.25 : 1};
  return 1;
}

/* --- identities, on every device */

static void near(const struct tensor *t, const double *wanted, double off)
{
  for (long i = 0; i < t->rows * t->cols; i++) ck_assert_double_eq_tol(REALS(t)[i], wanted[i], off);
}

/* 12 experts in 3 groups of which 2 are kept, 4 chosen, scale 2.5: expert 0 has the best score and is out. */
START_TEST(a_choice_by_hand)
{
  static const double logit[] = {2, -1, .5, 0, 1, 1, -2, .2, 1.8, -3, -3, 1.5},
                      bias[] = {-.3, 0, 0, 0, 0, .05, 0, 0, 0, 0, 0, .1};
  static const double gate[] = {.651383, .683710, .582454, .582454}, dgate[] = {1, -1, .5, 0};
  static const int chosen[] = {11, 8, 5, 4}, alone[] = {0, 8, 11, 2};
  static const double dlogit[12] = {[11] = .106523, [8] = -.107029, [5] = .062101, [4] = -.016222};
  struct device *device = host_device(_i);
  struct device *host = open_kind(0, 1);
  struct tensor *x = tensor_new(host, TENSOR_REAL, 1, 12, "x"),
                *b = tensor_new(host, TENSOR_REAL, 1, 12, "b");
  struct tensor *score = tensor_new(host, TENSOR_REAL, 1, 12, "score"),
                *g = tensor_new(host, TENSOR_REAL, 1, 4, "gate");
  struct tensor *stats = tensor_new(host, TENSOR_REAL, 1, 14, "told"),
                *at = tensor_new(host, TENSOR_INT, 1, 4, "at");
  struct tensor *by = tensor_new(host, TENSOR_REAL, 1, 1, "by"),
                *dg = tensor_new(host, TENSOR_REAL, 1, 4, "dg");
  struct tensor *d = tensor_new(host, TENSOR_REAL, 1, 12, "d");
  for (int i = 0; i < 12; i++) REALS(x)[i] = (real)logit[i], REALS(b)[i] = (real)bias[i];
  for (int i = 0; i < 4; i++) REALS(dg)[i] = (real)dgate[i];
  *REALS(by) = (real)2.5;
  union op_args a = {.route = {score, g, at, stats, x, b, by, 0, 3, 2}};
  op_run(device, OP_route, &a);
  for (int k = 0; k < 4; k++) ck_assert_int_eq(INTS(at)[k], chosen[k]);
  near(g, gate, 1e-6);
  for (int e = 0; e < 12; e++) ck_assert_double_eq(REALS(stats)[e], e == 11 || e == 8 || e == 5 || e == 4);
  ck_assert_double_eq(REALS(stats)[13], 1);
  union op_args back = {.route_backward = {d, dg, NULL, score, at, by, 0}};
  op_run(device, OP_route_backward, &back);
  near(d, dlogit, 1e-6);
  a.route.bias = NULL;
  op_run(device, OP_route, &a);
  for (int k = 0; k < 4; k++) ck_assert_int_eq(INTS(at)[k], alone[k]);
  ck_assert_double_eq(REALS(stats)[13], 0);
  for (int e = 0; e < 12; e++) REALS(x)[e] = 0; /* all equal: the first of the first groups, entropy ln 12 */
  op_run(device, OP_route, &a);
  for (int k = 0; k < 4; k++) ck_assert_int_eq(INTS(at)[k], k);
  ck_assert_double_eq_tol(REALS(stats)[12], log(12), 1e-6);
  for (int e = 2; e < 12; e++) REALS(x)[e] = -1e4; /* scores that are 0 add nothing: entropy ln 2 */
  a.route.softmax = 1;
  op_run(device, OP_route, &a);
  ck_assert(REALS(score)[1] == 0.5 && REALS(score)[2] == 0);
  ck_assert_double_eq_tol(REALS(stats)[12], log(2), 1e-6);
  struct tensor *all[] = {x, b, score, g, stats, at, by, dg, d};
  for (int i = 0; i < 9; i++) tensor_free(host, all[i]);
  device_close(device), device_close(host);
}
END_TEST

/* Two tokens, sigmoid, 2 of 4 chosen (arXiv 2412.19437 eq. 17 to 20). */
START_TEST(a_balance_by_hand)
{
  static const double logit[] = {1, 0, -1, .5, 2, 0, 1, -1}, f[] = {2, 0, 1, 1};
  struct device *device = host_device(_i);
  struct device *host = open_kind(0, 1);
  struct tensor *score = tensor_new(host, TENSOR_REAL, 2, 4, "score"),
                *loss = tensor_new(host, TENSOR_REAL, 1, 1, "loss");
  struct tensor *share = tensor_new(host, TENSOR_REAL, 1, 4, "share"),
                *alpha = tensor_new(host, TENSOR_REAL, 1, 1, "alpha");
  *REALS(alpha) = 1;
  for (int i = 0; i < 8; i++) REALS(score)[i] = (real)(1 / (1 + exp(-logit[i])));
  union op_args a = {.balance_loss = {loss, share, score, alpha, 2, 1}};
  op_run(device, OP_balance_loss, &a);
  near(share, f, 1e-6);
  ck_assert_double_eq_tol(*REALS(loss), 1.134404, 1e-6);
  struct tensor *all[] = {score, loss, share, alpha};
  for (int i = 0; i < 4; i++) tensor_free(host, all[i]);
  device_close(device), device_close(host);
}
END_TEST

static const struct operation_case cases[] = {CASE(route),          CASE(route_backward),
                                              CASE(sort_choices),   CASE(dispatch_tokens),
                                              CASE(combine_tokens), CASE(dot_rows),
                                              CASE(expert_matmul),  CASE(expert_outer),
                                              CASE(balance_loss),   CASE(balance_loss_backward)};

static void add_identities(TCase *identities)
{
  tcase_add_loop_test(identities, a_choice_by_hand, 0, HOSTS);
  tcase_add_loop_test(identities, a_balance_by_hand, 0, HOSTS);
}

OPERATIONS(cases, sizeof cases / sizeof *cases, add_identities)
