/* alone.c - the system interface of a module in a browser: one thread, one rank, 4 GiB of addresses, no files and no
   libraries
   The functions are documented in their headers. Requests that a browser cannot meet are rejected. */
#include <string.h>
#include "base/file.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/pages.h"
#include "base/thread.h"
#include "comm/transfer.h"
#include "numerics/blas.h"
#include "numerics/cuda_plugin.h"
#include "numerics/isolated.h"
#include "play/play.h"
#include "run/dist.h"
#include "run/start.h"
#include "storage/recorder.h"

static int not_here(struct error *e, const char *what)
{
  return error_set(e, STATUS_USAGE, "%s: not in a browser; the program `maxlogit` has it", what);
}

/* --- memory ------------------------------------------------------------------------------------------------ */

struct memory_limit memory_limit(const char *root)
{
  (void)root;
  return (struct memory_limit){0x1p32, "a module of WebAssembly has"};
}
double memory_free_now(void) { return 0x1p32 - (double)memory_held(); }

void *pages_map(size_t bytes) { return (void)bytes, NULL; }
size_t pages_mapped(const void *memory) { return (void)memory, 0; }
void pages_unmap(void *memory) { BUG("%p was not mapped", memory); }
void *pages_reserve(size_t bytes) { return (void)bytes, NULL; }
void pages_release(void *addresses, size_t bytes) { BUG("%p to %zu were not reserved", addresses, bytes); }

/* --- one thread -------------------------------------------------------------------------------------------- */

static char one; /* stands for the pool of this thread */

int thread_cores(void) { return 1; }
struct pool *pool_new(int threads) { return (void)threads, (struct pool *)&one; }
void pool_free(struct pool *p) { (void)p; }
int pool_threads(const struct pool *p) { return (void)p, 1; }

void parallel_for(struct pool *p, long pieces, void (*fn)(void *context, long piece, int worker),
                  void *context)
{
  (void)p;
  for (long i = 0; i < pieces; i++) fn(context, i, 0);
}

/* --- no files, but texts in their place ---------------------------------------------------------------------- */

static struct kept_text {
  struct kept_text *next;
  char *name, *text;
  size_t length;
} * kept;

static struct kept_text *find_text(const char *name)
{
  struct kept_text *x = kept;
  while (x && strcmp(x->name, name)) x = x->next;
  return x;
}

int play_file(int bytes)
{
  const size_t size = bytes > 0 ? (size_t)bytes : 0;
  char *all = play_room(0), *end = all && size ? memchr(all, '\n', size) : NULL;
  if (!end) return 0;
  *end++ = 0;
  struct kept_text *x = find_text(all);
  if (!x) {
    x = memory_new(1, sizeof *x);
    *x = (struct kept_text){.next = kept, .name = memory_text(all)};
    kept = x;
  }
  memory_free(x->text);
  x->length = size - (size_t)(end - all);
  x->text = memcpy(memory_new(x->length + 1, 1), end, x->length);
  return 1;
}

int file_read(const char *path, char **text, size_t *length, struct error *e)
{
  const struct kept_text *x = find_text(path);
  *text = NULL, *length = 0;
  if (!x) return not_here(e, path);
  *text = memcpy(memory_new(x->length + 1, 1), x->text, x->length);
  *length = x->length;
  return STATUS_OK;
}

int recorder_create(struct recorder **out, const char *path, int overwrite, const struct config *config,
                    const struct run_facts *facts, struct error *e)
{
  (void)overwrite, (void)config, (void)facts;
  *out = NULL;
  return not_here(e, path);
}
int recorder_append(struct recorder *r, int now, struct error *e)
{
  return (void)r, (void)now, (void)e, STATUS_OK;
}
int recorder_snapshot(struct recorder *r, const char *state, long last_step, double wall, int final,
                      struct error *e)
{
  return (void)r, (void)state, (void)last_step, (void)wall, (void) final, (void)e, STATUS_OK;
}
int trainer_save(struct trainer *t, struct error *e) { return (void)t, (void)e, STATUS_OK; }
void origin_keep_private(const struct config *c, int starts) { (void)c, (void)starts; }

int start_from(struct model *m, const char *from, long seed, const uint64_t *expected, uint64_t *content,
               struct error *e)
{
  (void)m, (void)seed, (void)expected;
  *content = 0;
  return *from ? not_here(e, "train.init_from") : STATUS_OK;
}

/* --- one rank ---------------------------------------------------------------------------------------------- */

int comm_agree(struct comm *c, unsigned *flags, struct error *e) { return (void)c, (void)flags, e->status; }
struct comm *comm_split(const struct comm *c, int color, int own_call)
{
  (void)color, (void)own_call;
  return memcpy(memory_new(1, sizeof *c), c, sizeof *c);
}
void comm_free(struct comm *c) { memory_free(c); }
void comm_patience(double seconds) { (void)seconds; }
int comm_neighbours(void) { return 1; }
int comm_number(const struct comm *c, int rank) { return (void)c, rank; }
const char *comm_host(const struct comm *c, int rank) { return (void)c, (void)rank, "this page"; }
void comm_gather(const struct comm *c, const void *own, void *all, size_t bytes)
{
  (void)c;
  memcpy(all, own, bytes);
}

static _Noreturn void no_other(void) { BUG("there is no other rank"); }

void comm_transfer(const struct comm *c, const struct parcel *out, int outs, const struct parcel *in, int ins)
{
  (void)c, (void)out, (void)outs, (void)in, (void)ins;
  no_other();
}
void comm_pass(const struct comm *c, int distance, const void *send, void *receive, size_t bytes)
{
  (void)c, (void)distance, (void)send, (void)receive, (void)bytes;
  no_other();
}
struct transfer comm_begin(const struct comm *c, int channel, const struct parcel *out, int outs,
                           const struct parcel *in, int ins)
{
  (void)c, (void)channel, (void)out, (void)outs, (void)in, (void)ins;
  no_other();
}
int comm_is_done(const struct transfer *t)
{
  (void)t;
  no_other();
}
void comm_await(struct transfer *t)
{
  (void)t;
  no_other();
}
int dist_verify(struct trainer *t, struct error *e) { return (void)t, (void)e, STATUS_OK; }

/* --- no libraries ------------------------------------------------------------------------------------------ */

void blas_pin(void) {}
const char *device_blas_config(void) { return "no BLAS"; }
const char *device_blas_core(void) { return "WebAssembly"; }
struct decomposition *decomposition_new(long longer, long shorter)
{
  return (void)longer, (void)shorter, NULL;
}
void decomposition_free(struct decomposition *d) { (void)d; }
int decompose(struct decomposition *d, double *w, long rows, long cols, int vectors, struct error *e)
{
  (void)d, (void)w, (void)rows, (void)cols, (void)vectors;
  return not_here(e, "LAPACK");
}

int device_isolate(struct device *device, struct error *e)
{
  (void)device;
  return not_here(e, "device = isolated");
}
const struct cuda_plugin *cuda_plugin(struct error *e) { return not_here(e, "a GPU"), NULL; }
void cuda_look(struct gpu *gpu) { *gpu = (struct gpu){0}; }
