/* cuda_plugin_on_host.cpp - the plug-in of device = cuda with the CPU in the place of the GPU: the device */
#include "tests/cuda/cuda_runtime_on_host.h"
#include "cuda/device.cu"

/* There is no cuBLAS here: products are the project's own kernels. */
extern "C" void cuda_blas_open(struct cuda_blas *blas, char *name, size_t room)
{
  blas->handle = NULL;
  snprintf(name, room, "no cuBLAS");
}
extern "C" void cuda_blas_close(struct cuda_blas *) {}
extern "C" void cuda_limits_measure(struct device *, struct cuda_limits *l)
{
  *l = {NAN, NAN, NAN, NAN, NAN};
}
