/* router.c - statistics of the routers' choices of experts */
#include <math.h>
#include "observe/observable.h"

enum { LOAD, BIAS, MAX_VIO, ENTROPY, LARGEST, MOVED, BALANCE };
static const struct series series[] = {
  [LOAD] = {"moe/load", PER_EXPERT, AXIS_STEP, "1", "load of the expert",
            "share of the step's choices (moe.active for every token, shared experts apart) that went to the "
            "expert, "
            "over all micro-batches; NaN in dense layers, as all moe/ series are"},
  [BIAS] = {"moe/bias", PER_EXPERT, AXIS_STEP, "1", "router bias",
            "what was added to the expert's score in the step's choices: before the step's update"},
  [MAX_VIO] = {"moe/max_vio", PER_LAYER, AXIS_STEP, "1", "MaxVio",
               "(largest load - mean load) / mean load of the step's batch (arXiv 2408.15664 eq. 4)"},
  [ENTROPY] = {"moe/entropy", PER_LAYER, AXIS_STEP, "nat", "router entropy",
               "mean over tokens of the entropy of the scores over their sum"},
  [LARGEST] = {"moe/max_abs_logit", PER_LAYER, AXIS_STEP, "nat", "max |router logit|",
               "largest absolute value of the router's logits over tokens and experts"},
  [MOVED] = {"moe/moved", PER_LAYER, AXIS_STEP, "1", "share of tokens moved by the bias",
             "share of the step's tokens that would have chosen another set of experts without the bias"},
  [BALANCE] = {"moe/balance_loss", PER_LAYER, AXIS_STEP, "nat", "balance loss",
               "the loss of balance by sequence, moe.aux included; not part of loss"},
  {0}};

static int wanted(const struct observer *w, int i)
{
  struct router any = {0};
  for (int l = 0; l < model_blocks(&w->model->options) && !any.experts; l++) any = model_router(w->model, l);
  return i == BIAS || i == MOVED ? any.has_bias : i == BALANCE ? any.has_loss : any.experts > 0;
}

static void put(struct observation *rows, int i, long place, double value)
{
  if (rows->row[i].width) rows->row[i].value[place] = (float)value;
}

/* One row of the tally's routes: E counts | entropy | moved | loss | largest. The counts sum to the tokens times the
   active experts per token. */
static void read_layer(const struct model *m, struct observation *rows, int layer, const real *row,
                       const real *bias)
{
  struct router r = model_router(m, layer);
  double all = 0, most = 0;
  for (long e = 0; e < r.experts; e++) {
    all += (double)row[e];
    if (!((double)row[e] <= most)) most = (double)row[e];
  }
  double tokens = all / (double)r.active;
  for (long e = 0; e < r.experts; e++) {
    put(rows, LOAD, layer * m->experts + e, (double)row[e] / all);
    put(rows, BIAS, layer * m->experts + e, (double)bias[e]);
  }
  put(rows, MAX_VIO, layer, most * (double)r.experts / all - 1);
  put(rows, ENTROPY, layer, (double)row[m->experts] / tokens);
  put(rows, MOVED, layer, (double)row[m->experts + 1] / tokens);
  put(rows, BALANCE, layer, (double)row[m->experts + 2]);
  put(rows, LARGEST, layer, (double)row[m->experts + 3]);
}

static int read(struct observer *w, struct observation *rows, struct error *e)
{
  const struct tally *t = w->tally;
  (void)e;
  for (int l = 0; l < model_blocks(&w->model->options); l++)
    if (model_router(w->model, l).experts)
      read_layer(w->model, rows, l, report_of(rows->read, t->routes) + l * t->routes->cols,
                 report_of(rows->read, t->biases) + l * t->biases->cols);
  return STATUS_OK;
}

const struct observable observable_router = {
  .name = "router",
  .help = "loads, entropies, logits and biases of expert routers (with model.ffn=moe)",
  .flags = OBSERVABLE_DEFAULT,
  .series = series,
  .wanted = wanted,
  .read = read,
};
