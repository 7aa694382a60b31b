/* check_ops.c - the machinery of check_ops_*.c: operations of ops.def on every device against their definitions
   One loop: shapes of a case x strides x hostile inputs. Buffers lie between guard bands; outputs that an
   operation must not read hold NaN; the number of threads must not change a bit. The tolerance comes from the
   data: a kernel that is stable gives the exact result of inputs that are off by a few roundings, so the
   reference is run on inputs that are off by random relative amounts, and its spread, scaled down to one
   rounding and up by the growth of sums (square root of the longest dimension), is what a kernel may be off.
   A program's parts (check_ops_NAME.c) say which operations it tries; where there are many of them, as in
   check_ops_d, each operation has to be in one. */
#include "check_ops.h"
#include "base/random.h"
#include "../noise.h"
#ifdef CUDA_ON_HOST
#include "cuda/launch.h"
#include "../cuda/cuda_device.h"
#endif
#include <stdio.h>
#include <stdlib.h>

#ifdef MAXLOGIT_DOUBLE
#define HUGE_INPUT 1e300
#define SPREAD 0x1p-24
#else
#define HUGE_INPUT 1e30
#define SPREAD 0x1p-10
#endif

enum { GUARD = 16 };
static const real guard_value = (real)-12345.678;
static const int guard_int = -1234567;

static const char *const hostile_names[] = {"tame", "all negative", "tiny", "zero",
                                            "NaN",  "Inf",          "-Inf", "huge"};

/* --- parts: what this program tries --- */

enum { PARTS_MOST = 16 };
static int (*make_case[OP_COUNT])(struct made *, int, union op_args *);
static enum op tested[OP_COUNT];
static void (*identities_of[PARTS_MOST])(TCase *);
static int operations, parts;

void operations_add(const struct operation_case *cases, size_t count, void (*identities)(TCase *))
{
  if (parts == PARTS_MOST) abort();
  identities_of[parts++] = identities;
  for (size_t i = 0; i < count; i++) {
    if (make_case[cases[i].op]) abort();
    make_case[cases[i].op] = cases[i].make;
    tested[operations++] = cases[i].op;
  }
}

/* --- making cases --- */

static double normal(const struct made *m, long i)
{
  return noise_normal(m->seed * MAX_TENSORS + (uint64_t)m->items, (uint64_t)i);
}

long below(const struct made *m, long i, long n)
{
  return (long)draw_below((struct draw){m->seed, STREAM_TEST, (uint64_t)m->items}, (uint64_t)i, (uint64_t)n);
}

struct guarded *new_item(struct made *m, enum tensor_type type, long rows, long cols, long ld)
{
  if (m->items == MAX_TENSORS) ck_abort_msg("MAX_TENSORS is too small");
  struct guarded *g = &m->item[m->items];
  size_t size = type == TENSOR_INT ? sizeof(int) : sizeof(real);
  long shift = m->strided ? 1 : 0; /* views may begin anywhere */
  g->before = (size_t)(GUARD + shift) * size;
  g->bytes = (size_t)(rows * ld + 2 * GUARD + shift) * size;
  g->memory = memory_new(1, g->bytes);
  g->t = tensor_of(g->memory + g->before, rows, cols);
  g->t.ld = ld;
  g->t.type = type;
  g->t.name = "case";
  if (type == TENSOR_REAL)
    for (size_t i = 0; i < g->bytes / size; i++) ((real *)g->memory)[i] = guard_value;
  m->items++;
  return g;
}

static real value_like(const struct made *m, double x)
{
  if (m->hostile == NEGATIVE) return (real)-fabs(x);
  if (m->hostile == TINY) return (real)(x / HUGE_INPUT);
  return m->hostile == ZERO ? 0 : (real)x;
}

struct tensor *new_real(struct made *m, long rows, long cols, long ld, int read)
{
  struct guarded *g = new_item(m, TENSOR_REAL, rows, cols, ld);
  g->read = read;
  for (long i = 0; i < rows; i++)
    for (long j = 0; j < cols; j++)
      REALS(&g->t)[i * ld + j] = read ? value_like(m, normal(m, i * cols + j)) : (real)NAN;
  return &g->t;
}

long stride(const struct made *m, long cols) { return cols + (m->strided ? 5 : 0); }

struct tensor *in(struct made *m, long rows, long cols)
{
  return new_real(m, rows, cols, stride(m, cols), 1);
}

struct tensor *out(struct made *m, long rows, long cols, long add)
{
  return new_real(m, rows, cols, stride(m, cols), add != 0);
}

void now_read(struct tensor *t) { ((struct guarded *)t)->read = 1; }

