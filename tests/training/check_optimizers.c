/* check_optimizers.c - every optimizer in one loop, then each against the truth; in double, what rounding does alone
   Device memory is written and read by upload and download alone: some of the loops run isolated. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/random.h"
#include "model/model.h"
#include "numerics/linalg.h"
#include "numerics/svd.h"
#include "training/optimizer.h"
#include "training/spectral.h"
#include "../kinds.h"
#include "../noise.h"

/* --- a small model with its updates -------------------------------------------------------------------- */
struct bench {
  struct device *device;
  struct model model;
  struct updates *updates;
  char settings[256];
  void *options[32]; /* of optimizers[i] */
  void *ffn_options;
};

static struct update_rule standard_rule = {.weight_decay = 0, .seed = 3};
static struct override_options no_override = {"", "", "", MATCH_LR, 0};

/* "muon.rms=0.4 adam.eps=0": into the options of one optimizer. */
static void set_options(const struct optimizer *o, void *options, char *settings)
{
  char *copy = memory_text(settings);
  size_t length = strlen(o->name);
  for (char *save, *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    if (strncmp(word, o->name, length) || word[length] != '.') continue;
    char *is = strchr(word, '=');
    *is = 0;
    const struct option_row *row = o->options;
    while (strcmp(row->name, word + length + 1)) row++;
    ck_assert_int_eq(option_parse(row, options, is + 1, NULL), STATUS_OK);
  }
  memory_free(copy);
}

static const void *options_of(void *context, const char *name)
{
  struct bench *b = context;
  for (int i = 0; optimizers[i]; i++)
    if (!strcmp(optimizers[i]->name, name)) {
      if (!b->options[i]) {
        b->options[i] = memory_new(1, optimizers[i]->options_size + 1);
        if (optimizers[i]->options) option_defaults(optimizers[i]->options, b->options[i]);
        set_options(optimizers[i], b->options[i], b->settings);
      }
      return b->options[i];
    }
  return NULL;
}

/* `experts`: so many in every block, or 0. */
static int try_open_model(const char *kind, struct bench *b, const char *optimizer, const char *settings,
                          int threads, const struct override_options *override,
                          const struct update_rule *rule, const struct stabilizer *stabilizer,
                          const char *experts, struct error *e)
{
  *b = (struct bench){0};
  snprintf(b->settings, sizeof b->settings, "%s", settings);
  struct model_options o = {0};
  option_defaults(model_rows, &o);
  o.heads = 4, o.kv_heads = 2, o.attention = "gqa", o.width = 32, o.head_dim = 12; /* w_q is tall: [48, 32] */
  const void *none = NULL;
  if (experts) {
    const struct ffn *moe = ffn_find(o.ffn = "moe");
    o.ffn_options = b->ffn_options = memory_new(1, moe->options_size);
    option_defaults(moe->options, b->ffn_options);
    ck_assert_int_eq(option_parse(moe->options, b->ffn_options, experts, NULL),
                     STATUS_OK); /* the first row */
  }
  ck_assert_int_eq(device_open(&b->device, kind, threads, e), STATUS_OK);
  ck_assert_msg(!model_resolve(&o, 64, e), "%s", e->text);
  ck_assert_msg(!model_init(&b->model, &o, b->device, &stabilizer, &none, stabilizer != NULL, e), "%s",
                e->text);
  params_draw(&b->model.params, 5);
  b->updates = updates_new(&b->model, optimizer, override, rule, options_of, b, e);
  return b->updates ? STATUS_OK : e->status;
}

static int try_open_on(const char *kind, struct bench *b, const char *optimizer, const char *settings,
                       int threads, const struct override_options *override, const struct update_rule *rule,
                       const struct stabilizer *stabilizer, struct error *e)
{
  return try_open_model(kind, b, optimizer, settings, threads, override, rule, stabilizer, NULL, e);
}

static int try_open(struct bench *b, const char *optimizer, const char *settings, int threads,
                    const struct override_options *override, const struct update_rule *rule,
                    const struct stabilizer *stabilizer, struct error *e)
{
  return try_open_on("cpu", b, optimizer, settings, threads, override, rule, stabilizer, e);
}

static void open_bench_on(const char *kind, struct bench *b, const char *optimizer, const char *settings,
                          int threads)
{
  struct error e = {0};
  ck_assert_msg(!try_open_on(kind, b, optimizer, settings, threads, &no_override, &standard_rule, NULL, &e),
                "%s", e.text);
}

static void open_bench(struct bench *b, const char *optimizer, const char *settings, int threads)
{
  open_bench_on("cpu", b, optimizer, settings, threads);
}

static void directions_at(struct bench *b, long step, double rate, double share)
{
  scalars_upload(b->model.numbers, &(struct step_scalars){step, rate, share});
  program_run(updates_program(b->updates));
}

/* At full rate: decay that does not follow the rate is whole. */
static void update_values(struct bench *b, long step) { directions_at(b, step, 0, 1); }

static void one_step(struct bench *b, long step, double rate, double share)
{
  directions_at(b, step, rate, share);
  program_run(updates_apply(b->updates));
}

static void close_bench(struct bench *b)
{
  updates_free(b->updates);
  model_free(&b->model);
  device_close(b->device);
  for (int i = 0; optimizers[i]; i++) memory_free(b->options[i]);
  memory_free(b->ffn_options);
}

static size_t bytes_of(const struct tensor *t) { return (size_t)(t->rows * t->cols) * sizeof(real); }

static real *copy_from(struct device *device, const struct tensor *t)
{
  real *host = memory_new(1, bytes_of(t));
  device->download(device, host, t->data, bytes_of(t));
  return host;
}

static real *copy_of(const struct bench *b, const struct tensor *t) { return copy_from(b->device, t); }

static void put(struct device *device, struct tensor *t, const real *host)
{
  device->upload(device, t->data, host, bytes_of(t));
}

static void put_one(const struct bench *b, struct tensor *t, long i, double value)
{
  real x = (real)value;
  b->device->upload(b->device, REALS(t) + i, &x, sizeof x);
}

static double one_of(const struct bench *b, const struct tensor *t, long i)
{
  real x;
  b->device->download(b->device, &x, REALS(t) + i, sizeof x);
  return (double)x;
}

static double normal(uint64_t key, uint64_t i) { return draw_normal((struct draw){9, STREAM_TEST, key}, i); }

static void fill(struct device *device, struct tensor *t, double (*number)(uint64_t, uint64_t), uint64_t key,
                 double scale)
{
  real *host = memory_new(1, bytes_of(t));
  for (long i = 0; i < t->rows * t->cols; i++) host[i] = (real)(scale * number(key, (uint64_t)i));
  put(device, t, host);
  memory_free(host);
}

static void draw(const struct bench *b, struct tensor *t, uint64_t step, double scale)
{
  fill(b->device, t, noise_normal, step, scale);
}

static double rms_of(const struct bench *b, const struct tensor *t)
{
  real *x = copy_of(b, t);
  double sum = 0;
  for (long i = 0; i < t->rows * t->cols; i++) sum += (double)x[i] * x[i];
  memory_free(x);
  return sqrt(sum / (double)(t->rows * t->cols));
}

static void ck_same_values(const struct bench *b, const real *expected, const char *what)
{
  real *now = copy_of(b, &b->model.params.values);
  ck_assert_msg(!memcmp(now, expected, bytes_of(&b->model.params.values)), "%s", what);
  memory_free(now);
}

static struct param *param(struct bench *b, const char *name)
{
  struct param *p = params_find(&b->model.params, name);
  ck_assert_msg(p != NULL, "%s", name);
  return p;
}

static const struct tensor *direction_of(const struct param *p) { return &p->update; }

/* --- every optimizer ------------------------------------------------------------------------------------ */
static int moves(const struct optimizer *o) { return o->record != NULL; }

/* loss = |w - target|^2 / 2, whose gradient is w - target */
static double quadratic(struct bench *b, const real *target)
{
  struct params *p = &b->model.params;
  real *d = copy_of(b, &p->values);
  double loss = 0;
  for (long i = 0; i < p->values.cols; i++) {
    d[i] -= target[i];
    loss += (double)d[i] * d[i] / 2;
  }
  put(b->device, &p->grads, d);
  memory_free(d);
  return loss;
}

START_TEST(descends)
{
  for (int i = 0; optimizers[i]; i++) {
    struct bench b;
    open_bench_on(kinds[_i], &b, optimizers[i]->name, "dion.rank=1", 2); /* lower ranks take longer */
    real *target = copy_of(&b, &b.model.params.values), *start = copy_of(&b, &b.model.params.values);
    for (long j = 0; j < b.model.params.values.cols; j++) /* gaps between tensors stay 0 */
      target[j] += (real)(start[j] != 0 ? draw_normal((struct draw){4, STREAM_TEST, 0}, (uint64_t)j) : 0);
    double before = quadratic(&b, target), after = before;
    for (long step = 0; step < 50; step++) {
      one_step(&b, step, 0.05, 1);
      after = quadratic(&b, target);
    }
    if (moves(optimizers[i]))
      ck_assert_msg(after < before / 2, "%s: from %g to %g", optimizers[i]->name, before, after);
    else
      ck_same_values(&b, start, optimizers[i]->name);
    memory_free(target), memory_free(start);
    close_bench(&b);
  }
}
END_TEST

START_TEST(rate_zero)
{
  for (int i = 0; optimizers[i]; i++)
    for (int independent = 0; independent < 2; independent++) {
      struct bench b;
      struct error e = {0};
      struct update_rule rule = {.weight_decay = 0.1, .decay_gains = 1, .decay_independent = independent};
      ck_assert(!try_open(&b, optimizers[i]->name, "", 1, &no_override, &rule, NULL, &e));
      real *start = copy_of(&b, &b.model.params.values);
      draw(&b, &b.model.params.grads, 0, 1);
      one_step(&b, 0, 0, 0);
      ck_same_values(&b, start, optimizers[i]->name);
      memory_free(start);
      close_bench(&b);
    }
}
END_TEST

/* Without a gradient what remains is decay: w (1 - lr wd), or w (1 - lr/base wd), rounded once. A cautious one is the
   same: nothing moves away from 0. */
START_TEST(decay)
{
  const double lr = 0.125, wd = 0.125;
  for (int i = 0; optimizers[i]; i++)
    for (int kind = 0; kind < 8; kind++) {
      struct bench b;
      struct error e = {0};
      struct update_rule rule = {.weight_decay = wd,
                                 .decay_gains = kind & 1,
                                 .decay_independent = kind >> 1 & 1,
                                 .decay_cautious = kind >> 2};
      ck_assert(!try_open_on(kinds[_i], &b, optimizers[i]->name, "", 2, &no_override, &rule, NULL, &e));
      real *start = copy_of(&b, &b.model.params.values);
      one_step(&b, 0, lr, 0.25);
      real *now = copy_of(&b, &b.model.params.values);
      for (int k = 0; k < b.model.params.count; k++) {
        const struct param *p = b.model.params.list[k];
        int decays = moves(optimizers[i]) && (rule.decay_gains || p->kind != PARAM_GAIN);
        double keep = decays ? 1 - wd * (rule.decay_independent ? 0.25 : lr) : 1;
        long at = REALS(&p->value) - REALS(&b.model.params.values);
        for (long j = at; j < at + p->value.rows * p->value.cols; j++)
          ck_assert_msg(now[j] == (real)(start[j] * keep), "%s: %s", optimizers[i]->name, p->name);
      }
      memory_free(start), memory_free(now);
      close_bench(&b);
    }
}
END_TEST

/* Weights whose update has their sign decay as without caution; the others take the update alone. */
START_TEST(cautious_decay)
{
  const double lr = 0.125, wd = 4;
  struct bench b[3]; /* decay, cautious decay, none */
  for (int k = 0; k < 3; k++) {
    const struct update_rule rule = {.weight_decay = k < 2 ? wd : 0, .decay_cautious = k == 1, .seed = 3};
    struct error e = {0};
    ck_assert(!try_open_on(kinds[_i], &b[k], "adam", "", 2, &no_override, &rule, NULL, &e));
    draw(&b[k], &b[k].model.params.grads, 0, 1);
  }
  real *start = copy_of(&b[0], &b[0].model.params.values), *now[3];
  for (int k = 0; k < 3; k++) one_step(&b[k], 0, lr, 1), now[k] = copy_of(&b[k], &b[k].model.params.values);
  int decayed = 0, kept = 0;
  for (int i = 0; i < b[0].model.params.count; i++) {
    const struct param *p = b[0].model.params.list[i];
    const long at = REALS(&p->value) - REALS(&b[0].model.params.values);
    real *u = copy_of(&b[0], direction_of(p));
    for (long j = 0; j < p->value.rows * p->value.cols; j++) {
      const int opposed = (start[at + j] > 0) != (u[j] > 0);
      ck_assert(now[1][at + j] == now[opposed ? 2 : 0][at + j]);
      decayed += !opposed && now[0][at + j] != now[2][at + j], kept += opposed;
    }
    memory_free(u);
  }
  ck_assert(decayed > 1000 && kept > 1000);
  memory_free(start);
  for (int k = 0; k < 3; k++) memory_free(now[k]), close_bench(&b[k]);
}
END_TEST

START_TEST(same_bits_on_any_threads)
{
  const char *const settings[] = {"", "muon.per_head=qkv muon.coefficients=polar_express"};
  for (int i = 0; optimizers[i]; i++)
    for (int s = 0; s < 2; s++) {
      real *expected = NULL;
      for (int threads = 1; threads <= 5; threads++) { /* the last: the same kernels, isolated */
        struct bench b;
        open_bench_on(threads == 5 ? "isolated" : "cpu", &b, optimizers[i]->name, settings[s], threads);
        for (long step = 0; step < 3; step++) {
          draw(&b, &b.model.params.grads, (uint64_t)step, 0.1);
          one_step(&b, step, 0.02, 1);
        }
        if (!expected) expected = copy_of(&b, &b.model.params.values);
        ck_same_values(&b, expected, optimizers[i]->name);
        close_bench(&b);
      }
      memory_free(expected);
    }
}
END_TEST

START_TEST(no_allocation)
{
  for (int i = 0; optimizers[i]; i++) {
    struct bench b;
    open_bench(&b, optimizers[i]->name, "", 1);
    if (program_host_steps(updates_program(b.updates))) { /* decompositions allocate */
      close_bench(&b);
      continue;
    }
    draw(&b, &b.model.params.grads, 0, 1);
    one_step(&b, 0, 0.01, 1);
    size_t calls = memory_calls();
    one_step(&b, 1, 0.01, 1);
    ck_assert_msg(memory_calls() == calls, "%s", optimizers[i]->name);
    close_bench(&b);
  }
}
END_TEST

