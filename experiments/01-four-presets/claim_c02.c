#include "ledger/claim.h"

const struct claim claim_c02 = {
  .id = "C-02",
  .source = "kexue.fm/archives/11126; Kimi K2, arXiv 2507.20534",
  .sentence = "At an equal learning rate and an equal size (RMS) of the update, Muon's max logits grow "
              "higher than Adam's.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n"
            "override.match = update_rms\n",
  .arm = {{"Adam", "preset=adam"}, {"Muon", "preset=muon"}},
  .equal = EQUAL_RMS,
  .tuned = "C-02b",
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_MORE,
  .matters = 1.25,
  .refute = "Muon's max logit below 1.25 times Adam's",
  .explored = "1 and 2, of Adam and Muon without a cure at three rates, with and without decay, to find "
              "where logits grow.",
};
