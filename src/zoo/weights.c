#include "zoo/weights.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

struct weights {
  char path[4096], config_path[4096];
  struct safetensors **file;
  size_t files;
  struct weight *weight; /* in natural order */
  size_t count;
  const struct weight **by_name; /* in the order of strcmp */
  json_t *config;
};

/* --- numbers ------------------------------------------------------------------------------------------- */

/* Decode a small floating format: sign, exponent of `e` bits with `bias`, mantissa of `m` bits. */
static double small_float(uint64_t code, int e, int m, int bias)
{
  uint64_t mantissa = code & ((1u << m) - 1), exponent = code >> m & ((1u << e) - 1);
  double value = exponent ? ldexp(1 + ldexp((double)mantissa, -m), (int)exponent - bias)
                          : ldexp((double)mantissa, 1 - bias - m);
  return code >> (e + m) & 1 ? -value : value;
}

double dtype_value(enum dtype dtype, uint64_t code)
{
  uint32_t bits = (uint32_t)code;
  float single;
  double value;
  switch (dtype) {
  case DTYPE_F64: memcpy(&value, &code, sizeof value); return value;
  case DTYPE_BF16: bits <<= 16; /* fall through */
  case DTYPE_F32: memcpy(&single, &bits, sizeof single); return (double)single;
  case DTYPE_F16:
    if ((code & 0x7c00) != 0x7c00) return small_float(code, 5, 10, 15);
    return code & 0x3ff ? NAN : code & 0x8000 ? -INFINITY : INFINITY;
  case DTYPE_F8_E4M3: return (code & 0x7f) == 0x7f ? NAN : small_float(code, 4, 3, 7);
  case DTYPE_F8_E5M2:
    if ((code & 0x7c) != 0x7c) return small_float(code, 5, 2, 15);
    return code & 3 ? NAN : code & 0x80 ? -INFINITY : INFINITY;
  default: return NAN;
  }
}

static size_t dtype_bytes(enum dtype dtype)
{
  static const size_t bytes[] = {[DTYPE_F64] = 8,  [DTYPE_F32] = 4,     [DTYPE_F16] = 2,
                                 [DTYPE_BF16] = 2, [DTYPE_F8_E4M3] = 1, [DTYPE_F8_E5M2] = 1};
  return bytes[dtype];
}

static void read_numbers(const struct safetensor *t, int64_t from, int64_t count, double *out)
{
  size_t size = dtype_bytes(t->dtype);
  const unsigned char *p = t->data + (size_t)from * size;
  for (int64_t i = 0; i < count; i++, p += size) {
    uint64_t code = 0;
    for (size_t b = 0; b < size; b++) code |= (uint64_t)p[b] << 8 * b;
    out[i] = dtype_value(t->dtype, code);
  }
}

void weight_read(const struct weight *w, int64_t row, int64_t col, int64_t count, double *out)
{
  REQUIRE(row >= 0 && row < w->rows && col >= 0 && count >= 0 && col + count <= w->cols);
  read_numbers(&w->tensor, row * w->cols + col, count, out);
  if (!w->scale) return;
  int64_t blocks = w->scale->dims[1];
  for (int64_t done = 0; done < count;) {
    int64_t block = (col + done) / w->block_cols, end = (block + 1) * w->block_cols - col;
    double scale;
    read_numbers(w->scale, row / w->block_rows * blocks + block, 1, &scale);
    for (end = end < count ? end : count; done < end; done++) out[done] *= scale;
  }
}

int weight_check(const struct weights *w, const struct weight *weight, struct error *e)
{
  char label[256], other[300];
  const struct safetensor *t = &weight->tensor;
  safetensors_label(t->name, label);
  if (t->dtype == DTYPE_OTHER)
    return error_set(
      e, STATUS_USAGE,
      "%s: tensor %s: %s is not read as weights; allowed: F32, BF16, F16, F8_E4M3, F8_E5M2, F64", w->path,
      label, t->dtype_name);
  if ((t->dtype == DTYPE_F8_E4M3 || t->dtype == DTYPE_F8_E5M2) && !weight->scale) {
    snprintf(other, sizeof other, "%s_scale", t->name);
    if (weights_find(w, other))
      return error_set(e, STATUS_USAGE,
                       "%s: tensor %s: its scale is in %s_scale; allowed: scales of blocks, in %s_scale_inv",
                       w->path, label, label, label);
  }
  return STATUS_OK;
}

/* --- order and look-up --------------------------------------------------------------------------------- */

