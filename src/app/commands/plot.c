/* plot.c - figures: the data of `export` and a script of plots/, given to gnuplot */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "app/command.h"
#include "app/runset.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

enum { CURVE_BINS = 400, IMAGE_COLUMNS = 240, LOSS_BINS = 40, MOST_GROUPS = 16, MOST_PANELS = 64 };

/* --- gnuplot's variables ------------------------------------------------------------------------------- */

static void put_quoted(FILE *f, const char *text)
{
  fputc('\'', f);
  for (; *text; text++) {
    if (*text == '\'') fputc('\'', f);
    fputc(*text, f);
  }
  fputc('\'', f);
}

static void put_text(FILE *f, const char *name, const char *text)
{
  fprintf(f, "%s = ", name);
  put_quoted(f, text);
  fputc('\n', f);
}

static void put_number(FILE *f, const char *name, double value)
{
  char text[32];
  table_number(value, text);
  fprintf(f, "%s = %s%s\n", name, text, strpbrk(text, ".eN") ? "" : ".0");
}

static void put_array(FILE *f, const char *name, const double *values, int count)
{
  char text[32];
  fprintf(f, "array %s[%d] = [", name, count);
  for (int i = 0; i < count; i++) {
    table_number(isfinite(values[i]) ? values[i] : NAN, text); /* gnuplot knows no other */
    fprintf(f, "%s%s", i ? ", " : "", text);
  }
  fprintf(f, "]\n");
}

static void put_words(FILE *f, const char *name, const struct runset *set,
                      const char *(*word)(const struct run_group *))
{
  fprintf(f, "array %s[%d] = [", name, set->groups);
  for (int g = 0; g < set->groups; g++) {
    if (g) fputs(", ", f);
    put_quoted(f, word(&set->group[g]));
  }
  fprintf(f, "]\n");
}

static const char *group_kind(const struct run_group *group) { return group->run->kind; }
static const char *group_rest(const struct run_group *group)
{
  return group->label + strlen(group->run->kind);
}

static void put_groups(FILE *f, const struct runset *set)
{
  double seeds[MOST_GROUPS], clipped[MOST_GROUPS], first_seed[MOST_GROUPS];
  for (int g = 0; g < set->groups; g++) {
    const char *stack = run_parameter(set->group[g].run->file, "stabilizers");
    seeds[g] = set->group[g].count;
    clipped[g] = stack && *stack && strcmp(stack, "none") != 0;
    first_seed[g] = (double)set->group[g].run->seed;
  }
  fprintf(f, "groups = %d\n", set->groups);
  put_words(f, "kind", set, group_kind);
  put_words(f, "rest", set, group_rest);
  put_array(f, "seeds", seeds, set->groups);
  put_array(f, "clipped", clipped, set->groups);
  put_array(f, "first_seed", first_seed, set->groups);
}

/* A parameter that all runs share, or NULL. */
static const char *common(const struct runset *set, const char *key)
{
  const char *value = run_parameter(set->run->file, key);
  for (int i = 1; i < set->runs && value; i++) {
    const char *other = run_parameter(set->run[i].file, key);
    if (!other || strcmp(other, value) != 0) return NULL;
  }
  return value && *value ? value : NULL;
}

/* What was trained: the settings that all runs share. */
static void put_about(FILE *f, const struct runset *set)
{
  static const struct {
    const char *key, *before;
  } parts[] = {
    {"model.layers", ""},
    {"model.heads", " layers \303\227 "},
    {"model.width", " heads, width "},
    {"model.context", ", context "},
    {"train.batch", ", batch "},
    {"train.lr", ", lr "},
    {"train.weight_decay", ", weight decay "},
    {"train.schedule", ", schedule "},
    {"data", ". Data: "},
    {"data.path", ", "},
  };
  struct buffer text = {0};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    const char *value = common(set, parts[i].key), *slash = value ? strrchr(value, '/') : NULL;
    if (value) buffer_add(&text, "%s%s", parts[i].before, slash ? slash + 1 : value);
  }
  put_text(f, "about", text.text ? text.text : "");
  memory_free(text.text);
}

