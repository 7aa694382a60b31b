/* cuda_kernels_on_host.cpp - the kernels of that plug-in */
#include "tests/cuda/cuda_runtime_on_host.h"
#define WORTH_A_LIBRARY 1000  /* so that tiny runs meet it, and do without it, */
#define ENOUGH_FOR_CROWDS 8   /* and batches of them the tile of many runs */
#include "cuda/attention.cu"
#include "cuda/cures.cu"
#include "cuda/pointwise.cu"
#include "cuda/experts.cu"
#include "cuda/product.cu"
#include "cuda/ranks.cu"
#include "cuda/rows.cu"
#include "cuda/small.cu"
#include "cuda/table.cu"
#include "cuda/update.cu"
#include "cuda/vectors.cu"
