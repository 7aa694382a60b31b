/* check_ops_update.c - operations of ops.def in update.c: the optimisers' own */
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

static const struct operation_case cases[] = {CASE(adam), CASE(momentum)};

static void add_identities(TCase *identities)
{
  tcase_add_loop_test(identities, adam_at_the_edges, 0, HOSTS);
}

OPERATIONS(cases, sizeof cases / sizeof *cases, add_identities)
