#include "config.h"
#include "comm/launcher.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const module_name = "maxlogit_mpi.so";

static int number_of(const char *text) { return (int)strtol(text, NULL, 10); }

int launcher_ranks(void)
{
  /* Open MPI; MPICH and other PMI; SimGrid; srun, whose steps may also have their tasks for other reasons */
  static const char *const named[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SMPI_GLOBAL_SIZE", NULL};
  for (int i = 0; named[i]; i++)
    if (getenv(named[i])) return number_of(getenv(named[i]));
  const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
  return tasks && getenv("PMIX_RANK") ? number_of(tasks) : 1;
}

int launcher_rank(void)
{
  static const char *const named[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", NULL};
  for (int i = 0; named[i]; i++)
    if (getenv(named[i])) return number_of(getenv(named[i]));
  return 0;
}

/* Beside the program, as in the folder where it was built; else where it was installed. */
static void module_path(char *out, size_t room)
{
  char program[4096];
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  for (; n > 0 && program[n - 1] != '/'; n--) {}
  if (n > 0) {
    snprintf(out, room, "%.*s%s", (int)n, program, module_name);
    if (!access(out, F_OK)) return;
  }
  snprintf(out, room, "%s/%s", PKGLIBDIR, module_name);
}

/* Where the program itself was linked with the module (a simulation of ranks), it is there already. */
extern comm_module_entry maxlogit_mpi __attribute__((weak));

static comm_module_entry *find(struct error *e)
{
  char path[4200];
  const char *file = getenv("MAXLOGIT_MPI");
  if (!file && maxlogit_mpi) return maxlogit_mpi;
  if (!file) {
    module_path(path, sizeof path);
    file = path;
    if (access(file, F_OK)) {
      error_set(
        e, STATUS_USAGE,
        "no MPI module was built (%s): configure and make do it where mpicc is (package libopenmpi-dev or "
        "libmpich-dev; ./bootstrap deps mpi)",
        file);
      return NULL;
    }
  }
  /* its library opens more by itself, which want its names */
  void *library = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
  comm_module_entry *entry = NULL;
  if (library) *(void **)&entry = dlsym(library, COMM_MODULE_ENTRY);
  if (!entry) error_set(e, STATUS_USAGE, "the MPI module cannot be loaded: %s", dlerror());
  return entry;
}

const struct comm_module *launcher_module(struct error *e)
{
  static const struct comm_module *module;
  if (module) return module;
  comm_module_entry *entry = find(e);
  if (!entry) return NULL;
  if (entry()->version == COMM_MODULE_VERSION) return module = entry();
  error_set(e, STATUS_USAGE,
            "the MPI module belongs to another build of this program: make, or install, both");
  return NULL;
}
