#include "zoo/spectra.h"

#include <ctype.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

/* Matrices up to this size are computed in parallel; larger ones one at a time, with all threads. */
enum { SMALL_SIDE = 1024, TOGETHER = 64 };

struct head_job { /* one matrix */
  const struct weight *weight;
  long row, rows, place; /* index of its matrix_spectrum */
  struct spectrum result;
};

struct head_batch {
  struct head_job *job;
  struct error error[TOGETHER];
};

struct jobs {
  struct head_job *job;
  long count, room;
  json_t *lines; /* from a name to its place */
};

/* --- list of matrices ---------------------------------------------------------------------------------- */

/* "l.experts.17.up.weight" becomes "l.experts.*.up"; *expert: the name has an expert's number. */
static char *line_name(const char *name, int *expert)
{
  char label[256];
  struct buffer b = {0};
  const char *at = strstr(name, "experts."), *rest = name;
  *expert = at && isdigit((unsigned char)at[8]);
  if (*expert) {
    buffer_add(&b, "%.*s*", (int)(at + 8 - name), name);
    for (rest = at + 8; isdigit((unsigned char)*rest); rest++) {}
  }
  buffer_add(&b, "%.*s", (int)(strlen(rest) - (text_ends_with(rest, ".weight") ? 7 : 0)), rest);
  char *copy = memory_text(safetensors_label(b.text, label));
  memory_free(b.text);
  return copy;
}

static long line_of(struct checkpoint_spectra *s, struct jobs *jobs, const struct weight *w, long rows)
{
  int expert;
  char *name = line_name(w->tensor.name, &expert), key[320];
  snprintf(key, sizeof key, "%s %ldx%ld", name, rows, (long)w->cols);
  const json_t *known = expert ? json_object_get(jobs->lines, key) : NULL;
  if (known) {
    memory_free(name);
    return (long)json_integer_value(known);
  }
  s->matrix = memory_grow(s->matrix, (size_t)s->matrices, (size_t)s->matrices + 1, sizeof *s->matrix);
  s->matrix[s->matrices] = (struct matrix_spectrum){.name = name, .rows = rows, .cols = (long)w->cols};
  if (expert) json_object_set_new(jobs->lines, key, json_integer(s->matrices));
  return s->matrices++;
}

static void add_job(struct jobs *jobs, const struct weight *w, long row, long rows, long place)
{
  if (jobs->count == jobs->room) {
    long room = jobs->room ? 2 * jobs->room : 256;
    jobs->job = memory_grow(jobs->job, (size_t)jobs->room, (size_t)room, sizeof *jobs->job);
    jobs->room = room;
  }
  jobs->job[jobs->count++] = (struct head_job){.weight = w, .row = row, .rows = rows, .place = place};
}

static int list_matrices(struct checkpoint_spectra *s, struct jobs *jobs, const struct weights *weights,
                         struct error *e)
{
  enum { MOST_SIDE = 1 << 30 };
  for (size_t i = 0; i < weights_count(weights); i++) {
    const struct weight *w = weights_at(weights, i);
    int stacked = w->tensor.rank == 3 && strstr(w->tensor.name, "experts");
    if ((w->tensor.rank != 2 && !stacked) || text_ends_with(w->tensor.name, "_scale_inv")) continue;
    if (w->tensor.dtype == DTYPE_OTHER) {
      s->left_out++;
      continue;
    }
    long rows = stacked ? (long)w->tensor.dims[1] : (long)w->rows;
    if (rows < 2 || w->cols < 2 || w->rows > MOST_SIDE || w->cols > MOST_SIDE) continue;
    int status = weight_check(weights, w, e);
    if (status) return status;
    long place = line_of(s, jobs, w, rows);
    for (long row = 0; row < (long)w->rows; row += rows) add_job(jobs, w, row, rows, place);
  }
  return STATUS_OK;
}

/* --- matrices ------------------------------------------------------------------------------------------ */

static int is_small(const struct head_job *j)
{
  return j->rows <= SMALL_SIDE || j->weight->cols <= SMALL_SIDE;
}

static void work_matrix(void *context, long piece, int worker)
{
  struct head_batch *b = context;
  struct head_job *j = &b->job[piece];
  (void)worker;
  matrix_spectrum(j->weight, j->row, j->rows, MATRIX_CHOSEN, NULL, &j->result, &b->error[piece]);
}

struct ticking {
  void (*tick)(void *, double);
  void *context;
  double from, to;
};

static void report_progress(const struct ticking *t, double done)
{
  if (t->tick) t->tick(t->context, t->from + (t->to - t->from) * done);
}

static int work_matrices(struct jobs *jobs, struct pool *pool, const struct ticking *t, struct error *e)
{
  double area = 0, done = 0;
  struct head_batch *b = memory_new(1, sizeof *b);
  int status = STATUS_OK;
  for (long i = 0; i < jobs->count; i++)
    area += (double)jobs->job[i].rows * (double)jobs->job[i].weight->cols;
  for (long i = 0, n = 1; i < jobs->count && !status; i += n) {
    struct head_job *first = b->job = &jobs->job[i];
    n = 1;
    if (is_small(first)) {
      while (n < TOGETHER && i + n < jobs->count && is_small(first + n)) n++;
      parallel_for(pool, n, work_matrix, b);
    } else
      matrix_spectrum(first->weight, first->row, first->rows, MATRIX_CHOSEN, pool, &first->result,
                      &b->error[0]);
    for (long k = 0; k < n && !status; k++) {
      if (b->error[k].status)
        status = error_set(e, b->error[k].status, "%s: %s", first[k].weight->tensor.name, b->error[k].text);
      done += (double)first[k].rows * (double)first[k].weight->cols;
    }
    report_progress(t, done / area);
  }
  memory_free(b);
  return status;
}

