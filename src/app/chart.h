/* chart.h - a curve drawn with characters */
#ifndef MAXLOGIT_APP_CHART_H
#define MAXLOGIT_APP_CHART_H
#include "base/text.h"

/* One curve y over x, in a frame of columns x rows characters, title line included; braille dots where
   utf8 is set, else '*'. Values that are not finite leave a gap; log_scale: those not positive too. */
struct chart {
  const char *title;
  const double *x, *y;
  long count;
  int columns, rows, log_scale, utf8;
};
void chart_draw(struct buffer *, const struct chart *);
#endif
