/* ledger.c - fuzz target: a ledger that another program, or another person, has written
   The first byte chooses its form: claims.json, or a README.md with verdicts. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fuzz.h"
#include "ledger/other_ledger.h"

enum { FORMS = 2 };
unsigned fuzz_untaken = (1 << FORMS) - 1;

static char folder[32], path[FORMS][64];

static void remove_files(void)
{
  for (int i = 0; i < FORMS; i++) unlink(path[i]);
  rmdir(folder);
}

static void make_folder(void)
{
  static const char *const names[FORMS] = {"claims.json", "README.md"};
  snprintf(folder, sizeof folder, "%s/maxlogit-fuzz.XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
  REQUIRE(mkdtemp(folder));
  for (int i = 0; i < FORMS; i++) snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
  atexit(remove_files);
}

static void put(const char *name, const uint8_t *data, size_t size)
{
  int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  REQUIRE(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *const keys[] = {"id", "title", "settings", "verdict", "metric", "registered", "date"};
  struct other_ledger k;
  struct error e = {0};
  if (!size) return 0;
  if (!*folder) make_folder();
  const int form = data[0] % FORMS;
  put(path[form], data + 1, size - 1);
  if (!other_ledger_open(&k, path[form], &e)) {
    fuzz_untaken &= ~(1u << form);
    for (size_t i = 0; i < json_array_size(k.all); i++) {
      const json_t *entry = json_array_get(k.all, i);
      for (size_t n = 0; n < sizeof keys / sizeof *keys; n++) REQUIRE(entry_text(entry, keys[n]));
      REQUIRE(entry_verdict(entry) <= VERDICT_OPEN);
      other_ledger_claim(&k, entry_text(entry, "id"));
      entry_interval(entry, "effect");
      entry_number(entry, "p");
    }
  }
  other_ledger_close(&k);
  return 0;
}
