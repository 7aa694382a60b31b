/* log_npz.c - arrays of numpy.savez: [steps], [steps, layers] or [steps, layers, heads] each */
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>
#include "base/memory.h"
#include "base/text.h"
#include "zoo/log.h"

enum { RANK = 3 };
struct array {
  char name[256], kind; /* f, i, u or b */
  int size, rank;       /* size: bytes of a number */
  long dims[RANK];
  char *bytes; /* the file, NUL behind it */
  const char *data;
};

static double half(uint16_t bits)
{
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double x = exponent == 31 ? (fraction ? NAN : INFINITY)
             : exponent     ? ldexp(1024 + fraction, exponent - 25)
                            : ldexp(fraction, -24);
  return bits >> 15 ? -x : x;
}

static double number_of(const struct array *a, long i)
{
  const char *at = a->data + i * a->size;
  uint64_t bits = 0;
  float f;
  double d;
  memcpy(&bits, at, (size_t)a->size); /* little-endian, as every machine that this is built for */
  if (a->kind == 'f' && a->size == 2) return half((uint16_t)bits);
  if (a->kind == 'f' && a->size == 4) return memcpy(&f, at, 4), (double)f;
  if (a->kind == 'f') return memcpy(&d, at, 8), d;
  if (a->kind != 'i') return (double)bits;
  int unused = 64 - 8 * a->size;
  return (double)((int64_t)(bits << unused) >> unused);
}

/* The head of NPY 1.0 to 3.0: a Python dictionary behind its length. */
static int read_head(struct array *a, size_t length, const char *path, struct error *e)
{
  const char *shape, *descr;
  size_t begin = length > 12 && a->bytes[6] == 1 ? 10 : 12, head = 0;
  int64_t dims[RANK];
  if (length <= 12 || memcmp(a->bytes, "\223NUMPY", 6))
    return error_set(e, STATUS_USAGE, "%s: %s: no array of numpy", path, a->name);
  for (size_t i = begin; i-- > 8;) head = head << 8 | (unsigned char)a->bytes[i];
  if (head >= length - begin) return error_set(e, STATUS_USAGE, "%s: %s: cut short", path, a->name);
  a->data = a->bytes + begin + head;
  a->bytes[begin + head - 1] = 0; /* its line's end */
  const char *text = a->bytes + begin;
  if (strstr(text, "'fortran_order': True"))
    return error_set(e, STATUS_USAGE, "%s: %s: Fortran's order; numpy.ascontiguousarray makes the other",
                     path, a->name);
  if (!(descr = strstr(text, "'descr': '")) || !(shape = strstr(text, "'shape': (")))
    return error_set(e, STATUS_USAGE, "%s: %s: no plain array of numbers", path, a->name);
  descr += strlen("'descr': '"), shape += strlen("'shape': (");
  a->kind = descr[1];
  a->size = (int)strtol(descr + 2, NULL, 10);
  int known = (*descr == '<' || *descr == '|') && strchr("fiub", a->kind) && a->kind &&
              (a->size == 1 || a->size == 2 || a->size == 4 || a->size == 8) &&
              !(a->kind == 'f' && a->size == 1);
  if (!known) return error_set(e, STATUS_USAGE, "%s: %s: numbers of type %.6s", path, a->name, descr);
  for (char *end; *shape && *shape != ')'; shape = end + strspn(end, ", ")) {
    long n = strtol(shape, &end, 10);
    if (end == shape || n < 0) break;
    if (a->rank == RANK) return error_set(e, STATUS_USAGE, "%s: %s: more than %d axes", path, a->name, RANK);
    dims[a->rank] = n;
    a->dims[a->rank++] = n;
  }
  if (!memory_bytes(dims, a->rank, (size_t)a->size, length - begin - head, &(size_t){0}))
    return error_set(e, STATUS_USAGE, "%s: %s: cut short", path, a->name);
  return STATUS_OK;
}

