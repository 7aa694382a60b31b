/* chart.h - curves and maps drawn with characters, on a page of cells */
#ifndef MAXLOGIT_APP_CHART_H
#define MAXLOGIT_APP_CHART_H
#include "base/text.h"

/* Braille dots where utf8 is set, else one character a dot. A color is a number of ANSI, from 1 to 6; 0: the terminal's
   own foreground. */
struct chart_page {
  int columns, rows, utf8;
  struct chart_cell *cell;
};
void chart_page_new(struct chart_page *, int columns, int rows, int utf8);
/* As lines without blanks at their ends; frees the page. */
void chart_page_end(struct buffer *, struct chart_page *, int colors);
/* Print a text from this cell on; returns the column behind it. */
int chart_text(struct chart_page *, int column, int row, int color, const char *text);
/* The same in at most so many columns: a longer text ends with "...", one character. */
int chart_text_in(struct chart_page *, int column, int row, int columns, const char *text);

/* A line, and a band from lo to hi (NULL: none). Values that are not finite leave a gap; on a logarithmic scale those
   not positive, too. With `letter` the line is marked by it every few columns, and drawn of it without utf8. With
   `point` only this text stands at each x, and lo to hi is a bar. */
struct chart_curve {
  const double *x, *y, *lo, *hi;
  long count;
  int color;
  char letter;
  const char *point;
};

/* In a frame of columns x rows characters, title line and numbers included. Ends of an axis that are NaN are those of
   the values; values beyond are marked at the frame. */
struct chart {
  const char *title, *x_name;
  const struct chart_curve *curve;
  int curves, columns, rows, log_x, log_y;
  double x_low, x_high, y_low, y_high, level; /* level: a dashed line at this height */
  int is_cut, is_crossed; /* out: some values are beyond the frame; a '+' stands where curves cross */
};
#define CHART_ENDS .x_low = NAN, .x_high = NAN, .y_low = NAN, .y_high = NAN, .level = NAN
void chart_draw(struct chart_page *, struct chart *, int column, int row);

/* A character a value, in rows of `wide` values; ten levels from low to high, '?' where there is none. */
struct chart_map {
  const char *title, *x_name, *first, *last; /* at the ends of x */
  const char *const *row_name;
  const double *value;
  int wide, high, columns, log;
  double low, high_end;
};
extern const char *const chart_levels[2]; /* from low to high, without and with utf8 */
/* Takes high + 2 rows. */
void chart_map_draw(struct chart_page *, const struct chart_map *, int column, int row);
#endif
