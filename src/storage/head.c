#include "storage/head.h"
#include <inttypes.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "storage/layout.h"
#include "storage/texts.h"

/* Attributes, in their order in a head. */
static const struct {
  const char *group, *name;
  int is_text;
} facts[] = {
  {"/", "format_version", 0},
  {"/", "id", 1},
  {"/status", "state", 1},
  {"/status", "last_step", 0},
  {"/status", "wall_seconds", 0},
  {"/", "date", 1},
  {"/", "data", 1},
  {"/", "data_text", 1},
  {"/", "data_content", 1},
  {"/", "start_content", 1},
  {"/", "loss_floor", 0},
};

static void add_fact(struct buffer *head, struct h5 *h, const char *group, const char *name, int is_text)
{
  char text[4096];
  double number;
  h5_id id = h5_find(h, group);
  int found = is_text ? h5_get_text(h, id, name, text, sizeof text) : h5_get_real(h, id, name, &number);
  h5_done(h, id);
  if (!found) return;
  if (!is_text) text_number(number, text);
  buffer_add(head, "%s%c%s%c", name, 0, text, 0);
}

int64_t run_settings_of(struct h5 *h, each_setting *each, void *context)
{
  static const char *const fields[] = {"name", "value", "origin", NULL};
  int64_t count, i = 0;
  size_t room;
  char *texts = texts_get(h, "/parameters/table", fields, &count, &room);
  for (int64_t k = 0; k < 3 * count; k++) text_clean(texts + (size_t)k * room, room, "");
  for (const char *row = texts; i < count && !each(context, row, row + room, row + 2 * room); i++)
    row += 3 * room;
  memory_free(texts);
  return i < count ? -1 : count;
}

static int add_parameter(void *head, const char *key, const char *value, const char *origin)
{
  (void)origin;
  buffer_add(head, HEAD_PARAMETER "%s%c%s%c", key, 0, value, 0);
  return 0;
}

struct heading {
  struct h5 *h;
  struct buffer head;
};

/* A dataset is a series if its first dimension is labeled by a step axis. */
static int add_series(void *context, const char *path, h5_id id)
{
  struct heading *x = context;
  struct h5_shape shape;
  char label[64];
  const char *name = path + strlen("/series/");
  if (h5_get_label(x->h, id, 0, label, sizeof label) && strlen(name) < SERIES_NAME)
    buffer_add(&x->head, HEAD_SERIES "%s%c%" PRId64 "%c", name, 0,
               h5_get_shape(x->h, id, &shape) ? shape.dims[0] : 0, 0);
  return 0;
}

char *run_head_of(struct h5 *h, size_t *size)
{
  struct heading x = {.h = h};
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
    add_fact(&x.head, h, facts[i].group, facts[i].name, facts[i].is_text);
  run_settings_of(h, add_parameter, &x.head);
  h5_walk(h, "/series", add_series, &x);
  *size = x.head.length;
  return x.head.text ? x.head.text : memory_new(1, 1);
}
