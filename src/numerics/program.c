/* program.c - recording: a static list of calls, its tensors, and its reverse */
#include "numerics/program_state.h"
#include "numerics/sums.h"
#include <stdlib.h>
#include <string.h>

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

void program_forget(struct program *p)
{
  for (int i = 0; p->kept && i < p->calls; i++) {
    if (p->kept[i]) p->device->forget(p->device, p->kept[i]);
    p->kept[i] = NULL;
  }
}

void program_free(struct program *p)
{
  if (!p) return;
  program_forget(p);
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

/* A part of a tensor from outside the program: its memory is placed already. */
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

struct tensor *program_matrix(struct program *p, struct tensor *row, long from, long rows, long cols)
{
  REQUIRE(row->rows == 1);
  struct tensor *m = program_view(p, row, from, rows * cols);
  m->rows = rows, m->cols = m->ld = cols;
  return m;
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

/* --- sharded parameters: whole where they are used ---------------------------------------------------------- */
/* Gathered values and summed gradients are temporaries: they take memory from their first use to their last. */

/* A view of `like`'s form, `offset` numbers behind the beginning of an owner [1,n]. */
static struct tensor *view_like(struct program *p, struct tensor *owner, long offset,
                                const struct tensor *like)
{
  struct tensor *view = add_node(p, like->rows, like->cols, like->name);
  view->ld = like->ld;
  view->base = owner;
  view->offset = offset;
  return view;
}

/* The row (enum shard_row) that t lies in, and where it begins there; -1: in none. */
static int row_of(const struct shards *s, const struct tensor *t, long *from)
{
  if (!t || t->flags & OWNED) return -1;
  for (int row = 0; row < SHARD_ROWS; row++) {
    if (REALS(t) < s->place[row] || REALS(t) >= s->place[row] + s->total) continue;
    *from = REALS(t) - s->place[row];
    return row;
  }
  return -1;
}

/* The group that has [from, from + n). */
static int group_at(const struct shards *s, long from, long n)
{
  int g = 0;
  while (g + 1 < s->groups && s->group[g + 1] <= from) g++;
  REQUIRE(from + n <= shards_end(s, g));
  return g;
}

static struct whole *groups_of(struct program *p, const struct shards *s)
{
  if (p->whole) return p->whole;
  p->whole = arena_get(p->arena, (size_t)s->groups, sizeof *p->whole);
  for (int g = 0; g < s->groups; g++) p->whole[g].unit = -1;
  return p->whole;
}

static struct tensor *group_new(struct program *p, int g, const char *name)
{
  const struct shards *s = p->device->shards;
  return program_temporary(p, 1, shards_end(s, g) - s->group[g], name);
}

static struct tensor *gathered(struct program *p, int g)
{
  const struct shards *s = p->device->shards;
  struct whole *x = &p->whole[g];
  struct tensor *guard = p->guard;
  if (x->values) return x->values;
  if (x->unit < 0) x->unit = p->unit;
  x->values = group_new(p, g, "gathered");
  p->guard = NULL; /* calls without a guard may read the gathered values */
  PROGRAM_CALL(p, all_gather, .y = x->values, .x = s->held[SHARD_VALUES], .from = s->group[g]);
  p->guard = guard;
  return x->values;
}

static struct tensor *summed(struct program *p, int g)
{
  struct whole *x = &p->whole[g];
  REQUIRE(!x->sent);
  if (x->grads) return x->grads;
  x->grads = group_new(p, g, "summed");
  PROGRAM_CALL(p, fill, .y = x->grads, .value = 0);
  return x->grads;
}

static struct tensor *sharded_argument(struct program *p, struct tensor *t, int writes)
{
  const struct shards *s = p->device->shards;
  long from;
  int row = row_of(s, t, &from);
  if (row < 0) return t;
  if (writes != (row == SHARD_GRADS))
    BUG("%s is shared out: it can only be read, its gradient added to", t->name);
  groups_of(p, s);
  const int g = group_at(s, from, (t->rows - 1) * t->ld + t->cols);
  return view_like(p, row == SHARD_VALUES ? gathered(p, g) : summed(p, g), from - s->group[g], t);
}

static void forget_gathered(struct program *p)
{
  for (int g = 0; p->whole && g < p->device->shards->groups; g++) p->whole[g].values = NULL;
}

static void sharded_written(struct program *p, const struct tensor *t)
{
  const struct shards *s = p->device->shards;
  if (s && t && s->own && REALS(t) >= REALS(s->held[SHARD_VALUES]) &&
      REALS(t) < REALS(s->held[SHARD_VALUES]) + s->own)
    forget_gathered(p);
}

/* A gradient is complete after the reverse of the first unit that has read the parameter. */
static void send_sums(struct program *p, int unit)
{
  const struct shards *s = p->device->shards;
  for (int g = 0; p->whole && g < s->groups; g++) {
    struct whole *x = &p->whole[g];
    if (!x->grads || x->sent || x->unit < unit) continue;
    PROGRAM_CALL(p, reduce_scatter, .y = s->held[SHARD_GRADS], .x = x->grads, .from = s->group[g]);
    x->sent = 1;
  }
}

/* --- gradients that ranks sum during the reverse pass ---------------------------------------------------------- */

/* The first unit that reads a group. */
static void note(struct program *p, const struct tensor *t)
{
  const struct shards *s = p->device->early;
  long from;
  const int row = row_of(s, t, &from);
  if (row < 0) return;
  struct whole *whole = groups_of(p, s);
  for (int g = 0; g < s->groups; g++) {
    if (shards_end(s, g) <= from || s->group[g] >= from + (t->rows - 1) * t->ld + t->cols) continue;
    if (row == SHARD_GRADS && whole[g].sent) BUG("the gradient of %s is being summed", t->name);
    if (row == SHARD_VALUES && whole[g].unit < 0) whole[g].unit = p->unit;
  }
}

static void begin_sum(struct program *p, struct shards *s, long from, long end)
{
  struct tensor **work = &s->held[SHARD_VALUES]; /* of the passes */
  if (!*work) *work = tensor_new(p->device, TENSOR_REAL, 1, s->total, "sums under way");
  if (from == end) return;
  const struct sum_beginning sum = {program_view(p, s->held[SHARD_GRADS], from, end - from),
                                    program_view(p, *work, from, end - from), RANKS_BATCH};
  program_host(p, sums_begin, &sum, sizeof sum);
}

/* Begin the sums of groups that are worth messages of their own. */
static void begin_sums(struct program *p, int unit)
{
  struct shards *s = p->device->early;
  for (int g = 0; p->whole && g < s->groups; g++) {
    if (p->whole[g].sent || p->whole[g].unit < unit || !early_is_large(s, g)) continue;
    begin_sum(p, s, s->group[g], shards_end(s, g));
    p->whole[g].sent = 1;
  }
}

/* Begin the remaining sums; adjacent groups form one. */
static void begin_last_sums(struct program *p)
{
  struct shards *s = p->device->early;
  const struct whole *whole = groups_of(p, s);
  long from = 0;
  for (int g = 0; g < s->groups; g++) {
    if (!whole[g].sent) continue;
    begin_sum(p, s, from, s->group[g]);
    from = shards_end(s, g);
  }
  begin_sum(p, s, from, s->total);
}

/* --- units ----------------------------------------------------------------------------------------------- */

static void end_unit(struct program *p, const void *context)
{
  const int unit = *(const int *)context;
  if (p->device->early) begin_sums(p, unit);
  if (p->device->shards) send_sums(p, unit), forget_gathered(p);
  p->unit = unit - 1;
}

void program_unit(struct program *p)
{
  if (!p->device->shards && !p->device->early) return;
  if (p->device->shards) forget_gathered(p);
  p->unit++;
  program_on_backward(p, end_unit, &p->unit, sizeof p->unit);
}

/* --- calls ---------------------------------------------------------------------------------------------- */

void program_call(struct program *p, enum op op, const void *args)
{
  int count;
  const struct op_field *field = op_fields(op, &count);
  union op_args own;
  memcpy(&own, args, (size_t)count * 8);
  struct error error = {0};
  if (op_check(op, &own, &error) != STATUS_OK) BUG("%s", error.text);
  for (int i = 0; i < count && field[i].kind < FIELD_SIZE; i++) {
    struct tensor **tensor = op_tensor(&own, i);
    if (p->device->shards) *tensor = sharded_argument(p, *tensor, op_field_is_written(field[i].kind));
    if (p->device->early) note(p, *tensor);
  }
  struct call *call = add_call(p);
  call->op = op;
  memcpy(&call->args, &own, (size_t)count * 8);
  for (int i = 0; i < count && field[i].kind < FIELD_SIZE; i++) {
    struct tensor *tensor = *op_tensor(&own, i);
    touch(p, tensor, field[i].kind);
    if (op_field_is_written(field[i].kind)) sharded_written(p, tensor);
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

/* Zero the columns of a gradient that were never written. */
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

/* Prepare a write to columns s. Returns 0 if they are untouched, 1 if all hold values. If some do, the rest is zeroed
   first. */
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
  if (p->device->shards) send_sums(p, -1);
  if (p->device->early) begin_last_sums(p);
}

/* --- questions ------------------------------------------------------------------------------------------- */

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
  for (int i = 0; i < count; i++)
    if (field[i].kind < FIELD_SIZE ? !same_tensor(*op_tensor(&a->args, i), *op_tensor(&b->args, i), shift)
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
