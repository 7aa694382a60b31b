/* markov.c - a built-in, text-like source of exactly known entropy
   Symbol s has `branches` possible successors, drawn once with Zipf-like frequencies. One earlier symbol at a fixed
   distance determines which of them is likely:

     P(x[t] = next(s, j)) = p[(j + turn c) mod branches],    s = x[t-1], c = x[t-lag] mod classes,
     turn = floor(branches / classes),    p[r] proportional to (r+1)^-exponent

   Every context has the same probabilities in another order. So the entropy rate is exactly H = -sum p ln p, for any
   stationary distribution (of order `lag`, too large for power iteration). A model that only uses x[t-1] faces a
   mixture of `classes` orders and has a higher loss. An attention head that looks back by exactly lag - 1 gains the
   difference. A row, or a packed document, has no history: its first symbol is drawn by frequency and does not count,
   and the class before its start is 0. So H is the floor of every target that counts. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>
#include "base/elementary.h"
#include "base/memory.h"
#include "training/data.h"

enum { MAX_SYMBOLS = 65536, MAX_BRANCHES = 32, AT_ONCE = 32 };

struct markov_options {
  long symbols, branches, lag, classes, document, language;
  double exponent;
};

static const struct option_row rows[] = {
  INT_ROW(struct markov_options, symbols, "64", 2, MAX_SYMBOLS, "symbols", "size of the vocabulary", 0),
  INT_ROW(struct markov_options, branches, "8", 2, MAX_BRANCHES, "symbols", "possible successors per symbol",
          0),
  REAL_ROW(struct markov_options, exponent, "1.5", 0, 10, "1",
           "exponent of the successors' probabilities: the r-th has weight r^-exponent", 0),
  INT_ROW(struct markov_options, lag, "4", 1, 1024, "tokens",
          "distance of the earlier symbol on which the next one depends; 1: an ordinary Markov chain", 0),
  INT_ROW(struct markov_options, classes, "4", 1, MAX_BRANCHES, "1",
          "classes of the earlier symbol; 1: no dependency", 0),
  INT_ROW(struct markov_options, document, "32", 1, 1000000, "tokens",
          "mean length of a document, for data.packing=documents", 0),
  INT_ROW(struct markov_options, language, "1", 0, 2147483647, "1", "seed of the transition tables", 0),
  END_ROW};

struct chain {
  struct markov_options o;
  int packing;
  double *first;                  /* [symbols]: cumulated frequencies of a first symbol */
  double cumulated[MAX_BRANCHES]; /* of p */
  int *next;                      /* [symbols, branches] */
};

/* Hashed into data->content. More than FEW symbols have no tables in it: the options determine them. */
enum { FEW = 256 };
struct content {
  struct markov_options o;
  int packing;
  double first[FEW], cumulated[MAX_BRANCHES];
  unsigned char next[FEW][MAX_BRANCHES];
};

/* Cumulated p[r] ~ (r+1)^-exponent; the last is exactly 1. Returns the entropy. */
static double power_law(double *cumulated, long n, double exponent)
{
  double sum = 0, entropy = 0, so_far = 0;
  for (long r = 0; r < n; r++) sum += same_pow((double)r + 1, -exponent);
  for (long r = 0; r < n; r++) {
    double p = same_pow((double)r + 1, -exponent) / sum;
    entropy -= p > 0 ? p * same_log(p) : 0;
    cumulated[r] = so_far += p;
  }
  cumulated[n - 1] = 1;
  return entropy;
}

/* The number of entries that are not above `uniform`. Branchless for few, since branches would be unpredictable. */
static long pick(const double *cumulated, long n, double uniform)
{
  long i = 0;
  for (long half; n > FEW; n -= half) {
    half = n / 2;
    if (uniform >= cumulated[i + half - 1]) i += half;
  }
  for (long k = i, end = i + n; k < end; k++) i += uniform >= cumulated[k];
  return i;
}

/* Distinct successors for every symbol, frequent symbols more often. */
static void draw_successors(struct chain *c)
{
  uint64_t draws = 0;
  struct draw draw = {.seed = (uint64_t)c->o.language, .stream = STREAM_SOURCE};
  for (long s = 0; s < c->o.symbols; s++) {
    int *next = c->next + s * c->o.branches;
    for (long j = 0; j < c->o.branches;) {
      const int n = (int)pick(c->first, c->o.symbols, draw_uniform(draw, draws++));
      long k = 0;
      while (k < j && next[k] != n) k++;
      if (k == j) next[j++] = n;
    }
  }
}

