/* import.c - logs of other programs as a run file */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "app/command.h"
#include "base/markup.h"
#include "base/memory.h"
#include "base/names.h"
#include "base/number.h"
#include "base/text.h"
#include "maxlogit/record.h"
#include "storage/layout.h"
#include "zoo/log.h"

struct options {
  struct request request;
  const char *output, *step, *data;
  struct words map, set, config, unit;
  long form, dry_run, overwrite;
};

static const struct command_option options[] = {
  TEXT(output, 'o', "RUN.h5", NULL, "The run file (default: the first FILE's name with .h5, in this folder)"),
  FLAG(dry_run, 'n',
       "Write nothing: show the steps, the series that would be made of which columns, and the map that says "
       "so"),
  MANY(map, "RULES",
       "'SERIES=NAME,SERIES[l,h]=PATTERN': which columns a series is made of; in a pattern {l}, {h}, {e} are "
       "the numbers "
       "of layer, head and expert; SERIES -: left out. Columns that no rule names are told by their names"),
  TEXT(step, 0, "NAME", NULL, "The column of the steps (default: step, iteration, global_step and the like)"),
  MANY(set, "KEY=VALUE", "A value of the configuration, as optimizer=muon, train.lr=0.01, train.seed=3"),
  MANY(config, "FILE",
       "The configuration: a YAML or JSON file; keys inside of others become a.b. --set overrides"),
  MANY(unit, "SERIES=UNIT", "A unit; losses, logits and attention entropies have nat"),
  CHOICE(form, 0, log_forms, "guess", "What the files are"),
  TEXT(data, 0, "TEXT", NULL, "What it was trained on, for people (default: the files' names)"),
  FLAG(overwrite, 0, "Replace a run file that is there"),
  NO_OPTION,
};

/* --- series ------------------------------------------------------------------------------------------ */

enum { AXES = MAXLOGIT_AXES, MOST_PLACES = 65536, MOST_SERIES = 4096 };
struct source { /* a column, and its place in its series */
  const struct log_column *column;
  long at[AXES], next;
};
struct target {
  char name[96], pattern[256], unit[32];
  const char *axis[AXES];
  int axes;
  struct source *source;
  int sources, room;
  long size[AXES];
  double *steps; /* [count], those at which a source has a value */
  long count;
  int sparse;
  enum maxlogit_rows rows;
  int number;
};
struct import {
  struct log log;
  struct log_map map;
  struct target *target;
  int targets, left_out;
  struct maxlogit_setting *setting;
  long settings, room;
  struct name_table keys; /* of the settings */
  struct arena *texts;
};

static struct target *target_of(struct import *m, const struct log_place *p)
{
  char other[96];
  const char *name = p->series;
  for (int again = 0; again < 2; again++) {
    struct target *t = NULL;
    for (int i = 0; i < m->targets && !t; i++)
      if (!strcmp(m->target[i].name, name)) t = &m->target[i];
    if (!t) break;
    if (!strcmp(t->pattern, p->pattern) && t->axis[0] == p->axis[0] && t->axis[1] == p->axis[1]) return t;
    if (again) return NULL;
    snprintf(other, sizeof other, "%.90s_2", name); /* two columns that are both called so */
    name = other;
  }
  m->target = memory_grow(m->target, (size_t)m->targets, (size_t)m->targets + 1, sizeof *m->target);
  struct target *t = &m->target[m->targets++];
  *t = (struct target){.axes = !!p->axis[0] + !!p->axis[1], .axis = {p->axis[0], p->axis[1]}};
  text_fill(t->name, sizeof t->name, name);
  text_fill(t->pattern, sizeof t->pattern, p->pattern);
  return t;
}

