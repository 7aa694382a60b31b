/* device.cu - a GPU as a device: memory, queues, what goes there and back, and replayed programs
   All is told to one queue, `compute`, in order, and the host goes on. What the host uploads is gathered in pinned
   memory and travels on a queue of its own; one kernel then puts the pieces into their places. What it fetches is
   taken from its places by one kernel, and travels back on a third queue while `compute` goes on. */
#include "cuda/kernels.h"
#include "cuda/blas.h"
#include "numerics/cuda_plugin.h"
#include <algorithm>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __CUDACC__
#include <cxxabi.h>
#endif

enum {
  LOTS = 16,
  LOT_BYTES = 1 << 20,
  LOT_PIECES = 4096,
  MOVE_PIECES = 128,
  PIECE_BYTES = 32 << 10,
  MOVE_THREADS = 256,
  OLDEST_MAJOR = 8, /* compute capability 8.0 */
  SHARED_ALWAYS = 2 << 10,
  RETIRED = 64
};

/* Part of what is uploaded or fetched. */
struct cuda_piece {
  char *to;
  const char *from;
  size_t bytes;
};

/* As many as one launch moves: they go to the device as its arguments, so that no block waits for the host's memory. */
struct pieces {
  struct cuda_piece piece[MOVE_PIECES];
};

/* A stretch of the device's memory. */
struct stretch {
  const char *from, *to;
};

/* Pieces that travel together. */
struct lot {
  char *host, *device;       /* [LOT_BYTES], pinned; on the device */
  struct cuda_piece *pieces; /* [LOT_PIECES] */
  char **to;                 /* [LOT_PIECES], fetched: where they go in the end */
  struct stretch *goal;      /* [LOT_PIECES], of `count` pieces: where they go on the device, in order */
  int count, busy;
  size_t used;
  cudaEvent_t ready, done;
};

struct timed {
  int op;
  cudaEvent_t from, to;
};

struct cuda {
  struct cuda_launch launch;                      /* first: kernels.h */
  cudaStream_t compute, up, down, side[BRANCHES]; /* side 0 is compute */
  cudaEvent_t fork, end[BRANCHES];                /* of branches, while calls are captured */
  int forked, used[BRANCHES];
  struct lot ups[LOTS], downs[LOTS];
  long told, taken, delivered; /* lots: uploaded; fetched; arrived of those */
  pthread_mutex_t lock;        /* host steps come from many threads */
  struct cuda_blas blas;
  int capturing;
  void *retired[RETIRED]; /* scratch that has grown: captured calls may still mean it */
  int retirements;
  struct timed *timed;
  int times, time_room;
  double waited; /* seconds of the host, for the device */
};

static struct cuda *cuda_of(struct device *device) { return (struct cuda *)device->private_state; }

static int is_set(const char *variable)
{
  const char *value = getenv(variable);
  return value && *value && strcmp(value, "0") != 0;
}

/* For finding faults: the host waits after every launch, and no graph is replayed. */
static int synchronous(void)
{
  static const int is = is_set("MAXLOGIT_CUDA_SYNC");
  return is;
}

static const struct device *latest; /* the last that an operation was sent to */
static const struct device *latest_device(void) { return __atomic_load_n(&latest, __ATOMIC_RELAXED); }

/* What fails on a GPU once it runs is not to be mended here; files on disk are whole at any instant. */
static void check(cudaError_t error, const char *what)
{
  if (error == cudaSuccess) return;
  const struct device *device = latest_device();
  const char *op = device ? device->op_now : NULL;
  message("device=cuda: %s: %s%s%s%s", what, cudaGetErrorString(error), op ? "; the last operation: " : "",
          op ? op : "", synchronous() ? "" : "; MAXLOGIT_CUDA_SYNC=1 stops at the kernel that fails");
  _exit(STATUS_FAIL);
}
#define CHECK(call) check(call, #call)

/* --- launches ---------------------------------------------------------------------------------------------- */

#ifdef __CUDACC__
static long launches;
static long launches_so_far(void) { return __atomic_load_n(&launches, __ATOMIC_RELAXED); }