struct tensor *vector(struct made *m, long n) { return new_real(m, 1, n, n, 1); }

struct tensor *positive(struct made *m, struct tensor *t)
{
  (void)m;
  for (long i = 0; i < t->rows; i++)
    for (long j = 0; j < t->cols; j++) REALS(t)[i * t->ld + j] = (real)fabs((double)REALS(t)[i * t->ld + j]);
  return t;
}

/* A NUMBER, or none. */
struct tensor *number(struct made *m, int there, double value)
{
  if (!there) return NULL;
  struct tensor *t = vector(m, 1);
  REALS(t)[0] = (real)value;
  ((struct guarded *)t)->exact = 1;
  return t;
}

struct tensor *integers(struct made *m, long n, long limit)
{
  struct guarded *g = new_item(m, TENSOR_INT, 1, n, n);
  for (long i = 0; i < n; i++) INTS(&g->t)[i] = (int)below(m, i, limit);
  g->read = 1;
  return &g->t;
}

/* A matrix of integers that the operation writes. */
struct tensor *out_ints(struct made *m, long rows, long cols)
{
  struct guarded *g = new_item(m, TENSOR_INT, rows, cols, stride(m, cols));
  for (size_t i = 0; i < g->bytes / sizeof(int); i++) ((int *)g->memory)[i] = guard_int;
  return &g->t;
}

const long sizes[SIZES][2] = {{1, 1},    {1, 7},  {3, 5},    {2, 64},    {5, 33},
                              {1, 1000}, {70, 3}, {130, 40}, {1, 20001}, {2, 17000}};
const long joins[JOINS][4] = {{1, 1, 1, 1}, {3, 2, 4, 2}, {5, 4, 1, 6}, {17, 3, 16, 8}, {1, 300, 64, 8}};

static void free_made(struct made *m)
{
  for (int i = 0; i < m->items; i++) {
    memory_free(m->item[i].memory);
    for (int r = 0; r < RUNS; r++) memory_free(m->item[i].result[r]);
  }
}

/* Every other sample of an operation that rounds scores inside: a score at a midpoint may go either way, in a kernel as
   under disturbances of a few roundings. */
static int is_flip(const struct made *m, int sample) { return m->rounds && sample % 2; }

/* Off by a relative amount of up to `spread`; sample < 0: as they are. */
static void disturb(const struct guarded *g, int item, char *memory, int sample, double spread)
{
  if (sample < 0 || !g->read || g->exact || g->t.type == TENSOR_INT) return;
  for (long i = 0; i < g->t.rows * g->t.ld; i++) {
    double u = noise((uint64_t)(sample * MAX_TENSORS + item) << 32 | (uint64_t)i);
    ((real *)(memory + g->before))[i] *= (real)(1 + spread * u);
  }
}

/* So that the next call has what its own operation declares, and no more. */
static void forget_scratch(struct device *device)
{
  if (device->scratch) device->put_back(device, device->scratch);
  device->scratch = NULL;
  device->scratch_bytes = device->scratch_wanted = device->worker_wanted = 0;
  for (int i = 0; i < pool_threads(device->pool); i++) device->workers[i].scratch_bytes = 0;
}

/* Where run r of the launch has what item i is for run 0. */
static char *in_run(const struct device *device, void *place, int r)
{
  return (char *)place + (size_t)r * device->stride;
}

/* What run 0 of several holds: its guard is 0, so nobody may read or change it; numbers of its own, and no index. */
static void forbid(struct guarded *g, char *memory)
{
  size_t count = g->bytes / (g->t.type == TENSOR_INT ? sizeof(int) : sizeof(real));
  for (size_t i = 0; i < count; i++)
    if (g->t.type == TENSOR_INT)
      ((int *)memory)[i] = 1 << 30;
    else
      ((real *)memory)[i] = (real)(1 + 0.37 * (double)(i % 1000));
}

static int has_library(const struct device *device)
{
#ifdef CUDA_ON_HOST
  return ((const struct cuda_launch *)device->private_state)->blas != NULL;
#else
  return (void)device, 0;
#endif
}

/* A library of products does not: there what is guarded is computed by the device's own kernels, with other bits. But
   of newton_schulz only the work space is computed, whatever the guard. */
static int knows_guards(const struct device *device, enum op op)
{
  return !has_library(device) || op == OP_newton_schulz;
}

/* Run on the device; what lies in each buffer afterwards, guards included, goes to result[slot]. A device that
   computes several runs gets them in slabs, scratch included: the first is guarded off, the others are the case. */
