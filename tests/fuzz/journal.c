#define _GNU_SOURCE
/* journal.c - fuzz target: the rows of a recording that goes on from a journal */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include "base/memory.h"
#include "fuzz.h"
#include "reseal.h"
#include "storage/journal.h"
#include "storage/tables.h"

static const char started[] = "2026-01-01T00:00:00Z";
enum { BEGIN = JOURNAL_HEAD, MARK = 16 };

/* Each piece names the one before it. */
static void link_pieces(uint8_t *data, size_t size)
{
  uint64_t mark[2], last = XXH3_64bits(data, BEGIN);
  for (size_t at = BEGIN; at + MARK <= size; at += MARK + mark[0]) {
    memcpy(mark, data + at, MARK);
    if (mark[0] > size - at - MARK || mark[0] < sizeof last) return;
    memcpy(data + at + MARK, &last, sizeof last);
    last = mark[1] = XXH3_64bits(data + at + MARK, mark[0]);
    memcpy(data + at, mark, MARK);
  }
}

/* One piece mutated, with its length and digest. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
  uint64_t mark[2];
  size_t at = BEGIN, next = 0;
  if (size < BEGIN + MARK || seed % 16 == 0) return LLVMFuzzerMutate(data, size, most);
  for (unsigned left = seed % 37;; at = next) {
    memcpy(mark, data + at, MARK);
    next = at + MARK + mark[0];
    if (mark[0] > size - at - MARK || next + MARK > size || !left--) break;
  }
  if (mark[0] > size - at - MARK || at + MARK >= most) return LLVMFuzzerMutate(data, size, most);
  size_t rest = size - next, room = most - at - MARK;
  uint8_t *tail = memory_new(rest + 1, 1);
  memcpy(tail, data + next, rest);
  mark[0] = LLVMFuzzerMutate(data + at + MARK, mark[0], room);
  memcpy(data + at, mark, MARK);
  if (rest > room - mark[0]) rest = room - mark[0];
  memcpy(data + at + MARK + mark[0], tail, rest);
  memory_free(tail);
  link_pieces(data, at + MARK + mark[0] + rest);
  return at + MARK + mark[0] + rest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static int file = -1;
  static char path[64];
  struct rows rows = {0};
  struct notes notes = {0};
  struct error e = {0};
  if (file < 0) {
    snprintf(path, sizeof path, "%s/journal.XXXXXX", access("/dev/shm", W_OK) ? "." : "/dev/shm");
    file = mkstemp(path);
  }
  if (ftruncate(file, 0) || pwrite(file, data, size, 0) != (ssize_t)size) return 0;
  rows_start(&rows);
  journal_replay(path, started, &rows, &notes, &e);
  rows_free(&rows);
  notes_free(&notes);
  return 0;
}
