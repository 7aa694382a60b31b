/* table.c - columns over steps */
#include "analysis/table.h"
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/number.h"
#include "base/markup.h"

void table_new(struct table *t, long rows, int columns)
{
  *t = (struct table){.rows = rows, .columns = columns};
  t->step = memory_new((size_t)rows + 1, sizeof *t->step);
  t->value = memory_new((size_t)rows * (size_t)columns + 1, sizeof *t->value);
  t->column = memory_new((size_t)columns + 1, sizeof *t->column);
}

void table_free(struct table *t)
{
  memory_free(t->step);
  memory_free(t->value);
  memory_free(t->column);
  *t = (struct table){0};
}

static double *row_of(const struct table *t, long row) { return t->value + row * t->columns; }

void series_value_name(const struct run_series *s, long i, char *out, size_t room)
{
  if (s->shape == PER_HEAD || s->shape == PER_EXPERT)
    snprintf(out, room, "l%ld%c%ld", i / s->heads, s->shape == PER_HEAD ? 'h' : 'e', i % s->heads);
  else if (s->shape == PER_LAYER)
    snprintf(out, room, "l%ld", i);
  else if (s->shape == PER_TENSOR)
    snprintf(out, room, "%s", s->labels[i]);
  else
    snprintf(out, room, "%s", s->name);
}

static int series_has(const struct run_series *s, long i, int layer, int head)
{
  if (s->shape == PER_HEAD || s->shape == PER_EXPERT)
    return (layer < 0 || i / s->heads == layer) && (head < 0 || i % s->heads == head);
  if (s->shape == PER_LAYER) return layer < 0 || i == layer;
  return 1;
}

void table_from_series(struct table *t, const struct run_series *s, int prefix, int layer, int head)
{
  long *from = memory_new((size_t)s->width + 1, sizeof *from);
  int columns = 0;
  for (long i = 0; i < s->width; i++)
    if (series_has(s, i, layer, head)) from[columns++] = i;
  table_new(t, s->rows, columns);
  for (int c = 0; c < columns; c++) {
    char name[96];
    series_value_name(s, from[c], name, sizeof name);
    if (prefix && s->shape != PER_STEP)
      snprintf(t->column[c].name, sizeof t->column[c].name, "%.60s:%.64s", s->name, name);
    else
      snprintf(t->column[c].name, sizeof t->column[c].name, "%s", name);
    for (long r = 0; r < s->rows; r++) row_of(t, r)[c] = s->value[r * s->width + from[c]];
  }
  memcpy(t->step, s->step, (size_t)s->rows * sizeof *t->step);
  memory_free(from);
}

/* The union of two increasing lists of steps; returns its length. */
static long merge_steps(const double *a, long na, const double *b, long nb, double *out)
{
  long i = 0, j = 0, n = 0;
  while (i < na || j < nb) {
    double step = j >= nb || (i < na && a[i] <= b[j]) ? a[i] : b[j];
    if (i < na && a[i] == step) i++;
    if (j < nb && b[j] == step) j++;
    out[n++] = step;
  }
  return n;
}

static void copy_columns(struct table *to, int first, const struct table *from)
{
  long k = 0;
  for (int c = 0; c < from->columns; c++) to->column[first + c] = from->column[c];
  for (long r = 0; r < to->rows; r++) {
    int here = k < from->rows && from->step[k] == to->step[r];
    for (int c = 0; c < from->columns; c++)
      row_of(to, r)[first + c] = here ? row_of(from, k)[c] : missing_value();
    k += here;
  }
}

void table_join(struct table *t, const struct table *more)
{
  struct table out;
  table_new(&out, t->rows + more->rows, t->columns + more->columns);
  out.rows = merge_steps(t->step, t->rows, more->step, more->rows, out.step);
  copy_columns(&out, 0, t);
  copy_columns(&out, t->columns, more);
  table_free(t);
  *t = out;
}

int table_keep(struct table *t, const char *pattern)
{
  struct table out;
  int kept = 0, *from = memory_new((size_t)t->columns + 1, sizeof *from);
  for (int c = 0; c < t->columns; c++)
    if (!fnmatch(pattern, t->column[c].name, 0)) from[kept++] = c;
  if (kept) {
    table_new(&out, t->rows, kept);
    memcpy(out.step, t->step, (size_t)t->rows * sizeof *t->step);
    for (int c = 0; c < kept; c++) {
      out.column[c] = t->column[from[c]];
      for (long r = 0; r < t->rows; r++) row_of(&out, r)[c] = row_of(t, r)[from[c]];
    }
    table_free(t);
    *t = out;
  }
  memory_free(from);
  return kept;
}

static void table_reduce(struct table *t, const char *name, double (*reduce)(const double *, int))
{
  struct table out;
  table_new(&out, t->rows, 1);
  snprintf(out.column[0].name, sizeof out.column[0].name, "%s", name);
  for (long r = 0; r < t->rows; r++) {
    out.step[r] = t->step[r];
    out.value[r] = reduce(row_of(t, r), t->columns);
  }
  table_free(t);
  *t = out;
}

