/* rows.c - fuzz target: the reader of packed rows, which needs no file and is fast for it */
#include "base/error.h"
#include "fuzz.h"
#include "storage/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct rows rows = {0};
  struct error e = {0};
  rows_unpack(&rows, data, size, &e);
  rows_free(&rows);
  return 0;
}
