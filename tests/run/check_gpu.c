/* device = cuda: what is asynchronous about it. Skipped (77) where the plug-in or a GPU is missing; `make check` runs
   it with the CPU in the place of the GPU, in three ways of being late and three orders of blocks
   (tests/cuda/cuda_runtime_on_host.h). */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/random.h"
#include "../gpu_here.h"
#include "numerics/run_arena.h"
#include "run/drive.h"
#include "../folder.h"
#include "../configuration.h"
#include "../same_run.h"

#define TINY \
  "model.width=8 model.heads=2 model.layers=1 model.context=6 model.vocab=0 train.batch=2 train.warmup=2 " \
  "train.steps=5 " \
  "train.val_batches=1 train.val_every=3 device.threads=1 record.spectra_every=0 checkpoint.seconds=0 " \
  "markov.symbols=8 "

static char folder[FOLDER_PATH];
static void make_folder(void) { folder_make(folder); }
static void remove_folder(void) { folder_remove(folder); }

static struct config *configured(const char *device, const char *name, const char *settings)
{
  return configuration("%s device=%s record.path=%s/%s.h5 record.overwrite=1 %s", TINY, device, folder, name,
                       settings);
}

static struct trainer *started(struct config *c)
{
  struct trainer *t = NULL;
  struct error e = {0};
  ck_assert_msg(!trainer_init(&t, c, 0, &e), "%s", e.text);
  return t;
}

/* To the end, `ahead` steps ahead; -1: as the device wants. */
static void driven(const char *name, const char *settings, int ahead)
{
  struct error e = {0};
  struct config *c = configured("cuda", name, settings);
  struct trainer *t = started(c);
  if (ahead >= 0) trainer_device(t)->ahead = ahead;
  ck_assert_msg(drive(t, 0, NULL, NULL, &e) != STATUS_FAIL, "%s", e.text);
  config_free(c);
}

static void same(const char *a, const char *b)
{
  char x[128], y[128];
  int datasets;
  snprintf(x, sizeof x, "%s/%s.h5", folder, a);
  snprintf(y, sizeof y, "%s/%s.h5", folder, b);
  ck_assert_int_eq(same_run(x, y, 1, &datasets, stderr), 0);
  ck_assert_int_ge(datasets, 6);
}

static const char *const runs[] = {
  "preset=muonclip qk_clip.tau=1 record.batches=1 record.probe_every=2 record.spectra_every=2",
  "preset=adam train.micro_batches=2 train.grad_clip=0.1 stabilizers=soft_cap",
  "preset=muon model.attention=mla muon.per_head=qkv stabilizers=sigma_reparam",
  "preset=muon muon.coefficients=svd stabilizers=spectral_clip spectral_clip.method=svd", /* steps of the host */
  "optimizer=sgd train.lr=1e30 train.warmup=0 record.spectra_every=3", /* diverges, known before spectra */
};

static void blocks_take_turns(const char *order) { setenv("MAXLOGIT_CUDA_ON_HOST_ORDER", order, 1); }

/* The same bits whether the host is ahead or not, whether reports are read at once or later, and in whatever order
   blocks come. */
START_TEST(late_is_the_same)
{
  const char *order = getenv("MAXLOGIT_CUDA_ON_HOST_ORDER");
  char chosen[16];
  snprintf(chosen, sizeof chosen, "%s", order ? order : "0");
  blocks_take_turns("0");
  driven("at-once", runs[_i], 0);
  blocks_take_turns(chosen);
  driven("late", runs[_i], -1);
  same("at-once", "late");
}
END_TEST

/* Threads of the host take none of the GPU's memory. */
START_TEST(scratch_is_for_the_device_alone)
{
  enum { BYTES = 1 << 20 };
  struct device *device;
  struct error e = {0};
  ck_assert_msg(!device_open(&device, "cuda", 8, &e), "%s", e.text);
  const size_t before = device->given;
  device_wants_scratch(device, BYTES, BYTES);
  device_settle_scratch(device);
  ck_assert_uint_lt(device->given - before, 2 * BYTES);
  device_close(device);
}
END_TEST

