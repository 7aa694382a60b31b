#include "zoo/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

enum { LENGTH_BYTES = 8, MOST_HEADER = 100000000 };

static const struct {
  const char *name;
  int bits;
  enum dtype dtype;
} dtypes[] = {
  {"F32", 32, DTYPE_F32},          {"BF16", 16, DTYPE_BF16},      {"F16", 16, DTYPE_F16},
  {"F8_E4M3", 8, DTYPE_F8_E4M3},   {"F8_E5M2", 8, DTYPE_F8_E5M2}, {"F64", 64, DTYPE_F64},
  {"I64", 64, DTYPE_OTHER},        {"U64", 64, DTYPE_OTHER},      {"C64", 64, DTYPE_OTHER},
  {"I32", 32, DTYPE_OTHER},        {"U32", 32, DTYPE_OTHER},      {"I16", 16, DTYPE_OTHER},
  {"U16", 16, DTYPE_OTHER},        {"BOOL", 8, DTYPE_OTHER},      {"U8", 8, DTYPE_OTHER},
  {"I8", 8, DTYPE_OTHER},          {"F8_E8M0", 8, DTYPE_OTHER},   {"F8_E4M3FNUZ", 8, DTYPE_OTHER},
  {"F8_E5M2FNUZ", 8, DTYPE_OTHER}, {"F6_E2M3", 6, DTYPE_OTHER},   {"F6_E3M2", 6, DTYPE_OTHER},
  {"F4", 4, DTYPE_OTHER},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const char *safetensors_label(const char *name, char out[256])
{
  text_fill(out, 256, name);
  return out;
}

/* --- the header ---------------------------------------------------------------------------------------- */

struct header_reading {
  struct safetensors *file;
  const unsigned char *data;
  uint64_t data_size;
  struct error *error;
};

static int wrong(const struct header_reading *r, const char *name, const char *format, ...)
  __attribute__((format(printf, 3, 4)));

static int wrong(const struct header_reading *r, const char *name, const char *format, ...)
{
  char text[512], label[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!name) return error_set(r->error, STATUS_USAGE, "%s: %s", r->file->path, text);
  return error_set(r->error, STATUS_USAGE, "%s: tensor %s: %s", r->file->path, safetensors_label(name, label),
                   text);
}

static int read_dtype(const struct header_reading *r, const json_t *value, struct safetensor *t, int *bits)
{
  const char *name = json_string_value(value);
  struct buffer known = {0};
  for (int i = 0; i < DTYPES; i++) {
    if (name && strcmp(name, dtypes[i].name) == 0) {
      t->dtype = dtypes[i].dtype;
      t->dtype_name = dtypes[i].name;
      *bits = dtypes[i].bits;
      memory_free(known.text);
      return STATUS_OK;
    }
    buffer_add(&known, "%s%s", i ? ", " : "", dtypes[i].name);
  }
  char label[256];
  wrong(r, t->name, "dtype %.40s is not known; allowed: %s",
        name ? safetensors_label(name, label) : "(no text)", known.text);
  memory_free(known.text);
  return STATUS_USAGE;
}

static int read_shape(const struct header_reading *r, const json_t *shape, struct safetensor *t)
{
  if (!json_is_array(shape)) return wrong(r, t->name, "shape is not a list; allowed: [rows, columns, ...]");
  if (json_array_size(shape) > SAFETENSORS_RANK)
    return wrong(r, t->name, "a shape of %zu dimensions; allowed: 0 to %d", json_array_size(shape),
                 SAFETENSORS_RANK);
  t->rank = (int)json_array_size(shape);
  for (int i = 0; i < t->rank; i++) {
    const json_t *size = json_array_get(shape, (size_t)i);
    if (!json_is_integer(size) || json_integer_value(size) < 0)
      return wrong(r, t->name, "shape: dimension %d is not a whole number from 0 up", i);
    t->dims[i] = json_integer_value(size);
  }
  size_t count;
  if (!memory_bytes(t->dims, t->rank, 1, INT64_MAX, &count))
    return wrong(r, t->name, "shape: the product of its dimensions overflows 63 bits");
  t->count = (int64_t)count;
  return STATUS_OK;
}

static int read_offsets(const struct header_reading *r, const json_t *offsets, struct safetensor *t, int bits)
{
  const json_t *ends[2] = {json_array_get(offsets, 0), json_array_get(offsets, 1)};
  int64_t need;
  if (json_array_size(offsets) != 2 || !json_is_integer(ends[0]) || !json_is_integer(ends[1]))
    return wrong(r, t->name, "data_offsets are not two whole numbers; allowed: [begin, end]");
  json_int_t begin = json_integer_value(ends[0]), end = json_integer_value(ends[1]);
  if (begin < 0 || end < begin || (uint64_t)end > r->data_size)
    return wrong(r, t->name,
                 "data_offsets [%" JSON_INTEGER_FORMAT ", %" JSON_INTEGER_FORMAT
                 "]; allowed: 0 <= begin <= end <= %" PRIu64 ", the length of the data",
                 begin, end, r->data_size);
  if (__builtin_mul_overflow(t->count, bits, &need))
    return wrong(r, t->name, "shape: its number of bits overflows 63 bits");
  if (need % 8 || need / 8 != end - begin)
    return wrong(r, t->name,
                 "data_offsets give %" JSON_INTEGER_FORMAT " bytes, but its %" PRId64
                 " numbers of %s need %" PRId64 " bits",
                 end - begin, t->count, t->dtype_name, need);
  t->data = r->data + begin;
  t->bytes = (size_t)(end - begin);
  return STATUS_OK;
}

static int read_tensor(const struct header_reading *r, const char *name, const json_t *value)
{
  struct safetensor *t = &r->file->tensor[r->file->count++];
  int bits = 0;
  t->name = arena_text(r->file->arena, name);
  if (!json_is_object(value))
    return wrong(r, name, "not an object in the header; allowed: {dtype, shape, data_offsets}");
  int status = read_dtype(r, json_object_get(value, "dtype"), t, &bits);
  if (!status) status = read_shape(r, json_object_get(value, "shape"), t);
  if (!status) status = read_offsets(r, json_object_get(value, "data_offsets"), t, bits);
  return status;
}

static int check_metadata(const struct header_reading *r, json_t *value)
{
  const char *key;
  json_t *text;
  if (!json_is_object(value))
    return wrong(r, NULL, "__metadata__ in the header is not an object; allowed: {text: text}");
  json_object_foreach(value, key, text) if (!json_is_string(text)) return wrong(
    r, NULL, "__metadata__ in the header has a value that is not text");
  return STATUS_OK;
}

static int compare_places(const void *a, const void *b)
{
  const struct safetensor *x = a, *y = b;
  if (x->data != y->data) return x->data < y->data ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* Check that the tensors, sorted by place, fill the data without a hole or an overlap. */
static int check_places(const struct header_reading *r)
{
  struct safetensors *file = r->file;
  uint64_t reached = 0;
  if (file->count) qsort(file->tensor, file->count, sizeof *file->tensor, compare_places);
  for (size_t i = 0; i < file->count; i++) {
    const struct safetensor *t = &file->tensor[i];
    uint64_t begin = (uint64_t)(t->data - r->data);
    if (begin != reached)
      return wrong(r, t->name,
                   "its data begin at %" PRIu64 ", %s; allowed: %" PRIu64 ", where those before end", begin,
                   begin < reached ? "inside of another tensor's" : "which leaves a hole", reached);
    reached += t->bytes;
  }
  if (reached != r->data_size)
    return wrong(r, NULL,
                 "its tensors end at byte %" PRIu64 " of the data, which have %" PRIu64
                 "; allowed: data that the tensors fill",
                 reached, r->data_size);
  return STATUS_OK;
}

static int read_header(const struct header_reading *r, const char *text, size_t length)
{
  json_error_t problem;
  if (length == 0 || text[0] != '{')
    return wrong(r, NULL, "its header does not begin with {: no safetensors file");
  json_t *header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem), *value;
  const char *name;
  int status = STATUS_OK;
  if (!header) {
    char label[256];
    return wrong(r, NULL, "its header is not JSON: byte %d: %s", problem.position,
                 safetensors_label(problem.text, label));
  }
  r->file->tensor = memory_new(json_object_size(header) + 1, sizeof *r->file->tensor);
  json_object_foreach(header, name, value)
  {
    if (strcmp(name, "__metadata__") == 0)
      status = check_metadata(r, value);
    else
      status = read_tensor(r, name, value);
    if (status) break;
  }
  json_decref(header);
  return status ? status : check_places(r);
}

/* --- the file ------------------------------------------------------------------------------------------ */

static int map_file(struct safetensors *file, struct error *e)
{
  struct stat facts;
  int fd = file_open(file->path, e);
  if (fd < 0) return STATUS_USAGE;
  if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    close(fd);
    return error_set(e, STATUS_USAGE, "%s: no regular file", file->path);
  }
  if (facts.st_size < LENGTH_BYTES) {
    close(fd);
    return error_set(e, STATUS_USAGE,
                     "%s: %lld bytes are too few for a safetensors file; allowed: 8 and more", file->path,
                     (long long)facts.st_size);
  }
  int status = file_check_mapped(fd, file->path, e);
  if (status) {
    close(fd);
    return status;
  }
  file->map_size = (size_t)facts.st_size;
  file->map = mmap(NULL, file->map_size, PROT_READ, MAP_SHARED, fd, 0);
  int problem = errno;
  close(fd);
  if (file->map != MAP_FAILED) return STATUS_OK;
  file->map = NULL;
  return error_set(e, STATUS_FAIL, "%s: cannot be mapped: %s", file->path, strerror(problem));
}

