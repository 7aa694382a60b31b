/* cuda_device.h - the kernels of a GPU on the CPU, for tests */
#ifndef MAXLOGIT_TESTS_CUDA_CUDA_DEVICE_H
#define MAXLOGIT_TESTS_CUDA_CUDA_DEVICE_H
#ifdef __cplusplus
extern "C" {
#endif
struct device;
/* Blocks and threads take turns in this order, see cuda_on_host.h; launches compute `runs` runs. */
struct device *cuda_on_host_open(unsigned order, int runs);
/* Likewise, with a cuBLAS. */
struct device *cuda_on_host_open_with_library(unsigned order, int runs);
/* It refuses its product of this number from now on, from 0; -1: none. */
void cuda_on_host_refuse(long product);
/* From now on: which kernels are launched, in children, too. */
void cuda_on_host_note_launches(void);
int cuda_on_host_was_launched(const void *kernel);
/* The kernel of attention that makes o, dq, dk or dv (0 to 3), 16 `each` wide: per 0, by fused multiply-adds; by tensor
   cores, 1: in tf32, 2: in bf16. NULL: not one of those that tests ask about. */
const void *cuda_on_host_attention(int made, int each, int per);
#ifdef __cplusplus
}
#endif
#endif
