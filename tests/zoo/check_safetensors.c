/* check_safetensors.c - files of other programs: formats of numbers, blocks, shards, and every way to be broken */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/memory.h"
#include "zoo/weights.h"
#include "../folder.h"

static char dir[FOLDER_PATH];

static const char *at(const char *name)
{
  static char path[2][4096];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
  return path[turn];
}

static void put(const char *name, const void *data, size_t size)
{
  FILE *f = fopen(at(name), "wb");
  ck_assert_ptr_nonnull(f);
  ck_assert_uint_eq(fwrite(data, 1, size, f), size);
  ck_assert_int_eq(fclose(f), 0);
}

static void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }

/* The header with its length before it and `size` bytes of data behind it. */
static void put_file(const char *name, const char *header, const void *data, size_t size)
{
  size_t length = strlen(header);
  unsigned char *all = memory_new(8 + length + size + 1, 1);
  for (int i = 0; i < 8; i++) all[i] = (unsigned char)((uint64_t)length >> 8 * i);
  memcpy(all + 8, header, length);
  if (size && data) memcpy(all + 8 + length, data, size);
  put(name, all, 8 + length + size);
  memory_free(all);
}

static struct weights *opened(const char *name)
{
  struct weights *w = NULL;
  struct error e = {0};
  int status = weights_open(&w, at(name), NULL, &e);
  ck_assert_msg(status == STATUS_OK, "%s", e.text);
  return w;
}

static void refused(const char *name, const char *why)
{
  struct weights *w = NULL;
  struct error e = {0};
  int status = weights_open(&w, at(name), NULL, &e);
  ck_assert_msg(status == STATUS_USAGE, "%s: status %d (%s)", name, status, e.text);
  ck_assert_msg(strstr(e.text, why), "%s: '%s' does not say '%s'", name, e.text, why);
  ck_assert_msg(strstr(e.text, dir), "'%s' does not name the file", e.text);
  ck_assert_msg(!strchr(e.text, '\n'), "'%s' has more than one line", e.text);
}

/* --- numbers ------------------------------------------------------------------------------------------- */

START_TEST(codes)
{
  static const struct {
    enum dtype dtype;
    uint64_t code;
    double value;
  } cases[] = {
    {DTYPE_F8_E4M3, 0x00, 0},
    {DTYPE_F8_E4M3, 0x01, 0x1p-9},
    {DTYPE_F8_E4M3, 0x07, .013671875},
    {DTYPE_F8_E4M3, 0x08, 0x1p-6},
    {DTYPE_F8_E4M3, 0x38, 1},
    {DTYPE_F8_E4M3, 0x39, 1.125},
    {DTYPE_F8_E4M3, 0x44, 3},
    {DTYPE_F8_E4M3, 0xB8, -1},
    {DTYPE_F8_E4M3, 0x7D, 416},
    {DTYPE_F8_E4M3, 0x7E, 448},
    {DTYPE_F8_E4M3, 0x7F, NAN},
    {DTYPE_F8_E4M3, 0xFF, NAN},
    {DTYPE_F8_E5M2, 0x3C, 1},
    {DTYPE_F8_E5M2, 0x01, 0x1p-16},
    {DTYPE_F8_E5M2, 0x7B, 57344},
    {DTYPE_F8_E5M2, 0xFB, -57344},
    {DTYPE_F8_E5M2, 0x7C, INFINITY},
    {DTYPE_F8_E5M2, 0xFC, -INFINITY},
    {DTYPE_F8_E5M2, 0x7D, NAN},
    {DTYPE_BF16, 0x4049, 3.140625},
    {DTYPE_BF16, 0xC2F7, -123.5},
    {DTYPE_BF16, 0x3DCD, .10009765625},
    {DTYPE_BF16, 0x7FC0, NAN},
    {DTYPE_BF16, 0xFF80, -INFINITY},
    {DTYPE_F16, 0x7BFF, 65504},
    {DTYPE_F16, 0x0001, 0x1p-24},
    {DTYPE_F16, 0xC580, -5.5},
    {DTYPE_F16, 0x7C00, INFINITY},
    {DTYPE_F16, 0xFC01, NAN},
    {DTYPE_F32, 0x3FC00000, 1.5},
    {DTYPE_F64, 0x3FF8000000000000, 1.5},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double got = dtype_value(cases[i].dtype, cases[i].code), wanted = cases[i].value;
    ck_assert_msg(isnan(wanted) ? isnan(got) : got == wanted && signbit(got) == signbit(wanted),
                  "format %d, %#llx: %g instead of %g", (int)cases[i].dtype,
                  (unsigned long long)cases[i].code, got, wanted);
  }
  ck_assert(signbit(dtype_value(DTYPE_F8_E4M3, 0x80)));
}
END_TEST

