#include "ledger/print.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/json.h"
#include "base/file.h"
#include "base/markup.h"
#include "base/memory.h"
#include "base/text.h"
#include "ledger/other_ledger.h"
#include "ledger/readme.h"
#include "storage/provenance.h"

const char *print_short_number(double x, char out[32])
{
  double size = fabs(x);
  if (isnan(x))
    snprintf(out, 32, "-");
  else if (size >= 1e5 || (size > 0 && size < 1e-4))
    snprintf(out, 32, "%.2e", x);
  else
    snprintf(out, 32, size >= 1000 ? "%.0f" : size >= 100 ? "%.1f" : "%.3g", x);
  return out;
}

const char *print_interval(const struct interval *i, char out[128])
{
  char number[3][32];
  if (isnan(i->lo))
    snprintf(out, 128, "%s", print_short_number(i->mean, number[0]));
  else
    snprintf(out, 128, "%s [%s, %s]", print_short_number(i->mean, number[0]),
             print_short_number(i->lo, number[1]), print_short_number(i->hi, number[2]));
  return out;
}

/* --- a table -------------------------------------------------------------------------------------------- */

/* The entry of the same question with tuned arms; NULL if there is none, or if it is not listed. */
static const struct entry *tuned_twin(const struct ledger *l, const struct entry *x)
{
  for (int i = 0; x->claim->tuned && i < l->entries; i++)
    if (!strcmp(l->entry[i].claim->id, x->claim->tuned)) return &l->entry[i];
  return NULL;
}

/* "holds (lr 0.03; tuned, C-02b: inconclusive)", the earlier claim with the same comparison, and the verdict before a
   change. */
static void add_verdict(struct buffer *b, const struct ledger *l, const struct entry *x)
{
  char rates[32];
  const struct entry *twin = tuned_twin(l, x);
  buffer_add(b, "%s", verdict_name(x->judgement.verdict));
  if (claim_compared(x->claim) && *claim_rates(x->claim, rates)) {
    buffer_add(b, " (%s", rates);
    if (twin) buffer_add(b, "; tuned, %s: %s", twin->claim->id, verdict_name(twin->judgement.verdict));
    buffer_add(b, ")");
  }
  if (x->same_as) buffer_add(b, " (counted as %s)", x->same_as->id);
  if (*x->former.verdict) buffer_add(b, " (changed after the fact; was: %s)", x->former.verdict);
}

void print_table(const struct ledger *l)
{
  printf("%-7s %-20s %-8s %-6s %-30s %3s %8s %8s  %s\n", "claim", "verdict", "rate", "equal", "effect", "n",
         "Holm", "FDR", "predicted");
  for (int i = 0; i < l->entries; i++) {
    const struct entry *x = &l->entry[i];
    struct interval e = entry_effect(x);
    char effect[128] = "-", number[3][32] = {"-", "-", "-"}, text[256], change[512], rates[32] = "";
    if (claim_compared(x->claim)) claim_rates(x->claim, rates);
    if (e.n) snprintf(number[2], 32, "%d", e.n);
    if (claim_compared(x->claim))
      prediction_text(x->claim, text, sizeof text);
    else
      snprintf(text, sizeof text, "%.60s", x->claim->withdrawn ? x->claim->withdrawn : x->claim->scale);
    printf("%-7s %-20s %-8s %-6s %-30s %3s %8s %8s  %s%s%s\n", x->claim->id,
           verdict_name(x->judgement.verdict), *rates ? rates : "-", equal_name(x->claim->equal),
           e.n ? print_interval(&e, effect) : effect, number[2], print_short_number(x->holm, number[0]),
           print_short_number(x->fdr, number[1]), text, *x->failed ? "; failed: " : "", x->failed);
    if (x->same_as) printf("%8s the comparison of %s: counted once\n", "", x->same_as->id);
    if (*x->former.verdict)
      printf("%8s changed after the fact; before: %s, %s\n", "", x->former.verdict,
             print_interval(&x->former.effect, effect));
    entry_change(x, change);
    if (*change) printf("%8s would change by %s\n", "", change);
  }
  printf(
    "Effects are medians over pairs of equal seed; Holm and FDR (Benjamini, Hochberg) correct p for the %d "
    "comparison%s\nthat the whole ledger can test, and for the looks. Either one-sided error of a verdict by "
    "itself "
    "is "
    "below %g %%.\n",
    l->family, text_s(l->family), 100 * LEDGER_ERROR);
}

