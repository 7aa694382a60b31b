#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/markup.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "storage/blow_up.h"
#include "storage/derived.h"
#include "storage/head.h"
#include "storage/layout.h"
#include "storage/notes.h"
#include "storage/run_file.h"
#include "storage/seal.h"

struct name_pair {
  const char *key, *value;
};

struct run_file {
  char path[4096];
  struct h5 *h; /* NULL while it is not loaded */
  char *head;   /* the pairs point to its cleaned texts */
  size_t head_size;
  struct name_pair *pair, *sorted; /* in their order; sorted by key */
  size_t pairs;
  char (*name)[SERIES_NAME]; /* of each series */
  char *unread;              /* for each pair that is a series, 1: unreadable, and reported */
  int names, warned;
  int no_events, no_notes; /* they cannot be read */
  enum { UNKNOWN, BLEW_UP, DID_NOT } blew_up;
};

/* --- the head ------------------------------------------------------------------------------------------ */

static int compare_pairs(const void *a, const void *b)
{
  return strcmp(((const struct name_pair *)a)->key, ((const struct name_pair *)b)->key);
}

static const struct name_pair *pair_of(const struct run_file *r, const char *key)
{
  const struct name_pair wanted = {key, NULL};
  return bsearch(&wanted, r->sorted, r->pairs, sizeof wanted, compare_pairs);
}

static const char *value_of(const struct run_file *r, const char *key)
{
  const struct name_pair *found = pair_of(r, key);
  return found ? found->value : NULL;
}

static const char *fact(const struct run_file *r, const char *key)
{
  const char *value = value_of(r, key);
  return value ? value : "";
}

/* Split the texts of a head into pairs, and list the names of the series. */
static void take_head(struct run_file *r)
{
  const char *at = r->head, *end = r->head + r->head_size;
  size_t texts = 0;
  for (size_t i = 0; i < r->head_size; i++) texts += !r->head[i];
  r->pairs = texts / 2;
  r->pair = memory_new(r->pairs + 1, sizeof *r->pair);
  r->sorted = memory_new(r->pairs + 1, sizeof *r->sorted);
  r->unread = memory_new(r->pairs + 1, 1);
  size_t names = 0;
  for (size_t i = 0; i < r->pairs && at < end; i++) {
    struct name_pair *p = &r->pair[i];
    p->key = at;
    p->value = at + strlen(at) + 1;
    at = p->value + strlen(p->value) + 1;
    text_clean(r->head + (p->key - r->head), (size_t)(p->value - p->key), "");
    text_clean(r->head + (p->value - r->head), (size_t)(at - p->value), "");
    names += !strncmp(p->key, HEAD_SERIES, strlen(HEAD_SERIES));
  }
  r->name = memory_new(names + 1, sizeof *r->name);
  for (size_t i = 0; i < r->pairs && (size_t)r->names < names; i++)
    if (!strncmp(r->pair[i].key, HEAD_SERIES, strlen(HEAD_SERIES)))
      text_fill(r->name[r->names++], sizeof *r->name, r->pair[i].key + strlen(HEAD_SERIES));
  memcpy(r->sorted, r->pair, r->pairs * sizeof *r->pair);
  qsort(r->sorted, r->pairs, sizeof *r->sorted, compare_pairs);
}

/* Of two values of a key, readers may take either. */
static int check_keys(const struct run_file *r, struct error *e)
{
  for (size_t i = 1; i < r->pairs; i++)
    if (!compare_pairs(&r->sorted[i - 1], &r->sorted[i]))
      return error_set(e, STATUS_FAIL, "%s states \"%s\" twice", r->path, r->sorted[i].key);
  return STATUS_OK;
}

/* --- opening ------------------------------------------------------------------------------------------- */

static int check_version(const struct run_file *r, int64_t version, struct error *e)
{
  if (version <= RUN_VERSION) return STATUS_OK;
  return error_set(e, STATUS_USAGE, "%s has format version %" PRId64 "; this maxlogit reads up to %d",
                   r->path, version, RUN_VERSION);
}