/* A kernel's readable name, or its address. */
static void kernel_name(const void *kernel, char *out, size_t room)
{
  const char *name = NULL;
  snprintf(out, room, "kernel %p", kernel);
#if CUDART_VERSION >= 12030
  if (cudaFuncGetName(&name, kernel) != cudaSuccess) name = NULL;
#endif
  char *words = name ? abi::__cxa_demangle(name, NULL, NULL, NULL) : NULL;
  if (name) snprintf(out, room, "%s", words ? words : name);
  free(words);
}

/* Its name, blocks on a multiprocessor at once, registers, threads and shared bytes of a block. */
static void write_facts(const char *file, const void *kernel, dim3 block, size_t bytes)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static const void *seen[1024];
  static int count;
  pthread_mutex_lock(&lock);
  const int is_new = std::find(seen, seen + count, kernel) == seen + count && count < 1024;
  if (is_new) seen[count++] = kernel;
  pthread_mutex_unlock(&lock);
  FILE *out = is_new ? fopen(file, "ae") : NULL;
  if (!out) return;
  char name[1024];
  int blocks = 0, threads = (int)(block.x * block.y * block.z);
  cudaFuncAttributes a = {};
  kernel_name(kernel, name, sizeof name);
  cudaFuncGetAttributes(&a, kernel);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, bytes);
  fprintf(out, "%d\t%d\t%d\t%zu\t%s\n", blocks, a.numRegs, threads, a.sharedSizeBytes + bytes, name);
  fclose(out);
}

void cuda_launched(const void *kernel, dim3 block, size_t bytes, cudaStream_t stream)
{
  static const char *const file = getenv("MAXLOGIT_CUDA_KERNELS");
  __atomic_fetch_add(&launches, 1, __ATOMIC_RELAXED);
  if (file) write_facts(file, kernel, block, bytes);
  cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
  if (!synchronous() || cudaStreamIsCapturing(stream, &captured) != cudaSuccess ||
      captured != cudaStreamCaptureStatusNone)
    return;
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  if (error == cudaSuccess) return;
  char name[1024];
  kernel_name(kernel, name, sizeof name);
  check(error, name);
}
#else
static long launches_so_far(void) { return runtime_on_host::launches; }
#endif

static double seconds_now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void await_event(struct cuda *c, cudaEvent_t event)
{
  double began = seconds_now();
  CHECK(cudaEventSynchronize(event));
  c->waited += seconds_now() - began;
}

static void await_all(struct cuda *c)
{
  double began = seconds_now();
  CHECK(cudaStreamSynchronize(c->compute));
  c->waited += seconds_now() - began;
}

/* --- pieces ------------------------------------------------------------------------------------------------ */

static __global__ void move_kernel(struct pieces pieces)
{
  const struct cuda_piece &p = pieces.piece[blockIdx.x];
  unsigned *to = (unsigned *)p.to;
  const unsigned *from = (const unsigned *)p.from;
  for (size_t i = threadIdx.x; i < p.bytes / 4; i += blockDim.x) to[i] = from[i];
}

static void move(struct cuda *c, const struct lot *l)
{
  for (int from = 0, n; from < l->count; from += n) {
    struct pieces pieces = {};
    n = l->count - from < MOVE_PIECES ? l->count - from : (int)MOVE_PIECES;
    memcpy(pieces.piece, l->pieces + from, (size_t)n * sizeof *l->pieces);
    LAUNCH(move_kernel, n, MOVE_THREADS, 0, c->compute, pieces);
  }
}

static void lot_open(struct lot *l)
{
  CHECK(cudaMallocHost((void **)&l->host, LOT_BYTES));
  CHECK(cudaMalloc((void **)&l->device, LOT_BYTES));
  l->pieces = (struct cuda_piece *)calloc(LOT_PIECES, sizeof *l->pieces);
  l->to = (char **)calloc(LOT_PIECES, sizeof *l->to);
  l->goal = (struct stretch *)calloc(LOT_PIECES, sizeof *l->goal);
  REQUIRE(l->pieces && l->to && l->goal);
  CHECK(cudaEventCreateWithFlags(&l->ready, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&l->done, cudaEventDisableTiming));
}

