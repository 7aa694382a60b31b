/* show.c - a summary of runs: one line a run, or one a group over its seeds */
#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "app/command.h"
#include "app/runset.h"
#include "base/memory.h"
#include "base/text.h"

enum form { FORM_RUNS, FORM_GROUPS, FORM_PARAMETERS, FORM_EVENTS };
struct show_request {
  char **paths;
  int path_count, json;
  enum form form;
};

/* A value and where it was seen. A value that is not finite counts as the largest: it must be seen. */
struct place {
  double value, step;
  int layer, head;
};
struct summary {
  double loss, val_loss, lr; /* of the last row; lr is train.lr */
  struct place peak, final;  /* max logit: of the whole run, of the last row */
  long steps, clips;         /* updates done; events of kind clip */
};

/* --- reading ------------------------------------------------------------------------------------------- */

static double last_of(const struct run *run, const char *name)
{
  struct run_series s;
  if (run_read(run->file, name, &s, NULL) != STATUS_OK) return NAN;
  double value = s.rows > 0 ? s.value[s.rows - 1] : NAN;
  run_series_free(&s);
  return value;
}

static void see(struct place *p, const struct run_series *s, long row, long i)
{
  double x = s->value[row * s->width + i];
  if (!isfinite(p->value) || (x <= p->value && isfinite(x))) return;
  *p = (struct place){x, s->step[row], (int)(i / s->heads), (int)(i % s->heads)};
}

static void max_logits(const struct run *run, struct summary *out)
{
  struct run_series s;
  out->peak = out->final = (struct place){NAN, NAN, -1, -1};
  if (run_read(run->file, "attn/max_logit", &s, NULL) != STATUS_OK) return;
  if (s.rows > 0) {
    long last = s.rows - 1;
    out->peak = (struct place){s.value[0], s.step[0], 0, 0};
    out->final = (struct place){s.value[last * s.width], s.step[last], 0, 0};
    for (long row = 0; row < s.rows; row++)
      for (long i = 0; i < s.width; i++) see(&out->peak, &s, row, i);
    for (long i = 0; i < s.width; i++) see(&out->final, &s, last, i);
  }
  run_series_free(&s);
}

static int summarise(const struct run *run, struct summary *out, struct error *error)
{
  struct run_event *events;
  long count;
  int status = run_events(run->file, &events, &count, error);
  if (status) return error_prefix(error, "%s", run->path);
  *out = (struct summary){.loss = last_of(run, "loss"),
                          .val_loss = last_of(run, "val_loss"),
                          .lr = run_number(run, "train.lr", NAN),
                          .steps = run_last_step(run->file)};
  for (long i = 0; i < count; i++) out->clips += strcmp(events[i].kind, "clip") == 0;
  memory_free(events);
  max_logits(run, out);
  return STATUS_OK;
}

/* --- text ---------------------------------------------------------------------------------------------- */

static const char *file_name(const struct run *run)
{
  const char *slash = strrchr(run->path, '/');
  return slash ? slash + 1 : run->path;
}

static const char *stack_of(const struct run *run)
{
  const char *stack = run_parameter(run->file, "stabilizers");
  return stack ? stack : "none";
}

static void place_text(const struct place *p, char out[32])
{
  if (p->layer < 0)
    snprintf(out, 32, "-");
  else
    snprintf(out, 32, "%.4g L%dH%d", p->value, p->layer, p->head);
}

static void print_run(const struct run *run, const struct summary *s, int width)
{
  char peak[32], final[32];
  place_text(&s->peak, peak);
  place_text(&s->final, final);
  printf("%-*s %-12s %-8.4g %4ld %-9s %6ld %7.4f %7.4f  %-14s %-14s %6ld %7.1f  %s\n", width, run->kind,
         stack_of(run), s->lr, run->seed, run_state(run->file), s->steps, s->loss, s->val_loss, peak, final,
         s->clips, run_wall_seconds(run->file), file_name(run));
}

