// %% [markdown]
// # Two matrices, one product, in one dimension
//
// A phase diagram asks under which optimizer, rate and decay logits explode. Its argument can be made with
// two numbers. Let a query factor $a$ and a key factor $b$ make the logit $p = a b$, and let the loss pull
// $p$ with a constant force: the gradient of $p$ is $-g$, $g > 0$, as for a head that gains by being sharper.
// By the chain rule
//
// $$ \frac{d L}{d a} = -g b, \quad \frac{d L}{d b} = -g a. $$
//
// What an optimizer does with these decides how $p$ grows: gradient descent moves by $\eta g b$, which grows
// with $p$; an optimizer whose steps have a size of their own (Adam's are about $\eta$ an entry, Muon's have
// every singular value at about $\eta$) moves by $\eta$, whatever $g$ is. With decoupled weight decay,
// $a \leftarrow a (1 - \eta \lambda) + \text{step}$.

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
// ## Steps of a size of their own: the logit grows like $t^2$, and decay sets its height
//
// $a_t = a_0 + \eta t$, and so $b$: $p$ grows like $(\eta t)^2$, whatever the force is, as long as its sign
// stays. With decay the fixed point of $a = a (1 - \eta \lambda) + \eta$ is $a = 1 / \lambda$:
//
// $$ p^* = \frac{1}{\lambda^2}, \quad \text{reached after about } \frac{1}{\eta \lambda} \text{ steps.} $$
//
// The height does *not* depend on the rate; the time to get there does. So at a given number of steps $T$
// there are two regimes in the plane of rate and decay, with the boundary $\eta \lambda T = 1$: below it
// $p = (\eta T)^2$, set by the rate; above it $p = 1 / \lambda^2$, set by the decay.

// %%
/* After `steps` of size eta with decay: both factors alike. */
static double sized(double eta, double lambda, long steps)
{
  double a = 1e-3;
  for (long t = 0; t < steps; t++) a = a * (1 - eta * lambda) + eta;
  return a * a;
}

/* a(t) of the same, in closed form, without a start. */
static double sized_formula(double eta, double lambda, double steps)
{
  double a = lambda > 0 ? (1 - pow(1 - eta * lambda, steps)) / lambda : eta * steps;
  return a * a;
}

// %% [markdown]
// ## Gradient steps: exponential growth, and decay as a threshold
//
// For gradient descent $a' = a + \eta g b$: with $a = b$ the factor grows by $1 + \eta (g - \lambda)$ a step.
// Decay is a threshold: $p$ explodes where the force is above $\lambda$ and dies where it is below. No height
// is set; something else must end it, such as a force that fades as the loss is fitted,
// $g = g_0 e^{-p / p_0}$: then $p$ settles where $g = \lambda$, at $p^* = p_0 \ln(g_0 / \lambda)$.

// %%
static double gradient(double eta, double lambda, double g0, double p0, long steps)
{
  double a = 0.1;
  for (long t = 0; t < steps && a < 1e6; t++) {
    double g = g0 * exp(-a * a / p0);
    a = a * (1 - eta * lambda) + eta * g * a;
  }
  return a * a;
}

// %% [markdown]
// ## Noise decides whose logits are higher
//
// A step of fixed size goes the way of the gradient's sign. If the sign of a factor's gradient is right with
// probability $(1 + s) / 2$, its mean step is $s \eta$: alignment $s$ multiplies the rate, $p = (s \eta T)^2$
// below the boundary and $(s / \lambda)^2$ above it. Now compare two optimizers of steps $\eta_1, \eta_2$ and
// alignments $s_1, s_2$. At equal step size the one with the more persistent sign has the higher logits, by
// $(s_1 / s_2)^2$, in *both* regimes; matching step sizes (update RMS) does not make logits equal. A phase
// diagram's boundary "where one passes the other" is where
//
// $$ s_1 \eta_1 = s_2 \eta_2 \text{ below the line } \eta \lambda T = 1, \quad
//    \frac{s_1}{\lambda_1} = \frac{s_2}{\lambda_2} \text{ above it.} $$

// %%
static unsigned long long state = 1;
static double uniform(void)
{
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(state >> 11) * 0x1p-53;
}

static double noisy(double eta, double lambda, double alignment, long steps)
{
  double a = 0, b = 0;
  for (long t = 0; t < steps; t++) {
    double up = uniform() < (1 + alignment) / 2 ? 1 : -1, vp = uniform() < (1 + alignment) / 2 ? 1 : -1;
    a = a * (1 - eta * lambda) + eta * up;
    b = b * (1 - eta * lambda) + eta * vp;
  }
  return a * b;
}

