/* heads.c - attention weights and singular values of a head during its run */
#include <math.h>
#include <stdlib.h>

#include "numerics/linalg.h"
#include "run/state.h"

/* --- attention ----------------------------------------------------------------------------------------------- */

/* Attention weights on the first validation sequence: one more pass of attention, with the identity as values. */
struct heads_look {
  struct tap tap; /* first: the program calls it */
  struct model *model;
  struct tally tally;
  struct model_program program;
  struct tensor **weight; /* [layers] of [context, heads * context] */
};

static struct tensor *identity(struct program *p, long n, long groups)
{
  double *value = program_memory(p, (size_t)(n * n * groups), sizeof *value);
  for (long i = 0; i < n; i++)
    for (long g = 0; g < groups; g++) value[(i * groups + g) * n + i] = 1;
  return program_reals(p, n, n * groups, value, "identity");
}

static void look_at_scores(struct tap *tap, struct program *p, enum point point, int layer,
                           const struct flow *f)
{
  struct heads_look *x = (struct heads_look *)tap;
  if (point != POINT_SCORES) return;
  const struct attention_score *s = &f->spec->score;
  const long n = f->q->rows;
  x->weight[layer] = program_temporary(p, n, s->heads * n, "attention");
  op_attention_again(p, x->weight[layer], f->q, f->k, identity(p, n, s->groups), f->start, f->end, f->spec);
  program_keep(p, x->weight[layer]);
}

static struct heads_look *look_new(struct trainer *t)
{
  struct heads_look *x = arena_get(t->arena, 1, sizeof *x);
  x->tap.tap = look_at_scores;
  x->tally = t->engine.model.probe; /* the probe report is cleared before its next use */
  x->tally.tap_hook = &x->tap;
  x->weight = arena_get(t->arena, (size_t)model_blocks(&t->engine.model.options), sizeof *x->weight);
  model_program_init(&t->engine.model, &x->program, 1, t->engine.model.options.context, 0, &x->tally, 1);
  device_settle_scratch(t->engine.device);
  return x;
}

void trainer_heads_free(struct trainer *t)
{
  if (t->record.heads) model_program_free(&t->record.heads->program);
}

long trainer_context(const struct trainer *t) { return t->engine.model.options.context; }

void trainer_attention(struct trainer *t, int layer, int head, real *out)
{
  if (!t->record.heads) t->record.heads = look_new(t);
  const struct model_program *p = &t->record.heads->program;
  const long n = p->context;
  host_batch_draw(&t->engine.host, &t->engine.data, DATA_VAL, COMMON_SEED, 0);
  host_batch_feed(&t->engine.host, t->engine.device, &t->record.heads->program, 0);
  program_run(p->program);
  const struct tensor *w = t->record.heads->weight[layer];
  for (long i = 0; i < n; i++)
    t->engine.device->download(t->engine.device, out + i * n, (const real *)w->data + i * w->ld + head * n,
                               (size_t)n * sizeof *out);
}

/* --- singular values ------------------------------------------------------------------------------------------- */

static int by_falling_size(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

long trainer_head_spectrum(struct trainer *t, int layer, int head, double *sigma)
{
  const struct model *m = &t->engine.model;
  struct logit_block all[MAX_LOGIT_BLOCKS], *q = NULL, *k = NULL;
  for (int i = m->attention->logit_blocks(m, layer, head, all); i-- > 0;) { /* the content parts come first */
    if (all[i].role == ROLE_Q_HEAD) q = &all[i];
    if (all[i].role == ROLE_K_HEAD || all[i].role == ROLE_K_GROUP) k = &all[i];
  }
  if (!q || !k || q->weight->value.cols != k->weight->value.cols) return 0;
  const struct tensor *a = &q->weight->value, *b = &k->weight->value;
  const long n = q->rows;
  if (!sigma) return n;
  real *own = memory_new((size_t)(a->rows * a->cols + b->rows * b->cols), sizeof *own),
       *other = own + a->rows * a->cols;
  params_read(&t->engine.model.params, q->weight, own);
  params_read(&t->engine.model.params, k->weight, other);
  struct spectra *work = spectra_new(n, a->cols);
  struct error e = {0};
  struct spectra_job job = {.w = own + q->row * a->cols,
                            .b = other + k->row * b->cols,
                            .rows = n,
                            .cols = a->cols,
                            .ld = a->cols,
                            .ldb = b->cols,
                            .sigma = sigma};
  for (long i = 0; i < n; i++) sigma[i] = NAN;
  spectra_of(work, &job, 1, &e);
  qsort(sigma, (size_t)n, sizeof *sigma, by_falling_size);
  spectra_free(work);
  memory_free(own);
  return n;
}
