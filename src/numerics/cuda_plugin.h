/* cuda_plugin.h - the GPU's part of the program: a plug-in, opened if device = cuda is configured
   The program needs no CUDA library to start, and names the missing part where there is no GPU. The plug-in
   maxlogit_cuda.so lies beside the program, or where it was installed; MAXLOGIT_CUDA=FILE names another one. */
#ifndef MAXLOGIT_NUMERICS_CUDA_PLUGIN_H
#define MAXLOGIT_NUMERICS_CUDA_PLUGIN_H
#include <string.h>
#include "numerics/device.h"

/* The properties of a machine's GPU. */
struct gpu {
  char name[128];                                     /* "NVIDIA H100 80GB HBM3"; empty: none */
  int major, minor, multiprocessors, driver, runtime; /* capability 9.0; versions as 13000 */
  double gigabytes, free_gigabytes;
  size_t shared_bytes; /* shared memory that a block may have */
  char lacks[512];     /* the missing part for device = cuda; empty: nothing */
  /* filled in by examine */
  char mode[32];          /* compute mode: "shared", "exclusive", "prohibited" */
  char blas[400];         /* "cuBLAS 13.1.0 (FILE)" */
  int megahertz;          /* highest clock */
  double context_seconds; /* to create a context */
  double graph_seconds; /* to build a first graph of empty launches, each after the one before, and run it */
  double node_seconds;  /* of one of these launches in a replay */
};

/* Sizes and versions that must be equal in the program and its plug-in. */
struct cuda_fit {
  size_t version, device, tensor, operations;
};
enum { CUDA_PLUGIN_VERSION = 5 };
#define CUDA_TEXT_(...) #__VA_ARGS__
#define CUDA_TEXT(...) CUDA_TEXT_(__VA_ARGS__)
static inline struct cuda_fit cuda_fit(void)
{
  static const char *const operation[] = {
#define OP(name, what, fields) #name " " CUDA_TEXT(fields),
#include "numerics/ops.def"
#undef OP
  };
  struct cuda_fit f = {CUDA_PLUGIN_VERSION, sizeof(struct device), sizeof(struct tensor), 0};
  for (size_t i = 0; i < OP_COUNT; i++)
    for (const char *c = operation[i]; *c; c++)
      f.operations = (f.operations ^ (unsigned char)*c) * 1099511628211u;
  return f;
}

/* Measured on the device, for the bench: the best rates of products of n x n matrices, FLOP/s; NaN: unavailable. */
struct cuda_limits {
  double fp32, tf32, bf16, bytes; /* bytes: of a copy, read and written, per second */
  double fma;                     /* of fused multiply-adds in registers */
};

struct cuda_plugin {
  struct cuda_fit fit;
  void (*look)(struct gpu *);
  void (*examine)(struct gpu *); /* of a GPU that lacks nothing; the process has a context afterwards */
  /* Fills in a device that is zero except for its pool. Returns STATUS_OK, or STATUS_USAGE and the missing part. */
  int (*open)(struct device *, struct error *);
  void (*limits)(struct device *, struct cuda_limits *);
  /* The same attention without its maxima and entropy, to measure their cost. */
  void (*without_maxima)(struct ops *);
  /* Seconds that the host has waited for the device so far. If they grow, the device limits the speed. */
  double (*waited)(const struct device *);
  long (*launches)(void); /* of this process so far; replays do not count */
};
typedef const struct cuda_plugin *cuda_plugin_entry(void);
#define CUDA_PLUGIN_ENTRY "maxlogit_cuda"

/* The plug-in; it stays open. NULL and the reason if none fits. */
const struct cuda_plugin *cuda_plugin(struct error *);
/* The GPU for device = cuda, or the reason for none. */
void cuda_look(struct gpu *);
/* The same, with the fields that need a context. */
void cuda_examine(struct gpu *);
#endif
