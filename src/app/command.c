/* command.c - the registry of commands, and their command lines */
#include "app/command.h"
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/registry.h"

REGISTRY(command)
const char *const command_names[] = {PLUGINS_command(PLUGIN_NAME) NULL};

/* --- the rows ------------------------------------------------------------------------------------------- */

static const struct command_option everywhere[] = {
  {.row = BOOL_ROW(struct request, help, "0", "Give this help list", 0), .letter = 'h'},
  {.row = BOOL_ROW(struct request, usage, "0", "Give a short usage message", 0)},
  {.row = BOOL_ROW(struct request, version, "0", "Print program version", 0), .letter = 'V'},
  NO_OPTION};

int command_options(const struct command *c, const struct command_option *out[MOST_OPTIONS])
{
  const struct command_option *const tables[] = {c->options, c->shared, everywhere};
  int count = 0;
  for (int t = 0; t < 3; t++)
    for (const struct command_option *o = tables[t]; o && o->row.name; o++) {
      REQUIRE(count < MOST_OPTIONS);
      out[count++] = o;
    }
  return count;
}

void command_option_name(const struct command_option *o, char out[OPTION_NAME])
{
  const char *dot = strrchr(o->row.name, '.');
  snprintf(out, OPTION_NAME, "%s", dot ? dot + 1 : o->row.name);
  for (char *at = out; (at = strchr(at, '_'));) *at = at[1] ? '-' : 0;
}

/* --- one command line ----------------------------------------------------------------------------------- */

enum { LONG = 256 }; /* the value of getopt_long for the first option; letters are below it */
struct command_line {
  const struct command *command;
  const struct command_option *option[MOST_OPTIONS];
  int options;
  char name[MOST_OPTIONS][OPTION_NAME];
  struct option longs[MOST_OPTIONS + 1];
  char letters[2 * MOST_OPTIONS + 2];
};

static int takes_none(const struct command_option *o) { return o->row.type == OPTION_BOOL; }

static void prepare(struct command_line *l, const struct command *c)
{
  *l = (struct command_line){.command = c, .letters = ":"};
  l->options = command_options(c, l->option);
  char *letter = l->letters + 1;
  for (int i = 0; i < l->options; i++) {
    const struct command_option *o = l->option[i];
    command_option_name(o, l->name[i]);
    l->longs[i] = (struct option){l->name[i],
                                  takes_none(o) ? no_argument
                                  : o->alone    ? optional_argument
                                                : required_argument,
                                  NULL, LONG + i};
    if (!o->letter) continue;
    *letter++ = o->letter;
    if (!takes_none(o)) *letter++ = ':';
  }
}

/* Which option getopt_long means. */
static int place_of(const struct command_line *l, int code)
{
  if (code >= LONG) return code - LONG;
  for (int i = 0; code && i < l->options; i++)
    if (l->option[i]->letter == code) return i;
  return -1;
}

static struct words *words_at(const struct option_row *row, void *request)
{
  return (struct words *)((char *)request + row->offset);
}

static void set_defaults(const struct command_line *l, void *request, int argc)
{
  for (int i = 0; i < l->options; i++) {
    struct option_row row = l->option[i]->row;
    row.min = -HUGE_VAL, row.max = HUGE_VAL;
    if (row.flags & OPTION_MANY)
      words_at(&row, request)->word = memory_new((size_t)argc, sizeof(char *));
    else if (row.standard)
      REQUIRE(!option_parse(&row, request, row.standard, NULL));
    else if (row.type == OPTION_CHOICE)
      *(long *)((char *)request + row.offset) = -1;
  }
}

/* Is it one of the row's choices? */
static int is_choice(const struct option_row *row, const char *text, struct error *e)
{
  long any;
  const struct option_row one = {.type = OPTION_CHOICE, .choices = row->choices};
  return option_parse(&one, &any, text, e);
}

static int take_value(const struct command_line *l, int i, void *request, char *text, struct error *e)
{
  const struct option_row *row = &l->option[i]->row;
  int status = STATUS_OK;
  if (row->flags & OPTION_MANY) {
    struct words *w = words_at(row, request);
    w->word[w->count++] = text;
    if (row->choices) status = is_choice(row, text, e);
  } else
    status = option_parse(row, request,
                          text                       ? text
                          : takes_none(l->option[i]) ? "1"
                                                     : l->option[i]->alone,
                          e);
  return status ? error_prefix(e, "%s --%s", l->command->name, l->name[i]) : STATUS_OK;
}

