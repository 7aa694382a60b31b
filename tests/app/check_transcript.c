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
#include "ledger/tuning.h"
#include "../folder.h"
#include "../golden.h"
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
  const char *more; /* settings behind all others, or NULL */
};
#define GOOD(path, kind, lr, seed, clips) \
  { \
    path, "finished", kind, lr, seed, 10, ROWS, clips, 0, NULL \
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
  {"runs/clip-2-3", "diverged", "preset=muonclip", "0.02", 3, 7, 5, 6, NAN, NULL},
  {"odd/begun", "running", "preset=adam", "0.01", 1, 5, 3, 0, 0, NULL},
  {"odd/empty", "running", "preset=adam", "0.03", 1, 0, 0, 0, 0, NULL},
  {"odd/lost", "diverged", "preset=muon", "0.04", 2, 8, ROWS, 1, INFINITY, NULL},
  {"odd/a,\"b\"", "stopped", "preset=muon", "0.05", 4, 9, ROWS, 0, 0, NULL},
  {"more/long-1", "finished", "preset=adam", "0.01", 1, 1400, 700, 300, 0, "train.steps=1400 record.every=2"},
  {"more/long-2", "stopped", "preset=adam", "0.01", 2, 900, 450, 0, 0, "train.steps=1400"},
  {"more/one", "finished", "preset=adamclip", "0.5", 3, 1, 1, 1, 0, "qk_clip.tau=50 train.steps=1"},
  {"more/lost-1", "diverged", "preset=muonclip", "1", 1, 8, ROWS, 0, NAN, "arm=wild"},
  {"more/lost-2", "diverged", "preset=muonclip", "1", 2, 6, 4, 3, -INFINITY, "arm=wild"},
  {"more/named", "finished", "optimizer=muon", "0.02", 7, 10, ROWS, 2, 0,
   "stabilizers=qk_norm+soft_cap arm=a-long-name train.batch=1 model.heads=2"},
  {"even/even", "finished", "preset=adam", "0.01", 1, 1024, 512, 20, 0, "train.steps=1024"},
  GOOD("pair/a-1", "preset=muon", "0.01", 1, 0),
  GOOD("pair/a-2", "preset=muon", "0.01", 2, 0),
  GOOD("pair/a-3", "preset=muon", "0.01", 3, 0),
  {"pair/a-4", "stopped", "preset=muon", "0.01", 4, 5, 4, 0, 0, NULL},
  GOOD("pair/a-5", "preset=muon", "0.01", 5, 0),
  GOOD("pair/a-6", "preset=muon", "0.01", 6, 0),
  GOOD("pair/a-7", "preset=muon", "0.01", 7, 0),
  GOOD("pair/b-1", "preset=muonclip", "0.01", 1, 3),
  GOOD("pair/b-2", "preset=muonclip", "0.01", 2, 4),
  {"pair/b-3", "diverged", "preset=muonclip", "0.01", 3, 7, 5, 6, NAN, NULL},
  GOOD("pair/b-4", "preset=muonclip", "0.01", 4, 3),
  {"pair/b-5", "finished", "preset=muonclip", "0.01", 5, 10, ROWS, 1, NAN, NULL},
  GOOD("pair/b-6", "preset=muonclip", "0.01", 6, 2),
  GOOD("pair/b-8", "preset=muonclip", "0.01", 8, 2),
  {"pair/c-1", "finished", "preset=muon", "0.01", 1, 10, ROWS, 0, 0, "train.batch=16"},
  {"pair/c-2", "finished", "preset=muon", "0.01", 2, 10, ROWS, 0, 0, "train.batch=16"},
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

/* Arms to be compared, in pair/: one learns better by 1 or a little less; of seed 1 they begin with the same loss, of
   all but 2 with the same norms, which the others do not record. */
static const struct series norm = {"weight/frobenius_norm", PER_TENSOR, AXIS_SPECTRA, "1",
                                   "Frobenius norm",        "made up",  EVENT_NONE};
static int is_paired(const struct made *m) { return !strncmp(m->path, "pair/", 5); }
static int is_b(const struct made *m) { return m->path[5] == 'b'; }
static double paired_loss(const struct made *m, int row)
{
  if (!row) return m->seed == 1 ? 4 : 4 + is_b(m) / 8.0;
  return 3 + m->seed / 8.0 - row / 64.0 - is_b(m) * (1 - m->seed % 3 / 64.0);
}

/* Losses fall, from above all others to below ln 64, but of one run, which blew up. */
static double loss_of(const struct made *m, int row)
{
  const int run = (int)(m - made);
  const double x = value_of(run, 0, row, 0);
  return !strcmp(m->path, "runs/clip-1-2") ? x
         : !row                            ? 17 - run / 64.0
         : 10 * row >= 9 * (m->rows - 1)   ? x / 4
                                           : x;
}

static char folder[FOLDER_PATH];

static struct config *configured(const struct made *m)
{
  return configuration(
    "%s train.lr=%s train.seed=%d train.steps=10 model.layers=2 model.heads=2 train.warmup=2 %s", m->kind,
    m->lr, m->seed, m->more ? m->more : "");
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
                          m->spoilt != 0 && s == 0 && row == 3 ? m->spoilt
                          : is_paired(m) && s == 0             ? paired_loss(m, row)
                          : s == 0                             ? loss_of(m, row)
                                                               : value_of(run, s, row, 0));
    else
      recorder_put(r, id[s], value);
  }
  if (is_paired(m) && axis == AXIS_SPECTRA) {
    float value[TENSORS];
    for (int i = 0; i < TENSORS; i++) value[i] = 8 + (float)i / 8 + (float)(m->seed == 2 && is_b(m));
    recorder_put(r, id[SERIES], value);
  }
  recorder_row(r, axis, step);
}