static void lot_close(struct lot *l)
{
  if (!l->host) return;
  CHECK(cudaFreeHost(l->host));
  CHECK(cudaFree(l->device));
  free(l->pieces);
  free(l->to);
  free(l->goal);
  CHECK(cudaEventDestroy(l->ready));
  CHECK(cudaEventDestroy(l->done));
}

/* Blocks have no order: of two pieces of a lot for one place either could be the last. 0: another piece goes there. */
static int lot_reserve(struct lot *l, const char *from, const char *to)
{
  int low = 0, high = l->count; /* the first that ends behind `from` */
  while (low < high) {
    int middle = (low + high) / 2;
    if (l->goal[middle].to <= from)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < l->count && l->goal[low].from < to) return 0;
  memmove(&l->goal[low + 1], &l->goal[low], (size_t)(l->count - low) * sizeof *l->goal);
  l->goal[low] = {from, to};
  return 1;
}

/* Room for some of these bytes in a lot; 0: they need another one. */
static size_t lot_add(struct lot *l, char *to, const char *from, size_t bytes)
{
  size_t n = bytes < PIECE_BYTES ? bytes : (size_t)PIECE_BYTES;
  REQUIRE(((uintptr_t)to | (uintptr_t)from | bytes) % 4 == 0);
  if (l->count == LOT_PIECES || l->used + n > LOT_BYTES || !lot_reserve(l, to, to + n)) return 0;
  l->pieces[l->count++] = {to, from, n};
  l->used += (n + 15) / 16 * 16;
  return n;
}

static void lot_reuse(struct cuda *c, struct lot *l)
{
  if (!l->host) lot_open(l);
  if (l->busy) await_event(c, l->done);
  l->busy = l->count = 0;
  l->used = 0;
}

static void flush_up(struct cuda *c)
{
  struct lot *l = &c->ups[c->told % LOTS];
  if (l->busy || !l->count) return;
  CHECK(cudaMemcpyAsync(l->device, l->host, l->used, cudaMemcpyHostToDevice, c->up));
  CHECK(cudaEventRecord(l->ready, c->up));
  CHECK(cudaStreamWaitEvent(c->compute, l->ready, 0));
  move(c, l);
  CHECK(cudaEventRecord(l->done, c->compute));
  l->busy = 1;
  c->told++;
}

static void flush_down(struct cuda *c)
{
  struct lot *l = &c->downs[c->taken % LOTS];
  if (l->busy || !l->count) return;
  move(c, l);
  CHECK(cudaEventRecord(l->ready, c->compute));
  CHECK(cudaStreamWaitEvent(c->down, l->ready, 0));
  CHECK(cudaMemcpyAsync(l->host, l->device, l->used, cudaMemcpyDeviceToHost, c->down));
  CHECK(cudaEventRecord(l->done, c->down));
  l->busy = 1;
  c->taken++;
}

/* Before anything else is told to `compute`. At most one of them has something: order is kept. */
static void flush(struct cuda *c)
{
  flush_up(c);
  flush_down(c);
}

static void deliver_oldest(struct cuda *c)
{
  struct lot *l = &c->downs[c->delivered++ % LOTS];
  await_event(c, l->done);
  for (int i = 0; i < l->count; i++)
    memcpy(l->to[i], l->host + (l->pieces[i].to - l->device), l->pieces[i].bytes);
  l->busy = l->count = 0;
}

static void cuda_upload(struct device *device, void *to, const void *from, size_t bytes)
{
  struct cuda *c = cuda_of(device);
  pthread_mutex_lock(&c->lock);
  flush_down(c);
  for (size_t at = 0, n; at < bytes; at += n) {
    struct lot *l = &c->ups[c->told % LOTS];
    if (!l->host || l->busy) lot_reuse(c, l);
    size_t used = l->used;
    n = lot_add(l, (char *)to + at, l->device + used, bytes - at);
    if (n)
      memcpy(l->host + used, (const char *)from + at, n);
    else
      flush_up(c);
  }
  pthread_mutex_unlock(&c->lock);
}

