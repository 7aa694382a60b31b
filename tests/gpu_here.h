/* gpu_here.h - cuda_look in a process of its own: who has looked at a GPU and forks leaves the child without it. Where
   the CPU is to stand in for the GPU it does, or the test fails: it is skipped only where that was not built. */
#ifndef MAXLOGIT_TESTS_GPU_HERE_H
#define MAXLOGIT_TESTS_GPU_HERE_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "numerics/cuda_plugin.h"

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
  const char *plugin = getenv("MAXLOGIT_CUDA");
  if (*gpu.lacks && plugin && strstr(plugin, "on_host") && !access(plugin, F_OK)) {
    fprintf(stderr, "%s: %s\n", plugin, gpu.lacks);
    exit(1);
  }
  return gpu;
}
#endif
