/* log_map.c - which series a column of another program's log is, by rules or by its name; and configurations */
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "zoo/log.h"
#include "zoo/log_yaml.h"

/* --- rules ------------------------------------------------------------------------------------------- */

static const struct log_axis {
  char letter;
  const char *name;
} axes[] = {{'l', "layer"}, {'h', "head"}, {'e', "expert"}, {0, NULL}};

static const char *axis_name(char letter)
{
  for (const struct log_axis *a = axes; a->letter; a++)
    if (a->letter == letter) return a->name;
  return NULL;
}

static int is_series_name(const char *name)
{
  size_t length = strlen(name);
  return length && length < 96 && *name != '/' && name[length - 1] != '/' && !strstr(name, "//") &&
         strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") == length;
}

/* The number of places of `{x}` in a pattern. */
static int places_of(const char *pattern, char letter)
{
  const char text[] = {'{', letter, '}', 0};
  int n = 0;
  for (const char *at = pattern; (at = strstr(at, text)); at += 3) n++;
  return n;
}

static int read_rule(struct log_map *m, const char *text, struct error *e)
{
  struct log_rule r = {"", "", NULL, 0};
  const char *equals = strchr(text, '='), *bracket = memchr(text, '[', equals ? (size_t)(equals - text) : 0);
  size_t length = (size_t)((bracket ? bracket : equals ? equals : text) - text);
  if (!equals || !equals[1] || !length || length >= sizeof r.series)
    return error_set(e, STATUS_USAGE, "--map '%.200s': SERIES=NAME or SERIES[l,h]=PATTERN is wanted", text);
  memcpy(r.series, text, length);
  if (strcmp(r.series, "-") && !is_series_name(r.series))
    return error_set(e, STATUS_USAGE, "--map '%.200s': a series may have letters, digits and _ - . /", text);
  for (const char *at = bracket ? bracket + 1 : NULL; at && *at != ']'; at++) {
    size_t n = strlen(r.letters);
    if (*at == ',' || *at == ' ') continue;
    if (!axis_name(*at) || n == 2 || strchr(r.letters, *at) || places_of(equals, *at) != 1)
      return error_set(
        e, STATUS_USAGE,
        "--map '%.200s': in brackets l (layer), h (head), e (expert), each once as {l}, {h}, {e} "
        "in the pattern",
        text);
    r.letters[n] = *at, r.letters[n + 1] = 0;
  }
  for (const struct log_axis *a = axes; a->letter; a++)
    if (places_of(equals, a->letter) && !strchr(r.letters, a->letter) && strcmp(r.series, "-"))
      return error_set(e, STATUS_USAGE, "--map '%.200s': {%c} is in the pattern alone; %s[%c]=...", text,
                       a->letter, r.series, a->letter);
  r.pattern = memory_text(equals + 1);
  m->rule = memory_grow(m->rule, (size_t)m->rules, (size_t)m->rules + 1, sizeof *m->rule);
  m->rule[m->rules++] = r;
  return STATUS_OK;
}

int log_map_read(struct log_map *m, const char *text, struct error *e)
{
  char *rule = memory_new(strlen(text) + 1, 1);
  size_t n = 0;
  int axes_begun = 0, named = 0, status = STATUS_OK;
  for (const char *at = text; !status; at++) {
    axes_begun |= *at == '[' && !named, axes_begun &= *at != ']'; /* commas between axes */
    named |= *at == '=';
    if (*at == '\\' && at[1])
      rule[n++] = *++at;
    else if (*at && (*at != ',' || axes_begun))
      rule[n++] = *at;
    else {
      rule[n] = 0;
      if (n) status = read_rule(m, rule, e);
      n = 0, named = 0;
      if (!*at) break;
    }
  }
  memory_free(rule);
  return status;
}

void log_map_free(struct log_map *m)
{
  for (int i = 0; i < m->rules; i++) memory_free(m->rule[i].pattern);
  memory_free(m->rule);
  *m = (struct log_map){0};
}

/* Does a name fit a pattern? at[letter of axes] gets its numbers. */
static int fits(const char *pattern, const char *name, long at[128])
{
  while (*pattern) {
    if (*pattern == '{' && pattern[1] && pattern[2] == '}' && axis_name(pattern[1])) {
      char *end;
      if (!isdigit((unsigned char)*name)) return 0;
      at[(int)pattern[1]] = strtol(name, &end, 10);
      name = end;
      pattern += 3;
    } else if (*pattern++ != *name++)
      return 0;
  }
  return !*name;
}

