/* check_made.c - a ledger of runs that are made up: every word, number and page that is told of it
   The run files of all arms are written here, under the ids that the ledger plans, so that nothing is trained: the
   effects of each claim's pairs are those of a pattern, a letter a seed. What the ledger tells of them is kept in
   tests/golden/ledger*.txt; MAXLOGIT_TEST_RENEW=1 writes these anew: every line that changes is to be read. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/memory.h"
#include "storage/provenance.h"
#include "../configuration.h"
#include "../folder.h"
#include "../golden.h"
#include "ledger/arms.h"
#include "ledger/ledger_file.h"
#include "ledger/ledger.h"
#include "ledger/page.h"
#include "ledger/tuned_rates.h"
#include "ledger/replication.h"
#include "ledger/print.h"
#include "storage/recorder.h"

#define TINY \
  "preset = adam\nmodel.layers = 1\nmodel.width = 8\nmodel.heads = 2\nmodel.context = 8\ntrain.batch = 2\n" \
  "train.steps = 16\ntrain.warmup = 0\ntrain.lr = 0.01\ndevice.threads = 1\n"
/* Arms are told apart by this key: A has 1 of it, B 2, and so on. */
#define EPS(k) "adam.eps=" #k "e-8"
#define A \
  { \
    .name = "A" \
  }
#define B \
  { \
    .name = "Muon & \"B\"", .set = EPS(2) \
  }
enum { ARM_A = 1, ARM_B, ARM_C, ARM_DIVERGES, ARM_IDLE, ARM_FAILS };
#define AB .arm = {A, B}
#define RATIO .contrast = CONTRAST_RATIO
#define RATE .equal = EQUAL_RATE

/* Effects of the pairs in units of what matters, seed by seed and then from the start again: a to i from -3 to 3, e is
   0, and a little more or less with the seed; P, M and Z 1, -1 and 0 exactly. Of B: ? NaN, ! infinite, - below zero.
   Two arms have a pattern, one is measured against the level. */
