#include "ledger/page.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/share.h"
#include "base/file.h"
#include "base/markup.h"
#include "base/memory.h"
#include "ledger/arms.h"
#include "ledger/other_ledger.h"
#include "ledger/print.h"
#include "storage/provenance.h"

/* A page of one or two ledgers, from the entries of their files. */
struct sheet {
  const struct ledger *ledger;
  json_t *own;                      /* its entries, in their order */
  const struct other_ledger *other; /* another ledger, or NULL */
  char name[2][64];                 /* of each ledger's training data */
  struct buffer b;
};

/* --- text ------------------------------------------------------------------------------------------------ */

/* <tag>text</tag>; the tag may carry attributes. */
static void add_element(struct buffer *b, const char *tag, const char *text)
{
  buffer_add(b, "<%s>", tag);
  markup_add(b, "%s", text);
  buffer_add(b, "</%.*s>", (int)strcspn(tag, " "), tag);
}

/* Name each ledger by its training data; if both names are equal, by all settings of its runs. */
static void name_ledgers(struct sheet *s)
{
  const char *settings[2] = {entry_text(json_array_get(s->own, 0), "settings"),
                             entry_text(other_ledger_first(s->other), "settings")};
  for (int k = 0; k < 2; k++) training_text_name(settings[k], s->name[k]);
  for (int k = 0, same = s->other && !strcmp(s->name[0], s->name[1]); k < 2 && same; k++)
    if (*settings[k]) text_fill(s->name[k], sizeof s->name[k], settings[k]);
}

/* Add a configuration as shell words, each after a space: lines "key = value", or words "key=value". */
static void add_words(struct buffer *line, const char *settings)
{
  struct buffer word = {0};
  for (const char *at = settings;; at++) {
    int is_end = !*at || *at == '\n' || (*at == ' ' && at[1] != '=' && (at == settings || at[-1] != '='));
    if (is_end && word.length) {
      buffer_add(line, " ");
      shell_add(line, word.text);
      word.length = 0;
    } else if (!is_end && *at != ' ')
      buffer_add(&word, "%c", *at);
    if (!*at) break;
  }
  memory_free(word.text);
}

/* Add one option to a shell command. */
static void add_setting(struct buffer *line, const char *name, const char *value)
{
  struct buffer word = {0};
  buffer_add(&word, "%s%s", name, value);
  buffer_add(line, " ");
  shell_add(line, word.text);
  memory_free(word.text);
}

/* --- verdicts ------------------------------------------------------------------------------------------------ */

static void add_verdict(struct buffer *b, enum verdict v)
{
  char tag[32];
  snprintf(tag, sizeof tag, "span class=\"v v%d\"", (int)v);
  add_element(b, tag, verdict_name(v));
}

static const json_t *own_of(const struct sheet *s, int i) { return json_array_get(s->own, (size_t)i); }

static const json_t *other_of(const struct sheet *s, int i)
{
  return other_ledger_claim(s->other, s->ledger->entry[i].claim->id);
}

static int differ(const json_t *a, const json_t *b) { return b && entry_verdict(a) != entry_verdict(b); }

/* CSS classes for the filter: k0 and so on for the verdicts of both ledgers, kd if they differ. */
static void add_kinds(struct sheet *s, int i)
{
  const json_t *own = own_of(s, i), *other = other_of(s, i);
  markup_add(&s->b, "c k%d", (int)entry_verdict(own));
  if (differ(own, other)) markup_add(&s->b, " k%d kd", (int)entry_verdict(other));
}

static int count_kind(const struct sheet *s, int verdict)
{
  int n = 0;
  for (int i = 0; i < s->ledger->entries; i++) {
    const json_t *own = own_of(s, i), *other = other_of(s, i);
    n += verdict < 0 ? differ(own, other)
                     : (int)entry_verdict(own) == verdict || (other && (int)entry_verdict(other) == verdict);
  }
  return n;
}

static void add_choice(struct sheet *s, const char *id, const char *name, int count, int first)
{
  markup_add(&s->b, "<input type=\"radio\" name=\"show\" id=\"show-%s\"", id);
  if (first) markup_add(&s->b, " checked=\"checked\"");
  markup_add(&s->b, "/><label for=\"show-%s\">%s %d</label>\n", id, name, count);
}