/* Is it a run file of a supported version? */
static int check_format(struct run_file *r, struct error *e)
{
  char format[64] = "";
  int64_t version = 0;
  h5_id root = h5_find(r->h, "/");
  h5_get_text(r->h, root, "format", format, sizeof format);
  h5_get_int(r->h, root, "format_version", &version);
  h5_done(r->h, root);
  if (!strcmp(format, CHECKPOINT_FORMAT))
    return error_set(e, STATUS_USAGE, "%s is a checkpoint, not a run file", r->path);
  if (strcmp(format, RUN_FORMAT))
    return error_set(e, STATUS_USAGE, "%s is not a run file of maxlogit", r->path);
  return check_version(r, version, e);
}

/* The id in a head, which has pairs of texts. */
static void id_of(const char *head, size_t size, char out[64])
{
  for (const char *key = head, *end = head + size; key && key < end;) {
    const char *value = memchr(key, 0, (size_t)(end - key));
    const char *last = value ? memchr(value + 1, 0, (size_t)(end - value - 1)) : NULL;
    if (last && !strcmp(key, "id")) text_fill(out, 64, value + 1);
    key = last ? last + 1 : NULL;
  }
}

/* Numbers that are read later must belong to the run of the head. */
static int check_same(const struct run_file *r, struct error *e)
{
  char now[64] = "", before[64] = "";
  size_t size;
  const char *head = h5_get_head(r->h, &size);
  if (!head || !r->head) return STATUS_OK;
  id_of(head, size, now);
  id_of(r->head, r->head_size, before);
  if (!strcmp(now, before)) return STATUS_OK;
  return error_set(e, STATUS_FAIL, "%s was replaced by another run while it was read", r->path);
}

static int load(struct run_file *r, struct error *e)
{
  struct buffer advice = {0};
  if (r->h) return STATUS_OK;
  buffer_add(&advice, "; `maxlogit note --accept-edit ");
  shell_add(&advice, r->path);
  buffer_add(&advice, "` takes a run as it is now");
  int status = h5_load_or(&r->h, r->path, advice.text, e);
  memory_free(advice.text);
  if (!status) status = check_format(r, e);
  if (!status) status = check_same(r, e);
  if (status) run_rest(r);
  return status;
}

static void make_head(struct run_file *r)
{
  r->head = run_head_of(r->h, &r->head_size);
  take_head(r);
}

static struct run_file *run_blank(const char *path)
{
  struct run_file *r = memory_new(1, sizeof *r);
  snprintf(r->path, sizeof r->path, "%s", path);
  return r;
}

static int deliver(struct run_file **out, struct run_file *r, int status)
{
  if (status)
    run_close(r);
  else
    *out = r;
  return status;
}

int run_open(struct run_file **out, const char *path, struct error *e)
{
  struct run_file *r = run_blank(path);
  int status = load(r, e);
  if (status) {
    run_close(r);
    return status;
  }
  const char *head = h5_get_head(r->h, &r->head_size);
  if (head) {
    r->head = memory_new(r->head_size + 1, 1);
    memcpy(r->head, head, r->head_size);
    take_head(r);
  } else
    make_head(r);
  return deliver(out, r, check_keys(r, e));
}

int run_open_unsealed(struct run_file **out, const char *path, struct error *e)
{
  struct run_file *r = run_blank(path);
  int status = h5_load_unsealed(&r->h, path, e);
  if (!status) status = check_format(r, e);
  if (status) {
    run_close(r);
    return status;
  }
  make_head(r);
  return deliver(out, r, check_keys(r, e));
}

const char *run_head(const struct run_file *r, size_t *size)
{
  *size = r->head_size;
  return r->head;
}

int run_notes(const struct run_file *file, struct notes *n, struct error *e)
{
  struct run_file *r = (struct run_file *)(uintptr_t)file; /* only fills a cache, so const for callers */
  *n = (struct notes){0};
  if (load(r, e)) return e ? e->status : STATUS_FAIL;
  int status = notes_read(r->h, n, e);
  if (status && !e && !r->no_notes) warning("%s: the notes cannot be read", r->path);
  r->no_notes = status != STATUS_OK;
  return status ? error_prefix(e, "%s", r->path) : STATUS_OK;
}

