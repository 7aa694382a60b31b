/* check_decode.c - decoding through a cache gives the logits of the training form
   Every attention variant under every stabilizer that touches a score, before and after clips, with one
   document a row and with two. The tolerance is measured: what one rounding of every weight does to the same
   logits, times the growth of sums; in double 1e-12 as well. */
#include <stdio.h>
#include "../model/model_fixture.h"
#include "numerics/number_format.h"

enum { BATCH = 3, LENGTH = 9, CUT = 4, VOCAB = 11, LONGEST = 16, HEADS = 4, LAYERS = 2 };
#define STACK "layers=2 width=12 heads=4 head_dim=4 context=9 ffn_width=16 vocab=11 "
enum { LOGITS = BATCH * LENGTH * VOCAB };

static const struct {
  const char *attention, *settings;
} models[] = {
  {"mha", STACK "attention=mha bias=1"},
  {"gqa", STACK "attention=gqa kv_heads=2 bias=1"},
  {"mla", STACK "attention=mla q_rank=10 kv_rank=8 rope_dim=4 value_dim=6"},
  {"mla", STACK "attention=mla kv_rank=16 rope_dim=2 value_dim=3 norm_eps=0.1"},
  {"mha", STACK "attention=mha ffn=moe moe.experts=5 moe.groups=5 moe.groups_kept=2"},
  {"gqa", STACK "attention=gqa kv_heads=2 mask=window window=3 window_every=2"},
  {"mla", STACK "attention=mla q_rank=10 kv_rank=8 rope_dim=4 mask=window window=2"},
};
enum { MODELS = sizeof models / sizeof *models };

static const char *const stacks[] = {
  "",
  "qk_clip tau=0.3",
  "qk_norm",
  "qk_norm kind=rms_full",
  "qk_norm kind=l2",
  "qk_norm_partial",
  "k_norm",
  "soft_cap cap=0.5",
  "hard_cap cap=0.5",
  "sigma_reparam",
  "learned_sink start=0.7; output_gate; ssmax",
  "sigmoid; soft_cap cap=0.5",
  "softpick; output_gate by=head",
  "pointwise; output_gate by=head; soft_cap cap=0.5",
  "qk_norm; soft_cap cap=0.5; sigma_reparam",
};
enum { STACKS = sizeof stacks / sizeof *stacks };

/* One model with its training form and a decoder. */
struct pair {
  struct fixture *f;
  struct model_program whole, decoder;
  double expected[LOGITS], got[LOGITS];
};

static void run_whole(struct pair *p, double *out)
{
  program_run(p->whole.program);
  for (long i = 0; i < LOGITS; i++) out[i] = REALS(p->whole.logits)[i];
}

/* Positions from c on, each block's rows of one sequence together. */
static void feed(const struct pair *p, struct tensor *to, const struct tensor *from, long c)
{
  const long block = p->decoder.context;
  for (long i = 0; i < BATCH * block; i++)
    INTS(to)[i] = from ? INTS(from)[i / block * LENGTH + c + i % block] : (int)(c + i % block);
}

/* The last block is as long as the others: it begins where it has to. */
static void run_decoder(struct pair *p)
{
  struct model_program *w = &p->whole, *d = &p->decoder;
  const long block = d->context;
  for (long t = 0; t < LENGTH; t += block) {
    const long c = t + block < LENGTH ? t : LENGTH - block;
    feed(p, d->tokens, w->tokens, c);
    feed(p, d->targets, w->targets, c);
    feed(p, d->position, w->position, c);
    feed(p, d->start, w->start, c);
    if (d->window) feed(p, d->window, w->window, c);
    feed(p, d->slot, NULL, c);
    program_run(d->program);
    for (long i = 0; i < BATCH * block * VOCAB; i++)
      p->got[((i / VOCAB / block) * LENGTH + c + i / VOCAB % block) * VOCAB + i % VOCAB] =
        REALS(d->logits)[i];
  }
}

static double largest(const double *a, const double *b)
{
  double most = 0;
  for (long i = 0; i < LOGITS; i++) {
    double off = fabs(a[i] - b[i]);
    if (!(off <= most)) most = off;
    if (isnan(off)) return off;
  }
  return most;
}

/* Sums of up to LONGEST terms, each off by roundings; `off` is the result with weights off by `relative`. */
static double tolerance(struct pair *p)
{
  double off[LOGITS], relative = sqrt(REAL_EPS);
  real *weights = params_perturb(&p->f->model.params, relative);
  run_whole(p, off);
  params_put_back(&p->f->model.params, weights);
  return (4 + 2 * sqrt(LONGEST)) * REAL_EPS * largest(p->expected, off) / relative;
}

