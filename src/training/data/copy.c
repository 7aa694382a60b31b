/* copy.c - a random prefix, repeated to the end of the row; only the repeats count
   The prefix has context/4 to context/2 symbols. Where its symbols are all different (copy.distinct) each
   counted target follows from the row with certainty, and the floor is 0; where they may recur, it is a
   little above, and unknown. */
#include <math.h>
#include <stdio.h>
#include "base/memory.h"
#include "training/data.h"

struct copy_options {
  long symbols, distinct;
};

static const struct option_row rows[] = {
  INT_ROW(struct copy_options, symbols, "64", 2, 256, "symbols", "size of the vocabulary", 0),
  BOOL_ROW(struct copy_options, distinct, "0",
           "1: no repeated symbol in a prefix, so that the loss floor is exactly 0", 0),
  END_ROW};

static int init(struct data *data, const struct data_options *shared, const void *options, long context,
                uint64_t seed, struct error *e)
{
  (void)shared, (void)seed;
  const struct copy_options *o = options;
  if (context < 4)
    return error_set(e, STATUS_USAGE, "data=copy wants model.context of at least 4, not %ld", context);
  if (o->distinct && context / 2 > o->symbols)
    return error_set(e, STATUS_USAGE,
                     "copy.distinct: a prefix of up to %ld different symbols (half the context) "
                     "does not fit copy.symbols = %ld",
                     context / 2, o->symbols);
  struct copy_options *own = data->state = memory_new(1, sizeof *own);
  *own = *o;
  data->vocab = o->symbols;
  data->loss_floor = o->distinct ? 0 : NAN;
  data->has_mask = 1;
  snprintf(data->description, sizeof data->description, "copy task, %ld symbols", o->symbols);
  return STATUS_OK;
}

/* x[0, p) at random; distinct: the head of a shuffle. */
static void draw_prefix(const struct copy_options *o, struct draw draw, uint64_t at, int *x, long p)
{
  int deck[256];
  for (int i = 0; i < o->symbols; i++) deck[i] = i;
  for (long t = 0; t < p; t++) {
    long from = o->distinct ? t : 0;
    long pick = from + (long)draw_below(draw, at + (uint64_t)t, (uint64_t)(o->symbols - from));
    x[t] = deck[pick];
    if (o->distinct) deck[pick] = deck[t];
  }
}

static void fill(const struct data *data, enum data_split split, uint64_t seed, uint64_t index,
                 struct batch *out)
{
  struct draw draw = data_draw(split, seed, index);
  long T = out->context;
  for (long b = 0; b < out->batch; b++) {
    uint64_t at = (uint64_t)b << 32;
    long p = T / 4 + (long)draw_below(draw, at, (uint64_t)(T / 2 - T / 4 + 1));
    int *x = out->tokens + b * (T + 1);
    draw_prefix(data->state, draw, at + 1, x, p);
    for (long t = p; t <= T; t++) x[t] = x[t - p];
    for (long t = 0; t < p; t++) out->mask[b * T + t] = 0;
  }
}

static void release(struct data *data) { memory_free(data->state); }

const struct data_source data_source_copy = {
  .name = "copy",
  .help = "a random prefix, repeated to the end of the sequence; only the repeats count",
  .options = rows,
  .options_size = sizeof(struct copy_options),
  .init = init,
  .fill = fill,
  .free = release,
};
