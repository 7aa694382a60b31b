/* show.c - a summary of runs: one line a run, or one a group over its seeds */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "app/command.h"
#include "app/measures.h"
#include "app/post_mortem.h"
#include "app/selection.h"
#include "app/sensitivity.h"
#include "app/summary.h"
#include "analysis/dead.h"
#include "analysis/json.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "config/config.h"

enum form { FORM_RUNS, FORM_GROUPS, FORM_PARAMETERS, FORM_EVENTS, FORM_WHY, FORM_DEAD, FORM_SENSITIVITY };
struct options {
  struct selected_runs chosen;
  const char *of, *baseline, *sensitivity;
  long group, parameters, events, why, json, csv, mean; /* mean: enum measures_mean, or -1 */
  double dead;                                          /* the share, or -1 */
  enum form form;
};

enum {
  LOSS,
  VAL,
  PEAK,
  LAST,
  CLIPS,
  NUMBERS
}; /* of the last row but PEAK, of the whole run, and events of kind clip */
struct summary {
  double number[NUMBERS], lr; /* may be missing; lr is train.lr */
  int has_loss, has_val;      /* else there is no row */
  struct place peak, last;    /* max logits */
  long steps;                 /* updates done */
  struct notes notes;
};

/* --- reading ------------------------------------------------------------------------------------------- */

static void summarise(const struct run *run, struct summary *out)
{
  struct run_event *events = NULL;
  long count = 0;
  run_events(run->file, &events, &count, NULL); /* the other runs are shown all the same */
  *out = (struct summary){.lr = run_number(run, "train.lr", NAN), .steps = run_last_step(run->file)};
  out->has_loss = summary_last(run->file, "loss", &out->number[LOSS]);
  out->has_val = summary_last(run->file, "val_loss", &out->number[VAL]);
  for (long i = 0; i < count; i++) out->number[CLIPS] += strcmp(events[i].kind, "clip") == 0;
  memory_free(events);
  summary_places(run->file, &out->peak, &out->last);
  out->number[PEAK] = out->peak.value, out->number[LAST] = out->last.value;
  run_notes(run->file, &out->notes, NULL);
  run_rest(run->file);
}

/* --- text ---------------------------------------------------------------------------------------------- */

static const char *stack_of(const struct run *run)
{
  const char *stabilizers = run_parameter(run->file, "stabilizers");
  return stabilizers ? stabilizers : "none";
}

static void place_text(const struct place *p, char out[32])
{
  char place[32];
  if (isnan(p->step))
    snprintf(out, 32, "-");
  else
    snprintf(out, 32, "%.4g%s%s", p->value, p->layer < 0 ? "" : " ", summary_place(p, place));
}

/* The columns of keys in which the runs differ, each as wide as its widest value. */
struct extra_columns {
  struct key_list keys, rest; /* rest: named below */
  int *width;
};

static const char *extra_name(const struct key_list *keys, int k)
{
  static const char *const others[] = {"kind",  "stabilizers", "lr",   "seed",  "state",
                                       "steps", "loss",        "last", "clips", "file"};
  const char *name = key_list_short(keys, k);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (!strcmp(others[i], name)) return keys->name[k];
  return name;
}

static const char *extra_value(const struct run *run, const char *key, char room[RUN_VALUE])
{
  const char *value = run_value(run, key, room);
  return *value ? value : "-";
}

static struct extra_columns extra_columns(const struct runset *set)
{
  struct extra_columns x;
  char room[RUN_VALUE];
  runset_text_columns(set, "train.lr", &x.keys, &x.rest);
  x.width = memory_new((size_t)x.keys.count + 1, sizeof *x.width);
  for (int k = 0; k < x.keys.count; k++) {
    x.width[k] = (int)strlen(extra_name(&x.keys, k));
    for (int i = 0; i < set->runs; i++) {
      int length = (int)strlen(extra_value(&set->run[i], x.keys.name[k], room));
      if (length > x.width[k]) x.width[k] = length;
    }
  }
  return x;
}

