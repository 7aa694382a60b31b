/* replay.c - the calls of a program are made, level by level, for one run or for those beside it */
#include "base/thread.h"
#include "numerics/program_state.h"
#include "numerics/sums.h"

static void run_call(struct device *device, const struct call *call)
{
  if (!call->host)
    op_run_if(device, call->guard, call->op, &call->args);
  else if (!call->guard || device_number(device, call->guard) != 0)
    call->host(device, call->context);
}

/* Is the call made outside the device's kept calls? Kept calls end before it. */
static int is_apart(const struct program *p, const struct call *call)
{
  return call->host || (p->device->ranks[RANKS_BATCH] && op_is_between_ranks(call->op)) ||
         (p->device->ranks[RANKS_CONTEXT] && op_is_between_ranks(call->op));
}

/* The i-th call of the order, for all runs. */
static void run_at(struct program *const *p, int count, int i)
{
  int at = p[0]->order[i];
  int each = is_apart(p[0], &p[0]->call[at]) ? count : 1;
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

/* Keep the calls of a group within [from, to). Calls of one level go to different branches. */
static void keep_group(struct program *p, const struct group *g, int from, int to)
{
  struct device *d = p->device;
  if (from < g->from) from = g->from;
  if (to > g->from + g->count) to = g->from + g->count;
  for (int k = from, next = 0; k < to; k++) {
    const struct call *call = &p->call[p->order[k]];
    const int alone = !g->level || op_scratch_bytes(d, call->op, &call->args) > 0;
    d->branch(d, alone ? 0 : next++ % BRANCHES);
    run_call(d, call);
  }
  if (from < to) d->branch(d, -1);
}

/* Calls from the i-th of the order on, up to the next step of the host. Returns where they end. */
static int run_piece_kept(struct program *p, int i)
{
  struct device *d = p->device;
  int end = i;
  while (end < p->calls && !is_apart(p, &p->call[p->order[end]])) end++;
  if (!p->kept[i]) {
    d->begin(d);
    for (int g = 0; g < p->groups; g++) keep_group(p, &p->group[g], i, end);
    p->kept[i] = d->end(d);
  }
  d->replay(d, p->kept[i]);
  return end;
}

static void run_kept(struct program *const *all, int count)
{
  struct program *p = all[0];
  if (p->kept_runs != p->device->runs || p->kept_scratch != p->device->scratch) program_forget(p);
  p->kept_runs = p->device->runs;
  p->kept_scratch = p->device->scratch;
  for (int i = 0; i < p->calls;) {
    if (is_apart(p, &p->call[p->order[i]]))
      run_at(all, count, i++);
    else
      i = run_piece_kept(p, i);
  }
}

/* Calls of the device follow each other inside, steps of the host run outside. */
static void be_inside(struct device *d, int wanted, int *inside)
{
  if (!d->enter || *inside == wanted) return;
  (wanted ? d->enter : d->leave)(d);
  *inside = wanted;
}

static void run_all(struct program *const *all, int count)
{
  struct program *p = all[0];
  int inside = 0;
  REQUIRE(p->planned);
  device_settle_scratch(p->device);
  /* Make the calls one by one the first time: this covers the device's one-time setup. */
  if (p->kept && p->ran++ && !p->device->op_seconds && !p->device->one_by_one) {
    run_kept(all, count);
    return;
  }
  for (int i = 0; i < p->groups; i++) {
    const struct group *g = &p->group[i];
    be_inside(p->device, !p->call[p->order[g->from]].host, &inside);
    if (g->fusion && p->device->ops.shared[OP_matmul] && !p->device->op_seconds)
      fusion_run(p->device, g->fusion, g->count, g->piece);
    else if (g->apart && !p->kept && !p->device->op_seconds)
      parallel_for(p->device->pool, g->count, run_piece, &(struct level_call){p, g});
    else
      for (int k = g->from; k < g->from + g->count; k++) {
        be_inside(p->device, !p->call[p->order[k]].host, &inside);
        run_at(all, count, k);
      }
    sums_go_on(p->device);
  }
  be_inside(p->device, 0, &inside);
}

void program_run(struct program *p) { run_all(&p, 1); }

void program_run_together(struct program *const *p, int count)
{
  struct device *first = p[0]->device;
  ptrdiff_t apart = p[count - 1]->device->run_arena - first->run_arena;
  REQUIRE(count == 1 || (p[0]->kept && apart > 0));
  if (count > 1) first->runs = (int)(apart / (ptrdiff_t)first->stride) + 1;
  run_all(p, count);
  if (count > 1) first->runs = 1;
}
