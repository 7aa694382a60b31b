/* data.h - sources of tokens: one file and one row per source
   A batch is a pure function of (seed, split, step): there is no state to save or to lose. */
#ifndef MAXLOGIT_TRAINING_DATA_H
#define MAXLOGIT_TRAINING_DATA_H
#include <stdint.h>
#include "base/error.h"
#include "base/option.h"
#include "base/random.h"

enum data_split { DATA_TRAIN, DATA_VAL, DATA_PROBE };

/* Section [data]: options common to all sources. `packing`: documents packed into the context; attention does not
   cross their boundaries. */
struct data_options {
  const char *path;      /* bytes: a file or files joined by + */
  long vocab, symbols;   /* bytes: char, byte, words, bpe; words or symbols that differ, at most */
  double val_fraction;   /* 0.1 */
  long packing;          /* none, documents */
  const char *separator; /* bytes with packing: the text that ends a document */
  double label_noise;    /* 0 */
};
enum { DATA_CHAR, DATA_BYTE, DATA_WORDS, DATA_BPE }; /* vocab */
enum { DATA_PACKING_NONE, DATA_PACKING_DOCUMENTS };
extern const struct option_row data_rows[];

struct batch {
  long batch, context; /* B, T */
  int *tokens;         /* [B, T+1]: inputs [.., :T], targets [.., 1:]. A batch is always filled whole;
                              micro-batches are slices of its rows */
  float *mask;         /* [B, T]: 1 where the target counts; filled with 1 by the caller */
  int *document;       /* [B, T]: index of the document within the row, 0,0,1,1,...; zeroed by the caller.
                              A target that begins another document does not count: its mask is 0. */
};

struct data { /* zeroed before init */
  const struct data_source *source;
  void *state; /* of the source */
  long vocab;
  double loss_floor;     /* entropy rate, nat per token, without label noise; NaN if unknown */
  double label_noise;    /* of data_options; set by the caller that opens the source */
  uint64_t content;      /* hash of all data that the source draws from, without paths */
  char description[256]; /* "shakespeare.txt, 1115394 bytes, 65 symbols" */
  int has_mask, has_document;
};

struct data_source {
  const char *name, *help;
  const struct option_row *options;
  size_t options_size;
  /* context: the longest row of any batch, to check that the text is long enough */
  int (*init)(struct data *, const struct data_options *, const void *options, long context, uint64_t seed,
              struct error *);
  /* fill one batch; `index` is the training step, or the number of the evaluation batch */
  void (*fill)(const struct data *, enum data_split, uint64_t seed, uint64_t index, struct batch *);
  void (*free)(struct data *);
};
extern const struct data_source *const data_sources[];
const struct data_source *data_source_find(const char *name);

/* --- for sources ----------------------------------------------------------------------------------------- */
/* The random stream of one batch. */
struct draw data_draw(enum data_split, uint64_t seed, uint64_t index);
#endif
