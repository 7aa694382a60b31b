/* config.c - fuzz target: the configuration as it is read, as a file and as a command line
   Whatever the text: an error with a message, or values that hold. What is made of them: settled.c. */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "fuzz.h"
#include "config/config.h"

unsigned fuzz_untaken = 1;

static void check_error(int status, const struct error *e)
{
  REQUIRE(status == STATUS_USAGE && e->status == STATUS_USAGE && *e->text);
  for (const char *c = e->text; *c; c++) REQUIRE((unsigned char)*c >= 0x20 || *c == '\n');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct error e = {0};
  char *text = memory_new(size + 1, 1);
  memcpy(text, data, size);
  struct config *c = config_new();
  int status = config_read(c, text, "fuzz", &e);
  if (status)
    check_error(status, &e);
  else
    fuzz_untaken = 0;
  char *rest = text, *line;
  while ((line = strsep(&rest, "\n"))) { /* what was read before an error stays, and assignments follow it */
    e = (struct error){0};
    status = config_assign(c, line, &e);
    if (status) check_error(status, &e);
  }
  char label[128];
  long points = config_points(c);
  REQUIRE(points >= 1);
  if (points < LONG_MAX) config_point_label(c, points - 1, label, sizeof label);
  config_free(c);
  memory_free(text);
  return 0;
}
