/* cuda_runtime_on_host.h - as much of CUDA's run-time library as the device of cuda/ calls, on the CPU
   A device that is truly asynchronous, and always in the same way: what a stream is told waits there, by its address
   and its arguments, until somebody waits for it. MAXLOGIT_CUDA_ON_HOST says in which way:
     lazy    (default) a wait does no more than what it waits for: who does not wait reads what was there before
     others  before anything else, all other streams come as far as they may: who lacks a wait between two streams is
             overtaken
     eager   everything is done at once
   MAXLOGIT_CUDA_ON_HOST_ORDER: in which order blocks and threads take turns (cuda_on_host.h); 0.
   Device memory is inaccessible but while a stream works, NaN where nothing was written and where it was given back,
   and has a margin behind it that is checked. A process that was forked from one that has asked for the GPU is refused
   it. no-driver, old-driver, no-gpu, old-gpu, no-blas: machines that lack something. MAXLOGIT_CUDA_ON_HOST_MEMORY: its
   bytes; MAXLOGIT_CUDA_ON_HOST_OTHERS: those of them that other programs hold;
   MAXLOGIT_CUDA_ON_HOST_LARGEST: those of the largest piece that is to be had. What is pinned on the host is
   inaccessible to kernels, which would have to reach it by way of the bus. */
#ifndef MAXLOGIT_TESTS_CUDA_CUDA_RUNTIME_ON_HOST_H
#define MAXLOGIT_TESTS_CUDA_CUDA_RUNTIME_ON_HOST_H
#include "cuda_on_host.h"
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#define CUDART_VERSION 13000
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorStubLibrary = 34,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum { cudaEventDisableTiming = 2, cudaStreamNonBlocking = 1, cudaStreamCaptureModeThreadLocal = 1 };
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlockOptin;
  int major, minor, multiProcessorCount;
};

namespace runtime_on_host
{
struct event {
  CUstream_st *stream;
  long recorded, reached;
  struct graph *captured; /* of the last record, NULL: it is to be reached; and what came before it */
  std::vector<int> tail;
};
struct work {
  std::function<void()> run;
  event *waits, *records;
  long number; /* of the record */
};
/* What was captured: calls, and the earlier ones that each needs. */
struct node {
  std::function<void()> run;
  std::vector<int> needs;
};
struct graph {
  std::vector<node> nodes;
};
} // namespace runtime_on_host
struct CUstream_st {
  std::deque<runtime_on_host::work> queue;
  runtime_on_host::graph *captured; /* NULL: what it is told is to be done */
  std::vector<int> tail;            /* of the captured calls, those that the next one needs */
};
typedef runtime_on_host::event *cudaEvent_t;
typedef runtime_on_host::graph *cudaGraph_t, *cudaGraphExec_t;
typedef runtime_on_host::node *cudaGraphNode_t;

