/* spectra.h - spectra of a checkpoint: every matrix, every head's logits, and bounds on the logits
   Only one matrix or the heads of one layer are in memory at a time. The bits do not depend on the number of
   threads. */
#ifndef MAXLOGIT_ZOO_SPECTRA_H
#define MAXLOGIT_ZOO_SPECTRA_H
#include "base/thread.h"
#include "numerics/linalg.h"
#include "zoo/architecture.h"

/* Smallest, quartiles, largest. For one matrix all are equal, for experts they are the distribution. A NaN among the
   values makes every quantile NaN. */
enum { QUANTILE_LEAST, QUANTILE_MEDIAN = 2, QUANTILE_MOST = 4, QUANTILES };

struct matrix_spectrum {
  char *name; /* without ".weight"; for experts "...experts.*.up_proj" */
  long rows, cols, count;
  struct spectrum quantile[QUANTILES]; /* each field independently */
};

/* One part of a head's logits (two for MLA: content, rotary). */
struct part_spectrum {
  const char *name, *q_name, *k_name;
  long rows, q_cols, k_cols;
  struct spectrum q, k; /* of the stored rows */
  struct spectrum form; /* of w_q^T w_k, of rank <= rows; n = rows */
};

enum { MOST_TERMS = 4 * MOST_PARTS };
struct bound_term {
  char name[32]; /* weights, query bias, key bias, biases; gain I; content, rotary */
  double value;
};
/* The bounds hold for every input and every pair of positions; they are sharp only in some cases. s: softmax scale; D:
   width of the model.
   - a: without norms of queries and keys: s (sqrt(D) |A| + |r_q|) (sqrt(D) |B| + |r_k|). A and B are the rows with the
     gain of the norm before (centered for LayerNorm), r the biases and the product with the norm's shift
     (kexue.fm/archives/11126, with gains).
   - b: with norms of both, n_q and n_k numbers each: s sqrt(n_q n_k) max over rotated pairs of max|gain_q| max|gain_k|.
   - c: MLA: the largest sum of both parts over one query, with free latents and rotary keys; its biases as in a.
   - d: no rotation, no norms of queries and keys, one part: equal to `still`.
   In some families (YaRN) rotation has a factor, which A, B, r and gains contain.
   still: no rotation between query and key (the same position, or no rotation at all): norms of products instead of
   products of norms, MLA: at most its bound; NaN with norms of queries and keys. */
struct head_spectrum {
  int parts; /* 0: not softmax attention */
  struct part_spectrum part[MOST_PARTS];
  double scale, bound, still; /* NaN: the formula might be wrong */
  int terms, largest;         /* of the bound: the number of its terms, and the index of the largest */
  struct bound_term term[MOST_TERMS];
};

struct checkpoint_spectra {
  long layers, heads;
  struct head_spectrum *head; /* [layers*heads] */
  struct matrix_spectrum *matrix;
  long matrices;
  long left_out; /* matrices in a format that is not read: quantized ones */
};

enum { SPECTRA_HEADS = 1, SPECTRA_MATRICES = 2 };
/* `architecture` may be NULL: no heads. tick (may be NULL) is called with the progress, 0 to 1. */
int checkpoint_spectra(struct checkpoint_spectra *, const struct weights *, const struct architecture *,
                       struct pool *, unsigned what, void (*tick)(void *, double), void *context,
                       struct error *);
void checkpoint_spectra_free(struct checkpoint_spectra *);

/* Write the spectra as series of a file like a run's, at step `step`: `path` must not exist; `source` describes the
   checkpoint. */
int checkpoint_spectra_record(const struct checkpoint_spectra *, const char *path, const char *family,
                              const char *source, long step, struct error *);

/* Memory for one head at a time; `inputs`: the widest. */
struct head_work;
struct head_work *head_work_new(long rows, long inputs);
void head_work_free(struct head_work *);
int head_spectrum(struct head_work *, const struct head_logits *, struct head_spectrum *, struct error *);

/* The spectrum of rows [row, row+rows) of a weight, in double. Large matrices use the Gram matrix of their shorter
   side; then only that is in memory, packed if it is large itself. `pool` may be NULL. */
enum matrix_way { MATRIX_CHOSEN, MATRIX_SVD, MATRIX_GRAM, MATRIX_PACKED };
int matrix_spectrum(const struct weight *, long row, long rows, enum matrix_way, struct pool *,
                    struct spectrum *, struct error *);
#endif
