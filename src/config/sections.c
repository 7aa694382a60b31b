/* sections.c - every section of the configuration: the core's rows and one section per plug-in */
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "model/options.h"
#include "config/config.h"
#include "config/plugin.h"
#include "training/data.h"
#include "training/optimizer.h"

/* `preset` comes first: in a written-out configuration the resolved keys follow it and count. */
static const struct option_row top_rows[] = {
  TEXT_ROW(struct top_options, preset, "", "a name for a few settings: see `maxlogit list preset`", 0),
  TEXT_ROW(struct top_options, optimizer, "muon", "see `maxlogit list optimizer`", 0),
  TEXT_ROW(struct top_options, stabilizers, "none", "in this order: see `maxlogit list stabilizer`",
           OPTION_LIST),
  TEXT_ROW(struct top_options, data, "markov", "source of the tokens: see `maxlogit list data`", 0),
  TEXT_ROW(struct top_options, device, "cpu", "cpu, cuda, or reference (plain loops, slow)", 0),
  TEXT_ROW(struct top_options, arm, "", "arm of a sweep file, set by [arm NAME]; groups runs with --by arm",
           OPTION_FREE | OPTION_NUMBER),
  END_ROW};

static const char *const decay_kinds[] = {"scaled", "independent", NULL};
static const char *const on_nonfinite_kinds[] = {"stop", "continue", "fail", NULL};

#define T struct train_options
static const struct option_row train_rows[] = {
  INT_ROW(T, steps, "600", 0, 1e12, "steps", "number of updates", OPTION_EXTEND | OPTION_NUMBER),
  INT_ROW(T, batch, "8", 1, 1e6, "sequences", "sequences per step", 0),
  INT_ROW(T, micro_batches, "1", 1, 1e6, "1", "micro-batches per step", 0),
  REAL_ROW(T, lr, "0.01", 0, 1e30, "1", "learning rate before schedule and warm-up", 0),
  INT_ROW(T, warmup, "50", 0, 1e12, "steps", "steps of linear warm-up", OPTION_NUMBER),
  TEXT_ROW(T, schedule, "constant", "learning rate schedule: see `maxlogit list schedule`", OPTION_NUMBER),
  REAL_ROW(T, weight_decay, "0.1", 0, 1e6, "1", "decoupled weight decay of every matrix", 0),
  CHOICE_ROW(T, decay, "scaled", decay_kinds,
             "decay per step: learning rate times weight_decay (scaled), or schedule factor times "
             "weight_decay (independent)",
             0),
  BOOL_ROW(T, decay_gains, "0", "also decay gains and biases", 0),
  BOOL_ROW(T, cautious_decay, "0", "do not decay a weight in a step that moves it away from 0", OPTION_LATER),
  REAL_ROW(T, grad_clip, "0", 0, 1e30, "1", "limit on the global gradient norm; 0: off", OPTION_OFF),
  INT_ROW(T, val_every, "100", 0, 1e12, "steps", "steps between validations; 0: only at the end", 0),
  INT_ROW(T, val_batches, "8", 1, 1e6, "batches", "fixed batches per validation", 0),
  INT_ROW(T, seed, "1", 0, 0x1p53, "1", "seed of everything random", OPTION_NUMBER),
  CHOICE_ROW(T, on_nonfinite, "stop", on_nonfinite_kinds,
             "action if loss or gradient is not finite: stop (exit 0), continue, or fail (exit 3)", 0),
  REAL_ROW(T, spike, "8", 0, 1e30, "1",
           "a loss is a spike if it is this many median absolute deviations above the running median; 0: off",
           0),
  TEXT_ROW(T, init_from, "",
           "checkpoint or run file with the initial weights, or a folder with one run per seed; empty: "
           "random weights",
           OPTION_CONTENT | OPTION_NUMBER),
  TEXT_ROW(T, plant, "",
           "LAYER:HEAD:FACTOR, * for all: multiply a head's rows of w_q, and of w_k unless keys are shared, "
           "so that its logits start FACTOR^2 times as large; QK-Norm cancels it",
           OPTION_LIST | OPTION_NUMBER),
  REAL_ROW(T, max_time, "0", 0, 1e12, "s", "time limit, then stop (exit 75; resume continues); 0: no limit",
           OPTION_FREE),
  END_ROW};

#define K struct checkpoint_options
static const struct option_row checkpoint_rows[] = {
  INT_ROW(K, every, "0", 0, 1e12, "steps", "steps between checkpoints; 0: only by time and at a stop",
          OPTION_FREE | OPTION_NUMBER),
  REAL_ROW(K, seconds, "30", 0, 1e12, "s", "longest time between checkpoints; 0: off", OPTION_FREE),
  TEXT_ROW(K, keep, "2", "number of latest checkpoints to keep, or all", OPTION_FREE | OPTION_NUMBER),
  END_ROW};

