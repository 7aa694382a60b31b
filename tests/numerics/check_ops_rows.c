/* check_ops_rows.c - operations of ops.def in rows.c: what goes row by row */
#include "check_ops.h"

static int make_add_bias(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->add_bias = (struct add_bias_args){.y = in(m, sizes[i][0], sizes[i][1]), .b = vector(m, sizes[i][1])};
  return 1;
}

static int make_sum_rows(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * SIZES) return 0;
  const long *s = sizes[i / 2];
  args->sum_rows = (struct sum_rows_args){.y = out(m, 1, s[1], i % 2), .x = in(m, s[0], s[1]), .add = i % 2};
  return 1;
}

static int make_embed_forward(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->embed_forward = (struct embed_forward_args){.y = out(m, sizes[i][0], sizes[i][1], 0),
                                                    .tokens = integers(m, sizes[i][0], 11),
                                                    .w = in(m, 11, sizes[i][1])};
  return 1;
}

static int make_embed_backward(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->embed_backward = (struct embed_backward_args){.dw = in(m, 11, sizes[i][1]),
                                                      .tokens = integers(m, sizes[i][0], 11),
                                                      .dy = in(m, sizes[i][0], sizes[i][1])};
  return 1;
}

static const long norms[][3] = {{1, 1, 1},      {3, 5, 5},       {2, 64, 64}, {7, 24, 8},
                                {65, 40, 4},    {4, 300, 300},   {3, 6, 1},   {1, 20001, 20001},
                                {1, 20004, 12}, {2, 16400, 8200}};
enum { NORMS = sizeof norms / sizeof *norms };

static int make_rmsnorm_forward(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * NORMS) return 0;
  const long *s = norms[i / 2];
  args->rmsnorm_forward = (struct rmsnorm_forward_args){.y = out(m, s[0], s[1], 0),
                                                        .rstd = out(m, s[0], s[1] / s[2], 0),
                                                        .x = in(m, s[0], s[1]),
                                                        .gain = i % 2 ? vector(m, s[2]) : NULL,
                                                        .group = s[2],
                                                        .eps = number(m, 1, 1e-6)};
  return 1;
}

static int make_rmsnorm_backward(struct made *m, int i, union op_args *args)
{
  if (i >= 4 * NORMS) return 0;
  const long *s = norms[i / 4];
  int gain = i & 1, add = i >> 1 & 1;
  struct rmsnorm_backward_args *a = &args->rmsnorm_backward;
  *a = (struct rmsnorm_backward_args){.dx = out(m, s[0], s[1], add),
                                      .dgain = gain ? vector(m, s[2]) : NULL,
                                      .dy = in(m, s[0], s[1]),
                                      .x = in(m, s[0], s[1]),
                                      .rstd = in(m, s[0], s[1] / s[2]),
                                      .gain = gain ? vector(m, s[2]) : NULL,
                                      .group = s[2],
                                      .add = add};
  union op_args forward = {.rmsnorm_forward = {.y = out(m, s[0], s[1], 0),
                                               .rstd = a->rstd,
                                               .x = a->x,
                                               .gain = a->gain,
                                               .group = s[2],
                                               .eps = number(m, 1, 1e-6)}};
  op_run(m->reference, OP_rmsnorm_forward, &forward);
  return 1;
}

static int make_swiglu_forward(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->swiglu_forward = (struct swiglu_forward_args){.y = out(m, sizes[i][0], sizes[i][1], 0),
                                                      .x = in(m, sizes[i][0], 2 * sizes[i][1])};
  REALS(args->swiglu_forward.x)[0] *= 100; /* far into a tail of the sigmoid */
  return 1;
}

static int make_swiglu_backward(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->swiglu_backward = (struct swiglu_backward_args){.dx = out(m, sizes[i][0], 2 * sizes[i][1], 0),
                                                        .dy = in(m, sizes[i][0], sizes[i][1]),
                                                        .x = in(m, sizes[i][0], 2 * sizes[i][1])};
  REALS(args->swiglu_backward.x)[0] *= 100;
  return 1;
}

static int make_rope(struct made *m, int i, union op_args *args)
{
  static const long shape[][3] = {{1, 1, 2},  {5, 3, 4},     {9, 2, 6},    {33, 4, 16},
                                  {7, 1, 64}, {1, 1100, 16}, {1, 2, 16500}};
  if (i >= 6 * (int)(sizeof shape / sizeof *shape)) return 0;
  const long *s = shape[i / 6];
  long add = i % 3 == 1;
  struct tensor *x = in(m, s[0], s[1] * s[2]);
  args->rope = (struct rope_args){.y = i % 3 == 2 ? x : out(m, s[0], s[1] * s[2], add),
                                  .x = x,
                                  .position = integers(m, s[0], 12),
                                  .table = new_real(m, 12, s[2], s[2], 1),
                                  .dim = s[2],
                                  .sign = i / 3 % 2 ? 1 : -1,
                                  .add = add};
  return 1;
}

