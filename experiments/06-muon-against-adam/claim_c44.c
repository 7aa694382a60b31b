#include "ledger/claim.h"

const struct claim claim_c44 = {
  .id = "C-44",
  .source = "arXiv 2509.26030",
  .sentence =
    "What Muon gains, it gains in values, outputs and feed-forward: Adam on w_q and w_k costs little.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.weight_decay = 0.1\n"
            "train.lr = 0.01\n",
  .arm = {{"Muon", "preset=muon"}, {"Adam on q and k", "preset=muon_qk_adam"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_NOT_MORE,
  .matters = 0.01,
  .refute = "a loss that is higher by 0.01 nat",
  .revised =
    "0.05 nat was called little where C-36 calls 0.01 a gain: one margin for both, and each arm is tuned",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
