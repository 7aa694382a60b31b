/* no_kernels.c - the places of the fast kernels, empty: fuzz targets read and check, they compute nothing */
#include "config.h"
#include "base/error.h"
#include "numerics/ops_cpu.h"

#define NONE(file, level) \
  void ops_cpu_##file##_##level(struct ops *ops) \
  { \
    (void)ops; \
    BUG("a fuzz target computes"); \
  }
#define NO_KERNELS(level) \
  NONE(gemm, level) NONE(attention, level) NONE(attention_only, level) NONE(rows, level)
NO_KERNELS(base)
#ifdef HAVE_X86_LEVELS
NO_KERNELS(v3)
NO_KERNELS(v4)
#endif
