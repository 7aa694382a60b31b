/* plot.c - figures: the numbers of a figure and its script of plots/, given to gnuplot */
#include <stdlib.h>
#include <string.h>
#include "app/arms.h"
#include "app/command.h"
#include "app/figure.h"
#include "analysis/gnuplot.h"
#include "app/selection.h"
#include "app/text_page.h"
#include "base/file.h"
#include "base/markup.h"
#include "base/memory.h"
#include "base/text.h"

struct options {
  struct selected_runs chosen;
  const char *x, *y; /* a metric over a parameter, instead of the figures of the registry */
  const char *of;    /* with x: y is a parameter too; with diff: the series */
  const char *output, *size, *font;
  long diff, terminal, script, no_title, sort_heads, format; /* format: of pictures, or -1 */
  struct gnuplot_page page;
  struct words figure, series;
  long over;
  int scatter; /* --x is a metric */
  struct metric metric[2], curve[FIGURE_SERIES];
  struct figure_arms arms;
  struct figure_request request;
};
static const char *const pictures[] = {"svg", "png", "pdf", NULL};
static const char *const over_names[] = {"step", "tokens", NULL};
enum { BY_ITSELF = 2 }; /* so many of them without --format */

/* The texts that screen readers and browsers show, in place of "Gnuplot" and "Produced by GNUPLOT"; and its size on
   paper. */
static char *with_title(char *svg, FILE *script, const struct gnuplot_page *page, size_t *length)
{
  struct script_values *values = script_values_read(script);
  const char *heading = script_text(values, "heading", 0), *about = script_text(values, "about", 0);
  char *title = strstr(svg, "<title>"), *end = strstr(svg, "</desc>");
  if (title && end && title < end && heading) {
    struct buffer out = {0};
    double wide = 0, high = 0;
    char *size = strstr(svg, "width=\""), *past = strstr(svg, "viewBox=");
    if (page->width > 0 && size && past && size < past &&
        sscanf(size, "width=\"%lf\" height=\"%lf\"", &wide, &high) == 2) {
      buffer_add(&out, "%.*swidth=\"%.4gin\" height=\"%.4gin\"\n ", (int)(size - svg), svg, page->width,
                 page->width * high / wide);
      buffer_add(&out, "%.*s", (int)(title - past), past);
    } else
      buffer_add(&out, "%.*s", (int)(title - svg), svg);
    markup_add(&out, "<title>%s</title>\n<desc>%s%s%s</desc>", heading, heading, about && *about ? ". " : "",
               about ? about : "");
    for (const char *at = end + strlen("</desc>"), *bold; *at; at = bold ? bold + strlen(":Bold\"") : "") {
      bold = strstr(at, ":Bold\""); /* gnuplot takes it for a part of the family's name */
      buffer_add(&out, "%.*s%s", bold ? (int)(bold - at) : (int)strlen(at), at,
                 bold ? "\" font-weight=\"bold\"" : "");
    }
    memory_free(svg);
    svg = out.text;
    *length = out.length;
  }
  script_values_free(values);
  return svg;
}

/* With characters; a script is that of a picture. */
static int in_terminal(const struct options *r) { return r->terminal && !r->script; }

/* Drawn, whole, in a file; a failure leaves an older figure there. */
static int draw(const struct options *r, FILE *script, const char *out, struct error *error)
{
  char *drawn;
  size_t length;
  int status = gnuplot_run(script, &drawn, &length, error);
  if (status) return status;
  drawn = with_title(drawn, script, &r->page, &length);
  status = file_write(out, drawn, length, error);
  if (!status) printf("%s\n", out);
  memory_free(drawn);
  return status;
}

static void print_script(FILE *script)
{
  char block[65536];
  rewind(script);
  for (size_t n; (n = fread(block, 1, sizeof block, script)) > 0;) fwrite(block, 1, n, stdout);
}

static void print_text(const struct figure *figure, FILE *script)
{
  struct script_values *values = script_values_read(script);
  struct text_page page = text_page_begin(values);
  text_page_print(&page, figure->text);
  script_values_free(values);
}

static int make_figure(const struct options *r, const struct figure *figure, const char *scripts,
                       const char *term, struct error *error)
{
  char out[4096] = "";
  if (!in_terminal(r)) snprintf(out, sizeof out, "%s/%s.%s", r->output, figure->name, term);
  FILE *script = figure_script(figure, &r->request, scripts, term, r->script ? out : "", &r->page, error);
  int status = script ? STATUS_OK : error->status;
  if (script && r->script)
    print_script(script);
  else if (script && r->terminal)
    print_text(figure, script);
  else if (script)
    status = draw(r, script, out, error);
  if (script) fclose(script);
  return status ? error_prefix(error, "figure %s", figure->name) : STATUS_OK;
}