/* Weights as if each had been rounded once more, up or down. */
static void disturb(struct trainer *t, int sample)
{
  const struct tensor *w = &trainer_model(t)->params.values;
  const struct draw d = {.seed = (uint64_t)sample, .stream = STREAM_TEST};
  const size_t bytes = (size_t)w->cols * sizeof(real);
  struct device *device = trainer_device(t);
  real *copy = memory_new(1, bytes);
  device->download(device, copy, w->data, bytes);
  for (long i = 0; i < w->cols; i++)
    copy[i] *= (real)(1 + (draw_uniform(d, (uint64_t)i) < 0.5 ? -1 : 1) * (double)REAL_EPS);
  device->upload(device, w->data, copy, bytes);
  memory_free(copy);
}

/* Loss, then the largest logit of each head. */
enum { HEADS_SEEN = 2, SEEN = 1 + HEADS_SEEN };
static void seen(struct trainer *t, double now[SEEN])
{
  now[0] = trainer_status(t).loss;
  for (int h = 0; h < HEADS_SEEN; h++) now[1 + h] = (double)trainer_status(t).max_logit[h];
}

/* As on the CPU, but for rounding: how far that leads is seen from runs on the CPU whose weights are disturbed by
   rounding. (A decomposition makes as much of a direction that is rounding alone as of any other.) */
START_TEST(as_on_the_cpu)
{
  enum { GPU = 1, SAMPLES = 6, RUNS = 2 + SAMPLES };
  struct error e = {0};
  struct config *c[RUNS];
  struct trainer *t[RUNS];
  for (int k = 0; k < RUNS; k++) {
    char name[16];
    snprintf(name, sizeof name, "run-%d", k);
    c[k] = configured(k == GPU ? "cuda" : "cpu", name, runs[_i]);
    t[k] = started(c[k]);
    if (k > GPU) disturb(t[k], k);
  }
  for (int step = 0; step < 4; step++) {
    double now[RUNS][SEEN];
    for (int k = 0; k < RUNS; k++) {
      ck_assert_msg(!trainer_step(t[k], &e) && !trainer_settle(t[k], &e), "%s", e.text);
      seen(t[k], now[k]);
    }
    for (int i = 0; i < SEEN; i++) {
      const double cpu = now[0][i], gpu = now[GPU][i];
      double spread = 0;
      for (int k = 2; k < RUNS; k++) spread = fmax(spread, fabs(now[k][i] - cpu));
      ck_assert_msg(isnan(cpu) ? isnan(gpu)
                               : fabs(gpu - cpu) <= 4 * spread + 100 * (double)REAL_EPS * (1 + fabs(cpu)),
                    "step %d: %s is %.9g and %.9g, disturbed by %.2g", step,
                    i ? "a head's max logit" : "loss", cpu, gpu, spread);
    }
    if (isnan(now[0][0])) break;
  }
  for (int k = 0; k < RUNS; k++) {
    trainer_abandon(t[k]);
    config_free(c[k]);
  }
}
END_TEST

/* Stopped after two steps and resumed: the bits of the whole. */
START_TEST(resumed)
{
  char path[128];
  struct error e = {0};
  struct trainer *t;
  driven("whole", runs[0], -1);
  struct config *c = configured("cuda", "part", runs[0]);
  t = started(c);
  for (int i = 0; i < 2; i++) ck_assert(!trainer_step(t, &e));
  ck_assert_msg(!trainer_done(t, &e), "%s", e.text);
  config_free(c);
  snprintf(path, sizeof path, "%s/part.h5", folder);
  ck_assert_msg(!trainer_resume(&t, path, NULL, 0, &e), "%s", e.text);
  ck_assert_msg(drive(t, 0, NULL, NULL, &e) == STATUS_OK, "%s", e.text);
  same("whole", "part");
}
END_TEST

/* Weights are drawn, and then those of another run take their place: both are told before the device begins. */
START_TEST(weights_of_another_run)
{
  static const char *const order[] = {"0", "1", "54321"};
  char settings[256];
  driven("first", runs[1], -1);
  snprintf(settings, sizeof settings, "%s train.seed=9 train.steps=2 train.init_from=%s/first.h5", runs[1],
           folder);
  for (int i = 0; i < 3; i++) {
    blocks_take_turns(order[i]);
    driven(order[i], settings, -1);
    if (i) same(order[0], order[i]);
  }
}
END_TEST

