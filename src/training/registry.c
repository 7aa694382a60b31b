/* registry.c - the generated tables of optimisers, schedules and data sources */
#include <string.h>
#include "training/data.h"
#include "training/optimizer.h"
#include "training/schedule.h"

#define OPTIMIZER(name) extern const struct optimizer optimizer_##name;
#define SCHEDULE(name) extern const struct schedule schedule_##name;
#define DATA(name) extern const struct data_source data_source_##name;
#include "plugins.def"

const struct optimizer *const optimizers[] = {
#define OPTIMIZER(name) &optimizer_##name,
#include "plugins.def"
  NULL};

const struct schedule *const schedules[] = {
#define SCHEDULE(name) &schedule_##name,
#include "plugins.def"
  NULL};

const struct data_source *const data_sources[] = {
#define DATA(name) &data_source_##name,
#include "plugins.def"
  NULL};

#define FIND(kind) \
  const struct kind *kind##_find(const char *name) \
  { \
    for (const struct kind *const *p = kind##s; *p; p++) \
      if (!strcmp((*p)->name, name)) return *p; \
    return NULL; \
  }

FIND(optimizer)
FIND(schedule)
FIND(data_source)
