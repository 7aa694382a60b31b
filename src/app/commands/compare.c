/* compare.c - two arms, paired over seeds: effect, interval, verdict */
#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/json.h"
#include "analysis/pairs.h"
#include "app/arms.h"
#include "app/command.h"
#include "app/report.h"
#include "app/selection.h"
#include "base/memory.h"
#include "base/text.h"

struct arm {
  const char *name;
  struct runset set;
  struct measured *value;
};
/* One metric, over the pairs [first, first + count) that have the same values of --by. */
struct line {
  int metric, first, count;
  struct comparison c;
};
struct compare_request {
  struct chosen chosen;
  struct arm_words words;
  int json;
  const char *of;
  enum contrast contrast;
  double margin;
  struct arm arm[2];
  struct metric *metric;
  int metrics;
  struct pair *pair;
  int pairs;
  struct line *line;
  int lines, tests; /* those of them that have a p */
};

/* --- comparing ------------------------------------------------------------------------------------------ */

static int open_arm(struct compare_request *r, int i, struct error *error)
{
  struct arm *arm = &r->arm[i];
  int status = arm_select(&arm->set, &arm->name, &r->chosen.selection, &r->words, i, error);
  if (status) return status;
  status = metrics_of(r->metric, r->metrics, &arm->set, &arm->value, error);
  return status ? error_prefix(error, "%s", i ? "B" : "A") : STATUS_OK;
}

static void correct(struct compare_request *r)
{
  double *p = memory_new((size_t)r->lines + 1, sizeof *p);
  for (int i = 0; i < r->lines; i++) p[i] = r->line[i].c.p;
  r->tests = holm(p, r->lines);
  for (int i = 0; i < r->lines; i++) r->line[i].c.holm = p[i];
  memory_free(p);
}

static void compare_lines(struct compare_request *r)
{
  struct arm_values a = {&r->arm[0].set, r->metric, r->arm[0].value, r->metrics},
                    b = {&r->arm[1].set, r->metric, r->arm[1].value, r->metrics};
  const char *by = r->chosen.selection.by;
  r->line = memory_new((size_t)r->pairs * (size_t)r->metrics + 1, sizeof *r->line);
  for (int k = 0; k < r->metrics; k++)
    for (int first = 0, end; first < r->pairs; first = end) {
      int whole = 0;
      for (end = first; end < r->pairs && pairs_together(&r->pair[first], &r->pair[end], by); end++)
        whole += r->pair[end].a && r->pair[end].b;
      if (!whole) continue;
      r->line[r->lines++] =
        (struct line){k, first, end - first,
                      pairs_compare(&r->pair[first], end - first, &a, &b, k, r->contrast, r->margin)};
    }
  correct(r);
}

static const char *verdict(const struct compare_request *r, const struct comparison *c)
{
  double none = r->contrast == CONTRAST_RATIO ? 1 : 0;
  if (c->n < 2) return "too few pairs";
  if (c->holm < 0.05) return c->effect.mean > none ? "B is higher" : "B is lower";
  if (c->equivalence < 0.05) return "equivalent within the margin";
  return "undecided";
}

static int count_starts(const struct compare_request *r, const struct line *l, enum start start)
{
  int n = 0;
  for (int i = l->first; i < l->first + l->count; i++)
    n += r->pair[i].a && r->pair[i].b && r->pair[i].start == start;
  return n;
}

/* --- text ----------------------------------------------------------------------------------------------- */

static void print_interval(const char *what, const char *name, const struct interval *i, const char *about)
{
  if (i->n == 0)
    printf("  %-12s %-24.60s -  n=0%s\n", what, name, about);
  else if (isnan(i->lo))
    printf("  %-12s %-24.60s %.5g  n=%d%s\n", what, name, i->mean, i->n, about);
  else
    printf("  %-12s %-24.60s %.5g [%.5g, %.5g]  n=%d%s\n", what, name, i->mean, i->lo, i->hi, i->n, about);
}

