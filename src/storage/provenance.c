#include "storage/provenance.h"
#include <config.h> /* not config/config.h */
#include <gsl/gsl_version.h>
#include <lapacke.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <xxhash.h>
#include "base/platform.h"
#include "build.h"
#include "numerics/blas.h"
#include "numerics/device.h"
#include "config/config.h"
#include "storage/h5.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

void provenance_get(struct provenance *p)
{
  int major = 0, minor = 0, patch = 0;
  unsigned xxh = XXH_versionNumber();
  struct utsname os;
  *p = (struct provenance){.version = PACKAGE_VERSION,
                           .revision = BUILD_REVISION,
                           .dirty = BUILD_DIRTY,
                           .compiler = COMPILER,
                           .flags = BUILD_FLAGS};
  LAPACKE_ilaver(&major, &minor, &patch);
  snprintf(p->hdf5, sizeof p->hdf5, "%s", h5_version());
  snprintf(p->openblas, sizeof p->openblas, "%s", device_blas_config());
  snprintf(p->blas_core, sizeof p->blas_core, "%s", device_blas_core());
  snprintf(p->lapack, sizeof p->lapack, "%d.%d.%d", major, minor, patch);
  snprintf(p->xxhash, sizeof p->xxhash, "%u.%u.%u", xxh / 10000, xxh / 100 % 100, xxh % 100);
  snprintf(p->gsl, sizeof p->gsl, "%s", gsl_version);
  platform_c_library(p->libc, sizeof p->libc);
  if (!uname(&os)) {
    snprintf(p->host, sizeof p->host, "%s", os.nodename);
    snprintf(p->system, sizeof p->system, "%s %s %s", os.sysname, os.release, os.machine);
  }
  platform_processor(p->cpu, sizeof p->cpu);
}

const char *provenance_stamp(char *out, size_t room)
{
  snprintf(out, room, "%s, revision %.12s%s, numerics %d, %s kernels, OpenBLAS %s", PACKAGE_STRING,
           BUILD_REVISION, BUILD_DIRTY > 0 ? " (changed)" : "", NUMERICS_VERSION, ops_cpu_level(),
           device_blas_core());
  return out;
}

void provenance_each(const struct provenance *p, void (*each)(void *, const char *, const char *),
                     void *context)
{
  const struct {
    const char *name, *value;
  } rows[] = {
    {"version", p->version}, {"revision", p->revision}, {"compiler", p->compiler},   {"flags", p->flags},
    {"hdf5", p->hdf5},       {"openblas", p->openblas}, {"blas_core", p->blas_core}, {"lapack", p->lapack},
    {"xxhash", p->xxhash},   {"gsl", p->gsl},           {"libc", p->libc},           {"host", p->host},
    {"system", p->system},   {"cpu", p->cpu},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) each(context, rows[i].name, rows[i].value);
}