/* Not a number in one gradient reaches its weights, and only its tensor's. */
START_TEST(nan_survives)
{
  for (int i = 0; optimizers[i]; i++) {
    struct bench b;
    open_bench_on(kinds[_i], &b, optimizers[i]->name, "", 1);
    draw(&b, &b.model.params.grads, 0, 1);
    struct param *hurt = param(&b, "blocks.0.attn.w_q"), *other = param(&b, "blocks.0.attn.w_k");
    put_one(&b, &hurt->grad, 7, NAN);
    one_step(&b, 0, 0.01, 1);
    ck_assert_int_eq(isnan(one_of(&b, &hurt->value, 7)), moves(optimizers[i]));
    real *well = copy_of(&b, &other->value);
    for (long j = 0; j < other->value.rows * other->value.cols; j++) ck_assert(isfinite(well[j]));
    memory_free(well);
    close_bench(&b);
  }
}
END_TEST

/* The parameter of a state that is the first of its optimizer; NULL for the others. */
static const char *param_of_first(const char *state)
{
  char first[64];
  for (int i = 0; optimizers[i]; i++) {
    if (!optimizers[i]->state_names) continue;
    snprintf(first, sizeof first, "%s.%s.", optimizers[i]->name, optimizers[i]->state_names[0]);
    if (!strncmp(state, first, strlen(first))) return state + strlen(first);
  }
  return NULL;
}

/* A checkpoint's view: states have unique names, and with them and the weights a run goes on to the same bits. The
   momentum that is observed is the optimizer's first state. */
START_TEST(states)
{
  for (int i = 0; optimizers[i]; i++) {
    struct bench one, two;
    open_bench(&one, optimizers[i]->name, "", 1);
    open_bench_on("isolated", &two, optimizers[i]->name, "", 2);
    int count = updates_states(one.updates);
    ck_assert_int_eq(count, updates_states(two.updates));
    for (long step = 0; step < 4; step++) {
      draw(&one, &one.model.params.grads, (uint64_t)step, 0.1);
      one_step(&one, step, 0.02, 1);
    }
    real *values = copy_of(&one, &one.model.params.values);
    put(two.device, &two.model.params.values, values);
    memory_free(values);
    real *momenta = memory_new((size_t)one.model.params.total, sizeof *momenta);
    updates_momenta(one.updates, momenta);
    for (int k = 0; k < count; k++) {
      char a[160], c[160];
      struct tensor *from = updates_state(one.updates, k, a, sizeof a);
      struct tensor *to = updates_state(two.updates, k, c, sizeof c);
      ck_assert_str_eq(a, c);
      ck_assert_ptr_nonnull(strchr(a, '.'));
      ck_assert(from->rows == to->rows && from->cols == to->cols);
      real *state = copy_of(&one, from);
      const char *name = param_of_first(a);
      ck_assert_msg(!name || !memcmp(momenta + param(&one, name)->place, state, bytes_of(from)), "%s", a);
      put(two.device, to, state);
      memory_free(state);
    }
    memory_free(momenta);
    struct bench *both[] = {&one, &two};
    for (int k = 0; k < 2; k++) {
      draw(both[k], &both[k]->model.params.grads, 4, 0.1);
      one_step(both[k], 4, 0.02, 1);
    }
    values = copy_of(&one, &one.model.params.values);
    ck_same_values(&two, values, optimizers[i]->name);
    memory_free(values);
    close_bench(&one), close_bench(&two);
  }
}
END_TEST

/* --- sgd, adam ------------------------------------------------------------------------------------------ */
/* Independent double-precision references, five steps. Each step rounds the states, the direction and w a few
   times: the error stays below steps * 8 eps * (|w| + lr). */
START_TEST(adam_by_hand)
{
  struct bench b;
  open_bench_on(kinds[_i], &b, "adam", "", 2);
  long n = b.model.params.values.cols;
  real *start = copy_of(&b, &b.model.params.values);
  double *w = memory_new((size_t)n, sizeof *w), *m = memory_new((size_t)n, sizeof *m);
  double *v = memory_new((size_t)n, sizeof *v);
  for (long i = 0; i < n; i++) w[i] = start[i];
  for (int step = 0; step < 5; step++) {
    draw(&b, &b.model.params.grads, (uint64_t)step, 0.3);
    real *grads = copy_of(&b, &b.model.params.grads);
    for (long i = 0; i < n; i++) {
      double g = grads[i];
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.95 * v[i] + 0.05 * g * g;
      double mh = m[i] / (1 - pow(0.9, step + 1)), vh = v[i] / (1 - pow(0.95, step + 1));
      w[i] -= 0.01 * mh / (sqrt(vh) + 1e-8);
    }
    memory_free(grads);
    one_step(&b, step, 0.01, 1);
  }
  real *now = copy_of(&b, &b.model.params.values);
  for (int k = 0; k < b.model.params.count; k++) {
    const struct tensor *t = &b.model.params.list[k]->value;
    long at = REALS(t) - REALS(&b.model.params.values);
    for (long j = at; j < at + t->rows * t->cols; j++)
      ck_assert_double_eq_tol(now[j], w[j], 5 * 8 * REAL_EPS * (fabs(w[j]) + 0.01));
  }
  memory_free(w), memory_free(m), memory_free(v), memory_free(start), memory_free(now);
  close_bench(&b);
}
END_TEST

/* The first direction is the gradient's sign, however near 1 the decays are: the moments' lack is made up for. */
START_TEST(adam_begins_with_the_sign)
{
  static const char *const settings[] = {"adam.beta1=0 adam.beta2=0", "adam.beta1=0.9 adam.beta2=0.999",
                                         "adam.beta1=0.999 adam.beta2=0.99999",
                                         "adam.beta1=0.999999 adam.beta2=0.999999"};
  for (int k = 0; k < 4; k++) {
    struct bench b;
    open_bench_on(kinds[_i], &b, "adam", settings[k], 1);
    draw(&b, &b.model.params.grads, 0, 1);
    update_values(&b, 0);
    const struct tensor *d = direction_of(param(&b, "blocks.0.attn.w_q"));
    real *got = copy_of(&b, d), *g = copy_of(&b, &param(&b, "blocks.0.attn.w_q")->grad);
    for (long j = 0; j < d->rows * d->cols; j++) {
      double expected = g[j] / (fabs((double)g[j]) + 1e-8);
      ck_assert_double_eq_tol(got[j], expected, 8 * REAL_EPS);
    }
    memory_free(got), memory_free(g);
    close_bench(&b);
  }
}
END_TEST

START_TEST(sgd_by_hand)
{
  for (int nesterov = 0; nesterov < 2; nesterov++) {
    struct bench b;
    open_bench_on(kinds[_i], &b, "sgd", nesterov ? "sgd.nesterov=1 sgd.momentum=0.5" : "sgd.momentum=0.5", 1);
    struct param *p = param(&b, "norm");
    for (long j = 0; j < p->grad.cols; j++) put_one(&b, &p->grad, j, 1);
    one_step(&b, 0, 0, 1);
    one_step(&b, 1, 0, 1); /* m = 1, then 1.5 */
    ck_assert_double_eq(one_of(&b, direction_of(p), 3), nesterov ? 1.75 : 1.5);
    close_bench(&b);
  }
}
END_TEST

/* Lion of equal betas has Signum's bits; of others not. */
START_TEST(signum_is_lion_of_equal_betas)
{
  static const char *const lions[] = {"lion.beta1=0.8 lion.beta2=0.8", "lion.beta1=0.8 lion.beta2=0.9"};
  for (int k = 0; k < 2; k++) {
    struct bench lion, signum;
    open_bench_on(kinds[_i], &lion, "lion", lions[k], 2);
    open_bench_on(kinds[_i], &signum, "signum", "signum.momentum=0.8", 1);
    struct bench *both[] = {&lion, &signum};
    for (int b = 0; b < 2; b++)
      for (long step = 0; step < 5; step++) {
        draw(both[b], &both[b]->model.params.grads, (uint64_t)step, 0.3);
        one_step(both[b], step, 0.01, 1);
      }
    real *x = copy_of(&lion, &lion.model.params.values), *y = copy_of(&signum, &signum.model.params.values);
    ck_assert_int_eq(!memcmp(x, y, bytes_of(&lion.model.params.values)), k == 0);
    memory_free(x), memory_free(y);
    close_bench(&lion), close_bench(&signum);
  }
}
END_TEST

/* Pure noise: RMS sqrt((1-b1)/(1+b1)) = 0.2294 where v has settled, b2 -> 1. With b2 = 0.95 v is noisy and
   shares its gradients with m: 0.226 by an independent simulation in Python (3000 numbers, 150 steps). Here
   3072 numbers over 200 steps, of which about one in 20 is independent: 30,000, so 0.4 % of the RMS. */
START_TEST(adam_noise)
{
  static const struct {
    const char *settings;
    double rms;
  } noise[] = {{"adam.beta2=0.95", 0.226}, {"adam.beta2=0.9999", 0.2294}};
  for (int k = 0; k < 2; k++) {
    struct bench b;
    open_bench(&b, "adam", noise[k].settings, 2);
    double sum = 0;
    struct param *p = param(&b, "blocks.0.ffn.w_gate");
    for (int step = 0; step < 400; step++) {
      draw(&b, &p->grad, (uint64_t)step, 1);
      update_values(&b, step);
      if (step >= 200) sum += pow(rms_of(&b, direction_of(p)), 2) / 200;
    }
    ck_assert_double_eq_tol(sqrt(sum), noise[k].rms, 0.003);
    close_bench(&b);
  }
}
END_TEST

/* --- Newton-Schulz -------------------------------------------------------------------------------------- */
static double scalar_map(const struct ns_set *set, int steps, double s)
{
  for (int i = 0; i < (steps ? steps : set->steps); i++) {
    const struct ns_step *p = ns_step_at(set, i);
    s = p->a * s + p->b * s * s * s + p->c * s * s * s * s * s;
  }
  return s;
}

/* What comes of one rounding of each term of each step, in units of their precision: the map's condition. */
static double rounding(const struct ns_set *set, double s)
{
  double error = REAL_EPS * s;
  for (int i = 0; i < set->steps; i++) {
    const struct ns_step *p = ns_step_at(set, i);
    double s2 = s * s, s4 = s2 * s2;
    error = error * fabs(p->a + 3 * p->b * s2 + 5 * p->c * s4) +
            REAL_EPS * fabs(s) * (fabs(p->a) + fabs(p->b) * s2 + fabs(p->c) * s4);
    s = p->a * s + p->b * s * s2 + p->c * s * s4;
  }
  return error;
}

/* Output ranges over inputs [0.05, 1], [0.01, 1], [0.001, 1], computed apart from this code in double precision
   from the published coefficients, to three digits; slope at 0. */
static const struct {
  enum ns_choice set;
  int steps;
  double low[3], high[3], slope;
} tabulated[] = {
  {NS_KELLER, 5, {.682, .682, .471}, {1.134, 1.134, 1.202}, 485},
  {NS_QUINTIC, 5, {.978, .978, .475}, {1.032, 1.032, 1.145}, 493},
  {NS_TAYLOR, 5, {.852, .228, .023}, {1, 1, 1}, 23},
  {NS_TAYLOR, 10, {1, 1, .499}, {1, 1, 1}, 537},
  {NS_SU_FIXED, 5, {.821, .821, .427}, {1.180, 1.183, 1.183}, 438},
  {NS_SU, 5, {.951, .951, .612}, {1.050, 1.050, 1.050}, 662},
  {NS_YOUJIACHENG, 6, {.996, .996, .866}, {.999, .999, .999}, 1137},
  {NS_POLAR_EXPRESS, 5, {.870, .870, .846}, {1.124, 1.124, 1.124}, 976},
  {NS_POLAR_EXPRESS, 6, {.997, .997, .994}, {1.001, 1.001, 1.001}, 1828},
  {NS_POLAR_EXPRESS, 8, {1, 1, 1}, {1, 1, 1}, 6363},
  {NS_POLAR_EXPRESS_5, 5, {.859, .859, .859}, {1.141, 1.141, 1.141}, 989},
  {NS_CANS, 5, {.884, .884, .884}, {1.120, 1.120, 1.120}, 1049},
  {NS_CUBIC, 5, {.774, .774, .119}, {1.300, 1.300, 1.300}, 119},
  {NS_DEEPSEEK_V4, 10, {1, 1, 1}, {1.001, 1.001, 1.001}, 79263},
  {NS_AOL, 4, {-1.08, -1.08, -1.08}, {1.08, 1.08, 1.08}, 104},
};
static const double from[] = {.05, .01, .001};

START_TEST(scalar_ranges)
{
  for (size_t i = 0; i < sizeof tabulated / sizeof *tabulated; i++) {
    const struct ns_set *set = &ns_sets[tabulated[i].set];
    for (int r = 0; r < 3; r++) {
      double low = 1e9, high = -1e9;
      for (int k = 0; k <= 20000; k++) {
        double y = scalar_map(set, tabulated[i].steps, pow(from[r], 1 - k / 20000.));
        low = fmin(low, y), high = fmax(high, y);
      }
      double tol = tabulated[i].set == NS_AOL ? 6e-3 : 6e-4;
      const char *name = ns_names[tabulated[i].set];
      if (tabulated[i].set != NS_AOL || r == 0) {
        ck_assert_msg(fabs(low - tabulated[i].low[r]) < tol, "%s from %g: low %.4f", name, from[r], low);
        ck_assert_msg(fabs(high - tabulated[i].high[r]) < tol, "%s from %g: high %.4f", name, from[r], high);
      }
    }
    double slope = scalar_map(set, tabulated[i].steps, 1e-9) / 1e-9;
    ck_assert_msg(fabs(slope / tabulated[i].slope - 1) < .025, "%s: slope %g", ns_names[tabulated[i].set],
                  slope);
  }
  for (int i = 0; i < NS_SETS; i++)
    ck_assert(ns_names[i] && ns_sets[i].listed >= 1 && ns_sets[i].listed <= 10 && ns_sets[i].source);
  ck_assert_str_eq(ns_names[NS_SVD], "svd");
  ck_assert_str_eq(ns_names[NS_NONE], "none");
  ck_assert_ptr_null(ns_names[NS_NONE + 1]);
}
END_TEST

