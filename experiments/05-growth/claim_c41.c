#include "ledger/claim.h"

const struct claim claim_c41 = {
  .id = "C-41",
  .source = "arXiv 2309.14322",
  .sentence = "Runs whose max logit passes 1e4 diverge.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.1\n"
            "train.weight_decay = 0\n",
  .arm = {{"Adam", "preset=adam", "val_loss:last3:mean"}},
  .equal = EQUAL_RATE,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .level = 4.16,
  .prediction = PREDICT_NOT_LESS,
  .matters = 0.2,
  .refute = "a loss that stays below that of guessing (ln 64 = 4.16 nat) by 0.2",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
