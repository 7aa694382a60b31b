// %% [markdown]
// # Why each factor takes the square root of gamma
//
// A head's logit is a product of two factors, the query's weights and the key's:
//
// $$ s = \frac{x^\top W_q^\top W_k x'}{\sqrt{D_h}} $$
//
// QK-Clip (Kimi K2, arXiv 2507.20534, algorithm 1) wants the head's largest logit $S$ back at $\tau$: all its
// logits are to be multiplied by $\gamma = \min(1, \tau / S)$. Since $s$ is linear in either factor, $W_q$
// may take $\gamma^\alpha$ and $W_k$ $\gamma^{1 - \alpha}$, for any $\alpha$: the logits cannot tell. The
// paper takes $\alpha = 1/2$ for both factors. There are two ways to get it wrong, and a reason for the
// halves:
//
// 1. **Both in full** (each factor times $\gamma$): logits shrink by $\gamma^2$, below $\tau$; clips come in
//    pulses.
// 2. **One alone** ($\alpha = 1$ or 0): right for the logits, but one factor is worn down while the other
//    grows.
// 3. **Halves** keep a balanced pair balanced, as gradient flow does, and balance is where a product of given
//    size has the smallest factors.
//
// Every cell is C; the whole file is one program.

// %%
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void must(int ok, const char *what)
{
  if (ok) return;
  printf("does not hold: %s\n", what);
  exit(1);
}

// %% [markdown]
// ## The logit cannot tell; the factors can
//
// For a product $p = q k$ of given size, $q^2 + k^2 \ge 2 |p|$ with equality where $|q| = |k|$ (the mean of
// squares is at least the product). The size of the factors matters twice. A step of size $\eta$ on each
// changes the logit by
//
// $$ d p = \eta (|q| + |k|) + \eta^2, $$
//
// which at a given $p$ is smallest where they are equal, and grows without bound as one of them goes to zero.
// And the clip's own freedom, $\alpha$, decides where the pair goes: with equal growth $\eta$ of both, and
// clips $\gamma_t$,
//
// $$ q \leftarrow (q + \eta) \gamma^\alpha, \quad k \leftarrow (k + \eta) \gamma^{1 - \alpha}. $$
//
// In a steady state $q = (q + \eta) \gamma^\alpha$, which gives
//
// $$ q = \frac{\eta \gamma^\alpha}{1 - \gamma^\alpha}, \quad
//    k = \frac{\eta \gamma^{1 - \alpha}}{1 - \gamma^{1 - \alpha}}. $$
//
// For $\gamma = 1 - e$ with small $e$ this is $q = \eta / (\alpha e)$, $k = \eta / ((1 - \alpha) e)$: the
// ratio of the factors settles at $k / q = \alpha / (1 - \alpha)$. At $\alpha = 1/2$ they are equal; at
// $\alpha = 1$ the query settles, and the key, which is never clipped, grows for ever.

// %%
struct pair {
  double q, k, gamma, overshoot; /* overshoot: the largest logit of the late steps over tau */
  int clips;
};

/* `full`: both factors take gamma in full. Equal steps, the clip by the logit of the step before its update. */
static struct pair race(double tau, double eta, double alpha, int full, int steps, double (*path)[2])
{
  struct pair p = {1, 1, 1, 0, 0};
  for (int t = 0; t < steps; t++) {
    double s = p.q * p.k, gamma = s > tau ? tau / s : 1;
    if (t >= steps / 2) {
      p.overshoot = fmax(p.overshoot, s / tau);
      p.clips += gamma < 1;
    }
    p.q = (p.q + eta) * pow(gamma, full ? 1 : alpha);
    p.k = (p.k + eta) * pow(gamma, full ? 1 : 1 - alpha);
    p.gamma = gamma;
    if (path) path[t][0] = p.q, path[t][1] = p.k;
  }
  return p;
}

// %% [markdown]
// What a step adds to the logit decides how far above $\tau$ a head goes between two clips: the overshoot. It
// is
//
// $$ \frac{(q + \eta)(k + \eta)}{q k} = 1 + \eta \left( \frac{1}{q} + \frac{1}{k} \right) + \dots, $$
//
// and $1/q + 1/k$ at a given product is smallest for $q = k$.