static void run_on(struct device *device, enum op op, struct made *m, int slot, int sample)
{
  enum { APART = 64, NUMBERS = 64 };
  void *place[MAX_TENSORS], *host[MAX_TENSORS];
  int runs = device->runs;
  size_t bytes = NUMBERS;
  for (int i = 0; i < m->items; i++) bytes += (m->item[i].bytes + APART - 1) / APART * APART;
  size_t scratch = runs > 1 ? op_scratch_bytes(device, op, &m->args) : 0;
  bytes += (scratch + APART - 1) / APART * APART;
  char *run_arena = device->get(device, (size_t)runs * bytes), *at = run_arena + NUMBERS;
  device->stride = runs > 1 ? bytes : 0;
  struct tensor guard = tensor_of(run_arena, 1, 1);
  for (int r = 0; r < runs; r++)
    device->upload(device, in_run(device, run_arena, r), &(real){r > 0}, sizeof(real));
  for (int i = 0; i < m->items; i++) {
    struct guarded *g = &m->item[i];
    g->result[slot] = memory_new(1, g->bytes);
    memcpy(g->result[slot], g->memory, g->bytes);
    disturb(g, i, g->result[slot], sample, is_flip(m, sample) ? 4 * REAL_EPS : SPREAD);
    place[i] = runs > 1 ? at : device->get(device, g->bytes);
    at += (g->bytes + APART - 1) / APART * APART;
    for (int r = runs > 1; r < runs; r++)
      device->upload(device, in_run(device, place[i], r), g->result[slot], g->bytes);
    if (runs > 1) forbid(g, g->result[slot]), device->upload(device, place[i], g->result[slot], g->bytes);
    host[i] = g->t.data;
    g->t.data = (char *)place[i] + g->before;
  }
  if (device->workers) forget_scratch(device);
  if (runs > 1) {
    device->scratch = at, device->scratch_bytes = scratch;
    op_run_if(device, knows_guards(device, op) ? &guard : NULL, op, &m->args);
    device->scratch = NULL, device->scratch_bytes = 0;
  } else {
    op_run(device, op, &m->args);
  }
  ck_assert_msg(!device->undeclared, "%s on %s takes more scratch than it declares", op_name(op),
                device->name);
  for (int i = 0; i < m->items; i++) {
    struct guarded *g = &m->item[i];
    char *wanted = memory_new(1, g->bytes);
    forbid(g, wanted);
    for (int r = runs > 1 && !knows_guards(device, op); r < runs; r++) {
      device->download(device, g->result[slot], in_run(device, place[i], r), g->bytes);
      if (runs == 1 || (g->work && (r || has_library(device)))) break;
      ck_assert_msg(r == 1 || !memcmp(wanted, g->result[slot], g->bytes),
                    r ? "%s: run %d of a launch differs" : "%s: a guarded run changed", op_name(op), r);
      memcpy(wanted, g->result[slot], g->bytes);
    }
    memory_free(wanted);
    if (runs == 1) device->put_back(device, place[i]);
    g->t.data = host[i];
  }
  device->put_back(device, run_arena);
}

static int is_output(enum op op, const struct made *m, const struct tensor *t)
{
  int count;
  const struct op_field *field = op_fields(op, &count);
  struct tensor *const *value = (struct tensor *const *)&m->args;
  for (int i = 0; i < count; i++)
    if (op_field_is_written(field[i].kind) && value[i] == t) return 1;
  return 0;
}

/* Sums over at most this many terms. */
static double longest(const struct made *m)
{
  long n = 1;
  for (int i = 0; i < m->items; i++) {
    if (m->item[i].t.rows > n) n = m->item[i].t.rows;
    if (m->item[i].t.cols > n) n = m->item[i].t.cols;
  }
  return (double)n;
}

static double element(const struct guarded *g, int slot, long i, long j)
{
  return ((const real *)(g->result[slot] + g->before))[i * g->t.ld + j];
}

/* slots: 0..SAMPLES-1 disturbed, then the reference, the device, the device with other threads, the first of those
   whose bits are to be the same */
enum { EXACT = SAMPLES, DEVICE = SAMPLES + 1, THREADS = SAMPLES + 2, FIRST = SAMPLES + 3 };

static double tolerance(const struct made *m, const struct guarded *g, long i, long j)
{
  double exact = element(g, EXACT, i, j), spread = 0, flip = 0;
  for (int s = 0; s < SAMPLES; s++) {
    double off = fabs(element(g, s, i, j) - exact), *most = is_flip(m, s) ? &flip : &spread;
    if (off > *most || isnan(off)) *most = off;
  }
  return (4 + 2 * sqrt(longest(m))) * REAL_EPS * (spread / SPREAD + fabs(exact)) + flip + SMALLEST / REAL_EPS;
}

