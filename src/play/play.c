#include "play/play.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "base/markup.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "config/plugin.h"
#include "config/preset.h"
#include "numerics/device.h"
#include "run/bits.h"
#include "run/trainer.h"
#include "storage/blow_up.h"
#include "storage/recorder.h"
#include "storage/run_file.h"

/* Rows of a series, as far as they have been read. */
struct play_rows {
  double *step, *value;
  long rows, room;
};

struct play {
  struct config *config;
  struct trainer *trainer;
  struct play_rows *series; /* [count] */
  int count;
  size_t bytes;
  int failed; /* a step had an error */
  struct buffer state, name, describe, events, command, settings, csv;
  float *attention;
  double *spectrum;
};

static struct play **runs;
static int room_of_runs;
static struct error error;

/* --- texts ------------------------------------------------------------------------------------------------- */

static char *room;

static char *text_in_room(void) { return room ? room : play_room(1); }

char *play_room(int bytes)
{
  if (bytes < 1) return room; /* as it is */
  memory_free(room);
  return room = memory_new((size_t)bytes, 1);
}

const char *play_error(void) { return error.text; }

static struct buffer warnings;

static int take_warning(const char *line)
{
  buffer_add(&warnings, "%s\n", line);
  return 0;
}

const char *play_warnings(void)
{
  static char *given;
  memory_free(given);
  given = warnings.text;
  warnings = (struct buffer){0};
  return given ? given : "";
}

/* Empty a buffer that is used again. */
static struct buffer *emptied(struct buffer *b)
{
  memory_free(b->text);
  *b = (struct buffer){0};
  buffer_add(b, "%s", "");
  return b;
}

static void add_json(struct buffer *b, const char *text)
{
  buffer_add(b, "\"");
  for (const char *c = text ? text : ""; *c; c++)
    if (*c == '"' || *c == '\\')
      buffer_add(b, "\\%c", *c);
    else if ((unsigned char)*c < 0x20)
      buffer_add(b, "\\u%04x", (unsigned)*c);
    else
      buffer_add(b, "%c", *c);
  buffer_add(b, "\"");
}

/* Add a comma between members of an object or list. */
static void add_comma(struct buffer *b)
{
  if (b->text[b->length - 1] != '{' && b->text[b->length - 1] != '[') buffer_add(b, ", ");
}

static void add_json_pair(struct buffer *b, const char *name, const char *text)
{
  add_comma(b);
  add_json(b, name);
  buffer_add(b, ": ");
  add_json(b, text);
}

/* As in the JSON of other commands, numbers that are not finite are strings. */
static void add_json_number(struct buffer *b, double x)
{
  char text[32];
  text_number(x, text);
  if (isfinite(x))
    buffer_add(b, "%s", text);
  else
    buffer_add(b, "\"%s\"", isnan(x) ? "NaN" : x < 0 ? "-Infinity" : "Infinity");
}

/* --- settings ---------------------------------------------------------------------------------------------- */

/* Cuts the word that begins here, up to a blank outside of quotes; returns the rest. */
static char *cut_word(char *at)
{
  int quoted = 0;
  for (; *at && (quoted || !isspace((unsigned char)*at)); at++) {
    if (*at == '\\' && quoted && at[1])
      at++;
    else if (*at == '"')
      quoted = !quoted;
  }
  if (*at) *at++ = 0;
  return at;
}

static char *skip_blanks(char *at)
{
  while (isspace((unsigned char)*at)) at++;
  return at;
}

/* Words of key=value, or else a configuration file? */
static int is_words(const char *text)
{
  char *copy = memory_text(text), *at = skip_blanks(copy);
  int words = 1;
  while (*at && words) {
    const char *word = at;
    at = skip_blanks(cut_word(at));
    words = *word != '[' && *word != '#' && *word != '=' && strchr(word, '=') && !strchr(word, '\n');
  }
  memory_free(copy);
  return words;
}