/* --- JSON ----------------------------------------------------------------------------------------------- */

static json_t *number_json(double x) { return isnan(x) ? json_null() : json_number(x); }

static json_t *interval_json(const struct interval *i)
{
  return json_pack("{s:i, s:o, s:o, s:o}", "n", i->n, "mean", number_json(i->mean), "lo", number_json(i->lo),
                   "hi", number_json(i->hi));
}

static json_t *arm_json(const struct entry *x, int a)
{
  const struct claim_arm *arm = &x->claim->arm[a];
  json_t *runs = json_array();
  for (int i = 0; i < x->arm[a].runs; i++) {
    const struct entry_run *run = &x->arm[a].run[i];
    json_t *one = json_pack("{s:o, s:I, s:s, s:o}", "id", json_text(run->id), "seed", (json_int_t)run->seed,
                            "state", sweep_fate_name(run->fate), "value",
                            run->value.has ? json_number(run->value.value) : json_null());
    if (run->blew_up) json_object_set_new(one, "blew_up", json_true());
    json_array_append_new(runs, one);
  }
  return json_pack("{s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "name", json_text(arm->name), "set",
                   json_text(arm->set), "start", json_text(arm->start), "metric",
                   json_text(claim_metric(x->claim, a)), "compared", a < claim_compared(x->claim), "mean",
                   interval_json(&x->arm[a].mean), "runs", runs);
}

static json_t *former_json(const struct former *f)
{
  if (!*f->verdict) return json_null();
  return json_pack("{s:o, s:o, s:o, s:o}", "registered", json_text(f->registered), "verdict",
                   json_text(f->verdict), "effect", interval_json(&f->effect), "made_by",
                   json_text(f->made_by));
}

/* The rates of tuned arms, with the losses that chose them; null if nothing is tuned. */
static json_t *rates_json(const struct entry *x)
{
  const struct entry_rates *r = &x->rates;
  if (!*r->best[0]) return json_null();
  json_t *arms = json_array();
  for (int a = 0; a < claim_compared(x->claim); a++) {
    json_t *grid = json_array();
    for (int k = 0; k < OPTIMUM_RATES; k++)
      json_array_append_new(grid, json_pack("{s:o, s:o}", "train.lr", json_text(entry_grid_rate(x, a, k)),
                                            "loss", number_json(entry_grid_loss(x, a, k))));
    json_array_append_new(arms,
                          json_pack("{s:o, s:o, s:s, s:o, s:o}", "arm", json_text(x->claim->arm[a].name),
                                    "train.lr", json_text(r->best[a]), "end", tuning_end_text(r->end[a]),
                                    "grid", grid, "optimum", interval_json(&r->optimum[a])));
  }
  return json_pack("{s:o, s:o, s:s}", "best", arms, "verdict_if_known",
                   r->optimum->n ? json_text(verdict_name(r->if_known)) : json_null(), "chosen",
                   r->kept ? "before" : "here");
}

static json_t *replicas_json(const struct entry *x)
{
  json_t *all = json_array();
  for (int i = 0; i < x->replicas; i++)
    json_array_append_new(all, json_pack("{s:o, s:s, s:o}", "settings", json_text(x->replica[i].settings),
                                         "verdict", verdict_name(x->replica[i].finding.verdict), "effect",
                                         interval_json(&x->replica[i].finding.effect)));
  return all;
}

