/* measures.h - metrics of runs and of groups as a table, CSV or JSON: show --of */
#ifndef MAXLOGIT_APP_MEASURES_H
#define MAXLOGIT_APP_MEASURES_H
#include "analysis/metric.h"

enum measures_form { MEASURES_TEXT, MEASURES_CSV, MEASURES_JSON };
enum measures_mean { MEAN_ARITHMETIC, MEAN_GEOMETRIC, MEAN_MEDIAN };

/* The statistics of a metric of a group: its mean and interval, or of times that may be censored their median
   (Kaplan and Meier). n: the runs that count; those that failed do not, except in times. */
struct measure {
  int n, is_time, events;
  double middle, lo, hi;
};
/* values: of the runs of the group, `stride` apart. */
struct measure measure_group(const struct run_group *, const struct metric *, const struct measured *values,
                             int stride, enum measures_mean);

/* Behind a table of groups of which a run failed. */
#define MEASURES_FAILED " Runs that diverged or blew up are counted, and left out of every mean."
/* Below a table without columns for these keys (runset_text_columns); frees them. */
void measures_print_rest(struct key_list *rest);
/* The end of a table's last line: "N runs have not finished ...", or nothing of 0. */
void measures_print_unfinished(int runs);

/* of: NULL for the usual ones, which runs may lack. With `baseline`, the label of a group or the value in it: each
   group against it, in pairs of equal seed. STATUS_USAGE names the groups if there is no such one. */
int measures_show(const struct runset *, const char *of, int groups, enum measures_form, enum measures_mean,
                  const char *baseline, struct error *);
#endif
