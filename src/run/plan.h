/* plan.h - checks a configuration and computes its run's id, at little cost for many points of a sweep */
#ifndef MAXLOGIT_RUN_PLAN_H
#define MAXLOGIT_RUN_PLAN_H
#include "config/config.h"

struct plan;
struct plan *plan_new(void);
void plan_free(struct plan *);
/* Check a finished configuration as trainer_init would, fill in options that follow from others, return its id. A
   trainer is built, and the data read, only once for each structure. A structure is all options except the seed and the
   real numbers that do not concern the data; these only need the range check of the configuration. */
int plan_check(struct plan *, struct config *, char id[16], struct error *);
long plan_trainers(const struct plan *); /* the number of trainers built so far */
#endif