static json_t *entry_json(const struct ledger *l, const struct entry *x)
{
  const struct claim *c = x->claim;
  const struct judgement *j = &x->judgement;
  struct buffer settings = {0};
  json_t *arms = json_array();
  char predicted[256], text[512], stamp[256];
  struct interval e = entry_effect(x);
  for (int a = 0; a < claim_arms(c); a++) json_array_append_new(arms, arm_json(x, a));
  entry_reason(x, text);
  json_t *out = json_pack(
    "{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:s, s:o, s:o}", "id", json_text(c->id),
    "verdict", verdict_name(j->verdict), "reason", json_text(text), "sentence", json_text(c->sentence),
    "source", json_text(c->source), "experiment", json_text(x->question), "effect", interval_json(&e),
    "equal", equal_name(c->equal), "p", number_json(j->p), "p_holm", number_json(x->holm), "p_fdr",
    number_json(x->fdr), "contrast", contrast_name(c->contrast), "predicted",
    claim_compared(c) ? json_text(prediction_text(c, predicted, sizeof predicted)) : json_null(), "matters",
    claim_compared(c) ? json_number(c->matters) : json_null());
  REQUIRE(out);
  entry_change(x, text);
  ledger_settings(l, &settings);
  json_object_set_new(out, "rates", rates_json(x));
  json_object_set_new(out, "replicated", replicas_json(x));
  json_object_set_new(out, "would_change_by", *text ? json_text(text) : json_null());
  json_object_set_new(out, "pairs_wanted", number_json(j->pairs));
  json_object_set_new(out, "same_comparison_as", x->same_as ? json_text(x->same_as->id) : json_null());
  json_object_set_new(out, "level", claim_compared(c) == 1 ? json_number(c->level) : json_null());
  json_object_set_new(out, "refuted_by", json_text(c->refute));
  json_object_set_new(out, "explored", json_text(c->explored));
  json_object_set_new(out, "revised", json_text(c->revised));
  json_object_set_new(out, "regime", json_text(c->regime));
  json_object_set_new(out, "start", json_text(c->start));
  json_object_set_new(out, "settings", json_text(settings.text));
  json_object_set_new(out, "ran", json_text(l->stages == STAGES ? "full" : "quick"));
  json_object_set_new(out, "rule", json_integer(LEDGER_RULE));
  json_object_set_new(out, "registered", json_text(x->registered));
  json_object_set_new(out, "changed_after_the_fact", former_json(&x->former));
  json_object_set_new(out, "stages", json_integer(x->stage));
  json_object_set_new(out, "seeds_diverged", json_integer(x->diverged));
  json_object_set_new(out, "seeds_left_out", json_integer(x->left_out));
  if (x->blown_up) json_object_set_new(out, "seeds_blown_up", json_integer(x->blown_up));
  json_object_set_new(out, "failed", *x->failed ? json_text(x->failed) : json_null());
  json_object_set_new(out, "arms", arms);
  json_object_set_new(out, "made_by", json_text(provenance_stamp(stamp, sizeof stamp)));
  memory_free(settings.text);
  return out;
}

json_t *ledger_json(const struct ledger *l)
{
  json_t *all = json_array();
  for (int i = 0; i < l->entries; i++) json_array_append_new(all, entry_json(l, &l->entry[i]));
  return all;
}

/* --- READMEs -------------------------------------------------------------------------------------------- */

static void add_runs(struct buffer *b, const struct entry_arm *arm)
{
  for (int i = 0; i < arm->runs; i++)
    buffer_add(b, "%s%s%s", i ? " " : "", arm->run[i].id,
               arm->run[i].fate == SWEEP_DIVERGED ? "(diverged)"
               : arm->run[i].blew_up              ? "(blown up)"
                                                  : "");
}

void print_arms(struct buffer *b, const struct entry *x)
{
  char mean[128];
  buffer_add(b, "| arm | set | n | median [95 %%] | runs |\n|---|---|---|---|---|\n");
  for (int a = 0; a < claim_arms(x->claim); a++) {
    const struct entry_arm *arm = &x->arm[a];
    const char *rate = a < 2 ? x->rates.best[a] : "";
    const char *start = x->claim->arm[a].start;
    buffer_add(b, "| %s | `%s`%s%s", x->claim->arm[a].name,
               x->claim->arm[a].set ? x->claim->arm[a].set : "the regime", *rate ? ", runs at train.lr=" : "",
               rate);
    if (start) buffer_add(b, ", from `%s`", start);
    buffer_add(b, " | %d | %s | ", arm->mean.n, print_interval(&arm->mean, mean));
    add_runs(b, arm);
    buffer_add(b, " |\n");
  }
}

/* The finding of another ledger for the same claim. */
static void add_other(struct buffer *b, const struct other_ledger *beside, const struct entry *x)
{
  const json_t *other = other_ledger_claim(beside, x->claim->id);
  if (!other) return;
  char effect[128];
  struct interval e = entry_interval(other, "effect");
  buffer_add(b, "- On ");
  markdown_add(b, beside->name);
  buffer_add(b, ": ");
  markdown_add(b, entry_text(other, "verdict"));
  if (e.n) buffer_add(b, "; %s over %d", print_interval(&e, effect), e.n);
  if (strcmp(entry_text(other, "registered"), x->registered) != 0) {
    buffer_add(b, "; registered otherwise there (");
    markdown_add(b, entry_text(other, "registered"));
    buffer_add(b, ")");
  }
  buffer_add(b, ".\n");
}

