/* spectra.c - singular values of a checkpoint, summed up: every matrix, every head, every bilinear form */
#include <argp.h>
#include <math.h>
#include <string.h>
#include "app/command.h"
#include "analysis/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/model.h"
#include "numerics/linalg.h"
#include "storage/checkpoint.h"
#include "storage/recorder.h"

struct spectra_request {
  char **paths;
  int path_count, json;
};

static const struct {
  const char *name, *title;
  size_t offset;
} fields[] = {
  {"spectral_norm", "spectral", offsetof(struct spectrum, spectral_norm)},
  {"frobenius_norm", "Frobenius", offsetof(struct spectrum, frobenius_norm)},
  {"svd_entropy", "entropy", offsetof(struct spectrum, svd_entropy)},
  {"effective_rank_p", "eff.rank p", offsetof(struct spectrum, effective_rank_p)},
  {"effective_rank_r", "eff.rank r", offsetof(struct spectrum, effective_rank_r)},
  {"stable_rank", "stable rank", offsetof(struct spectrum, stable_rank)},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static double field_of(const struct spectrum *s, int f)
{
  return *(const double *)((const char *)s + fields[f].offset);
}

/* --- output -------------------------------------------------------------------------------------------- */

struct output {
  struct buffer text;
  json_t *files, *spectra; /* NULL: text */
};

/* One line, or one JSON object. layer, head: -1 where they do not apply. */
static void put(struct output *o, const char *name, long rows, long cols, int layer, int head,
                const struct spectrum *s)
{
  if (!o->files) {
    buffer_add(&o->text, "%-28s %5ldx%-5ld", name, rows, cols);
    for (int f = 0; f < FIELDS; f++) buffer_add(&o->text, " %11.5g", field_of(s, f));
    buffer_add(&o->text, "\n");
    return;
  }
  json_t *one =
    json_pack("{s:o, s:I, s:I}", "name", json_text(name), "rows", (json_int_t)rows, "cols", (json_int_t)cols);
  if (layer >= 0) {
    json_object_set_new(one, "layer", json_integer(layer));
    json_object_set_new(one, "head", json_integer(head));
  }
  for (int f = 0; f < FIELDS; f++) json_object_set_new(one, fields[f].name, json_number(field_of(s, f)));
  json_array_append_new(o->spectra, one);
}

static void put_start(struct output *o, const char *path, long step, int first)
{
  struct buffer *b = &o->text;
  if (o->files) {
    o->spectra = json_array();
    json_array_append_new(o->files, json_pack("{s:o, s:I, s:o}", "file", json_text(path), "step",
                                              (json_int_t)step, "spectra", o->spectra));
    return;
  }
  buffer_add(b, "%s# %s, after %ld updates\n", first ? "" : "\n", path, step);
  buffer_add(
    b, "# p = sigma^2 / sum sigma^2, r = sigma / sum sigma; entropy -(1/ln n) sum p ln p; effective ranks "
       "exp(-sum p ln p), exp(-sum r ln r)\n");
  buffer_add(b, "%-28s %11s", "# tensor", "shape");
  for (int f = 0; f < FIELDS; f++) buffer_add(b, " %11s", fields[f].title);
  buffer_add(b, "\n");
}

/* --- spectra ------------------------------------------------------------------------------------------- */

static const struct checkpoint_tensor *find_tensor(const struct checkpoint *c, const char *name)
{
  for (int i = 0; i < c->count; i++)
    if (strncmp(c->tensors[i].name, "params/", 7) == 0 && strcmp(c->tensors[i].name + 7, name) == 0)
      return &c->tensors[i];
  return NULL;
}

static int put_matrices(struct output *o, struct spectra *work, const struct checkpoint *c,
                        struct error *error)
{
  for (int i = 0; i < c->count; i++) {
    const struct checkpoint_tensor *t = &c->tensors[i];
    struct spectrum s;
    if (strncmp(t->name, "params/", 7) != 0 || t->rows < 2 || t->cols < 2) continue;
    int status = spectrum_of(work, SPECTRA_SVD, t->data, t->rows, t->cols, t->cols, &s, error);
    if (status) return error_prefix(error, "%s", t->name + 7);
    put(o, t->name + 7, t->rows, t->cols, -1, -1, &s);
  }
  return STATUS_OK;
}

/* The rows of a tensor that a head's queries or keys are made of. */
struct block {
  const struct checkpoint_tensor *tensor;
  const char *weight;
  long row, rows;
};

static struct block find_block(const struct checkpoint *c, const struct factor *factors, int count, int query)
{
  for (int i = 0; i < count; i++) {
    enum role role = factors[i].role;
    if (query ? role != ROLE_Q_HEAD : role != ROLE_K_HEAD && role != ROLE_K_GROUP) continue;
    const char *name = factors[i].weight->name, *dot = strrchr(name, '.');
    return (struct block){find_tensor(c, name), dot ? dot + 1 : name, factors[i].row, factors[i].rows};
  }
  return (struct block){0};
}

static int block_spectrum(struct spectra *work, const struct block *b, struct spectrum *s,
                          struct error *error)
{
  const real *w = b->tensor->data;
  return spectrum_of(work, SPECTRA_SVD, w + b->row * b->tensor->cols, b->rows, b->tensor->cols,
                     b->tensor->cols, s, error);
}

static int put_head(struct output *o, struct spectra *work, const struct checkpoint *c,
                    const struct model *model, int layer, int head, struct error *error)
{
  struct factor factors[MAX_FACTORS];
  int count = model->attention->factors(model, layer, head, factors), status;
  struct block q = find_block(c, factors, count, 1), k = find_block(c, factors, count, 0);
  struct spectrum s;
  char name[96];
  if (!q.tensor || !k.tensor)
    return error_set(error, STATUS_FAIL, "head %d of layer %d: tensors are missing", head, layer);
  if ((status = block_spectrum(work, &q, &s, error))) return status;
  snprintf(name, sizeof name, "l%dh%d %s", layer, head, q.weight);
  put(o, name, q.rows, q.tensor->cols, layer, head, &s);
  if ((status = block_spectrum(work, &k, &s, error))) return status;
  snprintf(name, sizeof name, "l%dh%d %s", layer, head, k.weight);
  put(o, name, k.rows, k.tensor->cols, layer, head, &s);
  if (q.rows != k.rows || q.tensor->cols != k.tensor->cols) return STATUS_OK; /* MLA: two different latents */
  const real *wq = q.tensor->data, *wk = k.tensor->data;
  long d = q.tensor->cols;
  if ((status = spectrum_of_form(work, wq + q.row * d, d, wk + k.row * d, d, q.rows, d, &s, error)))
    return status;
  snprintf(name, sizeof name, "l%dh%d %s^T %s", layer, head, q.weight, k.weight);
  put(o, name, d, d, layer, head, &s);
  return STATUS_OK;
}

/* The model of the checkpoint's configuration says which rows belong to which head, whatever the variant. */
static int put_heads(struct output *o, struct spectra *work, const struct checkpoint *c, const char *path,
                     struct error *error)
{
  struct config *config = config_new();
  struct device *device = NULL;
  struct model model = {0};
  int status = config_read(config, c->config_text, path, error);
  if (!status) status = config_finish(config, error);
  if (!status) status = device_open(&device, "reference", 1, error);
  if (!status) {
    struct model_options options = *(struct model_options *)config_section(config, "model");
    status = model_resolve(&options, options.vocab, error);
    if (!status) status = model_init(&model, &options, device, NULL, NULL, 0, error);
    for (int l = 0; !status && l < options.layers; l++)
      for (int h = 0; !status && h < options.heads; h++) status = put_head(o, work, c, &model, l, h, error);
    model_free(&model);
    device_close(device);
  }
  config_free(config);
  return status;
}

/* A checkpoint, or a run file: then the newest of its checkpoints. */
static int read_either(const char *path, struct checkpoint *c, struct error *error)
{
  struct run_file *run;
  if (run_open(&run, path, NULL) != STATUS_OK) return checkpoint_read(path, c, error);
  run_close(run);
  return checkpoint_latest(path, c, error);
}

static int put_file(struct output *o, const char *path, int first, struct error *error)
{
  struct checkpoint c = {0};
  long rows = 1, cols = 1;
  int status = read_either(path, &c, error);
  if (status) return status;
  for (int i = 0; i < c.count; i++) {
    rows = c.tensors[i].rows > rows ? c.tensors[i].rows : rows;
    cols = c.tensors[i].cols > cols ? c.tensors[i].cols : cols;
  }
  struct spectra *work = spectra_new(rows, cols);
  put_start(o, path, c.step, first);
  status = put_matrices(o, work, &c, error);
  if (!status) status = put_heads(o, work, &c, path, error);
  spectra_free(work);
  checkpoint_free(&c);
  return status;
}

/* --- command line -------------------------------------------------------------------------------------- */

enum { KEY_JSON = 256 };
static const struct argp_option options[] = {{"json", KEY_JSON, NULL, 0, "The same " JSON_HELP, 0}, {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
  struct spectra_request *r = state->input;
  switch (key) {
  case KEY_JSON: r->json = 1; return 0;
  case ARGP_KEY_ARG: r->paths[r->path_count++] = text; return 0;
  case ARGP_KEY_END:
    if (r->path_count == 0) argp_error(state, "no checkpoint or run file given");
    return 0;
  }
  return ARGP_ERR_UNKNOWN;
}

static int run_spectra(int argc, char **argv)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "FILE ...",
    .doc = "Singular-value entropy and norms of a checkpoint, or of a run's newest one: of every matrix, of "
           "every head's rows of w_q and w_k, and of its bilinear form w_q^T w_k.",
  };
  struct spectra_request r = {0};
  struct output output = {0};
  struct error error = {0};
  r.paths = memory_new((size_t)argc, sizeof *r.paths);
  int status = argp_parse(&argp, argc, argv, 0, NULL, &r) ? STATUS_USAGE : STATUS_OK;
  if (r.json) output.files = json_array();
  for (int i = 0; i < r.path_count && !status; i++) status = put_file(&output, r.paths[i], i == 0, &error);
  if (*error.text) message("%s", error.text);
  if (!status && r.json) json_print(output.files);
  if (!status && !r.json) printf("%s", output.text.text);
  memory_free(output.text.text);
  memory_free(r.paths);
  return status;
}

const struct command command_spectra = {
  .name = "spectra",
  .arguments = "FILE ...",
  .run = run_spectra,
  .help = "singular-value entropy and norms of a checkpoint",
};
