#include "numerics/run_arena.h"
#include <limits.h>
#include <string.h>
#include "base/memory.h"
#include "base/thread.h"
#include "numerics/cuda_plugin.h"

enum {
  PAGE = 4096
}; /* arenas begin on pages of their own: threads that compute different runs share no line */

struct run_arenas {
  struct device *whole;
  char *memory;
  struct device **run;
  int runs;
};

static void *run_arena_get(struct device *device, size_t bytes)
{
  size_t from = device->given; /* device_get counts this piece afterwards */
  if (from + bytes > device->run_arena_bytes)
    BUG("a run wants %zu bytes more than the %zu of its arena", from + bytes - device->run_arena_bytes,
        device->run_arena_bytes);
  return device->run_arena + from;
}

/* Freed memory of a run is not reused: all runs must keep one layout. */
static void run_arena_put_back(struct device *device, void *memory) { (void)device, (void)memory; }

static struct device *device_of_run(const struct run_arenas *s, int run, size_t bytes, int threads)
{
  struct device *device = memory_new(1, sizeof *device);
  *device = *s->whole;
  device->pool = pool_new(threads);
  device->workers = memory_new((size_t)pool_threads(device->pool), sizeof *device->workers);
  device->run_arena = s->memory + (size_t)run * s->whole->stride;
  device->run_arena_bytes = bytes;
  device->given = 0;
  device->runs = 1; /* calls on a run's own device are for that run */
  device->waits = 0;
  device->scratch = NULL;
  device->scratch_bytes = 0;
  device->get = run_arena_get;
  device->put_back = run_arena_put_back;
  device->close = NULL;
  return device;
}

int run_arenas_open(struct run_arenas **out, const char *kind, int runs, size_t bytes, int threads,
                    struct error *e)
{
  *out = NULL;
  REQUIRE(runs >= 1 && threads >= 1);
  struct device *whole;
  int status = device_open(&whole, kind, 1, e);
  if (status) return status;
  struct run_arenas *s = memory_new(1, sizeof *s);
  s->whole = whole;
  s->runs = runs;
  whole->runs = runs;
  whole->stride = runs > 1 ? (bytes + PAGE - 1) / PAGE * PAGE : 0;
  s->memory = whole->get(whole, (size_t)(runs - 1) * whole->stride + bytes + 1);
  if (!s->memory) {
    device_close(whole);
    memory_free(s);
    return error_set(e, STATUS_FAIL, "out of memory on the device");
  }
  s->run = memory_new((size_t)runs, sizeof(struct device *));
  for (int i = 0; i < runs; i++) s->run[i] = device_of_run(s, i, bytes, threads);
  *out = s;
  return STATUS_OK;
}

void run_arenas_close(struct run_arenas *s)
{
  if (!s) return;
  for (int i = 0; i < s->runs; i++) device_close(s->run[i]);
  memory_free(s->run);
  s->whole->put_back(s->whole, s->memory);
  device_close(s->whole);
  memory_free(s);
}

struct device *run_arenas_device(struct run_arenas *s, int run)
{
  REQUIRE(run >= 0 && run < s->runs);
  return s->run[run];
}

int run_arenas_in_one_call(const char *kind) { return !strcmp(kind, "cuda"); }

/* On a GPU: about as many as it has multiprocessors, for a call of a small run has work for one or two of them. */
int run_arenas_default(const char *kind) { return run_arenas_in_one_call(kind) ? 128 : 1; }

int run_arenas_limit(const char *kind, size_t bytes, struct error *e)
{
  static const double share = 0.9,
                      own = 100 << 20; /* uploaded constants, the library's work space, and the rest */
  struct gpu gpu;
  if (!run_arenas_in_one_call(kind)) return INT_MAX;
  cuda_look(&gpu);
  double most = share * (gpu.free_gigabytes * 1e9 - own) / (double)(bytes + PAGE);
  error_set(e, STATUS_FAIL, "%.1f MiB a run, and %.0f of the GPU's %.0f MiB are free", (double)bytes / 0x1p20,
            gpu.free_gigabytes * 1e9 / 0x1p20, gpu.gigabytes * 1e9 / 0x1p20);
  return most > INT_MAX ? INT_MAX : most < 0 ? 0 : (int)most;
}