/* "nat" after an effect that is a difference of losses. */
static const char *effect_unit(const struct claim *c)
{
  const char *metric = claim_metric(c, 0);
  int is_loss = !strncmp(metric, "loss", 4) || !strncmp(metric, "val_loss", 8);
  return c->contrast == CONTRAST_DIFFERENCE && is_loss && !strchr(metric, '=') ? " nat" : "";
}

/* A cell: "equal rms: learning rate 0.03, 600 steps". */
static void add_regime(struct buffer *b, const struct entry *x)
{
  static const struct {
    const char *key, *before, *after;
  } words[] = {{"preset", "`", "`"},
               {"model.width", "width ", ""},
               {"train.lr", "learning rate ", ""},
               {"train.weight_decay", "weight decay ", ""},
               {"train.steps", "", " steps"}};
  const struct claim *c = x->claim;
  int is_tuned = c->equal == EQUAL_TUNED, length;
  char rates[64];
  const char *before = ": ";
  buffer_add(b, is_tuned ? "%s" : "equal %s", equal_name(c->equal));
  if (is_tuned && *entry_rates_text(x, rates)) buffer_add(b, " (%s)", rates);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    const char *value = claim_regime_value(c, words[i].key, &length);
    if (!length || (is_tuned && !strcmp(words[i].key, "train.lr"))) continue;
    buffer_add(b, "%s%s%.*s%s", before, words[i].before, length, value, words[i].after);
    before = ", ";
  }
}

/* A row of the table of an experiment. */
static void add_line(struct buffer *b, const struct ledger *l, const struct entry *x)
{
  const struct claim *c = x->claim;
  char reason[512], effect[128], contrast[128];
  struct interval e = entry_effect(x);
  entry_reason(x, reason);
  buffer_add(b, "| %s: %s | **", c->id, c->sentence);
  add_verdict(b, l, x);
  buffer_add(b, "**: %s | ", reason);
  if (claim_compared(c)) {
    add_regime(b, x);
    buffer_add(b, " | %s: %s%s | %d |", contrast_text(c, contrast, sizeof contrast),
               print_interval(&e, effect), effect_unit(c), e.n);
  } else
    buffer_add(b, "| | |");
  buffer_add(b, " %s |\n", c->source);
}

/* The grid of each tuned arm with its losses, and the optimum between. */
static void add_rates(struct buffer *b, const struct entry *x)
{
  char number[2][128];
  for (int a = 0; a < claim_compared(x->claim) && *x->rates.best[a]; a++) {
    buffer_add(b, "- Rates of %s:", x->claim->arm[a].name);
    for (int k = 0; k < OPTIMUM_RATES; k++)
      if (*entry_grid_rate(x, a, k))
        buffer_add(b, " %s (loss %.4f),", entry_grid_rate(x, a, k), entry_grid_loss(x, a, k));
    buffer_add(b, " best %s.\n",
               x->rates.optimum[a].n ? print_interval(&x->rates.optimum[a], number[0]) : x->rates.best[a]);
  }
}

