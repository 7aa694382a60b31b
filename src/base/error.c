/* error.c - errors as return values, and messages on standard error */
#include "base/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"

/* A text from outside in a message, for example a file's name, must not control a terminal or look like a separate
   message. So further lines of a message must be indented, and other line ends become blanks. */
static void make_message(char *text, size_t room)
{
  size_t length = strlen(text);
  while (length && text[length - 1] == '\n') text[--length] = 0;
  for (char *c = text; *c; c++)
    if (*c == '\n' && strncmp(c + 1, "  ", 2) != 0) *c = ' ';
  text_clean(text, room, "\n");
}

int error_set(struct error *e, int status, const char *format, ...)
{
  if (e && !e->status) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(e->text, sizeof e->text, format, arguments);
    va_end(arguments);
    make_message(e->text, sizeof e->text);
    e->status = status;
  }
  return status;
}

int error_prefix(struct error *e, const char *format, ...)
{
  char place[sizeof e->text], old[sizeof e->text];
  va_list arguments;
  if (!e) return STATUS_FAIL;
  va_start(arguments, format);
  vsnprintf(place, sizeof place, format, arguments);
  va_end(arguments);
  memcpy(old, e->text, sizeof old);
  size_t room = sizeof e->text;
  int used = snprintf(e->text, room, "%s: ", place);
  if (used >= 0 && (size_t)used < room) memcpy(e->text + used, old, room - (size_t)used);
  e->text[room - 1] = 0;
  make_message(e->text, room);
  return e->status;
}

void bug(const char *file, int line, const char *format, ...)
{
  char text[4096];
  va_list arguments;
  fflush(stdout);
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  make_message(text, sizeof text);
  fprintf(stderr, "maxlogit: bug at %s:%d: %s\n", file, line, text);
  abort();
}

static int (*taker)(const char *line);
void messages_to(int (*take)(const char *line)) { taker = take; }

/* Uses one write, so that lines of several processes do not mix. */
static void say(const char *prefix, const char *format, va_list arguments)
{
  char line[4096];
  int n = snprintf(line, sizeof line, "%s", prefix);
  vsnprintf(line + n, sizeof line - (size_t)n, format, arguments);
  make_message(line, sizeof line);
  if (taker && !taker(line + strlen("maxlogit: "))) return;
  fprintf(stderr, "%s\n", line);
}

void message(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  say("maxlogit: ", format, arguments);
  va_end(arguments);
}

void warning(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  say("maxlogit: warning: ", format, arguments);
  va_end(arguments);
}
