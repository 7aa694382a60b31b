/* maxlogit tune: the best value of a key for each arm of a file, found on seeds of its own; left as a file for sweep */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include "analysis/gnuplot.h"
#include "analysis/json.h"
#include "app/command.h"
#include "app/figure.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "ledger/print.h"
#include "ledger/tuning.h"
#include "run/drive.h"
#include "storage/provenance.h"

struct options {
  struct request request;
  const char *over, *by, *output;
  long seeds, max, json, quiet, jobs;
  int is_tried; /* has the metric been read from a run? */
  struct error unusable;
};

static const struct command_option options[] = {
  TEXT(over, 0, "KEY[,KEY]", "train.lr", "What is tuned: one key, or two, whose grid is their product"),
  TEXT(by, 0, "METRIC", TUNING_METRIC, "What is to be low: a metric as in maxlogit show --of"),
  FLAG(max, 0, "The metric is to be high"),
  WHOLE(seeds, 0, "N", "6", 1, 100, "Seeds to choose on, from 2101"),
  TEXT(output, 'o', "FILE", NULL,
       "The settings, for maxlogit sweep (default: NAME.tuned.conf for NAME.conf)"),
  WHOLE(jobs, 'j', "N", "0", 1, 1024, JOBS_HELP),
  FLAG(json, 0, "The result " JSON_HELP),
  FLAG(quiet, 'q', "No progress"),
  NO_OPTION,
};

/* --- arms of a file ------------------------------------------------------------------------------------- */

struct tune_plan {
  struct config *config;
  long *seed; /* that the file itself has */
  int seeds;
  char *name; /* "tune-NAME" */
  struct tuning tuning;
};

static int find_seed(void *context, const struct config_entry *x)
{
  if (strcmp(x->key, "train.seed") != 0) return 0;
  *(long *)context = strtol(x->value, NULL, 10);
  return 1;
}

static int is_known(const struct tune_plan *p, long seed)
{
  for (int i = 0; i < p->seeds; i++)
    if (p->seed[i] == seed) return 1;
  return 0;
}

/* The seeds of the file's points: those that will be compared on. */
static int keep_seeds(struct tune_plan *p, const struct options *r, struct error *e)
{
  int status = STATUS_OK;
  for (long i = 0; i < config_points(p->config) && !status; i++) {
    long seed = 0;
    struct config *c = config_point(p->config, i);
    status = config_finish(c, e);
    if (!status) config_each(c, find_seed, &seed);
    config_free(c);
    if (status || is_known(p, seed)) continue;
    p->seed = memory_grow(p->seed, (size_t)p->seeds, (size_t)p->seeds + 1, sizeof *p->seed);
    p->seed[p->seeds++] = seed;
    if (seed >= TUNING_SEED && seed < TUNING_SEED + r->seeds)
      status =
        error_set(e, STATUS_USAGE,
                  "train.seed %ld is one of those that values are chosen on (%d to %ld): the best of many "
                  "looks better there than it is",
                  seed, TUNING_SEED, TUNING_SEED + r->seeds - 1);
  }
  return status;
}

/* "arm=a preset=muon model.width=64" is called "a-muon-64". */
static void name_arm(const char *label, const struct tuning *t, char name[64])
{
  size_t used = 0;
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-+";
  for (const char *at = label; *at && used < 36;) {
    const char *equals = strchr(at, '='), *value = equals ? equals + 1 : at;
    size_t length = strcspn(value, " ");
    if (used) name[used++] = '-';
    for (size_t i = 0; i < length && used < 36; i++)
      name[used++] = strchr(allowed, value[i]) ? value[i] : '_';
    at = value + length + strspn(value + length, " ");
  }
  name[used] = 0;
  if (!used) snprintf(name, 64, TUNING_UNNAMED);
  used = strlen(name);
  for (int i = 0, count = 1; i < t->arms; i++)
    if (!strcmp(t->arm[i].name, name)) { /* the next name is compared with all again */
      snprintf(name + used, 64 - used, "-%d", ++count);
      i = -1;
    }
}

static int has_axis(const char *label, const char *key)
{
  size_t length = strlen(key);
  for (const char *at = label; (at = strstr(at, key)); at++)
    if ((at == label || at[-1] == ' ') && at[length] == '=') return 1;
  return 0;
}

