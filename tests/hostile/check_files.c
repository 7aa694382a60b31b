/* check_files.c - run files that somebody made to do harm: sealed, with a head, and refused with a name and a reason
   Each is an honest run whose HDF5 part was changed through the HDF5 library, or byte by byte, and sealed again:
   the seal has no key. */
#include <check.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>
#include "../folder.h"
#include "../long.h"
#include "unchecked.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "storage/checkpoint.h"
#include "run/rerun.h"
#include "storage/head.h"
#include "storage/journal.h"
#include "storage/layout.h"
#include "storage/notes.h"
#include "storage/run_file.h"
#include "storage/seal.h"
#include "storage/tables.h"
#include "storage/texts.h"

static char folder[FOLDER_PATH];

/* --- an honest run ------------------------------------------------------------------------------------- */

enum { ROWS = 20, LAYERS = 2, HEADS = 4 };

static h5_id put_series(struct h5 *h, const char *path, const struct h5_shape *shape, const void *data)
{
  h5_id id = h5_put(h, path, shape, data);
  h5_put_text(h, id, "units", "nat");
  h5_put_text(h, id, "long_name", "a series");
  return id;
}

static void make_run(const char *path, int events_count)
{
  struct error e = {0};
  struct h5_shape rows = {.kind = KIND_I64, .rank = 1, .dims = {ROWS}, .growing = 1, .compress = 1};
  struct h5_shape logits = {
    .kind = KIND_F32, .rank = 3, .dims = {ROWS, LAYERS, HEADS}, .growing = 1, .compress = 1};
  struct h5_shape events = event_shape;
  struct event_record *event = memory_new((size_t)events_count, sizeof *event);
  struct notes notes = {0};
  int64_t step[ROWS];
  double loss[ROWS];
  float logit[ROWS * LAYERS * HEADS];
  for (int i = 0; i < ROWS; i++) step[i] = i, loss[i] = 4 - i / 10.;
  for (int i = 0; i < ROWS * LAYERS * HEADS; i++) logit[i] = (float)i;
  for (int i = 0; i < events_count; i++)
    event[i] = (struct event_record){.step = 3, .kind = "clip", .layer = i, .head = 1, .value = 0.5};
  struct h5 *h = h5_new();
  h5_id root = h5_group(h, "/"), status = h5_group(h, "/status");
  h5_put_text(h, root, "format", RUN_FORMAT);
  h5_put_int(h, root, "format_version", RUN_VERSION);
  h5_put_text(h, root, "id", "0123456789ab");
  h5_put_text(h, status, "state", "finished");
  h5_put_int(h, status, "last_step", ROWS);
  h5_id steps = h5_put(h, "/series/step", &rows, step);
  h5_make_scale(h, steps, "step");
  rows.kind = KIND_F64;
  h5_id losses = put_series(h, "/series/loss", &rows, loss);
  h5_id heads = put_series(h, "/series/attn/max_logit", &logits, logit);
  h5_dimensions(h, losses, 1, (const char *[]){"step"}, &steps);
  h5_dimensions(h, heads, 3, (const char *[]){"step", "layer", "head"}, (h5_id[]){steps, -1, -1});
  events.dims[0] = events_count;
  h5_done(h, h5_put(h, "/events", &events, event));
  memory_free(event);
  text_put(h, "/parameters/config", "train.steps = 20\n");
  notes_add(&notes, "2026-01-01", "a note");
  notes_write(h, &notes);
  notes_free(&notes);
  size_t size;
  char *head = run_head_of(h, &size);
  h5_put_head(h, head, size);
  memory_free(head);
  for (h5_id *id = (h5_id[]){root, status, steps, losses, heads, -1}; *id >= 0; id++) h5_done(h, *id);
  ck_assert_msg(!h5_save(h, path, NULL, &e), "%s", e.text);
}

static void make_honest(const char *path) { make_run(path, 1); }

/* --- a changed one, sealed ------------------------------------------------------------------------------- */

/* The HDF5 part of a file, in memory, and its head; NULL where it has none. */
static char *body_of(const char *path, size_t *size, char **head, size_t *length)
{
  struct error e = {0};
  char *bytes = NULL;
  size_t whole, behind;
  ck_assert(!file_read(path, &bytes, &whole, &e));
  const char *found = head_find(bytes, whole, length, &behind);
  *head = found ? memory_new(*length + 1, 1) : NULL;
  if (found) memcpy(*head, found, *length);
  *size = whole - (found ? behind : SEAL_BYTES);
  return bytes;
}

static void write_sealed(const char *path, const char *body, size_t size, const char *head, size_t length)
{
  struct error e = {0};
  char *out = memory_new(size + (head ? length : 0) + HEAD_LINE + SEAL_BYTES + 1, 1);
  memcpy(out, body, size);
  if (head) memcpy(out + size, head, length);
  if (head) head_make_line(head, length, out + size + length);
  size += head ? length + HEAD_LINE : 0;
  seal_make(out, size, out + size);
  ck_assert(!file_write(path, out, size + SEAL_BYTES, &e));
  memory_free(out);
}

/* The file `from`, changed by `how`, as `to`. */
static void make_changed(const char *from, void (*how)(hid_t file), const char *to)
{
  struct error e = {0};
  char *head, *body;
  size_t size, length;
  body = body_of(from, &size, &head, &length);
  ck_assert(!file_write("open.h5", body, size, &e));
  memory_free(body);
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  hid_t file = H5Fopen("open.h5", H5F_ACC_RDWR, access);
  ck_assert_int_ge(file, 0);
  how(file);
  ck_assert_int_ge(H5Fclose(file), 0);
  H5Pclose(access);
  ck_assert(!file_read("open.h5", &body, &size, &e));
  write_sealed(to, body, size, head, length);
  memory_free(body);
  memory_free(head);
}

static void make_bad(void (*how)(hid_t file)) { make_changed("honest.h5", how, "bad.h5"); }

static void remove_link(hid_t file, const char *path)
{
  ck_assert_int_ge(H5Ldelete(file, path, H5P_DEFAULT), 0);
}

static void external_link(hid_t file)
{
  remove_link(file, "/series/loss");
  ck_assert_int_ge(H5Lcreate_external("secret.h5", "/data", file, "/series/loss", H5P_DEFAULT, H5P_DEFAULT),
                   0);
}

static void external_group(hid_t file)
{
  remove_link(file, "/notes");
  ck_assert_int_ge(H5Lcreate_external("honest.h5", "/notes", file, "/notes", H5P_DEFAULT, H5P_DEFAULT), 0);
}

static void soft_link(hid_t file)
{
  ck_assert_int_ge(H5Lcreate_soft("/series/loss", file, "/series/other", H5P_DEFAULT, H5P_DEFAULT), 0);
}

static void make_dataset(hid_t file, const char *path, hid_t type, int rank, const hsize_t *dims,
                         hid_t create)
{
  hid_t space = H5Screate_simple(rank, dims, NULL);
  hid_t id = H5Dcreate2(file, path, type, space, H5P_DEFAULT, create, H5P_DEFAULT);
  ck_assert_int_ge(id, 0);
  H5Dclose(id);
  H5Sclose(space);
  H5Pclose(create);
}

static void raw_data_elsewhere(hid_t file)
{
  hid_t create = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(create, "secret.txt", 0, ROWS);
  remove_link(file, "/series/loss");
  make_dataset(file, "/series/loss", H5T_STD_U8LE, 1, (hsize_t[]){ROWS}, create);
}

