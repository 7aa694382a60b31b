#include "ledger/page.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analysis/share.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "ledger/tell.h"
#include "storage/provenance.h"

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

static void add_verdict(struct buffer *b, enum verdict v)
{
  char tag[32];
  snprintf(tag, sizeof tag, "span class=\"v v%d\"", (int)v);
  add_element(b, tag, verdict_name(v));
}

static void add_table(struct buffer *b, const struct ledger *l)
{
  char effect[128], what[128];
  buffer_add(b, "<table class=\"all\"><thead><tr><th>claim</th><th></th><th>verdict</th><th>effect</th>"
                "<th>n</th></tr></thead><tbody>\n");
  for (int i = 0; i < l->entries; i++) {
    const struct entry *x = &l->entry[i];
    struct interval e = entry_effect(x);
    buffer_add(b, "<tr><td><a href=\"#%s\">%s</a></td>", x->claim->id, x->claim->id);
    add_element(b, "td", x->claim->sentence);
    buffer_add(b, "<td>");
    add_verdict(b, x->judgement.verdict);
    buffer_add(b, "</td><td class=\"n\">");
    if (claim_compared(x->claim)) {
      buffer_add(b, x->claim->contrast == CONTRAST_RATIO ? "\303\227 " : "");
      add_text(b, tell_interval(&e, effect));
      buffer_add(b, "<br/>");
      add_element(b, "span class=\"what\"", contrast_text(x->claim, what, sizeof what));
      buffer_add(b, "</td><td class=\"n count\">%d</td></tr>\n", e.n);
    } else
      buffer_add(b, "</td><td></td></tr>\n");
  }
  buffer_add(b, "</tbody></table>\n");
}

static void add_arms(struct buffer *b, const struct entry *x)
{
  char mean[128];
  buffer_add(
    b, "<table><thead><tr><th>arm</th><th>set</th><th>n</th><th>median [95 %%]</th></tr></thead><tbody>\n");
  for (int a = 0; a < claim_arms(x->claim); a++) {
    const struct entry_arm *arm = &x->arm[a];
    const struct claim_arm *c = &x->claim->arm[a];
    buffer_add(b, "<tr>");
    add_element(b, "td", c->name);
    buffer_add(b, "<td>");
    add_element(b, "code", c->set ? c->set : "the regime");
    if (a < 2 && *x->rates.best[a]) buffer_add(b, "; tuned: train.lr=%s", x->rates.best[a]);
    if (c->metric) {
      buffer_add(b, "; ");
      add_element(b, "code", c->metric);
    }
    buffer_add(
      b, "</td><td class=\"n\">%d</td><td class=\"n\">%s</td></tr>\n<tr><td colspan=\"4\" class=\"ids\">",
      arm->mean.n, tell_interval(&arm->mean, mean));
    for (int i = 0; i < arm->runs; i++)
      buffer_add(b, "%s%s%s", i ? " " : "", arm->run[i].id,
                 arm->run[i].fate == SWEEP_DIVERGED ? " (diverged)" : "");
    buffer_add(b, "</td></tr>\n");
  }
  buffer_add(b, "</tbody></table>\n");
}

static void add_numbers(struct buffer *b, const struct entry *x)
{
  const struct claim *c = x->claim;
  char predicted[256], effect[128], number[2][32], change[512];
  struct interval e = entry_effect(x);
  buffer_add(b, "<p>Predicted, at equal %s: ", equal_name(c->equal));
  add_text(b, prediction_text(c, predicted, sizeof predicted));
  buffer_add(b, ". Found: <b>%s</b> over %d %s; p after Holm %s, by the false discovery rate %s.",
             tell_interval(&e, effect), e.n, claim_compared(c) > 1 ? "pairs of equal seed" : "seeds",
             tell_number(x->holm, number[0]), tell_number(x->fdr, number[1]));
  entry_change(x, change);
  if (*change) {
    buffer_add(b, " It would change by ");
    add_text(b, change);
    buffer_add(b, ".");
  }
  if (x->same_as) buffer_add(b, " The comparison is that of %s, and counts once.", x->same_as->id);
  if (*x->former.verdict) {
    buffer_add(b, " Changed after the fact; before: ");
    add_text(b, x->former.verdict);
    buffer_add(b, ".");
  }
  if (x->diverged)
    buffer_add(b, " %d seed%s left out because a run diverged.", x->diverged,
               x->diverged == 1 ? " is" : "s are");
  if (x->left_out)
    buffer_add(b, " %d seed%s left out for want of a value.", x->left_out,
               x->left_out == 1 ? " is" : "s are");
  buffer_add(b, "</p>\n");
  if (c->refute) {
    buffer_add(b, "<p class=\"soft\">It would be refuted by ");
    add_text(b, c->refute);
    buffer_add(b, ".</p>\n");
  }
}

