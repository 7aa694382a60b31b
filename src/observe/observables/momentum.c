/* momentum.c - the spectrum of each matrix's momentum, and the share of it that Newton-Schulz does not lift
   (Spectral Scaling Laws of Muon, arXiv 2606.04058, records such quantiles; the limit of 1/2 is ours) */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/number.h"
#include "observe/host_spectra.h"
#include "training/orthogonal.h"

enum { LEAST, TENTH, MEDIAN, NINTH, QUANTILES, BELOW = QUANTILES };
static const double share_of[QUANTILES] = {0, 0.1, 0.5, 0.9};

#define OF_MOMENTUM \
  " of sigma_i / sigma_1 of the momentum M after the step's gradient; heads with per_head and experts each " \
  "by " \
  "their own sigma_1, together; linear between neighbors. NaN after the last update and without a momentum"
static const struct series series[] = {
  [LEAST] = {"momentum/sigma_min", PER_TENSOR, AXIS_SPECTRA, "1", "least singular value of the momentum",
             "minimum" OF_MOMENTUM, EVENT_NONE},
  [TENTH] = {"momentum/sigma_q10", PER_TENSOR, AXIS_SPECTRA, "1",
             "10 % quantile of the momentum's singular values", "10 % quantile" OF_MOMENTUM, EVENT_NONE},
  [MEDIAN] = {"momentum/sigma_q50", PER_TENSOR, AXIS_SPECTRA, "1", "median of the momentum's singular values",
              "median" OF_MOMENTUM, EVENT_NONE},
  [NINTH] = {"momentum/sigma_q90", PER_TENSOR, AXIS_SPECTRA, "1",
             "90 % quantile of the momentum's singular values", "90 % quantile" OF_MOMENTUM, EVENT_NONE},
  [BELOW] = {"momentum/below_reach", PER_TENSOR, AXIS_SPECTRA, "1",
             "share of the momentum that Newton-Schulz does not reach",
             "share of the singular values of M, divided by its Frobenius norm, that the optimizer's own "
             "Newton-Schulz iteration leaves below 1/2, where 1 is orthogonal; NaN without such an iteration",
             EVENT_NONE},
  {0}};

struct momentum_job { /* one tensor */
  const struct param *param;
  struct ns_use use;
  long place; /* in the rows */
  long rows;  /* of each of its matrices */
};

struct momentum {
  struct host_spectra room;
  struct momentum_job *job;
  long jobs;
  double **sigma; /* [workers] of the most singular values of a tensor */
  struct observation *rows;
};

static int wanted(const struct observer *w, int i)
{
  const struct params *ps = &w->model->params;
  struct ns_use use;
  int any = 0;
  for (int k = 0; k < ps->count && w->updates; k++)
    if (param_is_matrix(ps->list[k]) && updates_momentum(w->updates, ps->list[k], &use))
      any |= i != BELOW || use.set;
  return any;
}

static void declare(struct observer *w)
{
  struct momentum *s = w->state;
  const struct params *ps = &w->model->params;
  long place = 0, most = 1;
  s->job = arena_get(w->arena, (size_t)ps->count + 1, sizeof *s->job);
  for (int i = 0; i < ps->count; i++) {
    const struct param *p = ps->list[i];
    struct momentum_job *j = &s->job[s->jobs];
    if (!param_is_matrix(p)) continue;
    *j = (struct momentum_job){.param = p, .place = place++};
    if (!updates_momentum(w->updates, p, &j->use)) continue;
    j->rows = matrix_rows(j->use.heads_split, p);
    long n = j->rows < p->value.cols ? j->rows : p->value.cols, count = p->value.rows / j->rows * n;
    if (count > most) most = count;
    s->jobs++;
  }
  host_spectra_init(&s->room, w);
  s->sigma = arena_get(w->arena, (size_t)s->room.workers, sizeof *s->sigma);
  for (int i = 0; i < s->room.workers; i++) s->sigma[i] = arena_get(w->arena, (size_t)most, sizeof(double));
}

static void release(struct observer *w) { host_spectra_free(&((struct momentum *)w->state)->room); }

/* The quantile of sorted values, linear between neighbors. */
static double quantile(const double *x, long n, double share)
{
  double at = share * (double)(n - 1);
  long i = (long)at;
  return i + 1 < n ? x[i] + (at - (double)i) * (x[i + 1] - x[i]) : x[n - 1];
}

/* A matrix of zeros, such as that of an expert without tokens, has no spectrum and is left out. */
static int one(const struct observer *w, long i, int worker, struct error *e)
{
  const struct momentum *s = w->state;
  const struct momentum_job *j = &s->job[i];
  const struct tensor *t = &j->param->value;
  const long n = j->rows < t->cols ? j->rows : t->cols;
  double *sigma = s->sigma[worker];
  long count = 0, below = 0;
  for (long row = 0; row < t->rows; row += j->rows) {
    double *own = sigma + count;
    struct spectra_job work = {.w = in_copy(w, s->rows->momenta, t) + row * t->ld,
                               .rows = j->rows,
                               .cols = t->cols,
                               .ld = t->ld,
                               .sigma = own};
    if (spectra_of(s->room.work[worker], &work, 1, e))
      return error_prefix(e, "momentum of %s", j->param->name), e->status;
    if (isnan(work.spectrum.spectral_norm)) return STATUS_OK;
    for (long k = 0; k < n && work.spectrum.spectral_norm > 0; k++, count++) {
      below += j->use.set && ns_value(j->use.set, j->use.steps,
                                      own[k] / (j->use.set->norm_scale * work.spectrum.frobenius_norm)) < 0.5;
      own[k] /= work.spectrum.spectral_norm;
    }
  }
  if (!count) return STATUS_OK;
  qsort(sigma, (size_t)count, sizeof *sigma, number_order);
  for (int k = 0; k < QUANTILES; k++)
    s->rows->row[k].value[j->place] = (float)quantile(sigma, count, share_of[k]);
  if (j->use.set) s->rows->row[BELOW].value[j->place] = (float)((double)below / (double)count);
  return STATUS_OK;
}

static int read(struct observer *w, struct observation *rows, struct error *e)
{
  struct momentum *s = w->state;
  s->rows = rows;
  return rows->momenta ? host_spectra_each(w, s->jobs, one, e) : STATUS_OK;
}

const struct observable observable_momentum = {
  .name = "momentum",
  .help = "quantiles of the spectrum of each matrix's momentum, and the share below the reach of "
          "Newton-Schulz; by name only",
  .flags = OBSERVABLE_MOMENTA,
  .series = series,
  .state_size = sizeof(struct momentum),
  .wanted = wanted,
  .declare = declare,
  .read = read,
  .free = release,
};
