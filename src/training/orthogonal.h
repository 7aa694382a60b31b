/* orthogonal.h - the matrices in a row of tensors, and their orthogonalization: for Muon and those like it
   A tensor may be several matrices: every expert is one, with per_head every head's rows are. */
#ifndef MAXLOGIT_TRAINING_ORTHOGONAL_H
#define MAXLOGIT_TRAINING_ORTHOGONAL_H
#include "training/optimizer.h"

/* Which projections to heads are split: option per_head. */
enum heads_split { HEADS_NONE, HEADS_QK, HEADS_QKV };
extern const char *const heads_split_names[];

/* Options of several optimizers. */
#define COEFFICIENTS_ROW(S) \
  CHOICE_ROW(S, coefficients, "keller", ns_names, \
             "coefficients of Newton-Schulz; svd: the exact polar factor; none: the momentum scaled to the " \
             "same norm", \
             0)
#define PER_HEAD_ROW(S) \
  CHOICE_ROW(S, per_head, "none", heads_split_names, \
             "orthogonalize the rows of each head separately: in the query and key projections, or also in " \
             "the value projection", \
             0)

/* Rows of each of a tensor's matrices. */
long matrix_rows(long heads_split, const struct param *);

/* The matrices of one shape in a row of tensors. */
struct matrices {
  long rows, cols, count;
  long *place; /* in the row */
  int *tensor; /* of update.param ... */
  long *first; /* ... and the row of it with which the matrix begins */
};
/* The matrices that have the shape and kind of u's i-th tensor, if it is the first such tensor; else returns 0.
   Memory is the program's. */
int matrices_of(struct program *, const struct update *u, long heads_split, int i, struct matrices *);

/* Method: the set (enum ns_choice), its steps (0: all), and the iteration (enum ns_iteration). */
struct orthogonal {
  long coefficients, steps, iteration;
};
/* Record: the matrices in the row x become their polar factors, nearly, times scale by. by may be NULL (1); steps of
   the host use its value, by_value. */
void orthogonal_record(struct program *, struct tensor *x, const struct matrices *, const struct orthogonal *,
                       struct tensor *by, double by_value, double scale);
/* Record: the matrices in the row x get this RMS; zeros stay. */
void matrices_rms_record(struct program *, struct tensor *x, const struct matrices *, struct tensor *rms);
/* The same of n segments, place | length. */
void segments_rms_record(struct program *, struct tensor *x, const int *segment, long n, struct tensor *rms);
#endif
