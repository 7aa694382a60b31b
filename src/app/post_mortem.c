#include "app/post_mortem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/summary.h"
#include "base/elementary.h"
#include "base/markup.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "storage/layout.h"

enum { AFTER = 2, MOST_HEADS = 16, SERIES_THAT_GROW = 5 };
static const char *const growing[SERIES_THAT_GROW] = {"attn/max_logit", "head_q/spectral_norm",
                                                      "head_k/spectral_norm", "head_qk/spectral_norm",
                                                      "weight/spectral_norm"};

/* --- looking ------------------------------------------------------------------------------------------- */

struct looking {
  const struct run *run;
  struct run_series loss, grad_norm, logit; /* no rows where there is none */
};

static int read_series(const struct run *run, const char *name, struct run_series *s, struct error *error)
{
  *s = (struct run_series){.rows = 0};
  return run_rows(run->file, name) ? run_read(run->file, name, s, error) : STATUS_OK;
}

static long row_of(const struct run_series *s, double step)
{
  for (long row = s->rows - 1; row >= 0; row--)
    if (s->step[row] == step) return row;
  return -1;
}

static double value_at(const struct run_series *s, double step)
{
  long row = row_of(s, step);
  double out = missing_value();
  for (long i = 0; row >= 0 && i < s->width; i++) out = max_known(out, s->value[row * s->width + i]);
  return out;
}

/* The place of the largest value of a step, "L1H2"; "" without heads. */
static void place_at(const struct run_series *s, double step, char out[32])
{
  long row = row_of(s, step);
  struct place largest = {.layer = -1, .head = -1}, last;
  if (row >= 0 && s->shape == PER_HEAD) {
    struct run_series one = *s;
    one.rows = 1, one.step += row, one.value += row * s->width;
    summary_places_of(&one, &largest, &last);
  }
  summary_place(&largest, out);
}

static int has_part(const char *stack, const char *name)
{
  const char *at = strstr(stack, name);
  return at && (at == stack || at[-1] == '+');
}

int stack_has_clip(const char *stack) { return has_part(stack, "qk_clip") || has_part(stack, "bound_clip"); }

/* The step of the first max logit above the level, in a run without a clip, which holds them near its threshold. */
static void see_explosion(struct post_mortem *p, const struct looking *l)
{
  const struct run_series *s = &l->logit;
  const char *stack = run_parameter(l->run->file, "stabilizers");
  if (p->clips && stack && stack_has_clip(stack)) return;
  for (long i = 0; i < s->rows * s->width && !p->exploded; i++)
    if (s->value[i] > POST_MORTEM_EXPLODED) p->exploded = 1, p->step = s->step[i / s->width];
}

static void see_nonfinite(struct post_mortem *p, const struct run_series *s)
{
  for (long i = 0; i < s->rows * s->width; i++) {
    double x = s->value[i], step = s->step[i / s->width];
    if (isfinite(x) || is_missing(x)) continue;
    if (!p->is_nonfinite || step < p->step) p->step = step;
    p->is_nonfinite = 1;
    return;
  }
}

static int by_place(const void *a, const void *b)
{
  const struct head_place *x = a, *y = b;
  if (x->layer != y->layer) return (x->layer > y->layer) - (x->layer < y->layer);
  return (x->head > y->head) - (x->head < y->head);
}

/* Sort heads and keep one of each; returns their number. */
static long keep_distinct(struct head_place *head, long count)
{
  long kept = 0;
  qsort(head, (size_t)count, sizeof *head, by_place);
  for (long i = 0; i < count; i++)
    if (!kept || by_place(&head[kept - 1], &head[i])) head[kept++] = head[i];
  return kept;
}

static void see_events(struct post_mortem *p, const struct run_event *event, long count)
{
  struct head_place *clipped = memory_new((size_t)count + 1, sizeof *clipped);
  for (long i = 0; i < count; i++) {
    const struct run_event *x = &event[i];
    p->spikes += !strcmp(x->kind, "spike");
    if (!strcmp(x->kind, "clip")) {
      if (!p->clips++) p->first_clip = x->step;
      p->last_clip = x->step;
      clipped[p->clips - 1] = (struct head_place){x->layer, x->head};
    }
    if (strcmp(x->kind, "nonfinite") != 0) continue;
    if (!p->is_nonfinite || (double)x->step < p->step) p->step = (double)x->step;
    p->is_nonfinite = 1;
  }
  p->clipped_heads = keep_distinct(clipped, p->clips);
  memory_free(clipped);
}

