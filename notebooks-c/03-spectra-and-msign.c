// %% [markdown]
// # Spectra: entropy, stable rank, and what msign does to them
//
// Muon does not take the gradient's momentum $M = U \operatorname{diag}(\sigma) V^\top$ as a step, but
// something close to its *polar factor* $\operatorname{msign}(M) = U V^\top$: the same singular vectors,
// every singular value 1 (Keller Jordan's Muon, 2024; Moonlight, arXiv 2502.16982). This notebook says what
// that does to the numbers by which a spectrum is told, and how near the iterations in use come to it. With
// $p_i = \sigma_i^2 / \sum_j \sigma_j^2$, $i = 1 \dots n$, these are the SVD entropy (arXiv 2502.16982,
// section 3.4) and the stable rank:
//
// $$ H = -\frac{1}{\ln n} \sum_i p_i \ln p_i \in [0, 1], \quad
//    \frac{\|W\|_F^2}{\|W\|_2^2} = \frac{1}{p_1} \in [1, n]. $$
//
// They are 1 and $n$ exactly where all singular values are equal. The two are not the same question: the
// entropy asks how many directions there are, the stable rank how much the first one outweighs the rest.

// %%
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "maxlogit.h"
#include "numerics/linalg.h"
#include "numerics/svd.h"
#include "training/optimizer.h"

enum { ROWS = 24, COLS = 40, GRID = 300 };

static void must(int ok, const char *what)
{
  if (ok) return;
  printf("does not hold: %s\n", what);
  exit(1);
}

// %% [markdown]
// ## Newton-Schulz: a polynomial of the singular values
//
// An odd polynomial acts on a matrix through its singular values alone: with
// $X = U \operatorname{diag}(s) V^\top$
//
// $$ a X + b (X X^\top) X + c (X X^\top)^2 X = U \operatorname{diag}(f(s)) V^\top, \quad
//    f(s) = a s + b s^3 + c s^5. $$
//
// So a few products, and no decomposition, apply $f$ again and again. $X$ starts as $M$ divided by its
// Frobenius norm, so that every $s$ lies in $[0, 1]$; then $f$ is to take all of them to 1. What each set of
// coefficients really does is a curve: the composition $f(f(\dots f(s)))$ over $s$.

// %%
static double mapped(const struct ns_set *set, double s)
{
  for (int i = 0; i < set->steps; i++) {
    const struct ns_step *k = ns_step_at(set, i);
    s = k->a * s + k->b * pow(s, 3) + k->c * pow(s, 5);
  }
  return s;
}

/* The same on a matrix, by plain loops: x <- a x + (b g + c g g) x with g = x x^T. */
static void newton_schulz(const struct ns_set *set, double (*x)[COLS])
{
  static double g[ROWS][ROWS], h[ROWS][ROWS], y[ROWS][COLS];
  double norm = 0;
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLS; j++) norm += x[i][j] * x[i][j];
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLS; j++) x[i][j] /= sqrt(norm) * set->norm_scale;
  for (int step = 0; step < set->steps; step++) {
    const struct ns_step *k = ns_step_at(set, step);
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < ROWS; j++) {
        g[i][j] = 0;
        for (int l = 0; l < COLS; l++) g[i][j] += x[i][l] * x[j][l];
      }
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < ROWS; j++) {
        double sum = 0;
        for (int l = 0; l < ROWS; l++) sum += g[i][l] * g[l][j];
        h[i][j] = k->b * g[i][j] + k->c * sum;
      }
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < COLS; j++) {
        double sum = k->a * x[i][j];
        for (int l = 0; l < ROWS; l++) sum += h[i][l] * x[l][j];
        y[i][j] = sum;
      }
    memcpy(x, y, sizeof y);
  }
}

// %% [markdown]
// ## A matrix with a spectrum as gradients have
//
// Random directions, singular values falling like $1 / i$: few large, many small.

// %%
static unsigned long long state = 7;
static double normal(void)
{
  double sum = -6;
  for (int i = 0; i < 12; i++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    sum += (double)(state >> 11) * 0x1p-53;
  }
  return sum;
}

