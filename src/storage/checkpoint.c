#include "storage/checkpoint.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "numerics/real.h"
#include "storage/layout.h"
#include "storage/texts.h"

/* A sealed HDF5 file (storage/h5.h): the XXH3 digest of the whole file is checked first, so that a damaged checkpoint
   is never parsed. */

static const char config_place[] = "/parameters/config";
static const enum h5_kind real_kind = sizeof(real) == sizeof(float) ? KIND_F32 : KIND_F64;

/* Where all may write, but not replace what others have (as in /tmp): a folder of somebody else than the run. */
static int is_laid(int folder, const char *run_path)
{
  struct stat above, own, run;
  if (fstat(folder, &own) || fstatat(folder, "..", &above, 0) || !(above.st_mode & S_ISVTX)) return 0;
  const uid_t owner = stat(run_path, &run) ? geteuid() : run.st_uid;
  return own.st_uid != owner && own.st_uid != above.st_uid && own.st_uid != geteuid();
}

/* The descriptor of the folder, or -1 with errno. The folder must not be a link: its name is predictable, and files in
   it are written and removed. */
static int folder_of(const char *run_path, int how, struct error *e)
{
  char path[4096];
  run_sibling(path, run_path, ".ckpt");
  int folder = folder_open(path, how | FOLDER_REAL, e);
  if (folder < 0 || !is_laid(folder, run_path)) return folder;
  close(folder);
  error_set(e, STATUS_FAIL,
            "%s is a folder of another user, who could exchange what is in it: give the run another name",
            path);
  errno = EPERM;
  return -1;
}

void checkpoint_path(char out[4096], const char *run_path, long step)
{
  char suffix[64];
  snprintf(suffix, sizeof suffix, ".ckpt/step-%08ld.h5", step);
  run_sibling(out, run_path, suffix);
}

/* --- the folder ---------------------------------------------------------------------------------------- */

/* The step in "step-00000100.h5", -1 for any other name. */
static long step_of(const char *name)
{
  long step = -1;
  int length = 0;
  if (strncmp(name, "step-", 5) || sscanf(name + 5, "%ld.h5%n", &step, &length) != 1 || !length ||
      name[5 + length])
    return -1;
  return step;
}

static int newer_first(const void *a, const void *b)
{
  long x = *(const long *)a, y = *(const long *)b;
  return (x < y) - (x > y);
}

/* List the steps of the existing checkpoints, newest first; the caller calls memory_free. STATUS_FAIL if the folder
   cannot be read. */
static int list_in(int folder, const char *run_path, long **out, size_t *count, struct error *e)
{
  long *steps = NULL;
  *count = 0;
  *out = NULL;
  int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (!d) {
    error_set(e, STATUS_FAIL, "checkpoints of %s: %s", run_path, strerror(errno));
    if (fd >= 0) close(fd);
    return e->status;
  }
  for (struct dirent *entry; (entry = readdir(d));)
    if (step_of(entry->d_name) >= 0) {
      steps = memory_grow(steps, *count, *count + 1, sizeof *steps);
      steps[(*count)++] = step_of(entry->d_name);
    }
  closedir(d);
  if (*count) qsort(steps, *count, sizeof *steps, newer_first);
  *out = steps;
  return STATUS_OK;
}

/* As list_in; without a folder the list is empty. */
static int list_steps(const char *run_path, long **out, size_t *count, struct error *e)
{
  struct error problem = {0};
  int folder = folder_of(run_path, 0, &problem);
  *count = 0;
  *out = NULL;
  if (folder < 0) return errno == ENOENT ? STATUS_OK : error_set(e, STATUS_FAIL, "%s", problem.text);
  int status = list_in(folder, run_path, out, count, e);
  close(folder);
  return status;
}

int checkpoint_is_there(const char *run_path)
{
  struct error ignored = {0};
  long *steps;
  size_t count;
  list_steps(run_path, &steps, &count, &ignored);
  memory_free(steps);
  return count > 0;
}

static int remove_from(int folder, const char *run_path, size_t keep, struct error *e)
{
  size_t count;
  long *steps;
  int status = list_in(folder, run_path, &steps, &count, e);
  for (size_t i = keep; i < count && !status; i++) {
    char path[4096];
    checkpoint_path(path, run_path, steps[i]);
    if (file_remove_in(folder, text_file_name(path)))
      status = error_set(e, STATUS_FAIL, "cannot remove %s", path);
  }
  memory_free(steps);
  return status;
}

int checkpoint_remove_all(const char *run_path, struct error *e)
{
  struct error problem = {0};
  int folder = folder_of(run_path, 0, &problem);
  if (folder < 0) return errno == ENOENT ? STATUS_OK : error_set(e, STATUS_FAIL, "%s", problem.text);
  int status = remove_from(folder, run_path, 0, e);
  close(folder);
  return status;
}

