/* plugin.h - the common properties of all kinds of plug-ins, in one table */
#ifndef MAXLOGIT_CONFIG_PLUGIN_H
#define MAXLOGIT_CONFIG_PLUGIN_H
#include <stddef.h>
#include "base/option.h"

struct plugin {
  const char *kind; /* attention, stabilizer, optimizer, schedule, data, observable, preset */
  const char *name, *help;
  const struct option_row *options;
  size_t options_size;
};

/* All plug-ins, by kind; ends with kind NULL. */
const struct plugin *plugin_table(void);
const char *const *plugin_kinds(void); /* NULL-terminated */
/* The names of one kind, NULL-terminated: at most `room` - 1 of them. Returns their number. */
size_t plugin_names(const char *kind, const char **out, size_t room);
#endif