static double largest_logit(const struct pair *p)
{
  double most = 0;
  for (long i = 0; i < LOGITS; i++) most = fmax(most, fabs(p->expected[i]));
  return most;
}

static void ck_same(struct pair *p, const char *what)
{
  run_whole(p, p->expected);
  run_decoder(p);
  double difference = largest(p->expected, p->got), allowed = tolerance(p), size = largest_logit(p);
  ck_assert_msg(size > 0.1 && difference <= allowed, "%s: off by %.3g, not %.3g", what, difference, allowed);
  if (REAL_EPS < 1e-12) ck_assert_msg(difference <= 1e-12 * size, "%s: off by %.3g", what, difference);
}

/* 0 where the model refuses the stack. */
static int begin(struct pair *p, int model, const char *stack, const char *device, int form, int packed,
                 long block)
{
  struct error e = {0};
  *p = (struct pair){.f = fixture_on(device, 1, models[model].settings, stack, NULL, &e)};
  if (!p->f) return 0;
  fixture_shake(p->f, 0.3);
  p->whole = fixture_program(p->f, BATCH, LENGTH, 0);
  if (packed) fixture_pack(p->f, &p->whole, CUT);
  ck_assert_msg(
    !model_decoder_init(&p->f->model, &p->decoder, BATCH, block, LENGTH, (enum decode_form)form, &e), "%s",
    e.text);
  return 1;
}

static void end(struct pair *p)
{
  model_program_free(&p->decoder);
  model_program_free(&p->whole);
  fixture_close(p->f);
}

static int last_form(int model)
{
  return attention_find(models[model].attention)->absorbs ? DECODE_ABSORBED : DECODE_MATERIALISED;
}

START_TEST(decoding_equals_training)
{
  static const char *const devices[] = {"reference", "cpu"};
  static const long blocks[] = {1, CUT, 2, LENGTH};
  int tried = 0;
  for (int model = 0; model < MODELS; model++)
    for (int form = DECODE_MATERIALISED; form <= last_form(model); form++)
      for (int k = 0; k < 4; k++) {
        struct pair p;
        char what[256];
        if (!begin(&p, model, stacks[_i], devices[k / 2], form, k % 2, blocks[k])) continue;
        snprintf(what, sizeof what, "%s, %s, form %d, %s%s, %ld at a time", models[model].settings,
                 stacks[_i], form, devices[k / 2], k % 2 ? ", packed" : "", blocks[k]);
        ck_same(&p, what);
        end(&p);
        tried++;
      }
  ck_assert_int_ge(tried, 8);
}
END_TEST

/* To the bit, also where the last block begins before the end of the one before. */
START_TEST(blocks_are_single_positions)
{
  const char *device =
    REAL_EPS < 1e-12 ? "reference" : "cpu"; /* in double the latter's products are a library's */
  for (int form = DECODE_MATERIALISED; form <= last_form(_i); form++)
    for (long block = 2; block <= LENGTH; block += 2) {
      struct pair one, some;
      ck_assert(begin(&one, _i, "qk_norm", device, form, 1, 1) &&
                begin(&some, _i, "qk_norm", device, form, 1, block));
      run_decoder(&one), run_decoder(&some);
      ck_assert(!memcmp(one.got, some.got, sizeof one.got));
      end(&one), end(&some);
    }
}
END_TEST

/* The clip of the heads above tau in the text at hand; returns how many there were. */
static int clip(struct pair *p, const char *tau)
{
  char setting[32];
  snprintf(setting, sizeof setting, "tau=%s", tau);
  fixture_assign(p->f->stack[0]->options, p->f->options[0], setting);
  real maxima[LAYERS * HEADS], absolute[LAYERS * HEADS];
  int above = 0;
  program_run(p->whole.program);
  for (int i = 0; i < LAYERS * HEADS; i++) {
    maxima[i] = (real)fixture_at(p->f, p->whole.all_stats, 4 * i);
    absolute[i] = (real)fixture_at(p->f, p->whole.all_stats, 4 * i + 1);
    above += (double)maxima[i] > strtod(tau, NULL);
  }
  fixture_seen(p->f, 0, maxima);
  fixture_seen(p->f, 1, absolute);
  fixture_run(p->f, 0, p->f->stack[0]->after_step, &(struct step_scalars){0});
  return above;
}

