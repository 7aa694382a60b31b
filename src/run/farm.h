/* farm.h - ranks of a launcher that compute the points of one sweep, in groups of comm.ranks
   All ranks share one folder. The rank that holds the lock of a point computes it (claim.h), as with sweeps on several
   machines: there is no central scheduler. Without a launcher there is no farm. */
#ifndef MAXLOGIT_RUN_FARM_H
#define MAXLOGIT_RUN_FARM_H
#include <stdint.h>
#include "comm/comm.h"
#include "config/config.h"

/* Use the ranks that a launcher has started, if any, for all sweeps of this process. */
int farm_open(struct error *);
int farm_is_open(void);
/* Does this process print and write the results? All ranks do the same work, one of them prints. */
int farm_tells(void);
/* Form the groups of a sweep's runs, the same for every sweep. STATUS_USAGE if the ranks cannot be divided into
   groups. */
int farm_join(const struct comm_options *, struct error *);
/* The ranks of a run: one, unless comm.ranks is larger. */
struct comm *farm_group(void);
int farm_groups(void); /* the number of groups */
/* Barrier before a sweep: an error of one rank becomes the error of all. */
int farm_barrier(struct error *);
/* Must this rank or any other rank stop? */
int farm_stops(void);

uint64_t farm_id(void);   /* the same on all ranks, different for each farm */
uint64_t farm_self(void); /* different for each process */
/* Seconds of silence after which a rank counts as lost (comm.timeout). */
double farm_patience(void);
#endif
