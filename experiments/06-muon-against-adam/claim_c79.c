#include "ledger/claim.h"

const struct claim claim_c79 = {
  .id = "C-79",
  .source = "none: a question of this project",
  .sentence = "NorMuon, whose update has rows of one size, keeps max logits lower than Muon at an equal RMS "
              "of the update.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n"
            "override.match = update_rms\n",
  .arm = {{"Muon", "preset=muon"}, {"NorMuon", "preset=normuon"}},
  .equal = EQUAL_RMS,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.25,
  .refute = "max logits above four fifths of those of Muon",
  .hours = 0.05,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
