/* outliers.c - large single entries of the residual stream, of queries and of keys ("massive activations",
   arXiv 2402.17762) */
#include <math.h>
#include "observe/observable.h"

/* Kurtosis of x itself, without subtracting its mean: 3 for a normal distribution, the number of entries if one
   dominates. */
#define OF(what, text) \
  {what "/max_abs", \
   PER_LAYER, \
   AXIS_STEP, \
   "1", \
   "largest |x| of " text, \
   "largest absolute entry of " text ", over the step's tokens", \
   EVENT_NONE}, \
    {what "/rms", PER_LAYER,      AXIS_STEP, \
     "1",         "RMS of " text, "root mean square of " text ", over the step's tokens and all entries", \
     EVENT_NONE}, \
  { \
    what "/kurtosis", PER_LAYER, AXIS_STEP, "1", "kurtosis of " text, \
      "mean x^4 over (mean x^2)^2 of " text ", over the step's tokens and all entries", EVENT_NONE \
  }
enum { STREAM, QUERIES, KEYS, THINGS };
enum { MAX_ABS, RMS, KURTOSIS, NUMBERS };
static const struct series series[] = {OF("stream", "the residual stream behind the layer"),
                                       OF("queries", "queries as they enter the product"),
                                       OF("keys", "keys as they enter the product"),
                                       {0}};

struct outliers {
  struct tensor *seen; /* [L,THINGS*NUMBERS]: largest | mean x^2 | mean x^4 */
};

static void declare(struct observer *w)
{
  struct outliers *s = w->state;
  s->seen = report_add(w->model->report, model_blocks(&w->model->options), THINGS * NUMBERS, 0, "outliers");
  for (int t = 0; t < THINGS; t++)
    report_column(w->model->report, s->seen, t * NUMBERS + MAX_ABS, 0, MERGE_MAX);
}

/* y += by |x|^2 */
static void add_squares(struct program *p, struct tensor *y, struct tensor *x, double by)
{
  struct tensor *norm = program_temporary(p, 1, 1, "norm"), *square = program_temporary(p, 1, 1, "square");
  PROGRAM_CALL(p, norm, .y = norm, .x = x);
  PROGRAM_CALL(p, copy, .y = square, .x = norm);
  PROGRAM_CALL(p, multiply, .y = square, .x = norm);
  PROGRAM_CALL(p, axpby, .y = y, .x = square, .alpha = by, .beta = 1);
}

static void record_share(struct observer *w, struct program *p, int layer, int thing, struct tensor *from,
                         double share)
{
  const struct outliers *s = w->state;
  struct tensor *row = program_rows(p, s->seen, layer, 1), *largest = program_temporary(p, 1, 1, "largest"),
                *x = program_temporary(p, from->rows, from->cols, "entries"),
                *square = program_temporary(p, from->rows, from->cols, "squares");
  double by = share / ((double)x->rows * (double)x->cols);
  PROGRAM_CALL(p, copy, .y = x, .x = from); /* it may be a view of some columns */
  PROGRAM_CALL(p, max_abs, .y = largest, .x = x);
  PROGRAM_CALL(p, maximum, .y = program_view(p, row, thing * NUMBERS + MAX_ABS, 1), .x = largest);
  add_squares(p, program_view(p, row, thing * NUMBERS + RMS, 1), x, by);
  PROGRAM_CALL(p, copy, .y = square, .x = x);
  PROGRAM_CALL(p, multiply, .y = square, .x = x);
  add_squares(p, program_view(p, row, thing * NUMBERS + KURTOSIS, 1), square, by);
}

static void tap(struct observer *w, struct program *p, enum point point, int layer, const struct flow *f)
{
  if (point == POINT_STREAM) record_share(w, p, layer, STREAM, f->x, f->share);
  if (point != POINT_SCORES || f->stage) return; /* keys of other ranks are recorded by those ranks */
  record_share(w, p, layer, QUERIES, f->q, f->share);
  record_share(w, p, layer, KEYS, f->k, f->share);
}

static int read(struct observer *w, struct observation *r, struct error *e)
{
  const struct outliers *s = w->state;
  const real *seen = report_of(r->read, s->seen);
  (void)e;
  for (long l = 0; l < s->seen->rows; l++)
    for (int t = 0; t < THINGS; t++, seen += NUMBERS) {
      struct series_row *row = &r->row[t * NUMBERS];
      double square = (double)seen[RMS];
      row[MAX_ABS].value[l] = (float)seen[MAX_ABS];
      row[RMS].value[l] = (float)sqrt(square);
      row[KURTOSIS].value[l] = (float)((double)seen[KURTOSIS] / (square * square));
    }
  return STATUS_OK;
}

const struct observable observable_outliers = {
  .name = "outliers",
  .help = "largest |x|, RMS and kurtosis of the residual stream, queries and keys; by name only",
  .series = series,
  .state_size = sizeof(struct outliers),
  .declare = declare,
  .tap = tap,
  .read = read,
};
