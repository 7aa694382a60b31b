/* export.c - series of run files as text columns */
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "analysis/metric.h"
#include "app/command.h"
#include "zoo/own_run.h"
#include "app/selection.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "storage/h5.h"
#include "storage/layout.h"
#include "storage/live_rows.h"

struct options {
  struct selected_runs chosen;
  struct words series;
  long format, csv, layer, head, every, bins, reduce, band, long_, list, follow,
    overwrite; /* -1: not given, of choices too */
  const char *safetensors, *steps;
  double first, end; /* of --steps */
};

static const char *const formats[] = {"columns", "csv", "tsv", NULL}; /* by enum table_format */
enum { REDUCE_MAX, REDUCE_MEAN };
static const char *const reductions[] = {"max", "mean", NULL};
enum { BAND_ARITHMETIC, BAND_GEOMETRIC };
static const char *const means[] = {"arithmetic", "geometric", NULL};

static const struct command_option options[] = {
  CHOICE(format, 0, formats, "columns",
         "Columns are for gnuplot and awk, with lines of # that describe them. The others are tables alone, "
         "their names in the first line; a text that a spreadsheet would compute, as =1+1, has an apostrophe "
         "before it"),
  FLAG(csv, 0, "--format=csv, by the name that show has"),
  WHOLE(layer, 0, "L", "-1", 0, INT_MAX, "Only this layer, from 0"),
  WHOLE(head, 0, "H", "-1", 0, INT_MAX, "Only this head of each layer, from 0"),
  CHOICE(reduce, 0, reductions, NULL, "One column: the largest or the mean of each step"),
  WHOLE(every, 0, "N", "0", 1, NO_LIMIT, "Only steps that are multiples of N"),
  TEXT(steps, 0, "A-B", NULL, "Only steps from A to B"),
  WHOLE(bins, 0, "N", "0", 1, NO_LIMIT, "Thin to the extremes of each of N intervals: spikes survive"),
  {.row =
     CHOICE_ROW(struct options, band, NULL, means,
                "Mean and 95 % interval (Student's t) over runs that differ only in their seed; those that "
                "diverged or blew up are counted and left out",
                0),
   .alone = "arithmetic"},
  FLAG(long_, 0, "One value a row: step, column, value"),
  FLAG(list, 0, "Name the series in the files, and those made of them"),
  FLAG(
    follow, 0,
    "Print loss, rates and the largest max logit of one run as it is written, a line per row, until it ends"),
  {.row = TEXT_ROW(
     struct options, safetensors, NULL,
     "Write the newest checkpoint as model.safetensors with config.json, in the naming of Llama (Qwen3 "
     "with qk_norm, DeepSeek-V3 with mla), into a folder (without one: RUN.safetensors)",
     0),
   .argument = "DIR",
   .alone = ""},
  FLAG(overwrite, 0, "--safetensors: replace the files that the folder has"),
  NO_OPTION,
};

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

static int is_series(const char *word, int count) { return !is_run_path(word, count == 0); }

static int check_options(struct options *r, struct error *e)
{
  r->series = words_take(&r->chosen.request.words, is_series);
  const int runs = selected_runs_open(&r->chosen)->paths;
  if (!runs) return error_set(e, STATUS_USAGE, "export: no run file given");
  if (r->overwrite && !r->safetensors)
    return error_set(e, STATUS_USAGE, "export --overwrite: of --safetensors alone");
  if (r->safetensors && (runs > 1 || r->series.count || r->list))
    return error_set(e, STATUS_USAGE, "export --safetensors: takes one run or checkpoint, and no series");
  if (r->follow && (runs > 1 || r->series.count || r->list || r->safetensors))
    return error_set(e, STATUS_USAGE, "export --follow: takes one run, and no series");
  if (!r->series.count && !r->list && !r->safetensors && !r->follow)
    return error_set(e, STATUS_USAGE, "export: no series given; --list names those in the file");
  if (r->csv && r->format == TABLE_TSV)
    return error_set(e, STATUS_USAGE, "export --csv: not with --format=tsv");
  if (r->csv) r->format = TABLE_CSV;
  r->end = INFINITY;
  if (r->steps && !metric_steps(r->steps, &r->first, &r->end))
    return error_set(e, STATUS_USAGE, "export --steps=%s: two steps are wanted, 100-200 say", r->steps);
  return STATUS_OK;
}

/* --- tables -------------------------------------------------------------------------------------------- */