static int is_possible(int i, const struct runset *set)
{
  return figures[i]->needs && figure_needs(set, figures[i]->needs);
}

/* Without a choice: all for which there is something to draw; in the terminal the first such one. */
static int is_wanted(const struct options *r, int i, const struct runset *set)
{
  int first = 0;
  for (int k = 0; k < r->figure.count; k++)
    if (!strcmp(r->figure.word[k], figures[i]->name)) return 1;
  if (r->figure.count) return 0;
  if (!r->terminal) return is_possible(i, set);
  while (figures[first] && !is_possible(first, set)) first++;
  return i == (figures[first] ? first : 0);
}

/* In every form that is wanted: one script, one text, or a file a format. */
static int make_forms(const struct options *r, const struct figure *figure, const char *scripts,
                      struct error *error)
{
  int status = STATUS_OK;
  for (const char *const *term = pictures; *term && !status; term++) {
    if (r->format >= 0 ? term != &pictures[r->format] : term >= pictures + BY_ITSELF) continue;
    status = make_figure(r, figure, scripts, *term, error);
    if (r->script || r->terminal) break;
  }
  return status;
}

static int make_figures(struct options *r, struct error *error)
{
  const struct runset *set = r->request.set;
  char scripts[4096] = "", first[4200];
  int drawn = 0, failed = 0;
  int status = in_terminal(r) ? STATUS_OK : gnuplot_scripts(scripts, error);
  snprintf(first, sizeof first, "%s/x", r->output);
  const char *name = r->diff           ? "difference"
                     : r->series.count ? "series"
                     : r->scatter      ? "scatter"
                     : r->x            ? (r->of ? "map" : "parameter")
                                       : NULL;
  const struct figure *asked = name ? figure_find(name) : NULL;
  if (!status && (!asked || r->series.count || r->scatter)) status = figure_fits(set, error);
  if (!status && !r->terminal && !r->script) status = file_make_folders(first, error);
  if (!status && asked) return make_forms(r, asked, scripts, error);
  for (int i = 0; figures[i] && !status; i++) {
    if (!is_wanted(r, i, set)) continue;
    status = make_forms(r, figures[i], scripts, error);
    drawn += !status;
    if (!status || r->figure.count || r->terminal || !(drawn || figures[i + 1])) continue;
    if (status != STATUS_USAGE && status != STATUS_FAIL) continue;
    failed |= status == STATUS_FAIL;
    warning("%s; left out", error->text); /* not asked for, and others can be drawn */
    *error = (struct error){0};
    status = STATUS_OK;
  }
  return !status && failed ? STATUS_FAIL : status;
}

/* --- command line -------------------------------------------------------------------------------------- */

static void add_figures(struct buffer *b)
{
  for (int i = 0; figures[i]; i++)
    buffer_add(b, "%s%s (%s%s%s)", i ? "; " : "", figures[i]->name, figures[i]->help,
               figures[i]->asked ? ": by " : "", figures[i]->asked ? figures[i]->asked : "");
}

static const struct command_option options[] = {
  TEXT(output, 'o', "DIR", "figures",
       "Folder for the figures; those that it has of these names are replaced"),
  FLAG(terminal, 't', "Draw with characters, on standard output"),
  {.row = {.name = "figure",
           .type = OPTION_TEXT,
           .offset = offsetof(struct options, figure),
           .choices = figure_names,
           .help = "Only this figure (may be repeated): ",
           .flags = OPTION_MANY},
   .argument = "NAME",
   .tell = add_figures},
  MANY(
    series, "SERIES",
    "Any series over the steps: NAME, NAME@PATTERN (heads l0h0, layers l0, tensors), NAME:REDUCTION (mean, "
    "max, min, median, over=X of the values of a step; without it the max of logits and the mean of all "
    "else). Repeated: a panel for each. maxlogit export --list names them"),
  CHOICE(over, 0, over_names, "step", "What --series is drawn over"),
  TEXT(x, 0, "KEY|METRIC", NULL,
       "A metric (--y) against this parameter, train.lr say; a curve for each kind, or for each value of "
       "--by. Or against another metric, peak say: a point for each run, the mean of each group, and the "
       "front"),
  TEXT(y, 0, "METRIC", NULL,
       "The metric: val (default), peak, or as in maxlogit show --of. With --of a second parameter"),
  TEXT(of, 0, "METRIC", NULL,
       "With --x KEY --y KEY: a map of this metric over both, a panel for each kind, or for each value of "
       "--by. With --diff: the series, as in --series (default: attn/max_logit)"),
  FLAG(diff, 0,
       "Two arms, as maxlogit compare takes them, over the steps: the mean of B - A over pairs of equal "
       "seed, with its interval; of logits B / A by logarithms; with --by KEYS a curve for each of their "
       "values"),
  CHOICE(format, 0, pictures, NULL, "Only this format (default: svg and png)"),
  TEXT(size, 0, "WIDTH[,HEIGHT]", NULL,
       "Size on paper, 3.3in for a column, say, or 84mm,60mm; text then has 6 pt at least"),
  TEXT(font, 0, "FAMILY", NULL, "Font family (default DejaVu Sans)"),
  FLAG(sort_heads, 0, "Of --figure=heads: the panels in the order of the heads' largest values"),
  FLAG(no_title, 0, "Neither heading nor explanation: the caption has them"),
  FLAG(script, 0, "Print gnuplot's whole input, data included, and draw nothing"),
  NO_OPTION,
};

