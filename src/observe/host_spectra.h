/* host_spectra.h - decompositions on the host for a row of AXIS_SPECTRA, on all threads of the run's device */
#ifndef MAXLOGIT_OBSERVE_HOST_SPECTRA_H
#define MAXLOGIT_OBSERVE_HOST_SPECTRA_H
#include "numerics/linalg.h"
#include "observe/observable.h"

struct host_spectra {
  struct spectra **work; /* [workers] */
  int workers;
  long longer, shorter; /* largest sides of all matrices */
};
/* Allocate work space for the largest matrix of the model. */
void host_spectra_init(struct host_spectra *, const struct observer *);
void host_spectra_free(struct host_spectra *);
/* Call one(watch, i, worker) for every i < count. Returns the first error, after all calls. */
int host_spectra_each(const struct observer *, long count,
                      int (*one)(const struct observer *, long i, int worker, struct error *),
                      struct error *);
/* The rows of a head's bilinear form w_q^T w_k (mla: of its content parts). Returns 0 if it has none. */
int head_factors(const struct model *, int layer, int head, struct logit_block *q, struct logit_block *k);
/* The address of a parameter's tensor in a copy of all parameters. */
const real *in_copy(const struct observer *, const real *copy, const struct tensor *);
#endif