/* All heads that were not finite at the step: those of events, and of the max logits. */
static void find_heads(struct post_mortem *p, const struct looking *l, const struct run_event *event,
                       long count)
{
  const struct run_series *s = &l->logit;
  long row = row_of(s, p->step), found = 0;
  p->head = memory_new((size_t)(count + s->width) + 1, sizeof *p->head);
  for (long i = 0; i < count; i++)
    if (!strcmp(event[i].kind, "nonfinite") && (double)event[i].step == p->step && event[i].layer >= 0)
      p->head[found++] = (struct head_place){event[i].layer, event[i].head};
  for (long i = 0; row >= 0 && i < s->width && s->shape == PER_HEAD; i++) {
    double x = s->value[row * s->width + i];
    if (!isfinite(x) && !is_missing(x))
      p->head[found++] = (struct head_place){(int)(i / s->heads), (int)(i % s->heads)};
  }
  p->heads = keep_distinct(p->head, found);
}

/* The row after the last one whose loss was below the first loss and below that of a uniform guess. */
static long where_it_left(const struct run_series *loss, double vocab)
{
  double limit = vocab > 1 ? fmin(loss->value[0], same_log(vocab)) : loss->value[0];
  long row = loss->rows - 1;
  while (row > 0 && loss->value[row - 1] > limit) row--;
  return row ? row : 1;
}

static void take_rows(struct post_mortem *p, const struct looking *l)
{
  const struct run_series *s = p->exploded ? &l->logit : &l->loss;
  long end = 0;
  while (end < s->rows && s->step[end] <= p->step) end++;
  if (!p->is_nonfinite) end = end + AFTER < s->rows ? end + AFTER : s->rows;
  for (long row = end > POST_MORTEM_ROWS ? end - POST_MORTEM_ROWS : 0; row < end; row++) {
    struct post_mortem_row *r = &p->row[p->rows++];
    *r =
      (struct post_mortem_row){s->step[row], value_at(&l->loss, s->step[row]),
                               value_at(&l->grad_norm, s->step[row]), value_at(&l->logit, s->step[row]), ""};
    place_at(&l->logit, r->step, r->place);
  }
}

static double ratio_of(const struct post_mortem_growth *g) { return g->value[1] / g->value[0]; }

static int by_growth(const void *a, const void *b)
{
  double x = ratio_of(a), y = ratio_of(b);
  return (x < y) - (x > y);
}

/* The column that grew most from its first row to its last finite one, of a failure up to its step. */
static void see_growth(struct post_mortem *p, const struct run_series *s)
{
  struct post_mortem_growth most = {.value = {1, 1}};
  for (long i = 0; s->rows && i < s->width; i++) {
    struct post_mortem_growth g = {.step = {s->step[0], s->step[0]}, .value = {s->value[i], s->value[i]}};
    for (long row = 1; row < s->rows && !(p->is_nonfinite && s->step[row] > p->step); row++) {
      double x = s->value[row * s->width + i];
      if (isfinite(x)) g.step[1] = s->step[row], g.value[1] = x;
    }
    if (!(g.value[0] > 0) || !isfinite(g.value[0]) || !(ratio_of(&g) > ratio_of(&most))) continue;
    most = g;
    snprintf(most.series, sizeof most.series, "%s", s->name);
    if (s->shape == PER_HEAD)
      snprintf(most.place, sizeof most.place, "L%ldH%ld", i / s->heads, i % s->heads);
    else
      series_value_name(s, i, most.place, sizeof most.place);
  }
  if (*most.series) p->growth[p->growths++] = most;
}