static void cuda_fetch(struct device *device, void *to, const void *from, size_t bytes)
{
  struct cuda *c = cuda_of(device);
  pthread_mutex_lock(&c->lock);
  flush_up(c);
  for (size_t at = 0, n; at < bytes; at += n) {
    struct lot *l = &c->downs[c->taken % LOTS];
    while (l->busy) deliver_oldest(c); /* the ring is full: sooner than asked for */
    if (!l->count) lot_reuse(c, l);
    n = lot_add(l, l->device + l->used, (const char *)from + at, bytes - at);
    if (n)
      l->to[l->count - 1] = (char *)to + at;
    else
      flush_down(c);
  }
  pthread_mutex_unlock(&c->lock);
}

/* The lot in which the last piece travels. It leaves before anything else is told, so that what is fetched one after
   another is one copy, whatever marks are made in between. */
static long cuda_mark(struct device *device)
{
  struct cuda *c = cuda_of(device);
  pthread_mutex_lock(&c->lock);
  const struct lot *l = &c->downs[c->taken % LOTS];
  long mark = c->taken + (!l->busy && l->count);
  pthread_mutex_unlock(&c->lock);
  return mark;
}

/* Reaching the latest mark lets the device run dry: a wait. */
static void cuda_reach(struct device *device, long mark)
{
  struct cuda *c = cuda_of(device);
  pthread_mutex_lock(&c->lock);
  if (mark > c->taken) flush_down(c);
  if (mark == c->taken && c->delivered < mark) device->waits++;
  while (c->delivered < mark) deliver_oldest(c);
  pthread_mutex_unlock(&c->lock);
}

static void cuda_download(struct device *device, void *to, const void *from, size_t bytes)
{
  struct cuda *c = cuda_of(device);
  if (!bytes) return;
  pthread_mutex_lock(&c->lock);
  flush(c);
  CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, c->compute));
  await_all(c);
  device->waits++;
  pthread_mutex_unlock(&c->lock);
}

/* --- memory ------------------------------------------------------------------------------------------------ */

/* NULL: there is no more. */
static void *take(struct cuda *c, size_t bytes)
{
  void *memory = NULL;
  REQUIRE(!c->capturing);
  if (cudaMalloc(&memory, bytes ? bytes : 4) == cudaSuccess) return memory;
  cudaGetLastError();
  return NULL;
}

static void *cuda_get(struct device *device, size_t bytes)
{
  struct cuda *c = cuda_of(device);
  pthread_mutex_lock(&c->lock);
  void *memory = take(c, bytes);
  flush(c);
  if (memory) CHECK(cudaMemsetAsync(memory, 0, bytes ? bytes : 4, c->compute));
  pthread_mutex_unlock(&c->lock);
  return memory;
}

static void cuda_put_back(struct device *device, void *memory)
{
  struct cuda *c = cuda_of(device);
  if (!memory) return;
  pthread_mutex_lock(&c->lock);
  flush(c);
  CHECK(cudaStreamSynchronize(c->compute));
  CHECK(cudaFree(memory));
  pthread_mutex_unlock(&c->lock);
}

/* For kernels, as the program's own (device.h). What it was before it grew stays: captured calls may mean it. */
extern "C" void *device_scratch(struct device *device, size_t bytes)
{
  struct cuda *c = cuda_of(device);
  if (bytes <= device->scratch_bytes) return device->scratch;
  REQUIRE(device->runs == 1); /* other runs' scratch is in their arenas: declared */
  pthread_mutex_lock(&c->lock);
  REQUIRE(c->retirements < RETIRED);
  if (device->scratch) c->retired[c->retirements++] = device->scratch;
  device->scratch_bytes = bytes + bytes / 2;
  device->scratch = take(c, device->scratch_bytes);
  check(device->scratch ? cudaSuccess : cudaErrorMemoryAllocation, "scratch");
  pthread_mutex_unlock(&c->lock);
  return device->scratch;
}

/* --- calls ------------------------------------------------------------------------------------------------- */

