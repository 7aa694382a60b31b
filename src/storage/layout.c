#include "storage/layout.h"
#include <stddef.h>
#include <string.h>

#define FIELD(record, field, kind) \
  { \
#field, kind, offsetof(struct record, field), sizeof((struct record *)0)->field \
  }

static const struct h5_field event_fields[] = {
  FIELD(event_record, step, KIND_I64),  FIELD(event_record, kind, KIND_TEXT),
  FIELD(event_record, layer, KIND_I32), FIELD(event_record, head, KIND_I32),
  FIELD(event_record, value, KIND_F64), {NULL, KIND_U8, 0, 0},
};
const struct h5_shape event_shape = {
  .kind = KIND_RECORD, .size = sizeof(struct event_record), .fields = event_fields, .rank = 1};

size_t run_stem(const char *path)
{
  size_t length = strlen(path);
  return length > 3 && !strcmp(path + length - 3, ".h5") ? length - 3 : 0;
}

void run_sibling(char out[4096], const char *run_path, const char *suffix)
{
  size_t length = run_stem(run_path);
  if (!length) length = strlen(run_path);
  *out = 0; /* the path would be too long: opening "" fails, and the caller names the run */
  if (length + strlen(suffix) >= 4096) return;
  memcpy(out, run_path, length);
  memcpy(out + length, suffix, strlen(suffix) + 1);
}
