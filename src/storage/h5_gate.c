#include "storage/h5_gate.h"
#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "storage/h5.h"
#include "storage/h5_attributes.h"

enum {
  DEFLATE_RATIO = 1032, /* largest expansion of deflate: RFC 1951, 258 bytes per 2 bits */
  OBJECT_BYTES = 16,    /* minimal size of an object header */
  MOST_DEPTH = 64,
  BLOCK_BYTES = 4 << 20,
  MOST_RANK = 32, /* H5S_MAX_RANK */
};

const char h5_signature[H5_SIGNATURE + 1] = "\211HDF\r\n\032\n";

/* --- the header ---------------------------------------------------------------------------------------- */

static uint64_t number_of(const unsigned char *b, int bytes)
{
  uint64_t number = 0;
  while (bytes--) number = number << 8 | b[bytes];
  return number;
}

/* Superblock: signature 8, version 1, sizes of offsets and lengths 1 + 1, flags 1, base 8, extension 8 (HDF5 file
   format specification, version 3, section II.A). */
int h5_gate_header(const char *path, const char *bytes, size_t size, struct error *e)
{
  const unsigned char *b = (const unsigned char *)bytes;
  if (size < H5_SIGNATURE || memcmp(bytes, h5_signature, H5_SIGNATURE))
    return error_set(e, STATUS_USAGE, "%s is not an HDF5 file", path);
  int fits = size >= 48 && (b[8] == 2 || b[8] == 3) && b[9] == 8 && b[10] == 8;
  if (fits && !number_of(b + 12, 8) && number_of(b + 20, 8) == UINT64_MAX) return STATUS_OK;
  return error_set(e, STATUS_USAGE,
                   "%s: its HDF5 metadata have no checksums (superblock version %d); required: the format of "
                   "HDF5 1.10, as `h5repack --low=2 --high=2 -f GZIP=4` writes it",
                   path, size > 8 ? b[8] : -1);
}

/* --- the objects --------------------------------------------------------------------------------------- */

/* Where a signature is in the file, and which of these places had the last text: the next one is near it. */
struct heaps {
  const unsigned char **at;
  size_t count, room, last;
};

struct gate {
  size_t size, capacity; /* bytes of the file; bytes that it can hold, and this process can take */
  size_t objects;
  int depth;
  char path[1024];
  uint64_t address;           /* of the object */
  struct buffer *list;        /* of attributes */
  const unsigned char *bytes; /* the file; NULL: it is this process's own */
  size_t blocks;              /* of the object's header */
  int is_dense;               /* its attributes are in a heap */
  struct heaps texts, dense;
  struct error *error;
};

static int refuse(const struct gate *g, const char *why)
{
  return error_set(g->error, STATUS_FAIL, "%s %s", g->path, why);
}

static const char *link_kind(H5L_type_t type)
{
  return type == H5L_TYPE_SOFT       ? "is a soft link, which is not followed"
         : type == H5L_TYPE_EXTERNAL ? "is a link to another file, which is not followed"
                                     : "is a link of unknown kind, which is not followed";
}

/* The maximal ratio of the data to its storage; 0: an unknown filter. */
static size_t expansion(hid_t create)
{
  int filters = H5Pget_nfilters(create), seen[4] = {0};
  for (int i = 0; i < filters; i++) {
    unsigned flags, set;
    size_t values = 0;
    H5Z_filter_t filter = H5Pget_filter2(create, (unsigned)i, &flags, &values, NULL, 0, NULL, &set);
    if (filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_FLETCHER32)
      return 0;
    if (seen[filter]++) return 0; /* data that was deflated twice could be a million times larger */
  }
  return filters < 0 ? 0 : seen[H5Z_FILTER_DEFLATE] ? DEFLATE_RATIO : 1;
}

/* The bytes of `rank` extents, see memory_bytes. */
static int extent_bytes(const struct gate *g, const hsize_t *dims, int rank, size_t element, size_t *bytes)
{
  int64_t sizes[MOST_RANK];
  for (int i = 0; i < rank; i++) sizes[i] = dims[i] > INT64_MAX ? -1 : (int64_t)dims[i];
  return memory_bytes(sizes, rank, element, g->capacity, bytes);
}