/* CSS rules by which the buttons show only the claims of one verdict. No script is needed. */
static void add_rules(struct sheet *s)
{
  char id[8];
  for (int v = -1; v < (int)VERDICTS; v++)
    if (count_kind(s, v)) {
      snprintf(id, sizeof id, v < 0 ? "d" : "%d", v);
      buffer_add(&s->b, "#show-%s:checked~* .c:not(.k%s):not(:target){display:none}\n", id, id);
    }
}

static void add_filter(struct sheet *s)
{
  char id[12];
  markup_add(&s->b, "<span class=\"filter\">Show:</span>\n");
  add_choice(s, "all", "all", s->ledger->entries, 1);
  for (int v = 0; v < (int)VERDICTS; v++) {
    snprintf(id, sizeof id, "%d", v);
    if (count_kind(s, v)) add_choice(s, id, verdict_name((enum verdict)v), count_kind(s, v), 0);
  }
  if (count_kind(s, -1)) add_choice(s, "d", "verdicts that differ", count_kind(s, -1), 0);
}

/* --- the table ----------------------------------------------------------------------------------------------- */

/* A cell with the verdict, and the effect with a link to its runs. */
static void add_cell(struct sheet *s, const struct claim *c, const json_t *x, int second)
{
  struct buffer *b = &s->b;
  struct interval e = entry_interval(x, "effect");
  char effect[128], rates[32];
  markup_add(b, "<td class=\"n\">");
  if (s->other && x) add_element(b, "span class=\"of\"", s->name[second]);
  if (x) add_verdict(b, entry_verdict(x));
  if (x && *claim_rates(c, rates)) {
    markup_add(b, " ");
    add_element(b, "span class=\"soft\"", rates);
  }
  if (x && e.n) {
    int has_runs = json_array_size(json_object_get(x, "arms")) > 0; /* a README has no runs */
    markup_add(b, "<br/>");
    if (has_runs) markup_add(b, "<a href=\"#%s-%s\">", c->id, second ? "other" : "runs");
    markup_add(b, "%s%s", c->contrast == CONTRAST_RATIO ? "\303\227\302\240" : "",
               print_interval(&e, effect));
    if (has_runs) markup_add(b, "</a>");
    markup_add(b, ", n\302\240=\302\240%d", e.n);
  }
  markup_add(b, "</td>");
}

static void add_table(struct sheet *s)
{
  struct buffer *b = &s->b;
  char what[128];
  markup_add(b, "<table class=\"all\"><thead><tr><th>claim</th><th></th>");
  for (int k = 0; k <= (s->other != NULL); k++)
    add_element(b, "th", s->other ? s->name[k] : "verdict, effect");
  markup_add(b, "</tr></thead><tbody>\n");
  for (int i = 0; i < s->ledger->entries; i++) {
    const struct claim *c = s->ledger->entry[i].claim;
    markup_add(b, "<tr class=\"");
    add_kinds(s, i);
    markup_add(b, "\"><td><a href=\"#%s\">%s</a></td><td>", c->id, c->id);
    markup_add(b, "%s", c->sentence);
    if (claim_compared(c)) {
      markup_add(b, " ");
      add_element(b, "span class=\"what\"", contrast_text(c, what, sizeof what));
    }
    markup_add(b, "</td>");
    add_cell(s, c, own_of(s, i), 0);
    if (s->other) add_cell(s, c, other_of(s, i), 1);
    markup_add(b, "</tr>\n");
  }
  markup_add(b, "</tbody></table>\n");
}

/* --- a claim ----------------------------------------------------------------------------------------------- */

/* The command of one run of an arm with seed S, and, if the arm has a first phase, the command of that. */
static void add_command(struct buffer *b, const json_t *x, const json_t *arm, const char *rate)
{
  const char *start = entry_text(x, "start");
  struct buffer line = {0};
  if (*start) {
    buffer_add(&line, "maxlogit run");
    add_words(&line, start);
    add_words(&line, entry_text(arm, "start"));
    add_words(&line, entry_text(x, "settings"));
    buffer_add(&line, " train.seed=S record.path=first-S.h5\n");
  }
  buffer_add(&line, "maxlogit run");
  add_words(&line, entry_text(x, "regime"));
  add_words(&line, entry_text(arm, "set"));
  add_words(&line, entry_text(x, "settings"));
  if (*rate) add_setting(&line, "train.lr=", rate);
  if (*start) buffer_add(&line, " train.init_from=first-S.h5");
  add_words(&line, strchr(ledger_records, '\n') + 1);
  buffer_add(&line, " train.seed=S");
  markup_add(b, "%s", line.text);
  memory_free(line.text);
}

