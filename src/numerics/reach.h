/* reach.h - bound of |A x + c| over all outputs x of a norm: used by bounds on logits */
#ifndef MAXLOGIT_NUMERICS_REACH_H
#define MAXLOGIT_NUMERICS_REACH_H
#include "numerics/linalg.h"

/* Rows of a weight, and the norm before them. */
struct normed_rows {
  const real *w; /* [rows, cols] with ld */
  long rows, cols, ld;
  const double *gain, *shift; /* [cols] of the norm; no shift: NULL */
  int centred;                /* the norm takes the mean away (LayerNorm) */
  double length;              /* of the longest input before its gain: sqrt(D); INFINITY: unbounded */
};

/* |A x + c| <= weights + rest = length |A| + |c| (Su, kexue.fm/archives/11126, with gains) */
struct reach {
  double weights, rest;
};
/* a [rows, lda] = w diag(gain), less its rows' means if centred, 0 from column cols on. c [rows] holds the biases on
   entry; c += w shift. */
int reach_of(struct spectra *, enum spectra_method, const struct normed_rows *, real *a, long lda, double *c,
             struct reach *, struct error *);
#endif
