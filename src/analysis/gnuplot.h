/* gnuplot.h - talking to gnuplot: variables in its language, the plot scripts, running it */
#ifndef MAXLOGIT_ANALYSIS_GNUPLOT_H
#define MAXLOGIT_ANALYSIS_GNUPLOT_H
#include <stdio.h>
#include "base/error.h"

/* One assignment per line. Arrays count from 1 in gnuplot. Infinite values become NaN, which gnuplot has; control
   characters in a text become "?". */
void gnuplot_text(FILE *, const char *name, const char *text);
const char *gnuplot_value(double value, char out[32]); /* as data have it; returns out */
void gnuplot_number(FILE *, const char *name, double value);
void gnuplot_numbers(FILE *, const char *name, const double *values, int count);
void gnuplot_texts(FILE *, const char *name, const char *const *texts, int count);
/* The same for labels of tics, where gnuplot takes % for the format of a number: two of them are one. */
void gnuplot_tics(FILE *, const char *name, const char *const *texts, int count);
/* The label of an axis: "quantity  (unit)"; without the unit if it is 1. */
void gnuplot_axis(FILE *, const char *name, const char *quantity, const char *unit);

/* Names and colors of curves for plots/style.gp: groups, and the arrays kind, rest, note, seeds, clipped;
   and shade, a group's place among three or more that differ in one number alone. */
struct gnuplot_group {
  const char *kind, *rest, *note;
  double seeds, clipped;
};
void gnuplot_groups(FILE *, const struct gnuplot_group *, int count);

/* Smallest and largest finite value, and the last step: begin with {NAN, NAN, 0}. */
struct extent {
  double low, high, last_step;
};
void extent_see(struct extent *, double value);
void extent_put(FILE *, const struct extent *); /* low, high, last_of_all */

/* Means with their intervals. With few seeds an interval can be wider than everything else, so the axis has the
   means, and intervals up to as far again as the means reach; the script marks values beyond the frame.
   A value that does not count (of a run that failed) does not change the axis, and is marked, too. */
struct spread {
  struct extent value, edge, all;
};
#define SPREAD_EMPTY ((struct spread){{NAN, NAN, 0}, {NAN, NAN, 0}, {NAN, NAN, 0}})
/* lo or hi not finite: there is no interval. On a logarithmic scale only positive numbers count. */
void spread_see(struct spread *, int counts, int logarithmic, double mean, double lo, double hi);
struct extent spread_axis(const struct spread *, int logarithmic);
/* extent_put of the axis, and all_low and all_high: the ends of all values. */
void spread_put(FILE *, const struct spread *, const struct extent *axis);

/* The folder of the plot scripts (analysis/share.h; also: MAXLOGIT_PLOTS). */
int gnuplot_scripts(char out[4096], struct error *);
/* The page of a figure: its size in inches (0: the figure's own), font family ("": the default), heading or none. */
struct gnuplot_page {
  double width, height;
  const char *font;
  int no_title;
};
/* "3.3in", "8.4cm,6cm", "240pt": width, or both; from 1 to 60 inches; else STATUS_USAGE. */
int gnuplot_size(const char *text, struct gnuplot_page *, struct error *);
/* The variables of style.gp: plots, term (png, svg, pdf), out, and the page (NULL: the figure's own). */
void gnuplot_terminal(FILE *, const char *scripts, const char *term, const char *out,
                      const struct gnuplot_page *);
/* A file in memory, to write a script in: it needs no room on a disk, and has no name to be left behind. */
FILE *gnuplot_file(struct error *);
/* All of such a file in new memory, a NUL behind it. */
char *gnuplot_whole(FILE *, size_t *length);
/* Run gnuplot on a script, from its beginning, and return its standard output in new memory. Output on standard error
   is an error, except for the warning that a curve has no points. */
int gnuplot_run(FILE *script, char **drawn, size_t *length, struct error *);
#endif
