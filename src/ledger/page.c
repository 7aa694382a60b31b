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
#include "base/memory.h"
#include "base/text.h"
#include "ledger/arms.h"
#include "ledger/kept.h"
#include "ledger/tell.h"
#include "storage/provenance.h"

/* One page of one ledger or two, each as its file has it. */
struct sheet {
  const struct ledger *ledger;
  json_t *own;              /* its entries, in their order */
  const struct kept *other; /* another ledger, or NULL */
  char name[2][64];         /* of what each was trained on */
  struct buffer b;
};

/* --- text ------------------------------------------------------------------------------------------------ */

static void add_text(struct buffer *b, const char *text)
{
  for (; *text; text++) switch (*text) {
    case '<': buffer_add(b, "&lt;"); break;
    case '>': buffer_add(b, "&gt;"); break;
    case '&': buffer_add(b, "&amp;"); break;
    case '"': buffer_add(b, "&quot;"); break;
    default: buffer_add(b, "%c", *text);
    }
}

/* <tag>text</tag>; the tag may carry attributes. */
static void add_element(struct buffer *b, const char *tag, const char *text)
{
  buffer_add(b, "<%s>", tag);
  add_text(b, text);
  buffer_add(b, "</%.*s>", (int)strcspn(tag, " "), tag);
}

/* Where that does not tell two of them apart, by all that their runs were given. */
static void name_ledgers(struct sheet *s)
{
  const char *settings[2] = {kept_text(json_array_get(s->own, 0), "settings"),
                             kept_text(kept_first(s->other), "settings")};
  for (int k = 0; k < 2; k++) kept_name(settings[k], s->name[k]);
  for (int k = 0, same = s->other && !strcmp(s->name[0], s->name[1]); k < 2 && same; k++)
    if (*settings[k]) snprintf(s->name[k], sizeof s->name[k], "%.63s", settings[k]);
}

/* A word that a shell takes as it is. */
static void add_word(struct buffer *b, const char *word)
{
  int plain =
    strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=+,-%") == strlen(word);
  buffer_add(b, plain ? " " : " '");
  add_text(b, word);
  buffer_add(b, plain ? "" : "'");
}

/* Lines of a configuration, "key = value", or words "key=value", as words. */
static void add_words(struct buffer *b, const char *settings)
{
  struct buffer word = {0};
  for (const char *at = settings;; at++) {
    int is_end = !*at || *at == '\n' || (*at == ' ' && at[1] != '=' && (at == settings || at[-1] != '='));
    if (is_end && word.length) {
      add_word(b, word.text);
      word.length = 0;
    } else if (!is_end && *at != ' ')
      buffer_add(&word, "%c", *at);
    if (!*at) break;
  }
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
  return kept_claim(s->other, s->ledger->entry[i].claim->id);
}

static int differ(const json_t *a, const json_t *b) { return b && kept_verdict(a) != kept_verdict(b); }

/* What the filter goes by: k0 and so on, the verdicts of either ledger, and kd where they differ. */
static void add_kinds(struct sheet *s, int i)
{
  const json_t *own = own_of(s, i), *other = other_of(s, i);
  buffer_add(&s->b, "c k%d", (int)kept_verdict(own));
  if (differ(own, other)) buffer_add(&s->b, " k%d kd", (int)kept_verdict(other));
}

static int count_kind(const struct sheet *s, int verdict)
{
  int n = 0;
  for (int i = 0; i < s->ledger->entries; i++) {
    const json_t *own = own_of(s, i), *other = other_of(s, i);
    n += verdict < 0 ? differ(own, other)
                     : (int)kept_verdict(own) == verdict || (other && (int)kept_verdict(other) == verdict);
  }
  return n;
}

static void add_choice(struct sheet *s, const char *id, const char *name, int count, int first)
{
  buffer_add(&s->b,
             "<input type=\"radio\" name=\"show\" id=\"show-%s\"%s/><label for=\"show-%s\">%s %d</label>\n",
             id, first ? " checked=\"checked\"" : "", id, name, count);
}

/* Buttons that show the claims of one verdict, by style alone: they stand beside what they hide. */
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
  buffer_add(&s->b, "<span class=\"filter\">Show:</span>\n");
  add_choice(s, "all", "all", s->ledger->entries, 1);
  for (int v = 0; v < (int)VERDICTS; v++) {
    snprintf(id, sizeof id, "%d", v);
    if (count_kind(s, v)) add_choice(s, id, verdict_name((enum verdict)v), count_kind(s, v), 0);
  }
  if (count_kind(s, -1)) add_choice(s, "d", "verdicts that differ", count_kind(s, -1), 0);
}

/* --- the table ----------------------------------------------------------------------------------------------- */

