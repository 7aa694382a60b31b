/* cuda_plugin_on_host.cpp - the plug-in of device = cuda with the CPU in the place of the GPU: the device */
#include "tests/cuda/cuda_runtime_on_host.h"
#include "cuda/device.cu"
#define LIMITS_SIDE 64
#define LIMITS_STEPS 16
#include "cuda/blas.cu"