/* Replayed programs make the calls that are made one by one while operations are timed. */
START_TEST(replay_is_call_by_call)
{
  static double seconds[OP_COUNT], work[OP_COUNT];
  static long calls[OP_COUNT];
  struct error e = {0};
  double loss[2];
  for (int timed = 0; timed < 2; timed++) {
    struct config *c = configured("cuda", "replay", runs[0]);
    struct trainer *t = started(c);
    struct device *d = trainer_device(t);
    if (timed) d->op_seconds = seconds, d->op_calls = calls, d->op_work = work;
    for (int i = 0; i < 4; i++) ck_assert(!trainer_step(t, &e));
    ck_assert(!trainer_settle(t, &e));
    if (timed) d->times(d);
    loss[timed] = trainer_status(t).loss;
    trainer_abandon(t);
    config_free(c);
  }
  ck_assert(loss[0] == loss[1]);
  ck_assert(calls[OP_matmul] > 4 && seconds[OP_matmul] > 0 && work[OP_matmul] > 0);
}
END_TEST

/* A steady step waits for nothing; with a decomposition on the host it does. */
START_TEST(steps_do_not_wait)
{
  for (int i = 1; i < 4; i += 2) {
    struct error e = {0};
    char settings[256];
    snprintf(settings, sizeof settings, "%s train.val_every=0 train.steps=100", runs[i]);
    struct config *c = configured("cuda", "steady", settings);
    struct trainer *t = started(c);
    for (int k = 0; k < 2; k++) ck_assert(!trainer_step(t, &e));
    long before = trainer_device(t)->waits;
    for (int k = 0; k < 2; k++) ck_assert(!trainer_step(t, &e));
    ck_assert_int_eq(trainer_device(t)->waits > before, i == 3);
    trainer_abandon(t);
    config_free(c);
  }
}
END_TEST

/* What bounds a small run on a GPU is how many launches a step has, and how many of these wait one for another: no more
   than there are today. Of two layers, as the toy stack has them. */
START_TEST(launches_of_a_step)
{
  static const struct {
    const char *settings;
    long nodes, path;
  } most[] = {{"optimizer=muon model.layers=2 train.val_every=0 train.steps=100", 98, 82},
              {"optimizer=adam model.layers=2 train.val_every=0 train.steps=100", 94, 79}};
  struct error e = {0};
  struct config *c = configured("cuda", "launches", most[_i].settings);
  struct trainer *t = started(c);
  struct device *d = trainer_device(t);
  for (int k = 0; k < 3; k++) ck_assert(!trainer_step(t, &e));
  const long nodes = d->nodes, path = d->path;
  ck_assert(!trainer_step(t, &e));
  printf("%s: %ld launches a step, %ld one after another\n", most[_i].settings, d->nodes - nodes,
         d->path - path);
  ck_assert_int_le(d->nodes - nodes, most[_i].nodes);
  ck_assert_int_le(d->path - path, most[_i].path);
  ck_assert_int_gt(d->path - path, 0);
  trainer_abandon(t);
  config_free(c);
}
END_TEST

/* --- there and back ------------------------------------------------------------------------------------------ */

static uint32_t word(uint32_t i, uint32_t round) { return (i * 2654435761u) ^ (round * 40503u); }

/* Small and large, whole and in many pieces, uploads and fetches in turn: each fetch has what was there when it was
   asked for, whatever was uploaded since, and no source is looked at after the call. */
START_TEST(there_and_back)
{
  enum { WORDS = 400000, PIECES = 5000, ROUNDS = 4 };
  struct device *d;
  struct error e = {0};
  ck_assert_msg(!device_open(&d, "cuda", 1, &e), "%s", e.text);
  uint32_t *memory = device_get(d, WORDS * 4), *here = memory_new(WORDS, 4), *back[ROUNDS];
  long mark[ROUNDS];
  d->download(d, here, memory, WORDS * 4);
  long wrong = 0;
  for (int i = 0; i < WORDS; i++) wrong += here[i] != 0;
  for (uint32_t round = 0; round < ROUNDS; round++) {
    back[round] = memory_new(WORDS, 4);
    for (uint32_t i = 0; i < WORDS; i++) here[i] = word(i, round);
    if (round % 2)
      d->upload(d, memory, here, WORDS * 4);
    else
      for (int i = 0; i < PIECES; i++)
        d->upload(d, memory + i * (WORDS / PIECES), here + i * (WORDS / PIECES), WORDS / PIECES * 4);
    memset(here, 0xee, WORDS * 4);
    for (int part = 0; part < 2; part++)
      d->fetch(d, back[round] + part * WORDS / 2, memory + part * WORDS / 2, WORDS * 2);
    uint32_t last = ~word(WORDS - 1, round); /* after what was fetched */
    d->upload(d, memory + WORDS - 1, &last, 4);
    d->download(d, here, memory + WORDS - 1, 4);
    wrong += here[0] != last;
    mark[round] = d->mark(d);
  }
  for (uint32_t round = 0; round < ROUNDS; round++) {
    d->reach(d, mark[round]);
    for (uint32_t i = 0; i < WORDS; i++) wrong += back[round][i] != word(i, round);
    memory_free(back[round]);
  }
  d->download(d, here, memory, WORDS * 4);
  ck_assert_int_eq(wrong, 0);
  ck_assert(here[WORDS - 1] == ~word(WORDS - 1, ROUNDS - 1));
  memory_free(here);
  device_put_back(d, memory);
  device_close(d);
}
END_TEST

