/* ring.c - attention whose keys and values go round ranks, as one of them: against the same attention whole, which
   every rank computes, too. The maxima have its bits; o, entropies and gradients are its own to rounding, in double
   precision to 1e-12. And the cut of a sequence: each rank has the same number of pairs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/random.h"
#include "model/model.h"
#include "numerics/ranks.h"

#ifdef MAXLOGIT_DOUBLE
static const double allowed = 1e-12;
#else
static const double allowed = 3e-5;
#endif
static const struct comm *all;
static int number; /* of the case */

/* Masks under which many rows see no key, or none of their own rank; the second as MagiAttention's (arXiv 2505.13211):
   slices of rows, each with its range of keys, before or behind it, that overlap. */
enum { NOTHING = 10, SLICES };

/* document: length of each; cap as in attention_forward; odd: what a key has */
static const struct setup {
  long batch, length, heads, groups, dim, value, mask, document, cap;
  double odd;
} setups[] = {
  {1, 8, 1, 1, 2, 1, MASK_CAUSAL, 0, 0, 0},     {2, 40, 4, 2, 8, 8, MASK_CAUSAL, 0, 0, 0},
  {3, 64, 2, 1, 16, 6, MASK_CAUSAL, 23, 1, 0},  {1, 264, 2, 2, 12, 20, MASK_WINDOW, 0, 0, 0},
  {2, 72, 3, 3, 8, 8, MASK_WINDOW, 17, 2, 0},   {2, 56, 2, 2, 8, 8, MASK_PREFIX, 31, 0, 0},
  {1, 48, 4, 1, 8, 8, MASK_FULL, 0, 1, 0},      {2, 40, 2, 2, 8, 8, MASK_FULL, 13, 0, 0},
  {1, 1160, 1, 1, 8, 8, MASK_CAUSAL, 0, 0, 0},  {2, 32, 2, 2, 8, 8, NOTHING, 0, 0, 0},
  {2, 48, 2, 1, 8, 8, MASK_CAUSAL, 19, 0, NAN}, {2, 48, 2, 1, 8, 8, MASK_CAUSAL, 0, 0, INFINITY},
  {2, 64, 8, 8, 8, 8, SLICES, 0, 0, 0},         {1, 64, 8, 4, 16, 8, SLICES, 0, 0, 0},
};

static void must(int holds, const char *what, double got, double want)
{
  if (holds) return;
  printf("rank %d of %d, case %d: %s is %.17g, not %.17g\n", all->rank, all->ranks, number, what, got, want);
  exit(1);
}

static struct row_range range_of(const struct setup *s, long t)
{
  const struct model_options o = {.mask = s->mask, .window = 11, .prefix = 9};
  const long from = s->document ? t / s->document * s->document : 0;
  const long to = s->document && from + s->document < s->length ? from + s->document : s->length;
  static const struct row_range slices[] = {{0, 24, 0}, {16, 40, 0}, {0, 0, 0}, {8, 64, 0}, {56, 64, 0}};
  if (s->mask == SLICES) return slices[t / 7 % 5];
  if (s->mask == NOTHING) return t % 3 ? (struct row_range){0, 0, 0} : (struct row_range){0, (int)(t / 4), 0};
  return model_row_range(&o, t, from, to);
}

/* --- one attention, forward and backward, over the rows that a cut has ------------------------------------------- */

enum { Q, K, V, O, THINGS };
struct made {
  struct zigzag cut;
  long rows, width[THINGS];
  real *of[THINGS], *grad[THINGS]; /* [batch * rows, width]; of O no gradient */
  real *stats;                     /* [heads, 4] */
};

static real value(const struct setup *s, int thing, long row, long c, long width)
{
  if (s->odd != 0 && thing == K && row == 5 && c == 1) return (real)s->odd;
  return (real)(1.5 *
                draw_normal((struct draw){5, STREAM_TEST, (uint64_t)thing}, (uint64_t)(row * width + c)));
}

static struct tensor *leaf(struct device *d, const struct setup *s, struct made *m, int thing)
{
  const long n = s->batch * m->rows, width = m->width[thing];
  for (long i = 0; i < n; i++)
    for (long c = 0; c < width; c++)
      m->of[thing][i * width + c] =
        value(s, thing, i / m->rows * s->length + zigzag_position(&m->cut, i % m->rows), c, width);
  struct tensor *t = tensor_new(d, TENSOR_REAL, n, width, "leaf");
  t->grad = tensor_new(d, TENSOR_REAL, n, width, "its gradient");
  d->upload(d, t->data, m->of[thing], (size_t)(n * width) * sizeof(real));
  memset(m->grad[thing], 0, (size_t)(n * width) * sizeof(real));
  d->upload(d, t->grad->data, m->grad[thing], (size_t)(n * width) * sizeof(real));
  return t;
}