static void cuda_enter(struct device *device)
{
  struct cuda *c = cuda_of(device);
  __atomic_store_n(&latest, (const struct device *)device, __ATOMIC_RELAXED);
  pthread_mutex_lock(&c->lock);
  if (!c->capturing) flush(c);
  pthread_mutex_unlock(&c->lock);
}

static void cuda_leave(struct device *device)
{
  (void)device;
  check(cudaGetLastError(), "a launch");
}

/* The first time calls are made as they come, so that scratch has its size and libraries are awake. */
static void cuda_begin(struct device *device)
{
  struct cuda *c = cuda_of(device);
  cuda_enter(device);
  CHECK(cudaStreamBeginCapture(c->compute, cudaStreamCaptureModeThreadLocal));
  c->capturing = 1;
}

/* A branch begins where the others were joined, which is where the first of them began. */
static void cuda_branch(struct device *device, int branch)
{
  struct cuda *c = cuda_of(device);
  if (branch >= 0 && !c->forked) {
    CHECK(cudaEventRecord(c->fork, c->compute));
    c->forked = 1;
  }
  if (branch > 0 && !c->used[branch]) {
    CHECK(cudaStreamWaitEvent(c->side[branch], c->fork, 0));
    c->used[branch] = 1;
  }
  for (int i = 1; i < BRANCHES && branch < 0; i++) {
    if (!c->used[i]) continue;
    CHECK(cudaEventRecord(c->end[i], c->side[i]));
    CHECK(cudaStreamWaitEvent(c->compute, c->end[i], 0));
    c->used[i] = 0;
  }
  if (branch < 0) c->forked = 0;
  device->stream = c->side[branch < 0 ? 0 : branch];
}

/* Some of cuBLAS's kernels attach data to their edges; without room for it the call fails. */
static cudaError_t graph_edges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count)
{
#if CUDART_VERSION >= 12030
  cudaGraphEdgeData *beside = from ? (cudaGraphEdgeData *)calloc(*count + 1, sizeof *beside) : NULL;
#if CUDART_VERSION >= 13000
  const cudaError_t error = cudaGraphGetEdges(graph, from, to, beside, count);
#else
  const cudaError_t error = cudaGraphGetEdges_v2(graph, from, to, beside, count);
#endif
  free(beside);
  return error;
#else
  return cudaGraphGetEdges(graph, from, to, count);
#endif
}

/* Launches in a row of which each waits for the one before, the longest. */
static long longest_path(cudaGraph_t graph, size_t count)
{
  size_t edges = 0;
  CHECK(graph_edges(graph, NULL, NULL, &edges));
  cudaGraphNode_t *node = (cudaGraphNode_t *)calloc(count + 2 * edges + 1, sizeof *node),
                  *from = node + count, *to = from + edges;
  long *depth = (long *)calloc(count + 1, sizeof *depth), longest = count > 0;
  REQUIRE(node && depth);
  CHECK(cudaGraphGetNodes(graph, node, &count));
  if (edges) CHECK(graph_edges(graph, from, to, &edges)); /* with room for edges, but none there, the call fails */
  std::sort(node, node + count);
  auto place = [&](cudaGraphNode_t n) { return std::lower_bound(node, node + count, n) - node; };
  for (int more = 1; more;) {
    more = 0;
    for (size_t i = 0; i < edges; i++) {
      long *later = &depth[place(to[i])], earlier = depth[place(from[i])] + 1;
      if (*later >= earlier) continue;
      *later = earlier, more = 1;
      if (earlier + 1 > longest) longest = earlier + 1;
    }
  }
  free(node);
  free(depth);
  return longest;
}

struct cuda_kept {
  cudaGraphExec_t graph;
  long nodes, path;
};