/* Of what is uploaded to one place the last is there, whether it is the same stretch, a part or more of it; neighbours
   stay as they are. */
START_TEST(the_last_upload_stays)
{
  enum { WORDS = 64, LONG = 20000, UPLOADS = 400 };
  struct device *d;
  struct error e = {0};
  ck_assert_msg(!device_open(&d, "cuda", 1, &e), "%s", e.text);
  uint32_t *memory = device_get(d, LONG * 4), *here = memory_new(LONG, 4), *is = memory_new(LONG, 4);
  for (uint32_t round = 0; round < 3; round++) {
    for (uint32_t i = 0; i < LONG; i++) is[i] = word(i, round);
    d->upload(d, memory, is, LONG * 4);
    for (uint32_t k = 0; k < UPLOADS; k++) {
      const uint32_t from = (uint32_t)draw_below((struct draw){round, STREAM_TEST, 0}, 2 * k, WORDS),
                     count = 1 + (uint32_t)draw_below((struct draw){round, STREAM_TEST, 0}, 2 * k + 1,
                                                      WORDS - from);
      for (uint32_t i = from; i < from + count; i++) is[i] = word(i, k + 7);
      d->upload(d, memory + from, is + from, count * 4);
    }
    d->download(d, here, memory, LONG * 4);
    ck_assert(!memcmp(here, is, LONG * 4));
  }
  memory_free(here);
  memory_free(is);
  device_put_back(d, memory);
  device_close(d);
}
END_TEST

/* A run that is given up while its reports are under way: they arrive before its memory is gone, not with those of the
   run beside it. */
START_TEST(given_up_on_the_way)
{
  struct config *c[2];
  struct trainer *t[2];
  struct run_arenas *run_arenas;
  struct error e = {0};
  size_t bytes;
  for (int i = 0; i < 2; i++)
    c[i] = configured("cuda", i ? "stays" : "given-up", "optimizer=adam train.steps=50");
  ck_assert_msg(!trainer_bytes(c[0], 1, &bytes, &e) && !run_arenas_open(&run_arenas, "cuda", 2, bytes, 1, &e),
                "%s", e.text);
  for (int i = 0; i < 2; i++)
    ck_assert_msg(!trainer_init_on(&t[i], run_arenas_device(run_arenas, i), c[i], 0, &e), "%s", e.text);
  for (int step = 0; step < 2; step++)
    for (int i = 0; i < 2; i++) ck_assert_msg(!trainer_step(t[i], &e), "%s", e.text);
  const long waits = run_arenas_device(run_arenas, 0)->waits;
  trainer_abandon(t[0]);
  ck_assert_int_eq(run_arenas_device(run_arenas, 0)->waits, waits + 1);
  ck_assert_msg(!trainer_settle(t[1], &e), "%s", e.text);
  ck_assert(trainer_status(t[1]).loss > 0);
  trainer_abandon(t[1]);
  run_arenas_close(run_arenas);
  for (int i = 0; i < 2; i++) config_free(c[i]);
}
END_TEST

START_TEST(math_is_part_of_the_id)
{
  char id[3][16];
  const char *const math[] = {"device.math=fp32", "device.math=bf16", "device.math=fp32"};
  for (int i = 0; i < 3; i++) {
    struct config *c = configured("cuda", "id", math[i]);
    struct trainer *t = started(c);
    snprintf(id[i], sizeof id[i], "%s", trainer_id(t));
    ck_assert_int_eq(trainer_device(t)->math, i == 1 ? MATH_BF16 : MATH_FP32);
    trainer_abandon(t);
    config_free(c);
  }
  ck_assert_str_eq(id[0], id[2]);
  ck_assert_str_ne(id[0], id[1]);
}
END_TEST