enum { FIELDS = sizeof(struct spectrum) / sizeof(double) };

static void put_quantiles(struct matrix_spectrum *m, const struct head_job *const *job, double *x)
{
  for (int f = 0; f < FIELDS; f++) {
    int broken = 0;
    for (long i = 0; i < m->count; i++) {
      x[i] = ((const double *)&job[i]->result)[f];
      broken |= isnan(x[i]);
    }
    if (!broken) gsl_sort(x, 1, (size_t)m->count);
    for (int q = 0; q < QUANTILES; q++)
      ((double *)&m->quantile[q])[f] =
        broken ? NAN
               : gsl_stats_quantile_from_sorted_data(x, 1, (size_t)m->count, (double)q / (QUANTILES - 1));
  }
}

static void sum_up(struct checkpoint_spectra *s, const struct jobs *jobs)
{
  long *start = memory_new((size_t)s->matrices + 2, sizeof *start), most = 1;
  const struct head_job **of = memory_new((size_t)jobs->count + 1, sizeof *of);
  for (long i = 0; i < jobs->count; i++) s->matrix[jobs->job[i].place].count++;
  for (long i = 0; i < s->matrices; i++) {
    start[i + 1] = start[i] + s->matrix[i].count;
    most = s->matrix[i].count > most ? s->matrix[i].count : most;
    s->matrix[i].count = 0;
  }
  for (long i = 0; i < jobs->count; i++) {
    struct matrix_spectrum *m = &s->matrix[jobs->job[i].place];
    of[start[jobs->job[i].place] + m->count++] = &jobs->job[i];
  }
  double *x = memory_new((size_t)most, sizeof *x);
  for (long i = 0; i < s->matrices; i++) put_quantiles(&s->matrix[i], of + start[i], x);
  memory_free(x);
  memory_free(start);
  memory_free(of);
}

/* --- heads --------------------------------------------------------------------------------------------- */

struct layer_job {
  const struct architecture *architecture;
  long layer;
  struct head_work **work; /* by worker */
  struct head_spectrum *out;
  struct error *error; /* by head */
};

static void work_head(void *context, long head, int worker)
{
  struct layer_job *l = context;
  struct head_logits logits;
  if (l->architecture->head(l->architecture, l->layer, head, &logits, &l->error[head])) return;
  head_spectrum(l->work[worker], &logits, &l->out[head], &l->error[head]);
}

/* The maximal sizes over all heads. */
static int largest_head(const struct architecture *s, long *rows, long *inputs, struct error *e)
{
  struct head_logits logits;
  for (long l = 0; l < s->layers; l++) {
    int status = s->head(s, l, 0, &logits, e);
    if (status) return status;
    for (int p = 0; p < logits.parts; p++) {
      const struct logit_part *part = &logits.part[p];
      *rows = part->q.rows > *rows ? part->q.rows : *rows;
      *inputs = part->q.inputs > *inputs ? part->q.inputs : *inputs;
      *inputs = part->k.inputs > *inputs ? part->k.inputs : *inputs;
    }
  }
  return STATUS_OK;
}

static int work_heads(struct checkpoint_spectra *s, const struct architecture *architecture,
                      struct pool *pool, const struct ticking *t, struct error *e)
{
  long rows = 1, inputs = 1;
  int threads = pool_threads(pool), status = largest_head(architecture, &rows, &inputs, e);
  if (status) return status;
  s->layers = architecture->layers;
  s->heads = architecture->heads;
  s->head = memory_new((size_t)s->layers * (size_t)s->heads, sizeof *s->head);
  struct layer_job job = {.architecture = architecture};
  job.work = memory_new((size_t)threads, sizeof(*job.work));
  job.error = memory_new((size_t)s->heads, sizeof *job.error);
  for (int w = 0; w < threads; w++) job.work[w] = head_work_new(rows, inputs);
  for (long l = 0; l < s->layers && !status; l++) {
    job.layer = l;
    job.out = s->head + l * s->heads;
    parallel_for(pool, s->heads, work_head, &job);
    for (long h = 0; h < s->heads && !status; h++)
      if (job.error[h].status)
        status = error_set(e, job.error[h].status, "layer %ld, head %ld: %s", l, h, job.error[h].text);
    report_progress(t, (double)(l + 1) / (double)s->layers);
  }
  for (int w = 0; w < threads; w++) head_work_free(job.work[w]);
  memory_free(job.work);
  memory_free(job.error);
  return status;
}

int checkpoint_spectra(struct checkpoint_spectra *s, const struct weights *weights,
                       const struct architecture *architecture, struct pool *pool, unsigned what,
                       void (*tick)(void *, double), void *context, struct error *e)
{
  struct jobs jobs = {.lines = json_object()};
  int heads = architecture && (what & SPECTRA_HEADS), matrices = (what & SPECTRA_MATRICES) != 0,
      status = STATUS_OK;
  struct ticking first = {tick, context, 0, matrices ? 0.5 : 1}, second = {tick, context, heads ? 0.5 : 0, 1};
  *s = (struct checkpoint_spectra){0};
  if (heads) status = work_heads(s, architecture, pool, &first, e);
  if (!status && matrices) status = list_matrices(s, &jobs, weights, e);
  if (!status && matrices) status = work_matrices(&jobs, pool, &second, e);
  if (!status) sum_up(s, &jobs);
  memory_free(jobs.job);
  json_decref(jobs.lines);
  if (status) checkpoint_spectra_free(s);
  return status;
}

void checkpoint_spectra_free(struct checkpoint_spectra *s)
{
  for (long i = 0; i < s->matrices; i++) memory_free(s->matrix[i].name);
  memory_free(s->matrix);
  memory_free(s->head);
  *s = (struct checkpoint_spectra){0};
}
