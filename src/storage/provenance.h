/* provenance.h - the program and the machine, for /code of a run file */
#ifndef MAXLOGIT_STORAGE_PROVENANCE_H
#define MAXLOGIT_STORAGE_PROVENANCE_H
#include <stddef.h>

struct provenance {
  const char *version;  /* of maxlogit */
  const char *revision; /* git commit, "unknown" outside a checkout and its tarballs */
  int dirty;            /* tracked files differed from the revision: 1, 0; -1 unknown */
  const char *compiler, *flags;
  char hdf5[32], openblas[128], blas_core[64], lapack[32], xxhash[32], gsl[32], libc[64];
  char host[128], system[256], cpu[128];
};

void provenance_get(struct provenance *);
/* "maxlogit 0.1.0, revision 1a2b3c, numerics 4, v3 kernels, OpenBLAS Haswell", printed under every table and ledger.
   All runs of a table have the numerics of the program that prints it, because other numerics give other ids. */
const char *provenance_stamp(char *out, size_t room);
/* Visit the texts by name. */
void provenance_each(const struct provenance *, void (*each)(void *, const char *name, const char *value),
                     void *);
#endif