static void *cuda_end(struct device *device)
{
  struct cuda *c = cuda_of(device);
  struct cuda_kept *kept = (struct cuda_kept *)calloc(1, sizeof *kept);
  cudaGraph_t graph;
  size_t nodes = 0;
  REQUIRE(kept);
  c->capturing = 0;
  CHECK(cudaStreamEndCapture(c->compute, &graph));
  CHECK(cudaGraphGetNodes(graph, NULL, &nodes));
  kept->nodes = (long)nodes, kept->path = longest_path(graph, nodes);
  CHECK(cudaGraphInstantiate(&kept->graph, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphUpload(kept->graph, c->compute));
  return kept;
}

static void cuda_replay(struct device *device, void *of)
{
  struct cuda *c = cuda_of(device);
  const struct cuda_kept *kept = (const struct cuda_kept *)of;
  cuda_enter(device);
  device->nodes += kept->nodes, device->path += kept->path;
  CHECK(cudaGraphLaunch(kept->graph, c->compute));
}

static void cuda_forget(struct device *device, void *of)
{
  struct cuda_kept *kept = (struct cuda_kept *)of;
  CHECK(cudaStreamSynchronize(cuda_of(device)->compute));
  CHECK(cudaGraphExecDestroy(kept->graph));
  free(kept);
}

static void cuda_wait(struct device *device)
{
  struct cuda *c = cuda_of(device);
  pthread_mutex_lock(&c->lock);
  flush(c);
  await_all(c);
  pthread_mutex_unlock(&c->lock);
}

static double cuda_waited(const struct device *device)
{
  return ((const struct cuda *)device->private_state)->waited;
}

/* --- time -------------------------------------------------------------------------------------------------- */

static void cuda_stamp(struct device *device, int op)
{
  struct cuda *c = cuda_of(device);
  if (op < 0) {
    if (c->times == c->time_room) {
      c->time_room = c->time_room ? 2 * c->time_room : 1024;
      c->timed = (struct timed *)realloc(c->timed, (size_t)c->time_room * sizeof *c->timed);
      REQUIRE(c->timed);
      for (int i = c->times; i < c->time_room; i++) {
        CHECK(cudaEventCreate(&c->timed[i].from));
        CHECK(cudaEventCreate(&c->timed[i].to));
      }
    }
    CHECK(cudaEventRecord(c->timed[c->times].from, c->compute));
  } else {
    c->timed[c->times].op = op;
    CHECK(cudaEventRecord(c->timed[c->times++].to, c->compute));
  }
}

static void cuda_times(struct device *device)
{
  struct cuda *c = cuda_of(device);
  CHECK(cudaStreamSynchronize(c->compute));
  for (int i = 0; i < c->times; i++) {
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, c->timed[i].from, c->timed[i].to));
    device->op_seconds[c->timed[i].op] += (double)milliseconds * 1e-3;
  }
  c->times = 0;
}

/* --- the plug-in -------------------------------------------------------------------------------------------- */

/* Asked in another order the answers of a machine without a driver would be confusing. */
static void look(struct gpu *gpu)
{
  int count = 0;
  memset(gpu, 0, sizeof *gpu);
  cudaRuntimeGetVersion(&gpu->runtime);
  cudaDriverGetVersion(&gpu->driver);
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver && gpu->driver > 0)
    snprintf(gpu->lacks, sizeof gpu->lacks,
             "the NVIDIA driver is too old: it is for CUDA %d.%d, the plug-in for %d.%d", gpu->driver / 1000,
             gpu->driver % 1000 / 10, gpu->runtime / 1000, gpu->runtime % 1000 / 10);
  else if (error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary)
    snprintf(gpu->lacks, sizeof gpu->lacks, "no NVIDIA driver on this machine");
  else if (error == cudaErrorNoDevice || (error == cudaSuccess && !count))
    snprintf(gpu->lacks, sizeof gpu->lacks, "a driver, but no GPU that it lets this program see");
  else if (error != cudaSuccess)
    snprintf(gpu->lacks, sizeof gpu->lacks, "the GPU does not answer: %s", cudaGetErrorString(error));
  cudaGetLastError();
  if (*gpu->lacks) return;
  cudaDeviceProp p;
  if (cudaGetDeviceProperties(&p, 0) != cudaSuccess) {
    snprintf(gpu->lacks, sizeof gpu->lacks, "the GPU does not answer: %s",
             cudaGetErrorString(cudaGetLastError()));
    return;
  }
  snprintf(gpu->name, sizeof gpu->name, "%.*s", (int)sizeof gpu->name - 1, p.name);
  gpu->major = p.major, gpu->minor = p.minor, gpu->multiprocessors = p.multiProcessorCount;
  gpu->gigabytes = (double)p.totalGlobalMem * 1e-9;
  gpu->shared_bytes = p.sharedMemPerBlockOptin;
  size_t left = 0, all = 0;
  if (p.major >= OLDEST_MAJOR && cudaMemGetInfo(&left, &all) != cudaSuccess) cudaGetLastError();
  gpu->free_gigabytes = (double)left * 1e-9;
  if (p.major < OLDEST_MAJOR)
    snprintf(gpu->lacks, sizeof gpu->lacks,
             "the GPU is too old: %s has compute capability %d.%d, and %d.0 is needed", gpu->name, p.major,
             p.minor, (int)OLDEST_MAJOR);
}