/* A call in words, so that a kernel that is wrong on a machine elsewhere can be found: shapes, sizes, scalars. */
static const char *call_in_words(enum op op, const union op_args *args)
{
  static char text[1024];
  int count, n = 0;
  const struct op_field *field = op_fields(op, &count);
  for (int i = 0; i < count && n < (int)sizeof text - 100; i++) {
    const struct tensor *t = ((struct tensor *const *)args)[i];
    if (field[i].kind == FIELD_SIZE)
      n += sprintf(text + n, " %.40s=%ld", field[i].name, ((const long *)args)[i]);
    else if (field[i].kind == FIELD_SCALAR)
      n += sprintf(text + n, " %.40s=%g", field[i].name, ((const double *)args)[i]);
    else if (t)
      n += sprintf(text + n, " %.40s[%ld,%ld]", field[i].name, t->rows, t->cols);
  }
  return text;
}

/* Is `got` what the definition's `exact` allows? Class first: what is not finite must stay so. Where an input
   is huge a kernel may overflow on the way, but not to a finite number. An attention kernel may spread what
   is not finite to rows that the mask keeps apart (0 * NaN). */
static int agrees(enum op op, enum hostile hostile, double exact, double got, double allowed)
{
  int masked = op == OP_attention_forward || op == OP_attention_backward;
  if (isnan(exact) && hostile == WITH_NAN) return isnan(got);
  if (!isfinite(exact)) return !isfinite(got);
  if (!isfinite(got)) return hostile == WITH_HUGE || (masked && hostile >= WITH_NAN);
  return isnan(allowed) || fabs(got - exact) <= allowed;
}

/* ck_assert_msg tells the runner of every success: too slow for every element. */
#define DEMAND(condition, ...) \
  do { \
    if (!(condition)) ck_abort_msg(__VA_ARGS__); \
  } while (0)

/* What is chosen, counted or sorted is the same everywhere, to the bit. */
static void compare_ints(const char *device, enum op op, int variant, const struct made *m, int k)
{
  const struct guarded *g = &m->item[k];
  const int *got = (const int *)(const void *)g->result[DEVICE],
            *exact = (const int *)(const void *)g->result[EXACT];
  for (long i = 0; i < (long)(g->bytes / sizeof *got); i++) {
    long at = i - (long)(g->before / sizeof *got), row = at / g->t.ld;
    int inside = at >= 0 && row < g->t.rows && at % g->t.ld < g->t.cols;
    DEMAND(got[i] == (inside ? exact[i] : guard_int),
           "%s %s variant %d: integer %ld of output %d is %d, not %d", device, op_name(op), variant, at, k,
           got[i], inside ? exact[i] : guard_int);
  }
  DEMAND(!memcmp(g->result[DEVICE], g->result[THREADS], g->bytes),
         "%s %s %d: threads, or other runs, change the bits", device, op_name(op), variant);
}

/* Of a row: as near as the rounding of l, which may be a little above 1, lets it be. */
static int is_entropy(enum op op, const struct made *m, const struct tensor *t, long j)
{
  return op == OP_attention_forward && t == m->args.attention_forward.ml &&
         j >= 2 * m->args.attention_forward.heads;
}

static void compare(const char *device, enum op op, int variant, enum hostile hostile, const struct made *m)
{
  for (int k = 0; k < m->items; k++) {
    const struct guarded *g = &m->item[k];
    if (!is_output(op, m, &g->t)) {
      DEMAND(!memcmp(g->result[DEVICE], g->memory, g->bytes), "%s %s %d: an input changed", device,
             op_name(op), variant);
      continue;
    }
    if (g->t.type == TENSOR_INT) {
      compare_ints(device, op, variant, m, k);
      continue;
    }
    for (long i = 0; i < g->t.rows && !g->work; i++)
      for (long j = 0; j < g->t.cols; j++) {
        double exact = element(g, EXACT, i, j), got = element(g, DEVICE, i, j),
               allowed = tolerance(m, g, i, j);
        if (hostile == WITH_HUGE) allowed += HUGE_INPUT * SMALLEST; /* huge times underflow */
        if (is_entropy(op, m, &g->t, j)) allowed += 4 * REAL_EPS;
        DEMAND(agrees(op, hostile, exact, got, allowed),
               "%s %s variant %d (%s%s): output %d [%ld,%ld] of [%ld,%ld] is %.9g, not %.9g (+- %.3g); the "
               "call:%s",
               device, op_name(op), variant, hostile_names[hostile], m->strided ? ", strided" : "", k, i, j,
               g->t.rows, g->t.cols, got, exact, allowed, call_in_words(op, &m->args));
      }
    DEMAND(g->work || !memcmp(g->result[DEVICE], g->result[THREADS], g->bytes),
           "%s %s %d: threads, or other runs, change the bits", device, op_name(op), variant);
    for (long e = 0; e < (long)(g->bytes / sizeof(real)); e++) {
      long at = e - (long)(g->before / sizeof(real)), row = at / g->t.ld;
      int inside = at >= 0 && row < g->t.rows && at % g->t.ld < g->t.cols;
      DEMAND(inside || ((const real *)g->result[DEVICE])[e] == guard_value,
             "%s %s variant %d wrote beside output %d", device, op_name(op), variant, k);
    }
    for (long i = 0; (op == OP_gram || op == OP_symmetric_product) && i < g->t.rows; i++)
      for (long j = 0; j < i; j++) {
        double a = element(g, DEVICE, i, j), b = element(g, DEVICE, j, i);
        DEMAND(a == b || (isnan(a) && isnan(b)), "%s %s is not symmetric", device, op_name(op));
      }
  }
}

