/* memory.c - allocation with one place for failure */
#include "base/memory.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/error.h"

enum { ALIGNMENT = 64, ARENA_BLOCK = 16384, LARGE_PAGE = 1 << 21 };

static atomic_size_t calls;

static _Noreturn void out_of_memory(size_t count, size_t size)
{
  const double page = (double)sysconf(_SC_PAGESIZE) / 0x1p30;
  message("out of memory: %.3g GiB more wanted; this machine has %.3g GiB, of which %.3g are free. A run's "
          "grows with "
          "model.width, model.layers, model.context, model.vocab and train.batch",
          (double)count * (double)size / 0x1p30, page * (double)sysconf(_SC_PHYS_PAGES),
          page * (double)sysconf(_SC_AVPHYS_PAGES));
  _exit(STATUS_FAIL); /* no clean-up: it could want memory, and files on disk are whole at any instant */
}

static int call_fails(void)
{
  size_t number = atomic_fetch_add(&calls, 1) + 1;
  const char *fault = getenv("MAXLOGIT_FAULT");
  return fault && !strncmp(fault, "memory:", 7) && strtoull(fault + 7, NULL, 10) == number;
}

void *memory_new(size_t count, size_t size)
{
  size_t bytes;
  if (call_fails() || __builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX - ALIGNMENT)
    out_of_memory(count, size);
  bytes = bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
  const size_t alignment = bytes < LARGE_PAGE ? ALIGNMENT : LARGE_PAGE;
  void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!memory) out_of_memory(count, size);
#ifdef MADV_HUGEPAGE /* fewer addresses to look up; a wish that may be refused */
  if (bytes >= LARGE_PAGE) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return memset(memory, 0, bytes);
}

void *memory_grow(void *old, size_t old_count, size_t new_count, size_t size)
{
  void *memory = memory_new(new_count, size);
  if (old) memcpy(memory, old, (old_count < new_count ? old_count : new_count) * size);
  memory_free(old);
  return memory;
}

char *memory_text(const char *text)
{
  size_t room = strlen(text) + 1;
  return memcpy(memory_new(room, 1), text, room);
}

void memory_free(void *memory) { free(memory); }

size_t memory_calls(void) { return atomic_load(&calls); }

/* --- arenas ------------------------------------------------------------------------------------------- */

struct block {
  struct block *next;
  size_t used, room;
};
struct arena {
  struct block *first;
};

static const size_t header = (sizeof(struct block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

struct arena *arena_new(void) { return memory_new(1, sizeof(struct arena)); }

static struct block *block_new(struct arena *arena, size_t room)
{
  struct block *block = memory_new(header + room, 1);
  block->room = room;
  block->next = arena->first;
  return arena->first = block;
}

void *arena_get(struct arena *arena, size_t count, size_t size)
{
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX - 2 * ALIGNMENT)
    out_of_memory(count, size);
  bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  struct block *block = arena->first;
  if (!block || block->room - block->used < bytes)
    block = block_new(arena, bytes > ARENA_BLOCK ? bytes : ARENA_BLOCK);
  void *piece = (char *)block + header + block->used;
  block->used += bytes;
  return piece;
}

char *arena_text(struct arena *arena, const char *text)
{
  size_t room = strlen(text) + 1;
  return memcpy(arena_get(arena, room, 1), text, room);
}

char *arena_format(struct arena *arena, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  REQUIRE(length >= 0);
  char *text = arena_get(arena, (size_t)length + 1, 1);
  va_start(arguments, format);
  vsnprintf(text, (size_t)length + 1, format, arguments);
  va_end(arguments);
  return text;
}

void arena_free(struct arena *arena)
{
  if (!arena) return;
  for (struct block *block = arena->first, *next; block; block = next) {
    next = block->next;
    memory_free(block);
  }
  memory_free(arena);
}
