/* maxlogit help: commands, keys, sections, plug-ins and claims, all from the rows that define them */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "app/command.h"
#include "app/figure.h"
#include "app/topics.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "ledger/claim.h"
#include "model/stabilizer.h"
#include "observe/observable.h"
#include "config/config.h"
#include "config/plugin.h"
#include "config/preset.h"
#include "storage/derived.h"

struct options {
  struct request request;
  long markdown;
};

static const struct command_option options[] = {
  FLAG(markdown, 'm', "the reference of all keys as Markdown"),
  NO_OPTION,
};

/* --- keys ----------------------------------------------------------------------------------------------- */

enum { KEY_ROOM = 128 };
static const char *key_name(const struct config_section *s, const struct option_row *row, char out[KEY_ROOM])
{
  snprintf(out, KEY_ROOM, "%s%s%s", s->prefix, *s->prefix ? "." : "", row->name);
  return out;
}

/* The row of a key, and its section; NULL: there is none. */
static const struct option_row *find_key(const char *key, const struct config_section **section)
{
  char name[KEY_ROOM];
  for (const struct config_section *s = *section = config_sections(); s->rows; *section = ++s)
    for (const struct option_row *row = s->rows; row->name; row++)
      if (!strcmp(key_name(s, row, name), key)) return row;
  return NULL;
}

static void print_key(const struct config_section *s, const struct option_row *row)
{
  char allowed[512], name[KEY_ROOM], setting[160];
  option_allowed(row, allowed, sizeof allowed);
  const char *unit = text_unit(row->unit);
  snprintf(setting, sizeof setting, "%s = %s", key_name(s, row, name), row->standard);
  printf("  %-34s %s\n  %-34s (%s%s%s)\n", setting, row->help, "", allowed, *unit ? "; unit: " : "", unit);
}

static void print_section(const struct config_section *s)
{
  printf("[%s] %s\n", s->prefix, s->help);
  for (const struct option_row *row = s->rows; row->name; row++) print_key(s, row);
}

static void print_reference(void)
{
  printf("Keys, their defaults, and what may stand there. In a file: `name = value` lines under [section],\n"
         "# begins a comment. On the command line: section.name=value, which overrides the file. Several\n"
         "values with commas between them, or a range (1e-3:1e-1:log:5, 1:8:lin:8), are for sweeps.\n");
  for (const struct config_section *s = config_sections(); s->rows; s++) {
    printf("\n");
    print_section(s);
  }
}

static void markdown_cell(const char *text)
{
  for (; *text; text++) printf(*text == '|' || *text == '<' || *text == '*' ? "\\%c" : "%c", *text);
}

static void print_markdown(void)
{
  printf("# Keys\n\nWritten by `maxlogit help --markdown`.\n");
  for (const struct config_section *s = config_sections(); s->rows; s++) {
    printf("\n## %s%s%s\n\n%s\n\n| key | default | allowed | unit | meaning |\n|---|---|---|---|---|\n",
           *s->prefix ? "[" : "top level", s->prefix, *s->prefix ? "]" : "", s->help);
    for (const struct option_row *row = s->rows; row->name; row++) {
      char allowed[512], name[KEY_ROOM];
      const char *mark = *row->standard ? "`" : "";
      option_allowed(row, allowed, sizeof allowed);
      printf("| `%s` | %s%s%s | ", key_name(s, row, name), mark, row->standard, mark);
      markdown_cell(allowed);
      printf(" | %s | ", text_unit(row->unit));
      markdown_cell(row->help);
      printf(" |\n");
    }
  }
}

/* --- topics --------------------------------------------------------------------------------------------- */

static int help_key(const char *topic)
{
  const struct config_section *s;
  const struct option_row *row = find_key(topic, &s);
  if (row) print_key(s, row);
  return row != NULL;
}

static int help_section(const char *topic)
{
  for (const struct config_section *s = config_sections(); s->rows; s++)
    if (*s->prefix && !s->is_plugin && !strcmp(s->prefix, topic)) {
      print_section(s);
      return 1;
    }
  return 0;
}

/* Words of a preset's settings, in lines. */
static void print_settings(const char *settings)
{
  int column = 0;
  for (const char *word = settings; *word;) {
    int length = (int)strcspn(word, " ");
    if (column && column + 1 + length > 100) column = 0, printf("\n");
    column += printf("%s%.*s", column ? " " : "  ", length, word);
    word += length + (word[length] == ' ');
  }
  printf("\n");
}

