/* plugin.c - all registries as one table */
#include "config/plugin.h"
#include <string.h>
#include "base/error.h"
#include "model/ffn.h"
#include "model/stabilizer.h"
#include "observe/observable.h"
#include "config/preset.h"
#include "training/data.h"
#include "training/optimizer.h"
#include "training/schedule.h"

enum { MOST = 256 };

static struct plugin table[MOST];
static size_t count;

static void add_plugin(const char *kind, const char *name, const char *help, const struct option_row *options,
                       size_t size)
{
  REQUIRE(count < MOST - 1);
  table[count++] = (struct plugin){kind, name, help, options, options ? size : 0};
}

#define ADD(kind, text, options, size) \
  for (const struct kind *const *p = kind##s; *p; p++) add_plugin(text, (*p)->name, (*p)->help, options, size)
#define ADD_WITH_OPTIONS(kind, text) ADD(kind, text, (*p)->options, (*p)->options_size)

const struct plugin *plugin_table(void)
{
  if (count) return table;
  ADD(attention, "attention", NULL, 0);
  ADD_WITH_OPTIONS(ffn, "ffn");
  ADD_WITH_OPTIONS(stabilizer, "stabilizer");
  ADD_WITH_OPTIONS(optimizer, "optimizer");
  ADD_WITH_OPTIONS(schedule, "schedule");
  ADD_WITH_OPTIONS(data_source, "data");
  add_plugin("observable", "default", "all observables except those marked \"by name only\"", NULL, 0);
  ADD(observable, "observable", NULL, 0);
  for (const struct preset *p = presets; p->name; p++) add_plugin("preset", p->name, p->help, NULL, 0);
  return table;
}

const char *const *plugin_kinds(void)
{
  static const char *kinds[16];
  size_t n = 0;
  for (const struct plugin *p = plugin_table(); p->kind; p++)
    if (!n || strcmp(kinds[n - 1], p->kind)) kinds[n++] = p->kind;
  return kinds;
}

size_t plugin_names(const char *kind, const char **out, size_t room)
{
  size_t n = 0;
  for (const struct plugin *p = plugin_table(); p->kind; p++)
    if (!strcmp(p->kind, kind) && n + 1 < room) out[n++] = p->name;
  out[n] = NULL;
  return n;
}