int checkpoint_remove_folder(const char *run_path, struct error *e)
{
  char path[4096];
  int status = checkpoint_remove_all(run_path, e);
  run_sibling(path, run_path, ".ckpt");
  file_remove_folder(path); /* fails if the folder has other files */
  return status;
}

int checkpoint_copy(const char *from_run, const char *run_path, long step, struct error *e)
{
  char from[4096], to[4096], *bytes = NULL;
  size_t length = 0;
  checkpoint_path(from, from_run, step);
  checkpoint_path(to, run_path, step);
  int folder = folder_of(run_path, FOLDER_MAKE, e);
  if (folder < 0) return STATUS_FAIL;
  int status = file_read_real(from, &bytes, &length, e);
  if (!status) status = file_write_in(folder, to, bytes, length, e);
  memory_free(bytes);
  close(folder);
  return status;
}

/* --- writing ------------------------------------------------------------------------------------------- */

/* Vectors (gains, biases) have one dimension in the file. */
static void put_tensor(struct h5 *h, const struct checkpoint_tensor *t)
{
  char path[192];
  struct h5_shape shape = {.kind = real_kind, .rank = 2, .dims = {t->rows, t->cols}};
  if (t->rows == 1) shape = (struct h5_shape){.kind = real_kind, .rank = 1, .dims = {t->cols}};
  snprintf(path, sizeof path, "/%s", t->name);
  h5_done(h, h5_put(h, path, &shape, t->data));
}

static void put_head(struct h5 *h, const struct checkpoint *c)
{
  h5_id root = h5_group(h, "/");
  h5_put_text(h, root, "format", CHECKPOINT_FORMAT);
  h5_put_int(h, root, "format_version", CHECKPOINT_VERSION);
  h5_put_int(h, root, "step", c->step);
  h5_put_text(h, root, "id", c->id);
  h5_put_real(h, root, "wall_seconds", c->wall);
  h5_put_real(h, root, "peak_max_logit", c->peak);
  h5_put_int(h, root, "peak_step", c->peak_step);
  h5_put_int(h, root, "peak_place", c->peak_at);
  h5_put_text(h, root, "blas_core", c->core);
  h5_done(h, root);
}

int checkpoint_write(const char *run_path, const struct checkpoint *c, long keep, struct error *e)
{
  char path[4096];
  checkpoint_path(path, run_path, c->step);
  int folder = folder_of(run_path, FOLDER_MAKE, e);
  if (folder < 0) return STATUS_FAIL;
  struct h5 *h = h5_new();
  put_head(h, c);
  text_put(h, config_place, c->config_text);
  h5_done(h, h5_group(h, "/params"));
  h5_done(h, h5_group(h, "/state"));
  for (int i = 0; i < c->count; i++) put_tensor(h, &c->tensors[i]);
  int status = h5_save_in(h, folder, path, e);
  if (!status && keep) status = remove_from(folder, run_path, (size_t)keep, e);
  close(folder);
  return status;
}

/* --- reading ------------------------------------------------------------------------------------------- */

struct reader {
  struct h5 *h;
  struct checkpoint *c;
  int failed;
  double bytes; /* of all tensors so far */
};

static int read_tensor(void *context, const char *path, h5_id id)
{
  struct reader *r = context;
  struct checkpoint *c = r->c;
  struct checkpoint_tensor t = {.name = ""};
  struct h5_shape shape;
  if (!h5_get_shape(r->h, id, &shape) || shape.kind >= KIND_TEXT || shape.rank > 2) return r->failed = 1;
  shape.kind = real_kind;
  text_fill(t.name, sizeof t.name, path + 1);
  t.rows = shape.rank == 1 ? 1 : (long)shape.dims[0];
  t.cols = (long)shape.dims[shape.rank - 1];
  /* each is bounded by its own bytes, which may be packed; together they have to fit as numbers */
  r->bytes += ((double)t.rows * (double)t.cols + 1) * (double)sizeof(real);
  if (r->bytes > (double)(64 << 20) && r->bytes > memory_there_is() / 2) return r->failed = 1;
  t.data = memory_new((size_t)t.rows * (size_t)t.cols + 1, sizeof(real));
  c->tensors = memory_grow(c->tensors, (size_t)c->count, (size_t)c->count + 1, sizeof *c->tensors);
  c->tensors[c->count++] = t;
  if (!h5_read(r->h, id, &shape, 0, shape.dims[0], t.data)) r->failed = 1;
  return r->failed;
}

