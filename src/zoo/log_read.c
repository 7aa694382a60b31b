/* log_read.c - which form a log has, and its reader */
#include <errno.h>
#include <string.h>
#include "base/file.h"
#include "base/text.h"
#include "zoo/log.h"

const char *const log_forms[] = {"guess", "csv", "jsonl", "npz", "tensorboard", "printed", NULL};

static enum log_form form_of(const char *path, FILE *f)
{
  char begin[4096] = "";
  const char *name = text_file_name(path);
  if (strstr(name, "tfevents")) return LOG_TENSORBOARD;
  if (text_ends_with(name, ".npz")) return LOG_NPZ;
  if (text_ends_with(name, ".csv") || text_ends_with(name, ".tsv")) return LOG_CSV;
  if (text_ends_with(name, ".jsonl") || text_ends_with(name, ".ndjson")) return LOG_JSONL;
  size_t n = fread(begin, 1, sizeof begin - 1, f);
  rewind(f);
  if (n > 3 && !memcmp(begin, "PK\3\4", 4)) return LOG_NPZ;
  if (strstr(begin, "{'") || strstr(begin, " | ") || text_ends_with(name, ".log") ||
      text_ends_with(name, ".txt") || text_ends_with(name, ".out"))
    return LOG_PRINTED;
  return *begin == '{' || *begin == '[' ? LOG_JSONL : LOG_CSV;
}

int log_read(struct log *l, const char *path, enum log_form form, struct error *e)
{
  int fd = file_open(path, e);
  if (fd < 0) return STATUS_USAGE;
  FILE *f = fdopen(fd, "r");
  *l->step_found = 0; /* another file may call them otherwise */
  if (form == LOG_GUESS) form = form_of(path, f);
  int status = form == LOG_NPZ           ? log_npz(l, path, e)
               : form == LOG_TENSORBOARD ? log_tensorboard(l, path, e)
               : form == LOG_JSONL       ? log_jsonl(l, f, path, e)
               : form == LOG_PRINTED     ? log_printed(l, f, path, e)
                                         : log_csv(l, f, path, e);
  if (!status && ferror(f)) status = error_set(e, STATUS_USAGE, "%s: cannot be read", path);
  fclose(f);
  return status;
}
