#include "run/batches.h"

void host_batch_init(struct host_batch *h, struct arena *arena, long rows, long context)
{
  size_t n = (size_t)(rows * context);
  *h = (struct host_batch){.rows = rows,
                           .context = context,
                           .batch = {rows, context,
                                     arena_get(arena, (size_t)(rows * (context + 1)), sizeof(int)),
                                     arena_get(arena, n, sizeof(float)), arena_get(arena, n, sizeof(int))},
                           .tokens = arena_get(arena, n, sizeof(int)),
                           .targets = arena_get(arena, n, sizeof(int)),
                           .position = arena_get(arena, n, sizeof(int)),
                           .start = arena_get(arena, n, sizeof(int)),
                           .weight = arena_get(arena, n, sizeof(real))};
}

double host_batch_draw(struct host_batch *h, const struct data *data, enum data_split split, uint64_t seed,
                       uint64_t index)
{
  long n = h->rows * h->context;
  double count = 0;
  for (long i = 0; i < n; i++) {
    h->batch.mask[i] = 1;
    h->batch.document[i] = 0;
  }
  data->source->fill(data, split, seed, index, &h->batch);
  for (long i = 0; i < n; i++) count += h->batch.mask[i];
  for (long b = 0; b < h->rows; b++)
    for (long c = 0, start = 0; c < h->context; c++) {
      long at = b * h->context + c;
      if (c && h->batch.document[at] != h->batch.document[at - 1]) start = c;
      h->tokens[at] = h->batch.tokens[b * (h->context + 1) + c];
      h->targets[at] = h->batch.tokens[b * (h->context + 1) + c + 1];
      h->position[at] = (int)c;
      h->start[at] = (int)start;
      h->weight[at] = count > 0 ? (real)(h->batch.mask[at] / count) : 0;
    }
  return count;
}

void host_batch_feed(const struct host_batch *h, struct device *d, struct model_program *p, long part)
{
  long n = p->batch * p->context, from = part * n;
  d->upload(d, p->tokens->data, h->tokens + from, (size_t)n * sizeof(int));
  d->upload(d, p->targets->data, h->targets + from, (size_t)n * sizeof(int));
  d->upload(d, p->position->data, h->position + from, (size_t)n * sizeof(int));
  d->upload(d, p->start->data, h->start + from, (size_t)n * sizeof(int));
  d->upload(d, p->weight->data, h->weight + from, (size_t)n * sizeof(real));
}