static int read_settings(struct config *c, char *text)
{
  int status = STATUS_OK;
  if (!is_words(text))
    status = config_read(c, text, "settings", &error);
  else
    for (char *at = skip_blanks(text), *word; !status && *at;) {
      word = at;
      at = skip_blanks(cut_word(at));
      status = config_assign(c, word, &error);
    }
  return status ? status : config_finish(c, &error);
}

/* --- runs -------------------------------------------------------------------------------------------------- */

static void fail(const char *text)
{
  error = (struct error){0};
  error_set(&error, STATUS_USAGE, "%s", text);
}

static struct play *play_of(int run)
{
  if (run > 0 && run <= room_of_runs && runs[run - 1]) return runs[run - 1];
  fail("there is no such run");
  return NULL;
}

static void forget(struct play *p)
{
  struct buffer *texts[] = {&p->state,   &p->name,     &p->describe, &p->events,
                            &p->command, &p->settings, &p->csv};
  for (int i = 0; i < p->count; i++) memory_free(p->series[i].step), memory_free(p->series[i].value);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) memory_free(texts[i]->text);
  memory_free(p->series);
  memory_free(p->attention);
  memory_free(p->spectrum);
  if (p->trainer) trainer_abandon(p->trainer);
  config_free(p->config);
  memory_free(p);
}

static struct play *begin(void)
{
  const size_t before = memory_held();
  struct play *p = memory_new(1, sizeof *p);
  struct held_series s;
  error = (struct error){0};
  messages_to(take_warning);
  p->config = config_new();
  if (read_settings(p->config, text_in_room()) ||
      trainer_init(&p->trainer, p->config, TRAINER_IN_MEMORY, &error)) {
    forget(p);
    return NULL;
  }
  config_warn_unused(p->config);
  while (recorder_holding(trainer_recorder(p->trainer), p->count, &s)) p->count++;
  p->series = memory_new((size_t)p->count + 1, sizeof *p->series);
  p->bytes = memory_held() - before;
  return p;
}

int play_check(void)
{
  struct play *p = begin();
  if (p) forget(p);
  return p != NULL;
}

int play_new(void)
{
  struct play *p = begin();
  int run = 0;
  if (!p) return 0;
  while (run < room_of_runs && runs[run]) run++;
  if (run == room_of_runs) {
    runs = memory_grow(runs, (size_t)room_of_runs, 2 * (size_t)room_of_runs + 8, sizeof *runs);
    room_of_runs = 2 * room_of_runs + 8;
  }
  runs[run] = p;
  return run + 1;
}

void play_free(int run)
{
  struct play *p = play_of(run);
  if (!p) return;
  forget(p);
  runs[run - 1] = NULL;
}

int play_step(int run, int steps)
{
  struct play *p = play_of(run);
  if (!p) return -1;
  const long before = trainer_status(p->trainer).done;
  error = (struct error){0};
  for (int i = 0; i < steps && !p->failed && trainer_more(p->trainer); i++)
    p->failed = trainer_step(p->trainer, &error);
  if (!p->failed) p->failed = trainer_settle(p->trainer, &error);
  return p->failed ? -1 : (int)(trainer_status(p->trainer).done - before);
}

int play_count(int run)
{
  const struct play *p = play_of(run);
  return p ? (int)trainer_status(p->trainer).done : 0;
}

int play_steps(int run)
{
  const struct play *p = play_of(run);
  return p ? (int)trainer_status(p->trainer).steps : 0;
}

int play_change(int run)
{
  struct play *p = play_of(run);
  if (!p) return 0;
  error = (struct error){0};
  char *text = skip_blanks(text_in_room());
  cut_word(text);
  if (trainer_change(p->trainer, text, &error)) return 0;
  for (int i = 0; i < p->count; i++) p->series[i].rows = 0; /* the change may have removed the last rows */
  return 1;
}

/* --- series ------------------------------------------------------------------------------------------------ */

