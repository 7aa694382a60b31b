/* unchecked.h - checksums of HDF5's metadata all fit
   They are no obstacle for an author, who can make them anew. Where the library looks this function up by name, mutants
   of metadata reach its parsers. Included by one file of a program. */
#ifndef MAXLOGIT_TESTS_HOSTILE_UNCHECKED_H
#define MAXLOGIT_TESTS_HOSTILE_UNCHECKED_H
#include <stddef.h>
#include <stdint.h>

__attribute__((visibility("default"))) int H5F_get_checksums(const uint8_t *, size_t, uint32_t *, uint32_t *);
int H5F_get_checksums(const uint8_t *bytes, size_t size, uint32_t *stored, uint32_t *computed)
{
  (void)bytes, (void)size;
  if (stored) *stored = 0;
  if (computed) *computed = 0;
  return 0;
}
#endif