static const struct made {
  struct claim claim;
  const char *effects;
} made[] = {
  {{.id = "more-holds",
    AB,
    RATE,
    .prediction = PREDICT_MORE,
    .matters = 0.25,
    .explored = "ten seeds.",
    .refute = "less than a quarter"},
   "ihhiihh"},
  {{.id = "more-holds-late", AB, RATE, .prediction = PREDICT_MORE, .matters = 0.25, .hours = 1.5},
   "hghhhfhghhhh"},
  {{.id = "more-border", AB, RATE, .prediction = PREDICT_MORE, .matters = 0.25}, "hPhihhPPhh"},
  {{.id = "more-negligible", AB, RATE, .prediction = PREDICT_MORE, .matters = 0.25}, "efefdeef"},
  {{.id = "more-opposite", AB, .equal = EQUAL_RMS, .prediction = PREDICT_MORE, .matters = 0.25}, "abbaab"},
  {{.id = "more-open", AB, .equal = EQUAL_NORM, .prediction = PREDICT_MORE, .matters = 0.25}, "iaeeic"},
  {{.id = "less-ratio-holds",
    AB,
    RATIO,
    .equal = EQUAL_LOSS,
    .prediction = PREDICT_LESS,
    .matters = 2,
    .revised = "what matters was 3"},
   "abbcaab"},
  {{.id = "less-ratio-partly", AB, RATIO, RATE, .prediction = PREDICT_LESS, .matters = 1.5}, "dcdddcbd"},
  {{.id = "less-opposite", AB, RATE, .prediction = PREDICT_LESS, .matters = 0.5}, "hiihhi"},
  {{.id = "same-holds", AB, RATE, .prediction = PREDICT_SAME, .matters = 0.5}, "deeffdee"},
  {{.id = "same-border", AB, RATE, .prediction = PREDICT_SAME, .matters = 0.5}, "MPZeMPZf"},
  {{.id = "same-above", AB, RATIO, RATE, .prediction = PREDICT_SAME, .matters = 2}, "hhghhh"},
  {{.id = "same-below", AB, RATE, .prediction = PREDICT_SAME, .matters = 0.5}, "bbcbbc"},
  {{.id = "same-differs", AB, RATE, .prediction = PREDICT_SAME, .matters = 0.5}, "ffgffgff"},
  {{.id = "same-differs-below", AB, RATE, .prediction = PREDICT_SAME, .matters = 0.5}, "dcddMcdd"},
  {{.id = "same-zero", AB, RATE, .prediction = PREDICT_SAME, .matters = 0.5}, "Z"},
  {{.id = "not-more-holds", AB, RATE, .prediction = PREDICT_NOT_MORE, .matters = 0.5}, "deffce"},
  {{.id = "not-more-refuted", AB, RATIO, RATE, .prediction = PREDICT_NOT_MORE, .matters = 1.25}, "hgigh"},
  {{.id = "not-more-differs", AB, RATE, .prediction = PREDICT_NOT_MORE, .matters = 0.5}, "fgfghff"},
  {{.id = "not-less-holds", AB, RATE, .prediction = PREDICT_NOT_LESS, .matters = 0.5}, "edihfe"},
  {{.id = "not-less-refuted", AB, RATE, .prediction = PREDICT_NOT_LESS, .matters = 0.5}, "abcb"},
  {{.id = "not-less-differs", AB, RATE, .prediction = PREDICT_NOT_LESS, .matters = 0.5}, "dcdbdd"},
  {{.id = "not-finite", AB, RATE, .prediction = PREDICT_MORE, .matters = 0.25}, "hi?h!hihhg"},
  {{.id = "not-above-zero", AB, RATIO, RATE, .prediction = PREDICT_MORE, .matters = 1.5}, "hi-hhi--"},
  {{.id = "nothing-left", AB, RATE, .prediction = PREDICT_MORE, .matters = 0.25}, "?"},
  {{.id = "level", .arm = {A}, RATE, .level = 3, .prediction = PREDICT_LESS, .matters = 0.5}, "abbacb"},
  {{.id = "level-ratio", .arm = {A}, RATIO, RATE, .level = 4, .prediction = PREDICT_SAME, .matters = 2},
   "defede"},
  {{.id = "identity", AB, RATE, .prediction = PREDICT_SAME, .matters = 0.01, .identity = 1}, "ed"},
  {{.id = "identity-broken", AB, RATE, .prediction = PREDICT_MORE, .matters = 0.5, .identity = 1}, "iPii"},
  {{.id = "needs-scale",
    AB,
    RATE,
    .prediction = PREDICT_MORE,
    .matters = 0.25,
    .scale = "it is of a hundred layers"},
   "fe"},
  {{.id = "needs-scale-alone", .regime = "-", .scale = "it is of a cluster"}, ""},
  {{.id = "withdrawn", AB, RATE, .prediction = PREDICT_MORE, .matters = 0.25, .withdrawn = "nobody said so"},
   ""},
  {{.id = "three-arms",
    .arm = {A, B, {.name = "C", .set = EPS(3)}},
    RATE,
    .prediction = PREDICT_MORE,
    .matters = 0.25},
   "fghhf"},
  {{.id = "diverges",
    .arm = {A, {.name = "D", .set = EPS(4)}},
    RATE,
    .prediction = PREDICT_MORE,
    .matters = 0.25},
   "ghhi"},
  {{.id = "fails",
    .arm = {A, {.name = "F", .set = EPS(6) " train.on_nonfinite=fail"}},
    RATE,
    .prediction = PREDICT_MORE,
    .matters = 0.25},
   "ghhi"},
  {{.id = "idle",
    .arm = {A, {.name = "E", .set = EPS(5)}},
    RATE,
    .prediction = PREDICT_MORE,
    .matters = 0.25},
   "gh"},
  {{.id = "silent", AB, RATE, .metric = "clips", .prediction = PREDICT_LESS, .matters = 0.5}, ""},
  {{.id = "times", AB, RATE, .metric = "m/time:all:above=1", .prediction = PREDICT_MORE, .matters = 1}, ""},
  {{.id = "times-ratio",
    AB,
    RATIO,
    RATE,
    .metric = "m/time:all:below=0",
    .prediction = PREDICT_MORE,
    .matters = 2},
   ""},
  {{.id = "spikes", AB, RATE, .metric = "spikes", .prediction = PREDICT_MORE, .matters = 1}, ""},
  {{.id = "heads",
    AB,
    RATIO,
    RATE,
    .metric = "attn/max_logit@l0h1:all:max",
    .prediction = PREDICT_MORE,
    .matters = 1.1},
   ""},
  {{.id = "share",
    AB,
    RATE,
    .metric = "attn/max_logit:all:over=4",
    .prediction = PREDICT_MORE,
    .matters = 0.01},
   ""},
  {{.id = "two-metrics",
    .arm = {A, {.name = "A, heads", .metric = "attn/max_logit:last:mean"}},
    RATE,
    .metric = "loss",
    .prediction = PREDICT_MORE,
    .matters = 0.5},
   ""},
  {{.id = "beside",
    .arm = {A, B, {.name = "C", .set = EPS(3), .metric = "val"}},
    RATE,
    .metric = "loss",
    .prediction = PREDICT_NOT_MORE,
    .matters = 0.5},
   ""},
  {{.id = "beside-again",
    .tuned = "tuned-stands",
    AB,
    RATE,
    .metric = "loss",
    .prediction = PREDICT_MORE,
    .matters = 0.125},
   ""},
  {{.id = "tuned-stands", AB, .equal = EQUAL_TUNED, .prediction = PREDICT_MORE, .matters = 0.25}, "hhihih"},
  {{.id = "tuned-open",
    AB,
    .equal = EQUAL_TUNED,
    RATIO,
    .metric = "lr",
    .prediction = PREDICT_MORE,
    .matters = 2.75},
   ""},
  {{.id = "two-heads",
    .arm = {A, {.name = "MuonClip", .metric = "attn/max_logit@l0h1:last:mean"}},
    RATE,
    .metric = "attn/max_logit@l0h0:last:mean",
    .prediction = PREDICT_MORE,
    .matters = 0.5},
   ""},
};
enum { MADE = sizeof made / sizeof *made, ROWS = 8, RATES = 7 };

