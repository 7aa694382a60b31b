/* facts.h - all that an HDF5 file tells, as a sorted list of facts: a key and its bytes
   Read by the HDF5 library alone, with nothing of ours between. A fact is what an object is, its type, its room, how it
   is stored, an attribute, a scale of a dimension, all rows of a dataset; of a table each field of each row. */
#ifndef MAXLOGIT_TESTS_STORAGE_FACTS_H
#define MAXLOGIT_TESTS_STORAGE_FACTS_H
#include <fnmatch.h>
#include <hdf5.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"

struct fact {
  char *key;
  unsigned char *bytes; /* of a text with its NUL */
  size_t size;
  size_t row; /* bytes of a row, of rows of numbers; else 0 */
};

struct facts {
  struct fact *list;
  size_t count, room;
};

__attribute__((format(printf, 5, 6))) static void facts_add(struct facts *f, const void *bytes, size_t size,
                                                            size_t row, const char *format, ...)
{
  struct buffer key = {0};
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  buffer_add(&key, "%s", text);
  if (f->count == f->room) {
    f->list = memory_grow(f->list, f->count, 2 * f->room + 1024, sizeof *f->list);
    f->room = 2 * f->room + 1024;
  }
  struct fact *x = &f->list[f->count++];
  *x = (struct fact){key.text, memory_new(size + 1, 1), size, row};
  if (size) memcpy(x->bytes, bytes, size);
}

static void facts_text(struct facts *f, const char *object, const char *what, const char *text)
{
  facts_add(f, text, strlen(text) + 1, 0, "%s %s", object, what);
}

static void facts_free(struct facts *f)
{
  for (size_t i = 0; i < f->count; i++) {
    memory_free(f->list[i].key);
    memory_free(f->list[i].bytes);
  }
  memory_free(f->list);
  *f = (struct facts){0};
}

/* --- types, room, storage ------------------------------------------------------------------------------ */

static void facts_type(struct buffer *b, hid_t type)
{
  H5T_class_t class = H5Tget_class(type);
  buffer_add(b, "%d:%zu", (int)class, H5Tget_size(type));
  if (class == H5T_INTEGER) buffer_add(b, " sign %d", (int)H5Tget_sign(type));
  if (class == H5T_INTEGER || class == H5T_FLOAT) buffer_add(b, " order %d", (int)H5Tget_order(type));
  if (class == H5T_STRING)
    buffer_add(b, " variable %d pad %d set %d", (int)H5Tis_variable_str(type), (int)H5Tget_strpad(type),
               (int)H5Tget_cset(type));
  for (int i = 0; class == H5T_COMPOUND && i < H5Tget_nmembers(type); i++) {
    char *name = H5Tget_member_name(type, (unsigned)i);
    hid_t member = H5Tget_member_type(type, (unsigned)i);
    buffer_add(b, " {%s @%zu ", name, H5Tget_member_offset(type, (unsigned)i));
    facts_type(b, member);
    buffer_add(b, "}");
    H5free_memory(name);
    H5Tclose(member);
  }
}

/* Returns the number of its elements. */
static size_t facts_space(struct buffer *b, hid_t space)
{
  hsize_t dims[H5S_MAX_RANK], most[H5S_MAX_RANK];
  int rank = H5Sget_simple_extent_dims(space, dims, most);
  buffer_add(b, "class %d", (int)H5Sget_simple_extent_type(space));
  for (int i = 0; i < rank; i++) buffer_add(b, " %lld of %lld", (long long)dims[i], (long long)most[i]);
  hssize_t points = H5Sget_simple_extent_npoints(space);
  return points < 0 ? 0 : (size_t)points;
}

