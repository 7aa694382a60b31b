/* chart.c - a curve drawn with characters */
#include "app/chart.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"

enum { MARGIN = 10 }; /* for the numbers on the left */

struct canvas {
  int wide, high;
  unsigned char *dot;
}; /* in dots */

static double height_of(const struct chart *c, long i)
{
  double y = c->y[i];
  if (c->log_scale) y = y > 0 ? log10(y) : NAN;
  return isfinite(y) ? y : NAN;
}

static void set_dot(struct canvas *v, int x, int y)
{
  if (x >= 0 && x < v->wide && y >= 0 && y < v->high) v->dot[y * v->wide + x] = 1;
}

/* All dots of one column between two heights, so that a spike of one step is a line. */
static void draw_curve(const struct chart *c, struct canvas *v, double low, double high)
{
  double first = c->x[0], span = c->x[c->count - 1] - first;
  int before = -1;
  for (long i = 0; i < c->count; i++) {
    double y = height_of(c, i);
    if (isnan(y)) {
      before = -1;
      continue;
    }
    int column = span > 0 ? (int)((c->x[i] - first) / span * (v->wide - 1)) : 0;
    int row = (int)lround((high - y) / (high - low) * (v->high - 1));
    int from = before < 0 ? row : before;
    for (int r = from; r != row; r += row > from ? 1 : -1) set_dot(v, column, r);
    set_dot(v, column, row);
    before = row;
  }
}

/* The braille character of the 2 x 4 dots of a cell: U+2800 plus a bit a dot. */
static void add_braille(struct buffer *b, const struct canvas *v, int column, int row)
{
  static const int bit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  int code = 0;
  for (int y = 0; y < 4; y++)
    for (int x = 0; x < 2; x++)
      if (v->dot[(4 * row + y) * v->wide + 2 * column + x]) code |= bit[y][x];
  if (code)
    buffer_add(b, "\342%c%c", 0xA0 + (code >> 6), 0x80 + (code & 63));
  else
    buffer_add(b, " ");
}

static void add_row(struct buffer *b, const struct chart *c, const struct canvas *v, int row, int columns)
{
  for (int column = 0; column < columns; column++)
    if (c->utf8)
      add_braille(b, v, column, row);
    else
      buffer_add(b, "%c", v->dot[row * v->wide + column] ? '*' : ' ');
}

static void add_number(struct buffer *b, const struct chart *c, double height)
{
  buffer_add(b, "%*.4g ", MARGIN - 1, c->log_scale ? pow(10, height) : height);
}

void chart_draw(struct buffer *b, const struct chart *c)
{
  int columns = c->columns - MARGIN - 1, rows = c->rows - 2;
  double low = NAN, high = NAN;
  for (long i = 0; i < c->count; i++) {
    double y = height_of(c, i);
    low = fmin(low, y);
    high = fmax(high, y);
  }
  buffer_add(b, "%*s%s\n", MARGIN, "", c->title);
  if (columns < 8 || rows < 2 || isnan(low)) return;
  if (!(high > low)) high += 0.5, low -= 0.5;
  struct canvas v = {.wide = columns * (c->utf8 ? 2 : 1), .high = rows * (c->utf8 ? 4 : 1)};
  v.dot = memory_new((size_t)v.wide * (size_t)v.high, 1);
  draw_curve(c, &v, low, high);
  for (int row = 0; row < rows; row++) {
    if (row == 0)
      add_number(b, c, high);
    else if (row == rows - 1)
      add_number(b, c, low);
    else
      buffer_add(b, "%*s", MARGIN, "");
    buffer_add(b, c->utf8 ? "\342\224\202" : "|");
    add_row(b, c, &v, row, columns);
    buffer_add(b, "\n");
  }
  char first[32], last[32];
  snprintf(first, sizeof first, "%.0f", c->x[0]);
  snprintf(last, sizeof last, "%.0f", c->x[c->count - 1]);
  buffer_add(b, "%*s%s%*s\n", MARGIN + 1, "", first, columns - (int)strlen(first), last);
  memory_free(v.dot);
}
