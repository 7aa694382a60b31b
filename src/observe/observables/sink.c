/* sink.c - the attention weight of the first position (attention sinks, arXiv 2309.17453), and its share of the
   values
   One more pass of attention, with values that measure: with columns 1, |v| and 1 where the position is the first of
   its document, o is the weight on it, the weight times |v|, and the sum of all weights times |v|. */
#include "observe/observable.h"

enum { MASS, VALUE_SHARE };
static const struct series series[] = {
  [MASS] =
    {"sink/mass", PER_HEAD, AXIS_STEP, "1", "attention on the first position",
     "mean over the step's queries of the attention weight on the first position of the query's document; "
     "the first query's own is 1, less what learned_sink takes; pointwise, sigmoid and softpick: its weight, "
     "whatever they sum up to"},
  [VALUE_SHARE] =
    {"sink/value_share", PER_HEAD, AXIS_STEP, "1", "share of the first position in what is attended",
     "sum over the step's queries of the weight on the first position times the norm of its value, "
     "over the same sum for all positions"},
  {0}};

/* Columns of the values, and of the sums. */
enum { FIRST, FIRST_NORM, NORM, COLUMNS };

struct sink {
  struct tensor *seen; /* [L,H*COLUMNS]: means over queries */
  struct tensor *zero, *edge;
  struct program *program; /* that is being recorded; of it: */
  struct tensor *first;    /* [N,1]: 1 where a document begins */
};

static void declare(struct observer *w)
{
  struct sink *s = w->state;
  const struct model_options *o = &w->model->options;
  s->seen = report_add(w->model->report, model_blocks(o), o->heads * COLUMNS, 0, "sink");
  s->zero = numbers_constant(w->model->numbers, 0);
  s->edge = numbers_constant(w->model->numbers, -0.5);
}

/* Where document = position: document - position, which is never above 0, is above -1/2. */
static struct tensor *firsts(const struct sink *s, struct program *p, const struct flow *f, long context)
{
  double *place = program_memory(p, (size_t)context, sizeof *place);
  for (long i = 0; i < context; i++) place[i] = (double)i;
  struct tensor *table = program_reals(p, context, 1, place, "places");
  struct tensor *start = program_temporary(p, f->document->rows, 1, "start"),
                *at = program_temporary(p, f->document->rows, 1, "position"),
                *first = program_temporary(p, f->document->rows, 1, "first positions");
  PROGRAM_CALL(p, embed_forward, .y = start, .tokens = f->document, .w = table);
  PROGRAM_CALL(p, embed_forward, .y = at, .tokens = f->position, .w = table);
  PROGRAM_CALL(p, axpby, .y = start, .x = at, .alpha = -1, .beta = 1);
  PROGRAM_CALL(p, greater_than, .y = first, .x = start, .limit = s->edge);
  return first;
}

static struct tensor *join(struct program *p, struct tensor *a, struct tensor *b, long heads)
{
  struct tensor *y = program_temporary(p, a->rows, a->cols + b->cols, "values that count");
  PROGRAM_CALL(p, join_heads, .y = y, .a = a, .b = b, .heads = heads);
  return y;
}

static void tap(struct observer *w, struct program *p, enum point point, int layer, const struct flow *f)
{
  struct sink *s = w->state;
  if (point != POINT_SCORES) return;
  if (s->program != p) s->first = firsts(s, p, f, w->model->options.context), s->program = p;
  long n = f->q->rows, heads = f->spec->score.heads, groups = f->spec->score.groups;
  /* |v| but for the root of its length */
  struct tensor *norm = op_inverse_rms(p, f->v, f->v->cols / groups, s->zero);
  PROGRAM_CALL(p, power, .y = norm, .exponent = -1);
  struct tensor *first = program_temporary(p, n, groups, "first"),
                *both = program_temporary(p, n, groups, "first |v|");
  for (long g = 0; g < groups; g++) PROGRAM_CALL(p, copy, .y = program_view(p, first, g, 1), .x = s->first);
  PROGRAM_CALL(p, copy, .y = both, .x = norm);
  PROGRAM_CALL(p, multiply, .y = both, .x = first);
  struct tensor *v = join(p, join(p, first, both, groups), norm, groups);
  struct tensor *o = program_temporary(p, n, heads * COLUMNS, "sink"),
                *sum = program_temporary(p, 1, o->cols, "sink");
  op_attention_again(p, o, f->q, f->k, v, f->start, f->end, f->spec);
  PROGRAM_CALL(p, sum_rows, .y = sum, .x = o);
  PROGRAM_CALL(p, axpby, .y = program_rows(p, s->seen, layer, 1), .x = sum, .alpha = f->share / (double)n,
               .beta = 1);
}

static int read(struct observer *w, struct observation *r, struct error *e)
{
  const struct sink *s = w->state;
  const real *seen = report_of(r->read, s->seen);
  (void)e;
  observation_put(r, MASS, seen + FIRST, COLUMNS);
  for (long i = 0; i < r->row[VALUE_SHARE].width; i++, seen += COLUMNS)
    r->row[VALUE_SHARE].value[i] = (float)((double)seen[FIRST_NORM] / (double)seen[NORM]);
  return STATUS_OK;
}

const struct observable observable_sink = {
  .name = "sink",
  .help = "attention to the first position, and its share in the output; by name only",
  .flags = OBSERVABLE_WHOLE,
  .series = series,
  .state_size = sizeof(struct sink),
  .declare = declare,
  .tap = tap,
  .read = read,
};