/* Compare runs of digits as numbers. */
static int compare_natural(const char *a, const char *b)
{
  while (*a && *b) {
    if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
      const char *x = a, *y = b;
      while (*x == '0') x++;
      while (*y == '0') y++;
      size_t m = strspn(x, "0123456789"), n = strspn(y, "0123456789");
      int order = m != n ? (m < n ? -1 : 1) : strncmp(x, y, m);
      if (order) return order;
      a = x + m;
      b = y + n;
    } else if (*a != *b)
      return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
    else
      a++, b++;
  }
  return *a ? 1 : *b ? -1 : 0;
}

static int compare_weights(const void *a, const void *b)
{
  const struct weight *x = a, *y = b;
  int order = compare_natural(x->tensor.name, y->tensor.name);
  return order ? order : strcmp(x->tensor.name, y->tensor.name);
}

static int compare_names(const void *a, const void *b)
{
  const struct weight *const *x = a, *const *y = b;
  return strcmp((*x)->tensor.name, (*y)->tensor.name);
}

static int compare_to_name(const void *name, const void *weight)
{
  return strcmp(name, (*(const struct weight *const *)weight)->tensor.name);
}

const struct weight *weights_find(const struct weights *w, const char *name)
{
  if (w->count == 0) return NULL;
  const struct weight *const *found =
    bsearch(name, w->by_name, w->count, sizeof(*w->by_name), compare_to_name);
  return found ? *found : NULL;
}

static void add_weight(struct weights *w, const struct safetensor *t)
{
  struct weight *weight = &w->weight[w->count++];
  *weight = (struct weight){.tensor = *t, .rows = 1, .cols = t->rank ? t->dims[t->rank - 1] : 1};
  for (int i = 0; i + 1 < t->rank; i++) weight->rows *= t->dims[i];
}

static void sort_weights(struct weights *w)
{
  if (w->count) qsort(w->weight, w->count, sizeof *w->weight, compare_weights);
  w->by_name = memory_new(w->count + 1, sizeof(*w->by_name));
  for (size_t i = 0; i < w->count; i++) w->by_name[i] = &w->weight[i];
  if (w->count) qsort(w->by_name, w->count, sizeof(*w->by_name), compare_names);
}

size_t weights_count(const struct weights *w) { return w->count; }
const struct weight *weights_at(const struct weights *w, size_t i) { return &w->weight[i]; }
const char *weights_path(const struct weights *w) { return w->path; }
const json_t *weights_config(const struct weights *w) { return w->config; }
const char *weights_config_path(const struct weights *w) { return w->config_path; }

/* --- scales of blocks (DeepSeek-V3's FP8 files: the _inv multiplies) ------------------------------------ */

static int block_size(const struct weights *w, size_t i, int64_t *out, struct error *e)
{
  const json_t *list =
    json_object_get(json_object_get(w->config, "quantization_config"), "weight_block_size");
  const json_t *size = json_array_get(list, i);
  *out = 128;
  if (!list || json_is_null(list)) return STATUS_OK;
  if (json_array_size(list) != 2 || !json_is_integer(size) || json_integer_value(size) < 1)
    return error_set(
      e, STATUS_USAGE,
      "%s: quantization_config.weight_block_size is not two whole numbers; allowed: [rows, columns] of a "
      "block, such as [128, 128]",
      w->config_path);
  *out = json_integer_value(size);
  return STATUS_OK;
}

static int64_t blocks_of(int64_t size, int64_t block) { return size / block + (size % block != 0); }

static int find_scale(const struct weights *w, struct weight *weight, struct error *e)
{
  char name[4096], label[256];
  const struct safetensor *t = &weight->tensor;
  int status;
  if (t->dtype != DTYPE_F8_E4M3 && t->dtype != DTYPE_F8_E5M2) return STATUS_OK;
  snprintf(name, sizeof name, "%s_scale_inv", t->name);
  const struct weight *scale = weights_find(w, name);
  if (!scale) return STATUS_OK;
  if ((status = block_size(w, 0, &weight->block_rows, e)) ||
      (status = block_size(w, 1, &weight->block_cols, e)))
    return status;
  int64_t rows = blocks_of(weight->rows, weight->block_rows),
          cols = blocks_of(weight->cols, weight->block_cols);
  const struct safetensor *s = &scale->tensor;
  if (t->rank != 2 || s->rank != 2 || s->dims[0] != rows || s->dims[1] != cols ||
      (s->dtype != DTYPE_F32 && s->dtype != DTYPE_BF16 && s->dtype != DTYPE_F16))
    return error_set(e, STATUS_USAGE,
                     "%s: tensor %s: %s %" PRId64 "x%" PRId64 "; allowed for %s %" PRId64 "x%" PRId64
                     " in blocks of %" PRId64 "x%" PRId64 ": F32 %" PRId64 "x%" PRId64,
                     w->path, safetensors_label(name, label), s->dtype_name, scale->rows, scale->cols,
                     t->dtype_name, weight->rows, weight->cols, weight->block_rows, weight->block_cols, rows,
                     cols);
  weight->scale = s;
  return STATUS_OK;
}