/* The verdict, and the effect, which leads to the runs that it was found in. */
static void add_cell(struct sheet *s, const struct claim *c, const json_t *x, int second)
{
  struct buffer *b = &s->b;
  struct interval e = kept_interval(x, "effect");
  char effect[128];
  buffer_add(b, "<td class=\"n\">");
  if (s->other && x) add_element(b, "span class=\"of\"", s->name[second]);
  if (x) add_verdict(b, kept_verdict(x));
  if (x && e.n) {
    int has_runs = json_array_size(json_object_get(x, "arms")) > 0; /* what a README tells has none */
    buffer_add(b, "<br/>");
    if (has_runs) buffer_add(b, "<a href=\"#%s-%s\">", c->id, second ? "other" : "runs");
    buffer_add(b, "%s%s%s, n\302\240=\302\240%d", c->contrast == CONTRAST_RATIO ? "\303\227\302\240" : "",
               tell_interval(&e, effect), has_runs ? "</a>" : "", e.n);
  }
  buffer_add(b, "</td>");
}

static void add_table(struct sheet *s)
{
  struct buffer *b = &s->b;
  char what[128];
  buffer_add(b, "<table class=\"all\"><thead><tr><th>claim</th><th></th>");
  for (int k = 0; k <= (s->other != NULL); k++)
    add_element(b, "th", s->other ? s->name[k] : "verdict, effect");
  buffer_add(b, "</tr></thead><tbody>\n");
  for (int i = 0; i < s->ledger->entries; i++) {
    const struct claim *c = s->ledger->entry[i].claim;
    buffer_add(b, "<tr class=\"");
    add_kinds(s, i);
    buffer_add(b, "\"><td><a href=\"#%s\">%s</a></td><td>", c->id, c->id);
    add_text(b, c->sentence);
    if (claim_compared(c)) {
      buffer_add(b, " ");
      add_element(b, "span class=\"what\"", contrast_text(c, what, sizeof what));
    }
    buffer_add(b, "</td>");
    add_cell(s, c, own_of(s, i), 0);
    if (s->other) add_cell(s, c, other_of(s, i), 1);
    buffer_add(b, "</tr>\n");
  }
  buffer_add(b, "</tbody></table>\n");
}

/* --- a claim ----------------------------------------------------------------------------------------------- */

/* The command of one run of an arm, of the seed S; where it starts from another run, that one's as well. */
static void add_command(struct buffer *b, const json_t *x, const json_t *arm, const char *rate)
{
  const char *start = kept_text(x, "start");
  if (*start) {
    buffer_add(b, "maxlogit run");
    add_words(b, start);
    add_words(b, kept_text(arm, "start"));
    add_words(b, kept_text(x, "settings"));
    buffer_add(b, " train.seed=S record.path=first-S.h5\n");
  }
  buffer_add(b, "maxlogit run");
  add_words(b, kept_text(x, "regime"));
  add_words(b, kept_text(arm, "set"));
  add_words(b, kept_text(x, "settings"));
  if (*rate) buffer_add(b, " train.lr=%s", rate);
  if (*start) buffer_add(b, " train.init_from=first-S.h5");
  add_words(b, strchr(ledger_records, '\n') + 1);
  buffer_add(b, " train.seed=S");
}

/* The runs' ids; behind them, to be opened, each one's seed and value, and the command that makes it again. */
static void add_runs(struct buffer *b, const json_t *x, const json_t *arm, const char *rate)
{
  const json_t *runs = json_object_get(arm, "runs");
  char number[32];
  buffer_add(b, "<details><summary class=\"ids\">");
  for (size_t i = 0; i < json_array_size(runs); i++) {
    const json_t *run = json_array_get(runs, i);
    buffer_add(b, "%s%s%s", i ? " " : "", kept_text(run, "id"),
               strcmp(kept_text(run, "state"), "diverged") ? "" : " (diverged)");
  }
  buffer_add(b, "</summary><pre>");
  add_command(b, x, arm, rate);
  buffer_add(b, "</pre><ul class=\"ids\">");
  for (size_t i = 0; i < json_array_size(runs); i++) {
    const json_t *run = json_array_get(runs, i);
    buffer_add(b, "<li>%s S=%.0f: %s</li>", kept_text(run, "id"), kept_number(run, "seed"),
               json_is_null(json_object_get(run, "value")) ? kept_text(run, "state")
                                                           : tell_number(kept_number(run, "value"), number));
  }
  buffer_add(b, "</ul></details>");
}

