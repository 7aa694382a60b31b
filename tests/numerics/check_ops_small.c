/* check_ops_small.c - operations of small.c: rows and columns do not matter, only the order of the elements */
#include "check_ops.h"

static struct tensor *turned(struct made *m, const long *s, int i)
{
  return i % 2 ? in(m, s[0] * s[1], 1) : in(m, s[0], s[1]);
}

static struct tensor *turned_out(struct made *m, const long *s, int i)
{
  return i % 2 ? out(m, 1, s[0] * s[1], 0) : out(m, s[0], s[1], 0);
}

static int make_multiply(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->multiply = (struct multiply_args){.y = in(m, sizes[i][0], sizes[i][1]), .x = turned(m, sizes[i], i)};
  return 1;
}

static int make_divide(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->divide = (struct divide_args){.y = in(m, sizes[i][0], sizes[i][1]), .x = turned(m, sizes[i], i)};
  REALS(args->divide.x)[0] = 0;
  return 1;
}

static int make_power(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->power = (struct power_args){.y = positive(m, in(m, sizes[i][0], sizes[i][1])),
                                    .by = number(m, i % 2, 0.7),
                                    .exponent = i % 3 == 2 ? -1.5 : 0.5};
  return 1;
}

static int make_sign(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  struct tensor *x = in(m, sizes[i][0], sizes[i][1]);
  args->sign = (struct sign_args){.y = i % 3 == 2 ? x : turned_out(m, sizes[i], i), .x = x};
  REALS(x)[0] = 0;
  return 1;
}

static int make_maximum(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->maximum = (struct maximum_args){.y = in(m, sizes[i][0], sizes[i][1]), .x = turned(m, sizes[i], i)};
  return 1;
}

static int make_clip_factor(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->clip_factor = (struct clip_factor_args){.y = turned_out(m, sizes[i], i),
                                                .x = in(m, sizes[i][0], sizes[i][1]),
                                                .limit = number(m, i % 3 != 0, 0.4)};
  return 1;
}

static int make_greater_than(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->greater_than = (struct greater_than_args){.y = turned_out(m, sizes[i], i),
                                                  .x = in(m, sizes[i][0], sizes[i][1]),
                                                  .limit = number(m, i % 3 != 0, 0.4)};
  return 1;
}

static int make_one_unless_finite(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->one_unless_finite =
    (struct one_unless_finite_args){.y = in(m, sizes[i][0], sizes[i][1]), .x = turned(m, sizes[i], i)};
  return 1;
}

static int make_all_finite(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->all_finite = (struct all_finite_args){.y = vector(m, 1), .x = in(m, sizes[i][0], sizes[i][1])};
  return 1;
}

static int make_gather(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  const long *s = sizes[i];
  args->gather =
    (struct gather_args){.y = turned_out(m, s, i), .x = in(m, 3, 5), .index = integers(m, s[0] * s[1], 16)};
  for (long j = 0; j < s[0] * s[1]; j++) INTS(args->gather.index)[j]--; /* -1: none */
  return 1;
}

static int make_reduce(struct made *m, int i, union op_args *args)
{
  static const int most[] = {1, 2, 5, 40};
  if (i >= 16) return 0;
  long n = 1 + 3 * (i / 4), members = 0;
  struct tensor *first = integers(m, n + 1, most[i / 4] + 1);
  for (long j = 0; j <= n; j++) { /* lengths, 0 among them, to their sums */
    long length = j ? INTS(first)[j] : 0;
    INTS(first)[j] = (int)(members += length);
  }
  args->reduce = (struct reduce_args){.y = i % 2 ? out(m, n, 1, 0) : out(m, 1, n, 0),
                                      .x = in(m, 4, 6),
                                      .member = integers(m, members + 1, 24),
                                      .first = first,
                                      .kind = i % 4};
  return 1;
}

static int make_accumulate_stats(struct made *m, int i, union op_args *args)
{
  if (i >= 10) return 0;
  args->accumulate_stats = (struct accumulate_stats_args){
    .seen = in(m, 3 * i + 1, 4), .stats = in(m, 3 * i + 1, 4), .share = i % 2 ? 1 : 0.25};
  return 1;
}

