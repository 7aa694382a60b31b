/* check_commands.c - what show, export and sweep print, against values worked out by hand from small run files
   that are written here: NaN, rows that are missing, axes of their own, two layers of two heads. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "storage/recorder.h"
#include "../folder.h"
#include "../configuration.h"

enum { LAYERS = 2, HEADS = 2, TENSORS = 2, ROWS = 4 };
static const char *const tensors[TENSORS] = {"embed", "blocks.0.attn.w_q"};
static const struct series series[] = {
  {"loss", PER_STEP, AXIS_STEP, "nat", "training loss", "made up", EVENT_NONE},
  {"attn/max_logit", PER_HEAD, AXIS_STEP, "1", "max logit", "made up", EVENT_NONE},
  {"val_loss", PER_STEP, AXIS_VAL, "nat", "validation loss", "made up", EVENT_NONE},
  {"weight/spectral_norm", PER_TENSOR, AXIS_SPECTRA, "1", "spectral norm", "made up", EVENT_NONE},
  {"spectral_clip/kept", PER_LAYER, AXIS_SPECTRA, "1", "norm kept", "made up", EVENT_NONE},
};
enum { LOSS, MAX_LOGIT, VAL_LOSS, NORM, KEPT, SERIES };

/* Rows of steps 0, 2, 4, 6 of 8 updates; validation after 0, 3 and 8 of them; spectra at 0 and 4. */
struct made {
  const char *name, *id, *state, *settings[4];
  double loss[ROWS], val_loss[3];
  float logit[ROWS][LAYERS * HEADS];
  int rows, clips;
};
static const struct made made[] = {
  {"one",
   "000000000001",
   "finished",
   {"preset=muon", "train.seed=1", "train.lr=0.02"},
   {4, 3.5, NAN, 2.5},
   {4.25, 3, 2.125},
   {{1, 2, 3, 4}, {5, 50, 6, 7}, {8, 9, 10, 11}, {12, 13, 40, 14}},
   ROWS,
   3},
  {"two",
   "000000000002",
   "finished",
   {"preset=muon", "train.seed=2", "train.lr=0.02"},
   {5, 4.5, 4, 3.5},
   {5.25, 4, 3.125},
   {{1, 1, 1, 200}, {1, 1, 1, 1}, {1, 1, 1, 1}, {-INFINITY, 10, -1, -2}},
   ROWS,
   0},
  {"broken",
   "000000000003",
   "diverged",
   {"preset=muon", "train.seed=3", "train.lr=0.02"},
   {9, 99, 999, NAN},
   {9, 99, 999},
   {{1, 1, 1, 1}, {2, INFINITY, 2, 2}, {3, 3, NAN, 3}, {4, 4, 4, 4}},
   ROWS,
   7},
  {"hidden",
   "000000000005",
   "diverged",
   {"preset=muon", "train.seed=4", "train.lr=0.02"},
   {9, 99, 999, 9},
   {9, 99, 999},
   {{1, 1, 1, 1}, {2, 2, NAN, 2}, {3, INFINITY, 3, 3}, {4, NAN, 4, 4}},
   ROWS,
   0},
  {"begun",
   "000000000004",
   "running",
   {"preset=adam", "train.seed=1", "train.lr=0.02"},
   {0},
   {0},
   {{0}},
   0,
   0},
};
enum { MADE = sizeof made / sizeof *made };

static char folder[FOLDER_PATH];

static struct config *configured(const char *const *settings)
{
  const char *word[4] = {"", "", "", ""};
  for (int i = 0; i < 4 && settings[i]; i++) word[i] = settings[i];
  return configuration("model.layers=2 model.heads=2 %s %s %s %s", word[0], word[1], word[2], word[3]);
}

