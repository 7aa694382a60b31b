/* export.c - series of run files as text columns */
#include <argp.h>
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "app/command.h"
#include "zoo/own_run.h"
#include "app/selection.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/h5.h"
#include "storage/layout.h"

struct export_request {
  struct chosen chosen;
  char **series;
  int series_count;
  int layer, head, band, geometric, reduce, long_form, list, safetensors, overwrite;
  const char *folder;
  long every, bins;
  enum table_format format;
};

enum {
  KEY_FORMAT = 256,
  KEY_LAYER,
  KEY_HEAD,
  KEY_EVERY,
  KEY_BINS,
  KEY_BAND,
  KEY_REDUCE,
  KEY_LONG,
  KEY_LIST,
  KEY_SAFETENSORS,
  KEY_OVERWRITE
};

static const struct argp_option options[] = {
  {"format", KEY_FORMAT, "NAME", 0, "columns (default: blanks, for gnuplot and awk), csv, tsv", 0},
  {"layer", KEY_LAYER, "L", 0, "Only this layer, from 0", 0},
  {"head", KEY_HEAD, "H", 0, "Only this head of each layer, from 0", 0},
  {"reduce", KEY_REDUCE, "max|mean", 0, "One column: the largest or the mean of each step", 0},
  {"every", KEY_EVERY, "N", 0, "Only steps that are multiples of N", 0},
  {"bins", KEY_BINS, "N", 0, "Thin to the extremes of each of N intervals: spikes survive", 0},
  {"band", KEY_BAND, "MEAN", OPTION_ARG_OPTIONAL,
   "Mean and 95 % interval (Student's t) over runs that differ only in their seed; "
   "those that diverged are counted and left out; MEAN is arithmetic (default) or geometric",
   0},
  {"long", KEY_LONG, NULL, 0, "One value a row: step, column, value", 0},
  {"list", KEY_LIST, NULL, 0, "Name the series in the files, and those made of them", 0},
  {"safetensors", KEY_SAFETENSORS, "DIR", OPTION_ARG_OPTIONAL,
   "Write the newest checkpoint as model.safetensors with config.json, in the naming of Llama (Qwen3 with "
   "qk_norm, "
   "DeepSeek-V3 with mla), into a folder (default: RUN.safetensors)",
   0},
  {"overwrite", KEY_OVERWRITE, NULL, 0, "--safetensors: replace the files that the folder has", 0},
  {0}};

static int whole_number(struct argp_state *state, const char *option, const char *text, int least)
{
  char *end;
  long n = strtol(text, &end, 10);
  if (end == text || *end || n < least || n > INT_MAX)
    argp_error(state, "--%s=%s: a whole number from %d to %d is wanted", option, text, least, INT_MAX);
  return (int)n;
}

static int one_of(struct argp_state *state, const char *option, const char *text, const char *const *names)
{
  int count = 0;
  for (; names[count]; count++)
    if (strcmp(names[count], text) == 0) return count;
  struct buffer allowed = {0};
  for (int i = 0; i < count; i++) buffer_add(&allowed, "%s%s", i ? ", " : "", names[i]);
  argp_error(state, "--%s=%s: not known; allowed: %s", option, text, allowed.text);
  return 0;
}

static int is_run_file(const struct dirent *entry) { return run_stem(entry->d_name) > 0; }

/* The first word that exists; after it a folder or a file of a series' name, "loss", is none unless runs are in it. */
static int is_run_path(const char *text, int first)
{
  struct dirent **list = NULL;
  if (run_stem(text) || first) return run_stem(text) || access(text, F_OK) == 0;
  int n = scandir(text, &list, is_run_file, NULL);
  for (int i = 0; i < n; i++) free(list[i]);
  free(list);
  return n > 0 || (n < 0 && h5_is_file(text));
}

