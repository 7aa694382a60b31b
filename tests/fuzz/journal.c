/* journal.c - fuzz target: the rows of a journal, as a recording goes on from them, and as `watch` follows them */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include "base/memory.h"
#include "fuzz.h"
#include "reseal.h"
#include "storage/journal.h"
#include "storage/layout.h"
#include "storage/live_rows.h"
#include "storage/tables.h"
#include "storage/texts.h"

unsigned fuzz_untaken = 1;

static const char started[] = "2026-01-01T00:00:00Z";
enum { BEGIN = JOURNAL_HEAD, MARK = 16 };

/* Each piece names the one before it. */
static void link_pieces(uint8_t *data, size_t size)
{
  uint64_t mark[2], last = XXH3_64bits(data, BEGIN);
  for (size_t at = BEGIN; at + MARK <= size; at += MARK + mark[0]) {
    memcpy(mark, data + at, MARK);
    if (mark[0] > size - at - MARK || mark[0] < sizeof last) return;
    memcpy(data + at + MARK, &last, sizeof last);
    last = mark[1] = XXH3_64bits(data + at + MARK, mark[0]);
    memcpy(data + at, mark, MARK);
  }
}

/* One piece mutated, with its length and digest. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
  uint64_t mark[2];
  size_t at = BEGIN, next = 0;
  if (size < BEGIN + MARK || seed % 16 == 0) return LLVMFuzzerMutate(data, size, most);
  for (unsigned left = seed % 37;; at = next) {
    memcpy(mark, data + at, MARK);
    next = at + MARK + mark[0];
    if (mark[0] > size - at - MARK || next + MARK > size || !left--) break;
  }
  if (mark[0] > size - at - MARK || at + MARK >= most) return LLVMFuzzerMutate(data, size, most);
  size_t rest = size - next, room = most - at - MARK;
  uint8_t *tail = memory_new(rest + 1, 1);
  memcpy(tail, data + next, rest);
  mark[0] = LLVMFuzzerMutate(data + at + MARK, mark[0], room);
  memcpy(data + at, mark, MARK);
  if (rest > room - mark[0]) rest = room - mark[0];
  memcpy(data + at + MARK + mark[0], tail, rest);
  memory_free(tail);
  link_pieces(data, at + MARK + mark[0] + rest);
  return at + MARK + mark[0] + rest;
}

/* --- the readers --------------------------------------------------------------------------------------- */

static char folder[32], run_path[64], journal_path[64];

static void remove_files(void)
{
  unlink(run_path);
  unlink(journal_path);
  rmdir(folder);
}

/* A run file without rows, whose journal has all. */
static int make_files(void)
{
  struct error e = {0};
  struct h5 *h = h5_new();
  h5_id root = h5_group(h, "/"), status = h5_group(h, "/status");
  h5_put_text(h, root, "format", RUN_FORMAT);
  h5_put_int(h, root, "format_version", RUN_VERSION);
  h5_put_text(h, root, "id", "0123456789ab");
  h5_put_text(h, root, "date", started);
  h5_put_text(h, status, "state", "running");
  h5_put_int(h, status, "last_step", 0);
  text_put(h, "/parameters/config", "train.steps = 20\n");
  h5_done(h, root);
  h5_done(h, status);
  snprintf(folder, sizeof folder, "%s/maxlogit-fuzz.XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
  REQUIRE(mkdtemp(folder));
  snprintf(run_path, sizeof run_path, "%s/run.h5", folder);
  snprintf(journal_path, sizeof journal_path, "%s/run.journal", folder);
  atexit(remove_files);
  if (h5_save(h, run_path, NULL, &e)) BUG("%s", e.text);
  return open(journal_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static void go_on(void)
{
  struct rows rows = {0};
  struct notes notes = {0};
  struct error e = {0};
  rows_start(&rows);
  journal_replay(journal_path, started, &rows, &notes, &e);
  rows_free(&rows);
  notes_free(&notes);
}

static void write_journal(int file, const uint8_t *data, size_t size)
{
  REQUIRE(!ftruncate(file, 0) && pwrite(file, data, size, 0) == (ssize_t)size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static int file = -1;
  struct live_rows grown, whole;
  long from;
  if (file < 0) file = make_files();
  live_begin(&grown, run_path);
  live_begin(&whole, run_path);
  write_journal(file, data, size / 2);
  live_news(&grown, &from);
  write_journal(file, data, size);
  live_news(&grown, &from);
  live_news(&whole, &from);
  REQUIRE(grown.rows == whole.rows);
  for (int f = 0; f < LIVE_FIELDS && whole.rows; f++)
    REQUIRE(!memcmp(grown.value[f], whole.value[f], (size_t)whole.rows * sizeof(double)));
  if (whole.rows) fuzz_untaken = 0;
  live_end(&grown);
  live_end(&whole);
  go_on();
  return 0;
}
