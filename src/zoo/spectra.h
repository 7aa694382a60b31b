/* spectra.h - spectra of a checkpoint: every matrix, every head's part in the logits, and what bounds them
   One matrix or one layer's heads are in memory at a time. The same bits for any number of threads. */
#ifndef MAXLOGIT_ZOO_SPECTRA_H
#define MAXLOGIT_ZOO_SPECTRA_H
#include "base/thread.h"
#include "numerics/linalg.h"
#include "zoo/architecture.h"

/* Smallest, quartiles, largest: of one matrix all the same, of experts their distribution. A NaN among them is in
   every quantile. */
enum { QUANTILE_LEAST, QUANTILE_MEDIAN = 2, QUANTILE_MOST = 4, QUANTILES };

struct matrix_spectrum {
  char *name; /* without ".weight"; of experts "...experts.*.up_proj" */
  long rows, cols, count;
  struct spectrum quantile[QUANTILES]; /* each field by itself */
};

/* One part of a head's logits (two for MLA: content, rotary). */
struct part_spectrum {
  const char *name, *q_name, *k_name;
  long rows, q_cols, k_cols;
  struct spectrum q, k; /* of the rows as they are stored */
  struct spectrum form; /* of w_q^T w_k, of rank <= rows; n = rows */
};

enum { MOST_TERMS = 4 * MOST_PARTS };
struct bound_term {
  char name[32]; /* weights, query bias, key bias, biases; gain I; content, rotary */
  double value;
};
/* The bounds hold for every input and every pair of positions; they are sharp only in some cases.
     a  without norms of queries and keys: s (sqrt(D) |A| + |c_q|) (sqrt(D) |B| + |c_k|), A and B the rows with the
        gain of the norm before (centred for LayerNorm), c the biases and what the norm's shift becomes
        (kexue.fm/archives/11126, with gains)
     b  with norms of both: s sqrt(n_q n_k) max over pairs that rotation turns of max|gain_q| max|gain_k|
     d  MLA: the sum over its parts
     e  no rotation, no norms of queries and keys, one part: as still
   Rotation multiplies with a factor of its own in some families (YaRN), which A, B, c and gains contain.
   still: no rotation between the two (the same position, or none at all): the norms of products instead of products
   of norms; NaN under norms of queries and keys. */
struct head_spectrum {
  int parts; /* 0: no softmax attention here */
  struct part_spectrum part[MOST_PARTS];
  double scale, bound, still; /* NaN: the formula could be wrong */
  int terms, largest;         /* of the bound: its terms, and the largest of them */
  struct bound_term term[MOST_TERMS];
};

struct checkpoint_spectra {
  long layers, heads;
  struct head_spectrum *head; /* [layers*heads] */
  struct matrix_spectrum *matrix;
  long matrices;
  long left_out; /* matrices of numbers that are not read: quantised ones */
};

enum { SPECTRA_HEADS = 1, SPECTRA_MATRICES = 2 };
/* `architecture` may be NULL: no heads. tick (may be NULL) hears how far it is, 0 to 1. */
int checkpoint_spectra(struct checkpoint_spectra *, const struct weights *, const struct architecture *,
                       struct pool *, unsigned what, void (*tick)(void *, double), void *context,
                       struct error *);
void checkpoint_spectra_free(struct checkpoint_spectra *);

/* Series of spectra in a file like a run's, at step `step`: `path` must not exist; `source`: what the numbers
   are of. */
int checkpoint_spectra_record(const struct checkpoint_spectra *, const char *path, const char *family,
                              const char *source, long step, struct error *);

/* Room for one head at a time; `inputs`: the widest. */
struct head_work;
struct head_work *head_work_new(long rows, long inputs);
void head_work_free(struct head_work *);
int head_spectrum(struct head_work *, const struct head_logits *, struct head_spectrum *, struct error *);

/* Of rows [row, row+rows) of a weight. In double; large matrices by the Gram matrix of their shorter side, which is
   then all that is in memory, packed where it is large itself. `pool` may be NULL. */
enum matrix_way { MATRIX_CHOSEN, MATRIX_SVD, MATRIX_GRAM, MATRIX_PACKED };
int matrix_spectrum(const struct weight *, long row, long rows, enum matrix_way, struct pool *,
                    struct spectrum *, struct error *);
#endif