// %% nb:main
int main(void)
{
  enum { STEPS = 4000 };
  static double path[3][STEPS][2];
  const double tau = 100, eta = 0.02;

  // %% [markdown]
  // ### Any alpha holds the logit; only one half holds both factors

  // %%
  printf("alpha        q        k      k/q   alpha/(1-alpha)   highest logit / tau\n");
  double last = 0;
  for (int i = 0; i < 5; i++) {
    double alpha[] = {0.5, 0.6, 0.7, 0.8, 0.9};
    struct pair p = race(tau, eta, alpha[i], 0, 200000, NULL);
    double ratio = alpha[i] / (1 - alpha[i]);
    printf("%5.2f %8.3f %8.3f %8.3f %17.3f %21.6f\n", alpha[i], p.q, p.k, p.k / p.q, ratio, p.overshoot);
    must(fabs(p.k / p.q / ratio - 1) < 0.02, "the factors settle at k / q = alpha / (1 - alpha)");
    must(p.overshoot > last, "the further from one half, the higher the overshoot");
    must(p.overshoot < 1.01, "every alpha holds the logit near tau");
    last = p.overshoot;
  }

  // %% [markdown]
  // ### One factor alone: it is worn down, and the other grows for ever
  //
  // A step then adds $\eta k$ to the logit, more and more. The logit is where
  // $S = \tau + \eta k - O((\eta k)^2 / \tau)$, the fixed point of $S \mapsto (S + d) \tau / S$ with
  // $d = \eta k$ (notebook 01): the clip no longer holds it at $\tau$.

  // %%
  struct pair one = race(tau, eta, 1, 0, 200000, NULL), twice = race(tau, eta, 1, 0, 400000, NULL);
  printf("\nalpha = 1 after 200000 steps: q = %.4f, k = %.1f; after 400000: q = %.4f, k = %.1f\n", one.q,
         one.k, twice.q, twice.k);
  must(fabs(twice.k / one.k - 2) < 0.01, "the factor that is not clipped grows with every step");
  must(twice.q < one.q && one.q < 0.1, "the other is worn down");
  double d = eta * one.k, settles = (tau + sqrt(tau * tau + 4 * tau * d)) / 2;
  printf("its logit: %.1f; the fixed point for a growth of eta k = %.0f a step: %.1f\n", one.q * one.k, d,
         settles);
  must(fabs(one.q * one.k / settles - 1) < 0.02, "the overshoot is that of a growth of eta k");

  // %% [markdown]
  // ### Both in full: the logit falls to $\tau^2 / S$, and clips come in pulses
  //
  // Where the clip takes $\gamma$ twice the logit is $\tau \gamma$, below $\tau$ by as much as it was above:
  // half of the steps, about, have nothing to clip.

  // %%
  struct pair full = race(tau, eta, 0, 1, 200000, NULL), half = race(tau, eta, 0.5, 0, 200000, NULL);
  printf("clipped steps: %.0f %% with halves, %.0f %% with both in full\n", half.clips / 1000.0,
         full.clips / 1000.0);
  must(half.clips == 100000 && full.clips < 60000, "in full, clips come in pulses");

  // %% [markdown]
  // ### The same with matrices: what the clip leaves alone
  //
  // For matrices, scaling by powers of $\gamma$ leaves $W_q W_q^\top$ and $W_k W_k^\top$ proportional to
  // themselves. Gradient flow of a loss of the form $A = W_q^\top W_k$ alone, $G = dL/dA$, has
  //
  // $$ \frac{d W_q}{d t} = -W_k G^\top, \quad \frac{d W_k}{d t} = -W_q G, $$
  //
  // so that $\|W_q\|^2$ and $\|W_k\|^2$ both change by $-2 \langle A, G \rangle$: their difference is kept.
  // With halves a balanced pair stays balanced through any number of clips; with $\alpha = 1$ every clip
  // moves the difference by $(1 - \gamma^2) \|W_q\|^2$.

  // %%
  double q2 = 30, k2 = 30, balanced = 0, tilted = 0;
  for (int t = 0; t < 50; t++) {
    double gamma = 0.98;
    balanced = q2 * pow(gamma, t) - k2 * pow(gamma, t);
    tilted = q2 * pow(gamma, 2.0 * t) - k2;
  }
  printf("after 50 clips of 0.98: |W_q|^2 - |W_k|^2 = %g with halves, %.1f with the query alone\n", balanced,
         tilted);
  must(balanced == 0 && tilted < -25, "only halves keep the balance");

  // %% [markdown]
  // ### The picture

  // %%
  const double alphas[3] = {0.5, 0.8, 1};
  for (int i = 0; i < 3; i++) race(tau, eta, alphas[i], 0, STEPS, path[i]);
  FILE *plot = popen("if command -v gnuplot > /dev/null; then gnuplot; else cat > /dev/null; fi", "w");
  must(plot != NULL, "a pipe can be opened");
  fprintf(plot,
          "set terminal svg size 800,420 font 'DejaVu Sans,12' butt background 'white'\n"
          "set output 'square-root-of-gamma.svg'\nset encoding utf8\nset logscale y\nset border 3\nset tics "
          "nomirror out\n"
          "unset key\nset format y '%%g'\nset xrange [0:%d]\nset yrange [0.9:120]\nset rmargin 22\n"
          "set title 'One logit, three ways to share its clip'\nset xlabel 'step'\nset ylabel 'factor'\n",
          STEPS);
  const char *names[3][2] = {
    {"both, α = 1/2", ""}, {"query, α = 0.8", "key, α = 0.8"}, {"query, α = 1", "key, α = 1"}};
  const char *colours[3] = {"#0072B2", "#009E73", "#D55E00"};
  for (int i = 0; i < 3; i++)
    for (int side = 0; side < 2; side++)
      if (*names[i][side])
        fprintf(plot, "set label '%s' at %d,%g left offset 1,0 tc rgb '%s'\n", names[i][side], STEPS,
                path[i][STEPS - 1][side], colours[i]);
  fprintf(plot, "plot");
  for (int i = 0; i < 6; i++)
    fprintf(plot, "%s '-' with lines lw %g %s lc rgb '%s'", i ? "," : "", i < 2 ? 2.5 : 1.8,
            i % 2 ? "dt (8,5)" : "", colours[i / 2]);
  fprintf(plot, "\n");
  for (int i = 0; i < 6; i++) {
    for (int t = 0; t < STEPS; t += 8) fprintf(plot, "%d %g\n", t, path[i / 2][t][i % 2]);
    fprintf(plot, "e\n");
  }
  must(pclose(plot) == 0, "gnuplot draws");
  printf("\036mlc-svg square-root-of-gamma.svg\036\n");

  // %% nb:end
  return 0;
}