static struct claim claims[MADE];
static struct claim_row rows[MADE + 1];
static char metrics[MADE][16], folder[FOLDER_PATH];

static void make_rows(void)
{
  for (int i = 0; i < MADE; i++) {
    struct claim *c = &claims[i];
    *c = made[i].claim;
    snprintf(metrics[i], sizeof metrics[i], "m/%02d", i);
    if (!c->metric) c->metric = metrics[i];
    c->source = "made up (2026), table 1", c->sentence = "B is <larger> than A.";
    c->regime = c->regime ? NULL : TINY;
    rows[i] = (struct claim_row){c, i < 7 ? "07-a-first-question" : "12-another"};
  }
}

/* --- the runs ------------------------------------------------------------------------------------------- */

static double effect_of(const struct made *m, int seed)
{
  const char letter = m->effects[seed % (int)strlen(m->effects)];
  const double more = (7 * seed % 24 - 11.5) / 512;
  switch (letter) {
  case 'P': return 1;
  case 'M': return -1;
  case 'Z': return 0;
  default: return 0.75 * (letter - 'e') + more;
  }
}

/* What a claim of a pattern measures of a run; `sign` -1: where effects are the other way round. */
static double value_of(const struct made *m, int arm, int seed, int sign)
{
  const struct claim *c = &m->claim;
  const double first = 2 + (5 * seed % 24) / 64.0,
               unit = c->contrast == CONTRAST_RATIO ? log(c->matters) : c->matters;
  const char letter = m->effects[seed % (int)strlen(m->effects)];
  const int alone = !c->arm[1].name;
  if (arm == ARM_C) return 1.25 * first;
  if (arm == ARM_A && !alone) return first;
  if (letter == '?') return NAN;
  if (letter == '!') return INFINITY;
  if (letter == '-') return -first;
  const double from = alone ? c->level : first, effect = sign * effect_of(m, seed) * unit;
  return c->contrast == CONTRAST_RATIO ? from * exp(effect) : from + effect;
}