static error_t parse(int key, char *text, struct argp_state *state)
{
  static const char *const formats[] = {"columns", "csv", "tsv", NULL};
  static const char *const means[] = {"arithmetic", "geometric", NULL};
  static const char *const reductions[] = {"max", "mean", NULL};
  struct export_request *r = state->input;
  switch (key) {
  case KEY_FORMAT: r->format = (enum table_format)one_of(state, "format", text, formats); return 0;
  case KEY_LAYER: r->layer = whole_number(state, "layer", text, 0); return 0;
  case KEY_HEAD: r->head = whole_number(state, "head", text, 0); return 0;
  case KEY_REDUCE: r->reduce = 1 + one_of(state, "reduce", text, reductions); return 0;
  case KEY_EVERY: r->every = whole_number(state, "every", text, 1); return 0;
  case KEY_BINS: r->bins = whole_number(state, "bins", text, 1); return 0;
  case KEY_BAND:
    r->band = 1;
    r->geometric = text ? one_of(state, "band", text, means) : 0;
    return 0;
  case KEY_LONG: r->long_form = 1; return 0;
  case KEY_LIST: r->list = 1; return 0;
  case KEY_SAFETENSORS:
    r->safetensors = 1;
    r->folder = text;
    return 0;
  case KEY_OVERWRITE: r->overwrite = 1; return 0;
  case ARGP_KEY_ARG:
    if (is_run_path(text, r->chosen.selection.paths == 0)) return ARGP_ERR_UNKNOWN;
    r->series[r->series_count++] = text;
    return 0;
  case ARGP_KEY_INIT: state->child_inputs[0] = &r->chosen; return 0;
  case ARGP_KEY_END:
    if (r->chosen.selection.paths == 0) argp_error(state, "no run file given");
    if (r->overwrite && !r->safetensors) argp_error(state, "--overwrite: of --safetensors alone");
    if (r->safetensors && (r->chosen.selection.paths > 1 || r->series_count || r->list))
      argp_error(state, "--safetensors takes one run or checkpoint, and no series");
    if (r->series_count == 0 && !r->list && !r->safetensors)
      argp_error(state, "no series given; --list names those in the file");
    return 0;
  }
  return ARGP_ERR_UNKNOWN;
}

/* --- tables -------------------------------------------------------------------------------------------- */

/* Of the chosen layer and head there is nothing in a series: what there is. */
static void no_place(const struct run *run, const struct run_series *s, struct error *error)
{
  long layers = s->shape == PER_LAYER ? s->width : s->width / s->heads;
  char heads[64] = "";
  if (s->shape != PER_LAYER)
    snprintf(heads, sizeof heads, ", %s 0 to %ld", s->shape == PER_HEAD ? "heads" : "experts", s->heads - 1);
  error_set(error, STATUS_USAGE, "%s: %s: no such layer or head; there are layers 0 to %ld%s", run->path,
            s->name, layers - 1, heads);
}

static int read_table(const struct export_request *r, const struct run *run, struct table *table,
                      struct error *error)
{
  *table = (struct table){0};
  for (int i = 0; i < r->series_count; i++) {
    struct run_series series;
    struct table one;
    int status = run_read(run->file, r->series[i], &series, error);
    if (status) {
      table_free(table);
      return status; /* which names the file */
    }
    table_from_series(&one, &series, r->series_count > 1, r->layer, r->head);
    if (r->reduce == 1) table_reduce_max(&one, series.name);
    if (r->reduce == 2) table_reduce_mean(&one, series.name);
    if (one.columns == 0) no_place(run, &series, error);
    run_series_free(&series);
    if (i == 0)
      *table = one;
    else {
      table_join(table, &one);
      table_free(&one);
    }
    if (error->status) {
      table_free(table);
      return error->status;
    }
  }
  run_rest(run->file);
  if (r->every) table_every(table, r->every);
  return STATUS_OK;
}

static int same_columns(const struct table *a, const struct table *b)
{
  int same = a->columns == b->columns;
  for (int c = 0; same && c < a->columns; c++) same = strcmp(a->column[c].name, b->column[c].name) == 0;
  return same;
}

static void write_long(FILE *f, const struct table *t, enum table_format format, const char *extra)
{
  char separator = format == TABLE_CSV ? ',' : format == TABLE_TSV ? '\t' : ' ', step[32], value[32];
  for (long row = 0; row < t->rows && !ferror(f); row++)
    for (int c = 0; c < t->columns; c++) {
      table_number(t->step[row], step);
      table_number(t->value[row * t->columns + c], value);
      fputs(step, f);
      if (extra) fprintf(f, "%c%s", separator, extra);
      fprintf(f, "%c%s%c%s\n", separator, t->column[c].name, separator, value);
    }
}

