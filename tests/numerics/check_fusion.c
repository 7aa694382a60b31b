/* check_fusion.c - calls by rows: which may become a fusion, and that a fusion gives the bits of its calls */
#include "base/memory.h"
#include "base/random.h"
#include "numerics/fusion.h"
#include "numerics/exchange.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 256 };

/* --- order -------------------------------------------------------------------------------------------------- */

enum { TENSORS = 12, CALLS = 30 };

/* A program without memory: tensors that have no place yet, two of them columns of the first. */
struct plan {
  struct tensor tensor[TENSORS];
  union op_args args[CALLS];
  struct link link[CALLS];
  struct access access[CALLS][8];
  struct footprint f[CALLS];
  int calls, order[CALLS], length[CALLS];
};

static void begin(struct plan *p)
{
  *p = (struct plan){0};
  for (int i = 0; i < TENSORS; i++) p->tensor[i] = tensor_of(NULL, i < 9 ? ROWS : 64, 64);
  for (int i = 1; i < 3; i++) {
    p->tensor[i].base = &p->tensor[0];
    p->tensor[i].cols = 32;
    p->tensor[i].offset = 32 * (i - 1);
  }
}

static void add(struct plan *p, enum op op, const union op_args *args)
{
  int n = p->calls++, count;
  p->args[n] = *args;
  p->link[n] = (struct link){op, &p->args[n]};
  const struct op_field *field = op_fields(op, &count);
  struct tensor **tensor = (struct tensor **)&p->args[n];
  struct footprint *f = &p->f[n];
  f->access = p->access[n];
  for (int i = 0; i < count && field[i].kind < FIELD_SIZE; i++)
    if (tensor[i])
      p->access[n][f->count++] = (struct access){
        tensor[i], field[i].kind == FIELD_OUT || field[i].kind == FIELD_ADD, fusion_cuts(op, i)};
}

#define T(i) (&p->tensor[i])
static void product(struct plan *p, int c, int a, int b, int ta)
{
  add(p, OP_matmul, &(union op_args){.matmul = {.c = T(c), .a = T(a), .b = T(b), .ta = ta, .alpha = 1}});
}
static void copy(struct plan *p, int y, int x)
{
  add(p, OP_copy, &(union op_args){.copy = {.y = T(y), .x = T(x)}});
}
static void find(struct plan *p) { fusions_find(NULL, p->link, p->f, p->calls, p->order, p->length); }

static void expect(const struct plan *p, const int *order, const int *length)
{
  for (int i = 0; i < p->calls; i++) {
    ck_assert_msg(p->order[i] == order[i], "place %d: call %d, not %d", i, p->order[i], order[i]);
    ck_assert_msg(p->length[i] == length[i], "place %d: length %d, not %d", i, p->length[i], length[i]);
  }
}

/* A gradient of weights in the midst waits until the fusion is done. */
START_TEST(weights_gradients_wait)
{
  struct plan plan, *p = &plan;
  begin(p);
  product(p, 3, 4, 9, 0);
  product(p, 10, 3, 4, 1); /* t10 = t3^T t4 */
  copy(p, 5, 3);
  product(p, 6, 5, 11, 0);
  find(p);
  expect(p, (int[]){0, 2, 3, 1}, (int[]){3, 1, 1, 1});
}
END_TEST

/* What a skipped call reads may not be written before it. */
START_TEST(what_is_skipped_keeps_its_inputs)
{
  struct plan plan, *p = &plan;
  begin(p);
  product(p, 3, 4, 9, 0);
  copy(p, 5, 3);
  product(p, 10, 4, 5, 1); /* reads t4 */
  copy(p, 4, 5);           /* writes it */
  find(p);
  expect(p, (int[]){0, 1, 2, 3}, (int[]){2, 1, 1, 1});
}
END_TEST