namespace runtime_on_host
{
inline std::recursive_mutex lock;
inline std::vector<CUstream_st *> streams;
inline int working; /* deep */

inline void demand(bool good, const char *message)
{
  if (good) return;
  fprintf(stderr, "cuda_runtime_on_host: %s\n", message);
  abort();
}

inline bool is(const char *mode)
{
  const char *chosen = getenv("MAXLOGIT_CUDA_ON_HOST");
  return !strcmp(chosen ? chosen : "lazy", mode);
}

/* --- memory --- */
enum : size_t { REGION = (size_t)16 << 30, MARGIN = 256, PAGE = 4096, FILLED = 65536 };
inline char *region;
inline size_t used;
inline std::map<char *, size_t> taken;

inline void protect(int access)
{
  if (used) demand(!mprotect(region, (used + PAGE - 1) / PAGE * PAGE, access), "mprotect failed");
}
struct working_now {
  working_now()
  {
    if (!working++) protect(PROT_READ | PROT_WRITE);
  }
  ~working_now()
  {
    if (!--working) protect(PROT_NONE);
  }
};

inline size_t bytes_of(const char *variable, size_t otherwise)
{
  const char *chosen = getenv(variable);
  return chosen ? strtoul(chosen, NULL, 10) : otherwise;
}
inline size_t memory_bytes() { return bytes_of("MAXLOGIT_CUDA_ON_HOST_MEMORY", (size_t)4 << 30); }
inline size_t memory_left()
{
  size_t held = bytes_of("MAXLOGIT_CUDA_ON_HOST_OTHERS", 0), all = memory_bytes();
  for (const auto &piece : taken) held += piece.second;
  return held < all ? all - held : 0;
}
inline cudaError_t last = cudaSuccess; /* until somebody asks */

/* --- pinned memory: handed out once, but for what was given back --- */
enum : size_t { PINNED = (size_t)64 << 20 };
inline char *pinned;
inline size_t pinned_used;
inline std::map<size_t, std::vector<void *>> pinned_free; /* by size */
inline std::map<void *, size_t> pinned_taken;
inline void protect_pinned(int access)
{
  if (pinned_used) demand(!mprotect(pinned, pinned_used, access), "mprotect failed");
}

inline bool on_device(const void *p, size_t bytes)
{
  auto next = taken.upper_bound((char *)p);
  if (next == taken.begin()) return false;
  auto at = std::prev(next);
  return (const char *)p + bytes <= at->first + at->second;
}

/* --- streams --- */
inline void advance(CUstream_st *, const event *, long number);

inline void do_first(CUstream_st *s)
{
  work w = s->queue.front();
  if (w.waits) advance(w.waits->stream, w.waits, w.number);
  s->queue.pop_front();
  if (w.run) w.run();
  if (w.records) w.records->reached = w.number;
}

inline void advance_others(CUstream_st *but)
{
  for (bool more = true; more;) {
    more = false;
    for (CUstream_st *s : streams)
      while (s != but && s->queue.size() &&
             (!s->queue.front().waits || s->queue.front().waits->reached >= s->queue.front().number))
        do_first(s), more = true;
  }
}

/* Until the event has been reached; NULL: to the end. */
inline void advance(CUstream_st *s, const event *e, long number)
{
  if (!e && s->queue.empty()) return;
  working_now now;
  while (e ? e->reached < number : !s->queue.empty()) {
    demand(!s->queue.empty(), "a wait for what was never told");
    if (is("others")) advance_others(s);
    if (!s->queue.empty()) do_first(s);
  }
}

inline void tell(CUstream_st *s, const work &w)
{
  std::lock_guard<std::recursive_mutex> guard(lock);
  demand(s, "no stream");
  if (s->captured) {
    demand(!w.waits && !w.records, "an event of work that is done, while a stream is captured");
    s->captured->nodes.push_back({w.run, s->tail});
    s->tail = {(int)s->captured->nodes.size() - 1};
    return;
  }
  s->queue.push_back(w);
  if (is("eager")) advance(s, NULL, 0);
}

inline long launches; /* so far */

template <class... P, class... A>
void tell_launch(CUstream_st *s, const char *what, void (*f)(P...), dim3 grid, dim3 block, size_t bytes,
                 A... a)
{
  auto launch = [=] {
    const char *chosen = getenv("MAXLOGIT_CUDA_ON_HOST_ORDER");
    cuda_on_host::order = chosen ? (unsigned)strtoul(chosen, NULL, 10) : 0;
    const bool late = !is("eager"); /* else other threads may be at it */
    if (late) protect_pinned(PROT_NONE);
    cuda_on_host::launch(what, f, grid, block, bytes, a...);
    if (late) protect_pinned(PROT_READ | PROT_WRITE);
  };
  launches++;
  tell(s, {launch, NULL, NULL, 0});
}
} // namespace runtime_on_host
#undef LAUNCH
#define LAUNCH(kernel, grid, block, bytes, stream, ...) \
  runtime_on_host::tell_launch(stream, #kernel, kernel, grid, block, bytes, ##__VA_ARGS__)

#define ONE_AT_A_TIME std::lock_guard<std::recursive_mutex> guard(runtime_on_host::lock)

inline cudaError_t cudaMalloc(void **out, size_t bytes)
{
  using namespace runtime_on_host;
  ONE_AT_A_TIME;
  for (CUstream_st *s : streams) demand(!s->captured, "memory is asked for while a stream is captured");
  if (!region) {
    region = (char *)mmap(NULL, REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    demand(region != MAP_FAILED, "no addresses for device memory");
  }
  if (bytes > memory_left() || bytes > bytes_of("MAXLOGIT_CUDA_ON_HOST_LARGEST", bytes))
    return last = cudaErrorMemoryAllocation;
  char *memory = region + used;
  used += (bytes + MARGIN + 255) / 256 * 256;
  demand(used < REGION, "device memory is handed out but once, and used up");
  protect(PROT_READ | PROT_WRITE);
  memset(memory, -1, bytes < FILLED ? bytes : (size_t)FILLED); /* pages that are touched cost time */
  memset(memory + bytes, -1, MARGIN);
  if (!working) protect(PROT_NONE);
  taken[memory] = bytes;
  *out = memory;
  return cudaSuccess;
}

inline cudaError_t cudaFree(void *p)
{
  using namespace runtime_on_host;
  ONE_AT_A_TIME;
  if (!p) return cudaSuccess;
  auto at = taken.find((char *)p);
  demand(at != taken.end(), "cudaFree of what is no device memory");
  working_now now;
  for (size_t i = 0; i < MARGIN; i++)
    demand(at->first[at->second + i] == (char)-1, "something was written behind the end of device memory");
  memset(at->first, -1, at->second < FILLED ? at->second : (size_t)FILLED);
  taken.erase(at);
  return cudaSuccess;
}

inline cudaError_t cudaMallocHost(void **out, size_t bytes)
{
  using namespace runtime_on_host;
  ONE_AT_A_TIME;
  if (!pinned) {
    pinned =
      (char *)mmap(NULL, PINNED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    demand(pinned != MAP_FAILED, "no addresses for pinned memory");
  }
  bytes = (bytes + PAGE - 1) / PAGE * PAGE;
  std::vector<void *> &back = pinned_free[bytes];
  if (back.size())
    *out = back.back(), back.pop_back();
  else
    *out = pinned + pinned_used, pinned_used += bytes;
  demand(pinned_used <= PINNED, "pinned memory is used up");
  pinned_taken[*out] = bytes;
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void *p)
{
  using namespace runtime_on_host;
  ONE_AT_A_TIME;
  auto at = pinned_taken.find(p);
  demand(at != pinned_taken.end(), "cudaFreeHost of what is not pinned");
  pinned_free[at->second].push_back(p);
  pinned_taken.erase(at);
  return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
  ONE_AT_A_TIME;
  *left = runtime_on_host::memory_left(), *all = runtime_on_host::memory_bytes();
  return cudaSuccess;
}

inline cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
  runtime_on_host::demand(runtime_on_host::on_device(p, bytes), "cudaMemsetAsync outside of device memory");
  runtime_on_host::tell(s, {[=] { memset(p, value, bytes); }, NULL, NULL, 0});
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t s)
{
  using namespace runtime_on_host;
  demand(on_device(to, bytes) == (kind != cudaMemcpyDeviceToHost), "cudaMemcpyAsync to the wrong side");
  demand(on_device(from, bytes) == (kind != cudaMemcpyHostToDevice), "cudaMemcpyAsync from the wrong side");
  tell(s, {[=] { memcpy(to, from, bytes); }, NULL, NULL, 0});
  return cudaSuccess;
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
  ONE_AT_A_TIME;
  runtime_on_host::streams.push_back(*out = new CUstream_st());
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t s)
{
  using namespace runtime_on_host;
  ONE_AT_A_TIME;
  demand(s->queue.empty(), "a stream ends with work left");
  streams.erase(std::find(streams.begin(), streams.end(), s));
  delete s;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
  ONE_AT_A_TIME;
  runtime_on_host::demand(!s->captured, "a wait for a stream that is captured");
  runtime_on_host::advance(s, NULL, 0);
  return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
  ONE_AT_A_TIME;
  if (e->captured) { /* the stream takes part from now on */
    runtime_on_host::demand(!s->captured || s->captured == e->captured, "two captures meet");
    s->captured = e->captured;
    for (int node : e->tail)
      if (std::find(s->tail.begin(), s->tail.end(), node) == s->tail.end()) s->tail.push_back(node);
  } else if (e->recorded) {
    runtime_on_host::tell(s, {NULL, e, NULL, e->recorded});
  }
  return cudaSuccess;
}

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
  *out = new runtime_on_host::event();
  return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t *out) { return cudaEventCreateWithFlags(out, 0); }
inline cudaError_t cudaEventDestroy(cudaEvent_t e)
{
  runtime_on_host::demand(e->reached == e->recorded, "an event ends before it is reached");
  delete e;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
  ONE_AT_A_TIME;
  e->captured = s->captured, e->tail = s->tail;
  if (s->captured) return cudaSuccess;
  e->stream = s;
  runtime_on_host::tell(s, {NULL, NULL, e, ++e->recorded});
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
  ONE_AT_A_TIME;
  if (e->recorded) runtime_on_host::advance(e->stream, e, e->recorded);
  return cudaSuccess;
}
/* Here nothing takes time. */
inline cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
  runtime_on_host::demand(from->reached && to->reached, "the time of an event that is not reached");
  *milliseconds = 1;
  return cudaSuccess;
}