static void virtual_dataset(hid_t file)
{
  hid_t create = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, (hsize_t[]){ROWS}, NULL);
  H5Pset_virtual(create, space, "secret.h5", "data", space);
  H5Sclose(space);
  remove_link(file, "/series/loss");
  make_dataset(file, "/series/loss", H5T_IEEE_F64LE, 1, (hsize_t[]){ROWS}, create);
}

static void other_filter(hid_t file)
{
  hid_t create = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(create, 1, (hsize_t[]){ROWS});
  H5Pset_filter(create, 32015, H5Z_FLAG_OPTIONAL, 0, NULL); /* zstd's number: a plug-in */
  make_dataset(file, "/series/other", H5T_IEEE_F64LE, 1, (hsize_t[]){ROWS}, create);
}

static void deflated_twice(hid_t file)
{
  hid_t create = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(create, 1, (hsize_t[]){ROWS});
  H5Pset_deflate(create, 9);
  H5Pset_deflate(create, 9);
  make_dataset(file, "/series/other", H5T_IEEE_F64LE, 1, (hsize_t[]){ROWS}, create);
}

/* Another filter of the library's own. */
static void with_filter(hid_t file, herr_t (*set)(hid_t create))
{
  static const double loss[ROWS] = {4, 3, 2};
  hid_t create = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(create, 1, (hsize_t[]){ROWS});
  ck_assert_int_ge(set(create), 0);
  remove_link(file, "/series/loss");
  make_dataset(file, "/series/loss", H5T_IEEE_F64LE, 1, (hsize_t[]){ROWS}, create);
  hid_t id = H5Dopen2(file, "/series/loss", H5P_DEFAULT);
  ck_assert_int_ge(H5Dwrite(id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, loss), 0);
  H5Dclose(id);
}

static herr_t set_scale_offset(hid_t create) { return H5Pset_scaleoffset(create, H5Z_SO_FLOAT_DSCALE, 3); }

static herr_t set_szip(hid_t create)
{
  unsigned how = 0;
  H5Zget_filter_info(H5Z_FILTER_SZIP, &how);
  return how & H5Z_FILTER_CONFIG_ENCODE_ENABLED ? H5Pset_szip(create, H5_SZIP_NN_OPTION_MASK, 4)
                                                : H5Pset_nbit(create); /* a library without szip */
}

static void nbit_filter(hid_t file) { with_filter(file, H5Pset_nbit); }
static void scale_offset_filter(hid_t file) { with_filter(file, set_scale_offset); }
static void szip_filter(hid_t file) { with_filter(file, set_szip); }

static void cycle(hid_t file)
{
  ck_assert_int_ge(H5Lcreate_hard(file, "/series", file, "/series/loop", H5P_DEFAULT, H5P_DEFAULT), 0);
}

/* A walk of 2^64 paths, were all followed. */
static void tree(hid_t file)
{
  cycle(file);
  ck_assert_int_ge(H5Lcreate_hard(file, "/series", file, "/series/other", H5P_DEFAULT, H5P_DEFAULT), 0);
}

/* 2^22 paths to one group, none of them deep. */
static void shared_groups(hid_t file)
{
  hid_t group = H5Gopen2(file, "/series", H5P_DEFAULT);
  for (int i = 0; i < 22; i++) {
    hid_t next = H5Gcreate2(group, "a", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert_int_ge(H5Lcreate_hard(group, "a", group, "b", H5P_DEFAULT, H5P_DEFAULT), 0);
    H5Gclose(group);
    group = next;
  }
  H5Gclose(group);
}

static void deep(hid_t file)
{
  hid_t group = H5Gopen2(file, "/series", H5P_DEFAULT);
  for (int i = 0; i < 300; i++) {
    hid_t next = H5Gcreate2(group, "d", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(group);
    group = next;
  }
  H5Gclose(group);
}

static void named_type(hid_t file)
{
  hid_t type = H5Tcopy(H5T_IEEE_F64LE);
  ck_assert_int_ge(H5Tcommit2(file, "/series/other", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), 0);
  H5Tclose(type);
}

/* Chunks that were never written: a small file states any extent. */
static void unwritten(hid_t file, int rank, const hsize_t *dims, const hsize_t *chunk)
{
  hid_t create = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(create, rank, chunk);
  remove_link(file, "/series/attn/max_logit");
  make_dataset(file, "/series/attn/max_logit", H5T_IEEE_F32LE, rank, dims, create);
}

/* The bytes of a row: 2^31 * 2^31 * 4 = 2^64, which wraps to 0. */
static void row_that_wraps(hid_t file)
{
  unwritten(file, 3, (hsize_t[]){1, 1L << 31, 1L << 31}, (hsize_t[]){1, 1, 1024});
}

static void rows_of_nothing(hid_t file)
{
  unwritten(file, 3, (hsize_t[]){1L << 58, LAYERS, HEADS}, (hsize_t[]){1 << 10, LAYERS, HEADS});
}

/* Few enough for a file of this size, had they been stored. */
static void rows_that_are_not_stored(hid_t file)
{
  unwritten(file, 3, (hsize_t[]){1 << 14, LAYERS, HEADS}, (hsize_t[]){1 << 10, LAYERS, HEADS});
}

static void label_axes(hid_t file, const char *path, hsize_t count, const char *const *text)
{
  hid_t id = H5Dopen2(file, path, H5P_DEFAULT), space = H5Screate_simple(1, &count, NULL),
        type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  hid_t a = H5Acreate2(id, "DIMENSION_LABELS", type, space, H5P_DEFAULT, H5P_DEFAULT);
  ck_assert_int_ge(H5Awrite(a, type, text), 0);
  H5Aclose(a);
  H5Sclose(space);
  H5Tclose(type);
  H5Dclose(id);
}

/* Rows without a value: nothing lies behind them. */
static void rows_of_no_width(hid_t file)
{
  remove_link(file, "/series/loss");
  make_dataset(file, "/series/loss", H5T_IEEE_F64LE, 2, (hsize_t[]){ROWS, 0}, H5Pcreate(H5P_DATASET_CREATE));
  label_axes(file, "/series/loss", 2, (const char *const[]){"step", "layer"});
}

static void chunk_of_gigabytes(hid_t file)
{
  unwritten(file, 3, (hsize_t[]){0, 1 << 13, 1 << 13}, (hsize_t[]){8, 1 << 13, 1 << 13});
}

START_TEST(what_leaves_the_file_or_its_size_is_refused)
{
  static const struct {
    void (*how)(hid_t);
    const char *wanted[2];
  } bad[] = {
    {external_link, {"/series/loss", "another file"}},
    {external_group, {"/notes", "another file"}},
    {soft_link, {"/series/other", "soft link"}},
    {raw_data_elsewhere, {"/series/loss", "another file"}},
    {virtual_dataset, {"/series/loss", "virtual"}},
    {other_filter, {"/series/other", "filter"}},
    {deflated_twice, {"/series/other", "filter"}},
    {nbit_filter, {"/series/loss", "filter"}},
    {szip_filter, {"/series/loss", "filter"}},
    {scale_offset_filter, {"/series/loss", "filter"}},
    {cycle, {"groups", "contain each other"}},
    {tree, {"groups", "contain each other"}},
    {shared_groups, {"groups", "contain each other"}},
    {deep, {"64", "deep"}},
    {named_type, {"/series/other", "neither a group nor a dataset"}},
    {row_that_wraps, {"/series/attn/max_logit", "cannot hold"}},
    {rows_of_nothing, {"/series/attn/max_logit", "cannot hold"}},
    {rows_that_are_not_stored, {"/series/attn/max_logit", "more values than are stored"}},
    {chunk_of_gigabytes, {"/series/attn/max_logit", "cannot hold"}},
  };
  struct run_file *f = NULL;
  struct run_series s;
  struct error e = {0};
  make_bad(bad[_i].how);
  ck_assert_int_eq(run_open(&f, "bad.h5", &e), STATUS_FAIL);
  ck_assert_msg(strstr(e.text, "bad.h5") && strstr(e.text, bad[_i].wanted[0]) &&
                  strstr(e.text, bad[_i].wanted[1]),
                "%s", e.text);
  ck_assert(!run_peek(&f, "bad.h5", &e)); /* its head can be read */
  e.status = 0;
  ck_assert_int_eq(run_read(f, "loss", &s, &e), STATUS_FAIL);
  run_close(f);
}
END_TEST

/* --- types ------------------------------------------------------------------------------------------------- */

/* Types that this program never writes, whose values lie elsewhere in the file: a text (also in a record) and a
   sequence of variable length, and references to objects and to parts of datasets. */
enum strange { STRANGE_TEXT, STRANGE_SEQUENCE, STRANGE_RECORD, STRANGE_OBJECT, STRANGE_REGION, STRANGES };

static enum strange strange;

static hid_t strange_type(void)
{
  hid_t text = H5Tcopy(H5T_C_S1), type;
  H5Tset_size(text, H5T_VARIABLE);
  switch (strange) {
  case STRANGE_TEXT: return text;
  case STRANGE_SEQUENCE: type = H5Tvlen_create(H5T_NATIVE_DOUBLE); break;
  case STRANGE_RECORD:
    type = H5Tcreate(H5T_COMPOUND, sizeof(char *));
    H5Tinsert(type, "step", 0, text);
    break;
  case STRANGE_OBJECT: type = H5Tcopy(H5T_STD_REF_OBJ); break;
  default: type = H5Tcopy(H5T_STD_REF_DSETREG);
  }
  H5Tclose(text);
  return type;
}

/* `count` values of the type, up to ROWS, valid until the next call. */
static const void *strange_values(hid_t file, int count)
{
  static double numbers[3] = {1, 2, 3};
  static hvl_t values[2 * ROWS]; /* room for the largest type, a reference to a region */
  hid_t space = H5Screate_simple(1, (hsize_t[]){ROWS}, NULL);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, (hsize_t[]){2}, NULL, (hsize_t[]){3}, NULL);
  for (int i = 0; i < count; i++) switch (strange) {
    case STRANGE_TEXT:
    case STRANGE_RECORD: ((const char **)(void *)values)[i] = "step"; break;
    case STRANGE_SEQUENCE: values[i] = (hvl_t){3, numbers}; break;
    case STRANGE_OBJECT:
      H5Rcreate((hobj_ref_t *)(void *)values + i, file, "/series/step", H5R_OBJECT, -1);
      break;
    default:
      H5Rcreate((hdset_reg_ref_t *)(void *)values + i, file, "/series/step", H5R_DATASET_REGION, space);
    }
  H5Sclose(space);
  return values;
}

static void put_strange_dataset(hid_t file, const char *path, hsize_t rows)
{
  hid_t type = strange_type();
  remove_link(file, path);
  make_dataset(file, path, type, 1, &rows, H5Pcreate(H5P_DATASET_CREATE));
  hid_t id = H5Dopen2(file, path, H5P_DEFAULT);
  ck_assert_int_ge(H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, strange_values(file, (int)rows)), 0);
  H5Dclose(id);
  H5Tclose(type);
}

