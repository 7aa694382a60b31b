#include "app/arms.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"

static int is_condition(const char *word, int count)
{
  (void)count;
  return strpbrk(word, "=<>") && access(word, F_OK) != 0;
}

static int select_arm(struct runset *set, const char **name, const struct selection *all,
                      struct words conditions, int i, struct error *error)
{
  struct selection s = *all;
  char **where = memory_new((size_t)s.wheres + 1, sizeof *where);
  for (int k = 0; k < s.wheres; k++) where[k] = s.where[k];
  if (conditions.count)
    *name = where[s.wheres++] = conditions.word[i];
  else
    *name = *(s.path += i), s.paths = 1;
  s.where = where;
  s.by = NULL; /* of the pairs */
  int status = runset_select(set, &s, RUNSET_RECORDED | RUNSET_ONCE, error);
  memory_free(where);
  return status ? error_prefix(error, "%s", i ? "B" : "A") : STATUS_OK;
}

int arms_select(struct runset set[2], const char *name[2], struct selected_runs *chosen, struct error *error)
{
  struct words conditions = words_take(&chosen->request.words, is_condition);
  const struct selection *all = selected_runs_open(chosen);
  int status = STATUS_OK;
  if (conditions.count > 2)
    status =
      error_set(error, STATUS_USAGE, "two conditions make two arms; '%s' is a third", conditions.word[2]);
  else if (!all->paths || (conditions.count ? conditions.count == 1 : all->paths != 2))
    status =
      error_set(error, STATUS_USAGE,
                "two arms are wanted: two folders (or files), or runs and two conditions such as kind=adam "
                "kind=muon");
  for (int i = 0; i < 2 && !status; i++) status = select_arm(&set[i], &name[i], all, conditions, i, error);
  memory_free(conditions.word);
  return status;
}
