#include "ledger/claim.h"

const struct claim claim_c54b = {
  .id = "C-54b",
  .source = "kexue.fm/archives/11126",
  .sentence = "Under Adam the clip costs no loss.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0\n",
  .arm = {{"Adam", "preset=adam"}, {"AdamClip", "preset=adamclip qk_clip.tau=10"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_NOT_MORE,
  .matters = 0.02,
  .control = {{"clips", 1, 0}},
  .refute = "a validation loss that is higher by 0.02 nat",
  .revised = "the price of a clip was measured at a rate three times above the best: each arm is tuned, and "
             "tau is 10, a third of what the logits reach there, for 30 would never act. The setting said "
             "100 at first, "
             "so that the arms were the same training",
  .explored =
    "1 to 3 of an earlier experiment on another text (its table stands in 01 to 04); none on this source.",
};