static int add_arms(struct tune_plan *p, struct error *e)
{
  struct tuning *t = &p->tuning;
  int status = config_set(p->config, "train.seed", "1", "tune", e);
  for (long i = 0; i < config_points(p->config) && !status; i++) {
    char label[256], name[64];
    config_point_label(p->config, i, label, sizeof label);
    for (int k = 0; k < t->keys && !status; k++)
      if (has_axis(label, t->key[k]))
        status = error_set(e, STATUS_USAGE,
                           "%s has a list of values; tune makes its own: one value to start from", t->key[k]);
    if (status) break;
    struct config *c = config_point(p->config, i);
    name_arm(label, t, name);
    status = tuning_add(t, name, c, e);
    config_free(c);
  }
  return status;
}

static int add_key(void *context, const char *key)
{
  struct tune_plan *p = context;
  struct tuning *t = &p->tuning;
  if (t->keys == TUNING_KEYS || !*key) return STATUS_USAGE;
  t->key[t->keys++] = key;
  return STATUS_OK;
}

static int read_keys(struct tune_plan *p, const char *over, char room[2][128], struct error *e)
{
  size_t first = strcspn(over, ",");
  const char *second = over[first] ? over + first + 1 : NULL;
  snprintf(room[0], 128, "%.*s", (int)first, over);
  snprintf(room[1], 128, "%s", second ? second : "");
  if (add_key(p, room[0]) ||
      (second && (strchr(second, ',') || !strcmp(room[0], room[1]) || add_key(p, room[1]))))
    return error_set(e, STATUS_USAGE, "tune --over: '%s' is not KEY or KEY,KEY", over);
  return STATUS_OK;
}

static int read_file(struct tune_plan *p, const struct options *r, struct error *e)
{
  const char *file = r->request.words.word[0];
  struct buffer name = {0};
  char *base = text_stem(file, ".conf");
  buffer_add(&name, "tune-%s", base);
  memory_free(base);
  p->name = name.text;
  p->tuning.name = p->name;
  if (config_file(p->config, file, e)) return e->status;
  for (int i = 0; i < r->request.settings; i++)
    if (config_assign(p->config, r->request.setting[i], e)) return e->status;
  return STATUS_OK;
}

/* --- progress ------------------------------------------------------------------------------------------- */

static void begin(void *context, const struct sweep *s)
{
  long done = 0;
  (void)context;
  for (long i = 0; i < s->count; i++) done += s->points[i].fate > SWEEP_RUNNING;
  message("%ld run%s, %ld of them done before", s->count, text_s(s->count), done);
}

/* A metric that the first finished run does not have is an error before all others are trained. */
static void try_metric(struct options *r, char *path)
{
  struct run run = {.path = path, .shown = path};
  struct runset set = {.run = &run, .runs = 1};
  struct metric m;
  struct measured *value = NULL;
  struct error *e = &r->unusable;
  r->is_tried = 1;
  if (!metric_read(&m, r->by, e) && !run_open(&run.file, path, e)) metrics_of(&m, 1, &set, &value, e);
  memory_free(value);
  if (run.file) run_close(run.file);
  if (e->status) drive_stop();
}

static void look(void *context, const struct sweep *s, long point)
{
  struct options *r = context;
  if (point < 0) return;
  if (!r->is_tried && s->points[point].fate == SWEEP_FINISHED) try_metric(r, s->points[point].path);
  const struct sweep_point *p = &s->points[point];
  long over = 0;
  for (long i = 0; i < s->count; i++) over += s->points[i].fate > SWEEP_RUNNING;
  if (p->fate == SWEEP_FAILED)
    message("%s %s failed: %s", p->id, p->label, p->reason);
  else if (!r->quiet && p->fate > SWEEP_RUNNING)
    message("%ld/%ld %s %s %s", over, s->count, p->id, sweep_fate_name(p->fate), p->label);
}

/* --- the table ------------------------------------------------------------------------------------------ */

static void score_text(double score, char out[32])
{
  snprintf(out, 32, isfinite(score) ? "%.5g" : "-", score);
}

static void print_point(const struct tuning *t, const struct tuning_arm *a, const struct tuning_point *p)
{
  char score[32], behind[32];
  score_text(p->score, score);
  score_text(p->behind, behind);
  printf("%c ", a->best >= 0 && p == &a->point[a->best] ? '*' : ' ');
  for (int k = 0; k < t->keys; k++) printf("%-20s ", p->text[k]);
  printf("%12s %12s %5d of %-5ld %6.0f %%", score, behind, p->worse, t->seeds, 100 * p->chosen);
  if (p->diverged) printf("  %d diverged", p->diverged);
  if (p->blown_up) printf("  %d blown up", p->blown_up);
  if (p->missing) printf("  %d without a value", p->missing);
  printf("\n");
}

