/* figure.h - one file and one row a figure: figures/NAME.c gives the numbers, plots/NAME.gp draws them */
#ifndef MAXLOGIT_APP_FIGURE_H
#define MAXLOGIT_APP_FIGURE_H
#include "analysis/gnuplot.h"
#include "analysis/metric.h"
#include "analysis/runset.h"

enum {
  FIGURE_GROUPS = 16, /* most groups in one */
  FIGURE_BINS = 400,  /* intervals of the step in a curve */
  FIGURE_SERIES = 9   /* panels of --series */
};

struct text_page;
/* Two arms, as compare takes them. */
struct figure_arms {
  const char *name[2];
  struct runset set[2];
  struct metric *series; /* curve_read */
  int ratio;             /* B / A by logarithms */
};
struct figure_request {
  const struct runset *set;       /* its groups; of a figure of parameters those by "KEYS,y,x" */
  const char *x, *y, *by;         /* the parameters, and KEYS; of arms alone: `by` may be NULL */
  struct metric *metric;          /* over the parameters; of a scatter two, x and y */
  struct metric *series;          /* [series_count] curve_read */
  int series_count, tokens;       /* tokens: instead of steps */
  int sort_heads;                 /* panels of heads by their largest value */
  const struct figure_arms *arms; /* instead of a set */
  const struct tuning *tuning;    /* instead of a set (ledger/tuning.h) */
};
struct figure {
  const char *name, *help;
  /* Write the variables and data that NAME.gp reads. STATUS_USAGE if these runs have nothing to draw. */
  int (*data)(FILE *, const struct figure_request *, struct error *);
  const char *needs;                /* drawn without being asked for where all runs have this series */
  const char *asked;                /* by these options alone, instead of by --figure */
  void (*text)(struct text_page *); /* draws the same data with characters (text_page.h) */
};
extern const struct figure *const figures[]; /* NULL-terminated, generated registry */
extern const char *const figure_names[];     /* the same by name */
const struct figure *figure_find(const char *name);
/* The whole input of gnuplot for one, to be closed (gnuplot.h has scripts, term and out). */
FILE *figure_script(const struct figure *, const struct figure_request *, const char *scripts,
                    const char *term, const char *out, const struct gnuplot_page *, struct error *);
/* STATUS_USAGE where the set has more groups than a figure takes, naming what to choose by; figure_needs:
   does every run have rows of this series? */
int figure_fits(const struct runset *, struct error *);
int figure_needs(const struct runset *, const char *series);

/* --- common parts of figures --------------------------------------------------------------------------- */

/* The runs of a group that are drawn, into out[group->count]; returns how many. Those that did not fail; where
   there is none, the first as it is: nothing is averaged then. */
int figure_runs(const struct run_group *, const struct run **out);

/* Do its values set the axes? Not those of a group of which every run failed, unless all groups are such: the
   others would be a line at the bottom. */
int figure_sets_axis(const struct runset *, const struct run_group *);

/* " (1 of 3 diverged)": how many of `of` runs, or pairs, failed; nothing of none. */
void figure_note_failures(struct run_failures, int of, char *out, size_t room);
/* gnuplot_groups, and first_seed[g]. */
void figure_put_groups(FILE *, const struct runset *);
/* heading, which begins with a capital unless its first word is a name as "weight/svd_entropy". */
void figure_put_title(FILE *, const char *heading);
/* The same, and about: the settings that all runs share. */
void figure_put_heading(FILE *, const struct runset *, const char *heading);
/* The blocks whose heads lie side by side in attn/ series, where all runs have as many: the stack's layers, then the
   modules of model.mtp. Else STATUS_USAGE. */
struct figure_blocks {
  int layers, modules, heads; /* of each */
};
int figure_common_blocks(const struct runset *, struct figure_blocks *, struct error *);

/* Mean and 95 % interval of a series over the runs of a group that are drawn (table_band); `prepare` (may be NULL)
   acts on each run's table first. */
int figure_band(const struct run_group *, const char *series, void (*prepare)(struct table *), int geometric,
                struct table *band, struct error *);
/* The edges of a band of shares end at 1, and at `least` (0; of differences -1). */
void figure_bound(struct table *band, double least);
/* See a band: its values count from a step on. */
void figure_see(const struct table *band, double from_step, int counts, int logarithmic, struct spread *);
/* The band as data block number g; an interval that one seed does not have gets no width. */
void figure_put_block(FILE *, struct table *band, int g);
/* Is the axis of such values logarithmic, and their mean geometric? */
int figure_is_log(const struct extent *, const struct metric *);
/* The last finite value of a column; NaN if there is none. */
double figure_last(const struct table *, int column);
/* The logarithmic axis of max logits, and the threshold. */
int figure_put_logits_axis(FILE *, const struct runset *, const struct spread *, struct error *);
/* The same with characters: a panel of these axes, of bands as $data has them; and the meaning of the dashed line. */
struct text_panel figure_text_logits(const struct text_page *);
void figure_text_threshold(struct text_page *);
#define FIGURE_TEXT_BAND "; dots: 95 % interval of the mean (Student's t)."
#endif
