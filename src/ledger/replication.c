#include "ledger/replication.h"

#include <stdio.h>
#include <string.h>

#include "base/markup.h"
#include "base/memory.h"
#include "ledger/print.h"
#include "storage/provenance.h"

/* Shared by all blocks of one call. */
struct standing {
  const struct ledger *ledger;
  const struct other_ledger *of;
  char *settings;
};

static const json_t *other_of(const struct standing *s, const struct entry *x)
{
  return other_ledger_claim(s->of, x->claim->id);
}

static const char *word_of(const struct standing *s, const struct entry *x)
{
  const json_t *other = other_of(s, x);
  if (!other) return "";
  if (strcmp(entry_text(other, "registered"), x->registered) != 0) return "registered otherwise";
  return claim_standing(x->claim, &(struct finding){entry_verdict(other), entry_interval(other, "effect")},
                        &(struct finding){x->judgement.verdict, entry_effect(x)});
}

static void add_effect(struct buffer *b, const struct interval *e)
{
  char text[128];
  buffer_add(b, e->n ? " %s | %d |" : " | |", print_interval(e, text), e->n);
}

static void add_row(struct buffer *b, const struct standing *s, const struct entry *x, int is_overview)
{
  const json_t *other = other_of(s, x);
  char rates[64];
  struct interval here = entry_effect(x), there = entry_interval(other, "effect");
  if (is_overview)
    buffer_add(b, "| [%s](%s) |", x->claim->id, x->question);
  else
    buffer_add(b, "| %s |", x->claim->id);
  buffer_add(b, " %s | %s", x->claim->sentence, equal_name(x->claim->equal));
  if (*entry_rates_text(x, rates)) buffer_add(b, ": %s", rates);
  buffer_add(b, " | ");
  markdown_add(b, entry_text(other, "verdict"));
  buffer_add(b, " |");
  add_effect(b, &there);
  buffer_add(b, " %s |", verdict_name(x->judgement.verdict));
  add_effect(b, &here);
  buffer_add(b, " %s |\n", word_of(s, x));
}

/* Is the claim listed? It must be testable, and belong to the question (NULL: any). */
static int is_told(const struct entry *x, const char *question)
{
  return claim_compared(x->claim) && !x->claim->scale && (!question || !strcmp(x->question, question));
}

static void add_count(struct buffer *b, const struct standing *s)
{
  int stand = 0, flip = 0, all = 0;
  for (int i = 0; i < s->ledger->entries; i++) {
    const struct entry *x = &s->ledger->entry[i];
    const char *word = word_of(s, x);
    if (!is_told(x, NULL)) continue;
    all++;
    stand += !strcmp(word, "stands");
    flip += !strcmp(word, "flips");
  }
  buffer_add(
    b, "Claims: %d; verdicts that stand: %d, flip: %d, are open or open in size on one side or both: %d.\n\n",
    all, stand, flip, all - stand - flip);
}

static void add_head(struct buffer *b, const struct standing *s)
{
  const struct ledger *l = s->ledger;
  char stamp[256];
  buffer_add(
    b,
    "\n## With `%s`\n\nThe same claims with these settings: at most %d seeds each, tuned arms tuned again. A "
    "verdict *stands* if it is the same here, *flips* if it is the opposite one, and is *open* if either is "
    "open "
    "or open in size. Made by %s; of `",
    s->settings, stage_seeds[l->stages - 1], provenance_stamp(stamp, sizeof stamp));
  markdown_add(b, s->of->name);
  buffer_add(b, "`: made by ");
  markdown_add(b, entry_text(other_ledger_first(s->of), "made_by"));
  buffer_add(b, ". Again:\n\n```sh\nmaxlogit claims");
  for (int i = 0; i < l->entries; i++) buffer_add(b, " %s", l->entry[i].claim->id);
  buffer_add(b, " --level %s %s --beside ", l->stages == STAGES ? "full" : "quick", s->settings);
  shell_add(b, s->of->path);
  buffer_add(b, " --replicas DIR\n```\n\n");
}

/* Write the block of all claims, or that of one question, which also lists their arms. */
static int tell_one(const struct standing *s, const char *folder, const char *question, struct error *error)
{
  const struct ledger *l = s->ledger;
  struct buffer open = {0}, close = {0}, b = {0};
  char reason[512];
  buffer_add(&open, "<!-- claims with %s: written by `maxlogit claims --replicas` -->\n", s->settings);
  buffer_add(&close, "<!-- end of claims with %s -->\n", s->settings);
  add_head(&b, s);
  if (!question) add_count(&b, s);
  buffer_add(&b, "| claim | sentence | equal: best rates here | ");
  markdown_add(&b, s->of->name);
  buffer_add(&b,
             " | effect | n | here | effect | n | outcome |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (int i = 0; i < l->entries; i++)
    if (is_told(&l->entry[i], question)) add_row(&b, s, &l->entry[i], !question);
  for (int i = 0; i < l->entries && question; i++) {
    if (!is_told(&l->entry[i], question)) continue;
    entry_reason(&l->entry[i], reason);
    buffer_add(&b, "\n<details><summary>%s</summary>\n\nHere %s.\n\n", l->entry[i].claim->id, reason);
    print_arms(&b, &l->entry[i]);
    buffer_add(&b, "\n</details>\n");
  }
  buffer_add(&b, "\n");
  int status = print_block(&(struct readme_block){open.text, close.text, b}, folder, question, error);
  memory_free(open.text);
  memory_free(close.text);
  memory_free(b.text);
  return status;
}

int replication_print(const struct ledger *l, const struct other_ledger *of, const char *folder,
                      struct error *error)
{
  struct buffer settings = {0};
  ledger_settings(l, &settings);
  struct standing s = {l, of, settings.text};
  int status = STATUS_OK;
  for (int i = 0; i < l->entries && !status; i++) {
    if (ledger_asks_first(l, i)) status = tell_one(&s, folder, l->entry[i].question, error);
  }
  if (!status) status = tell_one(&s, folder, NULL, error);
  memory_free(settings.text);
  return status;
}
