/* limits.h - what this process may use: by the machine, by its control groups (cgroup version 1 and 2), by ulimit */
#ifndef MAXLOGIT_BASE_LIMITS_H
#define MAXLOGIT_BASE_LIMITS_H

struct memory_limit {
  double bytes;
  char by[200]; /* what sets it: "this machine has", "ulimit -v allows" */
};

/* The smallest limit of memory. A control group is limited by those around it, too. `root` is the folder of /proc and
   /sys: "" but in tests. */
struct memory_limit memory_limit(const char *root);

/* Bytes of this machine that nothing has taken. */
double memory_free_now(void);

/* Processors that the control groups leave to this process, rounded up; 0: they set no limit. */
int limits_cores(const char *root);

#endif
