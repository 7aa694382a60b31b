/* check_ops_vectors.c - operations of ops.def in vectors.c: plain vectors and their segments */
#include "check_ops.h"

static int make_fill(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->fill = (struct fill_args){.y = out(m, sizes[i][0], sizes[i][1], 0), .value = i % 2 ? 0 : -1.5};
  return 1;
}

static int make_copy(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->copy =
    (struct copy_args){.y = out(m, sizes[i][0], sizes[i][1], 0), .x = in(m, sizes[i][0], sizes[i][1])};
  return 1;
}

static int make_round_to(struct made *m, int i, union op_args *args)
{
  if (i >= FORMAT_COUNT * SIZES) return 0;
  const long *s = sizes[i / FORMAT_COUNT];
  args->round_to =
    (struct round_to_args){.y = out(m, s[0], s[1], 0), .x = in(m, s[0], s[1]), .format = i % FORMAT_COUNT};
  return 1;
}

static int make_axpby(struct made *m, int i, union op_args *args)
{
  static const long column[] = {37, 1};
  if (i >= 4 * (SIZES + 1)) return 0;
  const long *s = i / 4 < SIZES ? sizes[i / 4] : column;
  int given = i / 2 % 2;
  args->axpby = (struct axpby_args){.y = out(m, s[0], s[1], i % 2),
                                    .x = in(m, s[0], s[1]),
                                    .a = number(m, given, 1.5),
                                    .b = number(m, given, -0.3),
                                    .alpha = -1.25,
                                    .beta = i % 2 ? 0.75 : 0};
  return 1;
}

static int make_scale(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * SIZES) return 0;
  const long *s = sizes[i / 2];
  args->scale = (struct scale_args){
    .y = in(m, s[0], s[1]), .by = number(m, i % 2, i % 6 == 1 ? 1 / 0.25 : -0.7), .alpha = i % 4 ? 0.25 : 1};
  return 1;
}

static int make_norm(struct made *m, int i, union op_args *args)
{
  static const long many[] = {33,
                              16400}; /* of so many pieces the sums pass the least scratch that there is */
  if (i > SIZES) return 0;
  const long *s = i < SIZES ? sizes[i] : many;
  args->norm = (struct norm_args){.y = out(m, 1, 1, 0), .x = in(m, s[0], s[1])};
  return 1;
}

static int make_max_abs(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->max_abs = (struct max_abs_args){.y = out(m, 1, 1, 0), .x = in(m, sizes[i][0], sizes[i][1])};
  return 1;
}

static int make_transpose(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  const long *s = sizes[i];
  args->transpose = (struct transpose_args){.y = out(m, s[1], s[0], 0), .x = in(m, s[0], s[1])};
  return 1;
}

static struct tensor *segments(struct made *m, int i, long *total)
{
  enum { LISTED = 6, MANY = 100 };
  static const int length[LISTED][5] = {
    {1}, {3, 5}, {0, 7, 1}, {64, 33, 16, 31, 1}, {1000, 16384, 2}, {20001, 40000}};
  if (i >= 2 * (LISTED + 1)) return NULL;
  const int *l = i / 2 < LISTED ? length[i / 2] : NULL; /* then many short ones */
  long n = l ? 0 : MANY, at = i % 2;
  while (l && n < 5 && (l[n] || n == 0)) n++;
  struct tensor *t = integers(m, 2 * n, 1);
  *t = tensor_of(t->data, n, 2);
  t->type = TENSOR_INT;
  for (long k = 0; k < n; k++) {
    const long row = i % 2 ? n - 1 - k : k, own = l ? l[k] : 1 + k % 3;
    INTS(t)[2 * row] = (int)at, INTS(t)[2 * row + 1] = (int)own;
    at += own + 3 * (i % 2);
  }
  *total = at;
  return t;
}

static int make_apply_segments(struct made *m, int i, union op_args *args)
{
  long total;
  struct tensor *segment = segments(m, i, &total);
  if (!segment) return 0;
  args->apply_segments = (struct apply_segments_args){.w = vector(m, total),
                                                      .update = vector(m, total),
                                                      .segment = segment,
                                                      .keep = vector(m, segment->rows),
                                                      .rate = vector(m, segment->rows),
                                                      .cautious = i / 2 % 2};
  return 1;
}

static int make_scale_segments(struct made *m, int i, union op_args *args)
{
  long total;
  struct tensor *segment = segments(m, i, &total);
  if (!segment) return 0;
  args->scale_segments = (struct scale_segments_args){
    .x = vector(m, total), .segment = segment, .factor = vector(m, segment->rows)};
  REALS(args->scale_segments.factor)[0] = 1;
  return 1;
}

static int make_norm_segments(struct made *m, int i, union op_args *args)
{
  long total;
  struct tensor *segment = segments(m, i, &total);
  if (!segment) return 0;
  args->norm_segments = (struct norm_segments_args){.y = out(m, 1, segment->rows, 0), .segment = segment};
  args->norm_segments.x = vector(m, total);
  return 1;
}

static int make_normalise(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->normalise = (struct normalise_args){.y = in(m, sizes[i][0], sizes[i][1]), .size = out(m, 1, 1, 0)};
  return 1;
}