static void facts_storage(struct facts *f, const char *object, hid_t data)
{
  struct buffer b = {0};
  hid_t made = H5Dget_create_plist(data), type = H5Dget_type(data);
  hsize_t chunk[H5S_MAX_RANK];
  H5D_fill_value_t fill;
  H5D_fill_time_t when;
  H5D_alloc_time_t given;
  H5Pfill_value_defined(made, &fill);
  H5Pget_fill_time(made, &when);
  H5Pget_alloc_time(made, &given);
  buffer_add(&b, "layout %d fill %d at %d given at %d", (int)H5Pget_layout(made), (int)fill, (int)when,
             (int)given);
  int rank = H5Pget_layout(made) == H5D_CHUNKED ? H5Pget_chunk(made, H5S_MAX_RANK, chunk) : 0;
  for (int i = 0; i < rank; i++) buffer_add(&b, " chunk %lld", (long long)chunk[i]);
  for (int i = 0; i < H5Pget_nfilters(made); i++) {
    unsigned flags, value[16], config;
    size_t values = sizeof value / sizeof *value;
    buffer_add(&b, " filter %d",
               (int)H5Pget_filter2(made, (unsigned)i, &flags, &values, value, 0, NULL, &config));
    for (size_t k = 0; k < values; k++) buffer_add(&b, ",%u", value[k]);
  }
  facts_text(f, object, "storage", b.text);
  memory_free(b.text);
  if (fill == H5D_FILL_VALUE_USER_DEFINED) {
    unsigned char *bytes = memory_new(H5Tget_size(type) + 1, 1);
    H5Pget_fill_value(made, type, bytes);
    facts_add(f, bytes, H5Tget_size(type), 0, "%s fill", object);
    memory_free(bytes);
  }
  H5Tclose(type);
  H5Pclose(made);
}

/* --- attributes and scales ----------------------------------------------------------------------------- */

struct facts_owner {
  struct facts *facts;
  const char *object;
};

static herr_t facts_attribute(hid_t id, const char *name, const H5A_info_t *info, void *owner)
{
  const struct facts_owner *x = owner;
  (void)info;
  struct buffer b = {0};
  hid_t attribute = H5Aopen(id, name, H5P_DEFAULT), type = H5Aget_type(attribute),
        space = H5Aget_space(attribute);
  H5T_class_t class = H5Tget_class(type);
  facts_type(&b, type);
  buffer_add(&b, ", ");
  size_t size = facts_space(&b, space) * H5Tget_size(type);
  facts_add(x->facts, b.text, b.length + 1, 0, "%s @%s kind", x->object, name);
  unsigned char *bytes = memory_new(size + 1, 1);
  int ok = H5Aread(attribute, type, bytes) >= 0;
  int variable = class == H5T_STRING && H5Tis_variable_str(type) > 0;
  if (ok && variable) { /* the labels of the dimensions are several */
    for (size_t i = 0; i < size / sizeof(char *); i++) {
      const char *text = ((char **)bytes)[i] ? ((char **)bytes)[i] : "";
      if (i == 0) facts_add(x->facts, text, strlen(text) + 1, 0, "%s @%s", x->object, name);
      if (i > 0) facts_add(x->facts, text, strlen(text) + 1, 0, "%s @%s, %zu", x->object, name, i);
    }
  } else if (ok && (class == H5T_STRING || class == H5T_INTEGER || class == H5T_FLOAT))
    facts_add(x->facts, bytes, size, 0, "%s @%s", x->object, name);
  else /* places in the file, of scales and their uses: see facts_scales */
    facts_add(x->facts, "", 0, 0, "%s @%s%s", x->object, name, ok ? "" : " cannot be read");
  if (ok && (variable || class == H5T_VLEN)) H5Dvlen_reclaim(type, space, H5P_DEFAULT, bytes);
  memory_free(bytes);
  memory_free(b.text);
  H5Sclose(space);
  H5Tclose(type);
  H5Aclose(attribute);
  return 0;
}

static void facts_attributes(struct facts *f, const char *object, hid_t id)
{
  struct facts_owner x = {f, object};
  H5Aiterate2(id, H5_INDEX_NAME, H5_ITER_INC, NULL, facts_attribute, &x);
}

/* The value of an attribute of a variable number of texts, references or records; NULL if there is none. */
static void *facts_values(hid_t id, const char *name, hid_t type, size_t *count)
{
  *count = 0;
  if (H5Aexists(id, name) <= 0) return NULL;
  hid_t attribute = H5Aopen(id, name, H5P_DEFAULT), space = H5Aget_space(attribute);
  hssize_t points = H5Sget_simple_extent_npoints(space);
  void *values = memory_new((size_t)points + 1, H5Tget_size(type));
  if (H5Aread(attribute, type, values) >= 0) *count = (size_t)points;
  H5Sclose(space);
  H5Aclose(attribute);
  return values;
}

static void facts_name(struct buffer *b, hid_t file, const hobj_ref_t *to)
{
  char name[256];
  buffer_add(b, " %s", H5Rget_name(file, H5R_OBJECT, to, name, sizeof name) > 0 ? name : "?");
}

