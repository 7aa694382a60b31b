// %% [markdown]
// # One head explodes
//
// A head of attention compares a query and a key by a *bilinear form*: with normed inputs
// $x, x' \in \mathbb{R}^D$,
//
// $$ s = \frac{q \cdot k}{\sqrt{D_h}} = \frac{x^\top W_q^\top W_k x'}{\sqrt{D_h}} $$
//
// The largest such $s$ of a training step is the head's **max logit**. RMSNorm with gain $g$ bounds
// $\|x\| \le \sqrt{D} \max |g|$, rotary position encoding only turns $q$ and $k$, so (Su, "QK-Clip", 2025)
//
// $$ \text{max logit} \le \frac{D \max |g|^2 \, \|W_q\|_2 \, \|W_k\|_2}{\sqrt{D_h}} $$
//
// with spectral norms. *Two* factors grow: if each norm grows like $t$, the bound grows like $t^2$. An
// optimizer that takes steps of equal size for ever, as Muon does (every singular value of its step is about
// 1), makes each norm grow at a steady rate as long as the steps agree in direction. This notebook derives
// what a clip then does, and runs it. Every cell is C; the whole file is one program:
//
//     make check        # builds and runs it with all other tests

// %%
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "maxlogit.h"
#include "numerics/linalg.h"

enum { STEPS = 240, LAYER = 1, HEADS = 4 };

static void must(int ok, const char *what)
{
  if (ok) return;
  printf("does not hold: %s\n", what);
  exit(1);
}

// %% [markdown]
// ## The tug-of-war, as one number
//
// QK-Clip (Kimi K2, arXiv 2507.20534, algorithm 1) looks at the max logit $S_t$ of a step's forward pass,
// lets the optimizer take its step, and then multiplies the head's logits by $\min(1, \tau / S_t)$. If the
// step alone would raise the max logit by $d$, the head does
//
// $$ S_{t+1} = (S_t + d) \min(1, \tau / S_t) $$
//
// A fixed point above $\tau$ solves $S^2 = \tau S + \tau d$:
//
// $$ S^* = \frac{\tau + \sqrt{\tau^2 + 4 \tau d}}{2} = \tau + d - O(d^2 / \tau) $$
//
// There the map's slope is $-\tau d / {S^*}^2$, between $-1$ and 0: the max logit settles, swinging around
// $S^*$. So a clip at $\tau$ does not give a max logit below $\tau$: it overshoots by one step's growth.

// %%
static double fixed_point(double tau, double growth)
{
  return (tau + sqrt(tau * tau + 4 * tau * growth)) / 2;
}

static double settle(double tau, double growth)
{
  double s = 1;
  for (int t = 0; t < 100000; t++) s = (s + growth) * fmin(1, tau / s);
  return s;
}

// %% [markdown]
// ## A run
//
// Two layers of four heads, Muon at a learning rate at which the logits of the second layer grow, once alone
// and once with QK-Clip. `trainer_*` is what `maxlogit run` uses. At every step we keep the max logit of each
// head of that layer, and the bound from the weights that produced it.

// %%
struct history {
  double max[STEPS][HEADS], bound[STEPS][HEADS], loss;
};

static double spectral_norm(struct spectra *work, const struct param *w, long row, long rows)
{
  struct spectrum s;
  struct error e = {0};
  const real *data = w->value.data;
  long d = w->value.cols;
  must(spectrum_of(work, SPECTRA_SVD, data + row * d, rows, d, d, &s, &e) == 0, e.text);
  return s.spectral_norm;
}

static double logit_bound(struct trainer *t, struct spectra *work, int head)
{
  struct model *m = trainer_model(t);
  const struct param *gain = params_find(&m->params, "blocks.1.attn.norm");
  long dh = m->options.head_dim, d = m->options.width;
  double largest = 0;
  for (long i = 0; i < d; i++) largest = fmax(largest, fabs((double)((const real *)gain->value.data)[i]));
  double q = spectral_norm(work, params_find(&m->params, "blocks.1.attn.w_q"), head * dh, dh);
  double k = spectral_norm(work, params_find(&m->params, "blocks.1.attn.w_k"), head * dh, dh);
  return (double)d * largest * largest * q * k / sqrt((double)dh);
}

