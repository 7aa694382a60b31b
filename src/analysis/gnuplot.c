/* gnuplot.c - talking to gnuplot */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "analysis/gnuplot.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "analysis/share.h"
#include "analysis/table.h"
#include "base/apart.h"
#include "base/file.h"
#include "base/memory.h"
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

void gnuplot_groups(FILE *f, const struct gnuplot_group *group, int count)
{
  enum { TEXTS = 3, NUMBERS = 2 };
  static const char *const names[TEXTS + NUMBERS] = {"kind", "rest", "note", "seeds", "clipped"};
  const char **text = memory_new(TEXTS * (size_t)count, sizeof *text);
  double *number = memory_new(NUMBERS * (size_t)count, sizeof *number);
  for (int g = 0; g < count; g++) {
    text[g] = group[g].kind, text[count + g] = group[g].rest, text[2 * count + g] = group[g].note;
    number[g] = group[g].seeds, number[count + g] = group[g].clipped;
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

void extent_put(FILE *f, const struct extent *e)
{
  gnuplot_number(f, "low", e->low);
  gnuplot_number(f, "high", e->high);
  gnuplot_number(f, "last_of_all", fmax(e->last_step, 1));
}

/* --- scripts and terminals ----------------------------------------------------------------------------- */

int gnuplot_scripts(const char *asked, char out[4096], struct error *error)
{
  return share_folder("plots", "plot scripts", "MAXLOGIT_PLOTS", asked, out, error);
}

static int size_from(const char *variable, int otherwise)
{
  const char *text = getenv(variable);
  long n = text ? strtol(text, NULL, 10) : 0;
  return n >= 40 && n <= 1000 ? (int)n : otherwise;
}

void gnuplot_terminal(FILE *f, const char *scripts, const char *term, const char *out)
{
  struct winsize size = {0};
  int tty = isatty(STDOUT_FILENO), known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40;
  if (strcmp(term, "dumb") == 0 && tty && !getenv("NO_COLOR")) term = "dumbansi";
  fputs("plots = ", f), quote_path(f, scripts);
  fputs("\nout = ", f), quote_path(f, out), fputc('\n', f);
  gnuplot_text(f, "term", term);
  fprintf(f, "columns = %d\nrows = %d\n", known ? size.ws_col - 1 : size_from("COLUMNS", 100),
          known && size.ws_row > 20 ? size.ws_row - 2 : 32);
}

/* --- running ------------------------------------------------------------------------------------------- */

FILE *gnuplot_file(struct error *error)
{
  int fd = memfd_create("maxlogit", MFD_CLOEXEC);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w+");
  if (!f) error_set(error, STATUS_FAIL, "no file in memory: %s", strerror(errno));
  return f;
}

/* All of such a file in new memory, a NUL behind it. */
static char *whole(FILE *f, size_t *length)
{
  struct stat info = {.st_size = 0};
  fstat(fileno(f), &info);
  char *text = memory_new((size_t)info.st_size + 1, 1);
  rewind(f);
  *length = fread(text, 1, (size_t)info.st_size, f);
  return text;
}

/* That a curve has no point (of a head whose logits are all below zero, on a logarithmic axis) is no failure. */
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
  char *text = whole(complaints, &length);
  if (exit_status != 0 || complains(text))
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
  *drawn = status ? NULL : whole(output, length);
  if (*drawn && !*length) status = error_set(error, STATUS_FAIL, "gnuplot: it has drawn nothing");
  if (output) fclose(output);
  if (complaints) fclose(complaints);
  return status;
}