static void print_left_out(const struct compare_request *r, const struct line *l)
{
  const struct pair *shaped = NULL;
  int same = 0;
  int equal = count_starts(r, l, START_EQUAL), differs = count_starts(r, l, START_DIFFERS),
      unknown = count_starts(r, l, START_UNKNOWN);
  for (int i = l->first; i < l->first + l->count && !shaped; i++)
    if (*r->pair[i].shape_key) shaped = &r->pair[i];
  for (const struct pair *p = r->pair + l->first; p < r->pair + l->first + l->count; p++)
    same += p->a && p->b && !strcmp(run_id(p->a->file), run_id(p->b->file));
  printf("  start        equal in %d of %d pair%s", equal, equal + differs + unknown,
         text_s(equal + differs + unknown));
  if (unknown) printf("; unknown in %d", unknown);
  printf("\n");
  char *difference = pairs_difference(&r->pair[l->first], l->count);
  if (difference) printf("  differ in    %s\n", difference);
  memory_free(difference);
  if (same)
    printf("  note         %d pair%s one run with itself: both arms have it\n", same,
           same == 1 ? " is" : "s are");
  if (shaped)
    printf(
      "  note         the arms differ in %s: the same seed is neither the same start nor the same batches\n",
      shaped->shape_key);
  else if (differs)
    printf("  note         %d pair%s from other weights: the same seed spares less noise than it could\n",
           differs, differs == 1 ? " starts" : "s start");
  if (l->c.diverged)
    printf("  diverged     %d pair%s with a run that diverged, left out\n", l->c.diverged,
           text_s(l->c.diverged));
  if (l->c.unfinished)
    printf("  unfinished   %d pair%s with a run that has not finished: taken as it stands\n", l->c.unfinished,
           text_s(l->c.unfinished));
  if (l->c.left_out)
    printf("  left out     %d pair%s without a finite value%s of both, or with a time that was not reached\n",
           l->c.left_out, text_s(l->c.left_out), r->contrast == CONTRAST_RATIO ? " above zero" : "");
  for (int i = l->first; i < l->first + l->count; i++) {
    const struct pair *p = &r->pair[i];
    if (!p->a || !p->b)
      printf("  no partner   %s: %s (seed %ld)\n", p->a ? "A" : "B", (p->a ? p->a : p->b)->path,
             (p->a ? p->a : p->b)->seed);
  }
}

static void print_line(const struct compare_request *r, const struct line *l)
{
  const struct comparison *c = &l->c;
  const struct metric *m = &r->metric[l->metric];
  int ratio = r->contrast == CONTRAST_RATIO;
  char by[256];
  pairs_values(&r->pair[l->first], r->chosen.selection.by, 0, by, sizeof by);
  const char *unit = text_unit(m->unit);
  printf("%s%s%s%s%s%s: %s\n", m->name, *unit ? " [" : "", unit, *unit ? "]" : "", *by ? ", " : "", by,
         verdict(r, c));
  print_interval("A", r->arm[0].name, &c->a, ratio ? " (geometric)" : "");
  print_interval("B", r->arm[1].name, &c->b, ratio ? " (geometric)" : "");
  if (c->n) print_interval(ratio ? "ratio B/A" : "B - A", "", &c->effect, " pairs (95 %, Student's t)");
  if (c->n > 1) {
    printf("  %-12s %-24s [%.5g, %.5g]%s\n", "bootstrap", "", c->bootstrap.lo, c->bootstrap.hi,
           c->n < 8 ? " (rough: few pairs)" : "");
    printf("  %-12s %-24s %.3g (t)", "p", "", c->p);
    if (r->tests > 1) printf(", %.3g (Holm, of %d)", c->holm, r->tests);
    printf(", %.3g (signed ranks)\n", c->rank_p);
    printf("  %-12s %-24s %s%.4g with a chance of 80 %%\n", "could see", "", ratio ? "a ratio of " : "",
           c->detectable);
    if (c->margin == c->margin)
      printf("  %-12s %-24s within %s%.4g: p = %.3g\n", "equivalence", "", ratio ? "a factor of " : "+-",
             c->margin, c->equivalence);
  }
  print_left_out(r, l);
}

/* --- JSON ----------------------------------------------------------------------------------------------- */

static json_t *interval_json(const struct interval *i)
{
  return json_pack("{s:i, s:o, s:o, s:o}", "n", i->n, "mean", i->n ? json_number(i->mean) : json_null(), "lo",
                   i->n > 1 ? json_number(i->lo) : json_null(), "hi",
                   i->n > 1 ? json_number(i->hi) : json_null());
}

static json_t *number_json(double x) { return isnan(x) ? json_null() : json_number(x); }

static json_t *line_json(const struct compare_request *r, const struct line *l)
{
  const struct comparison *c = &l->c;
  json_t *pairs = json_array(), *alone = json_array();
  char by[256];
  const char *shape = NULL;
  pairs_values(&r->pair[l->first], r->chosen.selection.by, 0, by, sizeof by);
  for (int i = l->first; i < l->first + l->count; i++) {
    const struct pair *p = &r->pair[i];
    static const char *const starts[] = {"equal", "differs", "unknown"};
    if (p->a && p->b) {
      json_array_append_new(pairs, json_pack("{s:o, s:o, s:I, s:s}", "a", json_text(run_id(p->a->file)), "b",
                                             json_text(run_id(p->b->file)), "seed", (json_int_t)p->a->seed,
                                             "start", starts[p->start]));
      if (*p->shape_key) shape = p->shape_key;
    } else
      json_array_append_new(alone, json_text((p->a ? p->a : p->b)->path));
  }
  char *difference = pairs_difference(&r->pair[l->first], l->count);
  json_t *differ_in = difference ? json_text(difference) : json_null();
  memory_free(difference);
  json_t *out = json_pack(
    "{s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:i, s:o, s:o, "
    "s:o, s:o, s:s}",
    "metric", json_text(r->metric[l->metric].name), "by", *by ? json_text(by) : json_null(), "a",
    interval_json(&c->a), "b", interval_json(&c->b), "a_is", json_text(r->arm[0].name), "b_is",
    json_text(r->arm[1].name), "contrast", r->contrast == CONTRAST_RATIO ? "ratio" : "difference", "effect",
    interval_json(&c->effect), "bootstrap_lo", number_json(c->bootstrap.lo), "bootstrap_hi",
    number_json(c->bootstrap.hi), "p", number_json(c->p), "p_holm", number_json(c->holm), "p_signed_ranks",
    number_json(c->rank_p), "detectable", number_json(c->detectable), "equivalence_p",
    number_json(c->equivalence), "pairs_diverged", c->diverged, "pairs_unfinished", c->unfinished,
    "pairs_left_out", c->left_out, "differ_in", differ_in, "differ_in_shape",
    shape ? json_text(shape) : json_null(), "pairs", pairs, "no_partner", alone, "verdict", verdict(r, c));
  REQUIRE(out);
  return out;
}

