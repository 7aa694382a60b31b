/* claim.h - one row of the ledger: a sentence of the literature, and what would settle it here
   A claim is one file, experiments/NN-question/claim_ID.c, and one row of experiments/list.am. It states, and
   computes nothing. */
#ifndef MAXLOGIT_LEDGER_CLAIM_H
#define MAXLOGIT_LEDGER_CLAIM_H
#include "analysis/pairs.h"

/* What the source says of the effect, which is B - A or B / A of the first two arms, or of the only arm against
   `level`. */
enum prediction {
  PREDICT_MORE,     /* above zero, by what matters */
  PREDICT_LESS,     /* below zero */
  PREDICT_SAME,     /* within what matters of zero */
  PREDICT_NOT_MORE, /* not above zero by what matters; below it is as good */
  PREDICT_NOT_LESS
};

/* What the compared arms have in common, which decides many a comparison of optimizers. */
enum equal {
  EQUAL_UNSAID,
  EQUAL_RATE,  /* the learning rate of the regime */
  EQUAL_RMS,   /* of every update */
  EQUAL_NORM,  /* the spectral norm of every update */
  EQUAL_LOSS,  /* of the runs */
  EQUAL_TUNED, /* each arm at its own best rate, by validation loss (tuning.h) */
};

struct claim_arm {
  const char *name;   /* of a table's line: "Muon"; NULL ends the arms */
  const char *set;    /* "key=value key=value", on top of the regime; NULL: the regime as it is */
  const char *metric; /* where it is not the claim's */
  const char *start;  /* as `set`, of the phase that the arm starts from */
};
enum { CLAIM_ARMS = 7, CLAIM_CONTROLS = 2 };

/* What must be seen for the comparison to mean anything: the symptom without the cure, the cure at work. Where the
   median over the arm's runs is not above the bound the verdict is `nothing to test`. */
struct claim_control {
  const char *metric; /* NULL: none */
  int arm;
  double above;
};

struct claim {
  const char *id;       /* "C-18", "C-18b" where a sentence needs several rows; the file is claim_c18b.c */
  const char *source;   /* where it is said, so that it can be found */
  const char *sentence; /* what is said */
  /* What all arms share, as lines of a configuration ("train.lr = 0.03\n..."); no seeds: those are the rule's. NULL:
     nothing is run. */
  const char *regime;
  /* A first phase, as lines of a configuration: every run of an arm starts from the weights at the end of one, of its
     own seed. NULL: from weights that are drawn. */
  const char *start;
  /* The first two are compared; where there is only one it is compared with `level`; more are shown beside. */
  struct claim_arm arm[CLAIM_ARMS + 1];
  enum equal equal;
  const char *metric; /* metric.h */
  enum contrast contrast;
  double level; /* of the only arm; of a share: what a run's value must exceed to count */
  enum prediction prediction;
  double matters;     /* the smallest effect that matters: a difference above 0, or a factor above 1 */
  const char *refute; /* what would refute it, in words */
  struct claim_control control[CLAIM_CONTROLS];
  /* Why no small machine can test it: the verdict is then `needs scale`, and the arms show the trend. NULL: it is
     tested. */
  const char *scale;
  /* It follows from the algebra of the update: its verdict, `true by construction`, tests the program, not nature. */
  int identity;
  const char *withdrawn; /* why it is no claim any more: nothing is run */
  const char *revised;   /* what was changed of it after verdicts were printed, and why */
  double hours;          /* of one core that the full level takes, about; 0: was not told */
  const char *explored;  /* what the regime was chosen by, with seeds below LEDGER_SEED */
};

/* The registry: `question` is the folder below experiments/. Ends with claim NULL. */
struct claim_row {
  const struct claim *claim;
  const char *question;
};
extern const struct claim_row claim_rows[];

/* How many of the arms are compared: 2, or 1 against the level; 0 where nothing is run. */
int claim_compared(const struct claim *);
/* All that are given. */
int claim_arms(const struct claim *);
const char *claim_metric(const struct claim *, int arm);
const char *equal_name(enum equal); /* "tuned" */
/* Can runs settle it here? Not what is withdrawn, needs scale or is an identity: the others are the family of the
   corrections for many tests, which is fixed before there are data. */
int claim_is_tested(const struct claim *);
/* Are the same arms compared by the same measure, whatever is said of them? Such count once. */
int claim_is_same_comparison(const struct claim *, const struct claim *);
const char *contrast_text(const struct claim *, char *out, int room); /* "B / A" */
/* The value of a key in the regime; its length is 0 if the key is missing. */
const char *claim_regime_value(const struct claim *, const char *key, int *length);
/* At which rates a verdict is found: "tuned", "lr 0.03"; "" if the arms' rates differ or the regime names none. */
const char *claim_rates(const struct claim *, char out[32]);
const char *prediction_text(const struct claim *, char *out,
                            int room); /* "B / A above 1, by a factor of 1.2" */
#endif
