/* blow_up.h - a run whose losses are finite and that failed all the same */
#ifndef MAXLOGIT_STORAGE_BLOW_UP_H
#define MAXLOGIT_STORAGE_BLOW_UP_H

/* How far above a loss counts, as a share of it: batches are noise, and a run that does not learn stays where it is. */
#define BLOW_UP_MARGIN 0.1

/* Has a run with these training losses blown up? `step` increases from the run's first row. The mean loss of the last
   tenth of the steps (at least the last row) is compared with
   - the loss of the first row: the mean lies more than a tenth above it; or
   - ln V, the loss of a uniform guess over `vocab` symbols: the mean lies more than a tenth above it, after the run had
     losses below it. A run that starts above ln V and has not learned yet has not blown up. `vocab` NaN: unknown.
   0 where a loss that is compared is not finite: such a run diverged. */
int losses_blew_up(const double *step, const double *loss, long rows, double vocab);
#endif