/* The ids of the runs; unfolded, the seed and value of each, and the command that repeats it. */
static void add_runs(struct buffer *b, const json_t *x, const json_t *arm, const char *rate)
{
  const json_t *runs = json_object_get(arm, "runs");
  char number[32];
  markup_add(b, "<details><summary class=\"ids\">");
  for (size_t i = 0; i < json_array_size(runs); i++) {
    const json_t *run = json_array_get(runs, i);
    markup_add(b, "%s%s%s", i ? " " : "", entry_text(run, "id"),
               !strcmp(entry_text(run, "state"), "diverged")   ? " (diverged)"
               : json_is_true(json_object_get(run, "blew_up")) ? " (blown up)"
                                                               : "");
  }
  markup_add(b, "</summary><pre>");
  add_command(b, x, arm, rate);
  markup_add(b, "</pre><ul class=\"ids\">");
  for (size_t i = 0; i < json_array_size(runs); i++) {
    const json_t *run = json_array_get(runs, i);
    markup_add(b, "<li>%s S=%.0f: %s</li>", entry_text(run, "id"), entry_number(run, "seed"),
               json_is_null(json_object_get(run, "value"))
                 ? entry_text(run, "state")
                 : print_short_number(entry_number(run, "value"), number));
  }
  markup_add(b, "</ul></details>");
}

static void add_arms(struct buffer *b, const struct claim *c, const json_t *x)
{
  const json_t *arms = json_object_get(x, "arms"),
               *rates = json_object_get(json_object_get(x, "rates"), "best");
  char mean[128];
  markup_add(
    b, "<table><thead><tr><th>arm</th><th>set</th><th>n</th><th>median [95 %%]</th></tr></thead><tbody>\n");
  for (size_t a = 0; a < json_array_size(arms); a++) {
    const json_t *arm = json_array_get(arms, a);
    const char *rate = a < 2 ? entry_text(json_array_get(rates, a), "train.lr") : "",
               *set = entry_text(arm, "set");
    struct interval m = entry_interval(arm, "mean");
    markup_add(b, "<tr>");
    add_element(b, "td", entry_text(arm, "name"));
    markup_add(b, "<td>");
    add_element(b, "code", *set ? set : "the regime");
    if (*rate) markup_add(b, "; tuned: train.lr=%s", rate);
    if (*entry_text(arm, "start")) {
      markup_add(b, "; from ");
      add_element(b, "code", entry_text(arm, "start"));
    }
    if (strcmp(entry_text(arm, "metric"), c->metric) != 0) {
      markup_add(b, "; ");
      add_element(b, "code", entry_text(arm, "metric"));
    }
    markup_add(b, "</td><td class=\"n\">%d</td><td class=\"n\">%s</td></tr>\n<tr><td colspan=\"4\">", m.n,
               print_interval(&m, mean));
    add_runs(b, x, arm, rate);
    markup_add(b, "</td></tr>\n");
  }
  markup_add(b, "</tbody></table>\n");
}

static void add_again(struct buffer *b, const char *id, const json_t *x)
{
  struct buffer line = {0};
  buffer_add(&line, "maxlogit claims");
  if (*id) add_setting(&line, "", id);
  buffer_add(&line, " --level");
  add_setting(&line, "", *entry_text(x, "ran") ? entry_text(x, "ran") : "full");
  add_words(&line, entry_text(x, "settings"));
  markup_add(b, "<code>%s</code>", line.text);
  memory_free(line.text);
}

static void add_found(struct buffer *b, const struct claim *c, const json_t *x)
{
  char effect[128], number[2][32];
  struct interval e = entry_interval(x, "effect");
  int diverged = (int)json_integer_value(json_object_get(x, "seeds_diverged"));
  int out = (int)json_integer_value(json_object_get(x, "seeds_left_out"));
  const char *former = entry_text(json_object_get(x, "changed_after_the_fact"), "verdict");
  markup_add(b, "<b>%s</b> over %d %s; p after Holm %s, by the false discovery rate %s.",
             print_interval(&e, effect), e.n, claim_compared(c) > 1 ? "pairs of equal seed" : "seeds",
             print_short_number(entry_number(x, "p_holm"), number[0]),
             print_short_number(entry_number(x, "p_fdr"), number[1]));
  if (*entry_text(x, "would_change_by"))
    markup_add(b, " It would change by %s.", entry_text(x, "would_change_by"));
  if (*entry_text(x, "same_comparison_as"))
    markup_add(b, " The comparison is that of %s, and counts once.", entry_text(x, "same_comparison_as"));
  if (*former) markup_add(b, " Changed after the fact; before: %s.", former);
  if (diverged)
    markup_add(b, " %d seed%s left out because a run diverged.", diverged, diverged == 1 ? " is" : "s are");
  int blown_up = (int)json_integer_value(json_object_get(x, "seeds_blown_up"));
  if (blown_up)
    markup_add(b, " %d seed%s counted though a run blew up.", blown_up, blown_up == 1 ? " is" : "s are");
  if (out) markup_add(b, " %d seed%s left out for want of a value.", out, out == 1 ? " is" : "s are");
}