/* --- JSON beside the weights --------------------------------------------------------------------------- */

static int read_object(const char *path, json_t **out, struct error *e)
{
  json_error_t problem;
  char label[256], *text;
  size_t length;
  int status = file_read(path, &text, &length, e);
  if (status) return status;
  *out = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem);
  memory_free(text);
  if (!*out)
    return error_set(e, STATUS_USAGE, "%s:%d: %s", path, problem.line > 0 ? problem.line : 1,
                     safetensors_label(problem.text, label));
  if (json_is_object(*out)) return STATUS_OK;
  json_decref(*out);
  *out = NULL;
  return error_set(e, STATUS_USAGE, "%s: not an object; allowed: {...}", path);
}

static int is_file(const char *path)
{
  struct stat facts;
  return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

static void folder_of(const char *path, char out[4096])
{
  const char *slash = strrchr(path, '/');
  if (!slash)
    snprintf(out, 4096, ".");
  else
    snprintf(out, 4096, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static int join(const struct weights *w, const char *folder, const char *name, char out[4096],
                struct error *e)
{
  if (snprintf(out, 4096, "%s/%s", folder, name) < 4096) return STATUS_OK;
  return error_set(e, STATUS_USAGE, "%.60s...: path too long", w->path);
}

static int read_config(struct weights *w, const char *folder, const char *config, struct error *e)
{
  int status = STATUS_OK;
  if (config)
    snprintf(w->config_path, sizeof w->config_path, "%s", config);
  else
    status = join(w, folder, "config.json", w->config_path, e);
  if (!status && (config || is_file(w->config_path))) return read_object(w->config_path, &w->config, e);
  w->config = json_object();
  return status;
}

int weights_set(struct weights *w, const char *assignment, struct error *e)
{
  const char *equals = strchr(assignment, '=');
  if (!equals || equals == assignment)
    return error_set(e, STATUS_USAGE, "%s: allowed: KEY=VALUE, with a key of config.json", assignment);
  char *key = memory_text(assignment);
  key[equals - assignment] = '\0';
  json_t *value = json_loads(equals + 1, JSON_DECODE_ANY, NULL);
  if (!value) value = json_string(equals + 1);
  int failed = json_object_set_new(w->config, key, value);
  memory_free(key);
  return failed ? error_set(e, STATUS_USAGE, "%s: no UTF-8", assignment) : STATUS_OK;
}

/* --- files --------------------------------------------------------------------------------------------- */

static int open_file(struct weights *w, const char *path, struct safetensors **out, struct error *e)
{
  w->file = memory_grow(w->file, w->files, w->files + 1, sizeof(*w->file));
  int status = safetensors_open(&w->file[w->files], path, e);
  if (status) return status;
  *out = w->file[w->files++];
  return STATUS_OK;
}

static int open_one(struct weights *w, const char *path, struct error *e)
{
  struct safetensors *file;
  int status = open_file(w, path, &file, e);
  if (status) return status;
  w->weight = memory_new(file->count + 1, sizeof *w->weight);
  for (size_t i = 0; i < file->count; i++) add_weight(w, &file->tensor[i]);
  return STATUS_OK;
}

/* Open one shard; every tensor that the index assigns to it must be there. */
static int open_shard(struct weights *w, const char *index, const char *shard, json_t *map, struct error *e)
{
  char folder[4096], path[4096], label[256];
  struct safetensors *file;
  const char *name;
  json_t *value;
  if (!*shard || strchr(shard, '/') || strcmp(shard, "..") == 0)
    return error_set(e, STATUS_USAGE, "%s: shard '%s'; allowed: the name of a file in this folder", index,
                     safetensors_label(shard, label));
  folder_of(index, folder);
  int status = join(w, folder, shard, path, e);
  if (!status && !is_file(path))
    return error_set(e, STATUS_USAGE, "%s: its shard %s is missing in %s", index,
                     safetensors_label(shard, label), folder);
  if (!status) status = open_file(w, path, &file, e);
  if (status) return status;
  json_t *here = json_object(); /* name to place, because searching for each name is quadratic */
  for (size_t i = 0; i < file->count; i++)
    json_object_set_new(here, file->tensor[i].name, json_integer((json_int_t)i));
  json_object_foreach(map, name, value)
  {
    if (strcmp(json_string_value(value), shard) != 0) continue;
    const json_t *place = json_object_get(here, name);
    if (!place) {
      status = error_set(e, STATUS_USAGE, "%s: tensor %s is not in its shard %s", index,
                         safetensors_label(name, label), shard);
      break;
    }
    add_weight(w, &file->tensor[json_integer_value(place)]);
  }
  json_decref(here);
  return status;
}

static int open_index(struct weights *w, const char *path, struct error *e)
{
  json_t *index, *map, *value, *opened = json_object();
  const char *name;
  int status = read_object(path, &index, e);
  if (status) {
    json_decref(opened);
    return status;
  }
  map = json_object_get(index, "weight_map");
  if (!json_is_object(map))
    status = error_set(e, STATUS_USAGE, "%s: no weight_map; allowed: {\"weight_map\": {tensor: file}}", path);
  else
    w->weight = memory_new(json_object_size(map) + 1, sizeof *w->weight);
  if (!status) json_object_foreach(map, name, value) if (!status && !json_is_string(value))
    {
      char label[256];
      status = error_set(e, STATUS_USAGE, "%s: weight_map: %s: its file is not text", path,
                         safetensors_label(name, label));
    }
  if (!status) json_object_foreach(map, name, value)
    {
      const char *shard = json_string_value(value);
      if (status || json_object_get(opened, shard)) continue;
      json_object_set_new(opened, shard, json_true());
      status = open_shard(w, path, shard, map, e);
    }
  json_decref(opened);
  json_decref(index);
  return status;
}

static int is_safetensors_name(const struct dirent *entry)
{
  return text_ends_with(entry->d_name, ".safetensors");
}

static int open_folder(struct weights *w, const char *folder, struct error *e)
{
  char path[4096];
  struct dirent **list = NULL;
  int status = join(w, folder, "model.safetensors.index.json", path, e);
  if (status) return status;
  if (is_file(path)) return open_index(w, path, e);
  join(w, folder, "model.safetensors", path, NULL);
  if (is_file(path)) return open_one(w, path, e);
  int n = scandir(folder, &list, is_safetensors_name, alphasort);
  if (n == 1)
    status = join(w, folder, list[0]->d_name, path, e);
  else if (n < 1)
    status = error_set(e, STATUS_USAGE, "%s: no *.safetensors in this folder", folder);
  else
    status = error_set(
      e, STATUS_USAGE,
      "%s: %d files *.safetensors, but no model.safetensors.index.json and no model.safetensors; name one "
      "of them, such as %s",
      folder, n, list[0]->d_name);
  for (int i = 0; i < n; i++) free(list[i]);
  free(list);
  return status ? status : open_one(w, path, e);
}

int weights_open(struct weights **out, const char *path, const char *config, struct error *e)
{
  char folder[4096];
  if (strlen(path) > 4000 || (config && strlen(config) > 4000))
    return error_set(e, STATUS_USAGE, "%.60s...: path too long", path);
  struct weights *w = memory_new(1, sizeof *w);
  snprintf(w->path, sizeof w->path, "%s", path);
  int folder_given = file_is_folder(path), status;
  if (folder_given)
    snprintf(folder, sizeof folder, "%s", path);
  else
    folder_of(path, folder);
  status = read_config(w, folder, config, e);
  if (!status && folder_given)
    status = open_folder(w, path, e);
  else if (!status)
    status = text_ends_with(path, ".json") ? open_index(w, path, e) : open_one(w, path, e);
  if (!status) sort_weights(w);
  for (size_t i = 0; i < w->count && !status; i++) status = find_scale(w, &w->weight[i], e);
  if (status)
    weights_close(w);
  else
    *out = w;
  return status;
}

struct weights *weights_of(const struct safetensor *tensors, size_t count)
{
  struct weights *w = memory_new(1, sizeof *w);
  w->weight = memory_new(count + 1, sizeof *w->weight);
  for (size_t i = 0; i < count; i++) add_weight(w, &tensors[i]);
  sort_weights(w);
  w->config = json_object();
  return w;
}

void weights_close(struct weights *w)
{
  if (!w) return;
  for (size_t i = 0; i < w->files; i++) safetensors_close(w->file[i]);
  memory_free(w->file);
  memory_free(w->weight);
  memory_free(w->by_name);
  json_decref(w->config);
  memory_free(w);
}
