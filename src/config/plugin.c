/* plugin.c - the registries as one table */
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

const struct plugin *plugin_table(void)
{
  if (count) return table;
  for (const struct attention *const *p = attentions; *p; p++)
    add_plugin("attention", (*p)->name, (*p)->help, NULL, 0);
  for (const struct ffn *const *p = ffns; *p; p++)
    add_plugin("ffn", (*p)->name, (*p)->help, (*p)->options, (*p)->options_size);
  for (const struct stabilizer *const *p = stabilizers; *p; p++)
    add_plugin("stabilizer", (*p)->name, (*p)->help, (*p)->options, (*p)->options_size);
  for (const struct optimizer *const *p = optimizers; *p; p++)
    add_plugin("optimizer", (*p)->name, (*p)->help, (*p)->options, (*p)->options_size);
  for (const struct schedule *const *p = schedules; *p; p++)
    add_plugin("schedule", (*p)->name, (*p)->help, (*p)->options, (*p)->options_size);
  for (const struct data_source *const *p = data_sources; *p; p++)
    add_plugin("data", (*p)->name, (*p)->help, (*p)->options, (*p)->options_size);
  add_plugin("observable", "default", "all observables except those marked \"by name only\"", NULL, 0);
  for (const struct observable *const *p = observables; *p; p++)
    add_plugin("observable", (*p)->name, (*p)->help, NULL, 0);
  for (const struct preset *p = presets; p->name; p++) add_plugin("preset", p->name, p->help, NULL, 0);
  return table;
}

const char *const *plugin_kinds(void)
{
  static const char *const kinds[] = {"attention", "ffn",        "stabilizer", "optimizer", "schedule",
                                      "data",      "observable", "preset",     NULL};
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