/* Spoil one value of input `which`. */
static void spoil(struct made *m, enum hostile hostile, int which)
{
  static const double value[HOSTILES] = {
    [WITH_NAN] = NAN, [WITH_INF] = INFINITY, [WITH_MINUS_INF] = -INFINITY, [WITH_HUGE] = HUGE_INPUT};
  for (int k = 0; k < m->items; k++) {
    struct guarded *g = &m->item[k];
    if (!g->read || g->t.type == TENSOR_INT) continue;
    long i = below(m, 1000 + k, g->t.rows), j = below(m, 2000 + k, g->t.cols);
    if (k == which) {
      REALS(&g->t)[i * g->t.ld + j] = (real)value[hostile];
      if (g->symmetric) REALS(&g->t)[j * g->t.ld + i] = (real)value[hostile];
    }
  }
}

#ifdef CUDA_ON_HOST
struct device *open_kind(int kind, int threads)
{
  struct device *device;
  if (kind == HOSTS) return cuda_on_host_open_with_library(threads > 1, threads);
  if (kind > 0) return cuda_on_host_open(threads > 1, threads);
  return device_open(&device, "reference", threads, NULL) ? NULL : device;
}
#elif defined(ON_A_GPU)
struct device *open_kind(int kind, int threads)
{
  struct device *device;
  struct error e = {0};
  ck_assert_msg(!device_open(&device, kind ? "cuda" : "reference", threads, &e), "%s", e.text);
  return device;
}
#else
/* NULL: this machine does not have it. */
struct device *open_kind(int kind, int threads)
{
  const char *level = kind > 0 ? ops_cpu_level_at(kind - 1) : NULL;
  struct device *device;
  if (kind > 0 && !level) return NULL;
  if (device_open(&device, kind == 0 ? "reference" : "cpu", threads, NULL)) return NULL;
  if (level) {
    device->name = level;
    ops_cpu_override_by(&device->ops, level);
  }
  return device;
}
#endif

/* Every kind that there is, alone and with other threads. */
struct bench {
  struct device *device[KINDS], *threads[KINDS];
};

static void open_bench(struct bench *b)
{
  for (int kind = 0; kind < KINDS; kind++) {
    b->device[kind] = open_kind(kind, 1);
    b->threads[kind] = b->device[kind] ? open_kind(kind, 3) : NULL;
  }
  ck_assert(b->device[0] && b->device[1]); /* the reference and one level are always there */
}

static void close_bench(struct bench *b)
{
  for (int kind = 0; kind < KINDS; kind++) {
    if (b->device[kind]) device_close(b->device[kind]);
    if (b->threads[kind]) device_close(b->threads[kind]);
  }
}

#if !defined(CUDA_ON_HOST) && !defined(ON_A_GPU)
#define AT_LEVELS
/* Levels with a fused multiply-add. */
static int has_everyones_bits(int kind)
{
  const char *level = kind > 0 ? ops_cpu_level_at(kind - 1) : NULL;
  return level && strcmp(level, "base") != 0;
}

