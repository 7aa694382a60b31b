/* clock.c - time */
#include "base/clock.h"
#include <time.h>

double clock_seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void clock_iso8601(char out[32])
{
  time_t now = time(NULL);
  struct tm utc;
  strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
}
