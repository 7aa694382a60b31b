/* plan.c - the places of a program's temporaries in one block, and the calls that are fused or run at the same
   time */
#include <stdlib.h>
#include <string.h>
#include "base/thread.h"
#include "numerics/program_state.h"

enum { ALIGNMENT = 64 };

/* --- placement ------------------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
  const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return (x->tensor.first > y->tensor.first) - (x->tensor.first < y->tensor.first);
}

static int live_together(const struct tensor *a, const struct tensor *b)
{
  return a->first <= b->last && b->first <= a->last;
}

/* The smallest gap that fits, among the placed ones (in order of place) that live at the same time. */
static size_t best_place(struct node *const *placed, int count, const struct node *node)
{
  size_t end = 0, best = 0, best_gap = (size_t)-1;
  for (int i = 0; i < count; i++) {
    if (!live_together(&placed[i]->tensor, &node->tensor)) continue;
    if (placed[i]->place >= end + node->bytes && placed[i]->place - end < best_gap) {
      best = end;
      best_gap = placed[i]->place - end;
    }
    if (placed[i]->place + placed[i]->bytes > end) end = placed[i]->place + placed[i]->bytes;
  }
  return best_gap == (size_t)-1 ? end : best;
}

/* May temporaries share memory within a program? Not if all are small and several threads have their rows in their
   caches: a thread would then write where another thread's rows were, and fetch each line from its cache. */
enum { LITTLE = 1 << 24 };

static int used_again(const struct device *device, struct node *const *list, int count)
{
  size_t bytes = 0;
  for (int i = 0; i < count; i++) bytes += list[i]->bytes;
  return device->begin || pool_threads(device->pool) == 1 || bytes > LITTLE;
}

/* Largest first, each into the smallest gap between those that are live at the same time, or, unless memory is used
   `again`, one after another. Returns the bytes of the block. */
static size_t place_all(struct node **list, int count, int again)
{
  struct node **placed = memory_new((size_t)count + 1, sizeof *placed);
  size_t bytes = 0;
  qsort(list, (size_t)count, sizeof *list, by_size);
  for (int n = 0; n < count; n++) {
    int i = n;
    list[n]->place = again ? best_place(placed, n, list[n]) : bytes;
    if (list[n]->place + list[n]->bytes > bytes) bytes = list[n]->place + list[n]->bytes;
    for (; i > 0 && placed[i - 1]->place > list[n]->place; i--) placed[i] = placed[i - 1];
    placed[i] = list[n];
  }
  memory_free(placed);
  return bytes;
}

/* --- calls that may run at the same time ---------------------------------------------------------------- */

/* The tensors of all calls; those of neighbors are adjacent. */
struct accesses {
  struct footprint *of; /* [calls] */
  struct access *access;
};

static int access_call(const struct call *call, struct access *to)
{
  int count, n = 0;
  const struct op_field *field = op_fields(call->op, &count);
  for (int i = 0; !call->host && i < count && field[i].kind < FIELD_SIZE; i++) {
    const struct tensor *tensor = *op_tensor(&call->args, i);
    if (tensor)
      to[n++] = (struct access){tensor, op_field_is_written(field[i].kind), fusion_cuts(call->op, i)};
  }
  if (call->guard) to[n++] = (struct access){call->guard, 0, 0};
  return n;
}

enum { MOST_ACCESSES = sizeof(union op_args) / 8 + 1 };

static struct accesses accesses_of(const struct program *p)
{
  struct accesses a = {memory_new((size_t)p->calls + 1, sizeof *a.of),
                       memory_new((size_t)p->calls * MOST_ACCESSES + 1, sizeof *a.access)};
  struct access *next = a.access;
  for (int i = 0; i < p->calls; i++) {
    const struct call *c = &p->call[i];
    a.of[i] = (struct footprint){next, access_call(c, next), c->host || op_is_between_ranks(c->op)};
    next += a.of[i].count;
  }
  return a;
}

static void accesses_free(struct accesses *a)
{
  memory_free(a->of);
  memory_free(a->access);
}

