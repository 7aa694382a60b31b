/* check_transcript.c - what commands print, whole: text, JSON, CSV, gnuplot's input, the page's numbers, messages and
   exit statuses. Each transcript in tests/golden has the lines of a shell (`$ ...`), each followed by what it prints;
   numbers may differ by 1e-6 of theirs. commands.txt is of run files that are written here and whose every number is
   another, some of them ties, NaN or infinite; session.txt begins with nothing, trains, and goes on from there, in the
   same bits on every processor, but for times and kernels, which are masked. MAXLOGIT_TEST_RENEW=1 writes them anew:
   every line that changes is to be read. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "numerics/device.h"
#include "storage/recorder.h"
#include "../folder.h"
#include "../configuration.h"

enum { LAYERS = 2, HEADS = 2, EXPERTS = 3, TENSORS = 6, PLACES = 8, ROWS = 6 };
static const char *const tensors[TENSORS] = {
  "embed", "blocks.0.attn.w_q", "blocks.0.attn.w_k", "blocks.1.attn.w_q", "blocks.1.attn.w_k", "head"};
static const struct series series[] = {
  {"loss", PER_STEP, AXIS_STEP, "nat", "training loss", "made up", EVENT_NONE},
  {"lr", PER_STEP, AXIS_STEP, "1", "rate", "made up", EVENT_NONE},
  {"grad_norm", PER_STEP, AXIS_STEP, "1", "gradient norm", "made up", EVENT_NONE},
  {"attn/max_logit", PER_HEAD, AXIS_STEP, "1", "max logit", "made up", EVENT_NONE},
  {"moe/load", PER_EXPERT, AXIS_STEP, "1", "share of tokens", "made up", EVENT_NONE},
  {"moe/max_vio", PER_LAYER, AXIS_STEP, "1", "MaxVio", "made up", EVENT_NONE},
  {"val_loss", PER_STEP, AXIS_VAL, "nat", "validation loss", "made up", EVENT_NONE},
  {"weight/spectral_norm", PER_TENSOR, AXIS_SPECTRA, "1", "spectral norm", "made up", EVENT_NONE},
  {"weight/svd_entropy", PER_TENSOR, AXIS_SPECTRA, "1", "SVD entropy", "made up", EVENT_NONE},
  {"weight/stable_rank", PER_TENSOR, AXIS_SPECTRA, "1", "stable rank", "made up", EVENT_NONE},
  {"attn/bound", PER_HEAD, AXIS_SPECTRA, "1", "bound on the logits", "made up", EVENT_NONE},
  {"head_qk/spectral_norm", PER_HEAD, AXIS_SPECTRA, "1", "norm of the form", "made up", EVENT_NONE},
  {"head_qk/svd_entropy", PER_HEAD, AXIS_SPECTRA, "1", "entropy of the form", "made up", EVENT_NONE},
};
enum { SERIES = sizeof series / sizeof *series };

/* Of arm and seed; `spoilt` is a value put into the loss of row 3 and the second head of row 4. */
struct made {
  const char *path, *state, *kind, *lr;
  int seed, steps, rows, clips;
  double spoilt;
};
#define GOOD(path, kind, lr, seed, clips) \
  { \
    path, "finished", kind, lr, seed, 10, ROWS, clips, 0 \
  }
static const struct made made[] = {
  GOOD("runs/adam-1-1", "preset=adam", "0.01", 1, 0),
  GOOD("runs/adam-1-2", "preset=adam", "0.01", 2, 0),
  GOOD("runs/adam-1-3", "preset=adam", "0.01", 3, 0),
  GOOD("runs/adam-2-1", "preset=adam", "0.02", 1, 0),
  GOOD("runs/adam-2-2", "preset=adam", "0.02", 2, 0),
  GOOD("runs/adam-2-3", "preset=adam", "0.02", 3, 0),
  GOOD("runs/clip-1-1", "preset=muonclip", "0.01", 1, 2),
  GOOD("runs/clip-1-2", "preset=muonclip", "0.01", 2, 3),
  GOOD("runs/clip-1-3", "preset=muonclip", "0.01", 3, 5),
  GOOD("runs/clip-2-1", "preset=muonclip", "0.02", 1, 4),
  GOOD("runs/clip-2-2", "preset=muonclip", "0.02", 2, 1),
  {"runs/clip-2-3", "diverged", "preset=muonclip", "0.02", 3, 7, 5, 6, NAN},
  {"odd/begun", "running", "preset=adam", "0.01", 1, 5, 3, 0, 0},
  {"odd/empty", "running", "preset=adam", "0.03", 1, 0, 0, 0, 0},
  {"odd/lost", "diverged", "preset=muon", "0.04", 2, 8, ROWS, 1, INFINITY},
  {"odd/a,\"b\"", "stopped", "preset=muon", "0.05", 4, 9, ROWS, 0, 0},
};
enum { MADE = sizeof made / sizeof *made };