/* A weight of 130x130 in blocks of 128x128; the scales lie in another shard. */
START_TEST(blocks_of_another_shard)
{
  static unsigned char data[130 * 130];
  static const float scales[4] = {.5f, 2, .25f, 1};
  static const struct {
    int row, col, code;
    double value;
  } cases[] = {{0, 0, 0x44, 1.5},
               {0, 128, 0x44, 6},
               {127, 127, 0x7E, 224},
               {128, 0, 0xB8, -.25},
               {129, 129, 0x01, .001953125}};
  double row[130];
  for (size_t i = 0; i < 5; i++) data[cases[i].row * 130 + cases[i].col] = (unsigned char)cases[i].code;
  put_file("one.safetensors",
           "{\"x.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[130,130],\"data_offsets\":[0,16900]}}", data,
           sizeof data);
  put_file("two.safetensors",
           "{\"x.weight_scale_inv\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", scales,
           16);
  put_text("model.safetensors.index.json",
           "{\"metadata\":{},\"weight_map\":{\"x.weight\":\"one.safetensors\","
           "\"x.weight_scale_inv\":\"two.safetensors\"}}");
  struct weights *w = opened(".");
  const struct weight *x = weights_find(w, "x.weight");
  for (size_t i = 0; i < 5; i++) {
    weight_read(x, cases[i].row, 0, 130, row);
    ck_assert_double_eq(row[cases[i].col], cases[i].value);
    weight_read(x, cases[i].row, cases[i].col, 1, row); /* a span that begins inside of a block */
    ck_assert_double_eq(row[0], cases[i].value);
  }
  weights_close(w);
  /* blocks of another size, as the configuration has it */
  put_text("config.json", "{\"quantization_config\":{\"weight_block_size\":[65,130]}}");
  refused(".", "F32 2x1");
  put_text("config.json", "{\"quantization_config\":{\"weight_block_size\":[128,0]}}");
  refused(".", "weight_block_size");
  put_text("config.json", "{\"quantization_config\":{\"weight_block_size\":[128,128]}}");
  weights_close(opened("."));
}
END_TEST

/* Every number of a matrix is multiplied by the scale of its own block, whatever the shapes of both. */
START_TEST(scales_of_all_blocks)
{
  enum { ROWS = 7, COLS = 10 };
  static const int sizes[][2] = {{3, 2}, {2, 5}, {7, 3}, {4, 10}, {1, 1}};
  unsigned char data[ROWS * COLS];
  double row[COLS];
  memset(data, 0x38, sizeof data); /* 1 */
  put_file("one.safetensors",
           "{\"x.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[7,10],\"data_offsets\":[0,70]}}", data,
           sizeof data);
  put_text("model.safetensors.index.json",
           "{\"metadata\":{},\"weight_map\":{\"x.weight\":\"one.safetensors\","
           "\"x.weight_scale_inv\":\"two.safetensors\"}}");
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    const int high = sizes[k][0], wide = sizes[k][1], rows = (ROWS + high - 1) / high,
              cols = (COLS + wide - 1) / wide;
    float scales[ROWS * COLS];
    char text[200];
    for (int i = 0; i < rows * cols; i++) scales[i] = (float)(i + 1);
    snprintf(text, sizeof text,
             "{\"x.weight_scale_inv\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]}}", rows,
             cols, 4 * rows * cols);
    put_file("two.safetensors", text, scales, 4 * (size_t)(rows * cols));
    snprintf(text, sizeof text, "{\"quantization_config\":{\"weight_block_size\":[%d,%d]}}", high, wide);
    put_text("config.json", text);
    struct weights *w = opened(".");
    for (int r = 0; r < ROWS; r++) {
      weight_read(weights_find(w, "x.weight"), r, 0, COLS, row);
      for (int c = 0; c < COLS; c++) ck_assert_double_eq(row[c], r / high * cols + c / wide + 1);
    }
    weights_close(w);
  }
}
END_TEST

