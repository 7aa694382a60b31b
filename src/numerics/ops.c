/* ops.c - names, fields and costs of operations, and their execution on a device */
#include "base/clock.h"
#include "numerics/number_format.h"
#include "numerics/device.h"
#include <math.h>

static const char *const names[OP_COUNT] = {
#define OP(name, what, fields) #name,
#include "numerics/ops.def"
#undef OP
};

static const char *const whats[OP_COUNT] = {
#define OP(name, what, fields) what,
#include "numerics/ops.def"
#undef OP
};

#define OUT(n) {#n, FIELD_OUT},
#define ADD(n) {#n, FIELD_ADD},
#define IN(n) {#n, FIELD_IN},
#define MAY(n) {#n, FIELD_MAY},
#define MAYADD(n) {#n, FIELD_MAYADD},
#define NUMBER(n) {#n, FIELD_NUMBER},
#define SIZE(n) {#n, FIELD_SIZE},
#define SCALAR(n) {#n, FIELD_SCALAR},
#define OP(name, what, fields) static const struct op_field fields_of_##name[] = {fields};
#include "numerics/ops.def"
#undef OP

static const struct {
  const struct op_field *field;
  int count;
} fields_of[OP_COUNT] = {
#define OP(name, what, fields) {fields_of_##name, sizeof fields_of_##name / sizeof *fields_of_##name},
#include "numerics/ops.def"
#undef OP
};

const char *op_name(enum op op) { return names[op]; }
const char *op_what(enum op op) { return whats[op]; }

const struct op_field *op_fields(enum op op, int *count)
{
  *count = fields_of[op].count;
  return fields_of[op].field;
}

int op_is_between_ranks(enum op op)
{
  return op == OP_all_reduce_sum || op == OP_all_reduce_max || op == OP_ring_shift ||
         op == OP_pairwise_exchange || op == OP_all_gather || op == OP_reduce_scatter;
}

/* Pairs (query, key) under the causal mask, whatever the ranges say, all heads, times the two products of size Dqk
   and Dv. */
static double attention_flops(const struct tensor *q, const struct tensor *v, long batch, long heads,
                              long groups)
{
  double length = (double)(q->rows / batch), pairs = (double)batch * length * (length + 1) / 2;
  return 2 * pairs * (double)(q->cols + heads * (v->cols / groups));
}

/* a [m,k] times something, as far as j <= i */
static double half_product(long m, long k) { return (double)m * (double)(m + 1) * (double)k; }

/* For a flat matrix [m,n], m <= n. Each group of steps has one Gram matrix and one product with X. Each step has H, and
   each step after the first of its group Q H and R H H. */
static double newton_schulz_flops(const struct newton_schulz_args *a)
{
  const long m = a->rows < a->cols ? a->rows : a->cols, n = a->rows + a->cols - m;
  double flops = 0;
  for (long step = 0, more; step < a->steps; step += more) {
    more = newton_schulz_run(a, step);
    flops += half_product(m, n) + 2.0 * (double)m * (double)m * (double)n +
             (double)(more + 3 * (more - 1)) * half_product(m, m);
  }
  return (double)(a->place->rows * a->place->cols) * flops;
}

double op_flops(enum op op, const union op_args *a)
{
  const struct matmul_args *m = &a->matmul;
  const struct gram_args *g = &a->gram;
  const struct attention_forward_args *f = &a->attention_forward;
  const struct attention_backward_args *b = &a->attention_backward;
  switch (op) {
  case OP_matmul:
    return 2.0 * (double)m->c->rows * (double)m->c->cols * (double)(m->ta ? m->a->rows : m->a->cols);
  case OP_gram: return half_product(g->c->rows, g->ta ? g->a->rows : g->a->cols);
  case OP_symmetric_product: return half_product(a->symmetric_product.a->rows, a->symmetric_product.a->rows);
  case OP_attention_forward: return attention_flops(f->q, f->v, f->batch, f->heads, f->groups);
  case OP_attention_backward: return 2 * attention_flops(b->q, b->v, b->batch, b->heads, b->groups);
  case OP_pointwise_forward:
    return attention_flops(a->pointwise_forward.q, a->pointwise_forward.v, a->pointwise_forward.batch,
                           a->pointwise_forward.heads, a->pointwise_forward.groups);
  case OP_pointwise_backward:
    return 2 * attention_flops(a->pointwise_backward.q, a->pointwise_backward.v, a->pointwise_backward.batch,
                               a->pointwise_backward.heads, a->pointwise_backward.groups);
  case OP_expert_matmul:
    return 2.0 * (double)a->expert_matmul.x->rows * (double)a->expert_matmul.x->cols *
           (double)a->expert_matmul.y->cols;
  case OP_expert_outer:
    return 2.0 * (double)a->expert_outer.x->rows * (double)a->expert_outer.x->cols *
           (double)a->expert_outer.dy->cols;
  case OP_newton_schulz: return newton_schulz_flops(&a->newton_schulz);
  default: return 0;
  }
}

size_t op_scratch_bytes(const struct device *device, enum op op, const union op_args *args)
{
  return device->ops.scratch[op] ? device->ops.scratch[op](device, args) : 0;
}

static void dispatch(struct device *device, enum op op, const union op_args *args)
{
  switch (op) {
#define OP(name, what, fields) \
  case OP_##name: \
    device->ops.name(device, &args->name); \
    break;
#include "numerics/ops.def"
#undef OP
  case OP_COUNT: BUG("no operation");
  }
}

/* The guard is read by the device, among its own calls. */
static void dispatch_if(struct device *device, const struct tensor *guard, enum op op,
                        const union op_args *args)
{
  if (device->enter) device->enter(device);
  if (device->stream) {
    device->guard = guard;
    device->op_now = op_name(op);
    dispatch(device, op, args);
    device->guard = NULL;
  } else if (!guard || REALS(guard)[0] != 0) { /* in a host step, several threads may read it */
    dispatch(device, op, args);
  }
  if (device->leave) device->leave(device);
}

void op_run(struct device *device, enum op op, const union op_args *args)
{
  /* newton_schulz makes its calls on workers */
  size_t bytes = op_scratch_bytes(device, op, args);
  if (bytes) {
    device_wants_scratch(device, bytes, bytes);
    device_settle_scratch(device);
  }
  op_run_if(device, NULL, op, args);
}

void op_run_if(struct device *device, const struct tensor *guard, enum op op, const union op_args *args)
{
  if (!device->op_seconds) {
    dispatch_if(device, guard, op, args);
    return;
  }
  if (device->stamp) {
    device->stamp(device, -1);
    dispatch_if(device, guard, op, args);
    device->stamp(device, op);
  } else {
    double begin = clock_seconds();
    dispatch_if(device, guard, op, args);
    device->op_seconds[op] += clock_seconds() - begin;
  }
  device->op_calls[op]++;
  device->op_work[op] += op_flops(op, args);
}
