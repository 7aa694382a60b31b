/* safetensors.c - fuzz target: the readers of other programs' checkpoints
   The first byte chooses what the rest is: a file of tensors, the index of shards, or the config.json beside them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/error.h"
#include "fuzz.h"
#include "zoo/architecture.h"

enum { TENSORS, INDEX, CONFIG, FILES };
static const char *const names[FILES] = {"a.safetensors", "model.safetensors.index.json", "config.json"};
unsigned fuzz_untaken = (1 << FILES) - 1;
static char folder[64];
static int file[FILES];

static void remove_folder(void)
{
  char path[128];
  for (int i = 0; i < FILES; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    unlink(path);
  }
  rmdir(folder);
}

static void make_folder(void)
{
  char path[128], target[64];
  snprintf(folder, sizeof folder, "/tmp/maxlogit-fuzz.XXXXXX");
  REQUIRE(mkdtemp(folder));
  for (int i = 0; i < FILES; i++) {
    file[i] = memfd_create(names[i], MFD_CLOEXEC);
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    snprintf(target, sizeof target, "/proc/self/fd/%d", file[i]);
    REQUIRE(file[i] >= 0 && symlink(target, path) == 0);
  }
  atexit(remove_folder);
}

static void put(int which, const void *data, size_t size)
{
  REQUIRE(ftruncate(file[which], 0) == 0 && pwrite(file[which], data, size, 0) == (ssize_t)size);
}

#define LAYER "model.layers.0.self_attn."

/* What stands still while another file is varied. */
static void put_valid(void)
{
  static const char header[] =
    "{\"" LAYER "q_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[8,8],\"data_offsets\":[0,128]},"
    "\"" LAYER "k_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[8,8],\"data_offsets\":[128,256]},"
    "\"a.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,3],\"data_offsets\":[256,262]},"
    "\"a.weight_scale_inv\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[262,266]}}";
  static const char map[] = "{\"weight_map\":{\"" LAYER "q_proj.weight\":\"a.safetensors\",\"" LAYER
                            "k_proj.weight\":\"a.safetensors\","
                            "\"a.weight\":\"a.safetensors\",\"a.weight_scale_inv\":\"a.safetensors\"}}";
  const uint64_t length = sizeof header - 1;
  char text[1024] = {0};
  memcpy(text, &length, 8);
  memcpy(text + 8, header, length);
  put(TENSORS, text, 8 + length + 266);
  put(INDEX, map, sizeof map - 1);
  static const char sizes[] = "{\"num_attention_heads\":4,\"qk_nope_head_dim\":6,\"qk_rope_head_dim\":4}";
  put(CONFIG, sizes, sizeof sizes - 1);
}

static void read_numbers(const struct weights *w)
{
  double row[4096];
  for (size_t i = 0; i < weights_count(w); i++) {
    const struct weight *t = weights_at(w, i);
    REQUIRE(weights_find(w, t->tensor.name) == t);
    if (weight_check(w, t, NULL) || t->rows < 1 || t->cols < 1) continue;
    int64_t count = t->cols < 4096 ? t->cols : 4096;
    weight_read(t, 0, 0, count, row);
    weight_read(t, t->rows - 1, t->cols - count, count, row);
  }
}

/* Whatever family it is taken for: the rows of every head lie in its tensors. Is it taken for one? */
static int read_heads(const struct weights *w)
{
  struct architecture stack;
  struct error e = {0};
  int known;
  if (architecture_open(&stack, w, &known, &e) || !known) return 0;
  for (long l = 0; l < stack.layers && l < 4; l++) {
    struct head_logits head;
    if (stack.head(&stack, l, stack.heads - 1, &head, &e)) continue;
    for (int p = 0; p < head.parts; p++) {
      const struct projection *q = &head.part[p].q, *k = &head.part[p].k;
      REQUIRE(q->rows == k->rows && q->first + q->rows <= (q->columns ? q->weight->cols : q->weight->rows));
      REQUIRE(k->first + k->rows <= (k->columns ? k->weight->cols : k->weight->rows));
    }
  }
  return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct weights *w = NULL;
  struct error e = {0};
  char path[128];
  if (!size) return 0;
  if (!*folder) make_folder();
  int which = data[0] % FILES;
  put_valid();
  put(which, data + 1, size - 1);
  snprintf(path, sizeof path, "%s/%s", folder, names[which == TENSORS ? TENSORS : INDEX]);
  if (weights_open(&w, path, NULL, &e)) {
    if (!*e.text) abort();
    return 0;
  }
  read_numbers(w);
  if (read_heads(w) || which != CONFIG) fuzz_untaken &= ~(1u << which);
  weights_close(w);
  return 0;
}