static void write_run(const struct made *m)
{
  char name[16], path[FOLDER_PATH + 32];
  int id[SERIES + 1];
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
  if (is_paired(m)) id[SERIES] = recorder_series(r, &norm);
  for (int row = 0; row < m->rows; row++) put_row(r, id, m, row, AXIS_STEP, 2 * row);
  for (int row = 0; row < 4 && m->rows; row++) put_row(r, id, m, row, AXIS_VAL, 3 * row);
  for (int row = 0; row < 3 && m->rows; row++) put_row(r, id, m, row, AXIS_SPECTRA, 4 * row);
  for (int i = 0; i < m->clips; i++)
    recorder_event(r, 2 * i, "clip", i % 2, i / 2 % 2, 0.5 + 0.0625 * (i * i / 2 % 7));
  if (m->spoilt != 0) recorder_event(r, 6, "nonfinite", -1, -1, m->spoilt);
  ck_assert_msg(!recorder_snapshot(r, m->state, m->steps, 1.25 + (double)(m - made), 1, &e), "%s", e.text);
  for (int row = m->rows; row < m->rows + 3; row++) /* which the journal has alone */
    if (!strcmp(m->state, "running")) put_row(r, id, m, row, AXIS_STEP, 2 * row);
  ck_assert_msg(!recorder_append(r, 1, &e), "%s", e.text);
  recorder_free(r);
  config_free(c);
}

/* Arms for tune, told apart by adam.eps: what a run so many factors from the start ends with; what it diverges with is
   NaN, and what it has no value of is infinite. */
enum { BEST, GROWS, LOST, TIES, FLAT, NOTHING, FAR, ARMS };
static const char *const arm_names[ARMS] = {"best", "grows", "lost", "ties", "flat", "nothing", "far"};
static const int arm_low[ARMS] = {-2, -6, -2, -2, -2, -14, -2}, arm_high[ARMS] = {2, 2, 2, 2, 2, 2, 14};
static double tuned_to(int arm, int at, long seed)
{
  const double noise = (double)((5 * seed + 3 * at + 60) % 7) / 16;
  switch (arm) {
  case BEST: return 3 + at * at / 4.0 + noise;
  case GROWS: return 3 + (at + 3) * (at + 3) / 8.0;
  case LOST:
    return at > 0 && seed % 2 ? NAN : at == -2 && seed == TUNING_SEED ? INFINITY : 3 + abs(at + 1) / 8.0;
  case TIES: return at == 1 || at == -1 ? 3 + noise / 8 * (seed == TUNING_SEED ? 0 : 1) : 4;
  case FLAT: return 3;
  case NOTHING: return NAN;
  default: return 3 - at / 8.0;
  }
}

