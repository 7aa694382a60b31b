/* farm.h - ranks that a launcher has started, at the points of one sweep, in groups of comm.ranks: who they are
   All see one folder, and who holds the lock of a point computes it (claim.h), as sweeps on several machines do:
   nothing is handed out. Without a launcher there is no farm. */
#ifndef MAXLOGIT_RUN_FARM_H
#define MAXLOGIT_RUN_FARM_H
#include <stdint.h>
#include "comm/comm.h"
#include "config/config.h"

/* Take the ranks that a launcher has started, if it has, for all sweeps of this process. */
int farm_open(struct error *);
int farm_is_open(void);
/* Does this process tell people? All do the same, one of them tells and keeps. */
int farm_tells(void);
/* Form the groups of a sweep's runs, the same for every sweep: STATUS_USAGE where ranks do not divide into such. */
int farm_join(const struct comm_options *, struct error *);
/* The ranks of a run; one, unless comm.ranks says otherwise. */
struct comm *farm_group(void);
int farm_groups(void); /* how many such there are */
/* All ranks begin a sweep: an error of one is all ranks'. */
int farm_barrier(struct error *);
/* Has this rank been told to stop, or any other? */
int farm_stops(void);

uint64_t farm_id(void);   /* the same on all of them, and another each time */
uint64_t farm_self(void); /* another for each process */
/* Seconds after which who is silent is taken for lost (comm.timeout). */
double farm_patience(void);
#endif
