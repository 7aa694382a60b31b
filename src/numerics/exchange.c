#include "numerics/exchange.h"
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "base/memory.h"
#include "numerics/ranks.h"

struct number {
  number_of *of; /* NULL: a constant, set at its creation */
  const void *context;
};

struct numbers {
  struct device *device;
  struct arena *arena;
  struct tensor *all; /* [1, room] on the device */
  real *host;
  struct number *number;
  int count, room;
  struct step_scalars now;
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

void scalars_upload(struct numbers *n, const struct step_scalars *now)
{
  n->now = *now;
  for (int i = 0; i < n->count; i++) {
    const struct number *x = &n->number[i];
    if (x->of) n->host[i] = (real)x->of(x->context, now);
  }
  n->device->upload(n->device, n->all->data, n->host, (size_t)n->count * sizeof *n->host);
}

const struct step_scalars *numbers_scalars(const struct numbers *n) { return &n->now; }

/* --- the report --------------------------------------------------------------------------------------------- */

/* A part of the report. The report grows by pages because programs hold addresses within it; one fetch per page. */
struct page {
  struct tensor *all; /* [1, room] on the device */
  real *host;
  long used;
  int *
    kind; /* how an element of two parts is joined: enum merge_kind, or the element of the page that it follows */
  char *seen; /* the passes that accumulate it: enum passes */
  real *late; /* asked for: [AHEAD_MOST + 1] rows of `used`, a ring */
};
enum { PAGES = 32, PAGE_ROOM = 16384 };

struct report {
  struct device *device;
  struct arena *arena;
  struct page page[PAGES];
  int pages;
  enum passes seen_by;
  long mark[AHEAD_MOST + 1];
  int oldest, under_way;
};

struct report *report_new(struct device *device)
{
  struct report *r = memory_new(1, sizeof *r);
  r->device = device;
  r->arena = arena_new();
  return r;
}

void report_free(struct report *r)
{
  if (!r) return;
  report_drop(r); /* pending fetches would write to freed memory */
  for (int i = 0; i < r->pages; i++) tensor_free(r->device, r->page[i].all);
  arena_free(r->arena);
  memory_free(r);
}

static struct page *page_with_room(struct report *r, long count)
{
  for (int i = 0; i < r->pages; i++)
    if (r->page[i].used + count <= r->page[i].all->cols) return &r->page[i];
  REQUIRE(r->pages < PAGES && !r->under_way);
  struct page *p = &r->page[r->pages++];
  long room = count > PAGE_ROOM ? count : PAGE_ROOM;
  p->all = tensor_new(r->device, TENSOR_REAL, 1, room, "report");
  p->host = arena_get(r->arena, (size_t)room, sizeof *p->host);
  p->kind = arena_get(r->arena, (size_t)room, sizeof *p->kind);
  p->seen = arena_get(r->arena, (size_t)room, sizeof *p->seen);
  return p;
}

/* The page of a tensor of the report, and where it begins there. */
static const struct page *page_of(const struct report *r, const struct tensor *t, size_t *at)
{
  for (const struct page *p = r->page; p < r->page + r->pages; p++) {
    uintptr_t from = (uintptr_t)p->all->data, here = (uintptr_t)t->data;
    *at = (here - from) / sizeof(real);
    if (here >= from && here < from + (size_t)p->used * sizeof(real)) return p;
  }
  BUG("%s is not in the report", t->name);
}

/* Its place in the host's copy. */
static real *host_of(const struct report *r, const struct tensor *t)
{
  size_t at;
  const struct page *p = page_of(r, t, &at);
  return p->host + at;
}

void report_seen_by(struct report *r, enum passes passes) { r->seen_by = passes; }

struct tensor *report_add(struct report *r, long rows, long cols, double empty, const char *name)
{
  struct page *p = page_with_room(r, rows * cols);
  struct tensor *t = arena_get(r->arena, 1, sizeof *t);
  int kind = empty == 0 ? MERGE_SUM : isinf(empty) ? MERGE_MAX : MERGE_NOT;
  *t = tensor_of(REALS(p->all) + p->used, rows, cols);
  t->name = name;
  for (long i = p->used; i < p->used + rows * cols; i++) {
    p->host[i] = (real)empty;
    p->kind[i] = kind;
    p->seen[i] = (char)r->seen_by;
  }
  p->used += rows * cols;
  return t;
}

void report_column(struct report *r, const struct tensor *t, long column, double empty, int kind)
{
  size_t at;
  const struct page *p = page_of(r, t, &at);
  for (long i = 0; i < t->rows; i++) {
    long row = (long)at + i * t->cols;
    p->host[row + column] = (real)empty;
    p->kind[row + column] = kind < 0 ? kind : (int)(row + kind);
  }
}

/* Before the first step if possible, so that no step allocates. */
static void make_rings(struct report *r)
{
  for (struct page *p = r->page; p < r->page + r->pages; p++)
    if (!p->late) p->late = arena_get(r->arena, (size_t)p->all->cols * (AHEAD_MOST + 1), sizeof *p->late);
}

void report_record_clear(struct report *r, struct program *program)
{
  make_rings(r);
  for (struct page *p = r->page; p < r->page + r->pages; p++) {
    struct tensor *empty = program_input(program, TENSOR_REAL, 1, p->used, "empty report");
    r->device->upload(r->device, empty->data, p->host, (size_t)p->used * sizeof *p->host);
    PROGRAM_CALL(program, copy, .y = program_view(program, p->all, 0, p->used), .x = empty);
  }
}

/* --- parts of a batch --------------------------------------------------------------------------------------- */

/* kind [1, used] of the columns that these passes accumulate (`first`: all by MERGE_FIRST); NULL: none on this
   page. */
static struct tensor *kinds_of(struct program *program, const struct page *p, enum passes passes, int first)
{
  int *kind = memory_new((size_t)p->used, sizeof *kind), any = 0;
  for (long i = 0; i < p->used; i++) {
    kind[i] = p->seen[i] == (char)passes ? p->kind[i] : MERGE_NOT;
    any |= kind[i] != MERGE_NOT;
    if (first && kind[i] != MERGE_NOT) kind[i] = MERGE_FIRST;
  }
  struct tensor *t = any ? program_ints(program, 1, p->used, kind, "how parts are joined") : NULL;
  memory_free(kind);
  return t;
}

static struct tensor *used(struct program *program, const struct page *p)
{
  return program_view(program, p->all, 0, p->used);
}

void report_record_fresh(struct report *r, struct program *program, enum passes passes)
{
  for (struct page *p = r->page; p < r->page + r->pages; p++) {
    struct tensor *kind = kinds_of(program, p, passes, 1);
    if (!kind) continue;
    struct tensor *empty = program_input(program, TENSOR_REAL, 1, p->used, "empty report");
    r->device->upload(r->device, empty->data, p->host, (size_t)p->used * sizeof *p->host);
    PROGRAM_CALL(program, merge, .y = used(program, p), .x = empty, .kind = kind);
  }
}

struct tensor **report_kept_new(struct report *r)
{
  struct tensor **kept = memory_new((size_t)r->pages + 1, sizeof *kept);
  for (int i = 0; i < r->pages; i++)
    kept[i] = tensor_new(r->device, TENSOR_REAL, 1, r->page[i].used, "seen by a part");
  return kept;
}

void report_kept_free(struct report *r, struct tensor **kept)
{
  for (int i = 0; i < r->pages; i++) tensor_free(r->device, kept[i]);
  memory_free(kept);
}

void report_record_keep(struct report *r, struct program *program, struct tensor *const *kept)
{
  for (int i = 0; i < r->pages; i++)
    PROGRAM_CALL(program, copy, .y = kept[i], .x = used(program, &r->page[i]));
}

void report_record_join(struct report *r, struct program *program, enum passes passes,
                        struct tensor *const *kept)
{
  for (int i = 0; i < r->pages; i++) {
    struct tensor *kind = kinds_of(program, &r->page[i], passes, 0);
    if (kind) PROGRAM_CALL(program, merge, .y = used(program, &r->page[i]), .x = kept[i], .kind = kind);
  }
}

/* The partner's part comes before this rank's, or behind it. */
static void record_across(struct report *r, struct program *program, enum passes passes, enum rank_axis axis)
{
  int ranks = device_ranks(r->device, axis), rank = device_rank(r->device, axis);
  for (struct page *p = r->page; p < r->page + r->pages; p++) {
    struct tensor *kind = kinds_of(program, p, passes, 0), *first = kinds_of(program, p, passes, 1);
    for (int bit = 0; kind && 1 << bit < ranks; bit++) {
      struct tensor *other = program_temporary(program, 1, p->used, "the other's part"),
                    *own = used(program, p);
      PROGRAM_CALL(program, pairwise_exchange, .y = other, .x = own, .bit = bit, .axis = axis);
      if (rank >> bit & 1) {
        PROGRAM_CALL(program, merge, .y = own, .x = other, .kind = kind);
      } else {
        PROGRAM_CALL(program, merge, .y = other, .x = own, .kind = kind);
        PROGRAM_CALL(program, merge, .y = own, .x = other, .kind = first);
      }
    }
  }
}

void report_record_across(struct report *r, struct program *program, enum passes passes)
{
  record_across(r, program, passes, RANKS_BATCH);
  record_across(r, program, passes, RANKS_CONTEXT);
}

void report_ask(struct report *r)
{
  struct device *d = r->device;
  REQUIRE(r->under_way <= AHEAD_MOST);
  make_rings(r);
  int at = (r->oldest + r->under_way++) % (AHEAD_MOST + 1);
  for (struct page *p = r->page; p < r->page + r->pages; p++)
    d->fetch(d, p->late + at * p->used, p->all->data, (size_t)p->used * sizeof *p->late);
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
  for (struct page *p = r->page; p < r->page + r->pages; p++)
    memcpy(p->host, p->late + r->oldest * p->used, (size_t)p->used * sizeof *p->host);
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

const real *report_of(const struct report *r, const struct tensor *t) { return host_of(r, t); }
