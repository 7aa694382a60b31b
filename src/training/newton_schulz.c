/* newton_schulz.c - sets of coefficients for near-orthogonalization by an odd polynomial of the singular values
   X <- a X + b (X X^T) X + c (X X^T)^2 X, after division by the Frobenius norm: the operation newton_schulz */
#include "base/memory.h"
#include "training/optimizer.h"

/* Polar Express (arXiv 2505.16932, appendix): the listed polynomials are slowed by 1.01 for safety. */
#define SLOWED(a, b, c) \
  { \
    (a) / 1.01, (b) / (1.01 * 1.01 * 1.01), (c) / (1.01 * 1.01 * 1.01 * 1.01 * 1.01) \
  }
#define BY_1024(a, b, c) \
  { \
    (a) / 1024., (b) / 1024., (c) / 1024. \
  }
#define KELLER \
  { \
    3.4445, -4.7750, 2.0315 \
  }

/* Number of consecutive steps on the Gram matrix R = X X^T. Rounding shifts R's eigenvalues by its precision eps,
   whatever their size. So after steps of slope s at 0 (the product of a) the result has an error of s^2 eps. The
   standard iteration has s eps, s the slope of all its steps. The numbers here are the largest for which, on hostile
   matrices, all steps of a set lose at most three times as much as the standard iteration (check_optimizers.c:
   gram_is_as_exact). No set works without an intermediate product with X: the loss is 20 times larger, or total. */