/* A right factor is needed whole: its maker is not a link of the same fusion. Columns side by side do not meet. */
START_TEST(whole_factors_and_columns)
{
  struct plan plan, *p = &plan;
  begin(p);
  product(p, 1, 4, 9, 0); /* columns 0-31 of t0 */
  copy(p, 2, 5);          /* 32-63: beside it */
  copy(p, 6, 0);          /* both: row by row */
  product(p, 7, 6, 3, 0); /* t3 [ROWS, 64]: not written by the fusion, may be read whole */
  copy(p, 8, 7);
  product(p, 3, 8, 8, 0); /* reads t8 whole */
  find(p);
  expect(p, (int[]){0, 1, 2, 3, 4, 5}, (int[]){5, 1, 1, 1, 1, 1});
}
END_TEST

/* Without a product, of few rows, across a step of the host, with a part of a tensor's rows, or with columns for
   rows: none. */
START_TEST(no_chains)
{
  struct plan plan, *p = &plan;
  begin(p);
  copy(p, 3, 4);
  copy(p, 5, 3);
  product(p, 10, 9, 11, 0); /* 64 rows */
  copy(p, 11, 10);
  p->f[p->calls] = (struct footprint){.barrier = 1};
  p->link[p->calls++] = (struct link){OP_COUNT, NULL};
  p->tensor[8].base = &p->tensor[7]; /* its upper rows */
  p->tensor[8].rows = ROWS / 2;
  copy(p, 8, 8);
  product(p, 8, 8, 9, 0);
  p->tensor[6].cols = ROWS; /* square */
  product(p, 5, 6, 3, 1);
  copy(p, 4, 5);
  find(p);
  for (int i = 0; i < p->calls; i++) ck_assert(p->order[i] == i && p->length[i] == 1);
}
END_TEST

/* A product whose factor is not a power of two, whose last bits depend on where rows are cut; a row of a square matrix,
   whose numbers are no rows. */
START_TEST(no_links)
{
  struct plan plan, *p = &plan;
  begin(p);
  p->tensor[6].cols = ROWS;
  product(p, 3, 4, 9, 0);
  p->args[0].matmul.alpha = 0.37;
  product(p, 5, 4, 9, 0);
  p->tensor[7].rows = 1; /* a row of the square: its numbers are no rows */
  p->tensor[7].cols = ROWS;
  p->tensor[7].base = T(6);
  add(p, OP_rope,
      &(union op_args){.rope = {.y = T(5), .x = T(5), .position = T(7), .table = T(9), .dim = 64}});
  find(p);
  for (int i = 0; i < p->calls; i++) ck_assert(p->order[i] == i && p->length[i] == 1);
}
END_TEST

/* Whatever is recorded: a permutation, no call before what it depends on, and in a fusion no call that needs another
   row of what the fusion makes. */
START_TEST(nothing_overtakes_what_it_needs)
{
  struct plan plan, *p = &plan;
  begin(p);
  struct draw draw = {11, STREAM_TEST, (uint64_t)_i};
  uint64_t at = 0;
#define PICK(n) ((int)(draw_uniform(draw, at++) * (n)))
  while (p->calls < CALLS) {
    int kind = PICK(8), c = PICK(9), a = PICK(9), b = PICK(TENSORS);
    if (p->tensor[c].cols != p->tensor[a].cols) continue;
    if (kind < 4)
      copy(p, c, a);
    else if (kind == 7)
      product(p, 9 + PICK(3), a, c, 1);
    else
      product(p, c, a, b, 0);
  }
  find(p);
  int place[CALLS], seen[CALLS] = {0}, fusions = 0;
  for (int i = 0; i < CALLS; i++) place[p->order[i]] = i, seen[p->order[i]]++;
  for (int i = 0; i < CALLS; i++) ck_assert_int_eq(seen[i], 1);
  for (int i = 0; i < CALLS; i++)
    for (int k = 0; k < i; k++)
      if (footprints_meet(&p->f[i], &p->f[k])) ck_assert_msg(place[k] < place[i], "%d overtakes %d", i, k);
  for (int i = 0; i < CALLS; i += p->length[i]) {
    fusions += p->length[i] > 1;
    for (int x = i; x < i + p->length[i]; x++)
      for (int y = i; y < x; y++) {
        const struct footprint *f = &p->f[p->order[x]], *g = &p->f[p->order[y]];
        for (int m = 0; m < f->count; m++)
          for (int n = 0; n < g->count; n++)
            ck_assert(!accesses_meet(&f->access[m], &g->access[n]) ||
                      (f->access[m].by_rows && g->access[n].by_rows));
      }
  }
  if (_i == 0) ck_assert_int_gt(fusions, 0);
}
END_TEST