static int find(int run, int series, struct play **p, struct held_series *s)
{
  *p = play_of(run);
  if (!*p) return 0;
  if (series >= 0 && recorder_holding(trainer_recorder((*p)->trainer), series, s)) return 1;
  fail("there is no such series");
  return 0;
}

int play_series(int run)
{
  const struct play *p = play_of(run);
  return p ? p->count : 0;
}

const char *play_name(int run, int series)
{
  struct play *p;
  struct held_series s;
  if (!find(run, series, &p, &s)) return NULL;
  buffer_add(emptied(&p->name), "%s", s.name);
  return p->name.text;
}

enum play_axis { PLAY_ONE, PLAY_LAYERS, PLAY_HEADS, PLAY_TENSORS, PLAY_EXPERTS };
static const char *const axis_names[] = {"step", "layer", "head", "tensor", "expert"};

static enum play_axis axis_of(const struct held_series *s)
{
  for (enum play_axis a = PLAY_LAYERS; s->axes && a <= PLAY_EXPERTS; a++)
    if (!strcmp(s->axis_name[s->axes - 1], axis_names[a])) return a;
  return PLAY_ONE;
}

int play_axis(int run, int series)
{
  struct play *p;
  struct held_series s;
  return find(run, series, &p, &s) ? (int)axis_of(&s) : 0;
}

int play_width(int run, int series)
{
  struct play *p;
  struct held_series s;
  return find(run, series, &p, &s) ? (int)s.width : 0;
}

int play_rows(int run, int series)
{
  struct play *p;
  struct held_series s;
  return find(run, series, &p, &s) ? (int)s.rows : 0;
}

/* All rows so far. */
static const struct play_rows *rows_of(struct play *p, int series, const struct held_series *s)
{
  struct play_rows *x = &p->series[series];
  if (s->rows > x->room || !x->step) {
    const long wider = 2 * s->rows + 64;
    x->step = memory_grow(x->step, (size_t)x->rows, (size_t)wider, sizeof *x->step);
    x->value =
      memory_grow(x->value, (size_t)(x->rows * s->width), (size_t)(wider * s->width), sizeof *x->value);
    x->room = wider;
  }
  for (; x->rows < s->rows; x->rows++)
    recorder_held(trainer_recorder(p->trainer), series, x->rows, &x->step[x->rows],
                  &x->value[x->rows * s->width]);
  return x;
}

const double *play_row_steps(int run, int series)
{
  struct play *p;
  struct held_series s;
  return find(run, series, &p, &s) ? rows_of(p, series, &s)->step : NULL;
}

const double *play_values(int run, int series)
{
  struct play *p;
  struct held_series s;
  return find(run, series, &p, &s) ? rows_of(p, series, &s)->value : NULL;
}

static int find_series(struct play *p, const char *name, struct held_series *s)
{
  for (int i = 0; i < p->count; i++)
    if (recorder_holding(trainer_recorder(p->trainer), i, s) && !strcmp(s->name, name)) return i;
  return -1;
}

const char *play_describe(int run, int series)
{
  static const char *const rows[AXIS_COUNT] = {"step", "spectra", "validation", "probe"};
  struct play *p;
  struct held_series s;
  if (!find(run, series, &p, &s)) return NULL;
  struct buffer *b = emptied(&p->describe);
  const struct run_facts *f = recorder_facts_of(trainer_recorder(p->trainer));
  buffer_add(b, "{");
  add_json_pair(b, "name", s.name);
  add_json_pair(b, "unit", s.unit);
  add_json_pair(b, "long_name", s.long_name);
  add_json_pair(b, "definition", s.definition);
  add_json_pair(b, "axis", axis_names[axis_of(&s)]);
  add_json_pair(b, "rows", rows[s.axis]);
  buffer_add(b, ", \"width\": %ld, \"layers\": %ld, \"heads\": %ld, \"experts\": %ld, \"places\": [", s.width,
             f->layers, f->heads, f->experts);
  for (int i = 0; axis_of(&s) == PLAY_TENSORS && i < f->tensors; i++) {
    add_comma(b);
    add_json(b, f->tensor_names[i]);
  }
  buffer_add(b, "]}");
  return b->text;
}

