/* compare.c - two arms, paired over seeds: effect, interval, verdict */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/json.h"
#include "analysis/pairs.h"
#include "app/arms.h"
#include "app/command.h"
#include "app/selection.h"
#include "base/memory.h"
#include "base/text.h"

/* One metric, over the pairs [first, first + count) that have the same values of --by. */
struct compare_line {
  int metric, first, count;
  struct comparison c;
};
struct options {
  struct selected_runs chosen;
  const char *of;
  long json, ratio;
  double margin;
  enum contrast contrast;
  const char *name[2]; /* of the arms */
  struct runset set[2];
  struct measured *value[2];
  struct metric *metric;
  int metrics;
  struct pair *pair;
  int pairs;
  struct compare_line *line;
  int lines, tests; /* those of them that have a p */
};

/* --- comparing ------------------------------------------------------------------------------------------ */

static void correct(struct options *r)
{
  double *p = memory_new((size_t)r->lines + 1, sizeof *p);
  for (int i = 0; i < r->lines; i++) p[i] = r->line[i].c.p;
  r->tests = holm(p, r->lines);
  for (int i = 0; i < r->lines; i++) r->line[i].c.holm = p[i];
  memory_free(p);
}

static void compare_lines(struct options *r)
{
  struct arm_values a = {&r->set[0], r->metric, r->value[0], r->metrics},
                    b = {&r->set[1], r->metric, r->value[1], r->metrics};
  const char *by = r->chosen.selection.by;
  r->line = memory_new((size_t)r->pairs * (size_t)r->metrics + 1, sizeof *r->line);
  for (int k = 0; k < r->metrics; k++)
    for (int first = 0, end; first < r->pairs; first = end) {
      int whole = 0;
      for (end = first; end < r->pairs && pairs_together(&r->pair[first], &r->pair[end], by); end++)
        whole += r->pair[end].a && r->pair[end].b;
      if (!whole) continue;
      r->line[r->lines++] =
        (struct compare_line){k, first, end - first,
                              pairs_compare(&r->pair[first], end - first, &a, &b, k, r->contrast, r->margin)};
    }
  correct(r);
}

/* In JSON; print_verdict adds the arm's name and the size. */
static const char *verdict(const struct options *r, const struct comparison *c)
{
  double none = r->contrast == CONTRAST_RATIO ? 1 : 0;
  if (c->n < 2) return "too few pairs";
  if (c->holm < 0.05) return c->effect.mean > none ? "B is higher" : "B is lower";
  if (c->equivalence < 0.05) return "equivalent within the margin";
  return "undecided";
}

static int count_starts(const struct options *r, const struct compare_line *l, enum start start)
{
  int n = 0;
  for (int i = l->first; i < l->first + l->count; i++)
    n += r->pair[i].a && r->pair[i].b && r->pair[i].start == start;
  return n;
}

/* --- text ----------------------------------------------------------------------------------------------- */

static void print_interval(const char *what, const char *name, const struct interval *i, const char *about)
{
  char short_name[61];
  text_fill(short_name, sizeof short_name, name);
  if (i->n == 0)
    printf("  %-12s %-24s -  n=0%s\n", what, short_name, about);
  else if (isnan(i->lo))
    printf("  %-12s %-24s %.5g  n=%d%s\n", what, short_name, i->mean, i->n, about);
  else
    printf("  %-12s %-24s %.5g [%.5g, %.5g]  n=%d%s\n", what, short_name, i->mean, i->lo, i->hi, i->n, about);
}