/* --- bits --------------------------------------------------------------------------------------------------- */

static void fill(const struct tensor *t, uint64_t key)
{
  for (long i = 0; i < t->rows * t->cols; i++)
    REALS(t)[i] = (real)draw_normal((struct draw){7, STREAM_TEST, key}, (uint64_t)i);
}

enum { LAYER = 9 };

/* Something like a layer on `rows` rows of `width`, with a part of it on columns; layer_fill gives it values. */
struct layer {
  struct device *device;
  struct tensor *x, *y, *rstd, *h, *a, *dh, *gain, *bias, *up, *down, *position, *table, *eps;
  struct tensor left, right;
  union op_args args[LAYER];
  struct link link[LAYER];
};

static struct layer *layer_new(const char *level, int threads, long rows, long width, long inner)
{
  struct layer *l = memory_new(1, sizeof *l);
  ck_assert_int_eq(device_open(&l->device, "cpu", threads, NULL), STATUS_OK);
  ops_cpu_override_by(&l->device->ops, level);
#define NEW(name, r, c) l->name = tensor_new(l->device, TENSOR_REAL, r, c, #name)
  NEW(x, rows, width);
  NEW(y, rows, width);
  NEW(rstd, rows, 1);
  NEW(h, rows, 2 * inner);
  NEW(a, rows, inner);
  NEW(dh, rows, 2 * inner);
  NEW(gain, 1, width);
  NEW(bias, 1, width);
  NEW(up, inner, width);
  NEW(down, inner, width);
  NEW(table, 32, width);
  NEW(eps, 1, 1);
#undef NEW
  l->position = tensor_new(l->device, TENSOR_INT, 1, rows, "position");
  l->left = l->right = *l->h;
  l->left.cols = l->right.cols = inner;
  l->right.data = REALS(l->h) + inner;
  int n = 0;
#define LINK(op, ...) \
  l->args[n] = (union op_args){.op = {__VA_ARGS__}}, l->link[n] = (struct link){OP_##op, &l->args[n]}, n++
  LINK(rmsnorm_forward, .y = l->y, .rstd = l->rstd, .x = l->x, .gain = l->gain, .group = width,
       .eps = l->eps);
  LINK(rope, .y = l->y, .x = l->y, .position = l->position, .table = l->table, .dim = width, .sign = 1);
  LINK(matmul, .c = &l->left, .a = l->y, .b = l->up, .tb = 1, .alpha = 1);
  LINK(matmul, .c = &l->right, .a = l->y, .b = l->up, .tb = 1, .alpha = 0.5);
  LINK(swiglu_forward, .y = l->a, .x = l->h);
  LINK(matmul, .c = l->x, .a = l->a, .b = l->down, .d = l->y, .alpha = 1);
  LINK(add_bias, .y = l->x, .b = l->bias);
  LINK(axpby, .y = l->x, .x = l->y, .alpha = 0.25, .beta = 1);
  LINK(swiglu_backward, .dx = l->dh, .dy = l->a, .x = l->h);
#undef LINK
  ck_assert_int_eq(n, LAYER);
  return l;
}

static struct layer *layer_fill(struct layer *l)
{
  struct tensor *all[] = {l->x, l->y, l->rstd, l->h, l->a, l->dh, l->gain, l->bias, l->up, l->down, l->table};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) fill(all[i], i);
  REALS(l->eps)[0] = (real)1e-6;
  for (long i = 0; i < l->position->cols; i++) INTS(l->position)[i] = (int)(i * 7 % 32);
  return l;
}

