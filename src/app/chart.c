/* chart.c - curves and maps drawn with characters, on a page of cells */
#include "app/chart.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"

enum { MARGIN = 10, NARROW = 40, NARROW_MARGIN = 7, LETTER_EVERY = 24, ASCII = 128 };

enum layer { NOTHING, BAND, LINE, TEXT }; /* the highest has the cell's color */
struct chart_cell {
  char glyph[5]; /* UTF-8; empty: dots */
  unsigned char dots, color;
  enum layer layer;
};

const char *const chart_levels[2] = {" .:-=+*#%@",
                                     " \342\226\201\342\226\202\342\226\203\342\226\204\342\226\205"
                                     "\342\226\206\342\226\207\342\226\210"};

/* --- the page ------------------------------------------------------------------------------------------- */

void chart_page_new(struct chart_page *p, int columns, int rows, int utf8)
{
  columns = columns < 1 ? 1 : columns;
  *p = (struct chart_page){.columns = columns, .rows = rows < 0 ? 0 : rows, .utf8 = utf8};
  p->cell = memory_new((size_t)p->columns * (size_t)p->rows + 1, sizeof *p->cell);
}

static struct chart_cell *cell_at(struct chart_page *p, int column, int row)
{
  return column >= 0 && column < p->columns && row >= 0 && row < p->rows ? &p->cell[row * p->columns + column]
                                                                         : NULL;
}

/* The right half of a wide character: nothing is printed for it. */
static const char covered[] = "\001", ellipsis[] = "\342\200\246"; /* without utf8 a ~ */

int chart_text(struct chart_page *p, int column, int row, int color, const char *text)
{
  for (int n; (n = text_letter(text)) > 0; text += n) {
    const int wide = p->utf8 ? text_columns(text, 1) : 1, end = column + wide;
    for (int i = column; i < end; i++) {
      struct chart_cell *c = cell_at(p, i, row);
      if (!c) continue;
      const char *letter = wide > 1 && !cell_at(p, end - 1, row) ? " " : i > column ? covered : text;
      snprintf(c->glyph, sizeof c->glyph, "%.*s", letter == text ? n : 1,
               p->utf8 || n == 1            ? letter
               : strncmp(text, ellipsis, 3) ? "?"
                                            : "~");
      c->color = (unsigned char)color;
      c->layer = TEXT;
    }
    column = end;
  }
  return column;
}

int chart_text_in(struct chart_page *p, int column, int row, int columns, const char *text)
{
  int fits = 0, at = 0;
  if (text_columns(text, strlen(text)) <= columns) return chart_text(p, column, row, 0, text);
  for (int n; (n = text_letter(text + at)) > 0; at += n) {
    fits += p->utf8 ? text_columns(text + at, 1) : 1;
    if (fits >= columns) break;
  }
  struct buffer cut = {0};
  buffer_add(&cut, "%.*s%s", at, text, ellipsis);
  column = chart_text(p, column, row, 0, cut.text);
  memory_free(cut.text);
  return column;
}

/* The braille character of the 2 x 4 dots of a cell: U+2800 plus a bit a dot. */
static void add_cell(struct buffer *b, const struct chart_cell *c)
{
  if (*c->glyph)
    buffer_add(b, "%s", *c->glyph == *covered ? "" : c->glyph);
  else if (c->dots)
    buffer_add(b, "\342%c%c", 0xA0 + (c->dots >> 6), 0x80 + (c->dots & 63));
  else
    buffer_add(b, " ");
}

static int is_blank(const struct chart_cell *c) { return (!*c->glyph || !strcmp(c->glyph, " ")) && !c->dots; }

