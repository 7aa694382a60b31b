/* check_base.c - the ground floor: random numbers, text, options, memory, files, locks */
#include <check.h>
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/apart.h"
#include "base/clock.h"
#include "base/elementary.h"
#include "base/error.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/markup.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/option.h"
#include "base/platform.h"
#include "base/random.h"
#include "base/status_line.h"
#include "base/text.h"
#include "base/error_export.h"
#include "../folder.h"

/* --- child processes ------------------------------------------------------------------------------------ */

/* What a child process returns: its exit status, or -signal. What it tells, on standard output and error in the order
   in which it comes, is in `told`. */
static int heard_of_child(void (*work)(const void *), const void *context, char *told, size_t room)
{
  int ends[2], status;
  size_t length = 0;
  ck_assert_int_eq(pipe(ends), 0);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    if (dup2(ends[1], 1) != 1 || dup2(ends[1], 2) != 2) _exit(99);
    close(ends[0]), close(ends[1]);
    signal(SIGINT, SIG_DFL), signal(SIGTERM, SIG_DFL); /* not Check's */
    work(context);
    _exit(0);
  }
  close(ends[1]);
  for (ssize_t n = 1; n > 0; length += n > 0 ? (size_t)n : 0)
    n = read(ends[0], told + length, room - 1 - length);
  told[length] = 0;
  close(ends[0]);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int in_child(void (*work)(const void *), const void *context)
{
  char told[20000];
  return heard_of_child(work, context, told, sizeof told);
}

/* --- elementary functions ------------------------------------------------------------------------------- */

/* |got - exact| in units of exact's last place; `exact` by the C library in long double. */
static double units_off(double got, long double exact)
{
  int e;
  frexpl(exact, &e);
  return (double)(fabsl((long double)got - exact) / ldexpl(1, e - 53));
}

START_TEST(elementary_functions)
{
  const struct draw d = {.seed = 3, .stream = STREAM_TEST};
  double off[4] = {0}, turn = 0;
#define WORSE(i, got, exact) off[i] = fmax(off[i], units_off(got, exact))
  for (uint64_t i = 0; i < 200000; i++) {
    const double u = draw_uniform(d, 2 * i) - 0.5, v = draw_uniform(d, 2 * i + 1) - 0.5;
    const double x = u * (i % 2 ? 1400 : 2), y = i % 2 ? same_exp(1400 * v) : 1 + v, p = 20 * v;
    const double bound = 2 + fabs(p * (double)logl((long double)(1 + u)));
    WORSE(0, same_exp(x), expl((long double)x));
    WORSE(1, same_log(y), logl((long double)y));
    WORSE(2, same_tanh(x / 50), tanhl((long double)x / 50));
    off[3] = fmax(off[3], units_off(same_pow(1 + u, p), powl(1 + (long double)u, (long double)p)) / bound);
    double cosine, sine;
    const double t = floor(u * 0x1p32) * 0x1p-32 + (i % 3 ? 0 : 1000); /* whole turns change nothing */
    const long double angle = 6.283185307179586476925286766559005768L * (long double)(t - floor(t + 0.5));
    same_turn(t, &cosine, &sine);
    turn = fmax(
      turn, (double)fmaxl(fabsl((long double)cosine - cosl(angle)), fabsl((long double)sine - sinl(angle))));
  }
#undef WORSE
  volatile long double one =
    1; /* where its sums are those of a double (valgrind's are), a unit may be exact's own */
  const double own = one + 0x1p-60L == one;
  ck_assert_msg(off[0] < 1.6 + own && off[1] < 1.5 + own && off[2] < 2.5 + own && off[3] < 1.5 + own &&
                  turn < 0x1p-52 * (1 + 2 * own),
                "off by %g (exp), %g (log), %g (tanh), %g (pow) units, %g (turn)", off[0], off[1], off[2],
                off[3], turn);
}
END_TEST

START_TEST(elementary_edges)
{
  double cosine, sine;
  ck_assert(same_exp(0) == 1 && same_exp(-INFINITY) == 0 && same_exp(INFINITY) == INFINITY &&
            isnan(same_exp(NAN)));
  ck_assert(same_exp(-800) == 0 && same_exp(720) == INFINITY && same_exp(-745) == 0x1p-1074);
  ck_assert(same_log(1) == 0 && same_log(0) == -INFINITY && same_log(INFINITY) == INFINITY);
  ck_assert(isnan(same_log(-1)) && isnan(same_log(NAN)) && fabs(same_log(0x1p-1074) + 1074 * M_LN2) < 1e-12);
  ck_assert(same_pow(3, 0) == 1 && same_pow(3, 1) == 3 && same_pow(2, 0.5) == M_SQRT2 && same_pow(0, 2) == 0);
  ck_assert(same_pow(0, -1) == INFINITY && isnan(same_pow(-2, 0.3)) && isnan(same_pow(NAN, 2)));
  for (int y = -9; y < 10; y++) /* its sign is that of repeated multiplication */
    for (double x = -2; x <= 2; x += 4) ck_assert_double_eq_tol(same_pow(x, y) / pow(x, y), 1, 1e-14);
  ck_assert(same_tanh(INFINITY) == 1 && same_tanh(-INFINITY) == -1 && isnan(same_tanh(NAN)));
  ck_assert(same_tanh(1e-300) == 1e-300 && same_tanh(-30) == -1);
  for (int quarter = -5; quarter < 6; quarter++) { /* exact at whole quarters */
    same_turn(0.25 * quarter, &cosine, &sine);
    ck_assert(cosine == (quarter % 2 ? 0 : quarter % 4 ? -1 : 1));
    ck_assert(sine == (quarter % 2 == 0 ? 0 : (quarter + 8) % 4 == 1 ? 1 : -1));
  }
}
END_TEST

/* The bits themselves, which every processor is promised: near and far, around each place where a function changes its
   way. (FNV-1a of the values; a NaN counts as a NaN.) */
static uint64_t hashed(uint64_t hash, double x)
{
  uint64_t bits = 0x7ff8000000000000;
  if (!isnan(x)) memcpy(&bits, &x, sizeof bits);
  for (int i = 0; i < 64; i += 8) hash = (hash ^ (bits >> i & 255)) * 0x100000001b3;
  return hash;
}

START_TEST(elementary_bits)
{
  static const double places[] = {0,       -746,    -745.2,    -709,      -693.5,    -20,    -1,      -0.5,
                                  -0.25,   0.125,   0.25,      M_SQRT1_2, 1,         M_LN2,  1.5,     2,
                                  M_SQRT2, 3,       20,        693.2,     709.8,     710,    0x1p40,  1e308,
                                  0.5,     0x1p-64, 0x1p-1000, 0x1p-1022, 0x1p-1070, 1e-300, INFINITY};
  uint64_t hash[5] = {0xcbf29ce484222325, 0xcbf29ce484222325, 0xcbf29ce484222325, 0xcbf29ce484222325,
                      0xcbf29ce484222325};
  for (size_t p = 0; p < sizeof places / sizeof *places; p++)
    for (int i = -60; i <= 60; i++) {
      const double at = places[p], size = at == 0 ? 1 : fabs(at);
      const double x = isinf(at) ? at : i % 2 ? at + size * i * i * i * 1e-6 : at + size * i * 0x1p-52;
      double cosine, sine;
      hash[0] = hashed(hash[0], same_exp(x));
      hash[1] = hashed(hash[1], same_log(x));
      hash[2] = hashed(hash[2], same_tanh(x));
      for (int y = -6; y <= 6; y++) hash[3] = hashed(hash[3], same_pow(x, 0.5 * y));
      hash[3] = hashed(hash[3], same_pow(x, 0.9 + 0.001 * i));
      if (fabs(x) > 0x1p50) continue;
      same_turn(x, &cosine, &sine);
      hash[4] = hashed(hashed(hash[4], cosine), sine);
    }
  static const uint64_t known[5] = {0xbafdcbf76f2df6c2, 0x0d73bb6563d0a445, 0xbb3f932b5e6effe9,
                                    0xb574137c7634156d, 0xf156205e83f261ae};
  for (int i = 0; i < 5; i++)
    ck_assert_msg(hash[i] == known[i], "%d: 0x%016llx", i, (unsigned long long)hash[i]);
}
END_TEST

/* No compiler may make one operation of a product and a sum that the source keeps apart. */
START_TEST(nothing_is_contracted)
{
  volatile double a = 1 + 0x1p-30, b = 1 - 0x1p-30, c = -1;
  volatile float e = 1 + 0x1p-20f, f = 1 - 0x1p-20f, g = -1;
  ck_assert(a * b + c == 0 && e * f + g == 0);
}
END_TEST

/* --- random numbers ------------------------------------------------------------------------------------ */

