/* muon.c - orthogonalised momentum for the hidden matrices (arXiv 2502.16982 sec. 2, after Keller Jordan)
   M <- momentum M + G;  update = scale * orthogonalise(G + momentum M, or M without nesterov),
   scale = rms sqrt(max(rows, cols)), which makes the update's RMS `rms` whatever the shape.
   With per_head, every head's block of rows is a matrix of its own (GLM-5, arXiv 2602.15763, Muon Split); every
   expert's always is. */
#include <math.h>
#include <string.h>
#include "training/optimizer.h"
#include "training/spectral.h"

enum { SCALE_MOONLIGHT, SCALE_KELLER, SCALE_MUP, SCALE_NONE };
enum { HEADS_NONE, HEADS_QK, HEADS_QKV };

struct muon_options {
  double momentum;
  long nesterov, ns_steps, coefficients, iteration;
  double rms;
  long scale, per_head;
};

static const char *const scale_names[] = {"moonlight", "keller", "mup", "none", NULL};
static const char *const head_names[] = {"none", "qk", "qkv", NULL};

static const struct option_row rows[] = {
  REAL_ROW(struct muon_options, momentum, "0.95", 0, 1, "1", "decay of the momentum", 0),
  BOOL_ROW(struct muon_options, nesterov, "1", "Nesterov momentum: gradient + momentum * M", 0),
  INT_ROW(struct muon_options, ns_steps, "0", 0, 100, "1",
          "Newton-Schulz steps; 0: the number of coefficients in the set; further steps repeat the last "
          "coefficients",
          0),
  CHOICE_ROW(
    struct muon_options, coefficients, "keller", ns_names,
    "coefficients of Newton-Schulz; svd: the exact polar factor; none: the momentum scaled to the same norm",
    0),
  CHOICE_ROW(struct muon_options, iteration, "auto", ns_iterations,
             "Newton-Schulz on the matrix, or several steps at a time on its Gram matrix; auto: the faster "
             "one for the shape",
             0),
  REAL_ROW(struct muon_options, rms, "0.2", 0, 1e6, "1", "RMS of the update, with scale=moonlight", 0),
  CHOICE_ROW(struct muon_options, scale, "moonlight", scale_names,
             "moonlight: rms sqrt(max(out, in)); keller: sqrt(max(1, out/in)); mup: sqrt(out/in); none: 1",
             0),
  CHOICE_ROW(struct muon_options, per_head, "none", head_names,
             "orthogonalize the rows of each head separately: in the query and key projections, or also in "
             "the value projection",
             0),
  END_ROW};

static const char *const states[] = {"m", NULL};

static void resolve(void *options)
{
  struct muon_options *o = options;
  if (o->ns_steps == 0 && o->coefficients < NS_SETS) o->ns_steps = ns_sets[o->coefficients].steps;
}

/* --- blocks: what is orthogonalised as one matrix ------------------------------------------------------ */
static int is_value(const struct param *p)
{
  const char *dot = strrchr(p->name, '.');
  return dot && !strcmp(dot, ".w_v");
}

static long block_rows(const struct muon_options *o, const struct param *p)
{
  int split = p->head_rows && (o->per_head == HEADS_QKV || (o->per_head == HEADS_QK && !is_value(p)));
  return split ? p->head_rows : param_block_rows(p);
}

/* The factor on a block [out, in], but for the number rms. */
static double scale_of(const struct muon_options *o, double out, double in)
{
  switch (o->scale) {
  case SCALE_MOONLIGHT: return sqrt(fmax(out, in));
  case SCALE_KELLER: return sqrt(fmax(1, out / in));
  case SCALE_MUP: return sqrt(out / in);
  default: return 1;
  }
}

/* --- the step ----------------------------------------------------------------------------------------- */

/* The blocks of one shape in a row of tensors: [count] places. */
struct blocks {
  long rows, cols, count;
  long *place;
};

static long gather(const struct muon_options *o, const struct update *u, long height, long cols, long *place)
{
  long n = 0;
  for (int i = 0; i < u->count; i++) {
    const struct tensor *w = &u->param[i]->value;
    if (block_rows(o, u->param[i]) != height || w->cols != cols) continue;
    for (long row = 0; row < w->rows; row += height) {
      if (place) place[n] = u->place[i] + row * cols;
      n++;
    }
  }
  return n;
}

/* Is tensor i the first of its blocks' shape? */
static int is_first(const struct muon_options *o, const struct update *u, int i)
{
  for (int k = 0; k < i; k++)
    if (block_rows(o, u->param[k]) == block_rows(o, u->param[i]) &&
        u->param[k]->value.cols == u->param[i]->value.cols)
      return 0;
  return 1;
}

struct polar {
  struct tensor *x;
  struct blocks blocks;
  double scale;
};

static void polar_block(void *context, struct device *device, long i)
{
  const struct polar *job = context;
  struct tensor x = tensor_of(REALS(job->x) + job->blocks.place[i], job->blocks.rows, job->blocks.cols);
  exact_polar_factor(device, &x, job->scale);
}

/* The exact polar factor wants the host. */
static void polar_step(struct device *device, void *context)
{
  struct polar *job = context;
  host_each(device, job->blocks.count, polar_block, job);
}

/* Every block gets the Frobenius norm that its polar factor has. */
static void record_lengths(struct program *p, struct tensor *x, const struct blocks *b, struct tensor *rms,
                           double scale)
{
  struct tensor *was = program_temporary(p, 1, b->count, "lengths of momenta");
  for (long i = 0; i < b->count; i++) {
    struct tensor *own = program_view(p, x, b->place[i], b->rows * b->cols);
    PROGRAM_CALL(p, normalise, .y = own, .size = program_view(p, was, i, 1));
    PROGRAM_CALL(p, scale, .y = own, .by = rms,
                 .alpha = scale * sqrt((double)(b->rows < b->cols ? b->rows : b->cols)));
  }
}

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct muon_options *o = options;
  PROGRAM_CALL(p, momentum, .update = u->update, .m = u->state[0], .g = u->grad,
               .mu = numbers_constant(n, o->momentum), .nesterov = o->nesterov);
  struct tensor *rms = o->scale == SCALE_MOONLIGHT ? numbers_constant(n, o->rms) : NULL;
  for (int i = 0; i < u->count; i++) {
    if (!is_first(o, u, i)) continue;
    struct blocks b = {.rows = block_rows(o, u->param[i]), .cols = u->param[i]->value.cols};
    b.count = gather(o, u, b.rows, b.cols, NULL);
    b.place = program_memory(p, (size_t)b.count, sizeof *b.place);
    gather(o, u, b.rows, b.cols, b.place);
    double scale = scale_of(o, (double)b.rows, (double)b.cols);
    if (o->coefficients == NS_NONE) {
      record_lengths(p, u->update, &b, rms, scale);
    } else if (o->coefficients == NS_SVD) {
      struct polar job = {u->update, b, rms ? scale * o->rms : scale};
      program_host(p, polar_step, &job, sizeof job);
    } else {
      newton_schulz_record(p, u->update, b.place, b.count, b.rows, b.cols, &ns_sets[o->coefficients],
                           (enum ns_iteration)o->iteration, o->ns_steps, 1e-7, rms, scale);
    }
  }
}

static int takes(const struct param *p) { return p->kind == PARAM_MATRIX; }

const struct optimizer optimizer_muon = {
  .name = "muon",
  .help = "orthogonalized momentum for hidden matrices (Newton-Schulz); other tensors use adam",
  .options = rows,
  .options_size = sizeof(struct muon_options),
  .resolve = resolve,
  .state_names = states,
  .takes = takes,
  .record = record,
};
