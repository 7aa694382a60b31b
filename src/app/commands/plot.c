/* plot.c - figures: the numbers of a figure and its script of plots/, given to gnuplot */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "app/arms.h"
#include "app/command.h"
#include "app/figure.h"
#include "analysis/gnuplot.h"
#include "app/selection.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

struct plot_request {
  const char *x, *y; /* a metric over a parameter, instead of the figures of the registry */
  const char *of;    /* with x: y is a parameter too; with diff: the series */
  struct metric metric;
  int diff;
  struct arm_words words;
  struct figure_arms arms;
  struct figure_request request;
  struct chosen chosen_runs;
  const char *folder, *scripts, *format;
  int terminal, script, any_chosen;
  int *chosen; /* [figures] */
};

/* The whole input of gnuplot for one figure. */
static FILE *make_script(const struct plot_request *r, const struct figure *figure, const char *scripts,
                         const char *term, const char *out, struct error *error)
{
  FILE *f = gnuplot_file(error);
  if (!f) return NULL;
  gnuplot_terminal(f, scripts, term, out);
  if (!figure->asked) figure_put_groups(f, r->request.set);
  int status = figure->data(f, &r->request, error);
  fprintf(f, "load plots.'/%s.gp'\n", figure->name);
  if (!status && (fflush(f) != 0 || ferror(f)))
    status = error_set(error, STATUS_FAIL, "file in memory: %s", strerror(errno));
  if (!status) return f;
  fclose(f);
  return NULL;
}

/* Drawn, in the terminal or, whole, in a file; a failure leaves an older figure there. */
static int draw(const struct plot_request *r, FILE *script, const char *out, struct error *error)
{
  char *drawn;
  size_t length;
  int status = gnuplot_run(script, &drawn, &length, error);
  if (status) return status;
  if (r->terminal)
    fwrite(drawn, 1, length, stdout);
  else if (!(status = file_write(out, drawn, length, error)))
    printf("%s\n", out);
  memory_free(drawn);
  return status;
}

static void print_script(FILE *script)
{
  char block[65536];
  rewind(script);
  for (size_t n; (n = fread(block, 1, sizeof block, script)) > 0;) fwrite(block, 1, n, stdout);
}

static int make_figure(const struct plot_request *r, const struct figure *figure, const char *scripts,
                       const char *term, struct error *error)
{
  char out[4096] = "";
  if (!r->terminal) snprintf(out, sizeof out, "%s/%s.%s", r->folder, figure->name, term);
  FILE *script = make_script(r, figure, scripts, term, r->script ? out : "", error);
  int status = script ? STATUS_OK : error->status;
  if (script && r->script)
    print_script(script);
  else if (script)
    status = draw(r, script, out, error);
  if (script) fclose(script);
  return status ? error_prefix(error, "figure %s", figure->name) : STATUS_OK;
}

static int is_possible(const struct plot_request *r, int i, const struct runset *set)
{
  return figures[i]->needs && figure_needs(set, figures[i]->needs) && !(r->terminal && figures[i]->no_text);
}

/* Without a choice: all for which there is something to draw; in the terminal the first such one. */
static int is_wanted(const struct plot_request *r, int i, const struct runset *set)
{
  int first = 0;
  if (r->any_chosen) return r->chosen[i];
  if (!r->terminal) return is_possible(r, i, set);
  while (figures[first] && !is_possible(r, first, set)) first++;
  return i == (figures[first] ? first : 0);
}

/* In every form that is wanted: one script, one text, or a file a format. */
static int make_forms(const struct plot_request *r, const struct figure *figure, const char *scripts,
                      struct error *error)
{
  static const char *const pictures[] = {"svg", "png", NULL}, *const text[] = {"dumb", NULL};
  int status = STATUS_OK;
  for (const char *const *term = r->terminal ? text : pictures; *term && !status; term++) {
    if (!r->terminal && r->format && strcmp(*term, r->format) != 0) continue;
    status = make_figure(r, figure, scripts, *term, error);
    if (r->script) break; /* one script a figure */
  }
  return status;
}