static void singular_of(double (*x)[COLS], double *sigma, struct spectrum *s)
{
  static real w[ROWS * COLS];
  struct error e = {0};
  struct spectra *work = spectra_new(ROWS, COLS);
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLS; j++) w[i * COLS + j] = (real)x[i][j];
  must(singular_values(work, w, ROWS, COLS, COLS, sigma, NULL, NULL, &e) == 0, e.text);
  spectrum_from(sigma, ROWS, s);
  spectra_free(work);
}

static void make_matrix(double (*x)[COLS])
{
  static real w[ROWS * COLS], out[ROWS * COLS];
  static double u[ROWS * ROWS], sigma[ROWS], v[COLS * ROWS];
  struct error e = {0};
  for (int i = 0; i < ROWS * COLS; i++) w[i] = (real)normal();
  must(svd_factors(w, ROWS, COLS, COLS, u, sigma, v, &e) == 0, e.text);
  for (int i = 0; i < ROWS; i++) sigma[i] = 1.0 / (i + 1);
  svd_product(u, sigma, v, ROWS, COLS, out, COLS);
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLS; j++) x[i][j] = (double)out[i * COLS + j];
}

// %% nb:main
int main(void)
{
  // %% [markdown]
  // ### A falling spectrum: few directions, however many there are
  //
  // For $\sigma_i = 1 / i$ the stable rank is $\sum 1 / i^2$, which never passes $\pi^2 / 6 = 1.645$, however
  // large the matrix.

  // %%
  static double m[ROWS][COLS], x[ROWS][COLS], before[ROWS], after[ROWS];
  struct spectrum s, t;
  double harmonic = 0;
  for (int i = 1; i <= ROWS; i++) harmonic += 1.0 / (i * i);
  make_matrix(m);
  singular_of(m, before, &s);
  printf("sigma_i = 1/i, n = %d: entropy %.4f, stable rank %.4f (sum of 1/i^2: %.4f; pi^2/6: %.4f)\n", ROWS,
         s.svd_entropy, s.stable_rank, harmonic, M_PI * M_PI / 6);
  must(fabs(s.stable_rank - harmonic) < 1e-5 && harmonic < M_PI * M_PI / 6,
       "the stable rank is the sum of 1 / i^2");

  // %% [markdown]
  // ### What each iteration makes of it
  //
  // The matrix version has to have the singular values that the scalar map gives,
  // $s_i = f(\sigma_i / \|M\|_F)$: we compare all of them. Jordan's coefficients do not converge to 1; they
  // bring everything above about 0.01 into $[0.68, 1.14]$ in five steps, which is what they are made for. The
  // quintic of second-order contact (Bjorck and Bowie 1971) converges, but lifts small singular values by
  // 15/8 a step only.

  // %%
  const int which[4] = {NS_KELLER, NS_QUINTIC, NS_TAYLOR, NS_POLAR_EXPRESS};
  printf("\niteration         steps   entropy   stable rank   smallest   largest   |matrix - scalar map|\n");
  for (int i = 0; i < 4; i++) {
    const struct ns_set *set = &ns_sets[which[i]];
    double worst = 0, least = INFINITY, most = 0;
    memcpy(x, m, sizeof m);
    newton_schulz(set, x);
    singular_of(x, after, &t);
    for (int k = 0; k < ROWS; k++) {
      double wanted = fabs(mapped(set, before[k] / s.frobenius_norm / set->norm_scale)), nearest = INFINITY;
      for (int l = 0; l < ROWS; l++)
        nearest = fmin(nearest, fabs(after[l] - wanted)); /* f may change their order */
      worst = fmax(worst, nearest);
      least = fmin(least, wanted);
      most = fmax(most, wanted);
    }
    printf("%-16s %6d %9.4f %13.2f %10.4f %9.4f %23.1e\n", ns_names[which[i]], set->steps, t.svd_entropy,
           t.stable_rank, least, most, worst);
    must(worst < 1e-4, "the matrix has the singular values of the scalar map");
    must(t.svd_entropy > 0.97 && t.svd_entropy > s.svd_entropy, "the step has nearly all directions");
    must(t.stable_rank > 0.5 * ROWS, "none of them outweighs the rest");
  }
  singular_of(m, before, &s);
  printf("%-16s %6s %9.4f %13.2f   (all singular values 1)\n", "msign", "", 1.0, (double)ROWS);

  // %% [markdown]
  // ### Where the maps end
  //
  // Five steps of Jordan's map at $s = 1$, 0.1, 0.01 and 0.001. A singular value below about a thousandth of
  // the Frobenius norm is lifted but does not arrive: in a wide matrix most of a noisy gradient's directions
  // may lie there.

  // %%
  const double at[4] = {1, 0.1, 0.01, 0.001}, known[4] = {0.6964, 0.7121, 0.6989, 0.4705};
  printf("\n      s   after five steps of Jordan's map\n");
  for (int i = 0; i < 4; i++) {
    double y = mapped(&ns_sets[NS_KELLER], at[i]);
    printf("%7g %12.4f\n", at[i], y);
    must(fabs(y - known[i]) < 5e-5, "the values of the published coefficients");
  }
  double slope = ns_step_at(&ns_sets[NS_KELLER], 0)->a;
  must(fabs(mapped(&ns_sets[NS_KELLER], 1e-7) / 1e-7 / pow(slope, 5) - 1) < 1e-6,
       "small values grow by a a step");
  must(fabs(mapped(&ns_sets[NS_TAYLOR], 0.3) - 1) < 1e-6,
       "the quintic of second-order contact converges to 1");

  // %% [markdown]
  // ### The size of a step
  //
  // The polar factor has $\|W\|_F = \sqrt{n}$, so its root mean square is
  //
  // $$ \sqrt{\frac{n}{\text{rows} \cdot \text{cols}}} = \frac{1}{\sqrt{\max(\text{rows}, \text{cols})}}: $$
  //
  // the reason for the factor $0.2 \sqrt{\max(\text{rows}, \text{cols})}$ that makes it 0.2, as Adam's (arXiv
  // 2502.16982, section 2.2).

  // %%
  double rms = sqrt((double)ROWS / (ROWS * COLS));
  printf("\nroot mean square of msign: %.5f = 1 / sqrt(%d); times 0.2 sqrt(%d): %.3f\n", rms, COLS, COLS,
         rms * 0.2 * sqrt(COLS));
  must(fabs(rms * 0.2 * sqrt(COLS) - 0.2) < 1e-12, "the update's root mean square is 0.2");

  // %% [markdown]
  // ### The picture

  // %%
  FILE *plot = popen("if command -v gnuplot > /dev/null; then gnuplot; else cat > /dev/null; fi", "w");
  must(plot != NULL, "a pipe can be opened");
  fprintf(
    plot,
    "set terminal svg size 820,420 font 'DejaVu Sans,12' butt background 'white'\n"
    "set output 'newton-schulz.svg'\nset encoding utf8\nset logscale x\nset border 3\nset tics nomirror out\n"
    "set key right bottom reverse Left samplen 2 spacing 1.2\nset format x '10^{%%L}'\nset xrange [1e-4:1]\n"
    "set yrange [0:1.3]\nset title 'What the iterations make of a singular value'\n"
    "set xlabel 'singular value over the Frobenius norm'\nset ylabel 'afterwards'\n"
    "plot 1 with lines lw 1 dt (8,6) lc rgb '#888888' title 'msign'");
  const char *colours[4] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7"};
  const char *titles[4] = {"Jordan, 5 steps", "quintic, 5 steps", "second-order contact, 10 steps",
                           "Polar Express, 8 steps"};
  for (int i = 0; i < 4; i++)
    fprintf(plot, ", '-' with lines lw 2 lc rgb '%s' title '%s'", colours[i], titles[i]);
  fprintf(plot, "\n");
  for (int i = 0; i < 4; i++) {
    for (int k = 0; k <= GRID; k++) {
      double sigma = pow(10, -4 + 4.0 * k / GRID);
      fprintf(plot, "%g %g\n", sigma, mapped(&ns_sets[which[i]], sigma / ns_sets[which[i]].norm_scale));
    }
    fprintf(plot, "e\n");
  }
  must(pclose(plot) == 0, "gnuplot draws");
  printf("\036mlc-svg newton-schulz.svg\036\n");

  // %% nb:end
  return 0;
}
