// %% [markdown]
// # MLA's parts, the absorbed form, and who may take the clip
//
// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434) keeps one small latent $c \in \mathbb{R}^R$ and
// one rotary key $r \in \mathbb{R}^{D_r}$ a position, shared by all heads. A head's query and key have two
// parts each:
//
// $$ q = \begin{bmatrix} W_{qc} x \\ \operatorname{rot}(W_{qr} x) \end{bmatrix}, \quad
//    k = \begin{bmatrix} W_{kc} c \\ \operatorname{rot}(r) \end{bmatrix}, \quad
//    \text{logit} = \frac{q_c \cdot k_c + q_r \cdot k_r}{\sqrt{D_n + D_r}} $$
//
// with $W_{qc}$, $W_{kc}$ and $W_{qr}$ of the head, and $r = w_{kr} x$ of all heads. Two things follow from
// where the sharing is:
//
// 1. **The absorbed form.** $q_c \cdot k_c = (W_{kc}^\top W_{qc} x) \cdot c$: the key's matrix goes to the
//    query's side, and a decoder needs no keys, only $c$ and $r$.
// 2. **The clip.** QK-Clip multiplies a head's logits by $\gamma$. The content part is a product of two
//    factors of the head's own, $\sqrt{\gamma}$ each. The rotary part has one factor of the head's own,
//    $W_{qr}$, which takes all of $\gamma$: $r$ belongs to the others, too (Kimi K2, arXiv 2507.20534,
//    algorithm 1).

// %%
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "maxlogit.h"

enum { H = 4, D = 32, R = 12, DN = 8, DR = 4, T = 24 };

static void must(int ok, const char *what)
{
  if (ok) return;
  printf("does not hold: %s\n", what);
  exit(1);
}

static unsigned long long state = 3;
static double normal(void)
{
  double sum = -6;
  for (int i = 0; i < 12; i++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    sum += (double)(state >> 11) * 0x1p-53;
  }
  return sum;
}

// %% [markdown]
// ## The layer, by its formulas

// %%
struct mla {
  double qc[H][DN][D], qr[H][DR][D], dkv[R][D], kc[H][DN][R], kr[DR][D];
};

static void fill(double *w, int count, double size)
{
  for (int i = 0; i < count; i++) w[i] = size * normal();
}

static void make(struct mla *m)
{
  fill(&m->qc[0][0][0], H * DN * D, 1 / sqrt(D));
  fill(&m->qr[0][0][0], H * DR * D, 1 / sqrt(D));
  fill(&m->dkv[0][0], R * D, 1 / sqrt(D));
  fill(&m->kc[0][0][0], H * DN * R, 1 / sqrt(R));
  fill(&m->kr[0][0], DR * D, 1 / sqrt(D));
}

static void product(const double *w, int rows, int cols, const double *x, double *y)
{
  for (int i = 0; i < rows; i++) {
    y[i] = 0;
    for (int j = 0; j < cols; j++) y[i] += w[i * cols + j] * x[j];
  }
}