static void put_threshold(FILE *f, const struct runset *set)
{
  double tau = NAN;
  for (int i = 0; i < set->runs; i++) {
    double own = run_threshold(&set->run[i]);
    if (isnan(tau))
      tau = own;
    else if (!isnan(own) && own != tau) {
      tau = NAN;
      break;
    }
  }
  char name[64], number[32];
  table_number(tau, number);
  snprintf(name, sizeof name, "clip threshold \317\204 = %s", number);
  put_number(f, "tau", tau);
  put_text(f, "tau_name", name);
}

/* --- data ---------------------------------------------------------------------------------------------- */

struct extent {
  double low, high, last_step;
};

static void extend(struct extent *e, double value)
{
  if (!isfinite(value)) return;
  if (!(value >= e->low)) e->low = value;
  if (!(value <= e->high)) e->high = value;
}

/* Mean and interval over the seeds of a group; `prepare` acts on each run's table first. */
static int band_of(const struct run_group *group, const char *series, void (*prepare)(struct table *),
                   int geometric, struct table *band, struct error *error)
{
  struct table *runs = memory_new((size_t)group->count, sizeof *runs);
  int status = STATUS_OK;
  for (int i = 0; i < group->count && !status; i++) {
    status = run_table(&group->run[i], series, &runs[i], error);
    if (!status && prepare) prepare(&runs[i]);
  }
  if (!status) table_band(band, runs, group->count, geometric);
  for (int i = 0; i < group->count; i++) table_free(&runs[i]);
  memory_free(runs);
  return status;
}

/* Where a single seed has no interval, an interval of no width: nothing to see, and nothing missing. */
static void close_edges(struct table *band)
{
  for (long r = 0; r < band->rows; r++)
    for (int c = 1; c < band->columns; c += 3) {
      double *mean = &band->value[r * band->columns + c];
      if (isnan(mean[1])) mean[1] = mean[2] = *mean;
    }
}

static void put_block(FILE *f, struct table *table, int g)
{
  close_edges(table);
  if (g) fputs("\n\n", f);
  table_write_header(f, table, TABLE_COLUMNS, NULL);
  table_write_rows(f, table, TABLE_COLUMNS, NULL);
}

/* The last finite value of a column. */
static double last_value(const struct table *t, int column)
{
  for (long r = t->rows - 1; r >= 0; r--)
    if (isfinite(t->value[r * t->columns + column])) return t->value[r * t->columns + column];
  return NAN;
}

/* Extent of the means of a band from a step on, and of its edges where they are not too far out: with
   few seeds an interval can be wider than everything else. */
static void measure(const struct table *t, double from_step, double edge, struct extent *e)
{
  for (long r = 0; r < t->rows; r++) {
    e->last_step = fmax(e->last_step, t->step[r]);
    for (int c = 1; c < t->columns && t->step[r] >= from_step; c += 3) {
      const double *mean = &t->value[r * t->columns + c];
      extend(e, *mean);
      extend(e, fmin(mean[2], *mean * edge));
    }
  }
}

static void put_extent(FILE *f, const struct extent *e)
{
  put_number(f, "low", e->low);
  put_number(f, "high", e->high);
  put_number(f, "last_of_all", fmax(e->last_step, 1));
}

static void put_heading(FILE *f, const struct runset *set, const char *text)
{
  put_text(f, "heading", text);
  put_about(f, set);
}

/* --- figures ------------------------------------------------------------------------------------------- */

static void keep_largest(struct table *t) { table_reduce_max(t, "max"); }
static void smooth(struct table *t) { table_means(t, LOSS_BINS); }