static double largest(const double *x, int n)
{
  double m = missing_value();
  for (int i = 0; i < n; i++) m = max_known(m, x[i]);
  return m;
}

static double mean(const double *x, int n)
{
  double sum = 0;
  int known = 0;
  for (int i = 0; i < n; i++)
    if (!is_missing(x[i])) sum += x[i], known++;
  return known ? sum / known : missing_value();
}

void table_reduce_max(struct table *t, const char *name) { table_reduce(t, name, largest); }
void table_reduce_mean(struct table *t, const char *name) { table_reduce(t, name, mean); }

void table_keep_steps(struct table *t, long n, double first, double last)
{
  long kept = 0;
  for (long r = 0; r < t->rows; r++) {
    if (t->step[r] < first || t->step[r] > last || (n && fmod(t->step[r], (double)n) != 0)) continue;
    t->step[kept] = t->step[r];
    memmove(row_of(t, kept), row_of(t, r), (size_t)t->columns * sizeof *t->value);
    kept++;
  }
  t->rows = kept;
}

/* One column of rows [first, last]: the two values that stand for it. */
static void bin_values(const struct table *t, int column, long first, long last, double out[2])
{
  long low = first, high = first;
  while (first < last && is_missing(row_of(t, first)[column])) low = high = ++first;
  for (long r = first; r <= last; r++) {
    double x = row_of(t, r)[column];
    if (is_missing(x) && r > first) continue;
    if (x < row_of(t, low)[column]) low = r;
    if (x > row_of(t, high)[column]) high = r;
    if (isnan(x)) {
      out[0] = out[1] = x; /* missing, where all are */
      return;
    }
  }
  double smallest = row_of(t, low)[column], greatest = row_of(t, high)[column];
  switch (t->column[column].kind) {
  case COLUMN_LOW: out[0] = out[1] = smallest; break;
  case COLUMN_HIGH: out[0] = out[1] = greatest; break;
  default: out[0] = low < high ? smallest : greatest; out[1] = low < high ? greatest : smallest;
  }
}

static void bin_rows(const struct table *t, long first, long last, struct table *out)
{
  const int rows = first == last ? 1 : 2;
  for (int i = 0; i < rows; i++) out->step[out->rows + i] = t->step[i ? last : first];
  for (int c = 0; c < t->columns; c++) {
    double pair[2];
    bin_values(t, c, first, last, pair);
    for (int i = 0; i < rows; i++) row_of(out, out->rows + i)[c] = pair[i];
  }
  out->rows += rows;
}

/* The interval of a step. Rounding may give the last step the number of an interval that does not exist. */
static double bin_of(double steps, double width, long bins)
{
  return fmin(floor(steps / width), (double)(bins - 1));
}

void table_bins(struct table *t, long bins)
{
  if (bins < 1 || bins >= (t->rows - 1) / 2) return; /* there are two rows per interval, and the ends */
  struct table out;
  table_new(&out, 2 * bins + 2, t->columns);
  memcpy(out.column, t->column, (size_t)t->columns * sizeof *t->column);
  out.rows = 0;
  bin_rows(t, 0, 0, &out);
  double begin = t->step[1], width = (t->step[t->rows - 2] - begin + 1) / (double)bins;
  for (long first = 1, last; first < t->rows - 1; first = last + 1) {
    const double bin = bin_of(t->step[first] - begin, width, bins);
    for (last = first; last + 1 < t->rows - 1 && bin_of(t->step[last + 1] - begin, width, bins) == bin;)
      last++;
    bin_rows(t, first, last, &out);
  }
  bin_rows(t, t->rows - 1, t->rows - 1, &out);
  table_free(t);
  *t = out;
}

void table_means(struct table *t, long bins)
{
  if (bins < 1 || t->rows <= bins) return;
  for (long b = 0; b < bins; b++) {
    long first = b * t->rows / bins, last = (b + 1) * t->rows / bins;
    t->step[b] = mean(t->step + first, (int)(last - first));
    for (int c = 0; c < t->columns; c++) {
      double sum = 0;
      long known = 0;
      for (long r = first; r < last; r++)
        if (!is_missing(row_of(t, r)[c])) sum += row_of(t, r)[c], known++;
      row_of(t, b)[c] = known ? sum / (double)known : missing_value();
    }
  }
  t->rows = bins;
}

static void band_columns(struct table *out, const struct table *run)
{
  snprintf(out->column[0].name, sizeof out->column[0].name, "n");
  out->column[0].kind = COLUMN_LOW;
  for (int c = 0; c < run->columns; c++) {
    static const char *const alone[] = {"mean", "lo", "hi"}, *const suffix[] = {"", ":lo", ":hi"};
    static const enum column_kind kind[] = {COLUMN_EXTREMES, COLUMN_LOW, COLUMN_HIGH};
    for (int k = 0; k < 3; k++) {
      struct column *column = &out->column[1 + 3 * c + k];
      column->kind = kind[k];
      if (run->columns == 1)
        snprintf(column->name, sizeof column->name, "%s", alone[k]);
      else
        snprintf(column->name, sizeof column->name, "%.120s%s", run->column[c].name, suffix[k]);
    }
  }
}