struct facts { /* of a run's configuration */
  int arm, seed, sign;
  double steps_from_best; /* of its rate */
};

static struct facts facts_of(const struct config *c)
{
  struct facts f = {.arm = (int)lround(number_in(c, "adam.eps") * 1e8),
                    .sign = number_in(c, "model.ffn_width") == 24 ? -1 : 1};
  long seed = lround(number_in(c, "train.seed"));
  f.seed = (int)(seed - (seed >= TUNING_SEED ? TUNING_SEED : LEDGER_SEED));
  /* B is best at a rate two steps above that of A, which is the start */
  f.steps_from_best = log(number_in(c, "train.lr") / 0.01) / log(TUNING_FACTOR) - (f.arm == ARM_B ? 2 : 0);
  return f;
}

/* Does a claim look at this arm? */
static int asks_for(const struct claim *c, int arm)
{
  char set[16];
  snprintf(set, sizeof set, "adam.eps=%de-8", arm);
  for (int a = 0; c->arm[a].name; a++)
    if (c->arm[a].set ? !strncmp(c->arm[a].set, set, strlen(set)) : arm == ARM_A) return 1;
  return 0;
}

static void put_rows(struct recorder *r, const struct facts *f)
{
  enum { OTHERS = 5 };
  static const struct series others[OTHERS] = {
    {"loss", PER_STEP, AXIS_STEP, "nat", "training loss", "made up", EVENT_NONE},
    {"lr", PER_STEP, AXIS_STEP, "1", "rate", "made up", EVENT_NONE},
    {"m/time", PER_STEP, AXIS_STEP, "1", "time", "made up", EVENT_NONE},
    {"attn/max_logit", PER_HEAD, AXIS_STEP, "nat", "max logit", "made up", EVENT_NONE},
    {"val_loss", PER_STEP, AXIS_VAL, "nat", "validation loss", "made up", EVENT_NONE}};
  int id[MADE], other[OTHERS];
  for (int i = 0; i < MADE; i++) {
    const struct series s = {metrics[i], PER_STEP,  AXIS_STEP, i % 2 ? "nat" : "1",
                             "made",     "made up", EVENT_NONE};
    id[i] = *made[i].effects && asks_for(&made[i].claim, f->arm) ? recorder_series(r, &s) : -1;
  }
  for (int k = 0; k < OTHERS; k++) other[k] = recorder_series(r, &others[k]);
  for (int row = 0; row < ROWS; row++) {
    const double more = 1 + (ROWS - 1 - row) / 64.0, own = f->arm == ARM_IDLE ? ARM_A : f->arm;
    const int passes = f->arm == ARM_A ? 2 + 2 * (f->seed % 3) : f->seed % 4 ? 6 + 2 * (f->seed % 3) : 99;
    const float logits[2] = {(float)(1 + own + f->seed / 32.0),
                             (float)(own * more * (1 + f->seed % 5 / 64.0))};
    for (int i = 0; i < MADE; i++)
      if (id[i] >= 0) recorder_put_number(r, id[i], more * value_of(&made[i], f->arm, f->seed, f->sign));
    /* down to where those of one arm, which blow up, end too */
    const int of_loss = f->arm == ARM_DIVERGES ? row : 2 * (ROWS - 1) - row;
    recorder_put_number(r, other[0], own + 0.5 * of_loss + f->seed / 128.0);
    recorder_put_number(r, other[1],
                        0.01 * pow(TUNING_FACTOR, f->steps_from_best + (f->arm == ARM_B ? 2 : 0)));
    recorder_put_number(r, other[2],
                        2 * row >= passes                           ? 1.5
                        : row % 2 && f->arm == ARM_B && f->seed % 3 ? -1
                                                                    : 0.5);
    recorder_put(r, other[3], logits);
    recorder_row(r, AXIS_STEP, 2 * row);
    if (row % 2) {
      /* the seeds differ in their best rates, those of the two arms in opposite directions */
      recorder_put_number(r, other[4],
                          3 + f->steps_from_best * f->steps_from_best / 8 + f->seed / 64.0 + own / 16 +
                            (f->arm == ARM_A ? 1 : -1) * (f->seed % 3 - 1) * f->steps_from_best / 16);
      recorder_row(r, AXIS_VAL, 2 * row);
    }
  }
}