/* keller, five steps: 1 -> 0.6964, 0.1 -> 0.7121, 0.01 -> 0.6989, 0.001 -> 0.4705; quintic 1 -> 0.9783. */
START_TEST(scalar_points)
{
  ck_assert_double_eq_tol(scalar_map(&ns_sets[NS_KELLER], 0, 1), 0.6964, 1e-4);
  ck_assert_double_eq_tol(scalar_map(&ns_sets[NS_KELLER], 0, .1), 0.7121, 1e-4);
  ck_assert_double_eq_tol(scalar_map(&ns_sets[NS_KELLER], 0, .01), 0.6989, 1e-4);
  ck_assert_double_eq_tol(scalar_map(&ns_sets[NS_KELLER], 0, .001), 0.4705, 1e-4);
  ck_assert_double_eq_tol(scalar_map(&ns_sets[NS_QUINTIC], 0, 1), 0.9783, 1e-4);
  ck_assert_double_eq_tol(scalar_map(&ns_sets[NS_QUINTIC], 0, .001), 0.4750, 1e-4);
}
END_TEST

/* What the operation does to a whole tensor. */
static void schulz_by(enum ns_iteration iteration, struct device *device, struct tensor *x,
                      const struct ns_set *set, long steps, double eps)
{
  struct program *p = program_new(device);
  struct tensor row = tensor_of(x->data, 1, x->rows * x->cols);
  newton_schulz_record(p, &row, &(long){0}, 1, x->rows, x->cols, set, iteration, steps, eps, NULL, 1);
  program_plan(p);
  program_run(p);
  program_free(p);
}

static void schulz(struct device *device, struct tensor *x, const struct ns_set *set, long steps, double eps)
{
  schulz_by(NS_AUTO, device, x, set, steps, eps);
}

/* a [m,n] = b^T c as plain loops */
static double inner(const struct tensor *a, const struct tensor *b, long i, long j)
{
  double sum = 0;
  for (long k = 0; k < a->rows; k++) sum += (double)REALS(a)[k * a->ld + i] * REALS(b)[k * b->ld + j];
  return sum;
}

/* With X = U S V^T the result is U p(S) V^T: on a diagonal matrix the scalar map element by element; on any
   matrix, polar factor transposed times result is symmetric, and its singular values are p(S). */
static void check_shape(struct device *device, enum ns_choice choice, long rows, long cols)
{
  const struct ns_set *set = &ns_sets[choice];
  long least = rows < cols ? rows : cols;
  struct tensor *x = tensor_new(device, TENSOR_REAL, rows, cols, "x");
  struct tensor *polar = tensor_new(device, TENSOR_REAL, rows, cols, "polar");
  double norm = 0, sigma[64], got[64];
  for (long i = 0; i < least; i++) {
    double s = pow(10, -2. * (double)i / (double)least); /* from 1 to 0.01 */
    REALS(x)[i * cols + i] = (real)(i % 2 ? -s : s);
    norm += s * s;
  }
  norm = sqrt(norm);
  schulz(device, x, set, 0, 0);
  for (long i = 0; i < rows; i++)
    for (long j = 0; j < cols; j++) {
      double s = pow(10, -2. * (double)i / (double)least) / norm / set->norm_scale;
      double expected = i == j ? (i % 2 ? -1 : 1) * scalar_map(set, 0, s) : 0;
      ck_assert_msg(fabs(REALS(x)[i * cols + j] - expected) <= (i == j ? 4 * rounding(set, s) : 0),
                    "%s [%ld,%ld] at %ld,%ld: %g, not %g", ns_names[choice], rows, cols, i, j,
                    (double)REALS(x)[i * cols + j], expected);
    }
  fill(device, x, normal, 77, 1);
  struct spectra *spectra = spectra_new(rows, cols);
  ck_assert(!polar_factor(REALS(x), rows, cols, cols, REALS(polar), cols, NULL));
  ck_assert(!singular_values(spectra, REALS(x), rows, cols, cols, sigma, NULL, NULL, NULL));
  norm = 0;
  for (long i = 0; i < least; i++) norm += sigma[i] * sigma[i];
  schulz(device, x, set, 0, 1e-7);
  ck_assert(!singular_values(spectra, REALS(x), rows, cols, cols, got, NULL, NULL, NULL));
  double trace = 0, mapped = 0, largest = 0, tolerance = 1e-3;
  for (long i = 0; i < least; i++) {
    double s = sigma[i] / sqrt(norm) / set->norm_scale, p = scalar_map(set, 0, s);
    mapped += p;
    tolerance = fmax(tolerance, 4 * rounding(set, s));
    largest = fmax(largest, fabs(p));
  }
  for (long i = 0; i < cols; i++) {
    trace += inner(polar, x, i, i);
    for (long j = 0; j < i; j++)
      ck_assert_double_eq_tol(inner(polar, x, i, j), inner(polar, x, j, i), tolerance);
  }
  ck_assert_double_eq_tol(trace, mapped, tolerance * (double)least);
  ck_assert_double_eq_tol(got[0], largest, tolerance);
  spectra_free(spectra);
  tensor_free(device, x), tensor_free(device, polar);
}

/* Beyond the steps of a set its last one is repeated. */
START_TEST(beyond_the_last_step)
{
  for (int set = 0; set < NS_SETS; set++)
    for (int step = ns_sets[set].listed; step < 20; step++)
      ck_assert_mem_eq(ns_step_at(&ns_sets[set], step), &ns_sets[set].step[ns_sets[set].listed - 1],
                       sizeof(struct ns_step));
}
END_TEST

START_TEST(against_svd)
{
  struct device *device;
  ck_assert(!device_open(&device, "cpu", 1, NULL));
  for (int choice = 0; choice < NS_SETS; choice++) {
    check_shape(device, choice, 24, 24);
    check_shape(device, choice, 17, 40);
    check_shape(device, choice, 40, 17);
    check_shape(device, choice, 1, 9);
  }
  device_close(device);
}
END_TEST

/* --- on the Gram matrix: the same polynomial */

enum { LOW = 24, LONG = 60, HOSTILE = 6 };

/* Singular values of hostile matrices: down to 1e-7 of the largest, few, or one far above the others. 0: drawn. */
static double hostile_value(int kind, int i)
{
  switch (kind) {
  case 1: return pow(10, -7. * i / (LOW - 1));
  case 2: return i < 5 ? 1. / (i + 1) : 0;
  case 3: return i ? 1e-3 : 1;
  case 4: return i ? 1e-4 : 1;
  default: return i < 8 ? 1 : 1e-5;
  }
}

static void make_hostile(struct device *device, int kind, struct tensor *x)
{
  real u[LOW * LOW], v[LOW * LONG];
  struct tensor left = tensor_of(u, LOW, LOW), right = tensor_of(v, LOW, LONG);
  fill(device, x, normal, 41, 1);
  if (!kind) return;
  fill(device, &left, normal, 42, 1), fill(device, &right, normal, 43, 1);
  exact_polar_factor(device, &left, 1), exact_polar_factor(device, &right, 1);
  for (int i = 0; i < LOW; i++)
    for (int j = 0; j < LONG; j++) {
      double sum = 0;
      for (int k = 0; k < LOW; k++)
        sum += (double)u[i * LOW + k] * hostile_value(kind, k) * (double)v[k * LONG + j];
      REALS(x)[x->rows == LOW ? i * LONG + j : j * LOW + i] = (real)sum;
    }
}

/* The standard iteration of x [LOW, LONG], or of its transpose, in double, by plain loops. */
static void plain_schulz(const struct ns_set *set, const struct tensor *x, double *y)
{
  static double next[LOW * LONG], a[LOW * LOW], b[LOW * LOW];
  double norm = 0;
  for (int i = 0; i < LOW * LONG; i++) norm += (double)REALS(x)[i] * (double)REALS(x)[i];
  for (int i = 0; i < LOW; i++)
    for (int j = 0; j < LONG; j++)
      y[i * LONG + j] =
        (double)REALS(x)[x->rows == LOW ? i * LONG + j : j * LOW + i] / set->norm_scale / sqrt(norm);
  for (int step = 0; step < set->steps; step++) {
    const struct ns_step *p = ns_step_at(set, step);
    for (int i = 0; i < LOW * LOW; i++) {
      a[i] = 0;
      for (int k = 0; k < LONG; k++) a[i] += y[i / LOW * LONG + k] * y[i % LOW * LONG + k];
    }
    for (int i = 0; i < LOW * LOW; i++) {
      double square = 0;
      for (int k = 0; k < LOW; k++) square += a[i / LOW * LOW + k] * a[k * LOW + i % LOW];
      b[i] = p->b * a[i] + p->c * square + (i / LOW == i % LOW ? p->a : 0);
    }
    for (int i = 0; i < LOW * LONG; i++) {
      next[i] = 0;
      for (int k = 0; k < LOW; k++) next[i] += b[i / LONG * LOW + k] * y[k * LONG + i % LONG];
    }
    memcpy(y, next, sizeof next);
  }
}

/* Frobenius norm of the difference. */
static double off(const struct tensor *x, const double *y)
{
  double sum = 0;
  for (int i = 0; i < LOW; i++)
    for (int j = 0; j < LONG; j++)
      sum += pow((double)REALS(x)[x->rows == LOW ? i * LONG + j : j * LOW + i] - y[i * LONG + j], 2);
  return sqrt(sum);
}

/* Of every set, on hostile matrices, wide and tall: the Gram iteration loses at most three times what the standard one
   does, and both what rounding predicts; without a product with X in between, far more. */
START_TEST(gram_is_as_exact)
{
  struct device *device;
  ck_assert(!device_open(&device, _i ? "cpu" : "reference", 1, NULL));
  for (int choice = 0; choice < NS_SETS; choice++) {
    struct ns_set naive = ns_sets[choice];
    naive.gram.first = naive.steps;
    const struct ns_set *const sets[] = {&ns_sets[choice], &ns_sets[choice], &naive};
    static const enum ns_iteration iterations[] = {NS_STANDARD, NS_GRAM, NS_GRAM};
    double worst[3] = {0}, predicted;
    /* rounding of the largest direction falls into the smallest ones, and is multiplied by the slope at 0 */
    predicted = REAL_EPS * scalar_map(&ns_sets[choice], 0, 1e-9) / 1e-9;
    for (int i = 0; i <= 400; i++) predicted = fmax(predicted, rounding(&ns_sets[choice], pow(10, -i / 50.)));
    for (int kind = 0; kind < 2 * HOSTILE; kind++)
      for (int k = 0; k < 3; k++) {
        struct tensor *x = tensor_new(device, TENSOR_REAL, kind % 2 ? LOW : LONG, kind % 2 ? LONG : LOW, "x");
        double y[LOW * LONG];
        make_hostile(device, kind / 2, x);
        plain_schulz(sets[k], x, y);
        schulz_by(iterations[k], device, x, sets[k], 0, 0);
        worst[k] = fmax(worst[k], off(x, y));
        ck_assert(isfinite(off(x, y)) || k == 2);
        if (!isfinite(off(x, y))) worst[k] = INFINITY;
        tensor_free(device, x);
      }
    ck_assert_msg(worst[0] <= sqrt(LOW) * predicted && worst[1] <= sqrt(LOW) * predicted,
                  "%s: off by %g and, on the Gram matrix, %g; predicted is %g", ns_names[choice], worst[0],
                  worst[1], predicted);
    ck_assert_msg(worst[1] <= 3 * worst[0], "%s: off by %g, on the Gram matrix by %g", ns_names[choice],
                  worst[0], worst[1]);
    ck_assert_msg(worst[2] > 4 * worst[0], "%s: off by %g, without a restart by %g", ns_names[choice],
                  worst[0], worst[2]);
  }
  device_close(device);
}
END_TEST

/* What no division can help: zero stays zero; an entry that is not finite makes all so. */
START_TEST(hostile_matrices)
{
  const enum ns_iteration iteration = _i ? NS_GRAM : NS_STANDARD;
  struct device *device;
  ck_assert(!device_open(&device, "cpu", 1, NULL));
  struct tensor *x = tensor_new(device, TENSOR_REAL, 5, 7, "x");
  for (int svd = 0; svd < 2; svd++) {
    const real bad[] = {0, (real)NAN, (real)INFINITY};
    for (int k = 0; k < 3; k++) {
      memset(x->data, 0, 35 * sizeof(real));
      REALS(x)[8] = bad[k];
      if (svd)
        exact_polar_factor(device, x, 1);
      else
        schulz_by(iteration, device, x, &ns_sets[NS_KELLER], 0, 1e-7);
      for (int i = 0; i < 35; i++) ck_assert(k ? isnan(REALS(x)[i]) : REALS(x)[i] == 0);
    }
  }
  for (int i = 0; i < 35; i++) REALS(x)[i] = FLT_MAX; /* finite, but their norm is not: no silent zero */
  schulz_by(iteration, device, x, &ns_sets[NS_KELLER], 0, 1e-7);
  for (int i = 0; i < 35; i++) ck_assert(isnan(REALS(x)[i]));
  tensor_free(device, x);
  device_close(device);
}
END_TEST

/* --- muon ----------------------------------------------------------------------------------------------- */
/* First step: M = G and the input is (1 + momentum) G, which has G's direction. */
START_TEST(muon_directions)
{
  struct bench exact, near;
  open_bench_on(kinds[_i], &exact, "muon", "muon.coefficients=svd", 1);
  open_bench_on(kinds[_i], &near, "muon", "muon.coefficients=polar_express muon.ns_steps=0", 2);
  struct bench *both[] = {&exact, &near};
  for (int k = 0; k < 2; k++) {
    draw(both[k], &both[k]->model.params.grads, 0, 1);
    update_values(both[k], 0);
  }
  int matrices = 0;
  for (int i = 0; i < exact.model.params.count; i++) {
    struct param *p = exact.model.params.list[i];
    if (p->kind != PARAM_MATRIX) {
      ck_assert_str_eq(updates_optimizer_of(exact.updates, p), "adam");
      continue;
    }
    matrices++;
    ck_assert_str_eq(updates_optimizer_of(exact.updates, p), "muon");
    const struct tensor *d = direction_of(p);
    real *n = copy_of(&near, direction_of(near.model.params.list[i])), *got = copy_of(&exact, d);
    ck_assert_double_eq_tol(rms_of(&exact, d), 0.2, 1e-5);
    /* eight steps reach 1 for every singular value above 1e-3 of the norm; G's are far above */
    for (long j = 0; j < d->rows * d->cols; j++) ck_assert_double_eq_tol(got[j], n[j], 1e-3);
    struct tensor polar = tensor_of(copy_of(&exact, &p->grad), d->rows, d->cols);
    ck_assert(!polar_factor(REALS(&polar), d->rows, d->cols, d->cols, REALS(&polar), d->cols, NULL));
    double scale = 0.2 * sqrt(fmax((double)d->rows, (double)d->cols));
    for (long j = 0; j < d->rows * d->cols; j++)
      ck_assert_double_eq_tol(got[j], scale * REALS(&polar)[j], 1e-5);
    memory_free(polar.data), memory_free(n), memory_free(got);
  }
  ck_assert_int_eq(matrices, 14);
  close_bench(&exact), close_bench(&near);
}
END_TEST

