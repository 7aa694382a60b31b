/* ledger.c - fuzz target: a ledger that another program, or another person, has written
   The first byte chooses its form: claims.json, or a README.md with verdicts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fuzz.h"
#include "ledger/other_ledger.h"

static char path[2][64];

static void remove_links(void)
{
  for (int i = 0; i < 2; i++) unlink(path[i]);
}

static int make_links(void)
{
  static const char *const endings[] = {"json", "md"};
  char target[64];
  int file = memfd_create("fuzz", MFD_CLOEXEC);
  snprintf(target, sizeof target, "/proc/self/fd/%d", file);
  for (int i = 0; i < 2; i++) {
    snprintf(path[i], sizeof path[i], "/tmp/maxlogit-fuzz-%d.%s", (int)getpid(), endings[i]);
    REQUIRE(symlink(target, path[i]) == 0);
  }
  atexit(remove_links);
  return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *const keys[] = {"id", "title", "settings", "verdict", "metric", "registered", "date"};
  static int file = -1;
  struct other_ledger k;
  struct error e = {0};
  if (!size) return 0;
  if (file < 0) file = make_links();
  if (ftruncate(file, 0) || pwrite(file, data + 1, size - 1, 0) != (ssize_t)size - 1) return 0;
  if (!other_ledger_open(&k, path[data[0] % 2], &e))
    for (size_t i = 0; i < json_array_size(k.all); i++) {
      const json_t *entry = json_array_get(k.all, i);
      for (size_t n = 0; n < sizeof keys / sizeof *keys; n++) REQUIRE(entry_text(entry, keys[n]));
      REQUIRE(entry_verdict(entry) <= VERDICT_OPEN);
      other_ledger_claim(&k, entry_text(entry, "id"));
      entry_interval(entry, "effect");
      entry_number(entry, "p");
    }
  other_ledger_close(&k);
  return 0;
}
