// %% [markdown]
// # Over-clipping as a race between heads
//
// QK-Clip looks at the largest logit of a step and scales weights down where it is above $\tau$. Kimi K2
// (arXiv 2507.20534, algorithm 1) does so head by head: $\gamma_h = \min(1, \tau / S_h)$. One number a layer,
// $\gamma = \min(1, \tau / \max_h S_h)$, would be simpler, and is what one gets where a clip knows the
// layer's maximum alone. Su (kexue.fm/archives/11126) names its price: heads that never passed $\tau$ are
// scaled down with the one that did, again and again. Their logits go to zero.
//
// This notebook makes that a race. Each head's logit grows by a step's worth $d_h$ a step (the head's
// *speed*); after each step the whole layer is multiplied by $\gamma$ of the step's forward pass:
//
// $$ S_h \leftarrow (S_h + d_h) \gamma, \quad \gamma = \min(1, \tau / \max_h S_h). $$

// %%
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 4, STEPS = 3000 };

static void must(int ok, const char *what)
{
  if (ok) return;
  printf("does not hold: %s\n", what);
  exit(1);
}

// %% [markdown]
// ## Who wins, and where the others end
//
// Once the fastest head, of speed $d_1$, is at its fixed point (notebook 01)
//
// $$ S^* = \frac{\tau + \sqrt{\tau^2 + 4 \tau d_1}}{2}, $$
//
// the layer's factor is the same in every step: $\gamma = \tau / S^*$. Another head then follows
// $S \leftarrow (S + d) \gamma$, a linear map with the fixed point
//
// $$ S_h = \frac{d_h \gamma}{1 - \gamma} = \frac{d_h \tau}{S^* - \tau} = S^* \frac{d_h}{d_1}, $$
//
// (since $S^* (S^* - \tau) = \tau d_1$). So the logits end *in the proportions of the speeds*: a head with a
// tenth of the speed ends at a tenth of the logit, wherever it began, even above $\tau$. That is the race:
// what counts is not how large a head's logits are, but how fast they grow. A head that does not grow at all
// ($d = 0$) dies like
//
// $$ S_h(t) = S_h(0) \gamma^t, \quad \gamma = 1 - \frac{d_1}{S^*}, \quad \gamma^t \approx e^{-t d_1 / \tau}: $$
//
// down to a third after $\tau / d_1$ steps, the time in which the winner without a clip would have added
// another $\tau$.

// %%
static double fixed_point(double tau, double speed) { return (tau + sqrt(tau * tau + 4 * tau * speed)) / 2; }

/* Constant speeds (power = 0), or speeds that go with the logit itself: d = speed S^power. */
static void race(double tau, const double *speed, double power, int by_layer, double (*path)[HEADS],
                 double *s)
{
  for (int t = 0; t < STEPS; t++) {
    double top = 0;
    for (int h = 0; h < HEADS; h++) top = fmax(top, s[h]);
    for (int h = 0; h < HEADS; h++) {
      double at = by_layer ? top : s[h], gamma = at > tau ? tau / at : 1;
      if (path) path[t][h] = s[h];
      s[h] = (s[h] + speed[h] * pow(s[h], power)) * gamma;
    }
  }
}

