#include "numerics/blas.h"
#include <cblas.h>
#include <lapacke.h>
#include "base/memory.h"

const char *device_blas_config(void) { return openblas_get_config(); }
const char *device_blas_core(void) { return openblas_get_corename(); }

/* OpenBLAS changes its bits with its thread count: it runs single-threaded inside our own threads. */
void blas_pin(void) { openblas_set_num_threads(1); }

/* Room of at least the 4 n^2 + 7 n numbers and 3 n + max(longer, 7 n) numbers that gesdd requires; blocked QR takes
   64 columns at a time. */
struct decomposition *decomposition_new(long longer, long shorter)
{
  struct decomposition *d = memory_new(1, sizeof *d);
  const size_t n = (size_t)shorter, area = (size_t)longer * n;
  d->sigma = memory_new(n, sizeof *d->sigma);
  d->left = memory_new(area, sizeof *d->left);
  d->right = memory_new(area, sizeof *d->right);
  d->work_size = 4 * shorter * shorter + 16 * shorter + 64 * longer;
  d->work = memory_new((size_t)d->work_size, sizeof *d->work);
  d->integers = memory_new(8 * n, sizeof *d->integers);
  return d;
}

void decomposition_free(struct decomposition *d)
{
  if (!d) return;
  memory_free(d->sigma);
  memory_free(d->left);
  memory_free(d->right);
  memory_free(d->work);
  memory_free(d->integers);
  memory_free(d);
}

/* w read by columns is w^T. */
int decompose(struct decomposition *d, double *w, long rows, long cols, int vectors, struct error *e)
{
  const long n = rows < cols ? rows : cols;
  int info =
    LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, vectors ? 'S' : 'N', (int)cols, (int)rows, w, (int)cols, d->sigma,
                        d->left, (int)cols, d->right, (int)n, d->work, (int)d->work_size, d->integers);
  if (info < 0) BUG("dgesdd: argument %d", -info);
  return info ? error_set(e, STATUS_FAIL, "dgesdd did not converge (info %d)", info) : STATUS_OK;
}
