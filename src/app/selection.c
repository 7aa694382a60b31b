#include "app/selection.h"

const struct command_option selection_options[] = {
  {.row =
     {.name = "where",
      .type = OPTION_TEXT,
      .offset = offsetof(struct selected_runs, where),
      .help =
        "Only runs with 'KEY=VALUE & KEY<VALUE ...'; also !=, <=, >, >=; KEY=VALUE,VALUE for any of "
        "them. May be repeated, all must hold. KEY: any of the configuration (train.lr), kind (the "
        "first word of a group's name), state, id, seed, steps (done), date (started), or a metric as of "
        "show --of (val, peak)",
      .flags = OPTION_MANY},
   .argument = "CONDITION"},
  {.row = TEXT_ROW(struct selected_runs, selection.by, NULL,
                   "A group is the runs with the same values of these keys (separated by commas), instead of "
                   "those that differ only in their seed",
                   0),
   .argument = "KEYS"},
  {.row = TEXT_ROW(struct selected_runs, selection.sort, NULL,
                   "In the order of this key or metric; -KEY downwards", 0),
   .argument = "KEY"},
  {.row = INT_ROW(struct selected_runs, selection.last, "0", 1, NO_LIMIT, "1",
                  "Only the last N in that order; without --sort the N started last", 0),
   .argument = "N"},
  NO_OPTION};

const struct selection *selected_runs_open(struct selected_runs *c)
{
  struct selection *s = &c->selection;
  s->path = c->request.words.word, s->paths = c->request.words.count;
  s->where = c->where.word, s->wheres = c->where.count;
  return s;
}