const char *play_events(int run)
{
  struct play *p = play_of(run);
  struct run_event x;
  if (!p) return NULL;
  struct buffer *b = emptied(&p->events);
  buffer_add(b, "[");
  for (long i = 0; recorder_held_event(trainer_recorder(p->trainer), i, &x); i++) {
    add_comma(b);
    buffer_add(b, "{\"step\": %ld", x.step);
    add_json_pair(b, "kind", x.kind);
    buffer_add(b, ", \"layer\": %d, \"head\": %d, \"value\": ", x.layer, x.head);
    add_json_number(b, x.value);
    buffer_add(b, "}");
  }
  buffer_add(b, "]");
  return b->text;
}

const char *play_state(int run)
{
  struct play *p = play_of(run);
  struct held_series s;
  if (!p) return NULL;
  const char *state = trainer_more(p->trainer) ? "running" : trainer_status(p->trainer).state;
  const int loss = find_series(p, "loss", &s);
  if (!strcmp(state, "finished") && loss >= 0) {
    const struct play_rows *x = rows_of(p, loss, &s);
    const double vocab = (double)trainer_model(p->trainer)->options.vocab;
    if (losses_blew_up(x->step, x->value, s.rows, vocab)) state = "blown-up";
  }
  buffer_add(emptied(&p->state), "%s", state);
  return p->state.text;
}

/* --- heads ------------------------------------------------------------------------------------------------- */

int play_layers(int run)
{
  struct play *p = play_of(run);
  return p ? (int)recorder_facts_of(trainer_recorder(p->trainer))->layers : 0;
}

int play_heads(int run)
{
  struct play *p = play_of(run);
  return p ? (int)recorder_facts_of(trainer_recorder(p->trainer))->heads : 0;
}

int play_context(int run)
{
  const struct play *p = play_of(run);
  return p ? (int)trainer_context(p->trainer) : 0;
}

static struct play *with_head(int run, int layer, int head)
{
  struct play *p = play_of(run);
  if (p && layer >= 0 && layer < play_layers(run) && head >= 0 && head < play_heads(run)) return p;
  if (p) fail("there is no such head");
  return NULL;
}

const float *play_attention(int run, int layer, int head)
{
  struct play *p = with_head(run, layer, head);
  if (!p) return NULL;
  const size_t n = (size_t)trainer_context(p->trainer);
  if (!p->attention) p->attention = memory_new(n * n, sizeof *p->attention);
  trainer_attention(p->trainer, layer, head, p->attention);
  return p->attention;
}

int play_spectrum_size(int run, int layer, int head)
{
  struct play *p = with_head(run, layer, head);
  return p ? (int)trainer_head_spectrum(p->trainer, layer, head, NULL) : 0;
}

const double *play_spectrum(int run, int layer, int head)
{
  struct play *p = with_head(run, layer, head);
  const long n = p ? trainer_head_spectrum(p->trainer, layer, head, NULL) : 0;
  if (!n) return NULL;
  memory_free(p->spectrum);
  p->spectrum = memory_new((size_t)n, sizeof *p->spectrum);
  trainer_head_spectrum(p->trainer, layer, head, p->spectrum);
  return p->spectrum;
}

/* --- the run as text --------------------------------------------------------------------------------------- */

/* Leave out the path of the record: a command from a stranger's link could otherwise replace files. */
static int add_given(void *context, const struct config_entry *x)
{
  if (!strcmp(x->key, "record.path") || !strcmp(x->key, "record.overwrite")) return 0;
  if (!strcmp(x->origin, "default") || !strncmp(x->origin, "preset ", 7) || !x->used) return 0;
  struct buffer word = {0};
  buffer_add(&word, "%s=", x->key);
  config_quote(&word, x->value);
  buffer_add(context, " ");
  shell_add(context, word.text);
  memory_free(word.text);
  return 0;
}

