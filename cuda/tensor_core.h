/* tensor_core.h - products on tensor cores: a warp adds the product of 16 x 8 and 8 x 8 words to 16 x 8 sums
   A word holds an input of a product: one number of 11 digits (tf32), or two neighbours along k of 8 digits (bf16),
   the first in its lower half. Lane l has, with g = l / 4 and t = l % 4, of a [row][word] a0 = [g][t], a1 = [g + 8][t],
   a2 = [g][t + 4], a3 = [g + 8][t + 4]; of b [word][column] b0 = [t][g], b1 = [t + 4][g]; of the sums c0, c1 =
   [g][2t], [g][2t + 1]; c2, c3 the same of row g + 8: mma.m16n8k8 and mma.m16n8k16 of the PTX ISA. */
#ifndef MAXLOGIT_CUDA_TENSOR_CORE_H
#define MAXLOGIT_CUDA_TENSOR_CORE_H
#include "cuda/kernels.h"

/* Words of so many numbers to one, `product_input` of each; every NaN is one that survives being cut off. */
template <int PER> static __device__ inline unsigned word_of(float first, float second)
{
#ifdef __CUDACC__
  unsigned word;
  if (PER == 1)
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(first));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
#else
  if (PER == 1) return first != first ? 0x7fffe000u : __float_as_uint(product_input(first, MATH_TF32));
  unsigned low = first != first ? 0x7fff : __float_as_uint(product_input(first, MATH_BF16)) >> 16;
  return low | (second != second ? 0x7fff0000u : __float_as_uint(product_input(second, MATH_BF16)));
#endif
}

/* Four matrices of 8 rows of 4 words: a lane gives the place of row lane % 8 of matrix lane / 8, at 16 bytes; x[i] is word
   lane % 4 of row lane / 4 of matrix i: ldmatrix of the PTX ISA. */
static __device__ inline void load_words(unsigned x[4], const unsigned *row)
{
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"((unsigned)__cvta_generic_to_shared(row)));
#else
  load_words_on_host(x, row);
#endif
}

template <int PER>
static __device__ inline void add_product(float &c0, float &c1, float &c2, float &c3, const unsigned a[4],
                                          unsigned b0, unsigned b1)
{
#ifdef __CUDACC__
  if (PER == 1)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  float c[4] = {c0, c1, c2, c3};
  tensor_core_on_host(PER, c, a, b0, b1);
  c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
#endif
}
#endif