static void print_run(const struct run *run, const struct summary *s, int width,
                      const struct extra_columns *x)
{
  char room[RUN_VALUE];
  char peak[32], final[32], loss[32], val[32], lr[32] = "-"; /* "-": of a checkpoint */
  place_text(&s->peak, peak);
  place_text(&s->last, final);
  summary_number(s->has_loss, s->number[LOSS], loss);
  summary_number(s->has_val, s->number[VAL], val);
  if (!isnan(s->lr)) snprintf(lr, sizeof lr, "%.4g", s->lr);
  printf("%-*s %-12s %-8s %4ld %-9s %6ld %7s %7s  %-14s %-14s %6.0f %7.1f  ", width, run->kind, stack_of(run),
         lr, run->seed, run_shown_state(run->file), s->steps, loss, val, peak, final, s->number[CLIPS],
         run_wall_seconds(run->file));
  for (int k = 0; k < x->keys.count; k++)
    printf("%-*s  ", x->width[k], extra_value(run, x->keys.name[k], room));
  printf("%s\n", text_file_name(run->shown));
}

static void print_runs(const struct runset *set, const struct summary *summaries)
{
  int width = 10;
  struct extra_columns x = extra_columns(set);
  for (int i = 0; i < set->runs; i++)
    if ((int)strlen(set->run[i].kind) > width) width = (int)strlen(set->run[i].kind);
  printf("%-*s %-12s %-8s %4s %-9s %6s %7s %7s  %-14s %-14s %6s %7s  ", width, "kind", "stabilizers", "lr",
         "seed", "state", "steps", "loss", "val", "peak max logit", "last", "clips", "wall s");
  for (int k = 0; k < x.keys.count; k++) printf("%-*s  ", x.width[k], extra_name(&x.keys, k));
  printf("file\n");
  for (int i = 0; i < set->runs; i++) print_run(set->list[i], &summaries[set->list[i] - set->run], width, &x);
  measures_print_rest(&x.rest);
  key_list_free(&x.keys);
  memory_free(x.width);
}

static void print_notes(const struct runset *set, const struct summary *summaries)
{
  for (int i = 0; i < set->runs; i++) {
    const struct notes *n = &summaries[set->list[i] - set->run].notes;
    char before[300];
    snprintf(before, sizeof before, "note  %s  ", text_file_name(set->list[i]->shown));
    for (int k = 0; k < n->count; k++) summary_note(before, &n->note[k]);
  }
}

/* The numbers of a group, of max logits the geometric mean. Runs that failed are left out. */
static struct run_failures summarise_group(const struct run_group *group, const struct summary *s,
                                           struct interval out[NUMBERS])
{
  double *values = memory_new((size_t)group->count, sizeof *values);
  for (int k = 0; k < NUMBERS; k++) {
    int n = 0;
    for (int i = 0; i < group->count; i++)
      if (!run_has_failed(&group->run[i]) && !is_missing(s[i].number[k])) values[n++] = s[i].number[k];
    out[k] = interval_of(values, n, k == PEAK || k == LAST);
  }
  memory_free(values);
  return run_group_failures(group);
}

static void print_plus_minus(const struct interval *i)
{
  char mean[32];
  summary_number(i->n > 0, i->mean, mean);
  if (i->n < 2 || !isfinite(i->mean))
    printf("  %7s %-9s", mean, "");
  else
    printf("  %7s \302\261 %-7.4f", mean, i->hi - i->mean);
}

static void print_between(const struct interval *i)
{
  char text[48];
  if (i->n < 1)
    snprintf(text, sizeof text, "-");
  else if (!isfinite(i->mean))
    table_number(i->mean, text);
  else if (i->n < 2)
    snprintf(text, sizeof text, "%.4g", i->mean);
  else
    snprintf(text, sizeof text, "%.4g [%.4g, %.4g]", i->mean, i->lo, i->hi);
  printf("  %-24s", text);
}