static void print_runs(const struct runset *set, const struct summary *summaries)
{
  int width = 10;
  for (int i = 0; i < set->runs; i++)
    if ((int)strlen(set->run[i].kind) > width) width = (int)strlen(set->run[i].kind);
  printf("%-*s %-12s %-8s %4s %-9s %6s %7s %7s  %-14s %-14s %6s %7s  %s\n", width, "kind", "stabilizers",
         "lr", "seed", "state", "steps", "loss", "val", "peak max logit", "last", "clips", "wall s", "file");
  for (int i = 0; i < set->runs; i++) print_run(&set->run[i], &summaries[i], width);
}

/* A statistic of a group's summaries: field at `offset`. */
static struct interval group_interval(const struct summary *s, int count, size_t offset, int geometric)
{
  double *values = memory_new((size_t)count, sizeof *values);
  for (int i = 0; i < count; i++) values[i] = *(const double *)((const char *)&s[i] + offset);
  struct interval interval = interval_of(values, count, geometric);
  memory_free(values);
  return interval;
}

struct group_summary {
  struct interval loss, val_loss, peak, final;
  int diverged;
  double clips;
};

static struct group_summary summarise_group(const struct run_group *group, const struct summary *s)
{
  struct group_summary g = {
    .loss = group_interval(s, group->count, offsetof(struct summary, loss), 0),
    .val_loss = group_interval(s, group->count, offsetof(struct summary, val_loss), 0),
    .peak = group_interval(s, group->count, offsetof(struct summary, peak.value), 1),
    .final = group_interval(s, group->count, offsetof(struct summary, final.value), 1),
  };
  for (int i = 0; i < group->count; i++) {
    g.diverged += strcmp(run_state(group->run[i].file), "diverged") == 0;
    g.clips += (double)s[i].clips / group->count;
  }
  return g;
}

static void print_plus_minus(const struct interval *i)
{
  if (i->n < 2)
    printf("  %7.4f %-9s", i->mean, "");
  else
    printf("  %7.4f \302\261 %-7.4f", i->mean, i->hi - i->mean);
}

static void print_between(const struct interval *i)
{
  char text[48];
  if (i->n < 2)
    snprintf(text, sizeof text, "%.4g", i->mean);
  else
    snprintf(text, sizeof text, "%.4g [%.4g, %.4g]", i->mean, i->lo, i->hi);
  printf("  %-24s", text);
}

static void print_groups(const struct runset *set, const struct summary *summaries)
{
  int width = 10;
  for (int g = 0; g < set->groups; g++)
    if ((int)strlen(set->group[g].label) > width) width = (int)strlen(set->group[g].label);
  printf("%-*s %5s %8s  %-17s  %-17s  %-24s  %-24s %8s\n", width, "group", "seeds", "diverged", "loss", "val",
         "peak max logit", "last max logit", "clips");
  for (int g = 0; g < set->groups; g++) {
    const struct run_group *group = &set->group[g];
    struct group_summary s = summarise_group(group, summaries + (group->run - set->run));
    printf("%-*s %5d %8d", width, group->label, group->count, s.diverged);
    print_plus_minus(&s.loss);
    print_plus_minus(&s.val_loss);
    print_between(&s.peak);
    print_between(&s.final);
    printf(" %8.1f\n", s.clips);
  }
  printf("Mean and 95 %% interval over seeds (Student's t); of max logits the geometric mean.\n");
}

static int print_parameter(void *context, const char *key, const char *value)
{
  (void)context;
  printf("%s = %s\n", key, value);
  return 0;
}

static int print_events(const struct run *run, struct error *error)
{
  struct run_event *events;
  long count;
  int status = run_events(run->file, &events, &count, error);
  if (status) return error_prefix(error, "%s", run->path);
  printf("# step kind layer head value\n");
  for (long i = 0; i < count; i++) {
    char value[32];
    table_number(events[i].value, value);
    printf("%ld %s %d %d %s\n", events[i].step, events[i].kind, events[i].layer, events[i].head, value);
  }
  memory_free(events);
  return STATUS_OK;
}

/* --- JSON ---------------------------------------------------------------------------------------------- */

/* JSON has no NaN and no infinity: they are text there. */
static void json_number(struct buffer *b, const char *name, double value)
{
  char text[32];
  table_number(value, text);
  buffer_add(b, isfinite(value) ? "\"%s\": %s" : "\"%s\": \"%s\"", name, text);
}