static void train(const char *stabilizer, struct history *h)
{
  const char *settings[] = {
    "optimizer=muon",       stabilizer,
    "qk_clip.tau=20",       "data=markov",
    "model.layers=2",       "model.width=32",
    "model.heads=4",        "model.context=32",
    "train.batch=4",        "train.lr=0.05",
    "train.weight_decay=0", "train.warmup=10",
    "train.val_every=0",    "record.spectra_every=0",
    "device.threads=1",
  };
  struct config *config = config_new();
  struct trainer *t = NULL;
  struct error e = {0};
  char steps[32];
  int ok = 1;
  snprintf(steps, sizeof steps, "train.steps=%d", STEPS);
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    ok = ok && config_assign(config, settings[i], &e) == 0;
  ok = ok && config_assign(config, steps, &e) == 0 && config_finish(config, &e) == 0;
  must(ok && trainer_init(&t, config, TRAINER_NO_RECORD, &e) == 0, e.text);
  struct spectra *work = spectra_new(32, 32);
  for (int step = 0; step < STEPS; step++) {
    for (int head = 0; head < HEADS; head++) h->bound[step][head] = logit_bound(t, work, head);
    must(trainer_step(t, &e) == 0, e.text);
    for (int head = 0; head < HEADS; head++)
      h->max[step][head] = (double)trainer_status(t).max_logit[LAYER * HEADS + head];
  }
  h->loss = trainer_status(t).loss;
  spectra_free(work);
  must(trainer_done(t, &e) == 0, e.text);
  config_free(config);
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median of one head over the last quarter of the run. */
static double late_median(double (*x)[HEADS], int head)
{
  double v[STEPS / 4];
  for (int i = 0; i < STEPS / 4; i++) v[i] = x[STEPS - STEPS / 4 + i][head];
  qsort(v, STEPS / 4, sizeof *v, compare);
  return v[STEPS / 8];
}

/* Slope of log y against log t over the last three quarters: 1 is linear growth, 2 quadratic. */
static double growth_exponent(double (*y)[HEADS], int head)
{
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (int t = STEPS / 4; t < STEPS; t++) {
    double a = log(t + 1), b = log(y[t][head]);
    n++, sx += a, sy += b, sxx += a * a, sxy += a * b;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

// %% nb:main
int main(void)
{

  // %% [markdown]
  // ### The scalar model settles where the formula says

  // %%
  printf("growth a step   settles at   formula   (threshold 100)\n");
  for (int i = 0; i < 4; i++) {
    double growth[] = {0.1, 1, 5, 20}, s = settle(100, growth[i]), formula = fixed_point(100, growth[i]);
    printf("%13g %12.3f %9.3f\n", growth[i], s, formula);
    must(fabs(s - formula) < 1e-9 * formula, "the tug-of-war settles at its fixed point");
  }

  // %% [markdown]
  // ### Two runs from the same weights on the same batches

  // %%
  static struct history alone, clipped;
  train("stabilizers=none", &alone);
  train("stabilizers=qk_clip", &clipped);
  int top = 0;
  for (int head = 1; head < HEADS; head++)
    if (late_median(alone.max, head) > late_median(alone.max, top)) top = head;
  printf("\nMuon alone, max logit of each head at steps:\n   step");
  for (int head = 0; head < HEADS; head++) printf("   head %d", head);
  printf("   bound of head %d\n", top);
  for (int t = 0; t < STEPS; t = t == 0 ? STEPS / 8 - 1 : t + STEPS / 8) {
    printf("%7d", t);
    for (int head = 0; head < HEADS; head++) printf(" %8.2f", alone.max[t][head]);
    printf(" %17.1f\n", alone.bound[t][top]);
  }

  // %% [markdown]
  // The bound holds at every step, for every head, with and without the clip; and it is loose: most of the
  // growth that it allows is used only as far as queries and keys align.

  // %%
  for (int t = 0; t < STEPS; t++)
    for (int head = 0; head < HEADS; head++) {
      must(alone.max[t][head] <= alone.bound[t][head] * 1.0001, "max logit <= bound");
      must(clipped.max[t][head] <= clipped.bound[t][head] * 1.0001, "max logit <= bound, clipped");
    }
  double exponent = growth_exponent(alone.bound, top);
  printf("\nThe bound of head %d grows like t^%.2f, its max logit like t^%.2f.\n", top, exponent,
         growth_exponent(alone.max, top));
  must(exponent > 1, "two growing factors make the bound grow faster than linearly");

  // %% [markdown]
  // With the clip the same head stays near the threshold. The scalar model needs the growth of one step, which
  // we read off the run alone, where it passes the threshold. What it leaves out is the noise of the batch: the
  // clip acts on every upward swing and never undoes a downward one, which holds the median a little lower.

  // %%
  double tau = 20, without = late_median(alone.max, top), with = late_median(clipped.max, top);
  int crossing = 0, span = STEPS / 8;
  while (crossing < STEPS - span - 1 && alone.max[crossing][top] < tau) crossing++;
  double growth = (alone.max[crossing + span][top] - alone.max[crossing][top]) / span;
  printf("Head %d passes %g at step %d, then growing by %.2f a step.\n", top, tau, crossing, growth);
  printf("Last quarter: %.1f alone, %.1f with QK-Clip; the scalar model says %.1f.\n", without, with,
         fixed_point(tau, fmax(growth, 0)));
  printf("Last loss: %.3f alone, %.3f with QK-Clip.\n", alone.loss, clipped.loss);
  must(without > 2 * tau, "the head explodes");
  must(with > 0.5 * tau && with < 1.5 * tau, "the clip holds it near the threshold");

  // %% [markdown]
  // ### The picture

  // %%
  FILE *plot = popen("if command -v gnuplot > /dev/null; then gnuplot; else cat > /dev/null; fi", "w");
  must(plot != NULL, "a pipe can be opened");
  fprintf(plot,
          "set terminal svg size 800,420 font 'DejaVu Sans,12' butt background 'white'\n"
          "set output 'one-head-explodes.svg'\nset encoding utf8\nset logscale y\nset border 3\n"
          "set tics nomirror out\nunset key\nset format y '%%g'\nset xrange [0:%d]\nset rmargin 16\n"
          "set title 'Head %d of the second layer: Muon with and without QK-Clip'\n"
          "set xlabel 'training step'\nset ylabel 'max logit'\n",
          STEPS, top);
  const struct {
    const char *name, *colour;
    double end;
  } labels[] = {
    {"Muon", "#0072B2", without},
    {"MuonClip", "#56B4E9", with * 1.25},
    {"threshold", "#888888", tau * 0.7},
    {"bound of Muon", "#999999", alone.bound[STEPS - 1][top]},
  };
  for (int i = 0; i < 4; i++)
    fprintf(plot, "set label '%s' at %d,%g left offset 1,0 tc rgb '%s'\n", labels[i].name, STEPS,
            labels[i].end, labels[i].colour);
  fprintf(plot,
          "plot %g with lines lw 1 dt (8,6) lc rgb '#888888', '-' with lines lw 1.5 lc rgb '#0072B2', "
          "'-' with lines lw 2 lc rgb '#56B4E9', '-' with lines lw 1.5 lc rgb '#999999'\n",
          tau);
  double(*curves[])[HEADS] = {alone.max, clipped.max, alone.bound};
  for (int i = 0; i < 3; i++) {
    for (int t = 0; t < STEPS; t++) fprintf(plot, "%d %g\n", t, curves[i][t][top]);
    fprintf(plot, "e\n");
  }
  must(pclose(plot) == 0, "gnuplot draws");
  printf("\036mlc-svg one-head-explodes.svg\036\n");

  // %% [markdown]
  // [The same in your browser, live: all heads of Muon and of MuonClip](play.html#embed=1&view=logits)

  // %% nb:end
  return 0;
}