static void print_result(const struct tuning *t)
{
  char text[128];
  int optima = 0;
  for (int i = 0; i < t->arms; i++) {
    const struct tuning_arm *a = &t->arm[i];
    printf("%s%s: %s\n  ", i ? "\n" : "", a->name, tuning_end_text(a->end));
    for (int k = 0; k < t->keys; k++) printf("%-20s ", t->key[k]);
    printf("%12s %12s %14s %8s\n", "mean", "behind", "worse on seeds", "chosen");
    for (int p = 0; p < a->points; p++) print_point(t, a, &a->point[p]);
    struct interval optimum = tuning_optimum(t, a);
    if (optimum.n) printf("  optimum between them %s\n", print_interval(&optimum, text));
    optima += optimum.n > 0;
  }
  printf("\n%s [%s], %s is better; * the best. Chosen: the share of resamples of the seeds in which a value "
         "is the best.\n",
         t->metric.name, t->metric.unit, t->maximise ? "higher" : "lower");
  if (optima)
    printf(
      "Optimum: of a parabola through the best and the values beside it, with its 95 %% interval from %d "
      "seeds on.\n",
      OPTIMUM_SEEDS);
}

static json_t *point_json(const struct tuning *t, const struct tuning_point *p)
{
  json_t *o = json_object(), *values = json_array();
  for (int k = 0; k < t->keys; k++) json_object_set_new(o, t->key[k], json_number(p->value[k]));
  for (long s = 0; s < t->seeds; s++)
    json_array_append_new(values,
                          json_pack("{s:o, s:I, s:s, s:o}", "id", json_text(p->run[s].id), "seed",
                                    (json_int_t)p->run[s].seed, "state", sweep_fate_name(p->run[s].fate),
                                    "value", json_known(p->run[s].value.has, p->run[s].value.value)));
  json_object_set_new(o, "mean", json_known(isfinite(p->score), p->score));
  json_object_set_new(o, "behind", json_known(isfinite(p->behind), p->behind));
  json_object_set_new(o, "worse_on_seeds", json_integer(p->worse));
  json_object_set_new(o, "chosen", json_number(p->chosen));
  json_object_set_new(o, "diverged", json_integer(p->diverged));
  json_object_set_new(o, "blown_up", json_integer(p->blown_up));
  json_object_set_new(o, "runs", values);
  return o;
}

static void print_json(const struct tuning *t, const char *file)
{
  char stamp[256];
  json_t *arms = json_array();
  for (int i = 0; i < t->arms; i++) {
    const struct tuning_arm *a = &t->arm[i];
    json_t *points = json_array(), *best = a->best < 0 ? json_null() : json_object();
    for (int k = 0; k < t->keys && a->best >= 0; k++)
      json_object_set_new(best, t->key[k], json_number(a->point[a->best].value[k]));
    for (int p = 0; p < a->points; p++) json_array_append_new(points, point_json(t, &a->point[p]));
    struct interval o = tuning_optimum(t, a);
    json_t *optimum = o.n ? json_pack("{s:o, s:o, s:o}", "mean", json_number(o.mean), "lo",
                                      json_known(!isnan(o.lo), o.lo), "hi", json_known(!isnan(o.hi), o.hi))
                          : json_null();
    json_array_append_new(arms, json_pack("{s:o, s:s, s:o, s:o, s:o}", "arm", json_text(a->name), "end",
                                          tuning_end_text(a->end), "best", best, "optimum", optimum, "points",
                                          points));
  }
  json_print(json_pack("{s:o, s:b, s:i, s:I, s:o, s:o, s:o}", "metric", json_text(t->metric.name),
                       "maximised", t->maximise, "first_seed", TUNING_SEED, "seeds", (json_int_t)t->seeds,
                       "settings", json_text(file), "made_by",
                       json_text(provenance_stamp(stamp, sizeof stamp)), "arms", arms));
}

/* --- the settings, for sweep ---------------------------------------------------------------------------- */

struct tune_writing {
  struct buffer *out;
  const struct tuning *tuning;
  int presets; /* first the preset, then settings given in addition */
};

static int add_setting(void *context, const struct config_entry *x)
{
  struct tune_writing *w = context;
  static const char *const left_out[] = {"train.seed", "arm", "sweep.dir", "device.threads", NULL};
  /* a given setting is written even if it is the default: the preset may set another value */
  if (!strcmp(x->origin, "default") || !x->used || !strncmp(x->origin, "preset", 6) ||
      w->presets != !strcmp(x->key, "preset"))
    return 0;
  for (int i = 0; left_out[i]; i++)
    if (!strcmp(x->key, left_out[i])) return 0;
  for (int k = 0; k < w->tuning->keys; k++)
    if (!strcmp(x->key, w->tuning->key[k])) return 0;
  buffer_add(w->out, "%s = ", x->key);
  config_quote(w->out, x->value);
  buffer_add(w->out, "\n");
  return 0;
}