static int read_head(struct reader *r, const char *path, struct error *e)
{
  char format[64] = "";
  int64_t version = 0, step = -1, peak_step = -1, peak_at = -1;
  struct checkpoint *c = r->c;
  h5_id root = h5_find(r->h, "/");
  h5_get_text(r->h, root, "format", format, sizeof format);
  h5_get_int(r->h, root, "format_version", &version);
  h5_get_text(r->h, root, "id", c->id, sizeof c->id);
  h5_get_text(r->h, root, "blas_core", c->core, sizeof c->core);
  h5_get_real(r->h, root, "wall_seconds", &c->wall);
  int lacks = !h5_get_int(r->h, root, "step", &step) || step < 0;
  c->step = (long)step;
  h5_get_real(r->h, root, "peak_max_logit", &c->peak);
  h5_get_int(r->h, root, "peak_step", &peak_step);
  h5_get_int(r->h, root, "peak_place", &peak_at);
  c->peak_step = (long)peak_step;
  c->peak_at = (long)peak_at;
  r->failed = lacks || peak_step < -1 || peak_step > step || peak_at < -1;
  h5_done(r->h, root);
  if (strcmp(format, CHECKPOINT_FORMAT)) return error_set(e, STATUS_USAGE, "%s is not a checkpoint", path);
  if (version != CHECKPOINT_VERSION && version != CHECKPOINT_WITH_ROWS)
    return error_set(e, STATUS_USAGE, "%s has format version %" PRId64 "; this maxlogit reads %d", path,
                     version, CHECKPOINT_VERSION);
  return STATUS_OK;
}

int checkpoint_read(const char *path, struct checkpoint *c, struct error *e)
{
  struct reader r = {.c = c};
  *c = (struct checkpoint){.step = -1};
  int status = h5_load(&r.h, path, e);
  if (!status) status = read_head(&r, path, e);
  if (!status) {
    c->config_text = text_get(r.h, config_place);
    h5_walk(r.h, "/params", read_tensor, &r);
    h5_walk(r.h, "/state", read_tensor, &r);
    if (r.failed || !c->config_text)
      status = error_set(e, STATUS_FAIL, "%s lacks a part of a checkpoint", path);
  }
  h5_free(r.h);
  if (status) checkpoint_free(c);
  return status;
}

/* The checkpoint of a run at the step in its name. */
static int read_at(const char *run_path, long step, struct checkpoint *c, struct error *e)
{
  char path[4096];
  checkpoint_path(path, run_path, step);
  if (checkpoint_read(path, c, e) || c->step == step) return e->status;
  error_set(e, STATUS_FAIL, "%s is the checkpoint of step %ld", path, c->step);
  checkpoint_free(c);
  return e->status;
}

int checkpoint_latest(const char *run_path, struct checkpoint *c, struct error *e)
{
  size_t count;
  int status, tried = 0;
  long *steps;
  if (list_steps(run_path, &steps, &count, e)) return e->status;
  status = STATUS_FAIL;
  struct error problem = {0};
  for (size_t i = 0; i < count && status; i++) {
    struct error this = {0};
    status = read_at(run_path, steps[i], c, &this);
    if (status && i + 1 < count) warning("%s: trying the one before", this.text);
    if (status) problem = this;
    tried = 1;
  }
  memory_free(steps);
  if (!tried) return error_set(e, STATUS_USAGE, "%s has no checkpoint", run_path);
  return status ? error_set(e, STATUS_FAIL, "%s; no checkpoint of %s is whole", problem.text, run_path)
                : STATUS_OK;
}

int checkpoint_before(const char *run_path, long step, struct checkpoint *c, struct error *e)
{
  size_t count;
  int status;
  long *steps;
  if (list_steps(run_path, &steps, &count, e)) return e->status;
  status = STATUS_USAGE;
  for (size_t i = 0; i < count && status; i++) {
    struct error this = {0};
    if (steps[i] > step) continue;
    status = read_at(run_path, steps[i], c, &this);
    if (status) warning("%s: trying the one before", this.text);
  }
  memory_free(steps);
  return status ? error_set(e, STATUS_USAGE, "%s has no checkpoint up to step %ld", run_path, step)
                : STATUS_OK;
}

const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *c, const char *group,
                                                const char *name)
{
  for (int i = 0; i < c->count; i++) {
    const char *own = c->tensors[i].name;
    size_t prefix = group ? strlen(group) : 0;
    if (group && (strncmp(own, group, prefix) || own[prefix++] != '/')) continue;
    if (!strcmp(own + prefix, name)) return &c->tensors[i];
  }
  return NULL;
}

void checkpoint_free(struct checkpoint *c)
{
  for (int i = 0; i < c->count; i++) memory_free(c->tensors[i].data);
  memory_free(c->tensors);
  memory_free(c->config_text);
  *c = (struct checkpoint){.step = -1};
}
