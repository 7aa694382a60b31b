/* eigenbases.h - two-sided preconditioners of a matrix and their eigenbases: for SOAP and KL-Shampoo
   The preconditioners L [rows, rows] and R [cols, cols] of every matrix are states of an optimizer, and so are their
   bases Q_L and Q_R, with the eigenvectors in columns. The host renews the bases. A tensor of experts has one matrix
   per expert, one below the other. */
#ifndef MAXLOGIT_TRAINING_EIGENBASES_H
#define MAXLOGIT_TRAINING_EIGENBASES_H
#include "training/optimizer.h"

struct eigenbases {
  int left; /* number of the state L; R, Q_L and Q_R follow */
  int
    values; /* number of the state with the eigenvalues of L, a column; those of R follow; 0: they are not kept */
  long every; /* steps between renewals; 0: none */
  void (*state_shape)(const struct param *, int k, long *rows, long *cols); /* of the optimizer */
};
/* The shape of the k-th state if it belongs to the bases; else the arguments stay as they are. */
void eigenbases_shape(const struct param *, int left, int values, int k, long *rows, long *cols);

/* A matrix of an update: its place in the row of tensors, and the places of its states. */
struct eigen_matrix {
  long rows, cols, place, at[MAX_STATES];
};
long eigen_matrices(const struct update *, int i); /* in the i-th tensor */
struct eigen_matrix eigen_matrix_of(const struct update *, const struct eigenbases *, int i, long k);

/* Record a step of the host that renews the bases. Step 0: unit bases. With eigenvalues, the first gradient that is not
   zero has these, and L and R start as its RMS times the unit matrix. Renewals are at step 1 and every so many steps.
   The first of a basis: eigenvectors, from the largest eigenvalue down. Then Q <- QR(L Q), a step of the power method;
   the eigenvalues stay as they are. */
void eigenbases_record(struct program *, struct numbers *, const struct update *, const struct eigenbases *);
/* Record: y = Q_L^T x Q_R, or, back, Q_L x Q_R^T. */
void rotate_record(struct program *, struct tensor *y, struct tensor *x, struct tensor *ql, struct tensor *qr,
                   int back);
/* Record: s = keep s + scale add x x^T, or, ta, x^T x. */
void factor_record(struct program *, struct tensor *s, struct tensor *x, int ta, struct tensor *keep,
                   struct tensor *add, double scale);
#endif