/* Every set takes its own number of steps unless told otherwise; only then do sets of one beginning differ. */
START_TEST(muon_takes_the_sets_steps)
{
  for (int set = 0; set < NS_SETS; set++) {
    struct bench own, told, keller;
    char silent[64], loud[96];
    snprintf(silent, sizeof silent, "muon.coefficients=%s", ns_names[set]);
    snprintf(loud, sizeof loud, "%s muon.ns_steps=%d", silent, ns_sets[set].steps);
    open_bench(&own, "muon", silent, 1);
    open_bench(&told, "muon", loud, 1);
    open_bench(&keller, "muon", "muon.coefficients=keller", 1);
    struct bench *all[] = {&own, &told, &keller};
    for (int k = 0; k < 3; k++) {
      draw(all[k], &all[k]->model.params.grads, 0, 1);
      update_values(all[k], 0);
    }
    const char *name = "blocks.1.ffn.w_up";
    const struct tensor *d = direction_of(param(&own, name));
    size_t size = (size_t)(d->rows * d->cols) * sizeof(real);
    ck_assert_msg(!memcmp(d->data, direction_of(param(&told, name))->data, size), "%s", ns_names[set]);
    int as_keller = !memcmp(d->data, direction_of(param(&keller, name))->data, size);
    ck_assert_msg(as_keller == (set == NS_KELLER), "%s", ns_names[set]);
    for (int k = 0; k < 3; k++) close_bench(all[k]);
  }
}
END_TEST

/* ... and the number is filled in, so that it is recorded and part of the run's id. */
START_TEST(muon_resolves_steps)
{
  const struct optimizer *o = optimizer_find("muon");
  const struct option_row *row = o->options;
  void *options = memory_new(1, o->options_size);
  while (strcmp(row->name, "ns_steps")) row++;
  const struct {
    char *settings;
    const char *steps;
  } cases[] = {{"", "5"},
               {"muon.coefficients=deepseek_v4", "10"},
               {"muon.coefficients=taylor muon.ns_steps=3", "3"},
               {"muon.coefficients=svd", "0"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[32];
    option_defaults(o->options, options);
    set_options(o, options, cases[i].settings);
    o->resolve(options);
    option_format(row, options, text, sizeof text);
    ck_assert_str_eq(text, cases[i].steps);
  }
  memory_free(options);
}
END_TEST

START_TEST(muon_momentum)
{
  for (int nesterov = 0; nesterov < 2; nesterov++) {
    struct bench b;
    open_bench(&b, "muon",
               nesterov ? "muon.coefficients=svd muon.momentum=0.5"
                        : "muon.coefficients=svd muon.momentum=0.5 muon.nesterov=0",
               1);
    struct param *p = param(&b, "blocks.1.ffn.w_up");
    long size = p->value.rows * p->value.cols;
    struct tensor input = tensor_of(memory_new((size_t)size, sizeof(real)), p->value.rows, p->value.cols);
    double *m = memory_new((size_t)size, sizeof *m);
    for (int step = 0; step < 3; step++) {
      draw(&b, &p->grad, (uint64_t)step, 1);
      for (long j = 0; j < size; j++) {
        m[j] = 0.5 * m[j] + REALS(&p->grad)[j];
        REALS(&input)[j] = (real)(nesterov ? REALS(&p->grad)[j] + 0.5 * m[j] : m[j]);
      }
      update_values(&b, step);
    }
    ck_assert(!polar_factor(REALS(&input), input.rows, input.cols, input.ld, REALS(&input), input.ld, NULL));
    double scale = 0.2 * sqrt(fmax((double)input.rows, (double)input.cols));
    for (long j = 0; j < size; j++)
      ck_assert_double_eq_tol(REALS(direction_of(p))[j], scale * REALS(&input)[j], 1e-4);
    memory_free(input.data), memory_free(m);
    close_bench(&b);
  }
}
END_TEST

START_TEST(muon_scales)
{
  static const struct {
    const char *settings;
    double out_over_in, root_of_larger;
  } rule[] = {
    {"muon.coefficients=svd muon.rms=0.5", 0, 0.5},
    {"muon.coefficients=svd muon.scale=keller", 1, 0},
    {"muon.coefficients=svd muon.scale=mup", 2, 0},
    {"muon.coefficients=svd muon.scale=none", 0, 0},
  };
  for (int r = 0; r < 4; r++) {
    struct bench b;
    open_bench(&b, "muon", rule[r].settings, 1);
    draw(&b, &b.model.params.grads, 0, 1);
    update_values(&b, 0);
    const char *const names[] = {"blocks.0.ffn.w_up", "blocks.0.ffn.w_down", "blocks.0.attn.w_q"};
    for (int i = 0; i < 3; i++) {
      const struct tensor *d = direction_of(param(&b, names[i]));
      double out = (double)d->rows, in = (double)d->cols, larger = fmax(out, in);
      double scale = rule[r].root_of_larger     ? rule[r].root_of_larger * sqrt(larger)
                     : rule[r].out_over_in == 1 ? sqrt(fmax(1, out / in))
                     : rule[r].out_over_in == 2 ? sqrt(out / in)
                                                : 1;
      ck_assert_double_eq_tol(rms_of(&b, d), scale / sqrt(larger),
                              1e-5); /* an orthogonal matrix has RMS 1/sqrt(larger) */
    }
    close_bench(&b);
  }
}
END_TEST

/* Every expert is orthogonalised by itself: its direction has the singular values, and the scale, of one matrix, and
   no other expert's gradient moves a bit of it. */
START_TEST(muon_by_expert)
{
  struct bench b;
  struct error e = {0};
  ck_assert_msg(!try_open_model("cpu", &b, "muon", "muon.coefficients=svd", 1, &no_override, &standard_rule,
                                NULL, "6", &e),
                "%s", e.text);
  struct param *p = param(&b, "blocks.0.ffn.experts.w_down"), *router = param(&b, "blocks.0.ffn.w_router");
  ck_assert_int_eq(p->value.rows, 6 * 32);
  ck_assert_str_eq(updates_optimizer_of(b.updates, router), "muon");
  real *first = NULL;
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < b.model.params.count; i++)
      if (b.model.params.list[i]->kind != PARAM_STATE) draw(&b, &b.model.params.list[i]->grad, 3, 1);
    struct tensor last = tensor_rows(&p->grad, 5 * 32, 32);
    if (pass) op_run(b.device, OP_scale, &(union op_args){.scale = {.y = &last, .alpha = -7}});
    struct tensor *m = NULL;
    char name[160];
    for (int i = 0; i < updates_states(b.updates); i++) {
      m = updates_state(b.updates, i, name, sizeof name);
      op_run(b.device, OP_fill, &(union op_args){.fill = {.y = m}});
    }
    update_values(&b, 0);
    const struct tensor *d = direction_of(p);
    for (long k = 0; k < 6; k++) {
      struct tensor block = tensor_rows(d, k * 32, 32);
      struct svd s;
      ck_assert(!svd_of(&s, b.device, &block));
      for (long i = 0; i < s.n; i++)
        ck_assert_double_eq_tol((double)s.sigma[i], 0.2 * sqrt(32), 1e-4); /* rms sqrt(max(rows, columns)) */
      svd_free(&s);
    }
    if (!pass) {
      first = memory_new((size_t)(6 * 32 * d->cols), sizeof *first);
      memcpy(first, d->data, (size_t)(6 * 32 * d->cols) * sizeof *first);
    } else {
      size_t others = (size_t)(5 * 32 * d->cols);
      ck_assert(!memcmp(first, d->data, others * sizeof *first));
      ck_assert(memcmp(first + others, REALS(d) + others, (size_t)(32 * d->cols) * sizeof *first));
    }
  }
  memory_free(first);
  close_bench(&b);
}
END_TEST

/* per_head is Muon on the blocks by themselves; for the square part of its shape it has another RMS, and every
   head's block has all singular values equal. */
START_TEST(muon_per_head)
{
  struct bench whole, qk, qkv;
  open_bench(&whole, "muon", "", 1);
  open_bench(&qk, "muon", "muon.per_head=qk", 1);
  open_bench(&qkv, "muon", "muon.per_head=qkv", 1);
  struct bench *all[] = {&whole, &qk, &qkv};
  for (int k = 0; k < 3; k++) {
    draw(all[k], &all[k]->model.params.grads, 0, 1);
    update_values(all[k], 0);
  }
  static const struct {
    const char *name;
    int split[3];
  } expected[] = {{"blocks.0.attn.w_q", {0, 1, 1}},
                  {"blocks.0.attn.w_k", {0, 1, 1}},
                  {"blocks.0.attn.w_v", {0, 0, 1}},
                  {"blocks.0.attn.w_o", {0, 0, 0}},
                  {"blocks.0.ffn.w_up", {0, 0, 0}}};
  for (int i = 0; i < 5; i++)
    for (int k = 0; k < 3; k++) {
      struct param *p = param(all[k], expected[i].name);
      long rows = expected[i].split[k] ? 12 : p->value.rows, cols = p->value.cols;
      real *by_hand = copy_of(all[k], &p->grad);
      const real *update = direction_of(p)->data;
      for (long row = 0; row < p->value.rows; row += rows) {
        struct tensor x = tensor_of(by_hand + row * cols, rows, cols);
        schulz(all[k]->device, &x, &ns_sets[NS_KELLER], 5, 1e-7);
      }
      double scale = 0.2 * sqrt(fmax((double)rows, (double)cols));
      for (long j = 0; j < p->value.rows * cols; j++)
        ck_assert_double_eq_tol(update[j], scale * by_hand[j], 1e-4);
      memory_free(by_hand);
    }
  for (int k = 0; k < 3; k++) close_bench(all[k]);
}
END_TEST

/* Whatever is orthogonalised (tensors, heads, experts): on the Gram matrix to the same directions; told nothing, by
   shape, to the bits of one or the other. */
START_TEST(muon_on_the_gram_matrix)
{
  static const char *const settings[] = {"", "muon.per_head=qkv", "muon.coefficients=polar_express"};
  static const char *const iterations[] = {"auto", "standard", "gram"};
  int by_gram = 0, by_standard = 0;
  for (int i = 0; i < 6; i++) {
    struct bench b[3];
    for (int k = 0; k < 3; k++) {
      struct error e = {0};
      char all[128];
      snprintf(all, sizeof all, "%s muon.iteration=%s", settings[i / 2], iterations[k]);
      ck_assert_msg(!try_open_model("cpu", &b[k], "muon", all, 2, &no_override, &standard_rule, NULL,
                                    i % 2 ? "6" : NULL, &e),
                    "%s", e.text);
      for (int j = 0; j < b[k].model.params.count; j++)
        if (b[k].model.params.list[j]->kind != PARAM_STATE)
          draw(&b[k], &b[k].model.params.list[j]->grad, (uint64_t)j, 1);
      update_values(&b[k], 0);
    }
    for (int j = 0; j < b[0].model.params.count; j++) {
      struct param *p = b[0].model.params.list[j];
      if (p->kind != PARAM_MATRIX) continue;
      const struct tensor *d[3];
      for (int k = 0; k < 3; k++) d[k] = direction_of(b[k].model.params.list[j]);
      const size_t bytes = (size_t)(d[0]->rows * d[0]->cols) * sizeof(real);
      for (long n = 0; n < d[0]->rows * d[0]->cols; n++)
        ck_assert_double_eq_tol(REALS(d[1])[n], REALS(d[2])[n], 1e-4);
      const int gram = !memcmp(d[0]->data, d[2]->data, bytes),
                standard = !memcmp(d[0]->data, d[1]->data, bytes);
      ck_assert_msg(gram != standard, "%s", p->name);
      by_gram += gram, by_standard += standard;
    }
    for (int k = 0; k < 3; k++) close_bench(&b[k]);
  }
  ck_assert(by_gram && by_standard);
}
END_TEST

/* --- relatives of muon ------------------------------------------------------------------------------------- */
static void some_steps(const char *kind, struct bench *b, const char *optimizer, const char *settings,
                       int steps)
{
  open_bench_on(kind, b, optimizer, settings, 2);
  for (int step = 0; step < steps; step++) {
    draw(b, &b->model.params.grads, (uint64_t)step, 0.1);
    update_values(b, step);
  }
}

/* The largest difference of updates, relative to the RMS of b's. */
static double apart(struct bench *a, struct bench *b, const char *name)
{
  const struct tensor *d = direction_of(param(b, name));
  real *x = copy_of(a, direction_of(param(a, name))), *y = copy_of(b, d);
  double most = 0;
  for (long j = 0; j < d->rows * d->cols; j++) most = fmax(most, fabs((double)x[j] - (double)y[j]));
  memory_free(x), memory_free(y);
  return most / rms_of(b, d);
}

/* The polar factor of a matrix that is not tall has rows of length 1: there NorMuon is Muon, to what eps takes. In tall
   ones the first step makes rows equal, and later ones do not. */
START_TEST(normuon_on_equal_rows_is_muon)
{
  for (int steps = 1; steps < 4; steps += 2) {
    struct bench muon, normuon;
    some_steps(kinds[_i], &muon, "muon", "muon.coefficients=svd", steps);
    some_steps(kinds[_i], &normuon, "normuon", "normuon.coefficients=svd", steps);
    for (int i = 0; i < muon.model.params.count; i++) {
      const struct param *p = muon.model.params.list[i];
      const int tall = p->value.rows > p->value.cols;
      if (p->kind != PARAM_MATRIX) continue;
      double off = apart(&normuon, &muon, p->name);
      ck_assert_msg(tall ? off > 0.1 : off < 1e-5, "%s, %d steps: %g", p->name, steps, off);
      const struct tensor *d = direction_of(param(&normuon, p->name));
      ck_assert_double_eq_tol(rms_of(&normuon, d), 0.2, 1e-5);
      real *x = copy_of(&normuon, d);
      double largest = 0;
      for (long row = 0; row < d->rows; row++) {
        double sum = 0;
        for (long j = 0; j < d->cols; j++) sum += (double)x[row * d->cols + j] * (double)x[row * d->cols + j];
        largest = fmax(largest, sqrt(sum / (double)d->cols));
      }
      ck_assert_int_eq(largest < 0.2 + 1e-5, !tall || steps == 1);
      memory_free(x);
    }
    close_bench(&muon), close_bench(&normuon);
  }
}
END_TEST