static void json_text(struct buffer *b, const char *name, const char *text)
{
  buffer_add(b, "\"%s\": ", name);
  buffer_json(b, text);
}

static void json_place(struct buffer *b, const char *name, const struct place *p)
{
  buffer_add(b, ", \"%s\": {", name);
  json_number(b, "value", p->value);
  buffer_add(b, ", \"step\": %.0f, \"layer\": %d, \"head\": %d}", isnan(p->step) ? -1.0 : p->step, p->layer,
             p->head);
}

static int json_parameter(void *context, const char *key, const char *value)
{
  struct buffer *b = context;
  if (b->text[b->length - 1] != '{') buffer_add(b, ", ");
  buffer_json(b, key);
  buffer_add(b, ": ");
  buffer_json(b, value);
  return 0;
}

static int json_events(struct buffer *b, const struct run *run, struct error *error)
{
  struct run_event *events;
  long count;
  int status = run_events(run->file, &events, &count, error);
  if (status) return error_prefix(error, "%s", run->path);
  buffer_add(b, ", \"events\": [");
  for (long i = 0; i < count; i++) {
    buffer_add(b, "%s{\"step\": %ld, ", i ? ", " : "", events[i].step);
    json_text(b, "kind", events[i].kind);
    buffer_add(b, ", \"layer\": %d, \"head\": %d, ", events[i].layer, events[i].head);
    json_number(b, "value", events[i].value);
    buffer_add(b, "}");
  }
  buffer_add(b, "]");
  memory_free(events);
  return STATUS_OK;
}

static int json_run(struct buffer *b, const struct run *run, const struct summary *s, enum form form,
                    struct error *error)
{
  buffer_add(b, "  {");
  json_text(b, "file", run->path);
  buffer_add(b, ", ");
  json_text(b, "id", run_id(run->file));
  buffer_add(b, ", ");
  json_text(b, "kind", run->kind);
  buffer_add(b, ", ");
  json_text(b, "stabilizers", stack_of(run));
  buffer_add(b, ", ");
  json_number(b, "lr", s->lr);
  buffer_add(b, ", \"seed\": %ld, ", run->seed);
  json_text(b, "state", run_state(run->file));
  buffer_add(b, ", \"steps\": %ld, ", s->steps);
  json_number(b, "loss", s->loss);
  buffer_add(b, ", ");
  json_number(b, "val_loss", s->val_loss);
  json_place(b, "peak_max_logit", &s->peak);
  json_place(b, "last_max_logit", &s->final);
  buffer_add(b, ", \"clips\": %ld, ", s->clips);
  json_number(b, "wall_seconds", run_wall_seconds(run->file));
  int status = STATUS_OK;
  if (form == FORM_PARAMETERS) {
    buffer_add(b, ", \"parameters\": {");
    run_parameters(run->file, json_parameter, b);
    buffer_add(b, "}");
  }
  if (form == FORM_EVENTS) status = json_events(b, run, error);
  buffer_add(b, "}");
  return status;
}

static void json_interval(struct buffer *b, const char *name, const struct interval *i)
{
  buffer_add(b, ", \"%s\": {", name);
  json_number(b, "mean", i->mean);
  buffer_add(b, ", ");
  json_number(b, "lo", i->lo);
  buffer_add(b, ", ");
  json_number(b, "hi", i->hi);
  buffer_add(b, "}");
}

static void json_group(struct buffer *b, const struct run_group *group, const struct summary *summaries)
{
  struct group_summary s = summarise_group(group, summaries);
  buffer_add(b, "  {");
  json_text(b, "group", group->label);
  buffer_add(b, ", \"seeds\": %d, \"diverged\": %d", group->count, s.diverged);
  json_interval(b, "loss", &s.loss);
  json_interval(b, "val_loss", &s.val_loss);
  json_interval(b, "peak_max_logit_geometric", &s.peak);
  json_interval(b, "last_max_logit_geometric", &s.final);
  buffer_add(b, ", ");
  json_number(b, "clips", s.clips);
  buffer_add(b, "}");
}