/* The three vectors of Random123 (kat_vectors, "philox4x32 10"). */
START_TEST(philox_known_answers)
{
  static const struct {
    uint32_t counter[4], key[2], out[4];
  } known[] = {
    {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (int i = 0; i < 3; i++) {
    uint32_t out[4];
    philox(known[i].counter, known[i].key, out);
    ck_assert_mem_eq(out, known[i].out, sizeof out);
  }
}
END_TEST

/* Each draw from the raw block, put together here anew: the key is the seed; the counter 64 bits of the block's number,
   56 of the step, 8 of the stream; four words a block, two a whole number, a pair for two normals. */
START_TEST(draws_are_made_of_blocks)
{
  static const uint64_t seeds[] = {0, 1, 0xffffffff, 0x100000000, 0xfedcba9876543210},
                        steps[] = {0, 1, 0xffffffff, 0x100000001, 0xffffff00000000, 0xffffffffffffff},
                        sizes[] = {1, 2, 3, 10, 1000003, 0xffffffff, 0x100000001, ~(uint64_t)0};
  static const uint64_t indices[] = {0, 1,    2,          3,           4,           5,         6,
                                     7, 1001, 0xfffffffe, 0x3ffffffff, 0x400000001, 1ULL << 62};
  static const uint32_t streams[] = {STREAM_INIT,       STREAM_TRAIN_DATA, STREAM_VAL_DATA,
                                     STREAM_PROBE_DATA, STREAM_SOURCE,     STREAM_OPTIMIZER,
                                     STREAM_SPECTRA,    STREAM_TEST,       STREAM_BOOTSTRAP};
  for (size_t s = 0; s < 5; s++)
    for (size_t t = 0; t < 6; t++)
      for (size_t i = 0; i < sizeof indices / sizeof *indices; i++) {
        const uint32_t stream = (uint32_t)((s + t + i) % 9) + 1;
        ck_assert_uint_eq(streams[stream - 1], stream); /* numbers of a run's identity */
        const struct draw d = {seeds[s], stream, steps[t]};
        const uint32_t key[2] = {(uint32_t)(seeds[s] % 0x100000000), (uint32_t)(seeds[s] / 0x100000000)};
        uint32_t word[4], whole[4];
        for (int per = 2; per <= 4; per += 2) {
          const uint64_t block = indices[i] / (uint64_t)per;
          const uint32_t counter[4] = {(uint32_t)(block % 0x100000000), (uint32_t)(block / 0x100000000),
                                       (uint32_t)(steps[t] % 0x100000000),
                                       (uint32_t)(steps[t] / 0x100000000 + stream * 0x1000000)};
          philox(counter, key, per == 4 ? word : whole);
        }
        const uint32_t one = word[indices[i] % 4];
        ck_assert_uint_eq(draw_u32(d, indices[i]), one);
        ck_assert_double_eq(draw_uniform(d, indices[i]), one / 4294967296.0);
        double uniforms[5];
        draw_uniforms(d, indices[i] / 4 * 4, 5, uniforms);
        for (uint64_t n = 0; n < 5; n++)
          ck_assert_double_eq(uniforms[n], draw_uniform(d, indices[i] / 4 * 4 + 2 * n));
        const int odd = indices[i] % 2 == 1;
        const long double part =
          ((long double)whole[2 * odd + 1] + whole[2 * odd] / 4294967296.0L) / 4294967296.0L;
        for (size_t n = 0; n < 5;
             n++) /* of a range of less than 2^32: what the first 32 bits say, but for a carry */
          ck_assert_uint_eq(draw_below(d, indices[i], sizes[n]),
                            (uint64_t)floorl(part * (long double)sizes[n]));
        ck_assert_uint_eq(draw_below(d, indices[i], 1ULL << 63),
                          (uint64_t)whole[2 * odd + 1] << 31 | whole[2 * odd] >> 1);
        for (size_t n = 0; n < 8; n++) ck_assert_uint_lt(draw_below(d, indices[i], sizes[n]), sizes[n]);
        const int second = indices[i] % 4 > 1;
        const double radius = sqrt(-2 * log((word[2 * second] + 0.5) / 4294967296.0)),
                     angle = 2 * M_PI * word[2 * second + 1] / 4294967296.0;
        ck_assert_double_eq_tol(draw_normal(d, indices[i]), radius * (odd ? sin(angle) : cos(angle)), 1e-14);
      }
}
END_TEST

enum { DRAWS = 1 << 19 };

/* Moments within five standard errors of their estimates; neighbours, steps, streams and seeds unrelated. */
START_TEST(normals_are_normal)
{
  struct draw d = {1, STREAM_TEST, 3};
  struct draw other[] = {{1, STREAM_TEST, 4},
                         {1, STREAM_SPECTRA, 3},
                         {2, STREAM_TEST, 3},
                         {1 + (1ULL << 32), STREAM_TEST, 3},
                         {1, STREAM_TEST, 3 + (1ULL << 32)}};
  enum { OTHERS = sizeof other / sizeof *other };
  double moment[5] = {0}, product[1 + OTHERS] = {0}, before = 0, below = 0, n = DRAWS;
  for (uint64_t i = 0; i < DRAWS; i++) {
    double x = draw_normal(d, i), power = 1;
    ck_assert(isfinite(x));
    for (int m = 0; m < 5; m++, power *= x) moment[m] += power / n;
    product[0] += x * before / n;
    for (int k = 0; k < OTHERS; k++) product[k + 1] += x * draw_normal(other[k], i) / n;
    below += x < -1;
    before = x;
  }
  double p = 0.5 * erfc(M_SQRT1_2);
  ck_assert(fabs(moment[1]) < 5 / sqrt(n));
  ck_assert(fabs(moment[2] - 1) < 5 * sqrt(2 / n));
  ck_assert(fabs(moment[3]) < 5 * sqrt(15 / n));
  ck_assert(fabs(moment[4] - 3) < 5 * sqrt(96 / n));
  ck_assert(fabs(below / n - p) < 5 * sqrt(p * (1 - p) / n));
  for (int k = 0; k <= OTHERS; k++) ck_assert_msg(fabs(product[k]) < 5 / sqrt(n), "%d: %g", k, product[k]);
}
END_TEST

START_TEST(whole_numbers_are_even)
{
  struct draw d = {42, STREAM_TEST, 0};
  enum { N = 7 };
  double count[N] = {0}, expected = DRAWS / (double)N, chi2 = 0;
  for (uint64_t i = 0; i < DRAWS; i++) count[draw_below(d, i, N)]++;
  for (int k = 0; k < N; k++) chi2 += (count[k] - expected) * (count[k] - expected) / expected;
  ck_assert_msg(chi2 < 6 + 5 * sqrt(12), "%g", chi2); /* 6 degrees: mean 6, variance 12 */
  uint64_t high = 0;
  for (uint64_t i = 0; i < 1000; i++) {
    ck_assert_uint_eq(draw_below(d, i, 1), 0);
    uint64_t x = draw_below(d, i, (1ULL << 63) + 1);
    ck_assert_uint_le(x, 1ULL << 63);
    high |= x;
    double u = draw_uniform(d, i);
    ck_assert(u >= 0 && u < 1);
  }
  ck_assert_uint_eq(high, (1ULL << 63) - 1); /* every bit is used */
}
END_TEST

/* --- text ---------------------------------------------------------------------------------------------- */

START_TEST(numbers_read_back)
{
  static const struct {
    double value;
    const char *text;
  } known[] = {
    {0.03, "0.03"},     {1e-8, "1e-08"},
    {0, "0"},           {100, "100"},
    {10000, "10000"},   {128, "128"},
    {-0.5, "-0.5"},     {INFINITY, "inf"},
    {1000000, "1e+06"}, {1.0 / 3, "0.3333333333333333"},
    {NAN, "nan"},       {20, "20"},
    {-NAN, "nan"},      {-INFINITY, "-inf"},
    {1e5, "1e+05"},     {0x1p55, "36028797018963968"},
  };
  char text[32], other[32];
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    text_number(known[i].value, text);
    ck_assert_str_eq(text, known[i].text);
  }
  for (uint64_t i = 0; i < 20000; i++) {
    double x = ldexp(draw_uniform((struct draw){7, STREAM_TEST, 0}, 2 * i) + 0x1p-52, (int)(i % 2000) - 1000);
    text_number(x, text);
    ck_assert(strtod(text, NULL) == x);
    snprintf(other, sizeof other, "%.*g", (int)(i % 17) + 1, x); /* none that reads back is shorter */
    ck_assert(strtod(other, NULL) != x || strlen(other) >= strlen(text));
  }
}
END_TEST

START_TEST(nearest_word)
{
  static const char *const words[] = {"train.lr", "train.steps", "muon.momentum", "model.width",
                                      "qk_clip.tau"};
  static const struct {
    const char *word, *near;
  } known[] = {
    {"train.lrr", "train.lr"},
    {"trian.lr", "train.lr"},
    {"TRAIN.STEPS", "train.steps"},
    {"moun.momentun", "muon.momentum"},
    {"qkclip.tau", "qk_clip.tau"},
    {"model.height", NULL},
    {"xyz", NULL},
    {"", NULL},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const char *near = text_nearest(known[i].word, words, 5);
    if (known[i].near)
      ck_assert_pstr_eq(near, known[i].near);
    else
      ck_assert_ptr_null(near);
  }
  /* one mistake of two letters, two of six, three of ten; none of one; a swap is one, whatever its case */
  static const char *const sizes[] = {"a", "bc", "defgh", "ijklmn", "opqrstuvw", "0123456789"};
  static const char *const wrong[][2] = {{"z", NULL},
                                         {"bx", "bc"},
                                         {"xy", NULL},
                                         {"dexyh", NULL},
                                         {"dexgh", "defgh"},
                                         {"edfgh", "defgh"},
                                         {"EDfgh", "defgh"},
                                         {"edfhg", NULL},
                                         {"ijxymn", "ijklmn"},
                                         {"ixyzmn", NULL},
                                         {"opxyztuvw", NULL},
                                         {"opxysTUVW", "opqrstuvw"},
                                         {"xyz3456789", "0123456789"},
                                         {"wxyz456789", NULL}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    const char *near = text_nearest(wrong[i][0], sizes, 6);
    ck_assert_msg(wrong[i][1] ? near && !strcmp(near, wrong[i][1]) : !near, "%s: %s", wrong[i][0], near);
  }
  ck_assert_str_eq(text_nearest("bd", (const char *const[]){"bc", "be"}, 2), "bc"); /* of two the first */
  char long_word[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl_";
  const char *longest = memory_text(long_word), *near = text_nearest(long_word, &longest, 1);
  ck_assert_ptr_null(near); /* 65 letters */
  long_word[64] = 0;
  ck_assert_ptr_nonnull(text_nearest(long_word, (const char *const[]){long_word}, 1));
  memory_free((void *)(size_t)longest);
  char huge[5000];
  memset(huge, 'a', sizeof huge - 1);
  huge[sizeof huge - 1] = 0;
  ck_assert_ptr_null(text_nearest(huge, words, 5));
}
END_TEST

/* Insertions, deletions, substitutions and swaps of neighbours, by the definition: from the ends of both. */
static int edits(const char *a, int m, const char *b, int n)
{
  if (!m || !n) return m + n;
  const int same = tolower(a[m - 1]) == tolower(b[n - 1]);
  int least = edits(a, m - 1, b, n - 1) + !same;
  if (same && least == 0) return 0;
  const int gone = edits(a, m - 1, b, n) + 1, more = edits(a, m, b, n - 1) + 1;
  least = gone < least ? gone : least;
  least = more < least ? more : least;
  if (m > 1 && n > 1 && tolower(a[m - 1]) == tolower(b[n - 2]) && tolower(a[m - 2]) == tolower(b[n - 1])) {
    const int swapped = edits(a, m - 2, b, n - 2) + 1;
    least = swapped < least ? swapped : least;
  }
  return least;
}

/* Words of few letters, many of them near each other: the first of the nearest, if it is near enough. */
START_TEST(nearest_of_many)
{
  static const char letters[] = "abB_.@";
  enum { WORDS = 6, LONGEST = 7 };
  int found = 0;
  for (uint64_t round = 0, at = 0; round < 1500; round++) {
    const struct draw d = {5, STREAM_TEST, round};
    char words[WORDS + 1][LONGEST + 1] = {{0}};
    const char *candidates[WORDS], *best = NULL;
    at = 0;
    for (int w = 0; w <= WORDS; w++) {
      const int length = (int)draw_below(d, at++, LONGEST) + (w < WORDS);
      for (int i = 0; i < length; i++) words[w][i] = letters[draw_below(d, at++, 6)];
      if (w < WORDS) candidates[w] = words[w];
    }
    int least = 1000;
    for (int w = 0; w < WORDS; w++) {
      const int m = (int)strlen(words[WORDS]), n = (int)strlen(words[w]), longer = m > n ? m : n;
      const int off = edits(words[WORDS], m, words[w], n);
      if (off < least && off <= (longer < 2 ? 0 : longer < 6 ? 1 : 2)) least = off, best = words[w];
    }
    const char *near = text_nearest(words[WORDS], candidates, WORDS);
    ck_assert_msg(near == best, "%s: %s, not %s", words[WORDS], near, best);
    found += best != NULL;
  }
  ck_assert_int_gt(found, 250);
  ck_assert_int_lt(found, 1400);
}
END_TEST

/* Of all forms of a number that read back the shortest; of two that are as short, the one without an exponent. */
START_TEST(shortest_form)
{
  static const double firsts[] = {1, 2, 1.5, 1.25, 12345, 99, 0.1, 1234567890123456};
  char text[32], other[32];
  for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++)
    for (int e = -25; e <= 25; e++)
      for (int sign = -1; sign < 2; sign += 2) {
        const double x = sign * firsts[f] * pow(10, e);
        char best[32] = "";
        for (int digits = 1; digits <= 17; digits++) {
          snprintf(other, sizeof other, "%.*g", digits, x);
          if (strtod(other, NULL) != x) continue;
          if (!*best || strlen(other) < strlen(best) ||
              (strlen(other) == strlen(best) && !strchr(other, 'e')))
            strcpy(best, other);
        }
        text_number(x, text);
        ck_assert_str_eq(text, best);
      }
}
END_TEST

static int join(void *context, const char *part)
{
  buffer_add(context, "<%s>", part);
  return !strcmp(part, "stop") ? 9 : 0;
}

START_TEST(lists_and_json)
{
  static const struct {
    const char *list, *parts;
    int result;
  } known[] = {
    {"a+b", "<a><b>", 0},
    {" a + b b +", "<a><b b><>", 0},
    {"", "<>", 0},
    {"+", "<><>", 0},
    {"x+stop+y", "<x><stop>", 9},
    {" \t", "<>", 0},
    {"\ta \n+\n+ b\r", "<a><><b>", 0},
    {"stop", "<stop>", 9},
    {"a,b+c", "<a,b><c>", 0},
    {"+a", "<><a>", 0},
    {"stop+stop", "<stop>", 9},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct buffer b = {0};
    const size_t held = memory_held();
    ck_assert_int_eq(text_split(known[i].list, '+', join, &b), known[i].result);
    ck_assert_str_eq(b.text, known[i].parts);
    memory_free(b.text);
    char commas[32]; /* any separator will do, which is no blank then */
    struct buffer c = {0};
    snprintf(commas, sizeof commas, "%s", known[i].list);
    if (strchr(commas, ',')) continue;
    for (char *x = commas; *x; x++) *x = *x == '+' ? ',' : *x;
    ck_assert_int_eq(text_split(commas, ',', join, &c), known[i].result);
    ck_assert_str_eq(c.text, known[i].parts);
    memory_free(c.text);
    ck_assert_uint_eq(memory_held(), held);
  }
}
END_TEST

START_TEST(buffers_grow)
{
  for (size_t length = 0; length < 40; length++) { /* what just fits, and what does not by one */
    struct buffer b = {0};
    char text[64] = "first";
    buffer_add(&b, "%s", text);
    memset(text + 5, 'x', length);
    buffer_add(&b, "%s", text + 5);
    ck_assert_uint_eq(b.length, 5 + length);
    ck_assert_str_eq(b.text, text);
    buffer_add(&b, "%s", "");
    ck_assert_uint_eq(b.length, 5 + length);
    memory_free(b.text);
  }
  struct buffer b = {0};
  const size_t before = memory_calls();
  for (int i = 0; i < 3000; i++) {
    buffer_add(&b, "%03d", i % 1000);
    ck_assert(b.length == 3 * (size_t)i + 3 && b.room > b.length);
  }
  ck_assert_uint_lt(memory_calls() - before, 40); /* by half more each time, not by one piece */
  for (int i = 0; i < 3000; i++)
    ck_assert_int_eq(strtol((char[]){b.text[3 * i], b.text[3 * i + 1], b.text[3 * i + 2], 0}, NULL, 10),
                     i % 1000);
  memory_free(b.text);
}
END_TEST

/* A text of a file becomes whole letters of UTF-8 without an order for a terminal, in any room. */
START_TEST(texts_are_cleaned)
{
  static const struct {
    const char *text, *clean;
  } known[] = {
    {"", ""},
    {"loss, nat", "loss, nat"},
    {"\303\251\342\202\254\360\237\230\200~",
     "\303\251\342\202\254\360\237\230\200~"}, /* of two, three and four bytes */
    {"\033]52;c;cm0=\007x", "?]52;c;cm0=?x"},
    {"a\nb\tc\rd\177e", "a?b?c?d?e"},
    {"\302\233"
     "2J\233"
     "2J",
     "?2J?2J"},                        /* C1 in UTF-8, C1 as a raw byte */
    {"\302\240\302\237", "\302\240?"}, /* the blank behind C1 stays */
    {"\342\200\256abc\342\200\254\342\201\246\342\201\251", "?abc???"},
    {"\330\234\342\200\216\342\200\217\342\200\220\342\200\250\342\200\251", "???\342\200\220??"},
    {"\300\200\301\277\365\200\377", "???????"},     /* bytes that begin no letter */
    {"\340\237\277\340\240\200", "???\340\240\200"}, /* longer than needed, the first that is not */
    {"\355\237\277\355\240\200", "\355\237\277???"}, /* the last before the surrogates, one */
    {"\360\217\277\277\360\220\200\200", "????\360\220\200\200"},
    {"\364\217\277\277\364\220\200\200", "\364\217\277\277????"},
    {"\303x\342\202x", "?x??x"}, /* letters that break off */
    {"ab\303", "ab"},            /* at the end: cut there */
    {"ab\360\237\230", "ab"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    char text[64], other[64];
    strcpy(text, known[i].text);
    ck_assert_uint_eq(text_clean(text, sizeof text, ""), strlen(known[i].clean));
    ck_assert_str_eq(text, known[i].clean);
    ck_assert_uint_eq(text_clean(text, sizeof text, ""), strlen(known[i].clean)); /* again: nothing changes */
    ck_assert_str_eq(text, known[i].clean);
    text_fill(other, sizeof other, known[i].text);
    ck_assert_str_eq(other, known[i].clean);
  }
  char text[] = "a\nb\tc\033\n", wide[41] = "", out[32];
  text_clean(text, sizeof text, "\n");
  ck_assert_str_eq(text, "a\nb?c?\n");
  for (int i = 0; i < 20; i++) strcat(wide, "\303\251");
  for (size_t room = 1; room <= 32; room++) { /* whole letters, as many as there is room for */
    memset(out, 'x', sizeof out);
    ck_assert_uint_eq(text_fill(out, room, wide), (room - 1) / 2 * 2);
    ck_assert_uint_eq(strlen(out), (room - 1) / 2 * 2);
    char same[41];
    strcpy(same, wide);
    text_clean(same, room, "");
    ck_assert_str_eq(same, out);
  }
  memset(out, 'x', sizeof out); /* without an end, as a fixed-size text of a file may be */
  ck_assert_uint_eq(text_clean(out, sizeof out, ""), 31);
  ck_assert(text_fill(out, sizeof out, NULL) == 0 && !*out && !text_fill(out, 0, "x") &&
            !text_clean(out, 0, ""));
}
END_TEST

/* A text in markup, in a shell's line, in a cell. */
START_TEST(texts_are_quoted)
{
  static const struct {
    const char *text, *markup, *word, *csv, *tsv;
  } known[] = {
    {"loss", "loss", "loss", "loss", "loss"},
    {"", "", "''", "", ""},
    {"a b,c\"d", "a b,c&quot;d", "'a b,c\"d'", "\"a b,c\"\"d\"", "a b,c\"d"},
    {"</b><i a='1'>&", "&lt;/b&gt;&lt;i a=&#39;1&#39;&gt;&amp;", "'</b><i a='\\''1'\\''>&'", "</b><i a='1'>&",
     "</b><i a='1'>&"},
    {"x'; rm y; '", "x&#39;; rm y; &#39;", "'x'\\''; rm y; '\\'''", "x'; rm y; '", "x'; rm y; '"},
    {"`x` $(y)", "`x` $(y)", "'`x` $(y)'", "`x` $(y)", "`x` $(y)"},
    {"a\nb\tc\033\302\233\303", "a\nb?c??",
     "'a?b?c?"
     "?'",
     "\"a\nb?c??\"", "a?b?c??"},
    {"=1+1", "=1+1", "=1+1", "'=1+1", "'=1+1"},
    {"@SUM(A1,2)", "@SUM(A1,2)", "'@SUM(A1,2)'", "\"'@SUM(A1,2)\"", "'@SUM(A1,2)"},
    {"-x", "-x", "-x", "'-x", "'-x"},
    {"-1.5e3", "-1.5e3", "-1.5e3", "-1.5e3", "-1.5e3"},
    {"+inf", "+inf", "+inf", "+inf", "+inf"},
    {"%s%n", "%s%n", "%s%n", "%s%n", "%s%n"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct buffer markup = {0}, wanted = {0}, word = {0}, csv = {0}, tsv = {0};
    const char *text = known[i].text;
    markup_add(&markup, "<a b=\"%s\">%d %ld %.2f %g %%%s</a>", text, -3, 4294967296L, 1.5, 0.25, text);
    buffer_add(&wanted, "<a b=\"%s\">-3 4294967296 1.50 0.25 %%%s</a>", known[i].markup, known[i].markup);
    ck_assert_str_eq(markup.text, wanted.text);
    shell_add(&word, text);
    ck_assert_str_eq(word.text, known[i].word);
    cell_add(&csv, text, ',');
    ck_assert_str_eq(csv.text, known[i].csv);
    cell_add(&tsv, text, '\t');
    ck_assert_str_eq(tsv.text, known[i].tsv);
    memory_free(markup.text), memory_free(wanted.text);
    memory_free(word.text), memory_free(csv.text), memory_free(tsv.text);
  }
}
END_TEST

/* Words around numbers, and their order. */
START_TEST(small_words)
{
  for (long count = -3; count < 30; count++) ck_assert_str_eq(text_s(count), count == 1 ? "" : "s");
  ck_assert_str_eq(text_s(4294967297), "s");
  ck_assert_str_eq(text_unit("1"), "");
  ck_assert_str_eq(text_unit("nat"), "nat");
  ck_assert_str_eq(text_unit("10"), "10");
  ck_assert_str_eq(text_unit(""), "");
  const char *words[] = {"b", "B", "", "abc", "ab", "a_", "aZ"};
  static const char *const sorted[] = {"", "B", "aZ", "a_", "ab", "abc", "b"};
  qsort(words, 7, sizeof *words, text_order);
  for (int i = 0; i < 7; i++) ck_assert_str_eq(words[i], sorted[i]);
  ck_assert_int_eq(text_order(&words[2], &words[2]), 0);
}
END_TEST

/* NaN counts, a value that nobody has told does not; neither is lost on the way through a float. */
START_TEST(numbers_keep_nan)
{
  const double none = missing_value(), inf = INFINITY, values[] = {-inf, -2, 0, 1, 3, inf};
  ck_assert(isnan(none) && is_missing(none) && is_missing(-none) && is_missing((double)(float)none));
  ck_assert(!is_missing(NAN) && !is_missing(-NAN) && !is_missing(0) && !is_missing(inf) && !is_missing(-inf));
  ck_assert(!is_missing(inf - inf) && !is_missing((double)(float)NAN));
  for (int i = 0; i < 6; i++) {
    const double x = values[i];
    for (int k = 0; k < 6; k++) {
      const double larger = values[i > k ? i : k];
      ck_assert(max_keeping_nan(x, values[k]) == larger && max_known(x, values[k]) == larger);
    }
    ck_assert(isnan(max_keeping_nan(x, NAN)) && isnan(max_keeping_nan(NAN, x)) && isnan(max_known(x, NAN)) &&
              isnan(max_known(NAN, x)) && max_known(x, none) == x && max_known(none, x) == x);
    ck_assert(without_nan_sign(x) == x);
  }
  ck_assert(is_missing(max_known(none, none)) && isnan(max_known(none, NAN)) &&
            !is_missing(max_known(none, NAN)) && !is_missing(max_known(NAN, none)));
  char text[8];
  snprintf(text, sizeof text, "%g", without_nan_sign(-(double)NAN));
  ck_assert_str_eq(text, "nan");
  snprintf(text, sizeof text, "%g", without_nan_sign((double)NAN));
  ck_assert_str_eq(text, "nan");
}
END_TEST

START_TEST(ends_of_names)
{
  ck_assert_str_eq(text_last_part("train.lr"), "lr");
  ck_assert_str_eq(text_last_part("seed"), "seed");
  ck_assert_str_eq(text_last_part("a.b.c"), "c");
  ck_assert_str_eq(text_last_part("a."), "");
  ck_assert(text_ends_with("", "") && text_ends_with("a", "") && !text_ends_with("", "a"));
  ck_assert_str_eq(text_file_name("a/"), "");
  ck_assert_str_eq(text_file_name("/c"), "c");
  ck_assert(text_ends_with("a.bias", ".bias") && text_ends_with(".bias", ".bias"));
  ck_assert(!text_ends_with("bias", ".bias") && !text_ends_with("a.bias.b", ".bias"));
  ck_assert_str_eq(text_file_name("a/b/c.h5"), "c.h5");
  ck_assert_str_eq(text_file_name("c.h5"), "c.h5");
  static const char *const stems[][2] = {
    {"runs/a.h5", "a"}, {"a.h5.h5", "a.h5"}, {"a.h", "a.h"}, {"r/.h5", ".h5"}};
  for (int i = 0; i < 4; i++) {
    char *stem = text_stem(stems[i][0], ".h5"); /* never empty */
    ck_assert_str_eq(stem, stems[i][1]);
    memory_free(stem);
  }
}
END_TEST

START_TEST(clock_goes_forward)
{
  double before = clock_seconds();
  char now[32], known[2][32];
  setenv("TZ", "XXX-9:30", 1); /* Z is not a zone of ours */
  tzset();
  for (int i = 0; i < 2; i++) {
    const time_t t = time(NULL);
    struct tm utc;
    strftime(known[i], sizeof known[i], "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &utc));
    if (i == 0) clock_iso8601(now);
  }
  ck_assert_msg(strcmp(known[0], now) <= 0 && strcmp(now, known[1]) <= 0, "%s, and it is %s", now, known[0]);
  ck_assert(clock_seconds() >= before);
  for (int i = 0; i < 200; i++) { /* between two looks at the system's own, to the nanosecond */
    struct timespec looks[2];
    clock_gettime(CLOCK_MONOTONIC, &looks[0]);
    const double seconds = clock_seconds();
    clock_gettime(CLOCK_MONOTONIC, &looks[1]);
    ck_assert(seconds >= (double)looks[0].tv_sec + 1e-9 * (double)looks[0].tv_nsec - 1e-9);
    ck_assert(seconds <= (double)looks[1].tv_sec + 1e-9 * (double)looks[1].tv_nsec + 1e-9);
  }
}
END_TEST

/* --- errors -------------------------------------------------------------------------------------------- */

START_TEST(first_error_counts)
{
  struct error e = {0};
  ck_assert_int_eq(error_set(&e, STATUS_USAGE, "bad %d", 1), STATUS_USAGE);
  ck_assert_int_eq(error_set(&e, STATUS_FAIL, "later"), STATUS_FAIL);
  ck_assert_int_eq(error_prefix(&e, "FILE:%d", 3), STATUS_USAGE);
  ck_assert_str_eq(e.text, "FILE:3: bad 1");
  ck_assert_int_eq(error_set(NULL, STATUS_FAIL, "nobody listens"), STATUS_FAIL);
  char huge[3 * sizeof e.text];
  memset(huge, 'x', sizeof huge - 1);
  huge[sizeof huge - 1] = 0;
  error_prefix(&e, "%s", huge);
  ck_assert_uint_lt(strlen(e.text), sizeof e.text);
}
END_TEST

/* Statuses are a contract with scripts; of a message what fits, whole or with its place; nothing in it steers a
   terminal, wherever it comes from. */
START_TEST(errors_at_their_edges)
{
  ck_assert(STATUS_OK == 0 && STATUS_FAIL == 1 && STATUS_USAGE == 2 && STATUS_DIVERGED == 3 &&
            STATUS_STOPPED == 75);
  static const int statuses[] = {STATUS_FAIL, STATUS_USAGE, STATUS_DIVERGED, STATUS_STOPPED};
  for (int i = 0; i < 4; i++) {
    struct error e = {0};
    ck_assert_int_eq(error_set(&e, statuses[i], "%s-%d", "one", i), statuses[i]);
    ck_assert_int_eq(e.status, statuses[i]);
    ck_assert_int_eq(error_set(&e, statuses[3 - i], "two"),
                     statuses[3 - i]); /* its own, and what was stays */
    ck_assert_int_eq(e.status, statuses[i]);
    ck_assert_int_eq(error_prefix(&e, "a %s", "place"), statuses[i]);
    ck_assert_int_eq(error_prefix(&e, "b"), statuses[i]);
    ck_assert_int_eq(e.status, statuses[i]);
    char text[32];
    snprintf(text, sizeof text, "b: a place: one-%d", i);
    ck_assert_str_eq(e.text, text);
    ck_assert_int_eq(error_prefix(NULL, "nobody"), STATUS_FAIL);
    ck_assert_int_eq(error_set(NULL, statuses[i], "nobody"), statuses[i]);
  }
  struct error e = {0};
  char all[256] = "", seen[256] = "", wanted[520];
  for (int c = 1; c < 256; c++) /* bytes above 0x7f are no letters in this order */
    all[c - 1] = (char)c, seen[c - 1] = (char)(c == '\n' ? ' ' : c < 0x20 || c >= 0x7f ? '?' : c);
  error_set(&e, STATUS_FAIL, "%s", all);
  ck_assert(!strcmp(e.text, seen)); /* neither of which is fit to be printed */
  error_prefix(&e, "%s", all);
  snprintf(wanted, sizeof wanted, "%s: %s", seen, seen);
  ck_assert(!strcmp(e.text, wanted));
  for (int length = 2040; length < 2056; length++) { /* of 2048 with the end of the text */
    char text[2100], place[2100];
    for (int i = 0; i < length; i++) text[i] = (char)('a' + i % 26);
    text[length] = 0;
    e = (struct error){0};
    error_set(&e, STATUS_FAIL, "%s", text);
    ck_assert_uint_eq(strlen(e.text), length < 2047 ? (size_t)length : 2047);
    ck_assert(!strncmp(e.text, text, strlen(e.text)));
    e = (struct error){0};
    error_set(&e, STATUS_FAIL, "message");
    error_prefix(&e, "%s", text); /* the place, ": " and as much of the message as fits */
    snprintf(place, sizeof place, "%.2047s: message", text);
    place[2047] = 0;
    ck_assert_str_eq(e.text, place);
  }
}
END_TEST

/* --- a worker ------------------------------------------------------------------------------------------- */

static int late_messages; /* how many are still to be sent late */

ssize_t __real_sendmsg(int to, const struct msghdr *, int flags);
ssize_t __wrap_sendmsg(int to, const struct msghdr *, int flags);
ssize_t __wrap_sendmsg(int to, const struct msghdr *message, int flags)
{
  const struct timespec pause = {0, 600000000};
  if (late_messages > 0) nanosleep(&pause, NULL), late_messages--;
  return __real_sendmsg(to, message, flags);
}

static void answer(int fd, void *reply)
{
  char c;
  *(int *)reply = read(fd, &c, 1) == 0 ? 42 : 1;
}

/* A machine that is busy delays a request by more than the time after which an idle worker ends. */
START_TEST(late_requests_of_a_worker)
{
  struct worker worker = {.work = answer};
  for (int i = 0; i < 2; i++) {
    int reply = 0, fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    late_messages = 1;
    ck_assert_int_eq(worker_ask(&worker, fd, 4, 0, &reply, sizeof reply), 1);
    ck_assert_int_eq(reply, 42);
    close(fd);
  }
}
END_TEST

static void never_end(int fd, void *reply)
{
  memset(reply, 0, sizeof(int));
  if (write(fd, "x", 1) == 1)
    for (;;) {}
}

static void crash(int fd, void *reply)
{
  memset(reply, 0, sizeof(int));
  if (write(fd, "x", 1) == 1) abort();
}

/* A second worker gets the file after a crash, not after one that did not end. */
START_TEST(second_chances_of_a_worker)
{
  void (*const work[])(int, void *) = {crash, never_end};
  for (int i = 0; i < 2; i++) {
    struct worker worker = {.work = work[i]};
    int reply, fd = platform_memory_file();
    ck_assert_int_eq(worker_ask(&worker, fd, 1, 0, &reply, sizeof reply), 0);
    ck_assert_int_eq(lseek(fd, 0, SEEK_END), i ? 1 : 2);
    close(fd);
  }
}
END_TEST

/* An error as a caller of the library is told: nothing where nothing was, to whoever wants to hear it. */
START_TEST(errors_of_callers)
{
  struct error e = {.status = STATUS_USAGE, .text = "why"};
  struct maxlogit_error to = {.status = 9, .text = "old"};
  ck_assert_int_eq(error_export(&to, STATUS_FAIL, &e), STATUS_FAIL);
  ck_assert_int_eq(to.status, STATUS_FAIL);
  ck_assert_str_eq(to.text, "why");
  ck_assert_int_eq(error_export(&to, STATUS_OK, &e), STATUS_OK);
  ck_assert(to.status == 0 && !*to.text);
  ck_assert_int_eq(error_export(NULL, STATUS_USAGE, &e), STATUS_USAGE);
  ck_assert_int_eq(error_export(NULL, STATUS_OK, &e), STATUS_OK);
}
END_TEST

static char taken[4200];
static int takes(const char *line)
{
  snprintf(taken, sizeof taken, "%s", line);
  return strstr(line, "pass") != NULL;
}

static void say_things(const void *context)
{
  const char *text = context;
  message("%s %d", text, 1);
  warning("%s %d", text, 2);
  messages_to(takes);
  message("stop %d", 3);
  printf("[%s]", taken), fflush(stdout);
  warning("pass %s", text);
  printf("[%s]", taken), fflush(stdout);
  messages_to(NULL);
  message("%s", "stop");
}

static void say_much(const void *context)
{
  char text[5000];
  memset(text, 'x', sizeof text);
  text[*(const int *)context] = 0;
  message("%s", text);
}

static void requires(const void *context)
{
  printf("before "); /* is not lost */
  const int one = *(const int *)context;
  if (one == 2) bug("file.c", 12, "%d of %s", 2, "them\033[1m");
  REQUIRE(one == 1);
}

/* What is said to people: a line each, whose it is, whether it is a warning; who takes it first decides. */
START_TEST(messages_are_lines)
{
  struct error e = {0};
  char told[20000];
  ck_assert_int_eq(heard_of_child(say_things, "a\x1b[2Jb\tc", told, sizeof told), 0);
  ck_assert_str_eq(told, "maxlogit: a?[2Jb?c 1\nmaxlogit: warning: a?[2Jb?c 2\n[stop 3]"
                         "maxlogit: warning: pass a?[2Jb?c\n[warning: pass a?[2Jb?c]maxlogit: stop\n");
  for (int length = 4080; length < 4092; length++) {
    ck_assert_int_eq(heard_of_child(say_much, &length, told, sizeof told), 0);
    ck_assert_uint_eq(strlen(told), length < 4085 ? 10 + (size_t)length + 1 : 4096);
    ck_assert(told[strlen(told) - 1] == '\n' && !strncmp(told, "maxlogit: xxx", 13));
  }
  ck_assert_int_eq(heard_of_child(say_things,
                                  "\302\233"
                                  "1m\233\177\nmaxlogit: b\342\200\256\n",
                                  told, sizeof told),
                   0);
  ck_assert_str_eq(
    told, "maxlogit: ?1m?? maxlogit: b?  1\nmaxlogit: warning: ?1m?? maxlogit: b?  2\n[stop 3]"
          "maxlogit: warning: pass ?1m?? maxlogit: b?\n[warning: pass ?1m?? maxlogit: b?]maxlogit: stop\n");
  error_set(&e, STATUS_FAIL, "one of\n  a\nb\n c\n  d\n\n");
  ck_assert_str_eq(e.text, "one of\n  a b  c\n  d"); /* lines that go on are indented */
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  ck_assert_int_eq(heard_of_child(requires, &(int){1}, told, sizeof told), 0);
  ck_assert_int_eq(heard_of_child(requires, &(int){2}, told, sizeof told), -SIGABRT);
  ck_assert_str_eq(told, "before maxlogit: bug at file.c:12: 2 of them?[1m\n");
  ck_assert_int_eq(heard_of_child(requires, &(int){3}, told, sizeof told), -SIGABRT);
  ck_assert(strstr(told, "check_base.c:") && strstr(told, ": one == 1 is false\n"));
}
END_TEST

/* --- options ------------------------------------------------------------------------------------------- */

struct sample {
  long count, on, colour;
  double rate;
  const char *name, *parts;
};
static const char *const colours[] = {"red", "green", "blue", NULL};
static const struct option_row rows[] = {
  INT_ROW(struct sample, count, "3", 1, 64, "1", "how many", 0),
  BOOL_ROW(struct sample, on, "0", "whether", 0),
  CHOICE_ROW(struct sample, colour, "green", colours, "which", 0),
  REAL_ROW(struct sample, rate, "1e-3", 0, HUGE_VAL, "1", "how fast", 0),
  TEXT_ROW(struct sample, name, "", "who", 0),
  TEXT_ROW(struct sample, parts, "none", "what", OPTION_LIST),
  END_ROW};

START_TEST(options_parse)
{
  static const struct {
    int row;
    const char *text, *formatted, *message;
  } known[] = {
    {0, "64", "64", NULL},
    {0, "1", "1", NULL},
    {0, "64.0", "64", NULL},
    {0, "1.0", "1", NULL},
    {0, "1e1", "10", NULL},
    {0, "+7", "7", NULL},
    {0, "65", NULL, "'65' is out of range (allowed: 1 to 64)"},
    {0, "0", NULL, "'0' is out of range (allowed: 1 to 64)"},
    {0, "1e9", NULL, "'1e9' is out of range (allowed: 1 to 64)"},
    {0, "99999999999999999999", NULL, "'99999999999999999999' is out of range (allowed: 1 to 64)"},
    {0, "2.5", NULL, "'2.5' is not a whole number (allowed: 1 to 64)"},
    {0, "two", NULL, "'two' is not a whole number (allowed: 1 to 64)"},
    {0, "2x", NULL, "'2x' is not a whole number (allowed: 1 to 64)"},
    {0, "", NULL, "'' is not a whole number (allowed: 1 to 64)"},
    {1, "1", "1", NULL},
    {1, "yes", "1", NULL},
    {1, "OFF", "0", NULL},
    {1, "false", "0", NULL},
    {1, "2", NULL, "'2' is neither 1 nor 0 (yes, no, on, off, true and false will do)"},
    {2, "blue", "blue", NULL},
    {2, "blu", NULL, "'blu' is not one of red, green, blue; did you mean 'blue'?"},
    {2, "", NULL, "'' is not one of red, green, blue"},
    {3, "3e-4", "0.0003", NULL},
    {3, "0", "0", NULL},
    {3, "-1", NULL, "'-1' is out of range (allowed: at least 0)"},
    {3, "nan", NULL, "'nan' is not a number (allowed: at least 0)"},
    {3, "inf", NULL, "'inf' is out of range (allowed: at least 0)"},
    {3, "1e999", NULL, "'1e999' is out of range (allowed: at least 0)"},
    {3, "1e-999", NULL, "'1e-999' is out of range (allowed: at least 0)"},
    {3, "1e-3 1", NULL, "'1e-3 1' is not a number (allowed: at least 0)"},
    {4, "any thing", "any thing", NULL},
    {4, "", "", NULL},
    {5, "qk_norm+qk_clip", "qk_norm+qk_clip", NULL},
    {5, "a++b", NULL, "'a++b' has an empty part (a list is joined by +)"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct sample s;
    struct error e = {0};
    char text[64], before[64];
    option_defaults(rows, &s);
    option_format(&rows[known[i].row], &s, before, sizeof before);
    int status = option_parse(&rows[known[i].row], &s, known[i].text, &e);
    option_format(&rows[known[i].row], &s, text, sizeof text);
    if (known[i].message) {
      ck_assert_int_eq(status, STATUS_USAGE);
      ck_assert_str_eq(e.text, known[i].message);
      ck_assert_str_eq(text, before); /* a bad value leaves the field alone */
    } else {
      ck_assert_msg(status == STATUS_OK, "%s: %s", known[i].text, e.text);
      ck_assert_str_eq(text, known[i].formatted);
    }
  }
}
END_TEST

/* What is allowed, in words: a limit that is none is not told. */
START_TEST(options_allowed)
{
  static const struct {
    enum option_type type;
    double min, max;
    const char *text;
  } known[] = {
    {OPTION_INT, 1, 64, "1 to 64"},           {OPTION_INT, -2, HUGE_VAL, "at least -2"},
    {OPTION_INT, -HUGE_VAL, 7, "at most 7"},  {OPTION_INT, -HUGE_VAL, HUGE_VAL, "any"},
    {OPTION_REAL, 0, 1e30, "0 to 1e+30"},     {OPTION_REAL, 0.5, HUGE_VAL, "at least 0.5"},
    {OPTION_REAL, -HUGE_VAL, 1, "at most 1"}, {OPTION_REAL, -HUGE_VAL, HUGE_VAL, "any"},
    {OPTION_INT, 0, 100000, "0 to 100000"},   {OPTION_INT, 0, 1e15, "0 to 1e+15"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    char text[80];
    option_allowed(
      &(struct option_row){.name = "x", .type = known[i].type, .min = known[i].min, .max = known[i].max},
      text, sizeof text);
    ck_assert_str_eq(text, known[i].text);
  }
  long value = 0; /* without limits: as far as a double tells whole numbers apart */
  struct option_row row = {.name = "x", .type = OPTION_INT, .min = -HUGE_VAL, .max = HUGE_VAL};
  struct error e = {0};
  ck_assert(!option_parse(&row, &value, "9007199254740992.0", &e) && value == 1L << 53);
  ck_assert_int_eq(option_parse(&row, &value, "9007199254740994.0", &e), STATUS_USAGE);
  ck_assert_int_eq(value, 1L << 53);
  static const char *const beyond[] = {"9223372036854775808", "-9223372036854775809", "1e19", "-1e300"};
  for (int i = 0; i < 4; i++) {
    ck_assert_int_eq(option_parse(&row, &value, beyond[i], &e), STATUS_USAGE);
    ck_assert_int_eq(value, 1L << 53);
  }
  row.max = 0x1p53;
  ck_assert_int_eq(option_parse(&row, &value, "9007199254740993", &e), STATUS_USAGE);
  ck_assert_int_eq(option_parse(&row, &value, "9007199254740992", &e), STATUS_OK);
}
END_TEST

START_TEST(options_default)
{
  struct sample s;
  memset(&s, 0xff, sizeof s);
  option_defaults(rows, &s);
  ck_assert(s.count == 3 && s.on == 0 && s.colour == 1 && s.rate == 1e-3);
  ck_assert_str_eq(s.name, "");
  ck_assert_str_eq(s.parts, "none");
}
END_TEST

static void wrong_default(const void *context)
{
  struct sample s;
  option_defaults(context, &s);
}

/* What a row says stands in it; a value goes to its own field and to no other, and comes back out of it; a standard
   that is none is a fault of ours. */
START_TEST(options_by_their_rows)
{
  static const struct option_row all[] = {
    INT_ROW(struct sample, count, "3", -5, 64, "step", "how many", OPTION_FREE),
    REAL_ROW(struct sample, rate, "0.5", -1, 2, "nat", "how fast", OPTION_OFF),
    BOOL_ROW(struct sample, on, "1", "whether", OPTION_EXTEND),
    CHOICE_ROW(struct sample, colour, "red", colours, "which", OPTION_LATER),
    TEXT_ROW(struct sample, name, "", "who", OPTION_CONTENT),
    TEXT_ROW(struct sample, parts, "a+b", "what", OPTION_LIST | OPTION_FREE),
    END_ROW};
  static const struct {
    const char *name, *standard, *unit, *help, *allowed, *value;
    enum option_type type;
    size_t offset;
    double min, max;
    unsigned flags;
  } known[] = {
    {"count", "3", "step", "how many", "-5 to 64", "-5", OPTION_INT, offsetof(struct sample, count), -5, 64,
     1},
    {"rate", "0.5", "nat", "how fast", "-1 to 2", "-1", OPTION_REAL, offsetof(struct sample, rate), -1, 2,
     64},
    {"on", "1", "1", "whether", "0, 1", "0", OPTION_BOOL, offsetof(struct sample, on), 0, 1, 2},
    {"colour", "red", "1", "which", "red, green, blue", "blue", OPTION_CHOICE,
     offsetof(struct sample, colour), 0, 0, 128},
    {"name", "", "1", "who", "text", "a+", OPTION_TEXT, offsetof(struct sample, name), 0, 0, 8},
    {"parts", "a+b", "1", "what", "a list joined by +", "", OPTION_TEXT, offsetof(struct sample, parts), 0, 0,
     5},
  };
  ck_assert_ptr_null(all[6].name);
  for (int i = 0; i < 6; i++) {
    const struct option_row *r = &all[i];
    char text[64], told[64];
    ck_assert_str_eq(r->name, known[i].name);
    ck_assert_str_eq(r->standard, known[i].standard);
    ck_assert_str_eq(r->unit, known[i].unit);
    ck_assert_str_eq(r->help, known[i].help);
    ck_assert(r->type == known[i].type && r->offset == known[i].offset && r->flags == known[i].flags);
    ck_assert(r->min == known[i].min && r->max == known[i].max && (r->choices == colours) == (i == 3) &&
              (i == 3 || !r->choices));
    option_allowed(r, text, sizeof text);
    ck_assert_str_eq(text, known[i].allowed);
    struct sample s, before;
    struct error e = {0};
    memset(&s, 0, sizeof s);
    option_defaults(all, &s);
    before = s;
    ck_assert_int_eq(option_parse(r, &s, known[i].value, &e), STATUS_OK);
    option_format(r, &s, text, sizeof text);
    ck_assert_str_eq(text, known[i].value);
    if (i == 4) ck_assert_ptr_eq(s.name, known[i].value); /* the text itself */
    if (i == 3) ck_assert_int_eq(s.colour, 2);
    memcpy((char *)&s + r->offset, (char *)&before + r->offset, 8);
    ck_assert_mem_eq(&s, &before, sizeof s);
    for (size_t room = 1; room < 12; room++) { /* never more than there is room for */
      memset(told, '#', sizeof told);
      option_format(r, &s, told, room);
      ck_assert(strlen(told) < room && told[room] == '#');
      memset(told, '#', sizeof told);
      option_allowed(r, told, room);
      ck_assert(strlen(told) == (strlen(known[i].allowed) < room ? strlen(known[i].allowed) : room - 1) &&
                !strncmp(told, known[i].allowed, strlen(told)) && told[room] == '#');
    }
  }
  struct option_row bad[2] = {all[0], all[6]};
  char heard[20000];
  bad[0].standard = "65";
  ck_assert_int_eq(heard_of_child(wrong_default, bad, heard, sizeof heard), -SIGABRT);
  ck_assert(strstr(heard, "default of option count: '65' is out of range (allowed: -5 to 64)"));
}
END_TEST

/* Limits belong to what is allowed; every word for yes and no, in any case; where the number's own end is not one. */
START_TEST(options_at_their_limits)
{
  static const char *const no[] = {"0", "no", "off", "false"}, *const yes[] = {"1", "yes", "on", "true"};
  struct error e = {0};
  long flag;
  double x = 0;
  const struct option_row on = {.name = "x", .type = OPTION_BOOL, .max = 1};
  for (int i = 0; i < 4; i++)
    for (int capitals = 0; capitals < 3; capitals++)
      for (int side = 0; side < 2; side++) {
        char word[8];
        snprintf(word, sizeof word, "%s", side ? yes[i] : no[i]);
        for (char *c = word; *c; c++)
          if (capitals == 2 || (capitals == 1 && c == word)) *c = (char)toupper(*c);
        flag = 7;
        ck_assert_int_eq(option_parse(&on, &flag, word, &e), STATUS_OK);
        ck_assert_int_eq(flag, side);
      }
  static const char *const neither[] = {"", "-1", "01", "y", "n", "tru", "yes ", "offf"};
  for (int i = 0; i < 8; i++) {
    flag = 7;
    ck_assert_int_eq(option_parse(&on, &flag, neither[i], &(struct error){0}), STATUS_USAGE);
    ck_assert_int_eq(flag, 7);
  }
  static const struct {
    double min, max, value;
    int real, whole; /* statuses */
  } known[] = {
    {-2, 3, -2, 0, 0},
    {-2, 3, 3, 0, 0},
    {-2, 3, 4, 2, 2},
    {-2, 3, -3, 2, 2},
    {0.5, 2.5, 0.5, 0, 2},
    {0.5, 2.5, 2.5, 0, 2},
    {0.5, 2.5, 1, 0, 0},
    {0.5, 2.5, 2.5000000000000004, 2, 2},
    {0.5, 2.5, 0.49999999999999994, 2, 2},
    {-HUGE_VAL, HUGE_VAL, 1e-310, 0, 2}, /* small, and a number */
    {-HUGE_VAL, HUGE_VAL, 0x1p53, 0, 0},
    {-HUGE_VAL, HUGE_VAL, -0x1p53, 0, 0},
    {-HUGE_VAL, HUGE_VAL, -1e300, 0, 2},
    {0, HUGE_VAL, 0, 0, 0},
    {0, HUGE_VAL, -1e-300, 2, 2},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    char text[64];
    long n = 77;
    snprintf(text, sizeof text, "%.17e", known[i].value);
    struct option_row row = {.name = "x", .type = OPTION_REAL, .min = known[i].min, .max = known[i].max};
    x = 77;
    ck_assert_msg(option_parse(&row, &x, text, &(struct error){0}) == known[i].real, "real %s", text);
    ck_assert(x == (known[i].real ? 77 : known[i].value));
    row.type = OPTION_INT;
    ck_assert_msg(option_parse(&row, &n, text, &(struct error){0}) == known[i].whole, "whole %s", text);
    ck_assert_int_eq(n, known[i].whole ? 77 : (long)known[i].value);
    if (known[i].value != floor(known[i].value) || fabs(known[i].value) > 0x1p53) continue;
    snprintf(text, sizeof text, "%.0f", known[i].value);
    n = 77;
    ck_assert_int_eq(option_parse(&row, &n, text, &(struct error){0}), known[i].whole);
    ck_assert_int_eq(n, known[i].whole ? 77 : (long)known[i].value);
  }
  static const struct {
    const char *word, *message;
  } hints[] = {{"gren", "'gren' is not one of red, green, blue; did you mean 'green'?"},
               {"GREEN", "'GREEN' is not one of red, green, blue; did you mean 'green'?"},
               {"ed", "'ed' is not one of red, green, blue; did you mean 'red'?"},
               {"purple", "'purple' is not one of red, green, blue"}};
  for (int i = 0; i < 4; i++) {
    struct error why = {0};
    long colour = 7;
    const struct option_row row = {.name = "x", .type = OPTION_CHOICE, .choices = colours};
    ck_assert_int_eq(option_parse(&row, &colour, hints[i].word, &why), STATUS_USAGE);
    ck_assert_str_eq(why.text, hints[i].message);
    ck_assert_int_eq(colour, 7);
  }
  static const char *const lists[][2] = {{"a", NULL}, {"", NULL}, {"a+b+c", NULL}, {"+a", "x"},
                                         {"a+", "x"}, {"+", "x"}, {"a+ +b", "x"}};
  for (int plain = 0; plain < 2; plain++)
    for (int i = 0; i < 7; i++) {
      const char *value = "old";
      const struct option_row row = {
        .name = "x", .type = OPTION_TEXT, .flags = plain ? OPTION_FREE : OPTION_LIST};
      const int bad = lists[i][1] && !plain;
      ck_assert_int_eq(option_parse(&row, &value, lists[i][0], &(struct error){0}),
                       bad ? STATUS_USAGE : STATUS_OK);
      ck_assert_str_eq(value, bad ? "old" : lists[i][0]);
    }
}
END_TEST

/* A real is a number unless said otherwise, everything else is structure; other flags have no say. */
START_TEST(options_that_are_numbers)
{
  static const enum option_type types[] = {OPTION_INT, OPTION_REAL, OPTION_BOOL, OPTION_CHOICE, OPTION_TEXT};
  for (int t = 0; t < 5; t++)
    for (unsigned flags = 0; flags < 512; flags++) {
      const struct option_row row = {.name = "x", .type = types[t], .flags = flags};
      const int wanted = flags & 32 ? 0 : flags & 16 ? 1 : types[t] == OPTION_REAL;
      ck_assert_msg(!option_is_number(&row) == !wanted, "type %d, flags %u", t, flags);
    }
  ck_assert(OPTION_FREE == 1 && OPTION_EXTEND == 2 && OPTION_LIST == 4 && OPTION_CONTENT == 8 &&
            OPTION_NUMBER == 16 && OPTION_STRUCTURE == 32 && OPTION_OFF == 64 && OPTION_LATER == 128 &&
            OPTION_THRESHOLD == 256);
}
END_TEST

/* --- memory -------------------------------------------------------------------------------------------- */

START_TEST(memory_is_zero_and_aligned)
{
  static const size_t sizes[] = {0, 1, 63, 64, 65, 100000, (2 << 20) + 5}, large = 2 << 20;
  const size_t held_before = memory_held();
  struct arena *arena = arena_new();
  for (int i = 0; i < 7; i++) {
    size_t before = memory_calls();
    char *plain = memory_new(sizes[i], 1), *piece = arena_get(arena, 1, sizes[i]);
    ck_assert_uint_gt(memory_calls(), before);
    ck_assert_uint_eq((uintptr_t)plain % (sizes[i] < large || !MEMORY_MAPS ? 64 : large), 0);
    ck_assert_uint_eq((uintptr_t)piece % 64, 0);
    size_t wrong = 0; /* counted: Check writes down every assertion, and these would be millions */
    for (size_t k = 0; k < sizes[i]; k++) {
      wrong += plain[k] != 0 || piece[k] != 0;
      plain[k] = piece[k] = 1;
    }
    plain = memory_grow(plain, sizes[i], sizes[i] + 70, 1);
    for (size_t k = 0; k < sizes[i] + 70; k++) wrong += plain[k] != (k < sizes[i]);
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_ge(memory_held(), held_before + sizes[i] + 70);
    memory_free(plain);
  }
  char *text = memory_text("abc");
  ck_assert_str_eq(arena_text(arena, text), text);
  ck_assert_str_eq(arena_format(arena, "%s%d", text, 7), "abc7");
  memory_free(text);
  arena_free(arena);
  ck_assert_uint_eq(memory_held(), held_before); /* what is given back is no more held, large or small */
}
END_TEST

/* The number behind a word of a file of /proc, in bytes; what a group of processes may have at most. */
static double told_by(const char *path, const char *word)
{
  char line[256];
  double number = -1;
  FILE *f = fopen(path, "r");
  while (f && number < 0 && fgets(line, sizeof line, f))
    if (!strncmp(line, word, strlen(word)) && strncmp(line, "max", 3)) number = atof(line + strlen(word));
  if (f) fclose(f);
  return number;
}

/* What is counted: each call, what is held to the byte where it is mapped, what the machine has; what is given is whole
   and its own, however it is asked for. */
START_TEST(memory_is_counted)
{
  const size_t mapped = (4 << 20) + 64, before = memory_calls();
  const size_t held = memory_held();
  void *a = memory_new(0, 8), *b = memory_new(8, 0);
  ck_assert(a && b && a != b);
  memory_free(a);
  memory_free(b);
  memory_free(NULL);
  ck_assert_uint_eq(memory_held(), held);
  ck_assert_uint_eq(memory_calls() - before, 2);
  int *grown = memory_grow(NULL, 0, 3, sizeof *grown);
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(grown[i], 0);
    grown[i] = i + 1;
  }
  grown = memory_grow(grown, 3, 2, sizeof *grown); /* fewer: the first of them */
  ck_assert(grown[0] == 1 && grown[1] == 2);
  grown = memory_grow(grown, 2, 1000, sizeof *grown);
  ck_assert(grown[0] == 1 && grown[1] == 2 && grown[2] == 0 && grown[999] == 0);
  char *copy = memory_text("");
  ck_assert_str_eq(copy, "");
  ck_assert_uint_eq(memory_calls() - before, 6);
  ck_assert_uint_ge(memory_held() - held, 4000);
  ck_assert_uint_lt(memory_held() - held, 4300);
  memory_free(copy);
  memory_free(grown);
  int *list = NULL, moves = 0; /* one by one, seldom copied, also where large blocks are mapped */
  for (int i = 0; i < 3000000; i++) {
    int *longer = memory_grow(list, (size_t)i, (size_t)i + 1, sizeof *list);
    moves += longer != list;
    list = longer;
    ck_assert(!list[i] && (!i || list[i - 1] == i));
    list[i] = i + 1;
    if (!MEMORY_MAPS && i > 1000) i = 3000000; /* each is a copy there */
  }
  ck_assert(!MEMORY_MAPS || moves < 60);
  memory_free(list);
  if (MEMORY_MAPS) {
    char *large = memory_new(mapped - 63, 1), *other = memory_new((2 << 20) - 1, 1); /* whole lines of 64 */
    ck_assert_uint_eq(memory_held() - held, mapped + (2 << 20));
    ck_assert_uint_eq((uintptr_t)large % (2 << 20), 0);
    large[mapped - 1] = other[(2 << 20) - 1] = 1;
    memory_free(other);
    ck_assert_uint_eq(memory_held() - held, mapped);
    memory_free(large);
    const double written = told_by("/proc/self/status", "VmRSS:"); /* KiB */
    char *unwritten = memory_new(1 << 30, 1);
    unwritten[1 << 29] = 1;
    ck_assert_double_lt(told_by("/proc/self/status", "VmRSS:") - written, 1 << 18);
    memory_free(unwritten);
    ck_assert_double_lt(told_by("/proc/self/status", "VmSize:"), 1e9);
  }
  ck_assert_uint_eq(memory_held(), held);
}
END_TEST

/* The smallest of the machine's memory, of all groups around the process, version 1 and 2, and of ulimit. */
START_TEST(limits_of_memory_and_cores)
{
  static const struct {
    const char *group, *file, *text;
    double bytes;
    int cores;
  } cases[] = {
    {"0::/user/job\n", "user/job/memory.max", "314572800\n", 314572800, 0},
    {"0::/user/job\n", "user/memory.max", "314572800\n", 314572800, 0},
    {"0::/user/job\n", "memory.max", "314572800\n", 314572800, 0},
    {"0::/user/job\n", "other/memory.max", "314572800\n", 0, 0},
    {"0::/user/job\n", "user/job/memory.max", "max\n", 0, 0},
    {"4:cpu,memory:/slurm/job_7\n0::/\n", "memory/slurm/memory.limit_in_bytes", "1048576\n", 1048576, 0},
    {"4:memory:/slurm/job_7\n", "memory/slurm/memory.limit_in_bytes", "9223372036854771712\n", 0, 0},
    {"4:cpuset:/slurm/job_7\n", "memory/slurm/memory.limit_in_bytes", "1048576\n", 0, 0},
    {"0::/user/job\n", "user/cpu.max", "50000 100000\n", 0, 1},
    {"0::/user/job\n", "user/job/cpu.max", "150000 100000\n", 0, 2},
    {"0::/user/job\n", "user/job/cpu.max", "max 100000\n", 0, 0},
    {"0::/\n", "cpu.max", "300000 100000\n", 0, 3},
    {"3:cpu,cpuacct:/a\n", "cpu/a/cpu.cfs_quota_us", "200000\n", 0, 2},
    {"3:cpu,cpuacct:/a\n", "cpu/a/cpu.cfs_quota_us", "-1\n", 0, 0},
    {"no group\n", "memory.max", "1\n", 0, 0},
  };
  const double all = (double)sysconf(_SC_PAGESIZE) * (double)sysconf(_SC_PHYS_PAGES);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char root[64], command[1024];
    snprintf(root, sizeof root, "/tmp/maxlogit-limits-%d", (int)getpid());
    snprintf(
      command, sizeof command,
      "r=%s; rm -rf $r; mkdir -p $r/proc/self; printf -- '%s' >$r/proc/self/cgroup; f=$r/sys/fs/cgroup/%s; "
      "mkdir -p ${f%%/*}; echo 100000 >${f%%/*}/cpu.cfs_period_us; printf -- '%s' >$f",
      root, cases[i].group, cases[i].file, cases[i].text);
    ck_assert_int_eq(system(command), 0);
    const struct memory_limit limit = memory_limit(root);
    ck_assert_msg(limit.bytes == (cases[i].bytes ? cases[i].bytes : all), "%zu: %g", i, limit.bytes);
    ck_assert_msg(cases[i].bytes ? !strncmp(limit.by, "the control group of this job (/", 32)
                                 : !strcmp(limit.by, "this machine has"),
                  "%zu: %s", i, limit.by);
    ck_assert_msg(limits_cores(root) == cases[i].cores, "%zu: %d", i, limits_cores(root));
    snprintf(command, sizeof command, "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
  }
  char root[64], command[256];
  snprintf(root, sizeof root, "/tmp/maxlogit-limits-%d", (int)getpid());
  snprintf(command, sizeof command, "mkdir -p %s/proc && echo 'SwapTotal:  3 kB' >%s/proc/meminfo", root,
           root);
  ck_assert_int_eq(system(command), 0);
  ck_assert_double_eq_tol(memory_limit(root).bytes, all + 3 * 1024, 1);
  snprintf(command, sizeof command, "rm -rf %s", root);
  ck_assert_int_eq(system(command), 0);
#ifndef __SANITIZE_ADDRESS__ /* which needs terabytes of addresses */
  struct rlimit before, own;
  getrlimit(RLIMIT_AS, &before);
  own = before, own.rlim_cur = 0x1p32;
  ck_assert_int_eq(setrlimit(RLIMIT_AS, &own), 0);
  struct memory_limit limit = memory_limit("");
  setrlimit(RLIMIT_AS, &before);
  ck_assert(limit.bytes < 0x1p32 || !strcmp(limit.by, "ulimit -v allows"));
#endif
}
END_TEST

/* Small pieces share a block of 16 KiB, large ones have their own; none lies in another, each begins a line. */
START_TEST(durations)
{
  static const struct {
    double seconds;
    const char *text;
  } cases[] = {{59, "0:59"},         {3599, "59:59"},       {3600, "1:00:00"}, {86399, "23:59:59"},
               {86400, "1 d 00:00"}, {180000, "2 d 02:00"}, {NAN, "?"},        {-1, "?"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[32];
    duration_text(text, cases[i].seconds);
    ck_assert_str_eq(text, cases[i].text);
  }
}
END_TEST

START_TEST(arenas_are_blocks)
{
  const size_t held = memory_held(), before = memory_calls();
  arena_free(NULL);
  struct arena *arena = arena_new();
  ck_assert_uint_eq(memory_calls() - before, 1);
  char *piece[600];
  for (int i = 0; i < 512; i++) piece[i] = arena_get(arena, 1 + (size_t)i % 8, 8); /* 64 bytes each */
  ck_assert_uint_eq(memory_calls() - before, 3);
  piece[512] = arena_get(arena, 16384, 1);
  piece[513] = arena_get(arena, 1, 16385);
  piece[514] = arena_get(arena, 0, 9);
  ck_assert_uint_eq(memory_calls() - before, 5);
  for (int i = 0; i < 515; i++) {
    const size_t size = i < 512 ? 64 : i == 512 ? 16384 : i == 513 ? 16385 : 0;
    ck_assert_uint_eq((uintptr_t)piece[i] % 64, 0);
    size_t wrong = 0;
    for (size_t k = 0; k < size; k++) wrong += piece[i][k] != 0, piece[i][k] = (char)(1 + i % 100);
    ck_assert_msg(!wrong, "piece %d is not zero, or another's", i);
  }
  char *text = arena_format(arena, "%0*d|%s", 20000, 7, "end"), *empty = arena_text(arena, "");
  ck_assert(strlen(text) == 20004 && !strcmp(text + 19999, "7|end") && !*empty);
  ck_assert_str_eq(arena_format(arena, "%s", ""), "");
  for (int i = 0; i < 514; i++) ck_assert_int_eq(piece[i][0], 1 + i % 100);
  arena_free(arena);
  ck_assert_uint_eq(memory_held(), held);
}
END_TEST

static void allocate(const void *context)
{
  for (long i = 0; i < *(const long *)context; i++) memory_free(memory_new(1, 8));
}

/* Eight bytes each; the second product is 8 beyond the range of sizes. */
static void ask_too_much(const void *context) { memory_free(memory_new(*(const size_t *)context, 8)); }

static struct arena *asked; /* where valgrind finds it */
static void ask_arena_too_much(const void *context)
{
  asked = arena_new();
  arena_get(asked, *(const size_t *)context, 8);
}

static void allocate_by_growing(const void *context)
{
  for (long i = 0; i < *(const long *)context; i++) memory_free(memory_grow(NULL, 0, 1, 8));
}

START_TEST(no_memory_left)
{
  char fault[32];
  long calls = 3;
  snprintf(fault, sizeof fault, "memory:%zu", memory_calls() + 3);
  setenv("MAXLOGIT_FAULT", fault, 1);
  ck_assert_int_eq(in_child(allocate, &calls), STATUS_FAIL);
  calls = 2;
  ck_assert_int_eq(in_child(allocate, &calls), 0);
  unsetenv("MAXLOGIT_FAULT");
  const size_t too_many[] = {SIZE_MAX / 4, SIZE_MAX / 8 + 2, PTRDIFF_MAX / 8};
  for (int i = 0; i < 3; i++) ck_assert_int_eq(in_child(ask_too_much, &too_many[i]), STATUS_USAGE);
  for (int i = 0; i < 3; i++) ck_assert_int_eq(in_child(ask_arena_too_much, &too_many[i]), STATUS_USAGE);
}
END_TEST

/* In words: how much more was wanted, what the machine has, and which keys make it. The fault hits one call, grown or
   new, and no other. */
START_TEST(words_of_no_memory)
{
  char told[20000], wanted[400];
  ck_assert_int_eq(heard_of_child(ask_too_much, &(size_t){PTRDIFF_MAX / 8}, told, sizeof told), STATUS_USAGE);
  snprintf(wanted, sizeof wanted,
           "maxlogit: out of memory: %.3f GiB more wanted; %s %.1f GiB; free on this machine: ", 0x1p33,
           memory_limit("").by, memory_there_is() / 0x1p30);
  ck_assert_msg(!strncmp(told, wanted, strlen(wanted)), "%s", told);
  const double is_free = atof(told + strlen(wanted)) * 0x1p30;
  const double seen_free = (double)sysconf(_SC_PAGESIZE) * (double)sysconf(_SC_AVPHYS_PAGES);
  ck_assert_msg(is_free > 0.3 * seen_free - 0x1p30 && is_free < 3 * seen_free + 0x1p30, "%g, %g", is_free,
                seen_free);
  ck_assert(strstr(told,
                   ". A run's memory grows with model.width, model.layers, model.context, model.vocab and "
                   "train.batch\n"));
  static const char *const faults[] = {"memory:%zu", "memory:%zu", "memory:0", "io:%zu", "memor:%zu"};
  while (memory_calls() < 1234) memory_free(memory_new(1, 1)); /* a number of several digits */
  const size_t now = memory_calls();
  for (size_t k = 0; k < 5; k++)
    for (size_t ahead = 1; ahead < 4; ahead++) {
      char fault[32];
      snprintf(fault, sizeof fault, faults[k], now + ahead);
      setenv("MAXLOGIT_FAULT", fault, 1);
      const int status =
        heard_of_child(k == 1 ? allocate_by_growing : allocate, &(long){2}, told, sizeof told);
      ck_assert_int_eq(status, k < 2 && ahead < 3 ? STATUS_FAIL : 0);
      ck_assert((strstr(told, "0.000 GiB more wanted") != NULL) == (status != 0));
      unsetenv("MAXLOGIT_FAULT");
    }
}
END_TEST

/* --- files --------------------------------------------------------------------------------------------- */

static char folder[FOLDER_PATH];

/* Files that are open, and which of them a program that is started would have, too. */
static void open_files(int *all, int *inherited)
{
  *all = *inherited = 0;
  for (int fd = 3; fd < 256; fd++) {
    const int flags = fcntl(fd, F_GETFD);
    *all += flags >= 0;
    *inherited += flags >= 0 && !(flags & FD_CLOEXEC);
  }
}

static size_t held_at_first;
static int open_at_first, inherited_at_first;

static void enter_folder(void)
{
  folder_enter(folder);
  held_at_first = memory_held();
  open_files(&open_at_first, &inherited_at_first);
}

/* Whatever went well or failed, nothing is left open or held. */
static void leave_folder(void)
{
  int all, inherited;
  open_files(&all, &inherited);
  ck_assert_int_eq(all, open_at_first);
  ck_assert_int_eq(inherited, inherited_at_first);
  ck_assert_uint_eq(memory_held(), held_at_first);
  folder_leave(folder);
}

static void put(const char *path, const char *text)
{
  struct error e = {0};
  ck_assert_msg(file_write(path, text, strlen(text), &e) == STATUS_OK, "%s", e.text);
}

static void expect(const char *path, const char *text)
{
  struct error e = {0};
  char *found;
  size_t length;
  ck_assert_msg(file_read(path, &found, &length, &e) == STATUS_OK, "%s", e.text);
  ck_assert_str_eq(found, text);
  ck_assert_uint_eq(length, strlen(text));
  memory_free(found);
}

static int exists(const char *path)
{
  struct stat s;
  return !stat(path, &s);
}

/* Is there a file on its way to this one? */
static int has_temporary(const char *path)
{
  char pattern[64];
  glob_t found;
  snprintf(pattern, sizeof pattern, "%s.????????.tmp", path);
  int has = !glob(pattern, 0, NULL, &found);
  globfree(&found);
  return has;
}

/* Without file_write, which clears away. */
static void leave(const char *path, const char *text)
{
  FILE *f = fopen(path, "w");
  ck_assert(f && fputs(text, f) >= 0 && !fclose(f));
}

START_TEST(files_read_back)
{
  struct error e = {0};
  char *text, *large = memory_new(300001, 1);
  memset(large, 'a', 300000);
  ck_assert_int_eq(file_make_folders("a/b/c/file", &e), STATUS_OK);
  ck_assert_int_eq(file_make_folders("a/b/c/file", &e), STATUS_OK);
  ck_assert_int_eq(file_make_folders("file", &e), STATUS_OK);
  put("a/b/c/file", "old");
  put("a/b/c/file", large);
  expect("a/b/c/file", large);
  ck_assert(!exists("a/b/c/file.tmp"));
  memory_free(large);
  ck_assert_int_eq(file_remove("a/b/c/file"), STATUS_OK);
  ck_assert_int_eq(file_remove("a/b/c/file"), STATUS_OK);
  ck_assert_int_eq(file_read("a/b/c/file", &text, NULL, &e), STATUS_USAGE);
  ck_assert_str_eq(e.text, "cannot read a/b/c/file: No such file or directory");
  e.status = 0;
  ck_assert_int_eq(file_read("a", &text, NULL, &e), STATUS_USAGE);
  ck_assert_str_eq(e.text, "cannot read a: a folder; a file is wanted");
  e.status = 0;
  ck_assert_int_eq(file_write("no/folder", "x", 1, &e), STATUS_FAIL);
  ck_assert_str_eq(e.text, "cannot write no/folder: No such file or directory");
}
END_TEST

/* What is said, and with which status, of all that can be wrong with a path. */
START_TEST(paths_that_are_wrong)
{
  char long_path[5000], wanted[200];
  memset(long_path, 'a', sizeof long_path);
  struct error e = {0};
  char *text = NULL;
  size_t length = 77;
#define FAILS(call, wanted_status, ...) \
  do { \
    e = (struct error){0}; \
    ck_assert_int_eq(call, wanted_status); \
    snprintf(wanted, sizeof wanted, __VA_ARGS__); \
    ck_assert_str_eq(e.text, wanted); \
    ck_assert_int_eq(e.status, wanted_status); \
  } while (0)
  leave("file", "text");
  ck_assert_int_eq(mkdir("folder", 0777), 0);
  ck_assert_int_eq(symlink("loop", "loop"), 0);
  ck_assert_int_eq(mkdir("full", 0777), 0);
  leave("full/file", "");
  FAILS(file_read("none", &text, &length, &e), STATUS_USAGE, "cannot read none: No such file or directory");
  FAILS(file_read("loop", &text, &length, &e), STATUS_USAGE,
        "cannot read loop: Too many levels of symbolic links");
  FAILS(file_read("file/x", &text, &length, &e), STATUS_USAGE, "cannot read file/x: Not a directory");
  FAILS(file_read("folder", &text, &length, &e), STATUS_USAGE,
        "cannot read folder: a folder; a file is wanted");
  FAILS(file_read("/dev/zero", &text, &length, &e), STATUS_USAGE,
        "cannot read /dev/zero: a device, which need not end; a file is wanted");
  FAILS(file_read("/proc/self/mem", &text, &length, &e), STATUS_FAIL,
        "cannot read /proc/self/mem: Input/output error");
  ck_assert(!text && length == 77);
  FAILS(file_copy("none", "copy", &e), STATUS_USAGE, "cannot read none: No such file or directory");
  FAILS(file_copy("file", "none/copy", &e), STATUS_FAIL, "cannot write none/copy: No such file or directory");
  FAILS(file_write("folder", "x", 1, &e), STATUS_FAIL, "cannot write folder: Is a directory");
  FAILS(file_write("file/x", "x", 1, &e), STATUS_FAIL, "cannot write file/x: Not a directory");
  ck_assert(!exists("copy") && !has_temporary("folder")); /* nothing else is left lying */
  expect("file", "text");
  FAILS(file_make_folders("file/a/b", &e), STATUS_FAIL, "cannot make the folder file/a: Not a directory");
  FAILS(file_make_folders("~/a/b", &e), STATUS_USAGE,
        "~/a/b: the shell has left ~ as it is, which would be a folder; write $HOME");
  for (int i = 4090; i < 4099; i++) { /* with ".tmp7" behind it no longer than a system takes */
    long_path[i] = 0;
    e = (struct error){0};
    ck_assert_int_eq(file_write(long_path, "x", 1, &e), i + 13 < 4096 ? STATUS_FAIL : STATUS_USAGE);
    ck_assert_msg(i + 13 < 4096 ? !strncmp(e.text, "cannot write aaa", 16)
                                : strlen(e.text) == 60 + strlen("...: path too long"),
                  "%d: %.200s", i, e.text);
    long_path[i] = 'a';
  }
  ck_assert_ptr_null(append_open("none/log", NULL, &e));
  e = (struct error){0};
  ck_assert_ptr_null(append_open("folder", NULL, &e));
  ck_assert_str_eq(e.text, "cannot write folder: Is a directory");
  e = (struct error){0};
  errno = 0;
  ck_assert_ptr_null(lock_take("folder", &e));
  ck_assert_str_eq(e.text, "cannot lock folder: Is a directory");
  ck_assert_int_eq(e.status, STATUS_FAIL);
  ck_assert(file_is_folder("folder") && file_is_folder(".") && !file_is_folder("file") &&
            !file_is_folder("none") && !file_is_folder("loop"));
  ck_assert_int_eq(file_remove("none"), STATUS_OK);
  ck_assert_int_eq(file_remove("folder"), STATUS_FAIL);
  ck_assert_int_eq(file_remove("file/x"), STATUS_FAIL);
  ck_assert_int_eq(file_remove("file"), STATUS_OK);
  ck_assert(!exists("file"));
  ck_assert_int_eq(append_close(NULL), STATUS_OK);
  lock_release(NULL, "folder");
  length = 77;
  ck_assert(!file_read_end("none", 5, &length) && !file_read_end("folder", 5, &length) &&
            !file_read_end("/dev/zero", 5, &length));
#undef FAILS
}
END_TEST

/* What a file holds goes through whole, of any bytes and of none; folders are made above it, not it; rights are those
   that the user gives all files. */
START_TEST(files_of_any_bytes)
{
  struct error e = {0};
  char *all = memory_new(70000, 1), *found = NULL;
  for (size_t i = 0; i < 70000; i++) all[i] = (char)(i * 7 + i / 256);
  static const size_t sizes[] = {0, 1, 2, 255, 4096, 65535, 65536, 65537, 70000};
  struct stat info;
  umask(027);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t length = 1;
    ck_assert_int_eq(file_write("bytes", all, sizes[i], &e), STATUS_OK);
    ck_assert_int_eq(file_copy("bytes", "copy", &e), STATUS_OK);
    ck_assert(!stat("copy", &info) && (size_t)info.st_size == sizes[i] && (info.st_mode & 0777) == 0640);
    ck_assert_int_eq(file_read("copy", &found, &length, &e), STATUS_OK);
    ck_assert(length == sizes[i] && !memcmp(found, all, length) && !found[length]);
    memory_free(found);
    ck_assert_int_eq(file_read("copy", &found, NULL, &e), STATUS_OK);
    memory_free(found);
    found = file_read_end("copy", sizes[i] / 2 + 1, &length);
    const size_t wanted = sizes[i] ? sizes[i] / 2 + 1 : 0;
    ck_assert(length == wanted && !memcmp(found, all + sizes[i] - wanted, wanted) && !found[wanted]);
    memory_free(found);
  }
  char here[FOLDER_PATH + 16];
  snprintf(here, sizeof here, "%s/x/y/file", folder);
  ck_assert_int_eq(file_make_folders(here, &e), STATUS_OK);
  ck_assert(file_is_folder("x/y") && !exists("x/y/file"));
  ck_assert(!stat("x/y", &info) && (info.st_mode & 0777) == 0750);
  ck_assert_int_eq(file_make_folders("x/z/", &e), STATUS_OK);
  ck_assert_int_eq(file_make_folders("//", &e), STATUS_OK);
  ck_assert_int_eq(file_make_folders("/file", &e), STATUS_OK);
  ck_assert_int_eq(file_make_folders("~file", &e), STATUS_OK);
  ck_assert(file_is_folder("x/z") && !exists("~file"));
  ck_assert_int_eq(file_make_folders("names/of-some/letters/file", &e), STATUS_OK);
  ck_assert(file_is_folder("names/of-some/letters") && !exists("n") && !exists("name") && !exists("names/o"));
  umask(022);
  memory_free(all);
}
END_TEST

/* Who holds a lock publishes as long as it is his; nothing is renamed, or left lying, where it was taken away. */
START_TEST(what_a_holder_writes)
{
  struct error e = {0};
  leave("uv.lock", "of another program");
  ck_assert_ptr_null(lock_take("uv.lock", &e));
  ck_assert_str_eq(e.text, "uv.lock is not empty, so it is of another program: give the run another name");
  expect("uv.lock", "of another program");
  e = (struct error){0};
  leave("run.point", "what was there, and is kept until something is written");
  struct lock *lock = lock_take("run.point", &e);
  expect("run.point", "what was there, and is kept until something is written");
  ck_assert_int_eq(lock_was_taken(lock, &e), STATUS_OK);
  ck_assert_int_eq(file_write_held("file", "one", 3, lock, &e), STATUS_OK);
  expect("file", "one");
  for (int again = 0; again < 2; again++) {
    unlink("run.point");
    if (again) leave("run.point", "another's");
    e = (struct error){0};
    ck_assert_int_eq(lock_was_taken(lock, &e), STATUS_FAIL);
    ck_assert_str_eq(e.text, "run.point was removed: another process has taken this run over");
    e = (struct error){0};
    ck_assert_int_eq(file_write_held("file", "two", 3, lock, &e), STATUS_FAIL);
    ck_assert_str_eq(e.text, "run.point was removed: another process has taken this run over");
    expect("file", "one");
    ck_assert(!exists("file.tmp"));
  }
  lock_write(lock, "not theirs");
  expect("run.point", "another's");
  lock_release(lock, "run.point");
  expect("run.point", "another's");
  lock = lock_take("run.point", NULL);
  lock_write(lock, "");
  expect("run.point", "");
  int all, inherited;
  struct append *a = append_open("log", NULL, NULL);
  open_files(&all, &inherited); /* a program that is started has neither of them */
  ck_assert_int_eq(all, open_at_first + 2);
  ck_assert_int_eq(inherited, inherited_at_first);
  append_close(a);
  errno = 0;
  ck_assert_ptr_null(lock_take("run.point", NULL));
  ck_assert_int_eq(errno, EWOULDBLOCK);
  ck_assert(lock_is_held("run.point"));
  lock_release(lock, NULL);
  ck_assert(exists("run.point") && !lock_is_held("run.point"));
  ck_assert(!lock_is_held("no.lock") && !exists("no.lock"));
  lock = lock_take("run.point", NULL);
  ck_assert_ptr_nonnull(lock);
  lock_release(lock, "run.point");
  ck_assert(!exists("run.point"));
}
END_TEST

/* Another user who may write to the folder puts a file of more rights in the place of a private one: the next writing
   keeps the rights of its own. A change by the owner counts. */
START_TEST(what_a_lock_guards)
{
  static const struct {
    mode_t own, planted, after;
    int before; /* is there a file when the lock is taken? */
  } c[] = {{0600, 0644, 0600, 1}, {0640, 0, 0640, 1}, {0, 0666, 0644, 0}, {0, 0, 0644, 0}};
  umask(022);
  for (size_t i = 0; i < sizeof c / sizeof *c; i++)
    for (int later = 0; later < 2; later++) {
      struct stat info;
      struct error e = {0};
      unlink("file");
      if (c[i].before) leave("file", "first");
      if (c[i].before) chmod("file", c[i].own);
      struct lock *lock = lock_take("run.point", &e);
      lock_guard(lock, "file");
      if (later && c[i].before) ck_assert_int_eq(file_write_held("file", "one", 3, lock, &e), STATUS_OK);
      leave("planted", "planted");
      chmod("planted", c[i].planted);
      unlink("file"); /* its number must not be given to the other file */
      if (c[i].planted) rename("planted", "file");
      ck_assert_int_eq(file_write_held("file", "two", 3, lock, &e), STATUS_OK);
      ck_assert(!stat("file", &info));
      ck_assert_uint_eq(info.st_mode & 07777, c[i].after);
      chmod("file", 0604);
      ck_assert_int_eq(file_write_held("file", "three", 5, lock, &e), STATUS_OK);
      ck_assert(!stat("file", &info));
      ck_assert_uint_eq(info.st_mode & 07777, 0604);
      lock_release(lock, "run.point");
    }
}
END_TEST

/* This function stands before the C library's: the first `held_locks` locks are held by another process. */
static int held_locks, waiting_locks;
int flock(int fd, int how)
{
  waiting_locks += !(how & (LOCK_NB | LOCK_UN));
  if (!(how & LOCK_UN) && held_locks-- > 0) {
    errno = EWOULDBLOCK;
    return -1;
  }
  int (*next)(int, int);
  void *found = dlsym(RTLD_NEXT, "flock");
  memcpy(&next, &found, sizeof next);
  return next(fd, how);
}

/* Any reader of the folder can lock a temporary file as soon as it appears. The writer takes another one. */
START_TEST(a_temporary_that_another_holds_is_given_up)
{
  struct error e = {0};
  held_locks = 40;
  waiting_locks = 0;
  ck_assert_int_eq(file_write("file", "new text", 8, &e), STATUS_OK);
  ck_assert_int_lt(held_locks, 0);
  held_locks = 0;
  ck_assert_int_eq(waiting_locks, 0);
  expect("file", "new text");
  ck_assert(!has_temporary("file"));
}
END_TEST

static unsigned mode_of(const char *path)
{
  struct stat info;
  ck_assert(!stat(path, &info));
  return info.st_mode & 07777;
}

/* A file that is read under a lock makes new files as private as it is, whatever lay there when the command began. */
START_TEST(what_is_read_is_kept_private)
{
  struct error e = {0};
  char *text = NULL;
  leave("file", "private");
  ck_assert(!chmod("file", 0640));
  umask(022);
  struct lock *lock = lock_take("run.point", &e);
  leave("lines", "");
  ck_assert(!chmod("lines", 0666));
  append_close(append_open("lines", lock, &e));
  ck_assert_uint_eq(mode_of("lines"), 0666);
  ck_assert_int_eq(file_read_held("file", &text, NULL, lock, &e), STATUS_OK);
  append_close(
    append_open("lines", lock, &e)); /* others may have opened it: it is replaced before it is written */
  ck_assert_uint_eq(mode_of("lines"), 0666);
  struct append *lines = append_open("lines", lock, &e);
  ck_assert_int_eq(append_cut(lines, 0, &e), STATUS_OK);
  ck_assert_uint_eq(mode_of("lines"), 0640);
  append_close(lines);
  if (!geteuid()) {
    struct stat info;
    ck_assert(!chown("lines", 65534, 65534));
    lines = append_open("lines", lock, &e);
    ck_assert_int_eq(append_cut(lines, 0, &e), STATUS_OK);
    ck_assert(!append_write(lines, "row", 3, &e) && !stat("lines", &info) && info.st_uid == 0 &&
              info.st_size == 3);
    append_close(lines);
  }
  lock_keep_private(lock);
  lock_release(lock, "run.point");
  memory_free(text);
  ck_assert_uint_eq(umask(022), 027);
}
END_TEST

static struct lock *held; /* where valgrind finds it in a child that ends while its parent holds it */

/* Each call that can fail, of each that reaches the disk: what is said then, and what the file is after it. The calls
   that this process has made are counted on in a child, so one that has made none says at which number a fault is. */
struct attempt {
  const char *what, *fault, *told;
  int status;
};

static void attempt(const void *context)
{
  const struct attempt *x = context;
  struct error e = {0};
  struct append *a = NULL;
  int status = STATUS_OK;
  switch (*x->what) {
  case 'w': status = file_write("file", "new text", 8, &e); break;
  case 'c': status = file_copy("other", "file", &e); break;
  case 'a':
    if (!(a = append_open("file", NULL, &e)))
      status = e.status;
    else
      status = append_write(a, "more\n", 5, &e);
    if (!status) status = append_cut(a, 8, &e);
    printf("%zu ", a ? append_length(a) : 999);
    append_close(a);
    break;
  case 'l':
    held = lock_take("run.lock", &e);
    status = held ? STATUS_OK : e.status;
    if (!status) status = file_fault_point(&e);
    break;
  case 't':
    for (int i = 0; i < 3; i++) file_fault_point(&e);
    status = file_write("file", "new text", 8, &e);
    break;
  default: break;
  }
  printf("%s", e.text);
  fflush(stdout);
  _exit(status);
}

START_TEST(calls_that_fail)
{
  static const struct attempt all[] = {
    {"write", "io:1:eio", "cannot write file: Input/output error", 1},
    {"write", "io:2:eio", "cannot write file: Input/output error", 1},
    {"write", "io:3:eio", "cannot sync file: Input/output error", 1},
    {"write", "io:4:eio", "cannot write file: Input/output error", 1},
    {"write", "io:5:eio", "cannot sync folder .: Input/output error", 1},
    {"write", "io:6:eio", "", 0},
    {"write", "io:0:eio", "", 0},
    {"write", "io:1:fsync", "cannot sync file: Input/output error", 1},
    {"write", "io:3:fsync", "cannot sync file: Input/output error", 1},
    {"write", "io:4:fsync", "cannot sync folder .: Input/output error", 1},
    {"write", "io:6:fsync", "", 0},
    {"write", "io:1:enospc", "cannot write file: No space left on device", 1},
    {"write", "io:2:enospc", "cannot write file: No space left on device", 1},
    {"write", "io:3:enospc", "cannot sync file: No space left on device", 1},
    {"write", "io:4:enospc", "cannot write file: No space left on device", 1},
    {"write", "io:5:enospc", "cannot sync folder .: No space left on device", 1},
    {"write", "io:1:full", "cannot write file: No space left on device", 1},
    {"write", "io:2:full", "cannot write file: No space left on device", 1},
    {"write", "io:3:full", "", 0}, /* what is synced, or renamed, wants no room */
    {"write", "io:1:short", "", 0},
    {"write", "io:2:short", "", 0},
    {"write", "io:1:int", "", -SIGINT},
    {"write", "io:5:term", "", -SIGTERM},
    {"write", "io:6:term", "", 0},
    {"write", "io:3:kill", "", -SIGKILL},
    {"write", "io:3:what", "", 0},
    {"write", "io:3", "", 0},
    {"copy", "io:1:eio", "cannot write file: Input/output error", 1},
    {"copy", "io:6:eio", "", 0},
    {"append", "io:1:eio", "999 cannot write file: Input/output error", 1},
    {"append", "io:2:eio", "8 cannot write file: Input/output error", 1},
    {"append", "io:3:eio", "13 cannot shorten file: Input/output error", 1},
    {"append", "io:4:eio", "8 ", 0},
    {"append", "io:2:short", "8 ", 0},
    {"append", "io:2:full", "8 cannot write file: No space left on device", 1},
    {"append", "io:3:full", "8 ", 0},
    {"lock", "io:1:eio", "cannot lock run.lock: Input/output error", 1},
    {"lock", "io:2:eio", "Input/output error", 1},
    {"lock", "io:3:eio", "", 0},
    {"lock", "io:1:full", "", 0},
    {"lock", "io:2:full", "", 0},
    {"lock", "io:2:short", "", 0},
    {"times", "io:2:kill", "", -SIGKILL}, /* points of others count */
    {"times", "io:5:eio", "cannot write file: Input/output error", 1},
    {"times", "io:9:eio", "", 0},
  };
  char told[20000];
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const struct attempt *x = &all[i];
    leave("file", "old text");
    leave("temporary", "new text");
    leave("other", "new text");
    setenv("MAXLOGIT_FAULT", x->fault, 1);
    const int status = heard_of_child(attempt, x, told, sizeof told);
    unsetenv("MAXLOGIT_FAULT");
    ck_assert_msg(status == x->status && !strcmp(told, x->told), "%s, %s: %d, %s", x->what, x->fault, status,
                  told);
    char *text = NULL;
    ck_assert_int_eq(file_read("file", &text, NULL, NULL), STATUS_OK);
    const int renamed = !status || strstr(told, "sync folder");
    const int was_replaced = strchr("wpct", *x->what) && (renamed || status == -SIGTERM);
    if (*x->what == 'a' && strstr(told, "shorten"))
      ck_assert_str_eq(text, "old textmore\n");
    else
      ck_assert_msg(!strcmp(text, was_replaced ? "new text" : "old text"), "%s, %s: %s", x->what, x->fault,
                    text);
    memory_free(text);
    ck_assert_msg(status < 0 || !has_temporary("file"), "%s, %s", x->what, x->fault);
    ck_assert_msg(*x->what != 'p' || exists("temporary") == !renamed, "%s", x->fault); /* it stays */
    ck_assert_int_eq(system("rm -f file.*.tmp"), 0);
  }
}
END_TEST

/* Whose size nobody knows before: a pipe, of what fits at first, of one byte more and of much more. */
START_TEST(pipes_are_read_whole)
{
  static const size_t sizes[] = {0, 65534, 65535, 65536, 131071, 300000};
  char *all = memory_new(300000, 1);
  for (size_t i = 0; i < 300000; i++) all[i] = (char)('a' + i % 23);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct error e = {0};
    char *text = NULL;
    size_t length = 1;
    ck_assert_int_eq(mkfifo("pipe", 0600), 0);
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
      FILE *f = fopen("pipe", "w");
      _exit(!f || fwrite(all, 1, sizes[i], f) != sizes[i] || fclose(f));
    }
    char path[32]; /* as from a shell's <(...) */
    int pipe = open("pipe", O_RDONLY);
    snprintf(path, sizeof path, "/dev/fd/%d", pipe);
    ck_assert_msg(!file_read(path, &text, &length, &e), "%s", e.text);
    close(pipe);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert_uint_eq(length, sizes[i]);
    ck_assert(!memcmp(text, all, length) && !text[length]);
    memory_free(text);
    unlink("pipe");
  }
  memory_free(all);
  put("whole", "0123456789");
  for (size_t most = 0; most < 13; most++) { /* and the last so many bytes of a file */
    size_t length = 0;
    char *end = file_read_end("whole", most, &length);
    ck_assert(length == (most < 10 ? most : 10) && !memcmp(end, "0123456789" + 10 - length, length));
    memory_free(end);
  }
  ck_assert_ptr_null(file_read_end(".", 10, &(size_t){0}));
}
END_TEST

static void replace(const void *context)
{
  struct error e = {0};
  (void)context;
  _exit(file_write("file", "new text", 8, &e));
}

/* At every call, every failure leaves the old file or the new one; success leaves the new one. */
START_TEST(replacement_is_whole)
{
  static const char *const kinds[] = {"kill", "eio", "enospc", "full", "short", "fsync"};
  put("file", "old text"); /* in this process: a child's calls are counted from here */
  int calls = 0, hits = 0;
  for (int kind = 0; kind < 6; kind++)
    for (int k = 1; k <= 12; k++) {
      char fault[32];
      snprintf(fault, sizeof fault, "io:%d:%s", k, kinds[kind]);
      ck_assert_int_eq(system("echo -n 'old text' > file; rm -f file.*.tmp"), 0);
      setenv("MAXLOGIT_FAULT", fault, 1);
      int status = in_child(replace, NULL);
      unsetenv("MAXLOGIT_FAULT");
      struct error e = {0};
      char *text;
      ck_assert_int_eq(file_read("file", &text, NULL, &e), STATUS_OK);
      int is_new = !strcmp(text, "new text");
      ck_assert_msg(is_new || !strcmp(text, "old text"), "%s: %s", fault, text);
      ck_assert_msg(is_new || status != 0, "%s", fault);
      ck_assert_msg(status == 0 || status == STATUS_FAIL || status == -SIGKILL, "%s: %d", fault, status);
      ck_assert_msg(kind == 0 || !exists("file.tmp"), "%s", fault);
      memory_free(text);
      calls = status == -SIGKILL ? k : calls;
      hits += status != 0;
    }
  ck_assert_int_eq(calls, 10); /* 5 before, 5 in the child: open, write, sync, rename, sync */
  ck_assert_int_eq(hits, 5 + 5 + 10 + 7 + 0 + 10);
}
END_TEST

/* Writes the file many times, each time whole: all of one letter, and as long as that letter's turn. */
static void write_often(const void *context)
{
  const int *turn = context;
  struct error e = {0};
  char text[20000];
  for (int i = 0; i < 200; i++) {
    size_t length = (size_t)(1 + (i * 37 + *turn) % 40) * 500;
    memset(text, 'a' + *turn, length);
    if (file_write("shared", text, length, &e)) _exit(STATUS_FAIL);
  }
}

/* No writer of a path fails because of another, and each writes all of it or nothing. */
START_TEST(writers_of_one_file)
{
  enum { WRITERS = 4 };
  pid_t child[WRITERS];
  struct error e = {0};
  char *text;
  size_t length;
  int status;
  leave("shared.00000002.tmp", "what a killed writer left, longer than what comes");
  leave("shared.00000000.tmp", "another");
  put("shared", "a");
  fflush(NULL);
  for (int i = 0; i < WRITERS; i++)
    if (!(child[i] = fork())) {
      write_often(&i);
      _exit(0);
    }
  for (int i = 0; i < 200; i++) {
    ck_assert_int_eq(file_read("shared", &text, &length, &e), STATUS_OK);
    ck_assert_msg(length > 0 && (length == 1 || length % 500 == 0), "%zu bytes", length);
    for (size_t k = 1; k < length; k++) ck_assert_int_eq(text[k], text[0]);
    memory_free(text);
  }
  for (int i = 0; i < WRITERS; i++) {
    ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
    ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "writer %d: %x", i, (unsigned)status);
  }
  ck_assert_int_eq(system("test -z \"$(find . -name 'shared.*')\""), 0);
}
END_TEST

/* A writer waits for no other and leaves alone what that one writes; when it is dead, the next one clears away. */
START_TEST(each_writer_has_a_name)
{
  static const char *const names[] = {"own.00000000.tmp", "own.00000001.tmp", "own.00000003.tmp"};
  int writer[3];
  for (int i = 0; i < 3; i++) {
    leave(names[i], "on its way");
    writer[i] = open(names[i], O_RDONLY);
    ck_assert_int_eq(flock(writer[i], LOCK_EX), 0);
  }
  put("own", "first");
  expect("own", "first");
  for (int i = 0; i < 3; i++) expect(names[i], "on its way");
  for (int i = 0; i < 3; i++) close(writer[i]);
  put("own", "second");
  expect("own", "second");
  for (int i = 0; i < 3; i++) ck_assert_msg(!exists(names[i]), "%s", names[i]);
}
END_TEST

static void append_three(const void *context)
{
  struct error e = {0};
  struct append *a = append_open("log", NULL, &e);
  (void)context;
  if (!a) _exit(STATUS_FAIL);
  int failures = 0;
  for (int i = 0; i < 3; i++) {
    e.status = 0;
    failures += append_write(a, "line of text\n", 13, &e) != STATUS_OK;
  }
  append_close(a);
  _exit(10 + failures);
}

START_TEST(appended_lines_are_whole)
{
  static const struct {
    const char *fault;
    int status, lines;
  } known[] = {
    {"none", 10, 3},       {"io:1:eio", STATUS_FAIL, 0}, {"io:2:eio", 11, 2},  {"io:3:enospc", 12, 1},
    {"io:3:short", 10, 3}, {"io:4:kill", -SIGKILL, 2},   {"io:3:full", 12, 1},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    file_remove("log");
    setenv("MAXLOGIT_FAULT", known[i].fault, 1);
    ck_assert_int_eq(in_child(append_three, NULL), known[i].status);
    unsetenv("MAXLOGIT_FAULT");
    static const char *const wanted[] = {"", "line of text\n", "line of text\nline of text\n",
                                         "line of text\nline of text\nline of text\n"};
    if (known[i].lines) expect("log", wanted[known[i].lines]);
  }
}
END_TEST

/* A disk that is full after half a line. */
static void append_beyond(const void *context)
{
  struct error e = {0};
  struct append *a = append_open("log", NULL, &e);
  (void)context;
  signal(SIGXFSZ, SIG_IGN);
  if (!a || append_write(a, "line of text\n", 13, &e)) _exit(STATUS_FAIL);
  if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){20, 20})) _exit(STATUS_FAIL);
  _exit(append_write(a, "line of text\n", 13, &e) ? 10 : 11);
}