/* --- identities, on every device */

/* A norm is out of range only where its value is. */
START_TEST(norm_at_the_edges)
{
  enum { N = 37 };
  static const double c[][3] = {/* two values among zeros; the norm */
                                {0.3 * LARGEST, 0.4 * LARGEST, 0.5 * LARGEST},
                                {-3 / SMALLEST * REAL_EPS, 0, 3 / SMALLEST * REAL_EPS},
                                {6 * SMALLEST, 8 * SMALLEST, 10 * SMALLEST},
                                {LARGEST, 0, LARGEST},
                                {LARGEST, LARGEST, INFINITY},
                                {1, -INFINITY, INFINITY},
                                {NAN, INFINITY, NAN},
                                {INFINITY, NAN, NAN},
                                {0, 0, 0}};
  struct device *device = host_device(_i);
  struct tensor *x = tensor_new(device, TENSOR_REAL, 1, N, "x"),
                *y = tensor_new(device, TENSOR_REAL, 1, 1, "y");
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    REALS(x)[3] = (real)c[i][0];
    REALS(x)[N - 1] = (real)c[i][1];
    op_run(device, OP_norm, &(union op_args){.norm = {.y = y, .x = x}});
    ck_assert_msg(same_or_near(REALS(y)[0], c[i][2]), "case %d: %g, not %g", (int)i, (double)REALS(y)[0],
                  c[i][2]);
  }
  tensor_free(device, x);
  tensor_free(device, y);
  device_close(device);
}
END_TEST

/* A direction of length 1, and what has none stays as it is. */
START_TEST(normalise_at_the_edges)
{
  static const double c[][4] = {{3, 4, 0, 5},
                                {0, 0, 0, 0},
                                {0.3 * LARGEST, 0.4 * LARGEST, 0, 0.5 * LARGEST},
                                {6 * SMALLEST, 8 * SMALLEST, 0, 10 * SMALLEST},
                                {1, NAN, 2, NAN}};
  struct device *device = host_device(_i);
  struct tensor *size = tensor_new(device, TENSOR_REAL, 1, 1, "size");
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    struct tensor *y = row(device, 3, c[i]);
    op_run(device, OP_normalise, &(union op_args){.normalise = {.y = y, .size = size}});
    ck_assert(same_or_near(REALS(size)[0], c[i][3]));
    for (int j = 0; j < 3; j++)
      ck_assert(same_or_near(REALS(y)[j], c[i][3] == 0 ? 0 : isnan(c[i][3]) ? NAN : c[i][j] / c[i][3]));
    tensor_free(device, y);
  }
  tensor_free(device, size);
  device_close(device);
}
END_TEST

/* A factor of 1 does not touch its segment, not even a NaN's bits; a beta of 0 does not read y. */
START_TEST(what_is_left_alone)
{
  static const double values[] = {1, NAN, 3, 4}, factors[] = {1, 2};
  static const int segments_of[] = {0, 2, 2, 2};
  struct device *device = host_device(_i);
  struct tensor *x = row(device, 4, values), *factor = row(device, 2, factors), *y = row(device, 4, values);
  struct tensor segment = tensor_of((void *)segments_of, 2, 2);
  op_run(device, OP_scale_segments,
         &(union op_args){.scale_segments = {.x = x, .segment = &segment, .factor = factor}});
  ck_assert(!memcmp(x->data, y->data, 2 * sizeof(real)) && REALS(x)[2] == 6 && REALS(x)[3] == 8);
  op_run(device, OP_scale, &(union op_args){.scale = {.y = x, .by = factor, .alpha = 1}});
  ck_assert(!memcmp(x->data, y->data, 2 * sizeof(real)) && REALS(x)[2] == 6);
  REALS(x)[1] = 2;
  for (int by_number = 0; by_number < 2; by_number++) {
    double zero = 0;
    struct tensor *b = row(device, 1, &zero);
    for (int j = 0; j < 4; j++) REALS(y)[j] = (real)NAN;
    op_run(device, OP_axpby,
           &(union op_args){
             .axpby = {.y = y, .x = x, .b = by_number ? b : NULL, .alpha = 1, .beta = by_number ? 1 : 0}});
    for (int j = 0; j < 4; j++) ck_assert(REALS(y)[j] == REALS(x)[j]);
    tensor_free(device, b);
  }
  tensor_free(device, x), tensor_free(device, y), tensor_free(device, factor);
  device_close(device);
}
END_TEST

static const struct operation_case cases[] = {
  CASE(fill),    CASE(copy),           CASE(round_to),       CASE(transpose),
  CASE(axpby),   CASE(scale),          CASE(norm),           CASE(normalise),
  CASE(max_abs), CASE(apply_segments), CASE(scale_segments), CASE(norm_segments)};

static void add_identities(TCase *identities)
{
  tcase_add_loop_test(identities, norm_at_the_edges, 0, HOSTS);
  tcase_add_loop_test(identities, normalise_at_the_edges, 0, HOSTS);
  tcase_add_loop_test(identities, what_is_left_alone, 0, HOSTS);
}

OPERATIONS(cases, sizeof cases / sizeof *cases, add_identities)
