#include "ledger/claim.h"

const struct claim claim_c40 = {
  .id = "C-40",
  .source = "arXiv 2309.14322",
  .sentence = "Logits grow by the norms of queries and keys, not by their alignment.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n",
  .arm = {{"cosine", "preset=adam", "probe/cosine@l1h*:150-600:slope"},
          {"norm of the query", "preset=adam", "probe/q_norm@l1h*:150-600:slope"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.3,
  .refute = "an exponent of the norm's growth that is not above the cosine's by 0.3",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