static int logit_bands(FILE *f, const struct runset *set, void (*prepare)(struct table *), double *last,
                       struct error *error)
{
  struct extent extent = {NAN, NAN, 0};
  fprintf(f, "$data << EOD\n");
  for (int g = 0; g < set->groups; g++) {
    struct table band;
    int status = band_of(&set->group[g], "attn/max_logit", prepare, 1, &band, error);
    if (status) return status;
    measure(&band, 0, 2, &extent);
    last[g] = last_value(&band, 1);
    table_bins(&band, CURVE_BINS);
    put_block(f, &band, g);
    table_free(&band);
  }
  fprintf(f, "EOD\n");
  if (!(extent.high > 0)) return error_set(error, STATUS_USAGE, "no positive max logit to draw");
  extent.low = fmax(extent.low, extent.high * 1e-6);
  put_extent(f, &extent);
  put_threshold(f, set);
  return STATUS_OK;
}

static int draw_logits(FILE *f, const struct runset *set, struct error *error)
{
  double last[MOST_GROUPS];
  int status = logit_bands(f, set, keep_largest, last, error);
  put_array(f, "last", last, set->groups);
  put_heading(f, set, "Max logit of the largest head against training step");
  return status;
}

static int draw_heads(FILE *f, const struct runset *set, struct error *error)
{
  double last[MOST_GROUPS];
  int layers = (int)run_number(set->run, "model.layers", 1),
      heads = (int)run_number(set->run, "model.heads", 1);
  int panels = layers * heads;
  for (int i = 1; i < set->runs; i++)
    if (!common(set, "model.layers") || !common(set, "model.heads"))
      return error_set(error, STATUS_USAGE, "figure heads: the runs differ in model.layers or model.heads");
  if (panels > MOST_PANELS)
    return error_set(error, STATUS_USAGE, "figure heads: %d heads; at most %d can be drawn on a page", panels,
                     MOST_PANELS);
  fprintf(f, "panels = %d\nacross = %d\narray panel_name[%d] = [", panels, heads < 8 ? heads : 8, panels);
  for (int p = 0; p < panels; p++) fprintf(f, "%s'layer %d, head %d'", p ? ", " : "", p / heads, p % heads);
  fprintf(f, "]\n");
  put_heading(f, set, "Max logit of every head against training step");
  return logit_bands(f, set, NULL, last, error);
}

/* One value for each head and each of at most IMAGE_COLUMNS intervals: the largest. */
static void put_image(FILE *f, const struct table *t, struct extent *extent)
{
  long columns = t->rows < IMAGE_COLUMNS ? t->rows : IMAGE_COLUMNS;
  double span = t->rows > 0 ? t->step[t->rows - 1] - t->step[0] : 0;
  for (long b = 0; b < columns; b++) {
    long first = b * t->rows / columns, last = (b + 1) * t->rows / columns;
    for (int c = 0; c < t->columns; c++) {
      double m = t->value[first * t->columns + c];
      char text[32];
      for (long r = first; r < last; r++)
        if (!(t->value[r * t->columns + c] <= m) && !isnan(m)) m = t->value[r * t->columns + c];
      if (m > 0) extend(extent, m);
      table_number(isfinite(m) && m > 0 ? m : NAN, text);
      fprintf(f, "%.6g %d %s\n", t->step[0] + span * ((double)b + 0.5) / (double)columns, c, text);
    }
  }
  if (t->rows > 0) extent->last_step = fmax(extent->last_step, t->step[t->rows - 1]);
}

static int draw_heatmap(FILE *f, const struct runset *set, struct error *error)
{
  struct extent extent = {NAN, NAN, 0};
  if (set->runs > 1 && (!common(set, "model.layers") || !common(set, "model.heads")))
    return error_set(error, STATUS_USAGE, "figure heatmap: the runs differ in model.layers or model.heads");
  int heads = (int)run_number(set->run, "model.heads", 1);
  fprintf(f, "$data << EOD\n");
  for (int g = 0; g < set->groups; g++) {
    struct table table;
    int status = run_table(set->group[g].run, "attn/max_logit", &table, error);
    if (status) return status;
    if (g) fputs("\n\n", f);
    put_image(f, &table, &extent);
    table_free(&table);
  }
  fprintf(f, "EOD\n");
  extent.low = fmax(extent.low, extent.high * 1e-4);
  put_extent(f, &extent);
  fprintf(f, "bin_steps = %d\n", (int)ceil((extent.last_step + 1) / IMAGE_COLUMNS));
  fprintf(f, "heads = %d\nheads_all = %d\n", heads, heads * (int)run_number(set->run, "model.layers", 1));
  put_heading(f, set, "Max logit: head by training step");
  return STATUS_OK;
}

