#include "run/extend.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/trainer.h"
#include "storage/checkpoint.h"
#include "storage/layout.h"
#include "storage/recorder.h"
#include "storage/run_file.h"

struct finished {
  char id[16];
  long steps;
  uint64_t data, start;
};

struct shorter {
  char *folder;
  int is_read;
  struct finished *run;
  size_t count;
};

struct shorter *shorter_new(const char *folder)
{
  struct shorter *s = memory_new(1, sizeof *s);
  s->folder = memory_text(folder);
  return s;
}

void shorter_free(struct shorter *s)
{
  if (!s) return;
  memory_free(s->folder);
  memory_free(s->run);
  memory_free(s);
}

static void path_of(const struct shorter *s, const char *id, char out[4096])
{
  snprintf(out, 4096, "%s/%s.h5", s->folder, id);
}

static void add_run(struct shorter *s, const char *name)
{
  struct run_file *r = NULL;
  char id[16], path[4096];
  struct error ignored = {0};
  if (run_stem(name) != 12) return;
  snprintf(id, sizeof id, "%.12s", name);
  path_of(s, id, path);
  if (run_peek(&r, path, &ignored)) return;
  const char *steps = run_parameter(r, "train.steps");
  struct finished f = {.steps = steps ? strtol(steps, NULL, 10) : 0};
  run_contents(r, &f.data, &f.start);
  if (!strcmp(run_state(r), "finished") && !strcmp(run_id(r), id)) {
    memcpy(f.id, id, sizeof f.id);
    s->run = memory_grow(s->run, s->count, s->count + 1, sizeof *s->run);
    s->run[s->count++] = f;
  }
  run_close(r);
}

static int longest_first(const void *a, const void *b)
{
  const struct finished *x = a, *y = b;
  return x->steps != y->steps ? (x->steps < y->steps) - (x->steps > y->steps) : strcmp(x->id, y->id);
}

static void read_folder(struct shorter *s)
{
  DIR *d = s->is_read ? NULL : opendir(s->folder);
  for (struct dirent *entry; d && (entry = readdir(d));) add_run(s, entry->d_name);
  if (d) closedir(d);
  if (!s->is_read && s->count) qsort(s->run, s->count, sizeof *s->run, longest_first);
  s->is_read = 1;
}

void shorter_find(struct shorter *s, const struct config *c, const char *id, char from[4096], char why[128])
{
  struct train_options *t = config_section(c, "train");
  const struct finished *found = NULL;
  long steps = t->steps;
  char other[16], last[4096];
  *from = *why = 0;
  read_folder(s);
  for (size_t i = 0; i < s->count && !found; i++) {
    if (s->run[i].steps >= steps) continue;
    t->steps = s->run[i].steps;
    config_id(c, s->run[i].data, s->run[i].start, other);
    t->steps = steps;
    if (strcmp(other, s->run[i].id)) continue;
    config_id(c, s->run[i].data, s->run[i].start, other); /* of these texts and weights, too */
    if (!strcmp(other, id)) found = &s->run[i];
  }
  if (!found) return;
  path_of(s, found->id, from);
  checkpoint_path(last, from, found->steps);
  if (strcmp(t->schedule, "constant"))
    snprintf(why, 128, "the %.40s schedule depends on train.steps from the start", t->schedule);
  else if (access(last, R_OK))
    snprintf(why, 128, "%s has lost its last checkpoint", found->id);
  if (*why) *from = 0;
}

int extend_run(const char *from, const char *path, const struct config *c, struct error *e)
{
  struct run_file *r = NULL;
  struct trainer *t = NULL;
  struct buffer change[3] = {{0}};
  long step;
  const char *changes[3], *arm = ((const struct top_options *)config_section(c, ""))->arm;
  int status = run_peek(&r, from, e), count = 2 + (*arm != 0);
  if (status) return status;
  step = run_last_step(r);
  run_close(r);
  file_keep_private(from);
  status = checkpoint_remove_all(path, e);
  if (!status) status = checkpoint_copy(from, path, step, e);
  if (!status) status = recorder_copy(from, path, e);
  buffer_add(&change[0], "train.steps=%ld",
             ((const struct train_options *)config_section(c, "train"))->steps);
  buffer_add(&change[1], "record.path=\"%s\"", path);
  buffer_add(&change[2], "arm=%s", arm);
  for (int i = 0; i < 3; i++) changes[i] = change[i].text;
  if (!status) status = trainer_resume(&t, path, changes, count, e);
  if (!status) status = trainer_done(t, e);
  for (int i = 0; i < 3; i++) memory_free(change[i].text);
  return status ? error_prefix(e, "cannot go on from %s", from) : STATUS_OK;
}
