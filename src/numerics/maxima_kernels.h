/* maxima_kernels.h - the largest and smallest products of a head's queries and keys
   The same bits at every level but base (cpu/cpu.h). */
#ifndef MAXLOGIT_NUMERICS_MAXIMA_KERNELS_H
#define MAXLOGIT_NUMERICS_MAXIMA_KERNELS_H

enum maxima_number { MAXIMA_FLOAT32, MAXIMA_FLOAT16, MAXIMA_BFLOAT16 };

struct maxima_head {
  long queries, keys, size;
  enum maxima_number number; /* of q and k */
  const void *q, *k;         /* rows contiguous, q_row and k_row numbers apart */
  long q_row, k_row;
  const long *first, *end; /* [queries]: query i attends to keys first .. end-1, 0 <= first, end <= keys */
  float *room;             /* [maxima_room(size)] */
};

/* Keys that are packed at a time, and rows at most. */
enum { MAXIMA_KEYS = 256, MAXIMA_ROWS = 32 };
static inline long maxima_room(long size) { return (MAXIMA_KEYS + MAXIMA_ROWS) * size; }

/* The largest and smallest q_i . k_j over the pairs that are not masked; infinities if there are none. Returns 0 and
   sets nothing if the numbers are so large that a product may not be finite. */
typedef int maxima_kernel(const struct maxima_head *, float *largest, float *smallest);
extern maxima_kernel cpu_maxima_v4, cpu_maxima_v3, cpu_maxima_neon, cpu_maxima_wasm, cpu_maxima_base;
/* Of the level that this process uses. */
maxima_kernel *cpu_maxima(void);
#endif
