#include "ledger/claim.h"

const struct claim claim_c13 = {
  .id = "C-13",
  .source = "kexue.fm/archives/11126",
  .sentence = "One clip factor for a whole layer starves innocent heads, one factor a head does not.",
  .regime = "model.width = 128\n"
            "model.heads = 8\n"
            "model.context = 32\n"
            "train.steps = 400\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n"
            "preset = muonclip\n"
            "qk_clip.tau = 10\n",
  .arm = {{"a factor a head", "qk_clip.scope=head"}, {"a factor a layer", "qk_clip.scope=layer"}},
  .equal = EQUAL_RATE,
  .metric = "head_qk/frobenius_norm@l1h*:last:min",
  .contrast = CONTRAST_SHARE,
  .level = 0.01,
  .prediction = PREDICT_LESS,
  .matters = 0.1,
  .control = {{"clips", 0, 0}, {"clips", 1, 0}},
  .refute =
    "as many runs in which every head of the last layer is alive at the end (norm of w_q^T w_k above 0.01) "
    "with one factor a layer as with one a head, to within a tenth",
  .revised =
    "the median over pairs of the share of living heads was compared, which has two peaks: some runs starve "
    "heads, others none. Heads can revive, so that it says starves, not kills",
  .explored = "1101 to 1124, under the former claim: the metric was chosen after they were seen.",
};
