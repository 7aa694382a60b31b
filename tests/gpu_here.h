/* gpu_here.h - cuda_look in a process of its own: who has looked at a GPU and forks leaves the child without it. With
   MAXLOGIT_TEST_CUDA=1 (make check-cuda) the CPU stands in for a GPU, or the test fails; it is skipped only where that
   was not built. */
#ifndef MAXLOGIT_TESTS_GPU_HERE_H
#define MAXLOGIT_TESTS_GPU_HERE_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "numerics/cuda_plugin.h"

/* In main: which plug-in is loaded. */
static inline void gpu_twin(void)
{
  const char *wanted = getenv("MAXLOGIT_TEST_CUDA");
  if (wanted && *wanted) setenv("MAXLOGIT_CUDA", "tests/maxlogit_cuda_on_host.so", 0);
}

static inline int gpu_is_twin(void)
{
  const char *plugin = getenv("MAXLOGIT_CUDA");
  return plugin && strstr(plugin, "on_host");
}

static inline struct gpu gpu_here(void)
{
  struct gpu gpu = {.lacks = "nobody could look"};
  int ends[2];
  if (pipe(ends)) return gpu;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    cuda_look(&gpu);
    _exit(write(ends[1], &gpu, sizeof gpu) != (ssize_t)sizeof gpu);
  }
  close(ends[1]);
  struct gpu seen;
  if (read(ends[0], &seen, sizeof seen) == (ssize_t)sizeof seen) gpu = seen;
  close(ends[0]);
  if (child > 0) waitpid(child, NULL, 0);
  if (*gpu.lacks && gpu_is_twin() && !access(getenv("MAXLOGIT_CUDA"), F_OK)) {
    fprintf(stderr, "%s: %s\n", getenv("MAXLOGIT_CUDA"), gpu.lacks);
    exit(1);
  }
  return gpu;
}
#endif
