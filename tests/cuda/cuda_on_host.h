/* cuda_on_host.h - what CUDA kernels call, on the CPU: the kernels of cuda/ are tested with it where no GPU is
   Kernels run block after block, the threads of a block as fibers that change places at barriers and warp
   collectives. It stops with a message where threads do not meet at the same barrier or collective, and at a launch
   that a device refuses. Shared memory is all 0xff, a NaN, when a block starts. Of two threads that no barrier
   orders, each runs first once in the orders 0 and 1 of cuda_on_host::order, so a race that matters shows as
   different bits; -fsanitize=thread names its two lines. -fsanitize=address -fsanitize-sections=cuda_shared finds
   every access outside an array. One kernel at a time, from one thread. Of PTX only
   products of tensor cores and their loads. Not
   here: half, cooperative groups, __activemask, threads that spin for each other. g++ 12 does not fill __shared__
   arrays of function templates. */
#ifndef MAXLOGIT_TESTS_CUDA_CUDA_ON_HOST_H
#define MAXLOGIT_TESTS_CUDA_CUDA_ON_HOST_H
#include <algorithm>
#include <cmath>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#if defined __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#define LEAVE(from, to) __sanitizer_start_switch_fiber(&(from).sanitizer, (to).stack, (to).stack_bytes)
#define ARRIVE(at, from) __sanitizer_finish_switch_fiber((at).sanitizer, &(from).stack, &(from).stack_bytes)
#elif defined __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define LEAVE(from, to) __tsan_switch_to_fiber((to).sanitizer, __tsan_switch_to_fiber_no_sync)
#define ARRIVE(at, from)
#else
#define LEAVE(from, to)
#define ARRIVE(at, from)
#endif

