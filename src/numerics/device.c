/* device.c - devices of the host, and their memory */
#include "config.h"
#include "numerics/blas.h"
#include "numerics/isolated.h"
#include "numerics/cuda_plugin.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/thread.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

static void host_download(struct device *device, void *to, const void *from, size_t bytes)
{
  device_count_wait(device);
  device_host_copy(device, to, from, bytes);
}

static struct device *host_open(const char *kind, int threads)
{
  struct device *device = memory_new(1, sizeof *device);
  *device = (struct device){.name = kind,
                            .ops = ops_ref,
                            .pool = pool_new(threads),
                            .runs = 1,
                            .get = host_get,
                            .put_back = host_put_back,
                            .upload = device_host_copy,
                            .download = host_download,
                            .fetch = device_host_copy};
  device->workers = memory_new((size_t)pool_threads(device->pool), sizeof *device->workers);
  snprintf(device->description, sizeof device->description, "%s: kernels %s, %s, %.120s, %d thread%s", kind,
           ops_cpu_level(), device_blas_core(), device_blas_config(), threads, text_s(threads));
  return device;
}

struct device *device_reference(void) { return host_open("reference", 1); }

int device_open(struct device **out, const char *kind, int threads, struct error *e)
{
  *out = NULL;
  if (threads < 0) return error_set(e, STATUS_USAGE, "device.threads = %d: 0 (all cores) or more", threads);
  blas_pin();
  if (!strcmp(kind, "reference")) {
    *out = device_reference();
  } else if (!strcmp(kind, "cpu")) {
    *out = host_open("cpu", threads ? threads : thread_cores());
    ops_cpu_override(&(*out)->ops);
  } else if (!strcmp(kind, "isolated")) {
    *out = host_open("isolated", threads ? threads : thread_cores());
    ops_cpu_override(&(*out)->ops);
    if (device_isolate(*out, e)) {
      device_close(*out);
      *out = NULL;
      return e->status;
    }
  } else if (!strcmp(kind, "cuda")) {
    const struct cuda_plugin *plugin = cuda_plugin(e);
    if (plugin) *out = host_open("cuda", threads ? threads : thread_cores());
    if (!plugin || plugin->open(*out, e)) {
      device_close(*out);
      *out = NULL;
      return error_prefix(e, "device = cuda");
    }
  } else {
    return error_set(e, STATUS_USAGE, "device = %s: there are cpu, cuda, reference and isolated", kind);
  }
  return STATUS_OK;
}

const char *const device_math_names[] = {"fp32", "tf32", "bf16", NULL};

int device_set_math(struct device *device, enum device_math math, struct error *e)
{
  if (math != MATH_FP32 && strcmp(device->name, "cuda"))
    return error_set(e, STATUS_USAGE,
                     "device.math = %s: device = %s computes in fp32 alone; device = cuda has a choice",
                     device_math_names[math], device->name);
  device->math = math;
  return STATUS_OK;
}

enum { PLACE = 256 }; /* addresses are rounded up to so many bytes: aligned for every device */

void device_close(struct device *device)
{
  if (!device) return;
  memory_free(device->workers);
  if (device->scratch) device_put_back(device, device->scratch);
  if (device->close) device->close(device);
  pool_free(device->pool);
  memory_free(device);
}

/* Running out of host memory has its own message. No data is lost: files on disk are complete at any instant. */
static _Noreturn void out_of_memory(const struct device *device, size_t bytes)
{
  struct gpu gpu;
  cuda_look(&gpu);
  message("device = %s: out of memory: %.1f MiB more wanted by a run that has %.1f; %.0f of the GPU's %.0f "
          "MiB are free. A "
          "run's grows with model.width, model.layers, model.context, model.vocab and train.batch",
          device->name, (double)bytes / 0x1p20, (double)device->given / 0x1p20,
          gpu.free_gigabytes * 1e9 / 0x1p20, gpu.gigabytes * 1e9 / 0x1p20);
  _exit(STATUS_FAIL);
}

void *device_get(struct device *device, size_t bytes)
{
  void *memory = device->get(device, bytes);
  if (!memory) out_of_memory(device, bytes);
  device->given += (bytes + PLACE) / PLACE * PLACE;
  return memory;
}

void device_put_back(struct device *device, void *memory) { device->put_back(device, memory); }

void device_wants_scratch(struct device *device, size_t bytes, size_t worker_bytes)
{
  size_t whole = (bytes + PLACE - 1) / PLACE * PLACE, each = (worker_bytes + PLACE - 1) / PLACE * PLACE;
  if (whole > device->scratch_wanted) device->scratch_wanted = whole;
  if (each > device->worker_wanted) device->worker_wanted = each;
}

/* One block: the device's own, then each worker's. A device with a queue makes no call on workers. */
void device_settle_scratch(struct device *device)
{
  int workers = device->workers && !device->stream ? pool_threads(device->pool) : 0;
  size_t own = device->scratch_wanted, each = workers ? device->worker_wanted : 0;
  if (own <= device->scratch_bytes && (!workers || each <= device->workers[0].scratch_bytes)) return;
  if (device->scratch) device_put_back(device, device->scratch);
  device->scratch = device_get(device, own + (size_t)workers * each);
  device->scratch_bytes = own;
  for (int i = 0; i < workers; i++) {
    device->workers[i].scratch = (char *)device->scratch + own + (size_t)i * each;
    device->workers[i].scratch_bytes = each;
  }
}

void *device_scratch(struct device *device, size_t bytes)
{
  if (bytes > device->scratch_bytes) {
    REQUIRE(!device->is_worker);
    device->undeclared++;
    device_wants_scratch(device, bytes, 0);
    device_settle_scratch(device);
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
  own->is_worker = 1;
  own->op_seconds = NULL, own->op_calls = NULL, own->op_work = NULL;
  return own;
}

double device_number(struct device *device, const struct tensor *number)
{
  real x;
  device->download(device, &x, number->data, sizeof x);
  return (double)x;
}

struct tensor *tensor_new(struct device *device, enum tensor_type type, long rows, long cols,
                          const char *name)
{
  struct tensor *t = memory_new(1, sizeof *t);
  size_t size = type == TENSOR_INT ? sizeof(int) : sizeof(real);
  *t = tensor_of(device_get(device, (size_t)rows * (size_t)cols * size), rows, cols);
  t->type = type;
  t->name = name;
  return t;
}

void tensor_free(struct device *device, struct tensor *t)
{
  if (!t) return;
  device_put_back(device, t->data);
  memory_free(t);
}
