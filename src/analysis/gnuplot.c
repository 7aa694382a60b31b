/* gnuplot.c - talking to gnuplot */
#include "analysis/gnuplot.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "analysis/share.h"
#include "analysis/table.h"
#include "base/apart.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/text.h"

/* --- variables ----------------------------------------------------------------------------------------- */

/* Between single quotes gnuplot takes all as it stands, but neither a quote at the beginning (gnuplot 5.4) nor a line's
   end, behind which a command would follow. */
static void quote_path(FILE *f, const char *path)
{
  fputc('\'', f);
  for (; *path; path++)
    fprintf(f, (unsigned char)*path < 0x20 || *path == 0x7f || *path == '\'' ? "'.\"\\%03o\".'" : "%c",
            *path);
  fputc('\'', f);
}

/* Texts come out of files that others wrote: a letter that is not UTF-8 would end a title. */
static void quote(FILE *f, const char *text)
{
  char *clean = text_cleaned(text, "");
  quote_path(f, clean);
  memory_free(clean);
}

void gnuplot_text(FILE *f, const char *name, const char *text)
{
  fprintf(f, "%s = ", name);
  quote(f, text);
  fputc('\n', f);
}

const char *gnuplot_value(double value, char out[32])
{
  return table_number(isfinite(value) ? value : NAN, out);
}

void gnuplot_number(FILE *f, const char *name, double value)
{
  char text[32];
  gnuplot_value(value, text);
  fprintf(f, "%s = %s%s\n", name, text, strpbrk(text, ".eN") ? "" : ".0"); /* 1/2 is 0 to gnuplot */
}

void gnuplot_numbers(FILE *f, const char *name, const double *values, int count)
{
  char text[32];
  fprintf(f, "array %s[%d] = [", name, count);
  for (int i = 0; i < count; i++) fprintf(f, "%s%s", i ? ", " : "", gnuplot_value(values[i], text));
  fprintf(f, "]\n");
}

void gnuplot_texts(FILE *f, const char *name, const char *const *texts, int count)
{
  fprintf(f, "array %s[%d] = [", name, count);
  for (int i = 0; i < count; i++) {
    if (i) fputs(", ", f);
    quote(f, texts[i]);
  }
  fprintf(f, "]\n");
}

void gnuplot_tics(FILE *f, const char *name, const char *const *texts, int count)
{
  struct buffer *label = memory_new((size_t)count + 1, sizeof *label);
  const char **text = memory_new((size_t)count + 1, sizeof *text);
  for (int i = 0; i < count; i++) {
    buffer_add(&label[i], "%s", "");
    for (const char *c = texts[i]; *c; c++) buffer_add(&label[i], *c == '%' ? "%%%%" : "%c", *c);
    text[i] = label[i].text;
  }
  gnuplot_texts(f, name, text, count);
  for (int i = 0; i < count; i++) memory_free(label[i].text);
  memory_free(label);
  memory_free(text);
}

void gnuplot_axis(FILE *f, const char *name, const char *quantity, const char *unit)
{
  struct buffer text = {0};
  unit = text_unit(unit);
  buffer_add(&text, "%s%s%s%s", quantity, *unit ? "  (" : "", unit, *unit ? ")" : "");
  gnuplot_text(f, name, text.text);
  memory_free(text.text);
}

/* "lr=0.01" alone: the length of its key, and the number; 0: it is something else. */
static size_t key_of(const struct gnuplot_group *g, double *value)
{
  const char *text = *g->rest ? g->rest + (*g->rest == ' ') : g->kind, *equals = strchr(text, '=');
  char *end;
  if (!equals || equals == text || strchr(text, ' ')) return 0;
  *value = strtod(equals + 1, &end);
  return end == equals + 1 || *end || !isfinite(*value) ? 0 : (size_t)(equals - text);
}

