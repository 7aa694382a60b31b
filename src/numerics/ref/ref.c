/* ref.c - the table of the definitions: plain loops, sums in double and in the order of the indices
   These loops define the treatment of NaN, infinities and ties; other devices may differ by rounding only. */
#include "numerics/ref/ref.h"

const struct ops ops_ref = {
#define OP(name, what, fields) .name = ref_##name,
#include "numerics/ops.def"
#undef OP
  .scratch = {[OP_embed_backward] = embed_scratch,
              [OP_attention_forward] = forward_scratch,
              [OP_attention_cached] = cached_scratch,
              [OP_attention_backward] = backward_scratch,
              [OP_pointwise_forward] = pointwise_scratch,
              [OP_pointwise_backward] = pointwise_backward_scratch,
              [OP_pointwise_cached] = pointwise_cached_scratch,
              [OP_route] = route_scratch,
              [OP_route_backward] = route_backward_scratch,
              [OP_balance_loss] = balance_loss_scratch,
              [OP_newton_schulz] = newton_schulz_scratch},
};
