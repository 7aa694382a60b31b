#include "storage/h5.h"
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include "base/apart.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/text.h"
#include "storage/h5_attributes.h"
#include "storage/h5_gate.h"

#include "storage/seal.h"

/* The bytes of a file in memory. While a file is built they grow by realloc, as HDF5 requires, and a failure is
   returned as an error. While a file is read they are lent: HDF5 reads them and does not change or free them. */
struct image {
  unsigned char *bytes;
  int lent;
};

/* An element of a scale's REFERENCE_LIST. `unused` is the padding in the file. */
struct scale_place {
  hobj_ref_t dataset;
  int32_t dimension, unused;
};

struct use {
  hobj_ref_t scale;
  struct scale_place place;
};

struct h5 {
  hid_t file;
  struct image image;
  char *text; /* reading: the file's content, which the image lends */
  size_t size;
  struct h5_attributes attributes;
  char *head; /* building: storage/seal.h */
  size_t head_size;
  struct use *use; /* building: the dimensions that scales are attached to */
  size_t uses, uses_room;
  struct error problem;
  int outside; /* the library's mutex has been released */
};

enum { CHUNK_BYTES = 1 << 20, IMAGE_STEP = 1 << 20, EXAMINE_BYTES = 1 << 30 /* of memory */ };

/* --- kinds --------------------------------------------------------------------------------------------- */

/* In memory, or in the file: little-endian everywhere. */
static hid_t number_type(enum h5_kind kind, int in_file)
{
  switch (kind) {
  case KIND_U8: return in_file ? H5T_STD_U8LE : H5T_NATIVE_UINT8;
  case KIND_I32: return in_file ? H5T_STD_I32LE : H5T_NATIVE_INT32;
  case KIND_I64: return in_file ? H5T_STD_I64LE : H5T_NATIVE_INT64;
  case KIND_F32: return in_file ? H5T_IEEE_F32LE : H5T_NATIVE_FLOAT;
  case KIND_F64: return in_file ? H5T_IEEE_F64LE : H5T_NATIVE_DOUBLE;
  default: BUG("kind %d is not a number", (int)kind);
  }
}

/* NUL-terminated. */
static hid_t ascii_type(size_t size)
{
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, size);
  return type;
}

static hid_t text_type(size_t size)
{
  hid_t type = ascii_type(size);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

static hid_t make_type(enum h5_kind kind, size_t size, const struct h5_field *fields, int in_file)
{
  if (kind == KIND_TEXT) return text_type(size);
  if (kind != KIND_RECORD) return H5Tcopy(number_type(kind, in_file));
  hid_t type = H5Tcreate(H5T_COMPOUND, size);
  for (; fields->name; fields++) {
    hid_t part = make_type(fields->kind, fields->size, NULL, in_file);
    H5Tinsert(type, fields->name, fields->offset, part);
    H5Tclose(part);
  }
  return type;
}

/* --- failures ------------------------------------------------------------------------------------------ */

static herr_t deepest(unsigned n, const H5E_error2_t *entry, void *out)
{
  (void)n;
  const char **text = out;
  *text = entry->desc;
  return 1;
}

/* Keep the first failure, with the library's own reason. */
static void fail(struct h5 *h, const char *what, const char *name)
{
  const char *reason = NULL;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, deepest, &reason);
  if (!h->problem.status)
    error_set(&h->problem, STATUS_FAIL, "HDF5 cannot %s %s: %s", what, name,
              reason ? reason : "no reason given");
}

/* A thread that has a file open holds the library's mutex. It may open several files. */
static pthread_mutex_t door;

static void make_door(void)
{
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&door, &kind);
  pthread_mutexattr_destroy(&kind);
}

static void leave(void) { pthread_mutex_unlock(&door); }

static void wait_for_others(void) { pthread_mutex_lock(&door); }

/* A fork waits until no other thread is in the library, so its state in the child is whole. The child makes the mutex
   anew, because its only thread has another number than the one that took it. */
static void prepare(void)
{
  make_door();
  pthread_atfork(wait_for_others, leave, make_door);
}

static void enter(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, prepare);
  pthread_mutex_lock(&door);
}

static struct h5 *h5_blank(void)
{
  enter();
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* the library prints nothing by itself */
  struct h5 *h = memory_new(1, sizeof *h);
  h->file = -1;
  return h;
}

void h5_free(struct h5 *h)
{
  if (!h) return;
  if (h->file >= 0) H5Fclose(h->file);
  if (!h->outside) leave();
  if (!h->image.lent) free(h->image.bytes);
  memory_free(h->text);
  h5_attributes_free(&h->attributes);
  memory_free(h->head);
  memory_free(h->use);
  memory_free(h);
}

