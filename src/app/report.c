#include "app/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/post_mortem.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/markup.h"
#include "base/memory.h"
#include "run/bits.h"
#include "run/outcome.h"
#include "storage/run_file.h"

struct run_report { /* the facts of the summary */
  struct progress progress;
  int quiet, seen; /* seen: a step at least */
  struct trainer_status status;
  double began, floor;
  real last_max;
  long last_at;
  char path[4096];
  int has_clip; /* QK-Clip is among its stabilizers */
  long heads;
  int ranks;
  struct rank_part part;
  double numbers, sent; /* that are trained; bytes that this rank has sent before */
};

static void tick(void *context, const struct trainer *t)
{
  struct run_report *w = context;
  const struct model_options *m = config_section(trainer_config(t), "model");
  w->status = trainer_status(t);
  w->seen = 1;
  w->last_at = outcome_largest(w->status.max_logit, model_blocks(m) * m->heads);
  w->last_max = w->status.max_logit[w->last_at];
  if (!w->quiet) progress_tick(&w->progress, t);
}

static void begin(struct run_report *w, struct trainer *t, int quiet)
{
  const struct model_options *m = config_section(trainer_config(t), "model");
  const struct top_options *top = config_section(trainer_config(t), "");
  const struct train_options *train = config_section(trainer_config(t), "train");
  *w = (struct run_report){.quiet = quiet,
                           .status = trainer_status(t),
                           .began = clock_seconds(),
                           .floor = trainer_loss_floor(t),
                           .heads = m->heads,
                           .has_clip = stack_has_clip(top->stabilizers)};
  w->status.loss = w->status.val_loss = NAN; /* none yet */
  w->ranks = trainer_ranks(t, NULL);
  w->part = trainer_part(t, 0);
  w->numbers = (double)trainer_model(t)->params.total;
  w->sent = comm_sent();
  snprintf(w->path, sizeof w->path, "%s", trainer_path(t));
  progress_init(&w->progress, t);
  if (quiet) return;
  int plain = !strcmp(m->ffn, "swiglu");
  message("%ld layer%s, width %ld, %ld head%s, context %ld (%s%s%s); %s, lr %g, stabilizers %s; %s",
          m->layers, text_s(m->layers), m->width, m->heads, text_s(m->heads), m->context, m->attention,
          plain ? "" : ", ", plain ? "" : m->ffn, top->optimizer, train->lr, top->stabilizers,
          trainer_data(t));
  if (w->status.done) message("goes on after step %ld of %ld", w->status.done, w->status.steps);
}

/* The least traffic: an all-reduce over R ranks sends 2 (R-1)/R of the sums from each rank (Patarasuk and Yuan 2009);
   statistics of passes and validation come on top. Sharded weights are sent twice per micro-batch and their gradients
   once, (R-1)/R each (ZeRO, arXiv 1910.02054 sec. 7.2.2). */
static void print_wire(const struct run_report *w)
{
  double least = 2 * (w->ranks - 1.0) / w->ranks * w->numbers * sizeof(real);
  double steps = (double)(w->status.done - w->progress.first_step);
  double sent = (comm_sent() - w->sent) / steps;
  if (w->ranks > 1 && steps > 0 && w->part.ranks > 1)
    printf("  ranks      %d, by %ld along the context; each sent %.4g kB a step; gradients want %.4g of them "
           "at least\n",
           w->ranks, w->part.ranks, sent / 1e3, least / 1e3);
  else if (w->ranks > 1 && steps > 0 && w->part.micro_stride > 1)
    printf(
      "  ranks      %d; each sent %.4g kB a step, %.3f times its share of weights, twice, and gradients, of "
      "%ld micro-batch%s\n",
      w->ranks, sent / 1e3, sent / (1.5 * least * (double)w->part.micro_batches), w->part.micro_batches,
      w->part.micro_batches == 1 ? "" : "es");
  else if (w->ranks > 1 && steps > 0)
    printf("  ranks      %d; each sent %.4g kB a step, %.3f times the least for the gradients\n", w->ranks,
           sent / 1e3, sent / least);
}

/* Did the run that has just ended fail? The state of one that blew up becomes "blown up". */
static int has_failed(struct run_report *w)
{
  struct run_file *run = NULL;
  struct error e = {0};
  if (strcmp(w->status.state, "finished") != 0) return !strcmp(w->status.state, "diverged");
  if (!w->seen || run_open(&run, w->path, &e)) return 0;
  int blew_up = run_blew_up(run);
  run_close(run);
  if (blew_up) w->status.state = "blown up";
  return blew_up || !isfinite(w->status.loss);
}

static void print_next(const struct run_report *w, int failed, const char *path)
{
  printf("try next\n");
  if (failed) printf("  maxlogit show --why %s\n", path);
  printf("  maxlogit plot %s\n", path);
  if (failed) return;
  printf("  maxlogit show %s%s\n", w->has_clip ? "--events " : "", path);
  if (!w->has_clip && w->status.peak.value > 30) printf("  maxlogit run preset=muonclip qk_clip.tau=30\n");
  printf("  maxlogit help\n");
}

static void summary(struct run_report *w, int status)
{
  double seconds = clock_seconds() - w->began;
  progress_end(&w->progress);
  if (w->quiet) return;
  int failed = has_failed(w);
  printf("%s after %ld step%s (%.1f s)\n", status == STATUS_STOPPED ? "stopped" : w->status.state,
         w->status.done, text_s(w->status.done), seconds);
  if (w->seen) {
    printf("  loss       train %.3f  validation %.3f", without_nan_sign(w->status.loss),
           without_nan_sign(w->status.val_loss));
    if (isfinite(w->floor)) printf("  (the source's entropy rate is %.3f)", w->floor);
    printf(" nat/token\n  max logit  last %.4g (layer %ld, head %ld)  peak %.4g at step %ld (layer %ld, head "
           "%ld)\n",
           without_nan_sign((double)w->last_max), w->last_at / w->heads, w->last_at % w->heads,
           without_nan_sign(w->status.peak.value), w->status.peak.step, w->status.peak.at / w->heads,
           w->status.peak.at % w->heads);
  }
  print_wire(w);
  struct buffer path = {0};
  shell_add(&path, w->path);
  printf("  record     %s\n", path.text);
  if (status == STATUS_STOPPED)
    printf("go on with\n  maxlogit resume %s\n", path.text);
  else
    print_next(w, failed, path.text);
  memory_free(path.text);
}

int use_ranks(struct error *e)
{
  struct comm *all = comm_world(e);
  if (all) trainer_use_ranks(all);
  return all ? STATUS_OK : e->status;
}

int report_drive(struct trainer *t, int quiet, struct error *e)
{
  int rank;
  trainer_ranks(t, &rank);
  struct run_report w;
  const struct train_options *train = config_section(trainer_config(t), "train");
  bits_warn(((const struct top_options *)config_section(trainer_config(t), ""))->device);
  int stops = 0;
  if (trainer_barrier(t, &stops, e)) {
    trainer_abandon(t);
    return e->status;
  }
  comm_tell();
  begin(&w, t, quiet || rank);
  int status = drive(t, train->max_time, tick, &w, e);
  if (status == STATUS_FAIL || status == STATUS_USAGE)
    progress_end(&w.progress);
  else
    summary(&w, status);
  return status;
}
