/* isolated.h - shared by host devices and the device whose memory the host cannot touch */
#ifndef MAXLOGIT_NUMERICS_ISOLATED_H
#define MAXLOGIT_NUMERICS_ISOLATED_H
#include <string.h>
#include "numerics/device.h"

static inline void device_host_copy(struct device *device, void *to, const void *from, size_t bytes)
{
  (void)device;
  if (bytes) memcpy(to, from, bytes);
}

/* Threads of a host step may download concurrently. */
static inline void device_count_wait(struct device *device)
{
  __atomic_fetch_add(&device->waits, 1, __ATOMIC_RELAXED);
}

/* From now on its memory is inaccessible outside of its own calls. STATUS_USAGE: not on this system. */
int device_isolate(struct device *, struct error *);
#endif
