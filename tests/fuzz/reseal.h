/* reseal.h - a mutator for files whose checksums an author can make anew
   Without it a fuzzer would only find that a changed file is refused. */
#ifndef MAXLOGIT_TESTS_FUZZ_RESEAL_H
#define MAXLOGIT_TESTS_FUZZ_RESEAL_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "storage/seal.h"
#include "../hostile/unchecked.h"

/* Of the fuzzer; absent where a corpus is run without one. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

/* Mutates the HDF5 part or the head of a sealed file in place, and seals it. Returns its new size. */
static inline size_t reseal_mutate(char *data, size_t size, size_t most, unsigned seed)
{
  enum { LONGEST = 1 << 16 };
  static char head[LONGEST];
  char line[HEAD_LINE + 1], seal[SEAL_BYTES + 1];
  size_t length = 0, behind = 0, body;
  const char *found = head_find(data, size, &length, &behind);
  if (found && length < LONGEST) memcpy(head, found, length);
  if (!found || length >= LONGEST) length = 0;
  body = found ? size - behind : size > SEAL_BYTES ? size - SEAL_BYTES : size;
  if (length && seed % 4 == 0) length = LLVMFuzzerMutate((uint8_t *)head, length, LONGEST - 1);
  size_t end = length + HEAD_LINE + SEAL_BYTES;
  if (most < end + 1) return size;
  if (body > most - end) body = most - end;
  if (!length || seed % 4) body = LLVMFuzzerMutate((uint8_t *)data, body, most - end);
  size = body;
  if (length) {
    memcpy(data + size, head, length);
    head_make_line(head, length, line);
    memcpy(data + size + length, line, HEAD_LINE);
    size += length + HEAD_LINE;
  }
  seal_make(data, size, seal);
  memcpy(data + size, seal, SEAL_BYTES);
  return size + SEAL_BYTES;
}
#endif