static void print_preset(const struct preset *p)
{
  const struct config_section *section;
  const struct option_row *row;
  print_settings(p->settings);
  printf("  source: %s\n", p->source);
  if (p->originals) printf("\n  %-28s %-24s %s\n", "what", "here", "original (how many times as large)");
  for (const struct preset_fact *f = p->originals; f && f->what; f++) {
    int length = -1; /* all of it */
    const char *here = f->here ? f->here : preset_setting(p, f->what, &length);
    if (!here && (row = find_key(f->what, &section))) here = row->standard;
    printf("  %-28s %-24.*s %s\n", f->what, length, here ? here : "", f->original);
  }
}

static void print_series(const struct series *s)
{
  static const char *const shapes[] = {"", " by layer", " by head", " by layer and expert", " by tensor"};
  const char *unit = text_unit(s->unit);
  printf("  series %s%s%s%s%s: %s\n", s->name, shapes[s->shape], *unit ? " (" : "", unit, *unit ? ")" : "",
         s->definition);
}

static void print_all_series(const struct series *s)
{
  for (; s && s->name; s++) print_series(s);
}

/* The series that it records. */
static const struct series *series_of(const struct plugin *p)
{
  if (!strcmp(p->kind, "stabilizer")) return stabilizer_find(p->name)->emits;
  const struct observable *o = strcmp(p->kind, "observable") ? NULL : observable_find(p->name);
  return o ? observable_series(o) : NULL;
}

/* `muon` is an optimizer and a preset: show both. */
static int help_plugin(const char *topic)
{
  int found = 0;
  for (const struct plugin *p = plugin_table(); p->kind; p++) {
    if (strcmp(p->name, topic)) continue;
    printf("%s%s %s: %s\n", found++ ? "\n" : "", p->kind, p->name, p->help);
    struct config_section section = {p->name, p->help, p->options, p->options_size, 1};
    for (const struct option_row *row = p->options; row && row->name; row++) print_key(&section, row);
    print_all_series(series_of(p));
    for (const struct preset *preset = presets; preset->name && !strcmp(p->kind, "preset"); preset++)
      if (!strcmp(preset->name, topic)) print_preset(preset);
  }
  return found;
}

static int help_command(const char *topic)
{
  const struct command *command = command_find(topic);
  if (command) command_explain(command, 0);
  return command != NULL;
}

/* The first key with this last part: train.lr of lr; NULL: there is none. */
static const char *key_that_ends(const char *last, char out[KEY_ROOM])
{
  for (const struct config_section *s = config_sections(); s->rows; s++)
    for (const struct option_row *row = s->rows; row->name; row++)
      if (!strcmp(row->name, last)) return key_name(s, row, out);
  return NULL;
}

/* A series, and the plug-ins that record it. */
static int help_recorded(const char *name)
{
  int found = 0;
  for (const struct plugin *p = plugin_table(); p->kind; p++)
    for (const struct series *s = series_of(p); s && s->name; s++) {
      if (strcmp(s->name, name)) continue;
      if (!found++) print_series(s);
      printf("  recorded by %s %s\n", p->kind, p->name);
    }
  return found;
}

/* A series that is computed when a run is read, and its source. */
static int help_derived(const char *topic)
{
  const struct derived *d = derived_find(topic);
  if (!d) return 0;
  print_series(&(struct series){.name = d->name, .unit = d->unit, .definition = d->long_name});
  printf("  computed when a run is read, from\n");
  help_recorded(d->source);
  return 1;
}

/* A series, and a key with the same last part. */
static int help_series(const char *topic)
{
  char name[KEY_ROOM];
  int found = help_recorded(topic) + help_derived(topic);
  if (found && key_that_ends(topic, name)) help_key(name);
  return found;
}

static void print_fact(const char *what, const char *text)
{
  if (text) printf("  %-11s %s\n", what, text);
}

static int help_claim(const char *topic)
{
  const struct claim_row *row = claim_rows;
  while (row->claim && strcasecmp(row->claim->id, topic)) row++;
  const struct claim *c = row->claim;
  if (!c) return 0;
  char predicted[256], folder[256];
  printf("claim %s: %s\n", c->id, c->sentence);
  print_fact("source", c->source);
  for (int i = 0; i < claim_arms(c); i++) {
    const struct claim_arm *a = &c->arm[i];
    printf("  %-11s %s%s%s; measured: %s\n", i ? "" : "arms", a->name, a->set ? ": " : "",
           a->set ? a->set : "", claim_metric(c, i));
  }
  if (claim_compared(c)) print_fact("said", prediction_text(c, predicted, sizeof predicted));
  print_fact("refuted by", c->refute);
  print_fact("needs scale", c->scale);
  snprintf(folder, sizeof folder, c->regime ? "experiments/%s; run by: maxlogit claims %s" : "experiments/%s",
           row->question, c->id);
  print_fact("more", folder);
  return 1;
}

