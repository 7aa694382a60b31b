/* registry.c - the tables of plug-ins of this floor, generated from the list.am of each folder */
#include <string.h>
#include "training/data.h"
#include "training/optimizer.h"
#include "training/schedule.h"

#define ATTENTION(n)
#define COMMAND(n)

#define OPTIMIZER(n) extern const struct optimizer optimizer_##n;
#define STABILIZER(n) extern const struct stabilizer stabilizer_##n;
#define SCHEDULE(n) extern const struct schedule schedule_##n;
#define DATA(n) extern const struct data_source data_source_##n;
#include "plugins.def"
#undef OPTIMIZER
#undef STABILIZER
#undef SCHEDULE
#undef DATA

/* A table of one kind and the search by name. */
#define TABLE(kind, table, find)                          \
  const struct kind *find(const char *name)               \
  {                                                       \
    for (const struct kind *const *p = table; *p; p++)    \
      if (!strcmp((*p)->name, name))                      \
        return *p;                                        \
    return NULL;                                          \
  }

#define OPTIMIZER(n) &optimizer_##n,
#define STABILIZER(n)
#define SCHEDULE(n)
#define DATA(n)
const struct optimizer *const optimizers[] = {
#include "plugins.def"
  NULL
};
TABLE(optimizer, optimizers, optimizer_find)
#undef OPTIMIZER
#undef STABILIZER
#define OPTIMIZER(n)
#define STABILIZER(n) &stabilizer_##n,
const struct stabilizer *const stabilizers[] = {
#include "plugins.def"
  NULL
};
TABLE(stabilizer, stabilizers, stabilizer_find)
#undef STABILIZER
#undef SCHEDULE
#define STABILIZER(n)
#define SCHEDULE(n) &schedule_##n,
const struct schedule *const schedules[] = {
#include "plugins.def"
  NULL
};
TABLE(schedule, schedules, schedule_find)
#undef SCHEDULE
#undef DATA
#define SCHEDULE(n)
#define DATA(n) &data_source_##n,
const struct data_source *const data_sources[] = {
#include "plugins.def"
  NULL
};
TABLE(data_source, data_sources, data_source_find)
