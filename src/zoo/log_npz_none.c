/* log_npz_none.c - in the place of log_npz.c where there is no libzip */
#include "zoo/log.h"

int log_npz(struct log *l, const char *path, struct error *e)
{
  (void)l;
  return error_set(e, STATUS_USAGE,
                   "%s: this build reads no npz: ./configure has not found libzip (package libzip-dev)",
                   path);
}
