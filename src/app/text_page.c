/* text_page.c - a figure drawn with characters, from the numbers of its script */
#include "app/text_page.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/status_line.h"

enum { LEAST_COLUMNS = 20, PIPE_ROWS = 26, MOST_ROWS = 40, PANEL_ROWS = 9 };

/* --- the page ------------------------------------------------------------------------------------------- */

static int columns_elsewhere(void)
{
  const char *text = getenv("COLUMNS");
  long n = text ? strtol(text, NULL, 10) : 0;
  return n >= 40 && n <= 1000 ? (int)n : 80;
}

static int wants_colors(void)
{
  const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(STDOUT_FILENO) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

struct text_page text_page_begin(const struct script_values *values)
{
  const int here = isatty(STDOUT_FILENO);
  const struct terminal_size size = terminal_size(STDOUT_FILENO);
  struct text_page t = {.values = values, .groups = (int)script_number(values, "groups", 0)};
  t.columns = here ? size.columns - 1 : columns_elsewhere(); /* in the last column some terminals wrap */
  t.columns = t.columns < LEAST_COLUMNS ? LEAST_COLUMNS : t.columns;
  t.rows = here ? size.rows - 8 : PIPE_ROWS; /* heading, letters, notes, prompt */
  t.rows = t.rows > MOST_ROWS ? MOST_ROWS : t.rows < PANEL_ROWS ? PANEL_ROWS : t.rows;
  t.utf8 = terminal_is_utf8();
  t.colors = t.groups > 1 && wants_colors();
  return t;
}

/* As much of a text as fits. Without UTF-8 other letters are '?'. */
static void add_fitting(struct text_page *t, const char *text, int bytes, int columns)
{
  for (int i = 0, letter; i < bytes && (letter = text_letter(text + i)) > 0; i += letter) {
    columns -= text_columns(text + i, 1);
    if (columns < 0) break;
    if (t->utf8 || letter == 1)
      buffer_add(&t->out, "%.*s", letter, text + i);
    else
      buffer_add(&t->out, "%s", strncmp(text + i, "\303\227", 2) ? "?" : "x");
  }
}

/* Words in lines; those of a name that is wider than the page are cut. */
static void add_wrapped(struct text_page *t, const char *text)
{
  int at = 0;
  while (*text) {
    int bytes = (int)strcspn(text, " "), wide = text_columns(text, (size_t)bytes);
    if (at && at + 1 + wide > t->columns) buffer_add(&t->out, "\n"), at = 0;
    if (at) buffer_add(&t->out, " "), at++;
    add_fitting(t, text, bytes, t->columns);
    at += wide;
    text += bytes + (text[bytes] == ' ');
  }
  buffer_add(&t->out, "\n");
}

void text_note(struct text_page *t, const char *format, ...)
{
  char text[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  add_wrapped(t, text);
}

/* --- groups --------------------------------------------------------------------------------------------- */

static char letter_of(const struct text_page *t, int g) { return t->groups > 1 ? (char)('a' + g % 26) : 0; }

static int color_of(const struct text_page *t, int g)
{
  static const int order[] = {6, 3, 5, 2, 1, 4};
  return t->groups > 1 ? order[g % 6] : 0;
}

void text_group_name(const struct text_page *t, int g, struct buffer *b)
{
  static const char *const parts[] = {"kind", "rest", "note"};
  if (t->groups > 1) buffer_add(b, "%c ", letter_of(t, g));
  for (int i = 0; i < 3; i++) {
    const char *text = script_text(t->values, parts[i], g);
    buffer_add(b, "%s", text ? text : "");
  }
}

/* Name beside name, as many as a line takes; a color goes with the letter. */
static void add_letters(struct text_page *t)
{
  int at = 0;
  for (int g = 0; g < t->groups; g++) {
    struct buffer name = {0};
    text_group_name(t, g, &name);
    int wide = text_columns(name.text, name.length);
    if (at && at + 3 + wide > t->columns) buffer_add(&t->out, "\n"), at = 0;
    if (at) buffer_add(&t->out, "   "), at += 3;
    if (t->colors) buffer_add(&t->out, "\033[%dm%c\033[0m", 30 + color_of(t, g), *name.text);
    add_fitting(t, name.text + t->colors, (int)name.length - t->colors, t->columns - t->colors);
    at += wide;
    memory_free(name.text);
  }
  if (at) buffer_add(&t->out, "\n");
}

void text_note_means(struct text_page *t, const char *mean, const char *band)
{
  const char *one = script_text(t->values, "one_is", 0);
  int least = 1 << 30, most = 0;
  for (int g = 0; g < t->groups; g++) {
    int n = (int)script_number(t->values, "seeds", g);
    least = n < least ? n : least, most = n > most ? n : most;
  }
  one = one ? one : "pair"; /* of two arms */
  if (most <= 1) return;
  if (least == most)
    text_note(t, "%s over %d %ss%s", mean, most, one, band);
  else
    text_note(t, "%s over %d to %d %ss%s", mean, least, most, one, band);
}

/* --- panels --------------------------------------------------------------------------------------------- */

/* A column of a block; NULL for column 0 of intervals. */
static const double *column_of(const struct script_block *b, int column, double *room)
{
  for (long r = 0; r < b->rows; r++) room[r] = column < b->columns ? b->value[r * b->columns + column] : NAN;
  return room;
}

struct curves {
  struct chart_curve *curve;
  int count;
  struct arena *room;
};

static struct chart_curve *add_curve(struct curves *c, const struct script_block *b, int x, int y)
{
  struct chart_curve *out = &c->curve[c->count++];
  double *room = arena_get(c->room, 4 * (size_t)b->rows + 1, sizeof *room);
  *out =
    (struct chart_curve){.x = column_of(b, x, room), .y = column_of(b, y, room + b->rows), .count = b->rows};
  return out;
}

static void add_interval(struct curves *c, struct chart_curve *curve, const struct script_block *b, int lo,
                         int hi)
{
  double *room = arena_get(c->room, 2 * (size_t)b->rows + 1, sizeof *room);
  curve->lo = column_of(b, lo, room);
  curve->hi = column_of(b, hi, room + b->rows);
}

/* A letter as a point; a mean's is a capital. */
static const char *point_of(struct curves *c, const struct text_page *t, int g, int is_mean)
{
  char letter = letter_of(t, g) ? letter_of(t, g) : 'o';
  char *out = arena_get(c->room, 2, 1);
  out[0] = (char)(is_mean ? letter - 'a' + 'A' : letter), out[1] = 0;
  return out;
}

static void add_group(struct curves *c, const struct text_page *t, const struct text_panel *p, int block)
{
  const struct script_block b = script_block(t->values, p->block, p->first + block);
  const int g = p->group_of ? (int)script_number(t->values, p->group_of, block) - 1 : block;
  struct chart_curve *curve;
  if (p->runs) {
    const struct script_block runs = script_block(t->values, p->runs, p->runs_first + g);
    curve = add_curve(c, &runs, 0, 1);
    curve->color = color_of(t, g);
    curve->point = point_of(c, t, g, 0);
  }
  curve = add_curve(c, &b, p->x, p->y);
  curve->color = color_of(t, g);
  if (!p->points) curve->letter = letter_of(t, g);
  if (p->points) curve->point = point_of(c, t, g, 1);
  if (p->hi) add_interval(c, curve, &b, p->lo, p->hi);
}

/* Crosses of this panel. */
static void add_marks(struct curves *c, const struct text_page *t, const struct text_panel *p)
{
  const struct script_block all = script_block(t->values, p->marks, 0);
  struct chart_curve *curve = add_curve(c, &all, 0, 1);
  double *y = arena_get(c->room, (size_t)all.rows + 1, sizeof *y);
  for (long r = 0; r < all.rows; r++)
    y[r] = all.columns > 2 && all.value[r * all.columns + 2] == p->panel ? fmax(curve->y[r], p->y_low) : NAN;
  curve->y = y;
  curve->point = t->utf8 ? "\303\227" : "x";
}

static void draw_panel(struct text_page *t, struct chart_page *page, const struct text_panel *p, int column,
                       int row, int columns, int rows)
{
  struct curves c = {.room = arena_new()};
  const int blocks = p->group_of ? p->blocks : t->groups;
  c.curve = arena_get(c.room, 2 * (size_t)blocks + 1, sizeof *c.curve); /* with runs and marks */
  for (int i = 0; i < blocks; i++) add_group(&c, t, p, i);
  if (p->marks) add_marks(&c, t, p);
  struct chart chart = {.title = p->title,
                        .x_name = p->x_name,
                        .curve = c.curve,
                        .curves = c.count,
                        .columns = columns,
                        .rows = rows,
                        .log_x = p->log_x,
                        .log_y = p->log_y,
                        .x_low = p->x_low,
                        .x_high = p->x_high,
                        .y_low = p->y_low,
                        .y_high = p->y_high,
                        .level = p->level};
  chart_draw(page, &chart, column, row);
  t->is_cut |= chart.is_cut, t->is_crossed |= chart.is_crossed;
  arena_free(c.room);
}

void text_panels(struct text_page *t, const struct text_panel *p, int count, int least_columns, int across)
{
  int fit = t->columns / least_columns;
  across = across > fit ? fit : across;
  across = across > count ? count : across < 1 ? 1 : across;
  const int down = (count + across - 1) / across, columns = (t->columns - 2 * (across - 1)) / across;
  const int rows = t->rows / down < PANEL_ROWS ? PANEL_ROWS : t->rows / down;
  struct chart_page page;
  chart_page_new(&page, t->columns, rows * down, t->utf8);
  for (int i = 0; i < count; i++)
    draw_panel(t, &page, &p[i], i % across * (columns + 2), i / across * rows, columns, rows);
  chart_page_end(&t->out, &page, t->colors);
}

void text_map(struct text_page *t, const struct chart_map *m)
{
  struct chart_page page;
  chart_page_new(&page, t->columns, m->high + 2, t->utf8);
  chart_map_draw(&page, m, 0, 0);
  chart_page_end(&t->out, &page, 0);
}

/* --- the whole ------------------------------------------------------------------------------------------ */

void text_page_print(struct text_page *t, void (*draw)(struct text_page *))
{
  const char *heading = script_text(t->values, "heading", 0);
  if (heading && *heading) add_wrapped(t, heading);
  add_letters(t);
  draw(t);
  if (t->is_cut)
    add_wrapped(t, t->utf8 ? "\342\226\262\342\226\274: goes on beyond the frame."
                           : "^v: goes on beyond the frame.");
  if (t->is_crossed) add_wrapped(t, "+: curves of several groups.");
  fwrite(t->out.text, 1, t->out.length, stdout);
  memory_free(t->out.text);
}
