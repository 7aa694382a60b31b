/* Golden values from an independent implementation (tests/golden/make_golden.py: PyTorch, float64):
   the first steps' loss, gradient norm and per-head max logits, one file per case.

   Tolerance, float64 build: 1e-9 of the value; two correct double programs differ by rounding alone, which
   20 steps grow by far less than 1e6. Float32 build: MARGIN times the deviation of PyTorch's own float32 run
   from its float64 run so far, plus float32's rounding of the value: another order of summation may err as
   much as that, in another direction. In single precision every case runs isolated, too, and its first steps on
   device = cuda with the CPU in the place of the GPU; MAXLOGIT_TEST_DEVICE=device=cuda: whole, on a GPU. */
#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../gpu_here.h"
#include "../long.h"
#include "run/trainer.h"

enum { MAX_CASES = 256, MAX_COLUMNS = 128, LINE = 8192 };
static const double MARGIN = 8;

static char cases[MAX_CASES][256];
static int case_count;

static const char *folder(void)
{
  const char *source = getenv("srcdir");
  static char path[512];
  snprintf(path, sizeof path, "%s/tests/golden", source ? source : ".");
  return path;
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

static void find_cases(void)
{
  DIR *d = opendir(folder());
  for (struct dirent *x; d && (x = readdir(d));) {
    size_t n = strlen(x->d_name);
    if (n <= 4 || strcmp(x->d_name + n - 4, ".tsv") != 0) continue;
    REQUIRE(case_count < MAX_CASES);
    snprintf(cases[case_count++], sizeof *cases, "%.250s", x->d_name);
  }
  if (d) closedir(d);
  qsort(cases, (size_t)case_count, sizeof *cases, by_name);
}

static const char *device, *chosen; /* "device=..."; the environment's, for all cases */
static const struct {
  const char *device;
  int rows;
} places[] = {{"device=cpu", 20}, {"device=isolated", 20}, {"device=cuda", 2}};
enum { PLACES = 3, CUDA = 2 };

/* A trainer for the line "# config key=value ...". */
static struct trainer *start(char *line, struct config **config)
{
  struct error e = {0};
  struct trainer *t = NULL;
  *config = config_new();
  ck_assert(!config_assign(*config, device, &e));
  for (char *word = strtok(line + strlen("# config "), " \n"); word; word = strtok(NULL, " \n"))
    ck_assert_msg(!config_assign(*config, word, &e), "%s", e.text);
  ck_assert_msg(!config_finish(*config, &e), "%s", e.text);
  ck_assert_msg(!trainer_init(&t, *config, TRAINER_NO_RECORD, &e), "%s", e.text);
  return t;
}

static int numbers(char *line, double *out)
{
  int n = 0;
  for (char *word = strtok(line, "\t\n"); word && n < MAX_COLUMNS; word = strtok(NULL, "\t\n"))
    out[n++] = atof(word);
  return n;
}

static void compare(const char *what, long step, double ours, double theirs, double off)
{
  double tolerance =
    sizeof(real) == sizeof(double) ? 1e-9 * fabs(theirs) : MARGIN * (off + REAL_EPS * fabs(theirs));
  ck_assert_msg(fabs(ours - theirs) <= tolerance, "%s, step %ld: %.17g, PyTorch has %.17g (tolerance %.2g)",
                what, step, ours, theirs, tolerance);
}

START_TEST(golden)
{
  char path[1024], line[LINE];
  snprintf(path, sizeof path, "%s/%s", folder(), cases[_i % case_count]);
  int place = _i / case_count, wanted = is_long() || places[place].rows < 12 ? places[place].rows : 12;
  if (place == CUDA && *gpu_here().lacks) return;
  device = chosen ? chosen : places[place].device;
  FILE *f = fopen(path, "r");
  struct config *c = NULL;
  struct trainer *t = NULL;
  long rows = 0;
  ck_assert_ptr_nonnull(f);
  while (rows < wanted && fgets(line, sizeof line, f)) {
    double x[MAX_COLUMNS];
    struct error e = {0};
    if (!strncmp(line, "# config ", 9)) t = start(line, &c);
    if (*line == '#' || !strncmp(line, "step", 4)) continue;
    int n = numbers(line, x);
    ck_assert_ptr_nonnull(t);
    ck_assert_msg(!trainer_step(t, &e) && !trainer_settle(t, &e), "%s", e.text);
    compare("loss", (long)x[0], trainer_status(t).loss, x[1], x[2]);
    compare("gradient norm", (long)x[0], trainer_status(t).grad_norm, x[3], x[4]);
    for (int i = 5; i + 1 < n; i += 2)
      compare("max logit", (long)x[0], (double)trainer_status(t).max_logit[(i - 5) / 2], x[i], x[i + 1]);
    rows++;
  }
  fclose(f);
  ck_assert_int_eq(rows, wanted);
  trainer_abandon(t);
  config_free(c);
}
END_TEST

int main(void)
{
  find_cases();
  Suite *s = suite_create("golden");
  TCase *k = tcase_create("PyTorch");
  chosen = getenv("MAXLOGIT_TEST_DEVICE");
  gpu_twin();
  tcase_set_timeout(k, chosen ? 300 : 60);
  tcase_add_loop_test(k, golden, 0, (sizeof(real) == sizeof(float) && !chosen ? PLACES : 1) * case_count);
  suite_add_tcase(s, k);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  if (!case_count) printf("no golden files in %s\n", folder());
  return failed || !case_count;
}
