/* memory.c - memory allocation with a single failure path */
#include "base/memory.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/limits.h"
#include "base/pages.h"
#include "base/platform.h"

enum { ALIGNMENT = 64, ARENA_BLOCK = 16384 };

static atomic_size_t calls;

static atomic_size_t held;

size_t memory_held(void) { return atomic_load(&held); }

double memory_there_is(void) { return memory_limit("").bytes; }

static double remembered;
void memory_remember(void)
{
  if (remembered <= 0) remembered = memory_there_is();
}
double memory_there_was(void) { return remembered > 0 ? remembered : memory_there_is(); }

static _Noreturn void out_of_memory(size_t count, size_t size)
{
  const double wanted = (double)count * (double)size;
  const struct memory_limit limit = memory_limit("");
  message("out of memory: %.3f GiB more wanted; %s %.1f GiB; free on this machine: %.1f. A run's memory "
          "grows with model.width, model.layers, model.context, model.vocab and train.batch",
          wanted / 0x1p30, limit.by, limit.bytes / 0x1p30, memory_free_now() / 0x1p30);
  /* no clean-up: it could need memory, and files on disk are always complete */
  _exit(wanted > limit.bytes ? STATUS_USAGE : STATUS_FAIL);
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
  if (MEMORY_MAPS || !bytes) /* not under sanitizers: they must detect the next byte's use */
    bytes = bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
  void *mapped = pages_map(bytes), *memory = mapped;
  if (!mapped && posix_memalign(&memory, ALIGNMENT, bytes)) out_of_memory(count, size);
  atomic_fetch_add(&held, mapped ? bytes : malloc_usable_size(memory));
  return mapped ? mapped : memset(memory, 0, bytes);
}

/* Bytes of a block, at least those that were asked for. */
static size_t bytes_of(void *memory)
{
  const size_t mapped = pages_mapped(memory);
  return mapped ? mapped : malloc_usable_size(memory);
}

/* A block that grows by little gets room for half as much again, so that a list which grows by one is copied seldom.
   Not under sanitizers: they must detect the next byte's use. */
void *memory_grow(void *old, size_t old_count, size_t new_count, size_t size)
{
  const size_t room = MEMORY_MAPS && old ? bytes_of(old) : 0;
  size_t bytes;
  if (__builtin_mul_overflow(new_count, size, &bytes)) out_of_memory(new_count, size);
  if (bytes <= room && new_count > old_count) {
    if (call_fails()) out_of_memory(new_count, size);
    memset((char *)old + old_count * size, 0, (new_count - old_count) * size);
    return old;
  }
  const int is_little = bytes > room && bytes < room + room / 2;
  void *memory = is_little ? memory_new(room + room / 2, 1) : memory_new(new_count, size);
  if (old) memcpy(memory, old, (old_count < new_count ? old_count : new_count) * size);
  memory_free(old);
  return memory;
}

int memory_bytes(const int64_t *dims, int rank, size_t element, size_t most, size_t *bytes)
{
  size_t product = element;
  int empty = 0;
  for (int i = 0; i < rank; i++) {
    empty |= dims[i] == 0;
    if (dims[i] < 0 || (dims[i] && __builtin_mul_overflow(product, (size_t)dims[i], &product))) return 0;
  }
  if (product > most) return 0;
  *bytes = empty ? 0 : product;
  return 1;
}

char *memory_text(const char *text)
{
  size_t room = strlen(text) + 1;
  return memcpy(memory_new(room, 1), text, room);
}

void memory_free(void *memory)
{
  if (!memory) return;
  atomic_fetch_sub(&held, bytes_of(memory));
  if (pages_mapped(memory))
    pages_unmap(memory);
  else
    free(memory);
}

size_t memory_calls(void) { return atomic_load(&calls); }

/* --- arenas ------------------------------------------------------------------------------------------- */

struct memory_block {
  struct memory_block *next;
  size_t used, room;
};
struct arena {
  struct memory_block *first;
};

static const size_t header = (sizeof(struct memory_block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

struct arena *arena_new(void) { return memory_new(1, sizeof(struct arena)); }

static struct memory_block *block_new(struct arena *arena, size_t room)
{
  struct memory_block *block = memory_new(header + room, 1);
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
  struct memory_block *block = arena->first;
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
  for (struct memory_block *block = arena->first, *next; block; block = next) {
    next = block->next;
    memory_free(block);
  }
  memory_free(arena);
}
