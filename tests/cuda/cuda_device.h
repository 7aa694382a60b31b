/* cuda_device.h - the kernels of a GPU on the CPU, for tests */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H
#ifdef __cplusplus
extern "C" {
#endif
struct device;
/* Blocks and threads take turns in this order, see cuda_on_host.h; launches compute `runs` runs. */
struct device *cuda_on_host_open(unsigned order, int runs);
#ifdef __cplusplus
}
#endif
#endif
