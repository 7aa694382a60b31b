#include "analysis/share.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"

int share_folder(const char *name, const char *what, const char *variable, char out[4096],
                 struct error *error)
{
  char beside[128];
  const char *asked =
    getenv(variable); /* no option: a pattern such as * could become one that names programs */
  if (asked && *asked) {
    snprintf(out, 4096, "%s", asked);
    return file_is_folder(out) ? STATUS_OK : error_set(error, STATUS_USAGE, "%s: no such folder", out);
  }
  snprintf(beside, sizeof beside, "../share/maxlogit/%s", name);
  if (file_beside_program(out, beside + 3) || file_beside_program(out, beside)) return STATUS_OK;
  snprintf(out, 4096, "%s/%s", PKGDATADIR, name);
  if (file_is_folder(out)) return STATUS_OK;
  return error_set(error, STATUS_FAIL, "%s not found (%s); %s may name their folder", what, out, variable);
}

static int path_of(const char *name, char path[4200], struct error *error)
{
  char folder[4096];
  if (share_folder("page", "files of the page", "MAXLOGIT_PAGE", folder, error)) return error->status;
  snprintf(path, 4200, "%s/%s", folder, name);
  return STATUS_OK;
}

int share_text(const char *name, char **text, size_t *length, struct error *error)
{
  char path[4200];
  return path_of(name, path, error) ? error->status : file_read(path, text, length, error);
}

int share_has(const char *name)
{
  char path[4200];
  struct error none = {0};
  return !path_of(name, path, &none) && !access(path, R_OK);
}