/* The file of a run, where it is not there yet. */
static void write_run(const char *path, const char *id, const struct config *c)
{
  const struct facts f = facts_of(c);
  struct run_facts facts = {.id = id,
                            .device = "cpu",
                            .data = "markov",
                            .data_text = "made up",
                            .layers = 1,
                            .heads = 2,
                            .loss_floor = NAN,
                            .data_content = 1};
  struct recorder *r;
  struct error e = {0};
  if (!access(path, F_OK)) return;
  ck_assert_msg(!file_make_folders(path, &e) && !recorder_create(&r, path, 0, c, &facts, &e), "%s", e.text);
  put_rows(r, &f);
  for (int i = 0; i < (f.arm == ARM_A ? f.seed % 2 : 2 + f.seed % 3); i++)
    recorder_event(r, i, "spike", -1, -1, 9);
  const int lost = (f.arm == ARM_DIVERGES && f.seed % 4 == 1) || (f.arm == ARM_FAILS && f.seed % 5 == 2);
  ck_assert_msg(!recorder_snapshot(r, lost ? "diverged" : "finished", 16, 60 + f.seed, 1, &e), "%s", e.text);
  recorder_free(r);
}

/* All points of a configuration with a list of seeds, and perhaps of rates. */
static void write_points(const struct config *c)
{
  struct sweep s;
  struct error e = {0};
  ck_assert_msg(!sweep_plan(&s, c, "claims", 1, 1, &e), "%s", e.text);
  for (long i = 0; i < s.count; i++) {
    struct config *one = config_point(c, s.points[i].index);
    ck_assert_msg(!config_finish(one, &e), "%s", e.text);
    write_run(s.points[i].path, s.points[i].id, one);
    config_free(one);
  }
  sweep_free(&s);
}

static struct config *config_of(const struct ledger *l, const struct claim *c, int arm, const char *rate)
{
  struct config *config = config_new();
  struct error e = {0};
  ck_assert_msg(!arm_config(l, c, arm, rate, config, &e), "%s", e.text);
  return config;
}

/* Of every arm the runs of all seeds; where it is tuned those that choose its rate as well, and those at the best and
   beside it. */
static void write_all(struct ledger *l, int seeds)
{
  struct error e = {0};
  for (int i = 0; i < l->entries; i++) {
    const struct claim *c = l->entry[i].claim;
    for (int a = 0; a < claim_arms(c); a++) {
      struct config *config = config_of(l, c, a, "");
      ck_assert(!arm_set_seeds(config, LEDGER_SEED, seeds, &e));
      if (c->equal != EQUAL_TUNED) write_points(config);
      config_free(config);
      for (int k = 0; c->equal == EQUAL_TUNED && k < RATES; k++) {
        char rate[32];
        snprintf(rate, sizeof rate, "%.4g", 0.01 * pow(TUNING_FACTOR, k - 2));
        config = config_of(l, c, a, rate);
        ck_assert(!config_set(config, "record.probe_every", "0", "test", &e) &&
                  !config_set(config, "record.spectra_every", "0", "test", &e) &&
                  !arm_set_seeds(config, TUNING_SEED, TUNING_SEEDS, &e));
        write_points(config);
        config_free(config);
        config = config_of(l, c, a, rate);
        ck_assert(!arm_set_seeds(config, LEDGER_SEED, seeds, &e));
        if (k >= 1 && k <= 5) write_points(config);
        config_free(config);
      }
    }
  }
}

/* --- what is told ----------------------------------------------------------------------------------------- */

/* A text in which each `what` is `by`. */
static char *replaced(const char *text, const char *what, const char *by)
{
  struct buffer out = {0};
  for (const char *next; (next = strstr(text, what)); text = next + strlen(what))
    buffer_add(&out, "%.*s%s", (int)(next - text), text, by);
  buffer_add(&out, "%s", text);
  return out.text;
}

