#include "ledger/claim.h"

const struct claim claim_c02c = {
  .id = "C-02c",
  .source = "kexue.fm/archives/11126; Kimi K2, arXiv 2507.20534",
  .sentence = "At an equal spectral norm of the update Muon's max logits are higher than Adam's.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n"
            "override.match = update_spectral_norm\n",
  .arm = {{"Adam", "preset=adam"}, {"Muon", "preset=muon"}},
  .equal = EQUAL_NORM,
  .tuned = "C-02b",
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_MORE,
  .matters = 1.25,
  .refute = "Muon's max logit below 1.25 times Adam's",
  .explored = "none here; a prototype in another program had a factor of eight.",
};
