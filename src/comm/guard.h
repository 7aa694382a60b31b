/* guard.h - a limit for calls of a library that have none: where one has not come back in time the process ends */
#ifndef MAXLOGIT_COMM_GUARD_H
#define MAXLOGIT_COMM_GUARD_H

/* Unless guard_end is called within `seconds`, a thread beside calls `late`, which may tell why, and ends the process
   (exit 1) whatever it holds. One at a time; without a thread there is no limit. */
void guard_begin(double seconds, void (*late)(void));
void guard_end(void);
#endif