static void put_rows(struct recorder *r, const struct made *m, const int *id)
{
  static const long val_steps[3] = {0, 3, 8};
  for (int row = 0; row < m->rows; row++) {
    recorder_put_number(r, id[LOSS], m->loss[row]);
    recorder_put(r, id[MAX_LOGIT], m->logit[row]);
    recorder_row(r, AXIS_STEP, 2 * row);
  }
  for (int i = 0; i < 3 && m->rows; i++) {
    recorder_put_number(r, id[VAL_LOSS], m->val_loss[i]);
    recorder_row(r, AXIS_VAL, val_steps[i]);
  }
  for (int i = 0; i < 2 && m->rows; i++) {
    recorder_put(r, id[NORM], (const float[]){1.5F + (float)i, 30.25F + (float)i});
    recorder_put(r, id[KEPT], (const float[]){0.5F, 0.25F});
    recorder_row(r, AXIS_SPECTRA, 4 * i);
  }
  for (int i = 0; i < m->clips; i++) recorder_event(r, i, "clip", 1, 0, 0.5);
  recorder_event(r, 7, "nonfinite", -1, -1, NAN);
}

static void write_run(const struct made *m, const char *path)
{
  struct run_facts facts = {.id = m->id,
                            .device = "cpu",
                            .data = "markov",
                            .data_text = "made up",
                            .layers = LAYERS,
                            .heads = HEADS,
                            .tensors = TENSORS,
                            .tensor_names = tensors,
                            .loss_floor = NAN,
                            .data_content = 1};
  struct config *c = configured(m->settings);
  struct recorder *r;
  struct error e = {0};
  int id[SERIES];
  ck_assert_msg(!recorder_create(&r, path, 1, c, &facts, &e), "%s", e.text);
  for (int s = 0; s < SERIES; s++) id[s] = recorder_series(r, &series[s]);
  put_rows(r, m, id);
  ck_assert_msg(!recorder_snapshot(r, m->state, m->rows ? 8 : 0, 1.5, 1, &e), "%s", e.text);
  recorder_free(r);
  config_free(c);
}

static void setup(void)
{
  char path[64];
  folder_make(folder);
  for (int i = 0; i < MADE; i++) {
    snprintf(path, sizeof path, "%s/%s.h5", folder, made[i].name);
    write_run(&made[i], path);
  }
}

static void teardown(void) { folder_remove(folder); }

/* What the program prints in the folder, blanks squeezed to one; its exit status must be `status`. */
static const char *output(int status, const char *arguments)
{
  static char text[65536];
  char command[10240], program[4096];
  const char *given = getenv("MAXLOGIT");
  ck_assert_ptr_nonnull(realpath(given ? given : "./maxlogit", program));
  snprintf(command, sizeof command, "cd %s && %s %s 2>&1", folder, program, arguments);
  FILE *f = popen(command, "r");
  ck_assert_ptr_nonnull(f);
  size_t n = 0;
  for (int c; (c = fgetc(f)) != EOF && n < sizeof text - 1;) {
    int blank = c == ' ' && (n == 0 || text[n - 1] == ' ' || text[n - 1] == '\n');
    if (c == '\n' && n && text[n - 1] == ' ') n--;
    if (!blank) text[n++] = (char)c;
  }
  text[n] = 0;
  int ended = pclose(f);
  ck_assert_msg(WIFEXITED(ended) && WEXITSTATUS(ended) == status, "%.200s: status %x: %.2000s", arguments,
                ended, text);
  return text;
}

static void prints(const char *arguments, const char *line)
{
  const char *text = output(0, arguments);
  char between[1024], first[1024];
  snprintf(between, sizeof between, "\n%s\n", line);
  snprintf(first, sizeof first, "%s\n", line);
  ck_assert_msg(strstr(text, between) || !strncmp(text, first, strlen(first)), "%s: no line '%s' in:\n%s",
                arguments, line, text);
}

static void prints_part(const char *arguments, const char *part)
{
  const char *text = output(0, arguments);
  ck_assert_msg(strstr(text, part), "%.200s: no '%s' in:\n%.2000s", arguments, part, text);
}

