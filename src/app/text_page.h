/* text_page.h - a figure drawn with characters, from the numbers of its script */
#ifndef MAXLOGIT_APP_TEXT_PAGE_H
#define MAXLOGIT_APP_TEXT_PAGE_H
#include "analysis/script_values.h"
#include "app/chart.h"

struct text_page {
  const struct script_values *values;
  struct buffer out;
  int groups, columns, rows, utf8, colors;
  int is_cut, is_crossed; /* in some panel: see chart.h */
};

/* Curves of all groups on common axes: block `first` + g of $block is that of group g; with group_of, an array, each of
   so many `blocks` is a curve of the group named there, from 1. Columns count from 0. */
struct text_panel {
  const char *title, *x_name, *block, *group_of;
  int blocks, first, x, y, lo, hi; /* hi 0: no intervals */
  const char *runs;                /* a block a group of points x y, or NULL */
  int runs_first, points;          /* points: the curve is points with bars, not a line and a band */
  double x_low, x_high, y_low, y_high, level;
  int log_x, log_y;
  const char *marks; /* a block of crosses, "x y panel" from 1, or NULL */
  int panel;
};
#define TEXT_PANEL .x_low = NAN, .x_high = NAN, .y_low = NAN, .y_high = NAN, .level = NAN
/* Side by side where each has at least so many columns, at most `across` of them. */
void text_panels(struct text_page *, const struct text_panel *, int count, int least_columns, int across);
void text_map(struct text_page *, const struct chart_map *);
/* A line below the panels, wrapped. */
void text_note(struct text_page *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "muon lr=0.01 (1 of 3 diverged)", and "a " before it where there are several groups. */
void text_group_name(const struct text_page *, int g, struct buffer *);
/* "mean over 3 seeds", and the meaning of the band if there are several. */
void text_note_means(struct text_page *, const char *mean, const char *band);

/* The columns and rows of a terminal on standard output; elsewhere 80, or COLUMNS, and 24. */
struct text_page text_page_begin(const struct script_values *);
/* Heading, explanation of the groups' letters, panels, notes: on standard output. */
void text_page_print(struct text_page *, void (*draw)(struct text_page *));
#endif
