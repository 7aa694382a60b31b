/* program.c - a static list of calls, its reverse, and the places of its temporaries in one block */
#include "numerics/program.h"
#include "base/thread.h"
#include "numerics/fusion.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum {            /* flags of tensors */
       OWNED = 1, /* by a program: the tensor is a struct node */
       INPUT = 2,
       FLOWS = 4, /* a gradient flows into it */
       KEPT = 8
};

enum { ALIGNMENT = 64 };

struct span {
  long from, to;
};

/* A tensor of the program. `written`: the columns that hold something, of a gradient; disjoint, in order. */
struct node {
  struct tensor tensor;
  struct span *written;
  int spans, room;
  size_t place, bytes;
};

/* Calls [from, from+count) of `order`; apart: each is one piece of work, all at the same time; fusion: they are one
   (fusion.h), of which so many rows are one piece of work. */
struct group {
  int from, count, apart;
  const struct link *fusion;
  long piece;
};

/* One operation, or a step of the host. */
struct call {
  enum op op;
  union op_args args;
  struct tensor *guard; /* NULL: always */
  host_step *host;
  void *context;
};
struct reverse {
  backward_step *step;
  void *context;
};

struct program {
  struct device *device;
  struct arena *arena;
  struct node **node;
  int nodes, node_room;
  struct call *call;
  int calls, call_room;
  struct reverse *reverse;
  int reverses, reverse_room;
  const struct tensor *loss;
  struct tensor *guard; /* of the calls that are being recorded */
  int host_steps;
  int *fusion; /* [calls]: how many from here on are one */
  int *order;  /* calls level by level */
  struct group *group;
  int groups;
  /* Where the device keeps calls: [calls], by the first of each piece without a step of the host; made at the second
     run, for as many runs at a time and for the scratch that there is. */
  void **kept;
  const void *kept_scratch;
  int ran, kept_runs;
  void *block;
  size_t bytes;
  int planned;
};

#define GROW(array, count, room) \
  do { \
    if ((count) == (room)) { \
      int wider = (room) ? 2 * (room) : 16; \
      (array) = memory_grow((array), (size_t)(room), (size_t)wider, sizeof *(array)); \
      (room) = wider; \
    } \
  } while (0)

struct program *program_new(struct device *device)
{
  struct program *p = memory_new(1, sizeof *p);
  p->device = device;
  p->arena = arena_new();
  return p;
}

static void forget(struct program *p)
{
  for (int i = 0; p->kept && i < p->calls; i++) {
    if (p->kept[i]) p->device->forget(p->device, p->kept[i]);
    p->kept[i] = NULL;
  }
}

void program_free(struct program *p)
{
  if (!p) return;
  forget(p);
  for (int i = 0; i < p->nodes; i++) {
    memory_free(p->node[i]->written);
    if (p->node[i]->tensor.flags & INPUT) device_put_back(p->device, p->node[i]->tensor.data);
  }
  if (p->block) device_put_back(p->device, p->block);
  arena_free(p->arena);
  memory_free(p->node);
  memory_free(p->call);
  memory_free(p->reverse);
  memory_free(p);
}

static size_t element(const struct tensor *t) { return t->type == TENSOR_INT ? sizeof(int) : sizeof(real); }

static struct tensor *add_node(struct program *p, long rows, long cols, const char *name)
{
  REQUIRE(!p->planned && rows > 0 && cols > 0);
  struct node *node = arena_get(p->arena, 1, sizeof *node);
  node->tensor = tensor_of(NULL, rows, cols);
  node->tensor.name = name;
  node->tensor.flags = OWNED;
  node->tensor.first = node->tensor.last = -1;
  GROW(p->node, p->nodes, p->node_room);
  p->node[p->nodes++] = node;
  return &node->tensor;
}

