#include "ledger/claim.h"

const struct claim claim_c27 = {
  .id = "C-27",
  .source = "kexue.fm/archives/11126",
  .sentence =
    "At an equal RMS of the update Muon's updates add more to the leading singular value of w_q and w_k than "
    "Adam's (\"collision\").",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n"
            "override.match = update_rms\n",
  .arm = {{"Adam", "preset=adam"}, {"Muon", "preset=muon"}},
  .equal = EQUAL_RMS,
  .metric = "update/alignment@*w_[qk]:100-599:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.1,
  .refute = "a first-order growth of the spectral norm, a unit of rate, that is not higher by 0.1",
  .revised = "what was held equal, the RMS of the update, is said",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