const char *play_command(int run)
{
  struct play *p = play_of(run);
  if (!p) return NULL;
  buffer_add(emptied(&p->command), "maxlogit run");
  config_each(p->config, add_given, &p->command);
  return p->command.text;
}

const char *play_settings(int run)
{
  struct play *p = play_of(run);
  if (!p) return NULL;
  char *text = config_text(p->config);
  buffer_add(emptied(&p->settings), "%s", text);
  memory_free(text);
  return p->settings.text;
}

/* "attn/max_logit:l0h2" */
static void add_place(struct buffer *b, const struct run_facts *f, const struct held_series *s, long i)
{
  buffer_add(b, ",%s", s->name);
  switch (axis_of(s)) {
  case PLAY_ONE: break;
  case PLAY_LAYERS: buffer_add(b, ":l%ld", i); break;
  case PLAY_HEADS: buffer_add(b, ":l%ldh%ld", i / f->heads, i % f->heads); break;
  case PLAY_TENSORS: buffer_add(b, ":%s", f->tensor_names[i]); break;
  case PLAY_EXPERTS: buffer_add(b, ":l%lde%ld", i / f->experts, i % f->experts); break;
  }
}

static void add_cell(struct buffer *b, double x, int single)
{
  if (is_missing(x))
    buffer_add(b, ",");
  else if (isnan(x))
    buffer_add(b, ",nan");
  else if (single)
    buffer_add(b, ",%.9g", x);
  else
    buffer_add(b, ",%.17g", x);
}

static void add_comments(struct buffer *b, const char *text)
{
  for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
    end = line + strcspn(line, "\n");
    buffer_add(b, "# %.*s\n", (int)(end - line), line);
  }
}

const char *play_csv(int run)
{
  struct play *p = play_of(run);
  struct held_series s;
  if (!p) return NULL;
  const struct recorder *r = trainer_recorder(p->trainer);
  const struct run_facts *f = recorder_facts_of(r);
  struct buffer *b = emptied(&p->csv);
  long *next = memory_new((size_t)p->count + 1, sizeof *next);
  add_comments(b, play_command(run));
  add_comments(b, play_settings(run));
  buffer_add(b, "step");
  for (int i = 0; recorder_holding(r, i, &s); i++)
    for (long k = 0; s.rows && k < s.width; k++) add_place(b, f, &s, k);
  for (;;) { /* one line for each step with a row of any series */
    double step = INFINITY;
    for (int i = 0; recorder_holding(r, i, &s); i++) {
      const struct play_rows *x = rows_of(p, i, &s);
      if (next[i] < s.rows && x->step[next[i]] < step) step = x->step[next[i]];
    }
    if (!isfinite(step)) break;
    buffer_add(b, "\n%.0f", step);
    for (int i = 0; recorder_holding(r, i, &s); i++) {
      const struct play_rows *x = rows_of(p, i, &s);
      const int is_here = next[i] < s.rows && x->step[next[i]] == step;
      for (long k = 0; s.rows && k < s.width; k++)
        add_cell(b, is_here ? x->value[next[i] * s.width + k] : missing_value(), s.axes > 0);
      next[i] += is_here;
    }
  }
  buffer_add(b, "\n");
  memory_free(next);
  return b->text;
}

double play_bytes(int run)
{
  const struct play *p = play_of(run);
  struct held_series s;
  double bytes = p ? (double)p->bytes : 0;
  for (int i = 0; p && recorder_holding(trainer_recorder(p->trainer), i, &s); i++)
    bytes += (double)s.rows * (double)s.width * sizeof(float) +
             (double)p->series[i].room * (double)(s.width + 1) * sizeof(double);
  return bytes;
}

/* --- choices ------------------------------------------------------------------------------------------------- */

