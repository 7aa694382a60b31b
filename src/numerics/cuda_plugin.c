#include "base/file.h"
#include "config.h"
#include "numerics/cuda_plugin.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const plugin_name = "maxlogit_cuda.so";

static void *find(struct error *e)
{
  char path[4096];
  const char *file = getenv("MAXLOGIT_CUDA");
  if (!file) {
    if (!file_beside_program(path, plugin_name)) /* as in the folder where it was built */
      snprintf(path, sizeof path, "%s/%s", PKGLIBDIR, plugin_name);
    file = path;
    if (access(file, F_OK)) {
      error_set(e, STATUS_USAGE,
                "no CUDA plug-in was built (%s): `make cuda` in the build folder does it, where configure "
                "finds nvcc in "
                "PATH, in /usr/local/cuda, or by --with-cuda=DIR",
                file);
      return NULL;
    }
  }
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) error_set(e, STATUS_USAGE, "the CUDA plug-in cannot be loaded: %s", dlerror());
  return library;
}

static const struct cuda_plugin *load(struct error *e)
{
  void *library = find(e);
  if (!library) return NULL;
  cuda_plugin_entry *entry;
  *(void **)&entry = dlsym(library, CUDA_PLUGIN_ENTRY);
  const struct cuda_plugin *plugin = entry ? entry() : NULL;
  struct cuda_fit own = cuda_fit();
  if (plugin && !memcmp(&plugin->fit, &own, sizeof own)) return plugin;
  error_set(e, STATUS_USAGE,
            "the CUDA plug-in belongs to another build of this program: make, or install, both");
  return NULL;
}

const struct cuda_plugin *cuda_plugin(struct error *e)
{
  static const struct cuda_plugin *plugin;
  if (!plugin && sizeof(real) != sizeof(float))
    error_set(e, STATUS_USAGE, "a GPU computes in single precision here");
  else if (!plugin)
    plugin = load(e);
  return plugin;
}

void cuda_look(struct gpu *gpu)
{
  struct error e = {0};
  const struct cuda_plugin *plugin = cuda_plugin(&e);
  memset(gpu, 0, sizeof *gpu);
  if (plugin)
    plugin->look(gpu);
  else
    snprintf(gpu->lacks, sizeof gpu->lacks, "%.500s", e.text);
}

void cuda_examine(struct gpu *gpu)
{
  cuda_look(gpu);
  if (!*gpu->lacks) cuda_plugin(NULL)->examine(gpu);
}
