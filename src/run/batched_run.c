#include "run/batched_run.h"

#include <pthread.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "numerics/run_arena.h"
#include "run/batched.h"
#include "run/drive.h"

/* A run keeps its thread for this long: long enough to amortize loading its memory into the caches, short compared with
   a run. */
static const double turn_seconds = 0.02;

struct batch_member {
  struct batched_run *run;
  int number;              /* the run's index */
  struct config *read;     /* configuration read from the run file, if the run is resumed */
  struct trainer *trainer; /* NULL: the run has ended */
  int busy;                /* a thread is stepping this run */
  int over;                /* the run must end now */
};

struct member_queue {
  pthread_mutex_t lock; /* protects the members and serializes the hooks */
  struct batch_member *member;
  int members;
  double began;
  const struct batched_run_hooks *hooks;
};

/* --- taking turns -------------------------------------------------------------------------------------------- */

static long steps_left(const struct trainer *t) { return trainer_status(t).steps - trainer_status(t).done; }

/* Claim the idle run with the most steps left; NULL if there is none. */
static struct batch_member *take_turn(struct member_queue *l)
{
  struct batch_member *best = NULL;
  pthread_mutex_lock(&l->lock);
  for (int i = 0; i < l->members; i++) {
    struct batch_member *s = &l->member[i];
    if (!s->busy && s->trainer && (!best || steps_left(s->trainer) > steps_left(best->trainer))) best = s;
  }
  if (best) best->busy = 1;
  pthread_mutex_unlock(&l->lock);
  return best;
}

static void end_turn(struct member_queue *l, struct batch_member *s)
{
  pthread_mutex_lock(&l->lock);
  s->busy = 0;
  pthread_mutex_unlock(&l->lock);
}

static void call_step_hook(struct member_queue *l, const struct batch_member *s)
{
  if (!l->hooks->step) return;
  pthread_mutex_lock(&l->lock);
  l->hooks->step(l->hooks->context, s->number, s->trainer);
  pthread_mutex_unlock(&l->lock);
}

static void call_end_hook(struct member_queue *l, const struct batch_member *s)
{
  if (!l->hooks->end) return;
  pthread_mutex_lock(&l->lock);
  l->hooks->end(l->hooks->context, s->number);
  pthread_mutex_unlock(&l->lock);
}

static int goes_on(const struct member_queue *l, const struct batch_member *s)
{
  return drive_goes_on(s->trainer, s->run->max_time, l->began);
}

static void end(struct member_queue *l, struct batch_member *s)
{
  s->run->status = drive_end(s->trainer, NULL, NULL, &s->run->error);
  s->trainer = NULL;
  call_end_hook(l, s);
}

/* Call the step hook, or end the run if its step failed. */
static void after_step(struct member_queue *l, struct batch_member *s, const struct error *e)
{
  if (!e->status) {
    call_step_hook(l, s);
    return;
  }
  s->run->status = e->status;
  s->run->error = *e;
  trainer_abandon(s->trainer);
  s->trainer = NULL;
  call_end_hook(l, s);
}

static void advance(struct member_queue *l, struct batch_member *s)
{
  double until = clock_seconds() + turn_seconds;
  do {
    struct error e = {0};
    if (goes_on(l, s)) {
      trainer_step(s->trainer, &e);
      after_step(l, s, &e);
    } else
      end(l, s);
  } while (s->trainer && clock_seconds() < until);
}

/* A thread that finds no idle run returns: the number of runs only decreases. */
static void drive_members(void *context, int thread)
{
  struct member_queue *l = context;
  (void)thread;
  for (struct batch_member *s; (s = take_turn(l)); end_turn(l, s)) advance(l, s);
}

/* --- all runs at once, on a device with run_arenas_in_one_call --------------------------------------------------- */

static void end_if_over(void *context, long member, int worker)
{
  struct member_queue *l = context;
  struct batch_member *s = &l->member[member];
  (void)worker;
  if (s->over) end(l, s);
  s->over = 0;
}