static void put_strange_attribute(hid_t file, const char *path, const char *name, hsize_t values)
{
  hid_t type = strange_type(), id = H5Oopen(file, path, H5P_DEFAULT),
        space = H5Screate_simple(1, &values, NULL);
  H5Adelete(id, name);
  hid_t a = H5Acreate2(id, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  ck_assert_int_ge(H5Awrite(a, type, strange_values(file, (int)values)), 0);
  H5Aclose(a);
  H5Sclose(space);
  H5Oclose(id);
  H5Tclose(type);
}

static void strange_series(hid_t file) { put_strange_dataset(file, "/series/loss", ROWS); }
static void strange_steps(hid_t file) { put_strange_dataset(file, "/series/step", ROWS); }
static void strange_events(hid_t file) { put_strange_dataset(file, "/events", 1); }
static void strange_notes(hid_t file)
{
  put_strange_dataset(file, "/notes", 1);
  put_strange_dataset(file, "/parameters/config", 1);
}

static void strange_facts(hid_t file)
{
  static const char *const names[] = {"id", "format", "format_version"};
  for (int i = 0; i < 3; i++) put_strange_attribute(file, "/", names[i], 1);
}

static void strange_attributes(hid_t file)
{
  static const char *const names[][2] = {{"/series/loss", "units"},  {"/series/loss", "long_name"},
                                         {"/series/loss", "extra"},  {"/status", "state"},
                                         {"/status", "last_step"},   {"/status", "extra"},
                                         {"/parameters", "train.lr"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    put_strange_attribute(file, names[i][0], names[i][1], i % 2 ? 1 : 3);
}

static void strange_dimensions(hid_t file)
{
  put_strange_attribute(file, "/series/attn/max_logit", "DIMENSION_LABELS", 3);
  put_strange_attribute(file, "/series/attn/max_logit", "DIMENSION_LIST", 3);
  put_strange_attribute(file, "/series/step", "REFERENCE_LIST", 3);
}

static void (*const strange_places[])(hid_t) = {strange_series,    strange_steps, strange_events,
                                                strange_notes,     strange_facts, strange_attributes,
                                                strange_dimensions};
enum { STRANGE_PLACES = sizeof strange_places / sizeof *strange_places };

/* --- labels ---------------------------------------------------------------------------------------------- */

static void put_labels(hid_t file, hid_t type, hsize_t values, const void *data)
{
  hid_t id = H5Dopen2(file, "/series/attn/max_logit", H5P_DEFAULT),
        space = H5Screate_simple(1, &values, NULL);
  ck_assert_int_ge(H5Adelete(id, "DIMENSION_LABELS"), 0);
  hid_t a = H5Acreate2(id, "DIMENSION_LABELS", type, space, H5P_DEFAULT, H5P_DEFAULT);
  ck_assert_int_ge(H5Awrite(a, type, data), 0);
  H5Aclose(a);
  H5Sclose(space);
  H5Dclose(id);
}

static void long_label(hid_t file)
{
  static char text[60000];
  hid_t type = H5Tcopy(H5T_C_S1);
  memset(text, 'A', sizeof text);
  H5Tset_size(type, sizeof text);
  put_labels(file, type, 1, text);
  H5Tclose(type);
}

static void labels_of_pointers(hid_t file)
{
  hid_t type = H5Tcreate(H5T_OPAQUE, 8);
  put_labels(file, type, 3, (uint64_t[]){0x414243444546, 0x414243444546, 0x414243444546});
  H5Tclose(type);
}

static void many_labels(hid_t file)
{
  static const char *text[1000];
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  for (int i = 0; i < 1000; i++) text[i] = "step";
  put_labels(file, type, 1000, text);
  H5Tclose(type);
}

/* rows of so many bytes, one for each tensor */
static void wide_rows(hid_t file, hsize_t rows, hsize_t width)
{
  hid_t create = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(create, 2, (hsize_t[]){1, width / 16});
  H5Pset_deflate(create, 9);
  remove_link(file, "/series/attn/max_logit");
  make_dataset(file, "/series/attn/max_logit", H5T_STD_U8LE, 2, (hsize_t[]){rows, width}, create);
  if (!rows) { /* steps of its own, of which there are none */
    create = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(create, 1, (hsize_t[]){8});
    make_dataset(file, "/series/none", H5T_STD_I64LE, 1, (hsize_t[]){0}, create);
  }
  label_axes(file, "/series/attn/max_logit", 2, (const char *const[]){rows ? "step" : "none", "tensor"});
  if (!rows) return;
  uint8_t *zeros = memory_new(rows * width, 1);
  hid_t id = H5Dopen2(file, "/series/attn/max_logit", H5P_DEFAULT);
  ck_assert_int_ge(H5Dwrite(id, H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros), 0);
  H5Dclose(id);
  memory_free(zeros);
}

static void million_tensors(hid_t file) { wide_rows(file, ROWS, 1 << 20); }
static void names_of_gigabytes(hid_t file) { wide_rows(file, 0, 1 << 26); }

/* Labels of another type, length or number are no labels: the series has none, and the others are read. */
START_TEST(labels_of_another_form_are_no_labels)
{
  static void (*const bad[])(hid_t) = {long_label, labels_of_pointers, many_labels};
  struct run_file *f = NULL;
  struct run_series s;
  struct rows rows = {0};
  struct h5 *h = NULL;
  struct error e = {0};
  make_bad(bad[_i]);
  ck_assert_msg(!run_open(&f, "bad.h5", &e), "%s", e.text);
  ck_assert_int_eq(run_read(f, "attn/max_logit", &s, &e), STATUS_FAIL);
  e.status = 0;
  ck_assert_msg(!run_read(f, "loss", &s, &e), "%s", e.text);
  ck_assert_int_eq(s.rows, ROWS);
  run_series_free(&s);
  run_close(f);
  ck_assert(!h5_load(&h, "bad.h5", &e));
  ck_assert_msg(!tables_read(h, &rows, &e), "%s", e.text);
  ck_assert_int_eq(rows.table[AXIS_STEP].columns, 2); /* step and loss */
  rows_free(&rows);
  h5_free(h);
}
END_TEST

/* --- steps ------------------------------------------------------------------------------------------------- */

static int64_t bad_steps[ROWS];

static void write_steps(hid_t file)
{
  hid_t id = H5Dopen2(file, "/series/step", H5P_DEFAULT);
  ck_assert_int_ge(H5Dwrite(id, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, bad_steps), 0);
  H5Dclose(id);
}

/* Steps that are huge, negative, equal or go back: the series is refused by name, whatever walks along its steps. */
START_TEST(steps_are_ascending_whole_numbers)
{
  static const struct {
    int at;
    int64_t step;
  } bad[] = {{ROWS - 1, 9000000000000000000}, {0, -1}, {0, INT64_MIN}, {5, 4}, {ROWS - 1, 0}};
  struct run_file *f = NULL;
  struct run_series s;
  struct error e = {0};
  for (int i = 0; i < ROWS; i++) bad_steps[i] = i;
  bad_steps[bad[_i].at] = bad[_i].step;
  make_bad(write_steps);
  ck_assert_msg(!run_open(&f, "bad.h5", &e), "%s", e.text);
  ck_assert_int_eq(run_read(f, "loss", &s, &e), STATUS_FAIL);
  ck_assert_msg(strstr(e.text, "bad.h5") && strstr(e.text, "loss"), "%s", e.text);
  run_close(f);
}
END_TEST

/* --- commands ---------------------------------------------------------------------------------------------- */

/* A head with another value of this key. */
static void change_head(const char *key, const char *value)
{
  char *head, *body;
  size_t size, length, at = 0;
  struct buffer changed = {0};
  body = body_of("honest.h5", &size, &head, &length);
  for (char *text = head; text < head + length; text += strlen(text) + 1, at++) {
    int is_value = at % 2 && !strcmp(changed.text + changed.length - strlen(key) - 1, key);
    buffer_add(&changed, "%s%c", is_value ? value : text, 0);
  }
  write_sealed("bad.h5", body, size, changed.text, changed.length);
  memory_free(changed.text);
  memory_free(body);
  memory_free(head);
}

static const char *memory_limit_text = "";

static int run_program(const char *arguments)
{
  char command[512];
  const char *build = getenv("top_builddir");
  snprintf(command, sizeof command, "%s timeout 60 %s/maxlogit %s >out 2>err </dev/null", memory_limit_text,
           build ? build : "..", arguments);
  int status = system(command);
  ck_assert_msg(WIFEXITED(status), "%s: status %x", arguments, (unsigned)status);
  return WEXITSTATUS(status);
}

/* Commands end, with a status of theirs, and show the honest run beside the bad one. */
static void call_commands(int is_refused)
{
  static const char *const commands[] = {
    "show bad.h5 honest.h5",
    "show --json bad.h5",
    "export bad.h5 loss",
    "export --list bad.h5",
    "note bad.h5",
    "report bad.h5 -o page",
    "watch bad.h5",
    "plot -t bad.h5",
    "compare bad.h5 honest.h5",
    "rerun bad.h5 record.path=r.h5",
  };
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    int status = run_program(commands[i]);
    ck_assert_msg(status <= 2, "%s: status %d", commands[i], status);
    if (i) continue;
    ck_assert_int_eq(system("grep -q honest out"), 0);
    ck_assert_int_eq(status, is_refused);
    ck_assert_int_eq(system("grep -q bad.h5 err"), is_refused ? 0 : 256);
  }
}

START_TEST(commands_end_on_them)
{
  static void (*const bad[])(hid_t) = {external_link,  virtual_dataset, tree,
                                       row_that_wraps, rows_of_nothing, long_label,
                                       many_labels,    write_steps,     rows_of_no_width};
  bad_steps[0] = 9000000000000000000;
  make_bad(bad[_i]);
  call_commands(1);
}
END_TEST

/* A page has the curves of a wide row, not a curve for each value; names of what has no value take no memory. */
START_TEST(wide_rows_end_no_command)
{
#ifdef __SANITIZE_ADDRESS__ /* its shadow takes terabytes of addresses */
  static const char limit[] = "";
#else
  static const char limit[] = "ulimit -v 4000000;";
#endif
  make_bad(_i ? names_of_gigabytes : million_tensors);
  call_commands(_i);
  memory_limit_text = limit;
  ck_assert_int_eq(run_program("report bad.h5 honest.h5 -o page"), _i);
  memory_limit_text = "";
  ck_assert_int_eq(system("test -s page/index.html && test -z \"$(find page -size +4M)\""), 0);
}
END_TEST

/* Of so many heads that no pair of them can be compared. */
START_TEST(events_of_many_heads_end)
{
  make_run("bad.h5", 300000);
  ck_assert_int_eq(run_program("show --why bad.h5 honest.h5"), 0);
  ck_assert_int_eq(system("grep -q '300000, of 300000 heads' out"), 0);
}
END_TEST

/* It takes no room on the disk, and more memory than there is. */
START_TEST(commands_end_on_a_sparse_file)
{
  make_honest("bad.h5");
  if (truncate("bad.h5", (off_t)1 << 40)) return; /* a file system without such files */
  call_commands(1);
  ck_assert_int_eq(run_program("run --dry-run data=bytes data.path=bad.h5"), 2);
  ck_assert_int_eq(system("grep -q 'bad.h5.*do not fit into memory' err"), 0);
}
END_TEST

/* One tensor of 2^38 numbers, whose header is honest; a list of shards; ledgers. */
START_TEST(files_beside_runs_may_be_sparse)
{
  static const char header[] = "{\"w\": {\"dtype\": \"F32\", \"shape\": [131072, 2097152], "
                               "\"data_offsets\": [0, 1099511627776]}}";
  static const struct {
    const char *name, *begin, *command;
  } files[] = {
    {"w.safetensors", NULL, "spectra w.safetensors"},
    {"model.safetensors.index.json", "{\"weight_map\": {}}", "spectra ."},
    {"claims.json", "[{\"id\": \"C-1\", \"verdict\": \"open\"}]", "claims --report page --beside ."},
    {"other.md", "# Claims\n", "claims --report page --beside other.md"},
  };
  enum { LENGTH = sizeof header - 1 };
  char bytes[8 + sizeof header] = {(char)LENGTH}, wanted[128];
  struct error e = {0};
  memcpy(bytes + 8, header, LENGTH);
  const char *begin = files[_i].begin ? files[_i].begin : bytes;
  size_t size = files[_i].begin ? strlen(begin) : 8 + LENGTH;
  ck_assert(!file_write(files[_i].name, begin, size, &e));
  if (truncate(files[_i].name, ((off_t)1 << 40) + 8 + LENGTH)) return; /* as above */
  ck_assert_int_eq(run_program(files[_i].command), 1);
  snprintf(wanted, sizeof wanted, "grep -q '%s.*do not fit into memory' err", files[_i].name);
  ck_assert_int_eq(system(wanted), 0);
}
END_TEST

/* A dataset of a strange type is named and makes commands fail. Such an attribute counts as missing, but labels may be
   texts. */
START_TEST(strange_types_are_named)
{
  static const char *const named[STRANGE_PLACES] = {"the series loss cannot be read",
                                                    "the series loss cannot be read",
                                                    "the events cannot be read",
                                                    "the notes cannot be read",
                                                    "not a run file",
                                                    NULL,
                                                    "the series attn/max_logit cannot be read"};
  const int place = _i / STRANGES;
  char wanted[128];
  strange = (enum strange)(_i % STRANGES);
  if (strange != STRANGE_TEXT && strange != STRANGE_REGION && !is_long()) return;
  make_bad(strange_places[place]);
  const char *name = place == STRANGE_PLACES - 1 && strange == STRANGE_TEXT ? NULL : named[place];
  ck_assert_int_eq(run_program("show bad.h5 honest.h5"), name != NULL);
  snprintf(wanted, sizeof wanted, "grep -q 'bad.h5.*%s' err", name ? name : "");
  ck_assert_int_eq(system(wanted), name ? 0 : 256);
  if (strange == STRANGE_REGION || is_long()) call_commands(name != NULL);
}
END_TEST

START_TEST(commands_end_on_a_step_beyond_all)
{
  change_head("last_step", "9e18");
  call_commands(0);
  change_head("last_step", "-9e300");
  call_commands(0);
}
END_TEST

/* --- checkpoints --------------------------------------------------------------------------------------------- */

static void another_query(hid_t file)
{
  static const float zeros[16];
  remove_link(file, "/params/blocks.0.attn.w_q");
  make_dataset(file, "/params/blocks.0.attn.w_q", H5T_IEEE_F32LE, 2, (hsize_t[]){4, 4},
               H5Pcreate(H5P_DATASET_CREATE));
  hid_t id = H5Dopen2(file, "/params/blocks.0.attn.w_q", H5P_DEFAULT);
  ck_assert_int_ge(H5Dwrite(id, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros), 0);
  H5Dclose(id);
}

static void empty_norm(hid_t file)
{
  remove_link(file, "/params/blocks.0.attn.norm");
  make_dataset(file, "/params/blocks.0.attn.norm", H5T_IEEE_F32LE, 1, (hsize_t[]){0},
               H5Pcreate(H5P_DATASET_CREATE));
}

static void no_key(hid_t file) { remove_link(file, "/params/blocks.0.attn.w_k"); }

/* The checkpoint's own configuration says which tensors of which shape it has. */
START_TEST(tensors_of_another_shape_are_refused)
{
  static const struct {
    void (*how)(hid_t);
    const char *name;
  } bad[] = {
    {another_query, "blocks.0.attn.w_q"}, {empty_norm, "blocks.0.attn.norm"}, {no_key, "blocks.0.attn.w_k"}};
  static const char latest[] = "run.ckpt/step-00000002.h5";
  ck_assert_int_eq(
    run_program("run train.steps=2 model.layers=1 model.width=16 model.heads=2 record.path=run.h5"), 0);
  make_changed(latest, bad[_i].how, latest);
  static const char *const commands[] = {"spectra run.h5", "spectra run.ckpt/step-00000002.h5", "eval run.h5",
                                         "resume run.h5 train.steps=3"};
  for (int i = 0; i < 4; i++) {
    char wanted[128];
    snprintf(wanted, sizeof wanted, "grep -q 'run.*%s is missing\\|: params/%s is missing' err", bad[_i].name,
             bad[_i].name);
    int status = run_program(commands[i]);
    ck_assert_msg(status == 1 || status == 2, "%s: %d", commands[i], status);
    if (!system(wanted)) continue;
    ck_assert_int_eq(system("cat out err"), 0);
    ck_abort_msg("%s", commands[i]);
  }
}
END_TEST

/* The length of a head has ten digits, no sign. */
START_TEST(head_of_negative_length)
{
  struct error e = {0};
  struct run_file *f = NULL;
  char bytes[400] = "\211HDF\r\n\032\n", *at = bytes + 200;
  memset(bytes + 8, 'x', 192);
  at += snprintf(at, HEAD_LINE + 1, HEAD_START "%016d -%09d\n", 0, 1);
  write_sealed("bad.h5", bytes, (size_t)(at - bytes), NULL, 0);
  ck_assert_int_ne(run_peek(&f, "bad.h5", &e), STATUS_OK);
  call_commands(1);
}
END_TEST

START_TEST(metadata_without_checksums_are_refused)
{
  struct error e = {0};
  struct h5 *h = NULL;
  char *head, *body = body_of("honest.h5", &(size_t){0}, &head, &(size_t){0});
  memory_free(body);
  hid_t file = H5Fcreate("old.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT); /* the format of HDF5 1.8 */
  ck_assert_int_ge(H5Fclose(file), 0);
  size_t size;
  ck_assert(!file_read("old.h5", &body, &size, &e));
  write_sealed("bad.h5", body, size, NULL, 0);
  ck_assert_int_eq(h5_load(&h, "bad.h5", &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, "bad.h5") && strstr(e.text, "superblock version 0") &&
                  strstr(e.text, "h5repack"),
                "%s", e.text);
  memory_free(body);
  memory_free(head);
}
END_TEST

/* --- journals ---------------------------------------------------------------------------------------------- */

/* A journal whose pieces are whole, and whose numbers are the author's. */
struct forged {
  char bytes[1 << 14];
  size_t length;
  uint64_t last;
};

static void forge(struct forged *f)
{
  static const char started[] = "2026-01-01T00:00:00Z";
  f->length =
    (size_t)snprintf(f->bytes, sizeof f->bytes, "maxlogit journal 2 %016" PRIx64 " 0123456789abcdef\n",
                     (uint64_t)XXH3_64bits(started, sizeof started - 1));
  f->last = XXH3_64bits(f->bytes, f->length);
}

static void forge_piece(struct forged *f, const void *content, size_t size)
{
  char *at = f->bytes + f->length, *piece = at + 16;
  uint64_t mark[2] = {size + sizeof f->last};
  memcpy(piece, &f->last, sizeof f->last);
  memcpy(piece + sizeof f->last, content, size);
  f->last = mark[1] = XXH3_64bits(piece, mark[0]);
  memcpy(at, mark, sizeof mark);
  f->length += 16 + mark[0];
}

static void forge_column(struct forged *f, int64_t kind, int64_t rank, const int64_t dims[3], char name)
{
  const int64_t numbers[] = {1, AXIS_STEP, kind, rank, dims[0], dims[1], dims[2]};
  char content[sizeof numbers + 9] = {0};
  memcpy(content, numbers, sizeof numbers);
  content[sizeof numbers] = name; /* and empty texts */
  forge_piece(f, content, sizeof numbers + 8);
}

/* Into a record of `rows` rows of a step each. */
static int replay(const struct forged *f, int64_t rows)
{
  struct error e = {0};
  struct rows r = {0};
  struct notes notes = {0};
  ck_assert(!file_write("a.journal", f->bytes, f->length, &e));
  rows_start(&r);
  struct row_table *t = &r.table[AXIS_STEP];
  for (int64_t i = 0; i < rows; i++) {
    memcpy(table_row(t, &t->column[0]), &i, sizeof i);
    table_end(t);
  }
  int status = journal_replay("a.journal", "2026-01-01T00:00:00Z", &r, &notes, &e);
  ck_assert(!status || strstr(e.text, "a.journal"));
  rows_free(&r);
  notes_free(&notes);
  return status;
}

static int replay_column(int64_t kind, int64_t rank, const int64_t dims[3])
{
  static const int64_t none[3];
  struct forged f;
  forge(&f);
  forge_column(&f, KIND_I64, 1, none, 'a'); /* as a table has its steps first */
  forge_column(&f, kind, rank, dims, 'x');
  return replay(&f, 0);
}

START_TEST(columns_of_a_journal_have_an_extent)
{
  enum { MOST = JOURNAL_ROOM / 4 }; /* numbers of a row */
  static const int64_t narrow[3] = {MOST / 1024};
  struct forged f;
  forge(&f);
  forge_column(&f, KIND_I64, 1, (int64_t[3]){0}, 's');
  ck_assert_int_eq(replay(&f, 0), STATUS_OK);
  ck_assert_int_eq(replay_column(KIND_F32, 3, (int64_t[]){2, 4, 0}), STATUS_OK);
  ck_assert_int_eq(replay_column(KIND_F32, 3, (int64_t[]){2, 0, 0}), STATUS_FAIL);
  ck_assert_int_eq(replay_column(KIND_F32, 3, (int64_t[]){2, -4, 0}), STATUS_FAIL);
  ck_assert_int_eq(replay_column(KIND_F32, 3, (int64_t[]){1L << 31, 1L << 31, 0}), STATUS_FAIL);
  ck_assert_int_eq(replay_column(KIND_F32, 2, (int64_t[]){MOST - 2048, 0, 0}), STATUS_OK);
  ck_assert_int_eq(replay_column(KIND_F32, 2, (int64_t[]){MOST + 1, 0, 0}), STATUS_FAIL);
  ck_assert_int_eq(replay_column(KIND_RECORD, 1, (int64_t[]){0, 0, 0}), STATUS_FAIL);
  ck_assert_int_eq(replay_column(KIND_TEXT, 1, (int64_t[]){0, 0, 0}), STATUS_FAIL);
  /* all columns together, and behind the rows that are there */
  forge(&f);
  forge_column(&f, KIND_I64, 1, (int64_t[3]){0}, 'z');
  for (int i = 0; i < 2; i++) forge_column(&f, KIND_F32, 2, (int64_t[3]){MOST / 2 + 1}, (char)('a' + i));
  ck_assert_int_eq(replay(&f, 0), STATUS_FAIL);
  forge(&f);
  forge_column(&f, KIND_I64, 1, (int64_t[3]){0}, 'z');
  forge_column(&f, KIND_F32, 2, narrow, 'a');
  ck_assert_int_eq(replay(&f, 900), STATUS_OK);
  ck_assert_int_eq(replay(&f, 1100), STATUS_FAIL);
}
END_TEST

/* A row has all columns of its table, and a section no more rows than bytes. */
START_TEST(rows_of_a_journal_have_their_bytes)
{
  static const int64_t counts[] = {1, 2, 0, -1, INT64_MAX, 1L << 61};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    struct forged f;
    const int64_t rows[] = {2, AXIS_STEP, 0, counts[i], 7};
    char step[] = "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                  "\0\0\0\0\0\0\0\0\0\0\0"
                  "step\0\0\0\0\0\0\0";
    forge(&f);
    forge_piece(&f, step, 56 + 11);
    forge_piece(&f, rows, sizeof rows);
    ck_assert_int_eq(replay(&f, 0), counts[i] == 1 ? STATUS_OK : STATUS_FAIL);
    forge(&f);
    forge_column(&f, KIND_I64, 1, (int64_t[3]){0}, 'z'); /* and "step" has no value */
    forge_piece(&f, rows, sizeof rows);
    ck_assert_int_eq(replay(&f, 0), STATUS_FAIL);
  }
}
END_TEST

/* --- mutants ----------------------------------------------------------------------------------------------- */

static int read_series(void *file, const char *name)
{
  struct run_series s;
  struct error e = {0};
  if (!run_read(file, name, &s, &e)) run_series_free(&s);
  return 0;
}

static void read_all(const char *path)
{
  struct run_file *f = NULL;
  struct run_event *events = NULL;
  struct notes notes = {0};
  struct rows rows = {0};
  struct h5 *h = NULL;
  struct error e = {0};
  long count;
  if (!run_peek(&f, path, &e)) {
    run_series_names(f, read_series, f);
    if (!run_events(f, &events, &count, &e)) memory_free(events);
    if (!run_notes(f, &notes, &e)) notes_free(&notes);
    run_close(f);
  }
  e.status = 0;
  if (h5_load(&h, path, &e)) return;
  tables_read(h, &rows, &e);
  rows_free(&rows);
  h5_free(h);
}

/* A third of what they hit are names that HDF5 begins its metadata with, and what follows these. */
static size_t place(const char *body, size_t size, uint32_t word)
{
  static const char *const begins[] = {"OHDR", "FADB", "FAHD", "GCOL", "FRHP", "BTHD", "EAHD"};
  const char *begin = begins[word % 7];
  size_t from = (word >> 3) % size;
  const char *found = word % 3 ? memmem(body + from, size - from, begin, 4) : NULL;
  size_t at = found ? (size_t)(found - body) + (word >> 20) % 200 : from;
  return at < size ? at : size - 1;
}

START_TEST(mutants_do_no_harm)
{
  char *head, *body, *bytes = NULL;
  size_t size, length;
  body = body_of("honest.h5", &size, &head, &length);
  bytes = memory_new(size, 1);
  for (long i = 0; i < amount(100, 5000); i++) {
    struct draw d = {7, STREAM_TEST, (uint64_t)i};
    memcpy(bytes, body, size);
    for (uint64_t k = 0; k < 1 + (uint64_t)i % 3; k++) {
      uint32_t how = draw_u32(d, 3 * k + 1), bits = draw_u32(d, 3 * k + 2);
      size_t at = place(body, size, draw_u32(d, 3 * k));
      bytes[at] = (char)(how % 4 ? (uint32_t)bytes[at] ^ 1U << bits % 8 : bits);
    }
    write_sealed("bad.h5", bytes, size, head, length);
    read_all("bad.h5");
  }
  memory_free(bytes);
  memory_free(body);
  memory_free(head);
}
END_TEST

/* Where the sizes of an attribute's parts lead behind its object header, the library would read the memory of the
   process. */
START_TEST(attributes_fit_into_their_header)
{
  enum {
    NAME = 9,
    SPACE_SIZE = 6,
    VERSION = 3
  }; /* from the begin of the message to its name; of version 3 */
  struct error e = {0};
  struct h5 *h = NULL;
  size_t size, length;
  int found = 0;
  char *head, *body = body_of("honest.h5", &size, &head, &length);
  for (char *at = body; (at = memmem(at, size - (size_t)(at - body), "long_name", 10)); at++) {
    char *message = at - NAME;
    if (message[0] != VERSION || message[2] != 10) continue;
    const char before = message[SPACE_SIZE + 1];
    message[SPACE_SIZE + 1] = 4;
    write_sealed("bad.h5", body, size, head, length);
    e = (struct error){0};
    ck_assert_int_eq(h5_load(&h, "bad.h5", &e), STATUS_FAIL);
    ck_assert_msg(strstr(e.text, "does not fit into its place") != NULL, "%s", e.text);
    message[SPACE_SIZE + 1] = before;
    found++;
  }
  ck_assert_int_gt(found, 0);
  memory_free(body);
  memory_free(head);
}
END_TEST

static void many_attributes(hid_t file)
{
  char name[32], text[200];
  hid_t loss = H5Dopen2(file, "/series/loss", H5P_DEFAULT), type = H5Tcopy(H5T_C_S1),
        space = H5Screate(H5S_SCALAR);
  memset(text, 'x', sizeof text);
  H5Tset_size(type, sizeof text);
  for (int i = 0; i < 12; i++) {
    snprintf(name, sizeof name, "extra%02d", i);
    hid_t a = H5Acreate2(loss, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert(a >= 0 && H5Awrite(a, type, text) >= 0);
    H5Aclose(a);
  }
  H5Sclose(space);
  H5Tclose(type);
  H5Dclose(loss);
}

/* More than eight attributes lie in a heap, with the same sizes. */
START_TEST(attributes_fit_into_their_heap)
{
  enum { NAME = 9, SPACE_SIZE = 6 };
  struct error e = {0};
  struct h5 *h = NULL;
  size_t size, length;
  make_changed("honest.h5", many_attributes, "dense.h5");
  ck_assert_msg(!h5_load(&h, "dense.h5", &e), "%s", e.text);
  h5_free(h);
  char *head, *body = body_of("dense.h5", &size, &head, &length);
  const char *heap = memmem(body, size, "FHDB", 4);
  ck_assert_ptr_nonnull(heap);
  char *message = (char *)memmem(heap, size - (size_t)(heap - body), "extra05", 8) - NAME;
  ck_assert_int_eq(message[0], 3);
  message[SPACE_SIZE + 1] = 4;
  write_sealed("bad.h5", body, size, head, length);
  ck_assert_int_eq(h5_load(&h, "bad.h5", &e), STATUS_FAIL);
  memory_free(body);
  memory_free(head);
}
END_TEST

static void many_links(hid_t file)
{
  char name[32];
  for (int i = 0; i < 20; i++) {
    snprintf(name, sizeof name, "/series/link%d", i);
    ck_assert_int_ge(H5Lcreate_hard(file, "/series/loss", file, name, H5P_DEFAULT, H5P_DEFAULT), 0);
  }
}

/* To sort the links of a group, the library makes room for as many as its index states. */
START_TEST(an_index_that_states_another_number_of_links)
{
  enum { LINK_NAMES = 5, TYPE = 5, TOTAL = 26 }; /* of a v2 B-tree; bytes from the begin of its header */
  size_t size, length;
  make_changed("honest.h5", many_links, "many.h5");
  read_all("many.h5");
  char *head, *body = body_of("many.h5", &size, &head, &length);
  for (int more = 0; more < 2; more++) {
    int found = 0;
    for (char *at = body; (at = memmem(at, size - (size_t)(at - body), "BTHD", 4)); at += 4)
      if (at[TYPE] == LINK_NAMES)
        at[TOTAL] = (char)(more ? at[TOTAL] : 2), at[TOTAL + 2] = (char)(10 * more), found++;
    ck_assert_int_gt(found, 0);
    write_sealed("bad.h5", body, size, head, length);
    read_all("bad.h5");
  }
  memory_free(body);
  memory_free(head);
}
END_TEST

/* The library takes sizes and indices of attributes and of the heap of texts as they are stated, so attributes are read
   in the checking process alone. This function stands before the library's. */
static int attribute_reads;
herr_t H5Aread(hid_t attribute, hid_t type, void *out)
{
  herr_t (*next)(hid_t, hid_t, void *);
  void *found = dlsym(RTLD_NEXT, "H5Aread");
  memcpy(&next, &found, sizeof next);
  attribute_reads++;
  return next(attribute, type, out);
}

START_TEST(attributes_are_read_in_the_checking_process)
{
  struct error e = {0};
  struct h5 *h = NULL;
  char text[64], *head, *body;
  size_t size, length;
  attribute_reads = 0;
  read_all("honest.h5");
  ck_assert_msg(!h5_load(&h, "honest.h5", &e), "%s", e.text);
  h5_id root = h5_find(h, "/"), logits = h5_find(h, "/series/attn/max_logit");
  ck_assert(h5_get_text(h, root, "id", text, sizeof text) && !strcmp(text, "0123456789ab"));
  ck_assert(h5_get_label(h, logits, 2, text, sizeof text) && !strcmp(text, "head"));
  h5_done(h, root);
  h5_done(h, logits);
  h5_free(h);
  ck_assert_int_eq(attribute_reads, 0);
  body = body_of("honest.h5", &size, &head, &length);
  char *heap = memmem(body, size, "GCOL", 4);
  ck_assert_ptr_nonnull(heap);
  heap[9] = (char)0x80; /* its size: HDF5 1.10 walks on behind the file's end */
  write_sealed("bad.h5", body, size, head, length);
  read_all("bad.h5");
  ck_assert_int_eq(attribute_reads, 0);
  memory_free(body);
  memory_free(head);
}
END_TEST

static int find_values(void *run, const char *name)
{
  struct run_series s;
  struct error e = {0};
  ck_assert(run_rows(run, name) == 10 && run_read(run, name, &s, &e) && strstr(e.text, name));
  return 0;
}

START_TEST(a_head_of_many_series_is_looked_up)
{
  struct error e = {0};
  struct buffer changed = {0};
  struct run_file *run;
  struct run_series s;
  size_t size, length;
  char *head, *body = body_of("honest.h5", &size, &head, &length);
  buffer_add(&changed, "format_version%c1%c", 0, 0);
  for (int i = 0; i < 200000; i++) buffer_add(&changed, "series/s%d%c10%c", i, 0, 0);
  write_sealed("bad.h5", body, size, changed.text, changed.length);
  ck_assert_msg(!run_open(&run, "bad.h5", &e), "%s", e.text);
  ck_assert(run_read(run, "loss", &s, NULL) == STATUS_USAGE);
  run_series_names(run, find_values, run);
  run_close(run);
  memory_free(changed.text);
  memory_free(body);
  memory_free(head);
}
END_TEST

/* Pairs without a key or a value would take memory many times their size. */
START_TEST(a_head_of_megabytes_is_not_used)
{
  struct error e = {0};
  struct run_file *run;
  size_t size, length, most = HEAD_MOST + 1;
  char *head, *body = body_of("honest.h5", &size, &head, &length), *zeros = memory_new(most, 1);
  write_sealed("bad.h5", body, size, zeros, most);
  ck_assert_msg(!run_open(&run, "bad.h5", &e), "%s", e.text);
  ck_assert_int_eq(run_rows(run, "loss"), ROWS);
  run_close(run);
  ck_assert_int_eq(run_program("show bad.h5 honest.h5"), 0);
  memory_free(zeros);
  memory_free(body);
  memory_free(head);
}
END_TEST

static void setup(void)
{
  folder_enter(folder);
  make_honest("honest.h5");
  struct error e = {0};
  ck_assert(!file_write("secret.txt", "the bytes of a secret, as long as the rows", 42, &e));
}

static void teardown(void) { folder_leave(folder); }

/* `show` takes facts and parameters from the head; commands that compute take them from the rest. */
START_TEST(a_run_is_computed_from_what_is_shown)
{
  struct error e = {0};
  struct run_file *run;
  ck_assert(!run_open(&run, "honest.h5", &e) && !run_check_head(run, &e));
  run_close(run);
  change_head("last_step", "3");
  ck_assert(!run_open(&run, "bad.h5", &e));
  ck_assert_int_eq(run_check_head(run, &e), STATUS_FAIL);
  ck_assert_msg(strstr(e.text, "different values of \"last_step\""), "%s", e.text);
  run_close(run);
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(run_program(i ? "rerun bad.h5" : "eval bad.h5"), 1);
    ck_assert_int_eq(system("grep -q 'somebody changed it' err"), 0);
  }
}
END_TEST

START_TEST(rows_behind_the_end_are_a_difference)
{
  struct error e = {0};
  int series;
  change_head("last_step", "3");
  ck_assert_msg(!rerun_compare("honest.h5", "honest.h5", &series, &e), "%s", e.text);
  ck_assert_int_eq(rerun_compare("bad.h5", "honest.h5", &series, &e), STATUS_FAIL);
  ck_assert_msg(strstr(e.text, "the run ended after 3 steps"), "%s", e.text);
}
END_TEST

static void cut_tables(hid_t file)
{
  static const char *const names[] = {"/series/step", "/series/loss", "/series/attn/max_logit"};
  for (int i = 0; i < 3; i++) {
    hid_t data = H5Dopen2(file, names[i], H5P_DEFAULT);
    ck_assert_int_ge(H5Dset_extent(data, (hsize_t[]){ROWS - 8, LAYERS, HEADS}), 0);
    H5Dclose(data);
  }
}

START_TEST(rows_that_were_left_out_are_a_difference)
{
  struct error e = {0};
  size_t size, length;
  int series;
  make_bad(cut_tables);
  char *head, *body = body_of("bad.h5", &size, &head, &length);
  write_sealed("bad.h5", body, size, NULL, 0);
  ck_assert_int_eq(rerun_compare("bad.h5", "honest.h5", &series, &e), STATUS_FAIL);
  ck_assert_msg(strstr(e.text, "the row of step 12 is missing"), "%s", e.text);
  memory_free(body);
  memory_free(head);
}
END_TEST

START_TEST(a_key_has_one_value)
{
  struct error e = {0};
  struct run_file *run;
  struct buffer changed = {0};
  size_t size, length;
  char *head, *body = body_of("honest.h5", &size, &head, &length);
  for (char *text = head; text < head + length; text += strlen(text) + 1)
    buffer_add(&changed, "%s%c", text, 0);
  buffer_add(&changed, "last_step%c3%c", 0, 0);
  write_sealed("bad.h5", body, size, changed.text, changed.length);
  ck_assert_int_eq(run_open(&run, "bad.h5", &e), STATUS_FAIL);
  ck_assert_msg(strstr(e.text, "bad.h5 states \"last_step\" twice"), "%s", e.text);
  ck_assert_int_eq(run_peek(&run, "bad.h5", &e), STATUS_FAIL);
  memory_free(changed.text);
  memory_free(body);
  memory_free(head);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("files");
  TCase *t = tcase_create("hostile files");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_set_timeout(t, 600);
  tcase_add_loop_test(t, what_leaves_the_file_or_its_size_is_refused, 0, 19);
  tcase_add_loop_test(t, labels_of_another_form_are_no_labels, 0, 3);
  tcase_add_loop_test(t, steps_are_ascending_whole_numbers, 0, 5);
  tcase_add_loop_test(t, commands_end_on_them, 0, 9);
  tcase_add_loop_test(t, wide_rows_end_no_command, 0, 2);
  tcase_add_test(t, events_of_many_heads_end);
  tcase_add_test(t, commands_end_on_a_sparse_file);
  tcase_add_loop_test(t, files_beside_runs_may_be_sparse, 0, 4);
  tcase_add_loop_test(t, strange_types_are_named, 0, STRANGE_PLACES * STRANGES);
  tcase_add_test(t, commands_end_on_a_step_beyond_all);
  tcase_add_loop_test(t, tensors_of_another_shape_are_refused, 0, 3);
  tcase_add_test(t, head_of_negative_length);
  tcase_add_test(t, metadata_without_checksums_are_refused);
  tcase_add_test(t, columns_of_a_journal_have_an_extent);
  tcase_add_test(t, rows_of_a_journal_have_their_bytes);
  tcase_add_test(t, mutants_do_no_harm);
  tcase_add_test(t, attributes_fit_into_their_header);
  tcase_add_test(t, attributes_fit_into_their_heap);
  tcase_add_test(t, attributes_are_read_in_the_checking_process);
  tcase_add_test(t, an_index_that_states_another_number_of_links);
  suite_add_tcase(suite, t);
  t = tcase_create("in seconds");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_set_timeout(t, 60);
  tcase_add_test(t, a_head_of_many_series_is_looked_up);
  tcase_add_test(t, a_head_of_megabytes_is_not_used);
  tcase_add_test(t, a_run_is_computed_from_what_is_shown);
  tcase_add_test(t, rows_behind_the_end_are_a_difference);
  tcase_add_test(t, rows_that_were_left_out_are_a_difference);
  tcase_add_test(t, a_key_has_one_value);
  suite_add_tcase(suite, t);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? 1 : 0;
}