static int make_figures(struct plot_request *r, struct error *error)
{
  const struct runset *set = r->request.set;
  char scripts[4096], first[4200];
  int drawn = 0;
  int status = gnuplot_scripts(r->scripts, scripts, error);
  snprintf(first, sizeof first, "%s/x", r->folder);
  const struct figure *asked = r->x || r->diff ? figure_find(r->diff ? "difference"
                                                             : r->of ? "map"
                                                                     : "parameter")
                                               : NULL;
  if (!status && !asked) status = figure_fits(set, error);
  if (!status && !r->terminal && !r->script) status = file_make_folders(first, error);
  if (!status && asked) return make_forms(r, asked, scripts, error);
  for (int i = 0; figures[i] && !status; i++) {
    if (!is_wanted(r, i, set)) continue;
    if (r->terminal && figures[i]->no_text)
      return error_set(error, STATUS_USAGE, "figure %s: cannot be drawn with characters", figures[i]->name);
    status = make_forms(r, figures[i], scripts, error);
    drawn += !status;
    if (status == STATUS_USAGE && !r->any_chosen && !r->terminal && (drawn || figures[i + 1])) {
      warning("%s; left out", error->text); /* not asked for, and others can be drawn */
      *error = (struct error){0};
      status = STATUS_OK;
    }
  }
  return status;
}

/* --- command line -------------------------------------------------------------------------------------- */

enum { KEY_FORMAT = 256, KEY_FIGURE, KEY_SCRIPT, KEY_SCRIPTS, KEY_X, KEY_Y, KEY_OF, KEY_DIFF };
static const struct argp_option options[] = {
  {"output", 'o', "DIR", 0, "Folder for the figures (default: figures)", 0},
  {"terminal", 't', NULL, 0, "Draw with characters, on standard output", 0},
  {"figure", KEY_FIGURE, "NAME", 0, "Only this figure (may be repeated): ", 0}, /* its names: explain() */
  {"x", KEY_X, "KEY", 0,
   "A metric (--y) against this parameter, train.lr say; a curve for each kind, or for each value of --by",
   0},
  {"y", KEY_Y, "METRIC", 0,
   "The metric: val (default), peak, or as in maxlogit show --of. With --of a second parameter", 0},
  {"of", KEY_OF, "METRIC", 0,
   "With --x KEY --y KEY: a map of this metric over both, a panel for each kind, or for each value of --by. "
   "With --diff: the series (default: attn/max_logit)",
   0},
  {"diff", KEY_DIFF, NULL, 0,
   "Two arms, as maxlogit compare takes them, over the steps: the mean of B - A over pairs of equal seed, "
   "with its "
   "interval; of logits B / A by logarithms, of a series per head the largest; with --by KEYS a curve for "
   "each of "
   "their values",
   0},
  {"format", KEY_FORMAT, "svg|png", 0, "Only this format (default: both)", 0},
  {"script", KEY_SCRIPT, NULL, 0, "Print gnuplot's whole input, data included, and draw nothing", 0},
  {"scripts", KEY_SCRIPTS, "DIR", 0, "Folder of the plot scripts (also: MAXLOGIT_PLOTS)", 0},
  {0}};

static char *explain(int key, const char *text, void *input)
{
  struct buffer b = {0};
  (void)input;
  if (key != KEY_FIGURE) return (char *)text;
  buffer_add(&b, "%s", text);
  for (int i = 0; figures[i]; i++)
    buffer_add(&b, "%s%s (%s%s%s)", i ? "; " : "", figures[i]->name, figures[i]->help,
               figures[i]->asked ? ": by " : "", figures[i]->asked ? figures[i]->asked : "");
  char *copy = strdup(b.text); /* argp frees it */
  memory_free(b.text);
  return copy;
}

static int figure_count(void)
{
  int n = 0;
  while (figures[n]) n++;
  return n;
}

static void choose_figure(struct plot_request *r, struct argp_state *state, const char *name)
{
  const char *names[64];
  int count = figure_count();
  for (int i = 0; i < count && i < 64; i++) {
    names[i] = figures[i]->name;
    if (strcmp(name, names[i]) != 0) continue;
    if (figures[i]->asked) argp_error(state, "--figure=%s: it is drawn by %s", name, figures[i]->asked);
    r->chosen[i] = r->any_chosen = 1;
    return;
  }
  const char *near = text_nearest(name, names, (size_t)(count < 64 ? count : 64));
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
  case KEY_X: r->x = text; return 0;
  case KEY_Y: r->y = text; return 0;
  case KEY_OF: r->of = text; return 0;
  case KEY_DIFF: r->diff = 1; return 0;
  case ARGP_KEY_ARG: return r->diff && arm_word(&r->words, text, state) ? 0 : ARGP_ERR_UNKNOWN;
  case KEY_SCRIPT: r->script = 1; return 0;
  case KEY_SCRIPTS: r->scripts = text; return 0;
  case ARGP_KEY_INIT: state->child_inputs[0] = &r->chosen_runs; return 0;
  case ARGP_KEY_END:
    if (r->diff) arm_words_end(&r->words, &r->chosen_runs.selection, state);
    if (r->diff && (r->x || r->y)) argp_error(state, "--diff and --x or --y do not go together");
    if (r->of && !r->diff && !(r->x && r->y))
      argp_error(state, "--of=%s: over what? --x KEY --y KEY, or --diff", r->of);
    if (r->of && r->x && !strcmp(r->x, r->y)) argp_error(state, "--x and --y are the same key");
    if (r->y && !r->x) argp_error(state, "--y=%s: against what? --x KEY", r->y);
    if ((r->x || r->diff) && r->any_chosen)
      argp_error(state, "--figure and --x or --diff do not go together");
    return 0;
  }
  return ARGP_ERR_UNKNOWN;
}