static int compare_steps(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Rows up to the last number: where fewer than half of them have one the others are rows of other series. */
static int is_sparse(const struct target *t, double *last)
{
  long numbers = 0, all = 0;
  *last = -1;
  for (int i = 0; i < t->sources; i++)
    for (long k = 0; k < t->source[i].column->count; k++)
      if (!isnan(t->source[i].column->value[k])) *last = fmax(*last, t->source[i].column->step[k]);
  for (int i = 0; i < t->sources; i++)
    for (long k = 0; k < t->source[i].column->count; k++) {
      all += t->source[i].column->step[k] <= *last;
      numbers += !isnan(t->source[i].column->value[k]);
    }
  return 2 * numbers < all;
}

static void find_steps(struct target *t)
{
  double last;
  long room = 0, kept = 0;
  t->sparse = is_sparse(t, &last);
  for (int i = 0; i < t->sources; i++) room += t->source[i].column->count;
  t->steps = memory_new((size_t)room + 1, sizeof *t->steps);
  for (int i = 0; i < t->sources; i++)
    for (long k = 0; k < t->source[i].column->count; k++)
      if (!t->sparse || !isnan(t->source[i].column->value[k]))
        t->steps[t->count++] = t->source[i].column->step[k];
  qsort(t->steps, (size_t)t->count, sizeof *t->steps, compare_steps);
  for (long k = 0; k < t->count; k++)
    if (!kept || t->steps[k] != t->steps[kept - 1]) t->steps[kept++] = t->steps[k];
  t->count = kept;
}

static int has_step(const struct target *t, double step)
{
  return bsearch(&step, t->steps, (size_t)t->count, sizeof step, compare_steps) != NULL;
}

static int has_number(const struct target *t, double step)
{
  for (int i = 0; i < t->sources; i++) {
    const struct log_column *c = t->source[i].column;
    const double *at = bsearch(&step, c->step, (size_t)c->count, sizeof step, compare_steps);
    if (at && !isnan(c->value[at - c->step])) return 1;
  }
  return 0;
}

/* The last row of a table of several series may be there for a sparse one alone: then it is none of the others. */
static void drop_last(struct import *m)
{
  double last = -1;
  int sparse = 0, others = 0;
  for (int i = 0; i < m->targets; i++)
    if (m->target[i].count) last = fmax(last, m->target[i].steps[m->target[i].count - 1]);
  for (int i = 0; i < m->targets; i++) {
    const struct target *t = &m->target[i];
    sparse |= t->sparse && has_step(t, last);
    others |= !t->sparse && has_number(t, last);
  }
  for (int i = 0; i < m->targets && sparse && !others; i++) {
    struct target *t = &m->target[i];
    if (!t->sparse && has_step(t, last)) t->count--;
  }
}

/* A name below that of another series is none: loss and loss/aux become loss and loss_aux. */
static void part_names(struct import *m)
{
  for (int i = 0; i < m->targets; i++)
    for (int k = 0; k < m->targets; k++) {
      size_t length = strlen(m->target[i].name);
      if (!strncmp(m->target[k].name, m->target[i].name, length) && m->target[k].name[length] == '/')
        m->target[k].name[length] = '_';
    }
  static const char *const axes[] = {"step", "layer", "head", "expert"};
  for (int i = 0; i < m->targets; i++)
    for (int a = 0; a < 4; a++) {
      char *name = m->target[i].name;
      size_t length = strlen(axes[a]);
      if (!strncmp(name, axes[a], length) && name[length] == '/') name[length] = '_';
      if (!strcmp(name, axes[a])) snprintf(name, sizeof m->target[i].name, "%s_", axes[a]);
    }
}

static int same_steps(const struct target *a, const struct target *b)
{
  return a->count == b->count && !memcmp(a->steps, b->steps, (size_t)a->count * sizeof *a->steps);
}

/* Series that have their steps in common have rows in common; there are four kinds of rows, one of which is for those
   of most steps, and for what finds none. */
static void choose_rows(struct import *m)
{
  const struct target *of[4] = {&m->target[0]};
  for (int i = 1; i < m->targets; i++) { /* a validation's only where there is nothing else */
    const struct target *t = &m->target[i];
    int validation = strstr(t->name, "val") != NULL, first = strstr(of[0]->name, "val") != NULL;
    if (validation < first || (validation == first && t->count > of[0]->count)) of[0] = t;
  }
  for (int i = 0; i < m->targets; i++) {
    struct target *t = &m->target[i];
    static const enum maxlogit_rows order[2][3] = {{MAXLOGIT_SPECTRA, MAXLOGIT_PROBE, MAXLOGIT_VALIDATION},
                                                   {MAXLOGIT_VALIDATION, MAXLOGIT_PROBE, MAXLOGIT_SPECTRA}};
    if (same_steps(t, of[0])) continue;
    for (int k = 0; k < 3 && !t->rows; k++) {
      enum maxlogit_rows rows = order[strstr(t->name, "val") != NULL][k];
      if (!of[rows]) of[rows] = t;
      if (same_steps(t, of[rows])) t->rows = rows;
    }
  }
}

static int has_unit(const char *word, const struct target *t)
{
  size_t length = strlen(t->name);
  return !strncmp(word, t->name, length) && word[length] == '=';
}

static int check_units(const struct options *r, const struct import *m, struct error *e)
{
  for (int i = 0; i < r->unit.count; i++) {
    int found = 0;
    for (int k = 0; k < m->targets && !found; k++) found = has_unit(r->unit.word[i], &m->target[k]);
    if (!found)
      return error_set(e, STATUS_USAGE, "--unit '%.100s': no series is called so; --dry-run shows them",
                       r->unit.word[i]);
  }
  return STATUS_OK;
}

static void find_unit(const struct options *r, struct target *t)
{
  static const char *const in_nats[] = {"loss", "logit", "attn/entropy"};
  const char *unit = *t->unit ? NULL : "1";
  for (size_t i = 0; unit && i < sizeof in_nats / sizeof *in_nats; i++)
    if (strstr(t->name, in_nats[i])) unit = "nat";
  for (int i = 0; i < r->unit.count; i++)
    if (has_unit(r->unit.word[i], t)) unit = strchr(r->unit.word[i], '=') + 1;
  if (unit) text_fill(t->unit, sizeof t->unit, unit);
}

static int make_targets(struct import *m, const struct options *r, struct error *e)
{
  for (int i = 0; i < m->log.columns; i++) {
    struct log_place p;
    if (!log_place(&m->map, m->log.column[i].name, &p)) {
      m->left_out++;
      continue;
    }
    struct target *t = target_of(m, &p);
    if (m->targets > MOST_SERIES)
      return error_set(e, STATUS_USAGE, "more than %d series; --map joins columns or leaves them out",
                       MOST_SERIES);
    if (!t)
      return error_set(e, STATUS_USAGE, "%s: more than two columns are %s; --map tells them apart",
                       m->log.column[i].name, p.series);
    if (t->sources == t->room) {
      t->source = memory_grow(t->source, (size_t)t->room, 2 * (size_t)t->room + 4, sizeof *t->source);
      t->room = 2 * t->room + 4;
    }
    t->source[t->sources++] = (struct source){&m->log.column[i], {p.at[0], p.at[1]}, 0};
    if (!*t->unit) text_fill(t->unit, sizeof t->unit, m->log.column[i].unit);
  }
  for (int i = 0; i < m->map.rules; i++)
    if (!m->map.rule[i].used) {
      for (int k = 0; k < i; k++)
        if (!strcmp(m->map.rule[k].pattern, m->map.rule[i].pattern))
          return error_set(e, STATUS_USAGE, "--map: %s is of two rules", m->map.rule[i].pattern);
      const char **names = memory_new((size_t)m->log.columns + 1, sizeof *names);
      for (int k = 0; k < m->log.columns; k++) names[k] = m->log.column[k].name;
      const char *near = text_nearest(m->map.rule[i].pattern, names, (size_t)m->log.columns);
      error_set(e, STATUS_USAGE, "--map: no column is %s%s%s%s", m->map.rule[i].pattern,
                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "; --dry-run shows them");
      memory_free(names);
      return e->status;
    }
  if (!m->targets) return error_set(e, STATUS_USAGE, "every column is left out");
  part_names(m);
  long size[3] = {0}; /* an axis has one size in a file */
  static const char *const axis[3] = {"layer", "head", "expert"};
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < m->targets; i++)
      for (int k = 0; k < m->target[i].axes; k++)
        for (int a = 0; a < 3; a++) {
          struct target *t = &m->target[i];
          if (strcmp(t->axis[k], axis[a])) continue;
          for (int s = 0; s < t->sources && !pass; s++) {
            if (t->source[s].at[k] >= MOST_PLACES)
              return error_set(e, STATUS_USAGE, "%s %ld: that is no %s; --map says what the numbers are",
                               axis[a], t->source[s].at[k], axis[a]);
            if (t->source[s].at[k] >= size[a]) size[a] = t->source[s].at[k] + 1;
          }
          t->size[k] = size[a];
        }
  for (int i = 0; i < m->targets; i++) {
    struct target *t = &m->target[i];
    find_steps(t);
    find_unit(r, t);
  }
  drop_last(m);
  choose_rows(m);
  return check_units(r, m, e);
}