static int help_figure(const char *name)
{
  const struct figure *f = figure_find(name);
  if (!f) return 0;
  printf("figure %s: %s\n", f->name, f->help);
  printf("  drawn by %s%s%s\n", !f->asked || *f->asked == '-' ? "maxlogit plot " : "",
         f->asked ? f->asked : "--figure=", f->asked ? "" : f->name);
  return 1;
}

static int help_topic(const char *name)
{
  for (const struct topic *t = topics; t->name; t++) {
    if (strcmp(t->name, name)) continue;
    printf("%s: %s\n\n%s\n%s\n\nThe manual: %s\n", t->name, t->help, t->text, t->examples, t->chapter);
    return 1;
  }
  return 0;
}

static void add_word(const char **words, size_t *count, const char *word)
{
  if (*count < 1024) words[(*count)++] = word;
}

static int unknown_topic(const char *topic, struct error *e)
{
  const char *words[1024];
  size_t count = 0;
  char name[KEY_ROOM];
  struct arena *arena = arena_new();
  for (const char *const *c = command_names; *c; c++) add_word(words, &count, *c);
  for (const struct topic *t = topics; t->name; t++) add_word(words, &count, t->name);
  for (const char *const *f = figure_names; *f; f++) add_word(words, &count, *f);
  for (const struct plugin *p = plugin_table(); p->kind; p++) add_word(words, &count, p->name);
  for (const struct derived *d = derived_series; d->name; d++) add_word(words, &count, d->name);
  for (const struct claim_row *row = claim_rows; row->claim; row++) add_word(words, &count, row->claim->id);
  for (const struct config_section *s = config_sections(); s->rows; s++) {
    if (*s->prefix) add_word(words, &count, s->prefix);
    for (const struct option_row *row = s->rows; row->name; row++)
      add_word(words, &count, arena_text(arena, key_name(s, row, name)));
  }
  const char *near = key_that_ends(topic, name);
  if (!near) near = text_nearest(topic, words, count);
  error_set(e, STATUS_USAGE, "no help on '%.200s'%s%s%s", topic,
            near ? "; did you mean '" : " (topics: maxlogit help)", near ? near : "", near ? "'?" : "");
  arena_free(arena);
  return e->status;
}

static void overview(void)
{
  printf("maxlogit trains small attention stacks, records what every head does, and compares the ways of\n"
         "keeping attention logits bounded.\n\n");
  for (const struct command *const *c = commands; *c; c++) {
    char usage[128];
    snprintf(usage, sizeof usage, "%s %.*s", (*c)->name, (int)strcspn((*c)->arguments, "\n"),
             (*c)->arguments);
    printf("  maxlogit %-45s  %s\n", usage, (*c)->help);
  }
  printf("\nStart with `maxlogit run`: it trains the default toy stack in a few seconds.\n"
         "`maxlogit help TOPIC` explains a command, a key (train.lr), a section (train), a plug-in (muon),\n"
         "a claim of the literature (C-17), a series (attn/entropy), every key (config), or one of these:\n");
  for (const struct topic *t = topics; t->name; t++) printf("  %-11s %s\n", t->name, t->help);
  printf("The manual: doc/index.md in the sources (`make manual` renders HTML), or `man maxlogit`.\n");
}

static int help(void *request, struct error *e)
{
  const struct options *r = request;
  const char *topic = r->request.words.count ? r->request.words.word[0] : NULL;
  if (r->markdown)
    print_markdown();
  else if (!topic)
    overview();
  else if (!strcmp(topic, "config"))
    print_reference();
  else if (!(help_command(topic) + help_section(topic) + help_plugin(topic) + help_key(topic) +
             help_claim(topic) + help_topic(topic) + help_figure(topic)) &&
           !help_series(topic))
    return unknown_topic(topic, e);
  return STATUS_OK;
}

const struct command command_help = {
  .name = "help",
  .arguments = "[TOPIC]",
  .help = "explain a command, key, section, plug-in or claim",
  .about =
    "Explain a command, a key (train.lr), a section (train), a plug-in (muon), a claim (C-17), a series "
    "(attn/entropy), a topic (metrics), or all keys (config).",
  .more = "maxlogit help muon\nmaxlogit help train.lr",
  OPTIONS,
  .most = 1,
  .once = "one topic at a time",
  .run = help,
};