static void write_tuned(const struct sweep_point *p, const struct config *c)
{
  static const struct series val = {"val_loss",        PER_STEP,  AXIS_VAL,  "nat",
                                    "validation loss", "made up", EVENT_NONE};
  struct run_facts facts = {.id = p->id,
                            .device = "cpu",
                            .data = "markov",
                            .data_text = "made up",
                            .layers = LAYERS,
                            .heads = HEADS,
                            .loss_floor = NAN,
                            .data_content = 1};
  struct recorder *r;
  struct error e = {0};
  const int arm = (int)lround(number_in(c, "adam.eps") * 1e8) - 1;
  const int at = (int)lround(log(number_in(c, "train.lr") / 0.01) / log(TUNING_FACTOR));
  const double value = tuned_to(arm, at, lround(number_in(c, "train.seed")));
  if (at < arm_low[arm] || at > arm_high[arm]) return;
  ck_assert_msg(!recorder_create(&r, p->path, 1, c, &facts, &e), "%s", e.text);
  int id = recorder_series(r, &val);
  for (int row = 0; row < 2; row++) {
    recorder_put_number(r, id, isinf(value) ? NAN : value);
    recorder_row(r, AXIS_VAL, row);
  }
  ck_assert_msg(!recorder_snapshot(r, isnan(value) ? "diverged" : "finished", 10, 1, 1, &e), "%s", e.text);
  recorder_free(r);
}

