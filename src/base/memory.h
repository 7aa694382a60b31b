/* memory.h - memory allocation with a single failure path, and arenas */
#ifndef MAXLOGIT_BASE_MEMORY_H
#define MAXLOGIT_BASE_MEMORY_H
#include <stddef.h>
#include <stdint.h>

/* Sanitizers check only memory of malloc. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define MEMORY_MAPS 0
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MEMORY_MAPS 0
#endif
#endif
#ifndef MEMORY_MAPS
#define MEMORY_MAPS 1
#endif

/* Zeroed memory, 64-byte aligned. On failure one line is printed and the program exits with STATUS_FAIL, or
   STATUS_USAGE if this machine could never have the memory (file writes are atomic, so nothing is lost). With
   MEMORY_MAPS large blocks commit no memory before they are written. MAXLOGIT_FAULT=memory:K makes the K-th call (from
   1) fail, for tests. */
void *memory_new(size_t count, size_t size);
void *memory_grow(void *old, size_t old_count, size_t new_count, size_t size); /* new part zeroed */
char *memory_text(const char *text);                                           /* copy */
void memory_free(void *);

/* Sizes from a file: *bytes = dims[0] * ... * dims[rank - 1] * element. Returns 0, and leaves *bytes, if a dimension is
   negative or the product exceeds `most`. An empty dimension counts as 1 in this check, so that no product of some of
   the dimensions exceeds `most` either. */
int memory_bytes(const int64_t *dims, int rank, size_t element, size_t most, size_t *bytes);

/* Bytes held now, and the most that this process can have (base/limits.h). */
size_t memory_held(void);
double memory_there_is(void);
/* A child with a limit of its own (base/apart.h) remembers the memory before it has that limit. */
void memory_remember(void);
double memory_there_was(void);

/* Number of memory_new / memory_grow calls so far: a test asserts that a step makes none. */
size_t memory_calls(void);

/* An arena: many small pieces that are freed together. */
struct arena;
struct arena *arena_new(void);
void *arena_get(struct arena *, size_t count, size_t size); /* zeroed */
char *arena_text(struct arena *, const char *text);
char *arena_format(struct arena *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void arena_free(struct arena *);

#endif