START_TEST(unaligned_and_ordered)
{
  /* a header of odd length: the data begin at an odd address */
  static const unsigned char data[] = {0, 0x3c, 0, 0, 0xc0, 0x3f, 7};
  put_file("odd.safetensors",
           "{\"l.10\":{\"dtype\":\"F16\",\"shape\":[1,1],\"data_offsets\":[0,2]}, "
           "\"__metadata__\":{\"format\":\"pt\"},"
           "\"l.9\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[2,6]},"
           "\"z\":{\"dtype\":\"F64\",\"shape\":[3,0],\"data_offsets\":[6,6]},"
           "\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[6,7]}}  ",
           data, sizeof data);
  struct weights *w = opened("odd.safetensors");
  double x;
  ck_assert_uint_eq(weights_count(w), 4);
  ck_assert_str_eq(weights_at(w, 0)->tensor.name, "l.9");
  ck_assert_str_eq(weights_at(w, 1)->tensor.name, "l.10");
  weight_read(weights_at(w, 0), 0, 0, 1, &x);
  ck_assert_double_eq(x, 1.5);
  weight_read(weights_at(w, 1), 0, 0, 1, &x);
  ck_assert_double_eq(x, 1);
  ck_assert_int_eq(weights_find(w, "z")->rows, 3);
  ck_assert_int_eq(weight_check(w, weights_find(w, "u"), NULL), STATUS_USAGE);
  ck_assert_int_eq(weight_check(w, weights_find(w, "l.9"), NULL), STATUS_OK);
  ck_assert_ptr_null(weights_find(w, "l.1"));
  weights_close(w);
}
END_TEST

START_TEST(written_file)
{
  static const float a[] = {1, -2, 3, 4, 5, NAN}, b[] = {7};
  const struct safetensor tensors[] = {{.name = "a", .rank = 2, .dims = {2, 3}, .count = 6},
                                       {.name = "b", .rank = 1, .dims = {1}, .count = 1}};
  double x[3];
  ck_assert_int_eq(safetensors_write(at("own.safetensors"), tensors, (const float *const[]){a, b}, 2, NULL),
                   0);
  struct safetensors *file;
  ck_assert_int_eq(safetensors_open(&file, at("own.safetensors"), NULL), 0);
  ck_assert_uint_eq((size_t)(file->tensor[0].data - (const unsigned char *)file->map) % 8, 0);
  safetensors_close(file);
  struct weights *w = opened("own.safetensors");
  weight_read(weights_find(w, "a"), 1, 0, 3, x);
  ck_assert(x[0] == 4 && x[1] == 5 && isnan(x[2]));
  weight_read(weights_find(w, "b"), 0, 0, 1, x);
  ck_assert(x[0] == 7);
  weights_close(w);
}
END_TEST

/* --- refusals ------------------------------------------------------------------------------------------ */

#define F32(name, shape, begin, end) \
  "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