static void put_ranges(struct program *p, const struct setup *s, const struct made *m, int stage,
                       struct ring_stage *to)
{
  const long n = s->batch * m->rows;
  int *host = memory_new(2 * (size_t)n, sizeof *host);
  const struct model_program cut = {.cut = m->cut};
  for (long i = 0; i < n; i++) {
    struct row_range r = range_of(s, zigzag_position(&m->cut, i % m->rows));
    if (s->mask == MASK_WINDOW) r.start = r.window;
    r = model_stage_range(&cut, stage, r);
    host[i] = r.start, host[n + i] = r.end;
  }
  to->start = program_ints(p, n, 1, host, "start");
  to->end = program_ints(p, n, 1, host + n, "end");
  memory_free(host);
}

static void make(struct device *d, const struct setup *s, struct zigzag cut, struct made *m)
{
  const long heads = s->heads, groups = s->groups;
  *m = (struct made){
    cut, zigzag_rows(&cut), {heads * s->dim, groups * s->dim, groups * s->value, heads * s->value}, {0}, {0},
    NULL};
  for (int i = 0; i < THINGS; i++) {
    m->of[i] = memory_new((size_t)(s->batch * m->rows * m->width[i]), sizeof(real));
    m->grad[i] = memory_new((size_t)(s->batch * m->rows * m->width[i]), sizeof(real));
  }
  m->stats = memory_new(4 * (size_t)heads, sizeof(real));
  struct tensor *q = leaf(d, s, m, Q), *k = leaf(d, s, m, K), *v = leaf(d, s, m, V), *stats, *o;
  struct program *p = program_new(d);
  struct tensor *cap = program_reals(p, 1, 1, &(double){2}, "cap"),
                *eps = program_reals(p, 1, 1, &(double){1e-3}, "eps");
  struct attention_spec spec = {
    .score = {s->batch, heads, groups, 1 / sqrt((double)s->dim), s->cap, s->cap ? cap : NULL, 0}};
  struct ring_stage *stage = memory_new((size_t)cut.ranks, sizeof *stage);
  for (int i = 0; i < cut.ranks; i++) put_ranges(p, s, m, i, &stage[i]);
  if (cut.ranks == 1)
    o = op_attention(p, q, k, v, stage->start, stage->end, &spec, &stats);
  else
    o = op_attention_ring(p, q, k, v, stage, &spec, &stats, NULL, NULL);
  program_keep(p, o);
  program_backward(p, op_rmsnorm(p, o, NULL, o->cols, eps)); /* some gradient, of each row by itself */
  program_plan(p);
  program_run(p);
  d->download(d, m->of[O], o->data, (size_t)(o->rows * o->cols) * sizeof(real));
  d->download(d, m->stats, stats->data, 4 * (size_t)heads * sizeof(real));
  struct tensor *micro_batches[] = {q, k, v};
  for (int i = 0; i < 3; i++) {
    d->download(d, m->grad[i], micro_batches[i]->grad->data,
                (size_t)(micro_batches[i]->rows * m->width[i]) * sizeof(real));
    tensor_free(d, micro_batches[i]->grad);
    tensor_free(d, micro_batches[i]);
  }
  program_free(p);
  memory_free(stage);
}

static void drop(struct made *m)
{
  for (int i = 0; i < THINGS; i++) memory_free(m->of[i]), memory_free(m->grad[i]);
  memory_free(m->stats);
}

/* --- the ring against it --------------------------------------------------------------------------------------- */

static void compare(const char *what, const struct setup *s, const struct made *part,
                    const struct made *whole, const real *got, const real *want, long width)
{
  double size = 0;
  for (long i = 0; i < s->batch * s->length * width; i++) size = fmax(size, fabs((double)want[i]));
  for (long i = 0; i < s->batch * part->rows; i++)
    for (long c = 0; c < width; c++) {
      const long row = i / part->rows * whole->rows + zigzag_position(&part->cut, i % part->rows);
      const double x = (double)got[i * width + c], y = (double)want[row * width + c];
      must(fabs(x - y) <= allowed * size || (isnan(x) && isnan(y)) || isnan(size), what, x, y);
    }
}

