/* maxlogit list: all plug-ins, presets, commands and claims */
#include <stdio.h>
#include <string.h>
#include "app/command.h"
#include "analysis/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "ledger/claim.h"
#include "numerics/ops.h"
#include "config/plugin.h"

struct options {
  struct request request;
  long json;
};

static const struct command_option options[] = {
  FLAG(json, 'j', "with every plug-in's options, " JSON_HELP),
  NO_OPTION,
};

enum { MOST_KINDS = 16 };
static size_t all_kinds(const char *kinds[MOST_KINDS])
{
  static const char *const ours[] = {"command", "claim", "operation"};
  size_t count = 0;
  for (const char *const *k = plugin_kinds(); *k; k++) kinds[count++] = *k;
  for (int i = 0; i < 3; i++) kinds[count++] = ours[i];
  return count;
}

static void add_kinds(struct buffer *b)
{
  const char *kinds[MOST_KINDS];
  size_t count = all_kinds(kinds);
  for (size_t i = 0; i < count; i++) buffer_add(b, "%s%s", i ? ", " : "", kinds[i]);
}

typedef void visitor(void *context, const struct plugin *);

/* Everything of one kind; commands, claims and operations look like plug-ins without options. */
static void each(const char *kind, visitor *visit, void *context)
{
  for (const struct plugin *p = plugin_table(); p->kind; p++)
    if (!strcmp(p->kind, kind)) visit(context, p);
  if (!strcmp(kind, "command"))
    for (const struct command *const *c = commands; *c; c++)
      visit(context, &(struct plugin){kind, (*c)->name, (*c)->help, NULL, 0});
  if (!strcmp(kind, "claim"))
    for (const struct claim_row *r = claim_rows; r->claim; r++)
      visit(context, &(struct plugin){kind, r->claim->id, r->claim->sentence, NULL, 0});
  if (!strcmp(kind, "operation"))
    for (enum op op = 0; op < OP_COUNT; op++)
      visit(context, &(struct plugin){kind, op_name(op), op_what(op), NULL, 0});
}

static void print_line(void *context, const struct plugin *p)
{
  (void)context;
  printf("  %-20s %s\n", p->name, p->help);
}

static json_t *json_option(const struct option_row *row)
{
  char allowed[512];
  option_allowed(row, allowed, sizeof allowed);
  return json_pack("{s:o, s:o, s:o, s:o, s:o}", "name", json_text(row->name), "default",
                   json_text(row->standard), "allowed", json_text(allowed), "unit", json_text(row->unit),
                   "help", json_text(row->help));
}

static void json_plugin(void *list, const struct plugin *p)
{
  json_t *rows = json_array();
  for (const struct option_row *row = p->options; row && row->name; row++)
    json_array_append_new(rows, json_option(row));
  json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "name", json_text(p->name), "help",
                                        json_text(p->help), "options", rows));
}

static void print_text(const char *const *kinds, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (count > 1) printf("%s%s\n", i ? "\n" : "", kinds[i]);
    each(kinds[i], print_line, NULL);
  }
}

static void print_json(const char *const *kinds, size_t count)
{
  json_t *all = json_object();
  for (size_t i = 0; i < count; i++) {
    json_t *members = json_array();
    each(kinds[i], json_plugin, members);
    json_object_set_new(all, kinds[i], members);
  }
  json_print(all);
}

static int list(void *request, struct error *e)
{
  const struct options *r = request;
  const char *kinds[MOST_KINDS];
  size_t count = all_kinds(kinds), chosen = 0;
  if (r->request.words.count) {
    const char *kind = r->request.words.word[0];
    const char *near = text_nearest(kind, kinds, count); /* takes the plural, too */
    while (chosen < count && kinds[chosen] != near) chosen++;
    if (!near) {
      struct buffer allowed = {0};
      add_kinds(&allowed);
      error_set(e, STATUS_USAGE, "'%.200s' is not a kind; allowed: %s", kind, allowed.text);
      memory_free(allowed.text);
      return e->status;
    }
    count = 1;
  }
  (r->json ? print_json : print_text)(kinds + chosen, count);
  return STATUS_OK;
}

static void print_list(struct buffer *b)
{
  buffer_add(b, "KIND: ");
  add_kinds(b);
  buffer_add(b, ".");
}

const struct command command_list = {
  .name = "list",
  .arguments = "[KIND]",
  .help = "list plug-ins, presets, claims and operations",
  .about = "List what there is of a kind, or of all. `maxlogit help NAME` explains one of them.",
  .more = "maxlogit list preset\nmaxlogit list --json\n\n",
  .tell = print_list,
  OPTIONS,
  .most = 1,
  .once = "one kind at a time",
  .run = list,
};
