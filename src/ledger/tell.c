#include "ledger/tell.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/json.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/provenance.h"

const char *tell_number(double x, char out[32])
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

const char *tell_interval(const struct interval *i, char out[128])
{
  char number[3][32];
  if (isnan(i->lo))
    snprintf(out, 128, "%s", tell_number(i->mean, number[0]));
  else
    snprintf(out, 128, "%s [%s, %s]", tell_number(i->mean, number[0]), tell_number(i->lo, number[1]),
             tell_number(i->hi, number[2]));
  return out;
}

/* --- a table -------------------------------------------------------------------------------------------- */

void tell_table(const struct ledger *l)
{
  printf("%-7s %-13s %-30s %3s %10s %9s  %s\n", "claim", "verdict", "effect [98.75 %]", "n", "detectable",
         "Holm p", "predicted");
  for (int i = 0; i < l->entries; i++) {
    const struct entry *x = &l->entry[i];
    double detectable;
    struct interval e = entry_effect(x, &detectable);
    char effect[128], number[2][32], predicted[256];
    if (!claim_compared(x->claim)) {
      printf("%-7s %-13s %-30s %3s %10s %9s  %.60s\n", x->claim->id, verdict_name(x->judgement.verdict), "-",
             "-", "-", "-", x->claim->scale);
      continue;
    }
    printf("%-7s %-13s %-30s %3d %10s %9s  %s%s%s\n", x->claim->id, verdict_name(x->judgement.verdict),
           tell_interval(&e, effect), e.n, tell_number(detectable, number[0]),
           tell_number(x->holm, number[1]), prediction_text(x->claim, predicted, sizeof predicted),
           *x->failed ? "; failed: " : "", x->failed);
  }
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
    json_array_append_new(runs, json_pack("{s:o, s:I, s:s, s:o}", "id", json_text(run->id), "seed",
                                          (json_int_t)run->seed, "state", sweep_fate_name(run->fate), "value",
                                          run->value.has ? json_number(run->value.value) : json_null()));
  }
  return json_pack("{s:o, s:o, s:o, s:b, s:o, s:o}", "name", json_text(arm->name), "set", json_text(arm->set),
                   "metric", json_text(claim_metric(x->claim, a)), "compared", a < claim_compared(x->claim),
                   "mean", interval_json(&x->arm[a].mean), "runs", runs);
}

static json_t *entry_json(const struct entry *x)
{
  const struct claim *c = x->claim;
  json_t *arms = json_array();
  char predicted[256], reason[512], stamp[256];
  double detectable;
  struct interval e = entry_effect(x, &detectable);
  for (int a = 0; a < claim_arms(c); a++) json_array_append_new(arms, arm_json(x, a));
  entry_reason(x, reason);
  json_t *out = json_pack(
    "{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o}", "id", json_text(c->id), "verdict",
    verdict_name(x->judgement.verdict), "reason", json_text(reason), "sentence", json_text(c->sentence),
    "source", json_text(c->source), "experiment", json_text(x->question), "effect", interval_json(&e),
    "detectable", number_json(detectable), "p", number_json(x->judgement.p), "p_holm", number_json(x->holm),
    "contrast", c->contrast == CONTRAST_RATIO ? "ratio" : "difference", "predicted",
    claim_compared(c) ? json_text(prediction_text(c, predicted, sizeof predicted)) : json_null(), "matters",
    claim_compared(c) ? json_number(c->matters) : json_null());
  REQUIRE(out);
  json_object_set_new(out, "level", claim_compared(c) == 1 ? json_number(c->level) : json_null());
  json_object_set_new(out, "refuted_by", json_text(c->refute));
  json_object_set_new(out, "explored", json_text(c->explored));
  json_object_set_new(out, "regime", json_text(c->regime));
  json_object_set_new(out, "stages", json_integer(x->stage));
  json_object_set_new(out, "seeds_diverged", json_integer(x->diverged));
  json_object_set_new(out, "seeds_left_out", json_integer(x->left_out));
  json_object_set_new(out, "failed", *x->failed ? json_text(x->failed) : json_null());
  json_object_set_new(out, "arms", arms);
  json_object_set_new(out, "made_by", json_text(provenance_stamp(stamp, sizeof stamp)));
  return out;
}

json_t *tell_json(const struct ledger *l)
{
  json_t *all = json_array();
  for (int i = 0; i < l->entries; i++) json_array_append_new(all, entry_json(&l->entry[i]));
  return all;
}

/* --- READMEs -------------------------------------------------------------------------------------------- */

static const char open_mark[] = "<!-- claims: written by `maxlogit claims --readme` -->\n";
static const char close_mark[] = "<!-- end of claims -->\n";

static void add_runs(struct buffer *b, const struct entry_arm *arm)
{
  for (int i = 0; i < arm->runs; i++)
    buffer_add(b, "%s%s%s", i ? " " : "", arm->run[i].id,
               arm->run[i].fate == SWEEP_DIVERGED ? "(diverged)" : "");
}

static void add_arms(struct buffer *b, const struct entry *x)
{
  char mean[128];
  buffer_add(b, "| arm | set | n | value [95 %%] | runs |\n|---|---|---|---|---|\n");
  for (int a = 0; a < claim_arms(x->claim); a++) {
    const struct entry_arm *arm = &x->arm[a];
    buffer_add(b, "| %s | `%s` | %d | %s | ", x->claim->arm[a].name,
               x->claim->arm[a].set ? x->claim->arm[a].set : "the regime", arm->mean.n,
               tell_interval(&arm->mean, mean));
    add_runs(b, arm);
    buffer_add(b, " |\n");
  }
}