START_TEST(show_runs)
{
  prints("show one.h5", "muon none 0.02 1 finished 8 2.5000 2.1250 50 L0H1 40 L1H0 3 1.5 one.h5");
  prints("show two.h5", "muon none 0.02 2 finished 8 3.5000 3.1250 200 L1H1 10 L0H1 0 1.5 two.h5");
  /* NaN is larger than any number, infinity too, and the first of several counts; -inf is the smallest */
  prints("show broken.h5", "muon none 0.02 3 diverged 8 NaN 999.0000 nan L1H0 4 L0H0 7 1.5 broken.h5");
  prints("show hidden.h5", "muon none 0.02 4 diverged 8 9.0000 999.0000 nan L1H0 nan L0H1 0 1.5 hidden.h5");
  prints("show begun.h5", "adam none 0.02 1 killed 0 - - - - 0 1.5 begun.h5");
}
END_TEST

START_TEST(show_json)
{
  prints_part("show --json one.h5",
              "\"lr\": 0.02, \"seed\": 1, \"state\": \"finished\", \"steps\": 8, \"loss\": 2.5, "
              "\"val_loss\": 2.125, \"peak_max_logit\": {\"value\": 50, \"step\": 2, \"layer\": 0, "
              "\"head\": 1}, \"last_max_logit\": {\"value\": 40, \"step\": 6, \"layer\": 1, \"head\": 0}, "
              "\"clips\": 3, \"wall_seconds\": 1.5, \"notes\": []}");
  prints_part("show --json broken.h5",
              "\"loss\": \"NaN\", \"val_loss\": 999, \"peak_max_logit\": {\"value\": \"NaN\", "
              "\"step\": 4, \"layer\": 1, \"head\": 0}");
  prints_part("show --json begun.h5",
              "\"loss\": null, \"val_loss\": null, \"peak_max_logit\": null, \"last_max_logit\": null");
  prints_part("show --json --events one.h5",
              "{\"step\": 1, \"kind\": \"clip\", \"layer\": 1, \"head\": 0, \"value\": 0.5}, ");
  prints_part("show --json --events one.h5",
              "{\"step\": 7, \"kind\": \"nonfinite\", \"layer\": -1, \"head\": -1, \"value\": "
              "\"NaN\"}]");
  prints_part("show --json --parameters one.h5", "\"train.lr\": \"0.02\"");
  prints("show --events one.h5", "2 clip 1 0 0.5");
  prints("show --events one.h5", "7 nonfinite - - NaN");
  prints("show --parameters one.h5", "train.lr = 0.02");
}
END_TEST

/* Two seeds: t(0.975, 1) = 12.706204736174707. The diverged run is counted, and in no mean. */
START_TEST(show_groups)
{
  const double t = 12.706204736174707;
  char line[512];
  double spread = exp(t * log(4) / 2), last = exp(t * log(4) / 2); /* of 50 and 200, of 40 and 10 */
  snprintf(line, sizeof line,
           "muon 3 1 0 3.0000 \302\261 %.4f 2.6250 \302\261 %.4f 100 [%.4g, %.4g] 20 [%.4g, %.4g] 1.5", t / 2,
           t / 2, 100 / spread, 100 * spread, 20 / last, 20 * last);
  prints("show --group one.h5 two.h5 broken.h5", line);
  prints("show --group one.h5 broken.h5", "muon 2 1 0 2.5000 2.1250 50 40 3.0");
  prints_part("show --group --json one.h5 two.h5 broken.h5",
              "\"seeds\": 3, \"diverged\": 1, \"blown_up\": 0, \"unfinished\": 0, \"loss\": {\"n\": 2, "
              "\"mean\": 3, \"lo\": -3.353102");
  prints_part("show --group --json one.h5 two.h5",
              "\"val_loss\": {\"n\": 2, \"mean\": 2.625, \"lo\": -3.728102");
  prints_part("show --group --json one.h5", "{\"n\": 1, \"mean\": 2.5, \"lo\": null, \"hi\": null}");
}
END_TEST