static int add_arm(struct buffer *b, const struct tuning *t, const struct tuning_arm *a, struct error *e)
{
  struct tune_writing w = {b, t, 1};
  struct config *c = config_point(a->config, 0);
  int status = config_finish(c, e);
  buffer_add(b, "\n[arm %s]\n", a->name);
  if (!status) config_each(c, add_setting, &w);
  w.presets = 0;
  if (!status) config_each(c, add_setting, &w);
  const struct tuning_point *best = &a->point[a->best];
  for (int k = 0; k < t->keys; k++)
    buffer_add(b, "%s = %s  # %s\n", t->key[k], best->text[k], tuning_end_text(a->end));
  config_free(c);
  return status;
}

#define FIRST_WORDS "# Tuned by "
#define HASH_WORDS "\n# hash of the lines below: "

static int write_settings(const struct tune_plan *p, const char *path, struct error *e)
{
  const struct tuning *t = &p->tuning;
  struct buffer b = {0}, head = {0};
  char stamp[256];
  int status = STATUS_OK;
  buffer_add(&b, "train.seed = ");
  for (int i = 0; i < p->seeds; i++) buffer_add(&b, "%s%ld", i ? ", " : "", p->seed[i]);
  buffer_add(&b, "\n");
  for (int i = 0; i < t->arms && !status; i++)
    if (t->arm[i].best >= 0) status = add_arm(&b, t, &t->arm[i], e);
  buffer_add(&head, FIRST_WORDS "%s%s on seeds %d to %ld: maxlogit tune, %s" HASH_WORDS "%016" PRIx64 "\n%s",
             t->maximise ? "the highest " : "the lowest ", t->metric.name, TUNING_SEED,
             TUNING_SEED + t->seeds - 1, provenance_stamp(stamp, sizeof stamp), XXH3_64bits(b.text, b.length),
             b.text);
  if (!status) status = file_write(path, head.text, head.length, e);
  memory_free(head.text);
  memory_free(b.text);
  return status;
}

/* Is a file of settings as it was written? */
static int is_unchanged(const char *path)
{
  char *text;
  size_t length;
  struct error none = {0};
  if (file_read(path, &text, &length, &none)) return 0;
  const char *hash = strstr(text, HASH_WORDS), *below = hash ? strchr(hash + 1, '\n') : NULL;
  uint64_t stated = 0;
  int same = below && sscanf(hash + strlen(HASH_WORDS), "%16" SCNx64, &stated) == 1 &&
             stated == XXH3_64bits(below + 1, length - (size_t)(below + 1 - text));
  memory_free(text);
  return same;
}

/* --- the figure ----------------------------------------------------------------------------------------- */

static int draw(const struct tuning *t, const char *scripts, const char *term, int quiet, struct error *e)
{
  struct buffer path = {0};
  char *drawn;
  size_t length;
  FILE *f =
    figure_script(figure_find("tuning"), &(struct figure_request){.tuning = t}, scripts, term, "", NULL, e);
  if (!f) return e->status;
  int status = gnuplot_run(f, &drawn, &length, e);
  fclose(f);
  if (status) return status;
  buffer_add(&path, "%s/tuning.%s", t->folder, term);
  status = file_write(path.text, drawn, length, e);
  if (!status && !quiet) message("%s", path.text);
  memory_free(path.text);
  memory_free(drawn);
  return status;
}

/* The results stand even if the figure cannot be drawn. */
static void draw_all(const struct tuning *t, int quiet)
{
  struct error e = {0};
  char scripts[4096];
  int status = gnuplot_scripts(scripts, &e);
  if (!status) status = draw(t, scripts, "svg", quiet, &e);
  if (!status) status = draw(t, scripts, "png", quiet, &e);
  if (status) warning("no figure: %s", e.text);
}

/* --- the command ---------------------------------------------------------------------------------------- */

static int is_found(const struct tuning *t)
{
  for (int i = 0; i < t->arms; i++)
    if (t->arm[i].end == TUNING_TOO_FAR || t->arm[i].end == TUNING_NOTHING) return 0;
  return 1;
}

static void name_settings(struct buffer *path, const struct options *r)
{
  char *base = text_stem(r->request.words.word[0], ".conf");
  if (r->output)
    buffer_add(path, "%s", r->output);
  else
    buffer_add(path, "%s.tuned.conf", base);
  memory_free(base);
}