/* --- files in memory ----------------------------------------------------------------------------------- */

static void *image_malloc(size_t size, H5FD_file_image_op_t op, void *context)
{
  const struct image *image = context;
  (void)op;
  return image->lent ? image->bytes : malloc(size);
}

static void *image_copy(void *to, const void *from, size_t size, H5FD_file_image_op_t op, void *context)
{
  (void)op, (void)context;
  return to == from ? to : memcpy(to, from, size);
}

static void *image_realloc(void *old, size_t size, H5FD_file_image_op_t op, void *context)
{
  const struct image *image = context;
  (void)op;
  return image->lent ? NULL : realloc(old, size);
}

/* Keep the bytes of a built file when HDF5 closes it. */
static herr_t image_free(void *bytes, H5FD_file_image_op_t op, void *context)
{
  struct image *image = context;
  if (op == H5FD_FILE_IMAGE_OP_FILE_CLOSE)
    image->bytes = bytes;
  else if (!image->lent)
    free(bytes);
  return 0;
}

static void *image_context(void *context) { return context; }

static herr_t image_context_free(void *context)
{
  (void)context;
  return 0;
}

/* Access properties for a file in h->image. The library identifies files in memory by `name`. */
static hid_t memory_access(struct h5 *h, char name[32])
{
  H5FD_file_image_callbacks_t callbacks = {image_malloc,  image_copy,         image_realloc, image_free,
                                           image_context, image_context_free, &h->image};
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_core(access, IMAGE_STEP, 0);
  H5Pset_file_image_callbacks(access, &callbacks);
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
  snprintf(name, 32, "maxlogit-%p", (void *)h);
  return access;
}

/* --- attributes and dimension scales ------------------------------------------------------------------- */

/* `count` values; 0: a scalar. */
static void put(struct h5 *h, h5_id id, const char *name, int count, hid_t file_type, hid_t type,
                const void *value)
{
  if (id < 0) return;
  hsize_t length = (hsize_t)count;
  hid_t space = count ? H5Screate_simple(1, &length, NULL) : H5Screate(H5S_SCALAR);
  hid_t a = H5Acreate2(id, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT);
  if (a < 0 || H5Awrite(a, type, value) < 0) fail(h, "write the attribute", name);
  if (a >= 0 && H5Aclose(a) < 0) fail(h, "close the attribute", name);
  H5Sclose(space);
}

static void put_ascii(struct h5 *h, h5_id id, const char *name, const char *value)
{
  hid_t type = ascii_type(strlen(value) + 1);
  put(h, id, name, 0, type, type, value);
  H5Tclose(type);
}

/* Attributes of scales and of datasets follow the "HDF5 Dimension Scale Specification and Design Notes", section 4.2
   (support.hdfgroup.org/HDF5/doc/HL/H5DS_Spec.pdf), in the types that H5DSset_scale, H5DSset_label and
   H5DSattach_scale use. Those functions are in a library of their own, and rewrite all attributes per dimension. */
void h5_make_scale(struct h5 *h, h5_id id, const char *name)
{
  put_ascii(h, id, "CLASS", "DIMENSION_SCALE");
  put_ascii(h, id, "NAME", name);
}

static hobj_ref_t reference(struct h5 *h, h5_id id)
{
  hobj_ref_t to = 0;
  if (H5Rcreate(&to, id, ".", H5R_OBJECT, -1) < 0) fail(h, "refer to", "a dataset");
  return to;
}

static void add_use(struct h5 *h, hobj_ref_t scale, hobj_ref_t dataset, int dim)
{
  if (h->uses == h->uses_room) {
    h->use = memory_grow(h->use, h->uses_room, 2 * h->uses_room + 64, sizeof *h->use);
    h->uses_room = 2 * h->uses_room + 64;
  }
  h->use[h->uses++] = (struct use){scale, {dataset, dim, 0}};
}

void h5_dimensions(struct h5 *h, h5_id id, int rank, const char *const *label, const h5_id *scale)
{
  hobj_ref_t to[4], own = id < 0 ? 0 : reference(h, id);
  hvl_t list[4] = {{0}};
  int attached = 0;
  for (int i = 0; i < rank && id >= 0; i++) {
    if (scale[i] < 0) continue;
    to[i] = reference(h, scale[i]);
    list[i] = (hvl_t){1, &to[i]};
    add_use(h, to[i], own, i);
    attached = 1;
  }
  hid_t text = ascii_type(H5T_VARIABLE), lists = H5Tvlen_create(H5T_STD_REF_OBJ);
  put(h, id, "DIMENSION_LABELS", rank, text, text, label);
  if (attached) put(h, id, "DIMENSION_LIST", rank, lists, lists, list);
  H5Tclose(lists);
  H5Tclose(text);
}

