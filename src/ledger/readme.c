#include "ledger/readme.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

const char readme_open_mark[] = "<!-- claims: written by `maxlogit claims --readme` -->\n";
const char readme_close_mark[] = "<!-- end of claims -->\n";

enum cell { LINK, SENTENCE, VERDICT, REGIME, EFFECT, PAIRS, HOLM, FDR, REGISTERED, CELLS };

/* The text between two strings; NULL if they are missing. The caller calls memory_free. */
static char *between(const char *text, const char *before, const char *after)
{
  const char *from = strstr(text, before), *to = from ? strstr(from + strlen(before), after) : NULL;
  char *out = to ? memory_text(from + strlen(before)) : NULL;
  if (out) out[to - from - (long)strlen(before)] = 0;
  return out;
}

/* Split the first cells of a row and trim them; returns their number. Modifies the line. */
static int cut(char *line, char *cell[CELLS])
{
  int cells = 0;
  for (char *at = line + 1, *end; cells < CELLS && (end = strchr(at, '|')) != NULL; at = end + 1) {
    char *last = end;
    at += strspn(at, " ");
    while (last > at && last[-1] == ' ') last--;
    *end = *last = 0;
    cell[cells++] = at;
  }
  return cells;
}

/* Parse "Muon − Adam: 0.468 [0.301, 0.76] nat", without an interval "0.468 nat", or "". */
static json_t *effect_of(const char *text, const char *pairs)
{
  static const char *const key[] = {"mean", "lo", "hi"};
  json_t *out = json_pack("{s:I}", "n", (json_int_t)strtol(pairs, NULL, 10));
  const char *at = text;
  for (const char *next = text; (next = strstr(next, ": ")) != NULL;)
    at = next += 2; /* names of arms may contain colons */
  for (int i = 0; i < 3; i++) {
    char *end;
    double x = strtod(at += strspn(at, " [,"), &end);
    json_object_set_new(out, key[i], end > at && isfinite(x) ? json_real(x) : json_null());
    at = end;
  }
  return out;
}

struct readme_reading {
  json_t *all;
  const char *settings, *made_by;
};

static int read_row(void *context, const char *line)
{
  struct readme_reading *r = context;
  char *cell[CELLS], *copy = memory_text(line), *id;
  if (!strncmp(line, "| [", 3) && cut(copy, cell) == CELLS && (id = between(cell[LINK], "[", "]")) != NULL) {
    char *note = strstr(cell[VERDICT], " ("); /* "holds (counted as C-22)" */
    if (note) *note = 0;
    json_array_append_new(r->all,
                          json_pack("{s:s, s:s, s:o, s:s, s:s, s:s}", "id", id, "verdict", cell[VERDICT],
                                    "effect", effect_of(cell[EFFECT], cell[PAIRS]), "registered",
                                    cell[REGISTERED], "settings", r->settings, "made_by", r->made_by));
    memory_free(id);
  }
  memory_free(copy);
  return STATUS_OK;
}

json_t *readme_read(char *text, size_t length)
{
  text_clean(text, length + 1, "\n"); /* jansson requires UTF-8 */
  char *block = between(text, readme_open_mark, readme_close_mark),
       *level = block ? between(block, "(`--level ", "; rule ") : NULL,
       *made_by = block ? between(block, "Made by ", ".\n") : NULL;
  const char *settings = level ? strstr(level, "`), ") : NULL;
  struct readme_reading r = {json_array(), settings ? settings + 4 : "", made_by ? made_by : ""};
  if (block) text_split(block, '\n', read_row, &r);
  memory_free(block);
  memory_free(level);
  memory_free(made_by);
  if (json_array_size(r.all)) return r.all;
  json_decref(r.all);
  return NULL;
}