static int add_section(struct buffer *b, const struct entry *x, const char *scripts, struct error *error)
{
  const struct claim *c = x->claim;
  char reason[512], *svg = NULL;
  int status = claim_compared(c) ? claim_figure(x, scripts, c->id, &svg, error) : STATUS_OK;
  if (status) return status;
  entry_reason(x, reason);
  buffer_add(b, "<section id=\"%s\"><h2>%s ", c->id, c->id);
  add_verdict(b, x->judgement.verdict);
  buffer_add(b, "</h2>\n");
  add_element(b, "p", c->sentence);
  buffer_add(b, "<p class=\"soft\">");
  add_text(b, c->source);
  buffer_add(b, " \302\267 experiments/%s</p>\n<p>", x->question);
  buffer_add(b, "%c", toupper((unsigned char)*reason));
  add_text(b, reason + 1);
  buffer_add(b, ".</p>\n");
  if (svg) buffer_add(b, "<div class=\"figure\">%s</div>\n", svg);
  memory_free(svg);
  if (claim_compared(c)) {
    add_numbers(b, x);
    add_arms(b, x);
    add_element(b, "pre", c->regime);
    buffer_add(b, "<p class=\"soft\">Metric <code>");
    add_text(b, c->metric);
    buffer_add(b,
               "</code>. Registered %s. Seeds of the verdict: %d to %d. Seen while the regime was chosen: ",
               x->registered, LEDGER_SEED, LEDGER_SEED + x->arm[0].runs - 1);
    add_text(b, c->explored);
    buffer_add(b, " Again: <code>maxlogit claims %s</code></p>\n", c->id);
  }
  buffer_add(b, "</section>\n");
  return STATUS_OK;
}

static void add_counts(struct buffer *b, const struct ledger *l)
{
  buffer_add(b, "<p>%d claim%s: ", l->entries, text_s(l->entries));
  for (enum verdict v = VERDICT_HOLDS, first = 1; v < VERDICTS; v++) {
    int n = 0;
    for (int i = 0; i < l->entries; i++) n += l->entry[i].judgement.verdict == v;
    if (!n) continue;
    buffer_add(b, first ? "%d " : ", %d ", n);
    add_verdict(b, v);
    first = 0;
  }
  buffer_add(b, ".</p>\n");
}

static void add_provenance(struct buffer *b, const struct ledger *l)
{
  struct provenance p;
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
  buffer_add(b,
             ". The runs took %.0f minutes of one core. Written %s.</p>\n<p>All of it again: <code>maxlogit "
             "claims --level %s "
             "--report DIR",
             seconds / 60, date, l->stages == STAGES ? "full" : "quick");
  for (int i = 0; i < l->assignments; i++) {
    buffer_add(b, " ");
    add_text(b, l->assignment[i]);
  }
  buffer_add(b, "</code></p></section>\n");
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

int page_write(const struct ledger *l, const char *folder, const char *scripts, struct error *error)
{
  struct buffer b = {0}, path = {0};
  int status = STATUS_OK;
  buffer_add(
    &b,
    "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head><meta "
    "charset=\"utf-8\"/>"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/><title>maxlogit: the ledger of "
    "claims</title><style>");
  status = add_style(&b, "style.css", error);
  if (!status) status = add_style(&b, "ledger.css", error);
  buffer_add(&b, "</style></head><body>\n<h1>What the literature says about max logits, on one small "
                 "machine</h1>\n");
  add_counts(&b, l);
  buffer_add(
    &b,
    "<p class=\"soft\">Each claim had its regime, its measure and the smallest effect that matters "
    "written down "
    "before its runs. Seeds (from %d on, never used while looking for a regime) come in stages of %d, "
    "%d, %d and %d, "
    "here %d of them; effects are medians over pairs of equal seed, and either one-sided error of a verdict "
    "is below "
    "%g %% over all looks. Holm and the false discovery rate correct for all %d comparisons. Small stacks "
    "of two layers on a built-in source: <i>refuted here</i> says nothing of large models, and "
    "<i>holds</i> little.</p>\n",
    LEDGER_SEED, stage_seeds[0], stage_seeds[1], stage_seeds[2], stage_seeds[3], l->stages,
    100 * LEDGER_ERROR, l->family);
  add_table(&b, l);
  for (int i = 0; i < l->entries && !status; i++) status = add_section(&b, &l->entry[i], scripts, error);
  add_provenance(&b, l);
  buffer_add(&b, "</body></html>\n");
  buffer_add(&path, "%s/index.html", folder);
  if (!status) status = file_make_folders(path.text, error);
  if (!status) status = file_write(path.text, b.text, b.length, error);
  memory_free(b.text);
  memory_free(path.text);
  return status;
}
