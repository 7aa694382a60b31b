/* check_config.c - the configuration: reading, messages, presets, axes, identity, writing */
#include <check.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/model.h"
#include "config/config.h"
#include "config/plugin.h"
#include "config/preset.h"
#include "training/data.h"
#include "training/optimizer.h"
#include "training/schedule.h"

static struct error e;

/* A configuration from a file's text and assignments, ended by NULL; finished. */
static struct config *configured(const char *text, const char *const *assignments)
{
  struct config *c = config_new();
  ck_assert_msg(config_read(c, text, "t.conf", &e) == STATUS_OK, "%s", e.text);
  for (; assignments && *assignments; assignments++)
    ck_assert_msg(config_assign(c, *assignments, &e) == STATUS_OK, "%s", e.text);
  ck_assert_msg(config_finish(c, &e) == STATUS_OK, "%s", e.text);
  return c;
}

#define WITH(...) ((const char *const[]){__VA_ARGS__, NULL})

struct search {
  const char *key;
  struct config_entry found;
  char value[256];
};

static int match(void *context, const struct config_entry *x)
{
  struct search *s = context;
  if (strcmp(x->key, s->key)) return 0;
  s->found = *x;
  snprintf(s->value, sizeof s->value, "%s", x->value);
  s->found.value = s->value;
  return 1;
}

static struct config_entry entry(const struct config *c, const char *key)
{
  static struct search s;
  s.key = key;
  ck_assert_msg(config_each(c, match, &s) == 1, "no key %s", key);
  return s.found;
}

#define ck_value(c, key, text) ck_assert_str_eq(entry(c, key).value, text)

/* --- defaults ------------------------------------------------------------------------------------------ */

START_TEST(defaults_stand)
{
  struct config *c = configured("", NULL);
  const struct train_options *train = config_section(c, "train");
  const struct model_options *model = config_section(c, "model");
  const struct top_options *top = config_section(c, "");
  ck_assert(train->steps > 0 && train->batch == 8 && train->grad_clip == 0 && !train->decay_gains);
  ck_assert(model->layers == 2 && model->width == 64 && model->heads == 4 && model->context == 64);
  ck_assert_ptr_nonnull(optimizer_find(top->optimizer));
  ck_assert_ptr_nonnull(data_source_find(top->data));
  ck_assert_ptr_nonnull(stabilizer_find(top->stabilizers));
  ck_assert_ptr_nonnull(schedule_find(train->schedule));
  ck_assert_ptr_nonnull(attention_find(model->attention));
  ck_assert_ptr_null(config_section(c, "no such section"));
  config_free(c);
}
END_TEST

static int is_untouched(void *context, const struct config_entry *x)
{
  (void)context;
  ck_assert_str_eq(x->origin, "default");
  ck_assert_msg(x->is_default, "%s", x->key);
  ck_assert_msg(*x->row->help && *x->row->unit, "%s", x->key);
  return 0;
}

START_TEST(every_key_has_its_default)
{
  struct config *c = configured("", NULL);
  ck_assert_int_eq(config_each(c, is_untouched, NULL), 0);
  config_free(c);
}
END_TEST

/* --- files ---------------------------------------------------------------------------------------------- */

START_TEST(files_are_read)
{
  struct config *c = configured("\xef\xbb\xbf# a comment\r\n"
                                "optimizer = adam   # another\r\n"
                                "muon.momentum = 0.9\n"
                                "\n"
                                "[train]\n"
                                "  lr=3e-4\n"
                                "  steps = 1e3\n"
                                "model.width = 128\n"
                                "\tdecay_gains = yes\n"
                                "[ data ] # a section\n"
                                "path = \"a, b\" \" #c\\n\\t\\\"\\\\\" # end\n"
                                "separator = it's x#y\n"
                                "[]\n"
                                "stabilizers = qk_norm + \\\n"
                                "   qk_clip\n"
                                "[device]\n"
                                "threads=3",
                                NULL);
  ck_value(c, "optimizer", "adam");
  ck_value(c, "muon.momentum", "0.9");
  ck_value(c, "train.lr", "0.0003");
  ck_value(c, "train.steps", "1000");
  ck_value(c, "model.width", "128");
  ck_value(c, "train.decay_gains", "1");
  ck_value(c, "data.path", "a, b #c\n\t\"\\");
  ck_value(c, "data.separator", "it's x#y");
  ck_value(c, "stabilizers", "qk_norm+qk_clip");
  ck_value(c, "device.threads", "3");
  ck_assert_str_eq(entry(c, "train.lr").origin, "t.conf:6");
  ck_assert_str_eq(entry(c, "stabilizers").origin, "t.conf:14");
  ck_assert_int_eq(((const struct train_options *)config_section(c, "train"))->decay_gains, 1);
  config_free(c);
}
END_TEST

START_TEST(long_lines_are_whole)
{
  struct buffer text = {0};
  buffer_add(&text, "data.path = ");
  for (int i = 0; i < 500; i++) buffer_add(&text, "%s/a/folder/of/some/length/%d", i ? "+" : "", i);
  struct config *c = configured(text.text, NULL);
  ck_assert_uint_eq(strlen(((const struct data_options *)config_section(c, "data"))->path), text.length - 12);
  config_free(c);
  memory_free(text.text);
}
END_TEST