static int open_mapped(struct safetensors *file, struct error *e)
{
  const unsigned char *bytes = file->map;
  uint64_t length = 0, after = file->map_size - LENGTH_BYTES;
  for (int i = LENGTH_BYTES - 1; i >= 0; i--) length = length << 8 | bytes[i];
  struct header_reading r = {.file = file, .error = e};
  if (length > MOST_HEADER)
    return wrong(&r, NULL, "a header of %" PRIu64 " bytes; allowed: at most %d (no safetensors file?)",
                 length, MOST_HEADER);
  if (length > after)
    return wrong(&r, NULL,
                 "a header of %" PRIu64 " bytes, but only %" PRIu64
                 " follow: cut short, or no safetensors file",
                 length, after);
  r.data = bytes + LENGTH_BYTES + length;
  r.data_size = after - length;
  return read_header(&r, (const char *)bytes + LENGTH_BYTES, (size_t)length);
}

int safetensors_open(struct safetensors **out, const char *path, struct error *e)
{
  if (strlen(path) >= sizeof(*out)->path) return error_set(e, STATUS_USAGE, "%.60s...: path too long", path);
  struct safetensors *file = memory_new(1, sizeof *file);
  snprintf(file->path, sizeof file->path, "%s", path);
  file->arena = arena_new();
  int status = map_file(file, e);
  if (!status) status = open_mapped(file, e);
  if (status)
    safetensors_close(file);
  else
    *out = file;
  return status;
}