/* The smallest lower edge of a band of one column. */
static double least_edge(const struct table *band)
{
  double least = INFINITY;
  for (long r = 0; r < band->rows; r++) least = fmin(least, band->value[r * band->columns + 2]);
  return least;
}

static int loss_curves(FILE *f, const struct runset *set, const char *series, const char *block,
                       void (*prepare)(struct table *), struct extent *extent, double *last,
                       struct error *error)
{
  double least[MOST_GROUPS];
  char name[32];
  fprintf(f, "$%s << EOD\n", block);
  for (int g = 0; g < set->groups; g++) {
    struct table band;
    int status = band_of(&set->group[g], series, prepare, 0, &band, error);
    if (status) return status;
    measure(&band, 0.08 * run_number(set->group[g].run, "train.steps", 0), 1, extent);
    last[g] = last_value(&band, 1);
    put_block(f, &band, g);
    least[g] = least_edge(&band);
    table_free(&band);
  }
  fprintf(f, "EOD\n");
  snprintf(name, sizeof name, "%s_least", block);
  put_array(f, name, least, set->groups);
  return STATUS_OK;
}

static int final_losses(FILE *f, const struct runset *set, struct extent *extent, struct error *error)
{
  double mean[MOST_GROUPS], lo[MOST_GROUPS], hi[MOST_GROUPS];
  fprintf(f, "$final << EOD\n");
  for (int g = 0; g < set->groups; g++) {
    const struct run_group *group = &set->group[g];
    double *values = memory_new((size_t)group->count, sizeof *values);
    int status = STATUS_OK;
    if (g) fputs("\n\n", f);
    for (int i = 0; i < group->count && !status; i++) {
      struct table table;
      status = run_table(&group->run[i], "val_loss", &table, error);
      if (status) break;
      values[i] = table.rows ? table.value[table.rows - 1] : NAN;
      char text[32];
      table_number(values[i], text);
      fprintf(f, "%s\n", text);
      extend(extent, values[i]);
      table_free(&table);
    }
    struct interval interval = interval_of(values, group->count, 0);
    mean[g] = interval.mean;
    lo[g] = group->count > 1 ? interval.lo : interval.mean;
    hi[g] = group->count > 1 ? interval.hi : interval.mean;
    extend(extent, lo[g]);
    extend(extent, hi[g]);
    memory_free(values);
    if (status) return status;
  }
  fprintf(f, "EOD\n");
  put_array(f, "final_mean", mean, set->groups);
  put_array(f, "final_lo", lo, set->groups);
  put_array(f, "final_hi", hi, set->groups);
  return STATUS_OK;
}

static int has_rows(const struct runset *set, const char *series)
{
  int some = 1;
  for (int i = 0; i < set->runs && some; i++) {
    struct run_series data;
    some = run_read(set->run[i].file, series, &data, NULL) == STATUS_OK;
    if (some) {
      some = data.rows > 0;
      run_series_free(&data);
    }
  }
  return some;
}

