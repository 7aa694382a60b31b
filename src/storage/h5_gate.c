#include "storage/h5_gate.h"
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "storage/h5_texts.h"

enum {
  DEFLATE_RATIO = 1032, /* largest expansion of deflate: RFC 1951, 258 bytes per 2 bits */
  OBJECT_BYTES = 16,    /* minimal size of an object header */
  MOST_DEPTH = 64,
  BLOCK_BYTES = 4 << 20,
  MOST_RANK = 32, /* H5S_MAX_RANK */
};

const char h5_signature[H5_SIGNATURE + 1] = "\211HDF\r\n\032\n";

/* --- the header ---------------------------------------------------------------------------------------- */

static uint64_t number_at(const unsigned char *b)
{
  uint64_t number = 0;
  for (int i = 7; i >= 0; i--) number = number << 8 | b[i];
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
  if (fits && !number_at(b + 12) && number_at(b + 20) == UINT64_MAX) return STATUS_OK;
  return error_set(e, STATUS_USAGE,
                   "%s: its HDF5 metadata have no checksums (superblock version %d); required: the format of "
                   "HDF5 1.10, as `h5repack --low=2 --high=2` writes it",
                   path, size > 8 ? b[8] : -1);
}

/* --- the objects --------------------------------------------------------------------------------------- */

struct gate {
  size_t size, capacity; /* bytes of the file; bytes that it can hold, and this process can take */
  size_t objects;
  int depth;
  char path[1024];
  uint64_t address; /* of the object */
  struct buffer *texts;
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

static int add_texts(const struct gate *g, const char *name, char *const *text, int count)
{
  for (int i = 0; i < count && i < MOST_RANK; i++) {
    if (text[i]) h5_texts_add(g->texts, g->address, name, i, text[i]);
    if (g->texts->length / 16 > g->size) return refuse(g, "has more texts than this file can hold");
  }
  return STATUS_OK;
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
  hssize_t values = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
  size_t size = type < 0 ? 0 : H5Tget_size(type);
  int variable = type >= 0 && H5Tis_variable_str(type) > 0, status = STATUS_OK;
  if (values < 0 || !size || (size_t)values > g->size / size)
    status = refuse(g, "has an attribute that cannot be read");
  else if (variable || H5Tdetect_class(type, H5T_VLEN) == 0) {
    void *room = calloc((size_t)values + 1, size);
    if (!room || H5Aread(a, type, room) < 0) status = refuse(g, "has an attribute that cannot be read");
    if (variable && !status) status = add_texts(g, name, room, (int)values);
    if (variable && room) H5Dvlen_reclaim(type, space, H5P_DEFAULT, room);
    free(room);
  }
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
  if (read_attributes(g, id)) return g->error->status;
  if (type == H5I_DATASET) return check_dataset(g, id);
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
  return H5Oget_info(object, &info) < 0 ? UINT64_MAX : info.addr;
#endif
}

int h5_gate_objects(int64_t file, size_t size, struct buffer *texts, struct error *e)
{
  struct gate g = {.size = size, .path = "/", .texts = texts, .error = e};
  double memory = memory_there_is() / 2;
  if (__builtin_mul_overflow(size, (size_t)DEFLATE_RATIO, &g.capacity)) g.capacity = SIZE_MAX;
  if (memory > 0 && memory < (double)g.capacity) g.capacity = (size_t)memory;
  hid_t root = H5Oopen(file, "/", H5P_DEFAULT);
  int status = root < 0 ? refuse(&g, "cannot be opened") : check_object(&g, root);
  if (root >= 0) H5Oclose(root);
  return status;
}