// %% nb:main
int main(void)
{
  const double tau = 100, speed[HEADS] = {0.5, 0.25, 0.05, 0};
  static double layer[STEPS][HEADS], head[STEPS][HEADS];
  const double start[HEADS] = {20, 60, 90, 50};

  // %% [markdown]
  // ### One factor a layer: proportions of speed; one a head: every grown head at $\tau$

  // %%
  double a[HEADS], b[HEADS], winner = fixed_point(tau, speed[0]);
  for (int h = 0; h < HEADS; h++) a[h] = b[h] = start[h];
  race(tau, speed, 0, 1, layer, a);
  race(tau, speed, 0, 0, head, b);
  printf("head  speed  start   clip by layer   S* d / d1   clip by head   its own S*\n");
  for (int h = 0; h < HEADS; h++) {
    double own = speed[h] > 0 ? fixed_point(tau, speed[h]) : start[h];
    printf("%4d %6.2f %6.0f %15.4f %11.3f %14.3f %12.3f\n", h, speed[h], start[h], a[h],
           winner * speed[h] / speed[0], b[h], own);
    if (speed[h] > 0)
      must(fabs(a[h] - winner * speed[h] / speed[0]) < 1e-3 * winner, "by layer: in proportion to speed");
    double reached = fmin(own, start[h] + speed[h] * STEPS);
    must(fabs(b[h] - reached) < 0.01 * reached,
         "by head: each at its own fixed point, or where its growth has got it");
  }

  // %% [markdown]
  // ### The head that does not grow dies at the winner's pace
  //
  // Its logit falls by the same factor in every step once the winner is at tau. We read the rate off the run.

  // %%
  double rate = -log(layer[STEPS - 1][3] / layer[STEPS - 501][3]) / 500;
  printf("\nhead 3 shrinks by exp(-%.6f) a step; the formula: %.6f; d1 / tau: %.6f\n", rate,
         -log(tau / winner), speed[0] / tau);
  must(fabs(rate + log(tau / winner)) < 1e-9, "a head without growth shrinks by gamma a step");
  must(head[STEPS - 1][3] == start[3], "and is left alone where each head has a factor of its own");

  // %% [markdown]
  // ### Growth that feeds on itself makes the winner take all
  //
  // Where a head's growth goes with its own logit, $d = c_h S^p$ with $p > 0$ (two factors that grow with
  // each other have $p$ between 1/2 and 1), the same map has another end. Write $r$ for the ratio of two
  // heads. The clip cancels in it:
  //
  // $$ r' = r \, \frac{1 + c_2 S_2^{p-1}}{1 + c_1 S_1^{p-1}}. $$
  //
  // For $p < 1$ the smaller head grows relatively faster, and the ratio settles: $r^{1-p} = c_2 / c_1$. For
  // $p = 1$ it does not settle: the ratio of two heads goes like $((1 + c_2) / (1 + c_1))^t$, and all but the
  // fastest die.

  // %%
  double power[] = {0, 0.5, 1};
  printf("\n   p   heads relative to the winner, by layer (c = 0.005, 0.004, 0.002, 0.001)     formula for "
         "head 1\n");
  for (int i = 0; i < 3; i++) {
    double c[HEADS] = {0.005, 0.004, 0.002, 0.001}, s[HEADS], p = power[i], expected;
    for (int h = 0; h < HEADS; h++) s[h] = 30;
    for (int h = 0; h < HEADS; h++) c[h] *= pow(tau, 1 - p); /* equal growth at tau */
    for (int again = 0; again < 6; again++) race(tau, c, p, 1, NULL, s);
    expected = p < 1 ? pow(c[1] / c[0], 1 / (1 - p)) : 0;
    printf("%4.1f  %12.4g %12.4g %12.4g %12.4g %26.4f\n", p, s[0] / s[0], s[1] / s[0], s[2] / s[0],
           s[3] / s[0], expected);
    must(fabs(s[1] / s[0] - expected) < 0.01, "the ratio of two heads is (c2 / c1)^(1 / (1 - p))");
    must(p < 1 || s[1] / s[0] < 1e-6, "growth in proportion to itself: the winner takes all");
  }

  // %% [markdown]
  // ### The picture

  // %%
  FILE *plot = popen("if command -v gnuplot > /dev/null; then gnuplot; else cat > /dev/null; fi", "w");
  must(plot != NULL, "a pipe can be opened");
  fprintf(
    plot,
    "set terminal svg size 900,400 font 'DejaVu Sans,12' butt background 'white'\n"
    "set output 'over-clipping.svg'\nset encoding utf8\nset logscale y\nset border 3\nset tics nomirror out\n"
    "unset key\nset format y '%%g'\nset xrange [0:1500]\nset yrange [0.05:200]\nset multiplot layout 1,2\n"
    "set xlabel 'step'\nset xtics 500\n");
  const char *titles[2] = {"One factor a layer", "One factor a head"};
  const char *colours[HEADS] = {"#0072B2", "#56B4E9", "#E69F00", "#D55E00"};
  double(*paths[2])[HEADS] = {layer, head};
  for (int side = 0; side < 2; side++) {
    fprintf(plot, "unset label\nset title '%s'\nset ylabel '%s'\nset rmargin 11\n", titles[side],
            side ? "" : "max logit");
    for (int h = 0; h < HEADS; h++) {
      if (side && speed[h] > 0) continue; /* they end at the same place */
      fprintf(plot, "set label 'speed %g' at 1500,%g left offset 0.6,0 tc rgb '%s'\n", speed[h],
              fmax(paths[side][1499][h], 0.06), colours[h]);
    }
    if (side) fprintf(plot, "set label 'all others' at 1500,100 left offset 0.6,0\n");
    fprintf(plot, "plot %g with lines lw 1 dt (8,6) lc rgb '#888888'", tau);
    for (int h = 0; h < HEADS; h++) fprintf(plot, ", '-' with lines lw 2 lc rgb '%s'", colours[h]);
    fprintf(plot, "\n");
    for (int h = 0; h < HEADS; h++) {
      for (int t = 0; t < 1500; t += 5) fprintf(plot, "%d %g\n", t, paths[side][t][h]);
      fprintf(plot, "e\n");
    }
  }
  must(pclose(plot) == 0, "gnuplot draws");
  printf("\036mlc-svg over-clipping.svg\036\n");

  // %% [markdown]
  // [In training, live: one clip factor per head and one per layer](play.html#embed=1&lesson=4&view=norms)

  // %% nb:end
  return 0;
}