static int make_scale_columns(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->scale_columns = (struct scale_columns_args){
    .y = out(m, sizes[i][0], sizes[i][1], 0), .x = in(m, sizes[i][0], sizes[i][1]), .s = vector(m, 1)};
  return 1;
}

static int make_scale_columns_backward(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * SIZES) return 0;
  const long *s = sizes[i / 2];
  args->scale_columns_backward = (struct scale_columns_backward_args){.dx = out(m, s[0], s[1], i % 2),
                                                                      .ds = vector(m, 1),
                                                                      .dy = in(m, s[0], s[1]),
                                                                      .x = in(m, s[0], s[1]),
                                                                      .s = vector(m, 1),
                                                                      .add = i % 2};
  return 1;
}

static int make_join_heads(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * JOINS) return 0;
  const long *s = joins[i / 2], shared = i % 2;
  args->join_heads = (struct join_heads_args){.y = out(m, s[0], s[1] * (s[2] + s[3]), 0),
                                              .a = in(m, s[0], s[1] * s[2]),
                                              .b = in(m, s[0], (shared ? 1 : s[1]) * s[3]),
                                              .heads = s[1],
                                              .shared = shared};
  return 1;
}

static int make_join_heads_backward(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * JOINS) return 0;
  const long *s = joins[i / 2], shared = i % 2;
  args->join_heads_backward =
    (struct join_heads_backward_args){.da = out(m, s[0], s[1] * s[2], 0),
                                      .db = out(m, s[0], (shared ? 1 : s[1]) * s[3], 0),
                                      .dy = in(m, s[0], s[1] * (s[2] + s[3])),
                                      .heads = s[1],
                                      .shared = shared};
  return 1;
}

static int make_reparam(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  const long *s = sizes[i];
  args->reparam = (struct reparam_args){.y = out(m, s[0], s[1], 0),
                                        .sigma = out(m, 1, 1, 0),
                                        .w = in(m, s[0], s[1]),
                                        .u = vector(m, s[0]),
                                        .v = vector(m, s[1]),
                                        .gain = vector(m, 1)};
  return 1;
}

static int make_reparam_backward(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * SIZES) return 0;
  const long *s = sizes[i / 2], add = i % 2;
  args->reparam_backward = (struct reparam_backward_args){.dw = out(m, s[0], s[1], add),
                                                          .dgain = vector(m, 1),
                                                          .dy = in(m, s[0], s[1]),
                                                          .w = in(m, s[0], s[1]),
                                                          .u = vector(m, s[0]),
                                                          .v = vector(m, s[1]),
                                                          .gain = vector(m, 1),
                                                          .sigma = vector(m, 1),
                                                          .add = add};
  return 1;
}

static int make_cross_entropy(struct made *m, int i, union op_args *args)
{
  static const long many_rows[] = {17000, 2};
  if (i >= 2 * SIZES + 1) return 0;
  const long *s = i < 2 * SIZES ? sizes[i / 2] : many_rows;
  args->cross_entropy = (struct cross_entropy_args){.loss = out(m, 1, 2, 0),
                                                    .ml = out(m, s[0], 2, 0),
                                                    .logits = in(m, s[0], s[1]),
                                                    .targets = integers(m, s[0], s[1]),
                                                    .weight = positive(m, vector(m, s[0])),
                                                    .z = number(m, i % 4 != 3, i % 2 ? 0.1 : 0)};
  if (s[0] > 1) REALS(args->cross_entropy.weight)[1] = 0;
  return 1;
}

static int make_cross_entropy_backward(struct made *m, int i, union op_args *args)
{
  union op_args forward;
  if (!make_cross_entropy(m, i, &forward)) return 0;
  const struct cross_entropy_args *f = &forward.cross_entropy;
  op_run(m->reference, OP_cross_entropy, &forward);
  now_read(f->ml);
  args->cross_entropy_backward =
    (struct cross_entropy_backward_args){.dlogits = out(m, f->logits->rows, f->logits->cols, 0),
                                         .logits = f->logits,
                                         .ml = f->ml,
                                         .targets = f->targets,
                                         .weight = f->weight,
                                         .z = f->z};
  return 1;
}

static int make_token_loss(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  const long *s = sizes[i];
  args->token_loss = (struct token_loss_args){.y = out(m, s[0], 1, 0),
                                              .logits = in(m, s[0], s[1]),
                                              .ml = positive(m, in(m, s[0], 2)),
                                              .targets = integers(m, s[0], s[1])};
  return 1;
}

/* --- identities, on every device */

