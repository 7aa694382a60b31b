#include "app/arms.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"

int arm_word(struct arm_words *w, char *text, struct argp_state *state)
{
  if (!strpbrk(text, "=<>") || access(text, F_OK) == 0) return 0;
  if (w->conditions == 2) argp_error(state, "two conditions make two arms; '%s' is a third", text);
  w->condition[w->conditions++] = text;
  return 1;
}

void arm_words_end(const struct arm_words *w, const struct selection *s, struct argp_state *state)
{
  if (w->conditions == 1 || (!w->conditions && s->paths != 2))
    argp_error(state,
               "two arms are wanted: two folders (or files), or runs and two conditions such as kind=adam "
               "kind=muon");
}

int arm_select(struct runset *set, const char **name, const struct selection *all, const struct arm_words *w,
               int i, struct error *error)
{
  struct selection s = *all;
  char **where = memory_new((size_t)s.wheres + 1, sizeof *where);
  for (int k = 0; k < s.wheres; k++) where[k] = s.where[k];
  if (w->conditions) {
    *name = where[s.wheres++] = w->condition[i];
  } else {
    *name = s.path[i];
    s.path += i;
    s.paths = 1;
  }
  s.where = where;
  s.by = NULL; /* of the pairs */
  int status = runset_select(set, &s, RUNSET_RECORDED | RUNSET_ONCE, error);
  memory_free(where);
  return status ? error_prefix(error, "%s", i ? "B" : "A") : STATUS_OK;
}
