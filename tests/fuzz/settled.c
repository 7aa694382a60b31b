/* settled.c - fuzz target: what a configuration comes to
   Of whatever could be read, the first and the last point hold, and their own written form repeats them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "fuzz.h"
#include "config/config.h"

unsigned fuzz_untaken = 1;

/* What was written reads back to the same run, written the same way. */
static void check_finished(const struct config *c)
{
  struct error e = {0};
  struct config *again = config_new();
  char *text = config_text(c), *twice, id[16], other[16];
  if (config_read(again, text, "written", &e) || config_finish(again, &e)) BUG("%s\n%s", e.text, text);
  twice = config_text(again);
  config_id(c, 1, 0, id);
  config_id(again, 1, 0, other);
  REQUIRE(!strcmp(text, twice) && !strcmp(id, other));
  memory_free(text);
  memory_free(twice);
  config_free(again);
}

static void check_points(const struct config *c)
{
  long points = config_points(c), last[] = {0, points - 1};
  REQUIRE(points >= 1);
  for (int i = 0; i < (points > 1 ? 2 : 1) && points < 1000; i++) {
    struct error e = {0};
    char label[128];
    struct config *point = config_point(c, last[i]);
    config_point_label(c, last[i], label, sizeof label);
    int status = config_finish(point, &e);
    if (status) BUG("a point does not hold: %s", e.text);
    check_finished(point);
    fuzz_untaken = 0;
    config_free(point);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct error e = {0};
  char *text = memory_new(size + 1, 1);
  memcpy(text, data, size);
  struct config *c = config_new();
  config_read(c, text, "fuzz", &e); /* what was read before an error stays */
  check_points(c);
  config_free(c);
  memory_free(text);
  return 0;
}