/* Columns: a block each, two empty lines between (gnuplot's index). CSV and TSV: one table, where several
   blocks are told apart by a column. */
static void write_block(const struct export_request *r, struct table *t, const char *extra, int first)
{
  if (r->format == TABLE_COLUMNS) extra = NULL;
  if (r->bins) table_bins(t, r->bins);
  if (first || r->format == TABLE_COLUMNS) {
    if (!r->long_form)
      table_write_header(stdout, t, r->format, extra ? r->band ? "group" : "run" : NULL);
    else {
      struct column names[] = {{"column", COLUMN_EXTREMES}, {"value", COLUMN_EXTREMES}};
      struct table header = {.columns = 2, .column = names};
      table_write_header(stdout, &header, r->format, extra ? r->band ? "group" : "run" : NULL);
    }
  }
  if (r->long_form)
    write_long(stdout, t, r->format, extra);
  else
    table_write_rows(stdout, t, r->format, extra);
}

static void write_preamble(const struct export_request *r, const struct run *run)
{
  printf("# maxlogit export\n");
  for (int i = 0; i < r->series_count; i++) {
    struct run_series series;
    if (run_read(run->file, r->series[i], &series, NULL) != STATUS_OK) continue;
    printf("# series %s [%s]: %s%s\n", series.name, series.unit, series.long_name,
           r->reduce == 1 && series.width > 1   ? ", largest of each step"
           : r->reduce == 2 && series.width > 1 ? ", mean of each step"
                                                : "");
    run_series_free(&series);
  }
  if (r->band)
    printf("# %s mean and 95 %% interval (Student's t) over n runs that %s %s\n",
           r->geometric ? "geometric" : "arithmetic",
           r->chosen.selection.by ? "have the same" : "differ only in",
           r->chosen.selection.by ? r->chosen.selection.by : "train.seed");
  if (r->bins)
    printf("# thinned: smallest and largest value in each of %ld intervals of the step\n", r->bins);
}

static void write_run_line(const struct run *run)
{
  printf("# run %s %s seed %ld, %s after %ld step%s\n", run_id(run->file), run->kind, run->seed,
         run_state(run->file), run_last_step(run->file), text_s(run_last_step(run->file)));
}

static int export_runs(const struct export_request *r, const struct runset *set, struct error *error)
{
  int columns = r->format == TABLE_COLUMNS;
  for (int i = 0; i < set->runs; i++) {
    const struct run *run = set->list[i];
    struct table table;
    int status = read_table(r, run, &table, error);
    if (status) return status;
    if (i == 0) write_preamble(r, run);
    if (i > 0 && columns) printf("\n\n");
    for (int k = 0; k < set->runs; k++)
      if (columns ? k == i : i == 0) write_run_line(set->list[k]);
    write_block(r, &table, set->runs > 1 ? run_id(run->file) : NULL, i == 0);
    table_free(&table);
  }
  return STATUS_OK;
}

/* "# group NAME: runs 2, 1 diverged and left out" */
static void write_group_line(const struct run_group *group, int counted)
{
  printf("# group %s: runs %d", group->label, counted);
  if (counted < group->count) printf(", %d diverged and left out", group->count - counted);
  if (run_group_unfinished(group)) printf(", %d not finished", run_group_unfinished(group));
  printf("\n");
}

static int export_group(const struct export_request *r, const struct runset *set, int g, struct error *error)
{
  const struct run_group *group = &set->group[g];
  int columns = r->format == TABLE_COLUMNS;
  const struct run **counted = memory_new((size_t)set->runs, sizeof *counted);
  int count = run_group_counted(group, counted), status = STATUS_OK;
  if (!count) counted[0] = group->run; /* what the columns are called */
  int read = count ? count : 1;
  struct table *runs = memory_new((size_t)read, sizeof *runs), band;
  for (int i = 0; i < read && !status; i++) {
    status = read_table(r, counted[i], &runs[i], error);
    if (!status && !same_columns(&runs[0], &runs[i]))
      status = error_set(error, STATUS_USAGE, "%s: its columns differ from those of %s", counted[i]->path,
                         counted[0]->path);
  }
  if (!status) {
    table_band(&band, runs, count, r->geometric);
    if (g == 0) write_preamble(r, group->run);
    if (g > 0 && columns) printf("\n\n");
    if (columns) write_group_line(group, count);
    for (int k = 0; k < set->groups && g == 0 && !columns; k++) {
      const struct run_group *one = &set->group[k];
      write_group_line(one, run_group_counted(one, counted));
    }
    write_block(r, &band, set->groups > 1 ? group->label : NULL, g == 0);
    table_free(&band);
  }
  for (int i = 0; i < read; i++) table_free(&runs[i]);
  memory_free(runs);
  memory_free(counted);
  return status;
}

