#include "ledger/claim.h"

const struct claim claim_c02b = {
  .id = "C-02b",
  .source = "kexue.fm/archives/11126; Kimi K2, arXiv 2507.20534",
  .sentence = "Each at its best rate, Muon's max logits are higher than Adam's.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Adam", "preset=adam train.lr=0.003"}, {"Muon", "preset=muon train.lr=0.01"}},
  .equal = EQUAL_TUNED,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_MORE,
  .matters = 1.25,
  .refute = "Muon's max logit below 1.25 times Adam's",
  .revised = "rates were picked by eye from three, on the seeds of an exploration: each arm is tuned on "
             "seeds of its own",
  .explored = "1 and 2, of Adam and Muon without a cure at three rates, with and without decay, to find "
              "where logits grow.",
};
