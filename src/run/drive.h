/* drive.h - steps until a run is done or stopped: signals, time limit, progress */
#ifndef MAXLOGIT_RUN_DRIVE_H
#define MAXLOGIT_RUN_DRIVE_H
#include "run/trainer.h"

/* Catch SIGINT, SIGTERM and SIGUSR1: the current step is finished, a checkpoint written, STATUS_STOPPED returned. A
   second SIGINT ends the process at once. A command that trains calls this first. A signal before the first step then
   stops the run at step 0, with a run file that resume accepts. A signal before this call, while the program is loaded,
   ends the process as usual (130, 143), and nothing has been written. */
void drive_catch_signals(void);
int drive_stopping(void);
/* Act as if a signal had been caught. */
void drive_stop(void);

/* Called after every step. */
typedef void drive_tick(void *context, const struct trainer *);

/* Train to the end and close the trainer (always). Status: OK (finished or diverged), STATUS_DIVERGED
   (only train.on_nonfinite=fail), STATUS_STOPPED, STATUS_FAIL. */
int drive(struct trainer *, double max_time, drive_tick *, void *context, struct error *);

/* The parts of drive() for a caller that drives several runs. drive_goes_on: is there a step to do now? `began` is
   clock_seconds() at the start. drive_end: wait for the submitted steps, report them and close the trainer; returns the
   status as drive() does. */
int drive_goes_on(const struct trainer *, double max_time, double began);
int drive_end(struct trainer *, drive_tick *, void *context, struct error *);

/* A drive_tick that prints progress on standard error: one updating line on a terminal, plain lines otherwise. */
struct progress {
  double started, shown;
  long first_step;
  int terminal;
};
void progress_init(struct progress *, const struct trainer *);
void progress_tick(void *progress, const struct trainer *);
void progress_end(struct progress *);
#endif