static int make_accumulate_pairs(struct made *m, int i, union op_args *args)
{
  if (i >= 10) return 0;
  struct accumulate_pairs_args *a = &args->accumulate_pairs;
  *a = (struct accumulate_pairs_args){.seen = in(m, 3 * i + 1, 5),
                                      .look = in(m, 3 * i + 1, 5),
                                      .stats = in(m, 3 * i + 1, 4),
                                      .largest = in(m, 3 * i + 1, 4)};
  for (long n = 0; n < 3 * i + 1; n++) { /* numbers of pairs, some 0 */
    REALS(a->seen)[n * a->seen->ld + 1] = (real)(n % 3 * 7);
    REALS(a->look)[n * a->look->ld + 1] = (real)(n % 4 * 5);
  }
  return 1;
}

/* --- identities, on every device */

/* y is `before`, then op of x and the number; the whole of what each promises where something is not finite. */
START_TEST(small_operations_by_hand)
{
  enum { N = 8 };
  static const double before[N] = {2, -2, 0, 5, NAN, 1, 4, 9};
  static const double from[N] = {3, -4, 0, NAN, 7, INFINITY, -INFINITY, -0.0};
  static const struct {
    enum op op;
    double y[N];
  } c[] = {
    {OP_multiply, {6, 8, 0, NAN, NAN, INFINITY, -INFINITY, 0}},
    {OP_divide, {2 / 3., 0.5, 1, NAN, NAN, 0, 0, 1}},
    {OP_sign, {1, -1, 0, NAN, 1, 1, -1, 0}},
    {OP_maximum, {3, -2, 0, NAN, NAN, INFINITY, 4, 9}},
    {OP_clip_factor, {0.5 / 3, 1, 1, 1, 0.5 / 7, 1, 1, 1}},
    {OP_greater_than, {1, 0, 0, 0, 1, 1, 0, 0}},
    {OP_one_unless_finite, {2, -2, 0, 1, NAN, 1, 1, 9}},
  };
  static const double half = 0.5, roots[N] = {1.4142135623730951, NAN, 0, 2.23606797749979, NAN, 1, 2, 3};
  struct device *device = host_device(_i);
  struct tensor *x = row(device, N, from), *y = row(device, N, before), *limit = row(device, 1, &half);
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    union op_args args = {.clip_factor = {.y = y, .x = x}}; /* y and x come first in all of them */
    if (c[i].op == OP_clip_factor) args.clip_factor.limit = limit;
    if (c[i].op == OP_greater_than) args.greater_than.limit = limit;
    for (int j = 0; j < N; j++) REALS(y)[j] = (real)before[j];
    op_run(device, c[i].op, &args);
    ck_row(y, c[i].y, op_name(c[i].op));
  }
  for (int j = 0; j < N; j++) REALS(y)[j] = (real)before[j];
  op_run(device, OP_power, &(union op_args){.power = {.y = y, .by = limit, .exponent = 1}});
  ck_row(y, roots, "power");
  tensor_free(device, x), tensor_free(device, y), tensor_free(device, limit);
  device_close(device);
}
END_TEST

/* 1 stays 1, 0 stays 0, until something is not finite: then 0. */
START_TEST(all_finite_by_hand)
{
  static const double value[] = {0, LARGEST, NAN, INFINITY, -INFINITY};
  struct device *device = host_device(_i);
  struct tensor *x = tensor_new(device, TENSOR_REAL, 3, 7, "x"),
                *y = tensor_new(device, TENSOR_REAL, 1, 1, "y");
  for (int i = 0; i < 5; i++)
    for (int was = 0; was < 2; was++) {
      REALS(x)[20] = (real)value[i];
      REALS(y)[0] = (real)was;
      op_run(device, OP_all_finite, &(union op_args){.all_finite = {.y = y, .x = x}});
      ck_assert(REALS(y)[0] == (i < 2 ? was : 0));
    }
  tensor_free(device, x), tensor_free(device, y);
  device_close(device);
}
END_TEST

START_TEST(reductions_by_hand)
{
  static const double values[] = {3, -1, 2, NAN, 0.5};
  static const int member[] = {0, 1, 2, 3, 0, 1, 4}, first[] = {0, 3, 3, 5, 7}, at[] = {4, -1, 0};
  static const double expected[4][4] = {
    {-1, INFINITY, NAN, -1}, {3, -INFINITY, NAN, 0.5}, {4, 0, NAN, -0.5}, {-6, 1, NAN, -0.5}};
  static const double taken[] = {0.5, 1, 3};
  struct device *device = host_device(_i);
  struct tensor *x = row(device, 5, values), *y = tensor_new(device, TENSOR_REAL, 4, 1, "y");
  struct tensor *z = tensor_new(device, TENSOR_REAL, 1, 3, "z");
  struct tensor members = tensor_of((void *)member, 1, 7), firsts = tensor_of((void *)first, 1, 5);
  struct tensor index = tensor_of((void *)at, 1, 3);
  for (int kind = 0; kind < 4; kind++) {
    op_run(device, OP_reduce,
           &(union op_args){.reduce = {.y = y, .x = x, .member = &members, .first = &firsts, .kind = kind}});
    ck_row(y, expected[kind], "reduce");
  }
  op_run(device, OP_gather, &(union op_args){.gather = {.y = z, .x = x, .index = &index}});
  ck_row(z, taken, "take");
  tensor_free(device, x), tensor_free(device, y), tensor_free(device, z);
  device_close(device);
}
END_TEST