/* As the first of them to the bit, but for a NaN's sign and payload. */
static void compare_levels(const char *device, enum op op, int variant, enum hostile hostile, struct made *m)
{
  for (int k = 0; k < m->items; k++) {
    struct guarded *g = &m->item[k];
    if (!is_output(op, m, &g->t) || g->t.type != TENSOR_REAL || g->work) continue;
    if (!g->result[FIRST]) {
      g->result[FIRST] = memory_new(1, g->bytes);
      memcpy(g->result[FIRST], g->result[DEVICE], g->bytes);
    }
    for (long i = 0; i < g->t.rows; i++)
      for (long j = 0; j < g->t.cols; j++) {
        const double first = element(g, FIRST, i, j), got = element(g, DEVICE, i, j);
        /* with an input spoilt, ml is not that of these scores: powers overflow as they never do in a step */
        const int apart =
          op == OP_attention_backward && hostile >= WITH_NAN && !isfinite(first) && !isfinite(got);
        DEMAND(!memcmp(&first, &got, sizeof got) || (isnan(first) && isnan(got)) || apart,
               "%s %s variant %d (%s): output %d [%ld,%ld] of [%ld,%ld] is %a, but %a at the first level",
               device, op_name(op), variant, hostile_names[hostile], k, i, j, g->t.rows, g->t.cols, got,
               first);
      }
  }
}
#endif

static void compare_kinds(const struct bench *b, enum op op, int variant, enum hostile hostile,
                          struct made *m)
{
  for (int s = 0; s < SAMPLES; s++) run_on(b->device[0], op, m, s, s);
  run_on(b->device[0], op, m, EXACT, -1);
  /* the reference, compared with itself, could only write where it should not */
  for (int kind = hostile == TAME ? 0 : 1; kind < KINDS; kind++) {
    if (!b->device[kind]) continue;
#ifdef CUDA_ON_HOST
    if (kind == HOSTS && op != OP_matmul && op != OP_newton_schulz) continue;
#endif
    run_on(b->device[kind], op, m, DEVICE, -1);
    run_on(b->threads[kind], op, m, THREADS, -1);
    compare(b->device[kind]->name, op, variant, hostile, m);
#ifdef AT_LEVELS
    if (has_everyones_bits(kind)) compare_levels(b->device[kind]->name, op, variant, hostile, m);
#endif
    for (int i = 0; i < m->items; i++) {
      memory_free(m->item[i].result[DEVICE]);
      memory_free(m->item[i].result[THREADS]);
      m->item[i].result[DEVICE] = m->item[i].result[THREADS] = NULL;
    }
  }
}

/* The case, where it exists, is compared when `wanted`. Returns the number of its tensors, 0: no such case. */
static int try_case(const struct bench *b, enum op op, int variant, int strided, enum hostile hostile,
                    int which, int wanted)
{
  struct made m = {.strided = strided,
                   .seed = (uint64_t)(100 * op + variant),
                   .hostile = hostile,
                   .reference = b->device[0]};
  if (!make_case[op](&m, variant, &m.args)) return 0;
  struct guarded *spoilt = &m.item[which];
  if (hostile != TAME && longest(&m) > 1000) wanted = 0; /* large cases are there for their size */
  if (longest(&m) > 300 && (variant + strided) % 2 && !is_long()) wanted = 0;
  if (wanted && (hostile < WITH_NAN || (spoilt->read && spoilt->t.type == TENSOR_REAL))) {
    if (hostile >= WITH_NAN) spoil(&m, hostile, which);
    compare_kinds(b, op, variant, hostile, &m);
  }
  free_made(&m);
  return wanted ? m.items : 1;
}

/* Threads of a GPU, one after another, are slow in these. */
static int is_slow(enum op op)
{
#ifdef CUDA_ON_HOST
  return op == OP_matmul || op == OP_attention_forward || op == OP_attention_backward ||
         op == OP_attention_cached;
#else
  return (void)op, 0;
#endif
}

/* Every third variant for each kind of hostility: together they meet all; of what is slow every ninth. A third of these
   under sanitizers (where memory is not mapped), which see what values do to addresses: little. */
static int every(enum op op) { return (MEMORY_MAPS ? 3 : 9) * (is_slow(op) ? 3 : 1); }

static void try_hostile(const struct bench *b, enum op op, enum hostile hostile)
{
  int items = 1;
  for (int variant = 0; items; variant++)
    for (int which = 0; which == 0 || (hostile >= WITH_NAN && which < items); which++)
      items = try_case(b, op, variant, (variant + which) & 1, hostile, which,
                       (variant + (int)hostile) % every(op) == 0);
}

START_TEST(every_operation)
{
  struct bench b;
  enum op op = tested[_i];
  const char *only = getenv("CHECK_OPERATION"); /* by itself, to find what is wrong with it */
  if (only && strcmp(only, op_name(op))) return;
  open_bench(&b);
  int cases = 0;
  for (int strided = 0; strided < 2; strided++)
    for (int variant = 0;
         try_case(&b, op, variant, strided, TAME, 0, MEMORY_MAPS || !is_slow(op) || (variant + strided) % 2);
         variant++)
      cases++; /* under sanitizers the slow ones alternate: with strides, without */
  for (int hostile = TAME + 1; hostile < HOSTILES; hostile++) try_hostile(&b, op, (enum hostile)hostile);
  ck_assert_int_ge(cases, 8);
  close_bench(&b);
}
END_TEST