static void add_entry(struct buffer *b, const struct entry *x)
{
  const struct claim *c = x->claim;
  char reason[512], predicted[256], effect[128], number[2][32];
  double detectable;
  struct interval e = entry_effect(x, &detectable);
  entry_reason(x, reason);
  buffer_add(b, "### %s: %s\n\n%s (%s)\n\n%c%s.\n\n", c->id, verdict_name(x->judgement.verdict), c->sentence,
             c->source, toupper((unsigned char)*reason), reason + 1);
  if (!claim_compared(c)) return;
  buffer_add(b, "- Predicted: %s.\n", prediction_text(c, predicted, sizeof predicted));
  if (c->refute) buffer_add(b, "- Refuted by: %s\n", c->refute);
  buffer_add(b, "- Found: %s over %d %s; %s would have been seen with a chance of 80 %%; p after Holm %s.\n",
             tell_interval(&e, effect), e.n, claim_compared(c) > 1 ? "pairs" : "seeds",
             tell_number(detectable, number[0]), tell_number(x->holm, number[1]));
  if (x->diverged || x->left_out)
    buffer_add(b, "- Left out: %d seed%s with a run that diverged, %d without a value.\n", x->diverged,
               text_s(x->diverged), x->left_out);
  buffer_add(b, "- Metric: `%s`.", c->metric);
  for (int a = 0; a < claim_arms(c); a++)
    if (c->arm[a].metric) buffer_add(b, " %s: `%s`.", c->arm[a].name, c->arm[a].metric);
  buffer_add(b,
             "\n- Seeds of the verdict: %d to %d. Seen while the regime was chosen: %s\n- Again: `maxlogit "
             "claims %s`\n\n```ini\n%s```\n\n",
             LEDGER_SEED, LEDGER_SEED + x->arm[0].runs - 1, c->explored ? c->explored : "none.", c->id,
             c->regime);
  add_arms(b, x);
  buffer_add(b, "\n");
}

/* The text of a README with a new block: in place of the old one, or at the end. */
static void put_block(struct buffer *out, const char *old, const char *question, const char *block)
{
  char *from = old ? strstr(old, open_mark) : NULL, *to = from ? strstr(from, close_mark) : NULL;
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
  buffer_add(out, "%s%s%s%s%s", old && !to ? "\n" : "", open_mark, block, close_mark,
             to ? to + strlen(close_mark) : "");
}

/* Put a block into a README, which is made where there is none. */
static int put_readme(const char *path, const char *question, const char *block, struct error *error)
{
  struct buffer text = {0};
  char *old = NULL;
  size_t length;
  int status = access(path, F_OK) ? STATUS_OK : file_read(path, &old, &length, error);
  if (!status) {
    put_block(&text, old, question, block);
    status = file_make_folders(path, error);
  }
  if (!status) status = file_write(path, text.text, text.length, error);
  memory_free(old);
  memory_free(text.text);
  return status;
}

static void add_level(struct buffer *b, const struct ledger *l)
{
  char stamp[256];
  buffer_add(b, "At most %d seeds a claim (`--level %s`); intervals of effects are of %g %%. Made by %s.\n\n",
             stage_seeds[l->stages - 1], l->stages == STAGES ? "full" : "quick",
             100 - 100 * LEDGER_ERROR / STAGES, provenance_stamp(stamp, sizeof stamp));
}

static int tell_readme(const struct ledger *l, const char *folder, const char *question, struct error *error)
{
  struct buffer block = {0}, path = {0};
  buffer_add(&path, "%s/%s/README.md", folder, question);
  buffer_add(&block, "\n## Claims\n\n");
  add_level(&block, l);
  for (int i = 0; i < l->entries; i++)
    if (!strcmp(l->entry[i].question, question)) add_entry(&block, &l->entry[i]);
  int status = put_readme(path.text, question, block.text, error);
  memory_free(block.text);
  memory_free(path.text);
  return status;
}

/* FOLDER/README.md: all verdicts in one table. */
static int tell_overview(const struct ledger *l, const char *folder, struct error *error)
{
  struct buffer block = {0}, path = {0};
  char effect[128], what[128];
  double detectable;
  buffer_add(&path, "%s/README.md", folder);
  buffer_add(&block, "\n## Verdicts\n\n");
  add_level(&block, l);
  buffer_add(&block, "| claim | | verdict | effect | n |\n|---|---|---|---|---|\n");
  for (int i = 0; i < l->entries; i++) {
    const struct entry *x = &l->entry[i];
    struct interval e = entry_effect(x, &detectable);
    buffer_add(&block, "| [%s](%s) | %s | %s | ", x->claim->id, x->question, x->claim->sentence,
               verdict_name(x->judgement.verdict));
    if (claim_compared(x->claim))
      buffer_add(&block, "%s: %s | %d |\n", contrast_text(x->claim, what, sizeof what),
                 tell_interval(&e, effect), e.n);
    else
      buffer_add(&block, "| |\n");
  }
  buffer_add(&block, "\n");
  int status = put_readme(path.text, "0-experiments", block.text, error);
  memory_free(block.text);
  memory_free(path.text);
  return status;
}

int tell_readmes(const struct ledger *l, const char *folder, struct error *error)
{
  int status = STATUS_OK, all = 0;
  for (int i = 0; i < l->entries && !status; i++) {
    int first = 1;
    for (int k = 0; k < i; k++) first &= strcmp(l->entry[k].question, l->entry[i].question) != 0;
    if (first) status = tell_readme(l, folder, l->entry[i].question, error);
  }
  while (claim_rows[all].claim) all++;
  return status || l->entries < all ? status : tell_overview(l, folder, error);
}
