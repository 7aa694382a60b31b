/* derived.h - series computed from recorded ones when a run is read
   They are available for every file with their source series, and are not stored as datasets. `rerun` does not compare
   them, because a run repeated with more recorded may give other values. */
#ifndef MAXLOGIT_STORAGE_DERIVED_H
#define MAXLOGIT_STORAGE_DERIVED_H
#include "storage/run_file.h"

struct derived {
  const char *name, *source; /* series */
  const char *unit, *long_name;
  void (*make)(struct run_series *); /* replaces the source's values */
};
extern const struct derived derived_series[];         /* ends with name NULL */
const struct derived *derived_find(const char *name); /* NULL: there is no such series */
#endif
