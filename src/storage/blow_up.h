/* blow_up.h - detects runs with finite losses that failed all the same */
#ifndef MAXLOGIT_STORAGE_BLOW_UP_H
#define MAXLOGIT_STORAGE_BLOW_UP_H

/* The margin above which a loss counts, as a share of the loss. Batches are noisy, and a run that does not learn keeps
   its loss. */
#define BLOW_UP_MARGIN 0.1

/* Has a run with these training losses blown up? `step` increases from the run's first row. The mean loss of the last
   tenth of the steps (at least the last row) is compared with
   - the loss of the first row: the mean is more than a tenth above it; or
   - ln V, the loss of a uniform guess over `vocab` symbols: the mean is more than a tenth above it, after the run had
     losses below it. A run that starts above ln V and has not learned yet has not blown up. `vocab` NaN: unknown.
   Returns 0 if a compared loss is not finite: such a run diverged. */
int losses_blew_up(const double *step, const double *loss, long rows, double vocab);
#endif