static double dot(const double *a, const double *b, int n)
{
  double sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

/* Pairs (i, i + DR/2) turn by position * base^(-2 i / DR). */
static void rotate(double *x, int position)
{
  for (int i = 0; i < DR / 2; i++) {
    double angle = position * pow(10000, -2.0 * i / DR), a = x[i], b = x[i + DR / 2];
    x[i] = a * cos(angle) - b * sin(angle);
    x[i + DR / 2] = a * sin(angle) + b * cos(angle);
  }
}

/* logit[head][query][key] of a sequence, causal; `absorbed`: from the latent and the rotary key alone. */
static void logits(const struct mla *m, double (*x)[D], int absorbed, double (*out)[T][T])
{
  double c[T][R], r[T][DR];
  for (int t = 0; t < T; t++) {
    product(&m->dkv[0][0], R, D, x[t], c[t]);
    product(&m->kr[0][0], DR, D, x[t], r[t]);
    rotate(r[t], t);
  }
  for (int h = 0; h < H; h++)
    for (int i = 0; i < T; i++) {
      double qc[DN], qr[DR], q[R];
      product(&m->qc[h][0][0], DN, D, x[i], qc);
      product(&m->qr[h][0][0], DR, D, x[i], qr);
      rotate(qr, i);
      for (int l = 0; l < R; l++) {
        q[l] = 0; /* W_kc^T q_c */
        for (int k = 0; k < DN; k++) q[l] += m->kc[h][k][l] * qc[k];
      }
      for (int j = 0; j <= i; j++) {
        double kc[DN];
        product(&m->kc[h][0][0], DN, R, c[j], kc);
        double content = absorbed ? dot(q, c[j], R) : dot(qc, kc, DN);
        out[h][i][j] = (content + dot(qr, r[j], DR)) / sqrt(DN + DR);
      }
    }
}

// %% [markdown]
// ## Three ways to share a clip
//
// Of head $h$ alone, by $\gamma$: as the roles say; with $\sqrt{\gamma}$ on the shared rotary key, as if it
// were the head's own; or on the content part alone, which leaves the rotary part as it was.

// %%
enum rule { BY_ROLE, SHARED_TOO, CONTENT_ALONE, RULES };
static const char *const rules[RULES] = {"by role", "rotary key too", "content alone"};

static void scale(double *w, int count, double by)
{
  for (int i = 0; i < count; i++) w[i] *= by;
}

static void clip(struct mla *m, int h, double gamma, enum rule rule)
{
  scale(&m->qc[h][0][0], DN * D, sqrt(gamma));
  scale(&m->kc[h][0][0], DN * R, sqrt(gamma));
  if (rule == BY_ROLE) scale(&m->qr[h][0][0], DR * D, gamma);
  if (rule == SHARED_TOO) {
    scale(&m->qr[h][0][0], DR * D, sqrt(gamma));
    scale(&m->kr[0][0], DR * D, sqrt(gamma));
  }
}

static double largest(double (*s)[T])
{
  double most = -INFINITY;
  for (int i = 0; i < T; i++)
    for (int j = 0; j <= i; j++) most = fmax(most, s[i][j]);
  return most;
}

// %% nb:main
int main(void)
{
  static struct mla m, n;
  static double x[T][D], plain[H][T][T], other[H][T][T], change[RULES][H];
  make(&m);
  fill(&x[0][0], T * D, 1);
  scale(&m.qc[2][0][0], DN * D, 6); /* head 2 has exploded */
  scale(&m.qr[2][0][0], DR * D, 6);

  // %% [markdown]
  // ### The absorbed form gives the same logits

  // %%
  double worst = 0;
  logits(&m, x, 0, plain);
  logits(&m, x, 1, other);
  for (int h = 0; h < H; h++)
    for (int i = 0; i < T; i++)
      for (int j = 0; j <= i; j++) worst = fmax(worst, fabs(plain[h][i][j] - other[h][i][j]));
  printf("largest difference of a logit: %.1e\n", worst);
  printf("numbers a position: %d for keys and values of their own, %d for latent and rotary key\n",
         H * (DN + DR + DN), R + DR);
  must(worst < 1e-12, "the absorbed form is the same");

  // %% [markdown]
  // ### Only by role are the head's logits scaled, and nobody else's
  //
  // $\gamma = \tau / S$ for $\tau$ half of the head's max logit: what is left of each head's max logit
  // afterwards.

  // %%
  const double gamma = 0.5;
  printf("\nmax logit after the clip of head 2 over that before\n%-16s", "");
  for (int h = 0; h < H; h++) printf("   head %d", h);
  printf("\n");
  for (int rule = 0; rule < RULES; rule++) {
    n = m;
    clip(&n, 2, gamma, (enum rule)rule);
    logits(&n, x, 0, other);
    printf("%-16s", rules[rule]);
    for (int h = 0; h < H; h++) {
      change[rule][h] = largest(other[h]) / largest(plain[h]);
      printf(" %8.4f", change[rule][h]);
    }
    printf("\n");
    double off = 0, own = 0;
    for (int h = 0; h < H; h++)
      for (int i = 0; i < T; i++)
        for (int j = 0; j <= i; j++) {
          double d = fabs(other[h][i][j] - (h == 2 ? gamma : 1) * plain[h][i][j]);
          *(h == 2 ? &own : &off) = fmax(h == 2 ? own : off, d);
        }
    must(rule != BY_ROLE || (own < 1e-12 && off == 0),
         "by role: exactly gamma, and no other head is touched");
    must(rule != SHARED_TOO || (own < 1e-12 && off > 0.01),
         "with the shared key the other heads are changed");
    must(rule != CONTENT_ALONE || (own > 0.1 && off == 0),
         "without the rotary part the logits are not scaled by gamma");
  }

  // %% [markdown]
  // ### The program's own
  //
  // A small stack with MLA under Muon and QK-Clip, trained for some steps; then the same text token by token
  // through a cache of latents and rotary keys. The losses are those of the training form as far as rounding
  // goes: the largest difference against what one rounding of every weight does.

  // %%
  const char *settings[] = {
    "model.attention=mla", "model.layers=2",   "model.width=32",         "model.heads=4",
    "model.head_dim=8",    "model.rope_dim=4", "model.kv_rank=12",       "model.context=24",
    "train.batch=2",       "train.steps=20",   "train.val_every=0",      "train.val_batches=2",
    "preset=muonclip",     "qk_clip.tau=5",    "record.spectra_every=0", "device.threads=1"};
  struct config *config = config_new();
  struct trainer *t = NULL;
  struct decode_result d;
  struct error e = {0};
  int ok = 1;
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    ok = ok && config_assign(config, settings[i], &e) == 0;
  must(ok && config_finish(config, &e) == 0 && trainer_init(&t, config, TRAINER_NO_RECORD, &e) == 0, e.text);
  while (trainer_more(t)) must(trainer_step(t, &e) == 0, e.text);
  must(trainer_decode(t, DECODE_ABSORBED, 1, &d, &e) == 0, e.text);
  printf("\n%ld tokens: loss %.6f in the training form, %.6f decoded; largest difference %.1e, one rounding "
         "of the weights "
         "%.1e\n",
         d.tokens, d.training_loss, d.decoded_loss, d.difference, d.rounding);
  must(d.difference < 1e-3, "the absorbed decoder computes the training form");
  must(trainer_done(t, &e) == 0, e.text);
  config_free(config);

  // %% [markdown]
  // ### The picture

  // %%
  FILE *plot = popen("if command -v gnuplot > /dev/null; then gnuplot; else cat > /dev/null; fi", "w");
  must(plot != NULL, "a pipe can be opened");
  fprintf(
    plot,
    "set terminal svg size 760,400 font 'DejaVu Sans,12' butt background 'white'\n"
    "set output 'mla-clip.svg'\nset encoding utf8\nset border 3\nset tics nomirror out\nset xtics scale 0\n"
    "set key outside right top samplen 1.5 spacing 1.2\nset style data histograms\n"
    "set style histogram clustered gap 1.2\nset style fill solid 0.9 noborder\nset yrange [0:1.15]\n"
    "set title 'A clip of head 2 by one half: what is left of each head'\n"
    "set ylabel 'max logit after over before'\nset arrow from -0.6,0.5 to 3.6,0.5 nohead dt (8,6) lc rgb "
    "'#888888'\n"
    "plot '-' using 2:xtic(1) lc rgb '#0072B2' title '%s', '-' using 2 lc rgb '#D55E00' title '%s', "
    "'-' using 2 lc rgb '#009E73' title '%s'\n",
    rules[0], rules[1], rules[2]);
  for (int rule = 0; rule < RULES; rule++) {
    for (int h = 0; h < H; h++) fprintf(plot, "\"head %d\" %g\n", h, change[rule][h]);
    fprintf(plot, "e\n");
  }
  must(pclose(plot) == 0, "gnuplot draws");
  printf("\036mlc-svg mla-clip.svg\036\n");

  // %% nb:end
  return 0;
}
