#include "run/plan.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/memory.h"
#include "base/text.h"
#include "run/trainer.h"

struct known { /* a structure that has been checked */
  uint64_t key, data, start;
  long vocab;
};

struct plan {
  struct known *known;
  size_t count;
};

struct plan *plan_new(void) { return memory_new(1, sizeof(struct plan)); }

void plan_free(struct plan *plan)
{
  if (plan) memory_free(plan->known);
  memory_free(plan);
}

long plan_trainers(const struct plan *plan) { return (long)plan->count; }

struct keying {
  struct buffer text;
  const char *data; /* the source's name: all its options decide about its content */
};

static int is_in_section(const char *key, const char *section)
{
  size_t length = strlen(section);
  return !strncmp(key, section, length) && key[length] == '.';
}

static int add_key(void *context, const struct config_entry *x)
{
  struct keying *k = context;
  int of_data = is_in_section(x->key, "data") || is_in_section(x->key, k->data);
  int of_structure =
    !(x->row->flags & OPTION_FREE) && x->row->type != OPTION_REAL && strcmp(x->key, "train.seed");
  if (x->used && (of_data || of_structure)) buffer_add(&k->text, "%s=%s\n", x->key, x->value);
  return 0;
}

static uint64_t structure_of(const struct config *c)
{
  struct keying k = {.data = ((const struct top_options *)config_section(c, ""))->data};
  config_each(c, add_key, &k);
  uint64_t key = XXH3_64bits(k.text.text, k.text.length);
  memory_free(k.text.text);
  return key;
}

static int learn(struct plan *plan, uint64_t key, struct config *c, struct error *e)
{
  struct trainer *t;
  int status = trainer_init(&t, c, TRAINER_NO_RECORD, e);
  if (status) return status;
  plan->known = memory_grow(plan->known, plan->count, plan->count + 1, sizeof *plan->known);
  struct known *k = &plan->known[plan->count++];
  *k = (struct known){.key = key, .vocab = trainer_model(t)->options.vocab};
  trainer_contents(t, &k->data, &k->start);
  trainer_abandon(t);
  return STATUS_OK;
}

int plan_check(struct plan *plan, struct config *c, char id[16], struct error *e)
{
  uint64_t key = structure_of(c);
  size_t i = 0;
  while (i < plan->count && plan->known[i].key != key) i++;
  int status = i < plan->count ? STATUS_OK : learn(plan, key, c, e);
  trainer_resolve(c);
  if (!status) status = model_resolve(config_section(c, "model"), plan->known[i].vocab, e);
  if (!status) config_id(c, plan->known[i].data, plan->known[i].start, id);
  return status;
}