static void print_groups(const struct runset *set, const struct summary *summaries, const char *by)
{
  int width = 10, failed = 0, unfinished = 0, seeds = runset_over_seeds(set);
  for (int g = 0; g < set->groups; g++)
    if ((int)strlen(set->group[g].label) > width) width = (int)strlen(set->group[g].label);
  printf("%-*s %5s %8s %8s  %-17s  %-17s  %-24s  %-24s %8s\n", width, "group", seeds ? "seeds" : "runs",
         "diverged", "blown up", "loss", "val", "peak max logit", "last max logit", "clips");
  for (int g = 0; g < set->groups; g++) {
    const struct run_group *group = &set->group[g];
    struct interval number[NUMBERS];
    struct run_failures f = summarise_group(group, summaries + (group->run - set->run), number);
    printf("%-*s %5d %8d %8d", width, group->label, group->count, f.diverged, f.blown_up);
    for (int k = LOSS; k <= VAL; k++) print_plus_minus(&number[k]);
    for (int k = PEAK; k <= LAST; k++) print_between(&number[k]);
    if (number[CLIPS].n)
      printf(" %8.1f\n", number[CLIPS].mean);
    else
      printf(" %8s\n", "-");
    failed += f.diverged + f.blown_up;
    unfinished += run_group_unfinished(group);
  }
  printf("Mean and 95 %% interval over %s%s (Student's t); of max logits the geometric mean.%s",
         seeds ? "seeds" : "runs that have the same ", seeds ? "" : by, failed ? MEASURES_FAILED : "");
  measures_print_unfinished(unfinished);
}

static int print_parameter(void *context, const char *key, const char *value)
{
  struct buffer text = {0};
  (void)context;
  if (!strcmp(key, "record.overwrite")) return 0; /* of this one run, not of its repetitions */
  config_quote(&text, value);
  printf("%s = %s\n", key, text.text ? text.text : "");
  memory_free(text.text);
  return 0;
}

/* An event of the whole step has neither layer nor head. */
static const char *place_or_none(int at, char out[16])
{
  snprintf(out, 16, at < 0 ? "-" : "%d", at);
  return out;
}

static int print_events(const struct run *run, struct error *error)
{
  struct run_event *events;
  long count;
  int status = run_events(run->file, &events, &count, error);
  if (status) return status;
  printf("# step kind layer head value\n");
  for (long i = 0; i < count; i++) {
    char value[32], layer[16], head[16];
    printf("%ld %s %s %s %s\n", events[i].step, events[i].kind, place_or_none(events[i].layer, layer),
           place_or_none(events[i].head, head), table_number(events[i].value, value));
  }
  memory_free(events);
  return STATUS_OK;
}

static int print_why(const struct run *run, struct error *error)
{
  struct post_mortem p;
  int status = post_mortem_of(&p, run, error);
  if (status) return status;
  post_mortem_print(&p, run);
  post_mortem_free(&p);
  return STATUS_OK;
}

static int print_dead(const struct run *run, double share, struct error *error)
{
  struct dead_head *head;
  long count;
  int looked, status = dead_heads(run->file, share, &head, &count, &looked, error);
  if (status) return status;
  if (!looked) printf("%s: no series by head of max logits or norms is recorded\n", run->shown);
  if (looked && !count)
    printf("%s: no head died: none fell below %g of its start in %d series\n", run->shown, share, looked);
  if (count)
    printf(
      "# dead: below %g of its start; back: at %g of it again\n# layer head series died start least back\n",
      share, 2 * share);
  for (long i = 0; i < count; i++) {
    const struct dead_head *h = &head[i];
    char start[32], least[32], back[32] = "no";
    if (!isnan(h->back)) snprintf(back, sizeof back, "%.0f", h->back);
    printf("%d %d %s %.0f %s %s %s\n", h->layer, h->head, h->series, h->step, table_number(h->start, start),
           table_number(h->least, least), back);
  }
  memory_free(head);
  return STATUS_OK;
}

/* --- JSON ---------------------------------------------------------------------------------------------- */

static int json_parameter(void *context, const char *key, const char *value)
{
  json_object_set_new(context, key, json_text(value));
  return 0;
}

static int json_events(json_t *out, const struct run *run, struct error *error)
{
  struct run_event *events;
  long count;
  int status = run_events(run->file, &events, &count, error);
  if (status) return status;
  for (long i = 0; i < count; i++)
    json_array_append_new(out, json_pack("{s:I, s:o, s:i, s:i, s:o}", "step", (json_int_t)events[i].step,
                                         "kind", json_text(events[i].kind), "layer", events[i].layer, "head",
                                         events[i].head, "value", json_number(events[i].value)));
  memory_free(events);
  return STATUS_OK;
}

