/* logits.c - the maxima of every head's attention logits, and the entropy of its weights */
#include "observe/observable.h"

#define LOGIT_DEFINITION \
  "signed maximum over the batch and the allowed (mask and document) positions of the softmax input " \
  "before any cap, softmax scale included, over all micro-batches of the step"

/* The first four are the columns of attention_forward's statistics. */
enum { MAX_LOGIT, MAX_ABS_LOGIT, MAX_LOGIT_CAPPED, ENTROPY, COLUMNS, PROBE_MAX = COLUMNS, PROBE_MAX_ABS };
static const struct series series[] = {
  [MAX_LOGIT] = {"attn/max_logit", PER_HEAD, AXIS_STEP, "nat", "max logit", LOGIT_DEFINITION},
  [MAX_ABS_LOGIT] = {"attn/max_abs_logit", PER_HEAD, AXIS_STEP, "nat", "max |logit|",
                     "as attn/max_logit, of the absolute value"},
  [MAX_LOGIT_CAPPED] = {"attn/max_logit_capped", PER_HEAD, AXIS_STEP, "nat", "max logit after the cap",
                        "as attn/max_logit, after the cap: what enters the softmax"},
  [ENTROPY] = {"attn/entropy", PER_HEAD, AXIS_STEP, "nat", "attention entropy",
               "mean over queries of the entropy of the attention weights"},
  [PROBE_MAX] = {"probe/max_logit", PER_HEAD, AXIS_PROBE, "nat", "max logit on the probe batch",
                 "as attn/max_logit, on the probe batch"},
  [PROBE_MAX_ABS] = {"probe/max_abs_logit", PER_HEAD, AXIS_PROBE, "nat", "max |logit| on the probe batch",
                     "as attn/max_abs_logit, on the probe batch"},
  {0}};

static int wanted(const struct observer *w, int i)
{
  struct attention_spec spec = {0};
  if (i != MAX_LOGIT_CAPPED) return 1;
  model_on_score(w->model, 0, &spec);
  return spec.score.cap != 0;
}

static int read(struct observer *w, struct observation *rows, struct error *e)
{
  const real *stats = report_of(rows->read, w->tally->stats);
  (void)e;
  for (int i = 0; i < COLUMNS && w->axis == AXIS_STEP; i++) observation_put(rows, i, stats + i, COLUMNS);
  for (int i = 0; i < 2 && w->axis == AXIS_PROBE; i++)
    observation_put(rows, PROBE_MAX + i, stats + i, COLUMNS);
  return STATUS_OK;
}

const struct observable observable_logits = {
  .name = "logits",
  .help = "max logits and attention entropy of every head; always recorded",
  .flags = OBSERVABLE_ALWAYS,
  .series = series,
  .wanted = wanted,
  .read = read,
};
