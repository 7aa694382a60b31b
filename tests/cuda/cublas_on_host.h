/* cublas_on_host.h - as much of cuBLAS as cuda/blas.cu calls, by plain loops in the place of the library
   A product is a launch like any other, late where launches are; it sums from the last of k to the first: its
   bits are not those of the project's own kernels. It stops where cuBLAS would misbehave: without a stream, or
   without work space given after the stream was set (cublasSetStream takes it away), and where leading dimensions are
   too small. MAXLOGIT_CUDA_ON_HOST=no-blas: a machine without it. */
#ifndef MAXLOGIT_TESTS_CUDA_CUBLAS_ON_HOST_H
#define MAXLOGIT_TESTS_CUDA_CUBLAS_ON_HOST_H
#include <dlfcn.h> /* whose functions are replaced below */

#define CUDA_LIBRARIES "/usr/local/cuda/lib64"
typedef struct cublas_on_host {
  cudaStream_t stream;
  void *workspace;
} * cublasHandle_t;
enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT };
enum cublasMath_t { CUBLAS_DEFAULT_MATH };
enum cudaDataType { CUDA_R_32F, CUDA_R_16BF };
struct __nv_bfloat16 {
  uint16_t bits;
};
inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
  return {(uint16_t)(x != x ? 0x7fff : __float_as_uint(rounded(x, FORMAT_BF16)) >> 16)};
}

namespace blas_on_host
{
inline long refused = -1; /* the first product to be refused, for tests */

struct gemm {
  int ta, tb, m, n, k, lda, ldb, ldc, narrow, tf32;
  float alpha, beta;
  const void *a, *b;
  float *c;
};
inline float number_at(const struct gemm &g, const void *x, long i)
{
  if (g.narrow) return __uint_as_float((unsigned)((const __nv_bfloat16 *)x)[i].bits << 16);
  return product_input(((const float *)x)[i], g.tf32 ? MATH_TF32 : MATH_FP32);
}
/* Column by column, a column a thread. */
static __global__ void cublas_gemm(struct gemm g)
{
  long j = (long)blockIdx.x * blockDim.x + threadIdx.x;
  for (long i = 0; i < g.m && j < g.n; i++) {
    float sum = 0;
    for (long l = g.k; l-- > 0;)
      sum = fmaf(number_at(g, g.a, g.ta ? i * g.lda + l : l * g.lda + i),
                 number_at(g, g.b, g.tb ? l * g.ldb + j : j * g.ldb + l), sum);
    float *to = &g.c[j * g.ldc + i];
    *to = g.alpha * sum + (g.beta == 0 ? 0 : g.beta * *to);
  }
}

inline void demand(bool good, const char *message)
{
  if (good) return;
  fprintf(stderr, "cublas_on_host: %s\n", message);
  abort();
}
inline cublasStatus_t create(cublasHandle_t *out)
{
  *out = new struct cublas_on_host();
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t destroy(cublasHandle_t handle)
{
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t version(cublasHandle_t, int *v)
{
  *v = 130000;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t set_stream(cublasHandle_t handle, cudaStream_t stream)
{
  handle->stream = stream, handle->workspace = NULL;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t set_workspace(cublasHandle_t handle, void *workspace, size_t bytes)
{
  demand(bytes >= 32 << 20, "less work space than sm_90 wants");
  handle->workspace = workspace;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t set_math(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t multiply(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m,
                               int n, int k, const void *alpha, const void *a, cudaDataType a_type, int lda,
                               const void *b, cudaDataType b_type, int ldb, const void *beta, void *c,
                               cudaDataType c_type, int ldc, cublasComputeType_t type, cublasGemmAlgo_t)
{
  demand(handle->stream && handle->workspace, "a product without a stream, or without work space of its own");
  demand(a_type == b_type && c_type == CUDA_R_32F, "types that do not go together");
  demand(lda >= (ta ? k : m) && ldb >= (tb ? n : k) && ldc >= m && m > 0 && n > 0 && k > 0,
         "too small a matrix");
  if (refused >= 0 && refused-- == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  struct gemm g = {ta,
                   tb,
                   m,
                   n,
                   k,
                   lda,
                   ldb,
                   ldc,
                   a_type == CUDA_R_16BF,
                   type == CUBLAS_COMPUTE_32F_FAST_TF32,
                   *(const float *)alpha,
                   *(const float *)beta,
                   a,
                   b,
                   (float *)c};
  LAUNCH(cublas_gemm, (unsigned)((n + 31) / 32), 32, 0, handle->stream, g);
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t multiply_batch(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m,
                                     int n, int k, const void *alpha, const void *a, cudaDataType a_type,
                                     int lda, long long next_a, const void *b, cudaDataType b_type, int ldb,
                                     long long next_b, const void *beta, void *c, cudaDataType c_type,
                                     int ldc, long long next_c, int count, cublasComputeType_t type,
                                     cublasGemmAlgo_t algorithm)
{
  const int size = a_type == CUDA_R_16BF ? 2 : 4;
  for (int i = 0; i < count; i++) {
    const cublasStatus_t status =
      multiply(handle, ta, tb, m, n, k, alpha, (const char *)a + i * next_a * size, a_type, lda,
               (const char *)b + i * next_b * size, b_type, ldb, beta, (float *)c + i * next_c, c_type, ldc,
               type, algorithm);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

inline void *library(const char *)
{
  static char one;
  const char *mode = getenv("MAXLOGIT_CUDA_ON_HOST");
  return mode && !strcmp(mode, "no-blas") ? NULL : &one;
}
inline void *function(const char *name)
{
  const struct {
    const char *name;
    void *function;
  } all[] = {{"cublasCreate_v2", (void *)create},
             {"cublasDestroy_v2", (void *)destroy},
             {"cublasGetVersion_v2", (void *)version},
             {"cublasSetStream_v2", (void *)set_stream},
             {"cublasSetWorkspace_v2", (void *)set_workspace},
             {"cublasSetMathMode", (void *)set_math},
             {"cublasGemmEx", (void *)multiply},
             {"cublasGemmStridedBatchedEx", (void *)multiply_batch}};
  for (auto &f : all)
    if (!strcmp(f.name, name)) return f.function;
  return NULL;
}
} // namespace blas_on_host
/* for their types alone */
cublasStatus_t cublasCreate_v2(cublasHandle_t *);
cublasStatus_t cublasDestroy_v2(cublasHandle_t);
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int *);
cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t);
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void *, size_t);
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t);
#define dlopen(file, flags) blas_on_host::library(file)
#define dlsym(library, name) blas_on_host::function(name)
#endif
