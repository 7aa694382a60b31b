/* spectra.c - singular values of checkpoints, summed up: every matrix, every head, and the bound of its logits */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "analysis/json.h"
#include "zoo/own_run.h"
#include "zoo/spectra.h"
#include "app/command.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/status_line.h"
#include "base/text.h"
#include "numerics/device.h"

struct options {
  struct request request;
  struct words set;
  const char *config, *output;
  long json, threads, only;
};
static const char *const parts[] = {"heads", "matrices",
                                    NULL}; /* SPECTRA_HEADS, SPECTRA_MATRICES by their bits */

/* A checkpoint, of either kind. */
struct subject {
  const char *path;
  long step; /* of our own */
  struct own_run *own;
  struct weights *weights;
  struct architecture architecture;
  int has_heads;
};

static const struct weights *weights_in(const struct subject *s)
{
  return s->own ? own_run_weights(s->own) : s->weights;
}

static const struct architecture *architecture_in(const struct subject *s)
{
  return s->own ? own_run_architecture(s->own) : s->has_heads ? &s->architecture : NULL;
}

/* --- text ---------------------------------------------------------------------------------------------- */

/* The column of names is as wide as the longest, at least as wide as for our own. */
static int name_width(const struct checkpoint_spectra *s)
{
  size_t width = 28;
  for (long i = 0; i < s->matrices; i++) {
    size_t length = strlen(s->matrix[i].name) + (s->matrix[i].count > 1 ? 16 : 0);
    width = length > width ? length : width;
  }
  return width < 100 ? (int)width : 100;
}

static void line(struct buffer *b, int width, const char *name, long rows, long cols,
                 const struct spectrum *s)
{
  buffer_add(b, "%-*s %6ldx%-6ld", width, name, rows, cols);
  for (int f = 0; f < SPECTRUM_FIELDS; f++) buffer_add(b, " %11.5g", without_nan_sign(spectrum_number(s, f)));
  buffer_add(b, "\n");
}

static void text_matrices(struct buffer *b, int width, const struct checkpoint_spectra *s)
{
  long experts = 0;
  for (long i = 0; i < s->matrices; i++) {
    const struct matrix_spectrum *m = &s->matrix[i];
    if (m->count == 1) line(b, width, m->name, m->rows, m->cols, &m->quantile[0]);
    experts += m->count > 1;
  }
  if (!experts) return;
  static const char *const names[QUANTILES] = {"least", "25 %", "median", "75 %", "most"};
  buffer_add(b, "\n# experts: the distribution of each number over them\n");
  for (long i = 0; i < s->matrices; i++) {
    const struct matrix_spectrum *m = &s->matrix[i];
    char name[320];
    for (int q = 0; q < QUANTILES && m->count > 1; q++) {
      snprintf(name, sizeof name, "%s (%ld) %s", m->name, m->count, names[q]);
      line(b, width, name, m->rows, m->cols, &m->quantile[q]);
    }
  }
}

static void text_part(struct buffer *b, int width, long layer, long head, const struct part_spectrum *p)
{
  char name[128];
  snprintf(name, sizeof name, "l%ldh%ld %s", layer, head, p->q_name);
  line(b, width, name, p->rows, p->q_cols, &p->q);
  snprintf(name, sizeof name, "l%ldh%ld %s", layer, head, p->k_name);
  line(b, width, name, p->rows, p->k_cols, &p->k);
  snprintf(name, sizeof name, "l%ldh%ld %s^T %s", layer, head, p->q_name, p->k_name);
  line(b, width, name, p->q_cols, p->k_cols, &p->form);
}

static double share_of(const struct head_spectrum *h)
{
  return h->terms && isfinite(h->bound) ? h->term[h->largest].value / h->bound : NAN;
}

