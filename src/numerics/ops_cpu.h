/* ops_cpu.h - what the fast CPU kernels share
   Each kernel file is compiled once per instruction set, as LEVEL = v4 (AVX-512), v3 (AVX2, FMA) or base;
   ops_cpu.c picks a table at run time. Sums run over 16 lanes whatever the width of the registers, and a
   product's sum runs over k alone, so v3 and v4 give the same bits. */
#ifndef MAXLOGIT_OPS_CPU_H
#define MAXLOGIT_OPS_CPU_H
#include <stdint.h>
#include "numerics/device.h"

/* What each file of kernels puts into the table, at each level. */
#define DECLARE(file)                     \
  void ops_cpu_##file##_v4(struct ops *); \
  void ops_cpu_##file##_v3(struct ops *); \
  void ops_cpu_##file##_base(struct ops *);
DECLARE(gemm)
DECLARE(attention)
DECLARE(rows)
#undef DECLARE

#ifdef LEVEL
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define EXPORT(name) JOIN(name, LEVEL)
#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { LANES = 16 };
typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float vec_loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));

#define LOAD(p) (*(const vec_loose *)(p))
#define STORE(p, x) (*(vec_loose *)(p) = (x))
#define ALL(x) ((x) - (vec){0})                    /* every lane x */
/* mask lanes are -1 or 0: a where mask, else b */
#define CHOOSE(mask, a, b) ((vec)(((mask) & (ivec)(a)) | (~(mask) & (ivec)(b))))

static inline long min_long(long a, long b) { return a < b ? a : b; }
static inline long round_up(long n, long unit) { return (n + unit - 1) / unit * unit; }
#endif
#endif
