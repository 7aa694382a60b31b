#include "run/drive.h"
#include "run/outcome.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/status_line.h"

/* Lock-free: handlers may write them, and every thread that drives a run reads `caught`. */
static atomic_int caught, interrupted;

/* A second SIGINT ends the process at once. After Ctrl-C a sweep's worker gets both SIGINT from the terminal and
   SIGTERM from its parent, so SIGTERM must not count as a second interrupt. */
static void on_signal(int number)
{
  if (number == SIGINT && atomic_exchange(&interrupted, 1)) _exit(128 + SIGINT);
  caught = 1;
}

void drive_catch_signals(void)
{
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigemptyset(&a.sa_mask);
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGTERM, &a, NULL);
  sigaction(SIGUSR1, &a, NULL);
  signal(SIGPIPE, SIG_IGN);
}

int drive_stopping(void) { return caught; }
void drive_stop(void) { caught = 1; }

int drive_goes_on(const struct trainer *t, double max_time, double began)
{
  return trainer_more(t) && !caught && !(max_time > 0 && clock_seconds() - began >= max_time);
}

int drive_end(struct trainer *t, drive_tick *tick, void *context, struct error *e)
{
  int status = trainer_settle(t, e);
  if (status) {
    trainer_abandon(t);
    return status;
  }
  if (tick && trainer_device(t)->ahead) tick(context, t);
  int diverged = !strcmp(trainer_status(t).state, "diverged"), more = trainer_more(t);
  const struct train_options *o = config_section(trainer_config(t), "train");
  int fails = o->on_nonfinite == ON_NONFINITE_FAIL;
  status = trainer_done(t, e);
  if (status) return status;
  return more ? STATUS_STOPPED : diverged && fails ? STATUS_DIVERGED : STATUS_OK;
}

int drive(struct trainer *t, double max_time, drive_tick *tick, void *context, struct error *e)
{
  double began = clock_seconds();
  for (;;) {
    int stops = !drive_goes_on(t, max_time, began), status = trainer_barrier(t, &stops, e);
    if (!status && stops) break;
    if (!status) status = trainer_step(t, e);
    if (status) {
      trainer_abandon(t);
      return status;
    }
    if (tick) tick(context, t);
  }
  return drive_end(t, tick, context, e);
}

/* --- progress ---------------------------------------------------------------------------------------------- */

void progress_init(struct progress *p, const struct trainer *t)
{
  *p = (struct progress){
    .started = clock_seconds(), .first_step = trainer_status(t).done, .terminal = isatty(STDERR_FILENO)};
}

void progress_tick(void *context, const struct trainer *t)
{
  struct progress *p = context;
  double now = clock_seconds(), interval = p->terminal ? 0.1 : 10;
  int last = !trainer_more(t);
  if (now - p->shown < interval && !(last && p->terminal)) return;
  if (!p->terminal && !p->shown && now - p->started < interval) return;
  p->shown = now;
  const struct model_options *m = config_section(trainer_config(t), "model");
  const struct trainer_status s = trainer_status(t);
  long at = outcome_largest(s.max_logit, model_blocks(m) * m->heads);
  double rate = (double)(s.done - p->first_step) / (now - p->started);
  char left[32], part[5][64];
  const char *parts[] = {part[0], part[1], part[2], part[3], part[4], NULL};
  duration_text(left, (double)(s.steps - s.done) / rate);
  snprintf(part[0], sizeof part[0], "%s left", left);
  snprintf(part[1], sizeof part[1], "step %ld/%ld", s.done, s.steps);
  snprintf(part[2], sizeof part[2], "loss %.3f", without_nan_sign(s.loss));
  snprintf(part[3], sizeof part[3], "max logit %.4g L%ldH%ld", without_nan_sign((double)s.max_logit[at]),
           at / m->heads, at % m->heads);
  snprintf(part[4], sizeof part[4], "%.4g steps/s", rate);
  if (p->terminal)
    status_line(parts);
  else
    fprintf(stderr, "%s  %s  %s  %s  %s\n", part[0], part[1], part[2], part[3], part[4]);
}

void progress_end(struct progress *p)
{
  if (p->terminal && p->shown > 0) status_line_clear();
}