/* --- configuration ----------------------------------------------------------------------------------- */

static int add_setting(void *context, const char *key, const char *value)
{
  struct import *m = context;
  char name[96];
  snprintf(name, sizeof name, "%s", key);
  for (char *c = name; *c; c++)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./", *c)) *c = '_';
  if (!*name) return 0;
  long i = names_find(&m->keys, name);
  if (i < 0) {
    if (m->settings == m->room) {
      m->setting = memory_grow(m->setting, (size_t)m->room, 2 * (size_t)m->room + 32, sizeof *m->setting);
      m->room = 2 * m->room + 32;
    }
    m->setting[m->settings++].key = arena_text(m->texts, name);
    i = names_add(&m->keys, m->setting[m->settings - 1].key);
  }
  char *clean = text_cleaned(value, "");
  m->setting[i].value = arena_text(m->texts, clean);
  memory_free(clean);
  return 0;
}

static int read_settings(struct import *m, const struct options *r, struct error *e)
{
  int status = STATUS_OK;
  for (int i = 0; i < r->config.count && !status; i++)
    status = log_settings(r->config.word[i], add_setting, m, e);
  for (int i = 0; i < r->set.count && !status; i++) {
    char key[96];
    const char *equals = strchr(r->set.word[i], '=');
    if (!equals || equals == r->set.word[i] || equals - r->set.word[i] >= (long)sizeof key)
      return error_set(e, STATUS_USAGE, "--set '%.100s': KEY=VALUE is wanted", r->set.word[i]);
    snprintf(key, sizeof key, "%.*s", (int)(equals - r->set.word[i]), r->set.word[i]);
    add_setting(m, key, equals + 1);
  }
  return status;
}