static int json_dead(json_t *out, const struct run *run, double share, struct error *error)
{
  struct dead_head *head;
  long count;
  int looked, status = dead_heads(run->file, share, &head, &count, &looked, error);
  for (long i = 0; i < count; i++)
    json_array_append_new(out, json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "layer", head[i].layer,
                                         "head", head[i].head, "series", json_text(head[i].series), "died",
                                         json_number(head[i].step), "start", json_number(head[i].start),
                                         "least", json_number(head[i].least), "back",
                                         json_known(!isnan(head[i].back), head[i].back)));
  memory_free(head);
  return status;
}

static json_t *json_notes(const struct notes *n)
{
  json_t *all = json_array();
  for (int i = 0; i < n->count; i++)
    json_array_append_new(
      all, json_pack("{s:o, s:o}", "date", json_text(n->note[i].date), "text", json_text(n->note[i].text)));
  return all;
}

static json_t *json_run(const struct run *run, const struct summary *s)
{
  const char *preset = run_parameter(run->file, "preset");
  return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "file",
                   json_text(run->path), "id", json_text(run_id(run->file)), "preset",
                   json_text(preset && *preset ? preset : NULL), "kind", json_text(run->kind), "stabilizers",
                   json_text(stack_of(run)), "lr", json_number(s->lr), "seed", (json_int_t)run->seed, "state",
                   json_text(run_shown_state(run->file)), "steps", (json_int_t)s->steps, "loss",
                   json_known(s->has_loss, s->number[LOSS]), "val_loss",
                   json_known(s->has_val, s->number[VAL]), "peak_max_logit", summary_place_json(&s->peak),
                   "last_max_logit", summary_place_json(&s->last), "clips", json_number(s->number[CLIPS]),
                   "wall_seconds", json_number(run_wall_seconds(run->file)), "notes", json_notes(&s->notes));
}

static int print_json_runs(const struct options *r, const struct runset *set, const struct summary *summaries,
                           struct error *error)
{
  json_t *all = json_array();
  int status = STATUS_OK;
  for (int i = 0; i < set->runs && !status; i++) {
    const struct run *run = set->list[i];
    json_t *one = json_run(run, &summaries[run - set->run]);
    if (r->form == FORM_PARAMETERS) {
      json_t *parameters = json_object();
      run_parameters(run->file, json_parameter, parameters);
      json_object_set_new(one, "parameters", parameters);
    }
    if (r->form == FORM_EVENTS) {
      json_t *events = json_array();
      status = json_events(events, run, error);
      json_object_set_new(one, "events", events);
    }
    if (r->form == FORM_WHY) {
      struct post_mortem p;
      status = post_mortem_of(&p, run, error);
      if (!status) json_object_set_new(one, "why", post_mortem_json(&p));
      if (!status) post_mortem_free(&p);
    }
    if (r->form == FORM_DEAD) {
      json_t *dead = json_array();
      status = json_dead(dead, run, r->dead, error);
      json_object_set_new(one, "dead_heads", dead);
    }
    json_array_append_new(all, one);
  }
  if (status)
    json_decref(all);
  else
    json_print(all);
  return status;
}

static void print_json_groups(const struct runset *set, const struct summary *summaries)
{
  json_t *all = json_array();
  for (int g = 0; g < set->groups; g++) {
    const struct run_group *group = &set->group[g];
    struct interval number[NUMBERS];
    struct run_failures f = summarise_group(group, summaries + (group->run - set->run), number);
    json_array_append_new(
      all,
      json_pack("{s:o, s:o, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "group", json_text(group->label),
                "kind", json_text(group->run->kind), "seeds", group->count, "diverged", f.diverged,
                "blown_up", f.blown_up, "unfinished", run_group_unfinished(group), "loss",
                json_interval(&number[LOSS]), "val_loss", json_interval(&number[VAL]),
                "peak_max_logit_geometric", json_interval(&number[PEAK]), "last_max_logit_geometric",
                json_interval(&number[LAST]), "clips", json_known(number[CLIPS].n > 0, number[CLIPS].mean)));
  }
  json_print(all);
}

/* --- command line -------------------------------------------------------------------------------------- */

static const char *const means[] = {"arithmetic", "geometric", "median", NULL};

