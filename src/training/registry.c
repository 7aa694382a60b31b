/* registry.c - the generated tables of optimizers, schedules and data sources */
#include "base/registry.h"
#include "training/data.h"
#include "training/optimizer.h"
#include "training/schedule.h"

REGISTRY(optimizer)
REGISTRY(schedule)
REGISTRY(data_source)