static void layer_free(struct layer *l)
{
  struct tensor *all[] = {l->x,    l->y,  l->rstd, l->h,        l->a,     l->dh, l->gain,
                          l->bias, l->up, l->down, l->position, l->table, l->eps};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_free(l->device, all[i]);
  device_close(l->device);
  memory_free(l);
}

static void same(const struct tensor *a, const struct tensor *b, const char *what)
{
  ck_assert_msg(!memcmp(a->data, b->data, (size_t)(a->rows * a->cols) * sizeof(real)), "%s differs", what);
}

/* Every length of pieces, on one thread and on three, at each level of kernels; widths around those of the kernels'
   tiles, and products that pack their factor and that do not. */
START_TEST(a_chain_gives_the_bits_of_its_calls)
{
  static const long shape[][3] = {{128, 64, 176}, {300, 64, 64}, {129, 6, 7}, {261, 258, 34}, {150, 16, 520}};
  static const long pieces[] = {8, 64, 104, 1000};
  const long *n = shape[_i % 5];
  const int threads = _i / 5 ? 3 : 1;
  for (int level = 0; ops_cpu_level_at(level); level++) {
    struct layer *one = layer_fill(layer_new(ops_cpu_level_at(level), threads, n[0], n[1], n[2]));
    for (int i = 0; i < LAYER; i++) op_run(one->device, one->link[i].op, one->link[i].args);
    for (int k = 0; k < 4; k++) {
      struct layer *two = layer_fill(layer_new(ops_cpu_level_at(level), threads, n[0], n[1], n[2]));
      size_t bytes = fusion_scratch(two->device, two->link, LAYER);
      ck_assert_uint_gt(bytes, 0);
      device_wants_scratch(two->device, bytes, bytes);
      device_settle_scratch(two->device);
      fusion_run(two->device, two->link, LAYER, pieces[k]);
      ck_assert_int_eq(two->device->undeclared, 0);
      same(one->x, two->x, "x");
      same(one->y, two->y, "y");
      same(one->rstd, two->rstd, "rstd");
      same(one->h, two->h, "h");
      same(one->a, two->a, "a");
      same(one->dh, two->dh, "dh");
      layer_free(two);
    }
    layer_free(one);
  }
}
END_TEST

START_TEST(as_many_pieces_for_each_thread)
{
  static const struct {
    int threads;
    long rows, width, piece;
  } cases[] = {{1, 512, 64, 0},   {1, 2048, 256, 128}, {2, 512, 64, 128},
               {3, 512, 64, 88},  {4, 2048, 256, 128}, {6, 2048, 256, 120},
               {16, 512, 64, 32}, {2, 300, 64, 80},    {1, 16384, 64, 128}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct layer *l = layer_new(ops_cpu_level_at(0), cases[i].threads, cases[i].rows, cases[i].width, 176);
    ck_assert_int_eq(fusion_piece(l->device, l->link, LAYER), cases[i].piece);
    layer_free(l);
  }
}
END_TEST

/* --- a program with fusions and without ---------------------------------------------------------------------- */

enum { WIDTH = 48, PARAMS = 8 };

