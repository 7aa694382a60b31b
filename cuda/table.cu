/* table.cu - the table of the GPU: every operation */
#include "cuda/launch.h"

extern "C" void ops_cuda_override(struct ops *ops)
{
  for (int i = 0; i < OP_COUNT; i++) ops->scratch[i] = NULL; /* the definitions' */
  ops_cuda_rows(ops);
  ops_cuda_vectors(ops);
  ops_cuda_update(ops);
  ops_cuda_small(ops);
  ops_cuda_ranks(ops);
  ops_cuda_product(ops);
  ops_cuda_attention(ops);
  ops_cuda_experts(ops);
  ops_cuda_cures(ops);
  ops_cuda_pointwise(ops);
}