static int read_array(struct array *a, zip_t *z, zip_uint64_t i, const char *path, struct error *e)
{
  zip_stat_t about;
  if (zip_stat_index(z, i, 0, &about) || !(about.valid & ZIP_STAT_SIZE) || !(about.valid & ZIP_STAT_NAME))
    return error_set(e, STATUS_USAGE, "%s: entry %llu cannot be read", path, (unsigned long long)i);
  snprintf(a->name, sizeof a->name, "%s", about.name);
  if (text_ends_with(a->name, ".npy")) a->name[strlen(a->name) - 4] = 0;
  zip_file_t *f = zip_fopen_index(z, i, 0);
  a->bytes = memory_new(about.size + 1, 1);
  zip_int64_t got = f ? zip_fread(f, a->bytes, about.size) : -1;
  int closed = f ? zip_fclose(f) : -1;
  if (closed || got != (zip_int64_t)about.size)
    return error_set(e, STATUS_USAGE, "%s: %s: damaged", path, a->name);
  return read_head(a, about.size, path, e);
}

/* The arrays, and the columns that are made of them: a step and a number each, with room to grow. */
static int check_memory(zip_t *z, zip_int64_t count, const struct array *array, const char *path,
                        struct error *e)
{
  double bytes = 0;
  zip_stat_t about;
  for (zip_int64_t i = 0; i < count; i++) {
    if (!zip_stat_index(z, (zip_uint64_t)i, 0, &about) && about.valid & ZIP_STAT_SIZE)
      bytes += (double)about.size;
    double numbers = array[i].bytes ? 1 : 0;
    for (int k = 0; k < array[i].rank; k++) numbers *= (double)array[i].dims[k];
    bytes += numbers * 4 * sizeof(double);
  }
  if (bytes <= memory_there_is() / 2) return STATUS_OK;
  return error_set(e, STATUS_USAGE, "%s: its arrays are larger than memory: %.1f GiB", path, bytes / 0x1p30);
}

static int put_array(struct log *l, const struct array *a, const struct array *steps, const char *path,
                     struct error *e)
{
  long rows = a->rank ? a->dims[0] : 0, layers = a->rank > 1 ? a->dims[1] : 1,
       heads = a->rank > 2 ? a->dims[2] : 1;
  char name[300];
  if (!a->rank) return STATUS_OK; /* a single number is no series */
  if (steps && steps->dims[0] != rows)
    return error_set(e, STATUS_USAGE, "%s: %s has %ld rows, %s has %ld", path, a->name, rows, steps->name,
                     steps->dims[0]);
  for (long r = 0; r < rows; r++) {
    double step = steps ? number_of(steps, r) : (double)r;
    if (!(step >= 0) || step != floor(step))
      return error_set(e, STATUS_USAGE, "%s: %s: %g is no whole number from 0 on", path, steps->name, step);
    for (long i = 0; i < layers * heads; i++) {
      if (a->rank == 3)
        snprintf(name, sizeof name, "%s:l%ldh%ld", a->name, i / heads, i % heads);
      else if (a->rank == 2)
        snprintf(name, sizeof name, "%s:l%ld", a->name, i);
      log_put(l, a->rank == 1 ? a->name : name, step, number_of(a, r * layers * heads + i));
    }
  }
  return STATUS_OK;
}

int log_npz(struct log *l, const char *path, struct error *e)
{
  int problem = 0, status = STATUS_OK;
  zip_t *z = zip_open(path, ZIP_RDONLY, &problem);
  if (!z) return error_set(e, STATUS_USAGE, "%s: no file of numpy.savez", path);
  zip_int64_t count = zip_get_num_entries(z, 0);
  struct array *array = memory_new((size_t)count + 1, sizeof *array);
  const struct array *steps = NULL;
  status = check_memory(z, count, array, path, e);
  for (zip_int64_t i = 0; i < count && !status; i++) {
    status = read_array(&array[i], z, (zip_uint64_t)i, path, e);
    if (!status && array[i].rank == 1 && log_is_step(l, array[i].name)) steps = &array[i];
  }
  if (!status) status = check_memory(z, count, array, path, e);
  if (!status && !steps && l->step)
    status = error_set(e, STATUS_USAGE, "%s: no array [steps] called %s", path, l->step);
  if (!status) text_fill(l->step_found, sizeof l->step_found, steps ? steps->name : "(rows, from 0 on)");
  for (zip_int64_t i = 0; i < count && !status; i++)
    if (&array[i] != steps) status = put_array(l, &array[i], steps, path, e);
  for (zip_int64_t i = 0; i < count; i++) memory_free(array[i].bytes);
  memory_free(array);
  zip_discard(z);
  return status;
}
