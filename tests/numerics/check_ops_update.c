/* check_ops_update.c - operations of ops.def in update.c: the optimizers' own */
#include "check_ops.h"

static int make_adam(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * SIZES) return 0;
  const long *s = sizes[i / 2];
  int given = i % 2 == 0;
  args->adam = (struct adam_args){.update = out(m, s[0], s[1], 0),
                                  .m = in(m, s[0], s[1]),
                                  .v = positive(m, in(m, s[0], s[1])),
                                  .g = in(m, s[0], s[1]),
                                  .b1 = number(m, 1, 0.9),
                                  .b2 = number(m, 1, 0.95),
                                  .c1 = number(m, given, 1 - pow(0.9, i + 1)),
                                  .c2 = number(m, given, 1 - pow(0.95, i + 1)),
                                  .eps = number(m, given, 1e-8)};
  return 1;
}

static int make_momentum(struct made *m, int i, union op_args *args)
{
  if (i >= 4 * SIZES) return 0;
  const long *s = sizes[i / 4];
  args->momentum = (struct momentum_args){.update = out(m, s[0], s[1], 0),
                                          .m = in(m, s[0], s[1]),
                                          .g = in(m, s[0], s[1]),
                                          .mu = number(m, i / 2 % 2, 0.9),
                                          .nesterov = i % 2};
  return 1;
}

static int make_row_moment(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * SIZES) return 0;
  const long *s = sizes[i / 2];
  args->row_moment = (struct row_moment_args){.x = in(m, s[0], s[1]),
                                              .v = positive(m, in(m, s[0], 1)),
                                              .b2 = number(m, i % 2, 0.95),
                                              .eps = number(m, 1, 1e-8)};
  return 1;
}

/* --- identities, on every device */

/* Squares, corrections and quotients that fit give the definition's value; a v that does not is never a
   direction of 0, neither in its step nor in the next. */
START_TEST(adam_at_the_edges)
{
  enum { N = 19 };
  static const struct edge {
    double g, m, v, b2, c1, c2, update;
  } c[] = {
    {2 * SQUARE_OVERFLOWS, 0, 0, 0.95, 0.1, 0.05, 1},
    {-2 * SQUARE_OVERFLOWS, 0, 0, 0.95, 0.1, 0.05, -1},
    {0, 0.5 * LARGEST, 0.5 * LARGEST, 1, 0.01, 1e-4, 0.9 * SQUARE_OVERFLOWS / 1.4142135623730951},
    {1e3 * SQUARE_OVERFLOWS, 0, 0, 0.95, 0.1, 0.05, NAN},
    {1, 1, INFINITY, 0.95, 0.1, 0.05, NAN},
    {NAN, 1, 1, 0.95, 0.1, 0.05, NAN},
    {0, 0, 0, 0.95, 0.1, 0.05, 0},
  };
  struct device *device = host_device(_i);
  struct tensor *t[4], *number[5];
  for (int k = 0; k < 4; k++) t[k] = tensor_new(device, TENSOR_REAL, 1, N, "adam");
  for (int k = 0; k < 5; k++) number[k] = tensor_new(device, TENSOR_REAL, 1, 1, "number");
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    for (int j = 0; j < N; j++) {
      REALS(t[1])[j] = (real)c[i].m;
      REALS(t[2])[j] = (real)c[i].v;
      REALS(t[3])[j] = (real)c[i].g;
    }
    const double value[] = {0.9, c[i].b2, c[i].c1, c[i].c2, 1e-8};
    for (int k = 0; k < 5; k++) REALS(number[k])[0] = (real)value[k];
    struct adam_args args = {t[0], t[1], t[2], t[3], number[0], number[1], number[2], number[3], number[4]};
    op_run(device, OP_adam, &(union op_args){.adam = args});
    for (int j = 0; j < N; j++) {
      double got = REALS(t[0])[j];
      ck_assert_msg(same_or_near(got, c[i].update), "case %d: %g, not %g", (int)i, got, c[i].update);
    }
  }
  for (int k = 0; k < 4; k++) tensor_free(device, t[k]);
  for (int k = 0; k < 5; k++) tensor_free(device, number[k]);
  device_close(device);
}
END_TEST

/* With b2 = 0: rows of RMS 1, and a row of zeros stays; of an infinite moment NaN. */
START_TEST(rows_of_one_moment)
{
  static const double values[] = {3, -4, 0, 0, 30, 40, LARGEST, LARGEST}, old[] = {7, 0, 0, 1};
  static const double moment[] = {12.5, 0, 1250, INFINITY};
  const double root = sqrt(12.5);
  const double wanted[] = {3 / root, -4 / root, 0, 0, 3 / root, 4 / root, NAN, NAN};
  struct device *device = host_device(_i);
  struct tensor *x = row(device, 8, values), *v = row(device, 4, old);
  struct tensor *b2 = row(device, 1, &(double){0}), *eps = row(device, 1, &(double){1e-30});
  struct tensor rows = tensor_of(x->data, 4, 2), moments = tensor_of(v->data, 4, 1);
  op_run(device, OP_row_moment,
         &(union op_args){.row_moment = {.x = &rows, .v = &moments, .b2 = b2, .eps = eps}});
  ck_row(v, moment, "moments");
  ck_row(x, wanted, "row_moment");
  tensor_free(device, x), tensor_free(device, v), tensor_free(device, b2), tensor_free(device, eps);
  device_close(device);
}
END_TEST

static const struct operation_case cases[] = {CASE(adam), CASE(momentum), CASE(row_moment)};

static void add_identities(TCase *identities)
{
  tcase_add_loop_test(identities, adam_at_the_edges, 0, HOSTS);
  tcase_add_loop_test(identities, rows_of_one_moment, 0, HOSTS);
}

OPERATIONS(cases, sizeof cases / sizeof *cases, add_identities)