static const struct option_row device_rows[] = {
  INT_ROW(struct device_options, threads, "0", 0, 1024, "threads",
          "threads per run or batch of runs; 0: all cores; in a sweep one per run",
          OPTION_FREE | OPTION_NUMBER),
  CHOICE_ROW(struct device_options, math, "fp32", device_math_names,
             "input format of matrix products and attention; accumulation and everything else stay in fp32. "
             "tf32 and bf16 need device=cuda",
             0),
  END_ROW};

static const char *const shard_kinds[] = {"none", "states", "weights", NULL};
static const struct option_row comm_rows[] = {
  INT_ROW(struct comm_options, ranks, "0", 0, 1e6, "ranks",
          "MPI ranks per run; 0: all (in a sweep one). Ranks divided by comm.context must be a power of two "
          "that divides train.micro_batches",
          OPTION_FREE | OPTION_NUMBER),
  INT_ROW(struct comm_options, context, "1", 1, 1024, "ranks",
          "ranks along the context (ring attention); a power of two, twice which divides model.context. Part "
          "of the run's id: results equal those of one rank up to rounding",
          OPTION_LATER),
  CHOICE_ROW(struct comm_options, shard, "none", shard_kinds,
             "tensors that are sharded over the ranks: none; optimizer states (ZeRO-1); or weights, "
             "gradients and states (ZeRO-3)",
             OPTION_FREE | OPTION_NUMBER),
  REAL_ROW(struct comm_options, timeout, "600", 1, 1e6, "s",
           "seconds after which a silent rank counts as lost and the run ends; must exceed the time of a "
           "step and of a checkpoint",
           OPTION_FREE | OPTION_NUMBER),
  END_ROW};

static const struct option_row sweep_rows[] = {
  BOOL_ROW(
    struct sweep_options, drop_checkpoints, "0",
    "remove the checkpoints of finished runs; such runs cannot be extended, evaluated or used as a start",
    OPTION_FREE | OPTION_NUMBER),
  TEXT_ROW(struct sweep_options, dir, "", "folder of the runs; empty: runs/<name of the sweep file>",
           OPTION_FREE | OPTION_NUMBER),
  INT_ROW(struct sweep_options, jobs, "0", 0, 1024, "processes",
          "concurrent processes (-j); 0: one per core; on a GPU one", OPTION_FREE | OPTION_NUMBER),
  INT_ROW(struct sweep_options, together, "0", 0, 1024, "runs",
          "runs per process, which may differ only in scalar hyperparameters; 0: on the CPU 1, on a GPU 128",
          OPTION_FREE | OPTION_NUMBER),
  END_ROW};

static const struct config_section core[] = {
  {"", "the run", top_rows, sizeof(struct top_options), 0},
  {"model", "the model", model_rows, sizeof(struct model_options), 0},
  {"precision", "emulated rounding inside attention", precision_rows, sizeof(struct precision_options), 0},
  {"data", "the data", data_rows, sizeof(struct data_options), 0},
  {"train", "training", train_rows, sizeof(struct train_options), 0},
  {"override", "settings of single tensors, by name pattern", override_rows, sizeof(struct override_options),
   0},
  {"record", "recording", record_rows, sizeof(struct record_options), 0},
  {"checkpoint", "checkpoints", checkpoint_rows, sizeof(struct checkpoint_options), 0},
  {"device", "the device", device_rows, sizeof(struct device_options), 0},
  {"comm", "MPI ranks", comm_rows, sizeof(struct comm_options), 0},
  {"sweep", "sweeps", sweep_rows, sizeof(struct sweep_options), 0},
};

enum { CORE = sizeof core / sizeof *core, MOST = 256 };

const struct config_section *config_sections(void)
{
  static struct config_section table[MOST];
  if (table[0].rows) return table;
  size_t count = CORE;
  for (const struct plugin *p = plugin_table(); p->kind; p++) {
    if (!p->options) continue;
    for (size_t i = 0; i < count; i++)
      if (!strcmp(i < CORE ? core[i].prefix : table[i].prefix, p->name)) BUG("two sections [%s]", p->name);
    REQUIRE(count < MOST - 1);
    table[count++] = (struct config_section){p->name, p->help, p->options, p->options_size, 1};
  }
  memcpy(table, core, sizeof core);
  return table;
}
