/* decode.c - the text decoded through a cache, compared to the training form; the owner of the weights decodes it
   (see decoded) */
#include "observe/observable.h"

enum { DIFFERENCE, ROUNDINGS };
static const struct series series[] = {
  [DIFFERENCE] =
    {"decode/difference", PER_STEP, AXIS_VAL, "nat", "largest difference of a decoded loss",
     "largest |difference| of one token's loss, on the batches of val_loss, between the training "
     "form and decoding through a cache: of latents where there are some (mla; under qk_norm with "
     "one 1/rms a head, arXiv 2606.16310), else of keys and values. After the last update of a "
     "run that is not spread over ranks; else NaN"},
  [ROUNDINGS] = {"decode/roundings", PER_STEP, AXIS_VAL, "1", "the same, in roundings",
                 "decode/difference over the largest |difference| of one token's loss that one rounding of "
                 "every weight makes"},
  {0}};

/* A mask with later tokens cannot be decoded one by one. */
static int wanted(const struct observer *w, int i)
{
  const long mask = w->model->options.mask;
  (void)i;
  return mask == MASK_CAUSAL || mask == MASK_WINDOW;
}

static int read(struct observer *w, struct observation *r, struct error *e)
{
  (void)w, (void)e;
  if (!r->decoded) return STATUS_OK;
  observation_put_number(r, DIFFERENCE, r->decoded->difference);
  observation_put_number(r, ROUNDINGS, r->decoded->difference / r->decoded->rounding);
  return STATUS_OK;
}

const struct observable observable_decode = {
  .name = "decode",
  .help = "decoding the final weights through a cache, compared with the training form; by name only",
  .flags = OBSERVABLE_WHOLE,
  .series = series,
  .wanted = wanted,
  .read = read,
};
