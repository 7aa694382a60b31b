/* no_kernels.c - the places of the fast kernels, empty: fuzz targets read and check, they compute nothing */
#include "config.h"
#include "base/error.h"
#include "numerics/cpu/cpu.h"

#define NONE(file, level) \
  void ops_cpu_##file##_##level(struct ops *ops) \
  { \
    (void)ops; \
    BUG("a fuzz target computes"); \
  }
EACH_KERNEL_FILE(NONE, base)
#ifdef HAVE_X86_LEVELS
EACH_KERNEL_FILE(NONE, v3)
EACH_KERNEL_FILE(NONE, v4)
#endif