static hid_t place_type(int in_file)
{
  hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(struct scale_place));
  H5Tinsert(type, "dataset", offsetof(struct scale_place, dataset), H5T_STD_REF_OBJ);
  H5Tinsert(type, "dimension", offsetof(struct scale_place, dimension), number_type(KIND_I32, in_file));
  return type;
}

/* Write the REFERENCE_LIST of each scale, once. */
static void put_uses(struct h5 *h)
{
  hid_t file_type = place_type(1), type = place_type(0);
  struct scale_place *place = memory_new(h->uses + 1, sizeof *place);
  while (h->uses) {
    hobj_ref_t scale = h->use->scale;
    size_t rest = 0;
    int count = 0;
    for (size_t i = 0; i < h->uses; i++)
      if (h->use[i].scale == scale)
        place[count++] = h->use[i].place;
      else
        h->use[rest++] = h->use[i];
    h->uses = rest;
    h5_id id = H5Rdereference2(h->file, H5P_DEFAULT, H5R_OBJECT, &scale);
    if (id < 0) fail(h, "find", "a scale");
    put(h, id, "REFERENCE_LIST", count, file_type, type, place);
    h5_done(h, id);
  }
  memory_free(place);
  H5Tclose(type);
  H5Tclose(file_type);
}

/* --- building ------------------------------------------------------------------------------------------ */

/* Files of HDF5 1.10, whatever the library: its metadata carry checksums, and all current readers know it. */
struct h5 *h5_new(void)
{
  struct h5 *h = h5_blank();
  char name[32];
  hid_t access = memory_access(h, name);
  H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  h->file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
  if (h->file < 0) fail(h, "start", "a file");
  H5Pclose(access);
  return h;
}

/* Close the file; its bytes are then in h->image. Returns their number. */
static size_t finish(struct h5 *h)
{
  ssize_t size = -1;
  put_uses(h);
  if (H5Fflush(h->file, H5F_SCOPE_GLOBAL) < 0 || (size = H5Fget_file_image(h->file, NULL, 0)) < 0)
    fail(h, "finish", "the file");
  if (h->file >= 0 && H5Fclose(h->file) < 0) fail(h, "close", "the file");
  h->file = -1;
  if (!h->image.bytes) fail(h, "keep", "the file in memory");
  return size < 0 ? 0 : (size_t)size;
}

void h5_put_head(struct h5 *h, const void *head, size_t size)
{
  memory_free(h->head);
  h->head = memory_new(size + 1, 1);
  memcpy(h->head, head, size);
  h->head_size = size;
}

/* In `folder` (-1: that of the path). */
static int save(struct h5 *h, int folder, const char *path, const struct lock *held, struct error *e)
{
  size_t size = finish(h), behind = h->head_size + HEAD_LINE + SEAL_BYTES + 1;
  h->outside = 1; /* release the library before the write, which may be slow */
  leave();
  unsigned char *room = h->problem.status ? NULL : realloc(h->image.bytes, size + behind);
  int status = STATUS_FAIL;
  if (room) {
    h->image.bytes = room;
    if (h->head) {
      memcpy(room + size, h->head, h->head_size);
      size += h->head_size;
      head_make_line(h->head, h->head_size, (char *)room + size);
      size += HEAD_LINE;
    }
    seal_make(room, size, (char *)room + size);
    status = folder < 0 ? file_write_held(path, room, size + SEAL_BYTES, held, e)
                        : file_write_in(folder, path, room, size + SEAL_BYTES, e);
  } else
    error_set(e, status, "cannot write %s: %s", path, h->problem.status ? h->problem.text : "out of memory");
  h5_free(h);
  return status;
}

int h5_save(struct h5 *h, const char *path, const struct lock *held, struct error *e)
{
  return save(h, -1, path, held, e);
}

int h5_save_in(struct h5 *h, int folder, const char *path, struct error *e)
{
  return save(h, folder, path, NULL, e);
}

h5_id h5_group(struct h5 *h, const char *path)
{
  h5_id id = h5_find(h, path);
  if (id >= 0) return id;
  hid_t links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  id = H5Gcreate2(h->file, path, links, H5P_DEFAULT, H5P_DEFAULT);
  if (id < 0) fail(h, "make the group", path);
  H5Pclose(links);
  return id;
}

