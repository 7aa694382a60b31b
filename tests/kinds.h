/* kinds.h - the devices on which a rule is tried. "isolated" has the kernels of "cpu" and crashes where the host
   touches device memory; sanitizers do not check such memory, so they get "cpu". */
#ifndef MAXLOGIT_TESTS_KINDS_H
#define MAXLOGIT_TESTS_KINDS_H
#include "base/memory.h"

static const char *const kinds[] = {"reference", MEMORY_MAPS ? "isolated" : "cpu"};
enum { KINDS = sizeof kinds / sizeof *kinds };
#endif
