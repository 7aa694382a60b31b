/* compositional.c - Muon whose queries and keys take the steepest step of their product (Compositional Muon, Tilde
   Research 2026: blog.tilderesearch.com/blog/compositional-muon, half split with both whitenings)
   For the rows W_q, W_k [head size, width] of a head, with X_q and X_k Muon's momenta:
     C_k = (W_k W_k^T + damping 1)^1/2,  update of W_q = c/2 C_k^-1 msign(C_k^-1 X_q),  that of W_k with C_q likewise
   and Muon's scale c. A key that g query heads share takes the sum of their W_q W_q^T, and c/(2g). All other matrices
   have Muon's update. So have queries and keys of an attention whose logits have more than two factors (mla), by
   head. */
#include <math.h>
#include "model/model.h"
#include "training/orthogonal.h"

struct compositional_options {
  double momentum;
  long nesterov;
  double damping;
  long coefficients;
  double rms;
};

static const struct option_row rows[] = {
  REAL_ROW(struct compositional_options, momentum, "0.95", 0, 1, "1", "decay of the momentum", 0),
  BOOL_ROW(struct compositional_options, nesterov, "1", "Nesterov momentum: gradient + momentum * M", 0),
  REAL_ROW(struct compositional_options, damping, "0.01", 1e-6, 1e6, "1",
           "added to the eigenvalues of W W^T of the other factor", 0),
  COEFFICIENTS_ROW(struct compositional_options),
  REAL_ROW(struct compositional_options, rms, "0.2", 0, 1e6, "1",
           "RMS of the update of other matrices; queries and keys: of the update where C = 1, times 2", 0),
  END_ROW};

static const char *const states[] = {"m", NULL};

/* --- heads and their partners -------------------------------------------------------------------------- */

/* Rows of a tensor of the update that are one factor of logits, with all factors that multiply it. */
struct factor {
  int tensor; /* of update.param */
  long row, rows;
  int partners;
  struct logit_block *partner;
  struct tensor *root; /* C^-1 of the partners */
};

static int same_block(const struct logit_block *a, const struct logit_block *b)
{
  return a->weight == b->weight && a->row == b->row;
}

/* Both factors of a head's logits, unless there are others. */
static int pair_of(const struct model *m, int layer, int head, struct logit_block f[MAX_LOGIT_BLOCKS])
{
  return m->attention->logit_blocks(m, layer, head, f) == 2 && !role_is_rotary(f[0].role) &&
         !role_is_rotary(f[1].role) && f[0].rows == f[1].rows;
}

/* The partner of a head's factor joins those of the same block of rows. */
static void add_partner(struct program *p, const struct update *u, struct factor *all, int *count,
                        const struct logit_block *own, const struct logit_block *partner)
{
  int i = 0, tensor = 0;
  while (tensor < u->count && u->param[tensor] != own->weight) tensor++;
  if (tensor == u->count) return;
  while (i < *count && (all[i].tensor != tensor || all[i].row != own->row)) i++;
  if (i == *count)
    all[(*count)++] =
      (struct factor){.tensor = tensor,
                      .row = own->row,
                      .rows = own->rows,
                      .partner = program_memory(p, (size_t)u->model->options.heads, sizeof *all->partner)};
  all[i].partner[all[i].partners++] = *partner;
}

static int factors_of(struct program *p, const struct update *u, struct factor **all)
{
  const struct model *m = u->model;
  const int layers = (int)model_blocks(&m->options), heads = (int)m->options.heads;
  struct logit_block f[MAX_LOGIT_BLOCKS];
  int count = 0;
  *all = program_memory(p, 2 * (size_t)(layers * heads), sizeof **all);
  for (int l = 0; l < layers; l++)
    for (int h = 0; h < heads; h++) {
      if (!pair_of(m, l, h, f)) continue;
      add_partner(p, u, *all, &count, &f[0], &f[1]);
      add_partner(p, u, *all, &count, &f[1], &f[0]);
    }
  return count;
}

/* --- inverse roots ------------------------------------------------------------------------------------- */

/* Y = [W_1 | W_2 ... | r 1], with r^2 the damping, has Y Y^T = C^2 and msign(Y) = C^-1 Y, whose last columns are
   r C^-1. Twelve steps are exact to rounding for singular values from 1e-4 of Y's norm on. */