inline cudaError_t cudaStreamBeginCapture(cudaStream_t s, int)
{
  ONE_AT_A_TIME;
  runtime_on_host::demand(!s->captured, "a stream is captured twice");
  s->captured = new runtime_on_host::graph();
  s->tail.clear();
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
  using namespace runtime_on_host;
  ONE_AT_A_TIME;
  demand(s->captured, "a capture ends that did not begin");
  *out = s->captured;
  std::vector<char> joined((*out)->nodes.size());
  std::vector<int> left = s->tail;
  while (left.size()) {
    int node = left.back();
    left.pop_back();
    if (joined[(size_t)node]) continue;
    joined[(size_t)node] = 1;
    left.insert(left.end(), (*out)->nodes[(size_t)node].needs.begin(),
                (*out)->nodes[(size_t)node].needs.end());
  }
  for (char one : joined) demand(one, "a capture ends before all its streams have come back");
  for (CUstream_st *other : streams)
    if (other->captured == *out) other->captured = NULL, other->tail.clear();
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned)
{
  *out = new runtime_on_host::graph(*graph);
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
  delete g;
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g) { return cudaGraphDestroy(g); }
inline cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *node, size_t *count)
{
  *count = g->nodes.size();
  for (size_t i = 0; node && i < *count; i++) node[i] = &g->nodes[i];
  return cudaSuccess;
}
struct cudaGraphEdgeData {
  int kind;
};
inline cudaError_t cudaGraphGetEdges(cudaGraph_t g, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                     cudaGraphEdgeData *, size_t *count)
{
  *count = 0;
  for (runtime_on_host::node &node : g->nodes)
    for (int needs : node.needs) {
      if (from) from[*count] = &g->nodes[(size_t)needs], to[*count] = &node;
      ++*count;
    }
  return cudaSuccess;
}
inline cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s)
{
  /* of those that may come next, in the chosen order */
  auto all = [g] {
    const char *chosen = getenv("MAXLOGIT_CUDA_ON_HOST_ORDER");
    const unsigned order = chosen ? (unsigned)strtoul(chosen, NULL, 10) : 0;
    std::vector<int> waits_for(g->nodes.size()), ready;
    std::vector<std::vector<int>> followers(g->nodes.size());
    for (size_t i = 0; i < g->nodes.size(); i++) {
      waits_for[i] = (int)g->nodes[i].needs.size();
      for (int node : g->nodes[i].needs) followers[(size_t)node].push_back((int)i);
      if (!waits_for[i]) ready.push_back((int)i);
    }
    while (ready.size()) {
      const size_t n = ready.size(), at = order == 0 ? 0 : order == 1 ? n - 1 : order % n;
      const int node = ready[at];
      ready.erase(ready.begin() + (long)at);
      g->nodes[(size_t)node].run();
      for (int next : followers[(size_t)node])
        if (!--waits_for[(size_t)next]) ready.push_back(next);
    }
  };
  runtime_on_host::tell(s, {all, NULL, NULL, 0});
  return cudaSuccess;
}