/* Without what differs from day to day and from machine to machine. */
static char *masked(const char *text)
{
  char stamp[256], path[64], command[512], block[4096];
  struct buffer out = {0};
  struct error e = {0};
  char *without = replaced(text, provenance_stamp(stamp, sizeof stamp), "STAMP"),
       *again = replaced(without, folder, "DIR");
  snprintf(path, sizeof path, "%s/masked", folder);
  ck_assert_msg(!file_write(path, again, strlen(again), &e), "%s", e.text);
  memory_free(without);
  memory_free(again);
  snprintf(command, sizeof command,
           "sed -E '/<style>/,/<.style>/{/^#show|<h1>|<!DOCTYPE/!d}; s/[0-9-]{10} [0-9:]{5} UTC/DATE/; "
           "s/; HDF5 .*(\\. The runs took)/; LIBRARIES\\1/' %s",
           path);
  FILE *f = popen(command, "r");
  for (size_t n; (n = fread(block, 1, sizeof block - 1, f)) > 0;) block[n] = 0, buffer_add(&out, "%s", block);
  ck_assert_int_eq(pclose(f), 0);
  return out.text;
}

/* Of few: its tables, headings and lists alone. */
static void add_file(struct buffer *b, const char *name, int few)
{
  char path[4096], *text;
  size_t length;
  struct error e = {0};
  snprintf(path, sizeof path, "%s/%s", folder, name);
  ck_assert_msg(!file_read(path, &text, &length, &e), "%s", e.text);
  buffer_add(b, "== %s\n", name);
  for (const char *at = text; *at;) {
    int long_ = (int)strcspn(at, "\n");
    if (!few || strchr("#-|<", *at)) buffer_add(b, "%.*s\n", long_, at);
    at += long_ + (at[long_] == '\n');
  }
  memory_free(text);
}

/* What a function prints on standard output. */
static void add_printed(struct buffer *b, const char *what, void (*print)(const struct ledger *),
                        const struct ledger *l)
{
  char path[64], *text;
  size_t length;
  struct error e = {0};
  snprintf(path, sizeof path, "%s/printed", folder);
  fflush(stdout);
  int kept = dup(STDOUT_FILENO);
  ck_assert_ptr_nonnull(freopen(path, "w", stdout));
  print(l);
  fflush(stdout);
  dup2(kept, STDOUT_FILENO);
  close(kept);
  ck_assert(!file_read(path, &text, &length, &e));
  buffer_add(b, "== %s\n", what);
  buffer_add(b, "%s", text);
  memory_free(text);
}

static void add_json(struct buffer *b, const struct ledger *l)
{
  json_t *all = ledger_json(l);
  buffer_add(b, "== json\n");
  for (size_t i = 0; i < json_array_size(all); i++) {
    json_t *one = json_array_get(all, i);
    const char *const often[] = {"sentence", "source", "regime", "made_by", "settings"};
    for (int k = 0; i && k < 5; k++) json_object_del(one, often[k]);
    json_t *arm;
    size_t a;
    json_array_foreach(json_object_get(one, "arms"), a, arm) if (i % 5) json_object_del(arm, "runs");
    char *text = json_dumps(one, JSON_COMPACT | JSON_REAL_PRECISION(9));
    buffer_add(b, "%s\n", text);
    free(text);
  }
  json_decref(all);
}

static void compare(const struct buffer *told, const char *name)
{
  char path[4096], *golden, *text = masked(told->text);
  size_t length;
  struct error e = {0};
  const char *from = getenv("top_srcdir"), *anew = getenv("MAXLOGIT_TEST_RENEW");
  snprintf(path, sizeof path, "%s/tests/golden/%s", from ? from : ".", name);
  if (anew && *anew) ck_assert(!file_write(path, text, strlen(text), &e));
  ck_assert_msg(!file_read(path, &golden, &length, &e), "%s", e.text);
  const char *differs = difference(golden, text, 1e-6), *begins = differs;
  while (begins && begins > text && begins[-1] != '\n') begins--;
  ck_assert_msg(!differs, "%s: %.*s, at %.60s", name, (int)strcspn(begins, "\n"), begins, differs);
  memory_free(golden);
  memory_free(text);
}

