#include "ledger/claim.h"

const struct claim claim_c36 = {
  .id = "C-36",
  .source = "Moonlight, arXiv 2502.16982",
  .sentence = "Muon needs about half the training: at as many steps its loss is lower (the sign alone can be "
              "seen here).",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Adam", "preset=adam train.lr=0.003"}, {"Muon", "preset=muon train.lr=0.01"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_LESS,
  .matters = 0.01,
  .refute = "a loss that is not lower by 0.01 nat",
  .revised = "rates were picked by eye from three, on the seeds of an exploration: each arm is tuned on "
             "seeds of its own",
  .explored = "1 and 2, of Adam and Muon without a cure at three rates, with and without decay, to find "
              "where logits grow.",
};