void chart_page_end(struct buffer *b, struct chart_page *p, int colors)
{
  for (int row = 0; row < p->rows; row++) {
    const struct chart_cell *line = &p->cell[row * p->columns];
    int length = p->columns, color = 0;
    while (length > 0 && is_blank(&line[length - 1])) length--;
    for (int i = 0; i < length; i++) {
      int own = colors ? line[i].color : 0;
      if (own != color && own) buffer_add(b, "\033[%dm", 30 + own);
      if (own != color && !own) buffer_add(b, "\033[0m");
      color = own;
      add_cell(b, &line[i]);
    }
    buffer_add(b, "%s\n", color ? "\033[0m" : "");
  }
  memory_free(p->cell);
}

/* --- the frame ------------------------------------------------------------------------------------------ */

struct frame {
  struct chart_page *page;
  struct chart *chart;
  int column, row, columns, rows; /* of the page, in cells */
  int wide, high;                 /* in dots */
};

static double scaled(double value, int is_log)
{
  if (is_log) value = value > 0 ? log10(value) : NAN;
  return isfinite(value) ? value : NAN;
}

/* Limits of axes that were not given are those of the values. */
static void find_ends(struct chart *c)
{
  double x_low = NAN, x_high = NAN, y_low = NAN, y_high = NAN;
  for (int k = 0; k < c->curves; k++)
    for (long i = 0; i < c->curve[k].count; i++) {
      double x = scaled(c->curve[k].x[i], c->log_x), y = scaled(c->curve[k].y[i], c->log_y);
      x_low = fmin(x_low, x), x_high = fmax(x_high, x);
      y_low = fmin(y_low, y), y_high = fmax(y_high, y);
    }
  c->x_low = isnan(c->x_low) ? x_low : scaled(c->x_low, c->log_x);
  c->x_high = isnan(c->x_high) ? x_high : scaled(c->x_high, c->log_x);
  c->y_low = isnan(c->y_low) ? y_low : scaled(c->y_low, c->log_y);
  c->y_high = isnan(c->y_high) ? y_high : scaled(c->y_high, c->log_y);
  if (!(c->y_high > c->y_low)) c->y_high += 0.5, c->y_low -= 0.5;
}

/* In dots; far outside is one dot outside, so that loops end. */
static int dot_row(const struct frame *f, double y)
{
  double row = (f->chart->y_high - y) / (f->chart->y_high - f->chart->y_low) * (f->high - 1);
  return (int)lround(row < -1 ? -1 : row > f->high ? f->high : row);
}

static int dot_column(const struct frame *f, double x)
{
  double span = f->chart->x_high - f->chart->x_low,
         column = span > 0 ? (x - f->chart->x_low) / span * (f->wide - 1) : 0;
  return (int)(column < -1 ? -1 : column > f->wide ? f->wide : column);
}

static void set_cell(struct chart_cell *c, int color, enum layer layer)
{
  if (layer < c->layer) return;
  c->color = (unsigned char)color;
  c->layer = layer;
}

static void set_dot(const struct frame *f, const struct chart_curve *curve, int x, int y, enum layer layer)
{
  static const int bit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  if (x < 0 || x >= f->wide || y < 0 || y >= f->high) return;
  const int across = f->page->utf8 ? 2 : 1, down = f->page->utf8 ? 4 : 1;
  struct chart_cell *c = cell_at(f->page, f->column + x / across, f->row + y / down);
  if (!c || c->layer == TEXT) return;
  const int is_over = !f->page->utf8 && layer == LINE && c->layer == LINE && curve->letter != c->glyph[0];
  f->chart->is_crossed |= is_over && curve->letter;
  if (f->page->utf8)
    c->dots |= (unsigned char)bit[y % 4][x % 2];
  else if (layer >= c->layer)
    snprintf(c->glyph, sizeof c->glyph, "%c",
             layer == BAND    ? '.'
             : !curve->letter ? '*'
             : is_over        ? '+' /* of several curves */
                              : curve->letter);
  set_cell(c, curve->color, layer);
}

/* --- curves --------------------------------------------------------------------------------------------- */

struct point {
  int x, y, lo, hi, has_band;
};