static void nothing_is_trained(void *context, const struct sweep *s, long point)
{
  (void)context;
  ck_assert_msg(point < 0 || s->points[point].was_done, "%s %s is trained", s->points[point].path,
                s->points[point].label);
}

/* A ledger of all rows, or of some, with some settings, its runs written, settled. */
static struct ledger settled(char *const *id, int ids, const char *const *assignment, int assignments,
                             int stages, int status)
{
  struct ledger l;
  struct error e = {0};
  ck_assert_int_eq(ledger_open(&l, rows, id, ids, &e), STATUS_OK);
  l.stages = stages, l.jobs = 1, l.assignment = assignment, l.assignments = assignments;
  l.look = nothing_is_trained;
  write_all(&l, stage_seeds[stages - 1]);
  ck_assert_msg(ledger_run(&l, &e) == status && !*e.text, "%s", e.text);
  return l;
}

/* As many entries as there are claims, so that they have an overview. */
static void tell_all(const struct ledger *l, const struct other_ledger *beside)
{
  struct ledger many = *l;
  struct error e = {0};
  int all = 0;
  while (claim_rows[all].claim) all++;
  many.entries = all > l->entries ? all : l->entries;
  many.entry = memory_new((size_t)many.entries, sizeof *many.entry);
  for (int i = 0; i < many.entries; i++) many.entry[i] = l->entry[i % l->entries];
  ck_assert_msg(!print_readmes(l, beside, folder, &e) && !access(folder, F_OK), "%s", e.text);
  ck_assert_msg(!print_readmes(&many, beside, folder, &e), "%s", e.text);
  ck_assert_msg(!print_readmes(l, beside, folder, &e), "%s", e.text); /* once each, in place of those */
  memory_free(many.entry);
}

/* Some claims, NULL-terminated. */
static int ids_of(const char *const *names, char *id[MADE])
{
  int n = 0;
  for (; names[n]; n++) id[n] = (char *)(uintptr_t)names[n];
  return n;
}

static struct ledger some(const char *const *names, const char *const *assignment, int assignments,
                          int stages, int status)
{
  char *id[MADE];
  int n = ids_of(names, id);
  return settled(id, n, assignment, assignments, stages, status);
}

static void change_after_the_fact(struct ledger *l)
{
  for (int i = 1; i < l->entries; i += 9) {
    struct former *f = &l->entry[i].former;
    *f = (struct former){.registered = "0123456789ab", .made_by = "maxlogit of old"};
    f->effect = (struct interval){i, 0.5 * i, i % 2 ? 0.25 * i : NAN, i};
    snprintf(f->verdict, sizeof f->verdict, "%s", verdict_name(i % 2 ? VERDICT_HOLDS : VERDICT_FEW_SEEDS));
  }
}

/* Every figure's numbers stand where it would be drawn. */
static const char script[] =
  "set print '-'\nprint '<svg>'\nprint out, term, groups, logarithmic, level, value_low, value_high, "
  "has_curves, metric\n"
  "print curve_label\ndo for [g=1:groups] { print kind[g], mean[g], mean_low[g], mean_high[g] }\nprint "
  "$values\n"
  "if (has_curves) { print curve_low, curve_high, last_step\nprint $curves }\nprint '</svg>'\n";

static void add_pages(struct buffer *b, const struct ledger *l, const struct other_ledger *beside)
{
  char path[64];
  struct error e = {0};
  const char *from = getenv("top_srcdir");
  if (!getenv("MAXLOGIT_PAGE")) {
    snprintf(path, sizeof path, "%s/page", from ? from : ".");
    ck_assert(!setenv("MAXLOGIT_PAGE", path, 1));
  }
  snprintf(path, sizeof path, "%s/claim.gp", folder);
  ck_assert(!file_write(path, script, strlen(script), &e));
  ck_assert_msg(!page_write(l, NULL, folder, folder, &e), "%s", e.text);
  add_file(b, "index.html", 0);
  ck_assert_msg(!page_write(l, beside, folder, folder, &e), "%s", e.text);
  add_file(b, "index.html", 1);
}

