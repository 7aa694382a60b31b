/* recorder_files.c - the files of a recorder: the run file, its journal and its lock */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/markup.h"
#include "storage/checkpoint.h"
#include "storage/recorder_state.h"

/* --- facts --------------------------------------------------------------------------------------------- */

static int copy_parameter(void *context, const struct config_entry *entry)
{
  struct recorder *r = context;
  if (!entry->used) return 0;
  r->parameter =
    memory_grow(r->parameter, (size_t)r->parameters, (size_t)r->parameters + 1, sizeof *r->parameter);
  const struct option_row *row = entry->row;
  const char *field = (const char *)entry->base + row->offset;
  struct parameter *p = &r->parameter[r->parameters++];
  *p = (struct parameter){arena_text(r->arena, entry->key),
                          arena_text(r->arena, entry->value),
                          row->unit ? row->unit : "1",
                          row->help ? row->help : "",
                          arena_text(r->arena, entry->origin ? entry->origin : "default"),
                          row->type,
                          0,
                          0,
                          entry->is_default};
  if (row->type == OPTION_REAL) memcpy(&p->number, field, sizeof p->number);
  if (row->type == OPTION_INT || row->type == OPTION_BOOL) p->integer = *(const long *)(const void *)field;
  return 0;
}

static struct parameter *parameter_of(struct recorder *r, const char *name)
{
  for (int i = 0; i < r->parameters; i++)
    if (!strcmp(r->parameter[i].name, name)) return &r->parameter[i];
  r->parameter =
    memory_grow(r->parameter, (size_t)r->parameters, (size_t)r->parameters + 1, sizeof *r->parameter);
  return &r->parameter[r->parameters++];
}

void recorder_parameter(struct recorder *r, const char *name, const char *value, const char *help,
                        const char *origin)
{
  char *end;
  struct parameter *p = parameter_of(r, name);
  *p = (struct parameter){.name = recorder_own(r, name),
                          .value = recorder_own(r, value),
                          .unit = "1",
                          .help = recorder_own(r, help),
                          .origin = recorder_own(r, origin),
                          .type = OPTION_TEXT};
  errno = 0;
  p->integer = strtol(value, &end, 10);
  if (end != value && !*end && !errno) {
    p->type = OPTION_INT;
    return;
  }
  p->number = strtod(value, &end);
  if (end != value && !*end && isfinite(p->number)) p->type = OPTION_REAL;
}

/* --- life ---------------------------------------------------------------------------------------------- */

static void close_files(struct recorder *r)
{
  journal_close(r->journal);
  lock_release(r->lock, r->lock_path);
  notes_free(&r->notes);
}

int recorder_begin(struct recorder **out, const char *path, const struct config *config,
                   const struct run_facts *facts, struct error *e)
{
  if (strlen(path) > 4000) return error_set(e, STATUS_USAGE, "%.60s...: path too long", path);
  if (file_make_folders(path, e)) return e->status;
  struct recorder *r = memory_new(1, sizeof *r);
  snprintf(r->path, sizeof r->path, "%s", path);
  r->close = close_files;
  run_sibling(r->lock_path, path, ".lock");
  run_sibling(r->journal_path, path, ".journal");
  r->arena = arena_new();
  r->lock = lock_take(r->lock_path, e);
  if (!r->lock) {
    recorder_free(r);
    return e->status;
  }
  lock_guard(r->lock, path);
  if (config) lock_keep_private(r->lock); /* a library keeps the umask of its process */
  recorder_facts(r, facts);
  if (config) config_each(config, copy_parameter, r);
  char *text = config ? config_text(config) : NULL;
  r->config_text = recorder_own(r, text);
  memory_free(text);
  provenance_get(&r->code);
  clock_iso8601(r->started);
  *out = r;
  return STATUS_OK;
}

/* Also a damaged one, so the seal is not asked for. */
static int is_run_file(const char *path)
{
  char *text = NULL;
  size_t length;
  struct error ignored = {0};
  if (!h5_is_file(path)) return 0;
  const int found =
    !file_read(path, &text, &length, &ignored) && memmem(text, length, RUN_FORMAT, strlen(RUN_FORMAT));
  memory_free(text);
  return found;
}