static int draw_loss(FILE *f, const struct runset *set, struct error *error)
{
  double last[MOST_GROUPS];
  struct extent extent = {NAN, NAN, 0}, final = {NAN, NAN, 0};
  int has_val = has_rows(set, "val_loss");
  int status = loss_curves(f, set, "loss", "train", smooth, &extent, last, error);
  if (!status && has_val) status = loss_curves(f, set, "val_loss", "val", NULL, &extent, last, error);
  if (!status && has_val) status = final_losses(f, set, &final, error);
  if (status) return status;
  double floor_ = run_loss_floor(set->run->file), steps = run_number(set->run, "train.steps", 0);
  for (int i = 1; i < set->runs; i++)
    if (run_loss_floor(set->run[i].file) != floor_) floor_ = NAN;
  extend(&extent, floor_);
  double margin = 0.07 * (extent.high - extent.low) + 1e-3 * fabs(extent.high);
  double final_margin = 0.08 * (final.high - final.low) + 1e-3 * fabs(final.high);
  if (!(extent.high >= extent.low)) return error_set(error, STATUS_USAGE, "no finite loss to draw");
  if (!(final.high >= final.low)) has_val = 0;
  fprintf(f, "has_val = %d\nbin_steps = %d\n", has_val, (int)fmax(1, round(steps / LOSS_BINS)));
  put_number(f, "loss_low", extent.low - margin);
  put_number(f, "loss_high", extent.high + margin);
  put_number(f, "final_low", final.low - final_margin);
  put_number(f, "final_high", final.high + final_margin);
  put_number(f, "last_of_all", fmax(extent.last_step, 1));
  put_number(f, "loss_floor", floor_);
  put_array(f, "last", last, set->groups);
  put_heading(f, set, has_val ? "Training and validation loss" : "Training loss");
  return STATUS_OK;
}

enum { MEASURES = 3, KINDS = 4 };
static const char *const measures[MEASURES] = {"weight/spectral_norm", "weight/svd_entropy",
                                               "weight/stable_rank"};
static const char *const kinds[KINDS][4] = {
  /* ends of tensors' names */
  {".w_q", ".w_k"},
  {".w_v", ".w_o"},
  {".w_gate", ".w_up", ".w_down"},
  {"embed", "head"},
};

static int is_of_kind(const char *tensor, int kind)
{
  size_t length = strlen(tensor);
  for (int i = 0; i < 4 && kinds[kind][i]; i++) {
    size_t end = strlen(kinds[kind][i]);
    if (length >= end && strcmp(tensor + length - end, kinds[kind][i]) == 0) return 1;
  }
  return 0;
}

/* One column for each measure and kind: the mean over the tensors of that kind. */
static int kind_means(const struct run *run, struct table *out, struct error *error)
{
  for (int m = 0; m < MEASURES; m++) {
    struct table all, means;
    int status = run_table(run, measures[m], &all, error);
    if (status) return status;
    table_new(&means, all.rows, KINDS);
    memcpy(means.step, all.step, (size_t)all.rows * sizeof *all.step);
    for (int k = 0; k < KINDS; k++) {
      int n = 0;
      snprintf(means.column[k].name, sizeof means.column[k].name, "%s:%d", measures[m], k);
      for (int c = 0; c < all.columns; c++) n += is_of_kind(all.column[c].name, k);
      for (long r = 0; r < all.rows; r++)
        for (int c = 0; c < all.columns; c++)
          if (is_of_kind(all.column[c].name, k))
            means.value[r * KINDS + k] += all.value[r * all.columns + c] / n;
    }
    table_free(&all);
    if (m == 0)
      *out = means;
    else {
      table_join(out, &means);
      table_free(&means);
    }
  }
  return STATUS_OK;
}

static void measure_kinds(const struct table *band, struct extent extent[MEASURES], double present[KINDS])
{
  for (long r = 0; r < band->rows; r++)
    for (int i = 0; i < MEASURES * KINDS; i++) {
      const double *mean = &band->value[r * band->columns + 1 + 3 * i];
      if (!(*mean > 0)) continue;
      present[i % KINDS] = 1;
      extend(&extent[i / KINDS], *mean);
      extend(&extent[i / KINDS], fmin(mean[2], 1.1 * *mean));
      extent[0].last_step = fmax(extent[0].last_step, band->step[r]);
    }
}

