#include "numerics/fusion.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

#define BY(op, field) (1u << offsetof(struct op##_args, field) / 8)
static const unsigned cut_of[OP_COUNT + 1] = {
  [OP_matmul] = BY(matmul, c) | BY(matmul, a) | BY(matmul, d),
  [OP_add_bias] = BY(add_bias, y),
  [OP_rmsnorm_forward] = BY(rmsnorm_forward, y) | BY(rmsnorm_forward, rstd) | BY(rmsnorm_forward, x),
  [OP_swiglu_forward] = BY(swiglu_forward, y) | BY(swiglu_forward, x),
  [OP_swiglu_backward] = BY(swiglu_backward, dx) | BY(swiglu_backward, dy) | BY(swiglu_backward, x),
  [OP_rope] = BY(rope, y) | BY(rope, x) | BY(rope, position),
  [OP_copy] = BY(copy, y) | BY(copy, x),
  [OP_axpby] = BY(axpby, y) | BY(axpby, x),
};

/* PIECE: rows that stay in the nearer caches while they pass through a fusion. NEAR: bytes of results that stay there
   whole, so that one thread gains nothing. */
enum { PIECE = 128, NEAR = 1 << 22, STRIP = 8, MOST_LINKS = 24, MOST_SKIPPED = 48, CUT_TENSORS = 3 };

static struct tensor *tensor_at(const union op_args *args, int field) { return *op_tensor(args, field); }

int fusion_cuts(enum op op, int field) { return cut_of[op] >> field & 1; }

/* --- finding ------------------------------------------------------------------------------------------------ */

static const struct tensor *owner_of(const struct tensor *t) { return t->base ? t->base : t; }

/* For a vector, with one number per row, the rows along it. */
static long rows_of(const struct tensor *t) { return t->rows == 1 ? t->cols : t->rows; }

/* With factors other than powers of two the last bit depends on the tile of a row (alpha x + y may be rounded once or
   twice), hence on the cuts between rows. */
static int by_rows(const struct matmul_args *x)
{
  int exponent;
  return !x->ta && fabs(frexp(x->alpha, &exponent)) == 0.5;
}

/* Rows by which a call can be cut: of whole tensors, so that row n of one is row n of all. 0: it cannot be cut. */
static long rows_by(const struct link *call)
{
  if (!cut_of[call->op] || (call->op == OP_matmul && !by_rows(&call->args->matmul))) return 0;
  const long rows = tensor_at(call->args, 0)->rows;
  for (int i = 0; cut_of[call->op] >> i; i++) {
    const struct tensor *t = tensor_at(call->args, i);
    if (!t || !fusion_cuts(call->op, i)) continue;
    const struct tensor *owner = owner_of(t);
    const int whole = rows_of(t) == rows && rows_of(owner) == rows && (t->rows == 1) == (owner->rows == 1);
    if (!whole) return 0;
  }
  return rows < PIECE ? 0 : rows;
}

/* May `later`, row by row, follow `earlier` without waiting for other rows? */
static int follows(const struct footprint *later, const struct footprint *earlier)
{
  for (int i = 0; i < later->count; i++)
    for (int k = 0; k < earlier->count; k++) {
      const struct access *a = &later->access[i], *b = &earlier->access[k];
      if (accesses_meet(a, b) && !(a->by_rows && b->by_rows && owner_of(a->tensor) == owner_of(b->tensor)))
        return 0;
    }
  return 1;
}

/* Find the fusion that begins at call `at`. `skipped` receives the calls in between that must wait until it is done.
   It ends at the first call by rows that cannot join. Returns its length; 1 without a product, since only products
   share packed data. */
static int fusion_from(const struct link *call, const struct footprint *f, int calls, int at, int *fusion,
                       int *skipped, int *skips)
{
  const long rows = rows_by(&call[at]);
  int links = 0, products = 0;
  for (; at < calls && links < MOST_LINKS && *skips < MOST_SKIPPED; at++) {
    const long own = rows_by(&call[at]);
    int joins = own && own == rows;
    for (int k = 0; joins && k < *skips; k++) joins = !footprints_meet(&f[at], &f[skipped[k]]);
    for (int k = 0; joins && k < links; k++) joins = follows(&f[at], &f[fusion[k]]);
    if (own && !joins) break;
    if (joins)
      fusion[links++] = at, products += call[at].op == OP_matmul;
    else
      skipped[(*skips)++] = at;
  }
  if (!products) return 1;
  while (*skips && skipped[*skips - 1] > fusion[links - 1]) --*skips; /* they come after it as they are */
  return links;
}

static long round_up(long n, long unit) { return (n + unit - 1) / unit * unit; }