static int find_growth(struct post_mortem *p, const struct run *run, struct error *error)
{
  int status = STATUS_OK;
  p->growth = memory_new(SERIES_THAT_GROW, sizeof *p->growth);
  for (int i = 0; i < SERIES_THAT_GROW && !status; i++) {
    struct run_series s;
    status = read_series(run, growing[i], &s, error);
    if (status) break;
    see_growth(p, &s);
    run_series_free(&s);
  }
  qsort(p->growth, (size_t)p->growths, sizeof *p->growth, by_growth);
  return status;
}

/* --- hints --------------------------------------------------------------------------------------------- */

static void add_hint(struct post_mortem *p, struct buffer *b)
{
  p->hint = memory_grow(p->hint, (size_t)p->hints, (size_t)p->hints + 1, sizeof *p->hint);
  p->hint[p->hints++] = b->text;
  *b = (struct buffer){0};
}

/* A third of the learning rate, a clip, and a rerun that records more. */
static void find_hints(struct post_mortem *p, const struct run *run)
{
  struct buffer b = {0};
  const char *stack = run_parameter(run->file, "stabilizers"),
             *again = "maxlogit run again.conf record.path=";
  double lr = run_number(run, "train.lr", NAN);
  if (!strcmp(run_data(run->file), DATA_RECORDED)) return; /* another program trains it */
  buffer_add(&b, "maxlogit show --parameters ");
  shell_add(&b, run->path);
  buffer_add(&b, " > again.conf");
  add_hint(p, &b);
  if (lr > 0) {
    buffer_add(&b, "%s train.lr=%.4g", again, lr / 3);
    add_hint(p, &b);
  }
  if (p->peak > 30 && stack && !stack_has_clip(stack)) {
    struct buffer word = {0};
    buffer_add(&word, "stabilizers=%s%sqk_clip", strcmp(stack, "none") ? stack : "",
               strcmp(stack, "none") ? "+" : "");
    buffer_add(&b, "%s ", again);
    shell_add(&b, word.text);
    buffer_add(&b, " qk_clip.tau=30");
    memory_free(word.text);
    add_hint(p, &b);
  }
  if (run_number(run, "train.grad_clip", NAN) == 0) {
    buffer_add(&b, "%s train.grad_clip=1", again);
    add_hint(p, &b);
  }
  long every = run_last_step(run->file) / 200 + 1;
  double spectra = run_number(run, "record.spectra_every", NAN),
         probe = run_number(run, "record.probe_every", NAN);
  if (spectra > (double)every || spectra == 0 || probe == 0) {
    buffer_add(&b, "maxlogit rerun ");
    shell_add(&b, run->path);
    buffer_add(&b, " record.spectra_every=%ld", every);
    if (probe == 0) buffer_add(&b, " record.probe_every=%ld", every);
    add_hint(p, &b);
  }
}

int post_mortem_of(struct post_mortem *p, const struct run *run, struct error *error)
{
  struct looking l = {.run = run};
  struct run_event *event = NULL;
  long count = 0;
  *p = (struct post_mortem){.step = NAN, .first_loss = NAN, .last_loss = NAN, .peak = NAN};
  int status = run_events(run->file, &event, &count, error);
  if (!status) status = read_series(run, "loss", &l.loss, error);
  if (l.loss.rows && l.loss.width != 1) run_series_free(&l.loss);
  if (!status) status = read_series(run, "grad_norm", &l.grad_norm, error);
  if (!status) status = read_series(run, "attn/max_logit", &l.logit, error);
  if (!status) {
    see_events(p, event, count);
    see_nonfinite(p, &l.loss), see_nonfinite(p, &l.grad_norm), see_nonfinite(p, &l.logit);
    if (l.loss.rows) {
      p->first_step = l.loss.step[0], p->first_loss = l.loss.value[0];
      p->last_loss = l.loss.value[l.loss.rows - 1];
    }
    p->blew_up = !p->is_nonfinite && l.loss.rows && run_blew_up(run->file);
    if (p->is_nonfinite) find_heads(p, &l, event, count);
    if (p->blew_up) p->step = l.loss.step[where_it_left(&l.loss, run_number(run, "model.vocab", NAN))];
    if (!p->is_nonfinite && !p->blew_up) see_explosion(p, &l);
    p->loss = value_at(&l.loss, p->step), p->grad_norm = value_at(&l.grad_norm, p->step);
    for (long i = 0; i < l.logit.rows * l.logit.width; i++)
      if (isfinite(l.logit.value[i]) && !(l.logit.value[i] <= p->peak)) p->peak = l.logit.value[i];
    if (p->is_nonfinite || p->blew_up || p->exploded) {
      take_rows(p, &l);
      status = find_growth(p, run, error);
      find_hints(p, run);
    }
  }
  run_series_free(&l.loss);
  run_series_free(&l.grad_norm);
  run_series_free(&l.logit);
  memory_free(event);
  if (status) post_mortem_free(p);
  return status;
}