static int draw_spectra(FILE *f, const struct runset *set, struct error *error)
{
  struct extent extent[MEASURES] = {{NAN, NAN, 0}, {NAN, NAN, 0}, {NAN, NAN, 0}};
  double present[KINDS] = {0}, low[MEASURES], high[MEASURES];
  fprintf(f, "$data << EOD\n");
  for (int g = 0; g < set->groups; g++) {
    const struct run_group *group = &set->group[g];
    struct table *runs = memory_new((size_t)group->count, sizeof *runs), band;
    int status = STATUS_OK;
    for (int i = 0; i < group->count && !status; i++) status = kind_means(&group->run[i], &runs[i], error);
    if (!status) {
      table_band(&band, runs, group->count, 0);
      measure_kinds(&band, extent, present);
      table_bins(&band, CURVE_BINS);
      put_block(f, &band, g);
      table_free(&band);
    }
    for (int i = 0; i < group->count; i++) table_free(&runs[i]);
    memory_free(runs);
    if (status) return status;
  }
  fprintf(f, "EOD\n");
  for (int m = 0; m < MEASURES; m++) {
    double margin = 0.06 * (extent[m].high - extent[m].low) + 1e-6 * extent[m].high;
    low[m] = m == 1 ? extent[m].low - margin : 0;
    high[m] = extent[m].high + margin;
  }
  put_array(f, "low", low, MEASURES);
  put_array(f, "high", high, MEASURES);
  put_array(f, "present", present, KINDS);
  put_number(f, "last_of_all", fmax(extent[0].last_step, 1));
  put_heading(f, set, "Spectra of the weights against training step");
  return STATUS_OK;
}

struct figure {
  const char *name, *help;
  int (*draw)(FILE *, const struct runset *, struct error *);
  const char *needs; /* drawn without being asked for where all runs have this series */
  int no_text;       /* cannot be drawn with characters */
};
static const struct figure figures[] = {
  {"logits", "max logit of the largest head, with bands over seeds", draw_logits, "attn/max_logit", 0},
  {"heads", "max logit of every head, small multiples", draw_heads, "attn/max_logit", 0},
  {"heatmap", "max logit, head by step", draw_heatmap, "attn/max_logit", 1},
  {"loss", "training and validation loss", draw_loss, "loss", 0},
  {"spectra", "spectral norm, SVD entropy and stable rank of the weights", draw_spectra,
   "weight/spectral_norm", 1},
};
enum { FIGURES = sizeof figures / sizeof *figures };

/* --- gnuplot ------------------------------------------------------------------------------------------- */

struct plot_request {
  char **paths;
  int path_count;
  const char *folder, *scripts, *format;
  int terminal, script, chosen[FIGURES], any_chosen;
};

static int is_folder(const char *path)
{
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* --scripts, MAXLOGIT_PLOTS, share/ in the program's folder (build) or beside it, the place of installing. */
static int find_scripts(const struct plot_request *r, char out[4096], struct error *error)
{
  const char *asked = r->scripts ? r->scripts : getenv("MAXLOGIT_PLOTS");
  char program[2048];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  program[length > 0 ? length : 0] = '\0';
  char *slash = strrchr(program, '/');
  if (slash) *slash = '\0';
  if (asked && *asked) {
    snprintf(out, 4096, "%s", asked);
    return is_folder(out) ? STATUS_OK : error_set(error, STATUS_USAGE, "%s: no such folder", out);
  }
  snprintf(out, 4096, "%s/share/maxlogit/plots", program);
  if (is_folder(out)) return STATUS_OK;
  snprintf(out, 4096, "%s/../share/maxlogit/plots", program);
  if (is_folder(out)) return STATUS_OK;
  snprintf(out, 4096, "%s/plots", PKGDATADIR);
  if (is_folder(out)) return STATUS_OK;
  return error_set(error, STATUS_FAIL, "plot scripts not found (%s); MAXLOGIT_PLOTS may name their folder",
                   out);
}

static int size_from(const char *variable, int otherwise)
{
  const char *text = getenv(variable);
  long n = text ? strtol(text, NULL, 10) : 0;
  return n >= 40 && n <= 1000 ? (int)n : otherwise;
}

static void put_terminal(FILE *f, const char *scripts, const char *term, const char *out)
{
  struct winsize size = {0};
  int tty = isatty(STDOUT_FILENO), known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40;
  if (strcmp(term, "dumb") == 0 && tty && !getenv("NO_COLOR")) term = "dumbansi";
  put_text(f, "plots", scripts);
  put_text(f, "term", term);
  put_text(f, "out", out);
  fprintf(f, "columns = %d\nrows = %d\n", known ? size.ws_col - 1 : size_from("COLUMNS", 100),
          known && size.ws_row > 20 ? size.ws_row - 2 : 32);
}

/* Run gnuplot on a script; whatever it says on standard error is an error. */
static int run_gnuplot(FILE *script, struct error *error)
{
  FILE *complaints = tmpfile();
  if (!complaints) return error_set(error, STATUS_FAIL, "no temporary file: %s", strerror(errno));
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    dup2(fileno(script), STDIN_FILENO);
    dup2(fileno(complaints), STDERR_FILENO);
    execlp("gnuplot", "gnuplot", "-", (char *)NULL);
    _exit(127);
  }
  int exit_status = 0, status = STATUS_OK;
  char text[1200] = "";
  if (child < 0 || waitpid(child, &exit_status, 0) < 0)
    status = error_set(error, STATUS_FAIL, "gnuplot cannot be started: %s", strerror(errno));
  else if (WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 127)
    status = error_set(error, STATUS_FAIL, "gnuplot is not installed (on Debian: apt install gnuplot-nox)");
  else {
    rewind(complaints);
    text[fread(text, 1, sizeof text - 1, complaints)] = '\0';
    if (exit_status != 0 || *text) status = error_set(error, STATUS_FAIL, "gnuplot: %s", text);
  }
  fclose(complaints);
  return status;
}

