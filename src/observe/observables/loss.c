/* loss.c - the losses of the stack's own head, the step's rate, and the size of its gradient */
#include "observe/observable.h"

enum { LOSS, LR, GRAD_NORM, VAL_LOSS, PROBE_LOSS };
static const struct series series[] = {
  [LOSS] = {"loss", PER_STEP, AXIS_STEP, "nat", "training loss",
            "mean cross-entropy per counted target of the step's batch, before its update, without z-loss"},
  [LR] = {"lr", PER_STEP, AXIS_STEP, "1", "learning rate", "rate of this step's update, warm-up included"},
  [GRAD_NORM] = {"grad_norm", PER_STEP, AXIS_STEP, "1", "gradient norm",
                 "Euclidean norm over all trained tensors, before clipping"},
  [VAL_LOSS] = {"val_loss", PER_STEP, AXIS_VAL, "nat", "validation loss",
                "mean cross-entropy on fixed validation batches, the same for every seed, before the update"},
  [PROBE_LOSS] = {"probe/loss", PER_STEP, AXIS_PROBE, "nat", "loss on the probe batch",
                  "mean cross-entropy on one fixed batch, the same for every seed, before the update"},
  {0}};

static int read(struct observer *w, struct observation *rows, struct error *e)
{
  double loss = (double)report_of(rows->read, w->tally->loss)[0] / rows->batches;
  (void)e;
  observation_put_number(rows,
                         w->axis == AXIS_VAL     ? VAL_LOSS
                         : w->axis == AXIS_PROBE ? PROBE_LOSS
                                                 : LOSS,
                         loss);
  if (w->axis != AXIS_STEP) return STATUS_OK;
  observation_put_number(rows, LR, rows->now.rate);
  observation_put_number(rows, GRAD_NORM, (double)report_of(rows->read, updates_grad_norm(w->updates))[0]);
  return STATUS_OK;
}

const struct observable observable_loss = {
  .name = "loss",
  .help = "losses, learning rate, gradient norm; always recorded",
  .flags = OBSERVABLE_ALWAYS,
  .series = series,
  .read = read,
};
