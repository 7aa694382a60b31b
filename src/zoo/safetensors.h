/* safetensors.h - one file of named tensors, mapped into memory and checked before any of its numbers is read
   Format (huggingface/safetensors): a length N of 8 bytes, N bytes of JSON
   {"name": {"dtype": "BF16", "shape": [a, b], "data_offsets": [begin, end]}, ..., "__metadata__": {...}}
   and the data, row-major, little-endian. The tensors fill the data without a hole or an overlap. */
#ifndef MAXLOGIT_ZOO_SAFETENSORS_H
#define MAXLOGIT_ZOO_SAFETENSORS_H
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

enum dtype {
  DTYPE_F64,
  DTYPE_F32,
  DTYPE_F16,
  DTYPE_BF16,
  DTYPE_F8_E4M3, /* e4m3fn: no infinity */
  DTYPE_F8_E5M2,
  DTYPE_OTHER /* integers, booleans, and floating formats that are not read as numbers here */
};

enum { SAFETENSORS_RANK = 8 };

struct safetensor {
  const char *name;       /* UTF-8 */
  const char *dtype_name; /* as in the file */
  enum dtype dtype;
  int rank; /* 0: a scalar */
  int64_t dims[SAFETENSORS_RANK], count;
  const unsigned char *data; /* not aligned */
  size_t bytes;
};

struct safetensors {
  char path[4096];
  struct safetensor *tensor; /* in the order of their data */
  size_t count;
  void *map;
  size_t map_size;
  struct arena *arena; /* names */
};

/* Map and check a file. Any error (length, JSON, an unknown number format, a shape that overflows, offsets) is
   STATUS_USAGE with the file, the tensor, the problem and the allowed values. The numbers are not read. The file must
   not shrink while it is open. */
int safetensors_open(struct safetensors **, const char *path, struct error *);
void safetensors_close(struct safetensors *);

/* Write a file of F32 tensors (count numbers each at data[i]), ordered and padded as by other writers: data begins at a
   multiple of 8, names in order. */
int safetensors_write(const char *path, const struct safetensor *tensors, const float *const *data,
                      size_t count, struct error *);

/* A name for messages: control characters become question marks. Returns out. */
const char *safetensors_label(const char *name, char out[256]);
#endif