/* Two layers without attention, with every buffer that the planner may give to another; gradients into `to`. */
static void run_program(int threads, int fusions, real *to, size_t *bytes)
{
  struct device *device;
  struct tensor *param[PARAMS];
  ck_assert_int_eq(device_open(&device, "isolated", threads, NULL), STATUS_OK);
  if (!fusions) device->ops.shared[OP_matmul] = NULL;
  real *values = memory_new(2 * WIDTH * WIDTH, sizeof *values);
  for (int i = 0; i < PARAMS; i++) {
    struct tensor t = tensor_of(values, i % 4 == 3 ? WIDTH : i % 4 == 0 ? 1 : 2 * WIDTH, WIDTH);
    fill(&t, (uint64_t)i);
    for (long k = 0; k < t.rows * t.cols; k++) values[k] /= 4;
    param[i] = tensor_new(device, TENSOR_REAL, t.rows, t.cols, "param");
    param[i]->grad = tensor_new(device, TENSOR_REAL, t.rows, t.cols, "gradient");
    device->upload(device, param[i]->data, values, (size_t)(t.rows * t.cols) * sizeof(real));
  }
  struct program *p = program_new(device);
  struct tensor *tokens = program_input(p, TENSOR_INT, 1, ROWS, "tokens");
  struct tensor *weight = program_input(p, TENSOR_REAL, 1, ROWS, "weight");
  int token[ROWS];
  real even[ROWS];
  for (int i = 0; i < ROWS; i++) token[i] = i * 5 % WIDTH, even[i] = (real)1 / ROWS;
  device->upload(device, tokens->data, token, sizeof token);
  device->upload(device, weight->data, even, sizeof even);
  struct tensor *eps = program_reals(p, 1, 1, (double[]){1e-6}, "eps"), *x = op_embed(p, tokens, param[3]);
  for (int i = 0; i < PARAMS; i += 4) {
    struct tensor *y = op_rmsnorm(p, x, param[i], WIDTH, eps);
    struct tensor *a = op_swiglu(p, op_linear(p, y, param[i + 1], NULL, NULL));
    x = op_linear(p, a, param[i + 3], NULL, x);
    y = op_rmsnorm(p, x, NULL, WIDTH, eps);
    x = op_add(p, x, op_swiglu(p, op_linear(p, y, param[i + 2], NULL, NULL)));
  }
  struct tensor *loss = op_cross_entropy(p, op_linear(p, x, param[3], NULL, NULL), tokens, weight,
                                         program_reals(p, 1, 1, (double[]){0}, "none"), NULL);
  program_backward(p, loss);
  program_plan(p);
  *bytes = program_bytes(p);
  for (int i = 0; i < 2; i++) program_run(p);
  ck_assert_int_eq(device->undeclared, 0);
  for (int i = 0; i < PARAMS; i++) {
    const long count = param[i]->rows * param[i]->cols;
    device->fetch(device, to, param[i]->grad->data, (size_t)count * sizeof(real));
    to += count;
    tensor_free(device, param[i]->grad);
    tensor_free(device, param[i]);
  }
  program_free(p);
  device_close(device);
  memory_free(values);
}

START_TEST(a_program_with_chains_gives_the_same_bits)
{
  enum { ALL = 2 * (1 + 2 + 2 + 1) * WIDTH * WIDTH };
  static real without[ALL], with[ALL];
  size_t alone, fused;
  run_program(1, 0, without, &alone);
  double sum = 0;
  for (int i = 0; i < ALL; i++) sum += (double)(without[i] * without[i]);
  ck_assert(sum > 0);
  for (int threads = 1; threads <= 4; threads++) {
    memset(with, 0, sizeof with);
    run_program(threads, 1, with, &fused);
    ck_assert_msg(!memcmp(with, without, sizeof with), "with %d threads", threads);
    ck_assert_int_eq(fused > alone,
                     threads > 1); /* fusions keep their memory longer; here one thread has none */
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("fusions");
  TCase *t = tcase_create("fusions");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, weights_gradients_wait);
  tcase_add_test(t, what_is_skipped_keeps_its_inputs);
  tcase_add_test(t, whole_factors_and_columns);
  tcase_add_test(t, no_chains);
  tcase_add_test(t, no_links);
  tcase_add_loop_test(t, nothing_overtakes_what_it_needs, 0, 200);
  tcase_add_loop_test(t, a_chain_gives_the_bits_of_its_calls, 0, 10);
  tcase_add_test(t, as_many_pieces_for_each_thread);
  tcase_add_test(t, a_program_with_chains_gives_the_same_bits);
  suite_add_tcase(suite, t);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
