/* host_spectra.h - decompositions on the host for a row of the spectra, on all threads of the run's device */
#ifndef MAXLOGIT_OBSERVE_HOST_SPECTRA_H
#define MAXLOGIT_OBSERVE_HOST_SPECTRA_H
#include "numerics/linalg.h"
#include "observe/observable.h"

struct host_spectra {
  struct spectra **work; /* [workers] */
  int workers;
  long longer, shorter; /* most of the matrices' sides */
};
/* For every matrix of the model. */
void host_spectra_init(struct host_spectra *, const struct observer *);
void host_spectra_free(struct host_spectra *);
/* one(watch, i, worker) for every i < count; the first error, when all have been tried. */
int host_spectra_each(const struct observer *, long count,
                      int (*one)(const struct observer *, long i, int worker, struct error *),
                      struct error *);
/* Where a tensor of the parameters stands in a copy of them all. */
const real *in_copy(const struct observer *, const real *copy, const struct tensor *);
#endif