/* The series has nothing of the chosen layer and head: list its layers and heads. */
static void no_place(const struct run *run, const struct run_series *s, struct error *error)
{
  long layers = s->shape == PER_LAYER ? s->width : s->width / s->heads;
  char heads[64] = "";
  if (s->shape != PER_LAYER)
    snprintf(heads, sizeof heads, ", %s 0 to %ld", s->shape == PER_HEAD ? "heads" : "experts", s->heads - 1);
  error_set(error, STATUS_USAGE, "%s: %s: no such layer or head; there are layers 0 to %ld%s", run->path,
            s->name, layers - 1, heads);
}

/* One series: NAME, NAME@PATTERN, or with :REDUCTION one column. */
static int read_series(const struct options *r, const struct run *run, const char *word, struct table *out,
                       struct error *error)
{
  struct run_series series;
  char name[96];
  const char *pattern = strchr(word, '@');
  *out = (struct table){0};
  if (strchr(word, ':')) {
    struct metric m;
    int status = curve_read(&m, word, error);
    if (!status) status = curve_of(&m, run, out, error);
    if (!status) snprintf(out->column->name, sizeof out->column->name, "%s", word);
    return status;
  }
  snprintf(name, sizeof name, "%.*s", pattern ? (int)(pattern - word) : (int)strlen(word), word);
  int status = run_read_all(run->file, name, &series, error);
  if (status) return status; /* which names the file */
  table_from_series(out, &series, 0, (int)r->layer, (int)r->head);
  if (out->columns == 0)
    no_place(run, &series, error);
  else if (pattern && (series.shape == PER_STEP || !table_keep(out, pattern + 1)))
    error_set(error, STATUS_USAGE, "%s: nothing of %s matches %s%s%s", run->path, name, pattern + 1,
              series.shape == PER_STEP ? "; it has one value a step" : "; the last is called ",
              series.shape == PER_STEP ? "" : out->column[out->columns - 1].name);
  const int is_prefixed = r->series.count > 1 || r->format != TABLE_COLUMNS;
  for (int c = 0; c < out->columns && is_prefixed && series.shape != PER_STEP; c++) {
    char own[128];
    snprintf(own, sizeof own, "%s", out->column[c].name);
    snprintf(out->column[c].name, sizeof out->column[c].name, "%.60s:%.64s", series.name, own);
  }
  if (r->reduce == REDUCE_MAX) table_reduce_max(out, series.name);
  if (r->reduce == REDUCE_MEAN) table_reduce_mean(out, series.name);
  run_series_free(&series);
  return error->status;
}

