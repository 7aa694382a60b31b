/* cuda_kernels_on_host.cpp - the kernels of that plug-in */
#include "tests/cuda_runtime_on_host.h"
#include "cuda/attention.cu"
#include "cuda/gemm.cu"
#include "cuda/rows.cu"
#include "cuda/small.cu"
#include "cuda/table.cu"
#include "cuda/update.cu"
#include "cuda/vectors.cu"
