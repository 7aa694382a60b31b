/* claim.h - one row of the ledger: a sentence of the literature, and the test that would settle it here
   A claim is one file, experiments/NN-question/claim_ID.c, and one row of experiments/list.am. It contains only
   data. */
#ifndef MAXLOGIT_LEDGER_CLAIM_H
#define MAXLOGIT_LEDGER_CLAIM_H
#include "analysis/pairs.h"

/* The effect that the source predicts: B - A or B / A of the first two arms, or of the only arm against `level`. */
enum prediction {
  PREDICT_MORE,     /* above zero, by at least `matters` */
  PREDICT_LESS,     /* below zero */
  PREDICT_SAME,     /* within `matters` of zero */
  PREDICT_NOT_MORE, /* not above zero by `matters`; any value below zero agrees */
  PREDICT_NOT_LESS
};

/* The quantity that is equal in the compared arms. It decides many comparisons of optimizers. */
enum equal {
  EQUAL_UNSAID,
  EQUAL_RATE,  /* the learning rate of the regime */
  EQUAL_RMS,   /* of every update */
  EQUAL_NORM,  /* the spectral norm of every update */
  EQUAL_LOSS,  /* of the runs */
  EQUAL_TUNED, /* each arm at its own best rate, by validation loss (tuning.h) */
};

struct claim_arm {
  const char *name;   /* name in tables: "Muon"; NULL ends the arms */
  const char *set;    /* "key=value key=value", on top of the regime; NULL: the regime as it is */
  const char *metric; /* overrides the claim's metric */
  const char *start;  /* as `set`, for the phase that the arm starts from */
};
enum { CLAIM_ARMS = 7, CLAIM_CONTROLS = 2 };

/* A condition for a meaningful comparison: the symptom appears without the cure, or the cure is active. If the median
   over the arm's runs is not above the bound, the verdict is `nothing to test`. */
struct claim_control {
  const char *metric; /* NULL: none */
  int arm;
  double above;
};

struct claim {
  const char *id;       /* "C-18", "C-18b" if a sentence needs several rows; the file is claim_c18b.c */
  const char *source;   /* a reference to the sentence in the literature */
  const char *sentence; /* the claim as a sentence */
  /* Settings that all arms share, as lines of a configuration ("train.lr = 0.03\n..."), without seeds, which the rule
     sets. NULL: nothing is run. */
  const char *regime;
  /* A first phase, as lines of a configuration: every run of an arm starts from the final weights of the first phase
     with its seed. NULL: from random weights. */
  const char *start;
  /* The first two arms are compared, or a single arm with `level`. Further arms are only shown. */
  struct claim_arm arm[CLAIM_ARMS + 1];
  enum equal equal;
  const char *metric; /* metric.h */
  enum contrast contrast;
  double level; /* of the only arm; for shares: a run counts if its value is above */
  enum prediction prediction;
  double matters;     /* the smallest effect that matters: a difference above 0, or a factor above 1 */
  const char *refute; /* the result that would refute it, as text */
  struct claim_control control[CLAIM_CONTROLS];
  /* The reason why no small machine can test it: the verdict is then `needs scale`, and the arms show the trend. NULL:
     it is tested. */
  const char *scale;
  /* It follows from the algebra of the update. Its verdict, `true by construction`, tests the program, not nature. */
  int identity;
  const char *tuned; /* id of the same question with each arm at its best rate; both verdicts share a row */
  const char *withdrawn; /* why the claim was withdrawn: nothing is run */
  const char *revised;   /* changes after verdicts were printed, and the reason */
  double hours;          /* core hours of the full level, approximately; 0: unknown */
  const char *explored;  /* the basis on which the regime was chosen, with seeds below LEDGER_SEED */
};

/* The registry: `question` is the folder below experiments/. Ends with claim NULL. */
struct claim_row {
  const struct claim *claim;
  const char *question;
};
extern const struct claim_row claim_rows[];

/* The number of compared arms: 2, or 1 against the level; 0 if nothing is run. */
int claim_compared(const struct claim *);
/* The number of all arms. */
int claim_arms(const struct claim *);
const char *claim_metric(const struct claim *, int arm);
const char *equal_name(enum equal);               /* "tuned" */
const char *equal_text(enum equal, char out[32]); /* "best rates", "equal rms" */
/* Can runs settle the claim here? False for claims that are withdrawn, need scale or are identities. The others are the
   family of the corrections for multiple tests, which is fixed before there are data. */
int claim_is_tested(const struct claim *);
/* Do both claims compare the same arms by the same measure, whatever they predict? Such claims count once. */
int claim_is_same_comparison(const struct claim *, const struct claim *);
const char *contrast_text(const struct claim *, char *out, int room); /* "B / A" */
/* The value of a key in the regime; its length is 0 if the key is missing. */
const char *claim_regime_value(const struct claim *, const char *key, int *length);
/* The rates at which a verdict is found: "tuned", "lr 0.03"; "" if the arms' rates differ or the regime names none. */
const char *claim_rates(const struct claim *, char out[32]);
const char *prediction_text(const struct claim *, char *out,
                            int room); /* "B / A above 1, by a factor of 1.2" */
#endif
