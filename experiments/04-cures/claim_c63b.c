#include "ledger/claim.h"

const struct claim claim_c63b = {
  .id = "C-63b",
  .source = "arXiv 2606.13276",
  .sentence =
    "On queries and keys the Stiefel constraint ends with a lower loss than a constraint of the norm alone.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"norm alone", "preset=muon stabilizers=hyperball hyperball.tensors=qk"},
          {"Stiefel", "preset=muon stabilizers=stiefel stiefel.tensors=qk"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_LESS,
  .matters = 0.01,
  .refute = "a loss that is not lower by 0.01 nat",
  .hours = 0.15,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