/* Both arms; the figure's own set is then theirs. */
static int draw_difference(struct plot_request *r, struct error *error)
{
  struct figure_arms *d = &r->arms;
  d->series = r->of ? r->of : "attn/max_logit";
  d->ratio = strstr(d->series, "logit") != NULL;
  r->request = (struct figure_request){.by = r->chosen_runs.selection.by, .arms = d};
  int status = STATUS_OK;
  for (int i = 0; i < 2 && !status; i++)
    status = arm_select(&d->set[i], &d->name[i], &r->chosen_runs.selection, &r->words, i, error);
  if (!status) status = make_figures(r, error);
  for (int i = 0; i < 2; i++) {
    if (!status) status = d->set[i].damage;
    runset_close(&d->set[i]);
  }
  return status;
}

/* That they are keys is asked here, where they bear their options' names. */
static int check_axes(const struct plot_request *r, struct error *error)
{
  struct key_list keys;
  if (key_list_read(&keys, "--x", r->x, error)) return error->status;
  key_list_free(&keys);
  if (!r->of) return STATUS_OK;
  if (key_list_read(&keys, "--y", r->y, error)) return error->status;
  key_list_free(&keys);
  return STATUS_OK;
}

static int draw_set(struct plot_request *r, struct error *error)
{
  struct selection *selection = &r->chosen_runs.selection;
  struct buffer by = {0};
  struct runset set;
  int status = STATUS_OK;
  const char *kinds = selection->by ? selection->by : "kind";
  if (r->x) { /* a group for each value of x (and y); neighbours make a curve, or a panel */
    const char *metric = r->of ? r->of : r->y ? r->y : "val";
    buffer_add(&by, "%s%s%s,%s", kinds, r->of ? "," : "", r->of ? r->y : "", r->x);
    selection->by = by.text;
    status = check_axes(r, error);
    if (!status) status = metric_read(&r->metric, metric, error);
    if (!status && !r->y)
      message("plot: val, the last validation loss, over %s; --y METRIC draws another", r->x);
  }
  if (!status) status = runset_select(&set, selection, RUNSET_RECORDED | (r->x ? RUNSET_ONCE : 0), error);
  if (!status) {
    r->request = (struct figure_request){
      .set = &set, .x = r->x, .y = r->of ? r->y : NULL, .by = kinds, .metric = &r->metric};
    status = make_figures(r, error);
    if (!status) status = set.damage;
    runset_close(&set);
  }
  memory_free(by.text);
  return status;
}

static int run_plot(int argc, char **argv)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .help_filter = explain,
    .children = selection_child,
    .args_doc = "RUN.h5 ...",
    .doc = "Draw figures of runs with gnuplot. " SELECTION_HELP " Runs that differ "
           "only in their seed become one curve with a band.\v"
           "maxlogit plot demo -o figures\nmaxlogit plot -t runs/a.h5 runs/b.h5\n"
           "maxlogit plot sweep --x train.lr --y val --by optimizer\n"
           "maxlogit plot sweep --x train.lr --y train.weight_decay --of peak\n"
           "maxlogit plot --diff sweep kind=muon kind=muonclip --of val_loss\n"
           "maxlogit plot sweep --where 'kind=muon,adam & train.lr<0.02'",
  };
  struct plot_request r = {.folder = "figures"};
  struct error error = {0};
  r.chosen = memory_new((size_t)figure_count(), sizeof *r.chosen);
  int status = argp_parse(&argp, argc, argv, 0, NULL, &r) ? STATUS_USAGE : STATUS_OK;
  if (!status) status = r.diff ? draw_difference(&r, &error) : draw_set(&r, &error);
  if (*error.text) message("%s", error.text);
  chosen_free(&r.chosen_runs);
  memory_free(r.chosen);
  return status;
}

const struct command command_plot = {
  .name = "plot",
  .arguments = "RUN.h5 ... [-o DIR]",
  .run = run_plot,
  .help = "figures: SVG, PNG, or in the terminal (-t)",
};
