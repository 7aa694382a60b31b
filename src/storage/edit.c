/* edit.c - the only functions that change a finished run file (storage/notes.h) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/apart.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/layout.h"
#include "storage/notes.h"

/* Take the lock that the writer of a run holds. */
static struct lock *hold(const char *path, char lock_path[4096], struct error *e)
{
  run_sibling(lock_path, path, ".lock");
  return lock_take(lock_path, e);
}

struct change {
  const char *path, *text;
  struct lock *lock;
};

/* Add a note with today's date, and save the file. Frees h. */
static int save_with_note(struct h5 *h, const struct change *c, const char *text, struct error *e)
{
  struct notes n = {0};
  char now[32];
  clock_iso8601(now);
  int status = notes_read(h, &n, e);
  notes_add(&n, now, text);
  if (!status) notes_write(h, &n);
  notes_free(&n);
  if (!status) return h5_save(h, c->path, c->lock, e);
  h5_free(h);
  return error_prefix(e, "%s", c->path);
}

/* Is it a readable run? */
static int check_run(const char *path, struct error *e)
{
  struct run_file *r = NULL;
  int status = run_open(&r, path, e);
  if (!status) run_close(r);
  return status;
}

/* Run `work` in a child process: another program may have written the file, and the HDF5 library may crash on it. */
static int change_apart(int (*work)(void *, struct error *), struct change *c, struct error *e)
{
  struct stat info;
  unsigned seconds = stat(c->path, &info) ? 0 : (unsigned)(info.st_size >> 20);
  return run_apart(work, c, c->path, seconds + 10, 0, e);
}

static int put_note(void *context, struct error *e)
{
  const struct change *c = context;
  struct h5 *h = NULL;
  int status = h5_change(&h, c->path, 0, c->lock, e);
  return status ? status : save_with_note(h, c, c->text, e);
}

int note_put(const char *path, const char *text, struct error *e)
{
  char lock_path[4096];
  if (check_run(path, e)) return e->status;
  struct lock *lock = hold(path, lock_path, e);
  if (!lock) return e->status;
  int status = change_apart(put_note, &(struct change){path, text, lock}, e);
  lock_release(lock, lock_path);
  return status;
}

/* Is this the file of a run of this id? Another user may have put another file in its place. */
static int check_id(struct h5 *h, const char *id, const char *path, struct error *e)
{
  char found[64] = "";
  h5_id root = h5_find(h, "/");
  h5_get_text(h, root, "id", found, sizeof found);
  h5_done(h, root);
  return strcmp(id, found) ? error_set(e, STATUS_FAIL, "%s was replaced by another run", path) : STATUS_OK;
}

int notes_carry(const char *from, const char *run, const char *to, struct lock *held, struct error *e)
{
  struct run_file *r = NULL;
  struct notes notes = {0};
  struct h5 *h = NULL;
  char lock_path[4096];
  int status = run_open(&r, from, e);
  if (!status) status = run_notes(r, &notes, e);
  const int is_needed = !status && (notes.count || strcmp(run, to) != 0);
  struct lock *own = is_needed && !held ? hold(to, lock_path, e) : NULL;
  if (is_needed) status = own || held ? h5_change(&h, run, 0, own, e) : e->status;
  if (h) {
    status = check_id(h, run_id(r), run, e);
    if (notes.count) notes_write(h, &notes);
    if (status)
      h5_free(h);
    else
      status = h5_save(h, to, own ? own : held, e);
  }
  if (r) run_close(r);
  lock_release(own, lock_path);
  notes_free(&notes);
  return status;
}

/* --- edited files --------------------------------------------------------------------------------------- */

struct edit_reading {
  const struct run_file *run;
  struct error *error;
};

static int read_series(void *context, const char *name)
{
  struct edit_reading *c = context;
  struct run_series s;
  int status = run_read_all(c->run, name, &s, c->error);
  if (!status) run_series_free(&s);
  return status;
}

/* Read everything that the file has and check that it has the required parts of a run. Every chunk has a checksum, so
   damage is detected, but not an edit. */
static int read_everything(const char *path, struct run_file **run, struct error *e)
{
  struct run_event *events = NULL;
  long count;
  int status = run_open_unsealed(run, path, e);
  if (!status) status = run_series_names(*run, read_series, &(struct edit_reading){*run, e});
  if (!status) status = run_events(*run, &events, &count, e);
  const int is_trained = *run && strcmp(run_data(*run), DATA_RECORDED) != 0;
  if (!status && ((is_trained && !run_parameter(*run, "train.steps")) || !*run_id(*run) || !*run_state(*run)))
    status = error_set(e, STATUS_FAIL, "%s: its parameters, id or state are gone", path);
  memory_free(events);
  return status;
}

static void add_event(struct h5 *h, long step)
{
  struct event_record event = {.step = step, .kind = "edited", .layer = -1, .head = -1, .value = NAN};
  struct h5_shape found;
  h5_id id = h5_find(h, "/events");
  if (h5_get_shape(h, id, &found)) {
    h5_extend(h, id, found.dims[0] + 1);
    h5_write(h, id, &event_shape, found.dims[0], 1, &event);
  }
  h5_done(h, id);
}

static int accept(void *context, struct error *e)
{
  const struct change *c = context;
  const char *path = c->path, *text = c->text;
  struct run_file *r = NULL;
  struct h5 *h = NULL;
  struct buffer note = {0};
  size_t size;
  int status = read_everything(path, &r, e);
  if (!status) run_rest(r);
  if (!status) status = h5_change(&h, path, 1, c->lock, e);
  if (!status) {
    const char *head = run_head(r, &size);
    h5_put_head(h, head, size);
    if (strcmp(run_state(r), "running")) add_event(h, run_last_step(r)); /* the journal counts events */
    buffer_add(&note, "edited by another program than maxlogit, and accepted as it is%s%s", text ? ": " : "",
               text ? text : "");
    status = save_with_note(h, c, note.text, e);
  }
  if (r) run_close(r);
  memory_free(note.text);
  return status;
}

int note_accept(const char *path, const char *text, struct error *e)
{
  char lock_path[4096];
  struct h5 *h = NULL;
  if (access(path, R_OK)) return h5_load(&h, path, e); /* reports the reason */
  struct error seal = {0};
  if (!h5_load(&h, path, &seal)) {
    h5_free(h);
    return error_set(e, STATUS_USAGE, "%s has its checksum: nobody has edited it", path);
  }
  struct lock *lock = hold(path, lock_path, e);
  if (!lock) return e->status;
  int status = change_apart(accept, &(struct change){path, text, lock}, e);
  lock_release(lock, lock_path);
  return status;
}