static int check_storage(const struct gate *g, hid_t id, hid_t create, size_t element, hid_t space)
{
  hsize_t dims[MOST_RANK];
  size_t bytes = 0, chunk = 0, ratio = expansion(create);
  H5D_layout_t layout = H5Pget_layout(create);
  int rank = H5Sget_simple_extent_dims(space, dims, NULL);
  if (layout != H5D_COMPACT && layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED)
    return refuse(g, "is a virtual dataset: its values lie in other files");
  if (H5Pget_external_count(create) != 0) return refuse(g, "has its values in another file");
  if (!ratio) return refuse(g, "is stored with a filter other than shuffle, deflate and Fletcher-32");
  if (rank < 0 || !element || !extent_bytes(g, dims, rank, element, &bytes))
    return refuse(g, "states a size that this file cannot hold");
  hsize_t stored = H5Dget_storage_size(id);
  if (stored > g->size || bytes > (size_t)stored * ratio)
    return refuse(g, "states more values than are stored");
  if (layout == H5D_CHUNKED &&
      (H5Pget_chunk(create, MOST_RANK, dims) != rank || !extent_bytes(g, dims, rank, element, &chunk)))
    return refuse(g, "states a chunk that this file cannot hold");
  return STATUS_OK;
}

/* Read all rows, in blocks, into temporary memory: chunks are decoded and their checksums compared. Values of variable
   length are never read, here or elsewhere. */
static int read_values(const struct gate *g, hid_t id, hid_t type, hid_t space)
{
  hsize_t dims[MOST_RANK] = {1}, start[MOST_RANK] = {0};
  int rank = H5Sget_simple_extent_dims(space, dims, NULL), failed = 0;
  size_t row = H5Tget_size(type);
  for (int i = 1; i < rank; i++) row *= (size_t)dims[i];
  if (!row || !dims[0] || H5Tdetect_class(type, H5T_VLEN) || H5Tdetect_class(type, H5T_REFERENCE) ||
      H5Tis_variable_str(type))
    return STATUS_OK;
  hsize_t rows = dims[0], block = BLOCK_BYTES / row + 1;
  void *room = malloc(row * (size_t)(block < rows ? block : rows));
  for (hsize_t at = 0; at < rows && room && !failed; at += block) {
    *start = at;
    *dims = rows - at < block ? rows - at : block;
    hid_t memory = rank ? H5Screate_simple(rank, dims, NULL) : H5Screate(H5S_SCALAR);
    failed = (rank && H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, dims, NULL) < 0) ||
             H5Dread(id, type, memory, space, H5P_DEFAULT, room) < 0;
    H5Sclose(memory);
  }
  int status = !room    ? refuse(g, "has rows that do not fit into memory")
               : failed ? refuse(g, "is damaged")
                        : 0;
  free(room);
  return status;
}

/* The parts of an attribute fit into its message: HDF5 1.10 reads behind it otherwise. */
static int fits_attribute(const unsigned char *m, size_t size)
{
  if (size < 8 || m[0] < 1 || m[0] > 3 || m[1]) return 0; /* flags: a type that is shared */
  size_t used = m[0] == 3 ? 9 : 8;
  for (int part = 1; part < 4; part++) {
    const size_t bytes = (size_t)number_of(m + 2 * part, 2);
    used += m[0] == 1 ? (bytes + 7) / 8 * 8 : bytes;
  }
  return used <= size;
}

static int check_messages(struct gate *g, const unsigned char *at, const unsigned char *end, size_t prefix);

static int check_continuation(struct gate *g, const unsigned char *m, size_t size, size_t prefix)
{
  enum { MOST_BLOCKS = 1 << 12, SIGNATURE = 4, CHECKSUM = 4 };
  const uint64_t from = size < 16 ? UINT64_MAX : number_of(m, 8), bytes = size < 16 ? 0 : number_of(m + 8, 8);
  if (from > g->size || bytes > g->size - from || bytes < SIGNATURE + CHECKSUM || ++g->blocks > MOST_BLOCKS ||
      memcmp(g->bytes + from, "OCHK", SIGNATURE))
    return refuse(g, "has a damaged header");
  const unsigned char *block = g->bytes + from;
  return check_messages(g, block + SIGNATURE, block + bytes - CHECKSUM, prefix);
}

/* Messages: type 1, size 2, flags 1, with `prefix` 6 also their order 2, then the message; less room than that at the
   end is a gap. */