/* --- telling ----------------------------------------------------------------------------------------- */

static void axes_text(const struct target *t, char out[64])
{
  size_t n = (size_t)snprintf(out, 64, "[step");
  for (int k = 0; k < t->axes; k++)
    n += (size_t)snprintf(out + n, 64 - n, ", %s %ld", t->axis[k], t->size[k]);
  snprintf(out + n, 64 - n, "]");
}

static void print_map(const struct import *m)
{
  struct buffer rules = {0};
  printf("steps     %s\n", m->log.step ? m->log.step : m->log.step_found);
  for (int i = 0; i < m->targets; i++) {
    const struct target *t = &m->target[i];
    char axes[64];
    axes_text(t, axes);
    printf("%-24s %-28s %-4s %6ld rows, step %.0f to %.0f  <- %s\n", t->name, axes, text_unit(t->unit),
           t->count, t->count ? t->steps[0] : NAN, t->count ? t->steps[t->count - 1] : NAN, t->pattern);
    buffer_add(&rules, "%s%s", i ? "," : "", t->name);
    for (int k = 0; k < t->axes; k++) buffer_add(&rules, "%s%c", k ? "," : "[", *t->axis[k]);
    buffer_add(&rules, "%s=", t->axes ? "]" : "");
    for (const char *c = t->pattern; *c; c++) buffer_add(&rules, strchr(",\\", *c) ? "\\%c" : "%c", *c);
  }
  for (long i = 0; i < m->settings; i++) printf("%s = %s\n", m->setting[i].key, m->setting[i].value);
  struct buffer word = {0};
  shell_add(&word, rules.text ? rules.text : "");
  printf("--map %s\n", word.text);
  memory_free(word.text);
  memory_free(rules.text);
}

