/* blas.h - cuBLAS, opened when a device is: large products; and the measured limits of a device */
#ifndef MAXLOGIT_CUDA_BLAS_H
#define MAXLOGIT_CUDA_BLAS_H
#include "cuda/launch.h"
#include "numerics/cuda_plugin.h"
#ifdef __cplusplus
extern "C" {
#endif
/* handle stays NULL where cuBLAS cannot be had; `name` says which it is, or that there is none. 1: it is there, and has
   no memory. */
int cuda_blas_open(struct cuda_blas *, char *name, size_t room);
/* Appends in which file it is. */
void cuda_blas_file(const struct cuda_blas *, char *name, size_t room);
void cuda_blas_close(struct cuda_blas *);
void cuda_limits_measure(struct device *, struct cuda_limits *);
#ifdef __cplusplus
}
#endif
#endif