#ifdef AT_LEVELS
/* --- shapes, which are the same on all devices --- */

enum size { ROWS = 1, COLS = 2, BOTH = 3 };

/* Sizes that stand in one argument alone, which may have another, and numbers of heads or sequences, which need only
   divide: in rows, in columns, or in both. */
static int is_open(enum op op, const char *name, enum size size)
{
  static const struct {
    enum op op;
    enum size size;
    const char *name;
  } open[] = {{OP_gram, COLS, "a"},
              {OP_gram, ROWS, "a"},
              {OP_newton_schulz, BOTH, "x"},
              {OP_newton_schulz, BOTH, "work"},
              {OP_newton_schulz, BOTH, "place"},
              {OP_newton_schulz, ROWS, "coefficients"},
              {OP_add_bias, ROWS, "y"},
              {OP_sum_rows, ROWS, "x"},
              {OP_embed_forward, ROWS, "w"},
              {OP_embed_backward, ROWS, "dw"},
              {OP_rope, ROWS, "table"},
              {OP_cross_entropy, COLS, "logits"},
              {OP_token_loss, COLS, "logits"},
              {OP_attention_forward, COLS, "ml"},
              {OP_attention_backward, COLS, "ml"},
              {OP_sink, COLS, "ml"},
              {OP_sink_backward, COLS, "ml"},
              {OP_sink, COLS, "o"},
              {OP_sink, COLS, "b"},
              {OP_ssmax_scale, COLS, "s"},
              {OP_sort_choices, COLS, "first"},
              {OP_balance_loss, ROWS, "score"},
              {OP_balance_loss, ROWS, "share"},
              {OP_balance_loss_backward, ROWS, "share"},
              {OP_fill, BOTH, "y"},
              {OP_scale, BOTH, "y"},
              {OP_norm, BOTH, "x"},
              {OP_normalise, BOTH, "y"},
              {OP_max_abs, BOTH, "x"},
              {OP_power, BOTH, "y"},
              {OP_all_finite, BOTH, "x"},
              {OP_gather, BOTH, "x"},
              {OP_reduce, BOTH, "x"},
              {OP_reduce, BOTH, "member"},
              {OP_row_moment, COLS, "x"},
              {OP_accumulate_pairs, COLS, "largest"},
              {OP_scale_segments, BOTH, "x"},
              {OP_norm_segments, BOTH, "x"},
              {OP_all_reduce_sum, BOTH, "y"},
              {OP_all_reduce_max, BOTH, "y"},
              {OP_all_gather, COLS, "y"},
              {OP_all_gather, BOTH, "x"},
              {OP_reduce_scatter, COLS, "x"},
              {OP_reduce_scatter, BOTH, "y"}};
  for (size_t i = 0; i < sizeof open / sizeof *open; i++)
    if (open[i].op == op && open[i].size & size && !strcmp(open[i].name, name)) return 1;
  return 0;
}

/* The call with this argument changed is refused, in words that name it. */
static void refused(enum op op, const struct made *m, int field, struct tensor changed, int open,
                    const char *how)
{
  int count;
  const char *name = op_fields(op, &count)[field].name;
  union op_args args = m->args;
  struct error e = {0};
  char begin[80];
  *op_tensor(&args, field) = &changed;
  int status = op_check(op, &args, &e);
  if (open) return;
  DEMAND(status, "%s with %s of %s is taken:%s", op_name(op), how, name, call_in_words(op, &args));
  snprintf(begin, sizeof begin, "%s: ", op_name(op));
  DEMAND(!strncmp(e.text, begin, strlen(begin)) && strstr(e.text, " must be "), "%s", e.text);
}

START_TEST(shapes_are_demanded)
{
  const enum op op = tested[_i];
  int count;
  const struct op_field *field = op_fields(op, &count);
  struct device *reference = open_kind(0, 1);
  for (int variant = 0, there = 1; there; variant++) {
    struct made m = {.seed = (uint64_t)variant, .reference = reference};
    struct error e = {0};
    there = make_case[op](&m, variant, &m.args);
    if (there) ck_assert_msg(!op_check(op, &m.args, &e), "%s", e.text);
    for (int i = 0; there && i < count && field[i].kind < FIELD_SIZE; i++) {
      const struct tensor *t = *op_tensor(&m.args, i);
      if (!t) continue;
      struct tensor longer = *t, wider = *t, other = *t;
      longer.rows++;
      wider.cols++, wider.ld++;
      other.type = t->type == TENSOR_INT ? TENSOR_REAL : TENSOR_INT;
      refused(op, &m, i, longer, is_open(op, field[i].name, ROWS), "one more row");
      refused(op, &m, i, wider, is_open(op, field[i].name, COLS), "one more column");
      refused(op, &m, i, other, 0, "another type");
    }
    free_made(&m);
  }
  device_close(reference);
}
END_TEST
#endif