struct tensor *program_input(struct program *p, enum tensor_type type, long rows, long cols, const char *name)
{
  struct tensor *t = add_node(p, rows, cols, name);
  t->type = type;
  t->flags |= INPUT;
  t->data = device_get(p->device, (size_t)rows * (size_t)cols * element(t));
  return t;
}

struct tensor *program_temporary(struct program *p, long rows, long cols, const char *name)
{
  return add_node(p, rows, cols, name);
}

struct tensor *program_temporary_ints(struct program *p, long rows, long cols, const char *name)
{
  struct tensor *t = add_node(p, rows, cols, name);
  t->type = TENSOR_INT;
  return t;
}

static struct tensor *owner_of(const struct tensor *t) { return t->base ? t->base : (struct tensor *)t; }

/* A part of a tensor that is not the program's: its place is known already. */
static struct tensor *part_of(struct program *p, struct tensor *t, long row, long rows, long from, long cols)
{
  struct tensor *part = arena_get(p->arena, 1, sizeof *part);
  *part = tensor_of((char *)t->data + (size_t)(row * t->ld + from) * element(t), rows, cols);
  part->ld = t->ld;
  part->type = t->type;
  part->name = t->name;
  return part;
}

static struct tensor *add_view(struct program *p, struct tensor *t, long row, long rows, long from, long cols)
{
  REQUIRE(row >= 0 && row + rows <= t->rows && from >= 0 && from + cols <= t->cols);
  if (!(t->flags & OWNED)) return part_of(p, t, row, rows, from, cols);
  struct tensor *owner = owner_of(t);
  struct tensor *view = add_node(p, rows, cols, t->name);
  view->type = t->type;
  view->ld = owner->ld;
  view->base = owner;
  view->offset = t->offset + row * owner->ld + from;
  if (owner->flags & INPUT) view->data = (char *)owner->data + (size_t)view->offset * element(owner);
  return view;
}

struct tensor *program_view(struct program *p, struct tensor *t, long from, long cols)
{
  return add_view(p, t, 0, t->rows, from, cols);
}

struct tensor *program_rows(struct program *p, struct tensor *t, long row, long rows)
{
  return add_view(p, t, row, rows, 0, t->cols);
}

static struct tensor *constant(struct program *p, enum tensor_type type, long rows, long cols,
                               const void *values, const char *name)
{
  struct tensor *t = program_input(p, type, rows, cols, name);
  p->device->upload(p->device, t->data, values, (size_t)(rows * cols) * element(t));
  return t;
}

struct tensor *program_ints(struct program *p, long rows, long cols, const int *values, const char *name)
{
  return constant(p, TENSOR_INT, rows, cols, values, name);
}

struct tensor *program_reals(struct program *p, long rows, long cols, const double *values, const char *name)
{
  real *narrow = memory_new((size_t)(rows * cols), sizeof *narrow);
  for (long i = 0; i < rows * cols; i++) narrow[i] = (real)values[i];
  struct tensor *t = constant(p, TENSOR_REAL, rows, cols, narrow, name);
  memory_free(narrow);
  return t;
}

void program_keep(struct program *p, struct tensor *t)
{
  (void)p;
  REQUIRE(t->flags & OWNED);
  owner_of(t)->flags |= KEPT;
}

/* --- recording ------------------------------------------------------------------------------------------ */

static void touch(struct program *p, struct tensor *t, enum op_field_kind kind)
{
  if (!t || !(t->flags & OWNED)) return;
  struct tensor *owner = owner_of(t);
  if (owner->flags & INPUT) return;
  if (owner->first < 0) {
    if (kind != FIELD_OUT) BUG("%s: %s is read before it is written", op_name(p->call[p->calls].op), t->name);
    owner->first = p->calls;
  }
  owner->last = p->calls;
}

/* It is in use from one call to another. */
static void live(const struct tensor *t, int from, int to)
{
  if (!(t->flags & OWNED)) return;
  struct tensor *owner = owner_of(t);
  if (owner->flags & INPUT) return;
  if (owner->first < 0) owner->first = from;
  owner->last = to;
}