/* The dimensions of a dataset with their scales, and the uses of a scale. */
static void facts_scales(struct facts *f, const char *object, hid_t data, int rank)
{
  struct use {
    hobj_ref_t dataset;
    int dimension;
  };
  hid_t text = H5Tcopy(H5T_C_S1), list = H5Tvlen_create(H5T_STD_REF_OBJ);
  hid_t record = H5Tcreate(H5T_COMPOUND, sizeof(struct use));
  H5Tset_size(text, H5T_VARIABLE);
  H5Tinsert(record, "dataset", offsetof(struct use, dataset), H5T_STD_REF_OBJ);
  H5Tinsert(record, "dimension", offsetof(struct use, dimension), H5T_NATIVE_INT);
  size_t labels, lists, uses;
  char **label = facts_values(data, "DIMENSION_LABELS", text, &labels);
  hvl_t *scale = facts_values(data, "DIMENSION_LIST", list, &lists);
  struct use *use = facts_values(data, "REFERENCE_LIST", record, &uses);
  for (size_t dim = 0; dim < (size_t)rank && (labels || lists); dim++) {
    struct buffer b = {0};
    buffer_add(&b, "%s:", dim < labels && label[dim] ? label[dim] : "");
    for (size_t i = 0; dim < lists && i < scale[dim].len; i++)
      facts_name(&b, data, (hobj_ref_t *)scale[dim].p + i);
    facts_add(f, b.text, b.length + 1, 0, "%s dimension %zu", object, dim);
    memory_free(b.text);
  }
  for (size_t i = 0; i < uses; i++) {
    struct buffer b = {0};
    facts_name(&b, data, &use[i].dataset);
    facts_add(f, "", 1, 0, "%s is a scale of%s, %d", object, b.text, use[i].dimension);
    memory_free(b.text);
  }
  for (size_t i = 0; i < labels; i++) H5free_memory(label[i]);
  for (size_t i = 0; i < lists; i++) H5free_memory(scale[i].p);
  memory_free(label);
  memory_free(scale);
  memory_free(use);
  H5Tclose(record);
  H5Tclose(list);
  H5Tclose(text);
}

/* --- rows ---------------------------------------------------------------------------------------------- */

/* A table field by field. Which rows count, and what stands for a row in its key, is the caller's. */
typedef int facts_row(const char *object, const unsigned char *row, hid_t type);

static const unsigned char *facts_field(const unsigned char *row, hid_t type, const char *name)
{
  int i = H5Tget_member_index(type, name);
  return i < 0 ? NULL : row + H5Tget_member_offset(type, (unsigned)i);
}

static void facts_table(struct facts *f, const char *object, hid_t type, const unsigned char *bytes,
                        size_t rows, facts_row *counts)
{
  size_t size = H5Tget_size(type), kept = 0;
  int named = H5Tget_member_index(type, "name") >= 0;
  for (size_t i = 0; i < rows; i++) {
    const unsigned char *row = bytes + i * size;
    if (counts && !counts(object, row, type)) continue;
    for (int k = 0; k < H5Tget_nmembers(type); k++) {
      char *name = H5Tget_member_name(type, (unsigned)k);
      hid_t member = H5Tget_member_type(type, (unsigned)k);
      const char *at = (const char *)facts_field(row, type, name);
      size_t room = H5Tget_size(member);
      if (H5Tget_class(member) == H5T_STRING) room = strnlen(at, room);
      facts_add(f, at, room, 0, "%s row %06zu%s%.64s %s", object, kept, named ? " " : "",
                named ? (const char *)facts_field(row, type, "name") : "", name);
      H5free_memory(name);
      H5Tclose(member);
    }
    kept++;
  }
  facts_add(f, &kept, sizeof kept, 0, "%s rows", object);
}

static void facts_dataset(struct facts *f, const char *object, hid_t data, facts_row *counts)
{
  struct buffer about = {0}, room = {0};
  hid_t type = H5Dget_type(data), space = H5Dget_space(data);
  hsize_t dims[H5S_MAX_RANK] = {0};
  int rank = H5Sget_simple_extent_dims(space, dims, NULL);
  facts_type(&about, type);
  size_t count = facts_space(&room, space), size = count * H5Tget_size(type);
  facts_text(f, object, "type", about.text);
  facts_text(f, object, "room", room.text);
  facts_storage(f, object, data);
  facts_scales(f, object, data, rank);
  unsigned char *bytes = memory_new(size + 1, 1);
  if (H5Dread(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) < 0)
    facts_text(f, object, "rows", "cannot be read");
  else if (H5Tget_class(type) == H5T_COMPOUND)
    facts_table(f, object, type, bytes, count, counts);
  else
    facts_add(f, bytes, size, rank && dims[0] ? size / dims[0] : 0, "%s rows", object);
  memory_free(bytes);
  memory_free(about.text);
  memory_free(room.text);
  H5Sclose(space);
  H5Tclose(type);
}