/* Before the work begins: the file that it would replace. */
static int refuse_another(const struct options *r, struct error *e)
{
  struct buffer path = {0};
  name_settings(&path, r);
  if (!file_may_be_ours(path.text, FIRST_WORDS))
    error_set(e, STATUS_USAGE,
              "%s exists, and does not begin with \"" FIRST_WORDS "\": --output takes another name",
              path.text);
  else if (!access(path.text, F_OK) && !is_unchanged(path.text))
    error_set(e, STATUS_USAGE,
              "%s was changed since it was written, or an older maxlogit has written it: rename it, or "
              "--output takes another name",
              path.text);
  memory_free(path.text);
  return e->status;
}

static int print_choice(const struct tune_plan *p, const struct options *r, struct error *e)
{
  const struct tuning *t = &p->tuning;
  struct buffer path = {0};
  int some = 0;
  name_settings(&path, r);
  for (int i = 0; i < t->arms; i++) some |= t->arm[i].best >= 0;
  int status = some ? write_settings(p, path.text, e) : STATUS_OK;
  if (!status && r->json)
    print_json(t, some ? path.text : NULL);
  else if (!status)
    print_result(t);
  if (!status && some) draw_all(t, (int)r->quiet);
  if (!status && some && !r->quiet) message("%s: go on with maxlogit sweep %s", path.text, path.text);
  memory_free(path.text);
  for (int i = 0; i < t->arms && !status; i++)
    if (t->arm[i].end != TUNING_BRACKETED)
      warning("%s is %s", t->arm[i].name, tuning_end_text(t->arm[i].end));
  return status ? status : is_found(t) ? STATUS_OK : STATUS_FAIL;
}

static int tune(void *request, struct error *e)
{
  struct options *r = request;
  char key[2][128];
  struct tune_plan p = {.config = config_new()};
  struct tuning *t = &p.tuning;
  drive_catch_signals();
  *t = (struct tuning){.of = r->by,
                       .maximise = (int)r->max,
                       .seeds = r->seeds,
                       .jobs = r->jobs,
                       .look = look,
                       .context = r,
                       .begin = r->quiet ? NULL : begin};
  int status = refuse_another(r, e);
  if (!status) status = read_keys(&p, r->over, key, e);
  if (!status) status = metric_read(&t->metric, r->by, e);
  if (!status) status = read_file(&p, r, e);
  if (!status) status = keep_seeds(&p, r, e);
  if (!status) status = add_arms(&p, e);
  if (!status) status = tuning_run(t, e);
  if (r->unusable.status) *e = r->unusable, status = e->status;
  if (status == STATUS_STOPPED) message("stopped; the same command goes on");
  if (!status) status = print_choice(&p, r, e);
  tuning_free(t);
  memory_free(p.seed);
  memory_free(p.name);
  config_free(p.config);
  return status;
}

const struct command command_tune = {
  .name = "tune",
  .arguments = "FILE.conf [key=value ...]",
  .help = "find the best value of a key, such as the learning rate, for each arm",
  .about =
    "Find the value of a key that is best for each arm of a file (its [arm NAME] sections, or the product of "
    "its "
    "lists but for seeds): five values a factor 1.73 apart about the one that stands there, each on the same "
    "seeds, then more until the best of every arm is not at an end. Printed and drawn are all values with "
    "the best "
    "and its neighbors; NAME.tuned.conf has the arms at their best, for maxlogit sweep, on the file's own "
    "seeds.",
  .more = "maxlogit tune rates.conf --over train.lr --by val --seeds 6\n"
          "maxlogit tune rates.conf --over train.lr,train.weight_decay\n\n"
          "Seeds to choose on are 2101 and following, and no others may be compared on: the best of many "
          "values looks "
          "better than it is on the seeds that chose it. A value at which a run diverges, or has no value of "
          "the metric, "
          "is none to train at. Of equally good values the one farthest from the ends of the grid is taken, "
          "then the "
          "smaller. A time that was not reached (above=X, below=X) is later than all that were.\n\n"
          "Runs lie in sweep.dir (default runs/tune-NAME), the figure with them; started again, it goes on "
          "where it was. "
          "Exit status: 0 when every arm has its best, at the limit of what the key may be too, 1 when one "
          "has not, or a "
          "run failed, 75 when stopped.",
  OPTIONS,
  .wanted = "which file?",
  .most = 1,
  .once = "one configuration file at most",
  .settings = 1,
  .run = tune,
};
