#include "base/file.h"
#include "config.h"
#include "comm/launcher.h"
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const module_name = "maxlogit_mpi.so";

/* Open MPI; MPICH and other PMI; srun. */
static const char *const rank_names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", NULL};

static int number_of(const char *text) { return (int)strtol(text, NULL, 10); }

/* The value of the first of these variables that is set. */
static int number_named(const char *const *name, int otherwise)
{
  while (*name && !getenv(*name)) name++;
  return *name ? number_of(getenv(*name)) : otherwise;
}

int launcher_ranks(void)
{
  /* Open MPI; MPICH and other PMI; SimGrid; srun, which may also start tasks that are not ranks */
  static const char *const named[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SMPI_GLOBAL_SIZE", NULL};
  const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
  return number_named(named, tasks && getenv("PMIX_RANK") ? number_of(tasks) : 1);
}

int launcher_rank(void) { return number_named(rank_names, 0); }

int launcher_is_simulated(void) { return getenv("SMPI_GLOBAL_SIZE") != NULL; }

/* --- the others on this host -------------------------------------------------------------------------------------- */

/* The rank of a process, from the variables of launcher_rank; -1: none. */
static int rank_of(int pid)
{
  char path[64], *entry = NULL;
  size_t room = 0;
  int rank = -1, names = sizeof rank_names / sizeof *rank_names - 1;
  snprintf(path, sizeof path, "/proc/%d/environ", pid);
  FILE *f = fopen(path, "r");
  while (f && getdelim(&entry, &room, 0, f) > 0)
    for (int i = 0; i < names; i++) {
      size_t n = strlen(rank_names[i]);
      if (!strncmp(entry, rank_names[i], n) && entry[n] == '=') rank = number_of(entry + n + 1), names = i;
    }
  if (f) fclose(f);
  free(entry);
  return rank;
}

/* The state of a process, as a letter of ps, and its parent. */
static char state_of(int pid, int *parent)
{
  char path[64], text[512], state = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *f = fopen(path, "r");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = 0;
  const char *name_ends = strrchr(text, ')');
  if (!name_ends || sscanf(name_ends + 1, " %c %d", &state, parent) != 2) *parent = -1;
  return state;
}

/* The number of ranks that the launcher has started on this host; 0: unknown. */
static int number_here(void)
{
  static const char *const named[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL};
  return number_named(named, 0);
}

/* [ranks]: the state of each rank that the same launcher has started on this host, else 0; the caller calls free. NULL:
   no memory. */
static char *states_here(int ranks)
{
  char *state = calloc((size_t)ranks, 1);
  DIR *all = state ? opendir("/proc") : NULL;
  for (struct dirent *d; all && (d = readdir(all));) {
    int parent, pid = number_of(d->d_name);
    if (pid <= 0) continue;
    char letter = state_of(pid, &parent);
    int rank = parent == getppid() ? rank_of(pid) : -1;
    if (rank >= 0 && rank < ranks) state[rank] = letter;
  }
  if (all) closedir(all);
  return state;
}

int launcher_is_here(int rank)
{
  const int ranks = launcher_ranks();
  char *state = states_here(ranks);
  int is_here = number_here() == ranks || (state && state[rank]);
  free(state);
  return is_here;
}

int launcher_stuck(void)
{
  const int ranks = launcher_ranks();
  char *state = states_here(ranks);
  const int all_here = number_here() == ranks && rank_of(getppid()) < 0; /* else a wrapper's child */
  int stuck = -1;
  for (int i = 0; state && i < ranks && stuck < 0; i++)
    if (state[i] ? strchr("TtZX", state[i]) != NULL : all_here) stuck = i;
  free(state);
  return stuck;
}

/* The module is beside the program, as in a build folder, or else in the installation folder. */
static void module_path(char out[4096])
{
  if (!file_beside_program(out, module_name)) snprintf(out, 4096, "%s/%s", PKGLIBDIR, module_name);
}

/* If the program itself was linked with the module (simulated ranks), no file is needed. */
extern comm_module_entry maxlogit_mpi __attribute__((weak));

static comm_module_entry *find(struct error *e)
{
  char path[4096];
  const char *file = getenv("MAXLOGIT_MPI");
  if (!file && maxlogit_mpi) return maxlogit_mpi;
  if (!file) {
    module_path(path);
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
  /* the MPI library opens further libraries, which need its symbols */
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
