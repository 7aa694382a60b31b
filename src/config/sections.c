/* config_sections.c - every section of the configuration: the core's rows and one section per plug-in */
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "model/model.h"
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
  TEXT_ROW(struct top_options, arm, "",
           "name of the [arm NAME] of the sweep file that this run belongs to: for --by arm",
           OPTION_FREE | OPTION_NUMBER),
  END_ROW};

static const char *const decay_kinds[] = {"scaled", "independent", NULL};
static const char *const on_nonfinite_kinds[] = {"stop", "continue", "fail", NULL};

#define T struct train_options
static const struct option_row train_rows[] = {
  INT_ROW(T, steps, "600", 0, 1e12, "steps", "updates in all", OPTION_EXTEND | OPTION_NUMBER),
  INT_ROW(T, batch, "8", 1, 1e6, "sequences", "sequences a step", 0),
  INT_ROW(T, micro_batches, "1", 1, 1e6, "1", "parts that a step's batch is computed in", 0),
  REAL_ROW(T, lr, "0.01", 0, 1e30, "1", "learning rate before schedule and warm-up", 0),
  INT_ROW(T, warmup, "50", 0, 1e12, "steps", "steps of linear warm-up", OPTION_NUMBER),
  TEXT_ROW(T, schedule, "constant", "factor on the learning rate: see `maxlogit list schedule`",
           OPTION_NUMBER),
  REAL_ROW(T, weight_decay, "0.1", 0, 1e6, "1", "decoupled decay of every matrix", 0),
  CHOICE_ROW(
    T, decay, "scaled", decay_kinds,
    "decay a step: the step's rate * weight_decay, or weight_decay times the schedule's and the warm-up's "
    "factor alone",
    0),
  BOOL_ROW(T, decay_gains, "0", "decay gains and biases too", 0),
  REAL_ROW(T, grad_clip, "0", 0, 1e30, "1", "bound on the gradient's norm over all tensors; 0: off",
           OPTION_OFF),
  INT_ROW(T, val_every, "100", 0, 1e12, "steps", "steps between validations; 0: only at the end", 0),
  INT_ROW(T, val_batches, "8", 1, 1e6, "batches", "fixed batches a validation", 0),
  INT_ROW(T, seed, "1", 0, 0x1p53, "1", "seed of everything random", OPTION_NUMBER),
  CHOICE_ROW(T, on_nonfinite, "stop", on_nonfinite_kinds,
             "when loss or gradient is not finite: stop (exit 0), continue, or fail (exit 3)", 0),
  REAL_ROW(T, spike, "8", 0, 1e30, "1",
           "a loss this many median deviations above the running median is an event; 0: off", 0),
  TEXT_ROW(T, init_from, "",
           "start from the weights of this checkpoint, or of this run's latest; of a folder (a sweep's) from "
           "those of the run there that has this run's seed; empty: draw them",
           OPTION_CONTENT | OPTION_NUMBER),
  TEXT_ROW(
    T, plant, "",
    "heads whose logits start FACTOR^2 times as large, by their rows of w_q and (not where it is shared) "
    "w_k: LAYER:HEAD:FACTOR, * for all; a norm of queries and keys undoes it",
    OPTION_LIST | OPTION_NUMBER),
  REAL_ROW(T, max_time, "0", 0, 1e12, "s", "stop after this time (exit 75), to be resumed; 0: no limit",
           OPTION_FREE),
  END_ROW};

#define K struct checkpoint_options
static const struct option_row checkpoint_rows[] = {
  INT_ROW(K, every, "0", 0, 1e12, "steps", "steps between checkpoints; 0: only by time and at a stop",
          OPTION_FREE | OPTION_NUMBER),
  REAL_ROW(K, seconds, "30", 0, 1e12, "s", "longest time between checkpoints; 0: off", OPTION_FREE),
  TEXT_ROW(K, keep, "2", "how many of the newest to keep, or all", OPTION_FREE | OPTION_NUMBER), END_ROW};