START_TEST(broken_files)
{
  static const struct {
    const char *header;
    int bytes;
    const char *why;
  } cases[] = {
    {"[]", 0, "does not begin with {"},
    {"", 0, "does not begin with {"},
    {"{\"a\":", 0, "not JSON"},
    {"{\"\xff\":1}", 0, "not JSON"},
    {"{" F32("a", "[1]", "0", "4") "," F32("a", "[1]", "0", "4") "}", 4, "duplicate"},
    {"{\"a\":3}", 0, "tensor a: not an object"},
    {"{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     "dtype F31 is not known; allowed: F32"},
    {"{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype (no text)"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape is not a list"},
    {"{" F32("a", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "9 dimensions; allowed: 0 to 8"},
    {"{" F32("a", "[-1]", "0", "4") "}", 4, "dimension 0"},
    {"{" F32("a", "[1.0]", "0", "4") "}", 4, "dimension 0"},
    {"{" F32("a", "[4294967296,4294967296]", "0", "4") "}", 4, "overflows"},
    {"{" F32("a", "[4611686018427387904]", "0", "4") "}", 4, "overflows"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "two whole numbers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "two whole numbers"},
    {"{" F32("a", "[1]", "-4", "0") "}", 4, "data_offsets [-4, 0]"},
    {"{" F32("a", "[1]", "4", "0") "}", 4, "data_offsets [4, 0]"},
    {"{" F32("a", "[2]", "0", "8") "}", 4, "<= 4, the length of the data"},
    {"{" F32("a", "[1]", "0", "99999999999999999999") "}", 4, "not JSON"},
    {"{" F32("a", "[2]", "0", "4") "}", 4, "2 numbers of F32 need 64 bits"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "3 numbers of F4 need 12 bits"},
    {"{" F32("a", "[1]", "0", "4") "," F32("b", "[1]", "8", "12") "}", 12,
     "tensor b: its data begin at 8, which leaves a hole"},
    {"{" F32("a", "[1]", "4", "8") "}", 8, "which leaves a hole; allowed: 0"},
    {"{" F32("a", "[2]", "0", "8") "," F32("b", "[1]", "4", "8") "}", 8, "inside of another tensor's"},
    {"{" F32("a", "[1]", "0", "4") "," F32("b", "[1]", "0", "4") "}", 4, "inside of another tensor's"},
    {"{" F32("a", "[1]", "0", "4") "}", 8, "end at byte 4 of the data, which have 8"},
    {"{\"__metadata__\":[]}", 0, "__metadata__"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "not text"},
    {"{\"a\\nb\\u001b[31m\":{\"dtype\":\"F31\"}}", 0, "tensor a?b?[31m"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    put_file("broken.safetensors", cases[i].header, NULL, (size_t)cases[i].bytes);
    refused("broken.safetensors", cases[i].why);
  }
  put("broken.safetensors", "\1\0\0\0\0\0\0", 7);
  refused("broken.safetensors", "7 bytes");
  put("broken.safetensors", "\1\1\0\0\0\0\0\0{}", 10);
  refused("broken.safetensors", "a header of 257 bytes, but only 2 follow");
  put("broken.safetensors", "\1\xe1\xf5\5\0\0\0\0{}", 10); /* 100 000 001 */
  refused("broken.safetensors", "at most 100000000");
  put("broken.safetensors", "\x02\0\0\0\0\0\0\x80{}", 10);
  refused("broken.safetensors", "at most 100000000");
  refused("absent.safetensors", "No such file");
  mkdir(at("folder.safetensors"), 0700);
  refused("folder.safetensors", "no *.safetensors in this folder");
}
END_TEST

START_TEST(broken_indices)
{
  static const struct {
    const char *index, *why;
  } cases[] = {
    {"{", "index.json:1: "},
    {"[]", "not an object"},
    {"{}", "no weight_map"},
    {"{\"weight_map\":{\"a\":1}}", "weight_map: a: its file is not text"},
    {"{\"weight_map\":{\"a\":\"c.safetensors\"}}", "its shard c.safetensors is missing"},
    {"{\"weight_map\":{\"a\":\"../a.safetensors\"}}", "allowed: the name of a file in this folder"},
    {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "allowed: the name of a file in this folder"},
    {"{\"weight_map\":{\"a\":\"..\"}}", "allowed: the name of a file in this folder"},
    {"{\"weight_map\":{\"a\":\"\"}}", "allowed: the name of a file in this folder"},
    {"{\"weight_map\":{\"a\":\"s.safetensors\",\"b\":\"s.safetensors\"}}", "tensor b is not in its shard"},
    {"{\"weight_map\":{\"a\":\"s.safetensors\",\"a\":\"s.safetensors\"}}", "duplicate"},
  };
  static const float one[] = {1};
  put_file("s.safetensors", "{" F32("a", "[1]", "0", "4") "}", one, 4);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    put_text("model.safetensors.index.json", cases[i].index);
    refused("model.safetensors.index.json", cases[i].why);
    refused(".", cases[i].why);
  }
  put_text("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"s.safetensors\"}}");
  put_text("config.json", "{\"a\":1,}");
  refused(".", "config.json:1: ");
  put_text("config.json", "[7]");
  refused(".", "not an object");
  unlink(at("config.json"));
  weights_close(opened("."));
  unlink(at("model.safetensors.index.json"));
  weights_close(opened(".")); /* the one file there is */
  put_file("t.safetensors", "{" F32("a", "[1]", "0", "4") "}", one, 4);
  refused(".", "2 files *.safetensors");
}
END_TEST

START_TEST(settings)
{
  static const float one[] = {1};
  struct error e = {0};
  put_file("s.safetensors", "{" F32("a", "[1]", "0", "4") "}", one, 4);
  struct weights *w = opened("s.safetensors");
  ck_assert_uint_eq(json_object_size(weights_config(w)), 0);
  ck_assert_int_eq(weights_set(w, "num_attention_heads=12", NULL), STATUS_OK);
  ck_assert_int_eq(weights_set(w, "model_type=bert", NULL), STATUS_OK);
  ck_assert_int_eq(json_integer_value(json_object_get(weights_config(w), "num_attention_heads")), 12);
  ck_assert_str_eq(json_string_value(json_object_get(weights_config(w), "model_type")), "bert");
  ck_assert_int_eq(weights_set(w, "bert", &e), STATUS_USAGE);
  ck_assert_int_eq(weights_set(w, "=1", NULL), STATUS_USAGE);
  weights_close(w);
}
END_TEST

static void make_folder(void) { folder_make(dir); }
static void remove_folder(void) { folder_remove(dir); }

int main(void)
{
  Suite *suite = suite_create("safetensors");
  TCase *tests = tcase_create("safetensors");
  tcase_add_checked_fixture(tests, make_folder, remove_folder);
  tcase_add_test(tests, codes);
  tcase_add_test(tests, blocks_of_another_shard);
  tcase_add_test(tests, scales_of_all_blocks);
  tcase_add_test(tests, unaligned_and_ordered);
  tcase_add_test(tests, written_file);
  tcase_add_test(tests, broken_files);
  tcase_add_test(tests, broken_indices);
  tcase_add_test(tests, settings);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