int table_columns_agree(const struct table *a, const struct table *b)
{
  int same = a->columns == b->columns;
  for (int c = 0; same && c < a->columns; c++) same = strcmp(a->column[c].name, b->column[c].name) == 0;
  return same;
}

/* Rows of a run in which a column has a value: the last one before a step, and the first one from it on. */
struct neighbors {
  long before, next;
};

/* A run's value at a step: between two rows with values, that of a line. Missing before the first of them and behind
   the last. Steps grow from call to call. */
static double value_at(const struct table *run, struct neighbors *at, double step, int c)
{
  for (; at->next < run->rows; at->next++) {
    const int has = !is_missing(row_of(run, at->next)[c]);
    if (has && run->step[at->next] >= step) break;
    if (has) at->before = at->next;
  }
  if (at->next == run->rows) return missing_value();
  const double to = row_of(run, at->next)[c];
  if (run->step[at->next] == step) return to;
  if (at->before < 0 || !isfinite(to) || !isfinite(row_of(run, at->before)[c])) return missing_value();
  const double from = row_of(run, at->before)[c], begin = run->step[at->before];
  return from + (to - from) * ((step - begin) / (run->step[at->next] - begin));
}

void table_band(struct table *out, const struct table *runs, int count, int geometric)
{
  long rows = 0, *next = memory_new((size_t)count, sizeof *next);
  double *x = memory_new((size_t)count, sizeof *x);
  const size_t cells = (size_t)count * (size_t)runs[0].columns;
  struct neighbors *at = memory_new(cells + 1, sizeof *at);
  for (size_t k = 0; k < cells; k++) at[k].before = -1;
  for (int i = 0; i < count; i++) rows += runs[i].rows;
  table_new(out, rows, 1 + 3 * runs[0].columns);
  band_columns(out, &runs[0]);
  for (out->rows = 0;; out->rows++) {
    double step = INFINITY;
    for (int i = 0; i < count; i++)
      if (next[i] < runs[i].rows) step = fmin(step, runs[i].step[next[i]]);
    if (isinf(step)) break;
    double *row = row_of(out, out->rows);
    out->step[out->rows] = step;
    for (int c = 0; c < runs[0].columns; c++) {
      int n = 0;
      for (int i = 0; i < count; i++) {
        if (c >= runs[i].columns) continue;
        x[n] = value_at(&runs[i], &at[i * runs[0].columns + c], step, c);
        n += !is_missing(x[n]);
      }
      struct interval interval = interval_of(x, n, geometric);
      row[0] = fmax(row[0], n);
      row[1 + 3 * c] = n ? interval.mean : missing_value();
      row[2 + 3 * c] = n ? interval.lo : missing_value();
      row[3 + 3 * c] = n ? interval.hi : missing_value();
    }
    for (int i = 0; i < count; i++)
      if (next[i] < runs[i].rows && runs[i].step[next[i]] == step) next[i]++;
  }
  memory_free(at);
  memory_free(x);
  memory_free(next);
}

const char *table_number(double value, char out[32])
{
  if (isnan(value))
    snprintf(out, 32, "NaN");
  else if (value == rint(value) && fabs(value) <= 0x1p53)
    snprintf(out, 32, "%.0f", value);
  else if ((double)(float)value != value || isinf(value))
    text_number(value, out);
  else
    for (int digits = 1; digits <= 9; digits++) {
      snprintf(out, 32, "%.*g", digits, value);
      if (strtof(out, NULL) == (float)value) break;
    }
  return out;
}

static char separator_of(enum table_format format)
{
  return format == TABLE_CSV ? ',' : format == TABLE_TSV ? '\t' : ' ';
}

void table_write_text(FILE *f, enum table_format format, const char *text)
{
  struct buffer cell = {0};
  cell_add(&cell, text, separator_of(format));
  fputs(cell.text ? cell.text : "", f);
  memory_free(cell.text);
}

void table_write_header(FILE *f, const struct table *t, enum table_format format, const char *extra)
{
  char separator = separator_of(format);
  fprintf(f, "%sstep", format == TABLE_COLUMNS ? "# " : "");
  if (extra) fputc(separator, f), table_write_text(f, format, extra);
  for (int c = 0; c < t->columns; c++) fputc(separator, f), table_write_text(f, format, t->column[c].name);
  fputc('\n', f);
}

void table_write_rows(FILE *f, const struct table *t, enum table_format format, const char *extra)
{
  char separator = separator_of(format), text[32];
  for (long r = 0; r < t->rows && !ferror(f); r++) {
    fputs(table_number(t->step[r], text), f);
    if (extra) fputc(separator, f), table_write_text(f, format, extra);
    for (int c = 0; c < t->columns; c++) {
      const double x = row_of(t, r)[c];
      fprintf(f, "%c%s", separator, is_missing(x) && format != TABLE_COLUMNS ? "" : table_number(x, text));
    }
    fputc('\n', f);
  }
}