// %% nb:main
int main(void)
{
  enum { SIDE = 25 };
  static double map[SIDE][SIDE];

  // %% [markdown]
  // ### The two regimes

  // %%
  const long steps = 1000;
  printf("   rate  decay   rate*decay*T        p   closed form    (rate T)^2   1/decay^2\n");
  const double cases[6][2] = {{0.003, 0.01}, {0.03, 0.003}, {0.03, 0.01}, {0.03, 0.3}, {0.1, 0.3}, {0.1, 1}};
  for (int i = 0; i < 6; i++) {
    double eta = cases[i][0], lambda = cases[i][1], p = sized(eta, lambda, steps);
    double formula = sized_formula(eta, lambda, (double)steps);
    printf("%7g %6g %14.3g %10.4g %13.4g %13.4g %11.4g\n", eta, lambda, eta * lambda * (double)steps, p,
           formula, pow(eta * (double)steps, 2), 1 / (lambda * lambda));
    must(fabs(p / formula - 1) < 0.01, "the closed form");
    if (eta * lambda * (double)steps > 5)
      must(fabs(p * lambda * lambda - 1) < 0.02, "above the boundary: 1 / decay^2");
    if (eta * lambda * (double)steps < 0.05)
      must(p / pow(eta * (double)steps, 2) > 0.94, "below: (rate T)^2");
  }

  // %% [markdown]
  // ### Gradient steps: a threshold, and a height that the force sets

  // %%
  double lively = gradient(0.01, 0.1, 1, 10, 20000), dead = gradient(0.01, 1.2, 1, 10, 20000);
  printf("\nforce 1, decay 0.1: p = %.4f, 10 ln 10 = %.4f; decay 1.2: p = %.2g\n", lively, 10 * log(10),
         dead);
  must(fabs(lively - 10 * log(10)) < 1e-3, "p settles where force and decay are equal");
  must(dead < 1e-6, "below the threshold the product dies");
  double again = gradient(0.02, 0.1, 1, 10, 20000);
  must(fabs(again / lively - 1) < 1e-3, "its height does not depend on the rate either");

  // %% [markdown]
  // ### Alignment counts twice

  // %%
  printf("\nalignment   p, mean of 200 runs   s^2 times the p of sure signs   (rate 0.01, decay 0.1, 3000 "
         "steps)\n");
  for (int i = 0; i < 3; i++) {
    double s[] = {0.2, 0.5, 0.9}, sum = 0, sure = sized_formula(0.01, 0.1, 3000);
    for (int run = 0; run < 200; run++) sum += noisy(0.01, 0.1, s[i], 3000);
    printf("%9.1f %21.3f %31.3f\n", s[i], sum / 200, s[i] * s[i] * sure);
    must(fabs(sum / 200 / (s[i] * s[i] * sure) - 1) < 0.05,
         "the logit goes with the square of the alignment");
  }

  // %% [markdown]
  // ### The phase diagram
  //
  // Colour: the product after 1000 steps of a size of their own; the white line is $\eta \lambda T = 1$.
  // Below it the colours change with the rate alone, above it with the decay alone.

  // %%
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++)
      map[i][j] = sized(pow(10, -3 + 2.0 * j / (SIDE - 1)), pow(10, -3 + 3.0 * i / (SIDE - 1)), steps);
  FILE *plot = popen("if command -v gnuplot > /dev/null; then gnuplot; else cat > /dev/null; fi", "w");
  must(plot != NULL, "a pipe can be opened");
  fprintf(
    plot,
    "set terminal svg size 720,480 font 'DejaVu Sans,12' butt background 'white'\n"
    "set output 'phases.svg'\nset encoding utf8\nset border 15\nset tics nomirror out\nunset key\n"
    "set palette defined (0 '#440154', 1 '#482777', 2 '#3f4a8a', 3 '#31678e', 4 '#26838f', 5 '#1f9d8a', "
    "6 '#6cce5a', 7 '#b6de2b', 8 '#fee825')\n"
    "set logscale cb\nset format cb '10^{%%L}'\nset cblabel 'product after 1000 steps' offset 1.6,0\n"
    "set title 'Two factors, steps of fixed size, decay'\nset xlabel 'rate'\nset ylabel 'decay'\n"
    "set xrange [-3.04:-0.96]\nset yrange [-3.06:0.06]\n"
    "set xtics ('0.001' -3, '0.01' -2, '0.1' -1)\nset ytics ('0.001' -3, '0.01' -2, '0.1' -1, '1' 0)\n"
    "set label 'height set by the decay' at -1.55,-0.55 center tc rgb 'white' front\n"
    "set label 'height set by the rate' at -2.4,-2.3 center tc rgb 'white' front\n"
    "plot '-' with image, '-' with lines lw 2 lc rgb 'white'\n");
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++)
      fprintf(plot, "%g %g %g\n", -3 + 2.0 * j / (SIDE - 1), -3 + 3.0 * i / (SIDE - 1), map[i][j]);
  fprintf(plot, "e\n-3 0\n-1 -2\ne\n");
  must(pclose(plot) == 0, "gnuplot draws");
  printf("\036mlc-svg phases.svg\036\n");

  // %% nb:end
  return 0;
}
