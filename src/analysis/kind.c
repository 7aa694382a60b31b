/* kind.c - the name of a run's kind: its preset, and the stabilizers added to it */
#include <stdio.h>
#include <string.h>
#include "analysis/runset_parts.h"
#include "base/text.h"
#include "config/preset.h"
#include "storage/layout.h"

static int setting_differs(void *context, const char *setting)
{
  const struct run *run = context;
  const char *equals = strchr(setting, '=');
  if (!equals) return 0;
  char key[96];
  snprintf(key, sizeof key, "%.*s", (int)(equals - setting), setting);
  const char *value = run_parameter(run->file, key);
  return !value || strcmp(value, equals + 1) != 0;
}

static int has_settings(struct run *run, int preset)
{
  return text_split(presets[preset].settings, ' ', setting_differs, run) == 0;
}

static int count_one(void *count, const char *part)
{
  (void)part;
  ++*(int *)count;
  return 0;
}

/* The preset given to the run, if later keys left it unchanged; else the preset that sets most of the run's options as
   they are; -1: none. */
static int preset_of(struct run *run)
{
  const char *given = run_parameter_or(run, "preset", "");
  int best = -1, most = 0;
  for (int i = 0; presets[i].name; i++) {
    int settings = 0;
    if (!has_settings(run, i)) continue;
    if (strcmp(presets[i].name, given) == 0) return i;
    text_split(presets[i].settings, ' ', count_one, &settings);
    if (settings >= most) best = i, most = settings;
  }
  return best;
}

void run_name_kind(struct run *run)
{
  const char *stabilizers = run_parameter_or(run, "stabilizers", "none");
  int preset = preset_of(run), is_bare = strcmp(stabilizers, "none") == 0;
  char file[41]; /* the name of a run that was imported without its options */
  snprintf(file, sizeof file, "%.*s", (int)run_stem(text_file_name(run->path)), text_file_name(run->path));
  const char *name = preset < 0
                       ? run_parameter_or(run, "optimizer", run_parameter_or(run, "checkpoint.family", file))
                       : presets[preset].name;
  if (preset >= 0 && strstr(presets[preset].settings, "stabilizers="))
    is_bare = 1; /* they are part of the name */
  snprintf(run->kind, sizeof run->kind, "%.40s%s%.50s", name, is_bare ? "" : "+", is_bare ? "" : stabilizers);
  text_clean(run->kind, sizeof run->kind, "");
  for (run->rank = 0; presets[run->rank].name; run->rank++)
    if (run->rank == preset) break;
}
