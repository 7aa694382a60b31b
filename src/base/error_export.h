/* error_export.h - converts an error for callers of the library */
#ifndef MAXLOGIT_BASE_ERROR_EXPORT_H
#define MAXLOGIT_BASE_ERROR_EXPORT_H
#include <stdio.h>
#include "base/error.h"
#include "maxlogit/error.h"

_Static_assert((int)STATUS_FAIL == MAXLOGIT_FAIL && (int)STATUS_USAGE == MAXLOGIT_USAGE, "one status");

/* Returns the status; copies the message to `to`, which may be NULL. */
static inline int error_export(struct maxlogit_error *to, int status, const struct error *e)
{
  if (to) to->status = status;
  if (to) snprintf(to->text, sizeof to->text, "%s", status ? e->text : "");
  return status;
}
#endif
