/* report.h - a run as people see it: a line at the start, progress, a summary; used by run and resume */
#ifndef MAXLOGIT_APP_REPORT_H
#define MAXLOGIT_APP_REPORT_H
#include "run/drive.h"

/* Runs of this command are on all ranks that a launcher has started. */
int use_ranks(struct error *);
/* Drive a trainer to its end (drive.h) with progress on standard error and a summary on standard output. */
int report_drive(struct trainer *, int quiet, struct error *);
#endif