static int point_at(const struct frame *f, const struct chart_curve *c, long i, struct point *out)
{
  const double x = scaled(c->x[i], f->chart->log_x), y = scaled(c->y[i], f->chart->log_y);
  if (isnan(x) || isnan(y)) return 0;
  *out = (struct point){dot_column(f, x), dot_row(f, y), 0, 0, 0};
  if (!c->lo || !isfinite(c->hi[i]) || isnan(c->lo[i])) return 1;
  double lo = scaled(c->lo[i], f->chart->log_y);
  out->has_band = c->hi[i] > c->lo[i];
  out->lo = isnan(lo) ? f->high : dot_row(f, lo); /* zero, on a logarithmic scale */
  out->hi = dot_row(f, scaled(c->hi[i], f->chart->log_y));
  return 1;
}

/* At this column, between two points. */
static int between(int x, int x0, int y0, int x1, int y1)
{
  return x1 == x0 ? y1 : (int)lround(y0 + (double)(y1 - y0) * (x - x0) / (x1 - x0));
}

/* All dots of a column between two heights, so that a spike of one step is a line. */
static void draw_line(const struct frame *f, const struct chart_curve *c, const struct point *a,
                      const struct point *b)
{
  int before = a->y;
  for (int x = a->x; x <= b->x; x++) {
    int row = between(x, a->x, a->y, b->x, b->y);
    for (int r = before; r != row; r += row > before ? 1 : -1) set_dot(f, c, x, r, LINE);
    set_dot(f, c, x, row, LINE);
    before = row;
  }
}

/* A quarter of the dots, so that lines stand out; an eighth of each of several, in rows of its own. */
static void draw_band(const struct frame *f, const struct chart_curve *c, const struct point *a,
                      const struct point *b)
{
  for (int x = a->x; x <= b->x && a->has_band && b->has_band; x++) {
    int from = between(x, a->x, a->hi, b->x, b->hi), to = between(x, a->x, a->lo, b->x, b->lo);
    for (int r = from; r <= to; r++)
      if (x % 2 == 0 && (!f->page->utf8 || (c->letter ? r % 4 == c->letter % 4 : r % 2 == 0)))
        set_dot(f, c, x, r, BAND);
  }
}

static void draw_point(const struct frame *f, const struct chart_curve *c, const struct point *p)
{
  const int across = f->page->utf8 ? 2 : 1, down = f->page->utf8 ? 4 : 1;
  for (int r = p->hi; r <= p->lo && p->has_band; r++) set_dot(f, c, p->x, r, BAND);
  if (p->x >= 0 && p->x < f->wide && p->y >= 0 && p->y < f->high)
    chart_text(f->page, f->column + p->x / across, f->row + p->y / down, c->color, c->point);
}

static void draw_curve(const struct frame *f, const struct chart_curve *c, enum layer layer)
{
  struct point before = {0}, now;
  int has_before = 0;
  for (long i = 0; i < c->count; i++) {
    int is_there = point_at(f, c, i, &now);
    const struct point *from = has_before ? &before : &now;
    if (is_there && c->point && layer == TEXT) draw_point(f, c, &now);
    if (is_there && !c->point && layer == BAND) draw_band(f, c, from, &now);
    if (is_there && !c->point && layer == LINE) draw_line(f, c, from, &now);
    before = now, has_before = is_there;
  }
}

/* Letters on the lines, those of other curves at other columns, and not one over another. */
static void mark_letters(const struct frame *f, const struct chart_curve *c, int shift)
{
  struct point before = {0}, now;
  int next = shift, has_before = 0;
  for (long i = 0; i < c->count; i++) {
    int is_there = point_at(f, c, i, &now);
    if (is_there && !has_before && next < now.x / 2) next = now.x / 2;
    for (; is_there && next <= now.x / 2; next += LETTER_EVERY) {
      int row = has_before ? between(2 * next, before.x, before.y, now.x, now.y) : now.y;
      struct chart_cell *cell = cell_at(f->page, f->column + next, f->row + row / 4);
      char text[2] = {c->letter, 0};
      if (row >= 0 && row < f->high && cell && cell->layer != TEXT)
        chart_text(f->page, f->column + next, f->row + row / 4, c->color, text);
    }
    before = now, has_before = is_there;
  }
}