static void add_reason(struct buffer *b, const json_t *x)
{
  char *reason = memory_text(entry_text(x, "reason"));
  *reason = (char)toupper((unsigned char)*reason);
  markup_add(b, "%s.", reason);
  memory_free(reason);
}

/* The other ledger's finding and its runs. */
static void add_other(struct sheet *s, const struct entry *e, const json_t *x)
{
  struct buffer *b = &s->b;
  markup_add(b, "<h3 id=\"%s-other\">%s: ", e->claim->id, s->name[1]);
  add_verdict(b, entry_verdict(x));
  markup_add(b, "</h3>\n<p>");
  add_reason(b, x);
  markup_add(b, " Result: ");
  add_found(b, e->claim, x);
  if (strcmp(entry_text(x, "registered"), e->registered) != 0)
    markup_add(b, " <b>It was registered otherwise there (%s).</b>", entry_text(x, "registered"));
  markup_add(b, " Again: ");
  add_again(b, e->claim->id, x);
  markup_add(b, "</p>\n");
  add_arms(b, e->claim, x);
}

static void add_numbers(struct sheet *s, const struct entry *e, const json_t *x)
{
  const struct claim *c = e->claim;
  struct buffer *b = &s->b;
  char equal[32];
  markup_add(b, "<p id=\"%s-runs\">Predicted, at %s: %s. Result: ", c->id, equal_text(c->equal, equal),
             entry_text(x, "predicted"));
  add_found(b, c, x);
  markup_add(b, "</p>\n");
  if (c->refute) markup_add(b, "<p class=\"soft\">It would be refuted by %s.</p>\n", c->refute);
  add_arms(b, c, x);
  add_element(b, "pre", c->regime);
  if (c->start) {
    markup_add(b, "<p>starting from the end, by equal seed, of</p>");
    add_element(b, "pre", c->start);
  }
  markup_add(
    b,
    "<p class=\"soft\">Metric <code>%s</code>. Registered %s. Seeds of the verdict: %d to %d. Explored "
    "while the regime was chosen: %s Again: ",
    c->metric, e->registered, LEDGER_SEED, LEDGER_SEED + e->arm[0].runs - 1,
    c->explored ? c->explored : "none.");
  add_again(b, c->id, x);
  markup_add(b, "</p>\n");
}

static int add_section(struct sheet *s, int i, const char *scripts, struct error *error)
{
  const struct entry *e = &s->ledger->entry[i];
  const struct claim *c = e->claim;
  const json_t *x = own_of(s, i), *other = other_of(s, i);
  struct buffer *b = &s->b;
  char *svg = NULL;
  int status = claim_compared(c) ? claim_figure(e, scripts, c->id, &svg, error) : STATUS_OK;
  if (status) return status;
  markup_add(b, "<section id=\"%s\" class=\"", c->id);
  add_kinds(s, i);
  markup_add(b, "\"><h2>%s ", c->id);
  add_verdict(b, entry_verdict(x));
  markup_add(b, "</h2>\n");
  add_element(b, "p", c->sentence);
  markup_add(b, "<p class=\"soft\">%s \302\267 experiments/%s</p>\n<p>", c->source, e->question);
  add_reason(b, x);
  markup_add(b, "</p>\n");
  if (svg) buffer_add(b, "<div class=\"figure\">%s</div>\n", svg); /* gnuplot's markup is already escaped */
  memory_free(svg);
  if (claim_compared(c)) add_numbers(s, e, x);
  if (claim_compared(c) && other && json_array_size(json_object_get(other, "arms"))) add_other(s, e, other);
  markup_add(b, "</section>\n");
  return STATUS_OK;
}

/* --- the page ------------------------------------------------------------------------------------------------ */

