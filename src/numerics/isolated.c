/* isolated.c - memory that only the device may touch
   The same kernels over memory that is inaccessible outside of the device's own calls: dereferencing a device pointer
   on the host crashes at once. Memory is handed out once and unmapped with the device. */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/pages.h"
#include "numerics/isolated.h"

enum { REGION_GIB = 4, LINE = 64 };

struct region {
  pthread_mutex_t lock;
  char *base;
  size_t used, page;
  int inside; /* calls that have entered and not left */
};

static void protect(const struct region *r, int access)
{
  if (mprotect(r->base, (r->used + r->page - 1) / r->page * r->page, access)) BUG("mprotect failed");
}

static void region_enter(struct device *device)
{
  struct region *r = device->private_state;
  pthread_mutex_lock(&r->lock);
  if (r->inside++ == 0) protect(r, PROT_READ | PROT_WRITE);
  pthread_mutex_unlock(&r->lock);
}

static void region_leave(struct device *device)
{
  struct region *r = device->private_state;
  pthread_mutex_lock(&r->lock);
  if (--r->inside == 0) protect(r, PROT_NONE);
  pthread_mutex_unlock(&r->lock);
}

static void *region_get(struct device *device, size_t bytes)
{
  struct region *r = device->private_state;
  pthread_mutex_lock(&r->lock);
  void *memory = r->base + r->used;
  r->used += (bytes + LINE) / LINE * LINE;
  REQUIRE(r->used < (size_t)REGION_GIB << 30);
  protect(r, r->inside ? PROT_READ | PROT_WRITE : PROT_NONE);
  pthread_mutex_unlock(&r->lock);
  return memory;
}

static void region_put_back(struct device *device, void *memory) { (void)device, (void)memory; }

static void region_copy(struct device *device, void *to, const void *from, size_t bytes)
{
  region_enter(device);
  device_host_copy(device, to, from, bytes);
  region_leave(device);
}

static void region_download(struct device *device, void *to, const void *from, size_t bytes)
{
  device_count_wait(device);
  region_copy(device, to, from, bytes);
}

static void region_close(struct device *device)
{
  struct region *r = device->private_state;
  pages_release(r->base, (size_t)REGION_GIB << 30);
  pthread_mutex_destroy(&r->lock);
  memory_free(r);
}

int device_isolate(struct device *device, struct error *e)
{
  (void)e;
  struct region *r = memory_new(1, sizeof *r);
  pthread_mutex_init(&r->lock, NULL);
  r->page = (size_t)sysconf(_SC_PAGESIZE);
  r->base = pages_reserve((size_t)REGION_GIB << 30);
  if (!r->base) BUG("no room for %d GiB of addresses", REGION_GIB);
  device->private_state = r;
  device->get = region_get, device->put_back = region_put_back, device->close = region_close;
  device->upload = device->fetch = region_copy, device->download = region_download;
  device->enter = region_enter, device->leave = region_leave;
  return STATUS_OK;
}