/* A number of its own for each run, series, row and place, with few digits; every 17th is that of its neighbour. */
static double value_of(int run, int s, int row, int place)
{
  unsigned n = (unsigned)(((run * 16 + s) * ROWS + row) * PLACES + place);
  if (n % 17 == 3 && n % PLACES) n--;
  n = (n ^ 0x5bd1e9U) * 2654435761U;
  n = (n ^ n >> 15) * 2246822519U;
  return 0.25 + (double)(n >> 20) / 256;
}

static char folder[FOLDER_PATH];

static struct config *configured(const struct made *m)
{
  return configuration(
    "%s train.lr=%s train.seed=%d train.steps=10 model.layers=2 model.heads=2 train.warmup=2", m->kind, m->lr,
    m->seed);
}

static void put_row(struct recorder *r, const int *id, const struct made *m, int row, enum series_axis axis,
                    long step)
{
  const int run = (int)(m - made);
  for (int s = 0; s < SERIES; s++) {
    float value[PLACES];
    if (series[s].axis != axis) continue;
    for (int i = 0; i < PLACES; i++) value[i] = (float)value_of(run, s, row, i);
    if (m->spoilt != 0 && s == 3 && row == 4) value[1] = (float)m->spoilt;
    if (series[s].shape == PER_STEP)
      recorder_put_number(r, id[s],
                          m->spoilt != 0 && s == 0 && row == 3 ? m->spoilt : value_of(run, s, row, 0));
    else
      recorder_put(r, id[s], value);
  }
  recorder_row(r, axis, step);
}

static void write_run(const struct made *m)
{
  char name[16], path[FOLDER_PATH + 32];
  int id[SERIES];
  snprintf(name, sizeof name, "%012x", (unsigned)(0xa0 + (m - made)));
  snprintf(path, sizeof path, "%s/%s.h5", folder, m->path);
  struct run_facts facts = {.id = name,
                            .device = "cpu",
                            .data = "markov",
                            .data_text = "made up",
                            .layers = LAYERS,
                            .heads = HEADS,
                            .experts = EXPERTS,
                            .tensors = TENSORS,
                            .tensor_names = tensors,
                            .loss_floor = m->seed == 4 ? NAN : 1.5,
                            .data_content = 1};
  struct config *c = configured(m);
  struct recorder *r;
  struct error e = {0};
  ck_assert_msg(!recorder_create(&r, path, 1, c, &facts, &e), "%s", e.text);
  for (int s = 0; s < SERIES; s++) id[s] = recorder_series(r, &series[s]);
  for (int row = 0; row < m->rows; row++) put_row(r, id, m, row, AXIS_STEP, 2 * row);
  for (int row = 0; row < 4 && m->rows; row++) put_row(r, id, m, row, AXIS_VAL, 3 * row);
  for (int row = 0; row < 3 && m->rows; row++) put_row(r, id, m, row, AXIS_SPECTRA, 4 * row);
  for (int i = 0; i < m->clips; i++) recorder_event(r, 2 * i, "clip", i % 2, i / 2 % 2, 0.5 + 0.0625 * i);
  if (m->spoilt != 0) recorder_event(r, 6, "nonfinite", -1, -1, m->spoilt);
  ck_assert_msg(!recorder_snapshot(r, m->state, m->steps, 1.25 + (double)(m - made), 1, &e), "%s", e.text);
  recorder_free(r);
  config_free(c);
}

static void make_runs(void)
{
  char command[FOLDER_PATH + 64];
  snprintf(command, sizeof command, "mkdir %s/runs %s/odd", folder, folder);
  ck_assert_int_eq(system(command), 0);
  for (int i = 0; i < MADE; i++) write_run(&made[i]);
}

static void no_runs(void) {}

/* --- transcripts --------------------------------------------------------------------------------------- */

/* What a line prints, what is told apart from the lines by "= STATUS" if it is not 0; dates are one. */
static void append_output(struct buffer *out, const char *line, const char *masks)
{
  char command[4096], path[64];
  snprintf(path, sizeof path, "%s/.line", folder);
  FILE *f = fopen(path, "w");
  ck_assert_ptr_nonnull(f);
  fprintf(f, "%s\n", line);
  fclose(f);
  snprintf(command, sizeof command,
           "cd %s && { sh .line 2>&1; s=$?; test $s = 0 || echo \"= $s\"; } | sed -E "
           "'s/20[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9:+Z]+/DATE/g%s'",
           folder, masks);
  f = popen(command, "r");
  ck_assert_ptr_nonnull(f);
  char text[65536];
  for (size_t n; (n = fread(text, 1, sizeof text - 1, f)) > 0;) text[n] = 0, buffer_add(out, "%s", text);
  ck_assert_int_eq(pclose(f), 0);
  if (out->length && out->text[out->length - 1] != '\n') buffer_add(out, "\n");
}

/* The end of a number that begins here, or where it began. */
static const char *number_end(const char *at, double *value)
{
  char *end = (char *)at;
  *value =
    (*at >= '0' && *at <= '9') || (*at == '-' && at[1] >= '0' && at[1] <= '9') ? strtod(at, &end) : NAN;
  return end;
}

