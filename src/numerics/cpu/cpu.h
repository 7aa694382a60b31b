/* cpu.h - shared by the fast CPU kernels
   Each kernel file is compiled once per instruction set, as LEVEL = v4 (AVX-512), v3 (AVX2, FMA), neon (aarch64),
   wasm (WebAssembly, relaxed SIMD) or base; cpu/cpu.c picks a table at run time. All but base give the same bits, for
   any number of threads and any compiler: only fused() contracts, sums have a fixed number of parts, and a product
   sums over k alone. Base is for processors without a fused multiply-add: it rounds twice. */
#ifndef MAXLOGIT_NUMERICS_CPU_CPU_H
#define MAXLOGIT_NUMERICS_CPU_CPU_H
#include <stdint.h>
#include <string.h>
#include "numerics/device.h"

/* Table entries of each kernel file at each level: ops_cpu_FILE_LEVEL. attention_only: forward without maxima and
   entropy, to measure their cost. */
#define EACH_KERNEL_FILE(DO, level) \
  DO(product, level) \
  DO(attention, level) \
  DO(attention_only, level) DO(rows, level) DO(update, level) DO(cures, level) DO(pointwise, level)
#define DECLARE(file, level) void ops_cpu_##file##_##level(struct ops *);
EACH_KERNEL_FILE(DECLARE, v4)
EACH_KERNEL_FILE(DECLARE, v3)
EACH_KERNEL_FILE(DECLARE, neon)
EACH_KERNEL_FILE(DECLARE, wasm)
EACH_KERNEL_FILE(DECLARE, base)
#undef DECLARE
/* The level that every machine of this kind supports. */
#if defined __aarch64__
#define OWN_LEVEL neon
#elif defined __wasm_relaxed_simd__
#define OWN_LEVEL wasm
#else
#define OWN_LEVEL base
#endif

#ifdef LEVEL
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define EXPORT(name) JOIN(name, LEVEL)
#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("clang loop unroll(disable)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#define ROLLED _Pragma("GCC unroll 1")
#endif

/* A sum is made in PARTS parts on every machine: element i of a row goes to part i mod PARTS, and SPLIT vectors hold
   the parts. A vector is one register: compilers split larger ones into scalars, five to ten times slower. */
#if defined __AVX512F__
enum { LANES = 16 };
#elif defined __AVX2__
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { PARTS = 16, SPLIT = PARTS / LANES };
typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float vec_loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));
#define VEC(p) (*(vec_loose *)(p))
#define ALL(x) ((x) - (vec){0}) /* every lane x */
#if defined __AVX512F__
#define LANE ((vec){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
#elif defined __AVX2__
#define LANE ((vec){0, 1, 2, 3, 4, 5, 6, 7})
#else
#define LANE ((vec){0, 1, 2, 3})
#endif

#ifdef __AVX2__
#include <immintrin.h>
#elif defined __aarch64__
#include <arm_neon.h>
#endif
typedef double dvec __attribute__((vector_size(8 * LANES / 2)));