void post_mortem_free(struct post_mortem *p)
{
  for (int i = 0; i < p->hints; i++) memory_free(p->hint[i]);
  memory_free(p->hint);
  memory_free(p->head);
  memory_free(p->growth);
  *p = (struct post_mortem){0};
}

/* --- text ---------------------------------------------------------------------------------------------- */

static const char *number(double x, char out[32])
{
  snprintf(out, 32, "%.4g", x);
  if (!isfinite(x)) snprintf(out, 32, is_missing(x) ? "-" : isnan(x) ? "NaN" : x > 0 ? "Inf" : "-Inf");
  return out;
}

static void print_healthy(const struct post_mortem *p, const struct run *run)
{
  char first[32], last[32];
  int over = !strcmp(run_state(run->file), "finished");
  printf("%s: %s: %s after %ld step%s, every loss, gradient norm and max logit is finite", run->shown,
         p->exploded ? "logits exploded" : "nothing failed", run_state(run->file), run_last_step(run->file),
         text_s(run_last_step(run->file)));
  if (!isnan(p->first_loss))
    printf(", loss %s (at step %.0f: %s)", number(p->last_loss, last), p->first_step,
           number(p->first_loss, first));
  if (p->spikes) printf(", %ld loss spike%s", p->spikes, text_s(p->spikes));
  printf(over ? ".\n" : " so far.\n");
}

static void print_first_nonfinite(const struct post_mortem *p)
{
  char text[32];
  printf("  first non-finite  step %.0f:", p->step);
  const char *between = " ";
  if (!isfinite(p->loss) && !is_missing(p->loss)) {
    printf(" loss %s", number(p->loss, text));
    between = ", ";
  }
  if (!isfinite(p->grad_norm) && !is_missing(p->grad_norm)) {
    printf("%sgradient norm %s", between, number(p->grad_norm, text));
    between = ", ";
  }
  if (p->heads) printf("%slogits of %ld head%s:", between, p->heads, text_s(p->heads));
  for (long i = 0; i < p->heads && i < MOST_HEADS; i++) {
    printf(" L%d", p->head[i].layer);
    if (p->head[i].head >= 0) printf("H%d", p->head[i].head);
  }
  if (p->heads > MOST_HEADS) printf(" ...");
  printf(p->heads ? "\n" : "; the logits of every head are finite\n");
}

static void print_rows(const struct post_mortem *p)
{
  int has_heads = 0;
  for (int i = 0; i < p->rows; i++) has_heads |= *p->row[i].place;
  printf("  %-17s %8s %12s %14s %12s%s\n", p->is_nonfinite ? "steps up to it" : "steps around it", "step",
         "loss", "gradient norm", "max logit", has_heads ? "  head" : "");
  for (int i = 0; i < p->rows; i++) {
    char text[3][32];
    const struct post_mortem_row *r = &p->row[i];
    printf("  %17s %8.0f %12s %14s %12s%s%s\n", "", r->step, number(r->loss, text[0]),
           number(r->grad_norm, text[1]), number(r->max_logit, text[2]), *r->place ? "  " : "", r->place);
  }
}

