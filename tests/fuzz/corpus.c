/* corpus.c - runs a fuzz target without a fuzzer: every file of its corpus whole, cut short, and with single
   bytes changed. Of each kind of input the reader must take one: else the target would test nothing of it. The program
   NAME_corpus reads $top_srcdir/tests/fuzz/corpora/NAME, or the folder it is given. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "fuzz.h"

enum { CUTS = 40, CHANGES = 100 };

static void run_variants(const char *path, uint64_t number)
{
  struct error e = {0};
  char *text;
  size_t length;
  if (file_read(path, &text, &length, &e)) BUG("%s", e.text);
  LLVMFuzzerTestOneInput((const uint8_t *)text, length);
  for (uint64_t i = 0; i < CUTS && length; i++)
    LLVMFuzzerTestOneInput((const uint8_t *)text,
                           draw_below((struct draw){1, STREAM_TEST, number}, i, length));
  for (uint64_t i = 0; i < CHANGES && length; i++) {
    struct draw draw = {2, STREAM_TEST, number};
    char *byte = text + draw_below(draw, 2 * i, length), old = *byte;
    *byte = (char)draw_below(draw, 2 * i + 1, 256);
    LLVMFuzzerTestOneInput((const uint8_t *)text, length);
    *byte = old;
  }
  memory_free(text);
}

static void corpus_of(const char *program, char *out, size_t room)
{
  const char *top = getenv("top_srcdir"), *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
  const char *end = strstr(name, "_corpus");
  REQUIRE(end);
  snprintf(out, room, "%s/tests/fuzz/corpora/%.*s", top ? top : ".", (int)(end - name), name);
}

int main(int argc, char **argv)
{
  char corpus[4096];
  uint64_t files = 0;
  if (argc == 2)
    snprintf(corpus, sizeof corpus, "%s", argv[1]);
  else
    corpus_of(argv[0], corpus, sizeof corpus);
  DIR *folder = opendir(corpus);
  if (!folder) {
    message("no folder %s", corpus);
    return EXIT_FAILURE;
  }
  for (const struct dirent *entry; (entry = readdir(folder));) {
    char path[8192];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", corpus, entry->d_name);
    run_variants(path, files++);
  }
  closedir(folder);
  printf("%lu files, each in %d variants\n", (unsigned long)files, 1 + CUTS + CHANGES);
  if (fuzz_untaken) message("the reader has taken no input of these kinds: %#x", fuzz_untaken);
  return files && !fuzz_untaken ? EXIT_SUCCESS : EXIT_FAILURE;
}