int run_peek(struct run_file **out, const char *path, struct error *e)
{
  struct run_file *r = run_blank(path);
  r->head = head_read(path, &r->head_size);
  if (!r->head) {
    run_close(r);
    int status = run_open(out, path, e);
    if (!status) run_rest(*out);
    return status;
  }
  take_head(r);
  int status = check_version(r, strtol(fact(r, "format_version"), NULL, 10), e);
  return deliver(out, r, status ? status : check_keys(r, e));
}

int run_check(struct run_file *r, struct error *e)
{
  int status = load(r, e);
  run_rest(r);
  return status;
}

void run_rest(const struct run_file *file)
{
  struct run_file *r = (struct run_file *)(uintptr_t)file; /* it is loaded again when needed */
  h5_free(r->h);
  r->h = NULL;
}

void run_close(struct run_file *r)
{
  if (!r) return;
  h5_free(r->h);
  memory_free(r->head);
  memory_free(r->pair);
  memory_free(r->sorted);
  memory_free(r->name);
  memory_free(r->unread);
  memory_free(r);
}

/* --- facts --------------------------------------------------------------------------------------------- */

static double number_of(const struct run_file *r, const char *key)
{
  const char *value = value_of(r, key);
  return value ? strtod(value, NULL) : NAN;
}

const char *run_state(const struct run_file *r) { return fact(r, "state"); }
/* Not strtol, because a head has 1e+05 for 100000. */
long run_last_step(const struct run_file *r) { return whole_step(number_of(r, "last_step")); }
double run_wall_seconds(const struct run_file *r) { return number_of(r, "wall_seconds"); }
const char *run_id(const struct run_file *r) { return fact(r, "id"); }
const char *run_date(const struct run_file *r) { return fact(r, "date"); }
const char *run_data(const struct run_file *r) { return fact(r, "data"); }
const char *run_data_text(const struct run_file *r) { return fact(r, "data_text"); }
double run_loss_floor(const struct run_file *r) { return number_of(r, "loss_floor"); }

void run_contents(const struct run_file *r, uint64_t *data, uint64_t *start)
{
  *data = strtoull(fact(r, "data_content"), NULL, 16);
  *start = strtoull(fact(r, "start_content"), NULL, 16);
}

const char *run_parameter(const struct run_file *r, const char *key)
{
  char full[128];
  snprintf(full, sizeof full, HEAD_PARAMETER "%s", key);
  return value_of(r, full);
}

int run_open_trained(struct run_file **out, const char *path, struct error *e)
{
  int status = run_open(out, path, e);
  if (status || !run_parameter(*out, "checkpoint.family")) return status;
  run_close(*out);
  *out = NULL;
  return error_set(e, STATUS_USAGE, "%s: numbers of a checkpoint (maxlogit spectra -o), not a run", path);
}

int run_open_own(struct run_file **out, const char *path, struct error *e)
{
  int status = run_open_trained(out, path, e);
  if (status || strcmp(run_data(*out), DATA_RECORDED) != 0) return status;
  run_close(*out);
  *out = NULL;
  return error_set(e, STATUS_USAGE, "%s was recorded by another program: only that one can go on with it",
                   path);
}

int run_has_journal_of_recording(const struct run_file *r)
{
  char journal[4096];
  if (strcmp(run_data(r), DATA_RECORDED) != 0 || strcmp(run_state(r), "running") != 0 ||
      strcmp(run_shown_state(r), "killed") != 0)
    return 0;
  run_sibling(journal, r->path, ".journal");
  return !access(journal, F_OK);
}

int run_parameters(const struct run_file *r, int (*each)(void *, const char *key, const char *value),
                   void *context)
{
  size_t prefix = strlen(HEAD_PARAMETER);
  int stop = 0;
  for (size_t i = 0; i < r->pairs && !stop; i++)
    if (!strncmp(r->pair[i].key, HEAD_PARAMETER, prefix))
      stop = each(context, r->pair[i].key + prefix, r->pair[i].value);
  return stop;
}

