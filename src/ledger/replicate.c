/* replicate.c - runs the same claims with other settings: does a verdict stand at another width, or on another text? */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "ledger/ledger_file.h"

struct replicate_words {
  const char **word;
  int count;
};

static int add_word(void *context, const char *word)
{
  struct replicate_words *w = context;
  if (!*word) return STATUS_OK;
  w->word = memory_grow(w->word, (size_t)w->count, (size_t)w->count + 1, sizeof *w->word);
  w->word[w->count++] = memory_text(word);
  return STATUS_OK;
}

static void keep_replica(struct entry *x, const struct entry *other, const char *settings)
{
  x->replica = memory_grow(x->replica, (size_t)x->replicas, (size_t)x->replicas + 1, sizeof *x->replica);
  struct replica *r = &x->replica[x->replicas++];
  *r = (struct replica){.finding = {other->judgement.verdict, entry_effect(other)}};
  snprintf(r->settings, sizeof r->settings, "%s", settings);
}

int ledger_replicate(struct ledger *l, const struct claim_row *rows, const char *settings, int run,
                     struct error *error)
{
  struct replicate_words w = {NULL, 0};
  struct ledger other;
  char **id = memory_new((size_t)l->entries + 1, sizeof *id);
  int ids = 0, own;
  for (int i = 0; i < l->entries; i++)
    if (claim_is_tested(l->entry[i].claim)) id[ids++] = memory_text(l->entry[i].claim->id);
  for (int i = 0; i < l->assignments; i++) add_word(&w, l->assignment[i]);
  own = w.count;
  text_split(settings, ' ', add_word, &w);
  int status = STATUS_OK;
  if (w.count == own)
    status = error_set(error, STATUS_USAGE, "nothing to replicate with: key=value is wanted");
  else if (ids)
    status = ledger_open(&other, rows, id, ids, error);
  if (ids && !status) {
    other.stages = l->stages, other.jobs = l->jobs;
    other.begin = l->begin, other.start = l->start, other.tune = l->tune, other.look = l->look,
    other.say = l->say, other.context = l->context;
    other.assignment = w.word, other.assignments = w.count;
    status = run ? ledger_run(&other, error) : ledger_plan(&other, 0, error);
    if (!status && run) ledger_recall(&other);
    if (!status && run) status = ledger_save(&other, error);
    for (int i = 0, k = 0; i < l->entries && !status && run; i++)
      if (k < other.entries && l->entry[i].claim == other.entry[k].claim)
        keep_replica(&l->entry[i], &other.entry[k++], settings);
    ledger_close(&other);
  }
  for (int i = 0; i < ids; i++) memory_free(id[i]);
  for (int i = 0; i < w.count; i++) memory_free((void *)(uintptr_t)w.word[i]);
  memory_free(id);
  memory_free(w.word);
  return status ? error_prefix(error, "replicated with %s", settings) : STATUS_OK;
}