static uint64_t hash(const struct chain *c)
{
  struct content *of = memory_new(1, sizeof *of);
  of->o = c->o, of->packing = c->packing;
  memcpy(of->cumulated, c->cumulated, sizeof of->cumulated);
  for (long s = 0; c->o.symbols <= FEW && s < c->o.symbols; s++) {
    of->first[s] = c->first[s];
    for (long j = 0; j < c->o.branches; j++) of->next[s][j] = (unsigned char)c->next[s * c->o.branches + j];
  }
  const uint64_t content = XXH3_64bits(of, sizeof *of);
  memory_free(of);
  return content;
}

static int init(struct data *data, const struct data_options *shared, const void *options, long context,
                uint64_t seed, struct error *e)
{
  (void)context, (void)seed;
  const struct markov_options *o = options;
  if (o->branches > o->symbols)
    return error_set(e, STATUS_USAGE, "markov.branches = %ld is more than markov.symbols = %ld", o->branches,
                     o->symbols);
  if (o->classes > o->branches)
    return error_set(e, STATUS_USAGE, "markov.classes = %ld is more than markov.branches = %ld", o->classes,
                     o->branches);
  struct chain *c = data->state = memory_new(1, sizeof *c);
  c->o = *o;
  c->packing = shared->packing == DATA_PACKING_DOCUMENTS;
  c->first = memory_new((size_t)o->symbols, sizeof *c->first);
  c->next = memory_new((size_t)(o->symbols * o->branches), sizeof *c->next);
  power_law(c->first, o->symbols, 1);
  data->loss_floor = power_law(c->cumulated, o->branches, o->exponent);
  draw_successors(c);
  data->vocab = o->symbols;
  data->has_mask = data->has_document = c->packing;
  data->content = hash(c);
  snprintf(data->description, sizeof data->description,
           "built-in chain, %ld symbols, lag %ld, entropy %.4f nat", o->symbols, o->lag, data->loss_floor);
  return STATUS_OK;
}

/* A document's length: 1 to 2 document - 1, the end of the row apart. */
static long document_length(const struct chain *c, double uniform)
{
  return 1 + (long)(uniform * (double)(2 * c->o.document - 1));
}

static int successor(const struct chain *c, const int *x, long t, long start, double uniform)
{
  long n = c->o.branches, class = t - c->o.lag >= start ? x[t - c->o.lag] % c->o.classes : 0;
  long turned = pick(c->cumulated, n, uniform) + n - n / c->o.classes * class;
  return c->next[x[t - 1] * n + turned % n];
}

static void fill_row(const struct chain *c, struct draw draw, const struct batch *out, long b)
{
  long T = out->context, start = 0;
  uint64_t at = (uint64_t)b << 32;
  long end = c->packing ? document_length(c, draw_uniform(draw, at + 1)) : T + 1;
  int *x = out->tokens + b * (T + 1), document = 0;
  double drawn[AT_ONCE];
  for (long t = 0; t <= T; t++) {
    if (t % AT_ONCE == 0)
      draw_uniforms(draw, at + 2 * (uint64_t)t, T + 1 - t < AT_ONCE ? T + 1 - t : AT_ONCE, drawn);
    const double uniform = drawn[t % AT_ONCE];
    if (t == end) {
      out->mask[b * T + t - 1] = 0;
      document++;
      start = t;
      end = t + document_length(c, draw_uniform(draw, at + 2 * (uint64_t)t + 1));
    }
    x[t] = t == start ? (int)pick(c->first, c->o.symbols, uniform) : successor(c, x, t, start, uniform);
    if (t < T) out->document[b * T + t] = document;
  }
}

static void fill(const struct data *data, enum data_split split, uint64_t seed, uint64_t index,
                 struct batch *out)
{
  for (long b = 0; b < out->batch; b++) fill_row(data->state, data_draw(split, seed, index), out, b);
}

static void release(struct data *data)
{
  struct chain *c = data->state;
  memory_free(c->first);
  memory_free(c->next);
  memory_free(c);
}

const struct data_source data_source_markov = {
  .name = "markov",
  .help = "built-in Markov source with one long-range dependency and exactly known entropy",
  .options = rows,
  .options_size = sizeof(struct markov_options),
  .init = init,
  .fill = fill,
  .free = release,
};