/* The whole input of gnuplot for one figure, as a temporary file. */
static FILE *make_script(const struct figure *figure, const struct runset *set, const char *scripts,
                         const char *term, const char *out, struct error *error)
{
  FILE *f = tmpfile();
  if (!f) {
    error_set(error, STATUS_FAIL, "no temporary file: %s", strerror(errno));
    return NULL;
  }
  put_terminal(f, scripts, term, out);
  put_groups(f, set);
  int status = figure->draw(f, set, error);
  fprintf(f, "load plots.'/%s.gp'\n", figure->name);
  if (!status && (fflush(f) != 0 || ferror(f)))
    status = error_set(error, STATUS_FAIL, "temporary file: %s", strerror(errno));
  rewind(f);
  if (!status) return f;
  fclose(f);
  return NULL;
}

static int copy_out(FILE *script)
{
  char block[65536];
  for (size_t n; (n = fread(block, 1, sizeof block, script)) > 0;) fwrite(block, 1, n, stdout);
  return fflush(stdout) == 0 ? STATUS_OK : STATUS_FAIL;
}

static int make_figure(const struct plot_request *r, const struct figure *figure, const struct runset *set,
                       const char *scripts, const char *term, struct error *error)
{
  char out[4096] = "";
  if (!r->terminal) snprintf(out, sizeof out, "%s/%s.%s", r->folder, figure->name, term);
  FILE *script = make_script(figure, set, scripts, term, out, error);
  if (!script) return error->status;
  int status = r->script ? copy_out(script) : run_gnuplot(script, error);
  fclose(script);
  if (status && *error->text)
    error_prefix(error, "figure %s", figure->name);
  else if (!r->terminal && !r->script)
    printf("%s\n", out);
  return status;
}

static int make_figures(const struct plot_request *r, const struct runset *set, struct error *error)
{
  char scripts[4096], first[4200];
  int status = find_scripts(r, scripts, error);
  snprintf(first, sizeof first, "%s/x", r->folder);
  if (!status && set->groups > MOST_GROUPS)
    status = error_set(error, STATUS_USAGE,
                       "%d groups of runs (those that differ only in their seed are one); %d fit in a figure",
                       set->groups, MOST_GROUPS);
  if (!status && !r->terminal && !r->script) status = file_make_folders(first, error);
  for (int i = 0; i < FIGURES && !status; i++) {
    if (r->any_chosen ? !r->chosen[i] : (r->terminal && i > 0) || !has_rows(set, figures[i].needs)) continue;
    if (r->terminal && figures[i].no_text)
      return error_set(error, STATUS_USAGE, "figure %s: cannot be drawn with characters", figures[i].name);
    if (r->terminal)
      status = make_figure(r, &figures[i], set, scripts, "dumb", error);
    else {
      if (!r->format || strcmp(r->format, "svg") == 0)
        status = make_figure(r, &figures[i], set, scripts, "svg", error);
      if (!status && !(r->format && strcmp(r->format, "svg") == 0) && !(r->script && !r->format))
        status = make_figure(r, &figures[i], set, scripts, "png", error);
    }
  }
  return status;
}

