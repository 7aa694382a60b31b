/* launcher.h - the launcher of this process, and the module for communication with its ranks */
#ifndef MAXLOGIT_COMM_LAUNCHER_H
#define MAXLOGIT_COMM_LAUNCHER_H
#include "comm/module.h"

/* The number of ranks that a launcher has started, from the environment; 1 without a launcher. */
int launcher_ranks(void);
/* The number of this rank. */
int launcher_rank(void);
/* Simulated by SimGrid: all ranks are in one process, with simulated time. */
int launcher_is_simulated(void);
/* Was the rank started on this host? Based on the launcher's variables and the processes of this host. */
int launcher_is_here(int rank);
/* The first rank of this host that is stopped or has ended; -1: none is known. */
int launcher_stuck(void);
/* The module, which stays open; NULL with STATUS_USAGE and the reason. */
const struct comm_module *launcher_module(struct error *);
#endif
