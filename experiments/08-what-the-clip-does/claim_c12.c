#include "ledger/claim.h"

const struct claim claim_c12 = {
  .id = "C-12",
  .source = "Kimi K2, arXiv 2507.20534",
  .sentence = "QK-Clip prevents spikes of the loss.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.1\n"
            "train.weight_decay = 0\n",
  .arm = {{"Muon", "preset=muon"}, {"QK-Clip 100", "preset=muonclip qk_clip.tau=100"}},
  .equal = EQUAL_RATE,
  .metric = "spikes",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_LESS,
  .matters = 1,
  .control = {{"spikes", 0, 0}, {"clips", 1, 0}},
  .revised = "one run of 24 had a spike without the clip, and one with it, and that was called refuted: a "
             "control asks "
             "for spikes without the clip, and for a clip that acted",
  .refute = "as many spikes (train.spike) with the clip as without, to within one a run",
  .explored = "1101 to 1124, under the former claim: the control was added after they were seen.",
};