static void add_arms(struct buffer *b, const struct claim *c, const json_t *x)
{
  const json_t *arms = json_object_get(x, "arms"),
               *rates = json_object_get(json_object_get(x, "rates"), "best");
  char mean[128];
  buffer_add(
    b, "<table><thead><tr><th>arm</th><th>set</th><th>n</th><th>median [95 %%]</th></tr></thead><tbody>\n");
  for (size_t a = 0; a < json_array_size(arms); a++) {
    const json_t *arm = json_array_get(arms, a);
    const char *rate = a < 2 ? kept_text(json_array_get(rates, a), "train.lr") : "",
               *set = kept_text(arm, "set");
    struct interval m = kept_interval(arm, "mean");
    buffer_add(b, "<tr>");
    add_element(b, "td", kept_text(arm, "name"));
    buffer_add(b, "<td>");
    add_element(b, "code", *set ? set : "the regime");
    if (*rate) buffer_add(b, "; tuned: train.lr=%s", rate);
    if (*kept_text(arm, "start")) {
      buffer_add(b, "; from ");
      add_element(b, "code", kept_text(arm, "start"));
    }
    if (strcmp(kept_text(arm, "metric"), c->metric) != 0) {
      buffer_add(b, "; ");
      add_element(b, "code", kept_text(arm, "metric"));
    }
    buffer_add(b, "</td><td class=\"n\">%d</td><td class=\"n\">%s</td></tr>\n<tr><td colspan=\"4\">", m.n,
               tell_interval(&m, mean));
    add_runs(b, x, arm, rate);
    buffer_add(b, "</td></tr>\n");
  }
  buffer_add(b, "</tbody></table>\n");
}

static void add_again(struct buffer *b, const char *id, const json_t *x)
{
  buffer_add(b, "<code>maxlogit claims%s%s --level %s", *id ? " " : "", id,
             *kept_text(x, "ran") ? kept_text(x, "ran") : "full");
  add_words(b, kept_text(x, "settings"));
  buffer_add(b, "</code>");
}

static void add_found(struct buffer *b, const struct claim *c, const json_t *x)
{
  char effect[128], number[2][32];
  struct interval e = kept_interval(x, "effect");
  int diverged = (int)kept_number(x, "seeds_diverged"), out = (int)kept_number(x, "seeds_left_out");
  const char *former = kept_text(json_object_get(x, "changed_after_the_fact"), "verdict");
  buffer_add(b, "<b>%s</b> over %d %s; p after Holm %s, by the false discovery rate %s.",
             tell_interval(&e, effect), e.n, claim_compared(c) > 1 ? "pairs of equal seed" : "seeds",
             tell_number(kept_number(x, "p_holm"), number[0]),
             tell_number(kept_number(x, "p_fdr"), number[1]));
  if (*kept_text(x, "would_change_by")) {
    buffer_add(b, " It would change by ");
    add_text(b, kept_text(x, "would_change_by"));
    buffer_add(b, ".");
  }
  if (*kept_text(x, "same_comparison_as"))
    buffer_add(b, " The comparison is that of %s, and counts once.", kept_text(x, "same_comparison_as"));
  if (*former) {
    buffer_add(b, " Changed after the fact; before: ");
    add_text(b, former);
    buffer_add(b, ".");
  }
  if (diverged)
    buffer_add(b, " %d seed%s left out because a run diverged.", diverged, diverged == 1 ? " is" : "s are");
  if (out) buffer_add(b, " %d seed%s left out for want of a value.", out, out == 1 ? " is" : "s are");
}

static void add_reason(struct buffer *b, const json_t *x)
{
  const char *reason = kept_text(x, "reason");
  buffer_add(b, "%c", toupper((unsigned char)*reason));
  if (*reason) add_text(b, reason + 1);
  buffer_add(b, ".");
}

/* What the other ledger found, and by which runs. */
static void add_other(struct sheet *s, const struct entry *e, const json_t *x)
{
  struct buffer *b = &s->b;
  buffer_add(b, "<h3 id=\"%s-other\">", e->claim->id);
  add_text(b, s->name[1]);
  buffer_add(b, ": ");
  add_verdict(b, kept_verdict(x));
  buffer_add(b, "</h3>\n<p>");
  add_reason(b, x);
  buffer_add(b, " Found: ");
  add_found(b, e->claim, x);
  if (strcmp(kept_text(x, "registered"), e->registered) != 0)
    buffer_add(b, " <b>It was registered otherwise there (%s).</b>", kept_text(x, "registered"));
  buffer_add(b, " Again: ");
  add_again(b, e->claim->id, x);
  buffer_add(b, "</p>\n");
  add_arms(b, e->claim, x);
}