/* --- by its name ------------------------------------------------------------------------------------- */

/* What trackers, Hugging Face's trainer, Megatron-LM and ms-swift call these. */
static const struct alias {
  const char *name, *series;
} aliases[] = {{"train/loss", "loss"},
               {"train_loss", "loss"},
               {"lm loss", "loss"},
               {"training loss", "loss"},
               {"loss/train", "loss"},
               {"lm-loss-training/lm loss", "loss"},
               {"val/loss", "val_loss"},
               {"valid/loss", "val_loss"},
               {"validation/loss", "val_loss"},
               {"eval/loss", "val_loss"},
               {"eval_loss", "val_loss"},
               {"validation loss", "val_loss"},
               {"loss/val", "val_loss"},
               {"validation/lm loss value", "val_loss"},
               {"learning rate", "lr"},
               {"learning_rate", "lr"},
               {"learning-rate", "lr"},
               {"train/learning_rate", "lr"},
               {"train/lr", "lr"},
               {"grad norm", "grad_norm"},
               {"grad-norm", "grad_norm"},
               {"train/grad_norm", "grad_norm"},
               {"gradient norm", "grad_norm"},
               {NULL, NULL}};

static int has(const char *name, const char *part)
{
  size_t n = strlen(part);
  for (; *name; name++)
    if (!strncasecmp(name, part, n)) return 1;
  return 0;
}

static int is_max_logit(const char *name)
{
  return has(name, "max") && !has(name, "abs") &&
         (has(name, "logit") || (has(name, "attn") && !has(name, "entropy")) || has(name, "attention"));
}

/* The word before a number of a name, "layers" of "layers.3". */
static int word_before(const char *name, const char *number, const char *const *words)
{
  const char *end = number;
  while (end > name && strchr("._/-[ ", end[-1])) end--;
  const char *begin = end;
  while (begin > name && isalpha((unsigned char)begin[-1])) begin--;
  for (; *words; words++)
    if (strlen(*words) == (size_t)(end - begin) && !strncasecmp(*words, begin, (size_t)(end - begin)))
      return 1;
  return 0;
}

/* The number at a place of the pattern becomes {letter}. */
static void put_place(char pattern[256], size_t at, char letter)
{
  char rest[256];
  snprintf(rest, sizeof rest, "%s", pattern + at + strspn(pattern + at, "0123456789"));
  snprintf(pattern + at, 256 - at, "{%c}%.200s", letter, rest);
}

/* Numbers of layers and heads: behind such a word, or, behind a layer's, the one that follows something of attention.
   "NAME:l0h0", "NAME:l0e0", "NAME:l0" are of lists and of export. */
static void find_places(const char *name, struct log_place *p)
{
  static const char *const layers[] = {"layer", "layers", "block", "blocks", "l", NULL};
  static const char *const heads[] = {"head", "heads", "h", NULL}, *const experts[] = {"expert", "experts",
                                                                                       "e", NULL};
  static const char *const attention[] = {"attn", "attention", "attns", NULL};
  const char *number[2] = {NULL, NULL};
  char letter[2] = {0, 0};
  int has_head_word = has(name, "head");
  for (const char *at = name; *at;) {
    if (!isdigit((unsigned char)*at)) {
      at++;
      continue;
    }
    char kind = word_before(name, at, layers)                   ? 'l'
                : word_before(name, at, experts)                ? 'e'
                : word_before(name, at, heads)                  ? 'h'
                : number[0] && word_before(name, at, attention) ? 'h'
                                                                : 0;
    if (kind == 'h' && !number[0] && !has_head_word && word_before(name, at, heads) && strchr(name, '.'))
      kind = 'l'; /* transformer.h.3: blocks of GPT-2 */
    int slot = kind == 'l' ? 0 : 1;
    if (kind && !number[slot]) number[slot] = at, letter[slot] = kind;
    at += strspn(at, "0123456789");
  }
  if (!number[0] && letter[1] == 'h') letter[1] = 0; /* heads of no layer */
  int n = 0, first = letter[0] && letter[1] && number[1] < number[0];
  for (int i = 0; i < 2; i++) { /* from behind, so that what stands before keeps its place */
    int slot = i == 0 ? !first : first;
    if (letter[slot]) put_place(p->pattern, (size_t)(number[slot] - name), letter[slot]);
  }
  for (int i = 0; i < 2; i++)
    if (letter[i]) p->axis[n] = axis_name(letter[i]), p->at[n++] = strtol(number[i], NULL, 10);
}

/* A series' name out of a pattern: what is between its places and the words before these, of letters that a name may
   have. */
