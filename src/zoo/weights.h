/* weights.h - the tensors of a checkpoint by name, whatever they lie in: one file of safetensors, the shards of a
   folder by their index, or memory; and rows of them as numbers */
#ifndef MAXLOGIT_ZOO_WEIGHTS_H
#define MAXLOGIT_ZOO_WEIGHTS_H
#include <jansson.h>
#include "zoo/safetensors.h"

/* A tensor as a matrix: columns are its last dimension, rows the product of the others (1 for a vector). */
struct weight {
  struct safetensor tensor;
  int64_t rows, cols;
  const struct safetensor *scale; /* of blocks of an F8 tensor, which multiplies; NULL: none */
  int64_t block_rows, block_cols;
};

struct weights;
/* A file, a folder (with model.safetensors.index.json, with model.safetensors, or with one *.safetensors), or an
   index. config.json beside it is read where there is one; `config` names another (NULL: that one). Everything that is
   wrong is STATUS_USAGE. */
int weights_open(struct weights **, const char *path, const char *config, struct error *);
/* Tensors in memory, which belong to the caller, as do their names; `tensors` is copied. */
struct weights *weights_of(const struct safetensor *tensors, size_t count);
void weights_close(struct weights *);

const char *weights_path(const struct weights *);
/* In natural order of their names: layer 2 before layer 10. */
size_t weights_count(const struct weights *);
const struct weight *weights_at(const struct weights *, size_t i);
const struct weight *weights_find(const struct weights *, const char *name); /* NULL if there is none */

/* config.json, an empty object where there is none; values may be set ("num_attention_heads=12"), as JSON or as
   text. weights_set says STATUS_USAGE where it is not a key=value. */
const json_t *weights_config(const struct weights *);
const char *weights_config_path(const struct weights *);
int weights_set(struct weights *, const char *assignment, struct error *);

/* Can it be read as numbers? STATUS_USAGE says why not. */
int weight_check(const struct weights *, const struct weight *, struct error *);
/* `count` numbers of a row, from a column on; exact for every format. */
void weight_read(const struct weight *, int64_t row, int64_t col, int64_t count, double *out);
/* One number as its format has it: `code` holds its bits, the lowest ones. */
double dtype_value(enum dtype, uint64_t code);
#endif