/* A step that was not reached is the last one or any later; a cell of CSV is the text that it was, whatever that is. */
START_TEST(show_measures)
{
  char odd[4200];
  prints("show --of attn/max_logit:all:above=45,attn/max_logit:all:above=99 one.h5",
         "muon 1 finished 2 >6 one.h5");
  prints("show --csv --of attn/max_logit:all:above=45,attn/max_logit:all:above=99 one.h5",
         "one.h5,000000000001,muon,1,finished,2,0,6,1");
  prints_part("show --json --group --of attn/max_logit:all:above=99 one.h5 two.h5", "\"reached\": 1");
  snprintf(odd, sizeof odd, "%s/odd \"a\", b.h5", folder);
  ck_assert_int_eq(symlink("one.h5", odd), 0);
  prints_part("show --csv --of loss 'odd \"a\", b.h5'", "\n\"odd \"\"a\"\", b.h5\",");
}
END_TEST

START_TEST(export_columns)
{
  prints("export one.h5 loss", "# step loss\n0 4\n2 3.5\n4 NaN\n6 2.5");
  prints("export one.h5 attn/max_logit",
         "# step l0h0 l0h1 l1h0 l1h1\n0 1 2 3 4\n2 5 50 6 7\n4 8 9 10 11\n6 12 13 40 14");
  prints("export one.h5 attn/max_logit --every=4", "# step l0h0 l0h1 l1h0 l1h1\n0 1 2 3 4\n4 8 9 10 11");
  prints("export one.h5 val_loss --every=3", "# step val_loss\n0 4.25\n3 3");
  prints("export one.h5 attn/max_logit --layer=1", "# step l1h0 l1h1\n0 3 4\n2 6 7\n4 10 11\n6 40 14");
  prints("export one.h5 attn/max_logit --head=1 --layer=0", "# step l0h1\n0 2\n2 50\n4 9\n6 13");
  prints("export one.h5 spectral_clip/kept --layer=1", "# step l1\n0 0.25\n4 0.25");
  prints("export one.h5 attn/max_logit --reduce=max", "# step attn/max_logit\n0 4\n2 50\n4 11\n6 40");
  prints("export one.h5 attn/max_logit --reduce=mean", "# step attn/max_logit\n0 2.5\n2 17\n4 9.5\n6 19.75");
  prints("export broken.h5 attn/max_logit --reduce=max", "# step attn/max_logit\n0 1\n2 inf\n4 NaN\n6 4");
  prints("export one.h5 loss val_loss",
         "# step loss val_loss\n0 4 4.25\n2 3.5 NaN\n3 NaN 3\n4 NaN NaN\n6 2.5 NaN\n8 NaN 2.125");
  prints("export one.h5 weight/spectral_norm", "# step embed blocks.0.attn.w_q\n0 1.5 30.25\n4 2.5 31.25");
  prints("export one.h5 loss --long", "# step column value\n0 loss 4\n2 loss 3.5\n4 loss NaN\n6 loss 2.5");
  prints("export two.h5 loss --format=csv", "step,loss\n0,5\n2,4.5\n4,4\n6,3.5");
}
END_TEST

/* Of two runs: n, mean and interval of each row; the geometric mean of 2 and 8 is 4. */
START_TEST(export_band)
{
  prints_part("export one.h5 two.h5 val_loss --band", "# step n mean lo hi\n0 2 4.75 -1.603102368087");
  prints_part("export one.h5 two.h5 loss --band", "\n4 2 NaN NaN NaN\n6 2 3 -3.353102368087");
  prints_part("export one.h5 two.h5 attn/max_logit --reduce=max --band=geometric", "\n2 2 7.07106");
  prints_part("export one.h5 two.h5 attn/max_logit --reduce=max --band", "\n2 2 25.5 ");
  /* the diverged run is counted, and in no mean */
  prints_part("export one.h5 two.h5 broken.h5 loss --band", "# step n mean lo hi\n0 2 4.5 -1.853102368087");
  prints_part("export one.h5 two.h5 broken.h5 loss --band",
              "# group muon: runs 2, 1 diverged and left out\n");
  prints_part("export one.h5 two.h5 broken.h5 loss --band --format=csv",
              "group muon: 1 diverged and left out\nstep,n,");
  prints_part("export one.h5 two.h5 loss --band", "# group muon: runs 2\n");
  prints_part("export one.h5 two.h5 broken.h5 val_loss --band", "\n8 2 2.625 ");
  prints_part("export broken.h5 loss --band",
              "# group muon: runs 0, 1 diverged and left out\n# step n mean lo hi\n");
  ck_assert_ptr_null(strstr(output(0, "export broken.h5 loss --band"), "\n0 "));
}
END_TEST