static void name_of(const char *pattern, char out[96])
{
  static const char *const words[] = {"layer",  "layers",  "block", "blocks", "head", "heads",
                                      "expert", "experts", "l",     "h",      "e",    NULL};
  size_t n = 0;
  for (const char *at = pattern; *at && n < 90; at++) {
    if (*at == '{' && at[1] && at[2] == '}') {
      at += 2;
      out[n] = 0;
      if (!word_before(out, out + n, words)) continue;
      while (n && strchr("._/-", out[n - 1])) n--;
      while (n && isalpha((unsigned char)out[n - 1])) n--;
      continue;
    }
    char c = isalnum((unsigned char)*at) || strchr("_-./", *at) ? *at : '_';
    if (strchr("._/-", c) && (!n || strchr("._/-", out[n - 1]))) continue;
    out[n++] = c;
  }
  while (n && strchr("._/-", out[n - 1])) n--;
  out[n] = 0;
  if (!n) snprintf(out, 96, "unnamed");
}

int log_place(struct log_map *m, const char *column, struct log_place *p)
{
  *p = (struct log_place){.at = {-1, -1}};
  for (int i = 0; i < m->rules; i++) {
    struct log_rule *r = &m->rule[i];
    long at[128] = {0};
    if (!fits(r->pattern, column, at)) continue;
    r->used = 1;
    snprintf(p->pattern, sizeof p->pattern, "%s", r->pattern);
    snprintf(p->series, sizeof p->series, "%s", r->series);
    for (int k = 0; r->letters[k]; k++)
      p->at[k] = at[(int)r->letters[k]], p->axis[k] = axis_name(r->letters[k]);
    return strcmp(r->series, "-") != 0;
  }
  snprintf(p->pattern, sizeof p->pattern, "%.200s", column);
  for (const struct alias *a = aliases; a->name; a++)
    if (!strcasecmp(a->name, column)) {
      snprintf(p->series, sizeof p->series, "%s", a->series);
      return 1;
    }
  char *colon = strrchr(column, ':'), plain[256];
  find_places(column, p);
  if (colon) snprintf(plain, sizeof plain, "%.*s", (int)(colon - column), column);
  int ours =
    colon && (!strncmp(plain, "attn/", 5) || !strncmp(plain, "probe/", 6)); /* as export tells them */
  if (is_max_logit(column) && !ours && (p->axis[0] || !is_series_name(column) || !strchr(column, '/')))
    snprintf(p->series, sizeof p->series, "attn/max_logit");
  else
    name_of(colon && p->axis[0] ? plain : p->pattern, p->series);
  return 1;
}

/* --- configurations ---------------------------------------------------------------------------------- */

typedef int each_value(void *, const char *key, const char *value);

static int walk(const json_t *x, const char *before, each_value *each, void *context)
{
  const char *key;
  char longer[256], room[32];
  json_t *value;
  size_t i;
  int stop = 0;
  if (json_is_object(x)) json_object_foreach((json_t *)x, key, value)
    {
      snprintf(longer, sizeof longer, "%s%s%s", before, *before ? "." : "", key);
      if (!stop) stop = walk(value, longer, each, context);
    }
  else if (json_is_array(x))
    json_array_foreach(x, i, value)
    {
      snprintf(longer, sizeof longer, "%s%s%zu", before, *before ? "." : "", i);
      if (!stop) stop = walk(value, longer, each, context);
    }
  else if (json_is_string(x))
    stop = each(context, before, json_string_value(x));
  else if (json_is_boolean(x))
    stop = each(context, before, json_is_true(x) ? "1" : "0");
  else if (json_is_integer(x)) {
    snprintf(room, sizeof room, "%lld", (long long)json_integer_value(x));
    stop = each(context, before, room);
  } else if (json_is_real(x)) {
    text_number(json_real_value(x), room);
    stop = each(context, before, room);
  }
  return stop;
}

int log_settings(const char *path, each_value *each, void *context, struct error *e)
{
  json_error_t problem;
  if (!text_ends_with(path, ".json")) return log_yaml(path, each, context, e);
  int fd = file_open(path, e);
  if (fd < 0) return STATUS_USAGE;
  json_t *x = json_loadfd(fd, 0, &problem);
  close(fd);
  if (!json_is_object(x)) {
    json_decref(x);
    return error_set(e, STATUS_USAGE, "%s:%d: %s", path, x ? 1 : problem.line,
                     x ? "no keys with values" : problem.text);
  }
  int status = walk(x, "", each, context);
  json_decref(x);
  return status;
}
