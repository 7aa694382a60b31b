#include "run/batches.h"

#include <string.h>

void host_batch_init(struct host_batch *h, struct arena *arena, const struct model_options *model, long rows)
{
  const long context = model->context, ahead = model->mtp;
  size_t n = (size_t)(rows * context), all = (size_t)(rows * (context + ahead));
  REQUIRE(ahead <= MAX_MODULES);
  *h = (struct host_batch){
    .rows = rows,
    .context = context,
    .ahead = ahead,
    .model = model,
    .batch = {rows, context + ahead, arena_get(arena, all + (size_t)rows, sizeof(int)),
              arena_get(arena, all, sizeof(float)), arena_get(arena, all, sizeof(int))},
    .tokens = arena_get(arena, n, sizeof(int)),
    .position = arena_get(arena, n, sizeof(int)),
    .start = arena_get(arena, n, sizeof(int)),
    .end = arena_get(arena, n, sizeof(int)),
    .window = arena_get(arena, n, sizeof(int)),
    .part = arena_get(arena, n, 3 * sizeof(int)),
  };
  for (long k = 0; k <= ahead; k++) {
    h->targets[k] = arena_get(arena, n, sizeof(int));
    h->weight[k] = arena_get(arena, n, sizeof(real));
  }
}

/* Targets of the head that looks k tokens further ahead than the main head. A target counts if it is in the same
   document and no row of the stack attends to it. Returns the number of targets that count. */
static double draw_targets(struct host_batch *h, long k)
{
  const struct batch *b = &h->batch;
  double count = 0;
  for (int pass = 0; pass < 2; pass++)
    for (long r = 0; r < h->rows; r++)
      for (long c = 0; c < h->context; c++) {
        long at = r * h->context + c, from = r * b->context + c;
        int counted = b->document[from + k] == b->document[from] && h->end[at] <= c + 1;
        double counts = counted ? (double)b->mask[from + k] : 0;
        h->targets[k][at] = b->tokens[r * (b->context + 1) + c + 1 + k];
        if (pass == 0)
          count += counts;
        else
          h->weight[k][at] = count > 0 ? (real)(counts / count) : 0;
      }
  return count;
}

/* The end of the document at position `from` of a row. */
static long document_end(const struct host_batch *h, const int *document, long from)
{
  long to = from + 1;
  while (to < h->context && document[to] == document[from]) to++;
  return to;
}

/* Each target is replaced by one of the other symbols with probability `data->label_noise`. */
static void add_label_noise(struct host_batch *h, const struct data *data, struct draw draw)
{
  for (long i = 0; i < h->rows * h->context; i++) {
    const uint64_t at = 2 * (uint64_t)i;
    if (draw_uniform(draw, at) >= data->label_noise) continue;
    const int other = (int)draw_below(draw, at + 1, (uint64_t)data->vocab - 1);
    h->targets[0][i] = other + (other >= h->targets[0][i]);
  }
}

double host_batch_draw(struct host_batch *h, const struct data *data, enum data_split split, uint64_t seed,
                       uint64_t index)
{
  const struct batch *b = &h->batch;
  for (long i = 0; i < b->batch * b->context; i++) {
    b->mask[i] = 1;
    b->document[i] = 0;
  }
  data->source->fill(data, split, seed, index, &h->batch);
  for (long r = 0; r < h->rows; r++)
    for (long c = 0, start = 0, end = 0; c < h->context; c++) {
      long at = r * h->context + c;
      if (c == end) start = c, end = document_end(h, b->document + r * b->context, c);
      struct row_range range = model_row_range(h->model, c, start, end);
      h->tokens[at] = b->tokens[r * (b->context + 1) + c];
      h->position[at] = (int)c;
      h->start[at] = range.start;
      h->end[at] = range.end;
      h->window[at] = range.window;
    }
  for (long k = 1; k <= h->ahead; k++) draw_targets(h, k);
  const double count = draw_targets(h, 0);
  if (split == DATA_TRAIN && data->label_noise > 0)
    add_label_noise(h, data, (struct draw){.seed = seed, .stream = STREAM_LABELS, .step = index});
  return count;
}

/* Upload a micro-batch of per-position values: this rank's part of each sequence, if sequences are cut. */
static void feed(const struct host_batch *h, struct device *d, const struct model_program *p,
                 struct tensor *to, const void *all, size_t size, long part)
{
  const long length = p->cut.length, n = p->batch * p->context;
  const char *from = (const char *)all + (size_t)(part * p->batch * length) * size;
  for (long i = 0; p->cut.ranks > 1 && i < n; i++) {
    const long at = i / p->context * length + zigzag_position(&p->cut, i % p->context);
    memcpy((char *)h->part + (size_t)i * size, from + (size_t)at * size, size);
  }
  d->upload(d, to->data, p->cut.ranks > 1 ? h->part : from, (size_t)n * size);
}

static void upload_ranges(struct device *d, const struct key_ranges *to, const int *start, const int *end,
                          const int *window, long n)
{
  d->upload(d, to->start->data, start, (size_t)n * sizeof *start);
  if (to->end) d->upload(d, to->end->data, end, (size_t)n * sizeof *end);
  if (to->window) d->upload(d, to->window->data, window, (size_t)n * sizeof *window);
}

/* Upload the key ranges of the micro-batch's rows among the keys of the `stage`-th preceding rank. */
static void feed_ranges(const struct host_batch *h, struct device *d, const struct model_program *p,
                        int stage, long part)
{
  const long n = p->batch * p->context;
  int *ranges = h->part;
  const struct key_ranges to = model_stage(p, stage);
  if (p->cut.ranks == 1) {
    upload_ranges(d, &to, h->start + part * n, h->end + part * n, h->window + part * n, n);
    return;
  }
  for (long i = 0; i < n; i++) {
    const long at =
      (part * p->batch + i / p->context) * p->cut.length + zigzag_position(&p->cut, i % p->context);
    const struct row_range r =
      model_stage_range(p, stage, (struct row_range){h->start[at], h->end[at], h->window[at]});
    ranges[i] = r.start, ranges[n + i] = r.end, ranges[2 * n + i] = r.window;
  }
  upload_ranges(d, &to, ranges, ranges + n, ranges + 2 * n, n);
}

void host_batch_feed(const struct host_batch *h, struct device *d, struct model_program *p, long part)
{
  feed(h, d, p, p->tokens, h->tokens, sizeof(int), part);
  feed(h, d, p, p->targets, h->targets[0], sizeof(int), part);
  feed(h, d, p, p->position, h->position, sizeof(int), part);
  feed(h, d, p, p->weight, h->weight[0], sizeof(real), part);
  for (int s = 0; s < p->cut.ranks; s++) feed_ranges(h, d, p, s, part);
  for (long k = 0; k < h->ahead; k++) {
    feed(h, d, p, p->ahead[k].targets, h->targets[k + 1], sizeof(int), part);
    feed(h, d, p, p->ahead[k].weight, h->weight[k + 1], sizeof(real), part);
  }
}