static int is_key(const char *text)
{
  struct key_list keys;
  struct error e = {0};
  int status = key_list_read(&keys, "--x", text, NULL, &e);
  if (!status) key_list_free(&keys);
  return !status;
}

/* A short name of a metric, or a text with a series in it: "attn/entropy:last:mean", val_loss. */
static int is_metric(const char *text)
{
  return metric_named(text) || strpbrk(text, "/:") || text_ends_with(text, "loss");
}

/* Do the options go together? */
static int check_options(const struct options *r, struct error *e)
{
  for (int i = 0; i < r->figure.count; i++) {
    const struct figure *f = figure_find(r->figure.word[i]);
    if (f->asked) return error_set(e, STATUS_USAGE, "plot --figure=%s: it is drawn by %s", f->name, f->asked);
  }
  if (r->diff && (r->x || r->y))
    return error_set(e, STATUS_USAGE, "plot: --diff and --x or --y do not go together");
  if (r->series.count && (r->x || r->y || r->diff || r->of || r->figure.count))
    return error_set(e, STATUS_USAGE, "plot: --series and --%s do not go together",
                     r->diff           ? "diff (its series: --of)"
                     : r->figure.count ? "figure"
                     : r->of           ? "of"
                                       : "x or --y");
  if (r->series.count > FIGURE_SERIES)
    return error_set(e, STATUS_USAGE, "plot: %d series; %d fit in a figure", r->series.count, FIGURE_SERIES);
  if (r->over && !r->series.count)
    return error_set(e, STATUS_USAGE, "plot --over=%s: of what? --series NAME", over_names[r->over]);
  if (r->of && !r->diff && !(r->x && r->y))
    return error_set(e, STATUS_USAGE,
                     "plot --of=%s: over what? --x KEY --y KEY, or --diff; over the steps: --series %s",
                     r->of, r->of);
  if (r->of && r->x && !strcmp(r->x, r->y))
    return error_set(e, STATUS_USAGE, "plot: --x and --y are the same key");
  if (r->y && !r->x)
    return error_set(e, STATUS_USAGE,
                     "plot --y=%s: against what? --x KEY, --x METRIC, or over the steps: --series", r->y);
  if (r->x && r->scatter && (!r->y || r->of))
    return error_set(e, STATUS_USAGE, "plot --x=%s: a metric; against which other? --y METRIC%s", r->x,
                     r->of ? " (--of is for two keys)" : "");
  if ((r->x || r->diff) && r->figure.count)
    return error_set(e, STATUS_USAGE, "plot: --figure and --x or --diff do not go together");
  if (r->x && r->y && !r->of && is_key(r->y))
    return error_set(e, STATUS_USAGE,
                     r->scatter
                       ? "plot --y=%s: a key; keys go along x: --x %s --y %s"
                       : "plot --y=%s: a key; over two keys a metric is wanted: --x KEY --y %s --of METRIC",
                     r->y, r->y, r->x);
  return STATUS_OK;
}

/* Both arms; the figure's own set is then theirs. */
static int draw_difference(struct options *r, struct error *error)
{
  struct figure_arms *d = &r->arms;
  if (curve_read(r->curve, r->of ? r->of : "attn/max_logit", error)) return error->status;
  d->series = r->curve;
  d->ratio = strstr(d->series->series, "logit") != NULL && d->series->reduction != TAKE_OVER;
  r->request = (struct figure_request){.by = r->chosen.selection.by, .arms = d};
  int status = arms_select(d->set, d->name, &r->chosen, error);
  if (!status) status = make_figures(r, error);
  for (int i = 0; i < 2; i++) {
    if (!status) status = runset_damage(&d->set[i]);
    runset_close(&d->set[i]);
  }
  return status;
}