static int check_messages(struct gate *g, const unsigned char *at, const unsigned char *end, size_t prefix)
{
  enum { ATTRIBUTE = 12, CONTINUATION = 16, ATTRIBUTE_INFO = 21, IS_SHARED = 2 };
  int status = STATUS_OK;
  while (!status && (size_t)(end - at) >= prefix) {
    const size_t size = (size_t)number_of(at + 1, 2);
    const unsigned char *m = at + prefix;
    if (size > (size_t)(end - m))
      status = refuse(g, "has a damaged header");
    else if (at[0] == ATTRIBUTE && ((at[3] & IS_SHARED) || !fits_attribute(m, size)))
      status = refuse(g, "has an attribute that does not fit into its place");
    else if (at[0] == ATTRIBUTE_INFO)
      g->is_dense |=
        size < 12 || number_of(m + (m[1] & 1 ? 4 : 2), 8) != UINT64_MAX; /* the address of the heap */
    else if (at[0] == CONTINUATION)
      status = check_continuation(g, m, size, prefix);
    at = m + size;
  }
  return status;
}

/* The header of an object, before the library reads its attributes. Version 2 has a checksum (HDF5 file format
   specification, version 3, sections IV.A.1.b and IV.A.2.m). */
static int check_object_header(struct gate *g)
{
  enum { VERSION = 4, FLAGS = 5, TIMES = 0x20, PHASES = 0x10, HAS_ORDER = 4, LONGEST = 34 };
  const size_t from = (size_t)g->address;
  if (g->address > g->size || g->size - from < LONGEST || memcmp(g->bytes + from, "OHDR", 4) ||
      g->bytes[from + VERSION] != 2)
    return refuse(
      g, "has no checksum, as in the format of HDF5 1.8: `h5repack --low=2 --high=2 -f GZIP=4` converts it");
  const unsigned char *b = g->bytes + from, flags = b[FLAGS];
  const int bytes = 1 << (flags & 3);
  b += FLAGS + 1 + (flags & TIMES ? 16 : 0) + (flags & PHASES ? 4 : 0);
  const uint64_t size = number_of(b, bytes);
  b += bytes;
  g->blocks = 0, g->is_dense = 0;
  if (size > g->size - (size_t)(b - g->bytes)) return refuse(g, "has a damaged header");
  return check_messages(g, b, b + size, flags & HAS_ORDER ? 6 : 4);
}

int h5_number_kind(int64_t type)
{
  size_t size = H5Tget_size(type);
  if (H5Tget_class(type) == H5T_FLOAT) {
    if (H5Tequal(type, H5T_IEEE_F32LE) > 0 || H5Tequal(type, H5T_IEEE_F32BE) > 0) return KIND_F32;
    return H5Tequal(type, H5T_IEEE_F64LE) > 0 || H5Tequal(type, H5T_IEEE_F64BE) > 0 ? KIND_F64 : -1;
  }
  if (H5Tget_class(type) != H5T_INTEGER || (size != 1 && size != 2 && size != 4 && size != 8)) return -1;
  if (H5Tget_precision(type) != 8 * size || H5Tget_offset(type)) return -1;
  return size == 1 ? KIND_U8 : size <= 4 ? KIND_I32 : KIND_I64;
}

static void find_heaps(const struct gate *g, const char *signature, struct heaps *h)
{
  const unsigned char *at = g->bytes, *end = at + g->size;
  for (; (at = memmem(at, (size_t)(end - at), signature, 4)); at += 4) {
    if (h->count == h->room) {
      h->at = memory_grow(h->at, h->room, 2 * h->room + 64, sizeof *h->at);
      h->room = 2 * h->room + 64;
    }
    h->at[h->count++] = at;
  }
}

/* Are these bytes in such a heap? Those of other places would be the memory of the process that reads. A direct block
   of attributes has at most 64 KiB, a heap of texts states its size. */