#define __global__ __attribute__((unused))
#define __device__ __attribute__((unused))
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
/* Blocks run one at a time: static is enough. The section: to fill it. used: others change it at barriers. */
#define __shared__ static __attribute__((section("cuda_shared"), used))
#define DYNAMIC_SHARED(type, name) type *name = (type *)cuda_on_host::dynamic_shared
#define LAUNCH(kernel, grid, block, bytes, stream, ...) \
  ((void)(stream), cuda_on_host::launch(#kernel, kernel, grid, block, bytes, ##__VA_ARGS__))
extern "C" __attribute__((weak, visibility("hidden"))) unsigned __start_cuda_shared[], __stop_cuda_shared[];

typedef struct CUstream_st *cudaStream_t;
struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
struct alignas(8) uint2 {
  unsigned x, y;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim;
constexpr int warpSize = 32;

namespace cuda_on_host
{
inline unsigned order; /* 0: first to last, 1: last to first, else mixed in a way of its own */
inline size_t shared_limit = 48 << 10; /* of a kernel that has not asked for more */
inline size_t most_shared = 163 << 10; /* of a block on sm_80 */
inline size_t static_shared;           /* before the dynamic one, where PTX is run */
struct grant {
  const void *kernel;
  size_t bytes;
};
inline grant asked[256]; /* kernels that have */
inline int kernels_asked;

enum state { READY, IN_WARP, IN_BLOCK, RETURNED };
struct thread {
  void *context[5]; /* of __builtin_setjmp */
  const void *stack;
  size_t stack_bytes;
  void *sanitizer;
  dim3 index;
  state at;
  const char *what, *file;
  int line;              /* where it waits, */
  unsigned mask;         /* for which lanes of its warp, */
  uint64_t brings, seen; /* with what; what the others see of it once all are there */
};
inline thread threads[1024], scheduler, *running;
inline unsigned size; /* threads of a block */
inline char *dynamic_shared;
inline const char *name;
inline const void *arguments, *function;
inline void (*kernel)(const void *arguments);

/* For what changes stacks, or is common to all fibers: no sanitizer looks at it. */
#define BARE __attribute__((no_sanitize("address", "undefined", "thread"))) inline

BARE bool together(const thread &a, const thread &b) /* one place in the source has one pointer each */
{
  return a.at == b.at && a.mask == b.mask && a.line == b.line && a.what == b.what && a.file == b.file;
}

BARE void demand(bool good, const char *message)
{
  if (good) return;
  fprintf(stderr, "cuda_on_host: %s, block (%u,%u,%u): %s\n", name, blockIdx.x, blockIdx.y, blockIdx.z,
          message);
  for (unsigned i = 0, n; i < size; i += n) {
    const thread &t = threads[i];
    for (n = 1; i + n < size && together(t, threads[i + n]);) n++;
    fprintf(stderr, "  %u from (%u,%u,%u) on: %s", n, t.index.x, t.index.y, t.index.z, t.what);
    fprintf(stderr, t.line ? " at %s:%d\n" : "\n", t.file, t.line);
  }
  abort();
}

/* --- fibers: started by setcontext, changed by __builtin_setjmp, ten times as fast as swapcontext --------- */

inline void enter(thread &);
BARE __attribute__((noipa)) void jump(void **to) { __builtin_longjmp(to, 1); }
BARE __attribute__((noipa)) void hop(thread &from, thread &to)
{
  LEAVE(from, to);
  if (!__builtin_setjmp(from.context)) {
    if (to.context[1]) jump(to.context); /* [1] is where to; set since the first change */
    enter(to);
  }
  ARRIVE(from, to);
}

BARE void thread_main()
{
  for (ARRIVE(*running, scheduler);;) {
    kernel(arguments);
    thread &t = *running;
    t.at = RETURNED, t.what = "have returned", t.file = "", t.line = t.mask = 0;
    hop(t, scheduler);
  }
}

BARE void enter(thread &t)
{
  ucontext_t fresh;
  getcontext(&fresh);
  fresh.uc_stack.ss_sp = (void *)t.stack;
  fresh.uc_stack.ss_size = t.stack_bytes - (&t - threads) % 31 * 192; /* not all tops in one cache set */
  makecontext(&fresh, thread_main, 0);
  setcontext(&fresh);
}

/* --- meetings: of lanes of a warp, of the threads of a block ---------------------------------------------- */

BARE int lane() { return (running - threads) % 32; }
BARE void wait(state at, unsigned mask, uint64_t brings, const char *what, const char *file, int line)
{
  thread &t = *running;
  t.at = at, t.mask = mask, t.brings = brings, t.what = what, t.file = file, t.line = line;
  demand(at != IN_WARP || mask >> lane() & 1, "a lane calls a collective whose mask lacks it");
  hop(t, scheduler);
}

/* If all that t waits for wait with it, lets them go: the lanes in its mask, of which some may have returned, or
   the threads of the block. They see what each brought; what they did comes before what follows. */
BARE bool meet(thread &t)
{
  bool warp = t.at == IN_WARP;
  thread *all[1025], *first = warp ? &t - (&t - threads) % 32 : threads;
  unsigned n = 0;
  for (unsigned i = 0; i < (warp ? 32 : size); i++) {
    if (warp && !(t.mask >> i & 1)) continue;
    if (together(t, first[i]))
      all[n++] = &first[i];
    else if (warp && first[i].at == RETURNED)
      first[i].seen = ~0ull;
    else
      return false;
  }
  if (!warp) all[n++] = &scheduler;
#if defined __SANITIZE_THREAD__
  for (unsigned i = 0; i < 2 * n; i++)
    LEAVE(t, *all[i % n]), i < n ? __tsan_release(all[0]) : __tsan_acquire(all[0]);
  LEAVE(t, scheduler);
#endif
  for (unsigned i = 0; i < n; i++) all[i]->seen = all[i]->brings, all[i]->at = READY;
  return true;
}

/* The i-th of n in this order; the factor is a prime. */
BARE unsigned turn(unsigned i, unsigned n)
{
  return order == 0 ? i : order == 1 ? n - 1 - i : (i * 4294967291ull + order) % n;
}

BARE void run_warp(thread *warp)
{
  for (bool again = true; again;) {
    for (unsigned i = 0; i < 32; i++) {
      running = &warp[turn(i, 32)], threadIdx = running->index;
      if (running->at == READY) hop(scheduler, *running);
    }
    again = false;
    for (unsigned i = 0; i < 32; i++) again |= warp[i].at == IN_WARP && meet(warp[i]);
  }
}

BARE void run(dim3 grid, dim3 block, size_t bytes)
{
  uint64_t n = (uint64_t)block.x * block.y * block.z, blocks = (uint64_t)grid.x * grid.y * grid.z;
  gridDim = grid, blockDim = block, blockIdx = {0, 0, 0}, size = 0;
  demand(n && n <= 1024 && block.z <= 64, "a block has 1 to 1024 threads, at most 64 in z");
  demand(blocks && blocks >> 31 == 0 && grid.y <= 65535 && grid.z <= 65535,
         "a grid has blocks, in y and z to 65535");
  size_t limit = shared_limit;
  for (int i = 0; i < kernels_asked; i++)
    if (asked[i].kernel == function) limit = asked[i].bytes;
  demand(bytes <= limit, "more dynamic shared memory than the kernel has asked for");
  demand(bytes + static_shared <= (limit > shared_limit ? most_shared : shared_limit),
         "more shared memory than a block may have");
  for (unsigned i = 0; i < 1024; i++) {
    thread &t = threads[i];
    t.at = RETURNED, t.what = t.file = "",
    t.index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
    if (t.stack || i >= n) continue;
    demand(t.stack = malloc(t.stack_bytes = 256 << 10), "no memory for a stack");
#if defined __SANITIZE_THREAD__
    t.sanitizer = __tsan_create_fiber(0), scheduler.sanitizer = __tsan_get_current_fiber();
#endif
  }
  size = n, dynamic_shared = (char *)malloc(bytes += static_shared);
  for (unsigned b = 0; b < blocks; b++) {
    unsigned k = turn(b, blocks), warps = (size + 31) / 32;
    blockIdx = {k % grid.x, k / grid.x % grid.y, k / grid.x / grid.y};
    memset(dynamic_shared, -1, bytes);
    for (volatile unsigned *p = __start_cuda_shared; p + 1 <= __stop_cuda_shared;)
      *p++ = ~0u;     /* red zones too */
    meet(threads[0]); /* all have returned from the block before */
    for (bool more = true; more;) {
      for (unsigned w = 0; w < warps; w++) run_warp(threads + 32 * turn(w, warps));
      more = threads[0].at != RETURNED;
      demand(meet(threads[0]), "not all threads reach the same place");
    }
  }
  free(dynamic_shared);
}

template <class... P, class... A>
void launch(const char *what, void (*f)(P...), dim3 grid, dim3 block, size_t bytes, A... a)
{
  auto call = [=] { f(a...); };
  name = what, function = (const void *)f, arguments = &call,
  kernel = [](const void *c) { (*(const decltype(call) *)c)(); };
  run(grid, block, bytes);
}

/* What lane `from` brought; all bits set where it takes no part. */
BARE uint64_t seen(unsigned mask, int from) { return mask >> from & 1 ? running[from - lane()].seen : ~0ull; }

template <class T> T shuffle(unsigned mask, T value, int from, const char *what, const char *file, int line)
{
  static_assert(sizeof value <= 8, "shuffles move up to 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  wait(IN_WARP, mask, bits, what, file, line);
  bits = seen(mask, from);
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline unsigned ballot(unsigned mask, bool yes, const char *what, const char *file, int line)
{
  wait(IN_WARP, mask, yes, what, file, line);
  for (int i = 0; i < 32; i++) mask ^= (mask >> i & 1 && seen(mask, i) != 1 ? 1u : 0u) << i;
  return mask;
}

/* In one OS thread nothing has to be atomic; ThreadSanitizer has to see that it is. */
template <class T, class F> T atomic(T *p, F next)
{
  T old, now;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  now = next(old);
  __atomic_store(p, &now, __ATOMIC_RELAXED);
  return old;
}
template <class T> struct as {
  typedef T type;
}; /* as<T>::type takes no part in deducing T */

/* What lanes bring to a product on tensor cores: a lane is at most one product ahead of the others of its warp. */
struct words {
  unsigned a[4], b[2];
};
inline words brought[1024][2];
inline unsigned products[1024];                       /* that each thread has begun */
inline float number_of(unsigned word, int per, int i) /* the hardware cuts off what it has no room for */
{
  unsigned bits = per == 1 ? word & 0xffffe000u : i ? word & 0xffff0000u : word << 16;
  float x;
  return memcpy(&x, &bits, 4), x;
}
inline void tensor_core(int per, float c[4], const unsigned a[4], unsigned b0, unsigned b1, const char *what,
                        const char *file, int line)
{
  const unsigned me = running - threads, turn = products[me]++ % 2;
  words &mine = brought[me][turn];
  mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  wait(IN_WARP, ~0u, turn, what, file, line);
  const words(*warp)[2] = &brought[me / 32 * 32];
  for (int i = 0; i < 4; i++) {
    const unsigned row = me % 32 / 4 + i / 2 * 8, column = me % 4 * 2 + i % 2;
    for (int k = 0; k < 8 * per; k++) { /* word k / per of both */
      const unsigned w = k / per, x = warp[row % 8 * 4 + w % 4][turn].a[row / 8 + w / 4 * 2],
                     y = warp[column * 4 + w % 4][turn].b[w / 4];
      c[i] = fmaf(number_of(x, per, k % per), number_of(y, per, k % per), c[i]);
    }
  }
}

/* ldmatrix: lanes bring where rows of four words lie; read(p): the word there. */
template <class P, class F>
void load_matrices(unsigned x[4], P row, F read, const char *what, const char *file, int line)
{
  uint64_t bits = 0;
  memcpy(&bits, &row, sizeof row);
  wait(IN_WARP, ~0u, bits, what, file, line);
  P rows[4];
  for (int i = 0; i < 4; i++) bits = seen(~0u, 8 * i + lane() / 4), memcpy(&rows[i], &bits, sizeof row);
  for (int i = 0; i < 4; i++) x[i] = read(rows[i], lane() % 4);
}

/* As cudaFuncSetAttribute, which is a call of the driver: a kernel asks for more than all are given, and for more than
   it has. */
inline void allow_shared(const void *f, size_t bytes)
{
  int i = 0;
  demand(bytes <= most_shared, "more shared memory than sm_80 has");
  while (i < kernels_asked && asked[i].kernel != f) i++;
  demand(i < 256, "too many kernels ask for shared memory");
  demand(bytes > (i < kernels_asked ? asked[i].bytes : shared_limit),
         "a kernel asks for shared memory that it has");
  asked[i] = {f, bytes};
  if (i == kernels_asked) kernels_asked++;
}
} // namespace cuda_on_host
#define SET_SHARED(kernel, bytes) cuda_on_host::allow_shared((const void *)(kernel), bytes)

/* --- what kernels call: add a line where one is missing ---------------------------------------------------- */
#define HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define ON_HOST(call, ...) cuda_on_host::call(__VA_ARGS__, __func__, file, line)
inline void __syncthreads(HERE) { ON_HOST(wait, cuda_on_host::IN_BLOCK, 0, 0); }
inline void __syncwarp(unsigned mask = ~0u, HERE) { ON_HOST(wait, cuda_on_host::IN_WARP, mask, 0); }
inline unsigned __ballot_sync(unsigned mask, int p, HERE) { return ON_HOST(ballot, mask, p); }
inline int __any_sync(unsigned mask, int p, HERE) { return ON_HOST(ballot, mask, p) != 0; }
inline int __all_sync(unsigned mask, int p, HERE) { return ON_HOST(ballot, mask, !p) == 0; }
inline void tensor_core_on_host(int per, float c[4], const unsigned a[4], unsigned b0, unsigned b1, HERE)
{
  ON_HOST(tensor_core, per, c, a, b0, b1);
}
inline void load_words_on_host(unsigned x[4], const unsigned *row, HERE)
{
  ON_HOST(load_matrices, x, row, [](const unsigned *at, int i) { return at[i]; });
}
#define SHUFFLE(name, argument, from) \
  template <class T> T name(unsigned mask, T v, int argument, int width = 32, HERE) \
  { \
    int lane = cuda_on_host::lane(), first = lane & -width, last = first + width - 1; \
    return (void)last, ON_HOST(shuffle, mask, v, from); \
  }
SHUFFLE(__shfl_sync, of, first | (of & (width - 1)))
SHUFFLE(__shfl_xor_sync, bits, (lane ^ bits) > last ? lane : lane ^ bits)
SHUFFLE(__shfl_down_sync, by, lane + by > last ? lane : lane + by)
SHUFFLE(__shfl_up_sync, by, lane - by < first ? lane : lane - by)
#define ATOMIC(name, result) \
  template <class T> T name(T *p, typename cuda_on_host::as<T>::type v) \
  { \
    return cuda_on_host::atomic(p, [=](T old) -> T { return (void)old, result; }); \
  }
ATOMIC(atomicAdd, old + v)
ATOMIC(atomicMax, old < v ? v : old)
ATOMIC(atomicMin, v < old ? v : old)
ATOMIC(atomicExch, v)
template <class T>
T atomicCAS(T *p, typename cuda_on_host::as<T>::type is, typename cuda_on_host::as<T>::type v)
{
  return cuda_on_host::atomic(p, [=](T old) { return old == is ? v : old; });
}
inline void __threadfence() {}
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
template <class T> T __ldg(const T *p) { return *p; }
using std::isfinite, std::isinf, std::isnan;
inline unsigned __float_as_uint(float x)
{
  unsigned y;
  return memcpy(&y, &x, 4), y;
}
inline float __uint_as_float(unsigned x)
{
  float y;
  return memcpy(&y, &x, 4), y;
}
inline float __expf(float x) { return expf(x); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
using std::max, std::min;
inline float max(float x, float y) { return fmaxf(x, y); }
inline float min(float x, float y) { return fminf(x, y); }
#endif
