/* What is recorded by name only, each against the same number made of other numbers */
#include <stdio.h>
#include "../kinds.h"
#include "../model/model_fixture.h"
#include "numerics/linalg.h"
#include "observe/observable.h"
#include "observe/observers.h"
#include "training/optimizer.h"

/* One observable alone, and what passed its point in layer `layer`. */
struct spy {
  struct tap tap_hook; /* first */
  struct observer watch;
  int layer;
  struct tensor *q, *k, *v, *stream;
  struct attention_spec spec;
  struct series_row row[16];
};

static struct tensor *kept(struct program *p, struct tensor *x)
{
  struct tensor *y = program_temporary(p, x->rows, x->cols, "kept");
  PROGRAM_CALL(p, copy, .y = y, .x = x);
  program_keep(p, y);
  return y;
}

static void spy_tap(struct tap *w, struct program *p, enum point point, int layer, const struct flow *f)
{
  struct spy *s = (struct spy *)w;
  s->watch.observable->tap(&s->watch, p, point, layer, f);
  if (layer != s->layer) return;
  if (point == POINT_STREAM) s->stream = kept(p, f->x);
  if (point != POINT_SCORES) return;
  s->q = kept(p, f->q), s->k = kept(p, f->k), s->v = kept(p, f->v);
  s->spec = *f->spec;
}

static void spy_open(struct spy *s, struct fixture *f, const char *name, enum series_axis axis, int layer)
{
  static const struct record_options none = {.level = 0.1};
  const struct observable *o = observable_find(name);
  ck_assert_ptr_nonnull(o);
  *s = (struct spy){.tap_hook = {spy_tap},
                    .watch = {o, axis, &f->model, NULL, &none, &f->model.step, f->model.params.arena, NULL},
                    .layer = layer};
  s->watch.state = arena_get(f->model.params.arena, 1, o->state_size + 1);
  if (o->declare) o->declare(&s->watch);
  const struct series *all = observable_series(o);
  for (int i = 0; all[i].name; i++) {
    s->row[i].width = model_series_size(&f->model, all[i].shape);
    s->row[i].value = arena_get(f->model.params.arena, (size_t)s->row[i].width, sizeof(float));
  }
  f->model.step.tap_hook = &s->tap_hook;
  struct program *clear = program_new(f->device);
  report_record_clear(f->model.report, clear);
  program_plan(clear);
  program_run(clear);
  program_free(clear);
}

static void spy_read(struct spy *s, struct fixture *f)
{
  struct observation r = {.batches = 1, .read = f->model.report, .row = s->row};
  report_read(f->model.report);
  ck_assert_int_eq(s->watch.observable->read(&s->watch, &r, NULL), STATUS_OK);
}

enum { BATCH = 2, CONTEXT = 12, CUT = 5, TOKENS = BATCH * CONTEXT };

/* Two halves of a batch of random tokens, two documents in every row. */
static struct model_program watched_passes(struct fixture *f, const uint64_t half[2])
{
  struct model_program mp;
  int token[TOKENS], position[TOKENS], start[TOKENS];
  model_program_init(&f->model, &mp, BATCH, CONTEXT, 0, &f->model.step, 2);
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < TOKENS; i++) {
      token[i] = (int)draw_below((struct draw){half[k], STREAM_TEST, 0}, (uint64_t)i,
                                 (uint64_t)f->model.options.vocab);
      position[i] = i % CONTEXT;
      start[i] = position[i] < CUT ? 0 : CUT;
    }
    fixture_put(f, mp.tokens, token);
    fixture_put(f, mp.position, position);
    fixture_put(f, mp.start, start);
    program_run(mp.program);
  }
  return mp;
}

/* The same half twice: means and maxima are those of once. */
static struct model_program watched_pass(struct fixture *f)
{
  return watched_passes(f, (const uint64_t[]){5, 5});
}