static __global__ void empty_kernel() {}

static void examine(struct gpu *gpu)
{
  enum { NODES = 100, REPLAYS = 50 };
  static const char *const modes[] = {"shared", "exclusive", "prohibited", "exclusive to a process"};
  int mode = 0, kilohertz = 0;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t kept;
  struct cuda_blas blas = {};
  if (cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, 0) == cudaSuccess && mode >= 0 && mode < 4)
    snprintf(gpu->mode, sizeof gpu->mode, "%s", modes[mode]);
  if (cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, 0) == cudaSuccess)
    gpu->megahertz = kilohertz / 1000;
  cudaGetLastError();
  double began = seconds_now();
  cudaError_t error = cudaSetDevice(0);
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  gpu->context_seconds = seconds_now() - began;
  if (error != cudaSuccess) { /* it is busy, or others have it */
    snprintf(gpu->lacks, sizeof gpu->lacks, "%s (%s): %s", gpu->name, gpu->mode, cudaGetErrorString(error));
    cudaGetLastError();
    return;
  }
  cuda_blas_open(&blas, gpu->blas, sizeof gpu->blas);
  cuda_blas_file(&blas, gpu->blas, sizeof gpu->blas);
  cuda_blas_close(&blas);
  began = seconds_now();
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < NODES; i++) LAUNCH(empty_kernel, 1, 32, 0, stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&kept, graph, 0));
  CHECK(cudaGraphLaunch(kept, stream));
  CHECK(cudaStreamSynchronize(stream));
  gpu->graph_seconds = seconds_now() - began;
  began = seconds_now();
  for (int i = 0; i < REPLAYS; i++) CHECK(cudaGraphLaunch(kept, stream));
  CHECK(cudaStreamSynchronize(stream));
  gpu->node_seconds = (seconds_now() - began) / (NODES * REPLAYS);
  CHECK(cudaGraphExecDestroy(kept));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
}

static void cuda_close(struct device *device)
{
  struct cuda *c = cuda_of(device);
  CHECK(cudaStreamSynchronize(c->compute));
  CHECK(cudaStreamSynchronize(c->up));
  CHECK(cudaStreamSynchronize(c->down));
  for (int i = 0; i < LOTS; i++) lot_close(&c->ups[i]), lot_close(&c->downs[i]);
  for (int i = 0; i < c->retirements; i++) CHECK(cudaFree(c->retired[i]));
  for (int i = 0; i < c->time_room; i++) {
    CHECK(cudaEventDestroy(c->timed[i].from));
    CHECK(cudaEventDestroy(c->timed[i].to));
  }
  free(c->timed);
  cuda_blas_close(&c->blas);
  for (int i = 1; i < BRANCHES; i++) {
    CHECK(cudaStreamDestroy(c->side[i]));
    CHECK(cudaEventDestroy(c->end[i]));
  }
  CHECK(cudaEventDestroy(c->fork));
  CHECK(cudaStreamDestroy(c->compute));
  CHECK(cudaStreamDestroy(c->up));
  CHECK(cudaStreamDestroy(c->down));
  pthread_mutex_destroy(&c->lock);
  free(c);
  if (latest_device() == device) __atomic_store_n(&latest, (const struct device *)NULL, __ATOMIC_RELAXED);
}