static void text_bounds(struct buffer *b, const struct checkpoint_spectra *s)
{
  if (!s->head) return;
  buffer_add(
    b, "\n# |logit| of any input, before any cap: its bound, and that between positions without "
       "a turn; the largest part of the bound\n# head        scale       bound       still  share  part\n");
  for (long i = 0; i < s->layers * s->heads; i++) {
    const struct head_spectrum *h = &s->head[i];
    char name[48];
    if (!h->parts) continue;
    snprintf(name, sizeof name, "l%ldh%ld", i / s->heads, i % s->heads);
    buffer_add(b, "%-10s %8.5g %11.5g %11.5g  %5.3f  %s\n", name, without_nan_sign(h->scale),
               without_nan_sign(h->bound), without_nan_sign(h->still), without_nan_sign(share_of(h)),
               h->terms ? h->term[h->largest].name : "-");
  }
}

static void text_start(struct buffer *b, int width, const struct subject *s, int first)
{
  char *path = text_cleaned(s->path, "");
  buffer_add(b, "%s# %s, ", first ? "" : "\n", path);
  memory_free(path);
  if (s->own)
    buffer_add(b, "after %ld update%s\n", s->step, text_s(s->step));
  else if (s->has_heads)
    buffer_add(b, "family %s: %ld layer%s, %ld head%s\n", s->architecture.family, s->architecture.layers,
               text_s(s->architecture.layers), s->architecture.heads, text_s(s->architecture.heads));
  else
    buffer_add(b, "of no family that is known: matrices alone\n");
  buffer_add(
    b, "# p = sigma^2 / sum sigma^2, r = sigma / sum sigma; entropy -(1/ln n) sum p ln p; effective ranks "
       "exp(-sum p ln p), exp(-sum r ln r)\n");
  buffer_add(b, "%-*s %13s", width, "# tensor", "shape");
  for (int f = 0; f < SPECTRUM_FIELDS; f++) buffer_add(b, " %11s", spectrum_fields[f].title);
  buffer_add(b, "\n");
}

static void put_text(struct buffer *b, const struct subject *s, const struct checkpoint_spectra *c, int first)
{
  int width = name_width(c);
  text_start(b, width, s, first);
  text_matrices(b, width, c);
  for (long i = 0; c->head && i < c->layers * c->heads; i++)
    for (int p = 0; p < c->head[i].parts; p++)
      text_part(b, width, i / c->heads, i % c->heads, &c->head[i].part[p]);
  if (!*s->architecture.unbounded) text_bounds(b, c);
  if (c->left_out)
    buffer_add(b, "# left out: %ld tensor%s of two dimensions whose numbers are whole\n", c->left_out,
               text_s(c->left_out));
}

/* --- JSON ---------------------------------------------------------------------------------------------- */

static json_t *json_spectrum(const char *name, long rows, long cols, const struct spectrum *s)
{
  json_t *one =
    json_pack("{s:o, s:I, s:I}", "name", json_text(name), "rows", (json_int_t)rows, "cols", (json_int_t)cols);
  for (int f = 0; f < SPECTRUM_FIELDS; f++)
    json_object_set_new(one, spectrum_fields[f].name, json_number(spectrum_number(s, f)));
  return one;
}

static void json_matrices(json_t *spectra, json_t *experts, const struct checkpoint_spectra *s)
{
  for (long i = 0; i < s->matrices; i++) {
    const struct matrix_spectrum *m = &s->matrix[i];
    if (m->count == 1) {
      json_array_append_new(spectra, json_spectrum(m->name, m->rows, m->cols, &m->quantile[0]));
      continue;
    }
    json_t *one = json_pack("{s:o, s:I, s:I, s:I}", "name", json_text(m->name), "count", (json_int_t)m->count,
                            "rows", (json_int_t)m->rows, "cols", (json_int_t)m->cols);
    for (int f = 0; f < SPECTRUM_FIELDS; f++) {
      json_t *list = json_array();
      for (int q = 0; q < QUANTILES; q++)
        json_array_append_new(list, json_number(spectrum_number(&m->quantile[q], f)));
      json_object_set_new(one, spectrum_fields[f].name, list);
    }
    json_array_append_new(experts, one);
  }
}

static void json_of_head(json_t *spectra, const char *name, long rows, long cols, long layer, long head,
                         const struct spectrum *s)
{
  char text[128];
  snprintf(text, sizeof text, "l%ldh%ld %s", layer, head, name);
  json_t *one = json_spectrum(text, rows, cols, s);
  json_object_set_new(one, "layer", json_integer(layer));
  json_object_set_new(one, "head", json_integer(head));
  json_array_append_new(spectra, one);
}

