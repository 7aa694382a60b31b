/* ptx_on_host.h - the PTX of the kernels on the CPU: what the C++ that ptx_on_host.py makes of it calls
   Barriers and collectives are those of cuda_on_host.h. Shared memory is one window: the kernel's own arrays, then the
   dynamic one. It stops with a message at an access that is not aligned or is outside the window, and where two
   threads access the same four bytes of the window, one of them to write, with no barrier in between: __syncwarp orders
   the lanes of a warp, collectives do not. Not here: races in global memory, rounding of the approximate functions. */
#ifndef MAXLOGIT_TESTS_CUDA_PTX_ON_HOST_H
#define MAXLOGIT_TESTS_CUDA_PTX_ON_HOST_H
#include "tests/cuda/cuda_on_host.h"
#include <limits>

namespace ptx_on_host
{
struct entry {
  const char *name; /* mangled */
  void (*run)(const void *parameters);
  unsigned parameter_bytes, shared_bytes; /* of its own arrays */
  const char *fault;                      /* the one that is planted in it */
};
struct table { /* constructed once per file of entries */
  template <size_t N> table(const entry (&entries)[N]) : table(entries, N) {}
  table(const entry *, size_t);
};
/* The kernels of the program: done once, before processes are forked. */
void find_all();

/* --- launches ---------------------------------------------------------------------------------------------- */

struct parameters {
  alignas(16) char bytes[4096];
  size_t used = 0;
  template <class T> void add(const T &x)
  {
    used = (used + alignof(T) - 1) / alignof(T) * alignof(T);
    cuda_on_host::demand(used + sizeof x <= sizeof bytes, "more than 4096 bytes of parameters");
    memcpy(bytes + used, (const void *)&x, sizeof x);
    used += sizeof x;
  }
};
void run(const void *kernel, const parameters &, dim3 grid, dim3 block, size_t bytes);
template <class... P, class... A>
void launch(const char *what, void (*f)(P...), dim3 grid, dim3 block, size_t bytes, A... a)
{
  parameters all;
  cuda_on_host::static_shared = 0;
  if (!strcmp(what, "cublas_gemm"))
    return cuda_on_host::launch(what, f, grid, block, bytes, a...); /* no PTX of it */
  cuda_on_host::name = what;
  (all.add<P>(a), ...);
  run((const void *)f, all, grid, block, bytes);
}

/* --- memory ------------------------------------------------------------------------------------------------ */

/* Called by each thread when its kernel begins. */
void begin();
char *shared_at(uint32_t offset, unsigned bytes, bool writes);
void misaligned(uint64_t at, unsigned bytes);
inline char *aligned(uint64_t at, unsigned bytes)
{
  if (at % bytes) misaligned(at, bytes);
  return (char *)at;
}
template <class T> T load(const char *p)
{
  T x;
  memcpy(&x, p, sizeof x);
  return x;
}
template <class T> void store(char *p, T x) { memcpy(p, &x, sizeof x); }

/* --- barriers ---------------------------------------------------------------------------------------------- */

void meet_block();
void meet_warp(unsigned mask);

/* A lane reads the words that are its own, of rows of 16 bytes. */
inline void four_matrices(unsigned x[4], uint32_t row)
{
  shared_at(row, 16, false);
  cuda_on_host::load_matrices(
    x, row, [](uint32_t at, int i) { return load<unsigned>(shared_at(at + 4 * i, 4, false)); }, "ldmatrix",
    "", 1);
}

/* --- numbers ----------------------------------------------------------------------------------------------- */

inline float to_f32(uint32_t x) { return load<float>((const char *)&x); }
inline double to_f64(uint64_t x) { return load<double>((const char *)&x); }
inline uint32_t bits(float x) { return load<uint32_t>((const char *)&x); }
inline uint64_t bits(double x) { return load<uint64_t>((const char *)&x); }
/* A subnormal number is 0. */
inline float flushed(float x) { return fabsf(x) < std::numeric_limits<float>::min() ? copysignf(0, x) : x; }
inline float ex2_approx(float x) { return flushed(exp2f(flushed(x))); }
inline float div_approx(float x, float y) { return flushed(flushed(x) / flushed(y)); }
inline double rcp_approx(double x) /* both without their lower halves */
{
  const uint64_t upper = ~(uint64_t)0 << 32;
  return to_f64(bits(1 / to_f64(bits(x) & upper)) & upper);
}
/* Rounded down. */
inline float fma_rm(float x, float y, float z)
{
  const long double exact = (long double)x * y + z;
  const float near = (float)exact;
  return near > exact ? nextafterf(near, -INFINITY) : near;
}
inline float saturated(float x) { return x > 1 ? 1 : x > 0 ? x : 0; }
template <class T> T to_integer(double x)
{
  typedef std::numeric_limits<T> limits;
  return x != x                       ? 0
         : x <= (double)limits::min() ? limits::min()
         : x >= (double)limits::max() ? limits::max()
                                      : (T)x;
}
inline uint32_t bf16(float x)
{
  const uint32_t all = bits(x);
  return x != x ? 0x7fff : (all + 0x7fff + (all >> 16 & 1)) >> 16;
}
inline uint32_t bf16x2(float high, float low) { return bf16(high) << 16 | bf16(low); }
inline uint32_t tf32(float x) { return x != x ? 0x7fffffff : (bits(x) + 0x1000) & 0xffffe000u; }
inline uint32_t inserted(uint32_t x, uint32_t into, uint32_t at, uint32_t count)
{
  const uint32_t mask = (count < 32 ? (1u << count) - 1 : ~0u) << at;
  return (into & ~mask) | (x << at & mask);
}
inline int leading_zeros(uint32_t x) { return x ? __builtin_clz(x) : 32; }
inline uint32_t reversed(uint32_t x)
{
  uint32_t y = 0;
  for (int i = 0; i < 32; i++) y |= (x >> i & 1) << (31 - i);
  return y;
}
} // namespace ptx_on_host
#endif