/* A long option is none, or several: as getopt_long it may be cut where only one begins so. */
static int no_option(const struct command_line *l, const char *word, struct error *e)
{
  const char *names[MOST_OPTIONS], *near;
  size_t length = strcspn(word + 2, "=");
  char name[OPTION_NAME];
  snprintf(name, sizeof name, "%.*s", (int)length, word + 2);
  for (int i = 0; i < l->options; i++) names[i] = l->name[i];
  near = text_nearest(name, names, (size_t)l->options);
  return error_set(e, STATUS_USAGE, "%s: %.200s: no such option%s%s%s (all: maxlogit %s --help)",
                   l->command->name, word, near ? "; did you mean '--" : "", near ? near : "",
                   near ? "'?" : "", l->command->name);
}

/* An error of getopt_long: optopt is the option if there is one, `word` its argument. */
static int refuse(const struct command_line *l, int code, const char *word, struct error *e)
{
  int i = place_of(l, optopt);
  const char *command = l->command->name;
  if (code == ':' && l->option[i]->row.choices) {
    is_choice(&l->option[i]->row, "", e);
    return error_prefix(e, "%s --%s", command, l->name[i]);
  }
  if (code == ':')
    return error_set(e, STATUS_USAGE, "%s --%s: %s is wanted", command, l->name[i], l->option[i]->argument);
  if (i >= 0) return error_set(e, STATUS_USAGE, "%s --%s: takes no argument", command, l->name[i]);
  if (!optopt) return no_option(l, word, e);
  return error_set(e, STATUS_USAGE, "%s: -%c: no such option (all: maxlogit %s --help)", command, optopt,
                   command);
}

static int take_words(const struct command *c, struct request *r, char **word, int count, struct error *e)
{
  for (int i = 0; i < count; i++)
    if (c->settings && strchr(word[i], '='))
      r->setting[r->settings++] = word[i];
    else if (r->words.count < c->most)
      r->words.word[r->words.count++] = word[i];
    else
      return error_set(e, STATUS_USAGE, "%s: '%s': %s%s", c->name, word[i],
                       c->once ? c->once : "no arguments, please",
                       c->settings ? "; settings are written key=value" : "");
  if (c->wanted && !r->words.count)
    return error_set(e, STATUS_USAGE, "%s maxlogit %s %s", c->wanted, c->name, c->arguments);
  return STATUS_OK;
}

void *command_parse(const struct command *c, int argc, char **argv, struct error *e)
{
  struct command_line l;
  struct request *r = memory_new(1, c->size);
  prepare(&l, c);
  set_defaults(&l, r, argc);
  r->words.word = memory_new((size_t)argc, sizeof(char *));
  r->setting = memory_new((size_t)argc, sizeof(char *));
  opterr = 0;
  for (int code; !e->status && (code = getopt_long(argc, argv, l.letters, l.longs, NULL)) != -1;) {
    int i = place_of(&l, code);
    if (code == '?' && optopt == '?')
      r->help = 1;
    else if (i < 0)
      refuse(&l, code, argv[optind - 1], e);
    else
      take_value(&l, i, r, optarg, e);
    if (r->help || r->usage || r->version) return r;
  }
  if (!e->status) take_words(c, r, argv + optind, argc - optind, e);
  if (!e->status) return r;
  command_free(c, r);
  return NULL;
}

void command_free(const struct command *c, void *request)
{
  const struct command_option *option[MOST_OPTIONS];
  struct request *r = request;
  for (int i = command_options(c, option); i-- > 0;)
    if (option[i]->row.flags & OPTION_MANY) memory_free(words_at(&option[i]->row, r)->word);
  memory_free(r->words.word);
  memory_free(r->setting);
  memory_free(r);
}

struct words words_take(struct words *from, int (*is)(const char *word, int count))
{
  struct words out = {.word = memory_new((size_t)from->count + 1, sizeof(char *))};
  int kept = 0;
  for (int i = 0; i < from->count; i++)
    if (is(from->word[i], kept))
      out.word[out.count++] = from->word[i];
    else
      from->word[kept++] = from->word[i];
  from->count = kept;
  return out;
}
