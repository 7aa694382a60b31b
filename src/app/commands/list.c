/* maxlogit list: what there is to choose from */
#include <argp.h>
#include <stdio.h>
#include <string.h>
#include "app/command.h"
#include "analysis/json.h"
#include "base/error.h"
#include "base/text.h"
#include "ledger/claim.h"
#include "numerics/ops.h"
#include "config/plugin.h"

struct arguments {
  const char *kind;
  int json;
};

static const struct argp_option options[] = {
  {"json", 'j', NULL, 0, "with every plug-in's options, " JSON_HELP, 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
  struct arguments *a = state->input;
  switch (key) {
  case 'j': a->json = 1; return 0;
  case ARGP_KEY_ARG:
    if (a->kind) argp_error(state, "one kind at a time");
    a->kind = arg;
    return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
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

static int list(int argc, char **argv)
{
  static const struct argp argp = {
    options,
    parse,
    "[KIND]",
    "List what there is: attention, ffn, stabilizer, optimizer, schedule, data, observable, preset, "
    "command, claim, operation.\v"
    "`maxlogit help NAME` explains one of them.",
    NULL,
    NULL,
    NULL};
  struct arguments a = {0};
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  const char *kinds[16];
  size_t count = 0, chosen = 0;
  for (const char *const *k = plugin_kinds(); *k; k++) kinds[count++] = *k;
  kinds[count++] = "command";
  kinds[count++] = "claim";
  kinds[count++] = "operation";
  if (a.kind) {
    const char *near = text_nearest(a.kind, kinds, count); /* takes the plural, too */
    while (chosen < count && kinds[chosen] != near) chosen++;
    if (!near) {
      message(
        "'%.200s' is no kind; allowed: attention, ffn, stabilizer, optimizer, schedule, data, observable, "
        "preset, command, claim, operation",
        a.kind);
      return STATUS_USAGE;
    }
    count = 1;
  }
  (a.json ? print_json : print_text)(kinds + chosen, count);
  return STATUS_OK;
}

const struct command command_list = {
  .name = "list", .arguments = "[KIND]", .help = "what there is to choose from", .run = list};
