/* mtp.c - the losses of the modules of multi-token prediction */
#include "observe/observable.h"

enum { LOSS, VAL_LOSS };
static const struct series series[] = {
  [LOSS] = {"mtp/loss", PER_LAYER, AXIS_STEP, "nat", "loss of the module",
            "mean cross-entropy of the multi-token prediction module whose block the layer is, of the "
            "step's batch before its update; NaN in layers of the stack; not part of loss"},
  [VAL_LOSS] = {"mtp/val_loss", PER_LAYER, AXIS_VAL, "nat", "validation loss of the module",
                "as mtp/loss, on the batches of val_loss"},
  {0}};

static int wanted(const struct observer *w, int i)
{
  (void)i;
  return w->model->options.mtp > 0;
}

static int read(struct observer *w, struct observation *rows, struct error *e)
{
  const struct model_options *o = &w->model->options;
  const real *ahead = report_of(rows->read, w->tally->ahead);
  float *value = rows->row[w->axis == AXIS_VAL ? VAL_LOSS : LOSS].value;
  (void)e;
  for (long k = 0; k < o->mtp; k++) value[o->layers + k] = (float)(ahead[2 * k] / (real)rows->batches);
  return STATUS_OK;
}

const struct observable observable_mtp = {
  .name = "mtp",
  .help = "losses of multi-token prediction modules (with model.mtp)",
  .flags = OBSERVABLE_DEFAULT,
  .series = series,
  .wanted = wanted,
  .read = read,
};
