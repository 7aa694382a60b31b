/* drive.h - steps until a run is done or told to stop: signals, time limit, progress */
#ifndef MAXLOGIT_RUN_DRIVE_H
#define MAXLOGIT_RUN_DRIVE_H
#include "run/trainer.h"

/* Catch SIGINT, SIGTERM and SIGUSR1: the step in hand is finished, a checkpoint written, STATUS_STOPPED
   returned; a second SIGINT ends at once. A command that trains calls this first of all: a signal that comes before
   the first step is then a stop at step 0, with a run file that resume takes; one that comes before this call, while
   the program is loaded, ends the process as it ends any (130, 143), and nothing has been written. */
void drive_catch_signals(void);
int drive_stopping(void);
/* As if a signal had come. */
void drive_stop(void);

/* Called after every step. */
typedef void drive_tick(void *context, const struct trainer *);

/* Train to the end and close the trainer (always). Status: OK (finished or diverged), STATUS_DIVERGED
   (only train.on_nonfinite=fail), STATUS_STOPPED, STATUS_FAIL. */
int drive(struct trainer *, double max_time, drive_tick *, void *context, struct error *);

/* Its parts, for who drives several: is there a step to do, now? `began`: clock_seconds() at the start. And the end:
   what is under way is waited for and told, the trainer closed; status as drive's. */
int drive_goes_on(const struct trainer *, double max_time, double began);
int drive_end(struct trainer *, drive_tick *, void *context, struct error *);

/* A drive_tick: progress on standard error: one updating line on a terminal, plain lines otherwise. */
struct progress {
  double started, shown;
  long first_step;
  int terminal;
};
void progress_init(struct progress *, const struct trainer *);
void progress_tick(void *progress, const struct trainer *);
void progress_end(struct progress *);
#endif
