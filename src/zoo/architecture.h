/* architecture.h - finds the tensors of a foreign checkpoint that make the queries and keys of a head
   A family is one row of families.c. It is recognized by model_type in config.json (or one level down, in text_config),
   else by the tensors' names. */
#ifndef MAXLOGIT_ZOO_ARCHITECTURE_H
#define MAXLOGIT_ZOO_ARCHITECTURE_H
#include "zoo/weights.h"

/* A norm before a projection (of its input) or after it (of queries, keys). */
enum norm_kind {
  NORM_NONE,
  NORM_RMS,           /* x / rms(x) * gain */
  NORM_RMS_PLUS_ONE,  /* x / rms(x) * (1 + gain) */
  NORM_LAYER,         /* (x - mean) / sd * gain + shift */
  NORM_LAYER_PLUS_ONE /* (x - mean) / sd * (1 + gain) + shift */
};
struct norm {
  enum norm_kind kind;
  const struct weight *gain, *shift; /* vectors; shift may be NULL; gain NULL: ones; one number: for all */
  long first;                        /* index of the head's first gain */
  long size;                         /* numbers that are normalized together */
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
  ROTARY_HALVES,     /* rotates pairs (i, i + n/2) of the first n numbers */
  ROTARY_INTERLEAVED /* pairs (2i, 2i+1) */
};
/* logit = scale * sum over parts of query . key */
struct logit_part {
  const char *name; /* "" if there is one part */
  struct projection q, k;
  enum rotary rotary;
  long rotary_size; /* n */
  double stretch;   /* rotation also multiplies queries and keys by 1 + stretch */
};
enum { MOST_PARTS = 2 };
struct head_logits {
  int parts;
  struct logit_part part[MOST_PARTS];
  double scale; /* NaN: unknown, so there is no bound */
  double clip;  /* queries and keys are clamped to +-clip; 0: no clamp */
};

struct family;
struct architecture {
  const struct weights *weights;
  const char *family; /* name of the family */
  long layers, heads;
  /* Queries and keys of a head. STATUS_USAGE if tensors are missing or do not fit; parts = 0 if the layer has no
     softmax attention. */
  int (*head)(const struct architecture *, long layer, long head, struct head_logits *, struct error *);
  /* only for families.c */
  const struct family *row;
  int by_names;         /* config.json has no known family */
  char unbounded[1024]; /* why there are no bounds on logits; "": there are bounds */
  char prefix[256], root[256];
  long groups, head_dim, rope_dim;
  double scale;
  int scale_by_layer;
};

/* Recognize the family and check the sizes. *known = 0 if the tensors belong to no known family: then there are no
   heads. STATUS_USAGE if a known family does not fit. */
int architecture_open(struct architecture *, const struct weights *, int *known, struct error *);
/* The families, for help texts: name and description; NULL at the end. */
const char *architecture_family(int i, const char **help);
#endif