/* Metrics may stand along x, too. */
static void name_metrics(struct error *error)
{
  struct error why = *error;
  if (strncmp(why.text, "--x ", 4) != 0 || !strstr(why.text, "no such key")) return;
  *error = (struct error){0};
  error_set(error, why.status, "%.1500s; a metric may stand along x, too: peak, val, SERIES:last:mean, ...",
            why.text);
}

static int is_axis(const struct options *r, const char *key)
{
  return (r->x && !strcmp(r->x, key)) || (r->of && !strcmp(r->y, key));
}

/* What separates curves or panels: the kind; where an axis is a part of it, the other parts. */
static const char *kinds_of(const struct options *r)
{
  const int optimizer = is_axis(r, "optimizer"), stabilizers = is_axis(r, "stabilizers");
  if (r->chosen.selection.by) return r->chosen.selection.by;
  return is_axis(r, "kind") || (optimizer && stabilizers) ? "data"
         : optimizer                                      ? "stabilizers"
         : stabilizers                                    ? "optimizer"
                                                          : "kind";
}

static int draw_set(struct options *r, struct error *error)
{
  struct selection *selection = &r->chosen.selection;
  struct buffer by = {0};
  struct runset set;
  int status = STATUS_OK;
  const char *kinds = kinds_of(r);
  for (int i = 0; i < r->series.count && !status; i++)
    status = curve_read(&r->curve[i], r->series.word[i], error);
  if (r->scatter) {
    status = metric_read(&r->metric[0], r->x, error);
    if (!status) status = metric_read(&r->metric[1], r->y, error);
  } else if (r->x) { /* a group for each value of x (and y); neighbours make a curve, or a panel */
    const char *metric = r->of ? r->of : r->y ? r->y : "val";
    buffer_add(&by, "%s%s%s,%s", kinds, r->of ? "," : "", r->of ? r->y : "", r->x);
    selection->by = by.text, selection->x = r->x, selection->y = r->of ? r->y : NULL;
    status = metric_read(r->metric, metric, error);
  }
  if (!status)
    status = runset_select(&set, selected_runs_open(&r->chosen), RUNSET_RECORDED | RUNSET_ONCE, error);
  if (status) name_metrics(error);
  if (!status) {
    if (r->x && !r->y)
      message("plot: val, the last validation loss, over %s; --y METRIC draws another", r->x);
    r->request = (struct figure_request){.set = &set,
                                         .x = r->x,
                                         .y = r->of ? r->y : NULL,
                                         .by = kinds,
                                         .metric = r->metric,
                                         .series = r->curve,
                                         .series_count = r->series.count,
                                         .tokens = (int)r->over,
                                         .sort_heads = (int)r->sort_heads};
    status = make_figures(r, error);
    if (!status) status = runset_damage(&set);
    runset_close(&set);
  }
  memory_free(by.text);
  return status;
}

static int plot(void *request, struct error *error)
{
  struct options *r = request;
  r->scatter = r->x && is_metric(r->x) && !is_key(r->x);
  int status = check_options(r, error);
  if (!status && r->size) status = gnuplot_size(r->size, &r->page, error);
  r->page.font = r->font, r->page.no_title = (int)r->no_title;
  return status ? status : (r->diff ? draw_difference : draw_set)(r, error);
}

const struct command command_plot = {
  .name = "plot",
  .arguments = "RUN.h5 ...",
  .help = "figures: SVG, PNG, PDF, or in the terminal (-t)",
  .about = "Draw figures of runs with gnuplot, or with characters. " SELECTION_HELP
           " Runs that differ only in their seed become one curve "
           "with a band.",
  .more = "maxlogit plot demo -o figures\n"
          "maxlogit plot -t runs/a.h5 runs/b.h5\n"
          "maxlogit plot sweep --x train.lr --y val --by optimizer\n"
          "maxlogit plot sweep --x train.lr --y train.weight_decay --of peak\n"
          "maxlogit plot sweep --series 'attn/entropy@l1h*:mean'\n"
          "maxlogit plot sweep --x peak --y val --size 3.3in --format pdf --no-title\n"
          "maxlogit plot --diff sweep kind=muon kind=muonclip --of val_loss\n"
          "maxlogit plot sweep --where 'kind=muon,adam & train.lr<0.02'",
  OPTIONS,
  .shared = selection_options,
  .wanted = "which runs?",
  .most = MANY_WORDS,
  .run = plot,
};