/* The table of a sweep whose points are there already, one of them diverged: read, and not run again. */
START_TEST(sweep_table)
{
  char id[2][16] = {"", ""}, path[128], line[160];
  struct made points[2] = {made[0], made[2]};
  FILE *f;
  snprintf(path, sizeof path, "%s/s.conf", folder);
  ck_assert_ptr_nonnull(f = fopen(path, "w"));
  fputs(
    "preset = muon\n[model]\nlayers = 2\nheads = 2\n[train]\nsteps = 8\nseed = 1, 3\n[sweep]\ndir = points\n",
    f);
  fclose(f);
  const char *list = output(0, "sweep s.conf --list");
  ck_assert_msg(sscanf(list, "1 %15s %*s %*s 2 %15s", id[0], id[1]) == 2, "%s", list);
  snprintf(path, sizeof path, "mkdir %s/points", folder);
  ck_assert_int_eq(system(path), 0);
  for (int i = 0; i < 2; i++) {
    points[i].id = id[i];
    snprintf(path, sizeof path, "%s/points/%s.h5", folder, id[i]);
    write_run(&points[i], path);
  }
  snprintf(line, sizeof line, "%s finished 2.1250 50 40 1.5 train.seed=1", id[0]);
  prints("sweep s.conf", line);
  snprintf(line, sizeof line, "%s diverged 999.0000 nan 4 1.5 train.seed=3", id[1]);
  prints("sweep s.conf", line);
  prints("sweep s.conf", "maxlogit: 2 runs, 2 of them done before");
}
END_TEST

/* [FILE] key=value ...: as many as there are, one file, by the same parser wherever they stand. */
START_TEST(words)
{
  static const char *const commands[] = {"run", "resume", "eval", "sweep"};
  char many[8192] = "";
  for (int i = 0; i < 300; i++) snprintf(many + strlen(many), 32, " device.threads=%d", 1 + i % 7);
  char arguments[9000];
  for (int i = 0; i < 4; i++) {
    snprintf(arguments, sizeof arguments, "%s one.h5 train.seed=1 two.h5", commands[i]);
    const char *text = output(2, arguments);
    ck_assert_msg(strstr(text, "'two.h5': one ") && strstr(text, "settings are written key=value"), "%s",
                  text);
    if (i == 0) continue;
    text = output(2, commands[i]);
    ck_assert_msg(strstr(text, "which "), "%s", text);
  }
  FILE *f;
  snprintf(arguments, sizeof arguments, "%s/s.conf", folder);
  ck_assert_ptr_nonnull(f = fopen(arguments, "w"));
  fputs("preset = muon\n", f);
  fclose(f);
  snprintf(arguments, sizeof arguments, "run --dry-run s.conf %s", many);
  prints(arguments, "device.threads = 6 # command line");
  snprintf(arguments, sizeof arguments, "sweep --list s.conf %s", many);
  prints_part(arguments, "waiting");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("commands");
  TCase *k = tcase_create("by hand");
  tcase_set_timeout(k, 300);
  tcase_add_checked_fixture(k, setup, teardown);
  tcase_add_test(k, show_runs);
  tcase_add_test(k, show_json);
  tcase_add_test(k, show_groups);
  tcase_add_test(k, show_measures);
  tcase_add_test(k, export_columns);
  tcase_add_test(k, export_band);
  tcase_add_test(k, sweep_table);
  tcase_add_test(k, words);
  suite_add_tcase(suite, k);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed > 0;
}