long fusion_piece(const struct device *device, const struct link *call, int count)
{
  const long rows = tensor_at(call->args, 0)->rows, threads = pool_threads(device->pool);
  long width = 0;
  for (int i = 0; i < count; i++) width += tensor_at(call[i].args, 0)->cols;
  if (threads == 1 && rows * width * (long)sizeof(real) <= NEAR) return 0;
  const long pieces = round_up((rows + PIECE - 1) / PIECE, threads); /* as many for each */
  return round_up((rows + pieces - 1) / pieces, STRIP);
}

static int pays(const struct device *device, const struct link *call, const int *fusion, int links)
{
  struct link of[MOST_LINKS] = {call[fusion[0]]};
  for (int i = 1; i < links; i++) of[i] = call[fusion[i]];
  return fusion_piece(device, of, links) > 0;
}

void fusions_find(const struct device *device, const struct link *call, const struct footprint *f, int calls,
                  int *order, int *length)
{
  int fusion[MOST_LINKS], skipped[MOST_SKIPPED];
  for (int i = 0; i < calls; i++) length[i] = 1;
  for (int i = 0; i < calls;) {
    int skips = 0, links = rows_by(&call[i]) ? fusion_from(call, f, calls, i, fusion, skipped, &skips) : 1;
    if (links == 1 || (device && !pays(device, call, fusion, links))) {
      order[i] = i;
      i++;
      continue;
    }
    length[i] = links;
    memcpy(order + i, fusion, (size_t)links * sizeof *order);
    memcpy(order + i + links, skipped, (size_t)skips * sizeof *order);
    i += links + skips;
  }
}

/* --- running ------------------------------------------------------------------------------------------------ */

static size_t shared_bytes(const struct device *device, const struct link *call)
{
  op_scratch *shared = device->ops.shared[call->op];
  return shared ? shared(device, call->args) : 0;
}

size_t fusion_scratch(const struct device *device, const struct link *call, int count)
{
  size_t bytes = 0;
  for (int i = 0; i < count; i++) bytes += shared_bytes(device, &call[i]);
  return bytes;
}

struct fusion_job {
  struct device *device;
  const struct link *call;
  int count;
  long rows, piece, parts;           /* parts: of the data that calls share */
  void *shared[MOST_LINKS];          /* NULL: nothing */
  int sharing[MOST_LINKS], sharings; /* the calls that share something */
};

static void share(void *context, long part, int worker)
{
  (void)worker;
  const struct fusion_job *j = context;
  const int i = j->sharing[part / j->parts];
  const struct link *call = &j->call[i];
  j->device->ops.share[call->op](j->device, call->args, j->shared[i], part % j->parts, j->parts);
}

/* A call for rows [row, row + rows) alone; `part`: its tensors. */
static union op_args cut(const struct link *call, long row, long rows, struct tensor part[CUT_TENSORS])
{
  union op_args args = *call->args;
  for (int i = 0; cut_of[call->op] >> i; i++) {
    struct tensor **tensor = op_tensor(&args, i);
    if (!*tensor || !fusion_cuts(call->op, i)) continue;
    if ((*tensor)->rows == 1) {
      *part = **tensor;
      part->data = (char *)part->data + (size_t)row * (part->type == TENSOR_INT ? sizeof(int) : sizeof(real));
      part->cols = rows;
    } else {
      *part = tensor_rows(*tensor, row, rows);
    }
    *tensor = part++;
  }
  return args;
}

static void run_piece(void *context, long piece, int worker)
{
  const struct fusion_job *j = context;
  struct device *device = device_worker(j->device, worker);
  const long row = piece * j->piece, left = j->rows - row;
  for (int i = 0; i < j->count; i++) {
    struct tensor part[CUT_TENSORS];
    union op_args args = cut(&j->call[i], row, left < j->piece ? left : j->piece, part);
    device->shared = j->shared[i];
    op_run_if(device, NULL, j->call[i].op, &args);
  }
}

void fusion_run(struct device *device, const struct link *call, int count, long piece)
{
  struct fusion_job j = {.device = device, .call = call, .count = count, .piece = piece};
  j.rows = tensor_at(call->args, 0)->rows;
  j.parts = pool_threads(device->pool);
  char *room = device_scratch(device, fusion_scratch(device, call, count));
  for (int i = 0; i < count; i++) {
    const size_t bytes = shared_bytes(device, &call[i]);
    j.shared[i] = bytes ? room : NULL;
    room += bytes;
    if (bytes) j.sharing[j.sharings++] = i;
  }
  if (device->enter) device->enter(device);
  /* no synchronization if nothing is shared */
  parallel_for(device->pool, j.sharings * j.parts, share, &j);
  parallel_for(device->pool, (j.rows + piece - 1) / piece, run_piece, &j);
  if (device->leave) device->leave(device);
}
