#include "run/launch.h"

#include <pthread.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "numerics/slab.h"
#include "run/drive.h"

/* A run keeps its thread this long before another has its turn: long against a step's own memory, short against a
   run. */
static const double turn_seconds = 0.02;

struct seat {
  struct launch_run *run;
  int number;              /* of the run among all */
  struct config *read;     /* from the run file, where it goes on */
  struct trainer *trainer; /* NULL: over */
  int busy;                /* a thread is at it */
};

struct launch {
  pthread_mutex_t lock; /* of seats, and for the ears */
  struct seat *seat;
  int seats;
  double began;
  const struct launch_ears *ears;
};

/* --- taking turns -------------------------------------------------------------------------------------------- */

static long steps_left(const struct trainer *t) { return trainer_steps(t) - trainer_step_count(t); }

/* The run that has most to do and nobody at it. */
static struct seat *take_turn(struct launch *l)
{
  struct seat *best = NULL;
  pthread_mutex_lock(&l->lock);
  for (int i = 0; i < l->seats; i++) {
    struct seat *s = &l->seat[i];
    if (!s->busy && s->trainer && (!best || steps_left(s->trainer) > steps_left(best->trainer))) best = s;
  }
  if (best) best->busy = 1;
  pthread_mutex_unlock(&l->lock);
  return best;
}

static void end_turn(struct launch *l, struct seat *s)
{
  pthread_mutex_lock(&l->lock);
  s->busy = 0;
  pthread_mutex_unlock(&l->lock);
}

static void tell_step(struct launch *l, const struct seat *s)
{
  if (!l->ears->step) return;
  pthread_mutex_lock(&l->lock);
  l->ears->step(l->ears->context, s->number, s->trainer);
  pthread_mutex_unlock(&l->lock);
}

static void tell_end(struct launch *l, const struct seat *s)
{
  if (!l->ears->end) return;
  pthread_mutex_lock(&l->lock);
  l->ears->end(l->ears->context, s->number);
  pthread_mutex_unlock(&l->lock);
}

static void advance(struct launch *l, struct seat *s)
{
  double until = clock_seconds() + turn_seconds;
  struct launch_run *run = s->run;
  do {
    if (!drive_goes_on(s->trainer, run->max_time, l->began)) {
      run->status = drive_end(s->trainer, NULL, NULL, &run->error);
      s->trainer = NULL;
    } else if ((run->status = trainer_step(s->trainer, &run->error))) {
      trainer_abandon(s->trainer);
      s->trainer = NULL;
    } else
      tell_step(l, s);
  } while (s->trainer && clock_seconds() < until);
  if (!s->trainer) tell_end(l, s);
}

/* A thread that finds no free run has nothing more to do: runs only become fewer. */
static void drive_seats(void *context, int thread)
{
  struct launch *l = context;
  (void)thread;
  for (struct seat *s; (s = take_turn(l)); end_turn(l, s)) advance(l, s);
}

/* --- a launch ------------------------------------------------------------------------------------------------ */

static struct config *config_of(const struct seat *s) { return s->run->config ? s->run->config : s->read; }

static const char *kind_of(const struct seat *s)
{
  return ((const struct top_options *)config_section(config_of(s), ""))->device;
}

static void sit_down(struct seat *s, struct device *device)
{
  struct launch_run *run = s->run;
  if (run->config)
    run->status = trainer_init_on(&s->trainer, device, run->config, run->flags, &run->error);
  else
    run->status = trainer_resume_on(&s->trainer, device, run->path, &run->error);
}

/* Where the runs are computed: slabs as large as a run that is built to measure it, or a device for one alone. */
struct room {
  struct slabs *slabs;
  struct device *alone;
};

static int make_room(struct room *room, const struct seat *seat, int seats, int threads, struct error *e)
{
  size_t bytes = 0;
  *room = (struct room){0};
  if (seats == 1) return device_open(&room->alone, kind_of(seat), threads, e);
  int status = trainer_bytes(config_of(seat), &bytes, e);
  int each = threads > seats ? threads / seats : 1;
  return status ? status : slabs_open(&room->slabs, kind_of(seat), seats, bytes, each, e);
}

/* A device with a queue of its own is told by one thread, which does not wait for it. */
static int drivers_for(const struct room *room, int seats, int threads)
{
  const struct device *device = room->slabs ? slabs_device(room->slabs, 0) : room->alone;
  return !device || device->stream ? 1 : threads < seats ? threads : seats;
}

/* Runs of one structure. */
static void launch(struct seat *seat, int seats, int threads, const struct launch_ears *ears)
{
  struct launch l = {.seat = seat, .seats = seats, .ears = ears};
  struct room room;
  struct error e = {0};
  pthread_mutex_init(&l.lock, NULL);
  int status = make_room(&room, seat, seats, threads, &e);
  for (int i = 0; i < seats; i++) {
    struct launch_run *run = seat[i].run;
    if (status)
      run->status = status, run->error = e;
    else
      sit_down(&seat[i], room.alone ? room.alone : slabs_device(room.slabs, i));
    if (run->status) tell_end(&l, &seat[i]);
  }
  l.began = clock_seconds();
  threads_run(drivers_for(&room, seats, threads), drive_seats, &l);
  slabs_close(room.slabs);
  device_close(room.alone);
  pthread_mutex_destroy(&l.lock);
}

void launch_drive(struct launch_run *run, int count, int threads, const struct launch_ears *ears)
{
  static const struct launch_ears nobody = {0};
  struct seat *all = memory_new((size_t)count, sizeof *all);
  struct seat *together = memory_new((size_t)count, sizeof *together);
  uint64_t *structure = memory_new((size_t)count, sizeof *structure);
  REQUIRE(threads >= 1);
  if (!ears) ears = &nobody;
  for (int i = 0; i < count; i++) {
    struct seat *s = &all[i];
    *s = (struct seat){.run = &run[i], .number = i};
    run[i].status = run[i].config ? STATUS_OK : trainer_config_of(run[i].path, &s->read, NULL, &run[i].error);
    if (!run[i].status)
      structure[i] = config_structure(config_of(s));
    else if (ears->end)
      ears->end(ears->context, i);
    if (run[i].status) s->run = NULL;
  }
  for (int i = 0; i < count; i++) {
    int n = 0;
    for (int k = i; all[i].run && k < count; k++)
      if (all[k].run && structure[k] == structure[i]) together[n++] = all[k];
    if (n) launch(together, n, threads, ears);
    for (int k = 0; k < n; k++) all[together[k].number].run = NULL;
  }
  for (int i = 0; i < count; i++) config_free(all[i].read);
  memory_free(structure);
  memory_free(together);
  memory_free(all);
}