START_TEST(a_full_disk_leaves_no_half_line)
{
  file_remove("log");
  ck_assert_int_eq(in_child(append_beyond, NULL), 10);
  expect("log", "line of text\n");
}
END_TEST

START_TEST(append_and_cut)
{
  struct error e = {0};
  put("log", "one\n");
  struct append *a = append_open("log", NULL, &e);
  ck_assert_int_eq(append_write(a, "two\n", 4, &e), STATUS_OK);
  ck_assert_uint_eq(append_length(a), 8);
  ck_assert_int_eq(append_cut(a, 4, &e), STATUS_OK);
  ck_assert_uint_eq(append_length(a), 4); /* to which a line that fails would cut it */
  ck_assert_int_eq(append_write(a, "three\n", 6, &e), STATUS_OK);
  ck_assert_uint_eq(append_length(a), 10);
  ck_assert_int_eq(append_close(a), STATUS_OK);
  expect("log", "one\nthree\n");
}
END_TEST

static void fault_points(const void *context)
{
  struct error e = {0};
  (void)context;
  _exit(file_fault_point(&e) == STATUS_OK && file_fault_point(&e) == STATUS_FAIL ? 0 : 1);
}

START_TEST(fault_points_count)
{
  setenv("MAXLOGIT_FAULT", "io:2:eio", 1);
  ck_assert_int_eq(in_child(fault_points, NULL), 0);
}
END_TEST