static void print_failure(const struct post_mortem *p, const struct run *run)
{
  char first[32], last[32];
  printf("%s: %s after %ld of %.0f steps; %s, stabilizers %s, lr %s\n", run->shown,
         run_shown_state(run->file), run_last_step(run->file),
         run_number(run, "train.steps", (double)run_last_step(run->file)), run->kind,
         run_parameter(run->file, "stabilizers") ? run_parameter(run->file, "stabilizers") : "unknown",
         number(run_number(run, "train.lr", missing_value()), first));
  if (p->is_nonfinite)
    print_first_nonfinite(p);
  else
    printf("  loss rose         for good at step %.0f; it began at %s and ended at %s, and every value is "
           "finite\n",
           p->step, number(p->first_loss, first), number(p->last_loss, last));
}

void post_mortem_print(const struct post_mortem *p, const struct run *run)
{
  char first[32], last[32];
  if (!p->is_nonfinite && !p->blew_up) print_healthy(p, run);
  if (p->exploded)
    printf("  max logit         above %g for the first time at step %.0f; the largest is %s\n",
           POST_MORTEM_EXPLODED, p->step, number(p->peak, first));
  else if (p->is_nonfinite || p->blew_up)
    print_failure(p, run);
  else
    return;
  print_rows(p);
  for (int i = 0; i < p->growths; i++) {
    const struct post_mortem_growth *g = &p->growth[i];
    char factor[32];
    printf("  %-17s %-22s %-18s %s at step %.0f, %s at step %.0f: times %s\n", i ? "" : "grew most",
           g->series, g->place, number(g->value[0], first), g->step[0], number(g->value[1], last), g->step[1],
           number(ratio_of(g), factor));
  }
  if (p->clips)
    printf("  clips             %ld, of %ld head%s, from step %ld to step %ld\n", p->clips, p->clipped_heads,
           text_s(p->clipped_heads), p->first_clip, p->last_clip);
  else
    printf("  clips             none\n");
  for (int i = 0; i < p->hints; i++) printf("  %-17s %s\n", i ? "" : "try", p->hint[i]);
  if (!p->hints)
    printf("  try               a third of the learning rate, a clip of logits or of the gradient\n");
}

/* --- JSON ---------------------------------------------------------------------------------------------- */

static json_t *value_json(double x) { return json_known(!is_missing(x), x); }

json_t *post_mortem_json(const struct post_mortem *p)
{
  json_t *heads = json_array(), *rows = json_array(), *growth = json_array(), *hints = json_array();
  int failed = p->is_nonfinite || p->blew_up || p->exploded;
  for (long i = 0; i < p->heads; i++)
    json_array_append_new(heads,
                          json_pack("{s:i, s:o}", "layer", p->head[i].layer, "head",
                                    p->head[i].head < 0 ? json_null() : json_integer(p->head[i].head)));
  for (int i = 0; i < p->rows; i++)
    json_array_append_new(rows,
                          json_pack("{s:o, s:o, s:o, s:o, s:s}", "step", json_number(p->row[i].step), "loss",
                                    value_json(p->row[i].loss), "grad_norm", value_json(p->row[i].grad_norm),
                                    "max_logit", value_json(p->row[i].max_logit), "head", p->row[i].place));
  for (int i = 0; i < p->growths; i++) {
    const struct post_mortem_growth *g = &p->growth[i];
    json_array_append_new(growth, json_pack("{s:o, s:o, s:[o, o], s:[o, o]}", "series", json_text(g->series),
                                            "place", json_text(g->place), "steps", json_number(g->step[0]),
                                            json_number(g->step[1]), "values", json_number(g->value[0]),
                                            json_number(g->value[1])));
  }
  for (int i = 0; i < p->hints; i++) json_array_append_new(hints, json_text(p->hint[i]));
  return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "what",
                   p->is_nonfinite ? "not finite"
                   : p->blew_up    ? "blown up"
                   : p->exploded   ? "logits exploded"
                                   : "nothing failed",
                   "step", json_known(failed, p->step), "loss",
                   json_known(failed && !is_missing(p->loss), p->loss), "grad_norm",
                   json_known(failed && !is_missing(p->grad_norm), p->grad_norm), "heads", heads, "rows",
                   rows, "growth", growth, "clips", (json_int_t)p->clips, "try", hints);
}
