/* k_norm.c - RMSNorm of every key, and of no query: logits grow with the scale of w_q alone
   One half of QK-Norm. Absorbed decoding of mla keeps 1/rms by head, as with qk_norm. */
#include "training/stabilizers/qk_norm.h"

enum { ROLES = 1 << ROLE_K_HEAD | 1 << ROLE_K_GROUP | 1 << ROLE_K_ROPE_SHARED };

static void declare(struct stabilizer_context *c, int layer) { qk_norm_declare(c, layer, ROLES, 0); }

static void on_qk(struct stabilizer_context *c, struct program *program, int layer,
                  const struct layer_inputs *in, struct qk_part *part, int parts)
{
  (void)in;
  qk_norm_apply(c, program, layer, part, parts, ROLES);
}

const struct stabilizer stabilizer_k_norm = {
  .name = "k_norm",
  .help = "RMSNorm of every key before RoPE, and of no query",
  .declare = declare,
  .on_qk = on_qk,
  .flags = STABILIZER_NORMS_QK_PARTLY | STABILIZER_NORMS_PARTS,
};
