/* metric.h - one number of a run: SERIES:WINDOW:REDUCTION, "attn/max_logit:last5%:max"
   SERIES       a series, or SERIES@GLOB: only of heads l0h0, experts l0e0, layers l0 or tensors whose name matches,
                "attn/max_logit@l1*", "weight/spectral_norm@*w_[qk]"
   WINDOW       last (default)   the last row that there is
                lastN            the last N rows; of a short run without that of step 0, before any training
                lastP%           those of the last P % of the run's steps
                all, A-B         every row; those of steps A to B
   REDUCTION    mean, max, min, median   of all values in the window (heads, layers, tensors too); a series with one
                                 value a step needs none (mean)
                over=X           the share of the values that are above X
                slope            of the logarithm of each row's largest value over that of the step: y ~ step^slope
                above=X, below=X the first step with such a value: a time that is censored where there is none
   A short name stands for a whole metric: metric_names. */
#ifndef MAXLOGIT_ANALYSIS_METRIC_H
#define MAXLOGIT_ANALYSIS_METRIC_H
#include "analysis/runset.h"

enum window { WINDOW_ROWS, WINDOW_SHARE, WINDOW_STEPS };
enum reduction {
  TAKE_DEFAULT,
  TAKE_MEAN,
  TAKE_MAX,
  TAKE_MIN,
  TAKE_MEDIAN,
  TAKE_SLOPE,
  TAKE_OVER,
  TAKE_ABOVE,
  TAKE_BELOW
};

struct metric {
  char name[96];   /* as it was asked for */
  char series[96]; /* "": events of kind `glob` */
  char glob[64];   /* which of its values; "": all */
  enum window window;
  double first, last; /* rows: first of them; share: first percent; steps: first and last */
  enum reduction reduction;
  double level; /* of TAKE_ABOVE, TAKE_BELOW, TAKE_OVER */
  /* filled in when a run is read: the unit, the series in words (its name where they are long), its shape */
  char unit[32], label[96];
  enum series_shape shape;
  int may_lack; /* it is no error if no run has it */
};
struct metric_name {
  const char *name, *metric, *help, *title;
};
extern const struct metric_name metric_names[]; /* ends with name NULL */
/* "val" is val_loss:last; NULL: no metric has this short name. */
const char *metric_named(const char *name);
/* The short name that is nearest to a text; NULL: none is near. */
const char *metric_near(const char *text);

/* The message of STATUS_USAGE names the wrong part and the allowed forms. */
int metric_read(struct metric *, const char *text, struct error *);
/* A list, "loss,peak"; count and memory_free are the caller's. */
int metrics_read(struct metric **, int *count, const char *text, struct error *);

struct measured {
  int has;       /* 0: the run has no such series, or no row in the window */
  double value;  /* a value that is not finite stays so */
  int censored;  /* a time: it was not reached; the value is the last step that was seen */
  char unit[32]; /* of the series; "": unknown, or 1 */
};
/* A window of steps, "A-B" with 0 <= A <= B: 1; any other text: 0. */
int metric_steps(const char *text, double *first, double *last);
int metric_is_time(const struct metric *);
/* Does the value of a run count in means, figures and comparisons? Missing values and failed runs do not count. Times
   of failed runs do: such a run passed the level above, and never reaches the level below. */
int metric_counts(const struct metric *, const struct run *, const struct measured *);
/* The metric of one run; its unit is filled in. STATUS_USAGE: a reduction is wanted. */
int metric_of(struct metric *, const struct run *, struct measured *, struct error *);
/* The metric before its window: one column over the whole run. Several values per step are reduced as the metric
   reduces them (mean, smallest, median, share above the level), else to the largest. No rows if the series is missing.
   For table_free. */
int metric_curve(struct metric *, const struct run *, struct table *, struct error *);

/* --- a series over the steps: SERIES[@GLOB][:REDUCTION] ------------------------------------------------- */

/* REDUCTION: mean, max, min, median or over=X, of the values of each step. Without one it is max for logits, where one
   head is enough, else mean. STATUS_USAGE names the way where a metric of a whole run was meant. */
int curve_read(struct metric *, const char *text, struct error *);
/* metric_curve, STATUS_USAGE where the run has no such series, with the nearest. Both fill in unit and shape. */
int curve_of(struct metric *, const struct run *, struct table *, struct error *);
/* A curve that has been read, in words: "attention entropy, mean over heads l1h*"; "attention entropy, L1H2" of one
   head, and without a reduction where there is one value per step. */
void curve_title(const struct metric *, char *out, size_t room);
/* The same of a number of a run: "validation loss, mean over the last 3 recorded steps". A slope, a share or a time
   keeps the text that it was asked for by. */
void metric_title(const struct metric *, char *out, size_t room);
/* Is it a value of max logits? Their means are geometric wherever all are positive. */
int metric_is_logit(const struct metric *);
/* Does it suit a logarithmic axis: logits and their bounds, norms, losses, learning rates, times? */
int metric_suits_log(const struct metric *);
/* Does it lie between 0 and 1 by definition? Intervals of it do as well. */
int metric_is_share(const struct metric *);
/* Of all runs of a set, [runs, metrics] in the order of set->run; memory_free. STATUS_USAGE where no run has
   one of them, with the nearest series. */
int metrics_of(struct metric *, int metrics, const struct runset *, struct measured **, struct error *);
/* STATUS_USAGE where two runs of these sets, with values[set] of metrics_of, have a series in unlike units. */
int metrics_have_one_unit(const struct metric *, int metrics, const struct runset *sets,
                          struct measured *const *values, int count, struct error *);
#endif