const struct ns_set ns_sets[NS_SETS] = {
  [NS_KELLER] = {"Keller Jordan, Muon (2024)", 1, 5, {3, 2}, 1, {KELLER}},
  [NS_QUINTIC] = {"NVIDIA Emerging-Optimizers, quintic",
                  1,
                  5,
                  {2, 2},
                  5,
                  {{4.0848, -6.8946, 2.9270},
                   {3.9505, -6.3029, 2.6377},
                   {3.7418, -5.5913, 2.3037},
                   {2.8769, -3.1427, 1.2046},
                   {2.8366, -3.0525, 1.2012}}},
  [NS_TAYLOR] = {"the quintic of second-order contact at 1 (Bjorck and Bowie 1971)",
                 1,
                 10,
                 {5, 5},
                 1,
                 {{15. / 8, -5. / 4, 3. / 8}}},
  [NS_SU_FIXED] =
    {"Su Jianlin, kexue.fm/archives/10922, one polynomial", 1, 5, {3, 2}, 1, {{3.3748, -4.6969, 2.1433}}},
  [NS_SU] = {"Su Jianlin, kexue.fm/archives/10922, five polynomials",
             1,
             5,
             {2, 2},
             5,
             {{4.6182, -12.9582, 9.3299},
              {3.8496, -7.9585, 4.3052},
              {3.5204, -7.2918, 4.0606},
              {3.2067, -6.8243, 4.2802},
              {3.2978, -5.7848, 3.8917}}},
  [NS_YOUJIACHENG] = {"You Jiacheng, six polynomials",
                      1,
                      6,
                      {3, 2},
                      6,
                      {BY_1024(3955, -8306, 5008), BY_1024(3735, -6681, 3463), BY_1024(3799, -6499, 3211),
                       BY_1024(4019, -6385, 2906), BY_1024(2677, -3029, 1162), BY_1024(2172, -1833, 682)}},
  [NS_POLAR_EXPRESS] = {"arXiv 2505.16932",
                        1,
                        8,
                        {2, 3},
                        8,
                        {SLOWED(8.28721201814563, -23.595886519098837, 17.300387312530933),
                         SLOWED(4.107059111542203, -2.9478499167379106, 0.5448431082926601),
                         SLOWED(3.9486908534822946, -2.908902115962949, 0.5518191394370137),
                         SLOWED(3.3184196573706015, -2.488488024314874, 0.51004894012372),
                         SLOWED(2.300652019954817, -1.6689039845747493, 0.4188073119525673),
                         SLOWED(1.891301407787398, -1.26799582719459, 0.37680408948525),
                         SLOWED(1.875, -1.25, 0.375),
                         {1.875, -1.25, 0.375}}},
  [NS_POLAR_EXPRESS_5] = {"modded-nanogpt and nanochat: arXiv 2505.16932 for 5 steps",
                          1.02,
                          5,
                          {2, 2},
                          5,
                          {{8.156554524902461, -22.48329292557795, 15.878769915207462},
                           {4.042929935166739, -2.808917465908714, 0.5000178451051316},
                           {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
                           {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
                           {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}}},
  [NS_CANS] = {"NVIDIA Emerging-Optimizers, CANS (arXiv 2506.10935)",
               1,
               5,
               {2, 2},
               5,
               {{8.4703, -25.1081, 18.6293},
                {4.1828, -3.1087, .5806},
                {3.9619, -2.9541, .5630},
                {3.2866, -2.4647, .5074},
                {2.2737, -1.6447, .4162}}},
  [NS_CUBIC] = {"NVIDIA Emerging-Optimizers, five cubics (arXiv 2606.00371)",
                1,
                5,
                {2, 3},
                5,
                {{3.3656576, -3.3420992, 0},
                 {2.5744352, -1.4957376, 0},
                 {2.5368962, -1.4312570, 0},
                 {2.4418906, -1.2764040, 0},
                 {2.2230472, -0.9630650, 0}}},
  [NS_DEEPSEEK_V4] =
    {"arXiv 2606.19348: eight of keller, then two that settle at 1",
     1,
     10,
     {3, 2},
     10,
     {KELLER, KELLER, KELLER, KELLER, KELLER, KELLER, KELLER, KELLER, {2, -1.5, 0.5}, {2, -1.5, 0.5}}},
  [NS_AOL] =
    {"NVIDIA Emerging-Optimizers, AOL; with this normalization it turns the sign of a matrix near rank one",
     1,
     4,
     {2, 2},
     4,
     {{4.0098, -7.0585, 2.4635},
      {3.4585, -5.5479, 2.5959},
      {2.7573, -3.2939, 1.4254},
      {2.7215, -3.0494, 1.3169}}},
};

const char *const ns_names[] = {[NS_KELLER] = "keller",
                                [NS_QUINTIC] = "quintic",
                                [NS_TAYLOR] = "taylor",
                                [NS_SU_FIXED] = "su_fixed",
                                [NS_SU] = "su",
                                [NS_YOUJIACHENG] = "youjiacheng",
                                [NS_POLAR_EXPRESS] = "polar_express",
                                [NS_POLAR_EXPRESS_5] = "polar_express_5",
                                [NS_CANS] = "cans",
                                [NS_CUBIC] = "cubic",
                                [NS_DEEPSEEK_V4] = "deepseek_v4",
                                [NS_AOL] = "aol",
                                [NS_SVD] = "svd",
                                [NS_NONE] = "none",
                                NULL};

const struct ns_step *ns_step_at(const struct ns_set *set, int step)
{
  return &set->step[step < set->listed ? step : set->listed - 1];
}

double ns_value(const struct ns_set *set, long steps, double sigma)
{
  for (int i = 0; i < (steps ? steps : set->steps); i++) {
    const struct ns_step *p = ns_step_at(set, i);
    const double square = sigma * sigma;
    sigma *= p->a + square * (p->b + square * p->c);
  }
  return sigma;
}

struct ns_use ns_use_of(long coefficients, long steps, long heads_split)
{
  return (struct ns_use){coefficients < NS_SETS ? &ns_sets[coefficients] : NULL, steps, heads_split};
}

const char *const ns_iterations[] = {
  [NS_AUTO] = "auto", [NS_STANDARD] = "standard", [NS_GRAM] = "gram", NULL};

/* Does it pay to stay on the Gram matrix? A step of [m,n], m <= n, saves 3 m^2 n operations and costs 3 m^3, in
   calls that are smaller: measured, it pays from n = 1.25 m on where m is 64 or more, and not for the smallest. */
static int gram_pays(long m, long n) { return m >= 16 && 2 * n >= 3 * m; }

enum { LINE = 16 }; /* numbers of a cache line, on which each lane's work begins */

void newton_schulz_record(struct program *p, struct tensor *x, const long *place, long places, long rows,
                          long cols, const struct ns_set *set, enum ns_iteration iteration, long steps,
                          double eps, struct tensor *by, double scale)
{
  const struct device *device = program_device(p);
  const long m = rows < cols ? rows : cols, n = rows < cols ? cols : rows;
  /* coarser inputs of products lose more; the loss has not been measured */
  const int on_gram =
    iteration == NS_GRAM || (iteration == NS_AUTO && device->math == MATH_FP32 && gram_pays(m, n));
  const long first = on_gram ? set->gram.first : 1, then = on_gram ? set->gram.then : 1;
  /* a queue takes all matrices at once, the pool one per thread */
  long lanes = device->stream ? places : pool_threads(device->pool);
  double coefficients[3 * (sizeof set->step / sizeof *set->step)];
  int *at = memory_new((size_t)places, sizeof *at);
  for (int i = 0; i < set->listed; i++) {
    coefficients[3 * i] = set->step[i].a;
    coefficients[3 * i + 1] = set->step[i].b;
    coefficients[3 * i + 2] = set->step[i].c;
  }
  for (long i = 0; i < places; i++) at[i] = (int)place[i];
  const long squares = first > 1 || then > 1 ? 4 : 2;
  long room = (2 * rows * cols + squares * m * m + m + LINE) / LINE * LINE; /* at least one number after m */
  struct tensor *work = program_temporary(p, places < lanes ? places : lanes, room, "newton-schulz");
  PROGRAM_CALL(p, newton_schulz, .x = x, .work = work, .place = program_ints(p, 1, places, at, "places"),
               .coefficients = program_reals(p, set->listed, 3, coefficients, "coefficients"), .by = by,
               .rows = rows, .cols = cols, .steps = steps ? steps : set->steps, .first = first, .then = then,
               .norm_scale = set->norm_scale, .eps = eps, .scale = scale);
  memory_free(at);
}