/* --- writing ----------------------------------------------------------------------------------------- */

static int declare(struct target *t, const char *files, struct maxlogit_recorder *to,
                   struct maxlogit_error *e)
{
  char definition[700];
  snprintf(definition, sizeof definition, "'%s' of %s, as that program told it", t->pattern, files);
  struct maxlogit_series s = {.name = t->name,
                              .rows = t->rows,
                              .axes = t->axes,
                              .unit = t->unit,
                              .long_name = t->name,
                              .definition = definition};
  for (int k = 0; k < t->axes; k++) s.axis_name[k] = t->axis[k], s.size[k] = t->size[k];
  return maxlogit_record_series(to, &s, &t->number, e);
}

/* The values of a step, in the order of the series' axes. */
static int put_step(struct target *t, double step, double *values, struct maxlogit_recorder *to,
                    struct maxlogit_error *e)
{
  size_t count = 1;
  for (int k = 0; k < t->axes; k++) count *= (size_t)t->size[k];
  for (size_t i = 0; i < count; i++) values[i] = missing_value();
  for (int i = 0; i < t->sources; i++) {
    struct source *s = &t->source[i];
    const struct log_column *c = s->column;
    while (s->next < c->count && c->step[s->next] < step) s->next++;
    if (s->next == c->count || c->step[s->next] != step) continue;
    long at = t->axes == 0 ? 0 : t->axes == 1 ? s->at[0] : s->at[0] * t->size[1] + s->at[1];
    values[at] = c->value[s->next];
  }
  return maxlogit_record_put(to, t->number, values, count, e);
}

static int put_rows(struct import *m, struct maxlogit_recorder *to, struct maxlogit_error *e)
{
  long *next = memory_new((size_t)m->targets, sizeof *next);
  size_t most = 1;
  int status = MAXLOGIT_OK;
  for (int i = 0; i < m->targets; i++) {
    size_t count = 1;
    for (int k = 0; k < m->target[i].axes; k++) count *= (size_t)m->target[i].size[k];
    if (count > most) most = count;
  }
  double *values = memory_new(most, sizeof *values);
  while (!status) {
    double step = INFINITY;
    for (int i = 0; i < m->targets; i++)
      if (next[i] < m->target[i].count) step = fmin(step, m->target[i].steps[next[i]]);
    if (isinf(step)) break;
    for (int i = 0; i < m->targets && !status; i++) {
      if (next[i] == m->target[i].count || m->target[i].steps[next[i]] != step) continue;
      next[i]++;
      status = put_step(&m->target[i], step, values, to, e);
    }
    if (!status) status = maxlogit_record_row(to, (long)step, e);
  }
  memory_free(values);
  memory_free(next);
  return status;
}

