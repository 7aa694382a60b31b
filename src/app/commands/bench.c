/* bench.c - maxlogit bench: which bench is asked for, of which device */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "analysis/json.h"
#include "app/bench.h"
#include "app/command.h"
#include "base/file.h"
#include "base/memory.h"
#include "comm/comm.h"

struct options {
  struct request request;
  double seconds;
  long stack, quick, json, products, runs, costs;
  const char *against;
};

static const struct command_option options[] = {
  FLAG(quick, 'q', "only toy and small, a second a comparison"),
  CHOICE(stack, 's', bench_stack_names, NULL, "only this stack; large and tiny: on a GPU"),
  WHOLE(runs, 'r', "N", "256", 1, INT_MAX, "on a GPU: at most so many runs together"),
  FLAG(costs, 'c', "on a GPU: only attention by itself, and what maxima, recording and stabilizers cost"),
  DECIMAL(seconds, 't', "SECONDS", "0", 1e-3, HUGE_VAL, "for each comparison, without it 1.5"),
  FLAG(products, 'p',
       "only the stacks' matrix products, shape by shape: ours against OpenBLAS; and both ways of "
       "Newton-Schulz"),
  TEXT(against, 0, "FILE.json", NULL,
       "what an earlier bench --json has printed: how many times as fast steps are now"),
  FLAG(json, 'j', JSON_HELP),
  NO_OPTION,
};

static json_t *open_earlier(const char *path, struct error *e)
{
  json_error_t wrong;
  char *text;
  size_t length;
  if (file_read(path, &text, &length, e)) return NULL;
  json_t *all = json_loadb(text, length, JSON_REJECT_DUPLICATES, &wrong);
  memory_free(text);
  if (all && json_object_get(json_array_get(json_object_get(all, "stacks"), 0), "step_seconds")) return all;
  error_set(e, STATUS_USAGE, "bench --against=%s: %s", path,
            all ? "not what bench --json prints (no step_seconds)" : wrong.text);
  json_decref(all);
  return NULL;
}

static int bench(void *request, struct error *e)
{
  const struct options *r = request;
  struct comm *all = comm_world(e);
  if (!all) return e->status;
  const char *device = r->request.settings ? r->request.setting[r->request.settings - 1] : "device=cpu";
  int cuda = !strcmp(device, "device=cuda");
  if (!cuda && strcmp(device, "device=cpu") != 0)
    return error_set(e, STATUS_USAGE, "bench: %s: only device=cpu or device=cuda can be said here", device);
  if (!cuda && r->stack >= BENCH_ON_CPU)
    return error_set(e, STATUS_USAGE, "bench --stack=%s: of device=cuda alone", bench_stack_names[r->stack]);
  const double usual = r->quick ? 1 : cuda ? 2.5 : 1.5;
  struct bench b = {.stack = r->stack < 0 ? NULL : bench_stack_names[r->stack],
                    .seconds = r->seconds ? r->seconds / (cuda ? 2 : 1) : usual,
                    .quick = r->quick != 0,
                    .json = r->json != 0,
                    .most_runs = r->runs,
                    .costs = r->costs != 0,
                    .folder = "/tmp/maxlogit-bench-XXXXXX"};
  if (r->against && (cuda || r->products))
    return error_set(e, STATUS_USAGE, "bench --against: of steps on the processor alone");
  if (r->against && !(b.earlier = open_earlier(r->against, e))) return e->status;
  if (all->ranks > 1) {
    if (cuda || r->products || b.earlier)
      return error_set(e, STATUS_USAGE, "bench on %d ranks: of steps on the processor alone", all->ranks);
    return bench_ranks(&b, all, e);
  }
  if (!mkdtemp(b.folder)) return error_set(e, STATUS_FAIL, "no folder for the bench in /tmp");
  int status = (cuda ? bench_cuda : r->products ? bench_products : bench_steps)(&b, e);
  rmdir(b.folder);
  json_decref(b.earlier);
  return status;
}

const struct command command_bench = {
  .name = "bench",
  .arguments = "[device=cpu|cuda]",
  .help = "measure speed relative to the machine's limit",
  .about =
    "Speed of training steps as a fraction of this machine's own matrix product, and what every kind of "
    "recording costs. All stacks take about four minutes on two cores. --stack also measures the costs of "
    "recording for medium and vocabulary, whose steps take a second, and of experts for all but toy. Started "
    "on several ranks (mpirun -n 2 maxlogit bench), one run on all of them against one rank: speed, bytes a "
    "step over the wire against the least possible, share of messages; by micro-batches, with shared states, "
    "by the context.",
  .more = "maxlogit bench\nmaxlogit bench --stack=toy --seconds=2",
  OPTIONS,
  .once = "only device=cpu or device=cuda can be said here",
  .settings = 1,
  .run = bench,
};