static void add_metrics(struct buffer *b)
{
  for (const struct metric_name *m = metric_names; m->name; m++)
    buffer_add(b, "%s (%s%s%s), ", m->name, m->help, *m->metric ? ": " : "", m->metric);
  buffer_add(
    b,
    "or SERIES:WINDOW:REDUCTION. SERIES@GLOB: only heads l0h0, layers l0 or tensors whose name matches. "
    "WINDOW: last (row), lastN (rows), lastP%% (of the steps), all, A-B (steps). REDUCTION: max, mean, min, "
    "median of all values in it, over=X (the share above X), slope (of log largest over log step), above=X "
    "or below=X (the first step there)");
}

static const struct command_option options[] = {
  FLAG(group, 0,
       "One line for the runs that differ only in their seed; those that diverged or blew up are counted and "
       "left out of the means"),
  FLAG(parameters, 0, "The configuration of each run, as a file that run reads"),
  FLAG(events, 0, "Clips, spikes, non-finite values, checkpoints"),
  FLAG(why, 0,
       "Post-mortem of a failed run, or of one that reached a max logit of 100 without QK-Clip: the steps "
       "around it, largest growth, "
       "clips, commands to try; one sentence for another run"),
  {.row =
     REAL_ROW(struct options, dead, "-1", 0, 0.5, "1",
              "Dead heads: their max logit or the norm of their query or key weights fell below SHARE of its "
              "first value; back: the step at which it reached twice that share again",
              0),
   .argument = "SHARE",
   .alone = "0.1"},
  {.row = TEXT_ROW(struct options, of, NULL,
                   "These numbers of each run, or of each group with n and interval: ", 0),
   .argument = "METRIC,...",
   .tell = add_metrics},
  TEXT(baseline, 0, "GROUP", NULL,
       "Each group against this one (its name, or the value of --by's key): means, and the differences over "
       "pairs of "
       "equal seed, of max logits the ratios (default of --of: val,peak,last,clips)"),
  {.row = TEXT_ROW(
     struct options, sensitivity, NULL,
     "How much the loss of each group (without --by: each kind) depends on KEY: the mean over its values "
     "of the validation loss, minus the least",
     0),
   .argument = "KEY",
   .alone = "train.lr"},
  CHOICE(mean, 0, means, NULL, "Of a group's metrics (default arithmetic)"),
  FLAG(csv, 0,
       "The metrics as comma separated values (--of; else loss,val,peak,last,clips); a text that a "
       "spreadsheet would "
       "compute, as =1+1, has an apostrophe before it"),
  FLAG(json, 0, "The same " JSON_HELP),
  NO_OPTION,
};

/* The form that the options make, and whether they go together. */
static int check_options(struct options *r, struct error *e)
{
  if ((r->events != 0) + (r->parameters != 0) + (r->why != 0) + (r->dead >= 0) + (r->sensitivity != NULL) > 1)
    return error_set(e, STATUS_USAGE, "show: one of --parameters, --events, --why, --dead and --sensitivity");
  r->form = r->events                                           ? FORM_EVENTS
            : r->parameters                                     ? FORM_PARAMETERS
            : r->why                                            ? FORM_WHY
            : r->dead >= 0                                      ? FORM_DEAD
            : r->sensitivity                                    ? FORM_SENSITIVITY
            : r->group || r->baseline || r->chosen.selection.by ? FORM_GROUPS
                                                                : FORM_RUNS;
  if (r->baseline && r->form > FORM_GROUPS)
    return error_set(e, STATUS_USAGE,
                     "show --baseline: not with --parameters, --events, --why, --dead or --sensitivity");
  if (r->baseline && r->mean >= 0)
    return error_set(e, STATUS_USAGE, "show --mean: not with --baseline, whose means follow from the metric");
  if (r->mean >= 0 && (!r->of || r->form != FORM_GROUPS))
    return error_set(e, STATUS_USAGE, "show --mean: of a group's metrics: with --of, and --group or --by");
  if ((r->of || r->csv) && r->form > FORM_GROUPS)
    return error_set(e, STATUS_USAGE,
                     "show --of, --csv: not with --parameters, --events, --why, --dead or --sensitivity");
  return STATUS_OK;
}

static int print_each(const struct options *r, const struct runset *set, struct error *error)
{
  int status = STATUS_OK;
  for (int i = 0; i < set->runs && !status; i++) {
    const struct run *run = set->list[i];
    if (set->runs > 1 && r->form != FORM_WHY) printf("%s# %s\n", i ? "\n" : "", run->shown);
    if (r->form == FORM_WHY)
      status = print_why(run, error);
    else if (r->form == FORM_DEAD)
      status = print_dead(run, r->dead, error);
    else if (r->form == FORM_PARAMETERS)
      run_parameters(run->file, print_parameter, NULL);
    else
      status = print_events(run, error);
  }
  return status;
}