/* --- all of a file ------------------------------------------------------------------------------------- */

struct facts_walk {
  struct facts *facts;
  facts_row *counts;
};

static void facts_object(struct facts_walk *w, const char *object, hid_t id)
{
  facts_attributes(w->facts, object, id);
  switch (H5Iget_type(id)) {
  case H5I_GROUP: facts_text(w->facts, object, "is", "a group"); break;
  case H5I_DATASET:
    facts_text(w->facts, object, "is", "a dataset");
    facts_dataset(w->facts, object, id, w->counts);
    break;
  default: facts_text(w->facts, object, "is", "something else");
  }
}

static herr_t facts_link(hid_t file, const char *name, const H5L_info_t *info, void *walk)
{
  struct facts_walk *w = walk;
  char object[256];
  snprintf(object, sizeof object, "/%s", name);
  hid_t id = H5Oopen(file, object, H5P_DEFAULT);
  facts_text(w->facts, object, "link", info->type == H5L_TYPE_HARD ? "hard" : "another kind");
  facts_object(w, object, id);
  H5Oclose(id);
  return 0;
}

static int facts_compare(const void *a, const void *b)
{
  return strcmp(((const struct fact *)a)->key, ((const struct fact *)b)->key);
}

/* Returns 0 where HDF5 cannot open it. */
static int facts_read(struct facts *f, const char *path, facts_row *counts)
{
  struct facts_walk walk = {f, counts};
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) return 0;
  hid_t root = H5Oopen(file, "/", H5P_DEFAULT);
  facts_object(&walk, "/", root);
  H5Oclose(root);
  H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, facts_link, &walk);
  H5Fclose(file);
  return 1;
}

static void facts_sort(struct facts *f) { qsort(f->list, f->count, sizeof *f->list, facts_compare); }

static const struct fact *facts_find(const struct facts *f, const char *key)
{
  struct fact wanted = {.key = (char *)(uintptr_t)key};
  return f->count ? bsearch(&wanted, f->list, f->count, sizeof wanted, facts_compare) : NULL;
}

/* --- two files ----------------------------------------------------------------------------------------- */

/* Facts that may differ: a pattern of keys, and the reason. The list ends with NULL. */
struct facts_freedom {
  const char *pattern, *why;
};

static int facts_may_differ(const struct facts_freedom *list, const char *key)
{
  for (; list->pattern; list++)
    if (!fnmatch(list->pattern, key, 0)) return 1;
  return 0;
}

/* A text as it is, other bytes as numbers. */
static void facts_show(const struct fact *x)
{
  size_t i = 0;
  while (i < x->size && (x->bytes[i] >= ' ' || x->bytes[i] == '\n') && x->bytes[i] < 127) i++;
  if (i + 1 >= x->size && !x->bytes[i])
    printf(" '%.160s'", (const char *)x->bytes);
  else
    for (i = 0; i < x->size && i < 16; i++) printf(" %02x", x->bytes[i]);
}

static void facts_say(const struct fact *x, const struct fact *y)
{
  size_t at = 0, shorter = x->size < y->size ? x->size : y->size;
  while (at < shorter && x->bytes[at] == y->bytes[at]) at++;
  printf("  %s:", x->key);
  if (x->row) {
    printf(" differs from row %zu on\n", at / x->row);
    return;
  }
  facts_show(x);
  printf(" |");
  facts_show(y);
  printf(", the same up to byte %zu\n", at);
}

/* The number of facts in which they differ, some of which are printed. */
__attribute__((unused)) static long facts_differ(const struct facts *a, const struct facts *b,
                                                 const struct facts_freedom *may)
{
  long differences = 0;
  for (size_t i = 0, k = 0; i < a->count || k < b->count;) {
    int order = i == a->count ? 1 : k == b->count ? -1 : facts_compare(&a->list[i], &b->list[k]);
    const struct fact *x = &a->list[i], *y = &b->list[k];
    const char *key = order > 0 ? y->key : x->key;
    int differ = order || x->size != y->size || memcmp(x->bytes, y->bytes, x->size) != 0;
    if (differ && !facts_may_differ(may, key) && differences++ < 12) {
      if (order)
        printf("  %s: only in the %s\n", key, order < 0 ? "first" : "second");
      else
        facts_say(x, y);
    }
    i += order <= 0;
    k += order >= 0;
  }
  return differences;
}
#endif
