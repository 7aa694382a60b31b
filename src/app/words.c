#include "app/words.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static error_t parse(int key, char *word, struct argp_state *state)
{
  struct words *w = state->input;
  switch (key) {
  case ARGP_KEY_ARG:
    if (strchr(word, '=')) {
      w->assignment =
        memory_grow(w->assignment, (size_t)w->count, (size_t)w->count + 1, sizeof *w->assignment);
      w->assignment[w->count++] = word;
    } else if (!w->file)
      w->file = word;
    else
      argp_error(state, "'%s': %s; settings are written key=value", word, w->once);
    return 0;
  case ARGP_KEY_END:
    if (!w->file && w->wanted) argp_error(state, "%s", w->wanted);
    return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp words_argp = {.parser = parse};
const struct argp_child words_child[] = {{&words_argp, 0, NULL, 0}, {0}};

void words_free(struct words *w) { memory_free(w->assignment); }

long words_jobs(const char *text, struct argp_state *state)
{
  char *end;
  long jobs = strtol(text, &end, 10);
  if (end == text || *end || jobs < 1 || jobs > 1024)
    argp_error(state, "-j '%s' is not a number from 1 to 1024", text);
  return jobs;
}