START_TEST(clips_do_not_part_them)
{
  static const char *const tau[] = {"1", "0.5", "0.2", "0.1"};
  for (int form = DECODE_MATERIALISED; form <= last_form(_i); form++) {
    struct pair p;
    ck_assert(begin(&p, _i, "qk_clip", "cpu", form, 0, 1));
    ck_same(&p, "before a clip");
    for (int round = 0; round < 4; round++) {
      ck_assert_int_gt(clip(&p, tau[round]), 0);
      ck_same(&p, "after a clip");
    }
    end(&p);
  }
}
END_TEST

/* Every form in every format of queries and keys: what is cached are numbers of that format, and the logits follow
   those of the training form in the same format. Where keys are absorbed latents are rounded, not keys, which is
   another rounding of the same size. */
START_TEST(formats_of_what_is_cached)
{
  static const char *const devices[] = {"reference", "cpu"};
  const int model = _i / 2;
  for (int form = DECODE_MATERIALISED; form <= last_form(model); form++)
    for (int format = FORMAT_BF16; format < FORMAT_COUNT; format++) {
      struct pair plain, p;
      struct error e = {0};
      const char *device = devices[_i % 2];
      double most = 0;
      int caches = 0, keys = 0;
      long outside = 0;
      ck_assert(begin(&plain, model, "", device, form, 0, 1) && begin(&p, model, "", device, form, 0, 1));
      run_whole(&plain, plain.expected);
      model_program_free(&p.whole), model_program_free(&p.decoder);
      p.f->model.precision.qk = format;
      p.whole = fixture_program(p.f, BATCH, LENGTH, 0);
      ck_assert(!model_decoder_init(&p.f->model, &p.decoder, BATCH, 1, LENGTH, (enum decode_form)form, &e));
      run_whole(&p, p.expected);
      run_decoder(&p);
      const struct tensor *t;
      for (int i = 0; (t = program_tensor(p.decoder.program, i)); i++) {
        if (t->base || !t->name || !strstr(t->name, " cache")) continue;
        real *numbers = fixture_copy(p.f, t);
        int is_rounded = !strstr(t->name, "value") && !strstr(t->name, "rms");
        caches++, keys += is_rounded;
        for (long k = 0; k < t->rows * t->cols && is_rounded; k++) {
          outside += (double)numbers[k] != number_round((double)numbers[k], (enum number_format)format);
          most = fmax(most, fabs((double)numbers[k]));
        }
        memory_free(numbers);
      }
      ck_assert_msg(keys == LAYERS && caches >= keys && outside == 0 && most > 0.01,
                    "%s, %s, form %d: %d caches, of which %d in %s: %ld numbers are not",
                    models[model].settings, device, form, caches, keys, number_formats[format], outside);
      const double effect = largest(plain.expected, p.expected), off = largest(p.expected, p.got);
      ck_assert_msg(effect > 0 && off <= (form == DECODE_ABSORBED ? 16 : 0.5) * effect,
                    "%s, %s, form %d, %s: off by %.3g, the format by %.3g", models[model].settings, device,
                    form, number_formats[format], off, effect);
      end(&plain), end(&p);
    }
}
END_TEST

/* Scores are rounded in the decoder as in the training form. */
START_TEST(formats_of_scores)
{
  for (int form = DECODE_MATERIALISED; form <= last_form(_i); form++)
    for (int format = FORMAT_BF16; format < FORMAT_COUNT; format++) {
      struct pair plain, p;
      struct error e = {0};
      ck_assert(begin(&plain, _i, "", "cpu", form, 1, 1) && begin(&p, _i, "", "cpu", form, 1, 1));
      run_whole(&plain, plain.expected);
      model_program_free(&p.whole), model_program_free(&p.decoder);
      p.f->model.precision.scores = format;
      p.whole = fixture_program(p.f, BATCH, LENGTH, 0);
      fixture_pack(p.f, &p.whole, CUT);
      ck_assert(!model_decoder_init(&p.f->model, &p.decoder, BATCH, 1, LENGTH, (enum decode_form)form, &e));
      run_whole(&p, p.expected);
      run_decoder(&p);
      const double effect = largest(plain.expected, p.expected), off = largest(p.expected, p.got);
      ck_assert_msg(effect > 0 && off <= 0.5 * effect, "%s, form %d, %s: off by %.3g, the format by %.3g",
                    models[_i].settings, form, number_formats[format], off, effect);
      end(&plain), end(&p);
    }
}
END_TEST

