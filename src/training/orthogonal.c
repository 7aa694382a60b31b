#include "training/orthogonal.h"
#include <math.h>
#include <string.h>
#include "training/spectral.h"

const char *const heads_split_names[] = {"none", "qk", "qkv", NULL};

/* --- matrices ------------------------------------------------------------------------------------------ */

static int is_value(const struct param *p)
{
  const char *dot = strrchr(p->name, '.');
  return dot && !strcmp(dot, ".w_v");
}

long matrix_rows(long heads_split, const struct param *p)
{
  int split = p->head_rows && (heads_split == HEADS_QKV || (heads_split == HEADS_QK && !is_value(p)));
  return split ? p->head_rows : param_block_rows(p);
}

static int alike(long heads_split, const struct param *a, const struct param *b)
{
  return matrix_rows(heads_split, a) == matrix_rows(heads_split, b) && a->value.cols == b->value.cols &&
         a->kind == b->kind;
}

static void gather(const struct update *u, long heads_split, int like, struct matrices *m)
{
  m->count = 0;
  for (int i = like; i < u->count; i++) {
    const struct tensor *w = &u->param[i]->value;
    if (!alike(heads_split, u->param[i], u->param[like])) continue;
    for (long row = 0; row < w->rows; row += m->rows, m->count++) {
      if (!m->place) continue;
      m->place[m->count] = u->place[i] + row * m->cols;
      m->tensor[m->count] = i;
      m->first[m->count] = row;
    }
  }
}

int matrices_of(struct program *p, const struct update *u, long heads_split, int i, struct matrices *m)
{
  *m = (struct matrices){.rows = matrix_rows(heads_split, u->param[i]), .cols = u->param[i]->value.cols};
  for (int k = 0; k < i; k++)
    if (alike(heads_split, u->param[k], u->param[i])) return 0;
  gather(u, heads_split, i, m);
  m->place = program_memory(p, (size_t)m->count, sizeof *m->place);
  m->tensor = program_memory(p, (size_t)m->count, sizeof *m->tensor);
  m->first = program_memory(p, (size_t)m->count, sizeof *m->first);
  gather(u, heads_split, i, m);
  return 1;
}

/* --- orthogonalization --------------------------------------------------------------------------------- */

struct polar {
  struct tensor *x;
  struct matrices matrices;
  double scale;
};

static void polar_one(void *context, struct device *device, long i)
{
  const struct polar *job = context;
  struct tensor x = tensor_of(REALS(job->x) + job->matrices.place[i], job->matrices.rows, job->matrices.cols);
  exact_polar_factor(device, &x, job->scale);
}

/* The exact polar factor requires the host. */
static void polar_step(struct device *device, void *context)
{
  struct polar *job = context;
  host_each(device, job->matrices.count, polar_one, job);
}

/* Every matrix gets the Frobenius norm that its polar factor has. */
static void record_lengths(struct program *p, struct tensor *x, const struct matrices *m, struct tensor *by,
                           double scale)
{
  struct tensor *was = program_temporary(p, 1, m->count, "lengths of momenta");
  for (long i = 0; i < m->count; i++) {
    struct tensor *own = program_view(p, x, m->place[i], m->rows * m->cols);
    PROGRAM_CALL(p, normalise, .y = own, .size = program_view(p, was, i, 1));
    PROGRAM_CALL(p, scale, .y = own, .by = by,
                 .alpha = scale * sqrt((double)(m->rows < m->cols ? m->rows : m->cols)));
  }
}

void orthogonal_record(struct program *p, struct tensor *x, const struct matrices *m,
                       const struct orthogonal *o, struct tensor *by, double by_value, double scale)
{
  if (o->coefficients == NS_NONE) {
    record_lengths(p, x, m, by, scale);
  } else if (o->coefficients == NS_SVD) {
    struct polar job = {x, *m, scale * by_value};
    program_host(p, polar_step, &job, sizeof job);
  } else {
    newton_schulz_record(p, x, m->place, m->count, m->rows, m->cols, &ns_sets[o->coefficients],
                         (enum ns_iteration)o->iteration, o->steps, 1e-7, by, scale);
  }
}

/* --- sizes --------------------------------------------------------------------------------------------- */

void segments_rms_record(struct program *p, struct tensor *x, const int *segment, long n, struct tensor *rms)
{
  double *size = program_memory(p, (size_t)n, sizeof *size);
  for (long i = 0; i < n; i++) size[i] = sqrt((double)segment[2 * i + 1]);
  struct tensor *segments = program_ints(p, n, 2, segment, "matrices");
  struct tensor *factor = program_temporary(p, 1, n, "factors"), *norm = program_temporary(p, 1, n, "norms");
  PROGRAM_CALL(p, norm_segments, .y = norm, .x = x, .segment = segments);
  PROGRAM_CALL(p, copy, .y = factor, .x = program_reals(p, 1, n, size, "sizes"));
  PROGRAM_CALL(p, scale, .y = factor, .by = rms, .alpha = 1);
  PROGRAM_CALL(p, divide, .y = factor, .x = norm);
  PROGRAM_CALL(p, scale_segments, .x = x, .segment = segments, .factor = factor);
}

void matrices_rms_record(struct program *p, struct tensor *x, const struct matrices *m, struct tensor *rms)
{
  int *segment = program_memory(p, 2 * (size_t)m->count, sizeof *segment);
  for (long i = 0; i < m->count; i++)
    segment[2 * i] = (int)m->place[i], segment[2 * i + 1] = (int)(m->rows * m->cols);
  segments_rms_record(p, x, segment, m->count, rms);
}