/* By head as on the heads alone: rows of a head do not hang on other heads' gradients. */
START_TEST(relatives_by_head)
{
  static const char *const settings[] = {"normuon.per_head=qk", "adamuon.per_head=qk",
                                         "polargrad.per_head=qk"};
  static const char *const names[] = {"normuon", "adamuon", "polargrad"};
  for (int k = 0; k < 3; k++)
    for (int split = 0; split < 2; split++) {
      struct bench a, b;
      struct bench *both[] = {&a, &b};
      const char *name = "blocks.1.attn.w_q";
      for (int i = 0; i < 2; i++) {
        open_bench_on(kinds[_i], both[i], names[k], split ? settings[k] : "", 1);
        draw(both[i], &both[i]->model.params.grads, 0, 0.1);
        if (i) put_one(&b, &param(&b, name)->grad, 0, 3);
        update_values(both[i], 0);
      }
      const struct tensor *d = direction_of(param(&a, name));
      real *x = copy_of(&a, d), *y = copy_of(&b, direction_of(param(&b, name)));
      const size_t head = (size_t)(12 * d->cols), rest = (size_t)(d->rows * d->cols) - head;
      ck_assert(memcmp(x, y, head * sizeof *x));
      ck_assert_msg((memcmp(x + head, y + head, rest * sizeof *x) == 0) == split, "%s, split %d", names[k],
                    split);
      memory_free(x), memory_free(y);
      close_bench(&a), close_bench(&b);
    }
}
END_TEST

/* After one step V is a share of O^2, and of O its sign is left: that of the polar factor of the gradient's signs. */
START_TEST(adamuon_begins_with_signs)
{
  struct bench b;
  some_steps(kinds[_i], &b, "adamuon", "adamuon.coefficients=svd adamuon.rms=0.5", 1);
  for (int i = 0; i < b.model.params.count; i++) {
    struct param *p = b.model.params.list[i];
    if (p->kind != PARAM_MATRIX) continue;
    const long rows = p->value.rows, cols = p->value.cols;
    real *g = copy_of(&b, &p->grad), *d = copy_of(&b, direction_of(p));
    for (long j = 0; j < rows * cols; j++) g[j] = (real)((g[j] > 0) - (g[j] < 0));
    ck_assert(!polar_factor(g, rows, cols, cols, g, cols, NULL));
    for (long j = 0; j < rows * cols; j++)
      if (fabs((double)g[j]) > 1e-3) ck_assert_double_eq_tol((double)d[j], g[j] > 0 ? 0.5 : -0.5, 1e-4);
    memory_free(g), memory_free(d);
  }
  close_bench(&b);
}
END_TEST

/* Of a gradient that does not change NAMO's alpha is 1: it is Muon. Of one that turns about alpha is small. */
START_TEST(namo_of_a_constant_gradient_is_muon)
{
  for (int turns = 0; turns < 2; turns++) {
    struct bench muon, namo;
    struct bench *both[] = {&muon, &namo};
    open_bench_on(kinds[_i], &muon, "muon", "muon.nesterov=0 muon.momentum=0.9 muon.coefficients=svd", 2);
    open_bench_on(kinds[_i], &namo, "namo", "namo.momentum=0.9 namo.beta2=0.8 namo.coefficients=svd", 1);
    for (int b = 0; b < 2; b++)
      for (int step = 0; step < 4; step++) {
        draw(both[b], &both[b]->model.params.grads, 0, turns && step % 2 ? -0.1 : 0.1);
        update_values(both[b], step);
      }
    for (int i = 0; i < muon.model.params.count; i++) {
      const struct param *p = muon.model.params.list[i];
      if (p->kind != PARAM_MATRIX) continue;
      const double size = rms_of(&namo, direction_of(param(&namo, p->name)));
      if (turns)
        ck_assert_double_lt(size, 0.2 * 0.2);
      else
        ck_assert_double_lt(apart(&namo, &muon, p->name), 1e-5);
    }
    close_bench(&muon), close_bench(&namo);
  }
}
END_TEST

/* PolarGrad is Muon, without its scale, times the sum of the momentum's singular values; a gradient of half the size
   has half the step. */
START_TEST(polargrad_is_muon_times_the_nuclear_norm)
{
  struct bench muon, polar, half;
  some_steps(kinds[_i], &muon, "muon",
             "muon.coefficients=svd muon.scale=none muon.nesterov=0 muon.momentum=0.8", 3);
  some_steps(kinds[_i], &polar, "polargrad", "polargrad.coefficients=svd polargrad.momentum=0.8", 3);
  open_bench_on(kinds[_i], &half, "polargrad", "polargrad.coefficients=svd polargrad.momentum=0.8", 1);
  for (int step = 0; step < 3; step++) {
    draw(&half, &half.model.params.grads, (uint64_t)step, 0.05);
    update_values(&half, step);
  }
  for (int k = 0; k < updates_states(polar.updates); k++) {
    char name[160];
    struct tensor *m = updates_state(polar.updates, k, name, sizeof name);
    if (strncmp(name, "polargrad.m.", 12)) continue;
    struct svd s;
    double norm = 0;
    ck_assert(!svd_of(&s, polar.device, m));
    for (long i = 0; i < s.n; i++) norm += s.sigma[i];
    svd_free(&s);
    const struct tensor *d = direction_of(param(&polar, name + 12));
    real *x = copy_of(&polar, d), *y = copy_of(&muon, direction_of(param(&muon, name + 12)));
    real *z = copy_of(&half, direction_of(param(&half, name + 12)));
    const double size = rms_of(&polar, d);
    for (long j = 0; j < d->rows * d->cols; j++) {
      ck_assert_double_eq_tol((double)x[j], norm * (double)y[j], 1e-4 * size);
      ck_assert_double_eq_tol((double)x[j], 2 * (double)z[j], 1e-4 * size);
    }
    memory_free(x), memory_free(y), memory_free(z);
  }
  close_bench(&muon), close_bench(&polar), close_bench(&half);
}
END_TEST

/* --- soap -------------------------------------------------------------------------------------------------- */
/* In unit bases it is Adam: never renewed, and at the first step. */
START_TEST(soap_in_unit_bases_is_adam)
{
  static const char *const bases[] = {"soap.every=0 soap.beta1=0.8 soap.beta2=0.9 soap.eps=1e-3",
                                      "soap.every=10 soap.beta1=0.8 soap.beta2=0.9 soap.eps=1e-3"};
  for (int renewed = 0; renewed < 2; renewed++)
    for (int steps = 1; steps < 5; steps += 3) {
      struct bench adam, soap;
      some_steps(kinds[_i], &adam, "adam", "adam.beta1=0.8 adam.beta2=0.9 adam.eps=1e-3", steps);
      some_steps(kinds[_i], &soap, "soap", bases[renewed], steps);
      for (int i = 0; i < adam.model.params.count; i++) {
        const struct param *p = adam.model.params.list[i];
        if (p->kind != PARAM_MATRIX) continue;
        double off = apart(&soap, &adam, p->name);
        ck_assert_msg(renewed && steps > 1 ? off > 0.1 : off < 1e-5, "%s, %d steps: %g", p->name, steps, off);
      }
      close_bench(&adam), close_bench(&soap);
    }
}
END_TEST

/* x [n, n] of a state on the device, less the unit matrix: is it x^T x? */
static double far_from_orthonormal(const real *x, long n)
{
  double most = 0;
  for (long i = 0; i < n; i++)
    for (long j = 0; j < n; j++) {
      double sum = i == j ? -1 : 0;
      for (long k = 0; k < n; k++) sum += (double)x[k * n + i] * (double)x[k * n + j];
      most = fmax(most, fabs(sum));
    }
  return most;
}

static real *state_of(struct bench *b, const char *wanted, long *rows, long *cols)
{
  char name[160];
  for (int k = 0; k < updates_states(b->updates); k++) {
    struct tensor *t = updates_state(b->updates, k, name, sizeof name);
    if (strcmp(name, wanted)) continue;
    *rows = t->rows, *cols = t->cols;
    return copy_of(b, t);
  }
  ck_abort_msg("no state %s", wanted);
}

/* The bases are orthonormal. After the second step they make the preconditioner before it diagonal, from the largest
   down; with gradients of one fixed matrix and many renewals those of the power method do, too. */
START_TEST(soap_bases)
{
  static const char *const of[] = {"soap.l.blocks.0.attn.w_q", "soap.r.blocks.0.attn.w_q"};
  static const char *const basis[] = {"soap.ql.blocks.0.attn.w_q", "soap.qr.blocks.0.attn.w_q"};
  for (int many = 0; many < 2; many++) {
    struct bench b;
    long n, cols;
    real *before[2] = {NULL, NULL};
    open_bench_on(kinds[_i], &b, "soap", "soap.every=2 soap.basis_beta=0.5", 2);
    for (int step = 0; step < (many ? 41 : 2); step++) {
      for (int k = 0; k < 2; k++) memory_free(before[k]), before[k] = state_of(&b, of[k], &n, &cols);
      draw(&b, &b.model.params.grads, 0, 1);
      update_values(&b, step);
    }
    for (int k = 0; k < 2; k++) {
      memory_free(state_of(&b, of[k], &n, &cols));
      ck_assert(n == cols && n == (k ? 32 : 48)); /* of w_q [48, 32] */
      real *q = state_of(&b, basis[k], &n, &cols);
      ck_assert_double_lt(far_from_orthonormal(q, n), 1e-5);
      double last = INFINITY, largest = 0, beside = 0;
      for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
          double sum = 0;
          for (long r = 0; r < n; r++)
            for (long c = 0; c < n; c++)
              sum += (double)q[r * n + i] * (double)before[k][r * n + c] * (double)q[c * n + j];
          largest = fmax(largest, sum);
          if (i != j) beside = fmax(beside, fabs(sum));
          if (i != j || many) continue;
          ck_assert_double_le(sum, last + 1e-4 * largest);
          last = sum;
        }
      ck_assert_double_lt(beside, (many ? 0.05 : 1e-5) * largest);
      memory_free(q);
    }
    for (int k = 0; k < 2; k++) memory_free(before[k]);
    close_bench(&b);
  }
}
END_TEST