/* End the runs that are over, in parallel. The device still computes their arenas, but the results are never read. */
static void gather_batch(struct member_queue *l, struct batched *c)
{
  struct device *device = NULL;
  for (int i = 0; i < l->members; i++) {
    struct batch_member *s = &l->member[i];
    s->over = s->trainer && !goes_on(l, s);
    if (s->over) device = trainer_device(s->trainer);
  }
  if (device && device->wait) device->wait(device); /* only this thread submits work to the device */
  if (c->pool)
    parallel_for(c->pool, l->members, end_if_over, l);
  else
    for (int i = 0; i < l->members; i++) end_if_over(l, i, 0);
  c->count = 0;
  for (int i = 0; i < l->members; i++)
    if (l->member[i].trainer) c->run[c->count++] = l->member[i].trainer;
}

/* The pool's threads draw batches and write rows and files; this thread submits work to the device. */
static void drive_together(struct member_queue *l, int threads)
{
  size_t n = (size_t)l->members;
  struct batched c = {memory_new(n, sizeof *c.run), memory_new(n, sizeof *c.program), 0,
                      n > 1 ? pool_new(threads) : NULL};
  for (gather_batch(l, &c); c.count; gather_batch(l, &c)) {
    trainer_step_all(&c);
    for (int i = 0; i < l->members; i++)
      if (l->member[i].trainer) after_step(l, &l->member[i], &l->member[i].trainer->error);
  }
  pool_free(c.pool);
  memory_free(c.program);
  memory_free(c.run);
}

/* --- a launch ------------------------------------------------------------------------------------------------ */

static struct config *config_of(const struct batch_member *s)
{
  return s->run->config ? s->run->config : s->read;
}

static const char *kind_of(const struct batch_member *s)
{
  return ((const struct top_options *)config_section(config_of(s), ""))->device;
}

static void sit_down(struct batch_member *s, struct device *device)
{
  struct batched_run *run = s->run;
  if (run->config)
    run->status = trainer_init_on(&s->trainer, device, run->config, run->flags, &run->error);
  else
    run->status = trainer_resume_on(&s->trainer, device, run->path, &run->error);
}

/* One program is replayed for all runs, so all must have recorded the same program. */
static void compare_programs(struct batch_member *s, const struct batch_member *first)
{
  const char *difference = trainer_difference(first->trainer, s->trainer);
  if (!difference) return;
  s->run->status = error_set(&s->run->error, STATUS_FAIL, "%s: not the program of the runs beside it: %s",
                             trainer_path(s->trainer), difference);
  trainer_abandon(s->trainer);
  s->trainer = NULL;
}

/* Drive the runs on the device `alone`, or on arenas. */
static void drive_on(struct device *alone, struct run_arenas *run_arenas, struct batch_member *member,
                     int members, int threads, const struct batched_run_hooks *hooks)
{
  struct member_queue l = {.member = member, .members = members, .hooks = hooks};
  int computes_runs = run_arenas_in_one_call(kind_of(member));
  const struct batch_member *first = NULL;
  pthread_mutex_init(&l.lock, NULL);
  for (int i = 0; i < members; i++) {
    sit_down(&member[i], alone ? alone : run_arenas_device(run_arenas, i));
    if (!first && member[i].trainer) first = &member[i];
    if (computes_runs && member[i].trainer) compare_programs(&member[i], first);
    if (member[i].run->status) call_end_hook(&l, &member[i]);
  }
  l.began = clock_seconds();
  if (computes_runs)
    drive_together(&l, threads);
  else
    threads_run(threads < members ? threads : members, drive_members, &l);
  pthread_mutex_destroy(&l.lock);
}

static void fail_all(struct batch_member *member, int members, const struct batched_run_hooks *hooks,
                     const struct error *e)
{
  for (int i = 0; i < members; i++) {
    member[i].run->status = e->status;
    member[i].run->error = *e;
    if (hooks->end) hooks->end(hooks->context, member[i].number);
  }
}