/* a b + c, rounded once; of numbers, vectors, and vectors of double. */
#if defined __AVX512F__
INLINE vec fused(vec a, vec b, vec c) { return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
INLINE dvec fused_d(dvec a, dvec b, dvec c)
{
  return (dvec)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
#elif defined __AVX2__
INLINE vec fused(vec a, vec b, vec c) { return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
INLINE dvec fused_d(dvec a, dvec b, dvec c)
{
  return (dvec)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
#elif defined __aarch64__
INLINE vec fused(vec a, vec b, vec c)
{
  return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
INLINE dvec fused_d(dvec a, dvec b, dvec c)
{
  return (dvec)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
#elif defined \
  __wasm_relaxed_simd__ /* rounded once if the processor can: the module's loader must check this */
INLINE vec fused(vec a, vec b, vec c) { return __builtin_wasm_relaxed_madd_f32x4(a, b, c); }
INLINE dvec fused_d(dvec a, dvec b, dvec c) { return __builtin_wasm_relaxed_madd_f64x2(a, b, c); }
#else
INLINE vec fused(vec a, vec b, vec c) { return a * b + c; }
INLINE dvec fused_d(dvec a, dvec b, dvec c) { return a * b + c; }
#endif
#if defined __FMA__ || defined __aarch64__
INLINE float fused_one(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
INLINE double fused_one_d(double a, double b, double c) { return __builtin_fma(a, b, c); }
#elif defined __wasm_relaxed_simd__
INLINE float fused_one(float a, float b, float c) { return fused(ALL(a), ALL(b), ALL(c))[0]; }
INLINE double fused_one_d(double a, double b, double c)
{
  return fused_d((dvec){a, a}, (dvec){b, b}, (dvec){c, c})[0];
}
#else /* the library's would be one of many instructions */
INLINE float fused_one(float a, float b, float c) { return a * b + c; }
INLINE double fused_one_d(double a, double b, double c) { return a * b + c; }
#endif

/* x where a > b, else (also where either is NaN) y */
#ifdef __AVX512F__
INLINE vec where_above(vec a, vec b, vec x, vec y)
{
  __mmask16 above = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
  return (vec)_mm512_mask_blend_ps(above, (__m512)y, (__m512)x);
}
INLINE vec larger(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vec smaller(vec a, vec b) { return (vec)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE vec vec_sqrt(vec x) { return (vec)_mm512_sqrt_ps((__m512)x); }
#elif defined __AVX2__
INLINE vec where_above(vec a, vec b, vec x, vec y)
{
  return (vec)_mm256_blendv_ps((__m256)y, (__m256)x, _mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GT_OQ));
}
INLINE vec larger(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vec smaller(vec a, vec b) { return (vec)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE vec vec_sqrt(vec x) { return (vec)_mm256_sqrt_ps((__m256)x); }
#else
INLINE vec where_above(vec a, vec b, vec x, vec y)
{
  ivec above = a > b;
  return (vec)((above & (ivec)x) | (~above & (ivec)y));
}
INLINE vec larger(vec a, vec b) { return where_above(a, b, a, b); }  /* b where either is NaN */
INLINE vec smaller(vec a, vec b) { return where_above(b, a, a, b); } /* likewise */
#ifdef __aarch64__
INLINE vec vec_sqrt(vec x) { return (vec)vsqrtq_f32((float32x4_t)x); }
#else
INLINE vec vec_sqrt(vec x)
{
  UNROLL
  for (int i = 0; i < LANES; i++) x[i] = __builtin_sqrtf(x[i]);
  return x;
}
#endif
#endif

/* Registers of the machine, for products; columns that are transposed at a time: a line of them is half of a large
   register; rows of a tile of MR x NR sums, which lives in registers; TERMS of these sums at a time. An engine of
   WebAssembly keeps the order of its instructions: of more than one term it would keep too many numbers at once. */
#if defined __AVX512F__
enum { WIDTH = 16, SQUARE = 8, MR = 8, TERMS = 8 };
#elif defined __AVX2__
enum { WIDTH = 8, SQUARE = 8, MR = 6, TERMS = 8 };
#elif defined __aarch64__
enum { WIDTH = 4, SQUARE = 4, MR = 8, TERMS = 8 };
#elif defined __wasm__
enum { WIDTH = 4, SQUARE = 4, MR = 4, TERMS = 1 };
#else
enum { WIDTH = 4, SQUARE = 4, MR = 4, TERMS = 8 };
#endif
enum { NR = 2 * WIDTH };
typedef float wide __attribute__((vector_size(4 * WIDTH)));
typedef float wide_loose __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
#define WIDE(p) (*(wide_loose *)(p))
typedef float line __attribute__((vector_size(4 * SQUARE)));
typedef float line_loose __attribute__((vector_size(4 * SQUARE), aligned(4), may_alias));
#define LINE(p) (*(line_loose *)(p))

#if defined __clang__ || __GNUC__ >= 12
#define PICK(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define PICK(x, y, ...) \
  __extension__({ \
    typedef __typeof__(__builtin_choose_expr(sizeof(x)[0] == 8, 0L, 0)) lane; \
    typedef lane lanes __attribute__((vector_size(sizeof(x)))); \
    __builtin_shuffle(x, y, (lanes){__VA_ARGS__}); \
  })
#endif

/* to[p*ld + j] = from[j*row + p] for p < SQUARE, j < WIDTH: squares of 4, each within four lanes, where shuffles cost
   least; then fours change places. Not inline: in a loop the addresses of all rows would be kept. */
static __attribute__((noinline, unused)) void transpose_lines(const float *from, long row, float *to, long ld)
{
#if defined __AVX512F__
#define EVEN 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30
#define ODD 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31
#define EVEN_FOURS 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define ODD_FOURS 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
#elif defined __AVX2__
#define EVEN 0, 2, 8, 10, 4, 6, 12, 14
#define ODD 1, 3, 9, 11, 5, 7, 13, 15
#define EVEN_FOURS 0, 1, 2, 3, 8, 9, 10, 11
#define ODD_FOURS 4, 5, 6, 7, 12, 13, 14, 15
#else
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#endif
  wide x[SQUARE];
  UNROLL
  for (int i = 0; i < SQUARE; i++) {
#ifdef __AVX512F__ /* two rows in one */
    const float *at = from + (i / 4 * 8 + i % 4) * row;
    __m512d two = _mm512_castpd256_pd512((__m256d)_mm256_loadu_ps(at));
    x[i] = (wide)_mm512_insertf64x4(two, (__m256d)_mm256_loadu_ps(at + 4 * row), 1);
#else
    x[i] = WIDE(from + i * row);
#endif
  }
  UNROLL
  for (int apart = 1; apart < 4; apart *= 2) {
    UNROLL
    for (int i = 0; i < SQUARE; i++) {
      if (i & apart) continue;
      wide even = PICK(x[i], x[i + apart], EVEN), odd = PICK(x[i], x[i + apart], ODD);
      x[i] = even, x[i + apart] = odd;
    }
  }
#ifdef __AVX2__
  UNROLL
  for (int i = 0; i < 4; i++) {
    wide even = PICK(x[i], x[i + 4], EVEN_FOURS), odd = PICK(x[i], x[i + 4], ODD_FOURS);
    x[i] = even, x[i + 4] = odd;
  }
#endif
  UNROLL
  for (int i = 0; i < SQUARE; i++) WIDE(to + i * ld) = x[i];
#undef EVEN
#undef ODD
#undef EVEN_FOURS
#undef ODD_FOURS
}

/* to[p*ld + j] = from[j*row + p] for p < k, j < WIDTH; 0 where j >= rows. */
static inline void pack_transposed(const float *from, long row, long rows, long k, float *to, long ld)
{
  long p = 0;
  if (rows >= WIDTH)
    for (; p + SQUARE <= k; p += SQUARE) transpose_lines(from + p, row, to + p * ld, ld);
  for (; p < k; p++)
    for (long j = 0; j < WIDTH; j++) to[p * ld + j] = j < rows ? from[j * row + p] : 0;
}

/* Lanes the halves of a vector, of a half, of a quarter apart; and halves of two vectors, one by one in turn. */
#if defined __AVX512F__
#define HALVES(x) PICK(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
#define QUARTERS(x) PICK(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
#define EIGHTHS(x) PICK(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define PAIRS(x) PICK(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#define LOW(x, y) PICK(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(x, y) PICK(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif defined __AVX2__
#define HALVES(x) PICK(x, x, 4, 5, 6, 7, 0, 1, 2, 3)
#define QUARTERS(x) PICK(x, x, 2, 3, 0, 1, 6, 7, 4, 5)
#define PAIRS(x) PICK(x, x, 1, 0, 3, 2, 5, 4, 7, 6)
#define LOW(x, y) PICK(x, y, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(x, y) PICK(x, y, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define HALVES(x) PICK(x, x, 2, 3, 0, 1)
#define PAIRS(x) PICK(x, x, 1, 0, 3, 2)
#define LOW(x, y) PICK(x, y, 0, 4, 1, 5)
#define HIGH(x, y) PICK(x, y, 2, 6, 3, 7)
#endif

/* The lanes from left to right, always in the same tree. */
INLINE float lane_sum(vec x)
{
  x += HALVES(x);
#ifdef __AVX2__
  x += QUARTERS(x);
#endif
#ifdef __AVX512F__
  x += EIGHTHS(x);
#endif
  x += PAIRS(x);
  return x[0];
}
INLINE float lane_max(vec x)
{
  x = larger(x, HALVES(x));
#ifdef __AVX2__
  x = larger(x, QUARTERS(x));
#endif
#ifdef __AVX512F__
  x = larger(x, EIGHTHS(x));
#endif
  x = larger(x, PAIRS(x));
  return x[0];
}

/* The last steps of lane_sum and lane_max. */
INLINE vec sum_of_parts(vec x[SPLIT])
{
  UNROLL
  for (int half = SPLIT / 2; half; half /= 2) UNROLL
  for (int i = 0; i < half; i++) x[i] += x[i + half];
  return x[0];
}
INLINE vec max_of_parts(vec x[SPLIT])
{
  UNROLL
  for (int half = SPLIT / 2; half; half /= 2) UNROLL
  for (int i = 0; i < half; i++) x[i] = larger(x[i], x[i + half]);
  return x[0];
}

/* Lane r of the result is lane_sum or lane_max of x[r]: rounds of interleaving, where halves are joined. */
#define OF_EACH(name, join) \
  INLINE vec name(vec x[LANES]) \
  { \
    UNROLL \
    for (int half = LANES / 2; half; half /= 2) { \
      UNROLL \
      for (int r = 0; r < half; r++) { \
        const vec low = LOW(x[r], x[r + half]), high = HIGH(x[r], x[r + half]); \
        x[r] = join; \
      } \
    } \
    return x[0]; \
  }
OF_EACH(lane_sums, low + high)
OF_EACH(lane_maxima, larger(low, high))
#undef OF_EACH

/* y 2^n for whole n in [-150, 128], rounded once; 0 where x < least */
INLINE vec scale_unless_below(vec y, vec n, vec x, float least)
{
#ifdef __AVX512F__
  const __mmask16 stays = _mm512_cmp_ps_mask((__m512)x, (__m512)ALL(least), _CMP_NLT_UQ);
  return (vec)_mm512_maskz_scalef_ps(stays, (__m512)y, (__m512)n);
#else
  const ivec whole = __builtin_convertvector(n, ivec), half = whole >> 1;
  y = y * (vec)((half + 127) << 23) * (vec)((whole - half + 127) << 23);
  return where_above(ALL(least), x, ALL(0.0f), y);
#endif
}

/* exp(x) of x <= 0, as in a softmax, within 2 units in the last place; NaN stays. x = n ln 2 + r, |r| <= ln 2 / 2;
   the polynomial is that of Cephes' expf. */
INLINE vec vec_exp_nonpositive(vec x)
{
  /* nearest: 1.5 * 2^23 leaves no fraction */
  vec n = fused(x, ALL(1.44269504088896341f), ALL(12582912.0f)) - 12582912.0f;
  vec r = fused(n, ALL(-0.693359375f), x);
  r = fused(n, ALL(2.12194440e-4f), r);
  vec y = ALL(1.9875691500e-4f);
  y = fused(y, r, ALL(1.3981999507e-3f));
  y = fused(y, r, ALL(8.3334519073e-3f));
  y = fused(y, r, ALL(4.1665795894e-2f));
  y = fused(y, r, ALL(1.6666665459e-1f));
  y = fused(y, r, ALL(5.0000001201e-1f));
  return scale_unless_below(fused(y, r * r, r) + 1.0f, n, x, -103.97f);
}

/* exp(x) of any x */
INLINE vec vec_exp(vec x)
{
  return where_above(x, ALL(88.72283f), ALL(__builtin_inff()), vec_exp_nonpositive(x));
}

INLINE vec sigmoid(vec x) { return 1.0f / (1.0f + vec_exp(-x)); }

/* log(x) for normal x > 0; NaN stays. Cephes' logf. */
INLINE vec vec_log(vec x)
{
  const uvec bits = (uvec)x;                      /* of any x, also in unused lanes */
  const ivec e = (ivec)(bits - 0x3f3504f3) >> 23; /* mantissa in [sqrt(1/2), sqrt(2)) */
  vec m = (vec)(bits - ((uvec)e << 23)) - 1.0f, n = __builtin_convertvector(e, vec), z = m * m;
  vec y = ALL(7.0376836292e-2f);
  y = fused(y, m, ALL(-1.1514610310e-1f));
  y = fused(y, m, ALL(1.1676998740e-1f));
  y = fused(y, m, ALL(-1.2420140846e-1f));
  y = fused(y, m, ALL(1.4249322787e-1f));
  y = fused(y, m, ALL(-1.6668057665e-1f));
  y = fused(y, m, ALL(2.0000714765e-1f));
  y = fused(y, m, ALL(-2.4999993993e-1f));
  y = fused(y, m, ALL(3.3333331174e-1f));
  y = fused(n, ALL(-2.12194440e-4f), y * m * z);
  y = fused(z, ALL(-0.5f), y);
  y = fused(n, ALL(0.693359375f), m + y);
  return where_above(x, ALL(0.0f), y, ALL(__builtin_nanf("")));
}

/* tanh(x), NaN stays. Cephes' tanhf below 0.625. */
INLINE vec vec_tanh(vec x)
{
  vec size = larger(-x, x), z = x * x;
  vec y = ALL(-5.70498872745e-3f);
  y = fused(y, z, ALL(2.06390887954e-2f));
  y = fused(y, z, ALL(-5.37397155531e-2f));
  y = fused(y, z, ALL(1.33314422036e-1f));
  y = fused(y, z, ALL(-3.33332819422e-1f));
  y = fused(y * z, x, x);
  vec far = 1.0f - 2.0f / (vec_exp(size + size) + 1.0f);
  return where_above(size, ALL(0.625f), where_above(x, ALL(0.0f), far, -far), y);
}

/* A NUMBER: 1 if it is absent. */
INLINE double number(const struct tensor *t) { return t ? (double)REALS(t)[0] : 1; }
#define AT(tensor, i, j) (REALS(tensor) + (i) * (tensor)->ld + (j)) /* where the element is */

enum { PIECE = 16384 }; /* about as many elements per piece of work */

#if defined __AVX2__ && !defined __AVX512F__
INLINE __m256i lanes_below(long left)
{
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#endif

/* A vector of which only `left` lanes exist; the others read 0 and are not written. If SPLIT is 1, `left` is at least
   1. */
INLINE vec get(const float *p, long left)
{
  if (left >= LANES) return VEC(p);
#ifdef __AVX512F__
  return (vec)_mm512_maskz_loadu_ps((__mmask16)((1 << left) - 1), p);
#elif defined __AVX2__
  return (vec)_mm256_maskload_ps(p, lanes_below(left));
#else
  vec x = {0};
  if (left > 0) memcpy(&x, p, (size_t)left * sizeof *p);
  return x;
#endif
}
INLINE void put(float *p, vec x, long left)
{
  if (left >= LANES)
    VEC(p) = x;
  else
#ifdef __AVX512F__
    _mm512_mask_storeu_ps(p, (__mmask16)((1 << left) - 1), (__m512)x);
#elif defined __AVX2__
    _mm256_maskstore_ps(p, lanes_below(left), (__m256)x);
#else
    memcpy(p, &x, (size_t)left * sizeof *p);
#endif
}
#define EACH(j, n) for (long j = 0; j < (n); j += LANES)
/* For sums: vector `part` of those from j on that take all parts, at j + part*LANES. The last may not exist. */
#define EACH_PART(j, part, n) \
  for (long j = 0; j < (n); j += PARTS) UNROLL \
  for (int part = 0; part < SPLIT; part++)

typedef float half_vec __attribute__((vector_size(4 * LANES / 2)));
INLINE half_vec half_of(vec x, int which)
{
  half_vec part[2];
  memcpy(part, &x, sizeof x);
  return part[which];
}
INLINE dvec first_half(vec x) { return __builtin_convertvector(half_of(x, 0), dvec); }
INLINE dvec second_half(vec x) { return __builtin_convertvector(half_of(x, 1), dvec); }
INLINE vec from_halves(dvec low, dvec high)
{
  half_vec part[2] = {__builtin_convertvector(low, half_vec), __builtin_convertvector(high, half_vec)};
  vec whole;
  memcpy(&whole, part, sizeof whole);
  return whole;
}
/* Of halves of all parts, in the same tree. */
INLINE double parts_sum(dvec x[2 * SPLIT])
{
  UNROLL
  for (int half = SPLIT; half; half /= 2) UNROLL
  for (int i = 0; i < half; i++) x[i] += x[i + half];
#if defined __AVX512F__
  x[0] += PICK(x[0], x[0], 4, 5, 6, 7, 0, 1, 2, 3);
#endif
#ifdef __AVX2__
  return (x[0][0] + x[0][2]) + (x[0][1] + x[0][3]);
#else
  return x[0][0] + x[0][1];
#endif
}

static inline double squares(const float *x, long n)
{
  dvec sum[2 * SPLIT] = {{0}};
  EACH_PART(j, part, n)
  {
    const long at = j + part * LANES;
    vec y = get(x + at, n - at);
    dvec low = first_half(y), high = second_half(y);
    sum[2 * part] = fused_d(low, low, sum[2 * part]);
    sum[2 * part + 1] = fused_d(high, high, sum[2 * part + 1]);
  }
  return parts_sum(sum);
}

static inline long min_long(long a, long b) { return a < b ? a : b; }
static inline long round_up(long n, long unit) { return (n + unit - 1) / unit * unit; }
#endif
#endif
