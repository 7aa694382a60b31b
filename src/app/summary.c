#include "app/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/table.h"
#include "base/number.h"

static void update_place(struct place *p, const struct run_series *s, long row, long i)
{
  double x = s->value[row * s->width + i];
  if (is_missing(x) || (!isnan(p->step) && (isnan(p->value) || x <= p->value))) return;
  const int has_heads = s->shape == PER_HEAD;
  *p = (struct place){x, s->step[row], has_heads || s->shape == PER_LAYER ? (int)(i / s->heads) : -1,
                      has_heads ? (int)(i % s->heads) : -1};
}

const char *summary_place(const struct place *p, char out[32])
{
  int length = p->layer < 0 ? 0 : snprintf(out, 32, "L%d", p->layer);
  out[length] = 0;
  if (p->head >= 0) snprintf(out + length, 32 - (size_t)length, "H%d", p->head);
  return out;
}

static json_t *index_or_null(int i) { return i < 0 ? json_null() : json_integer(i); }

json_t *summary_place_json(const struct place *p)
{
  if (isnan(p->step)) return json_null();
  return json_pack("{s:o, s:o, s:o, s:o}", "value", json_number(p->value), "step", json_number(p->step),
                   "layer", index_or_null(p->layer), "head", index_or_null(p->head));
}

void summary_places_of(const struct run_series *s, struct place *peak, struct place *last)
{
  *peak = *last = (struct place){missing_value(), NAN, -1, -1};
  for (long row = 0; row < s->rows; row++)
    for (long i = 0; i < s->width; i++) update_place(peak, s, row, i);
  for (long i = 0; s->rows && i < s->width; i++) update_place(last, s, s->rows - 1, i);
  if (!isnan(peak->step)) peak->value = without_nan_sign(peak->value);
  if (!isnan(last->step)) last->value = without_nan_sign(last->value);
}

void summary_places(const struct run_file *run, struct place *peak, struct place *last)
{
  struct run_series s = {.rows = 0};
  int status = run_read(run, "attn/max_logit", &s, NULL);
  summary_places_of(&s, peak, last);
  if (!status) run_series_free(&s);
}

int summary_last(const struct run_file *run, const char *series, double *value)
{
  struct run_series s;
  *value = missing_value();
  if (run_read(run, series, &s, NULL) != STATUS_OK) return 0;
  const int some = s.rows > 0 && s.width == 1; /* of several values none is the run's */
  if (some) *value = s.value[s.rows - 1];
  run_series_free(&s);
  return some;
}

void summary_number(int has, double value, char out[32])
{
  if (!has)
    snprintf(out, 32, "-");
  else if (fabs(value) < 1e9)
    snprintf(out, 32, "%.4f", value);
  else
    table_number(value, out);
}

void summary_note(const char *before, const struct note *n)
{
  int margin = printf("%s%s  ", before, n->date);
  const char *line = n->text;
  do {
    size_t length = strcspn(line, "\n");
    if (line > n->text && length) printf("%*s", margin, "");
    for (size_t i = 0; i < length; i++) /* must not steer the terminal */
      if (line[i] != '\r') putchar((unsigned char)line[i] < 0x20 && line[i] != '\t' ? '?' : line[i]);
    putchar('\n');
    line += length + (line[length] == '\n');
  } while (*line);
}
