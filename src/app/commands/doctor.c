/* maxlogit doctor: what this build and machine have, and the bits of one fixed run */
#include <argp.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>
#include "app/command.h"
#include "analysis/json.h"
#include "app/report.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/thread.h"
#include "numerics/cuda_plugin.h"
#include "run/trainer.h"
#include "storage/provenance.h"

/* The fixed run is the default stack on the built-in source. Its bits depend on the instruction set of the
   kernels, and on the compiler and its flags, which may fuse products and sums; with the default flags these are
   known. */
static const char *const fixed_run[] = {"preset=muonclip", "qk_clip.tau=3", "train.steps=50", "train.seed=1"};
static const struct {
  const char *kernels, *compiler, *bits;
} known[] = {{"v4", "gcc 12", "e6c7fe19a6513c93"},
             {"v3", "gcc 12", "e6c7fe19a6513c93"},
             {"base", "gcc 12", "1211db6731ce4669"},
             {NULL, NULL, NULL}};

struct diagnosis {
  struct provenance provenance;
  char device[256], gnuplot[64], bits[17];
  struct gpu gpu;
  const char *kernels, *expected; /* bits of the fixed run; NULL: not known for this machine */
  int threads;
  double seconds;
};

static const struct argp_option options[] = {{"json", 'j', NULL, 0, JSON_HELP, 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
  int *json = state->input;
  (void)arg;
  switch (key) {
  case 'j': *json = 1; return 0;
  case ARGP_KEY_ARG: argp_error(state, "no arguments, please");
  }
  return ARGP_ERR_UNKNOWN;
}

/* "gnuplot 5.4 patchlevel 4", or empty. */
static void gnuplot_version(char *out, size_t room)
{
  FILE *f = popen("gnuplot --version 2>/dev/null", "r");
  if (!f || !fgets(out, (int)room, f)) *out = 0;
  out[strcspn(out, "\n")] = 0;
  if (f) pclose(f);
}

static void hash_step(XXH64_state_t *hash, struct trainer *t)
{
  const struct model_options *m = config_section(trainer_config(t), "model");
  double seen[] = {trainer_loss(t), trainer_grad_norm(t)};
  XXH64_update(hash, seen, sizeof seen);
  XXH64_update(hash, trainer_max_logit(t), (size_t)(m->layers * m->heads) * sizeof(real));
}

static void hash_weights(XXH64_state_t *hash, struct trainer *t)
{
  const struct tensor *values = &trainer_model(t)->params.values;
  size_t bytes = (size_t)values->cols * sizeof(real);
  real *copy = memory_new(1, bytes);
  struct device *device = trainer_device(t);
  device->download(device, copy, values->data, bytes);
  XXH64_update(hash, copy, bytes);
  memory_free(copy);
}

static int run_steps(struct diagnosis *d, struct trainer *t, struct error *e)
{
  XXH64_state_t *hash = XXH64_createState();
  double start = clock_seconds();
  XXH64_reset(hash, 0);
  while (trainer_more(t) && !trainer_step(t, e)) hash_step(hash, t);
  hash_weights(hash, t);
  d->seconds = clock_seconds() - start;
  d->threads = pool_threads(trainer_device(t)->pool);
  snprintf(d->device, sizeof d->device, "%s", trainer_device(t)->description);
  snprintf(d->bits, sizeof d->bits, "%016llx", (unsigned long long)XXH64_digest(hash));
  XXH64_freeState(hash);
  return e->status;
}

static int run_fixed(struct diagnosis *d, struct error *e)
{
  struct config *config = config_new();
  struct trainer *t = NULL;
  int status = STATUS_OK;
  for (size_t i = 0; !status && i < sizeof fixed_run / sizeof *fixed_run; i++)
    status = config_assign(config, fixed_run[i], e);
  if (!status) status = config_finish(config, e);
  if (!status) status = trainer_init(&t, config, TRAINER_NO_RECORD, e);
  if (!status) {
    status = run_steps(d, t, e);
    trainer_abandon(t);
  }
  config_free(config);
  return status;
}

static int has_default_flags(const char *flags)
{
  const char *end = strstr(flags, " -g -O3");
  return end && !end[strlen(" -g -O3")];
}

static void find_expected(struct diagnosis *d)
{
  if (!has_default_flags(d->provenance.flags)) return;
  for (int i = 0; known[i].bits; i++)
    if (!strcmp(known[i].kernels, d->kernels) &&
        !strncmp(known[i].compiler, d->provenance.compiler, strlen(known[i].compiler)))
      d->expected = known[i].bits;
}

/* --- as text and as JSON -------------------------------------------------------------------------------- */

static void print_line(void *context, const char *name, const char *value)
{
  (void)context;
  printf("  %-10s  %s\n", name, value);
}

static void print_gpu(const struct gpu *g)
{
  char text[1024];
  if (*g->lacks)
    snprintf(text, sizeof text, "none for device = cuda: %s", g->lacks);
  else
    snprintf(
      text, sizeof text,
      "%s, capability %d.%d, %d multiprocessors, %.0f GB, driver for CUDA %d.%d, plug-in of CUDA %d.%d",
      g->name, g->major, g->minor, g->multiprocessors, g->gigabytes, g->driver / 1000, g->driver % 1000 / 10,
      g->runtime / 1000, g->runtime % 1000 / 10);
  print_line(NULL, "gpu", text);
}

static void print_text(const struct diagnosis *d)
{
  provenance_each(&d->provenance, print_line, NULL);
  print_line(NULL, "device", d->device);
  print_gpu(&d->gpu);
  print_line(NULL, "gnuplot",
             *d->gnuplot ? d->gnuplot : "not found: plot draws nothing (package gnuplot-nox)");
  printf("  %-10s  50 steps in %.2f s; its bits: %s\n", "fixed run", d->seconds, d->bits);
  if (!d->expected)
    printf("  %-10s  no bits are known for the %s kernels of this compiler and its flags\n", "", d->kernels);
  else if (!strcmp(d->expected, d->bits))
    printf("  %-10s  as expected for the %s kernels\n", "", d->kernels);
  else
    printf("  %-10s  NOT as expected for the %s kernels: %s\n", "", d->kernels, d->expected);
}

static void json_pair(void *object, const char *name, const char *value)
{
  json_object_set_new(object, name, json_text(value));
}

static void print_json(const struct diagnosis *d)
{
  json_t *all = json_object();
  provenance_each(&d->provenance, json_pair, all);
  json_pair(all, "device", d->device);
  json_pair(all, "kernels", d->kernels);
  json_pair(all, "gpu", *d->gpu.lacks ? NULL : d->gpu.name);
  json_pair(all, "gpu_lacks", *d->gpu.lacks ? d->gpu.lacks : NULL);
  json_pair(all, "gnuplot", *d->gnuplot ? d->gnuplot : NULL);
  json_pair(all, "bits", d->bits);
  json_pair(all, "expected_bits", d->expected);
  json_object_set_new(all, "dirty", json_integer(d->provenance.dirty));
  json_object_set_new(all, "threads", json_integer(d->threads));
  json_object_set_new(all, "seconds", json_number(d->seconds));
  json_print(all);
}

static int doctor(int argc, char **argv)
{
  static const struct argp argp = {
    options,
    parse,
    NULL,
    "Show what this build and machine have, and do a fixed short run whose bits are compared with the known "
    "ones.\vExit status 1 when they differ.",
    NULL,
    NULL,
    NULL};
  struct diagnosis d = {.kernels = ops_cpu_level()};
  struct error e = {0};
  int json = 0;
  argp_parse(&argp, argc, argv, 0, NULL, &json);
  provenance_get(&d.provenance);
  gnuplot_version(d.gnuplot, sizeof d.gnuplot);
  cuda_look(&d.gpu);
  if (run_fixed(&d, &e)) return report_error(&e);
  find_expected(&d);
  (json ? print_json : print_text)(&d);
  return d.expected && strcmp(d.expected, d.bits) ? STATUS_FAIL : STATUS_OK;
}

const struct command command_doctor = {.name = "doctor",
                                       .arguments = "",
                                       .help = "what this build and machine have; a fixed run's bits",
                                       .run = doctor};