static int is_in_heap(const struct gate *g, struct heaps *h, const char *bytes, size_t size)
{
  enum { BLOCK = 1 << 16, TEXTS_SIZE = 8 };
  if (!g->bytes || !size) return 1;
  if (!h->count) find_heaps(g, h == &g->texts ? "GCOL" : "FHDB", h);
  for (size_t i = 0; i < h->count; i++) {
    const size_t k = (h->last + i) % h->count, left = g->size - (size_t)(h->at[k] - g->bytes);
    const uint64_t stated = h == &g->texts && left >= 16 ? number_of(h->at[k] + TEXTS_SIZE, 8) : BLOCK;
    if (!memmem(h->at[k], stated < left ? (size_t)stated : left, bytes, size)) continue;
    h->last = k;
    return 1;
  }
  return 0;
}

static void add_number(const struct gate *g, hid_t a, const char *name, hid_t type)
{
  char text[32];
  int64_t whole;
  double real;
  uint64_t bits;
  if (h5_number_kind(type) < 0) return;
  if (H5Tget_class(type) == H5T_INTEGER && H5Aread(a, H5T_NATIVE_INT64, &whole) >= 0) {
    snprintf(text, sizeof text, "%" PRId64, whole);
    h5_attributes_add(g->list, g->address, name, 0, 1, 'i', text);
  } else if (H5Tget_class(type) == H5T_FLOAT && H5Aread(a, H5T_NATIVE_DOUBLE, &real) >= 0) {
    memcpy(&bits, &real, sizeof bits);
    snprintf(text, sizeof text, "%" PRIx64, bits);
    h5_attributes_add(g->list, g->address, name, 0, 1, 'f', text);
  }
}

/* Read an attribute, as it is stored, and add it to the list if the program has a use for its kind. */
static int add_attribute(struct gate *g, hid_t a, const char *name, hid_t type, hid_t space)
{
  const size_t size = H5Tget_size(type);
  const hssize_t values = H5Sget_simple_extent_npoints(space);
  const int variable = H5Tis_variable_str(type) > 0,
            is_list = values == 1 || H5Sget_simple_extent_ndims(space) == 1;
  if (values < 0 || !size || (size_t)values > g->size / size)
    return refuse(g, "has an attribute that cannot be read");
  if (!variable && H5Tdetect_class(type, H5T_VLEN) != 0) return STATUS_OK;
  char *room = calloc((size_t)values + 1, size), *const *text = (char *const *)(const void *)room;
  int status =
    !room || H5Aread(a, type, room) < 0 ? refuse(g, "has an attribute that cannot be read") : STATUS_OK;
  if (!status && !variable && g->is_dense && !is_in_heap(g, &g->dense, room, size * (size_t)values))
    status = refuse(g, "has an attribute that does not fit into its place");
  for (int i = 0; variable && !status && i < values; i++)
    if (text[i] && !is_in_heap(g, &g->texts, text[i], strlen(text[i])))
      status = refuse(g, "has a text that does not fit into its place");
  for (int i = 0; variable && !status && is_list && i < values && i < MOST_RANK; i++)
    if (text[i]) h5_attributes_add(g->list, g->address, name, i, (int)values, 'v', text[i]);
  if (!status && !variable && values == 1 && H5Tget_class(type) == H5T_STRING)
    h5_attributes_add(g->list, g->address, name, 0, 1, 's', room);
  if (!status && values == 1) add_number(g, a, name, type);
  if (variable && room) H5Dvlen_reclaim(type, space, H5P_DEFAULT, room);
  free(room);
  return status || g->list->length / 16 <= g->size ? status
                                                   : refuse(g, "has more attributes than this file can hold");
}

/* Texts of variable length are in heaps without a checksum. */
static herr_t read_attribute(hid_t object, const char *name, const H5A_info_t *info, void *context)
{
  struct gate *g = context;
  (void)info;
  if (!strcmp(g->path, "/parameters") || !strcmp(name, "DIMENSION_LIST") || !strcmp(name, "REFERENCE_LIST"))
    return 0; /* for other programs: this program never reads them */
  hid_t a = H5Aopen(object, name, H5P_DEFAULT), type = a < 0 ? -1 : H5Aget_type(a);
  hid_t space = a < 0 ? -1 : H5Aget_space(a);
  int status = type < 0 || space < 0 ? refuse(g, "has an attribute that cannot be read")
                                     : add_attribute(g, a, name, type, space);
  if (space >= 0) H5Sclose(space);
  if (type >= 0) H5Tclose(type);
  if (a >= 0) H5Aclose(a);
  return status ? -1 : 0;
}