static void try_lock(const void *context)
{
  struct error e = {0};
  (void)context;
  struct lock *lock = lock_take("run.lock", &e);
  lock_release(lock, NULL);
  _exit(lock ? 0 : e.status);
}

static void lock_and_die(const void *context)
{
  (void)context;
  held = lock_take("run.lock", NULL);
  raise(SIGKILL);
}

START_TEST(one_holder)
{
  struct error e = {0};
  ck_assert_int_eq(in_child(lock_and_die, NULL), -SIGKILL);
  held = lock_take("run.lock", &e);
  ck_assert_msg(held != NULL, "%s", e.text);
  ck_assert_int_eq(in_child(try_lock, NULL), STATUS_FAIL);
  ck_assert_ptr_null(lock_take("run.lock", &e)); /* nor twice in one process */
  ck_assert_str_eq(e.text, "run.lock is locked: another process is writing this run");
  lock_write(held, "a long line\n");
  lock_write(held, "short\n");
  expect("run.lock", "short\n");
  unlink("run.lock");        /* taken over by another, whose lock stays when the first lets go */
  static struct lock *other; /* found there, too */
  other = lock_take("run.lock", &e);
  ck_assert(other && !lock_was_taken(other, &(struct error){0}));
  ck_assert_int_eq(lock_was_taken(held, &(struct error){0}), STATUS_FAIL);
  lock_release(held, "run.lock");
  ck_assert(exists("run.lock"));
  ck_assert_int_eq(in_child(try_lock, NULL), STATUS_FAIL);
  held = other;
  lock_release(held, "run.lock");
  ck_assert(!exists("run.lock"));
  ck_assert_int_eq(in_child(try_lock, NULL), 0);
  ck_assert_ptr_null(lock_take("no/folder/run.lock", NULL));
}
END_TEST

