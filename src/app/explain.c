/* explain.c - --help and --usage of a command, from its rows; the manual and completions are made of them */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "app/command.h"
#include "base/memory.h"

enum { MARGIN = 29 }; /* where the options' help begins */

static int width_of_page(void)
{
  const char *columns = getenv("COLUMNS");
  long width = columns ? strtol(columns, NULL, 10) : 0;
  return width > MARGIN + 20 ? (int)width - 1 : 79;
}

/* Words of a text, from column `at` on, in lines that begin at `margin`; its own lines stay. */
static void fill(const char *text, int at, int margin)
{
  int width = width_of_page(), blank = 0;
  while (*text) {
    int length = (int)strcspn(text, " \n");
    if (at + blank + length > width && at > margin) at = printf("\n%*s", margin, "") - 1, blank = 0;
    at += printf("%*s%.*s", blank, "", length, text);
    for (text += length, blank = 0; *text == ' '; text++) blank++;
    if (*text == '\n') at = printf("\n%*s", text[1] ? margin : 0, "") - 1, text++;
  }
  printf("\n");
}

/* "=DIR", "[=columns|csv]" where it may be left out, or nothing. */
static void add_argument(struct buffer *b, const struct command_option *o)
{
  if (o->row.type == OPTION_BOOL) return;
  buffer_add(b, "%s=%s", o->alone ? "[" : "", o->argument ? o->argument : "");
  for (const char *const *c = o->argument ? NULL : o->row.choices; c && *c; c++)
    buffer_add(b, "%s%s", c == o->row.choices ? "" : "|", *c);
  if (o->alone) buffer_add(b, "]");
}

/* " (1 to 1024; default 3)": the range of a number, and the default. */
static void add_facts(struct buffer *b, const struct option_row *row)
{
  char range[80];
  const char *standard = row->standard && row->type != OPTION_BOOL ? row->standard : "";
  int number = row->type == OPTION_INT || row->type == OPTION_REAL;
  if (number) {
    double value = strtod(standard, NULL);
    if (value < row->min || value > row->max) standard = "";
    option_allowed(row, range, sizeof range);
  }
  if (number || *standard)
    buffer_add(b, " (%s%s%s%s)", number ? range : "", number && *standard ? "; " : "",
               *standard ? "default " : "", standard);
}

static void explain_option(const struct command_option *o)
{
  char name[OPTION_NAME];
  struct buffer head = {0}, help = {0};
  command_option_name(o, name);
  if (o->letter) buffer_add(&head, "  -%c,", o->letter);
  buffer_add(&head, "%*s--%s", o->letter ? 1 : 6, "", name);
  add_argument(&head, o);
  buffer_add(&help, "%s", o->row.help);
  if (o->tell) o->tell(&help);
  add_facts(&help, &o->row);
  int at = printf("%s", head.text);
  if (at > MARGIN - 2) at = printf("\n") - 1;
  printf("%*s", MARGIN - at, "");
  fill(help.text, MARGIN, MARGIN);
  memory_free(head.text);
  memory_free(help.text);
}

static void explain_words(const struct command *c)
{
  const char *between = "Usage:";
  for (const char *form = c->arguments; form; between = "  or: ") {
    int length = (int)strcspn(form, "\n");
    printf("%s maxlogit %s [OPTION...] %.*s\n", between, c->name, length, form);
    form = form[length] ? form + length + 1 : NULL;
  }
}

static void explain_usage(const struct command *c)
{
  const struct command_option *option[MOST_OPTIONS];
  struct buffer b = {0};
  int count = command_options(c, option);
  buffer_add(&b, "maxlogit %s", c->name);
  for (int i = 0; i < count; i++) {
    char name[OPTION_NAME];
    command_option_name(option[i], name);
    buffer_add(&b, " [--%s", name);
    add_argument(&b, option[i]);
    buffer_add(&b, "]");
  }
  buffer_add(&b, " %s", c->arguments);
  printf("Usage: ");
  fill(b.text, 7, 12);
  memory_free(b.text);
}

void command_explain(const struct command *c, int usage)
{
  const struct command_option *option[MOST_OPTIONS];
  struct buffer more = {0};
  if (usage) {
    explain_usage(c);
    return;
  }
  explain_words(c);
  fill(c->about, 0, 0);
  int count = command_options(c, option);
  for (int i = 0; i < count; i++) {
    if (i == 0) printf("\n");
    if (option[i] == c->shared) printf("\n Which runs:\n");
    explain_option(option[i]);
  }
  if (c->more) buffer_add(&more, "%s", c->more);
  if (c->tell) c->tell(&more);
  if (!more.text) return;
  printf("\n");
  fill(more.text, 0, 0);
  memory_free(more.text);
}