static void add_provenance(struct sheet *s)
{
  struct provenance p;
  const struct ledger *l = s->ledger;
  struct buffer *b = &s->b;
  double seconds = 0;
  char date[32], stamp[256];
  time_t now = time(NULL);
  provenance_get(&p);
  strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", gmtime(&now));
  for (int i = 0; i < l->entries; i++) seconds += entry_seconds(l, i);
  markup_add(
    b,
    "<section><h2>What made it</h2><p>%s; HDF5 %s, GSL %s, %s; %s; on %s. The runs took %.0f minutes of one "
    "core. Written %s. They lie in <code>%s/ID.h5</code>.</p>\n<p>All of it again: ",
    provenance_stamp(stamp, sizeof stamp), p.hdf5, p.gsl, p.openblas, p.compiler, p.cpu, seconds / 60, date,
    l->folder ? l->folder : "-");
  if (l->entries) add_again(b, "", own_of(s, 0));
  struct buffer option = {0};
  buffer_add(&option, "--report DIR%s", s->other ? " --beside" : "");
  if (s->other) add_setting(&option, "", s->other->path);
  markup_add(b, ", and this page with <code>%s</code></p>\n", option.text);
  memory_free(option.text);
  const json_t *first = other_ledger_first(s->other);
  if (first) {
    markup_add(b, "<p>%s: %s; from <code>%s</code>; again: ", s->name[1], entry_text(first, "made_by"),
               s->other->path);
    add_again(b, "", first);
    markup_add(b, "</p>");
  }
  markup_add(b, "</section>\n");
}

static int add_style(struct buffer *b, const char *name, struct error *error)
{
  char *text = NULL;
  size_t length;
  int status = share_text(name, &text, &length, error);
  if (!status) buffer_add(b, "%s", text);
  memory_free(text);
  return status;
}

static int add_head(struct sheet *s, struct error *error)
{
  struct buffer *b = &s->b;
  markup_add(
    b,
    "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head><meta "
    "charset=\"utf-8\"/>"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "img-src data:; "
    "base-uri 'none'; form-action 'none'\"/>"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/><title>" LEDGER_PAGE_TITLE
    "</title><style>");
  int status = add_style(b, "style.css", error);
  if (!status) status = add_style(b, "ledger.css", error);
  add_rules(s);
  markup_add(b, "</style></head><body>\n<h1>What the literature says about max logits, on one small "
                "machine</h1>\n");
  return status;
}

static void add_preface(struct sheet *s)
{
  markup_add(
    &s->b,
    "<p class=\"soft\">Each claim had its regime, its measure and the smallest effect that matters "
    "written down "
    "before its runs. Seeds (from %d on, never used while looking for a regime) come in stages of %d, "
    "%d, %d and %d, "
    "here %d of them; effects are medians over pairs of equal seed, and either one-sided error of a verdict "
    "is below "
    "%g %% over all looks. Holm and the false discovery rate correct for all %d comparisons. Small stacks "
    "of two layers: <i>refuted here</i> says nothing of large models, and <i>holds</i> little.",
    LEDGER_SEED, stage_seeds[0], stage_seeds[1], stage_seeds[2], stage_seeds[3], s->ledger->stages,
    100 * LEDGER_ERROR, s->ledger->family);
  if (s->other)
    markup_add(&s->b, " Two ledgers: %s and %s.</p>\n", s->name[0], s->name[1]);
  else
    markup_add(&s->b, " Trained on: %s.</p>\n", s->name[0]);
}

int page_write(const struct ledger *l, const struct other_ledger *beside, const char *folder,
               const char *scripts, struct error *error)
{
  struct sheet s = {.ledger = l, .own = ledger_json(l), .other = beside};
  struct buffer path = {0};
  name_ledgers(&s);
  int status = add_head(&s, error);
  if (!status) add_preface(&s);
  if (!status) add_filter(&s);
  markup_add(&s.b, "<div>\n");
  if (!status) add_table(&s);
  for (int i = 0; i < l->entries && !status; i++) status = add_section(&s, i, scripts, error);
  if (!status) add_provenance(&s);
  markup_add(&s.b, "</div></body></html>\n");
  buffer_add(&path, "%s/index.html", folder);
  if (!status) status = file_make_folders(path.text, error);
  if (!status) status = file_write(path.text, s.b.text, s.b.length, error);
  memory_free(s.b.text);
  memory_free(path.text);
  json_decref(s.own);
  return status;
}
