/* check_base.c - the ground floor: random numbers, text, options, memory, files, locks */
#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/elementary.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/random.h"
#include "base/text.h"
#include "../folder.h"

/* --- elementary functions ------------------------------------------------------------------------------- */

/* |got - exact| in units of exact's last place; `exact` by the C library in long double, or in double where that is no
   wider: then half a unit may be its own. */
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
  ck_assert_msg(off[0] < 1.6 && off[1] < 1.5 && off[2] < 2.5 && off[3] < 1.5 && turn < 0x1p-52,
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
    {"a+b", "<a><b>", 0}, {" a + b b +", "<a><b b><>", 0}, {"", "<>", 0},
    {"+", "<><>", 0},     {"x+stop+y", "<x><stop>", 9},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct buffer b = {0};
    ck_assert_int_eq(text_split(known[i].list, '+', join, &b), known[i].result);
    ck_assert_str_eq(b.text, known[i].parts);
    memory_free(b.text);
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
    memory_free(b.text);
  }
}
END_TEST

START_TEST(ends_of_names)
{
  ck_assert_str_eq(text_last_part("train.lr"), "lr");
  ck_assert_str_eq(text_last_part("seed"), "seed");
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
  setenv("TZ", "XXX-9:30", 1); /* Z is no zone of ours */
  tzset();
  for (int i = 0; i < 2; i++) {
    const time_t t = time(NULL);
    struct tm utc;
    strftime(known[i], sizeof known[i], "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &utc));
    if (i == 0) clock_iso8601(now);
  }
  ck_assert_msg(strcmp(known[0], now) <= 0 && strcmp(now, known[1]) <= 0, "%s, and it is %s", now, known[0]);
  ck_assert(clock_seconds() >= before);
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
}
END_TEST

START_TEST(options_default)
{
  struct sample s;
  memset(&s, 0xff, sizeof s);
  option_defaults(rows, &s);
  ck_assert(s.count == 3 && s.on == 0 && s.colour == 1 && s.rate == 1e-3);
  ck_assert_str_eq(s.parts, "none");
}
END_TEST

/* --- memory -------------------------------------------------------------------------------------------- */

/* What a child process returns: its exit status, or -signal. Its standard error is thrown away. */
static int in_child(void (*work)(const void *), const void *context)
{
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(99);
    work(context);
    _exit(0);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

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

static void allocate(const void *context)
{
  for (long i = 0; i < *(const long *)context; i++) memory_free(memory_new(1, 8));
}

/* Eight bytes each; the second product is 8 beyond the range of sizes. */
static void ask_too_much(const void *context) { memory_free(memory_new(*(const size_t *)context, 8)); }

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
  const size_t too_many[] = {SIZE_MAX / 4, SIZE_MAX / 8 + 2};
  for (int i = 0; i < 2; i++) ck_assert_int_eq(in_child(ask_too_much, &too_many[i]), STATUS_USAGE);
}
END_TEST

/* --- files --------------------------------------------------------------------------------------------- */

static char folder[FOLDER_PATH];

static void enter_folder(void)
{
  folder_make(folder);
  ck_assert_int_eq(chdir(folder), 0);
}

static void leave_folder(void)
{
  ck_assert_int_eq(chdir("/"), 0);
  folder_remove(folder);
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
  ck_assert_str_eq(e.text, "cannot read a: Is a directory");
  e.status = 0;
  ck_assert_int_eq(file_write("no/folder", "x", 1, &e), STATUS_FAIL);
  ck_assert_str_eq(e.text, "cannot write no/folder: No such file or directory");
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
    ck_assert_msg(!file_read("pipe", &text, &length, &e), "%s", e.text);
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
      ck_assert_int_eq(system("echo -n 'old text' > file; rm -f file.tmp"), 0);
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
  leave("shared.tmp", "what a killed writer left, longer than what comes");
  leave("shared.tmp5", "another");
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
  static const char *const names[] = {"own.tmp", "own.tmp1", "own.tmp6"};
  int held[3];
  for (int i = 0; i < 3; i++) {
    leave(names[i], "on its way");
    held[i] = open(names[i], O_RDONLY);
    ck_assert_int_eq(flock(held[i], LOCK_EX), 0);
  }
  put("own", "first");
  expect("own", "first");
  for (int i = 0; i < 3; i++) expect(names[i], "on its way");
  for (int i = 0; i < 3; i++) close(held[i]);
  put("own", "second");
  expect("own", "second");
  for (int i = 0; i < 3; i++) ck_assert_msg(!exists(names[i]), "%s", names[i]);
}
END_TEST

static void append_three(const void *context)
{
  struct error e = {0};
  struct append *a = append_open("log", &e);
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
  struct append *a = append_open("log", &e);
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
  struct append *a = append_open("log", &e);
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

static struct lock *held; /* where valgrind finds it in a child that ends while its parent holds it */

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
  unlink("run.lock"); /* taken over by another, whose lock stays when the first lets go */
  struct lock *other = lock_take("run.lock", &e);
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
  tcase_add_test(values, nothing_is_contracted);
  tcase_add_test(values, philox_known_answers);
  tcase_add_test(values, normals_are_normal);
  tcase_add_test(values, whole_numbers_are_even);
  tcase_add_test(values, numbers_read_back);
  tcase_add_test(values, nearest_word);
  tcase_add_test(values, lists_and_json);
  tcase_add_test(values, buffers_grow);
  tcase_add_test(values, ends_of_names);
  tcase_add_test(values, clock_goes_forward);
  tcase_add_test(values, first_error_counts);
  tcase_add_test(values, options_parse);
  tcase_add_test(values, options_allowed);
  tcase_add_test(values, options_default);
  tcase_add_test(values, memory_is_zero_and_aligned);
  tcase_add_test(values, no_memory_left);
  tcase_add_checked_fixture(files, enter_folder, leave_folder);
  tcase_add_test(files, files_read_back);
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
