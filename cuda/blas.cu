/* blas.cu - cuBLAS for large products, and how fast this device is at all
   One product a run: in a batch cuBLAS may choose another algorithm, and a run has the same bits alone and in
   company. Its work space is given once, and operands in bf16 lie in the device's scratch, so that nothing is allocated
   when a product is made. */
#include "cuda/kernels.h"
#include "cuda/blas.h"
#include <dlfcn.h>
#ifdef __CUDACC__
#include <cublas_v2.h>
#include <cuda_bf16.h>
#else
#include "cublas_on_host.h"
#endif
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE = 64 << 20, CONVERT_THREADS = 256, CONVERT_BLOCKS = 4096 };

#define EACH_FUNCTION(X) \
  X(cublasCreate_v2) \
  X(cublasDestroy_v2) \
  X(cublasGetVersion_v2) X(cublasSetStream_v2) X(cublasSetWorkspace_v2) X(cublasSetMathMode)

/* overloaded in the header */
typedef cublasStatus_t gemm_ex(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                               const void *alpha, const void *a, cudaDataType, int lda, const void *b,
                               cudaDataType, int ldb, const void *beta, void *c, cudaDataType, int ldc,
                               cublasComputeType_t, cublasGemmAlgo_t);

typedef cublasStatus_t gemm_batch(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                  const void *alpha, const void *a, cudaDataType, int lda, long long next_a,
                                  const void *b, cudaDataType, int ldb, long long next_b, const void *beta,
                                  void *c, cudaDataType, int ldc, long long next_c, int count,
                                  cublasComputeType_t, cublasGemmAlgo_t);

struct blas {
  gemm_ex *cublasGemmEx_;
  gemm_batch *cublasGemmStridedBatchedEx_;
  void *library, *lt;
  cublasHandle_t handle;
  void *workspace;
#define X(name) decltype(&name) name##_;
  EACH_FUNCTION(X)
#undef X
};