void program_guard(struct program *p, struct tensor *guard) { p->guard = guard; }
struct tensor *program_guard_of(const struct program *p) { return p->guard; }

static struct call *add_call(struct program *p)
{
  REQUIRE(!p->planned);
  GROW(p->call, p->calls, p->call_room);
  struct call *call = &p->call[p->calls];
  *call = (struct call){.guard = p->guard};
  if (p->guard) touch(p, p->guard, FIELD_IN);
  return call;
}

void program_host(struct program *p, host_step *step, const void *context, size_t size)
{
  struct call *call = add_call(p);
  call->host = step;
  call->context = arena_get(p->arena, 1, size);
  memcpy(call->context, context, size);
  p->host_steps++;
  p->calls++;
}

void program_call(struct program *p, enum op op, const void *args)
{
  int count;
  const struct op_field *field = op_fields(op, &count);
  struct call *call = add_call(p);
  call->op = op;
  memcpy(&call->args, args, (size_t)count * 8);
  struct tensor *const *tensor = args;
  for (int i = 0; i < count && field[i].kind < FIELD_SIZE; i++) {
    if (!tensor[i] && field[i].kind != FIELD_MAY && field[i].kind != FIELD_MAYADD &&
        field[i].kind != FIELD_NUMBER)
      BUG("%s: %s is missing", op_name(op), field[i].name);
    touch(p, tensor[i], field[i].kind);
  }
  p->calls++;
}

void program_on_backward(struct program *p, backward_step *step, const void *context, size_t size)
{
  GROW(p->reverse, p->reverses, p->reverse_room);
  struct reverse *r = &p->reverse[p->reverses++];
  r->step = step;
  r->context = arena_get(p->arena, 1, size);
  memcpy(r->context, context, size);
}

/* --- gradients ------------------------------------------------------------------------------------------ */

int program_wants_grad(const struct tensor *t)
{
  return t->flags & OWNED ? (owner_of(t)->flags & FLOWS) != 0 : t->grad != NULL;
}

void program_flows(struct program *p, struct tensor *result, struct tensor *source)
{
  (void)p;
  if (program_wants_grad(source)) owner_of(result)->flags |= FLOWS;
}

static void zero_columns(struct program *p, struct tensor *grad, struct span s)
{
  struct tensor *part = s.to - s.from == grad->cols ? grad : program_view(p, grad, s.from, s.to - s.from);
  program_call(p, OP_fill, &(struct fill_args){.y = part});
}

/* Zero whatever of a gradient nobody has written. */
static void complete(struct program *p, struct node *grad)
{
  long at = 0;
  for (int i = 0; i < grad->spans; i++) {
    if (grad->written[i].from > at) zero_columns(p, &grad->tensor, (struct span){at, grad->written[i].from});
    at = grad->written[i].to;
  }
  if (at < grad->tensor.cols) zero_columns(p, &grad->tensor, (struct span){at, grad->tensor.cols});
  grad->spans = 0;
}

static void mark_written(struct node *grad, struct span s)
{
  int i = grad->spans;
  GROW(grad->written, grad->spans, grad->room);
  for (; i > 0 && grad->written[i - 1].from > s.from; i--) grad->written[i] = grad->written[i - 1];
  grad->written[i] = s;
  grad->spans++;
}

/* Somebody is about to write columns s: 0 if they are untouched, 1 if they hold something everywhere. Columns
   of both kinds are made one by zeroing the rest. */
static long write_columns(struct program *p, struct node *grad, struct span s)
{
  int overlaps = 0;
  for (int i = 0; i < grad->spans; i++) {
    struct span w = grad->written[i];
    if (w.from <= s.from && s.to <= w.to) return 1;
    overlaps |= w.from < s.to && s.from < w.to;
  }
  if (!overlaps) {
    mark_written(grad, s);
    return 0;
  }
  complete(p, grad);
  mark_written(grad, (struct span){0, grad->tensor.cols});
  return 1;
}

