/* cuda_on_host.cpp - a device whose kernels are those of cuda/, run on the CPU by cuda_on_host.h */
/* so that small products meet every tile */
#define TILES_THAT_FILL 2
#include "cuda/rows.cu"
#include "cuda/vectors.cu"
#include "cuda/update.cu"
#include "cuda/small.cu"
#include "cuda/experts.cu"
#include "cuda/product.cu"
#include "cuda/ranks.cu"
#include "cuda/attention.cu"
#include "cuda/table.cu"
#include "cuda_device.h"

struct host_twin {
  struct cuda_launch launch; /* first, as kernels expect */
  unsigned order;
};

static void set_order(struct device *device)
{
  cuda_on_host::order = ((struct host_twin *)device->private_state)->order;
}
static void close_twin(struct device *device) { free(device->private_state); }

extern "C" struct device *cuda_on_host_open(unsigned order, int runs)
{
  struct device *device;
  if (device_open(&device, "reference", 1, NULL)) return NULL;
  struct host_twin *twin = (struct host_twin *)calloc(1, sizeof *twin);
  twin->order = order;
  device->name = "cuda on the host";
  device->private_state = twin, device->close = close_twin, device->enter = set_order;
  device->stream = twin; /* kernels read guards themselves */
  device->runs = runs;
  ops_cuda_override(&device->ops);
  return device;
}
