/* exchange.h - what the host tells the programs of a step, and what they report: one upload, one download
   Nothing else crosses between host and device while a run goes on. */
#ifndef MAXLOGIT_NUMERICS_EXCHANGE_H
#define MAXLOGIT_NUMERICS_EXCHANGE_H
#include "numerics/program.h"

/* --- numbers: from the host -------------------------------------------------------------------------------- */

/* What varies with time. */
struct step_scalars {
  long step;    /* 0, 1, ... */
  double rate;  /* the learning rate of this step */
  double share; /* of the base rate: schedule and warm-up */
};

struct numbers;
struct numbers *numbers_new(struct device *, int room);
void numbers_free(struct numbers *);
/* A number [1] for the arguments of operations: one of the run, on the device from now on, ... */
struct tensor *numbers_constant(struct numbers *, double value);
/* ... or one made from the step's scalars: of(context, scalars); the context is copied. */
typedef double number_of(const void *context, const struct step_scalars *);
struct tensor *numbers_varying(struct numbers *, number_of *, const void *context, size_t size);
/* This step's values to the device. Before the programs run that take them. */
void scalars_upload(struct numbers *, const struct step_scalars *);
const struct step_scalars *numbers_scalars(const struct numbers *); /* the last one told */

/* --- the report: from the device ----------------------------------------------------------------------------- */

/* Passes over the parts of a batch that add up what they see: those of the step, and those that look at other
   batches. */
enum passes { PASSES_NONE, PASSES_STEP, PASSES_LOOK, PASSES };

struct report;
struct report *report_new(struct device *);
void report_free(struct report *);
/* A tensor in the report, for programs to write; `empty` is what it holds before a step writes it. */
struct tensor *report_add(struct report *, long rows, long cols, double empty, const char *name);
/* Who adds up what is added from now on (none at first). What is empty where it is 0 is a sum, where it is -Infinity
   a maximum: so two parts of a batch are joined; anything else is as the last part has it. */
void report_seen_by(struct report *, enum passes);
/* Another `empty` for a column, and how it is joined: enum merge_kind, or the column of the same row that it
   follows. */
void report_column(struct report *, const struct tensor *, long column, double empty, int kind);
/* Record: all of it is empty again. After the last report_add, before the first report_read. */
void report_record_clear(struct report *, struct program *);
/* Record: what these passes add up is empty again; the rest stays. */
void report_record_fresh(struct report *, struct program *, enum passes);
/* Memory for what one part has seen, all of it: report_keep, then report_join, which joins it, as the first, with what
   stands in the report. For report_kept_free. */
struct tensor **report_kept_new(struct report *);
void report_kept_free(struct report *, struct tensor **);
void report_record_keep(struct report *, struct program *, struct tensor *const *kept);
void report_record_join(struct report *, struct program *, enum passes, struct tensor *const *kept);
/* Record: what these passes add up over the ranks' parts of the batch, then of the context, which are joined in the
   order of the ranks, a power of two: log2 messages of all of it. */
void report_record_across(struct report *, struct program *, enum passes);
/* Ask for the report as it stands when the device has come so far, without waiting: one fetch. At most AHEAD_MOST + 1
   may be under way. */
void report_ask(struct report *);
/* Wait until all that were asked for, but the last `most`, are there. */
void report_reach(const struct report *, int most);
/* The oldest that was asked for; waits until it is there. */
void report_receive(struct report *);
void report_drop(struct report *); /* all that were asked for */
/* As it stands now: waits. Not while others are under way. */
void report_read(struct report *);
/* Where a tensor of the report stands in what was read last: [rows, cols], row by row. */
const real *report_of(const struct report *, const struct tensor *);
#endif