/* Where two texts differ in more than the last digits of numbers; NULL: nowhere. */
static const char *difference(const char *wanted, const char *got, double tolerance)
{
  while (*wanted || *got) {
    double a, b;
    const char *after_a = number_end(wanted, &a), *after_b = number_end(got, &b);
    if (after_a > wanted && after_b > got) {
      if (fabs(a - b) > tolerance * fabs(a)) return got;
      wanted = after_a, got = after_b;
    } else if (*wanted++ != *got++)
      return got - 1;
  }
  return NULL;
}

static void one_program(void)
{
  char program[4096], of[512];
  const char *given = getenv("MAXLOGIT"), *from = getenv("top_srcdir");
  ck_assert_ptr_nonnull(realpath(given ? given : "./maxlogit", program));
  snprintf(of, sizeof of, "%s/maxlogit", folder);
  ck_assert_int_eq(symlink(program, of), 0);
  char plots[4096];
  snprintf(program, sizeof program, "%s/plots", from ? from : ".");
  ck_assert_ptr_nonnull(realpath(program, plots));
  snprintf(of, sizeof of, "%s/plots", folder);
  ck_assert_int_eq(symlink(plots, of), 0);
  ck_assert_int_eq(setenv("MAXLOGIT_PLOTS", "plots", 1), 0);
  snprintf(program, sizeof program, "%s:%s", folder, getenv("PATH"));
  ck_assert_int_eq(setenv("PATH", program, 1), 0);
}

static const struct {
  const char *name;
  void (*prepare)(void);
  const char *masks; /* of sed */
  double of_base;    /* how far numbers of the base kernels, which fuse nothing, may lie from the others' */
} transcripts[] = {
  {"commands", make_runs, "", 1e-6},
  {"session", no_runs,
   "; /^maxlogit: warning: the base kernels/d; s/\\([0-9.]+ s\\)/(TIME s)/g; s/\"wall_seconds\": "
   "*[^,}]*/\"wall_seconds\": TIME/g"
   "; s/ +[0-9.]+(  [a-z.]*h5| +train\\.seed=.*)$/ TIME\\1/; s/revision ([0-9a-f]{12}|unknown)( "
   "\\(changed\\))?/revision REV/g"
   "; s/\\b(v3|v4|base|neon) kernels/LEVEL kernels/g; s/OpenBLAS [A-Za-z0-9]+/OpenBLAS CORE/g"
   "; s/; HDF5 .*(\\. The runs took)/; LIBRARIES\\1/"
   "; s/(# memory:|,) [0-9.]+( MiB| for the passes)/\\1 ROOM\\2/g; s/this machine has [0-9.]+ [GMT]iB/this "
   "machine has ROOM/g",
   2e-3},
};

/* One line of a transcript and what it prints; returns how many print something else. */
static int compare_line(const char *line, const char *wanted, int i, FILE *anew)
{
  struct buffer out = {0};
  append_output(&out, line + 2, transcripts[i].masks);
  const char *got = out.text ? out.text : "", *kernels = ops_cpu_level();
  const char *differs = difference(wanted, got, strcmp(kernels, "base") ? 1e-6 : transcripts[i].of_base);
  if (anew)
    fprintf(anew, "%s\n%s", line, got);
  else if (differs) {
    while (differs > got && differs[-1] != '\n') differs--;
    printf("%s\n  prints: %.*s\n", line, (int)strcspn(differs, "\n"), differs);
    if (getenv("MAXLOGIT_WHOLE")) printf("wanted\n%s\nprinted\n%s\n", wanted, got);
  }
  memory_free(out.text);
  return !anew && differs;
}

START_TEST(transcript)
{
  char path[4096];
  struct error e = {0};
  const char *from = getenv("top_srcdir"), *anew = getenv("MAXLOGIT_TEST_RENEW");
  snprintf(path, sizeof path, "%s/tests/golden/%s.txt", from ? from : ".", transcripts[_i].name);
  size_t size;
  char *golden;
  ck_assert_msg(!file_read(path, &golden, &size, &e), "%s", e.text);
  FILE *f = anew && *anew ? fopen(path, "w") : NULL;
  int lines = 0, wrong = 0;
  folder_make(folder);
  transcripts[_i].prepare();
  one_program();
  for (char *at = golden; at && *at; lines++) {
    char *end = strchr(at, '\n'), *next = strstr(at, "\n$ ");
    ck_assert_msg(!strncmp(at, "$ ", 2) && end, "%s: a line begins with $, not %.40s", path, at);
    *end = 0;
    if (next && next > end) next[1] = 0;
    wrong += compare_line(at, next == end ? "" : end + 1, _i, f);
    at = next ? next + 1 : NULL;
    if (at) *at = '$';
  }
  fflush(stdout);
  if (f) fclose(f);
  folder_remove(folder);
  memory_free(golden);
  ck_assert_int_gt(lines, 0);
  ck_assert_msg(wrong == 0, "%d of %d lines print something else", wrong, lines);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("transcript");
  TCase *k = tcase_create("commands");
  tcase_set_timeout(k, 300);
  tcase_add_loop_test(k, transcript, 0, sizeof transcripts / sizeof *transcripts);
  suite_add_tcase(suite, k);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed > 0;
}
