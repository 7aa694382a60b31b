/* restore.c - continues a recorder: reads the rows of its run file and journal */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "storage/recorder_state.h"

/* Read the rows of a run file; *is_running: the journal may have more. The run keeps its first start date. */
static int read_file(struct recorder *r, int *is_running, struct error *e)
{
  struct h5 *h = NULL;
  char state[16] = "";
  int status = h5_load_held(&h, r->path, r->lock, e);
  if (status) return status;
  h5_id root = h5_find(h, "/"), end = h5_find(h, "/status");
  h5_get_text(h, root, "date", r->started, sizeof r->started);
  h5_get_text(h, end, "state", state, sizeof state);
  h5_done(h, root);
  h5_done(h, end);
  *is_running = !strcmp(state, "running");
  status = notes_read(h, &r->notes, e);
  if (!status) status = tables_read(h, &r->rows, e);
  h5_free(h);
  if (status) return error_prefix(e, "%s", r->path);
  rows_start(&r->rows);
  rows_saved(&r->rows);
  return STATUS_OK;
}

/* Complete, because every step of a run is timed. */
static int has_steps(const struct recorder *r, long step) { return r->rows.table[TABLE_TIMING].rows >= step; }

int recorder_resume(struct recorder **out, const char *path, const struct config *config,
                    const struct run_facts *facts, long step, struct error *e)
{
  struct recorder *r = NULL;
  int is_running, status = recorder_begin(&r, path, config, facts, e);
  if (status) return status;
  status = read_file(r, &is_running, e);
  if (!status && config) lock_keep_private(r->lock);
  if (!status && is_running) {
    status = journal_replay(r->journal_path, r->started, &r->rows, &r->notes, e);
    if (status == STATUS_FAIL && step < LONG_MAX && has_steps(r, step))
      *e = (struct error){0}, status = STATUS_OK; /* the damaged rows of the journal are computed again */
  }
  if (!status && step < LONG_MAX) {
    rows_go_back(&r->rows, step);
    if (!has_steps(r, step))
      status =
        error_set(e, STATUS_FAIL,
                  "%s: rows of %" PRId64 " of the %ld steps of its checkpoint are in the file and %s; an "
                  "earlier version has recorded it, or a file is an older copy: `maxlogit rerun` "
                  "computes the run again",
                  path, r->rows.table[TABLE_TIMING].rows, step, r->journal_path);
  }
  if (!status && config) status = recorder_open_journal(r, e);
  if (status)
    recorder_free(r);
  else
    *out = r;
  return status;
}

int recorder_copy(const char *from, const char *to, struct error *e)
{
  char journal[4096];
  run_sibling(journal, to, ".journal");
  const int status = journal_remove(journal, e);
  return status ? status : file_copy(from, to, e);
}
