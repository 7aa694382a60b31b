/* recall.c - associative recall: key value key value ...; counted is the value of a key seen before
   Keys are the lower half of the symbols, values the upper half; each row draws its own pairing, and at most
   context/4 keys, so that they recur. A counted target follows from the row with certainty: the floor is 0. */
#include <stdio.h>
#include "base/memory.h"
#include "training/data.h"

struct recall_options {
  long symbols;
};

static const struct option_row rows[] = {INT_ROW(struct recall_options, symbols, "64", 4, 256, "symbols",
                                                 "size of the vocabulary, keys and values", 0),
                                         END_ROW};

static int init(struct data *data, const struct data_options *shared, const void *options, long context,
                uint64_t seed, struct error *e)
{
  (void)shared, (void)seed;
  const struct recall_options *o = options;
  if (context < 4)
    return error_set(e, STATUS_USAGE, "data=recall wants model.context of at least 4, not %ld", context);
  data->vocab = o->symbols / 2 * 2;
  data->loss_floor = 0;
  data->has_mask = 1;
  snprintf(data->description, sizeof data->description, "recall task, %ld keys and %ld values",
           o->symbols / 2, o->symbols / 2);
  return STATUS_OK;
}

static void fill_row(long keys, struct draw draw, const struct batch *out, long b)
{
  long T = out->context, used = T / 4 < keys ? T / 4 : keys;
  uint64_t at = (uint64_t)b << 32;
  int key[128], value[128], seen[128] = {0};
  for (int i = 0; i < keys; i++) key[i] = i;
  for (long i = 0; i < used; i++) { /* the head of a shuffle: the keys of the row, and their values */
    long pick = i + (long)draw_below(draw, at++, (uint64_t)(keys - i));
    int swap = key[i];
    key[i] = key[pick];
    key[pick] = swap;
    value[i] = (int)(keys + (long)draw_below(draw, at++, (uint64_t)keys));
  }
  int *x = out->tokens + b * (T + 1);
  float *mask = out->mask + b * T;
  for (long t = 0; t <= T; t += 2) {
    long i = (long)draw_below(draw, at++, (uint64_t)used);
    x[t] = key[i];
    if (t < T) {
      x[t + 1] = value[i];
      mask[t] = (float)seen[i];
    }
    if (t + 1 < T) mask[t + 1] = 0; /* the next key is unpredictable */
    seen[i] = 1;
  }
}

static void fill(const struct data *data, enum data_split split, uint64_t seed, uint64_t index,
                 struct batch *out)
{
  for (long b = 0; b < out->batch; b++) fill_row(data->vocab / 2, data_draw(split, seed, index), out, b);
}

static void release(struct data *data) { (void)data; }

const struct data_source data_source_recall = {
  .name = "recall",
  .help = "key-value recall: key value key value ...; only values of repeated keys count",
  .options = rows,
  .options_size = sizeof(struct recall_options),
  .init = init,
  .fill = fill,
  .free = release,
};
