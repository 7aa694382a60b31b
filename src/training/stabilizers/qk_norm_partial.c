/* qk_norm_partial.c - RMSNorm of all but the content keys: the part of QK-Norm that MLA decodes from its
   latent cache with nothing kept beside it (kexue.fm/archives/11126); all of it, with one number per head, is
   qk_norm
   The scale of qc, qr and kr drops out; kc, which absorbed decoding never forms, keeps its own, and logits
   grow with it. */
#include "training/stabilizers/qk_norm.h"

enum { ROLES = 1 << ROLE_Q_HEAD | 1 << ROLE_Q_ROPE | 1 << ROLE_K_ROPE_SHARED };

static int check(const void *options, const struct model_options *o, struct error *e)
{
  (void)options;
  if (o->rope_dim) return STATUS_OK;
  return error_set(e, STATUS_USAGE,
                   "stabilizers: qk_norm_partial leaves out the content keys of mla, which "
                   "model.attention = %s does not have; allowed here: qk_norm",
                   o->attention);
}

static void declare(struct stabilizer_context *c, int layer) { qk_norm_declare(c, layer, ROLES, 0); }

static void on_qk(struct stabilizer_context *c, struct program *program, int layer,
                  const struct layer_inputs *in, struct qk_part *part, int parts)
{
  (void)in;
  qk_norm_apply(c, program, layer, part, parts, ROLES);
}

const struct stabilizer stabilizer_qk_norm_partial = {
  .name = "qk_norm_partial",
  .help = "RMSNorm of mla's queries and rotary keys, not of its content keys",
  .check = check,
  .declare = declare,
  .on_qk = on_qk,
  .flags = STABILIZER_NORMS_QK_PARTLY | STABILIZER_NORMS_PARTS | STABILIZER_NORMS_QUERIES,
};