void draw(struct tensor *t, uint64_t key)
{
  for (long i = 0; i < t->rows * t->cols; i++)
    REALS(t)[i] = (real)draw_normal((struct draw){3, STREAM_TEST, key}, (uint64_t)i);
}

/* Numbers of order one that took fewer than a thousand roundings. */
void ck_near(const struct tensor *a, const struct tensor *b, long row, const char *what)
{
  for (long i = row; i < a->rows; i++)
    for (long j = 0; j < a->cols; j++) {
      double x = REALS(a)[i * a->ld + j], y = REALS(b)[i * b->ld + j];
      ck_assert_msg(fabs(x - y) <= 64 * REAL_EPS * (1 + fabs(x)), "%s: [%ld,%ld] %.9g and %.9g", what, i, j,
                    x, y);
    }
}

/* The best level stands in for those that this machine does not have. */
struct device *host_device(int i)
{
#ifdef ON_A_GPU
  return mirror_open();
#endif
  struct device *device = open_kind(i, 1);
  if (!device) device = open_kind(1, 1);
  ck_assert_ptr_nonnull(device);
  return device;
}

int same_or_near(double got, double exact)
{
  if (isnan(exact)) return isnan(got);
  return got == exact || fabs(got - exact) <= 8 * REAL_EPS * fabs(exact);
}

struct tensor *row(struct device *device, int n, const double *values)
{
  struct tensor *t = tensor_new(device, TENSOR_REAL, 1, n, "row");
  for (int i = 0; i < n; i++) REALS(t)[i] = (real)values[i];
  return t;
}

void ck_row(const struct tensor *t, const double *expected, const char *what)
{
  for (long i = 0; i < t->rows * t->cols; i++)
    ck_assert_msg(same_or_near(REALS(t)[i], expected[i]), "%s: element %ld is %g, not %g", what, i,
                  (double)REALS(t)[i], expected[i]);
}

/* Scores and logits of this size, which differ by a few: the digits that are left tell them apart exactly. */
const double levels_of[SIZES_OF_SCORES] = {0, 1000, 10000, 131072};

double step_of(long j) { return (double)(j * 7 % 24) / 16; }

START_TEST(every_operation_is_in_a_part)
{
  for (int op = 0; op < OP_COUNT; op++)
    ck_assert_msg(make_case[op], "no check_ops_NAME.c tries %s", op_name((enum op)op));
}
END_TEST

#ifdef ON_A_GPU
static long calls_before;
static void before_a_test(void) { calls_before = mirror_calls(); }
static void after_a_test(void) { ck_assert_msg(mirror_calls() > calls_before, "nothing ran on the GPU"); }

/* Every operation that has cases, one a line. */
static int list_operations(void)
{
  for (int i = 0; i < operations; i++) puts(op_name(tested[i]));
  return 0;
}
#endif

int main(int count, char **argument)
{
#ifdef ON_A_GPU
  if (count > 1) return strcmp(argument[1], "--list") != 0 || list_operations();
#endif
  (void)count, (void)argument;
  Suite *suite = suite_create("operations");
#ifdef AT_LEVELS
  TCase *shapes = tcase_create("shapes");
  tcase_add_loop_test(shapes, shapes_are_demanded, 0, operations);
  suite_add_tcase(suite, shapes);
#endif
  TCase *table = tcase_create("table"), *identities = tcase_create("identities");
  tcase_set_timeout(table, 600); /* the GPU's kernels on a CPU that is busy take minutes */
  tcase_add_loop_test(table, every_operation, 0, operations);
  if (parts > 1) tcase_add_test(table, every_operation_is_in_a_part);
  suite_add_tcase(suite, table);
  for (int i = 0; i < parts; i++)
    if (identities_of[i]) identities_of[i](identities);
#ifdef ON_A_GPU
  tcase_set_timeout(identities, 600);
  tcase_add_checked_fixture(identities, before_a_test, after_a_test);
#endif
  suite_add_tcase(suite, identities);
  SRunner *runner = srunner_create(suite);
#ifdef CUDA_ON_HOST
  cuda_on_host_note_launches();
#endif
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
#ifdef CUDA_ON_HOST
  if (!getenv("CK_RUN_CASE")) failed += kernels_left_out();
#endif
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