void safetensors_close(struct safetensors *file)
{
  if (!file) return;
  if (file->map) munmap(file->map, file->map_size);
  memory_free(file->tensor);
  arena_free(file->arena);
  memory_free(file);
}

/* --- writing ------------------------------------------------------------------------------------------- */

static char *header_of(const struct safetensor *tensors, size_t count)
{
  json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
  json_int_t place = 0;
  for (size_t i = 0; i < count; i++) {
    json_t *shape = json_array();
    for (int k = 0; k < tensors[i].rank; k++) json_array_append_new(shape, json_integer(tensors[i].dims[k]));
    json_int_t end = place + (json_int_t)tensors[i].count * 4;
    json_object_set_new(
      header, tensors[i].name,
      json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets", place, end));
    place = end;
  }
  char *text = json_dumps(header, JSON_COMPACT);
  json_decref(header);
  return text;
}

int safetensors_write(const char *path, const struct safetensor *tensors, const float *const *data,
                      size_t count, struct error *e)
{
  char *header = header_of(tensors, count);
  REQUIRE(header);
  uint64_t length = (strlen(header) + 7) / 8 * 8;
  size_t size = LENGTH_BYTES + (size_t)length, at = size;
  for (size_t i = 0; i < count; i++) size += (size_t)tensors[i].count * 4;
  unsigned char *bytes = memory_new(size, 1);
  for (int i = 0; i < LENGTH_BYTES; i++) bytes[i] = (unsigned char)(length >> 8 * i);
  memset(bytes + LENGTH_BYTES, ' ', (size_t)length);
  memcpy(bytes + LENGTH_BYTES, header, strlen(header));
  for (size_t i = 0; i < count; at += (size_t)tensors[i].count * 4, i++)
    for (int64_t k = 0; k < tensors[i].count; k++) {
      uint32_t u;
      memcpy(&u, &data[i][k], 4);
      for (int b = 0; b < 4; b++) bytes[at + (size_t)k * 4 + (size_t)b] = (unsigned char)(u >> 8 * b);
    }
  free(header);
  int status = file_write(path, bytes, size, e);
  memory_free(bytes);
  return status;
}