static const struct option_row device_rows[] = {
  INT_ROW(struct device_options, threads, "0", 0, 1024, "threads",
          "threads of a run, or of a launch; 0: all cores, and one a run in a sweep",
          OPTION_FREE | OPTION_NUMBER),
  CHOICE_ROW(
    struct device_options, math, "fp32", device_math_names,
    "what products, also attention's, round their inputs to; sums, and all else, stay in fp32. Other than "
    "fp32 for cuda alone",
    0),
  END_ROW};

static const char *const shard_kinds[] = {"none", "states", "weights", NULL};
static const struct option_row comm_rows[] = {
  INT_ROW(struct comm_options, ranks, "0", 0, 1e6, "ranks",
          "processes of those that a launcher (mpirun, srun) has started, for a run: 0: all there are, of a "
          "sweep one. By comm.context ranks each a power of two that divides "
          "train.micro_batches",
          OPTION_FREE | OPTION_NUMBER),
  INT_ROW(struct comm_options, context, "1", 1, 1024, "ranks",
          "ranks along the context: each has a part of every sequence, and keys and values go round; a power "
          "of two, "
          "twice which divides model.context. The other ranks divide train.micro_batches. Part of a run's "
          "id: losses "
          "and gradients are those of one rank to rounding",
          OPTION_LATER),
  CHOICE_ROW(
    struct comm_options, shard, "none", shard_kinds,
    "what ranks have but a part of: nothing; the optimisers' states, of which each rank then makes its "
    "part of the updates; or weights, gradients, updates and states, a layer's weights being "
    "gathered where they are used",
    OPTION_FREE | OPTION_NUMBER),
  REAL_ROW(struct comm_options, timeout, "600", 1, 1e6, "s",
           "a rank that does not answer for so long is lost, and the run ends: longer than any step, and "
           "than a checkpoint "
           "takes to be written",
           OPTION_FREE | OPTION_NUMBER),
  END_ROW};

static const struct option_row sweep_rows[] = {
  BOOL_ROW(
    struct sweep_options, drop_checkpoints, "0",
    "remove the checkpoints of a run that is done: it can no longer be extended, evaluated or started from, "
    "and rerun begins at its start",
    OPTION_FREE | OPTION_NUMBER),
  TEXT_ROW(struct sweep_options, dir, "", "folder of the runs; empty: runs/<name of the sweep file>",
           OPTION_FREE | OPTION_NUMBER),
  INT_ROW(struct sweep_options, jobs, "0", 0, 1024, "processes",
          "launches at a time (-j), each a process; 0: as many as the cores carry, on a GPU one",
          OPTION_FREE | OPTION_NUMBER),
  INT_ROW(
    struct sweep_options, together, "0", 0, 1024, "runs",
    "runs of one launch, which differ in numbers alone; 0: as many as pay: on the CPU one, on a GPU 128",
    OPTION_FREE | OPTION_NUMBER),
  END_ROW};

static const struct config_section core[] = {
  {"", "what is run", top_rows, sizeof(struct top_options), 0},
  {"model", "the stack", model_rows, sizeof(struct model_options), 0},
  {"precision", "rounding inside attention, emulated", precision_rows, sizeof(struct precision_options), 0},
  {"data", "where tokens come from", data_rows, sizeof(struct data_options), 0},
  {"train", "the training", train_rows, sizeof(struct train_options), 0},
  {"override", "settings of single tensors, by pattern", override_rows, sizeof(struct override_options), 0},
  {"record", "what is written", record_rows, sizeof(struct record_options), 0},
  {"checkpoint", "states to resume from", checkpoint_rows, sizeof(struct checkpoint_options), 0},
  {"device", "who computes", device_rows, sizeof(struct device_options), 0},
  {"comm", "many ranks", comm_rows, sizeof(struct comm_options), 0},
  {"sweep", "many runs", sweep_rows, sizeof(struct sweep_options), 0},
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