static int read_attributes(struct gate *g, hid_t id)
{
  if (H5Aiterate2(id, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, read_attribute, g) >= 0) return STATUS_OK;
  return g->error->status ? g->error->status : refuse(g, "has attributes that cannot be read");
}

static int check_dataset(const struct gate *g, hid_t id)
{
  hid_t type = H5Dget_type(id), space = H5Dget_space(id), create = H5Dget_create_plist(id);
  int status = type < 0 || space < 0 || create < 0 ? refuse(g, "cannot be opened")
                                                   : check_storage(g, id, create, H5Tget_size(type), space);
  if (!status) status = read_values(g, id, type, space);
  if (create >= 0) H5Pclose(create);
  if (space >= 0) H5Sclose(space);
  if (type >= 0) H5Tclose(type);
  return status;
}

static herr_t check_link(hid_t group, const char *name, const H5L_info_t *info, void *context);

static int check_object(struct gate *g, hid_t id)
{
  H5I_type_t type = H5Iget_type(id);
  if (type != H5I_GROUP && type != H5I_DATASET) return refuse(g, "is neither a group nor a dataset");
  g->address = h5_address(id);
  if (g->bytes && check_object_header(g)) return g->error->status;
  if (read_attributes(g, id)) return g->error->status;
  if (type == H5I_DATASET) return g->bytes ? check_dataset(g, id) : STATUS_OK;
  if (H5Literate(id, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, check_link, g) >= 0) return STATUS_OK;
  return g->error->status ? g->error->status : refuse(g, "is a group that cannot be read");
}

/* Reject more links than the file has room for objects, and deep paths: they mean a cycle of links, or one group many
   times. */
static herr_t check_link(hid_t group, const char *name, const H5L_info_t *info, void *context)
{
  struct gate *g = context;
  size_t length = strlen(g->path), room = sizeof g->path - length;
  int fits = (size_t)snprintf(g->path + length, room, "%s%s", length > 1 ? "/" : "", name) < room, status;
  if (info->type != H5L_TYPE_HARD)
    status = refuse(g, link_kind(info->type));
  else if (!fits || g->depth == MOST_DEPTH || ++g->objects > g->size / OBJECT_BYTES)
    status =
      error_set(g->error, STATUS_FAIL, "its groups contain each other, or lie more than %d deep", MOST_DEPTH);
  else {
    hid_t id = H5Oopen(group, name, H5P_DEFAULT);
    g->depth++;
    status = id < 0 ? refuse(g, "cannot be opened") : check_object(g, id);
    g->depth--;
    if (id >= 0) H5Oclose(id);
  }
  g->path[length] = 0;
  return status ? -1 : 0;
}

uint64_t h5_address(int64_t object)
{
  H5O_info_t info;
#if H5_VERSION_GE(1, 12, 0)
  uint64_t address;
  if (H5Oget_info(object, &info, H5O_INFO_BASIC) < 0) return UINT64_MAX;
  memcpy(&address, &info.token, sizeof address);
  return address;
#else
  return H5Oget_info2(object, &info, H5O_INFO_BASIC) < 0 ? UINT64_MAX : info.addr;
#endif
}

void h5_attributes_of(int64_t file, struct buffer *list)
{
  struct error ignored = {0};
  struct gate g = {.size = SIZE_MAX, .path = "/", .list = list, .error = &ignored};
  hid_t root = H5Oopen(file, "/", H5P_DEFAULT);
  check_object(&g, root);
  H5Oclose(root);
}

int h5_gate_objects(int64_t file, const char *bytes, size_t size, struct buffer *list, struct error *e)
{
  struct gate g = {
    .size = size, .bytes = (const unsigned char *)bytes, .path = "/", .list = list, .error = e};
  double memory = memory_there_was() / 2; /* of the reader, not of the process that examines */
  if (__builtin_mul_overflow(size, (size_t)DEFLATE_RATIO, &g.capacity)) g.capacity = SIZE_MAX;
  if (memory > 0 && memory < (double)g.capacity) g.capacity = (size_t)memory;
  hid_t root = H5Oopen(file, "/", H5P_DEFAULT);
  int status = root < 0 ? refuse(&g, "cannot be opened") : check_object(&g, root);
  if (root >= 0) H5Oclose(root);
  memory_free(g.texts.at);
  memory_free(g.dense.at);
  return status;
}