/* The folded details of a claim: prediction, settings, command, hash and runs. */
static void add_details(struct buffer *b, const struct entry *x, const struct other_ledger *beside)
{
  const struct claim *c = x->claim;
  char text[512], predicted[256], effect[128], number[2][32], equal[32];
  struct interval e = entry_effect(x);
  if (!claim_compared(c) && !c->revised) return;
  buffer_add(b, "<details><summary>%s</summary>\n\n", c->id);
  if (c->revised) buffer_add(b, "- Revised: %s\n", c->revised);
  if (!claim_compared(c)) {
    buffer_add(b, "\n</details>\n\n");
    return;
  }
  buffer_add(b, "- Predicted, at %s: %s.\n", equal_text(c->equal, equal),
             prediction_text(c, predicted, sizeof predicted));
  if (c->refute) buffer_add(b, "- Refuted by: %s\n", c->refute);
  buffer_add(b, "- Result: %s%s over %d %s; p after Holm %s, by the false discovery rate %s.\n",
             print_interval(&e, effect), effect_unit(c), e.n, claim_compared(c) > 1 ? "pairs" : "seeds",
             print_short_number(x->holm, number[0]), print_short_number(x->fdr, number[1]));
  add_other(b, beside, x);
  entry_change(x, text);
  if (*text) buffer_add(b, "- Would change by: %s.\n", text);
  if (*x->former.verdict)
    buffer_add(b, "- Changed after the fact. Before (%s): %s, %s.\n", x->former.registered, x->former.verdict,
               print_interval(&x->former.effect, effect));
  if (x->diverged || x->left_out)
    buffer_add(b, "- Left out: %d seed%s with a run that diverged, %d without a value.\n", x->diverged,
               text_s(x->diverged), x->left_out);
  if (x->blown_up)
    buffer_add(b, "- Counted all the same: %d seed%s with a run that blew up.\n", x->blown_up,
               text_s(x->blown_up));
  add_rates(b, x);
  buffer_add(b, "- Metric: `%s`.", c->metric);
  for (int a = 0; a < claim_arms(c); a++)
    if (c->arm[a].metric) buffer_add(b, " %s: `%s`.", c->arm[a].name, c->arm[a].metric);
  buffer_add(
    b,
    "\n- Registered: %s. Seeds of the verdict: %d to %d. Explored while the regime was chosen: %s\n- "
    "Again: `maxlogit "
    "claims %s`\n\n```ini\n%s```\n\n",
    x->registered, LEDGER_SEED, LEDGER_SEED + x->arm[0].runs - 1, c->explored ? c->explored : "none.", c->id,
    c->regime);
  if (c->start) buffer_add(b, "starting from the end, by equal seed, of\n\n```ini\n%s```\n\n", c->start);
  print_arms(b, x);
  buffer_add(b, "\n</details>\n\n");
}

/* The text of a README with a new block, which replaces the old one or is appended. */
static void put_block(struct buffer *out, const char *old, const char *question,
                      const struct readme_block *block)
{
  const char *from = old ? strstr(old, block->open) : NULL, *to = from ? strstr(from, block->close) : NULL;
  if (!old) {
    const char *name = strchr(question, '-');
    char title[96];
    snprintf(title, sizeof title, "%s", name ? name + 1 : question);
    for (char *at = title; *at; at++)
      if (*at == '-') *at = ' ';
    if (*title >= 'a' && *title <= 'z') *title = (char)(*title - 'a' + 'A');
    buffer_add(out, "# %s\n\n", title);
  }
  buffer_add(out, "%.*s", old ? (int)(to ? from - old : (long)strlen(old)) : 0, old ? old : "");
  buffer_add(out, "%s%s%s%s%s", old && !to ? "\n" : "", block->open, block->text.text, block->close,
             to ? to + strlen(block->close) : "");
}

int print_block(const struct readme_block *block, const char *folder, const char *question,
                struct error *error)
{
  struct buffer text = {0}, path = {0}, within = {0};
  char *old = NULL;
  size_t length;
  buffer_add(&within, "%s%s%s", folder, question ? "/" : "", question ? question : "");
  buffer_add(&path, "%s/README.md", within.text);
  struct error missing = {0};
  int in =
    folder_open(within.text, FOLDER_MAKE | (question ? FOLDER_REAL : 0), error); /* a name of this program */
  memory_free(within.text);
  if (in < 0) {
    memory_free(path.text);
    return error->status;
  }
  int status = file_read_real(path.text, &old, &length, &missing);
  status = status && errno != ENOENT ? error_set(error, status, "%s", missing.text) : STATUS_OK;
  if (old && memchr(old, 0, length))
    status = error_set(error, STATUS_USAGE,
                       "%s is not plain text (UTF-16?) and stays as it is: save it as UTF-8", path.text);
  if (!status) {
    put_block(&text, old, question ? question : "0-experiments", block);
    status = file_write_in(in, path.text, text.text, text.length, error);
  }
  close(in);
  memory_free(old);
  memory_free(text.text);
  memory_free(path.text);
  return status;
}

static void add_level(struct buffer *b, const struct ledger *l, const struct other_ledger *beside)
{
  char stamp[256];
  struct buffer settings = {0};
  ledger_settings(l, &settings);
  buffer_add(b,
             "At most %d seeds per claim (`--level %s`)%s%s; rule %d: medians over pairs, either one-sided "
             "error below %g "
             "%%. Made by %s.\n\n",
             stage_seeds[l->stages - 1], l->stages == STAGES ? "full" : "quick", settings.length ? ", " : "",
             settings.text, LEDGER_RULE, 100 * LEDGER_ERROR, provenance_stamp(stamp, sizeof stamp));
  if (beside) {
    buffer_add(b, "Beside it, on ");
    markdown_add(b, beside->name);
    buffer_add(b, " (`");
    markdown_add(b, entry_text(other_ledger_first(beside), "settings"));
    buffer_add(b, "`): made by ");
    markdown_add(b, entry_text(other_ledger_first(beside), "made_by"));
    buffer_add(b, ".\n\n");
  }
  memory_free(settings.text);
}

