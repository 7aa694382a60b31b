/* device.c - devices of the host, their memory, and what the BLAS says of itself */
#include "config.h"
#include "numerics/device.h"
#include "base/memory.h"
#include "base/thread.h"
#include <cblas.h>
#include <stdio.h>
#include <string.h>

/* OpenBLAS changes its bits with its thread count: it runs single-threaded inside our own threads. */
static void blas_pin(void) { openblas_set_num_threads(1); }

const char *device_blas_config(void) { return openblas_get_config(); }
const char *device_blas_core(void) { return openblas_get_corename(); }

static void *host_get(struct device *device, size_t bytes)
{
  (void)device;
  return memory_new(1, bytes ? bytes : 1);
}

static void host_put_back(struct device *device, void *memory)
{
  (void)device;
  memory_free(memory);
}

static void host_copy(struct device *device, void *to, const void *from, size_t bytes)
{
  (void)device;
  if (bytes) memcpy(to, from, bytes);
}

static struct device *host_open(const char *kind, int threads)
{
  struct device *device = memory_new(1, sizeof *device);
  *device = (struct device){.name = kind,
                            .ops = ops_ref,
                            .pool = pool_new(threads),
                            .get = host_get,
                            .put_back = host_put_back,
                            .upload = host_copy,
                            .download = host_copy};
  device->workers = memory_new((size_t)pool_threads(device->pool), sizeof *device->workers);
  blas_pin();
  snprintf(device->description, sizeof device->description, "%s: kernels %s, %s, %.60s, %d thread%s", kind,
           ops_cpu_level(), device_blas_core(), device_blas_config(), threads, threads == 1 ? "" : "s");
  return device;
}

int device_open(struct device **out, const char *kind, int threads, struct error *e)
{
  *out = NULL;
  if (threads < 0) return error_set(e, STATUS_USAGE, "device.threads = %d: 0 (all cores) or more", threads);
  if (!strcmp(kind, "reference")) {
    *out = host_open("reference", 1);
  } else if (!strcmp(kind, "cpu")) {
    *out = host_open("cpu", threads ? threads : thread_cores());
    ops_cpu_override(&(*out)->ops);
  } else {
    return error_set(e, STATUS_USAGE, "device = %s: this build has cpu and reference", kind);
  }
  return STATUS_OK;
}

void device_close(struct device *device)
{
  if (!device) return;
  if (device->close) device->close(device);
  for (int i = 0; i < pool_threads(device->pool); i++)
    if (device->workers[i].scratch) device->put_back(device, device->workers[i].scratch);
  memory_free(device->workers);
  if (device->scratch) device->put_back(device, device->scratch);
  pool_free(device->pool);
  memory_free(device);
}

void *device_scratch(struct device *device, size_t bytes)
{
  if (bytes > device->scratch_bytes) {
    if (device->scratch) device->put_back(device, device->scratch);
    device->scratch = device->get(device, bytes);
    device->scratch_bytes = bytes;
  }
  return device->scratch;
}

struct device *device_worker(struct device *device, int worker)
{
  struct device *own = &device->workers[worker];
  void *scratch = own->scratch;
  size_t bytes = own->scratch_bytes;
  *own = *device;
  own->scratch = scratch;
  own->scratch_bytes = bytes;
  own->op_seconds = NULL, own->op_calls = NULL, own->op_work = NULL;
  return own;
}

struct tensor *tensor_new(struct device *device, enum tensor_type type, long rows, long cols,
                          const char *name)
{
  struct tensor *t = memory_new(1, sizeof *t);
  size_t size = type == TENSOR_INT ? sizeof(int) : sizeof(real);
  *t = tensor_of(device->get(device, (size_t)rows * (size_t)cols * size), rows, cols);
  t->type = type;
  t->name = name;
  return t;
}

void tensor_free(struct device *device, struct tensor *t)
{
  if (!t) return;
  device->put_back(device, t->data);
  memory_free(t);
}
