/* pairs.c - statistics of all pairs of positions: the share of large logits, and the factors of the largest. Enabled
   by record.level and record.pairs. */
#include <math.h>
#include "observe/observable.h"

/* Columns of attention_look and of its sums: shares times pairs, pairs, three numbers of the largest pair and its
   logit. */
enum { SHARE, PAIRS, OF_LARGEST, COLUMNS = 5, LARGEST = COLUMNS, SEEN };
enum { SHARE_ABOVE, PROBE_Q_NORM, PROBE_K_NORM, PROBE_COSINE };
static const struct series series[] = {
  [SHARE_ABOVE] =
    {"attn/share_above", PER_HEAD, AXIS_STEP, "1", "share of logits above the level",
     "share of the pairs of attn/max_logit whose logit is above record.level (large-logit ratio, "
     "arXiv 2502.16982 app. D)"},
  [PROBE_Q_NORM] =
    {"probe/q_norm", PER_HEAD, AXIS_PROBE, "1", "|q| at the max logit",
     "Euclidean norm of the query of the pair that has probe/max_logit, as it enters the "
     "product: probe/max_logit = scale q_norm k_norm cosine (under qk_norm.kind = l2 both are RMS-normed "
     "and scale is 1 over the head size)"},
  [PROBE_K_NORM] = {"probe/k_norm", PER_HEAD, AXIS_PROBE, "1", "|k| at the max logit",
                    "as probe/q_norm, of the key"},
  [PROBE_COSINE] = {"probe/cosine", PER_HEAD, AXIS_PROBE, "1", "cosine of q and k at the max logit",
                    "cosine of the angle between query and key of the pair that has probe/max_logit"},
  {0}};

struct pairs {
  struct tensor *seen;  /* [L*H,SEEN]; NULL: not recorded on this axis */
  struct tensor *level; /* [1] */
};

static int wanted(const struct observer *w, int i)
{
  return i == SHARE_ABOVE ? w->record->level > 0 : w->record->pairs != 0;
}

static void declare(struct observer *w)
{
  struct pairs *s = w->state;
  if (w->axis == AXIS_PROBE && !w->record->probe_every) return;
  s->seen = report_add(w->model->report, w->tally->stats->rows, SEEN, 0, "pairs");
  for (int i = OF_LARGEST; i < LARGEST; i++) report_column(w->model->report, s->seen, i, 0, LARGEST);
  report_column(w->model->report, s->seen, LARGEST, -INFINITY, MERGE_MAX);
  s->level = numbers_constant(w->model->numbers, w->record->level);
}

static void tap(struct observer *w, struct program *p, enum point point, int layer, const struct flow *f)
{
  const struct pairs *s = w->state;
  long heads = w->model->options.heads;
  if (point != POINT_SCORES || !s->seen) return;
  struct tensor *look = program_temporary(p, heads, COLUMNS, "look");
  PROGRAM_CALL(p, attention_look, .look = look, .q = f->q, .k = f->k, .start = f->start, .end = f->end,
               .level = s->level, .score = f->spec->score);
  struct tensor *seen = program_rows(p, s->seen, layer * heads, heads),
                *largest = program_view(p, seen, LARGEST, 1);
  PROGRAM_CALL(p, accumulate_pairs, .seen = program_view(p, seen, 0, COLUMNS), .look = look,
               .stats = f->stats, .largest = largest);
  PROGRAM_CALL(p, maximum, .y = largest, .x = program_view(p, f->stats, 0, 1));
}

static int read(struct observer *w, struct observation *rows, struct error *e)
{
  const struct pairs *s = w->state;
  (void)e;
  if (!s->seen) return STATUS_OK;
  const real *seen = report_of(rows->read, s->seen);
  struct series_row *share = &rows->row[SHARE_ABOVE];
  for (long i = 0; i < share->width; i++) {
    double pairs = (double)seen[i * SEEN + PAIRS];
    share->value[i] = pairs > 0 ? (float)((double)seen[i * SEEN + SHARE] / pairs) : 0;
  }
  for (int i = 0; i < 3; i++) observation_put(rows, PROBE_Q_NORM + i, seen + OF_LARGEST + i, SEEN);
  return STATUS_OK;
}

const struct observable observable_pairs = {
  .name = "pairs",
  .help = "share of logits above record.level; |q|, |k| and their cosine at the largest logit (record.pairs)",
  .flags = OBSERVABLE_DEFAULT,
  .series = series,
  .state_size = sizeof(struct pairs),
  .wanted = wanted,
  .declare = declare,
  .tap = tap,
  .read = read,
};
