/* provenance.h - which program on which machine: what /code of a run file says */
#ifndef MAXLOGIT_STORAGE_PROVENANCE_H
#define MAXLOGIT_STORAGE_PROVENANCE_H
#include <stddef.h>

struct provenance {
  const char *version;  /* of maxlogit */
  const char *revision; /* git commit, "unknown" outside a checkout and its tarballs */
  int dirty;            /* tracked files differed from it: 1, 0; -1 unknown */
  const char *compiler, *flags;
  char hdf5[32], openblas[128], blas_core[64], lapack[32], xxhash[32], gsl[32], libc[64];
  char host[128], system[256], cpu[128];
};

void provenance_get(struct provenance *);
/* "maxlogit 0.1.0, revision 1a2b3c, numerics 4, v3 kernels, OpenBLAS Haswell": under every table and ledger. Runs of
   other numerics have other ids, so that what a table is made of has the numerics of the program that makes it. */
const char *provenance_stamp(char *out, size_t room);
/* The texts of it by name, for whoever lists them. */
void provenance_each(const struct provenance *, void (*each)(void *, const char *name, const char *value),
                     void *);
#endif