static void add_key(struct buffer *b, const struct option_row *row)
{
  static const char *const types[] = {"int", "real", "bool", "choice", "text"};
  char allowed[512];
  option_allowed(row, allowed, sizeof allowed);
  buffer_add(b, "{");
  add_json_pair(b, "name", row->name);
  add_json_pair(b, "type", types[row->type]);
  add_json_pair(b, "default", row->standard);
  add_json_pair(b, "allowed", allowed);
  add_json_pair(b, "unit", row->unit);
  add_json_pair(b, "help", row->help);
  if (row->type == OPTION_INT || row->type == OPTION_REAL) {
    buffer_add(b, ", \"min\": "), add_json_number(b, row->min);
    buffer_add(b, ", \"max\": "), add_json_number(b, row->max);
  }
  if (row->type == OPTION_CHOICE) {
    buffer_add(b, ", \"choices\": [");
    for (const char *const *c = row->choices; *c; c++) {
      add_comma(b);
      add_json(b, *c);
    }
    buffer_add(b, "]");
  }
  buffer_add(b, ", \"list\": %s, \"resume\": %s}", row->flags & OPTION_LIST ? "true" : "false",
             row->flags & (OPTION_FREE | OPTION_EXTEND) ? "true" : "false");
}

static void add_sections(struct buffer *b)
{
  for (const struct config_section *s = config_sections(); s->rows; s++) {
    add_comma(b);
    buffer_add(b, "{");
    add_json_pair(b, "prefix", s->prefix);
    add_json_pair(b, "help", s->help);
    buffer_add(b, ", \"plugin\": %s, \"keys\": [", s->is_plugin ? "true" : "false");
    for (const struct option_row *row = s->rows; row->name; row++) {
      add_comma(b);
      add_key(b, row);
    }
    buffer_add(b, "]}");
  }
}

static void add_plugins(struct buffer *b)
{
  for (const char *const *kind = plugin_kinds(); *kind; kind++) {
    add_comma(b);
    add_json(b, *kind);
    buffer_add(b, ": [");
    for (const struct plugin *p = plugin_table(); p->kind; p++) {
      if (strcmp(p->kind, *kind)) continue;
      add_comma(b);
      buffer_add(b, "{");
      add_json_pair(b, "name", p->name);
      add_json_pair(b, "help", p->help);
      buffer_add(b, "}");
    }
    buffer_add(b, "]");
  }
}

const char *play_options(void)
{
  static struct buffer b;
  emptied(&b);
  buffer_add(&b, "{\"sections\": [");
  add_sections(&b);
  buffer_add(&b, "], \"presets\": [");
  for (const struct preset *p = presets; p->name; p++) {
    add_comma(&b);
    buffer_add(&b, "{");
    add_json_pair(&b, "name", p->name);
    add_json_pair(&b, "help", p->help);
    add_json_pair(&b, "settings", p->settings);
    add_json_pair(&b, "source", p->source);
    buffer_add(&b, "}");
  }
  buffer_add(&b, "], \"plugins\": {");
  add_plugins(&b);
  buffer_add(&b, "}}");
  return b.text;
}

const char *play_level(void) { return ops_cpu_level(); }
const char *play_version(void) { return VERSION; }

const char *play_doctor(void)
{
  static char bits[BITS_TEXT];
  error = (struct error){0};
  return bits_of_fixed_run(NULL, NULL, bits, &error) ? NULL : bits;
}

const char *play_doctor_reference(void) { return BITS_EXPECTED; }

const char *play_bits(void)
{
  static char bits[BITS_TEXT];
  const char **word = NULL;
  size_t count = 0;
  error = (struct error){0};
  for (char *at = skip_blanks(text_in_room()); *at; count++) {
    word = memory_grow(word, count, count + 1, sizeof *word);
    word[count] = at;
    at = skip_blanks(cut_word(at));
  }
  const int status = bits_of(word, count, NULL, NULL, bits, &error);
  memory_free(word);
  return status ? NULL : bits;
}
