/* zigzag.h - a sequence cut over ranks so that under a causal mask all have the same work: into twice as many chunks as
   there are ranks, of which rank r has number r and the r-th from the end (the order of TransformerEngine's and
   Megatron's context parallelism: head and tail) */
#ifndef MAXLOGIT_MODEL_ZIGZAG_H
#define MAXLOGIT_MODEL_ZIGZAG_H

struct zigzag {
  long length; /* of the whole sequence: a multiple of 2 ranks, or one rank */
  int rank, ranks;
};
/* Positions of each rank. */
static inline long zigzag_rows(const struct zigzag *z) { return z->length / z->ranks; }
/* The position in the sequence of row i of this rank. */
long zigzag_position(const struct zigzag *, long row);
/* The number of rows of `rank` before a position of the sequence. Positions [from, to) are that rank's rows from
   zigzag_before(from) to zigzag_before(to). */
long zigzag_before(const struct zigzag *, int rank, long position);
#endif