static void mark_cut(const struct frame *f, const struct chart_curve *c)
{
  for (long i = 0; i < c->count; i++) {
    struct point p;
    if (!point_at(f, c, i, &p) || p.x < 0 || p.x >= f->wide) continue;
    const int top = p.has_band ? p.hi < p.y ? p.hi : p.y : p.y,
              bottom = p.has_band && p.lo > p.y ? p.lo : p.y;
    const int column = f->column + p.x / (f->page->utf8 ? 2 : 1);
    if (top < 0) chart_text(f->page, column, f->row, c->color, f->page->utf8 ? "\342\226\262" : "^");
    if (bottom >= f->high)
      chart_text(f->page, column, f->row + f->rows - 1, c->color, f->page->utf8 ? "\342\226\274" : "v");
    f->chart->is_cut |= top < 0 || bottom >= f->high;
  }
}

static void draw_curves(const struct frame *f)
{
  const struct chart *c = f->chart;
  for (enum layer layer = BAND; layer <= LINE; layer++)
    for (int k = 0; k < c->curves; k++) draw_curve(f, &c->curve[k], layer);
  int shift = 1;
  for (int k = 0; k < c->curves; k++)
    if (f->page->utf8 && c->curve[k].letter && !c->curve[k].point)
      mark_letters(f, &c->curve[k], shift), shift = (shift + 5) % LETTER_EVERY;
  for (int k = 0; k < c->curves; k++) draw_curve(f, &c->curve[k], TEXT);
  for (int k = 0; k < c->curves; k++) mark_cut(f, &c->curve[k]);
}

/* --- numbers and names ---------------------------------------------------------------------------------- */

static void number_text(char out[32], double value, int room)
{
  snprintf(out, 32, room < MARGIN ? "%.3g" : "%.4g", value);
  if ((int)strlen(out) >= room) snprintf(out, 32, "%.0e", value);
}

static void print_right(struct chart_page *p, int end, int row, const char *text)
{
  chart_text(p, end - text_columns(text, strlen(text)), row, 0, text);
}

static void add_height(const struct frame *f, int row, int margin)
{
  const struct chart *c = f->chart;
  char text[32];
  double height = c->y_high - (c->y_high - c->y_low) * row / (f->rows - 1);
  number_text(text, c->log_y ? pow(10, height) : height, margin);
  print_right(f->page, f->column - 2, f->row + row, text);
}

static void x_text(char out[32], double value, int is_log)
{
  if (is_log) value = pow(10, value);
  snprintf(out, 32, value == floor(value) && fabs(value) < 1e9 ? "%.0f" : "%.4g", value);
}

static void add_axes(const struct frame *f, int margin)
{
  const struct chart *c = f->chart;
  char first[32], last[32];
  for (int row = 0; row < f->rows; row++)
    chart_text(f->page, f->column - 1, f->row + row, 0, f->page->utf8 ? "\342\224\202" : "|");
  add_height(f, 0, margin);
  add_height(f, f->rows - 1, margin);
  if (f->rows >= 9) add_height(f, f->rows / 2, margin);
  x_text(first, c->x_low, c->log_x);
  x_text(last, c->x_high, c->log_x);
  const int below = f->row + f->rows, end = f->column + f->columns;
  int from = chart_text(f->page, f->column, below, 0, first),
      name = c->x_name ? text_columns(c->x_name, strlen(c->x_name)) : 0;
  const int middle = f->column + (f->columns - name) / 2;
  if (c->x_name && middle > from && middle + name < end - (int)strlen(last))
    chart_text(f->page, middle, below, 0, c->x_name);
  if (end - (int)strlen(last) > from) print_right(f->page, end, below, last);
}