static double shade_of(const struct gnuplot_group *group, int count, int g)
{
  double own, other;
  int alike = 0, below = 0;
  const size_t length = key_of(&group[g], &own);
  for (int i = 0; i < count && length; i++) {
    const int same_place = !*group[i].rest == !*group[g].rest;
    const int same_kind = !*group[g].rest || !strcmp(group[i].kind, group[g].kind);
    if (same_place && same_kind && key_of(&group[i], &other) == length &&
        (*group[g].rest ? !strncmp(group[i].rest, group[g].rest, length + 1)
                        : !strncmp(group[i].kind, group[g].kind, length)))
      alike++, below += other < own;
  }
  return alike < 3 ? NAN : below / (alike - 1.0);
}

void gnuplot_groups(FILE *f, const struct gnuplot_group *group, int count)
{
  enum { TEXTS = 3, NUMBERS = 3 };
  static const char *const names[TEXTS + NUMBERS] = {"kind", "rest", "note", "seeds", "clipped", "shade"};
  const char **text = memory_new(TEXTS * (size_t)count, sizeof *text);
  double *number = memory_new(NUMBERS * (size_t)count, sizeof *number);
  for (int g = 0; g < count; g++) {
    text[g] = group[g].kind, text[count + g] = group[g].rest, text[2 * count + g] = group[g].note;
    number[g] = group[g].seeds, number[count + g] = group[g].clipped;
    number[2 * count + g] = shade_of(group, count, g);
  }
  fprintf(f, "groups = %d\n", count);
  for (int i = 0; i < TEXTS; i++) gnuplot_texts(f, names[i], text + i * count, count);
  for (int i = 0; i < NUMBERS; i++) gnuplot_numbers(f, names[TEXTS + i], number + i * count, count);
  memory_free(text);
  memory_free(number);
}

void extent_see(struct extent *e, double value)
{
  if (!isfinite(value)) return;
  if (!(value >= e->low)) e->low = value;
  if (!(value <= e->high)) e->high = value;
}

void spread_see(struct spread *s, int counts, int logarithmic, double mean, double lo, double hi)
{
  const double numbers[] = {mean, lo, hi};
  for (int i = 0; i < 3; i++) {
    if (!isfinite(mean) || (logarithmic && !(numbers[i] > 0))) continue;
    if (counts) extent_see(i ? &s->edge : &s->value, numbers[i]);
    extent_see(&s->all, numbers[i]);
  }
}

struct extent spread_axis(const struct spread *s, int logarithmic)
{
  struct extent e = s->value, low_high = {NAN, NAN, 0};
  double reach = logarithmic ? fmax(e.high / e.low, 2) : e.high > e.low ? e.high - e.low : INFINITY;
  if (isnan(e.low)) return e;
  low_high.low = logarithmic ? e.low / reach : e.low - reach;
  low_high.high = logarithmic ? e.high * reach : e.high + reach;
  if (s->edge.low < e.low) e.low = fmax(s->edge.low, low_high.low);
  if (s->edge.high > e.high) e.high = fmin(s->edge.high, low_high.high);
  return e;
}

void spread_put(FILE *f, const struct spread *s, const struct extent *axis)
{
  extent_put(f, axis);
  gnuplot_number(f, "all_low", s->all.low);
  gnuplot_number(f, "all_high", s->all.high);
}

void extent_put(FILE *f, const struct extent *e)
{
  gnuplot_number(f, "low", e->low);
  gnuplot_number(f, "high", e->high);
  gnuplot_number(f, "last_of_all", fmax(e->last_step, 1));
}

/* --- scripts and terminals ----------------------------------------------------------------------------- */

int gnuplot_scripts(char out[4096], struct error *error)
{
  return share_folder("plots", "plot scripts", "MAXLOGIT_PLOTS", out, error);
}

static double inches(const char *text, char **end)
{
  static const struct {
    const char *name;
    double inches;
  } units[] = {{"in", 1}, {"cm", 1 / 2.54}, {"mm", 1 / 25.4}, {"pt", 1 / 72.27}};
  double x = strtod(text, end);
  for (size_t i = 0; i < sizeof units / sizeof *units && *end != text; i++)
    if (!strncmp(*end, units[i].name, 2)) {
      *end += 2;
      return x * units[i].inches;
    }
  return NAN;
}