/* May a run be written under this name? Only run files are replaced, never for example a configuration or a device. */
static int check_name(const char *path, int overwrite, struct error *e)
{
  struct stat info;
  if (stat(path, &info)) return STATUS_OK;
  if (!(S_ISREG(info.st_mode) && !info.st_size) && !is_run_file(path))
    return error_set(e, STATUS_USAGE, "record.path: %s exists, and is not a run file", path);
  if (overwrite) return STATUS_OK;
  if (!info.st_size)
    return error_set(e, STATUS_USAGE, "%s exists, and is empty: record.overwrite=1 replaces it", path);
  char *word = shell_word(path);
  error_set(e, STATUS_USAGE, "%s exists: `maxlogit resume %s` continues it, record.overwrite=1 replaces it",
            path, word);
  memory_free(word);
  return STATUS_USAGE;
}

int recorder_refuse_rest(const char *path, const char *how, struct error *e)
{
  char journal[4096], folder[4096];
  struct stat info;
  if (!access(path, F_OK)) return STATUS_OK;
  run_sibling(journal, path, ".journal");
  run_sibling(folder, path, ".ckpt");
  const int has_checkpoints = checkpoint_is_there(path);
  if (!has_checkpoints && (stat(journal, &info) || !info.st_size)) return STATUS_OK;
  return error_set(e, STATUS_USAGE,
                   "%s is of a run that was at %s and is not there: rename it as well, or remove it (%s)",
                   has_checkpoints ? folder : journal, path, how);
}

int recorder_claim(struct recorder **out, const char *path, int overwrite, const struct config *config,
                   const struct run_facts *facts, struct error *e)
{
  struct recorder *r = NULL;
  int status = recorder_begin(&r, path, config, facts, e);
  if (status) return status;
  status = check_name(path, overwrite, e);
  rows_start(&r->rows);
  if (status)
    recorder_free(r);
  else
    *out = r;
  return status;
}

int recorder_clear(struct recorder *r, struct error *e)
{
  const int status = journal_remove(r->journal_path, e);
  return status ? status : checkpoint_remove_all(r->path, e);
}

int recorder_create(struct recorder **out, const char *path, int overwrite, const struct config *config,
                    const struct run_facts *facts, struct error *e)
{
  struct recorder *r;
  int status = recorder_claim(&r, path, overwrite, config, facts, e);
  if (status) return status;
  status = recorder_clear(r, e);
  if (!status && config) status = recorder_open_journal(r, e);
  if (status)
    recorder_free(r);
  else
    *out = r;
  return status;
}

int recorder_open_journal(struct recorder *r, struct error *e)
{
  r->journal = journal_open(r->journal_path, r->lock, e);
  return r->journal ? STATUS_OK : e->status;
}

int recorder_holds(const struct recorder *r, struct error *e)
{
  return r->lock ? lock_was_taken(r->lock, e) : STATUS_OK;
}

/* --- rows on disk -------------------------------------------------------------------------------------- */

/* Seconds between writes: rows are free if a step takes less. */
static const double between_appends = 0.1;

static int append(struct recorder *r, struct error *e)
{
  if (r->problem.status) return error_set(e, r->problem.status, "%s", r->problem.text);
  if (!r->journal) return STATUS_OK;
  if (recorder_holds(r, e)) return e->status;
  return journal_append(r->journal, &r->rows, &r->notes, e);
}

int recorder_append(struct recorder *r, int now, struct error *e)
{
  if (!r->journal && !r->problem.status) return STATUS_OK;
  double seconds = clock_seconds();
  if (!now && seconds - r->appended_at < between_appends) return STATUS_OK;
  r->appended_at = seconds;
  return append(r, e);
}

/* Below this size a snapshot costs less than the sync of the checkpoint. */
enum { ALWAYS_BYTES = 1 << 20 };

/* A snapshot is due when the run file lacks an eighth of the rows. All snapshots together then write about eight times
   the record, and a reader of only the run file is not far behind. */
static int is_snapshot_due(const struct recorder *r)
{
  size_t unsaved = rows_bytes(&r->rows, 1), all = rows_bytes(&r->rows, 0);
  return unsaved > 0 && (all < ALWAYS_BYTES || unsaved >= all / 8);
}

int recorder_keep(struct recorder *r, long last_step, double wall, int ends, struct error *e)
{
  if (!recorder_keeps(r)) return STATUS_OK;
  int is_behind = r->journal && journal_is_behind(r->journal, &r->rows);
  if (!is_behind && !rows_bytes(&r->rows, 1)) return STATUS_OK;
  if (!r->journal || is_behind || (!ends && is_snapshot_due(r)))
    return recorder_snapshot(r, "running", last_step, wall, 0, e);
  int status = append(r, e);
  return status ? status : journal_sync(r->journal, e);
}