START_TEST(messages_of_files)
{
  static const struct {
    const char *text, *message;
  } known[] = {
    {"train.lrr = 1", "t.conf:1: train.lrr: unknown key; did you mean 'train.lr'?"},
    {"[train]\nlrr = 1", "t.conf:2: train.lrr: unknown key; did you mean 'train.lr'?"},
    {"lr = 1", "t.conf:1: lr: unknown key; did you mean 'train.lr'?"},
    {"[model]\nlr = 1", "t.conf:2: model.lr: unknown key; did you mean 'train.lr'?"},
    {"xyzzy = 1", "t.conf:1: xyzzy: unknown key; all keys: maxlogit help config"},
    {"train.lr = \\\n 1e-3\nxyzzy = 1", "t.conf:3: xyzzy: unknown key; all keys: maxlogit help config"},
    {"[train]\noptimizer = adam", "t.conf:2: train.optimizer: unknown key; "
                                  "'optimizer' stands before the first [section]"},
    {"[trian]", "t.conf:1: unknown section [trian]; did you mean [train]?"},
    {"[xyzzy]", "t.conf:1: unknown section [xyzzy]"},
    {"[arm]", "t.conf:1: an arm has a name: [arm NAME]"},
    {"[train", "t.conf:1: a section is written [name]"},
    {"[train] lr = 1", "t.conf:1: a section is written [name]"},
    {"\n\ntrain.lr", "t.conf:3: neither 'key = value' nor [section]"},
    {"= 3", "t.conf:1: neither 'key = value' nor [section]"},
    {"train.lr = fast", "t.conf:1: train.lr: 'fast' is not a number (allowed: 0 to 1e+30)"},
    {"train.lr = nan", "t.conf:1: train.lr: 'nan' is not a number (allowed: 0 to 1e+30)"},
    {"train.lr =", "t.conf:1: train.lr: '' is not a number (allowed: 0 to 1e+30)"},
    {"model.heads = 0", "t.conf:1: model.heads: '0' is out of range (allowed: 1 to 4096)"},
    {"model.heads = 4.5", "t.conf:1: model.heads: '4.5' is not a whole number (allowed: 1 to 4096)"},
    {"qk_clip.scope = heads",
     "t.conf:1: qk_clip.scope: 'heads' is not one of head, layer; did you mean 'head'?"},
    {"train.decay_gains = maybe",
     "t.conf:1: train.decay_gains: 'maybe' is neither 1 nor 0 (yes, no, on, off, true and false will do)"},
    {"train.lr = 1\n[train]\nlr = 2", "t.conf:3: train.lr: given twice (first in line 1)"},
    {"train.lr = 1e-3,", "t.conf:1: train.lr: the list has an empty part"},
    {"train.lr = , 1e-3", "t.conf:1: train.lr: the list has an empty part"},
    {"train.lr = 1e-3, x", "t.conf:1: train.lr: 'x' is not a number (allowed: 0 to 1e+30)"},
    {"train.lr = 1:2:log",
     "t.conf:1: train.lr: '1:2:log' is not a range, FIRST:LAST:log:COUNT or FIRST:LAST:lin:COUNT "
     "(at least 2)"},
    {"train.lr = 1:2:lin:1",
     "t.conf:1: train.lr: '1:2:lin:1' is not a range, FIRST:LAST:log:COUNT or FIRST:LAST:lin:COUNT "
     "(at least 2)"},
    {"train.lr = 0:inf:lin:3",
     "t.conf:1: train.lr: '0:inf:lin:3' is not a range, FIRST:LAST:log:COUNT or FIRST:LAST:lin:COUNT "
     "(at least 2)"},
    {"train.lr = nan:1:lin:3",
     "t.conf:1: train.lr: 'nan:1:lin:3' is not a range, FIRST:LAST:log:COUNT or FIRST:LAST:lin:COUNT "
     "(at least 2)"},
    {"train.lr = 0:1:lin:3x",
     "t.conf:1: train.lr: '0:1:lin:3x' is not a range, FIRST:LAST:log:COUNT or FIRST:LAST:lin:COUNT "
     "(at least 2)"},
    {"train.seed = 3..1", "t.conf:1: train.seed: '3..1' is not a range, FIRST..LAST"},
    {"train.seed = 1..3x", "t.conf:1: train.seed: '1..3x' is not a range, FIRST..LAST"},
    {"train.seed = 0..100000", "t.conf:1: train.seed: more than 100000 values"},
    {"train.seed = -9223372036854775808..9223372036854775807",
     "t.conf:1: train.seed: more than 100000 values"},
    {"data = a.txt", "t.conf:1: data: 'a.txt' looks like a file: data.path=a.txt trains on its text"},
    {"train.lr = 0:1:log:3", "t.conf:1: train.lr: '0:1:log:3': a log range needs positive ends"},
    {"train.lr = 1:0:log:3", "t.conf:1: train.lr: '1:0:log:3': a log range needs positive ends"},
    {"train.lr = 0:1:lin:100001", "t.conf:1: train.lr: more than 100000 values"},
    {"train.lr = 0:1:lin:1000000", "t.conf:1: train.lr: more than 100000 values"},
    {"model.heads = 1:5000:lin:2", "t.conf:1: model.heads: '5000' is out of range (allowed: 1 to 4096)"},
    {"data.path = \"a", "t.conf:1: data.path: a quote is not closed"},
    {"data.path = \"a\\q\"",
     "t.conf:1: data.path: only \\\" \\\\ \\n \\t may stand in quotes after a backslash"},
    {"data.path = \"a\" b", "t.conf:1: data.path: after the closing quote stands 'b'"},
    {"data.path = a++b", "t.conf:1: data.path: 'a++b' has an empty part (a list is joined by +)"},
    {"data.path = a\x01", "t.conf:1: data.path: there is a control character (0x01) in the value"},
    {"stabilizers = qk_clip+qk_clip", "t.conf:1: stabilizers: 'qk_clip' stands there twice"},
    {"device = gpu",
     "t.conf:1: device: 'gpu' is not one of cpu, cuda, reference, isolated; did you mean 'cuda'?"},
    {"checkpoint.keep = 3x", "t.conf:1: checkpoint.keep: '3x' is neither a number (at least 1) nor all"},
    {"checkpoint.keep =", "t.conf:1: checkpoint.keep: '' is neither a number (at least 1) nor all"},
    {"sweep.dir = a, b",
     "t.conf:1: sweep.dir: one value, for the whole sweep, is wanted (a comma in a text: put it in "
     "quotes)"},
    {"[arm a]\n[train]\n[arm a]", "t.conf:3: there is this arm already: a"},
    {"[arm a b]", "t.conf:1: the name of an arm is of letters, digits, _ . - +, at most 40"},
    {"[arm 12345678901234567890123456789012345678901]",
     "t.conf:1: the name of an arm is of letters, digits, _ . - +, at most 40"},
    {"[arm a]\narm = b", "t.conf:2: arm: [arm NAME] sets it"},
    {"checkpoint.keep = 0", "t.conf:1: checkpoint.keep: '0' is neither a number (at least 1) nor all"},
    {"\x1b[31m = 1", "t.conf:1: ?[31m: unknown key; all keys: maxlogit help config"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct config *c = config_new();
    e = (struct error){0};
    ck_assert_int_eq(config_read(c, known[i].text, "t.conf", &e), STATUS_USAGE);
    ck_assert_int_eq(e.status, STATUS_USAGE);
    ck_assert_str_eq(e.text, known[i].message);
    ck_assert_msg(config_read(c, known[i].text, "t.conf", NULL) == STATUS_USAGE, "%s", known[i].text);
    config_free(c);
  }
}
END_TEST

/* Every plug-in by its name, and with a letter too many. */
START_TEST(messages_of_names)
{
  static const char *const keys[][2] = {
    {"optimizer", "optimizer"}, {"stabilizers", "stabilizer"},  {"data", "data"},
    {"preset", "preset"},       {"train.schedule", "schedule"}, {"model.attention", "attention"}};
  for (int i = 0; i < 6; i++) {
    const char *names[64];
    size_t count = plugin_names(keys[i][1], names, 64);
    for (size_t k = 0; k < count; k++) {
      struct config *c = config_new();
      char text[128], start[128], end[128];
      e = (struct error){0};
      ck_assert_int_eq(config_set(c, keys[i][0], names[k], "x", &e), STATUS_OK);
      snprintf(text, sizeof text, "%s = %sq", keys[i][0], names[k]);
      snprintf(start, sizeof start, "t.conf:1: %s: '%sq' is not one of %s", keys[i][0], names[k], names[0]);
      snprintf(end, sizeof end, "; did you mean '%s'?", names[k]);
      ck_assert_int_eq(config_read(c, text, "t.conf", &e), STATUS_USAGE);
      ck_assert_msg(!strncmp(e.text, start, strlen(start)), "%s", e.text);
      ck_assert_msg(strstr(e.text, end), "%s", e.text);
      config_free(c);
    }
  }
}
END_TEST

START_TEST(messages_of_the_command_line)
{
  static const struct {
    const char *text, *message;
  } known[] = {
    {"train.lr", "command line: 'train.lr' is not key=value"},
    {"=3", "command line: '=3' is not key=value"},
    {"", "command line: '' is not key=value"},
    {"train.lrr=3", "command line: train.lrr: unknown key; did you mean 'train.lr'?"},
    {"train.lr=-3", "command line: train.lr: '-3' is out of range (allowed: 0 to 1e+30)"},
    {"[train]=3", "command line: [train]: unknown key; all keys: maxlogit help config"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct config *c = config_new();
    e = (struct error){0};
    ck_assert_int_eq(config_assign(c, known[i].text, &e), STATUS_USAGE);
    ck_assert_str_eq(e.text, known[i].message);
    config_free(c);
  }
}
END_TEST

START_TEST(unreadable_files)
{
  char folder[] = "/tmp/check_config.XXXXXX", path[64];
  static const struct {
    const char *name, *text;
    size_t length;
    const char *message;
  } known[] = {
    {"none", NULL, 0, "cannot read none: No such file or directory"},
    {".", NULL, 0, "cannot read .: a folder; a file is wanted"},
    {"zero", "train.lr = 1\n\0", 14, "zero: not a configuration: there is a zero byte in it"},
    {"run.h5", "\x89HDF\r\n\x1a\n", 8,
     "run.h5: an HDF5 file, not a configuration; to continue a run: maxlogit resume run.h5"},
  };
  ck_assert_ptr_nonnull(mkdtemp(folder));
  ck_assert_int_eq(chdir(folder), 0);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct config *c = config_new();
    e = (struct error){0};
    if (known[i].text) file_write(known[i].name, known[i].text, known[i].length, &e);
    ck_assert_int_eq(e.status, STATUS_OK);
    ck_assert_int_eq(config_file(c, known[i].name, &e), STATUS_USAGE);
    ck_assert_str_eq(e.text, known[i].message);
    if (known[i].text) file_remove(known[i].name);
    config_free(c);
  }
  snprintf(path, sizeof path, "%s", folder);
  ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

/* --- who overrides whom --------------------------------------------------------------------------------- */

START_TEST(later_counts)
{
  struct config *c = configured("train.lr = 1e-3", WITH("train.lr=1e-2", "train.lr = 3e-2"));
  ck_value(c, "train.lr", "0.03");
  ck_assert_str_eq(entry(c, "train.lr").origin, "command line");
  ck_assert_int_eq(entry(c, "train.lr").is_default, 0);
  ck_assert_int_eq(config_set(c, "train.lr", "1e-2", "run file", &e), STATUS_OK);
  ck_assert_int_eq(config_finish(c, &e), STATUS_OK);
  ck_assert_int_eq(entry(c, "train.lr").is_default, 1); /* by its value, however it is written */
  ck_assert_int_eq(config_set(c, "train.lr", "0.5", "run file", &e), STATUS_OK);
  ck_assert_int_eq(config_finish(c, &e), STATUS_OK);
  ck_value(c, "train.lr", "0.5");
  ck_assert_str_eq(entry(c, "train.lr").origin, "run file");
  config_free(c);
}
END_TEST

START_TEST(presets_stand_where_they_are_written)
{
  struct config *c = configured("optimizer = adam", WITH("preset=muonclip"));
  ck_value(c, "optimizer", "muon");
  ck_value(c, "stabilizers", "qk_clip");
  ck_assert_str_eq(entry(c, "optimizer").origin, "preset muonclip");
  config_free(c);
  c = configured("preset = muonclip\noptimizer = adam", NULL);
  ck_value(c, "optimizer", "adam");
  ck_value(c, "stabilizers", "qk_clip");
  config_free(c);
  c = configured("preset = muonclip", WITH("preset=adam", "stabilizers=soft_cap"));
  ck_value(c, "optimizer", "adam");
  ck_value(c, "stabilizers", "soft_cap");
  config_free(c);
  c = configured("preset = muonclip", WITH("preset="));
  ck_value(c, "preset", "");
  ck_value(c, "optimizer", "muon");
  config_free(c);
}
END_TEST

START_TEST(every_preset_holds)
{
  for (const struct preset *p = presets; p->name; p++) {
    char assignment[64];
    snprintf(assignment, sizeof assignment, "preset=%s", p->name);
    struct config *c = configured("", WITH(assignment));
    ck_value(c, "preset", p->name);
    config_free(c);
  }
}
END_TEST

START_TEST(values_are_taken_literally_by_set)
{
  struct config *c = config_new();
  ck_assert_int_eq(config_set(c, "data.path", "\"a\", b # c", "test", &e), STATUS_OK);
  ck_assert_int_eq(config_finish(c, &e), STATUS_OK);
  ck_value(c, "data.path", "\"a\", b # c");
  ck_assert_int_eq(config_set(c, "train.lr", "1,2", "test", &e), STATUS_USAGE);
  ck_assert_str_eq(e.text, "test: train.lr: '1,2' is not a number (allowed: 0 to 1e+30)");
  config_free(c);
}
END_TEST

/* --- what a run uses ------------------------------------------------------------------------------------ */

/* A key of an earlier version: files of runs have it at the value that did nothing. */
START_TEST(removed_keys)
{
  e = (struct error){0};
  struct config *c = config_new();
  ck_assert(!config_set(c, "record.dense", "0", "run file", &e));
  ck_assert(!config_set(c, "record.dense_level", "7", "run file", &e));
  ck_assert(!config_read(c, "[record]\ndense = 0\ndense_around = 3\n", "x.conf", &e));
  ck_assert_msg(!config_finish(c, &e), "%s", e.text);
  ck_assert_int_eq(config_set(c, "record.dense", "0.8", "run file", &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, "run file: record.dense: removed; `maxlogit rerun RUN.h5 --from STEP"), "%s",
                e.text);
  e = (struct error){0};
  ck_assert_int_eq(config_read(c, "record.dense = 0.8\n", "x.conf", &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, "x.conf:1: record.dense: removed; `maxlogit rerun"), "%s", e.text);
  e = (struct error){0};
  ck_assert_int_eq(config_set(c, "record.denser", "0", "run file", &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, "removed") == NULL, "%s", e.text);
  config_free(c);
}
END_TEST

START_TEST(used_sections)
{
  static const struct {
    const char *assignment, *key;
    int used;
  } known[] = {
    {"optimizer=muon", "muon.momentum", 1},
    {"optimizer=adam", "muon.momentum", 0},
    {"optimizer=muon", "adam.beta1", 1},
    {"optimizer=sgd", "adam.beta1", 0},
    {"override.optimizer=*.w_q:adam", "adam.beta1", 1},
    {"override.optimizer=*.w_q:sgd", "sgd.momentum", 1},
    {"stabilizers=soft_cap + qk_clip", "qk_clip.tau", 1},
    {"stabilizers=soft_cap", "qk_clip.tau", 0},
    {"train.schedule=wsd", "wsd.decay", 1},
    {"train.schedule=cosine", "wsd.decay", 0},
    {"data=copy", "copy.symbols", 1},
    {"data=copy", "markov.symbols", 0},
    {"data=copy", "train.lr", 1},
    {"data=copy", "sweep.dir", 0},
    {"checkpoint.keep=1", "checkpoint.keep", 1},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct config *c = configured("", WITH(known[i].assignment));
    ck_assert_msg(entry(c, known[i].key).used == known[i].used, "%s %s", known[i].assignment, known[i].key);
    config_free(c);
  }
}
END_TEST

/* --- axes ----------------------------------------------------------------------------------------------- */

static struct config *read_axes(const char *text)
{
  struct config *c = config_new();
  ck_assert_msg(config_read(c, text, "t.conf", &e) == STATUS_OK, "%s", e.text);
  return c;
}

START_TEST(products)
{
  struct config *c = read_axes("preset = adam, muonclip\ntrain.seed = 1, 2,3\ntrain.lr = 0.5");
  static const char *const labels[] = {"preset=adam train.seed=1",     "preset=adam train.seed=2",
                                       "preset=adam train.seed=3",     "preset=muonclip train.seed=1",
                                       "preset=muonclip train.seed=2", "preset=muonclip train.seed=3"};
  ck_assert_int_eq(config_points(c), 6);
  for (int i = 0; i < 6; i++) {
    char label[128], seed[8];
    config_point_label(c, i, label, sizeof label);
    ck_assert_str_eq(label, labels[i]);
    struct config *point = config_point(c, i);
    ck_assert_int_eq(config_points(point), 1);
    ck_assert_int_eq(config_finish(point, &e), STATUS_OK);
    snprintf(seed, sizeof seed, "%d", i % 3 + 1);
    ck_value(point, "train.seed", seed);
    ck_value(point, "train.lr", "0.5");
    ck_value(point, "optimizer", i < 3 ? "adam" : "muon");
    ck_value(point, "stabilizers", i < 3 ? "none" : "qk_clip");
    ck_assert_str_eq(entry(point, "train.seed").origin, "t.conf:2");
    config_free(point);
  }
  e = (struct error){0};
  ck_assert_int_eq(config_finish(c, &e), STATUS_USAGE);
  ck_assert_str_eq(e.text, "t.conf:1: preset: 2 values where a run takes one (several: maxlogit sweep; "
                           "a comma in a text: put it in quotes)");
  config_free(c);
}
END_TEST

START_TEST(ranges)
{
  static const struct {
    const char *text, *key, *values;
  } known[] = {
    {"train.lr = 1e-3:1e-1:log:5", "train.lr", "0.001 0.00316228 0.01 0.0316228 0.1"},
    {"train.lr = 0:1:lin:4, 7", "train.lr", "0 0.333333 0.666667 1 7"},
    {"model.layers = 1:8:lin:8", "model.layers", "1 2 3 4 5 6 7 8"},
    {"model.layers = 1:8:log:4", "model.layers", "1 2 4 8"},
    {"model.layers = 1:3:lin:9", "model.layers", "1 2 3"},
    {"model.layers = 8:1:lin:2", "model.layers", "8 1"},
    {"data.path = a:b:lin:3, \"c,d\", e", "data.path", "a:b:lin:3 c,d e"},
    {"stabilizers = none, qk_norm+qk_clip", "stabilizers", "none qk_norm+qk_clip"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct config *c = read_axes(known[i].text);
    char values[256] = "";
    for (long p = 0; p < config_points(c); p++) {
      struct config *point = config_point(c, p);
      ck_assert_int_eq(config_finish(point, &e), STATUS_OK);
      size_t used = strlen(values);
      snprintf(values + used, sizeof values - used, "%s%s", p ? " " : "", entry(point, known[i].key).value);
      config_free(point);
    }
    ck_assert_str_eq(values, known[i].values);
    config_free(c);
  }
}
END_TEST

/* An arm may set anew what stands before, and what another arm sets; within one, or before, a key stands once. */
START_TEST(keys_of_arms)
{
  struct config *c =
    read_axes("train.lr = 1\n[arm a]\ntrain.lr = 2\n[arm b]\ntrain.lr = 3\ntrain.seed = 5\n");
  static const char *const rates[] = {"2", "3"};
  ck_assert_int_eq(config_points(c), 2);
  for (int i = 0; i < 2; i++) {
    struct config *point = config_point(c, i);
    ck_assert(!config_finish(point, &e));
    ck_value(point, "train.lr", rates[i]);
    config_free(point);
  }
  config_free(c);
  /* lists within an arm are its own; before the first they are of all. An arm ends a [section], and that an arm. */
  c = read_axes("[train]\nseed = 1,2\n[arm a]\ntrain.lr = 3,4\ndata = copy\n"
                "[arm 1234567890123456789012345678901234567890]\ntrain.warmup = 5\n[train]\nbatch = 16\n");
  static const struct {
    const char *label, *rate, *warmup;
  } points[] = {
    {"arm=a train.seed=1 train.lr=3", "3", "50"},
    {"arm=a train.seed=1 train.lr=4", "4", "50"},
    {"arm=a train.seed=2 train.lr=3", "3", "50"},
    {"arm=a train.seed=2 train.lr=4", "4", "50"},
    {"arm=1234567890123456789012345678901234567890 train.seed=1", NULL, "5"},
    {"arm=1234567890123456789012345678901234567890 train.seed=2", NULL, "5"},
  };
  ck_assert_int_eq(config_points(c), 6);
  for (int i = 0; i < 6; i++) {
    char label[128];
    config_point_label(c, i, label, sizeof label);
    ck_assert_str_eq(label, points[i].label);
    struct config *point = config_point(c, i);
    ck_assert(!config_finish(point, &e));
    if (points[i].rate) ck_value(point, "train.lr", points[i].rate);
    ck_value(point, "train.warmup", points[i].warmup);
    ck_value(point, "data", points[i].rate ? "copy" : "markov");
    ck_value(point, "train.batch", "16");
    ck_assert(!strncmp(points[i].label + 4, entry(point, "arm").value, strlen(entry(point, "arm").value)));
    config_free(point);
  }
  config_free(c);
  static const char *const twice[] = {"train.lr = 1\n[arm a]\ntrain.lr = 2\ntrain.seed = 1\ntrain.lr = 3\n",
                                      "train.lr = 1\ntrain.lr = 2\n[arm a]\n"};
  for (int i = 0; i < 2; i++) {
    e = (struct error){0};
    c = config_new();
    ck_assert_int_eq(config_read(c, twice[i], "t.conf", &e), STATUS_USAGE);
    ck_assert_msg(strstr(e.text, i ? "t.conf:2: train.lr: given twice (first in line 1)"
                                   : "t.conf:5: train.lr: given twice (first in line 3)"),
                  "%s", e.text);
    config_free(c);
  }
  e = (struct error){0};
}
END_TEST

/* Every choice of a value of each line is a point, or the same configuration as one; and no point is anything else. */
START_TEST(points_are_all_choices)
{
  static const struct {
    const char *key, *values; /* by blanks */
  } lines[][3] = {
    {{"train.weight_decay", "0 0.3"}, {"preset", "adam kimi_k2"}, {"train.seed", "1 2"}},
    {{"stabilizers", "none qk_norm"}, {"preset", "muonclip adamclip"}, {"qk_clip.tau", "5 7"}},
    {{"optimizer", "sgd none"}, {"preset", "adam muon"}, {"optimizer", "adam sgd"}},
    {{"preset", "adam muonclip"}, {"stabilizers", "none soft_cap"}, {"preset", "muon kimi_k2"}},
  };
  for (size_t n = 0; n < sizeof lines / sizeof *lines; n++) {
    char text[512] = "", *chosen[8], *point[8], value[2][32];
    for (int i = 0; i < 3; i++) {
      ck_assert_int_eq(sscanf(lines[n][i].values, "%31s %31s", value[0], value[1]), 2);
      size_t used = strlen(text);
      snprintf(text + used, sizeof text - used, "%s=%s,%s\n", lines[n][i].key, value[0], value[1]);
    }
    struct config *all = config_new();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
      ck_assert_msg(!config_assign(all, line, &e), "%s", e.text);
    long points = config_points(all);
    ck_assert_int_le(points, 8);
    for (int p = 0; p < 8; p++) {
      struct config *c = config_new();
      for (int i = 0; i < 3; i++) {
        sscanf(lines[n][i].values, "%31s %31s", value[0], value[1]);
        ck_assert(!config_set(c, lines[n][i].key, value[p >> i & 1], "test", &e));
      }
      ck_assert(!config_finish(c, &e));
      chosen[p] = config_text(c);
      config_free(c);
      if (p >= points) continue;
      c = config_point(all, p);
      ck_assert(!config_finish(c, &e));
      point[p] = config_text(c);
      config_free(c);
    }
    for (int p = 0; p < 8; p++) {
      int met = 0, is_choice = 0;
      for (int k = 0; k < points; k++) met |= !strcmp(point[k], chosen[p]);
      for (int k = 0; k < 8; k++) is_choice |= p >= points || !strcmp(point[p], chosen[k]);
      ck_assert_msg(met, "no point of case %zu is\n%s", n, chosen[p]);
      ck_assert_msg(is_choice, "point %d of case %zu is not a choice", p, n);
    }
    for (int p = 0; p < 8; p++) memory_free(chosen[p]);
    for (int p = 0; p < points; p++) memory_free(point[p]);
    config_free(all);
  }
}
END_TEST

START_TEST(overridden_axes_are_none)
{
  static const struct {
    const char *text;
    long points;
  } known[] = {
    {"train.lr = 1,2\ntrain.seed = 1,2", 4},
    {"train.seed = 3..5, 9", 4},
    {"train.seed = 7..7", 1},
    {"optimizer = adam, muon\npreset = muonclip", 1},
    {"optimizer = adam, muon\npreset = muonclip, adamclip", 2},
    {"preset = muonclip, adamclip\noptimizer = adam, muon", 4},
    {"", 1},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct config *c = read_axes(known[i].text);
    ck_assert_int_eq(config_points(c), known[i].points);
    ck_assert_int_eq(config_assign(c, "train.lr=0.1", &e), STATUS_OK);
    ck_assert_int_eq(config_points(c), i == 0 ? 2 : known[i].points);
    config_free(c);
  }
  struct config *c = read_axes("train.lr = 0:1:lin:100000\ntrain.seed = 0:99999:lin:100000\n"
                               "train.warmup = 0:99999:lin:100000\ntrain.steps = 1:100000:lin:100000");
  ck_assert_int_eq(config_points(c), LONG_MAX);
  config_free(c);
}
END_TEST

/* --- identity ------------------------------------------------------------------------------------------- */

static void id_of(const char *text, const char *const *assignments, uint64_t data, char out[16])
{
  struct config *c = configured(text, assignments);
  config_id(c, data, 0, out);
  config_free(c);
}

START_TEST(same_run_same_id)
{
  char id[16], other[16];
  id_of("train.lr = 0.02\noptimizer = muon\nstabilizers = qk_clip", NULL, 7, id);
  ck_assert_uint_eq(strlen(id), 12);
  ck_assert_uint_eq(strspn(id, "0123456789abcdef"), 12);
  static const char *const same[] = {
    "stabilizers = qk_clip\n[train]\nlr = 2e-2\n[]\noptimizer = muon",
    "preset = muonclip\ntrain.lr = 0.02",
    "preset = muonclip\ntrain.lr = 0.020\ntrain.batch = 8",
    "preset = muonclip\ntrain.lr = 0.02\nrecord.path = x.h5",
    "preset = muonclip\ntrain.lr = 0.02\ndevice.threads = 5\ncheckpoint.every = 3\nrecord.every = 10",
    "preset = muonclip\ntrain.lr = 0.02\nsoft_cap.cap = 9\ndata = markov\ndata.path = somewhere",
    "preset = muonclip\ntrain.lr = 0.02\nsweep.dir = there\ntrain.max_time = 5"};
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    id_of(same[i], NULL, 7, other);
    ck_assert_msg(!strcmp(id, other), "%s", same[i]);
  }
  id_of("data = bytes\ndata.path = a.txt", NULL, 7, id); /* a text that is named is read */
  id_of("data.path = a.txt", NULL, 7, other);
  ck_assert_str_eq(id, other);
  id_of("train.lr = 0.02\noptimizer = muon\nstabilizers = qk_clip", NULL, 7, id);
  static const char *const differ[] = {"preset = muonclip",
                                       "preset = muon\ntrain.lr = 0.02",
                                       "preset = muonclip\ntrain.lr = 0.02\nqk_clip.tau = 99",
                                       "preset = muonclip\ntrain.lr = 0.02\ntrain.seed = 2",
                                       "preset = muonclip\ntrain.lr = 0.02\nadam.beta1 = 0.8",
                                       "preset = muonclip\ntrain.lr = 0.02\ntrain.steps = 601"};
  for (size_t i = 0; i < sizeof differ / sizeof *differ; i++) {
    id_of(differ[i], NULL, 7, other);
    ck_assert_msg(strcmp(id, other), "%s", differ[i]);
  }
  id_of("train.lr = 0.02\noptimizer = muon\nstabilizers = qk_clip", NULL, 8, other);
  ck_assert_str_ne(id, other);
}
END_TEST

/* Every key that cannot change a run's numbers; whatever is not here is in the id. */
static const char *const free_keys[] = {
  "data.path",          "train.max_time",       "record.path",        "record.overwrite",
  "record.every",       "record.spectra_every", "record.probe_every", "record.level",
  "record.pairs",       "record.bound",         "record.batches",     "checkpoint.every",
  "checkpoint.seconds", "checkpoint.keep",      "device.threads",     "arm",
  "record.observe",     "comm.ranks",           "comm.timeout",       "comm.shard",
};

static int is_free(const char *key)
{
  for (size_t i = 0; i < sizeof free_keys / sizeof *free_keys; i++)
    if (!strcmp(free_keys[i], key)) return 1;
  return 0;
}

/* Another value of the same key. */
static void other_value(const struct config_entry *x, char out[64])
{
  static const char *const texts[][3] = {
    {"optimizer", "sgd", "adam"},         {"stabilizers", "qk_norm", "none"},
    {"data", "copy", "markov"},           {"device", "reference", "cpu"},
    {"checkpoint.keep", "3", "4"},        {"model.attention", "gqa", "mha"},
    {"model.ffn", "moe", "swiglu"},       {"train.schedule", "cosine", "linear"},
    {"record.observe", "loss", "default"}};
  const struct option_row *row = x->row;
  double value = strtod(x->value, NULL), up = row->type == OPTION_REAL ? 0.125 : 1;
  long choice = 0;
  strcpy(out, "other");
  switch (row->type) {
  case OPTION_BOOL: strcpy(out, value == 0 ? "1" : "0"); break;
  case OPTION_CHOICE:
    while (!strcmp(row->choices[choice], x->value)) choice++;
    strcpy(out, row->choices[choice]);
    break;
  case OPTION_TEXT:
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
      if (!strcmp(texts[i][0], x->key)) strcpy(out, texts[i][1 + !strcmp(texts[i][1], x->value)]);
    break;
  default: text_number(value + up <= row->max ? value + up : value - up, out);
  }
}

struct rows_walk {
  struct config *config;
  char id[16];
  int walked;
};

static int changes_the_id(void *context, const struct config_entry *x)
{
  struct rows_walk *w = context;
  char *text = config_text(w->config), other[64], id[16];
  if (x->used && strcmp(x->key, "preset") && !(x->row->flags & OPTION_CONTENT)) {
    struct config *c = configured(text, NULL);
    other_value(x, other);
    ck_assert_msg(!config_set(c, x->key, other, "test", &e) && !config_finish(c, &e), "%s", e.text);
    config_id(c, 7, 0, id);
    int same = strcmp(id, w->id) == 0;
    ck_assert_msg(same == is_free(x->key), "%s = %s: the id is %s", x->key, other, same ? "the same" : "new");
    config_free(c);
    w->walked++;
  }
  memory_free(text);
  return 0;
}

/* Every row of every section, plug-ins among them: a key that can change the numbers changes the id. */
START_TEST(every_key_counts)
{
  struct rows_walk w = {0};
  int sections = 0;
  for (const struct plugin *p = plugin_table(); p->kind; p++) {
    char chosen[128];
    if (!p->options) continue;
    const char *key = !strcmp(p->kind, "optimizer")    ? "optimizer"
                      : !strcmp(p->kind, "stabilizer") ? "stabilizers"
                      : !strcmp(p->kind, "data")       ? "data"
                      : !strcmp(p->kind, "schedule")   ? "train.schedule"
                      : !strcmp(p->kind, "ffn")        ? "model.ffn"
                                                       : NULL;
    if (!key) continue;
    snprintf(chosen, sizeof chosen, "%s=%s", key, p->name);
    w.config = configured("", WITH(chosen));
    config_id(w.config, 7, 0, w.id);
    config_each(w.config, changes_the_id, &w);
    config_free(w.config);
    sections++;
  }
  ck_assert_int_gt(sections, 10);
  ck_assert_int_gt(w.walked, 50 * sections);
  struct config *c = configured("", NULL), *from = configured("", WITH("train.init_from=x"));
  char drawn[16], one[16], two[16], elsewhere[16];
  config_id(c, 7, 0, drawn);
  config_id(from, 7, 1, one);
  config_id(from, 7, 2, two);
  config_set(from, "train.init_from", "y", "test", NULL);
  config_finish(from, &e);
  config_id(from, 7, 2, elsewhere);
  ck_assert_str_ne(drawn, one);
  ck_assert_str_ne(one, two);
  ck_assert_str_eq(two, elsewhere);
  config_free(c);
  config_free(from);
}
END_TEST

/* --- writing -------------------------------------------------------------------------------------------- */

static int same_entry(void *context, const struct config_entry *x)
{
  if (x->used) ck_value(context, x->key, x->value);
  return 0;
}

START_TEST(written_text_reads_back)
{
  static const char *const known[] = {"",
                                      "preset = adamclip\ntrain.lr = 1e-8\nqk_clip.tau = 30",
                                      "preset=muon\noptimizer=sgd\ntrain.schedule=wsd",
                                      "data = bytes\ndata.path = \"a,b # c\\n\\t\\\\ \\\"q\\\"\"",
                                      "data.path = \" x \"",
                                      "data.path = \"x # y\"",
                                      "data.path = \"x\\\\\"",
                                      "data.separator = \\n\\n",
                                      "stabilizers = qk_norm+soft_cap",
                                      "data = recall\nmodel.attention = gqa\nmodel.kv_heads=2"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct config *c = configured(known[i], NULL);
    char *text = config_text(c), id[16], other[16];
    struct config *again = configured(text, NULL);
    config_each(c, same_entry, again);
    config_id(c, 3, 0, id);
    config_id(again, 3, 0, other);
    ck_assert_str_eq(id, other);
    char *twice = config_text(again);
    ck_assert_str_eq(text, twice);
    memory_free(text);
    memory_free(twice);
    config_free(c);
    config_free(again);
  }
}
END_TEST

/* A text of every sort of character survives writing and reading. */
START_TEST(any_text_reads_back)
{
  char all[256], *c = all;
  for (int i = 1; i < 256; i++)
    if ((i >= 0x20 || i == '\n' || i == '\t')) *c++ = (char)i;
  *c = 0;
  struct config *first = config_new();
  ck_assert_msg(config_set(first, "record.path", all, "test", &e) == STATUS_OK, "%s", e.text);
  ck_assert_int_eq(config_finish(first, &e), STATUS_OK);
  char *text = config_text(first);
  struct config *again = configured(text, NULL);
  ck_assert_str_eq(((const struct record_options *)config_section(again, "record"))->path, all);
  memory_free(text);
  config_free(first);
  config_free(again);
}
END_TEST

START_TEST(resolved_values_are_written)
{
  struct config *c = configured("model.width = 96\nmodel.heads = 6", NULL);
  ck_assert_int_eq(model_resolve(config_section(c, "model"), 65, &e), STATUS_OK);
  ck_value(c, "model.head_dim", "16");
  ck_value(c, "model.kv_heads", "6");
  ck_value(c, "model.ffn_width", "256");
  ck_value(c, "model.vocab", "65");
  char *text = config_text(c);
  ck_assert_ptr_nonnull(strstr(text, "head_dim = 16\n"));
  memory_free(text);
  config_free(c);
  /* experts share model.ffn_width, shared ones too: 256 / 5 to a multiple of 8, of which there is one at least */
  static const char *const experts[][2] = {{"moe.active=3\nmoe.shared=2", "48"},
                                           {"moe.active=8\nmodel.ffn_width=16", "8"},
                                           {"moe.active=3\nmoe.shared=2\nmoe.hidden=5", "5"}};
  for (int i = 0; i < 3; i++) {
    char settings[128];
    snprintf(settings, sizeof settings, "model.width=96\nmodel.heads=6\nmodel.ffn=moe\n%s", experts[i][0]);
    c = configured(settings, NULL);
    ck_assert_int_eq(model_resolve(config_section(c, "model"), 65, &e), STATUS_OK);
    ck_value(c, "moe.hidden", experts[i][1]);
    config_free(c);
  }
  /* of the narrowest stacks, too, nothing that follows has no size */
  for (int i = 0; i < 12; i++) {
    static const char *const kinds[] = {"mha", "gqa\nmodel.kv_heads=1", "mla"};
    char settings[128];
    long width = 2 + i / 3 * 2;
    snprintf(settings, sizeof settings, "model.width=%ld\nmodel.heads=1\nmodel.attention=%s", width,
             kinds[i % 3]);
    c = configured(settings, NULL);
    ck_assert_int_eq(model_resolve(config_section(c, "model"), 65, &e), STATUS_OK);
    const struct model_options *m = config_section(c, "model");
    ck_assert(m->head_dim == width && m->kv_heads == 1 && m->ffn_width >= 16 && m->ffn_width % 16 == 0);
    if (i % 3 == 2)
      ck_assert(m->kv_rank == 4 * width && m->value_dim == width && m->rope_dim >= 2 && m->rope_dim % 2 == 0);
    config_free(c);
  }
}
END_TEST

/* --- the table of plug-ins ------------------------------------------------------------------------------ */

START_TEST(plugins_are_documented)
{
  int none = 0;
  for (const struct plugin *p = plugin_table(); p->kind; p++) {
    ck_assert_msg(p->name && p->help && strlen(p->help) > 5, "%s %s", p->kind, p->name);
    none += !strcmp(p->name, "none");
    const char *names[64];
    ck_assert_uint_gt(plugin_names(p->kind, names, 64), 0);
  }
  ck_assert_int_ge(none, 2);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("config");
  TCase *tests = tcase_create("config");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, defaults_stand);
  tcase_add_test(tests, every_key_has_its_default);
  tcase_add_test(tests, files_are_read);
  tcase_add_test(tests, long_lines_are_whole);
  tcase_add_test(tests, messages_of_files);
  tcase_add_test(tests, messages_of_names);
  tcase_add_test(tests, messages_of_the_command_line);
  tcase_add_test(tests, unreadable_files);
  tcase_add_test(tests, later_counts);
  tcase_add_test(tests, presets_stand_where_they_are_written);
  tcase_add_test(tests, every_preset_holds);
  tcase_add_test(tests, values_are_taken_literally_by_set);
  tcase_add_test(tests, removed_keys);
  tcase_add_test(tests, used_sections);
  tcase_add_test(tests, products);
  tcase_add_test(tests, ranges);
  tcase_add_test(tests, overridden_axes_are_none);
  tcase_add_test(tests, points_are_all_choices);
  tcase_add_test(tests, keys_of_arms);
  tcase_add_test(tests, same_run_same_id);
  tcase_add_test(tests, every_key_counts);
  tcase_add_test(tests, written_text_reads_back);
  tcase_add_test(tests, any_text_reads_back);
  tcase_add_test(tests, resolved_values_are_written);
  tcase_add_test(tests, plugins_are_documented);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
