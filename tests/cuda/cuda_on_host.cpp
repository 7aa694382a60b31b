/* cuda_on_host.cpp - a device whose kernels are those of cuda/, run on the CPU by cuda_on_host.h, at once */
#include "cuda_runtime_on_host.h"
#ifdef CUDA_PTX /* the kernels as nvcc compiles them */
#include "ptx_on_host.h"
#define RUN_KERNEL ptx_on_host::launch
#else
#define RUN_KERNEL cuda_on_host::launch
#endif
#undef LAUNCH
#define LAUNCH(kernel, grid, block, bytes, stream, ...) \
  ((void)(stream), cuda_on_host::note((const void *)(kernel)), \
   RUN_KERNEL(#kernel, kernel, grid, block, bytes, ##__VA_ARGS__))
namespace cuda_on_host
{
inline void note(const void *kernel);
}
#ifndef REAL_SIZES /* small products meet every tile, and the library */
#define TILES_THAT_FILL 2
#define WORTH_A_LIBRARY 1000
#endif
#define LIMITS_SIDE 64
#define LIMITS_STEPS 16
#include "cuda/rows.cu"
#include "cuda/vectors.cu"
#include "cuda/update.cu"
#include "cuda/small.cu"
#include "cuda/cures.cu"
#include "cuda/pointwise.cu"
#include "cuda/experts.cu"
#include "cuda/product.cu"
#include "cuda/ranks.cu"
#include "cuda/attention.cu"
#include "cuda/table.cu"
#pragma GCC diagnostic ignored "-Wshadow" /* a struct and a function of one name are as in C */
#include "cuda/blas.cu"
#include "cuda_device.h"

#ifdef __SANITIZE_THREAD__ /* at the end of each test's process it would sleep for a second */
extern "C" const char *__tsan_default_options() { return "atexit_sleep_ms=0"; }
#endif

/* Addresses of the kernels that were launched, by this process or those that it has forked. */
enum { KERNELS = 1024 };
static const void **launched;

inline void cuda_on_host::note(const void *kernel)
{
  for (int i = 0; launched && i < KERNELS; i++) {
    if (launched[i] == kernel) return;
    if (launched[i]) continue;
    launched[i] = kernel;
    return;
  }
}

extern "C" void cuda_on_host_note_launches(void)
{
#ifdef CUDA_PTX
  ptx_on_host::find_all();
#endif
  void *shared =
    mmap(NULL, KERNELS * sizeof *launched, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared != MAP_FAILED) launched = (const void **)shared;
}

extern "C" int cuda_on_host_was_launched(const void *kernel)
{
  return std::find(launched, launched + KERNELS, kernel) < launched + KERNELS;
}

template <int WAY> static const void *attention_of(int each, int per)
{
#define ATTENTION(by, n, ...) \
  if (each == n) return (const void *)(attention_kernel<WAY, by<n, ##__VA_ARGS__>>)
  if (per == 0) {
    ATTENTION(by_units, 4);
    ATTENTION(by_units, 8);
    ATTENTION(by_units, 16);
  } else if (per == 1) {
    ATTENTION(by_cores, 2, 1);
    ATTENTION(by_cores, 8, 1);
  } else {
    ATTENTION(by_cores, 4, 2);
    ATTENTION(by_cores, 8, 2);
  }
  return NULL;
}
extern "C" const void *cuda_on_host_attention(int made, int each, int per)
{
  return made == 0 ? attention_of<FORWARD>(each, per)
         : made == 1 ? attention_of<TO_Q>(each, per)
         : made == 2 ? attention_of<TO_K>(each, per)
                     : attention_of<TO_V>(each, per);
}

struct host_twin {
  struct cuda_launch launch; /* first, as kernels expect */
  unsigned order;
  struct cuda_blas blas;
};

static struct host_twin *twin_of(struct device *device) { return (struct host_twin *)device->private_state; }
static void set_order(struct device *device) { cuda_on_host::order = twin_of(device)->order; }
static void close_twin(struct device *device)
{
  if (twin_of(device)->launch.blas) cuda_blas_close(&twin_of(device)->blas);
  free(device->private_state);
}

extern "C" struct device *cuda_on_host_open(unsigned order, int runs)
{
  static runtime_on_host::working_now always; /* nothing waits */
  struct device *device;
  if (device_open(&device, "reference", 1, NULL)) return NULL;
  struct host_twin *twin = (struct host_twin *)calloc(1, sizeof *twin);
  twin->order = order;
  twin->launch.shared_bytes = cuda_on_host::most_shared - 2048;
  device->name = "cuda on the host";
  device->private_state = twin, device->close = close_twin, device->enter = set_order;
  device->stream = twin; /* kernels read guards themselves */
  device->runs = runs;
  ops_cuda_override(&device->ops);
  return device;
}

extern "C" struct device *cuda_on_host_open_with_library(unsigned order, int runs)
{
  struct device *device = cuda_on_host_open(order, runs);
  char name[64];
  if (!device) return NULL;
  device->name = "cuda on the host, with its library";
  cuda_blas_open(&twin_of(device)->blas, name, sizeof name);
  twin_of(device)->launch.blas = &twin_of(device)->blas;
  return device;
}

extern "C" void cuda_on_host_refuse(long product) { blas_on_host::refused = product; }