static int write_run(struct import *m, const struct options *r, const char *path, struct error *e)
{
  struct maxlogit_recorder *to = NULL;
  struct maxlogit_error problem = {0};
  struct buffer files = {0}, note = {0};
  for (int i = 0; i < r->request.words.count; i++)
    buffer_add(&files, "%s%.200s", i ? ", " : "", text_file_name(r->request.words.word[i]));
  buffer_add(&note, "imported from %.3000s", files.text);
  const struct maxlogit_record_options o = {.mode = r->overwrite ? MAXLOGIT_REPLACE : MAXLOGIT_NEW,
                                            .settings = m->setting,
                                            .settings_count = m->settings,
                                            .data = r->data ? r->data : note.text,
                                            .whole = 1};
  int status = maxlogit_record_open(&to, path, &o, &problem);
  for (int i = 0; i < m->targets && !status; i++) status = declare(&m->target[i], files.text, to, &problem);
  if (!status) status = put_rows(m, to, &problem);
  if (!status) status = maxlogit_record_note(to, note.text, &problem);
  if (!status)
    status = maxlogit_record_close(to, "finished", &problem);
  else
    maxlogit_record_discard(to);
  memory_free(files.text);
  memory_free(note.text);
  return status ? error_set(e, status, "%s%s", problem.text,
                            strstr(problem.text, "exists") ? "; --overwrite replaces it" : "")
                : STATUS_OK;
}

static void default_output(const struct options *r, char out[4096])
{
  const char *name = text_file_name(r->request.words.word[0]), *dot = strrchr(name, '.');
  int tensorboard = strstr(name, "tfevents") != NULL;
  if (r->output)
    snprintf(out, 4096, "%s", r->output);
  else
    snprintf(out, 4096, "%.*s.h5", tensorboard || !dot || dot == name ? (int)strlen(name) : (int)(dot - name),
             name);
}

static int import(void *request, struct error *e)
{
  struct options *r = request;
  struct import m = {.log = {.step = r->step}, .texts = arena_new()};
  char path[4096];
  int status = STATUS_OK;
  default_output(r, path);
  if (!run_stem(path)) status = error_set(e, STATUS_USAGE, "import -o %s: a run file ends with .h5", path);
  for (int i = 0; i < r->map.count && !status; i++) status = log_map_read(&m.map, r->map.word[i], e);
  if (!status) status = read_settings(&m, r, e);
  for (int i = 0; i < r->request.words.count && !status; i++)
    status = log_read(&m.log, r->request.words.word[i], (enum log_form)r->form, e);
  if (!status) status = log_settle(&m.log, e);
  if (!status) status = make_targets(&m, r, e);
  if (!status && r->dry_run)
    print_map(&m);
  else if (!status && !(status = write_run(&m, r, path, e))) {
    print_map(&m);
    text_print_line(path);
  }
  if (!status && m.log.skipped)
    message("%ld line%s without a step: left out", m.log.skipped, text_s(m.log.skipped));
  for (int i = 0; i < m.targets; i++) {
    memory_free(m.target[i].source);
    memory_free(m.target[i].steps);
  }
  memory_free(m.target);
  memory_free(m.setting);
  names_free(&m.keys);
  log_free(&m.log);
  log_map_free(&m.map);
  arena_free(m.texts);
  return status;
}

const struct command command_import = {
  .name = "import",
  .arguments = "FILE ...",
  .help = "convert logs of other programs into a run file",
  .about =
    "Make a run file of logs: CSV, JSON lines (of trackers, Hugging Face's trainer, ms-swift), arrays of "
    "numpy.savez, event files of TensorBoard (by Python's tensorboard), lines that Megatron-LM and ms-swift "
    "print. "
    "Several FILEs are one run. Layers and heads are found in the names of columns. What was found is "
    "printed; "
    "then show, export, plot, compare, report and serve take the run as any other.",
  .more =
    "maxlogit import metrics.jsonl -o runs/a.h5 --set optimizer=muon --set train.seed=1\n"
    "maxlogit import train.log --dry-run\n"
    "maxlogit import wandb.csv --map 'loss=train/loss,attn/max_logit[l,h]=model.layers.{l}.attn.{h}.max'",
  OPTIONS,
  .wanted = "which logs?",
  .most = MANY_WORDS,
  .run = import,
};
