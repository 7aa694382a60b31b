#include "run/start.h"

#include <xxhash.h>

#include "run/origin.h"
#include "storage/recorder.h"

int start_state(const char *path, struct checkpoint *c, struct error *e)
{
  struct run_file *r;
  if (run_open(&r, path, NULL)) return checkpoint_read(path, c, e);
  int status = checkpoint_latest(path, c, e);
  if (!status && (status = origin_owns(path, run_id(r), c, e))) checkpoint_free(c);
  run_close(r);
  return status;
}

int start_from(struct model *m, const char *path, const uint64_t *expected, uint64_t *content,
               struct error *e)
{
  struct checkpoint c = {0};
  *content = 0;
  if (!*path) return STATUS_OK;
  int status = start_state(path, &c, e);
  for (int i = 0; !status && i < m->params.count; i++) {
    struct param *p = m->params.list[i];
    const struct checkpoint_tensor *have = checkpoint_find(&c, "params", p->name);
    int fits = have && have->rows == p->value.rows && have->cols == p->value.cols;
    if (!fits && p->kind == PARAM_STATE) continue;
    if (!fits) {
      status = error_set(e, STATUS_USAGE, "%s: %s is missing or not %ld x %ld: another model", path, p->name,
                         p->value.rows, p->value.cols);
      break;
    }
    size_t bytes = (size_t)(have->rows * have->cols) * sizeof(real);
    m->device->upload(m->device, p->value.data, have->data, bytes);
    *content = *content * 31 + XXH3_64bits(have->data, bytes);
  }
  checkpoint_free(&c);
  if (!status && expected && *expected != *content)
    status = error_set(e, STATUS_USAGE, "%s: not the weights that this run started from", path);
  return status ? error_prefix(e, "train.init_from") : STATUS_OK;
}
