/* launch.h - how an operation becomes a launch: the seam between the CUDA device and its kernels
   A launch computes every run: the run is blockIdx.z, and what lies at p for run 0 lies r * stride bytes further for
   run r. Kernels reach memory through the views below, which know that; none waits for the host or allocates.
   The choice of a kernel follows from shapes alone, never from the number of runs. g++ compiles the same sources
   over tests/cuda/cuda_on_host.h, which runs them on the CPU. */
#ifndef MAXLOGIT_CUDA_LAUNCH_H
#define MAXLOGIT_CUDA_LAUNCH_H
#ifdef __cplusplus
extern "C" {
#endif
#include "numerics/device.h"

/* Row-major c [m,n] = alpha op(a) op(b) + beta c; in each of `runs`, which are `stride` bytes apart, `batch` of them, so
   many numbers apart; 0 where it is done. narrow: of run 0, room for all a and b in bf16, cuda_narrow_bytes of it; NULL
   with other math. */
struct cuda_product {
  const float *a, *b;
  float *c;
  long m, n, k, lda, ldb, ldc;
  int ta, tb;
  float alpha, beta;
  int runs;
  size_t stride;
  enum device_math math;
  void *narrow;
  long batch, next_a, next_b, next_c;
};
static inline size_t cuda_narrow_bytes(long batch, long m, long n, long k)
{
  return 2 * ((size_t)(batch * m * k + 31) / 32 * 32 + (size_t)(batch * n * k)); /* b begins on a place of its own */
}
struct cuda_blas {
  void *handle;
  int (*product)(void *handle, void *stream, const struct cuda_product *);
};

/* The first member of what `private_state` of a CUDA device points to. */
struct cuda_launch {
  const struct cuda_blas *blas; /* for large products; NULL: own kernels */
  size_t shared_bytes;          /* that a block may ask for, beside some that kernels always have */
};

/* Sets the rows of the table that this family of kernels has. */
void ops_cuda_rows(struct ops *);
void ops_cuda_vectors(struct ops *);
void ops_cuda_update(struct ops *);
void ops_cuda_small(struct ops *);
void ops_cuda_ranks(struct ops *);
void ops_cuda_product(struct ops *);
void ops_cuda_attention(struct ops *);
void ops_cuda_experts(struct ops *);
void ops_cuda_cures(struct ops *);
void ops_cuda_pointwise(struct ops *);
/* The same attention without its maxima and entropy, to measure what they cost. */
void ops_cuda_without_maxima(struct ops *);
/* All of them. */
void ops_cuda_override(struct ops *);
#ifdef __cplusplus
}
#endif
#endif
