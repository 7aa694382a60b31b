#include "base/names.h"
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>
#include "base/memory.h"

/* Half of the slots stay free. The seed is random: nobody can make names that share a slot. */
static long *slot_of(const struct name_table *n, const char *name)
{
  uint64_t at = XXH3_64bits_withSeed(name, strlen(name), n->seed);
  for (;; at++) {
    long *slot = &n->slot[at % (uint64_t)(2 * n->room)];
    if (!*slot || !strcmp(n->name[*slot - 1], name)) return slot;
  }
}

long names_find(const struct name_table *n, const char *name) { return n->room ? *slot_of(n, name) - 1 : -1; }

long names_add(struct name_table *n, const char *name)
{
  if (!n->room && getrandom(&n->seed, sizeof n->seed, 0) < 0) n->seed = 0;
  if (n->count == n->room) {
    long room = 2 * n->room + 32;
    n->name = memory_grow(n->name, (size_t)n->room, (size_t)room, sizeof *n->name);
    memory_free(n->slot);
    n->slot = memory_new(2 * (size_t)room, sizeof *n->slot);
    n->room = room;
    for (long i = 0; i < n->count; i++) *slot_of(n, n->name[i]) = i + 1;
  }
  n->name[n->count] = name;
  *slot_of(n, name) = n->count + 1; /* there is room: the slot is free or the name's own */
  return n->count++;
}

void names_free(struct name_table *n)
{
  memory_free(n->name);
  memory_free(n->slot);
  *n = (struct name_table){0};
}