/* Processes that take, hold and remove the same lock never hold it together. */
static void contend(const void *context)
{
  const long *id = context;
  for (int round = 0; round < 300; round++) {
    struct lock *lock = lock_take("run.lock", NULL);
    if (!lock) continue;
    if (mkdir("held", 0777)) _exit(1);
    if (rmdir("held")) _exit(2);
    lock_release(lock, round % 2 == *id % 2 ? "run.lock" : NULL);
  }
  _exit(0);
}

START_TEST(removed_locks)
{
  pid_t child[4];
  for (long i = 0; i < 4; i++)
    if ((child[i] = fork()) == 0) contend(&i);
  for (int i = 0; i < 4; i++) {
    int status;
    ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
    ck_assert_int_eq(status, 0);
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("base");
  TCase *values = tcase_create("values"), *files = tcase_create("files");
  tcase_set_timeout(values, 60);
  tcase_set_timeout(files, 60);
  tcase_add_test(values, elementary_functions);
  tcase_add_test(values, elementary_edges);
  tcase_add_test(values, elementary_bits);
  tcase_add_test(values, nothing_is_contracted);
  tcase_add_test(values, philox_known_answers);
  tcase_add_test(values, draws_are_made_of_blocks);
  tcase_add_test(values, normals_are_normal);
  tcase_add_test(values, whole_numbers_are_even);
  tcase_add_test(values, numbers_read_back);
  tcase_add_test(values, nearest_word);
  tcase_add_test(values, nearest_of_many);
  tcase_add_test(values, shortest_form);
  tcase_add_test(values, lists_and_json);
  tcase_add_test(values, buffers_grow);
  tcase_add_test(values, ends_of_names);
  tcase_add_test(values, texts_are_cleaned);
  tcase_add_test(values, texts_are_quoted);
  tcase_add_test(values, small_words);
  tcase_add_test(values, numbers_keep_nan);
  tcase_add_test(values, clock_goes_forward);
  tcase_add_test(values, first_error_counts);
  tcase_add_test(values, errors_at_their_edges);
  tcase_add_test(values, errors_of_callers);
  tcase_add_test(values, late_requests_of_a_worker);
  tcase_add_test(values, second_chances_of_a_worker);
  tcase_add_test(values, messages_are_lines);
  tcase_add_test(values, options_parse);
  tcase_add_test(values, options_allowed);
  tcase_add_test(values, options_default);
  tcase_add_test(values, options_by_their_rows);
  tcase_add_test(values, options_at_their_limits);
  tcase_add_test(values, options_that_are_numbers);
  tcase_add_test(values, memory_is_zero_and_aligned);
  tcase_add_test(values, memory_is_counted);
  tcase_add_test(values, limits_of_memory_and_cores);
  tcase_add_test(values, durations);
  tcase_add_test(values, arenas_are_blocks);
  tcase_add_test(values, no_memory_left);
  tcase_add_test(values, words_of_no_memory);
  tcase_add_checked_fixture(files, enter_folder, leave_folder);
  tcase_add_test(files, files_read_back);
  tcase_add_test(files, paths_that_are_wrong);
  tcase_add_test(files, files_of_any_bytes);
  tcase_add_test(files, what_a_holder_writes);
  tcase_add_test(files, what_a_lock_guards);
  tcase_add_test(files, what_is_read_is_kept_private);
  tcase_add_test(files, a_temporary_that_another_holds_is_given_up);
  tcase_add_test(files, calls_that_fail);
  tcase_add_test(files, pipes_are_read_whole);
  tcase_add_test(files, replacement_is_whole);
  tcase_add_test(files, writers_of_one_file);
  tcase_add_test(files, each_writer_has_a_name);
  tcase_add_test(files, appended_lines_are_whole);
  tcase_add_test(files, a_full_disk_leaves_no_half_line);
  tcase_add_test(files, append_and_cut);
  tcase_add_test(files, fault_points_count);
  tcase_add_test(files, one_holder);
  tcase_add_test(files, removed_locks);
  suite_add_tcase(suite, values);
  suite_add_tcase(suite, files);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