int gnuplot_size(const char *text, struct gnuplot_page *page, struct error *error)
{
  char *end;
  page->width = inches(text, &end), page->height = 0;
  if (!isnan(page->width) && (*end == ',' || *end == 'x')) page->height = inches(end + 1, &end);
  int fits =
    page->width >= 1 && page->width <= 60 && page->height <= 60 && (page->height >= 1 || !page->height);
  return fits && !*end
           ? STATUS_OK
           : error_set(error, STATUS_USAGE,
                       "--size=%s: a width as 3.3in, or width and height as 3.3in,2.5in, is wanted, from "
                       "1 to 60 inches (also cm, mm, pt)",
                       text);
}

void gnuplot_terminal(FILE *f, const char *scripts, const char *term, const char *out,
                      const struct gnuplot_page *page)
{
  fputs("plots = ", f), quote_path(f, scripts);
  fputs("\nout = ", f), quote_path(f, out), fputc('\n', f);
  gnuplot_text(f, "term", term);
  if (!page) return;
  gnuplot_number(f, "page_width", page->width);
  gnuplot_number(f, "page_height", page->height);
  gnuplot_text(f, "page_font", page->font ? page->font : "");
  fprintf(f, "page_title = %d\n", !page->no_title);
}

/* --- running ------------------------------------------------------------------------------------------- */

FILE *gnuplot_file(struct error *error)
{
  int fd = platform_memory_file();
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w+");
  if (!f) error_set(error, STATUS_FAIL, "no file in memory: %s", strerror(errno));
  return f;
}

char *gnuplot_whole(FILE *f, size_t *length)
{
  struct stat info = {.st_size = 0};
  rewind(f); /* text that is still buffered counts, too */
  fstat(fileno(f), &info);
  char *text = memory_new((size_t)info.st_size + 1, 1);
  *length = fread(text, 1, (size_t)info.st_size, f);
  return text;
}

/* That a curve has no point (of a head whose logits are all below zero, on a logarithmic axis) is usual. */
static int complains(const char *text)
{
  static const char harmless[] = "warning: Skipping data file with no valid points";
  for (size_t length; *text; text += length + (text[length] == '\n')) {
    length = strcspn(text, "\n");
    if (strspn(text, " \t") < length && !memmem(text, length, harmless, sizeof harmless - 1)) return 1;
  }
  return 0;
}

static int call(FILE *script, FILE *output, FILE *complaints, struct error *error)
{
  /* -d: no start-up files; nor fonts that the user's home folder names */
  static const char *const command[] = {"HOME=/nonexistent", "gnuplot", "-d", "-", NULL};
  size_t length;
  rewind(script);
  int status = STATUS_OK;
  int exit_status = program_wait(program_start(command, fileno(script), fileno(output), fileno(complaints)));
  if (exit_status < 0) return error_set(error, STATUS_FAIL, "gnuplot cannot be started: %s", strerror(errno));
  if (exit_status == 127)
    return error_set(error, STATUS_FAIL, "gnuplot is not installed (on Debian: apt install gnuplot-nox)");
  char *text = gnuplot_whole(complaints, &length);
  if (exit_status == 0) {
    if (complains(text)) message("gnuplot warns: %.*s", (int)(length - (text[length - 1] == '\n')), text);
  } else
    status = error_set(error, STATUS_FAIL, "gnuplot: %s",
                       exit_status > 128 ? strsignal(exit_status - 128)
                       : *text           ? text
                                         : "it failed, and does not say why");
  memory_free(text);
  return status;
}

int gnuplot_run(FILE *script, char **drawn, size_t *length, struct error *error)
{
  FILE *output = gnuplot_file(error), *complaints = gnuplot_file(error);
  int status = output && complaints ? call(script, output, complaints, error) : error->status;
  *drawn = status ? NULL : gnuplot_whole(output, length);
  if (*drawn && !*length) {
    status = error_set(error, STATUS_FAIL, "gnuplot: it has drawn nothing");
    memory_free(*drawn);
    *drawn = NULL;
  }
  if (output) fclose(output);
  if (complaints) fclose(complaints);
  return status;
}