/* --- klshampoo --------------------------------------------------------------------------------------------- */
static double length_of(const real *x, long n)
{
  double sum = 0;
  for (long i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

/* A constant gradient G = U S V^T: eigenvalues tend to l_i r_i ~ s_i^2, the update to U V^T times a number. In bases
   that are never renewed it is another one. */
START_TEST(klshampoo_of_a_constant_gradient_is_muon)
{
  static const char *const bases[] = {"klshampoo.beta2=0.5 klshampoo.every=1",
                                      "klshampoo.beta2=0.5 klshampoo.every=0"};
  for (int fixed = 0; fixed < 2; fixed++) {
    struct bench muon, kl;
    open_bench_on(kinds[_i], &kl, "klshampoo", bases[fixed], 2);
    some_steps(kinds[_i], &muon, "muon", "muon.coefficients=svd", 1);
    for (int step = 0; step < 25; step++) {
      draw(&kl, &kl.model.params.grads, 0, 0.1);
      update_values(&kl, step);
    }
    for (int i = 0; i < muon.model.params.count; i++) {
      const struct param *p = muon.model.params.list[i];
      if (p->kind != PARAM_MATRIX) continue;
      const long n = p->value.rows * p->value.cols;
      real *x = copy_of(&kl, direction_of(param(&kl, p->name))), *y = copy_of(&muon, direction_of(p));
      double dot = 0;
      for (long j = 0; j < n; j++) dot += (double)x[j] * (double)y[j];
      dot /= length_of(x, n) * length_of(y, n);
      ck_assert_msg(fixed ? dot < 0.99 : dot > 0.999, "%s: cosine %.7f", p->name, dot);
      memory_free(x), memory_free(y);
    }
    close_bench(&muon), close_bench(&kl);
  }
}
END_TEST

/* The eigenvalues are the diagonals of the preconditioners in their bases, as long as these stay: from the second step
   on they are the bases of L and R themselves. Gradients of any size have the same updates. */
START_TEST(klshampoo_eigenvalues)
{
  static const char *const of[] = {"klshampoo.l.blocks.0.attn.w_q", "klshampoo.r.blocks.0.attn.w_q"};
  static const char *const basis[] = {"klshampoo.ql.blocks.0.attn.w_q", "klshampoo.qr.blocks.0.attn.w_q"};
  static const char *const values[] = {"klshampoo.vl.blocks.0.attn.w_q", "klshampoo.vr.blocks.0.attn.w_q"};
  struct bench b, large;
  open_bench_on(kinds[_i], &b, "klshampoo", "klshampoo.every=100 klshampoo.eps=1e-20", 2);
  open_bench_on(kinds[_i], &large, "klshampoo", "klshampoo.every=100 klshampoo.eps=1e-20", 2);
  for (int step = 0; step < 6; step++) {
    draw(&b, &b.model.params.grads, (uint64_t)step, 0.1);
    draw(&large, &large.model.params.grads, (uint64_t)step, 25.6); /* 0.1 times 4^4 */
    update_values(&b, step), update_values(&large, step);
  }
  ck_assert_double_lt(apart(&large, &b, "blocks.0.attn.w_q"), 1e-5);
  for (int k = 0; k < 2; k++) {
    long n, cols;
    real *s = state_of(&b, of[k], &n, &cols), *q = state_of(&b, basis[k], &n, &cols);
    ck_assert_double_lt(far_from_orthonormal(q, n), 1e-5);
    real *value = state_of(&b, values[k], &n, &cols);
    ck_assert(cols == 1 && n == (k ? 32 : 48));
    for (long i = 0; i < n; i++) {
      double sum = 0;
      for (long r = 0; r < n; r++)
        for (long c = 0; c < n; c++)
          sum += (double)q[r * n + i] * (double)s[r * n + c] * (double)q[c * n + i];
      ck_assert_double_eq_tol(sum, (double)value[i], 1e-4 * sum);
    }
    memory_free(s), memory_free(q), memory_free(value);
  }
  close_bench(&b), close_bench(&large);
}
END_TEST

/* Steps without a gradient change nothing: an expert without tokens at first begins with those that it gets. Only the
   correction of the mean counts all steps. */
START_TEST(klshampoo_begins_with_the_first_gradient)
{
  enum { LATE = 2, STEPS = 4 };
  static const char *const name = "blocks.0.attn.w_q";
  struct bench now, late;
  open_bench_on(kinds[_i], &now, "klshampoo", "klshampoo.every=1", 2);
  open_bench_on(kinds[_i], &late, "klshampoo", "klshampoo.every=1", 2);
  for (int step = 0; step < LATE; step++) {
    draw(&late, &late.model.params.grads, 0, 0);
    update_values(&late, step);
    ck_assert(rms_of(&late, direction_of(param(&late, name))) == 0);
  }
  for (int step = 0; step < STEPS; step++) {
    draw(&now, &now.model.params.grads, (uint64_t)step, 0.1);
    draw(&late, &late.model.params.grads, (uint64_t)step, 0.1);
    update_values(&now, step), update_values(&late, step + LATE);
  }
  const struct tensor *d = direction_of(param(&now, name));
  const double ratio = (1 - pow(0.95, STEPS)) / (1 - pow(0.95, STEPS + LATE));
  real *x = copy_of(&late, direction_of(param(&late, name))), *y = copy_of(&now, d);
  for (long j = 0; j < d->rows * d->cols; j++)
    ck_assert_double_eq_tol((double)x[j], ratio * (double)y[j], 1e-4 * rms_of(&now, d));
  memory_free(x), memory_free(y);
  close_bench(&now), close_bench(&late);
}
END_TEST

/* --- compositional ----------------------------------------------------------------------------------------- */
/* Heads whose rows are c times orthonormal ones: C is a number, so queries and keys have Muon's update by head over
   twice that number, keys also over the two query heads that share each. */
START_TEST(compositional_of_orthogonal_heads_is_muon)
{
  const double c = 0.7, damping = 0.3;
  struct bench muon, both;
  some_steps(kinds[_i], &muon, "muon", "muon.per_head=qk", 2);
  open_bench_on(kinds[_i], &both, "compositional", "compositional.damping=0.3", 2);
  for (int k = 0; k < 2; k++) {
    struct tensor *w = &param(&both, k ? "blocks.0.attn.w_k" : "blocks.0.attn.w_q")->value;
    real *host = memory_new(1, bytes_of(w));
    for (long i = 0; i < w->rows; i++) host[i * w->cols + (i + 7 * (i / 12)) % 32] = (real)c;
    put(both.device, w, host);
    memory_free(host);
  }
  for (int step = 0; step < 2; step++) {
    draw(&both, &both.model.params.grads, (uint64_t)step, 0.1);
    update_values(&both, step);
  }
  for (int i = 0; i < muon.model.params.count; i++) {
    const struct param *p = muon.model.params.list[i];
    if (p->kind != PARAM_MATRIX || (p->head_rows && p->layer && !strstr(p->name, "w_v"))) continue;
    const double is = !strcmp(p->name, "blocks.0.attn.w_q")   ? 2 * sqrt(c * c + damping)
                      : !strcmp(p->name, "blocks.0.attn.w_k") ? 4 * sqrt(2 * c * c + damping)
                                                              : 1;
    const struct tensor *d = direction_of(p);
    real *x = copy_of(&both, direction_of(param(&both, p->name))), *y = copy_of(&muon, d);
    for (long j = 0; j < d->rows * d->cols; j++)
      ck_assert_double_eq_tol(is * (double)x[j], (double)y[j], 1e-4 * rms_of(&muon, d));
    memory_free(x), memory_free(y);
  }
  close_bench(&muon), close_bench(&both);
}
END_TEST

/* The decomposition of [x^T y_1 | x^T y_2 ...] for x and y_k [rows, n]. */
static void product_spectrum(const real *x, const real *const *y, int count, long rows, long n, struct svd *s)
{
  real *product = memory_new((size_t)(count * n * n), sizeof *product); /* [n, count n] */
  for (int k = 0; k < count; k++)
    for (long i = 0; i < n; i++)
      for (long j = 0; j < n; j++) {
        double sum = 0;
        for (long r = 0; r < rows; r++) sum += (double)x[r * n + i] * (double)y[k][r * n + j];
        product[(i * count + k) * n + j] = (real)sum;
      }
  ck_assert(!svd_of_host(s, product, n, count * n));
  memory_free(product);
}

/* Sum of the singular values of C^-1 g for C^2 = w w^T and w, g [rows, n]: with w = U S V^T, those of S^-1 U^T g. */
static double whitened_nuclear_norm(const real *w, const real *g, long rows, long n)
{
  struct svd s, whitened;
  real *x = memory_new((size_t)(rows * n), sizeof *x);
  double sum = 0;
  ck_assert(!svd_of_host(&s, w, rows, n));
  for (long k = 0; k < rows; k++)
    for (long j = 0; j < n; j++) {
      double along = 0;
      for (long r = 0; r < rows; r++) along += s.u[r * s.n + k] * (double)g[r * n + j];
      x[k * n + j] = (real)(along / s.sigma[k]);
    }
  ck_assert(!svd_of_host(&whitened, x, rows, n));
  for (long k = 0; k < whitened.n; k++) sum += whitened.sigma[k];
  memory_free(x);
  svd_free(&s), svd_free(&whitened);
  return sum;
}

/* The step of the product, dW_q^T W_k, has equal singular values, c/2, whatever the weights, and so has dW_k^T W_q of
   the query heads that share the key, c/4. Of all steps with a product of that size it is the steepest: its product
   with the gradient is the dual norm. Muon's step by head has no such product. */
START_TEST(compositional_is_steepest_for_the_product)
{
  static const char *const settings[] = {"compositional.coefficients=svd compositional.damping=1e-6",
                                         "muon.coefficients=svd muon.per_head=qk"};
  enum { HEAD = 12, N = 32 };
  const double c = 0.2 * sqrt((double)N);
  for (int as_muon = 0; as_muon < 2; as_muon++) {
    struct bench b;
    some_steps(kinds[_i], &b, as_muon ? "muon" : "compositional", settings[as_muon], 1);
    const struct param *q = param(&b, "blocks.1.attn.w_q"), *k = param(&b, "blocks.1.attn.w_k");
    real *grad = copy_of(&b, &q->grad), *dq = copy_of(&b, &q->update), *dk = copy_of(&b, &k->update),
         *w_q = copy_of(&b, &q->value), *w_k = copy_of(&b, &k->value);
    for (int h = 0; h < 6; h++) { /* four query heads, then two keys */
      const int g = h < 4 ? h / 2 : h - 4;
      const real *queries[] = {w_q + 2 * g * HEAD * N, w_q + (2 * g + 1) * HEAD * N},
                 *keys[] = {w_k + g * HEAD * N};
      struct svd s;
      product_spectrum(h < 4 ? dq + h * HEAD * N : dk + g * HEAD * N, h < 4 ? keys : queries, h < 4 ? 1 : 2,
                       HEAD, N, &s);
      const double flat = s.sigma[HEAD - 1] / s.sigma[0], size = s.sigma[0] / (h < 4 ? c / 2 : c / 4);
      ck_assert_msg(as_muon ? flat < 0.8 : flat > 0.998 && fabs(size - 1) < 2e-3, "%d: %g, %g", h, flat,
                    size);
      svd_free(&s);
      if (h >= 4) continue;
      double descent = 0, most = c / 2 * whitened_nuclear_norm(keys[0], grad + h * HEAD * N, HEAD, N);
      for (long j = h * HEAD * N; j < (h + 1) * HEAD * N; j++) descent += (double)dq[j] * (double)grad[j];
      ck_assert_msg(as_muon || fabs(descent / most - 1) < 2e-3, "%g of %g", descent, most);
    }
    memory_free(grad), memory_free(dq), memory_free(dk), memory_free(w_q), memory_free(w_k);
    close_bench(&b);
  }
}
END_TEST

/* --- scion ------------------------------------------------------------------------------------------------- */
/* On hidden matrices it is Muon, on embedding and head Signum, both with other scales; gains have one RMS. */
START_TEST(scion_is_muon_and_signum)
{
  struct bench scion, muon, signum;
  some_steps(kinds[_i], &scion, "scion", "scion.momentum=0.8 scion.radius=0.5 scion.radius_gain=0.3", 3);
  some_steps(kinds[_i], &muon, "muon", "muon.momentum=0.8 muon.nesterov=0 muon.scale=mup", 3);
  some_steps(kinds[_i], &signum, "signum", "signum.momentum=0.8", 3);
  int seen[PARAM_STATE] = {0};
  for (int i = 0; i < scion.model.params.count; i++) {
    const struct param *p = scion.model.params.list[i];
    const int is_matrix = p->kind == PARAM_MATRIX, is_gain = p->kind == PARAM_GAIN;
    struct bench *other = is_matrix ? &muon : &signum;
    const double scale = is_matrix ? 0.5 : 60. / (double)p->value.cols;
    seen[p->kind]++;
    real *x = copy_of(&scion, direction_of(p)), *y = copy_of(other, direction_of(param(other, p->name)));
    for (long j = 0; j < p->value.rows * p->value.cols && !is_gain; j++)
      ck_assert_double_eq_tol((double)x[j], scale * (double)y[j], 1e-5 * scale);
    if (is_gain) ck_assert_double_eq_tol(rms_of(&scion, direction_of(p)), 0.3, 1e-6);
    memory_free(x), memory_free(y);
  }
  ck_assert(seen[PARAM_MATRIX] && seen[PARAM_EMBED] && seen[PARAM_HEAD] && seen[PARAM_GAIN]);
  close_bench(&scion), close_bench(&muon), close_bench(&signum);
}
END_TEST

/* With weight decay, weights tend to the point of the ball that a constant gradient points away from. Its radius is
   that of the step over the decay. */
START_TEST(scion_stays_in_its_ball)
{
  const struct update_rule decays = {.weight_decay = 0.5, .seed = 3};
  struct error e = {0};
  struct bench b;
  ck_assert(!try_open_on(kinds[_i], &b, "scion", "scion.coefficients=svd scion.radius=0.4", 2, &no_override,
                         &decays, NULL, &e));
  for (int step = 0; step < 30; step++) {
    draw(&b, &b.model.params.grads, 0, 0.1);
    one_step(&b, step, 1, 1);
  }
  for (int i = 0; i < b.model.params.count; i++) {
    const struct param *p = b.model.params.list[i];
    if (p->kind != PARAM_MATRIX) continue;
    struct svd s;
    ck_assert(!svd_of(&s, b.device, &p->value));
    const double radius = 0.4 / 0.5 * sqrt((double)p->value.rows / (double)p->value.cols);
    ck_assert_double_eq_tol(s.sigma[0], radius, 1e-4);
    ck_assert_double_eq_tol(s.sigma[s.n - 1], radius, 1e-4);
    svd_free(&s);
  }
  close_bench(&b);
}
END_TEST

/* --- dion -------------------------------------------------------------------------------------------------- */
/* P has orthonormal columns and Q columns of length 1: the update has rank r and the Frobenius norm sqrt(r m/n). At
   full rank P P^T B = B for a matrix that is not tall, so the momentum keeps its share: M <- momentum (M + G). At a low
   rank it keeps all of what the update does not take. */
START_TEST(dion_updates_and_momenta)
{
  for (int full = 0; full < 2; full++) {
    struct bench b;
    open_bench_on(kinds[_i], &b, "dion",
                  full ? "dion.momentum=0.6 dion.rank=1" : "dion.momentum=0.6 dion.rank=0.3", 2);
    long rows, cols;
    real *before = state_of(&b, "dion.m.blocks.0.ffn.w_down", &rows, &cols);
    for (int step = 0; step < 3; step++) {
      memory_free(before);
      before = state_of(&b, "dion.m.blocks.0.ffn.w_down", &rows, &cols);
      draw(&b, &b.model.params.grads, (uint64_t)step, 0.1);
      update_values(&b, step);
    }
    const struct param *p = param(&b, "blocks.0.ffn.w_down");
    const long n = rows * cols, rank = full ? rows : 10;
    ck_assert(rows == 32 && cols > rows);
    struct svd s;
    real *g = copy_of(&b, &p->grad), *m = state_of(&b, "dion.m.blocks.0.ffn.w_down", &rows, &cols);
    ck_assert(!svd_of(&s, b.device, direction_of(p)));
    double squares = 0, taken = 0, largest = 0;
    for (long k = 0; k < s.n; k++) squares += s.sigma[k] * s.sigma[k];
    ck_assert_double_eq_tol(squares, (double)(rank * rows) / (double)cols, 1e-4);
    ck_assert(full || s.sigma[rank] < 1e-5);
    for (long j = 0; j < n; j++) {
      const double sum = (double)before[j] + (double)g[j];
      if (full) ck_assert_double_eq_tol((double)m[j], 0.6 * sum, 1e-5);
      taken = fmax(taken, fabs(sum - (double)m[j]));
      g[j] = (real)sum, m[j] = (real)(sum - (double)m[j]);
    }
    svd_free(&s);
    ck_assert(!svd_of_host(&s, m, rows, cols)); /* (1 - momentum) P P^T B */
    for (long k = 0; k < s.n; k++) largest = fmax(largest, k < rank ? 0 : s.sigma[k]);
    ck_assert(taken > 0.01 && largest < 1e-5);
    for (long i = 0; i < rows; i++)
      for (long k = 0; k < rank; k++) { /* its columns are those of B, along P */
        double along = 0, of_b = 0;
        for (long r = 0; r < rows; r++) {
          along += s.u[r * s.n + k] * (double)m[r * cols + i];
          of_b += s.u[r * s.n + k] * (double)g[r * cols + i];
        }
        ck_assert_double_eq_tol(along, 0.4 * of_b, 1e-5);
      }
    svd_free(&s);
    memory_free(before), memory_free(g), memory_free(m);
    close_bench(&b);
  }
}
END_TEST

/* A constant gradient of low rank with singular values 2^-k: the power method finds its vectors, and the update is
   Muon's with scale sqrt(out/in). */
START_TEST(dion_of_a_constant_gradient_is_muon)
{
  struct bench b;
  open_bench_on(kinds[_i], &b, "dion", "dion.rank=0.15", 2);
  for (int i = 0; i < b.model.params.count; i++) {
    const struct param *p = b.model.params.list[i];
    if (p->kind != PARAM_MATRIX) continue;
    const long rows = p->value.rows, cols = p->value.cols;
    struct svd s;
    ck_assert(!svd_of(&s, b.device, &p->value));
    for (long k = 0; k < s.n; k++) s.sigma[k] = k < 4 ? 1 / (double)(1 << k) : 0;
    struct tensor g = p->grad;
    svd_compose(&s, b.device, &g);
    svd_free(&s);
    ck_assert(rows >= 24 && cols >= 32); /* so that the rank is 4 or 5 */
  }
  for (int step = 0; step < 30; step++) update_values(&b, step);
  for (int i = 0; i < b.model.params.count; i++) {
    const struct param *p = b.model.params.list[i];
    if (p->kind != PARAM_MATRIX) continue;
    const long rows = p->value.rows, cols = p->value.cols;
    struct svd s;
    real *x = copy_of(&b, direction_of(p)), *y = memory_new(1, bytes_of(&p->value));
    ck_assert(!svd_of(&s, b.device, &p->grad));
    for (long k = 0; k < s.n; k++) s.sigma[k] = k < 4 ? sqrt((double)rows / (double)cols) : 0;
    svd_product(s.u, s.sigma, s.v, rows, cols, y, cols);
    double dot = 0;
    for (long j = 0; j < rows * cols; j++) dot += (double)x[j] * (double)y[j];
    ck_assert_double_eq_tol(dot / (4 * (double)rows / (double)cols), 1, 1e-3);
    svd_free(&s);
    memory_free(x), memory_free(y);
  }
  close_bench(&b);
}
END_TEST

/* --- counterfactuals -------------------------------------------------------------------------------------- */
static void spectra(struct bench *b, const char *name, struct svd *s)
{
  ck_assert(!svd_of(s, b->device, direction_of(param(b, name))));
}

/* Steps 0 and `second`, with the same gradients whatever that number is. */
static void steps_at(const char *kind, struct bench *b, const char *optimizer, const char *settings,
                     long second)
{
  open_bench_on(kind, b, optimizer, settings, 2);
  for (long step = 0; step < 2; step++) {
    draw(b, &b->model.params.grads, (uint64_t)step, 0.3);
    update_values(b, step ? second : 0);
  }
}

static void two_steps(const char *kind, struct bench *b, const char *optimizer, const char *settings)
{
  steps_at(kind, b, optimizer, settings, 1);
}

static void same_directions(struct bench *a, struct bench *b, const char *name, double tolerance)
{
  const struct tensor *t = direction_of(param(a, name));
  real *x = copy_of(a, t), *y = copy_of(b, direction_of(param(b, name)));
  for (long j = 0; j < t->rows * t->cols; j++) ck_assert_double_eq_tol(x[j], y[j], tolerance);
  memory_free(x), memory_free(y);
}

static const char *const spliced_names[] = {"blocks.0.attn.w_q", "blocks.1.attn.w_v", "blocks.0.ffn.w_down"};

/* The pure cases are the optimizers themselves; the mixed ones have one's vectors and the other's values. */
START_TEST(spliced)
{
  struct bench muon, adam, both_muon, both_adam, mixed, reverse;
  two_steps(kinds[_i], &muon, "muon", "muon.coefficients=svd");
  two_steps(kinds[_i], &adam, "adam", "");
  two_steps(kinds[_i], &both_muon, "spliced", "spliced.vectors=muon spliced.spectrum=muon spliced.rms=0");
  two_steps(kinds[_i], &both_adam, "spliced", "spliced.vectors=adam spliced.spectrum=adam spliced.rms=0");
  two_steps(kinds[_i], &mixed, "spliced", "spliced.vectors=muon spliced.spectrum=adam spliced.rms=0");
  two_steps(kinds[_i], &reverse, "spliced", "spliced.vectors=adam spliced.spectrum=muon spliced.rms=0");
  for (int i = 0; i < 3; i++) {
    const char *name = spliced_names[i];
    same_directions(&both_muon, &muon, name, 1e-5);
    same_directions(&both_adam, &adam, name, 1e-5);
    struct svd a, m, r;
    spectra(&adam, name, &a), spectra(&mixed, name, &m), spectra(&reverse, name, &r);
    double flat = 0.2 * sqrt(fmax((double)a.rows, (double)a.cols));
    for (long k = 0; k < a.n; k++) {
      ck_assert_double_eq_tol(m.sigma[k], a.sigma[k], 1e-5 * a.sigma[0]);
      ck_assert_double_eq_tol(r.sigma[k], flat, 1e-5 * flat);
      m.sigma[k] = flat; /* then mixed is muon's polar factor ... */
    }
    struct tensor polar = tensor_of(memory_new((size_t)(a.rows * a.cols), sizeof(real)), a.rows, a.cols);
    struct device *host;
    ck_assert(!device_open(&host, "cpu", 1, NULL));
    svd_compose(&m, host, &polar);
    real *expected = copy_of(&muon, direction_of(param(&muon, name)));
    for (long j = 0; j < a.rows * a.cols; j++) ck_assert_double_eq_tol(REALS(&polar)[j], expected[j], 1e-3);
    for (long k = 0; k < a.n; k++) a.sigma[k] = flat; /* ... and reverse is adam's */
    svd_compose(&a, host, &polar);
    memory_free(expected);
    expected = copy_of(&reverse, direction_of(param(&reverse, name)));
    for (long j = 0; j < a.rows * a.cols; j++) ck_assert_double_eq_tol(REALS(&polar)[j], expected[j], 1e-3);
    memory_free(polar.data), memory_free(expected);
    device_close(host);
    svd_free(&a), svd_free(&m), svd_free(&r);
  }
  struct bench *all[] = {&muon, &adam, &both_muon, &both_adam, &mixed, &reverse};
  for (int i = 0; i < 6; i++) close_bench(all[i]);
}
END_TEST

/* Of a gradient of zeros nothing is made, nor NaN, whatever the RMS that is asked for. */
START_TEST(spliced_of_nothing)
{
  struct bench b;
  open_bench_on(kinds[_i], &b, "spliced", "spliced.vectors=muon spliced.spectrum=adam spliced.rms=0.2", 1);
  draw(&b, &b.model.params.grads, 0, 0);
  update_values(&b, 0);
  const struct tensor *d = direction_of(param(&b, spliced_names[0]));
  real *x = copy_of(&b, d);
  for (long j = 0; j < d->rows * d->cols; j++) ck_assert(x[j] == 0);
  memory_free(x);
  close_bench(&b);
}
END_TEST

/* Random orientation: the spectrum and the RMS stay, the vectors are new at every step and the same in a rerun. */
static double cosine(const real *a, const real *b, long n)
{
  double ab = 0, aa = 0, bb = 0;
  for (long i = 0; i < n; i++) {
    ab += (double)a[i] * (double)b[i];
    aa += (double)a[i] * (double)a[i];
    bb += (double)b[i] * (double)b[i];
  }
  return ab / sqrt(aa * bb);
}

/* Where the gradient has no rank left the flat spectrum has none: one row alone moves. */
/* Vectors by chance are a matrix's own, also where the matrices between them are another optimizer's. */
START_TEST(spliced_by_chance)
{
  static const struct override_options between = {"ffn.*:adam", "", "", MATCH_LR, 0};
  struct bench b, whole;
  struct error e = {0};
  const char *settings = "spliced.vectors=random spliced.spectrum=muon";
  ck_assert_msg(!try_open_on(kinds[_i], &b, "spliced", settings, 1, &between, &standard_rule, NULL, &e), "%s",
                e.text);
  open_bench_on(kinds[_i], &whole, "spliced", settings, 1);
  struct bench *both[] = {&b, &whole};
  for (int k = 0; k < 2; k++) {
    draw(both[k], &both[k]->model.params.grads, 1, 1);
    update_values(both[k], 0);
  }
  real *first = copy_of(&b, direction_of(params_find(&b.model.params, "blocks.0.attn.w_q")));
  real *second = copy_of(&b, direction_of(params_find(&b.model.params, "blocks.1.attn.w_q")));
  const struct tensor *same = direction_of(params_find(&whole.model.params, "blocks.1.attn.w_q"));
  real *unsplit = copy_of(&whole, same);
  double product = 0, squares = 0;
  for (long i = 0; i < same->rows * same->cols; i++) {
    product += (double)first[i] * (double)second[i];
    squares += (double)first[i] * (double)first[i];
  }
  ck_assert_double_lt(fabs(product), .3 * squares);
  ck_assert_mem_eq(second, unsplit, bytes_of(same));
  memory_free(first), memory_free(second), memory_free(unsplit);
  close_bench(&b);
  close_bench(&whole);
}
END_TEST

/* U S^p V^T: p = 0 is the flat spectrum to the bit, p = 1 the momentum itself, of one RMS; in between, and where p
   changes with the steps, values go as the powers of those of p = 1. */
START_TEST(spliced_to_a_power)
{
#define POWER "spliced.vectors=muon spliced.spectrum=power "
  struct bench flat, zero, momentum, one, half, falling, fallen;
  two_steps(kinds[_i], &flat, "spliced", "spliced.vectors=muon spliced.spectrum=muon");
  two_steps(kinds[_i], &zero, "spliced", POWER);
  two_steps(kinds[_i], &momentum, "muon", "muon.coefficients=none");
  two_steps(kinds[_i], &one, "spliced", POWER "spliced.power=1");
  two_steps(kinds[_i], &half, "spliced", POWER "spliced.power=-0.5");
  /* at step 1: half of the way from 1.5 to -2.5; at step 3: beyond the end */
  two_steps(kinds[_i], &falling, "spliced",
            POWER "spliced.power=1.5 spliced.power_end=-2.5 spliced.power_steps=2");
  steps_at(kinds[_i], &fallen, "spliced",
           POWER "spliced.power=1 spliced.power_end=-0.5 spliced.power_steps=1", 3);
  for (int i = 0; i < 3; i++) {
    const char *name = spliced_names[i];
    struct svd all, root;
    same_directions(&zero, &flat, name, 1e-30);
    same_directions(&one, &momentum, name, 1e-5);
    same_directions(&fallen, &half, name, 1e-30);
    spectra(&one, name, &all), spectra(&half, name, &root);
    long n = all.n;
    for (long k = 1; k < n; k++) /* the smallest comes first */
      ck_assert_double_eq_tol(root.sigma[k] / root.sigma[0], sqrt(all.sigma[n - 1] / all.sigma[n - 1 - k]),
                              1e-3);
    svd_free(&root);
    spectra(&falling, name, &root);
    for (long k = 1; k < n; k++)
      ck_assert_double_eq_tol(root.sigma[k] / root.sigma[0], sqrt(all.sigma[n - 1] / all.sigma[n - 1 - k]),
                              1e-3);
    svd_free(&all), svd_free(&root);
  }
  struct bench *every[] = {&flat, &zero, &momentum, &one, &half, &falling, &fallen};
  for (int i = 0; i < 7; i++) close_bench(every[i]);
}
END_TEST

START_TEST(spliced_of_low_rank)
{
  struct bench b;
  open_bench_on(kinds[_i], &b, "spliced", "spliced.vectors=muon spliced.spectrum=muon spliced.rms=0", 1);
  struct param *p = param(&b, "blocks.0.ffn.w_up");
  for (long j = 0; j < p->grad.cols; j++) put_one(&b, &p->grad, 3 * p->grad.ld + j, (double)(j + 1));
  update_values(&b, 0);
  const struct tensor *d = direction_of(p);
  real *x = copy_of(&b, d);
  double row = 0, all = 0;
  for (long i = 0; i < d->rows; i++)
    for (long j = 0; j < d->cols; j++) {
      double square = pow((double)x[i * d->cols + j], 2);
      row += i == 3 ? square : 0;
      all += square;
    }
  ck_assert_double_eq_tol(sqrt(row), 0.2 * sqrt(fmax((double)d->rows, (double)d->cols)), 1e-5);
  ck_assert_double_eq_tol(all, row, 1e-9);
  memory_free(x);
  close_bench(&b);
}
END_TEST

START_TEST(spliced_at_random)
{
  struct bench adam, one, two;
  two_steps(kinds[_i], &adam, "adam", "");
  two_steps(kinds[_i], &one, "spliced", "spliced.vectors=random");
  two_steps(kinds[_i], &two, "spliced", "spliced.vectors=random");
  for (int i = 0; i < 3; i++) {
    struct svd a, r;
    same_directions(&one, &two, spliced_names[i], 1e-30);
    const struct tensor *d = direction_of(param(&one, spliced_names[i]));
    ck_assert_double_eq_tol(rms_of(&one, d), 0.2, 1e-5);
    spectra(&adam, spliced_names[i], &a), spectra(&one, spliced_names[i], &r);
    for (long k = 1; k < a.n; k++)
      ck_assert_double_eq_tol(r.sigma[k] / r.sigma[0], a.sigma[k] / a.sigma[0], 1e-5);
    svd_free(&a), svd_free(&r);
  }
  const struct tensor *d = direction_of(param(&one, "blocks.0.attn.w_q"));
  real *before = copy_of(&one, d);
  real *other = copy_of(&one, direction_of(param(&one, "blocks.1.attn.w_q")));
  long size = d->rows * d->cols;
  ck_assert_double_lt(fabs(cosine(before, other, size)), 0.2); /* about 1/sqrt(1536) where independent */
  update_values(&one, 2);
  real *now = copy_of(&one, d);
  ck_assert_double_lt(fabs(cosine(before, now, size)), 0.2);
  memory_free(before), memory_free(other), memory_free(now);
  close_bench(&adam), close_bench(&one), close_bench(&two);
}
END_TEST

START_TEST(matched)
{
  for (int i = 0; optimizers[i]; i++)
    for (int match = MATCH_UPDATE_RMS; match <= MATCH_UPDATE_SPECTRAL_NORM && moves(optimizers[i]); match++) {
      struct bench b, plain;
      struct error e = {0};
      struct override_options o = {"", "", "", match, 0.3};
      ck_assert(!try_open_on(kinds[_i], &b, optimizers[i]->name, "", 2, &o, &standard_rule, NULL, &e));
      open_bench_on(kinds[_i], &plain, optimizers[i]->name, "", 2);
      draw(&b, &b.model.params.grads, 0, 0.1);
      draw(&plain, &plain.model.params.grads, 0, 0.1);
      update_values(&b, 0);
      update_values(&plain, 0);
      for (int k = 0; k < b.model.params.count; k++) {
        const struct tensor *d = direction_of(b.model.params.list[k]);
        if (b.model.params.list[k]->kind != PARAM_MATRIX) { /* left as it is */
          const struct tensor *p = direction_of(plain.model.params.list[k]);
          real *x = copy_of(&b, d), *y = copy_of(&plain, p);
          ck_assert_mem_eq(x, y, bytes_of(d));
          memory_free(x), memory_free(y);
          continue;
        }
        struct svd s;
        ck_assert(!svd_of(&s, b.device, d));
        double size = match == MATCH_UPDATE_RMS ? rms_of(&b, d)
                                                : s.sigma[0] / sqrt(fmax((double)d->rows, (double)d->cols));
        ck_assert_double_eq_tol(size, 0.3, 1e-5);
        svd_free(&s);
      }
      close_bench(&b), close_bench(&plain);
    }
}
END_TEST

/* A gradient of zeros, of a head that nobody uses say, makes a direction of zeros, whatever it is to be scaled to. */
START_TEST(nothing_moves_without_a_gradient)
{
  for (int i = 0; optimizers[i]; i++)
    for (int match = MATCH_LR; match <= MATCH_UPDATE_SPECTRAL_NORM; match++) {
      struct bench b;
      struct error e = {0};
      struct override_options o = {"", "", "", match, 0.3};
      ck_assert(!try_open_on(kinds[_i], &b, optimizers[i]->name, "", 2, &o, &standard_rule, NULL, &e));
      for (long step = 0; step < 2; step++) {
        update_values(&b, step);
        for (int k = 0; k < b.model.params.count; k++) {
          const struct param *p = b.model.params.list[k];
          if (p->kind == PARAM_STATE) continue;
          real *d = copy_of(&b, direction_of(p));
          long wrong = 0;
          for (long j = 0; j < p->value.rows * p->value.cols; j++) wrong += !(d[j] == 0);
          ck_assert_msg(!wrong, "%s, match %d, step %ld, %s: %ld numbers are not 0", optimizers[i]->name,
                        match, step, p->name, wrong);
          memory_free(d);
        }
      }
      close_bench(&b);
    }
}
END_TEST

/* --- overrides, stabilizers' factors ---------------------------------------------------------------------- */
START_TEST(overrides)
{
  struct bench b;
  struct error e = {0};
  struct override_options o = {"w_[qk]:adam+blocks.1.*.w_q:sgd+head:muon", "w_q:0.5+blocks.0.attn.w_q:0.25",
                               "attn.w_k:0+norm:1", MATCH_LR, 0};
  struct update_rule rule = {.weight_decay = 0.5};
  ck_assert_msg(!try_open(&b, "muon", "", 1, &o, &rule, NULL, &e), "%s", e.text);
  static const struct {
    const char *name, *optimizer;
    double lr, decay;
  } expected[] = {
    {"blocks.0.attn.w_q", "adam", 0.25, 1},
    {"blocks.1.attn.w_q", "sgd", 0.5, 1},
    {"blocks.0.attn.w_k", "adam", 1, 0},
    {"blocks.1.attn.w_v", "muon", 1, 1},
    {"head", "muon", 1, 1},
    {"embed", "adam", 1, 1},
    {"norm", "adam", 1, 1},
    {"blocks.0.attn.norm", "adam", 1, 1},
  };
  draw(&b, &b.model.params.grads, 0, 1);
  real *start = copy_of(&b, &b.model.params.values);
  one_step(&b, 0, 0.125, 1);
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    struct param *p = param(&b, expected[i].name);
    ck_assert_msg(!strcmp(updates_optimizer_of(b.updates, p), expected[i].optimizer), "%s", expected[i].name);
    const real *update = direction_of(p)->data, *value = p->value.data;
    const real *old = start + (REALS(&p->value) - REALS(&b.model.params.values));
    double rate = 0.125 * expected[i].lr, keep = 1 - rate * 0.5 * expected[i].decay;
    for (long j = 0; j < p->value.rows * p->value.cols; j++)
      ck_assert_msg(fabs(value[j] - (old[j] * keep - rate * update[j])) <= 4 * REAL_EPS * (fabs(old[j]) + 1),
                    "%s", p->name);
  }
  memory_free(start);
  close_bench(&b);
}
END_TEST

START_TEST(bad_overrides)
{
  static const struct {
    struct override_options o;
    const char *says[3];
  } bad[] = {
    {{"", "w_qq:0.1", "", MATCH_LR, 0}, {"override.lr", "w_qq", "w_q"}},
    {{"", "w_q", "", MATCH_LR, 0}, {"override.lr", "GLOB:VALUE", "w_q"}},
    {{"", "w_q:fast", "", MATCH_LR, 0}, {"override.lr", "fast", "number"}},
    {{"", "w_q:-1", "", MATCH_LR, 0}, {"override.lr", "-1", "number"}},
    {{"", "w_q:nan", "", MATCH_LR, 0}, {"override.lr", "nan", "number"}},
    {{"", "", "bloks.0.attn.w_q:2", MATCH_LR, 0}, {"override.weight_decay", "bloks", "blocks.0.attn.w_q"}},
    {{"w_q:adan", "", "", MATCH_LR, 0}, {"override.optimizer", "adan", "adam"}},
    {{"norm:muon", "", "", MATCH_LR, 0}, {"override.optimizer", "norm", "matrices"}},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct bench b;
    struct error e = {0};
    ck_assert_int_eq(try_open(&b, "muon", "", 1, &bad[i].o, &standard_rule, NULL, &e), STATUS_USAGE);
    for (int k = 0; k < 3; k++)
      ck_assert_msg(strstr(e.text, bad[i].says[k]) != NULL, "\"%s\" is missing in: %s", bad[i].says[k],
                    e.text);
    close_bench(&b);
  }
}
END_TEST

static void freeze_second_head(struct stabilizer_context *c, struct program *p,
                               const struct update_block *block, int blocks, struct tensor *factor)
{
  (void)c;
  double *of = memory_new((size_t)blocks, sizeof *of);
  for (int i = 0; i < blocks; i++) of[i] = !(block[i].param->head_rows && block[i].row == block[i].rows);
  PROGRAM_CALL(p, multiply, .y = factor, .x = program_reals(p, 1, blocks, of, "frozen"));
  memory_free(of);
}

START_TEST(factors_by_head)
{
  static const struct stabilizer freeze = {.name = "freeze", .on_update = freeze_second_head};
  struct bench b;
  struct error e = {0};
  ck_assert_msg(!try_open_on(kinds[_i], &b, "muon", "", 1, &no_override, &standard_rule, &freeze, &e), "%s",
                e.text);
  draw(&b, &b.model.params.grads, 0, 1);
  real *start = copy_of(&b, &b.model.params.values);
  one_step(&b, 0, 0.1, 1);
  real *now = copy_of(&b, &b.model.params.values);
  for (int i = 0; i < b.model.params.count; i++) {
    const struct param *p = b.model.params.list[i];
    long at = REALS(&p->value) - REALS(&b.model.params.values);
    for (long j = 0; j < p->value.rows * p->value.cols; j++) {
      int frozen = p->head_rows && j / p->value.cols / p->head_rows == 1;
      ck_assert_msg((now[at + j] == start[at + j]) == frozen, "%s row %ld", p->name, j / p->value.cols);
    }
  }
  memory_free(start), memory_free(now);
  close_bench(&b);
}
END_TEST

/* --- the step that was not finite, the clip of gradients ---------------------------------------------------- */
static double reported(const struct bench *b, const struct tensor *t)
{
  report_read(b->model.report);
  return (double)report_of(b->model.report, t)[0];
}

static void seen_loss(struct bench *b, double loss) { put_one(b, b->model.step.loss, 0, loss); }

static void seen_maxima(struct bench *b, double largest)
{
  struct tensor *stats = b->model.step.stats;
  for (long i = 0; i < stats->rows * stats->cols; i++) put_one(b, stats, i, 1);
  put_one(b, stats, 5, largest); /* max |s| of the second head */
}

/* A loss, a logit or a gradient that is not finite: from then on nothing changes, whatever comes. Without `stops`
   the step goes on. */
START_TEST(a_step_that_is_not_finite_is_the_last)
{
  for (int where = 0; where < 3; where++)
    for (int stops = 0; stops < 2; stops++) {
      struct bench b;
      struct error e = {0};
      struct update_rule rule = {.stops = stops, .grad_clip = 1};
      ck_assert(!try_open_on(kinds[_i / 2], &b, "muon", "", 2, &no_override, &rule, NULL, &e));
      seen_loss(&b, 3);
      seen_maxima(&b, 1e30);
      draw(&b, &b.model.params.grads, 0, 1);
      real *start = copy_of(&b, &b.model.params.values);
      one_step(&b, 0, 0.1, 1);
      ck_assert(reported(&b, updates_finite(b.updates)) == 1);
      real *first = copy_of(&b, &b.model.params.values);
      ck_assert(memcmp(start, first, bytes_of(&b.model.params.values)));
      int count = updates_states(b.updates);
      char name[160];
      real **state = memory_new((size_t)count, sizeof *state);
      for (int k = 0; k < count; k++) state[k] = copy_of(&b, updates_state(b.updates, k, name, sizeof name));
      double value = _i % 2 ? INFINITY : NAN;
      if (where == 0) seen_loss(&b, value);
      if (where == 1) seen_maxima(&b, value);
      if (where == 2) put_one(&b, &param(&b, "norm")->grad, 0, value);
      one_step(&b, 1, 0.1, 1);
      ck_assert(reported(&b, updates_finite(b.updates)) == !stops);
      for (int good = 0; stops && good < 2; good++) { /* it, and a good one after it */
        ck_same_values(&b, first, "stopped");
        for (int k = 0; k < count; k++) {
          const struct tensor *t = updates_state(b.updates, k, name, sizeof name);
          real *now = copy_of(&b, t);
          ck_assert_msg(!memcmp(now, state[k], bytes_of(t)), "%s", name);
          memory_free(now);
        }
        seen_loss(&b, 3);
        seen_maxima(&b, 1);
        draw(&b, &b.model.params.grads, 2, 1);
        one_step(&b, 2, 0.1, 1);
        ck_assert(reported(&b, updates_finite(b.updates)) == 0);
      }
      if (!stops) {
        real *now = copy_of(&b, &b.model.params.values);
        ck_assert(memcmp(now, first, bytes_of(&b.model.params.values)));
        memory_free(now);
      }
      for (int k = 0; k < count; k++) memory_free(state[k]);
      memory_free(state), memory_free(start), memory_free(first);
      close_bench(&b);
    }
}
END_TEST

/* The norm that is reported is the one before the clip; what optimizers see has the length of the clip, or is
   untouched. */
START_TEST(clip_of_gradients)
{
  for (int clips = 0; clips < 2; clips++) {
    struct bench b;
    struct error e = {0};
    struct update_rule rule = {.grad_clip = clips ? 0.5 : 1e6};
    ck_assert(!try_open_on(kinds[_i], &b, "sgd", "sgd.momentum=0", 2, &no_override, &rule, NULL, &e));
    draw(&b, &b.model.params.grads, 0, 1);
    real *g = copy_of(&b, &b.model.params.grads);
    double norm = 0;
    for (long i = 0; i < b.model.params.grads.cols; i++) norm += (double)g[i] * g[i];
    norm = sqrt(norm);
    update_values(&b, 0);
    ck_assert_double_eq_tol(reported(&b, updates_grad_norm(b.updates)), norm, 1e-6 * norm);
    const struct tensor *d = direction_of(param(&b, "blocks.0.attn.w_q"));
    real *got = copy_of(&b, d);
    long at = REALS(d) - REALS(&b.model.params.update_values);
    for (long j = 0; j < d->rows * d->cols; j++) {
      double expected = clips ? g[at + j] * 0.5 / norm : (double)g[at + j];
      ck_assert(clips ? fabs(got[j] - expected) <= 8 * REAL_EPS * fabs(expected) : got[j] == g[at + j]);
    }
    memory_free(g), memory_free(got);
    close_bench(&b);
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("optimizers");
  TCase *tests = tcase_create("optimizers"), *rounded = tcase_create("rounding");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, descends, 0, KINDS);
  tcase_add_test(tests, rate_zero);
  tcase_add_loop_test(tests, decay, 0, KINDS);
  tcase_add_loop_test(tests, cautious_decay, 0, KINDS);
  tcase_add_test(tests, same_bits_on_any_threads);
  tcase_add_test(tests, no_allocation);
  tcase_add_loop_test(tests, nan_survives, 0, KINDS);
  tcase_add_test(tests, states);
  tcase_add_loop_test(tests, adam_by_hand, 0, KINDS);
  tcase_add_loop_test(tests, adam_begins_with_the_sign, 0, KINDS);
  tcase_add_loop_test(tests, sgd_by_hand, 0, KINDS);
  tcase_add_loop_test(tests, signum_is_lion_of_equal_betas, 0, KINDS);
  tcase_add_test(tests, adam_noise);
  tcase_add_test(tests, scalar_ranges);
  tcase_add_test(tests, scalar_points);
  tcase_add_test(tests, beyond_the_last_step);
  tcase_add_test(tests, against_svd);
  tcase_add_loop_test(tests, hostile_matrices, 0, 2);
  tcase_add_loop_test(tests, muon_directions, 0, KINDS);
  tcase_add_test(tests, muon_takes_the_sets_steps);
  tcase_add_test(tests, muon_resolves_steps);
  tcase_add_test(tests, muon_momentum);
  tcase_add_test(tests, muon_scales);
  tcase_add_test(tests, muon_per_head);
  tcase_add_test(tests, muon_by_expert);
  tcase_add_test(tests, muon_on_the_gram_matrix);
  tcase_add_loop_test(tests, normuon_on_equal_rows_is_muon, 0, KINDS);
  tcase_add_loop_test(tests, relatives_by_head, 0, KINDS);
  tcase_add_loop_test(tests, adamuon_begins_with_signs, 0, KINDS);
  tcase_add_loop_test(tests, namo_of_a_constant_gradient_is_muon, 0, KINDS);
  tcase_add_loop_test(tests, polargrad_is_muon_times_the_nuclear_norm, 0, KINDS);
  tcase_add_loop_test(tests, soap_in_unit_bases_is_adam, 0, KINDS);
  tcase_add_loop_test(tests, soap_bases, 0, KINDS);
  tcase_add_loop_test(tests, klshampoo_of_a_constant_gradient_is_muon, 0, KINDS);
  tcase_add_loop_test(tests, klshampoo_eigenvalues, 0, KINDS);
  tcase_add_loop_test(tests, klshampoo_begins_with_the_first_gradient, 0, KINDS);
  tcase_add_loop_test(tests, compositional_of_orthogonal_heads_is_muon, 0, KINDS);
  tcase_add_loop_test(tests, compositional_is_steepest_for_the_product, 0, KINDS);
  tcase_add_loop_test(tests, scion_is_muon_and_signum, 0, KINDS);
  tcase_add_loop_test(tests, scion_stays_in_its_ball, 0, KINDS);
  tcase_add_loop_test(tests, dion_updates_and_momenta, 0, KINDS);
  tcase_add_loop_test(tests, dion_of_a_constant_gradient_is_muon, 0, KINDS);
  tcase_add_loop_test(tests, spliced, 0, KINDS);
  tcase_add_loop_test(tests, spliced_to_a_power, 0, KINDS);
  tcase_add_loop_test(tests, spliced_at_random, 0, KINDS);
  tcase_add_loop_test(tests, spliced_of_low_rank, 0, KINDS);
  tcase_add_loop_test(tests, spliced_of_nothing, 0, KINDS);
  tcase_add_loop_test(tests, spliced_by_chance, 0, KINDS);
  tcase_add_loop_test(tests, matched, 0, KINDS);
  tcase_add_loop_test(tests, nothing_moves_without_a_gradient, 0, KINDS);
  tcase_add_test(tests, overrides);
  tcase_add_test(tests, bad_overrides);
  tcase_add_loop_test(tests, factors_by_head, 0, KINDS);
  tcase_add_loop_test(tests, a_step_that_is_not_finite_is_the_last, 0, 2 * KINDS);
  tcase_add_loop_test(tests, clip_of_gradients, 0, KINDS);
  tcase_add_loop_test(rounded, gram_is_as_exact, 0, 2);
  suite_add_tcase(suite, sizeof(real) == sizeof(float) ? tests : rounded);
  if (sizeof(real) == sizeof(float)) suite_add_tcase(suite, rounded);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
