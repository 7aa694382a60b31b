/* derived.h - series made of recorded ones when a run is read: every file with their source has them, as none of its
   datasets. A run repeated with more recorded may make others of them: they are not part of what it is checked by. */
#ifndef MAXLOGIT_STORAGE_DERIVED_H
#define MAXLOGIT_STORAGE_DERIVED_H
#include "storage/run_file.h"

struct derived {
  const char *name, *source; /* series */
  const char *unit, *long_name;
  void (*make)(struct run_series *); /* in place of the source's values */
};
extern const struct derived derived_series[];         /* ends with name NULL */
const struct derived *derived_find(const char *name); /* NULL: there is no such one */
#endif
