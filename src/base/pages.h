/* pages.h - address space with pages that are committed on the first write */
#ifndef MAXLOGIT_BASE_PAGES_H
#define MAXLOGIT_BASE_PAGES_H
#include <stddef.h>

/* A zeroed block that begins on a large page, for pages_unmap; NULL: refused, or too small for that. So the memory of a
   run is known, and can be refused, before it is used. */
void *pages_map(size_t bytes);
/* The size of such a block; 0 for other memory. */
size_t pages_mapped(const void *memory);
void pages_unmap(void *memory);
/* Addresses without memory: accesses crash; NULL: refused. */
void *pages_reserve(size_t bytes);
void pages_release(void *addresses, size_t bytes);
#endif
