#include "run/start.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/model.h"
#include "run/origin.h"
#include "storage/layout.h"
#include "storage/run_file.h"

/* Is this the file of a run that has ended and has this seed? */
static int is_of_seed(const char *path, long seed)
{
  struct run_file *r;
  if (run_peek(&r, path, NULL)) return 0;
  const char *own = run_parameter(r, "train.seed");
  int is_over = !strcmp(run_state(r), "finished") || !strcmp(run_state(r), "diverged");
  int found = is_over && own && strtol(own, NULL, 10) == seed;
  run_close(r);
  return found;
}

/* Find the run in a folder that has this seed. */
static int find_seed(const char *folder, long seed, struct buffer *path, struct error *e)
{
  DIR *d = opendir(folder);
  int status = STATUS_OK;
  for (struct dirent *entry; d && !status && (entry = readdir(d));) {
    struct buffer one = {0};
    buffer_add(&one, "%s/%s", folder, entry->d_name);
    if (!text_ends_with(one.text, ".h5") || !is_of_seed(one.text, seed)) {
      memory_free(one.text);
    } else if (path->text) {
      status = error_set(e, STATUS_USAGE, "train.init_from: %s and %s both have train.seed = %ld", path->text,
                         one.text, seed);
      memory_free(one.text);
    } else
      *path = one;
  }
  if (d) closedir(d);
  if (!status && !path->text)
    status = error_set(e, STATUS_USAGE, "train.init_from: %s has no run with train.seed = %ld that is over",
                       folder, seed);
  return status;
}

/* Once for each file, which several contexts, or points of a sweep, start from. */
static void warn_of_earlier(const char *path, long step, long last)
{
  static uint64_t warned;
  const uint64_t now = XXH3_64bits(path, strlen(path));
  if (now != warned)
    warning("%s: the weights are those after %ld of its %ld steps: no later checkpoint is there", path, step,
            last);
  warned = now;
}

int start_state(const char *path, struct checkpoint *c, struct error *e)
{
  struct run_file *r;
  struct error why = {0};
  char resolved[4096];
  path = file_resolve(path, resolved);
  if (run_open(&r, path, &why)) {
    struct error other = {0};
    if (!checkpoint_read(path, c, &other)) return STATUS_OK;
    /* a run file that is unreadable at the moment is not a checkpoint either: report the error of the run file */
    const struct error *reason = other.status == STATUS_USAGE && why.status != STATUS_USAGE ? &why : &other;
    return error_set(e, reason->status, "%s", reason->text);
  }
  int status = checkpoint_latest(path, c, e);
  if (!status && (status = origin_owns(path, run_id(r), c, e))) checkpoint_free(c);
  if (!status && c->step < run_last_step(r)) warn_of_earlier(path, c->step, run_last_step(r));
  run_close(r);
  return status;
}

int start_check(const struct model *m, const struct checkpoint *c, const char *path, struct error *e)
{
  for (int i = 0; i < m->params.count; i++) {
    const struct param *p = m->params.list[i];
    const struct checkpoint_tensor *have = checkpoint_find(c, "params", p->name);
    if (p->kind == PARAM_STATE || (have && have->rows == p->value.rows && have->cols == p->value.cols))
      continue;
    return error_set(e, STATUS_USAGE, "%s: %s is missing or not %ld x %ld: another model", path, p->name,
                     p->value.rows, p->value.cols);
  }
  return STATUS_OK;
}

/* A model that has no use for some of the weights is another one. */
static void warn_of_rest(const struct model *m, const struct checkpoint *c, const char *path)
{
  static const char group[] = "params/";
  const size_t length = sizeof group - 1;
  const char *first = NULL;
  int rest = 0;
  for (int i = 0; i < c->count; i++) {
    const char *name = c->tensors[i].name;
    int known = strncmp(name, group, length) != 0;
    for (int k = 0; k < m->params.count && !known; k++)
      known = !strcmp(m->params.list[k]->name, name + length);
    if (!known && !rest++) first = name + length;
  }
  if (rest)
    warning("train.init_from: %s: %d tensor%s left out, as %s: this model has none", path, rest,
            rest == 1 ? " is" : "s are", first);
}

static int load_weights(struct model *m, const char *path, const uint64_t *expected, uint64_t *content,
                        struct error *e)
{
  struct checkpoint c = {0};
  char checkpoints[4096];
  run_sibling(checkpoints, path, ".ckpt");
  file_keep_private(path); /* its weights go into files of this run */
  file_keep_private(checkpoints);
  int status = start_state(path, &c, e);
  if (!status) status = start_check(m, &c, path, e);
  for (int i = 0; !status && i < m->params.count; i++) {
    struct param *p = m->params.list[i];
    const struct checkpoint_tensor *have = checkpoint_find(&c, "params", p->name);
    if (!have || have->rows != p->value.rows || have->cols != p->value.cols) continue; /* a state */
    size_t bytes = (size_t)(have->rows * have->cols) * sizeof(real);
    params_write(&m->params, p, have->data);
    *content = *content * 31 + XXH3_64bits(have->data, bytes);
  }
  if (!status) warn_of_rest(m, &c, path);
  checkpoint_free(&c);
  if (!status && expected && *expected != *content)
    status = error_set(e, STATUS_USAGE, "%s: not the weights that this run started from", path);
  return status ? error_prefix(e, "train.init_from") : STATUS_OK;
}

int start_from(struct model *m, const char *from, long seed, const uint64_t *expected, uint64_t *content,
               struct error *e)
{
  struct buffer path = {0};
  *content = 0;
  if (!*from) return STATUS_OK;
  int is_folder = file_is_folder(from), status = is_folder ? find_seed(from, seed, &path, e) : STATUS_OK;
  if (!status) status = load_weights(m, is_folder ? path.text : from, expected, content, e);
  memory_free(path.text);
  return status;
}
