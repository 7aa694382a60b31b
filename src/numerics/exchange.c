#include "numerics/exchange.h"
#include <string.h>
#include "base/memory.h"

struct number {
  number_of *of; /* NULL: a constant, told when it was made */
  const void *context;
};

struct numbers {
  struct device *device;
  struct arena *arena;
  struct tensor *all; /* [1, room] on the device */
  real *host;
  struct number *number;
  int count, room;
  struct moment moment;
};

struct numbers *numbers_new(struct device *device, int room)
{
  struct numbers *n = memory_new(1, sizeof *n);
  n->device = device;
  n->arena = arena_new();
  n->room = room;
  n->host = arena_get(n->arena, (size_t)room, sizeof *n->host);
  n->number = arena_get(n->arena, (size_t)room, sizeof *n->number);
  n->all = tensor_new(device, TENSOR_REAL, 1, room, "numbers");
  return n;
}

void numbers_free(struct numbers *n)
{
  if (!n) return;
  tensor_free(n->device, n->all);
  arena_free(n->arena);
  memory_free(n);
}

static struct tensor *add_number(struct numbers *n, struct number number)
{
  REQUIRE(n->count < n->room);
  struct tensor *t = arena_get(n->arena, 1, sizeof *t);
  *t = tensor_of(REALS(n->all) + n->count, 1, 1);
  t->name = "number";
  n->number[n->count++] = number;
  return t;
}

struct tensor *numbers_constant(struct numbers *n, double value)
{
  struct tensor *t = add_number(n, (struct number){0});
  real *host = &n->host[n->count - 1];
  *host = (real)value;
  n->device->upload(n->device, t->data, host, sizeof *host);
  return t;
}

struct tensor *numbers_varying(struct numbers *n, number_of *of, const void *context, size_t size)
{
  void *own = arena_get(n->arena, 1, size + 1);
  if (size) memcpy(own, context, size);
  return add_number(n, (struct number){.of = of, .context = own});
}

void numbers_tell(struct numbers *n, const struct moment *moment)
{
  n->moment = *moment;
  for (int i = 0; i < n->count; i++) {
    const struct number *x = &n->number[i];
    if (x->of) n->host[i] = (real)x->of(x->context, moment);
  }
  n->device->upload(n->device, n->all->data, n->host, (size_t)n->count * sizeof *n->host);
}

const struct moment *numbers_moment(const struct numbers *n) { return &n->moment; }

/* --- the report --------------------------------------------------------------------------------------------- */

struct report {
  struct device *device;
  struct arena *arena;
  struct tensor *all; /* [1, room] on the device */
  real *host;
  long used;
  /* asked for: [AHEAD_MOST + 1] rows of `used`, a ring */
  real *late;
  long mark[AHEAD_MOST + 1];
  int oldest, under_way;
};

struct report *report_new(struct device *device, long room)
{
  struct report *r = memory_new(1, sizeof *r);
  r->device = device;
  r->arena = arena_new();
  r->all = tensor_new(device, TENSOR_REAL, 1, room, "report");
  r->host = arena_get(r->arena, (size_t)room, sizeof *r->host);
  return r;
}

void report_free(struct report *r)
{
  if (!r) return;
  tensor_free(r->device, r->all);
  arena_free(r->arena);
  memory_free(r);
}

struct tensor *report_add(struct report *r, long rows, long cols, double empty, const char *name)
{
  REQUIRE(r->used + rows * cols <= r->all->cols);
  struct tensor *t = arena_get(r->arena, 1, sizeof *t);
  *t = tensor_of(REALS(r->all) + r->used, rows, cols);
  t->name = name;
  for (long i = 0; i < rows * cols; i++) r->host[r->used + i] = (real)empty;
  r->used += rows * cols;
  return t;
}

void report_column_empty(struct report *r, const struct tensor *t, long column, double empty)
{
  real *host = r->host + (REALS(t) - REALS(r->all));
  for (long i = 0; i < t->rows; i++) host[i * t->cols + column] = (real)empty;
}

/* Before the first step where it can be, so that none allocates. */
static void make_ring(struct report *r)
{
  if (!r->late) r->late = arena_get(r->arena, (size_t)r->all->cols * (AHEAD_MOST + 1), sizeof *r->late);
}

void report_record_clear(struct report *r, struct program *p)
{
  struct tensor *empty = program_input(p, TENSOR_REAL, 1, r->used, "empty report");
  r->device->upload(r->device, empty->data, r->host, (size_t)r->used * sizeof *r->host);
  make_ring(r);
  PROGRAM_CALL(p, copy, .y = program_view(p, r->all, 0, r->used), .x = empty);
}

void report_ask(struct report *r)
{
  struct device *d = r->device;
  REQUIRE(r->under_way <= AHEAD_MOST);
  make_ring(r);
  int at = (r->oldest + r->under_way++) % (AHEAD_MOST + 1);
  d->fetch(d, r->late + at * r->used, r->all->data, (size_t)r->used * sizeof *r->late);
  r->mark[at] = d->mark ? d->mark(d) : 0;
}

void report_reach(const struct report *r, int most)
{
  if (r->under_way <= most || !r->device->reach) return;
  r->device->reach(r->device, r->mark[(r->oldest + r->under_way - most - 1) % (AHEAD_MOST + 1)]);
}

static void reach_oldest(struct report *r)
{
  REQUIRE(r->under_way > 0);
  report_reach(r, r->under_way - 1);
}

static void forget_oldest(struct report *r)
{
  r->oldest = (r->oldest + 1) % (AHEAD_MOST + 1);
  r->under_way--;
}

void report_receive(struct report *r)
{
  reach_oldest(r);
  memcpy(r->host, r->late + r->oldest * r->used, (size_t)r->used * sizeof *r->host);
  forget_oldest(r);
}

void report_drop(struct report *r)
{
  while (r->under_way) {
    reach_oldest(r);
    forget_oldest(r);
  }
}

void report_read(struct report *r)
{
  REQUIRE(!r->under_way);
  report_ask(r);
  report_receive(r);
}

const real *report_of(const struct report *r, const struct tensor *t)
{
  return r->host + (REALS(t) - REALS(r->all));
}
