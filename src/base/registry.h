/* registry.h - the plug-ins of a kind as a table, from the lists that build them
   plugins.def is generated: PLUGINS_KIND(row) is one row(KIND, NAME, "FOLDER") per file of the kind's list.am. */
#ifndef MAXLOGIT_BASE_REGISTRY_H
#define MAXLOGIT_BASE_REGISTRY_H
#include <stddef.h>
#include <string.h>
#include "plugins.def"

#define PLUGIN_DECLARED(kind, name, folder) extern const struct kind kind##_##name;
#define PLUGIN_ADDRESS(kind, name, folder) &kind##_##name,
#define PLUGIN_NAME(kind, name, folder) #name,

/* KINDs[], ending with NULL, and KIND_find. */
#define REGISTRY(kind) \
  PLUGINS_##kind(PLUGIN_DECLARED) \
    const struct kind *const kind##s[] = {PLUGINS_##kind(PLUGIN_ADDRESS) NULL}; \
  const struct kind *kind##_find(const char *name) \
  { \
    const struct kind *const *p = kind##s; \
    while (*p && strcmp((*p)->name, name)) p++; \
    return *p; \
  }
#endif