/* Rows per chunk: about one MiB. */
static int64_t chunk_rows(const struct h5_shape *s)
{
  int64_t fit = CHUNK_BYTES / (int64_t)(h5_row_bytes(s) + 1) + 1;
  int64_t rows = s->chunk ? s->chunk : fit;
  if (rows > s->dims[0]) rows = s->dims[0];
  return rows < 1 ? 1 : rows;
}

static hid_t creation(const struct h5_shape *s)
{
  hsize_t chunk[4] = {(hsize_t)chunk_rows(s)};
  for (int i = 1; i < s->rank; i++) chunk[i] = (hsize_t)s->dims[i];
  hid_t create = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(create, 0);
  H5Pset_chunk(create, s->rank, chunk);
  if (s->compress && H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0) {
    H5Pset_shuffle(create);
    H5Pset_deflate(create, 4);
  }
  H5Pset_fletcher32(create);
  return create;
}

h5_id h5_dataset(struct h5 *h, const char *path, const struct h5_shape *s)
{
  hsize_t dims[4], most[4];
  for (int i = 0; i < s->rank; i++) most[i] = dims[i] = (hsize_t)s->dims[i];
  if (s->growing || !dims[0]) /* a chunk must not be larger than a fixed size */
    most[0] = H5S_UNLIMITED;
  hid_t type = make_type(s->kind, s->size, s->fields, 1), space = H5Screate_simple(s->rank, dims, most);
  hid_t create = creation(s), links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  hid_t id = H5Dcreate2(h->file, path, type, space, links, create, H5P_DEFAULT);
  if (id < 0) fail(h, "make the dataset", path);
  H5Pclose(links);
  H5Pclose(create);
  H5Sclose(space);
  H5Tclose(type);
  return id;
}

/* Read or write rows [first, first+rows) of a dataset. */
static int transfer(struct h5 *h, h5_id id, const struct h5_shape *s, int64_t first, int64_t rows, void *in,
                    const void *out)
{
  if (rows == 0) return 1;
  hsize_t start[4] = {(hsize_t)first}, count[4] = {(hsize_t)rows};
  for (int i = 1; i < s->rank; i++) count[i] = (hsize_t)s->dims[i];
  hid_t space = H5Dget_space(id), memory = H5Screate_simple(s->rank, count, NULL);
  hid_t type = make_type(s->kind, s->size, s->fields, 0);
  int failed = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) < 0;
  if (!failed)
    failed = (in ? H5Dread(id, type, memory, space, H5P_DEFAULT, in)
                 : H5Dwrite(id, type, memory, space, H5P_DEFAULT, out)) < 0;
  if (failed) fail(h, in ? "read" : "write", "rows");
  H5Tclose(type);
  H5Sclose(memory);
  H5Sclose(space);
  return !failed;
}

void h5_write(struct h5 *h, h5_id id, const struct h5_shape *s, int64_t first, int64_t rows, const void *data)
{
  if (id >= 0) transfer(h, id, s, first, rows, NULL, data);
}

h5_id h5_put(struct h5 *h, const char *path, const struct h5_shape *s, const void *data)
{
  h5_id id = h5_dataset(h, path, s);
  h5_write(h, id, s, 0, s->dims[0], data);
  return id;
}

void h5_extend(struct h5 *h, h5_id id, int64_t rows)
{
  hsize_t dims[4];
  hid_t space = id < 0 ? -1 : H5Dget_space(id);
  int rank = space < 0 ? 0 : H5Sget_simple_extent_dims(space, dims, NULL);
  *dims = (hsize_t)rows;
  if (rank < 1 || H5Dset_extent(id, dims) < 0) fail(h, "extend", "a dataset");
  if (space >= 0) H5Sclose(space);
}

void h5_remove(struct h5 *h, const char *path)
{
  if (H5Ldelete(h->file, path, H5P_DEFAULT) < 0) fail(h, "remove", path);
}

/* Of variable length, which h5py returns as str. */
void h5_put_text(struct h5 *h, h5_id id, const char *name, const char *value)
{
  hid_t type = text_type(H5T_VARIABLE);
  put(h, id, name, 0, type, type, &value);
  H5Tclose(type);
}