static void print_left_out(const struct options *r, const struct compare_line *l)
{
  const struct pair *shaped = NULL, *uneven = NULL;
  int same = 0, unlike = 0, thinner = 0;
  int equal = count_starts(r, l, START_EQUAL), differs = count_starts(r, l, START_DIFFERS),
      unknown = count_starts(r, l, START_UNKNOWN);
  for (int i = l->first; i < l->first + l->count && !shaped; i++)
    if (*r->pair[i].shape_key) shaped = &r->pair[i];
  for (const struct pair *p = r->pair + l->first; p < r->pair + l->first + l->count; p++) {
    if (!p->a || !p->b) continue;
    same += !strcmp(run_id(p->a->file), run_id(p->b->file));
    thinner += run_number(p->a, "record.every", 1) != run_number(p->b, "record.every", 1) ||
               run_is_thin(p->a) != run_is_thin(p->b);
    if (run_has_failed(p->a) || run_has_failed(p->b) ||
        run_last_step(p->a->file) == run_last_step(p->b->file))
      continue;
    if (!unlike++) uneven = p;
  }
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
  if (thinner)
    printf(
      "  note         %d pair%s recorded at unlike intervals (record.every): a row of one is no row of the "
      "other\n",
      thinner, thinner == 1 ? " is" : "s are");
  if (uneven)
    printf("  note         %d pair%s of unlike lengths (%ld and %ld steps)\n", unlike,
           unlike == 1 ? " is" : "s are", run_last_step(uneven->a->file), run_last_step(uneven->b->file));
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
  if (l->c.blown_up)
    printf("  blown up     %d pair%s with a run that blew up, left out\n", l->c.blown_up,
           text_s(l->c.blown_up));
  if (l->c.unfinished)
    printf("  unfinished   %d pair%s with a run that has not finished: taken as it stands\n", l->c.unfinished,
           text_s(l->c.unfinished));
  if (l->c.left_out)
    printf("  left out     %d pair%s without a finite value%s of both, or with a time that was not reached\n",
           l->c.left_out, text_s(l->c.left_out), r->contrast == CONTRAST_RATIO ? " above zero" : "");
  for (int i = l->first; i < l->first + l->count; i++) {
    const struct pair *p = &r->pair[i];
    if (!p->a || !p->b)
      printf("  no partner   %s: %s (seed %ld)\n", p->a ? "A" : "B", (p->a ? p->a : p->b)->shown,
             (p->a ? p->a : p->b)->seed);
  }
}

static void print_verdict(const struct options *r, const struct comparison *c)
{
  const int ratio = r->contrast == CONTRAST_RATIO;
  const double effect = c->effect.mean;
  if (c->n < 2 || !(c->holm < 0.05))
    printf("%s\n", verdict(r, c));
  else if (ratio)
    printf("%s is %s by a factor of %.3g\n", r->name[1], effect > 1 ? "higher" : "lower",
           effect > 1 ? effect : 1 / effect);
  else
    printf("%s is %s by %.3g\n", r->name[1], effect > 0 ? "higher" : "lower", fabs(effect));
}

static void print_line(const struct options *r, const struct compare_line *l)
{
  const struct comparison *c = &l->c;
  const struct metric *m = &r->metric[l->metric];
  int ratio = r->contrast == CONTRAST_RATIO;
  char by[256];
  pairs_values(&r->pair[l->first], r->chosen.selection.by, 0, by, sizeof by);
  const char *unit = text_unit(m->unit);
  printf("%s%s%s%s%s%s: ", m->name, *unit ? " [" : "", unit, *unit ? "]" : "", *by ? ", " : "", by);
  print_verdict(r, c);
  print_interval("A", r->name[0], &c->a, ratio ? " (geometric)" : "");
  print_interval("B", r->name[1], &c->b, ratio ? " (geometric)" : "");
  if (c->n) print_interval(ratio ? "ratio B/A" : "B - A", "", &c->effect, " pairs (95 %, Student's t)");
  if (c->n > 1) {
    printf("  %-12s %-24s [%.5g, %.5g]%s\n", "bootstrap", "", c->bootstrap.lo, c->bootstrap.hi,
           c->n < 8 ? " (rough: few pairs)" : "");
    printf("  %-12s %-24s %.3g (t)", "p", "", c->p);
    if (r->tests > 1) printf(", %.3g (Holm, of %d)", c->holm, r->tests);
    printf(", %.3g (signed ranks)\n", c->rank_p);
    printf("  %-37s %s%.4g\n", "smallest detectable with 80 % power", ratio ? "a ratio of " : "",
           c->detectable);
    if (c->margin == c->margin)
      printf("  %-12s %-24s within %s%.4g: p = %.3g\n", "equivalence", "", ratio ? "a factor of " : "+-",
             c->margin, c->equivalence);
  }
  print_left_out(r, l);
}

/* --- JSON ----------------------------------------------------------------------------------------------- */

static json_t *number_json(double x) { return json_known(!isnan(x), x); }

