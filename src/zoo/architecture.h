/* architecture.h - which tensors of a checkpoint of others make the queries and keys of a head: the families
   A family is one row of families.c. It is recognised by model_type in config.json (or one level down, in
   text_config), else by the tensors' names. */
#ifndef MAXLOGIT_ZOO_ARCHITECTURE_H
#define MAXLOGIT_ZOO_ARCHITECTURE_H
#include "zoo/weights.h"

/* Before a projection (of its input) or after it (of queries, keys). */
enum norm_kind {
  NORM_NONE,
  NORM_RMS,           /* x / rms(x) * gain */
  NORM_RMS_PLUS_ONE,  /* x / rms(x) * (1 + gain) */
  NORM_LAYER,         /* (x - mean) / sd * gain + shift */
  NORM_LAYER_PLUS_ONE /* (x - mean) / sd * (1 + gain) + shift */
};
struct norm {
  enum norm_kind kind;
  const struct weight *gain, *shift; /* vectors; shift may be NULL; no gain: ones */
  long first;                        /* of the gain's numbers: where those of this head begin */
  long size;                         /* numbers that are normalised together */
};

/* Queries or keys of one head: rows [first, first+rows) of weight [out, in] with x -> weight x + bias. */
struct projection {
  const char *name; /* short: "w_q" */
  const struct weight *weight, *bias;
  int columns; /* the weight is stored as [in, out]: columns instead of rows */
  long first, rows, inputs;
  struct norm before, after;
};

enum rotary {
  ROTARY_NONE,
  ROTARY_HALVES,     /* turns pairs (i, i + n/2) of the first n numbers */
  ROTARY_INTERLEAVED /* pairs (2i, 2i+1) */
};
/* logit = scale * sum over parts of query . key */
struct logit_part {
  const char *name; /* "" where there is one part */
  struct projection q, k;
  enum rotary rotary;
  long rotary_size; /* n */
  double stretch;   /* rotation multiplies queries and keys with 1 + stretch, too */
};
enum { MOST_PARTS = 2 };
struct head_logits {
  int parts;
  struct logit_part part[MOST_PARTS];
  double scale; /* NaN: not known, hence no bound */
  double clip;  /* queries and keys are clamped to +-clip; 0: are not */
};

struct family;
struct architecture {
  const struct weights *weights;
  const char *family; /* its name */
  long layers, heads;
  /* layer, head: STATUS_USAGE where tensors are missing or do not fit; parts = 0 where the layer has no softmax
     attention */
  int (*head)(const struct architecture *, long layer, long head, struct head_logits *, struct error *);
  /* of families.c */
  const struct family *row;
  int by_names;         /* config.json names no family that is known */
  char unbounded[1024]; /* why there are no bounds on logits; "": there are */
  char prefix[256], root[256];
  long groups, head_dim, rope_dim;
  double scale;
  int scale_by_layer;
};

/* Recognise, and check the sizes. *known = 0 where the tensors are of no family: then there are no heads. What is
   known but does not fit is STATUS_USAGE. */
int architecture_open(struct architecture *, const struct weights *, int *known, struct error *);
/* The families, for help: name and what they are; NULL at the end. */
const char *architecture_family(int i, const char **help);
#endif
