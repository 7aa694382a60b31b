/* maxlogit doctor: properties of this build and machine, and the bits of one fixed run */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "app/command.h"
#include "app/http.h"
#include "analysis/json.h"
#include "base/apart.h"
#include "base/clock.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "numerics/cuda_plugin.h"
#include "run/bits.h"
#include "storage/provenance.h"

struct diagnosis {
  struct provenance provenance;
  char device[256], gnuplot[64], bits[BITS_TEXT];
  struct gpu gpu;
  char mpi_lacks[512];
  int threads, ranks;
  double seconds;
};

struct options {
  struct request request;
  long json;
};

static const struct command_option options[] = {
  FLAG(json, 'j', JSON_HELP),
  NO_OPTION,
};

/* "gnuplot 5.4 patchlevel 4", or empty. */
static void gnuplot_version(char *out, size_t room)
{
  static const char *const command[] = {"gnuplot", "--version", NULL};
  int ends[2];
  *out = 0;
  if (pipe(ends)) return;
  pid_t child = program_start(command, -1, ends[1], -1);
  close(ends[1]);
  FILE *f = fdopen(ends[0], "r");
  if (!f || !fgets(out, (int)room, f)) *out = 0;
  out[strcspn(out, "\n")] = 0;
  if (f) fclose(f);
  program_wait(child);
}

static void take_device(void *context, const struct trainer *t)
{
  struct diagnosis *d = context;
  snprintf(d->device, sizeof d->device, "%s", trainer_device(t)->description);
  d->threads = pool_threads(trainer_device(t)->pool);
}

static int run_fixed(struct diagnosis *d, struct error *e)
{
  double start = clock_seconds();
  int status = bits_of_fixed_run(take_device, d, d->bits, e);
  d->seconds = clock_seconds() - start;
  return status;
}

static int as_everywhere(const struct diagnosis *d) { return !strcmp(d->bits, BITS_EXPECTED); }

static const char *verdict(const struct diagnosis *d)
{
  if (as_everywhere(d)) return "as everywhere";
  return bits_are_own() ? "this processor's own: the base kernels have no fused multiply-add"
                        : "NOT as everywhere: " BITS_EXPECTED;
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
  if (*g->lacks) return;
  snprintf(text, sizeof text,
           "%s, %d MHz, %s; a context in %.2f s, a first graph in %.3f s, then %.2f us per empty launch",
           g->mode, g->megahertz, g->blas, g->context_seconds, g->graph_seconds, g->node_seconds * 1e6);
  print_line(NULL, "", text);
}

static void print_ranks(const struct diagnosis *d)
{
  char text[1024];
  if (*d->mpi_lacks)
    snprintf(text, sizeof text, "1: %s", d->mpi_lacks);
  else
    snprintf(text, sizeof text, "%d%s, by %s", d->ranks, d->ranks > 1 ? "" : " (no launcher)",
             comm_library());
  print_line(NULL, "ranks", text);
}

static void print_text(const struct diagnosis *d)
{
  char text[128];
  provenance_each(&d->provenance, print_line, NULL);
  print_line(NULL, "device", d->device);
  print_gpu(&d->gpu);
  print_ranks(d);
  print_line(NULL, "gnuplot",
             *d->gnuplot ? d->gnuplot : "not found: plot draws nothing (package gnuplot-nox)");
  print_line(NULL, "server",
             http_version() ? http_version() : "no libmicrohttpd: serve has none, report writes its page");
  snprintf(text, sizeof text, "50 steps in %.2f s", d->seconds);
  print_line(NULL, "fixed run", text);
  snprintf(text, sizeof text, "%s, %s", d->bits, verdict(d));
  print_line(NULL, "bits", text);
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
  json_pair(all, "kernels", ops_cpu_level());
  json_pair(all, "gpu", *d->gpu.lacks ? NULL : d->gpu.name);
  json_pair(all, "gpu_lacks", *d->gpu.lacks ? d->gpu.lacks : NULL);
  json_pair(all, "mpi", comm_library());
  json_pair(all, "mpi_lacks", *d->mpi_lacks ? d->mpi_lacks : NULL);
  json_object_set_new(all, "ranks", json_integer(d->ranks));
  json_pair(all, "gnuplot", *d->gnuplot ? d->gnuplot : NULL);
  json_pair(all, "libmicrohttpd", http_version());
  json_pair(all, "bits", d->bits);
  json_pair(all, "expected_bits", bits_are_own() ? NULL : BITS_EXPECTED);
  json_object_set_new(all, "dirty", json_integer(d->provenance.dirty));
  json_object_set_new(all, "threads", json_integer(d->threads));
  json_object_set_new(all, "seconds", json_number(d->seconds));
  json_print(all);
}

static int doctor(void *request, struct error *e)
{
  const struct options *r = request;
  struct diagnosis d = {0};
  provenance_get(&d.provenance);
  gnuplot_version(d.gnuplot, sizeof d.gnuplot);
  (r->json ? cuda_look : cuda_examine)(&d.gpu);
  const struct comm *world = comm_world(e);
  if (!world) return e->status;
  d.ranks = world->ranks;
  comm_lacks(d.mpi_lacks, sizeof d.mpi_lacks);
  if (run_fixed(&d, e)) return e->status;
  (r->json ? print_json : print_text)(&d);
  return as_everywhere(&d) || bits_are_own() ? STATUS_OK : STATUS_FAIL;
}

const struct command command_doctor = {
  .name = "doctor",
  .arguments = "",
  .help = "report the build, the machine, and the bits of a fixed run",
  .about = "Show what this build and machine have, and do a fixed short run, whose bits are the same on "
           "every processor "
           "with a fused multiply-add.",
  .more = "Exit status 1 when they are not.\n\n"
          "maxlogit doctor\nmaxlogit doctor --json",
  OPTIONS,
  .run = doctor,
};