static void warn_of_thin_rows(const struct runset *set)
{
  int thin = 0;
  for (int i = 0; i < set->runs; i++) thin += run_is_thin(&set->run[i]);
  if (thin)
    warning("%d run%s not every step (record.every): peak is the largest max logit of the steps recorded",
            thin, thin == 1 ? " has recorded" : "s have recorded");
}

/* Recordings and runs of max_time end where they end. */
static void warn_of_lengths(const struct runset *set)
{
  for (int g = 0; g < set->groups; g++) {
    const struct run_group *group = &set->group[g];
    const struct run **run = memory_new((size_t)group->count, sizeof *run);
    int count = run_group_counted(group, run), i = 1;
    while (i < count && run_last_step(run[i]->file) == run_last_step(run[0]->file)) i++;
    if (i < count)
      warning("%s: a mean over runs of unlike lengths, as %ld and %ld steps", group->label,
              run_last_step(run[0]->file), run_last_step(run[i]->file));
    memory_free(run);
  }
}

static int show_set(const struct options *r, const struct runset *set, struct error *error)
{
  const int has_peak = !r->of || strstr(r->of, "peak") || strstr(r->of, "logit");
  if (r->form <= FORM_GROUPS && has_peak) warn_of_thin_rows(set);
  if (r->form == FORM_GROUPS) warn_of_lengths(set);
  if (r->of || r->csv || r->baseline)
    return measures_show(set, r->of, r->form == FORM_GROUPS,
                         r->csv    ? MEASURES_CSV
                         : r->json ? MEASURES_JSON
                                   : MEASURES_TEXT,
                         r->mean < 0 ? MEAN_ARITHMETIC : (enum measures_mean)r->mean, r->baseline, error);
  if (r->sensitivity) return sensitivity_show(set, r->sensitivity, (int)r->json, error);
  struct summary *summaries = memory_new((size_t)set->runs, sizeof *summaries);
  int status = STATUS_OK;
  for (int i = 0; i < set->runs; i++) summarise(&set->run[i], &summaries[i]);
  if (r->json && r->form == FORM_GROUPS)
    print_json_groups(set, summaries);
  else if (r->json)
    status = print_json_runs(r, set, summaries, error);
  else if (r->form == FORM_RUNS)
    print_runs(set, summaries), print_notes(set, summaries);
  else if (r->form == FORM_GROUPS)
    print_groups(set, summaries, r->chosen.selection.by);
  else
    status = print_each(r, set, error);
  for (int i = 0; i < set->runs; i++) notes_free(&summaries[i].notes);
  memory_free(summaries);
  return status;
}

static int show(void *request, struct error *error)
{
  struct options *r = request;
  struct runset set;
  if (check_options(r, error)) return error->status;
  if (r->sensitivity && !r->chosen.selection.by) r->chosen.selection.by = "kind";
  const unsigned flags =
    r->form == FORM_GROUPS || r->form == FORM_SENSITIVITY ? RUNSET_RECORDED | RUNSET_ONCE : 0;
  int status = runset_select(&set, selected_runs_open(&r->chosen), flags, error);
  if (status) return status;
  status = show_set(r, &set, error);
  if (!status) status = runset_damage(&set);
  runset_close(&set);
  return status;
}

const struct command command_show = {
  .name = "show",
  .arguments = "RUN.h5 ...",
  .help = "summary table, one line per run",
  .about =
    "A summary of runs, one line each. " SELECTION_HELP
    " loss and val are those of the last recorded step; peak "
    "and last are the largest max logit of all recorded steps and of the last, with layer and head. Each key "
    "of the configuration in which the runs differ is a column; of more than 8, those in which only runs of "
    "different presets differ are named below. Notes of the runs stand below.",
  .more = "maxlogit show runs --group --where 'train.lr<0.05'\nmaxlogit show --why a.h5",
  OPTIONS,
  .shared = selection_options,
  .wanted = "which runs?",
  .most = MANY_WORDS,
  .run = show,
};
