#include "ledger/claim.h"

const struct claim claim_c73 = {
  .id = "C-73",
  .source = "a question of this project; on separable data: arXiv 2502.04664, 2602.16340",
  .sentence =
    "Where the loss can reach 0 and nothing decays, Muon's max logit grows as a higher power of the "
    "step than Adam's.",
  .regime = "data = copy\n"
            "copy.distinct = 1\n"
            "model.context = 32\n"
            "train.steps = 8000\n"
            "train.schedule = constant\n"
            "train.weight_decay = 0\n"
            "train.val_every = 500\n"
            "record.every = 10\n"
            "record.probe_every = 50\n"
            "record.spectra_every = 0\n",
  .arm = {{"Adam", "preset=adam train.lr=0.0052"}, {"Muon", "preset=muon train.lr=0.0058"}},
  .equal = EQUAL_RMS,
  .metric = "probe/max_logit:800-8000:slope",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.25,
  .refute = "exponents that differ by less than 0.25",
  .hours = 0.3,
  .explored = "experiment 20, six other seeds of the same regime: exponents of 0.54 and 0.97.",
};
