/* checkpoint.c - fuzz target: the readers of checkpoints and run files, through HDF5
   The first byte chooses the reader, the rest is what it reads. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/memory.h"
#include "fuzz.h"
#include "reseal.h"
#include "storage/checkpoint.h"
#include "storage/notes.h"
#include "storage/run_file.h"

enum { CHECKPOINT = 1, RUN = 2 };
unsigned fuzz_untaken = CHECKPOINT | RUN;

static int read_series(void *file, const char *name)
{
  struct run_series s;
  struct error e = {0};
  if (!run_read(file, name, &s, &e)) run_series_free(&s);
  return 0;
}

static void read_run(const char *path)
{
  struct run_file *f = NULL;
  struct run_event *events = NULL;
  struct notes notes = {0};
  struct error e = {0};
  long count = 0;
  if (run_open(&f, path, &e)) return;
  fuzz_untaken &= ~(unsigned)RUN;
  run_series_names(f, read_series, f);
  if (!run_notes(f, &notes, &e)) notes_free(&notes);
  if (!run_events(f, &events, &count, &e)) memory_free(events);
  run_close(f);
}

static void read_checkpoint(const char *path)
{
  struct checkpoint c;
  struct error e = {0};
  if (checkpoint_read(path, &c, &e)) return;
  fuzz_untaken &= ~(unsigned)CHECKPOINT;
  checkpoint_free(&c);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
  if (size < 2 || seed % 64 == 0) return LLVMFuzzerMutate(data, size, most);
  return 1 + reseal_mutate((char *)data + 1, size - 1, most - 1, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static int file = -1;
  static char path[64];
  if (!size) return 0;
  if (file < 0) {
    file = memfd_create("fuzz", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  }
  if (ftruncate(file, 0) || pwrite(file, data + 1, size - 1, 0) != (ssize_t)size - 1) return 0;
  if (data[0] % 2 == 0)
    read_checkpoint(path);
  else
    read_run(path);
  return 0;
}
