/* sensitivity.h - how much a loss depends on the learning rate, or on another number of the configuration
   Learning-rate sensitivity (Wortsman et al., arXiv 2309.14322, sec. 3): the mean over rates of min(loss at the end,
   loss at the start), minus the least of them. Runs that diverged or blew up count with their loss at the start. */
#ifndef MAXLOGIT_APP_SENSITIVITY_H
#define MAXLOGIT_APP_SENSITIVITY_H
#include "analysis/runset.h"

/* One line (or object) per group, over the values of `key` that every group has with each of its seeds; the loss at the
   end is the last of val_loss, that at the start the first of loss. STATUS_USAGE: fewer than 3 such values, or two runs
   of one group, value and seed. */
int sensitivity_show(const struct runset *, const char *key, int json, struct error *);
#endif