/* Work of a call, about: operations, and numbers that are moved. */
static double cost_of(const struct call *call, const struct footprint *f)
{
  double cost = call->host ? 0 : op_flops(call->op, &call->args);
  for (int i = 0; i < f->count; i++)
    cost += 8 * (double)f->access[i].tensor->rows * (double)f->access[i].tensor->cols;
  return cost;
}

/* Calls of one level run on one thread each if none outweighs the rest. Otherwise they run one after another, each
   cut inside. Large products are always cut, by rows like the calls before them; small calls are not worth
   synchronizing threads. The choice does not change bits. */
enum { TOO_LITTLE = 1 << 14, PRODUCT_TO_CUT = 1 << 20 };

static int goes_apart(const struct program *p, int from, int count, double most, double all)
{
  int large = 1;
  for (int i = from; i < from + count && large; i++) {
    const struct call *call = &p->call[p->order[i]];
    large = call->op == OP_matmul && !call->host && op_flops(call->op, &call->args) >= PRODUCT_TO_CUT;
  }
  return count > 1 && most <= 0.6 * all && all >= TOO_LITTLE && !large;
}

static void add_group(struct program *p, int from, int count, const struct footprint *f)
{
  double most = 0, all = 0;
  for (int i = from; i < from + count; i++) {
    double cost = cost_of(&p->call[p->order[i]], &f[p->order[i]]);
    most = cost > most ? cost : most;
    all += cost;
  }
  if (count)
    p->group[p->groups++] = (struct group){from, count, 1, goes_apart(p, from, count, most, all), NULL, 0};
}

static void add_fusion(struct program *p, int from, int count)
{
  struct link *fusion = arena_get(p->arena, (size_t)count, sizeof *fusion);
  for (int i = 0; i < count; i++) {
    const struct call *call = &p->call[p->order[from + i]];
    fusion[i] = (struct link){call->op, &call->args};
  }
  const long piece = fusion_piece(p->device, fusion, count);
  p->group[p->groups++] = (struct group){from, count, 0, 0, fusion, piece};
}

/* Comparing all pairs of more calls than this would take longer than it saves: they keep their order. */
enum { MOST_COMPARED = 2000 };

/* Calls on one thread each, newton_schulz, which cuts itself, and calls of a fusion run on workers. In a fusion,
   calls with shared data need no scratch of their own. */
static void declare_scratch(struct program *p)
{
  size_t most = 0, apart = 0;
  struct device worker = *p->device;
  worker.is_worker = 1;
  for (int i = 0; i < p->groups; i++) {
    const struct group *g = &p->group[i];
    size_t shared = g->fusion ? fusion_scratch(p->device, g->fusion, g->count) : 0;
    if (shared > most) most = shared;
    for (int k = 0; k < g->count; k++) {
      const struct call *call = &p->call[p->order[g->from + k]];
      size_t bytes = call->host ? 0 : op_scratch_bytes(p->device, call->op, &call->args);
      if (bytes > most) most = bytes;
      if (call->host ||
          !(g->apart || call->op == OP_newton_schulz || (g->fusion && !p->device->ops.shared[call->op])))
        continue;
      bytes = op_scratch_bytes(&worker, call->op, &call->args);
      if (bytes > apart) apart = bytes;
    }
  }
  device_wants_scratch(p->device, most, apart);
}

/* The tensor is in use from one call to another. */
static void live(const struct tensor *t, int from, int to)
{
  if (!(t->flags & OWNED)) return;
  struct tensor *owner = owner_of(t);
  if (owner->flags & INPUT) return;
  if (owner->first < 0) owner->first = from;
  owner->last = to;
}

/* Make fusions adjacent, before memory is placed. Their tensors live from the first to the last call of the fusion,
   since pieces of rows reach its calls at different times. */