static double norm_of(const real *x, long n)
{
  double sum = 0;
  for (long i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

/* Weights of one query on the positions of its document, beside a sink of that score; returns how many. */
static int weights_of(const struct spy *s, const real *q, const real *k, int n, long head, double sink,
                      double *weight)
{
  const struct attention_score *score = &s->spec.score;
  long heads = score->heads, dim = s->q->cols / heads, group = head * score->groups / heads;
  int t = n % CONTEXT, first = t < CUT ? 0 : CUT, count = t - first + 1;
  double sum = 0, largest = sink;
  for (int j = 0; j < count; j++) {
    const real *key = k + (n - t + first + j) * s->k->cols + group * dim;
    double dot = 0;
    for (long i = 0; i < dim; i++) dot += (double)q[n * s->q->cols + head * dim + i] * (double)key[i];
    weight[j] = score->scale * dot;
    largest = fmax(largest, weight[j]);
  }
  double picked = 1e-8;
  for (int j = 0; j < count; j++) picked += fabs(expm1(weight[j]));
  for (int j = 0; s->spec.pointwise && j < count; j++)
    weight[j] = s->spec.pointwise == POINTWISE_SOFTPICK  ? fmax(expm1(weight[j]), 0) / picked
                : s->spec.pointwise == POINTWISE_SIGMOID ? 1 / (1 + count * exp(-weight[j]))
                                                         : pow(fmax(weight[j], 0), 2) / count;
  if (s->spec.pointwise) return count;
  sum = exp(sink - largest);
  for (int j = 0; j < count; j++) sum += weight[j] = exp(weight[j] - largest);
  for (int j = 0; j < count; j++) weight[j] /= sum;
  return count;
}

static const char *const shapes[] = {"attention=mha", "attention=gqa kv_heads=2",
                                     "attention=mla q_rank=10 kv_rank=8 rope_dim=4 value_dim=6"};

static struct fixture *watched_with(int kind, int shape, const char *stack)
{
  char settings[160];
  snprintf(settings, sizeof settings, "layers=2 width=16 heads=4 context=%d vocab=20 %s", CONTEXT,
           shapes[shape]);
  struct fixture *f = fixture_open_on(kinds[kind], settings, stack, NULL);
  fixture_shake(f, 0.3);
  return f;
}
static struct fixture *tracked_max(int kind, int shape) { return watched_with(kind, shape, ""); }

/* Score of a head's sink in the layer that is watched. */
static double sink_of(struct fixture *f, const struct spy *s, long head)
{
  return s->spec.sink ? fixture_at(f, &model_param(&f->model, s->layer, "attn.sink")->value, head)
                      : -INFINITY;
}

START_TEST(sink_is_the_weight_of_the_first_position)
{
  static const char *const stacks[] = {"", "learned_sink start=0.7", "pointwise", "sigmoid", "softpick"};
  for (int i = 0; i < 15; i++) {
    struct fixture *f = watched_with(_i, i % 3, stacks[i / 3]);
    struct spy s;
    spy_open(&s, f, "sink", AXIS_STEP, 1);
    struct model_program mp = watched_pass(f);
    spy_read(&s, f);
    real *q = fixture_copy(f, s.q), *k = fixture_copy(f, s.k), *v = fixture_copy(f, s.v);
    long groups = s.spec.score.groups, length = s.v->cols / groups;
    for (long h = 0; h < 4; h++) {
      double mass = 0, first = 0, all = 0, weight[CONTEXT];
      for (int n = 0; n < TOKENS; n++) {
        int count = weights_of(&s, q, k, n, h, sink_of(f, &s, h), weight);
        for (int j = 0; j < count; j++) {
          double size =
            weight[j] * norm_of(v + (n - count + 1 + j) * s.v->cols + h * groups / 4 * length, length);
          all += size;
          if (j == 0) first += size, mass += weight[j] / TOKENS;
        }
      }
      ck_assert_double_eq_tol((double)s.row[0].value[4 + h], mass, 1e-5);
      ck_assert_double_eq_tol((double)s.row[1].value[4 + h], first / all, 1e-5);
      ck_assert(s.spec.pointwise ? mass > 0.01 : mass > 1.5 / CONTEXT && mass < 0.9);
    }
    memory_free(q), memory_free(k), memory_free(v);
    model_program_free(&mp);
    fixture_close(f);
  }
}
END_TEST

static void ck_outliers(const struct spy *s, const struct fixture *f, const struct tensor *t, int row)
{
  real *x = fixture_copy(f, t);
  double largest = 0, squares = 0, fourths = 0, n = (double)(t->rows * t->cols);
  for (long i = 0; i < t->rows * t->cols; i++) {
    double square = (double)x[i] * (double)x[i];
    largest = fmax(largest, fabs((double)x[i]));
    squares += square / n;
    fourths += square * square / n;
  }
  const float *value[] = {s->row[row].value, s->row[row + 1].value, s->row[row + 2].value};
  ck_assert_double_eq_tol((double)value[0][s->layer], largest, 1e-6 * largest);
  ck_assert_double_eq_tol((double)value[1][s->layer], sqrt(squares), 1e-5 * sqrt(squares));
  double kurtosis = fourths / (squares * squares);
  ck_assert_double_eq_tol((double)value[2][s->layer], kurtosis, 1e-5 * kurtosis);
  ck_assert(kurtosis > 1.5);
  memory_free(x);
}

START_TEST(outliers_are_moments_of_what_flows)
{
  for (int shape = 0; shape < 3; shape++)
    for (int layer = 0; layer < 2; layer++) {
      struct fixture *f = tracked_max(_i, shape);
      struct spy s;
      spy_open(&s, f, "outliers", AXIS_STEP, layer);
      struct model_program mp = watched_pass(f);
      spy_read(&s, f);
      ck_outliers(&s, f, s.stream, 0);
      ck_outliers(&s, f, s.q, 3);
      ck_outliers(&s, f, s.k, 6);
      model_program_free(&mp);
      fixture_close(f);
    }
}
END_TEST

/* w_q^T w_k of a head in a copy of all parameters, [width, width]. */
static void form_of(struct fixture *f, const real *values, int layer, int head, double by,
                    const real *update_values, double *out)
{
  struct logit_block x[MAX_LOGIT_BLOCKS], *q = NULL, *k = NULL;
  int n = f->model.attention->logit_blocks(&f->model, layer, head, x);
  for (int i = n - 1; i >= 0; i--)
    if (role_is_query(x[i].role))
      q = &x[i];
    else
      k = &x[i];
  long width = f->model.options.width;
  for (long i = 0; i < width * width; i++) out[i] = 0;
  for (long r = 0; r < q->rows; r++)
    for (long i = 0; i < width; i++)
      for (long j = 0; j < width; j++) {
        long a = REALS(&q->weight->value) - REALS(&f->model.params.values) + (q->row + r) * width + i;
        long b = REALS(&k->weight->value) - REALS(&f->model.params.values) + (k->row + r) * width + j;
        out[i * width + j] += ((double)values[a] - by * (double)update_values[a]) *
                              ((double)values[b] - by * (double)update_values[b]);
      }
}

static double largest_of(const double *form, long width)
{
  struct spectra *work = spectra_new(width, width);
  double sigma[64];
  real w[64 * 64];
  for (long i = 0; i < width * width; i++) w[i] = (real)form[i];
  ck_assert_int_eq(singular_values(work, w, width, width, width, sigma, NULL, NULL, NULL), STATUS_OK);
  spectra_free(work);
  return sigma[0];
}

/* By differences of the leading singular value and of the form itself, formed whole. */
START_TEST(drive_is_the_derivative_of_the_leading_value)
{
  const double rate = 0.25, by = 1e-3;
  struct fixture *f = tracked_max(0, _i);
  struct spy s;
  spy_open(&s, f, "drive", AXIS_SPECTRA, 0);
  long all = f->model.params.values.cols, width = f->model.options.width;
  real *values = fixture_copy(f, &f->model.params.values),
       *update_values = memory_new((size_t)all, sizeof *update_values);
  for (long i = 0; i < all; i++)
    update_values[i] = (real)draw_normal((struct draw){9, STREAM_TEST, 0}, (uint64_t)i);
  struct observation r = {
    .now = {.rate = rate}, .weights = values, .update_values = update_values, .row = s.row};
  ck_assert_int_eq(s.watch.observable->read(&s.watch, &r, NULL), STATUS_OK);
  double *form[3];
  for (int i = 0; i < 3; i++) form[i] = memory_new((size_t)(width * width), sizeof **form);
  for (int h = 0; h < 8; h++) {
    double square = 0, gain;
    for (int i = 0; i < 2; i++) form_of(f, values, h / 4, h % 4, i ? -by : by, update_values, form[i]);
    for (long i = 0; i < width * width; i++) square += pow((form[0][i] - form[1][i]) / (2 * by), 2);
    gain = rate * (largest_of(form[0], width) - largest_of(form[1], width)) / (2 * by);
    ck_assert_double_eq_tol((double)s.row[1].value[h], rate * sqrt(square), 1e-4 * rate * sqrt(square));
    ck_assert_double_eq_tol((double)s.row[0].value[h], gain, 2e-3 * rate * sqrt(square));
    ck_assert_double_eq_tol((double)s.row[2].value[h], gain / (rate * sqrt(square)), 2e-3);
  }
  r.update_values = NULL; /* nothing follows the last update */
  s.row[0].value[0] = NAN;
  ck_assert_int_eq(s.watch.observable->read(&s.watch, &r, NULL), STATUS_OK);
  ck_assert(isnan(s.row[0].value[0]));
  for (int i = 0; i < 3; i++) memory_free(form[i]);
  s.watch.observable->free(&s.watch);
  memory_free(values), memory_free(update_values);
  fixture_close(f);
}
END_TEST

/* Options of Muon, heads together or apart; of other optimizers the defaults. */
struct muon_with {
  const char *per_head;
  void *options[2];
};

static const void *muon_or_adam(void *context, const char *name)
{
  struct muon_with *with = context;
  const struct optimizer *o = optimizer_find(name);
  const int muon = !strcmp(name, "muon");
  if (!with->options[muon]) {
    with->options[muon] = memory_new(1, o->options_size);
    option_defaults(o->options, with->options[muon]);
    for (const struct option_row *row = o->options; muon && row->name; row++)
      if (!strcmp(row->name, "per_head"))
        ck_assert_int_eq(option_parse(row, with->options[muon], with->per_head, NULL), STATUS_OK);
  }
  return with->options[muon];
}

/* The singular values of one head's rows, or of one whole matrix. */
static const double planted[2][16] = {
  {1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 5e-3, 2e-3, 1.12e-3, 5e-4, 2e-4, 1e-4, 5e-5, 2e-5, 1e-5},
  {1, 0.3, 0.002, 1e-4}};

/* One entry per row and column; of heads apart, each has its own size, and the last has no momentum. */
static void plant_momentum(struct updates *u, const char *of, int apart)
{
  char name[160];
  real m[20 * 16] = {0}; /* the embedding has 20 rows */
  for (int r = 0; r < 16; r++) {
    int head = r / 4, k = apart ? r % 4 : r;
    double size = apart ? (head == 3 ? 0 : 1 + head) : 7;
    m[r * 16 + (5 * r + 3) % 16] =
      (real)(size * planted[apart][(k + 1) % (apart ? 4 : 16)] * (r % 2 ? 1 : -1));
  }
  for (int i = 0; i < updates_states(u); i++) {
    updates_state(u, i, name, sizeof name);
    if (!strcmp(name, of)) return updates_state_write(u, i, m);
  }
  ck_abort_msg("no state %s", of);
}

static const struct series_row *row_named(const struct observers *w, const char *name)
{
  long count;
  const struct recorded *all = observers_recorded(w, &count);
  for (long i = 0; i < count; i++)
    if (!strcmp(all[i].series->name, name)) return all[i].row;
  ck_abort_msg("no series %s", name);
}

/* Place of a tensor in series by tensor. */
static long tensor_place(struct fixture *f, const struct param *p)
{
  long place = 0;
  for (int i = 0; f->model.params.list[i] != p; i++) place += param_is_matrix(f->model.params.list[i]);
  return place;
}

/* A momentum whose singular values are known, of which the step itself makes the update: gradients are 0. */
START_TEST(momentum_has_the_spectrum_that_newton_schulz_takes)
{
  static const char *const name[] = {"momentum/sigma_min", "momentum/sigma_q10", "momentum/sigma_q50",
                                     "momentum/sigma_q90"};
  const int apart = _i % 2;
  const double expected[2][4] = {{1e-5, 3.5e-5, (5e-3 + 2e-3) / 2, (0.2 + 0.5) / 2},
                                 {1e-4, 1e-4, (0.3 + 0.002) / 2, 1}};
  struct fixture *f =
    fixture_open_on(kinds[_i / 2], "layers=2 width=16 heads=4 context=12 vocab=20", "", NULL);
  struct error e = {0};
  struct muon_with with = {apart ? "qk" : "none", {0}};
  struct updates *u = updates_new(&f->model, "muon", &(struct override_options){"", "", "", 0, 0},
                                  &(struct update_rule){.seed = 1}, muon_or_adam, &with, &e);
  struct observers *w =
    observers_new(&f->model, u, &(struct record_options){.observe = "momentum", .spectra_every = 1});
  const struct param *q = model_param(&f->model, 1, "attn.w_q");
  plant_momentum(u, "muon.m.blocks.1.attn.w_q", apart);
  scalars_upload(f->model.numbers, &(struct step_scalars){0, 1, 1});
  program_run(updates_program(u));
  ck_assert_int_eq(observers_read(w, AXIS_SPECTRA, &(struct step_scalars){0, 1, 1}, 1, 1, &e), STATUS_OK);
  const long at = tensor_place(f, q), embed = tensor_place(f, f->model.embed);
  for (int k = 0; k < 4; k++)
    ck_assert_double_eq_tol((double)row_named(w, name[k])->value[at], expected[apart][k],
                            1e-5 * expected[apart][k] + 1e-8);
  real *update = fixture_copy(f, &q->update);
  int below = 0, count = 0;
  for (int i = 0; i < 16 * 16; i++) {
    below += fabs((double)update[i]) > 1e-5 && fabs((double)update[i]) < 0.5 * 0.2 * sqrt(16);
    count += fabs((double)update[i]) > 1e-5;
  }
  ck_assert_int_eq(count, apart ? 12 : 16);
  ck_assert(below > 0 && below < count);
  const float *reach = row_named(w, "momentum/below_reach")->value;
  ck_assert_double_eq_tol((double)reach[at], (double)below / count, 1e-6);
  ck_assert(isnan(reach[embed]) && isnan(row_named(w, name[0])->value[embed])); /* Adam's, and still 0 */
  plant_momentum(u, "adam.m.embed", 0);
  ck_assert_int_eq(observers_read(w, AXIS_SPECTRA, &(struct step_scalars){0, 1, 1}, 1, 1, &e), STATUS_OK);
  ck_assert(isnan(reach[embed]));
  ck_assert_double_eq_tol((double)row_named(w, name[2])->value[embed], expected[0][2], 1e-6);
  ck_assert_int_eq(observers_read(w, AXIS_SPECTRA, &(struct step_scalars){1, 1, 1}, 1, 0, &e), STATUS_OK);
  ck_assert(isnan(reach[at]) && isnan(row_named(w, name[0])->value[at])); /* no update follows */
  memory_free(update);
  for (int i = 0; i < 2; i++) memory_free(with.options[i]);
  observers_free(w);
  updates_free(u);
  fixture_close(f);
}
END_TEST

static int records_momentum(struct fixture *f, const char *optimizer)
{
  struct error e = {0};
  struct muon_with with = {"none", {0}};
  struct updates *u = updates_new(&f->model, optimizer, &(struct override_options){"", "", "", 0, 0},
                                  &(struct update_rule){.seed = 1}, muon_or_adam, &with, &e);
  struct observers *w =
    observers_new(&f->model, u, &(struct record_options){.observe = "momentum", .spectra_every = 1});
  long count, found = 0;
  const struct recorded *all = observers_recorded(w, &count);
  for (long i = 0; i < count; i++) found += !strncmp(all[i].series->name, "momentum/", 9);
  for (int i = 0; i < 2; i++) memory_free(with.options[i]);
  observers_free(w);
  updates_free(u);
  return (int)found;
}

START_TEST(momentum_is_recorded_where_there_is_one)
{
  struct fixture *f = fixture_open("layers=1 width=16 heads=4 context=12 vocab=20", "", NULL);
  ck_assert_int_eq(records_momentum(f, "muon"), 5);
  ck_assert_int_eq(records_momentum(f, "adam"), 4); /* without Newton-Schulz */
  ck_assert_int_eq(records_momentum(f, "none"), 0);
  fixture_close(f);
}
END_TEST

/* w_q^T R(t)^T R(s) w_k, [width, width], formed whole: queries at position t, keys at s. */
static double form_between(struct fixture *f, int layer, int head, int t, int s)
{
  const struct model_options *o = &f->model.options;
  struct logit_block x[MAX_LOGIT_BLOCKS];
  const long width = o->width, half = o->head_dim / 2;
  f->model.attention->logit_blocks(&f->model, layer, head, x);
  const real *row[2];
  for (int i = 0; i < 2; i++) row[i] = REALS(&x[i].weight->value) + x[i].row * width;
  double *form = memory_new((size_t)(width * width), sizeof *form), largest;
  for (long r = 0; r < half; r++)
    for (long i = 0; i < width; i++)
      for (long j = 0; j < width; j++) {
        double angle[2], rate = pow(o->rope_base, -(double)r / (double)half) / o->rope_scale, turned[2][2];
        angle[0] = t * rate, angle[1] = s * rate;
        for (int k = 0; k < 2; k++) {
          double a = (double)row[k][r * width + (k ? j : i)],
                 b = (double)row[k][(r + half) * width + (k ? j : i)];
          turned[k][0] = a * cos(angle[k]) - b * sin(angle[k]);
          turned[k][1] = b * cos(angle[k]) + a * sin(angle[k]);
        }
        form[i * width + j] += turned[0][0] * turned[1][0] + turned[0][1] * turned[1][1];
      }
  largest = largest_of(form, width);
  memory_free(form);
  return largest;
}

static void read_rotated(struct spy *s, struct fixture *f)
{
  real *values = fixture_copy(f, &f->model.params.values);
  struct observation r = {.weights = values, .row = s->row};
  ck_assert_int_eq(s->watch.observable->read(&s->watch, &r, NULL), STATUS_OK);
  memory_free(values);
}

START_TEST(rotated_norm_is_the_largest_of_all_pairs)
{
  static const char *const masks[] = {"",
                                      "mask=full",
                                      "mask=window window=3 window_every=2",
                                      "mask=prefix prefix=4",
                                      "rope_base=2 rope_scale=0.5",
                                      "rope_scale=1e6"};
  char settings[160];
  for (int m = 0; m < 6; m++) {
    int turned = 0;
    snprintf(settings, sizeof settings, "layers=2 width=16 heads=4 context=7 vocab=20 %s %s", shapes[_i],
             masks[m]);
    struct fixture *f = fixture_open(settings, "", NULL);
    struct spy s;
    spy_open(&s, f, "rotated", AXIS_SPECTRA, 0);
    read_rotated(&s, f);
    for (int h = 0; h < 8; h++) {
      double largest = 0, still = form_between(f, h / 4, h % 4, 0, 0);
      for (int t = 0; t < 7; t++) {
        struct row_range range = model_row_range(&f->model.options, t, 0, 7);
        int from = model_has_window(&f->model.options, h / 4) ? range.window : range.start;
        for (int k = from; k < range.end; k++) largest = fmax(largest, form_between(f, h / 4, h % 4, t, k));
      }
      ck_assert_double_eq_tol((double)s.row[0].value[h], largest, 2e-6 * largest);
      turned += largest > 1.001 * still;
    }
    ck_assert(m == 5 ? turned == 0 : turned > 0);
    s.watch.observable->free(&s.watch);
    fixture_close(f);
  }
}
END_TEST

/* Gains are 1, so a normed input has at most length sqrt(width). Head 0 of layer 0 has keys and queries of one
   direction, which the largest logit nearly reaches. */
START_TEST(no_logit_exceeds_the_rotated_norm)
{
  struct fixture *f = fixture_open("layers=2 width=16 heads=4 context=12 vocab=20", "", NULL);
  long token = (long)draw_below((struct draw){5, STREAM_TEST, 0}, 0, 20);
  for (int i = 0; i < 2; i++) {
    struct tensor *w = &model_param(&f->model, 0, i ? "attn.w_k" : "attn.w_q")->value;
    for (long r = 0; r < 4; r++)
      for (long c = 0; c < 16; c++)
        fixture_put_at(f, w, r * 16 + c, r == 0 ? fixture_at(f, &f->model.embed->value, token * 16 + c) : 0);
  }
  struct spy s;
  spy_open(&s, f, "rotated", AXIS_SPECTRA, 0);
  read_rotated(&s, f);
  f->model.step.tap_hook = NULL;
  struct model_program mp = watched_pass(f);
  report_read(f->model.report);
  const real *stats = report_of(f->model.report, f->model.step.stats);
  for (int h = 0; h < 8; h++) {
    double bound = 16 * (double)s.row[0].value[h] / 2, largest = (double)stats[4 * h + 1];
    ck_assert_double_le(largest, bound * (1 + 1e-6));
    if (h == 0) ck_assert_double_ge(largest, 0.99 * bound);
  }
  model_program_free(&mp);
  s.watch.observable->free(&s.watch);
  fixture_close(f);
}
END_TEST

/* Whatever an observable takes from a step is of all its micro-batches: in whichever order these come. */
START_TEST(the_order_of_micro_batches_does_not_matter)
{
  static const uint64_t halves[3][2] = {{5, 6}, {6, 5}, {6, 6}};
  int taken = 0;
  for (const struct observable *const *o = observables; *o; o++) {
    double sum[3] = {0};
    float value[3][16][64];
    const struct series *all = observable_series(*o);
    if (!(*o)->tap || all->axis != AXIS_STEP) continue;
    for (int order = 0; order < 3; order++) {
      struct fixture *f = tracked_max(1, _i);
      struct spy s;
      spy_open(&s, f, (*o)->name, AXIS_STEP, 1);
      struct model_program mp = watched_passes(f, halves[order]);
      spy_read(&s, f);
      for (int i = 0; all[i].name; i++)
        for (long k = 0; all[i].axis == AXIS_STEP && k < s.row[i].width; k++)
          sum[order] += value[order][i][k] = s.row[i].value[k];
      model_program_free(&mp);
      fixture_close(f);
      for (int i = 0; all[i].name && order == 1; i++)
        for (long k = 0; all[i].axis == AXIS_STEP && k < s.row[i].width; k++)
          ck_assert_msg(fabsf(value[0][i][k] - value[1][i][k]) <= 1e-5F * fabsf(value[0][i][k]),
                        "%s[%ld]: %g, in the other order %g", all[i].name, k, (double)value[0][i][k],
                        (double)value[1][i][k]);
    }
    ck_assert_msg(fabs(sum[0] - sum[2]) > 1e-3 * fabs(sum[0]), "%s: of one half alone", (*o)->name);
    taken++;
  }
  ck_assert_int_ge(taken, 3);
}
END_TEST

/* What is chosen: its series and no others; what is not chosen leaves no call in a program, and no room. */
static void chosen(const char *names, long *series, int *calls)
{
  struct fixture *f = tracked_max(0, 0);
  struct record_options record = {.observe = names, .spectra_every = 1};
  struct observers *w = observers_new(&f->model, NULL, &record);
  struct model_program mp;
  observers_recorded(w, series);
  model_program_init(&f->model, &mp, BATCH, CONTEXT, 0, &f->model.step, 1);
  *calls = program_calls(mp.program);
  model_program_free(&mp);
  observers_free(w);
  fixture_close(f);
}

START_TEST(only_what_is_chosen_costs)
{
  struct fixture *f = tracked_max(0, 0);
  struct model_program mp;
  model_program_init(&f->model, &mp, BATCH, CONTEXT, 0, &f->model.step, 1);
  int bare = program_calls(mp.program), calls;
  model_program_free(&mp);
  fixture_close(f);
  long least, series;
  chosen("loss", &least, &calls);
  ck_assert_int_eq(calls, bare);
  chosen("default", &series, &calls);
  ck_assert_int_gt(series, least + 20);
  ck_assert_int_eq(calls, bare);
  long with_default = series;
  chosen("outliers", &series, &calls);
  ck_assert_int_eq(series, least + 9);
  ck_assert_int_gt(calls, bare);
  chosen("drive+sink", &series, &calls);
  ck_assert_int_eq(series, least + 5);
  chosen("rotated", &series, &calls);
  ck_assert_int_eq(series, least + 1);
  chosen("default+drive", &series, &calls);
  ck_assert_int_eq(series, with_default + 3);
  ck_assert_int_eq(calls, bare);
}
END_TEST

/* A stabilizer that emits a series of every shape: value k of series i is 100 (i + 1) + k. */
static const struct series of_every_shape[] = {
  {"test/step", PER_STEP, AXIS_STEP, "1", "", "", EVENT_NONE},
  {"test/layer", PER_LAYER, AXIS_STEP, "1", "", "", EVENT_NONE},
  {"test/head", PER_HEAD, AXIS_STEP, "1", "", "", EVENT_NONE},
  {"test/tensor", PER_TENSOR, AXIS_STEP, "1", "", "", EVENT_NONE},
  {0}};

static void emit_all(struct stabilizer_context *c, struct program *p)
{
  for (int i = 0; of_every_shape[i].name; i++) {
    long n = model_series_size(c->model, of_every_shape[i].shape);
    double *value = program_memory(p, (size_t)n, sizeof *value);
    for (long k = 0; k < n; k++) value[k] = 100 * (i + 1) + (double)k;
    PROGRAM_CALL(p, copy, .y = c->series[i], .x = program_reals(p, 1, n, value, "values"));
  }
}

static const void *no_options(void *context, const char *name) { return (void)context, (void)name, NULL; }

START_TEST(what_stabilizers_emit_is_recorded)
{
  static const struct stabilizer emitter = {.name = "emitter", .emits = of_every_shape};
  struct fixture *f = fixture_open("layers=2 width=16 heads=4 context=12 vocab=20", "qk_clip", &emitter);
  struct error e = {0};
  struct updates *u = updates_new(&f->model, "none", &(struct override_options){"", "", "", 0, 0},
                                  &(struct update_rule){.seed = 1}, no_options, NULL, &e);
  struct observers *w = observers_new(&f->model, u, &(struct record_options){.observe = "default"});
  fixture_run(f, 1, emit_all, &(struct step_scalars){0, 1, 1});
  ck_assert_int_eq(observers_read(w, AXIS_STEP, &(struct step_scalars){0, 1, 1}, 1, 0, &e), STATUS_OK);
  long count, met = 0;
  const struct recorded *all = observers_recorded(w, &count);
  for (long i = 0; i < count; i++) {
    const struct series *s = all[i].series;
    if (s < of_every_shape || s >= of_every_shape + 4) continue;
    double first = 100 * (double)(s - of_every_shape + 1);
    ck_assert_int_eq(all[i].row->width, model_series_size(&f->model, s->shape));
    for (long k = 0; k < all[i].row->width; k++)
      ck_assert_double_eq(s->shape == PER_STEP ? all[i].row->number : (double)all[i].row->value[k],
                          first + (double)k);
    met++;
  }
  ck_assert_int_eq(met, 4);
  observers_free(w);
  updates_free(u);
  fixture_close(f);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("observables");
  TCase *c = tcase_create("observables");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, sink_is_the_weight_of_the_first_position, 0, KINDS);
  tcase_add_loop_test(c, outliers_are_moments_of_what_flows, 0, KINDS);
  tcase_add_loop_test(c, drive_is_the_derivative_of_the_leading_value, 0, 2);
  tcase_add_loop_test(c, momentum_has_the_spectrum_that_newton_schulz_takes, 0, 2 * KINDS);
  tcase_add_test(c, momentum_is_recorded_where_there_is_one);
  tcase_add_loop_test(c, rotated_norm_is_the_largest_of_all_pairs, 0, 2);
  tcase_add_test(c, no_logit_exceeds_the_rotated_norm);
  tcase_add_loop_test(c, the_order_of_micro_batches_does_not_matter, 0, 3);
  tcase_add_test(c, only_what_is_chosen_costs);
  tcase_add_test(c, what_stabilizers_emit_is_recorded);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