struct tensor *program_grad(struct program *p, struct tensor *t, long *add)
{
  *add = 1;
  if (!program_wants_grad(t)) BUG("no gradient flows into %s", t->name);
  if (!(t->flags & OWNED)) return t->grad;
  struct tensor *owner = owner_of(t);
  if (!owner->grad) owner->grad = add_node(p, owner->rows, owner->cols, owner->name);
  if (!t->grad) t->grad = program_view(p, owner->grad, t->offset, t->cols);
  *add = write_columns(p, (struct node *)owner->grad, (struct span){t->offset, t->offset + t->cols});
  return t->grad;
}

struct tensor *program_grad_of(struct program *p, struct tensor *t)
{
  struct tensor *owner = owner_of(t);
  if (!(owner->flags & OWNED) || !owner->grad) return NULL;
  struct node *grad = (struct node *)owner->grad;
  complete(p, grad);
  mark_written(grad, (struct span){0, owner->cols});
  if (!t->grad) t->grad = program_view(p, owner->grad, t->offset, t->cols);
  return t->grad;
}

void program_grad_pass(struct program *p, struct tensor *y, struct tensor *x)
{
  struct tensor *dy = program_grad_of(p, y);
  REQUIRE(dy && y->rows == x->rows && y->cols == x->cols);
  if (x->flags & OWNED && !x->base && !y->base && !x->grad) {
    x->grad = dy;
    return;
  }
  long add;
  struct tensor *dx = program_grad(p, x, &add);
  if (add)
    program_call(p, OP_axpby, &(struct axpby_args){.y = dx, .x = dy, .alpha = 1, .beta = 1});
  else
    program_call(p, OP_copy, &(struct copy_args){.y = dx, .x = dy});
}

int program_starts(const struct program *p, const struct tensor *t) { return t == p->loss; }

void program_backward(struct program *p, struct tensor *loss)
{
  REQUIRE(!p->loss && program_wants_grad(loss));
  p->loss = loss;
  long add;
  struct tensor *grad = program_grad(p, loss, &add);
  program_call(p, OP_fill, &(struct fill_args){.y = grad, .value = 1});
  for (int i = p->reverses; i-- > 0;) p->reverse[i].step(p, p->reverse[i].context);
}

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

/* Largest first, each into the best gap left by those it lives with. Returns the bytes of the block. */
static size_t place_all(struct node **list, int count)
{
  struct node **placed = memory_new((size_t)count + 1, sizeof *placed);
  size_t bytes = 0;
  qsort(list, (size_t)count, sizeof *list, by_size);
  for (int n = 0; n < count; n++) {
    int i = n;
    list[n]->place = best_place(placed, n, list[n]);
    if (list[n]->place + list[n]->bytes > bytes) bytes = list[n]->place + list[n]->bytes;
    for (; i > 0 && placed[i - 1]->place > list[n]->place; i--) placed[i] = placed[i - 1];
    placed[i] = list[n];
  }
  memory_free(placed);
  return bytes;
}

/* --- what may run at the same time ---------------------------------------------------------------------- */

/* What all calls touch: those of neighbours lie side by side. */
struct accesses {
  struct footprint *of; /* [calls] */
  struct access *access;
};