static int print_json(const struct show_request *r, const struct runset *set, const struct summary *summaries,
                      struct error *error)
{
  struct buffer b = {0};
  int status = STATUS_OK, count = r->form == FORM_GROUPS ? set->groups : set->runs;
  buffer_add(&b, "[\n");
  for (int i = 0; i < count && !status; i++) {
    const struct run_group *group = &set->group[i];
    if (r->form != FORM_GROUPS)
      status = json_run(&b, &set->run[i], &summaries[i], r->form, error);
    else
      json_group(&b, group, summaries + (group->run - set->run));
    buffer_add(&b, i + 1 < count ? ",\n" : "\n");
  }
  buffer_add(&b, "]\n");
  if (!status) fputs(b.text, stdout);
  memory_free(b.text);
  return status;
}

/* --- command line -------------------------------------------------------------------------------------- */

enum { KEY_GROUP = 256, KEY_JSON, KEY_PARAMETERS, KEY_EVENTS };
static const struct argp_option options[] = {
  {"group", KEY_GROUP, NULL, 0, "One line for the runs that differ only in their seed", 0},
  {"parameters", KEY_PARAMETERS, NULL, 0, "The configuration of each run, as a file that run reads", 0},
  {"events", KEY_EVENTS, NULL, 0, "Clips, spikes, non-finite values, checkpoints", 0},
  {"json", KEY_JSON, NULL, 0, "The same as JSON; values that are not finite are text there", 0},
  {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
  struct show_request *r = state->input;
  switch (key) {
  case KEY_GROUP: r->form = FORM_GROUPS; return 0;
  case KEY_PARAMETERS: r->form = FORM_PARAMETERS; return 0;
  case KEY_EVENTS: r->form = FORM_EVENTS; return 0;
  case KEY_JSON: r->json = 1; return 0;
  case ARGP_KEY_ARG: r->paths[r->path_count++] = text; return 0;
  case ARGP_KEY_END:
    if (r->path_count == 0) argp_error(state, "no run file given");
    return 0;
  }
  return ARGP_ERR_UNKNOWN;
}

static int print_each(const struct show_request *r, const struct runset *set, struct error *error)
{
  int status = STATUS_OK;
  for (int i = 0; i < set->runs && !status; i++) {
    if (set->runs > 1) printf("%s# %s\n", i ? "\n" : "", set->run[i].path);
    if (r->form == FORM_PARAMETERS)
      run_parameters(set->run[i].file, print_parameter, NULL);
    else
      status = print_events(&set->run[i], error);
  }
  return status;
}

static int show_set(const struct show_request *r, const struct runset *set, struct error *error)
{
  struct summary *summaries = memory_new((size_t)set->runs, sizeof *summaries);
  int status = STATUS_OK;
  for (int i = 0; i < set->runs && !status; i++) status = summarise(&set->run[i], &summaries[i], error);
  if (!status) {
    if (r->json)
      status = print_json(r, set, summaries, error);
    else if (r->form == FORM_RUNS)
      print_runs(set, summaries);
    else if (r->form == FORM_GROUPS)
      print_groups(set, summaries);
    else
      status = print_each(r, set, error);
  }
  memory_free(summaries);
  return status;
}

static int run_show(int argc, char **argv)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "RUN.h5 ...",
    .doc = "A summary of runs, one line each. A folder stands for all run files in it. loss and val are "
           "those of the last recorded step; peak and last are the largest max logit of the whole run and "
           "of its last step, with layer and head.",
  };
  struct show_request r = {0};
  struct runset set;
  struct error error = {0};
  r.paths = memory_new((size_t)argc, sizeof *r.paths);
  int status = argp_parse(&argp, argc, argv, 0, NULL, &r) ? STATUS_USAGE : STATUS_OK;
  unsigned flags = r.form == FORM_GROUPS ? RUNSET_RECORDED : 0;
  if (!status) status = runset_open(&set, r.paths, r.path_count, flags, &error);
  if (!status) {
    status = show_set(&r, &set, &error);
    runset_close(&set);
  }
  if (*error.text) message("%s", error.text);
  memory_free(r.paths);
  return status;
}

const struct command command_show = {
  .name = "show",
  .arguments = "RUN.h5 ...",
  .run = run_show,
  .help = "a summary table, one line a run",
};
