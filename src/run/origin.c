#include "run/origin.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "observe/options.h"
#include "run/trainer.h"
#include "storage/run_file.h"
#include "training/data.h"

struct setting {
  struct config *config;
  struct error *error;
};

static int set_parameter(void *context, const char *key, const char *value, const char *origin)
{
  struct setting *s = context;
  return config_set(s->config, key, value, origin, s->error);
}

/* Read the configuration from a run file, with the original source of each value. */
static int config_of_run(const struct run_file *r, struct config *c, struct error *e)
{
  const char *preset = run_parameter(r, "preset");
  if (preset && *preset && config_set(c, "preset", preset, "run file", e)) return e->status;
  if (run_settings(r, set_parameter, &(struct setting){c, e}))
    return e->status ? e->status : error_set(e, STATUS_FAIL, "its parameters do not fit this version");
  return config_finish(c, e);
}

int origin_read(const char *path, struct config **c, struct origin *o, struct error *e)
{
  struct run_file *r = NULL;
  *c = NULL;
  if (run_open_own(&r, path, e)) return e->status;
  *c = config_new();
  *o = (struct origin){0};
  run_contents(r, &o->data_content, &o->start_content);
  o->is_over = !strcmp(run_state(r), "diverged");
  o->has_ended = strcmp(run_state(r), "running") != 0;
  o->last_step = run_last_step(r);
  snprintf(o->id, sizeof o->id, "%s", run_id(r));
  run_check_additions(r, &o->additions);
  int status = run_check_head(r, e);
  if (!status && (status = config_of_run(r, *c, e))) error_prefix(e, "%s", path);
  if (status) {
    config_free(*c);
    *c = NULL;
  }
  run_close(r);
  return *c ? STATUS_OK : e->status;
}

int trainer_config_of(const char *path, struct config **c, char id[16], struct error *e)
{
  struct origin o;
  int status = origin_read(path, c, &o, e);
  if (id && !status) snprintf(id, sizeof o.id, "%s", o.id);
  return status;
}

int origin_check(const char *path, const struct config *c, const struct origin *o, struct error *e)
{
  char now[16];
  config_id(c, o->data_content, o->start_content, now);
  if (!strcmp(now, o->id)) return STATUS_OK;
  return error_set(e, STATUS_FAIL, "%s: this version computes other numbers than this run's (id %s, now %s)",
                   path, o->id, now);
}

/* Is this a checkpoint from before train.steps was raised? Such a checkpoint has the id of the shorter run; with the
   present train.steps its configuration has the present id. */
static int is_earlier(const struct checkpoint *state, const struct config *c, const struct origin *o)
{
  char id[16] = "", then_id[16], text[32];
  struct error unread = {0};
  struct config *then = config_new();
  snprintf(text, sizeof text, "%ld", ((const struct train_options *)config_section(c, "train"))->steps);
  if (!config_read(then, state->config_text, "checkpoint", &unread) && !config_finish(then, &unread)) {
    config_id(then, o->data_content, o->start_content, then_id); /* differs: of other data or weights */
    if (!strcmp(then_id, state->id) && !config_set(then, "train.steps", text, "run file", &unread) &&
        !config_finish(then, &unread))
      config_id(then, o->data_content, o->start_content, id);
  }
  config_free(then);
  return !strcmp(id, o->id);
}

int origin_owns(const char *path, const char *id, const struct checkpoint *state, struct error *e)
{
  struct origin o;
  struct config *c;
  struct error unread = {0};
  if (!state->count || !strcmp(state->id, id) || origin_read(path, &c, &o, &unread)) return STATUS_OK;
  int owns = origin_check(path, c, &o, &unread) || is_earlier(state, c, &o); /* accept if undecided */
  config_free(c);
  if (owns) return STATUS_OK;
  return error_set(e, STATUS_USAGE, "%s: its checkpoint of step %ld is of another run (id %s, not %s)", path,
                   state->step, state->id, id);
}

/* Of a file, or of files joined by +. */
static mode_t closed_of(const char *files, gid_t group)
{
  mode_t closed = file_closed(files, group, 0);
  char *text = memory_text(files), *rest = text;
  for (char *one; (one = strsep(&rest, "+"));)
    if (*one) closed |= file_closed(one, group, 0);
  memory_free(text);
  return closed;
}

static const char *copied_text(const struct config *c)
{
  const struct record_options *record = config_section(c, "record");
  const struct data_options *data = config_section(c, "data");
  return record->batches ? data->path : "";
}

void origin_keep_private(const struct config *c, int starts)
{
  const struct train_options *train = config_section(c, "train");
  const gid_t group = file_group(((const struct record_options *)config_section(c, "record"))->path);
  file_close_to(closed_of(copied_text(c), group) | (starts ? closed_of(train->init_from, group) : 0));
}

int origin_refuse_copy(const struct config *c, const char *file, struct error *e)
{
  const char *text = copied_text(c);
  const gid_t group = file_group(file);
  if (!(closed_of(text, group) & ~file_closed(file, group, 1))) return STATUS_OK;
  return error_set(
    e, STATUS_USAGE,
    "data.path = %s is closed to users who could read its copy in %s: close that as well (chmod), or give "
    "record.batches=0",
    text, file);
}