/* Two micro-batches seen one after another are the batch: maxima, entropy, shares and the pair on top. */
START_TEST(seen_by_hand)
{
  enum { HEADS_SEEN = 4 };
  static const double none[4] = {-INFINITY, 0, -INFINITY, 0};
  static const double stats[2][HEADS_SEEN][4] = {
    {{1, 2, 1, 0.5}, {5, 5, 4, 1}, {NAN, NAN, NAN, NAN}, {1, 1, 1, 2}},
    {{3, 3, 2, 1.5}, {4, 6, 3, 2}, {7, 7, 7, 1}, {NAN, NAN, NAN, 1}}};
  static const double looks[2][HEADS_SEEN][5] = {
    {{0.5, 10, 1, 2, 3}, {0.1, 10, 4, 5, 6}, {0, 10, 7, 8, 9}, {0, 0, 1, 1, 1}},
    {{0.2, 30, 11, 12, 13}, {0.3, 10, 14, 15, 16}, {1, 10, 17, 18, 19}, {0.4, 20, 2, 2, 2}}};
  static const double seen_stats[HEADS_SEEN][4] = {
    {3, 3, 2, 1}, {5, 6, 4, 1.5}, {NAN, NAN, NAN, NAN}, {NAN, NAN, NAN, 1.5}};
  static const double seen_looks[HEADS_SEEN][5] = {
    {11, 40, 11, 12, 13}, {4, 20, 4, 5, 6}, {10, 20, 7, 8, 9}, {8, 20, 2, 2, 2}};
  struct device *device = host_device(_i);
  struct tensor *all = tensor_new(device, TENSOR_REAL, HEADS_SEEN, 4, "seen");
  struct tensor *pairs = tensor_new(device, TENSOR_REAL, HEADS_SEEN, 5, "pairs");
  for (int n = 0; n < HEADS_SEEN * 4; n++) REALS(all)[n] = (real)none[n % 4];
  for (int batch = 0; batch < 2; batch++) {
    struct tensor *now = row(device, HEADS_SEEN * 4, stats[batch][0]);
    struct tensor *look = row(device, HEADS_SEEN * 5, looks[batch][0]);
    *now = tensor_of(now->data, HEADS_SEEN, 4), *look = tensor_of(look->data, HEADS_SEEN, 5);
    op_run(device, OP_accumulate_pairs,
           &(union op_args){.accumulate_pairs = {.seen = pairs, .look = look, .stats = now, .largest = all}});
    op_run(device, OP_accumulate_stats,
           &(union op_args){.accumulate_stats = {.seen = all, .stats = now, .share = 0.5}});
    tensor_free(device, now), tensor_free(device, look);
  }
  ck_row(all, seen_stats[0], "see");
  ck_row(pairs, seen_looks[0], "accumulate_pairs");
  tensor_free(device, all), tensor_free(device, pairs);
  device_close(device);
}
END_TEST

static const struct operation_case cases[] = {
  CASE(multiply),        CASE(divide),      CASE(power),        CASE(sign),
  CASE(maximum),         CASE(clip_factor), CASE(greater_than), CASE(one_unless_finite),
  CASE(all_finite),      CASE(gather),      CASE(reduce),       CASE(accumulate_stats),
  CASE(accumulate_pairs)};

static void add_identities(TCase *identities)
{
  tcase_add_loop_test(identities, small_operations_by_hand, 0, HOSTS);
  tcase_add_loop_test(identities, all_finite_by_hand, 0, HOSTS);
  tcase_add_loop_test(identities, reductions_by_hand, 0, HOSTS);
  tcase_add_loop_test(identities, seen_by_hand, 0, HOSTS);
}

OPERATIONS(cases, sizeof cases / sizeof *cases, add_identities)