static int count_parameter(void *count, const char *key, const char *value)
{
  (void)key, (void)value;
  ++*(int64_t *)count;
  return 0;
}

int run_check_head(const struct run_file *file, struct error *e)
{
  struct run_file *r = (struct run_file *)(uintptr_t)file,
                  *now; /* only fills a cache, so const for callers */
  if (load(r, e)) return e->status;
  now = run_blank(r->path);
  now->head = run_head_of(r->h, &now->head_size);
  take_head(now);
  size_t same = 0;
  while (same < r->pairs && same < now->pairs && !strcmp(r->pair[same].key, now->pair[same].key) &&
         !strcmp(r->pair[same].value, now->pair[same].value))
    same++;
  const size_t least = r->pairs < now->pairs ? r->pairs : now->pairs, most = r->pairs + now->pairs - least;
  if (same < most)
    error_set(e, STATUS_FAIL,
              "%s: its head and its contents state different values of \"%s\": somebody changed it", r->path,
              (same < r->pairs ? r->pair : now->pair)[same].key);
  run_close(now);
  return e->status;
}

struct additions {
  struct h5 *h;
  char first[256];
};

/* Series have labels, and their axes are scales or names of places. */
static int find_addition(void *context, const char *path, h5_id id)
{
  static const char *const own[] = {"/events", "/notes", "/parameters/config", "/parameters/table"};
  static const char *const tables[] = {"/series/", "/timing/", "/batches/"};
  struct additions *x = context;
  char text[64] = "";
  int known = 0;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) known |= !strcmp(path, own[i]);
  for (size_t i = 0; i < sizeof tables / sizeof *tables && !known; i++)
    known = !strncmp(path, tables[i], strlen(tables[i])) &&
            (h5_get_label(x->h, id, 0, text, sizeof text) || text_ends_with(path, "_name") ||
             (h5_get_text(x->h, id, "CLASS", text, sizeof text) && !strcmp(text, "DIMENSION_SCALE")));
  if (!known) text_fill(x->first, sizeof x->first, path);
  return !known;
}

int run_check_additions(const struct run_file *file, struct error *e)
{
  struct run_file *r = (struct run_file *)(uintptr_t)file; /* only fills a cache, so const for callers */
  struct additions found = {0};
  if (load(r, e)) return e->status;
  found.h = r->h;
  h5_walk(r->h, "/", find_addition, &found);
  if (!*found.first) return STATUS_OK;
  return error_set(e, STATUS_USAGE,
                   "%s has %s, which maxlogit did not write: the file is written anew and would lose it, so "
                   "move it to another",
                   r->path, found.first);
}

int run_settings(const struct run_file *file, each_setting *each, void *context)
{
  struct run_file *r = (struct run_file *)(uintptr_t)file; /* only fills a cache, so const for callers */
  int64_t count = 0;
  run_parameters(r, count_parameter, &count);
  return load(r, NULL) || run_settings_of(r->h, each, context) != count;
}

/* The entry of a series in the head; NULL: there is none. Must be fast, because a head may name a million series. */
static const struct name_pair *series_of(const struct run_file *r, const char *name)
{
  char full[SERIES_NAME + 16];
  return snprintf(full, sizeof full, HEAD_SERIES "%s", name) < (int)sizeof full ? pair_of(r, full) : NULL;
}

long run_rows(const struct run_file *r, const char *series)
{
  const struct name_pair *stated = series_of(r, series);
  if (stated) return strtol(stated->value, NULL, 10);
  const struct derived *made = derived_find(series);
  return made ? run_rows(r, made->source) : 0;
}

/* --- series -------------------------------------------------------------------------------------------- */

int run_series_names(const struct run_file *r, int (*each)(void *, const char *name), void *context)
{
  int stop = 0;
  for (int i = 0; i < r->names && !stop; i++) stop = each(context, r->name[i]);
  return stop;
}

static int is_series(const struct run_file *r, const char *name) { return series_of(r, name) != NULL; }