static int tell_readme(const struct ledger *l, const struct other_ledger *beside, const char *folder,
                       const char *question, struct error *error)
{
  struct readme_block block = {readme_open_mark, readme_close_mark, {0}};
  buffer_add(&block.text, "\n## Claims\n\n");
  add_level(&block.text, l, beside);
  buffer_add(&block.text,
             "Effects are medians over pairs of equal seed. Settings that a regime does not name have their "
             "default.\n\n| claim | verdict | regime | effect | n | source |\n|---|---|---|---|---|---|\n");
  for (int i = 0; i < l->entries; i++)
    if (!strcmp(l->entry[i].question, question)) add_line(&block.text, l, &l->entry[i]);
  buffer_add(&block.text, "\n");
  for (int i = 0; i < l->entries; i++)
    if (!strcmp(l->entry[i].question, question)) add_details(&block.text, &l->entry[i], beside);
  int status = print_block(&block, folder, question, error);
  memory_free(block.text.text);
  return status;
}

/* Cells of another ledger: verdict, effect, n. */
static void add_cells(struct buffer *b, const json_t *other)
{
  char effect[128] = "", n[32] = "";
  struct interval e = entry_interval(other, "effect");
  if (e.n) print_interval(&e, effect), snprintf(n, sizeof n, "%d", e.n);
  buffer_add(b, " ");
  markdown_add(b, entry_text(other, "verdict"));
  buffer_add(b, " | %s | %s |", effect, n);
}

/* FOLDER/README.md: all verdicts in one table. */
static int tell_overview(const struct ledger *l, const struct other_ledger *beside, const char *folder,
                         struct error *error)
{
  struct readme_block block = {readme_open_mark, readme_close_mark, {0}};
  struct buffer *b = &block.text;
  char effect[128], what[128], number[2][32];
  buffer_add(b, "\n## Verdicts\n\n");
  add_level(b, l, beside);
  buffer_add(b, "Holm and FDR are p-values, corrected for all %d comparisons.\n\n", l->family);
  buffer_add(b, "| claim | sentence | verdict | regime | effect | n | Holm | FDR | registered |");
  if (beside) {
    buffer_add(b, " on ");
    markdown_add(b, beside->name);
    buffer_add(b, " | effect | n |");
  }
  buffer_add(b, "\n|---|---|---|---|---|---|---|---|---|%s\n", beside ? "---|---|---|" : "");
  for (int i = 0; i < l->entries; i++) {
    const struct entry *x = &l->entry[i];
    struct interval e = entry_effect(x);
    buffer_add(b, "| [%s](%s) | %s | ", x->claim->id, x->question, x->claim->sentence);
    add_verdict(b, l, x);
    if (claim_compared(x->claim)) {
      buffer_add(b, " | ");
      add_regime(b, x);
      buffer_add(b, " | %s: %s%s | %d | %s | %s | %s |", contrast_text(x->claim, what, sizeof what),
                 print_interval(&e, effect), effect_unit(x->claim), e.n,
                 print_short_number(x->holm, number[0]), print_short_number(x->fdr, number[1]),
                 x->registered);
    } else
      buffer_add(b, " | | | | | | |");
    if (beside) add_cells(b, other_ledger_claim(beside, x->claim->id));
    buffer_add(b, "\n");
  }
  buffer_add(b, "\n");
  int status = print_block(&block, folder, NULL, error);
  memory_free(b->text);
  return status;
}

int print_readmes(const struct ledger *l, const struct other_ledger *beside, const char *folder,
                  struct error *error)
{
  int status = STATUS_OK, all = 0;
  for (int i = 0; i < l->entries && !status; i++) {
    if (ledger_asks_first(l, i)) status = tell_readme(l, beside, folder, l->entry[i].question, error);
  }
  while (claim_rows[all].claim) all++;
  if (!status && l->entries >= all) status = tell_overview(l, beside, folder, error);
  return status;
}