/* An operation without a kernel would be found by a crash in the middle of a run. */
static const char *operation_without_kernel(const struct ops *ops)
{
  static const struct {
    const char *name;
    size_t at;
  } row[] = {
#define OP(name, what, fields) {#name, offsetof(struct ops, name)},
#include "numerics/ops.def"
#undef OP
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    void *function;
    memcpy(&function, (const char *)ops + row[i].at, sizeof function);
    if (!function) return row[i].name;
  }
  return NULL;
}

static int open_device(struct device *device, struct error *e)
{
  struct gpu gpu;
  char blas[64];
  look(&gpu);
  if (*gpu.lacks) return error_set(e, STATUS_USAGE, "%s", gpu.lacks);
  memset(&device->ops, 0, sizeof device->ops);
  ops_cuda_override(&device->ops);
  const char *missing = operation_without_kernel(&device->ops);
  if (missing) return error_set(e, STATUS_USAGE, "the plug-in has no kernel of the operation %s", missing);
  struct cuda *c = (struct cuda *)calloc(1, sizeof *c);
  REQUIRE(c);
  CHECK(cudaSetDevice(0));
  CHECK(cudaStreamCreateWithFlags(&c->compute, cudaStreamNonBlocking));
  c->side[0] = c->compute;
  for (int i = 1; i < BRANCHES; i++) {
    CHECK(cudaStreamCreateWithFlags(&c->side[i], cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&c->end[i], cudaEventDisableTiming));
  }
  CHECK(cudaEventCreateWithFlags(&c->fork, cudaEventDisableTiming));
  CHECK(cudaStreamCreateWithFlags(&c->up, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&c->down, cudaStreamNonBlocking));
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&c->lock, &recursive);
  pthread_mutexattr_destroy(&recursive);
  int no_memory = cuda_blas_open(&c->blas, blas, sizeof blas);
  c->launch.blas = c->blas.handle ? &c->blas : NULL;
  c->launch.shared_bytes = gpu.shared_bytes - SHARED_ALWAYS;
  device->private_state = c;
  device->stream = c->compute;
  device->get = cuda_get, device->put_back = cuda_put_back;
  device->upload = cuda_upload, device->download = cuda_download;
  device->fetch = cuda_fetch, device->mark = cuda_mark, device->reach = cuda_reach;
  device->enter = cuda_enter, device->leave = cuda_leave;
  device->begin = cuda_begin, device->end = cuda_end, device->replay = cuda_replay;
  device->forget = cuda_forget, device->branch = cuda_branch;
  device->one_by_one = synchronous();
  device->wait = cuda_wait, device->stamp = cuda_stamp, device->times = cuda_times;
  device->close = cuda_close;
  device->ahead = 4;
  snprintf(device->description, sizeof device->description,
           "cuda: %.60s, capability %d.%d, %d multiprocessors, %.0f GB, driver %d.%d, CUDA %d.%d, %.40s",
           gpu.name, gpu.major, gpu.minor, gpu.multiprocessors, gpu.gigabytes, gpu.driver / 1000,
           gpu.driver % 1000 / 10, gpu.runtime / 1000, gpu.runtime % 1000 / 10, blas);
  if (no_memory) /* without it products would have other bits */
    return error_set(e, STATUS_FAIL, "no memory for cuBLAS: %.1f of the GPU's %.1f GB are free",
                     gpu.free_gigabytes, gpu.gigabytes);
  return STATUS_OK;
}

extern "C" __attribute__((visibility("default"))) const struct cuda_plugin *maxlogit_cuda(void)
{
  static struct cuda_plugin plugin;
  plugin.fit = cuda_fit();
  plugin.look = look;
  plugin.examine = examine;
  plugin.open = open_device;
  plugin.limits = cuda_limits_measure;
  plugin.without_maxima = ops_cuda_without_maxima;
  plugin.waited = cuda_waited;
  plugin.launches = launches_so_far;
  return &plugin;
}