static void compare_stats(const struct setup *s, const struct made *part, const struct made *whole)
{
  const long n = 4 * s->heads;
  real *of = memory_new((size_t)(n * all->ranks), sizeof *of);
  comm_gather(all, part->stats, of, (size_t)n * sizeof *of);
  for (long i = 0; i < n; i++) {
    double largest = (double)of[i], mean = 0, want = (double)whole->stats[i];
    for (int r = 0; r < all->ranks; r++) {
      const double x = (double)of[r * n + i];
      if (isnan(x) || x > largest) largest = x;
      mean += x / all->ranks;
    }
    if (i % 4 < 3)
      must(largest == want || (isnan(largest) && isnan(want)), "a maximum", largest, want);
    else
      must(fabs(mean - want) <= allowed * (1 + want) || (isnan(mean) && isnan(want)), "an entropy", mean,
           want);
  }
  memory_free(of);
}

static void check_ring(struct device *alone, struct device *ring, const struct setup *s)
{
  struct made whole, part;
  make(alone, s, (struct zigzag){s->length, 0, 1}, &whole);
  make(ring, s, (struct zigzag){s->length, all->rank, all->ranks}, &part);
  compare_stats(s, &part, &whole);
  if (s->odd == 0) { /* what is not finite spreads over a strip of rows */
    static const char *const gradients[] = {"dq", "dk", "dv"};
    compare("o", s, &part, &whole, part.of[O], whole.of[O], whole.width[O]);
    for (int i = 0; i < 3; i++)
      compare(gradients[i], s, &part, &whole, part.grad[i], whole.grad[i], whole.width[i]);
  }
  drop(&whole);
  drop(&part);
}

/* --- the cut --------------------------------------------------------------------------------------------------- */

/* Every position is somebody's, in order; of what it sees every rank has its part; under a causal mask all ranks have
   the same number of pairs, and in every stage but the first that of two chunks with one. */
static void check_cut(long length, int ranks)
{
  long *times = memory_new((size_t)length, sizeof *times), causal = length * (length + 1) / 2;
  for (int rank = 0; rank < ranks; rank++) {
    const struct model_program p = {.cut = {length, rank, ranks}};
    long pairs = 0;
    for (int stage = 0; stage < ranks; stage++) {
      const struct zigzag there = {length, (rank + ranks - stage) % ranks, ranks};
      long here = 0, chunk = ranks > 1 ? length / (2 * ranks) : 0;
      for (long row = 0; row < zigzag_rows(&p.cut); row++) {
        const long t = zigzag_position(&p.cut, row);
        const struct row_range r =
          model_stage_range(&p, stage, (struct row_range){(int)(t / 3), (int)t + 1, 0});
        for (int j = r.start; j < r.end; j++) {
          const long u = zigzag_position(&there, j);
          must(t / 3 <= u && u <= t, "a key", (double)u, (double)t);
        }
        times[t] += r.end - r.start;
        here += r.end - r.window;
      }
      pairs += here;
      must(!stage || here == 2 * chunk * chunk, "a stage's pairs", (double)here, (double)(2 * chunk * chunk));
    }
    must(pairs * ranks == causal, "a rank's pairs", (double)pairs, (double)causal / ranks);
  }
  for (long t = 0; t < length; t++)
    must(times[t] == t + 1 - t / 3, "keys of a row", (double)times[t], (double)(t + 1 - t / 3));
  memory_free(times);
}

int main(int argc, char **argv)
{
  struct error e = {0};
  struct device *alone, *ring;
  all = comm_world(&e);
  if (!all || device_open(&alone, "cpu", 1, &e) || device_open(&ring, argc > 1 ? argv[1] : "cpu", 1, &e)) {
    fprintf(stderr, "%s\n", e.text);
    return 1;
  }
  device_set_ranks(ring, RANKS_CONTEXT, all);
  for (size_t i = 0; i < sizeof setups / sizeof *setups; i++, number++) check_ring(alone, ring, &setups[i]);
  for (int ranks = 1; ranks <= 8; ranks *= 2)
    for (long length = 2 * ranks; length <= 96; length += 2 * ranks) check_cut(length, ranks);
  device_close(ring);
  device_close(alone);
  return comm_end(0, &e);
}