/* The files of arms, all of them or those that have a best, and the runs that tune asks for. */
static void make_tuned(const char *name, int arms)
{
  struct buffer b = {0};
  struct sweep s;
  struct error e = {0};
  char path[FOLDER_PATH + 32], word[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  buffer_add(&b, "model.layers = 1\nmodel.width = 8\nmodel.heads = 2\nmodel.context = 8\ntrain.steps = 10\n"
                 "train.lr = 0.01\ntrain.seed = 1, 2\n");
  for (int a = 0; a < arms; a++)
    buffer_add(&b, "[arm %s]\noptimizer = adam\nadam.eps = %de-8\n%s", arm_names[a], a + 1,
               a % 2 ? "adam.beta2 = 0.95\n" : "");
  ck_assert(!file_write(path, b.text, b.length, &e));
  memory_free(b.text);
  struct config *c = config_new();
  ck_assert_msg(!config_file(c, path, &e), "%s", e.text);
  snprintf(word, sizeof word, "sweep.dir=%s/tuned", folder);
  ck_assert(!config_assign(c, word, &e));
  int used = snprintf(word, sizeof word, "train.lr=");
  for (int at = -14; at <= 14; at++)
    used += snprintf(word + used, sizeof word - (size_t)used, "%s%.4g", at > -14 ? "," : "",
                     0.01 * pow(TUNING_FACTOR, at));
  ck_assert(!config_assign(c, word, &e));
  snprintf(word, sizeof word, "train.seed=%d,%d,%d", TUNING_SEED, TUNING_SEED + 1, TUNING_SEED + 2);
  ck_assert(!config_assign(c, word, &e));
  ck_assert_msg(!sweep_plan(&s, c, "tuned", 1, 1, &e), "%s", e.text);
  for (long i = 0; i < s.count; i++) {
    struct config *one = config_point(c, s.points[i].index);
    ck_assert_msg(!config_finish(one, &e), "%s", e.text);
    write_tuned(&s.points[i], one);
    config_free(one);
  }
  sweep_free(&s);
  config_free(c);
}

static void make_runs(void)
{
  char command[6 * FOLDER_PATH + 64];
  snprintf(command, sizeof command, "mkdir %s/runs %s/odd %s/more %s/even %s/pair %s/tuned", folder, folder,
           folder, folder, folder, folder);
  ck_assert_int_eq(system(command), 0);
  for (int i = 0; i < MADE; i++) write_run(&made[i]);
  make_tuned("few.conf", FLAT);
  make_tuned("made.conf", ARMS);
}

static void no_runs(void) {}

/* --- transcripts --------------------------------------------------------------------------------------- */

/* Messages go to standard error, each with the program's name before it, and nothing of the sort to standard output. */
static void check_streams(struct buffer *out, const char *line)
{
  char path[FOLDER_PATH + 8];
  for (int stream = 1; stream <= 2; stream++) {
    struct error e = {0};
    char *text;
    size_t size;
    snprintf(path, sizeof path, "%s/.%d", folder, stream);
    ck_assert_msg(!file_read(path, &text, &size, &e), "%s", e.text);
    for (char *at = strtok(text, "\n"); at; at = strtok(NULL, "\n"))
      if (stream == 1 ? !strncmp(at, "maxlogit: ", 10) && !strstr(line, "2>") && !strstr(line, "cat ")
                      : *at != ' ' && strncmp(at, "maxlogit: ", 10))
        buffer_add(out, "! on standard %s: %.60s\n", stream == 1 ? "output" : "error", at);
    memory_free(text);
  }
}

/* What a line prints: messages, then the rest, and "= STATUS" if it is not 0; dates are one. */
static void append_output(struct buffer *out, const char *line, const char *masks)
{
  char command[4096], path[64];
  snprintf(path, sizeof path, "%s/.line", folder);
  FILE *f = fopen(path, "w");
  ck_assert_ptr_nonnull(f);
  fprintf(f, "%s\n", line);
  fclose(f);
  snprintf(command, sizeof command,
           "cd %s && { sh .line >.1 2>.2; s=$?; test $s = 0 || echo \"= $s\" >>.1; } && sed -E "
           "'s/20[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9:+Z]+/DATE/g%s' .2 .1",
           folder, masks);
  f = popen(command, "r");
  ck_assert_ptr_nonnull(f);
  char text[65536];
  for (size_t n; (n = fread(text, 1, sizeof text - 1, f)) > 0;) text[n] = 0, buffer_add(out, "%s", text);
  ck_assert_int_eq(pclose(f), 0);
  if (out->length && out->text[out->length - 1] != '\n') buffer_add(out, "\n");
  check_streams(out, line);
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

/* What a machine has, and what its kernels say. */
#define MACHINE \
  "; /^maxlogit: warning: the base kernels/d; s/(# memory:|,) [0-9.]+( MiB| for the passes)/\\1 ROOM\\2/g" \
  "; s/this machine has [0-9.]+ [GMT]iB/this machine has ROOM/g; s/^# memory of the whole process .*/# " \
  "ROOM of all/" \
  "; s/^# time: [^ ]+ s per step .mean of [0-9]+., so about [^ ]+ for/# time: LONG per step for/"

static const struct {
  const char *name;
  void (*prepare)(void);
  const char *masks; /* of sed */
  double of_base;    /* how far numbers of the base kernels, which fuse nothing, may lie from the others' */
} transcripts[] = {
  {"commands", make_runs, MACHINE, 1e-6},
  {"session", no_runs,
   MACHINE "; s/\\([0-9.]+ s\\)/(TIME s)/g; s/\"wall_seconds\": "
           "*[^,}]*/\"wall_seconds\": TIME/g"
           "; s/ +[0-9.]+(  [a-z.]*h5| +train\\.seed=.*)$/ TIME\\1/; s/revision ([0-9a-f]{12}|unknown)( "
           "\\(changed\\))?/revision REV/g"
           "; s/\\b(v3|v4|base|neon) kernels/LEVEL kernels/g; s/OpenBLAS [A-Za-z0-9]+/OpenBLAS CORE/g"
           "; s/; HDF5 .*(\\. The runs took)/; LIBRARIES\\1/",
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