/* The threshold, dashed, in cells without a curve. */
static void draw_level(const struct frame *f)
{
  const double y = scaled(f->chart->level, f->chart->log_y);
  const int at = isnan(y) ? -1 : dot_row(f, y),
            row = at < 0 || at >= f->high ? -1 : at / (f->page->utf8 ? 4 : 1);
  for (int i = 0; i < f->columns && row >= 0; i += 2) {
    const struct chart_cell *c = cell_at(f->page, f->column + i, f->row + row);
    if (c && c->layer <= BAND) chart_text(f->page, f->column + i, f->row + row, 0, "-");
  }
}

void chart_draw(struct chart_page *page, struct chart *c, int column, int row)
{
  const int margin = c->columns < NARROW ? NARROW_MARGIN : MARGIN;
  struct frame f = {.page = page, .chart = c, .column = column + margin + 1, .row = row + 1};
  f.columns = c->columns - margin - 1, f.rows = c->rows - 2;
  f.wide = f.columns * (page->utf8 ? 2 : 1), f.high = f.rows * (page->utf8 ? 4 : 1);
  find_ends(c);
  const int title = text_columns(c->title, strlen(c->title)), room = c->columns - title;
  chart_text_in(page, column + (room > margin ? margin : room < 0 ? 0 : room), row, c->columns, c->title);
  if (f.columns < 8 || f.rows < 2 || isnan(c->y_low) || isnan(c->x_low)) return;
  draw_curves(&f);
  draw_level(&f);
  add_axes(&f, margin);
}

/* --- maps ----------------------------------------------------------------------------------------------- */

static void level_text(char out[5], double value, const struct chart_map *m, int utf8)
{
  const double low = scaled(m->low, m->log), high = scaled(m->high_end, m->log);
  const int levels = utf8 ? 9 : 10, known = isfinite(value);
  double at = m->log && value <= 0 ? low : scaled(value, m->log);
  int level = high > low ? (int)((at - low) / (high - low) * (levels - 1) + 0.5) : levels - 1;
  const char *text = chart_levels[utf8];
  for (level = level < 0 ? 0 : level >= levels ? levels - 1 : level; known && level > 0; level--)
    text += text_letter(text);
  snprintf(out, 5, "%.*s", known ? text_letter(text) : 1, known ? text : "?");
}

void chart_map_draw(struct chart_page *page, const struct chart_map *m, int column, int row)
{
  const int margin = m->columns < NARROW ? NARROW_MARGIN : MARGIN, left = column + margin + 1;
  const int each = m->wide ? (m->columns - margin - 1) / m->wide : 0, wide = each > 3   ? 3
                                                                             : each < 1 ? 1
                                                                                        : each;
  chart_text_in(page, column + margin, row, m->columns - margin, m->title);
  for (int r = 0; r < m->high; r++) {
    print_right(page, left - 2, row + 1 + r, m->row_name[r]);
    chart_text(page, left - 1, row + 1 + r, 0, page->utf8 ? "\342\224\202" : "|");
    for (int i = 0; i < m->wide * wide; i++) {
      char text[5];
      level_text(text, m->value[r * m->wide + i / wide], m, page->utf8);
      chart_text(page, left + i, row + 1 + r, 0, text);
    }
  }
  const int below = row + 1 + m->high, end = left + m->wide * wide,
            from = chart_text(page, left, below, 0, m->first);
  const int name = text_columns(m->x_name, strlen(m->x_name)), middle = left + (m->wide * wide - name) / 2;
  if (middle > from && middle + name < end - (int)strlen(m->last))
    chart_text(page, middle, below, 0, m->x_name);
  if (end - (int)strlen(m->last) > from) print_right(page, end, below, m->last);
}