static void *open_library(const char *name)
{
  char file[512];
  snprintf(file, sizeof file, "%s.so.%d", name, CUDART_VERSION / 1000);
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  snprintf(file, sizeof file, "%s/%s.so.%d", CUDA_LIBRARIES, name, CUDART_VERSION / 1000);
  return library ? library : dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

static int find_functions(struct blas *b)
{
  int all = 1;
#define X(name) all &= (b->name##_ = (decltype(&name))dlsym(b->library, #name)) != NULL;
  EACH_FUNCTION(X)
#undef X
  b->cublasGemmEx_ = (gemm_ex *)dlsym(b->library, "cublasGemmEx");
  b->cublasGemmStridedBatchedEx_ = (gemm_batch *)dlsym(b->library, "cublasGemmStridedBatchedEx");
  return all && b->cublasGemmEx_ && b->cublasGemmStridedBatchedEx_;
}

/* y = x in bf16, packed, blockIdx.y of them, `next` numbers apart in x; a NaN stays one. */
static __global__ void narrow_kernel(__nv_bfloat16 *y, const float *x, long rows, long cols, long ld, long next)
{
  const long step = (long)gridDim.x * blockDim.x, count = rows * cols;
  x += blockIdx.y * next, y += blockIdx.y * count;
  for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
    y[i] = __float2bfloat16_rn(x[ld == cols ? i : i + quotient(i, cols) * (ld - cols)]);
}

static __nv_bfloat16 *narrowed(__nv_bfloat16 *y, const float *x, long rows, long cols, long ld, long batch,
                               long next, cudaStream_t stream)
{
  long blocks = ceil_div(rows * cols, CONVERT_THREADS);
  dim3 grid((unsigned)(blocks < CONVERT_BLOCKS ? blocks : (long)CONVERT_BLOCKS), (unsigned)batch);
  LAUNCH(narrow_kernel, grid, CONVERT_THREADS, 0, stream, y, x, rows, cols, ld, next);
  return y;
}

/* Row by row, c = op(a) op(b) is, column by column, c^T = op(b)^T op(a)^T. */
static int multiply(void *handle, void *stream, const struct cuda_product *p)
{
  struct blas *b = (struct blas *)handle;
  cudaStream_t queue = (cudaStream_t)stream;
  long rows_a = p->ta ? p->k : p->m, cols_a = p->ta ? p->m : p->k, rows_b = p->tb ? p->n : p->k,
       cols_b = p->tb ? p->k : p->n;
  cublasComputeType_t type = p->math == MATH_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasOperation_t ta = p->ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = p->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
  int bf16 = p->math == MATH_BF16;
  if (p->m > INT_MAX || p->n > INT_MAX || p->k > INT_MAX || p->lda > INT_MAX || p->ldb > INT_MAX ||
      p->ldc > INT_MAX)
    return 1;
  if (b->cublasSetStream_v2_(b->handle, queue) != CUBLAS_STATUS_SUCCESS) return 1;
  if (b->cublasSetWorkspace_v2_(b->handle, b->workspace, WORKSPACE) != CUBLAS_STATUS_SUCCESS) return 1;
  for (int r = 0; r < p->runs; r++) {
    const void *x = (const char *)p->a + (size_t)r * p->stride,
               *y = (const char *)p->b + (size_t)r * p->stride;
    float *c = (float *)((char *)p->c + (size_t)r * p->stride);
    long next_x = p->next_a, next_y = p->next_b;
    if (bf16) {
      __nv_bfloat16 *to = (__nv_bfloat16 *)((char *)p->narrow + (size_t)r * p->stride),
                    *after = to + (p->batch * rows_a * cols_a + 31) / 32 * 32;
      const int twice = x == y && rows_a == rows_b && cols_a == cols_b && p->lda == p->ldb && next_x == next_y;
      x = narrowed(to, (const float *)x, rows_a, cols_a, p->lda, p->batch, p->next_a, queue);
      y = twice ? x : narrowed(after, (const float *)y, rows_b, cols_b, p->ldb, p->batch, p->next_b, queue);
      next_x = rows_a * cols_a, next_y = rows_b * cols_b;
    }
    const cudaDataType in = bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const int m = (int)p->n, n = (int)p->m, k = (int)p->k, ldx = (int)(bf16 ? cols_a : p->lda),
              ldy = (int)(bf16 ? cols_b : p->ldb);
    cublasStatus_t status =
      p->batch == 1
        ? b->cublasGemmEx_(b->handle, tb, ta, m, n, k, &p->alpha, y, in, ldy, x, in, ldx, &p->beta, c,
                           CUDA_R_32F, (int)p->ldc, type, CUBLAS_GEMM_DEFAULT)
        : b->cublasGemmStridedBatchedEx_(b->handle, tb, ta, m, n, k, &p->alpha, y, in, ldy, next_y, x, in, ldx,
                                         next_x, &p->beta, c, CUDA_R_32F, (int)p->ldc, p->next_c,
                                         (int)p->batch, type, CUBLAS_GEMM_DEFAULT);
    if (status == CUBLAS_STATUS_SUCCESS) continue;
    REQUIRE(r == 0); /* those before are done: what adds to c must not begin again */
    return 1;
  }
  return 0;
}

int cuda_blas_open(struct cuda_blas *out, char *name, size_t room)
{
  struct blas *b = (struct blas *)calloc(1, sizeof *b);
  int version = 0;
  REQUIRE(b);
  out->handle = NULL;
  out->product = multiply;
  snprintf(name, room, "no cuBLAS");
  b->lt = open_library("libcublasLt");
  b->library = open_library("libcublas");
  int there = b->library && find_functions(b), no_memory = 0;
  if (there) {
    const cublasStatus_t status = b->cublasCreate_v2_(&b->handle);
    no_memory = status == CUBLAS_STATUS_ALLOC_FAILED ||
                (status == CUBLAS_STATUS_SUCCESS && cudaMalloc(&b->workspace, WORKSPACE) != cudaSuccess);
    if (status != CUBLAS_STATUS_SUCCESS) b->handle = NULL;
  }
  if (b->handle && b->workspace) {
    b->cublasGetVersion_v2_(b->handle, &version);
    b->cublasSetMathMode_(b->handle, CUBLAS_DEFAULT_MATH);
    snprintf(name, room, "cuBLAS %d.%d.%d", version / 10000, version % 10000 / 100, version % 100);
    out->handle = b;
    return 0;
  }
  cudaGetLastError();
  if (b->handle) b->cublasDestroy_v2_(b->handle);
  free(b);
  return no_memory;
}

void cuda_blas_file(const struct cuda_blas *of, char *name, size_t room)
{
  const struct blas *b = (const struct blas *)of->handle;
  const size_t used = strlen(name);
  Dl_info file;
  if (b && dladdr((void *)b->cublasGemmEx_, &file))
    snprintf(name + used, room - used, " (%s)", file.dli_fname);
}

void cuda_blas_close(struct cuda_blas *out)
{
  struct blas *b = (struct blas *)out->handle;
  if (!b) return;
  b->cublasDestroy_v2_(b->handle);
  cudaFree(b->workspace);
  free(b);
  out->handle = NULL;
}

/* --- limits ------------------------------------------------------------------------------------------------- */

#ifndef LIMITS_SIDE
#define LIMITS_SIDE 8192
#define LIMITS_STEPS 4096
#endif
enum { LIMIT = LIMITS_SIDE, REPEATS = 10, ROUNDS = 3, FMA_STEPS = LIMITS_STEPS, FMA_CHAINS = 8 };

/* Not zeros: a multiplier that does not switch is faster than it will be. */
static __global__ void noise_kernel(float *x, long count)
{
  for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (long)gridDim.x * blockDim.x) {
    unsigned h = (unsigned)i * 2654435761u;
    h = (h ^ (h >> 15)) * 2246822519u;
    h ^= h >> 13;
    x[i] = (float)h * (1 / 2147483648.0f) - 1;
  }
}

