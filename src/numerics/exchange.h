/* exchange.h - the numbers of a step for its programs, and their report: one upload, one download
   Nothing else is transferred between host and device during a run. */
#ifndef MAXLOGIT_NUMERICS_EXCHANGE_H
#define MAXLOGIT_NUMERICS_EXCHANGE_H
#include "numerics/program.h"

/* --- numbers: from the host -------------------------------------------------------------------------------- */

/* Scalars that vary with the step. */
struct step_scalars {
  long step;    /* 0, 1, ... */
  double rate;  /* the learning rate of this step */
  double share; /* of the base rate: schedule times warm-up */
};

struct numbers;
struct numbers *numbers_new(struct device *, int room);
void numbers_free(struct numbers *);
/* A number [1] for the arguments of operations: a constant of the run, uploaded now, ... */
struct tensor *numbers_constant(struct numbers *, double value);
/* ... or one made from the step's scalars: of(context, scalars); the context is copied. */
typedef double number_of(const void *context, const struct step_scalars *);
struct tensor *numbers_varying(struct numbers *, number_of *, const void *context, size_t size);
/* Upload this step's values. Call it before the programs that use them. */
void scalars_upload(struct numbers *, const struct step_scalars *);
const struct step_scalars *numbers_scalars(const struct numbers *); /* the last ones uploaded */

/* --- the report: from the device ----------------------------------------------------------------------------- */

/* Passes over the parts of a batch that accumulate in the report: those of the step, and those over other batches. */
enum passes { PASSES_NONE, PASSES_STEP, PASSES_LOOK, PASSES };

struct report;
struct report *report_new(struct device *);
void report_free(struct report *);
/* A tensor in the report, for programs to write; `empty` is its value before a step writes it. */
struct tensor *report_add(struct report *, long rows, long cols, double empty, const char *name);
/* The passes that accumulate the tensors added from now on (none at first). Two parts of a batch are joined by sum if
   `empty` is 0, by maximum if it is -Infinity; otherwise the last part wins. */
void report_seen_by(struct report *, enum passes);
/* Set another `empty` for a column, and its merge rule: enum merge_kind, or the column of the same row that it
   follows. */
void report_column(struct report *, const struct tensor *, long column, double empty, int kind);
/* Record: reset the whole report. After the last report_add, before the first report_read. */
void report_record_clear(struct report *, struct program *);
/* Record: reset the tensors that these passes accumulate; the rest stays. */
void report_record_fresh(struct report *, struct program *, enum passes);
/* Memory for the whole report of one part. report_keep saves to it; report_join merges it, as the first part, with
   the current report. Free it with report_kept_free. */
struct tensor **report_kept_new(struct report *);
void report_kept_free(struct report *, struct tensor **);
void report_record_keep(struct report *, struct program *, struct tensor *const *kept);
void report_record_join(struct report *, struct program *, enum passes, struct tensor *const *kept);
/* Record: merge the accumulated tensors of these passes over the ranks of the batch, then of the context, in the
   order of the ranks. The number of ranks is a power of two: log2 messages of the whole report. */
void report_record_across(struct report *, struct program *, enum passes);
/* Start one fetch of the report, as it is when the device gets here, without waiting. At most AHEAD_MOST + 1 fetches
   may be pending. */
void report_ask(struct report *);
/* Wait until all fetches but the last `most` have arrived. */
void report_reach(const struct report *, int most);
/* Receive the oldest pending fetch; waits for it. */
void report_receive(struct report *);
void report_drop(struct report *); /* all pending fetches */
/* Read the current report: waits. Not while fetches are pending. */
void report_read(struct report *);
/* The values of a tensor in the last received report: [rows, cols], row by row. */
const real *report_of(const struct report *, const struct tensor *);
#endif
