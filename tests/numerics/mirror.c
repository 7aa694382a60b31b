/* mirror.c - a GPU for tests whose tensors lie in the host's memory: every call copies them there, and its results
   back */
#include "check_ops.h"
#include "numerics/cuda_plugin.h"
#include <stdlib.h>

enum { FIELDS = sizeof(union op_args) / sizeof(void *) };
enum { GRAIN = 256 }; /* a place on the device has the same remainder by it as its place on the host */

/* Memory of the host that tensors of a call share, and its copy on the device. */
struct extent {
  char *from, *to, *there;
  int written;
};

static char *end_of(const struct tensor *t)
{
  const size_t size = t->type == TENSOR_INT ? sizeof(int) : sizeof(real);
  return (char *)t->data + (size_t)((t->rows - 1) * t->ld + t->cols) * size;
}

/* The memory of all tensors of a call; where tensors overlap, one extent. Returns their number. */
static int extents_of(struct extent e[FIELDS], struct tensor *const *tensor, const struct op_field *field,
                      int count)
{
  int extents = 0;
  for (int i = 0; i < count; i++) {
    if (!tensor[i] || !tensor[i]->rows || !tensor[i]->cols) continue;
    struct extent all = {(char *)tensor[i]->data, end_of(tensor[i]), NULL,
                         op_field_is_written(field[i].kind)};
    for (int k = 0; k < extents; k++) {
      if (all.from >= e[k].to || e[k].from >= all.to) continue;
      if (e[k].from < all.from) all.from = e[k].from;
      if (e[k].to > all.to) all.to = e[k].to;
      all.written |= e[k].written;
      e[k] = e[--extents];
      k = -1;
    }
    e[extents++] = all;
  }
  return extents;
}

static long calls;

long mirror_calls(void) { return calls; }

static void run_there(struct device *device, enum op op, const void *args)
{
  struct device *gpu = (struct device *)device->private_state;
  union op_args there;
  struct tensor copy[FIELDS], *tensor[FIELDS];
  struct extent extent[FIELDS];
  int count;
  const struct op_field *field = op_fields(op, &count);
  memcpy(&there, args, (size_t)count * sizeof(void *));
  for (int i = 0; i < count; i++)
    tensor[i] = field[i].kind < FIELD_SIZE ? ((struct tensor **)&there)[i] : NULL;
  const int extents = extents_of(extent, tensor, field, count);
  size_t bytes = 0;
  for (int k = 0; k < extents; k++) bytes += (size_t)(extent[k].to - extent[k].from) + 2 * GRAIN;
  char *memory = (char *)gpu->get(gpu, bytes), *at = memory;
  ck_assert_msg(memory != NULL, "no memory on the GPU");
  for (int k = 0; k < extents; k++) {
    const size_t n = (size_t)(extent[k].to - extent[k].from);
    extent[k].there = at + (uintptr_t)extent[k].from % GRAIN;
    gpu->upload(gpu, extent[k].there, extent[k].from, n);
    at += (n / GRAIN + 2) * GRAIN;
  }
  for (int i = 0; i < count; i++) {
    if (!tensor[i] || !tensor[i]->rows || !tensor[i]->cols) continue;
    int k = 0;
    while ((char *)tensor[i]->data < extent[k].from || (char *)tensor[i]->data >= extent[k].to) k++;
    copy[i] = *tensor[i];
    copy[i].data = extent[k].there + ((char *)tensor[i]->data - extent[k].from);
    ((struct tensor **)&there)[i] = &copy[i];
  }
  gpu->math = device->math, gpu->runs = device->runs;
  gpu->wait(gpu); /* so that launches of the uploads do not count */
  const long before = cuda_plugin(NULL)->launches();
  op_run(gpu, op, &there);
  ck_assert_msg(cuda_plugin(NULL)->launches() > before, "%s has launched nothing", op_name(op));
  for (int k = 0; k < extents; k++)
    if (extent[k].written)
      gpu->download(gpu, extent[k].from, extent[k].there, (size_t)(extent[k].to - extent[k].from));
  gpu->put_back(gpu, memory);
  calls++;
}

#define OP(name, what, fields) \
  static void name##_there(struct device *device, const struct name##_args *args) \
  { \
    run_there(device, OP_##name, args); \
  }
#include "numerics/ops.def"
#undef OP

static void close_both(struct device *device) { device_close((struct device *)device->private_state); }

struct device *mirror_open(void)
{
  struct device *device, *gpu;
  struct error e = {0};
  ck_assert_msg(!device_open(&gpu, "cuda", 1, &e), "%s", e.text);
  ck_assert(!device_open(&device, "reference", 1, NULL));
  device->name = "cuda, mirrored";
  device->private_state = gpu, device->close = close_both;
  memset(&device->ops, 0, sizeof device->ops);
#define OP(name, what, fields) device->ops.name = name##_there;
#include "numerics/ops.def"
#undef OP
  return device;
}

void mirror_without_maxima(struct device *device)
{
  cuda_plugin(NULL)->without_maxima(&((struct device *)device->private_state)->ops);
}