static void add_numbers(struct sheet *s, const struct entry *e, const json_t *x)
{
  const struct claim *c = e->claim;
  struct buffer *b = &s->b;
  buffer_add(b, "<p id=\"%s-runs\">Predicted, at equal %s: ", c->id, equal_name(c->equal));
  add_text(b, kept_text(x, "predicted"));
  buffer_add(b, ". Found: ");
  add_found(b, c, x);
  buffer_add(b, "</p>\n");
  if (c->refute) {
    buffer_add(b, "<p class=\"soft\">It would be refuted by ");
    add_text(b, c->refute);
    buffer_add(b, ".</p>\n");
  }
  add_arms(b, c, x);
  add_element(b, "pre", c->regime);
  if (c->start) {
    buffer_add(b, "<p>starting from the end, by equal seed, of</p>");
    add_element(b, "pre", c->start);
  }
  buffer_add(b, "<p class=\"soft\">Metric <code>");
  add_text(b, c->metric);
  buffer_add(b, "</code>. Registered %s. Seeds of the verdict: %d to %d. Seen while the regime was chosen: ",
             e->registered, LEDGER_SEED, LEDGER_SEED + e->arm[0].runs - 1);
  add_text(b, c->explored ? c->explored : "none.");
  buffer_add(b, " Again: ");
  add_again(b, c->id, x);
  buffer_add(b, "</p>\n");
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
  buffer_add(b, "<section id=\"%s\" class=\"", c->id);
  add_kinds(s, i);
  buffer_add(b, "\"><h2>%s ", c->id);
  add_verdict(b, kept_verdict(x));
  buffer_add(b, "</h2>\n");
  add_element(b, "p", c->sentence);
  buffer_add(b, "<p class=\"soft\">");
  add_text(b, c->source);
  buffer_add(b, " \302\267 experiments/%s</p>\n<p>", e->question);
  add_reason(b, x);
  buffer_add(b, "</p>\n");
  if (svg) buffer_add(b, "<div class=\"figure\">%s</div>\n", svg);
  memory_free(svg);
  if (claim_compared(c)) add_numbers(s, e, x);
  if (claim_compared(c) && other && json_array_size(json_object_get(other, "arms"))) add_other(s, e, other);
  buffer_add(b, "</section>\n");
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
  buffer_add(b, "<section><h2>What made it</h2><p>%s; HDF5 %s, GSL %s, ",
             provenance_stamp(stamp, sizeof stamp), p.hdf5, p.gsl);
  add_text(b, p.openblas);
  buffer_add(b, "; ");
  add_text(b, p.compiler);
  buffer_add(b, "; on ");
  add_text(b, p.cpu);
  buffer_add(b, ". The runs took %.0f minutes of one core. Written %s. They lie in <code>", seconds / 60,
             date);
  add_text(b, l->folder ? l->folder : "-");
  buffer_add(b, "/ID.h5</code>.</p>\n<p>All of it again: ");
  if (l->entries) add_again(b, "", own_of(s, 0));
  buffer_add(b, ", and this page with <code>--report DIR%s", s->other ? " --beside" : "");
  if (s->other) add_word(b, s->other->path);
  buffer_add(b, "</code></p>\n");
  const json_t *first = kept_first(s->other);
  if (first) {
    buffer_add(b, "<p>");
    add_text(b, s->name[1]);
    buffer_add(b, ": ");
    add_text(b, kept_text(first, "made_by"));
    buffer_add(b, "; from <code>");
    add_text(b, s->other->path);
    buffer_add(b, "</code>; again: ");
    add_again(b, "", first);
    buffer_add(b, "</p>");
  }
  buffer_add(b, "</section>\n");
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
  buffer_add(
    b,
    "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head><meta "
    "charset=\"utf-8\"/>"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/><title>maxlogit: the ledger of "
    "claims</title><style>");
  int status = add_style(b, "style.css", error);
  if (!status) status = add_style(b, "ledger.css", error);
  add_rules(s);
  buffer_add(b, "</style></head><body>\n<h1>What the literature says about max logits, on one small "
                "machine</h1>\n");
  return status;
}

static void add_preface(struct sheet *s)
{
  buffer_add(
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
  buffer_add(&s->b, s->other ? " Two ledgers: " : " Trained on: ");
  add_text(&s->b, s->name[0]);
  if (s->other) {
    buffer_add(&s->b, " and ");
    add_text(&s->b, s->name[1]);
  }
  buffer_add(&s->b, ".</p>\n");
}

int page_write(const struct ledger *l, const struct kept *beside, const char *folder, const char *scripts,
               struct error *error)
{
  struct sheet s = {.ledger = l, .own = tell_json(l), .other = beside};
  struct buffer path = {0};
  name_ledgers(&s);
  int status = add_head(&s, error);
  if (!status) add_preface(&s);
  if (!status) add_filter(&s);
  buffer_add(&s.b, "<div>\n");
  if (!status) add_table(&s);
  for (int i = 0; i < l->entries && !status; i++) status = add_section(&s, i, scripts, error);
  if (!status) add_provenance(&s);
  buffer_add(&s.b, "</div></body></html>\n");
  buffer_add(&path, "%s/index.html", folder);
  if (!status) status = file_make_folders(path.text, error);
  if (!status) status = file_write(path.text, s.b.text, s.b.length, error);
  memory_free(s.b.text);
  memory_free(path.text);
  json_decref(s.own);
  return status;
}