/* Cross-entropy of logits + c: the loss stays, the maximum moves by c. */
START_TEST(shift_of_all_logits)
{
  enum { ROWS = 3, V = 11 };
  struct device *device = host_device(_i);
  struct tensor *logits = tensor_new(device, TENSOR_REAL, ROWS, V, "logits");
  struct tensor *targets = tensor_new(device, TENSOR_INT, 1, ROWS, "targets");
  struct tensor *weight = tensor_new(device, TENSOR_REAL, 1, ROWS, "weight");
  struct tensor *loss = tensor_new(device, TENSOR_REAL, 1, 2, "loss");
  struct tensor *ml = tensor_new(device, TENSOR_REAL, ROWS, 2, "ml");
  real none = 0;
  struct tensor z = tensor_of(&none, 1, 1);
  draw(logits, 5);
  for (int n = 0; n < ROWS; n++) {
    INTS(targets)[n] = 4 * n;
    REALS(weight)[n] = (real)(1.0 / ROWS);
  }
  union op_args args = {
    .cross_entropy = {
      .loss = loss, .ml = ml, .logits = logits, .targets = targets, .weight = weight, .z = &z}};
  op_run(device, OP_cross_entropy, &args);
  double before = REALS(loss)[0], max_before = REALS(ml)[2];
  for (int i = 0; i < ROWS * V; i++) REALS(logits)[i] += 32;
  op_run(device, OP_cross_entropy, &args);
  ck_assert_double_eq_tol(REALS(loss)[0], before, 4 * 36 * REAL_EPS);
  ck_assert_double_eq_tol(REALS(ml)[2], max_before + 32, 4 * 36 * REAL_EPS);
  tensor_free(device, logits);
  tensor_free(device, targets);
  tensor_free(device, weight);
  tensor_free(device, loss);
  tensor_free(device, ml);
  device_close(device);
}
END_TEST

START_TEST(loss_of_large_logits)
{
  enum { V = 37, TARGET = 5 };
  struct device *device = host_device(_i % HOSTS);
  const double size = levels_of[_i / HOSTS], tolerance = 16 * REAL_EPS;
  struct tensor *logits = tensor_new(device, TENSOR_REAL, 1, V, "logits");
  struct tensor *dlogits = tensor_new(device, TENSOR_REAL, 1, V, "dlogits");
  struct tensor *targets = tensor_new(device, TENSOR_INT, 1, 1, "targets");
  struct tensor *weight = tensor_new(device, TENSOR_REAL, 1, 1, "weight");
  struct tensor *loss = tensor_new(device, TENSOR_REAL, 1, 2, "loss"), *each;
  struct tensor *ml = tensor_new(device, TENSOR_REAL, 1, 2, "ml");
  each = tensor_new(device, TENSOR_REAL, 1, 1, "loss of a token");
  double sum = 0, total = 0;
  for (long j = 0; j < V; j++) {
    REALS(logits)[j] = (real)(size + step_of(j));
    sum += exp(step_of(j));
  }
  real none = 0;
  struct tensor z = tensor_of(&none, 1, 1);
  INTS(targets)[0] = TARGET;
  REALS(weight)[0] = 1;
  op_run(device, OP_cross_entropy,
         &(union op_args){.cross_entropy = {loss, ml, logits, targets, weight, &z}});
  op_run(device, OP_cross_entropy_backward,
         &(union op_args){.cross_entropy_backward = {dlogits, logits, ml, targets, weight, &z}});
  op_run(device, OP_token_loss, &(union op_args){.token_loss = {each, logits, ml, targets}});
  const double exact = log(sum) - step_of(TARGET);
  ck_assert_double_eq_tol(REALS(loss)[0], exact, tolerance * exact);
  ck_assert_double_eq_tol(REALS(each)[0], exact, tolerance * exact);
  for (long j = 0; j < V; j++) {
    double d = exp(step_of(j)) / sum - (j == TARGET);
    ck_assert_double_eq_tol(REALS(dlogits)[j], d, tolerance * fabs(d));
    total += REALS(dlogits)[j];
  }
  ck_assert_double_eq_tol(total, 0, tolerance);
  tensor_free(device, logits);
  tensor_free(device, dlogits);
  tensor_free(device, targets);
  tensor_free(device, weight);
  tensor_free(device, loss);
  tensor_free(device, ml);
  tensor_free(device, each);
  device_close(device);
}
END_TEST

static const struct operation_case cases[] = {CASE(add_bias),
                                              CASE(sum_rows),
                                              CASE(embed_forward),
                                              CASE(embed_backward),
                                              CASE(rmsnorm_forward),
                                              CASE(rmsnorm_backward),
                                              CASE(swiglu_forward),
                                              CASE(swiglu_backward),
                                              CASE(rope),
                                              CASE(scale_columns),
                                              CASE(scale_columns_backward),
                                              CASE(join_heads),
                                              CASE(join_heads_backward),
                                              CASE(cross_entropy),
                                              CASE(cross_entropy_backward),
                                              CASE(token_loss),
                                              CASE(reparam),
                                              CASE(reparam_backward)};

static void add_identities(TCase *identities)
{
  tcase_add_loop_test(identities, shift_of_all_logits, 0, HOSTS);
  tcase_add_loop_test(identities, loss_of_large_logits, 0, SIZES_OF_SCORES * HOSTS);
}

OPERATIONS(cases, sizeof cases / sizeof *cases, add_identities)