START_TEST(what_is_told)
{
  static const char *const late[] = {"more-holds-late",
                                     "more-border",
                                     "more-open",
                                     "less-ratio-partly",
                                     "same-border",
                                     "same-differs",
                                     "not-more-differs",
                                     "not-finite",
                                     "not-above-zero",
                                     "three-arms",
                                     "diverges",
                                     "fails",
                                     "idle",
                                     "times",
                                     "silent",
                                     "spikes",
                                     NULL};
  static const char *const elsewhere[] = {
    "more-holds",     "more-opposite", "less-ratio-holds", "same-below",  "same-zero",
    "not-less-holds", "level-ratio",   "identity",         "needs-scale", "beside",
    "diverges",       "tuned-stands",  "tuned-open",       NULL};
  static const char *const shown[] = {
    "more-holds", "same-border", "not-above-zero", "nothing-left", "identity", "needs-scale-alone",
    "withdrawn",  "three-arms",  "diverges",       "times",        "heads",    "two-metrics",
    "two-heads",  "share",       "level",          "level-ratio",  "beside",   "beside-again",
    "tuned-open", NULL};
  char where[64], *sound[MADE];
  struct buffer b = {0};
  struct other_ledger quickly, beside;
  struct error e = {0};
  int sounds = 0;
  snprintf(where, sizeof where, "sweep.dir=%s/runs", folder);
  const char *const here[] = {where}, *const wide[] = {where, "model.ffn_width=24"};
  for (int i = 0; i < MADE; i++)
    if (strcmp(claims[i].id, "fails") != 0) sound[sounds++] = (char *)(uintptr_t)claims[i].id;
  struct ledger full = some(late, here, 1, STAGES, STATUS_FAIL),
                quick = settled(sound, sounds, here, 1, 2, STATUS_OK);
  struct ledger other = some(elsewhere, wide, 2, 2, STATUS_OK),
                twice = some(elsewhere, here, 1, 2, STATUS_OK);
  add_printed(&b, "full", print_table, &full);
  add_printed(&b, "quick", print_table, &quick);
  add_printed(&b, "rates", tuned_rates_print, &quick);
  ck_assert_msg(!ledger_replicate(&twice, rows, "model.ffn_width=24", 1, &e), "%s", e.text);
  ck_assert_msg(!ledger_save(&quick, &e) && !other_ledger_open(&quickly, quick.folder, &e), "%s", e.text);
  change_after_the_fact(&quick);
  change_after_the_fact(&other);
  add_printed(&b, "replicated", print_table, &twice);
  add_json(&b, &twice);
  add_json(&b, &quick);
  ck_assert_msg(!ledger_save(&other, &e) && !other_ledger_open(&beside, other.folder, &e), "%s", e.text);
  tell_all(&quick, &beside);
  ck_assert_msg(!replication_print(&other, &quickly, folder, &e), "%s", e.text);
  add_file(&b, "README.md", 0);
  add_file(&b, "07-a-first-question/README.md", 0);
  add_file(&b, "12-another/README.md", 1);
  compare(&b, "ledger.txt");
  b.length = 0;
  if (!system("gnuplot --version >/dev/null 2>&1")) {
    struct ledger page = some(shown, here, 1, 2, STATUS_OK);
    add_pages(&b, &page, &beside);
    compare(&b, "ledger_page.txt");
    ledger_close(&page);
  }
  memory_free(b.text);
  other_ledger_close(&quickly);
  other_ledger_close(&beside);
  ledger_close(&full);
  ledger_close(&quick);
  ledger_close(&other);
  ledger_close(&twice);
}
END_TEST

static void begin(void)
{
  folder_make(folder);
  make_rows();
}

static void end(void) { folder_remove(folder); }

int main(void)
{
  Suite *s = suite_create("made");
  TCase *c = tcase_create("made");
  tcase_set_timeout(c, 240);
  tcase_add_checked_fixture(c, begin, end);
  tcase_add_test(c, what_is_told);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