inline cudaError_t cudaGetLastError()
{
  ONE_AT_A_TIME;
  const cudaError_t last = runtime_on_host::last;
  runtime_on_host::last = cudaSuccess;
  return last;
}
inline const char *cudaGetErrorString(cudaError_t e)
{
  return e == cudaErrorMemoryAllocation      ? "out of memory"
         : e == cudaErrorInitializationError ? "initialization error"
                                             : "an error";
}
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int *v)
{
  *v = 13000;
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int *v)
{
  *v = runtime_on_host::is("no-driver") ? 0 : runtime_on_host::is("old-driver") ? 12020 : 13000;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int *count)
{
  using namespace runtime_on_host;
  if (is("no-driver") || is("old-driver")) return cudaErrorInsufficientDriver;
  static pid_t first;
  if (!first) first = getpid();
  if (first != getpid()) return cudaErrorInitializationError;
  if (is("no-gpu")) return cudaErrorNoDevice;
  *count = 1;
  return cudaSuccess;
}
enum { cudaDevAttrComputeMode, cudaDevAttrClockRate };
inline cudaError_t cudaDeviceGetAttribute(int *value, int, int) { return *value = 0, cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
  *p = {
    "this CPU in the place of a GPU",       runtime_on_host::memory_bytes(),        cuda_on_host::most_shared,
    runtime_on_host::is("old-gpu") ? 7 : 9, runtime_on_host::is("old-gpu") ? 5 : 0, 1};
  return cudaSuccess;
}
#endif
