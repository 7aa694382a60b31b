/* plan.h - is a configuration sound, and what is its run's id? For many points of a sweep at little cost. */
#ifndef MAXLOGIT_RUN_PLAN_H
#define MAXLOGIT_RUN_PLAN_H
#include "config/config.h"

struct plan;
struct plan *plan_new(void);
void plan_free(struct plan *);
/* Check a finished configuration as trainer_init would, fill in what follows from other options, tell its id.
   A trainer is built, and the data read, once for each structure: all that a run depends on but its seed and
   those real numbers that are not the data's, which have no other rule than the range that the configuration
   has checked. */
int plan_check(struct plan *, struct config *, char id[16], struct error *);
long plan_trainers(const struct plan *); /* built so far */
#endif
