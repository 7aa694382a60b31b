#include "ledger/claim.h"

const struct claim claim_c66 = {
  .id = "C-66",
  .source = "arXiv 2509.26030",
  .sentence = "Of Muon's gain over Adam least is had on queries and keys: Muon on the others alone ends with "
              "a lower loss than Muon on w_q and w_k alone.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Muon on q and k alone", "preset=adam override.optimizer=w_q:muon+w_k:muon"},
          {"Muon on the others", "preset=muon_qk_adam"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_LESS,
  .matters = 0.01,
  .refute = "a loss that is not lower by 0.01 nat",
  .hours = 0.15,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
