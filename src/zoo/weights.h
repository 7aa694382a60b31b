/* weights.h - the tensors of a checkpoint by name, and their rows as numbers
   The source is a file of safetensors, the shards of a folder by their index, or memory. */
#ifndef MAXLOGIT_ZOO_WEIGHTS_H
#define MAXLOGIT_ZOO_WEIGHTS_H
#include <jansson.h>
#include "zoo/safetensors.h"

/* A tensor as a matrix: columns are its last dimension, rows the product of the others (1 for a vector). */
struct weight {
  struct safetensor tensor;
  int64_t rows, cols;
  const struct safetensor *scale; /* scales of the blocks of an F8 tensor, which multiply it; NULL: none */
  int64_t block_rows, block_cols;
};

struct weights;
/* Open a file, a folder (with model.safetensors.index.json, with model.safetensors, or with one *.safetensors), or an
   index. A config.json beside it is read if it exists; `config` names another file (NULL: that one). Any error is
   STATUS_USAGE. */
int weights_open(struct weights **, const char *path, const char *config, struct error *);
/* Tensors in memory. They and their names belong to the caller; `tensors` is copied. */
struct weights *weights_of(const struct safetensor *tensors, size_t count);
void weights_close(struct weights *);

const char *weights_path(const struct weights *);
/* In the natural order of their names: layer 2 before layer 10. */
size_t weights_count(const struct weights *);
const struct weight *weights_at(const struct weights *, size_t i);
const struct weight *weights_find(const struct weights *, const char *name); /* NULL if there is none */

/* config.json, or an empty object. Values may be set ("num_attention_heads=12"), as JSON or as text. weights_set:
   STATUS_USAGE if the text is not a key=value. */
const json_t *weights_config(const struct weights *);
const char *weights_config_path(const struct weights *);
int weights_set(struct weights *, const char *assignment, struct error *);

/* STATUS_USAGE, with the reason, if the weight cannot be read as numbers. */
int weight_check(const struct weights *, const struct weight *, struct error *);
/* Read `count` numbers of a row, from column `col` on; exact for every format. */
void weight_read(const struct weight *, int64_t row, int64_t col, int64_t count, double *out);
/* Decode one number: the lowest bits of `code` are its bits. */
double dtype_value(enum dtype, uint64_t code);
#endif