/* What the equality above can see: a hundredth more of one head's rows of a matrix, or of a gain. */
START_TEST(a_wrong_matrix_is_seen)
{
  static const char *const wrong[] = {"attn.w_kc", "attn.w_v", "attn.kc_gain", "attn.w_qc", "attn.w_kr"};
  struct pair p;
  ck_assert(begin(&p, 2, "qk_norm", "cpu", DECODE_ABSORBED, 0, 1));
  run_whole(&p, p.expected);
  double allowed = tolerance(&p);
  struct param *w = model_param(&p.f->model, 1, wrong[_i]);
  long rows = w->head_rows ? w->head_rows : 1;
  for (long i = 0; i < rows * w->value.cols / 2; i++) REALS(&w->value)[i] *= (real)1.01;
  run_decoder(&p);
  ck_assert_double_gt(largest(p.expected, p.got), 10 * allowed);
  end(&p);
}
END_TEST

/* Numbers a token and layer: 2 G Dh; H (Dn + Dr + Dv) or Rkv + Dr; QK-normed: H more. */
START_TEST(what_is_cached)
{
  static const struct {
    int model;
    const char *stack;
    enum decode_form form;
    long cached;
  } want[] = {
    {0, "", DECODE_MATERIALISED, 2 * 4 * 4},        {1, "", DECODE_MATERIALISED, 2 * 2 * 4},
    {2, "", DECODE_MATERIALISED, 4 * (4 + 4 + 6)},  {2, "", DECODE_ABSORBED, 8 + 4},
    {2, "qk_norm_partial", DECODE_ABSORBED, 8 + 4}, {2, "qk_norm", DECODE_ABSORBED, 8 + 4 + 4},
    {2, "k_norm", DECODE_ABSORBED, 8 + 4 + 4},
  };
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    struct pair p;
    ck_assert(begin(&p, want[i].model, want[i].stack, "reference", want[i].form, 0, 1));
    ck_assert_int_eq(p.decoder.cached, LAYERS * want[i].cached);
    end(&p);
  }
}
END_TEST

static void refuse(int model, const struct stabilizer *extra, const char *why)
{
  struct error e = {0};
  struct model_program decoder;
  struct fixture *f = fixture_open(models[model].settings, "", extra);
  ck_assert_int_eq(model_decoder_init(&f->model, &decoder, 1, 1, LENGTH, DECODE_ABSORBED, &e), STATUS_USAGE);
  ck_assert_ptr_nonnull(strstr(e.text, why));
  model_program_free(&decoder);
  fixture_close(f);
}

static void norm_keys(struct stabilizer_context *c, struct program *program, int layer,
                      const struct layer_inputs *in, struct qk_part *part, int parts)
{
  (void)in;
  (void)layer;
  (void)parts;
  part[1].x = op_rmsnorm(program, part[1].x, NULL, part[1].dim, c->model->norm_eps);
}

START_TEST(what_cannot_be_decoded_is_refused)
{
  static const struct stabilizer own = {.name = "own", .on_qk = norm_keys};
  refuse(0, NULL, "mha");
  refuse(1, NULL, "gqa");
  refuse(2, &own, "stabilizer");
  for (int i = 0; i < 2; i++) {
    struct error e = {0};
    struct model_program decoder;
    struct fixture *f =
      fixture_open(i ? STACK "attention=mha mask=prefix" : STACK "attention=mha mask=full", "", NULL);
    ck_assert_int_eq(model_decoder_init(&f->model, &decoder, 1, 1, LENGTH, DECODE_MATERIALISED, &e),
                     STATUS_USAGE);
    ck_assert_ptr_nonnull(strstr(e.text, "cannot be decoded one by one"));
    model_program_free(&decoder);
    fixture_close(f);
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("decoding");
  TCase *tests = tcase_create("decoding");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, decoding_equals_training, 0, STACKS);
  tcase_add_loop_test(tests, blocks_are_single_positions, 0, MODELS);
  tcase_add_loop_test(tests, clips_do_not_part_them, 0, MODELS);
  tcase_add_loop_test(tests, formats_of_what_is_cached, 0, 2 * MODELS);
  tcase_add_loop_test(tests, formats_of_scores, 0, MODELS);
  tcase_add_loop_test(tests, a_wrong_matrix_is_seen, 0, 5);
  tcase_add_test(tests, what_is_cached);
  tcase_add_test(tests, what_cannot_be_decoded_is_refused);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