static int print_series_name(void *context, const char *name)
{
  static const char *const shapes[] = {[PER_STEP] = "step",
                                       [PER_LAYER] = "step, layer",
                                       [PER_HEAD] = "step, layer, head",
                                       [PER_EXPERT] = "step, layer, expert",
                                       [PER_TENSOR] = "step, tensor"};
  struct run_series series;
  if (run_read(context, name, &series, NULL) != STATUS_OK) return 0;
  printf("%-32s %-6s [%s]  %s\n", name, series.unit, shapes[series.shape], series.long_name);
  run_series_free(&series);
  return 0;
}

static void list_series(const struct runset *set)
{
  for (int i = 0; i < set->runs; i++) {
    struct run *run = set->list[i];
    if (set->runs > 1) printf("%s# %s\n", i ? "\n" : "", run->path);
    run_series_names(run->file, print_series_name, run->file);
    run_derived_names(run->file, print_series_name, run->file);
    run_rest(run->file);
  }
}

static int finish_output(void)
{
  if (fflush(stdout) == 0 && !ferror(stdout)) return STATUS_OK;
  message("standard output: cannot be written");
  return STATUS_FAIL;
}

/* RUN.h5: RUN.safetensors */
static int export_safetensors(const char *path, const char *folder, int overwrite, struct error *error)
{
  char beside[4096];
  struct own_run *own;
  if (strlen(path) + sizeof ".safetensors" > sizeof beside)
    return error_set(error, STATUS_USAGE, "%.60s...: path too long", path);
  run_sibling(beside, path, ".safetensors");
  if (!folder) folder = beside;
  int status = own_run_open(&own, path, error);
  if (status) return status;
  status = own_run_export(own, folder, overwrite, error);
  own_run_close(own);
  if (status)
    error_prefix(error, "%s", path);
  else
    printf("%s\n", folder);
  return status;
}

static int run_export(int argc, char **argv)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = selection_child,
    .args_doc = "RUN.h5 ... SERIES ...",
    .doc =
      "Print series of run files as text: lines of # and then columns, the step first. " SELECTION_HELP "\v"
      "maxlogit export runs/a.h5 loss val_loss\n"
      "maxlogit export demo attn/max_logit --reduce=max --band=geometric --bins=500",
  };
  struct export_request r = {.layer = -1, .head = -1};
  struct runset set;
  struct error error = {0};
  r.series = memory_new((size_t)argc, sizeof *r.series);
  int status = argp_parse(&argp, argc, argv, 0, NULL, &r) ? STATUS_USAGE : STATUS_OK;
  if (!status && r.safetensors)
    status = export_safetensors(r.chosen.selection.path[0], r.folder, r.overwrite, &error);
  else if (!status)
    status = runset_select(&set, &r.chosen.selection, r.band ? RUNSET_ONCE : 0, &error);
  if (!status && !r.safetensors) {
    if (r.list)
      list_series(&set);
    else if (!r.band)
      status = export_runs(&r, &set, &error);
    else
      for (int g = 0; g < set.groups && !status; g++) status = export_group(&r, &set, g, &error);
    if (!status) status = set.damage;
    runset_close(&set);
  }
  if (*error.text) message("%s", error.text);
  if (finish_output() && !status) status = STATUS_FAIL;
  chosen_free(&r.chosen);
  memory_free(r.series);
  return status;
}

const struct command command_export = {
  .name = "export",
  .arguments = "RUN.h5 ... SERIES [...]",
  .run = run_export,
  .help = "text columns for gnuplot, awk, spreadsheets",
};
