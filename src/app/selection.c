#include "app/selection.h"

#include <stdlib.h>

#include "base/memory.h"

enum { KEY_WHERE = 1024, KEY_BY, KEY_SORT, KEY_LAST };
static const struct argp_option options[] = {
  {"where", KEY_WHERE, "CONDITION", 0,
   "Only runs with 'KEY=VALUE & KEY<VALUE ...'; also !=, <=, >, >=; KEY=VALUE,VALUE for any of them. May be "
   "repeated, all must hold. KEY: any of the configuration (train.lr), or kind (the first word of a group's "
   "name), state, id, seed, steps (done), date (started)",
   1},
  {"by", KEY_BY, "KEYS", 0,
   "A group is the runs with the same values of these keys (separated by commas), instead of those that "
   "differ "
   "only in their seed",
   1},
  {"sort", KEY_SORT, "KEY", 0, "In the order of this key; -KEY downwards", 1},
  {"last", KEY_LAST, "N", 0, "Only the last N in that order; without --sort the N started last", 1},
  {0}};

static void add(char ***list, int *count, char *word)
{
  *list = memory_grow(*list, (size_t)*count, (size_t)*count + 1, sizeof **list);
  (*list)[(*count)++] = word;
}

static error_t parse(int key, char *word, struct argp_state *state)
{
  struct chosen *c = state->input;
  struct selection *s = &c->selection;
  char *end;
  switch (key) {
  case KEY_WHERE: add(&c->where, &s->wheres, word), s->where = c->where; return 0;
  case KEY_BY: s->by = word; return 0;
  case KEY_SORT: s->sort = word; return 0;
  case KEY_LAST:
    s->last = strtol(word, &end, 10);
    if (end == word || *end || s->last < 1)
      argp_error(state, "--last=%s: a whole number of at least 1 is wanted", word);
    return 0;
  case ARGP_KEY_ARG: add(&c->path, &s->paths, word), s->path = c->path; return 0;
  case ARGP_KEY_END:
    if (s->paths == 0) argp_error(state, "no run file given");
    return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp selection_argp = {.options = options, .parser = parse};
const struct argp_child selection_child[] = {{&selection_argp, 0, "Which runs:", 1}, {0}};

void chosen_free(struct chosen *c)
{
  memory_free(c->path);
  memory_free(c->where);
}