enum {
  LENGTH = 70,
  HEADS = 2,
  SIZE = 64,
  ROW = HEADS * SIZE,
  COUNT = LENGTH * ROW,
  RESULTS = 4 * COUNT + 4 * HEADS
};

/* in: q, k, v, do; out: o, dq, dk, dv, stats. */
static void attention_of(struct device *d, const float *in, float *out)
{
  struct tensor *t[8], *start = tensor_new(d, TENSOR_INT, 1, LENGTH, "start");
  struct tensor *ml = tensor_new(d, TENSOR_REAL, LENGTH, 2 * HEADS, "ml"),
                *stats = tensor_new(d, TENSOR_REAL, HEADS, 4, "stats");
  const struct attention_score score = {.batch = 1, .heads = HEADS, .groups = HEADS, .scale = 0.125};
  for (int i = 0; i < 8; i++) {
    t[i] = tensor_new(d, TENSOR_REAL, LENGTH, ROW, "t");
    if (i < 4) d->upload(d, t[i]->data, in + (size_t)i * COUNT, COUNT * sizeof *in);
  }
  op_run(d, OP_attention_forward,
         &(union op_args){.attention_forward = {.o = t[4],
                                                .ml = ml,
                                                .stats = stats,
                                                .q = t[0],
                                                .k = t[1],
                                                .v = t[2],
                                                .start = start,
                                                .score = score}});
  op_run(d, OP_attention_backward,
         &(union op_args){.attention_backward = {.dq = t[5],
                                                 .dk = t[6],
                                                 .dv = t[7],
                                                 .do_ = t[3],
                                                 .o = t[4],
                                                 .q = t[0],
                                                 .k = t[1],
                                                 .v = t[2],
                                                 .ml = ml,
                                                 .start = start,
                                                 .score = score}});
  for (int i = 0; i < 4; i++) d->download(d, out + (size_t)i * COUNT, t[4 + i]->data, COUNT * sizeof *out);
  d->download(d, out + 4 * COUNT, stats->data, 4 * HEADS * sizeof *out);
  for (int i = 0; i < 8; i++) tensor_free(d, t[i]);
  tensor_free(d, start), tensor_free(d, ml), tensor_free(d, stats);
}

/* The device's own tensor cores: near the definition, as far as inputs of so many digits let them be, and the same
   twice. */
START_TEST(attention_in_every_math)
{
  static float in[4 * COUNT], out[3][RESULTS];
  const double digit = _i == MATH_FP32 ? 1e-5 : _i == MATH_TF32 ? 1.0 / 2048 : 1.0 / 256;
  struct error e = {0};
  for (int i = 0; i < 4 * COUNT; i++) in[i] = (float)draw_normal((struct draw){5, 0, 0}, (uint64_t)i);
  for (int k = 0; k < 3; k++) {
    struct device *d;
    ck_assert_msg(!device_open(&d, k ? "cuda" : "reference", 1, &e), "%s", e.text);
    if (k) ck_assert(!device_set_math(d, (enum device_math)_i, &e));
    attention_of(d, in, out[k]);
    device_close(d);
  }
  double off = 0;
  for (int i = 0; i < RESULTS; i++) {
    const double wrong = fabs((double)out[1][i] - (double)out[0][i]);
    ck_assert_msg(wrong <= 16 * digit * (1 + fabs((double)out[0][i])), "%d: %g, defined as %g", i, out[1][i],
                  out[0][i]);
    off = fmax(off, wrong);
  }
  ck_assert(_i == MATH_FP32 || off > digit / 16);
  ck_assert(!memcmp(out[1], out[2], sizeof out[1]));
}
END_TEST

