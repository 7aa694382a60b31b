#include "observe/host_spectra.h"

#include "base/memory.h"
#include "base/thread.h"

void host_spectra_init(struct host_spectra *s, const struct observer *w)
{
  const struct params *ps = &w->model->params;
  struct pool *pool = w->model->device->pool;
  s->longer = s->shorter = 1;
  for (int i = 0; i < ps->count; i++) {
    const struct tensor *t = &ps->list[i]->value;
    if (!param_is_matrix(ps->list[i])) continue;
    long longer = t->rows > t->cols ? t->rows : t->cols, shorter = t->rows + t->cols - longer;
    if (longer > s->longer) s->longer = longer;
    if (shorter > s->shorter) s->shorter = shorter;
  }
  s->workers = pool ? pool_threads(pool) : 1;
  s->work = arena_get(w->arena, (size_t)s->workers, sizeof *s->work);
  for (int i = 0; i < s->workers; i++) s->work[i] = spectra_new(s->longer, s->shorter);
}

void host_spectra_free(struct host_spectra *s)
{
  for (int i = 0; i < s->workers; i++) spectra_free(s->work[i]);
}

struct host_spectra_job {
  const struct observer *observer;
  int (*one)(const struct observer *, long i, int worker, struct error *);
  struct error error;
  int failed;
};

static void run_one(void *context, long piece, int worker)
{
  struct host_spectra_job *each = context;
  struct error e = {0};
  if (each->one(each->observer, piece, worker, &e) &&
      !__atomic_exchange_n(&each->failed, 1, __ATOMIC_ACQ_REL))
    each->error = e;
}

int host_spectra_each(const struct observer *w, long count,
                      int (*one)(const struct observer *, long i, int worker, struct error *),
                      struct error *e)
{
  struct host_spectra_job each = {.observer = w, .one = one};
  parallel_for(w->model->device->pool, count, run_one, &each);
  return each.failed ? error_set(e, each.error.status, "%s", each.error.text) : STATUS_OK;
}

int head_factors(const struct model *m, int layer, int head, struct logit_block *q, struct logit_block *k)
{
  struct logit_block all[MAX_LOGIT_BLOCKS];
  int n = m->attention->logit_blocks(m, layer, head, all);
  q->weight = k->weight = NULL;
  for (int i = n - 1; i >= 0; i--) {
    if (all[i].role == ROLE_Q_HEAD) *q = all[i];
    if (all[i].role == ROLE_K_HEAD || all[i].role == ROLE_K_GROUP) *k = all[i];
  }
  return q->weight && k->weight;
}

const real *in_copy(const struct observer *w, const real *copy, const struct tensor *t)
{
  return copy + (REALS(t) - w->model->params.base);
}
