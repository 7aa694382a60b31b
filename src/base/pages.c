#include "base/pages.h"
#include <stdint.h>
#include <sys/mman.h>
#include "base/memory.h"

enum { LARGE_PAGE = 1 << 21 };

/* Stored right before a mapped block, which begins a large page. */
struct mapping {
  struct mapping *self; /* a malloc block does not have its own address there */
  char *from;
  size_t length, bytes;
};

static struct mapping *mapping_of(const void *memory)
{
  if (!MEMORY_MAPS || (uintptr_t)memory % LARGE_PAGE) return NULL;
  struct mapping *m = (struct mapping *)(uintptr_t)memory - 1;
  return m->self == m ? m : NULL;
}

static void *map(size_t bytes, int access)
{
  void *from = mmap(NULL, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return from == MAP_FAILED ? NULL : from;
}

void *pages_map(size_t bytes)
{
  if (!MEMORY_MAPS || bytes < LARGE_PAGE || bytes > PTRDIFF_MAX - 4 * LARGE_PAGE) return NULL;
  size_t length = bytes + 2 * (size_t)LARGE_PAGE;
  char *from = map(length, PROT_READ | PROT_WRITE);
  if (!from) return NULL;
  char *memory = from + 2 * (size_t)LARGE_PAGE - (uintptr_t)from % LARGE_PAGE;
  struct mapping *m = (struct mapping *)(void *)memory - 1;
  *m = (struct mapping){m, from, length, bytes};
#ifdef MADV_HUGEPAGE /* fewer TLB misses; the kernel may refuse */
  madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return memory;
}

size_t pages_mapped(const void *memory)
{
  const struct mapping *m = mapping_of(memory);
  return m ? m->bytes : 0;
}

void pages_unmap(void *memory)
{
  const struct mapping *m = mapping_of(memory);
  munmap(m->from, m->length);
}

void *pages_reserve(size_t bytes) { return map(bytes, PROT_NONE); }
void pages_release(void *addresses, size_t bytes) { munmap(addresses, bytes); }
