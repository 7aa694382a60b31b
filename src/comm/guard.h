/* guard.h - a time limit for library calls that have none: after it the process ends */
#ifndef MAXLOGIT_COMM_GUARD_H
#define MAXLOGIT_COMM_GUARD_H

/* Unless guard_end is called within `seconds`, a thread calls `late`, which may print the reason, and ends the process
   (exit 1) without releasing anything. Only one limit at a time; if no thread can be started there is none. */
void guard_begin(double seconds, void (*late)(void));
void guard_end(void);
#endif
