/* clock.h - time; values in /series must not depend on it */
#ifndef MAXLOGIT_BASE_CLOCK_H
#define MAXLOGIT_BASE_CLOCK_H
double clock_seconds(void);       /* monotonic */
void clock_iso8601(char out[32]); /* UTC now, "2026-11-21T01:23:45Z" */
#endif