static __global__ void fma_kernel(float *out, float a, float b)
{
  float x[FMA_CHAINS];
  for (int k = 0; k < FMA_CHAINS; k++) x[k] = threadIdx.x + k;
  for (int i = 0; i < FMA_STEPS; i++) UNROLL
  for (int k = 0; k < FMA_CHAINS; k++) x[k] = fmaf(x[k], a, b);
  float sum = 0;
  for (int k = 0; k < FMA_CHAINS; k++) sum += x[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/* Seconds of one of REPEATS, the least of ROUNDS. */
template <class F> static double least_seconds(cudaStream_t stream, F work)
{
  cudaEvent_t from, to;
  float best = INFINITY, took;
  cudaEventCreate(&from), cudaEventCreate(&to);
  work();
  for (int round = 0; round < ROUNDS; round++) {
    cudaEventRecord(from, stream);
    for (int i = 0; i < REPEATS; i++) work();
    cudaEventRecord(to, stream);
    if (cudaEventSynchronize(to) != cudaSuccess || cudaEventElapsedTime(&took, from, to) != cudaSuccess)
      took = NAN;
    best = took < best || took != took ? took : best;
  }
  cudaEventDestroy(from), cudaEventDestroy(to);
  return (double)best * 1e-3 / REPEATS;
}

static double product_rate(struct blas *b, cudaStream_t stream, const float *x, const float *y, float *z,
                           cudaDataType in, cublasComputeType_t type)
{
  float one = 1, zero = 0;
  int failed = 0;
  if (!b) return NAN;
  b->cublasSetStream_v2_(b->handle, stream);
  b->cublasSetWorkspace_v2_(b->handle, b->workspace, WORKSPACE);
  double seconds = least_seconds(stream, [&] {
    failed |= b->cublasGemmEx_(b->handle, CUBLAS_OP_T, CUBLAS_OP_N, LIMIT, LIMIT, LIMIT, &one, x, in, LIMIT,
                               y, in, LIMIT, &zero, z, CUDA_R_32F, LIMIT, type,
                               CUBLAS_GEMM_DEFAULT) != CUBLAS_STATUS_SUCCESS;
  });
  return failed ? NAN : 2.0 * LIMIT * LIMIT * LIMIT / seconds;
}

void cuda_limits_measure(struct device *device, struct cuda_limits *l)
{
  cudaStream_t stream = (cudaStream_t)device->stream;
  const struct cuda_blas *blas = ((const struct cuda_launch *)device->private_state)->blas;
  struct blas *b = blas ? (struct blas *)blas->handle : NULL;
  long count = (long)LIMIT * LIMIT;
  size_t bytes = (size_t)count * sizeof(float);
  float *x[3];
  __nv_bfloat16 *narrow[2];
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, 0);
  for (int i = 0; i < 3; i++) {
    x[i] = (float *)device->get(device, bytes);
    LAUNCH(noise_kernel, (unsigned)ceil_div(count, 16384), 256, 0, stream, x[i], count);
  }
  for (int i = 0; i < 2; i++)
    narrow[i] = narrowed((__nv_bfloat16 *)device->get(device, bytes / 2), x[i], LIMIT, LIMIT, LIMIT, 1, 0,
                         stream);
  l->fp32 = product_rate(b, stream, x[0], x[1], x[2], CUDA_R_32F, CUBLAS_COMPUTE_32F);
  l->tf32 = product_rate(b, stream, x[0], x[1], x[2], CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32);
  l->bf16 =
    product_rate(b, stream, (float *)narrow[0], (float *)narrow[1], x[2], CUDA_R_16BF, CUBLAS_COMPUTE_32F);
  l->bytes = 2.0 * (double)bytes / least_seconds(stream, [&] {
               cudaMemcpyAsync(x[1], x[0], bytes, cudaMemcpyDeviceToDevice, stream);
             });
  unsigned blocks = (unsigned)p.multiProcessorCount * 8;
  l->fma = 2.0 * FMA_STEPS * FMA_CHAINS * blocks * 256.0 /
           least_seconds(stream, [&] { LAUNCH(fma_kernel, blocks, 256, 0, stream, x[2], 0.999f, 0.001f); });
  for (int i = 0; i < 3; i++) device->put_back(device, x[i]);
  for (int i = 0; i < 2; i++) device->put_back(device, narrow[i]);
}
