/* no_kernels.c - the places of the fast kernels, empty: fuzz targets read and check, they compute nothing */
#include "config.h"
#include "base/error.h"
#include "numerics/cpu/cpu.h"
#include "numerics/maxima_kernels.h"
#include "numerics/spectra_kernels.h"

#define NONE(file, level) \
  void ops_cpu_##file##_##level(struct ops *ops) \
  { \
    (void)ops; \
    BUG("a fuzz target computes"); \
  }
#define NONE_OF(level) \
  EACH_KERNEL_FILE(NONE, level) \
  const struct spectra_kernels cpu_spectra_##level; \
  int cpu_maxima_##level(const struct maxima_head *head, float *largest, float *smallest) \
  { \
    (void)head, (void)largest, (void)smallest; \
    BUG("a fuzz target computes"); \
  }
NONE_OF(base)
#ifdef HAVE_X86_LEVELS
NONE_OF(v3)
NONE_OF(v4)
#endif