static json_t *json_heads(json_t *spectra, const struct checkpoint_spectra *s)
{
  json_t *heads = json_array();
  for (long i = 0; s->head && i < s->layers * s->heads; i++) {
    const struct head_spectrum *h = &s->head[i];
    long layer = i / s->heads, head = i % s->heads;
    char form[96];
    json_t *terms = json_object();
    for (int p = 0; p < h->parts; p++) {
      const struct part_spectrum *x = &h->part[p];
      snprintf(form, sizeof form, "%s^T %s", x->q_name, x->k_name);
      json_of_head(spectra, x->q_name, x->rows, x->q_cols, layer, head, &x->q);
      json_of_head(spectra, x->k_name, x->rows, x->k_cols, layer, head, &x->k);
      json_of_head(spectra, form, x->q_cols, x->k_cols, layer, head, &x->form);
    }
    for (int t = 0; t < h->terms; t++)
      json_object_set_new(terms, h->term[t].name, json_number(h->term[t].value));
    if (h->parts)
      json_array_append_new(heads,
                            json_pack("{s:I, s:I, s:o, s:o, s:o, s:o}", "layer", (json_int_t)layer, "head",
                                      (json_int_t)head, "scale", json_number(h->scale), "bound",
                                      json_number(h->bound), "still", json_number(h->still), "parts", terms));
    else
      json_decref(terms);
  }
  return heads;
}

static void put_json(json_t *files, const struct subject *s, const struct checkpoint_spectra *c)
{
  json_t *spectra = json_array(), *experts = json_array();
  json_matrices(spectra, experts, c);
  json_t *heads = json_heads(spectra, c);
  const struct architecture *architecture = architecture_in(s);
  json_array_append_new(files, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "file", json_text(s->path),
                                         "family", json_text(architecture ? architecture->family : NULL),
                                         "step", s->own ? json_integer(s->step) : json_null(), "spectra",
                                         spectra, "experts", experts, "heads", heads));
}

/* --- files --------------------------------------------------------------------------------------------- */

static int is_of_others(const char *path)
{
  static const char *const ends[] = {".safetensors", ".json"};
  struct stat facts;
  if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) return 1;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    size_t n = strlen(ends[i]), length = strlen(path);
    if (length > n && strcmp(path + length - n, ends[i]) == 0) return 1;
  }
  return 0;
}

static int open_subject(struct subject *s, const struct options *r, const char *path, struct error *e)
{
  *s = (struct subject){.path = path};
  if (!is_of_others(path)) {
    if (r->config || r->set.count)
      return error_set(e, STATUS_USAGE,
                       "%s: --config and --set are for checkpoints of others; this one tells all itself",
                       path);
    int status = own_run_open(&s->own, path, e);
    if (!status) s->step = own_run_checkpoint(s->own)->step;
    return status;
  }
  int status = weights_open(&s->weights, path, r->config, e);
  for (int i = 0; i < r->set.count && !status; i++) status = weights_set(s->weights, r->set.word[i], e);
  if (!status) status = architecture_open(&s->architecture, s->weights, &s->has_heads, e);
  if (!status && s->has_heads && *s->architecture.unbounded)
    warning("%s: %s", path, s->architecture.unbounded);
  return status;
}

static void close_subject(struct subject *s)
{
  own_run_close(s->own);
  weights_close(s->weights);
}

struct bar {
  double started, shown;
};

static void show_bar(void *context, double done)
{
  struct bar *b = context;
  double now = clock_seconds();
  if (now - b->shown < 0.1 && done < 1) return;
  b->shown = now;
  char left[32], time_left[40], share[32];
  duration_text(left, (now - b->started) * (1 - done) / done);
  snprintf(time_left, sizeof time_left, "%s left", left);
  snprintf(share, sizeof share, "spectra %.0f %%", 100 * done);
  status_line((const char *const[]){time_left, share, NULL});
  if (done >= 1) status_line_clear();
}

