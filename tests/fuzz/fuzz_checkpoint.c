#define _GNU_SOURCE
/* fuzz_checkpoint.c - hostile bytes for the readers of checkpoints, run files and packed rows
   With -fsanitize=fuzzer -DFUZZ_ENGINE: a libFuzzer target (seeds: `fuzz_checkpoint --seeds FOLDER`). Without: files
   given as arguments are tried, then MAXLOGIT_TEST_FUZZ (2000) mutations of a fresh checkpoint and run file.
   The first byte chooses the reader, the rest is the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "numerics/real.h"
#include "storage/checkpoint.h"
#include "storage/recorder.h"
#include "storage/rows.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static int read_series(void *file, const char *name)
{
  struct run_series s;
  struct error e = {0};
  if (!run_read(file, name, &s, &e))
    run_series_free(&s);
  return 0;
}

static void read_run(const char *path)
{
  struct run_file *f = NULL;
  struct run_event *events = NULL;
  struct error e = {0};
  long count = 0;
  if (run_open(&f, path, &e))
    return;
  run_series_names(f, read_series, f);
  if (!run_events(f, &events, &count, &e))
    memory_free(events);
  run_close(f);
}

static void read_checkpoint(const char *path)
{
  struct checkpoint c;
  struct error e = {0};
  if (!checkpoint_read(path, &c, &e))
    checkpoint_free(&c);
}

static void read_rows(const unsigned char *data, size_t size)
{
  struct rows rows = {0};
  struct error e = {0};
  rows_unpack(&rows, data, size, &e);
  rows_free(&rows);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  static int file = -1;
  static char path[64];
  if (!size)
    return 0;
  if (file < 0) {
    file = memfd_create("fuzz", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  }
  if (data[0] % 3 == 2) {
    read_rows(data + 1, size - 1);
  } else if (!ftruncate(file, 0) && pwrite(file, data + 1, size - 1, 0) == (ssize_t)size - 1) {
    if (data[0] % 3 == 0)
      read_checkpoint(path);
    else
      read_run(path);
  }
  return 0;
}

#ifndef FUZZ_ENGINE
/* --- seeds: a whole file of each kind ------------------------------------------------------------------ */

static const char run_path[] = "fuzz_checkpoint.tmp.h5";

static unsigned char *with_kind(unsigned char kind, const void *bytes, size_t size)
{
  unsigned char *seed = memory_new(size + 1, 1);
  seed[0] = kind;
  memcpy(seed + 1, bytes, size);
  return seed;
}

static unsigned char *load(unsigned char kind, const char *path, size_t *size)
{
  char *bytes;
  struct error e = {0};
  if (file_read(path, &bytes, size, &e)) {
    fprintf(stderr, "%s\n", e.text);
    exit(1);
  }
  unsigned char *seed = with_kind(kind, bytes, *size);
  memory_free(bytes);
  ++*size;
  return seed;
}

static void make_seeds(unsigned char *seed[3], size_t size[3])
{
  struct error e = {0};
  struct config *config = config_new();
  static const char *const tensors[] = {"embed"};
  struct run_facts facts = {"0123456789ab", "cpu", "markov", "made up", 1, 2, 1, tensors, 1};
  struct series loss = {"loss", PER_STEP, AXIS_STEP, "nat", "loss", "loss"};
  struct series logit = {"attn/max_logit", PER_HEAD, AXIS_STEP, "nat", "max logit", "max logit"};
  real value[6] = {1, 2, 3, 4, 5, 6};
  struct checkpoint_tensor tensor = {"params/embed", 2, 3, value};
  struct checkpoint c = {.step = 3, .id = "0123456789ab", .config_text = memory_text("[train]\n"), .count = 1,
                         .tensors = &tensor};
  struct recorder *r = NULL;
  char path[4096];
  if (config_finish(config, &e) || recorder_create(&r, run_path, 1, config, &facts, &e)) {
    fprintf(stderr, "%s\n", e.text);
    exit(1);
  }
  int a = recorder_series(r, &loss), b = recorder_series(r, &logit);
  for (long step = 0; step < 3; step++) {
    float row[2] = {1, 2};
    recorder_put_number(r, a, 1);
    recorder_put(r, b, row);
    recorder_row(r, AXIS_STEP, step);
    recorder_event(r, step, "clip", 0, 1, 0.5);
  }
  c.rows = (void *)(uintptr_t)recorder_pending(r, &c.rows_size);
  seed[2] = with_kind(2, c.rows, c.rows_size);
  size[2] = c.rows_size + 1;
  if (checkpoint_write(run_path, &c, 1, &e) || recorder_snapshot(r, "finished", 3, 1, 1, &e)) {
    fprintf(stderr, "%s\n", e.text);
    exit(1);
  }
  checkpoint_path(path, run_path, 3);
  seed[0] = load(0, path, &size[0]);
  seed[1] = load(1, run_path, &size[1]);
  recorder_free(r);
  memory_free(c.config_text);
  config_free(config);
  checkpoint_remove_all(run_path, &e);
  rmdir("fuzz_checkpoint.tmp.ckpt");
  file_remove(run_path);
  file_remove("fuzz_checkpoint.tmp.live.tsv");
}

static void mutate(unsigned char *bytes, size_t *size, struct draw d)
{
  uint64_t edits = 1 + draw_below(d, 0, 4);
  for (uint64_t i = 0; i < edits; i++) {
    uint64_t at = 1 + draw_below(d, 4 * i + 1, *size - 1), how = draw_below(d, 4 * i + 2, 8);
    uint64_t what = draw_below(d, 4 * i + 3, 256);
    if (how == 0)
      *size = at < 2 ? 2 : at;
    else if (how == 1)
      memset(bytes + at, (int)what, *size - at < 16 ? *size - at : 16);
    else
      bytes[at] = (unsigned char)(how < 5 ? bytes[at] ^ 1 << what % 8 : what);
  }
}

static int write_seeds(const char *folder, unsigned char *const seed[3], const size_t size[3])
{
  struct error e = {0};
  for (int i = 0; i < 3; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/seed-%d", folder, i);
    if (file_write(path, seed[i], size[i], &e)) {
      fprintf(stderr, "%s\n", e.text);
      return 1;
    }
  }
  return 0;
}

int main(int argc, char **argv)
{
  unsigned char *seed[3];
  size_t size[3];
  const char *text = getenv("MAXLOGIT_TEST_FUZZ");
  long trials = text ? atol(text) : 2000;
  make_seeds(seed, size);
  if (argc == 3 && !strcmp(argv[1], "--seeds"))
    return write_seeds(argv[2], seed, size);
  for (int i = 1; i < argc; i++) {
    size_t length;
    unsigned char *bytes = load(0, argv[i], &length);
    LLVMFuzzerTestOneInput(bytes + 1, length - 1);
    memory_free(bytes);
  }
  for (long i = 0; i < trials; i++) {
    size_t length = size[i % 3];
    unsigned char *bytes = with_kind((unsigned char)(i % 3), seed[i % 3] + 1, length - 1);
    mutate(bytes, &length, (struct draw){1, STREAM_TEST, (uint64_t)i});
    LLVMFuzzerTestOneInput(bytes, length);
    memory_free(bytes);
  }
  for (int i = 0; i < 3; i++)
    memory_free(seed[i]);
  printf("fuzz_checkpoint: %d files, %ld mutations, no finding\n", argc - 1, trials);
  return 0;
}
#endif