static int access_call(const struct call *call, struct access *to)
{
  int count, n = 0;
  const struct op_field *field = op_fields(call->op, &count);
  struct tensor *const *tensor = (struct tensor *const *)&call->args;
  for (int i = 0; !call->host && i < count && field[i].kind < FIELD_SIZE; i++)
    if (tensor[i])
      to[n++] = (struct access){
        tensor[i], field[i].kind == FIELD_OUT || field[i].kind == FIELD_ADD || field[i].kind == FIELD_MAYADD,
        fusion_cuts(call->op, i)};
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
    a.of[i] = (struct footprint){next, access_call(&p->call[i], next), p->call[i].host != NULL};
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

/* Calls of one level go to threads whole where none of them outweighs the rest; otherwise one after another, each cut
   inside. Bits do not depend on it. */
static void add_group(struct program *p, int from, int count, const struct footprint *f)
{
  double most = 0, all = 0;
  for (int i = from; i < from + count; i++) {
    double cost = cost_of(&p->call[p->order[i]], &f[p->order[i]]);
    most = cost > most ? cost : most;
    all += cost;
  }
  if (count) p->group[p->groups++] = (struct group){from, count, count > 1 && most <= 0.6 * all, NULL, 0};
}

static void add_fusion(struct program *p, int from, int count)
{
  struct link *fusion = arena_get(p->arena, (size_t)count, sizeof *fusion);
  for (int i = 0; i < count; i++) {
    const struct call *call = &p->call[p->order[from + i]];
    fusion[i] = (struct link){call->op, &call->args};
  }
  const long piece = fusion_piece(p->device, fusion, count);
  p->group[p->groups++] = (struct group){from, count, 0, fusion, piece};
}

/* Comparing all pairs of more calls than this would take longer than it saves: they stay in their order. */
enum { MOST_COMPARED = 2000 };

/* Calls that go to threads whole, newton_schulz, which cuts itself, and those of a fusion run on workers; of these,
   what shares something takes no more. */
static void declare_scratch(struct program *p)
{
  size_t most = 0, apart = 0;
  for (int i = 0; i < p->groups; i++) {
    const struct group *g = &p->group[i];
    size_t shared = g->fusion ? fusion_scratch(p->device, g->fusion, g->count) : 0;
    if (shared > most) most = shared;
    for (int k = 0; k < g->count; k++) {
      const struct call *call = &p->call[p->order[g->from + k]];
      size_t bytes = call->host ? 0 : op_scratch_bytes(p->device, call->op, &call->args);
      if (bytes > most) most = bytes;
      if (bytes > apart &&
          (g->apart || call->op == OP_newton_schulz || (g->fusion && !p->device->ops.shared[call->op])))
        apart = bytes;
    }
  }
  device_wants_scratch(p->device, most, apart);
}

/* Fusions become neighbours, before anything has its place: what they touch lives from their first to their last call,
   since each piece of rows is at another of them. */
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
    p->group[p->groups++] = (struct group){0, p->calls, 0, NULL, 0};
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
  p->bytes = place_all(list, count);
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

/* --- running -------------------------------------------------------------------------------------------- */

static void run_call(struct device *device, const struct call *call)
{
  if (!call->host)
    op_run_if(device, call->guard, call->op, &call->args);
  else if (!call->guard || device_number(device, call->guard) != 0)
    call->host(device, call->context);
}

/* The i-th of the order, for all. */
static void run_at(struct program *const *p, int count, int i)
{
  int at = p[0]->order[i];
  int each = p[0]->call[at].host ? count : 1;
  for (int k = 0; k < each; k++) run_call(p[k]->device, &p[k]->call[at]);
}

struct level_call {
  struct program *program;
  const struct group *group;
};

static void run_piece(void *context, long piece, int worker)
{
  const struct level_call *g = context;
  struct program *p = g->program;
  run_call(device_worker(p->device, worker), &p->call[p->order[g->group->from + piece]]);
}

/* Calls from the i-th of the order on, up to the next step of the host. Returns where they end. */
static int run_piece_kept(struct program *p, int i)
{
  struct device *d = p->device;
  int end = i;
  while (end < p->calls && !p->call[p->order[end]].host) end++;
  if (!p->kept[i]) {
    d->begin(d);
    for (int k = i; k < end; k++) run_call(d, &p->call[p->order[k]]);
    p->kept[i] = d->end(d);
  }
  d->replay(d, p->kept[i]);
  return end;
}

static void run_kept(struct program *const *all, int count)
{
  struct program *p = all[0];
  if (p->kept_runs != p->device->runs || p->kept_scratch != p->device->scratch) forget(p);
  p->kept_runs = p->device->runs;
  p->kept_scratch = p->device->scratch;
  for (int i = 0; i < p->calls;) {
    if (p->call[p->order[i]].host)
      run_at(all, count, i++);
    else
      i = run_piece_kept(p, i);
  }
}

static void run_all(struct program *const *all, int count)
{
  struct program *p = all[0];
  REQUIRE(p->planned);
  device_settle_scratch(p->device);
  /* The first time call by call: what a device does but once is then done. */
  if (p->kept && p->ran++ && !p->device->op_seconds) {
    run_kept(all, count);
    return;
  }
  for (int i = 0; i < p->groups; i++) {
    const struct group *g = &p->group[i];
    if (g->fusion && p->device->ops.shared[OP_matmul] && !p->device->op_seconds)
      fusion_run(p->device, g->fusion, g->count, g->piece);
    else if (g->apart && !p->kept && !p->device->op_seconds)
      parallel_for(p->device->pool, g->count, run_piece, &(struct level_call){p, g});
    else
      for (int k = g->from; k < g->from + g->count; k++) run_at(all, count, k);
  }
}

void program_run(struct program *p) { run_all(&p, 1); }

void program_run_together(struct program *const *p, int count)
{
  struct device *first = p[0]->device;
  ptrdiff_t apart = p[count - 1]->device->slab - first->slab;
  REQUIRE(count == 1 || (p[0]->kept && apart > 0));
  if (count > 1) first->runs = (int)(apart / (ptrdiff_t)first->stride) + 1;
  run_all(p, count);
  if (count > 1) first->runs = 1;
}

static int same_tensor(const struct tensor *a, const struct tensor *b, ptrdiff_t shift)
{
  if (!a || !b) return a == b;
  return a->rows == b->rows && a->cols == b->cols && a->ld == b->ld && a->type == b->type &&
         (const char *)a->data + shift == (const char *)b->data;
}

static int same_call(const struct call *a, const struct call *b, ptrdiff_t shift)
{
  if (a->op != b->op || a->host != b->host || !same_tensor(a->guard, b->guard, shift)) return 0;
  if (a->host) return 1;
  int count;
  const struct op_field *field = op_fields(a->op, &count);
  const char *x = (const char *)&a->args, *y = (const char *)&b->args;
  struct tensor *const *of_a = (struct tensor *const *)&a->args, *const *of_b =
                                                                   (struct tensor *const *)&b->args;
  for (int i = 0; i < count; i++)
    if (field[i].kind < FIELD_SIZE ? !same_tensor(of_a[i], of_b[i], shift)
                                   : memcmp(x + 8 * i, y + 8 * i, 8) != 0)
      return 0;
  return 1;
}

const char *program_difference(const struct program *a, const struct program *b, ptrdiff_t shift)
{
  REQUIRE(a->planned && b->planned);
  for (int i = 0; i < a->calls && i < b->calls; i++)
    if (!same_call(&a->call[i], &b->call[i], shift))
      return a->call[i].host ? "a step of the host" : op_name(a->call[i].op);
  return a->calls == b->calls ? NULL : "the number of calls";
}

size_t program_bytes(const struct program *p) { return p->bytes; }
int program_calls(const struct program *p) { return p->calls; }
int program_host_steps(const struct program *p) { return p->host_steps; }
struct device *program_device(const struct program *p) { return p->device; }
void *program_memory(struct program *p, size_t count, size_t size)
{
  return arena_get(p->arena, count, size);
}

const struct tensor *program_tensor(const struct program *p, int i)
{
  return i < p->nodes ? &p->node[i]->tensor : NULL;
}