static void print(const struct compare_request *r)
{
  json_t *all = json_array();
  for (int i = 0; i < r->lines; i++) {
    if (r->json) {
      json_array_append_new(all, line_json(r, &r->line[i]));
      continue;
    }
    if (i) printf("\n");
    print_line(r, &r->line[i]);
  }
  if (r->json)
    json_print(all);
  else
    json_decref(all);
}

/* --- command line --------------------------------------------------------------------------------------- */

enum { KEY_OF = 256, KEY_RATIO, KEY_MARGIN, KEY_JSON };
static const struct argp_option options[] = {
  {"of", KEY_OF, "METRIC,...", 0,
   "What to compare (default: val_loss:last3:mean, the last three validation losses); see maxlogit show "
   "--help. Of "
   "several, and of several values of --by, p is corrected by Holm",
   0},
  {"ratio", KEY_RATIO, NULL, 0, "B / A by logarithms instead of B - A: for max logits", 0},
  {"margin", KEY_MARGIN, "X", 0,
   "Also test equivalence: is the difference within +-X, the ratio within a factor of X (1.1)?", 0},
  {"json", KEY_JSON, NULL, 0, "The same " JSON_HELP, 0},
  {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
  struct compare_request *r = state->input;
  char *end;
  switch (key) {
  case KEY_OF: r->of = text; return 0;
  case KEY_RATIO: r->contrast = CONTRAST_RATIO; return 0;
  case KEY_JSON: r->json = 1; return 0;
  case KEY_MARGIN:
    r->margin = strtod(text, &end);
    if (end == text || *end || !(r->margin > 0) || isinf(r->margin))
      argp_error(state, "--margin=%s: a number above 0 is wanted", text);
    return 0;
  case ARGP_KEY_INIT: state->child_inputs[0] = &r->chosen; return 0;
  case ARGP_KEY_ARG: return arm_word(&r->words, text, state) ? 0 : ARGP_ERR_UNKNOWN;
  case ARGP_KEY_END:
    arm_words_end(&r->words, &r->chosen.selection, state);
    if (r->contrast == CONTRAST_RATIO && r->margin && r->margin <= 1)
      argp_error(state, "--margin=%g: of a ratio a factor above 1 is wanted", r->margin);
    return 0;
  }
  return ARGP_ERR_UNKNOWN;
}

static int run_compare(int argc, char **argv)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = selection_child,
    .args_doc = "A B\nRUN.h5 ... CONDITION-A CONDITION-B",
    .doc = "Compare two arms over pairs of runs with the same seed, which start from the same weights and "
           "see the same "
           "batches: difference or ratio, its interval, what could have been seen, and which runs have no "
           "partner. With "
           "--by KEYS pairs have the same values of these too, and each gets its own comparison.\v"
           "maxlogit compare runs/muon runs/muonclip --margin 0.02\n"
           "maxlogit compare demo kind=adam kind=muon --of val,peak --ratio\n"
           "maxlogit compare sweep kind=adam kind=muon --by train.lr --of peak --ratio",
  };
  struct compare_request r = {.of = "val_loss:last3:mean"};
  struct error e = {0};
  argp_parse(&argp, argc, argv, 0, NULL, &r);
  int status = metrics_read(&r.metric, &r.metrics, r.of, &e);
  for (int i = 0; i < 2 && !status; i++) status = open_arm(&r, i, &e);
  if (!status) status = pairs_of(&r.arm[0].set, &r.arm[1].set, r.chosen.selection.by, &r.pair, &r.pairs, &e);
  if (!status) {
    compare_lines(&r);
    print(&r);
  }
  for (int i = 0; i < 2; i++) {
    if (!status) status = r.arm[i].set.damage;
    runset_close(&r.arm[i].set);
    memory_free(r.arm[i].value);
  }
  memory_free(r.metric);
  memory_free(r.pair);
  memory_free(r.line);
  chosen_free(&r.chosen);
  return *e.text ? report_error(&e) : status;
}

const struct command command_compare = {
  .name = "compare",
  .arguments = "A B [--of METRIC]",
  .run = run_compare,
  .help = "two arms, paired over seeds: effect, interval",
};