void h5_put_int(struct h5 *h, h5_id id, const char *name, int64_t value)
{
  put(h, id, name, 0, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

void h5_put_real(struct h5 *h, h5_id id, const char *name, double value)
{
  put(h, id, name, 0, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

void h5_done(struct h5 *h, h5_id id)
{
  if (id >= 0 && H5Oclose(id) < 0) fail(h, "close", "an object");
}

/* --- reading ------------------------------------------------------------------------------------------- */

/* The end of the file according to its superblock (version 2 or 3); 0 if it is not there. */
static uint64_t stated_end(const char *bytes, size_t size)
{
  const unsigned char *b = (const unsigned char *)bytes;
  uint64_t end = 0;
  if (size >= 48 && (b[8] == 2 || b[8] == 3) && b[9] == 8)
    for (int i = 7; i >= 0; i--) end = end << 8 | b[28 + i];
  return end;
}

int h5_is_file(const char *path)
{
  char begin[H5_SIGNATURE];
  int fd = file_open(path, NULL);
  int is =
    fd >= 0 && read(fd, begin, sizeof begin) == sizeof begin && !memcmp(begin, h5_signature, sizeof begin);
  if (fd >= 0) close(fd);
  return is;
}

/* Was this file written completely? `advice`: NULL accepts it without a seal. */
static int judge(const char *path, const char *bytes, size_t size, const char *advice, struct error *e)
{
  enum seal_state seal = advice ? seal_check(bytes, size) : SEAL_MISSING;
  if (seal == SEAL_RIGHT) return STATUS_OK;
  if (seal == SEAL_WRONG)
    return error_set(e, STATUS_FAIL,
                     "%s is damaged, or was edited: its content does not match its checksum%s", path, advice);
  if (size < H5_SIGNATURE || memcmp(bytes, h5_signature, H5_SIGNATURE))
    return error_set(e, STATUS_USAGE, "%s is not an HDF5 file", path);
  if (size < stated_end(bytes, size))
    return error_set(e, STATUS_FAIL, "%s is cut short: %zu bytes of at least %llu", path, size,
                     (unsigned long long)stated_end(bytes, size));
  if (!advice) return STATUS_OK;
  return error_set(e, STATUS_USAGE,
                   "%s was not written by maxlogit, or another program has changed it: the checksum "
                   "at its end is missing%s",
                   path, advice);
}

/* To read a file, the library borrows the text; to change it, the library works on a copy, in the format of h5_new. */
static hid_t open_image(struct h5 *h, size_t size, int changing)
{
  char name[32];
  h->image = (struct image){changing ? NULL : (unsigned char *)h->text, !changing};
  hid_t access = memory_access(h, name), file = -1;
  if (changing) H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  if (H5Pset_file_image(access, h->text, size) >= 0)
    file = H5Fopen(name, changing ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access);
  H5Pclose(access);
  return file;
}

/* Runs in the worker; `reply` is a struct error. The attributes are written behind the file. */
static void examine(int fd, void *reply)
{
  struct error *e = reply;
  struct stat info;
  struct h5 h = {.text = MAP_FAILED};
  struct buffer list = {0};
  size_t sent = 0;
  if (!fstat(fd, &info)) h.text = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (h.text == MAP_FAILED) {
    error_set(e, STATUS_FAIL, "%s", strerror(errno));
    return;
  }
  if ((h.file = open_image(&h, (size_t)info.st_size, 0)) < 0)
    error_set(e, STATUS_FAIL, "it is damaged, or not an HDF5 file");
  else {
    h5_gate_objects(h.file, h.text, (size_t)info.st_size, &list, e);
    if (H5Fclose(h.file) < 0) error_set(e, STATUS_FAIL, "it cannot be closed");
    for (ssize_t n = 1; sent < list.length && n > 0; sent += n > 0 ? (size_t)n : 0)
      n = pwrite(fd, list.text + sent, list.length - sent, info.st_size + (off_t)sent);
    if (sent < list.length) error_set(e, STATUS_FAIL, "its attributes cannot be kept: %s", strerror(errno));
    memory_free(list.text);
  }
  munmap(h.text, (size_t)info.st_size);
}

/* Files that have been examined, with their attributes or the reason why they are refused, because most files are
   loaded several times. A refused file is examined again after a while, since the machine may have been too busy. The
   seed is random, because an attacker can make two files with the same seal. */
static struct {
  struct examined {
    XXH128_hash_t digest;
    int status;
    double refused; /* the time */
    char *list;     /* or the reason */
    size_t size;
  } * file;
  size_t count, room, bytes; /* bytes: of all lists */
  uint64_t seed;
} known;

enum { MOST_KEPT = 64 << 20 /* bytes of lists */ };

static XXH128_hash_t digest_of(const char *bytes, size_t size)
{
  if (!known.seed && platform_random(&known.seed, sizeof known.seed)) known.seed = 0;
  return XXH3_128bits_withSeed(bytes, size, known.seed);
}

static void forget(struct examined *f)
{
  known.bytes -= f->size;
  memory_free(f->list);
  *f = known.file[--known.count];
}

static const struct examined *find_known(XXH128_hash_t digest)
{
  static const double seconds_refused = 300;
  for (size_t i = 0; i < known.count; i++) {
    struct examined *f = &known.file[i];
    if (!XXH128_isEqual(f->digest, digest)) continue;
    if (!f->status || clock_seconds() < f->refused + seconds_refused) return f;
    forget(f);
    break;
  }
  return NULL;
}

static char *copy_of(const char *bytes, size_t size)
{
  char *copy = memory_new(size + 1, 1);
  return size ? memcpy(copy, bytes, size) : copy;
}

static void remember(XXH128_hash_t digest, int status, const char *list, size_t size)
{
  while (known.bytes > MOST_KEPT) forget(&known.file[known.count - 1]);
  if (known.count == known.room) {
    known.file = memory_grow(known.file, known.room, 2 * known.room + 16, sizeof *known.file);
    known.room = 2 * known.room + 16;
  }
  known.file[known.count++] = (struct examined){digest, status, clock_seconds(), copy_of(list, size), size};
  known.bytes += size;
}

/* The bytes behind the first `from` of the worker's file. */
static int read_list(int fd, size_t from, struct h5_attributes *a)
{
  struct stat info;
  size_t size = fstat(fd, &info) || (size_t)info.st_size < from ? 0 : (size_t)info.st_size - from, got = 0;
  char *bytes = memory_new(size + 1, 1);
  for (ssize_t n = 1; got < size && n > 0; got += n > 0 ? (size_t)n : 0)
    n = pread(fd, bytes + got, size - got, (off_t)(from + got));
  h5_attributes_take(a, bytes, got);
  return got < size;
}

/* The file is not at fault, but a limit of this process or of the machine. */
static int cannot_check(const char *path, const char *missing, int reason, struct error *e)
{
  const char *limit = reason == EMFILE   ? " (see ulimit -n)"
                      : reason == EFBIG  ? " (see ulimit -f)"
                      : reason == EAGAIN ? " (see ulimit -u)"
                                         : "";
  return error_set(e, STATUS_FAIL, "cannot check %s: %s: %s%s", path, missing, strerror(reason), limit);
}

/* Let a worker process read the whole file first, because the library crashes, or does not end, on some files with
   right checksums. */
static int examine_apart(const char *path, const char *bytes, size_t size, struct h5_attributes *list,
                         struct error *e)
{
  static struct worker worker = {.work = examine};
  struct error found = {0};
  XXH128_hash_t digest = digest_of(bytes, size);
  const struct examined *before = find_known(digest);
  if (before && before->status)
    return error_set(e, before->status, "%s cannot be read: %s", path, before->list);
  if (before) {
    h5_attributes_take(list, copy_of(before->list, before->size), before->size);
    return STATUS_OK;
  }
  int fd = platform_memory_file(); /* a copy, because the file may change in the meantime */
  size_t sent = 0;
  for (ssize_t n = 1; fd >= 0 && sent < size && n > 0; sent += n > 0 ? (size_t)n : 0)
    n = write(fd, bytes + sent, size - sent);
  if (sent < size) {
    int reason = errno;
    if (fd >= 0) close(fd);
    return cannot_check(path, "no copy of it in memory", reason, e);
  }
  int examined =
    worker_ask(&worker, fd, (unsigned)(size >> 22) + 4, size + EXAMINE_BYTES, &found, sizeof found);
  int reason = errno;
  if (examined > 0 && !found.status && read_list(fd, size, list))
    error_set(&found, STATUS_FAIL, "its attributes cannot be read");
  close(fd);
  if (examined < 0) return cannot_check(path, "no process for it", reason, e);
  if (!examined) error_set(&found, STATUS_FAIL, "the HDF5 library crashes, or does not end, on it");
  if (found.status)
    remember(digest, found.status, found.text, strlen(found.text));
  else
    remember(digest, STATUS_OK, list->bytes, list->size);
  return found.status ? error_set(e, found.status, "%s cannot be read: %s", path, found.text) : STATUS_OK;
}

static int load(struct h5 **out, const char *path, const char *advice, int changing, struct lock *lock,
                struct error *e)
{
  struct h5 *h = h5_blank();
  size_t size = 0;
  int status = file_read_held(path, &h->text, &size, lock, e);
  h->size = size;
  if (!status) status = judge(path, h->text, size, advice, e);
  if (!status) status = h5_gate_header(path, h->text, size, e);
  if (!status) status = examine_apart(path, h->text, size, &h->attributes, e);
  uint64_t end = status ? 0 : stated_end(h->text, size);
  if (!status && (h->file = open_image(h, changing ? end : size, changing)) < 0)
    status = error_set(e, STATUS_FAIL, "%s cannot be read: damaged, or not an HDF5 file", path);
  if (status)
    h5_free(h);
  else
    *out = h;
  return status;
}

int h5_load(struct h5 **out, const char *path, struct error *e) { return load(out, path, "", 0, NULL, e); }

int h5_load_held(struct h5 **out, const char *path, struct lock *lock, struct error *e)
{
  return load(out, path, "", 0, lock, e);
}

int h5_load_or(struct h5 **out, const char *path, const char *advice, struct error *e)
{
  return load(out, path, advice, 0, NULL, e);
}

int h5_load_unsealed(struct h5 **out, const char *path, struct error *e)
{
  return load(out, path, NULL, 0, NULL, e);
}

int h5_change(struct h5 **out, const char *path, int unsealed, struct lock *lock, struct error *e)
{
  size_t length;
  int status = load(out, path, unsealed ? NULL : "", 1, lock, e);
  const char *head = status ? NULL : h5_get_head(*out, &length);
  if (head) h5_put_head(*out, head, length);
  return status;
}

const char *h5_get_head(const struct h5 *h, size_t *length)
{
  size_t wanted;
  return head_find(h->text, h->size, length, &wanted);
}

h5_id h5_find(struct h5 *h, const char *path) { return H5Oopen(h->file, path, H5P_DEFAULT); }

static int is_fixed_text(hid_t type) { return H5Tget_class(type) == H5T_STRING && !H5Tis_variable_str(type); }

/* The members of a record: numbers and texts of fixed size. */
static int is_record(hid_t type)
{
  int members = H5Tget_nmembers(type), plain = members > 0;
  for (int i = 0; i < members && plain; i++) {
    hid_t member = H5Tget_member_type(type, (unsigned)i);
    plain = member >= 0 && (h5_number_kind(member) >= 0 || is_fixed_text(member));
    H5Tclose(member);
  }
  return plain;
}

/* The kind of a stored type, -1 if it is not in enum h5_kind. */
static int kind_of(hid_t type)
{
  if (is_fixed_text(type)) return KIND_TEXT;
  if (H5Tget_class(type) == H5T_COMPOUND) return is_record(type) ? KIND_RECORD : -1;
  return h5_number_kind(type);
}

int h5_get_shape(struct h5 *h, h5_id id, struct h5_shape *s)
{
  (void)h;
  *s = (struct h5_shape){0};
  if (id < 0 || H5Iget_type(id) != H5I_DATASET) return 0;
  hid_t type = H5Dget_type(id), space = H5Dget_space(id);
  int kind = kind_of(type), rank = H5Sget_simple_extent_ndims(space);
  hsize_t dims[4];
  int ok = kind >= 0 && rank >= 1 && rank <= 4 && H5Sget_simple_extent_dims(space, dims, NULL) == rank;
  if (ok) {
    s->kind = (enum h5_kind)kind;
    s->size = kind >= KIND_TEXT ? H5Tget_size(type) : 0;
    s->rank = rank;
    for (int i = 0; i < rank; i++) s->dims[i] = (int64_t)dims[i];
  }
  H5Sclose(space);
  H5Tclose(type);
  return ok;
}

/* A value of an attribute of `values` values, with its kind; NULL: there is none. Of a file that is built here the list
   is made at the first call. */
static const char *attribute(struct h5 *h, h5_id id, const char *name, int index, int values)
{
  struct buffer list = {0};
  if (id < 0) return NULL;
  if (!h->attributes.entry) {
    h5_attributes_of(h->file, &list);
    h5_attributes_take(&h->attributes, list.text, list.length);
  }
  return h5_attributes_find(&h->attributes, h5_address(id), name, index, values);
}

int h5_get_text(struct h5 *h, h5_id id, const char *name, char *out, size_t room)
{
  const char *value = attribute(h, id, name, 0, 1);
  if (!value || !strchr("vs", *value)) return 0;
  text_fill(out, room, value + 1);
  return 1;
}

int h5_get_int(struct h5 *h, h5_id id, const char *name, int64_t *out)
{
  const char *value = attribute(h, id, name, 0, 1);
  if (!value || *value != 'i') return 0;
  *out = strtoll(value + 1, NULL, 10);
  return 1;
}

int h5_get_real(struct h5 *h, h5_id id, const char *name, double *out)
{
  const char *value = attribute(h, id, name, 0, 1);
  if (!value || !strchr("if", *value)) return 0;
  const uint64_t bits = strtoull(value + 1, NULL, 16);
  if (*value == 'i')
    *out = (double)strtoll(value + 1, NULL, 10);
  else
    memcpy(out, &bits, sizeof *out);
  return 1;
}

static int rank_of(h5_id id)
{
  hid_t space = H5Iget_type(id) == H5I_DATASET ? H5Dget_space(id) : -1;
  int rank = space < 0 ? 0 : H5Sget_simple_extent_ndims(space);
  if (space >= 0) H5Sclose(space);
  return rank;
}

/* Not H5DSget_label, which writes as many pointers as the file states. */
int h5_get_label(struct h5 *h, h5_id id, int dim, char *out, size_t room)
{
  const int rank = rank_of(id);
  const char *label = dim < rank ? attribute(h, id, "DIMENSION_LABELS", dim, rank) : NULL;
  return label && *label == 'v' && text_fill(out, room, label + 1) > 0;
}

int h5_read(struct h5 *h, h5_id id, const struct h5_shape *s, int64_t first, int64_t rows, void *data)
{
  return id >= 0 && transfer(h, id, s, first, rows, data, NULL);
}

void *h5_read_all(struct h5 *h, const char *path, const struct h5_shape *s, int64_t *rows)
{
  struct h5_shape found;
  void *data = NULL;
  h5_id id = h5_find(h, path);
  *rows = 0;
  int fits = h5_get_shape(h, id, &found) && found.kind == s->kind && found.rank == 1;
  if (fits && memory_bytes(found.dims, 1, h5_row_bytes(s), (size_t)(memory_there_is() / 8), &(size_t){0})) {
    data = memory_new((size_t)found.dims[0] + 1, h5_row_bytes(s));
    *rows = found.dims[0];
    if (!h5_read(h, id, s, 0, *rows, data)) {
      memory_free(data);
      data = NULL;
      *rows = 0;
    }
  }
  h5_done(h, id);
  return data;
}

struct h5_walk {
  struct h5 *h;
  int (*each)(void *, const char *path, h5_id);
  void *context;
  char path[256];
};

struct link_names {
  char **name;
  size_t count, room;
};

static herr_t add_name(hid_t group, const char *name, const H5L_info_t *info, void *context)
{
  (void)group, (void)info;
  struct link_names *n = context;
  if (n->count == n->room) {
    n->name = memory_grow(n->name, n->room, 2 * n->room + 16, sizeof *n->name);
    n->room = 2 * n->room + 16;
  }
  n->name[n->count++] = memory_text(name);
  return 0;
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int walk_from(struct h5_walk *w);

static int walk_into(struct h5_walk *w, const char *name)
{
  size_t length = strlen(w->path), room = sizeof w->path - length;
  const char *between = !strcmp(w->path, "/") ? "" : "/";
  int fits = (size_t)snprintf(w->path + length, room, "%s%s", between, name) < room; /* else a link upwards */
  int stop = fits ? walk_from(w) : w->each(w->context, w->path, -1);
  w->path[length] = 0;
  return stop;
}

/* The names are sorted here: in that order the library reads a group by its stated number of links, without a check. */
static int walk_group(struct h5_walk *w, h5_id id)
{
  struct link_names n = {0};
  int stop = H5Literate(id, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, add_name, &n) < 0 ? -1 : 0;
  if (n.count) qsort(n.name, n.count, sizeof *n.name, compare_names);
  for (size_t i = 0; i < n.count; i++) {
    if (!stop) stop = walk_into(w, n.name[i]);
    memory_free(n.name[i]);
  }
  memory_free(n.name);
  return stop;
}

static int walk_from(struct h5_walk *w)
{
  h5_id id = h5_find(w->h, w->path);
  int stop = H5Iget_type(id) == H5I_GROUP ? walk_group(w, id) : w->each(w->context, w->path, id);
  h5_done(w->h, id);
  return stop < 0 ? w->each(w->context, w->path, -1) : stop; /* a group that cannot be read */
}

int h5_walk(struct h5 *h, const char *path, int (*each)(void *, const char *path, h5_id), void *context)
{
  struct h5_walk w = {.h = h, .each = each, .context = context};
  snprintf(w.path, sizeof w.path, "%s", path);
  return walk_from(&w);
}

const char *h5_version(void)
{
  static char text[32];
  unsigned major, minor, release;
  H5get_libversion(&major, &minor, &release);
  snprintf(text, sizeof text, "%u.%u.%u", major, minor, release);
  return text;
}
