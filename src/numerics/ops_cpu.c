/* ops_cpu.c - fast kernels of the host */
#include "numerics/device.h"
#include <cblas.h>

static void cpu_matmul(struct device *device, const struct matmul_args *x)
{
  (void)device;
  long depth = x->ta ? x->a->rows : x->a->cols;
  BLAS(gemm)(CblasRowMajor, x->ta ? CblasTrans : CblasNoTrans, x->tb ? CblasTrans : CblasNoTrans,
             (int)x->c->rows, (int)x->c->cols, (int)depth, (real)x->alpha, REALS(x->a), (int)x->a->ld,
             REALS(x->b), (int)x->b->ld, x->add ? 1 : 0, REALS(x->c), (int)x->c->ld);
}

void ops_cpu_override(struct ops *ops)
{
  ops->matmul = cpu_matmul;
}