static void find_fusions(struct program *p)
{
  p->fusion = arena_get(p->arena, (size_t)p->calls + 1, sizeof *p->fusion);
  for (int i = 0; i < p->calls; i++) p->fusion[i] = 1;
  const int fast = p->device->ops.shared[OP_matmul] && !p->device->begin;
  if (!fast || !p->calls || p->calls > MOST_COMPARED) return;
  struct accesses a = accesses_of(p);
  struct link *link = memory_new((size_t)p->calls + 1, sizeof *link);
  int *order = memory_new((size_t)p->calls + 1, sizeof *order);
  struct call *call = memory_new((size_t)p->calls + 1, sizeof *call);
  for (int i = 0; i < p->calls; i++) {
    const struct call *c = &p->call[i];
    link[i] = (struct link){c->host || c->guard ? OP_COUNT : c->op, &c->args};
  }
  fusions_find(p->device, link, a.of, p->calls, order, p->fusion);
  memcpy(call, p->call, (size_t)p->calls * sizeof *call);
  for (int i = 0; i < p->nodes; i++) p->node[i]->tensor.first = p->node[i]->tensor.last = -1;
  for (int i = 0; i < p->calls; i++) p->call[i] = call[order[i]];
  for (int i = 0, n; i < p->calls; i += n) {
    n = p->fusion[i];
    for (int k = i; k < i + n; k++)
      for (int t = 0; t < a.of[order[k]].count; t++) live(a.of[order[k]].access[t].tensor, i, i + n - 1);
  }
  accesses_free(&a);
  memory_free(link);
  memory_free(order);
  memory_free(call);
}

static void find_levels(struct program *p)
{
  p->order = arena_get(p->arena, (size_t)p->calls + 1, sizeof *p->order);
  if (p->calls > MOST_COMPARED) {
    p->group = arena_get(p->arena, 1, sizeof *p->group);
    for (int i = 0; i < p->calls; i++) p->order[i] = i;
    p->group[p->groups++] = (struct group){0, p->calls, 0, 0, NULL, 0};
    return;
  }
  struct accesses a = accesses_of(p);
  struct footprint *f = memory_new((size_t)p->calls + 1, sizeof *f);
  int *level = memory_new((size_t)p->calls + 1, sizeof *level),
      *first = memory_new((size_t)p->calls + 1, sizeof *first);
  int n = 0, units = 0;
  for (int i = 0; i < p->calls; i += p->fusion[i]) {
    first[units] = i;
    f[units] = a.of[i];
    for (int k = 1; k < p->fusion[i]; k++) f[units].count += a.of[i + k].count;
    units++;
  }
  int levels = levels_find(f, units, level);
  p->group = arena_get(p->arena, (size_t)(levels + units) + 1, sizeof *p->group);
  for (int w = 0; w < levels; w++) {
    for (int u = 0; u < units; u++) {
      int from = n;
      if (level[u] != w || p->fusion[first[u]] == 1) continue;
      for (int k = 0; k < p->fusion[first[u]]; k++) p->order[n++] = first[u] + k;
      add_fusion(p, from, n - from);
    }
    int from = n;
    for (int u = 0; u < units; u++)
      if (level[u] == w && p->fusion[first[u]] == 1) p->order[n++] = first[u];
    add_group(p, from, n - from, a.of);
  }
  accesses_free(&a);
  memory_free(f);
  memory_free(level);
  memory_free(first);
}

void program_plan(struct program *p)
{
  REQUIRE(!p->planned);
  find_fusions(p);
  struct node **list = memory_new((size_t)p->nodes + 1, sizeof *list);
  int count = 0;
  for (int i = 0; i < p->nodes; i++) {
    struct tensor *t = &p->node[i]->tensor;
    if (t->base || t->flags & INPUT || t->first < 0) continue;
    if (t->flags & KEPT) t->last = p->calls;
    size_t bytes = (size_t)t->rows * (size_t)t->cols * element(t);
    p->node[i]->bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    list[count++] = p->node[i];
  }
  p->bytes = place_all(list, count, used_again(p->device, list, count));
  p->block = device_get(p->device, p->bytes);
  for (int i = 0; i < count; i++) list[i]->tensor.data = (char *)p->block + list[i]->place;
  for (int i = 0; i < p->nodes; i++) {
    struct tensor *t = &p->node[i]->tensor;
    if (t->base && t->base->data) t->data = (char *)t->base->data + (size_t)t->offset * element(t);
  }
  memory_free(list);
  find_levels(p);
  declare_scratch(p);
  if (p->device->begin) p->kept = arena_get(p->arena, (size_t)p->calls + 1, sizeof *p->kept);
  p->planned = 1;
}
