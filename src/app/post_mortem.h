/* post_mortem.h - how a run failed: show --why */
#ifndef MAXLOGIT_APP_POST_MORTEM_H
#define MAXLOGIT_APP_POST_MORTEM_H
#include "analysis/json.h"
#include "analysis/runset.h"

enum { POST_MORTEM_ROWS = 5 };
struct post_mortem_row { /* a step; NaN where a series is missing */
  double step, loss, grad_norm, max_logit;
  char place[32]; /* the head of that max logit, "L1H2"; "" without heads */
};
/* A max logit that exploded is above this, tau of Kimi K2 (arXiv 2507.20534). */
#define POST_MORTEM_EXPLODED 100.0
struct post_mortem_growth { /* of a series the head, layer or tensor that grew most, between two rows */
  char series[96], place[96];
  double step[2], value[2];
};
struct head_place {
  int layer, head; /* head -1: the layer */
};
struct post_mortem {
  int is_nonfinite, blew_up; /* neither: nothing failed */
  int exploded;              /* nothing failed, without clips a max logit passed POST_MORTEM_EXPLODED */
  double step; /* of the first value that is not finite; at which the loss left for good; of that logit */
  double loss, grad_norm;  /* of that step */
  struct head_place *head; /* not finite at that step */
  long heads;
  double first_step, first_loss, last_loss;     /* of the first row with a loss, and of the last */
  struct post_mortem_row row[POST_MORTEM_ROWS]; /* the last ones before that step, and its own */
  int rows;
  struct post_mortem_growth *growth; /* of each series that has grown, the most first */
  int growths;
  long clips, clipped_heads, first_clip, last_clip, spikes;
  double peak; /* the largest finite max logit */
  char **hint; /* commands to try */
  int hints;
};

/* For post_mortem_free where the status is STATUS_OK. */
/* Does the value of `stabilizers` name a clip that holds max logits near a threshold? */
int stack_has_clip(const char *stack);
int post_mortem_of(struct post_mortem *, const struct run *, struct error *);
void post_mortem_free(struct post_mortem *);
void post_mortem_print(const struct post_mortem *, const struct run *);
json_t *post_mortem_json(const struct post_mortem *);
#endif