static int read_table(const struct options *r, const struct run *run, struct table *table,
                      struct error *error)
{
  *table = (struct table){0};
  for (int i = 0; i < r->series.count; i++) {
    struct table one;
    read_series(r, run, r->series.word[i], &one, error);
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
  if (r->every || r->steps) table_keep_steps(table, r->every, r->first, r->end);
  return STATUS_OK;
}

static void write_long(FILE *f, const struct table *t, enum table_format format, const char *extra)
{
  char separator = format == TABLE_CSV ? ',' : format == TABLE_TSV ? '\t' : ' ', step[32], value[32];
  for (long row = 0; row < t->rows && !ferror(f); row++)
    for (int c = 0; c < t->columns; c++) {
      if (is_missing(t->value[row * t->columns + c])) continue;
      fputs(table_number(t->step[row], step), f);
      if (extra) fputc(separator, f), table_write_text(f, format, extra);
      fputc(separator, f), table_write_text(f, format, t->column[c].name);
      fprintf(f, "%c%s\n", separator, table_number(t->value[row * t->columns + c], value));
    }
}

/* The columns of the first block, and whose they are. */
struct first_columns {
  struct table table;
  const char *path;
};

/* Columns: a block each behind lines of #, two empty lines between (gnuplot's index). CSV and TSV: one table with its
   names in the first line and nothing before, which every reader takes; a column distinguishes several blocks. */
static int write_block(const struct options *r, struct table *t, const char *extra, const char *path,
                       struct first_columns *of, struct error *error)
{
  const int first = !of->path;
  if (r->format == TABLE_COLUMNS) extra = NULL;
  if (first) {
    table_new(&of->table, 0, t->columns);
    memcpy(of->table.column, t->column, (size_t)t->columns * sizeof *t->column);
    of->path = path;
  } else if (r->format != TABLE_COLUMNS && !r->long_ && !table_columns_agree(&of->table, t))
    return error_set(error, STATUS_USAGE, "%s: its columns are not those of %s: --long writes both", path,
                     of->path);
  if (r->bins) table_bins(t, r->bins);
  if (first || r->format == TABLE_COLUMNS) {
    if (!r->long_)
      table_write_header(stdout, t, r->format, extra ? r->band >= 0 ? "group" : "run" : NULL);
    else {
      struct column names[] = {{"column", COLUMN_EXTREMES}, {"value", COLUMN_EXTREMES}};
      struct table header = {.columns = 2, .column = names};
      table_write_header(stdout, &header, r->format, extra ? r->band >= 0 ? "group" : "run" : NULL);
    }
  }
  if (r->long_)
    write_long(stdout, t, r->format, extra);
  else
    table_write_rows(stdout, t, r->format, extra);
  return STATUS_OK;
}

static void write_preamble(const struct options *r, const struct run *run)
{
  printf("# maxlogit export\n");
  for (int i = 0; i < r->series.count; i++) {
    struct run_series series;
    if (run_read(run->file, r->series.word[i], &series, NULL) != STATUS_OK) continue;
    printf("# series %s [%s]: %s%s\n", series.name, series.unit, series.long_name,
           r->reduce == REDUCE_MAX && series.width > 1    ? ", largest of each step"
           : r->reduce == REDUCE_MEAN && series.width > 1 ? ", mean of each step"
                                                          : "");
    run_series_free(&series);
  }
  if (r->band >= 0)
    printf("# %s mean and 95 %% interval (Student's t) over n runs that %s %s; between two of its rows a run "
           "has a "
           "value on the line\n",
           means[r->band], r->chosen.selection.by ? "have the same" : "differ only in",
           r->chosen.selection.by ? r->chosen.selection.by : "train.seed");
  if (r->bins)
    printf("# thinned: smallest and largest value in each of %ld intervals of the step\n", r->bins);
}

static void write_run_line(const struct run *run)
{
  printf("# run %s %s seed %ld, %s after %ld step%s\n", run_id(run->file), run->kind, run->seed,
         run_shown_state(run->file), run_last_step(run->file), text_s(run_last_step(run->file)));
}

static int export_runs(const struct options *r, const struct runset *set, struct error *error)
{
  int columns = r->format == TABLE_COLUMNS, status = STATUS_OK;
  struct first_columns of = {.path = NULL};
  for (int i = 0; i < set->runs && !status; i++) {
    const struct run *run = set->list[i];
    struct table table;
    status = read_table(r, run, &table, error);
    if (status) break;
    if (i == 0 && columns) write_preamble(r, run);
    if (i > 0 && columns) printf("\n\n");
    if (columns) write_run_line(run);
    status = write_block(r, &table, set->runs > 1 ? run_id(run->file) : NULL, run->shown, &of, error);
    table_free(&table);
  }
  table_free(&of.table);
  return status;
}

/* "# group NAME: runs 2, 1 diverged and left out" */
static void write_group_line(const struct run_group *group, int counted)
{
  printf("# group %s: runs %d", group->label, counted);
  char text[64];
  if (counted < group->count) printf(", %s and left out", run_failures_text(run_group_failures(group), text));
  if (run_group_unfinished(group)) printf(", %d not finished", run_group_unfinished(group));
  printf("\n");
}

static int export_group(const struct options *r, const struct runset *set, int g, struct first_columns *of,
                        struct error *error)
{
  const struct run_group *group = &set->group[g];
  int columns = r->format == TABLE_COLUMNS;
  const struct run **counted = memory_new((size_t)set->runs, sizeof *counted);
  int count = run_group_counted(group, counted), status = STATUS_OK;
  if (!count) counted[0] = group->run; /* names of the columns */
  int read = count ? count : 1;
  struct table *runs = memory_new((size_t)read, sizeof *runs), band;
  for (int i = 0; i < read && !status; i++) {
    status = read_table(r, counted[i], &runs[i], error);
    if (!status && !table_columns_agree(&runs[0], &runs[i]))
      status = error_set(error, STATUS_USAGE, "%s: its columns differ from those of %s", counted[i]->path,
                         counted[0]->path);
  }
  if (!status) {
    table_band(&band, runs, count, r->band == BAND_GEOMETRIC);
    if (g == 0 && columns) write_preamble(r, group->run);
    if (g > 0 && columns) printf("\n\n");
    if (columns)
      write_group_line(group, count);
    else if (count < group->count)
      message("group %s: %d diverged and left out", group->label, group->count - count);
    status = write_block(r, &band, set->groups > 1 ? group->label : NULL, group->label, of, error);
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
  if (run_describe(context, name, &series, NULL) != STATUS_OK) return 0;
  printf("%-32s %-6s [%s]  %s\n", name, series.unit, shapes[series.shape], series.long_name);
  run_series_free(&series);
  return 0;
}

static void list_series(const struct runset *set)
{
  for (int i = 0; i < set->runs; i++) {
    struct run *run = set->list[i];
    if (set->runs > 1) printf("%s# %s\n", i ? "\n" : "", run->shown);
    run_series_names(run->file, print_series_name, run->file);
    run_derived_names(run->file, print_series_name, run->file);
    run_rest(run->file);
  }
}

/* RUN.h5: RUN.safetensors */
static int export_safetensors(const char *path, const char *folder, long overwrite, struct error *error)
{
  char beside[4096];
  struct own_run *own;
  if (strlen(path) + sizeof ".safetensors" > sizeof beside)
    return error_set(error, STATUS_USAGE, "%.60s...: path too long", path);
  run_sibling(beside, path, ".safetensors");
  if (!*folder) folder = beside;
  char checkpoints[4096];
  run_sibling(checkpoints, path, ".ckpt");
  file_keep_private(path);
  file_keep_private(checkpoints);
  int status = own_run_open(&own, path, error);
  if (status) return status;
  status = own_run_export(own, folder, overwrite, error);
  own_run_close(own);
  if (status)
    error_prefix(error, "%s", path);
  else
    text_print_line(folder);
  return status;
}

/* --- while it is written --------------------------------------------------------------------------------- */

static int print_rows(void *context, long from)
{
  const struct live_rows *w = context;
  for (long row = from; row < w->rows; row++)
    for (int f = 0; f < LIVE_FIELDS; f++)
      printf("%.9g%c", w->value[f][row], f + 1 < LIVE_FIELDS ? '\t' : '\n');
  fflush(stdout);
  return !ferror(stdout);
}

static int export_follow(const char *path, struct error *error)
{
  struct live_rows rows;
  char resolved[4096];
  live_begin(&rows, file_resolve(path, resolved));
  printf("step\tloss\tval_loss\tlr\tgrad_norm\tmax_logit\tlayer\thead\n");
  int status = live_follow(&rows, 0.1, print_rows, &rows, error);
  live_end(&rows);
  return status;
}

static int export_set(const struct options *r, const struct runset *set, struct error *error)
{
  int status = STATUS_OK;
  for (int k = 0; k < r->series.count && set->runs > 1 && !status; k++) {
    char name[96];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(r->series.word[k], "@:"), r->series.word[k]);
    status = runs_have_one_unit(set->run, set->runs, name, error);
  }
  if (status) return status;
  if (r->list)
    list_series(set);
  else if (r->band < 0)
    status = export_runs(r, set, error);
  else {
    struct first_columns of = {.path = NULL};
    for (int g = 0; g < set->groups && !status; g++) status = export_group(r, set, g, &of, error);
    table_free(&of.table);
  }
  return status ? status : runset_damage(set);
}

static int export(void *request, struct error *error)
{
  struct options *r = request;
  struct runset set;
  int status = check_options(r, error);
  if (!status && r->safetensors)
    status = export_safetensors(*r->chosen.selection.path, r->safetensors, r->overwrite, error);
  else if (!status && r->follow)
    status = export_follow(*r->chosen.selection.path, error);
  else if (!status && !(status = runset_select(&set, &r->chosen.selection,
                                               r->band >= 0 ? RUNSET_ONCE | RUNSET_MEANS : 0, error))) {
    status = export_set(r, &set, error);
    runset_close(&set);
  }
  memory_free(r->series.word);
  return status;
}

const struct command command_export = {
  .name = "export",
  .arguments = "RUN.h5 ... SERIES ...",
  .help = "print series as text columns (gnuplot, awk, CSV)",
  .about = "Print series of run files as text: columns, the step first. A series is NAME, "
           "NAME@PATTERN (only heads l0h0, layers l0 or tensors that match) or NAME:REDUCTION (one column: "
           "mean, max, "
           "min, median or over=X of each step). " SELECTION_HELP,
  .more = "maxlogit export runs/a.h5 loss val_loss\n"
          "maxlogit export runs/a.h5 'attn/entropy@l1h*' weight/svd_entropy:mean\n"
          "maxlogit export demo attn/max_logit --reduce=max --band=geometric --bins=500",
  OPTIONS,
  .shared = selection_options,
  .wanted = "which run?",
  .most = MANY_WORDS,
  .run = export,
};
