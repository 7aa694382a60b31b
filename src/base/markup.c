/* markup.c - escapes texts for HTML, shells and tables */
#include "base/markup.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"

static void add_escaped(struct buffer *b, const char *text)
{
  char *clean = text_cleaned(text, "\n");
  for (const char *c = clean; *c; c++) switch (*c) {
    case '<': buffer_add(b, "&lt;"); break;
    case '>': buffer_add(b, "&gt;"); break;
    case '&': buffer_add(b, "&amp;"); break;
    case '"': buffer_add(b, "&quot;"); break;
    case '\'': buffer_add(b, "&#39;"); break;
    default: buffer_add(b, "%c", *c);
    }
  memory_free(clean);
}

/* Add one conversion of the format, with its argument. */
static void add_conversion(struct buffer *b, const char *conversion, va_list *arguments)
{
  size_t length = strlen(conversion);
  int is_long = length > 2 && conversion[length - 2] == 'l';
  char text[512]; /* the largest double has 309 digits before its point */
  switch (conversion[length - 1]) {
  case 's': add_escaped(b, va_arg(*arguments, const char *)); return;
  case '%': buffer_add(b, "%%"); return;
  case 'd':
    if (is_long)
      snprintf(text, sizeof text, "%ld", va_arg(*arguments, long));
    else
      snprintf(text, sizeof text, "%d", va_arg(*arguments, int));
    break;
  case 'g':
  case 'f':
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
  "-Wformat-nonliteral" /* the compiler has checked the format that it is part of */
    snprintf(text, sizeof text, conversion, va_arg(*arguments, double));
#pragma GCC diagnostic pop
    break;
  default: BUG("%s in markup", conversion);
  }
  add_escaped(b, text);
}

void markup_add(struct buffer *b, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  while (*format) {
    size_t plain = strcspn(format, "%");
    buffer_add(b, "%.*s", (int)plain, format);
    format += plain;
    if (!*format) break;
    char conversion[16];
    size_t length = strcspn(format + 1, "%sdgf") + 2;
    REQUIRE(length < sizeof conversion && format[length - 1]);
    memcpy(conversion, format, length);
    conversion[length] = 0;
    add_conversion(b, conversion, &arguments);
    format += length;
  }
  va_end(arguments);
}

void markdown_add(struct buffer *b, const char *text)
{
  char *clean = text_cleaned(text, "");
  for (const char *c = clean; *c; c++) {
    const char *plain = *c == '<'   ? "&lt;"
                        : *c == '>' ? "&gt;"
                        : *c == '&' ? "&amp;"
                        : *c == '`' ? "'"
                                    : NULL;
    if (plain)
      buffer_add(b, "%s", plain);
    else
      buffer_add(b, strchr("\\|[]", *c) ? "\\%c" : "%c", *c);
  }
  memory_free(clean);
}

void shell_add(struct buffer *b, const char *word)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=+,-%@";
  char *clean = text_cleaned(word, "");
  int is_plain = *clean && strspn(clean, plain) == strlen(clean);
  if (!is_plain) buffer_add(b, "'");
  for (const char *c = clean; *c; c++) buffer_add(b, *c == '\'' ? "'\\''" : "%c", *c);
  if (!is_plain) buffer_add(b, "'");
  memory_free(clean);
}

char *shell_word(const char *text)
{
  struct buffer b = {0};
  shell_add(&b, text);
  return b.text;
}

static int is_number(const char *text)
{
  char *end;
  strtod(text, &end);
  return end > text && !*end;
}

void cell_add(struct buffer *b, const char *text, char separator)
{
  char *clean = text_cleaned(text, separator == ',' ? "\n" : "");
  int quoted = separator == ',' && strpbrk(clean, ",\"\n") != NULL;
  int is_formula = separator != ' ' && *clean && strchr("=+-@", *clean) && !is_number(clean);
  buffer_add(b, "%s%s", quoted ? "\"" : "", is_formula ? "'" : "");
  for (const char *c = clean; *c; c++) buffer_add(b, quoted && *c == '"' ? "\"\"" : "%c", *c);
  if (quoted) buffer_add(b, "\"");
  memory_free(clean);
}

/* --- pages ----------------------------------------------------------------------------------------------- */

int page_may_replace(const char *folder, const char *title, const char *const *names, struct error *e)
{
  char path[4200], element[128], *text = NULL;
  size_t length;
  struct error ignored = {0};
  snprintf(path, sizeof path, "%s/index.html", folder);
  snprintf(element, sizeof element, "<title>%s</title>", title);
  const int is_ours = !file_read(path, &text, &length, &ignored) && strstr(text, element);
  memory_free(text);
  for (const char *const *name = names; *name && !is_ours; name++) {
    const char *slash = strchr(*name, '/');
    struct stat info;
    snprintf(path, sizeof path, "%s/%.*s", folder, slash ? (int)(slash - *name) : 4096, *name);
    if (slash && (lstat(path, &info) || S_ISLNK(info.st_mode)))
      continue; /* a folder that is a link is refused later */
    snprintf(path, sizeof path, "%s/%s", folder, *name);
    if (!lstat(path, &info) && !S_ISLNK(info.st_mode)) /* a link is replaced, not followed */
      return error_set(
        e, STATUS_USAGE,
        "%s exists, and %s/index.html is not a page with the title '%s': write into another folder", path,
        folder, title);
  }
  return STATUS_OK;
}
