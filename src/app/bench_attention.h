/* bench_attention.h - attention by itself on a GPU: against that device's limits, and what its maxima cost */
#ifndef MAXLOGIT_BENCH_ATTENTION_H
#define MAXLOGIT_BENCH_ATTENTION_H
#include <jansson.h>
#include "base/error.h"
#include "numerics/cuda_plugin.h"

/* Heads of 64 and 128 on 4096 tokens, and those of the toy stack, in fp32, tf32 and bf16; tiny: one small head, for
   tests. Prints a table, or appends rows to `rows` (if not NULL). seconds: for each figure. */
int bench_attention(struct device *, const struct cuda_limits *, int tiny, double seconds, json_t *rows,
                    struct error *);
#endif