/* The same of products: of two matrices, and of one with itself. */
START_TEST(products_in_every_math)
{
  enum { M = 70, N = 50, K = 90, SUMS = M * N + M * M };
  static float in[(M + N) * K], out[3][SUMS];
  const double digit = _i == MATH_FP32 ? 1e-6 : _i == MATH_TF32 ? 1.0 / 2048 : 1.0 / 256;
  struct error e = {0};
  double off = 0;
  for (int i = 0; i < (M + N) * K; i++) in[i] = (float)draw_normal((struct draw){6, 0, 0}, (uint64_t)i);
  for (int k = 0; k < 3; k++) {
    struct device *d;
    ck_assert_msg(!device_open(&d, k ? "cuda" : "reference", 1, &e), "%s", e.text);
    if (k) ck_assert(!device_set_math(d, (enum device_math)_i, &e));
    struct tensor *a = tensor_new(d, TENSOR_REAL, M, K, "a"), *b = tensor_new(d, TENSOR_REAL, N, K, "b"),
                  *ab = tensor_new(d, TENSOR_REAL, M, N, "ab"), *aa = tensor_new(d, TENSOR_REAL, M, M, "aa");
    d->upload(d, a->data, in, M * K * sizeof *in);
    d->upload(d, b->data, in + M * K, N * K * sizeof *in);
    op_run(d, OP_matmul, &(union op_args){.matmul = {.c = ab, .a = a, .b = b, .tb = 1, .alpha = 1}});
    op_run(d, OP_gram, &(union op_args){.gram = {.c = aa, .a = a, .alpha = 1}});
    d->download(d, out[k], ab->data, M * N * sizeof *in);
    d->download(d, out[k] + M * N, aa->data, M * M * sizeof *in);
    tensor_free(d, a), tensor_free(d, b), tensor_free(d, ab), tensor_free(d, aa);
    device_close(d);
  }
  for (int i = 0; i < SUMS; i++) {
    const double wrong = fabs((double)out[1][i] - (double)out[0][i]);
    if (wrong > off) off = wrong; /* gcc 12 for aarch64 breaks down over fmax here */
  }
  ck_assert_double_le(off, 16 * digit * sqrt(K));
  ck_assert(_i == MATH_FP32 || off > digit / 16);
  ck_assert(!memcmp(out[1], out[2], sizeof out[1]));
}
END_TEST

static void chosen(const char *late, const char *order)
{
  setenv("MAXLOGIT_CUDA_ON_HOST", late, 1);
  blocks_take_turns(order);
}
static void lazy(void) { chosen("lazy", "1"); }
static void others(void) { chosen("others", "54321"); }
static void eager(void) { chosen("eager", "0"); }

int main(void)
{
  static const struct {
    const char *name;
    void (*setup)(void);
  } ways[] = {{"lazy, last block first", lazy}, {"others first, blocks mixed", others}, {"eager", eager}};
  gpu_twin();
  int on_host = gpu_is_twin();
  struct gpu gpu = gpu_here();
  if (*gpu.lacks) {
    printf("skipped: %s\n", gpu.lacks);
    return 77;
  }
  printf("on %s\n", gpu.name);
  Suite *s = suite_create("device = cuda");
  int most = (int)(sizeof runs / sizeof *runs);
  for (int i = 0; i < (on_host ? 3 : 1); i++) {
    TCase *k = tcase_create(on_host ? ways[i].name : "on a GPU");
    tcase_set_timeout(k, 300);
    tcase_add_checked_fixture(k, make_folder, remove_folder);
    if (on_host) tcase_add_checked_fixture(k, ways[i].setup, NULL);
    tcase_add_loop_test(k, late_is_the_same, 0, most);
    tcase_add_test(k, scratch_is_for_the_device_alone);
    if (i == 0) tcase_add_loop_test(k, as_on_the_cpu, 0, most);
    tcase_add_test(k, resumed);
    tcase_add_test(k, replay_is_call_by_call);
    tcase_add_test(k, steps_do_not_wait);
    tcase_add_test(k, there_and_back);
    tcase_add_test(k, the_last_upload_stays);
    tcase_add_test(k, given_up_on_the_way);
    if (i == 0) tcase_add_test(k, weights_of_another_run);
    if (i == 0) tcase_add_loop_test(k, launches_of_a_step, 0, 2);
    if (i == 0) tcase_add_test(k, math_is_part_of_the_id);
    if (i == 0) tcase_add_loop_test(k, attention_in_every_math, MATH_FP32, MATH_BF16 + 1);
    if (i == 0) tcase_add_loop_test(k, products_in_every_math, MATH_FP32, MATH_BF16 + 1);
    suite_add_tcase(s, k);
  }
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