int run_derived_names(const struct run_file *r, int (*each)(void *, const char *name), void *context)
{
  int stop = 0;
  for (const struct derived *d = derived_series; d->name && !stop; d++)
    if (is_series(r, d->source)) stop = each(context, d->name);
  return stop;
}

struct run_names {
  const char **all;
  size_t count, room;
};

static int take_name(void *context, const char *name)
{
  struct run_names *n = context;
  if (n->count == n->room) {
    n->room = 2 * n->room + 64;
    n->all = memory_grow(n->all, n->count, n->room, sizeof *n->all);
  }
  n->all[n->count++] = name;
  return 0;
}

static int no_such_series(const struct run_file *r, const char *name, struct error *e)
{
  struct run_names names = {0};
  run_series_names(r, take_name, &names);
  run_derived_names(r, take_name, &names);
  const char *near = text_nearest(name, names.all, names.count);
  int status = error_set(e, STATUS_USAGE, "%s has no series %s%s%s%s", r->path, name,
                         near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
  memory_free(names.all);
  return status;
}

static void shape_of(struct run_series *s, const struct h5_shape *found, const char *label, const char *last)
{
  const char *const labels[FREE_AXES] = {label, last};
  s->axes = found->rank - 1;
  for (int i = 0; i < s->axes; i++) {
    snprintf(s->axis_name[i], sizeof s->axis_name[i], "%s", labels[i]);
    s->size[i] = (long)found->dims[i + 1];
  }
  s->layers = s->heads = 1;
  s->width = (long)(h5_row_bytes(found) / h5_kind_size(found->kind));
  s->shape = found->rank == 1           ? PER_STEP
             : found->rank == 3         ? (strcmp(last, "expert") ? PER_HEAD : PER_EXPERT)
             : !strcmp(label, "tensor") ? PER_TENSOR
                                        : PER_LAYER;
  if (found->rank == 3 || s->shape == PER_LAYER) s->layers = (long)found->dims[1];
  if (found->rank == 3) s->heads = (long)found->dims[2];
}

static int read_labels(struct run_file *r, struct run_series *s)
{
  struct h5_shape shape = {.kind = KIND_TEXT, .size = sizeof *s->labels, .rank = 1};
  const int64_t width = s->width;
  const size_t most = (size_t)(memory_there_is() / 8);
  int64_t n;
  if (!memory_bytes(&width, 1, sizeof *s->labels, most, &(size_t){0})) return 0;
  char *labels = h5_read_all(r->h, "/series/tensor", &shape, &n);
  s->labels = memory_new((size_t)s->width + 1, sizeof *s->labels);
  for (int64_t i = 0; i < n && i < s->width; i++)
    text_fill(s->labels[i], sizeof *s->labels, labels + (size_t)i * sizeof *s->labels);
  memory_free(labels);
  return 1;
}

/* Are these whole numbers from 0 to 2^53, each larger than the one before? */
static int are_steps(const double *step, long rows)
{
  double last = -1;
  for (long i = 0; i < rows; last = step[i++])
    if (!(step[i] > last && step[i] <= 0x1p53 && step[i] == floor(step[i]))) return 0;
  return 1;
}

/* Read steps and values; the steps are in the dataset that labels the first dimension. */
static int read_numbers(struct run_file *r, h5_id id, const struct h5_shape *found, struct run_series *s)
{
  char label[64] = "", path[128];
  struct h5_shape value = *found, step = {.kind = KIND_F64, .rank = 1}, steps;
  value.kind = KIND_F64;
  h5_get_label(r->h, id, 0, label, sizeof label);
  snprintf(path, sizeof path, "/series/%s", label);
  h5_id axis = h5_find(r->h, path);
  int ok = h5_get_shape(r->h, axis, &steps) && steps.rank == 1 && steps.dims[0] == s->rows;
  if (!ok || !memory_bytes(found->dims, found->rank, sizeof *s->value, (size_t)(memory_there_is() / 4),
                           &(size_t){0})) {
    h5_done(r->h, axis);
    return 0;
  }
  s->step = memory_new((size_t)s->rows + 1, sizeof *s->step);
  s->value = memory_new((size_t)s->rows * (size_t)s->width + 1, sizeof *s->value);
  ok = ok && h5_read(r->h, axis, &step, 0, s->rows, s->step) && are_steps(s->step, s->rows) &&
       h5_read(r->h, id, &value, 0, s->rows, s->value);
  h5_done(r->h, axis);
  return ok;
}

enum { MOST_WARNED = 16 }; /* a head may name a million series */

/* Report a series that cannot be read. Without an error argument a warning is printed, because the caller goes on
   without the series. */
static int report_unread(struct run_file *r, const char *name, struct run_series *s, struct error *e)
{
  run_series_free(s);
  char *unread = &r->unread[series_of(r, name) - r->sorted];
  if (!e && !*unread && r->warned++ < MOST_WARNED)
    warning("%s: the series %s cannot be read%s", r->path, name,
            r->warned == MOST_WARNED ? "; others of this file are not reported" : "");
  *unread = 1;
  return error_set(e, STATUS_FAIL, "%s: the series %s cannot be read", r->path, name);
}

int run_has_unread(const struct run_file *r)
{
  return r->no_events || r->no_notes || memchr(r->unread, 1, r->pairs + 1);
}

static int read_recorded(const struct run_file *file, const char *name, int values, struct run_series *s,
                         struct error *e)
{
  struct run_file *r = (struct run_file *)(uintptr_t)file; /* only fills a cache, so const for callers */
  struct h5_shape found;
  char path[128], label[64] = "", last[64] = "";
  *s = (struct run_series){.rows = 0};
  if (!is_series(r, name)) return no_such_series(r, name, e);
  if (load(r, e)) return e ? e->status : STATUS_FAIL;
  snprintf(path, sizeof path, "/series/%s", name);
  h5_id id = h5_find(r->h, path);
  int ok = h5_get_shape(r->h, id, &found) && found.kind < KIND_TEXT && found.rank <= 3;
  if (ok) {
    h5_get_label(r->h, id, 0, s->steps, sizeof s->steps);
    h5_get_label(r->h, id, 1, label, sizeof label);
    if (found.rank == 3) h5_get_label(r->h, id, 2, last, sizeof last);
    shape_of(s, &found, label, last);
    s->rows = (long)found.dims[0];
    ok = s->width > 0;
    snprintf(s->name, sizeof s->name, "%s", name);
    h5_get_text(r->h, id, "units", s->unit, sizeof s->unit);
    h5_get_text(r->h, id, "long_name", s->long_name, sizeof s->long_name);
    h5_get_text(r->h, id, "definition", s->definition, sizeof s->definition);
    ok = ok && (!values || read_numbers(r, id, &found, s));
  }
  h5_done(r->h, id);
  if (ok && s->shape == PER_TENSOR) ok = read_labels(r, s);
  return ok ? STATUS_OK : report_unread(r, name, s, e);
}

static int read_any(const struct run_file *file, const char *name, int values, struct run_series *s,
                    struct error *e)
{
  const struct derived *d = is_series(file, name) ? NULL : derived_find(name);
  if (!d || !is_series(file, d->source)) return read_recorded(file, name, values, s, e);
  int status = read_recorded(file, d->source, values, s, e);
  if (status) return status;
  if (values) d->make(s);
  snprintf(s->name, sizeof s->name, "%s", d->name);
  snprintf(s->unit, sizeof s->unit, "%s", d->unit);
  snprintf(s->long_name, sizeof s->long_name, "%s", d->long_name);
  return STATUS_OK;
}

int run_read_all(const struct run_file *file, const char *name, struct run_series *s, struct error *e)
{
  return read_any(file, name, 1, s, e);
}

static int has_value(const struct run_series *s, long row)
{
  long i = 0;
  while (i < s->width && is_missing(s->value[row * s->width + i])) i++;
  return i < s->width;
}

int run_read(const struct run_file *file, const char *name, struct run_series *s, struct error *e)
{
  long kept = 0;
  const size_t bytes = sizeof *s->value;
  int status = run_read_all(file, name, s, e);
  if (status) return status;
  for (long row = 0; row < s->rows; row++) {
    if (!has_value(s, row)) continue;
    s->step[kept] = s->step[row];
    memmove(s->value + kept * s->width, s->value + row * s->width, (size_t)s->width * bytes);
    kept++;
  }
  s->rows = kept;
  return STATUS_OK;
}

int run_describe(const struct run_file *file, const char *name, struct run_series *s, struct error *e)
{
  return read_any(file, name, 0, s, e);
}

void run_series_free(struct run_series *s)
{
  memory_free(s->step);
  memory_free(s->value);
  memory_free(s->labels);
  *s = (struct run_series){.rows = 0};
}

char *run_axis_names(const struct run_file *file, const char *axis, long *count, size_t *room)
{
  struct run_file *r = (struct run_file *)(uintptr_t)file; /* only fills a cache, so const for callers */
  struct h5_shape shape;
  char path[256];
  int64_t rows = 0;
  if (load(r, NULL)) return NULL;
  snprintf(path, sizeof path, "/series/%.64s%s", axis, strcmp(axis, "tensor") ? "_name" : "");
  h5_id id = h5_find(r->h, path);
  int ok = id >= 0 && h5_get_shape(r->h, id, &shape) && shape.kind == KIND_TEXT && shape.rank == 1;
  h5_done(r->h, id);
  if (!ok) return NULL;
  shape.size++; /* a name may fill all its bytes */
  char *names = h5_read_all(r->h, path, &shape, &rows);
  for (int64_t i = 0; i < rows; i++) text_clean(names + (size_t)i * shape.size, shape.size, "");
  *count = (long)rows;
  *room = shape.size;
  return names;
}

int run_events(const struct run_file *file, struct run_event **out, long *count, struct error *e)
{
  struct run_file *r = (struct run_file *)(uintptr_t)file;
  int64_t rows;
  if (load(r, e)) return e ? e->status : STATUS_FAIL;
  struct event_record *record = h5_read_all(r->h, "/events", &event_shape, &rows);
  *count = (long)rows;
  if (!record && !e && !r->no_events) warning("%s: the events cannot be read", r->path);
  r->no_events = !record;
  if (!record) return error_set(e, STATUS_FAIL, "%s: the events cannot be read", r->path);
  *out = memory_new((size_t)*count + 1, sizeof **out);
  for (long i = 0; i < *count; i++) {
    (*out)[i] = (struct run_event){.step = (long)record[i].step,
                                   .layer = record[i].layer,
                                   .head = record[i].head,
                                   .value = record[i].value};
    text_fill((*out)[i].kind, sizeof(*out)[i].kind, record[i].kind);
  }
  memory_free(record);
  return STATUS_OK;
}

/* --- outcome -------------------------------------------------------------------------------------------- */

/* Is the run finished, or was it stopped after its last step? */
static int is_at_end(const struct run_file *r)
{
  const char *state = run_state(r);
  return !strcmp(state, "finished") ||
         (!strcmp(state, "stopped") &&
          (double)run_last_step(r) >= number_of(r, HEAD_PARAMETER "train.steps"));
}

int run_blew_up(const struct run_file *file)
{
  struct run_file *r = (struct run_file *)(uintptr_t)file; /* only fills a cache, so const for callers */
  struct run_series s;
  int rested = !r->h;
  if (r->blew_up == UNKNOWN) {
    r->blew_up = DID_NOT;
    if (is_at_end(r) && run_rows(r, "loss") > 0 && run_read(r, "loss", &s, NULL) == STATUS_OK) {
      if (s.width == 1 && losses_blew_up(s.step, s.value, s.rows, number_of(r, HEAD_PARAMETER "model.vocab")))
        r->blew_up = BLEW_UP;
      run_series_free(&s);
    }
    if (rested) run_rest(r);
  }
  return r->blew_up == BLEW_UP;
}

const char *run_shown_state(const struct run_file *r)
{
  char lock[4096];
  const char *state = run_blew_up(r) ? "blown-up" : run_state(r);
  if (strcmp(state, "running")) return state;
  run_sibling(lock, r->path, ".lock");
  return lock_is_held(lock) ? state : "killed";
}
