/* limits.h - resource limits of this process: of the machine, its control groups (cgroup version 1 and 2), ulimit */
#ifndef MAXLOGIT_BASE_LIMITS_H
#define MAXLOGIT_BASE_LIMITS_H

struct memory_limit {
  double bytes;
  char by[200]; /* origin of the limit: "this machine has", "ulimit -v allows" */
};

/* The smallest memory limit. A control group is also limited by the enclosing ones. `root`: the folder of /proc and
   /sys, "" except in tests. */
struct memory_limit memory_limit(const char *root);

/* Free memory of this machine, in bytes. */
double memory_free_now(void);

/* Processors that the control groups leave to this process, rounded up; 0: no limit. */
int limits_cores(const char *root);

#endif
