/* shared.c - records common to several optimizers */
#include "training/optimizer.h"

int takes_matrices(const struct param *p) { return p->kind == PARAM_MATRIX; }

void average_record(struct program *p, struct numbers *n, struct tensor *m, struct tensor *g, double beta)
{
  PROGRAM_CALL(p, axpby, .y = m, .x = g, .a = numbers_constant(n, 1 - beta), .b = numbers_constant(n, beta),
               .alpha = 1, .beta = 1);
}