/* --- command line -------------------------------------------------------------------------------------- */

enum { KEY_FORMAT = 256, KEY_FIGURE, KEY_SCRIPT, KEY_SCRIPTS };
static const struct argp_option options[] = {
  {"output", 'o', "DIR", 0, "Folder for the figures (default: figures)", 0},
  {"terminal", 't', NULL, 0, "Draw with characters, on standard output", 0},
  {"figure", KEY_FIGURE, "NAME", 0,
   "Only this figure: logits, heads, heatmap, loss, spectra (may be repeated)", 0},
  {"format", KEY_FORMAT, "svg|png", 0, "Only this format (default: both)", 0},
  {"script", KEY_SCRIPT, NULL, 0, "Print gnuplot's whole input, data included, and draw nothing", 0},
  {"scripts", KEY_SCRIPTS, "DIR", 0, "Folder of the plot scripts (also: MAXLOGIT_PLOTS)", 0},
  {0}};

static void choose_figure(struct plot_request *r, struct argp_state *state, const char *name)
{
  const char *names[FIGURES];
  for (int i = 0; i < FIGURES; i++) {
    names[i] = figures[i].name;
    if (strcmp(name, names[i]) != 0) continue;
    r->chosen[i] = r->any_chosen = 1;
    return;
  }
  const char *near = text_nearest(name, names, FIGURES);
  argp_error(state, "--figure=%s: no such figure%s%s%s", name, near ? "; did you mean '" : "",
             near ? near : "", near ? "'?" : "");
}

static error_t parse(int key, char *text, struct argp_state *state)
{
  struct plot_request *r = state->input;
  switch (key) {
  case 'o': r->folder = text; return 0;
  case 't': r->terminal = 1; return 0;
  case KEY_FIGURE: choose_figure(r, state, text); return 0;
  case KEY_FORMAT:
    if (strcmp(text, "svg") != 0 && strcmp(text, "png") != 0)
      argp_error(state, "--format=%s: svg or png is wanted", text);
    r->format = text;
    return 0;
  case KEY_SCRIPT: r->script = 1; return 0;
  case KEY_SCRIPTS: r->scripts = text; return 0;
  case ARGP_KEY_ARG: r->paths[r->path_count++] = text; return 0;
  case ARGP_KEY_END:
    if (r->path_count == 0) argp_error(state, "no run file given");
    return 0;
  }
  return ARGP_ERR_UNKNOWN;
}

static int run_plot(int argc, char **argv)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "RUN.h5 ...",
    .doc = "Draw figures of runs with gnuplot. A folder stands for all run files in it; runs that differ "
           "only in their seed become one curve with a band.\v"
           "maxlogit plot demo -o figures\nmaxlogit plot -t runs/a.h5 runs/b.h5",
  };
  struct plot_request r = {.folder = "figures"};
  struct runset set;
  struct error error = {0};
  r.paths = memory_new((size_t)argc, sizeof *r.paths);
  int status = argp_parse(&argp, argc, argv, 0, NULL, &r) ? STATUS_USAGE : STATUS_OK;
  if (!status) status = runset_open(&set, r.paths, r.path_count, RUNSET_RECORDED, &error);
  if (!status) {
    status = make_figures(&r, &set, &error);
    runset_close(&set);
  }
  if (*error.text) message("%s", error.text);
  memory_free(r.paths);
  return status;
}

const struct command command_plot = {
  .name = "plot",
  .arguments = "RUN.h5 ... [-o DIR]",
  .run = run_plot,
  .help = "figures: SVG, PNG, or in the terminal (-t)",
};