static int put_file(struct buffer *text, json_t *files, const struct options *r, const char *path, int first,
                    struct device *device, struct error *e)
{
  struct subject s;
  struct checkpoint_spectra c;
  struct bar bar = {.started = clock_seconds()};
  int status = open_subject(&s, r, path, e);
  if (!status)
    status = checkpoint_spectra(&c, weights_in(&s), architecture_in(&s), device->pool,
                                r->only < 0 ? SPECTRA_HEADS | SPECTRA_MATRICES : 1U << r->only,
                                isatty(STDERR_FILENO) ? show_bar : NULL, &bar, e);
  if (!status) {
    if (files)
      put_json(files, &s, &c);
    else
      put_text(text, &s, &c, first);
    if (r->output)
      status = checkpoint_spectra_record(
        &c, r->output, architecture_in(&s) ? architecture_in(&s)->family : "other", path, s.step, e);
    checkpoint_spectra_free(&c);
  }
  close_subject(&s);
  return status;
}

/* --- command line -------------------------------------------------------------------------------------- */

static const struct command_option options[] = {
  TEXT(output, 'o', "FILE.h5", NULL,
       "Also write the numbers there, as series that plot, export and show read"),
  TEXT(config, 0, "FILE", NULL, "The config.json of a checkpoint of others (default: the one beside it)"),
  MANY(set, "KEY=VALUE", "A value of config.json that is missing or to be another; may be repeated"),
  CHOICE(only, 0, parts, NULL, "Leave out the others"),
  WHOLE(threads, 0, "N", "0", 1, 1024, "Threads, without it on all cores; the numbers do not depend on it"),
  FLAG(json, 0, "The same " JSON_HELP),
  NO_OPTION,
};

static void add_families(struct buffer *b)
{
  const char *name, *help;
  buffer_add(b, "Checkpoints of others, by model_type in config.json or by the tensors' names:\n");
  for (int i = 0; (name = architecture_family(i, &help)); i++)
    buffer_add(b, "%s  %-12s %s", i ? "\n" : "", name, help);
}

static int spectra(void *request, struct error *e)
{
  struct options *r = request;
  const struct words *paths = &r->request.words;
  struct buffer text = {0};
  struct device *device = NULL;
  if (r->output && paths->count > 1)
    return error_set(e, STATUS_USAGE, "spectra --output: takes the numbers of one checkpoint");
  if (r->output) file_keep_private(paths->word[0]);
  if (r->output && access(r->output, F_OK) == 0)
    return error_set(e, STATUS_USAGE, "%s exists: give another name for the numbers", r->output);
  json_t *files = r->json ? json_array() : NULL;
  int status = device_open(&device, "cpu", (int)r->threads, e), refused = 0;
  for (int i = 0; i < paths->count && !status; i++) {
    struct error of_file = {0};
    if (!put_file(&text, files, r, paths->word[i], i == refused, device, &of_file)) continue;
    if (++refused == paths->count) /* nothing is left to print */
      status = error_set(e, of_file.status, "%s", of_file.text);
    else
      message("%s", of_file.text);
  }
  device_close(device);
  if (!status && r->json)
    json_print(files);
  else
    json_decref(files);
  if (!status && !r->json) printf("%s", text.text);
  memory_free(text.text);
  return !status && refused ? STATUS_FAIL : status;
}

const struct command command_spectra = {
  .name = "spectra",
  .arguments = "FILE|DIR ...",
  .help = "singular-value entropy, norms and logit bounds of a checkpoint (ours or safetensors)",
  .about =
    "Singular-value entropy and norms of a checkpoint, or of a run's newest one: of every matrix, of every "
    "head's "
    "rows of w_q and w_k, and of its bilinear form w_q^T w_k; and a bound on the head's logits. Also of "
    "checkpoints of others: a file of safetensors, or a folder with shards and their index.",
  .more = "maxlogit spectra a.h5\nmaxlogit spectra a.h5 --only=heads --json\n\n",
  .tell = add_families,
  OPTIONS,
  .wanted = "which checkpoint?",
  .most = MANY_WORDS,
  .run = spectra,
};
