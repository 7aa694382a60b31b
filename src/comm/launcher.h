/* launcher.h - who has started this process beside others, and the module that speaks with them */
#ifndef MAXLOGIT_COMM_LAUNCHER_H
#define MAXLOGIT_COMM_LAUNCHER_H
#include "comm/module.h"

/* How many a launcher has started, as it tells in the environment: 1 without one. */
int launcher_ranks(void);
/* Which of them this is. */
int launcher_rank(void);
/* By SimGrid: all in one process, and time is not the clock's. */
int launcher_is_simulated(void);
/* Was the rank started on this host? As far as the launcher and this host's processes tell. */
int launcher_is_here(int rank);
/* The first rank of this host that is stopped, or has ended; -1: none is known to be. */
int launcher_stuck(void);
/* The module; NULL, and why: STATUS_USAGE. It stays open. */
const struct comm_module *launcher_module(struct error *);
#endif