static struct tensor *record_root(struct program *p, const struct factor *f, struct tensor *unit,
                                  struct tensor *inverse)
{
  const long n = f->rows, one = f->partner->weight->value.cols, width = f->partners * one;
  struct tensor *row = NULL, *joined = unit,
                *rest = program_temporary(p, n, width, "polar factor of weights"),
                *root = program_temporary(p, n, n, "inverse root");
  for (int i = 0; i < f->partners; i++) {
    struct tensor *w = program_rows(p, &f->partner[i].weight->value, f->partner[i].row, n), *left = joined;
    row = program_temporary(p, 1, n * (left->cols + one), "weights and damping");
    joined = program_matrix(p, row, 0, n, left->cols + one);
    PROGRAM_CALL(p, join_heads, .y = joined, .a = w, .b = left, .heads = 1);
  }
  newton_schulz_record(p, row, &(long){0}, 1, n, width + n, &ns_sets[NS_POLAR_EXPRESS], NS_STANDARD, 12, 1e-7,
                       inverse, 1);
  PROGRAM_CALL(p, join_heads_backward, .da = rest, .db = root, .dy = joined, .heads = 1);
  return root;
}

/* Heads that share a key share its root. */
static void record_roots(struct program *p, struct numbers *n, double damping, struct factor *all, int count)
{
  const long side = all->rows;
  double *one = program_memory(p, (size_t)(side * side), sizeof *one);
  for (long i = 0; i < side; i++) one[i * (side + 1)] = 1;
  struct tensor *unit = program_temporary(p, side, side, "root of the damping");
  PROGRAM_CALL(p, copy, .y = unit, .x = program_reals(p, side, side, one, "unit matrix"));
  PROGRAM_CALL(p, scale, .y = unit, .by = numbers_constant(n, sqrt(damping)), .alpha = 1);
  struct tensor *inverse = numbers_constant(n, 1 / sqrt(damping));
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < i && !all[i].root; k++)
      if (all[i].partners == 1 && all[k].partners == 1 && same_block(all[i].partner, all[k].partner))
        all[i].root = all[k].root;
    if (!all[i].root) all[i].root = record_root(p, &all[i], unit, inverse);
  }
}

/* --- the step ------------------------------------------------------------------------------------------ */

/* The factors' rows of the update, times C^-1 from the left; at the end also halved and shared by the partners. */
static void record_whitening(struct program *p, const struct update *u, const struct factor *all, int count,
                             int halve)
{
  for (int i = 0; i < count; i++) {
    const struct factor *f = &all[i];
    const long cols = u->param[f->tensor]->value.cols;
    struct tensor *x = program_matrix(p, u->update, u->place[f->tensor] + f->row * cols, f->rows, cols);
    struct tensor *y = program_temporary(p, f->rows, cols, "whitened");
    PROGRAM_CALL(p, matmul, .c = y, .a = f->root, .b = x, .alpha = halve ? 0.5 / f->partners : 1, .full = 1);
    PROGRAM_CALL(p, copy, .y = x, .x = y);
  }
}

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct compositional_options *o = options;
  struct tensor *rms = numbers_constant(n, o->rms);
  struct factor *factor;
  struct matrices m;
  const int count = factors_of(p, u, &factor);
  PROGRAM_CALL(p, momentum, .update = u->update, .m = u->state[0], .g = u->grad,
               .mu = numbers_constant(n, o->momentum), .nesterov = o->nesterov);
  if (count) record_roots(p, n, o->damping, factor, count);
  record_whitening(p, u, factor, count, 0);
  for (int i = 0; i < u->count; i++)
    if (matrices_of(p, u, HEADS_QK, i, &m))
      orthogonal_record(p, u->update, &m, &(struct orthogonal){.coefficients = o->coefficients}, rms, o->rms,
                        sqrt(fmax((double)m.rows, (double)m.cols)));
  record_whitening(p, u, factor, count, 1);
}

const struct optimizer optimizer_compositional = {
  .name = "compositional",
  .help = "muon, where queries and keys take the steepest step of their product; other tensors use adam",
  .options = rows,
  .options_size = sizeof(struct compositional_options),
  .state_names = states,
  .takes = takes_matrices,
  .reads_weights = 1,
  .record = record,
};