static json_t *line_json(const struct options *r, const struct compare_line *l)
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
  json_t *differ_in = json_text(difference);
  memory_free(difference);
  json_t *out = json_pack(
    "{s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:i, s:i, s:o, "
    "s:o, "
    "s:o, s:o, s:s}",
    "metric", json_text(r->metric[l->metric].name), "by", *by ? json_text(by) : json_null(), "a",
    json_interval(&c->a), "b", json_interval(&c->b), "a_is", json_text(r->name[0]), "b_is",
    json_text(r->name[1]), "contrast", contrast_name(r->contrast), "effect", json_interval(&c->effect),
    "bootstrap_lo", number_json(c->bootstrap.lo), "bootstrap_hi", number_json(c->bootstrap.hi), "p",
    number_json(c->p), "p_holm", number_json(c->holm), "p_signed_ranks", number_json(c->rank_p), "detectable",
    number_json(c->detectable), "equivalence_p", number_json(c->equivalence), "pairs_diverged", c->diverged,
    "pairs_blown_up", c->blown_up, "pairs_unfinished", c->unfinished, "pairs_left_out", c->left_out,
    "differ_in", differ_in, "differ_in_shape", json_text(shape), "pairs", pairs, "no_partner", alone,
    "verdict", verdict(r, c));
  REQUIRE(out);
  return out;
}

static void print(const struct options *r)
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

static const struct command_option options[] = {
  TEXT(of, 0, "METRIC,...", "val_loss:last3:mean",
       "What to compare, without it the last three validation losses; see maxlogit show --help. Of several, "
       "and of several values of --by, p is corrected by Holm"),
  FLAG(ratio, 0, "B / A by logarithms instead of B - A: for max logits"),
  DECIMAL(margin, 0, "X", "0", 1e-12, HUGE_VAL,
          "Also test equivalence: is the difference within +-X, the ratio within a factor of X (1.1)?"),
  FLAG(json, 0, "The same " JSON_HELP),
  NO_OPTION,
};

static int compare_arms(struct options *r, struct error *e)
{
  if (metrics_read(&r->metric, &r->metrics, r->of, e) || arms_select(r->set, r->name, &r->chosen, e))
    return e->status;
  for (int i = 0; i < 2; i++)
    if (metrics_of(r->metric, r->metrics, &r->set[i], &r->value[i], e))
      return error_prefix(e, "%s", i ? "B" : "A");
  if (metrics_have_one_unit(r->metric, r->metrics, r->set, r->value, 2, e)) return e->status;
  if (pairs_of(&r->set[0], &r->set[1], r->chosen.selection.by, &r->pair, &r->pairs, e)) return e->status;
  compare_lines(r);
  print(r);
  return runset_damage(&r->set[0]) ? STATUS_FAIL : runset_damage(&r->set[1]);
}

static int compare(void *request, struct error *e)
{
  struct options *r = request;
  if (r->ratio && r->margin && r->margin <= 1)
    return error_set(e, STATUS_USAGE, "compare --margin: %g: of a ratio a factor above 1 is wanted",
                     r->margin);
  r->contrast = r->ratio ? CONTRAST_RATIO : CONTRAST_DIFFERENCE;
  int status = compare_arms(r, e);
  for (int i = 0; i < 2; i++) {
    runset_close(&r->set[i]);
    memory_free(r->value[i]);
  }
  memory_free(r->metric);
  memory_free(r->pair);
  memory_free(r->line);
  return status;
}

const struct command command_compare = {
  .name = "compare",
  .arguments = "A B\nRUN.h5 ... CONDITION-A CONDITION-B",
  .help = "compare two arms, paired over seeds: effect and interval",
  .about =
    "Compare two arms over pairs of runs with the same seed, which start from the same weights and see the "
    "same "
    "batches: difference or ratio, its interval, the smallest effect that they can detect, and which runs "
    "have no partner. "
    "With --by KEYS pairs have the same values of these too, and each gets its own comparison.",
  .more = "maxlogit compare runs/muon runs/muonclip --margin 0.02\n"
          "maxlogit compare demo kind=adam kind=muon --of val,peak --ratio\n"
          "maxlogit compare sweep kind=adam kind=muon --by train.lr --of peak --ratio",
  OPTIONS,
  .shared = selection_options,
  .most = MANY_WORDS,
  .run = compare,
};