/* Open arenas for as many of these runs as the device holds. Prints a message if that is fewer than requested. */
static struct run_arenas *slabs_for(const char *kind, int *runs, size_t bytes, int each, struct error *e)
{
  struct run_arenas *run_arenas = NULL;
  struct error needs = {0};
  int most = run_arenas_limit(kind, bytes, &needs), n = *runs < most ? *runs : most, status = STATUS_OK;
  while (n > 0 && (status = run_arenas_open(&run_arenas, kind, n, bytes, each, e)) == STATUS_FAIL) n /= 2;
  if (run_arenas && n < *runs)
    message("device = %s: out of memory for %d runs at once (%s): %d at a time, as sweep.together = %d would "
            "have it",
            kind, *runs, needs.text, n, n);
  if (!run_arenas && (!n || status == STATUS_FAIL))
    error_set(e, STATUS_FAIL, "device = %s: out of memory for a single run: %s", kind, needs.text);
  *runs = run_arenas ? n : *runs;
  return run_arenas;
}

/* Drive the runs in groups of as many as fit in memory. */
static void drive_in_turns(struct batch_member *member, int members, size_t bytes, int each, int threads,
                           const struct batched_run_hooks *hooks)
{
  int at_once = members;
  for (int from = 0, n; from < members; from += n) {
    struct error e = {0};
    n = members - from < at_once ? members - from : at_once;
    struct run_arenas *run_arenas = slabs_for(kind_of(member), &n, bytes, each, &e);
    at_once = n;
    if (run_arenas)
      drive_on(NULL, run_arenas, member + from, n, threads, hooks);
    else
      fail_all(member + from, n, hooks, &e);
    run_arenas_close(run_arenas);
  }
}

/* Runs of one structure. A single run opens a device; several get arenas, sized by building one run. */
static void drive_same(struct batch_member *member, int members, int threads,
                       const struct batched_run_hooks *hooks)
{
  const char *kind = kind_of(member);
  struct error e = {0};
  if (members == 1) {
    struct device *device;
    if (device_open(&device, kind, threads, &e)) {
      fail_all(member, 1, hooks, &e);
      return;
    }
    drive_on(device, NULL, member, 1, threads, hooks);
    device_close(device);
    return;
  }
  size_t bytes = 0;
  int each = !run_arenas_in_one_call(kind) && threads > members ? threads / members : 1;
  int status = trainer_bytes(config_of(member), each, &bytes, &e);
  if (status)
    fail_all(member, members, hooks, &e);
  else
    drive_in_turns(member, members, bytes, each, threads, hooks);
}

void batched_run_drive(struct batched_run *run, int count, int threads, const struct batched_run_hooks *hooks)
{
  static const struct batched_run_hooks nobody = {0};
  struct batch_member *all = memory_new((size_t)count, sizeof *all);
  struct batch_member *together = memory_new((size_t)count, sizeof *together);
  uint64_t *structure = memory_new((size_t)count, sizeof *structure);
  REQUIRE(threads >= 1);
  if (!hooks) hooks = &nobody;
  for (int i = 0; i < count; i++) {
    struct batch_member *s = &all[i];
    *s = (struct batch_member){.run = &run[i], .number = i};
    run[i].status = run[i].config ? STATUS_OK : trainer_config_of(run[i].path, &s->read, NULL, &run[i].error);
    if (!run[i].status)
      structure[i] = config_structure(config_of(s));
    else if (hooks->end)
      hooks->end(hooks->context, i);
    if (run[i].status) s->run = NULL;
  }
  for (int i = 0; i < count; i++) {
    int n = 0;
    for (int k = i; all[i].run && k < count; k++)
      if (all[k].run && structure[k] == structure[i]) together[n++] = all[k];
    if (n) drive_same(together, n, threads, hooks);
    for (int k = 0; k < n; k++) all[together[k].number].run = NULL;
  }
  for (int i = 0; i < count; i++) config_free(all[i].read);
  memory_free(structure);
  memory_free(together);
  memory_free(all);
}
