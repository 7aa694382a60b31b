/* rules.c - the optimizer and the factors of each tensor */
#include <fnmatch.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "model/model.h"
#include "training/updates_parts.h"

static const char *const match_names[] = {"lr", "update_rms", "update_spectral_norm", NULL};

const struct option_row override_rows[] = {
  TEXT_ROW(struct override_options, optimizer, "",
           "optimizers of single tensors: GLOB:NAME, as in w_q:adam+w_k:adam", OPTION_LIST),
  TEXT_ROW(struct override_options, lr, "", "factors on train.lr by tensor: GLOB:FACTOR, as in w_[qk]:0.1",
           OPTION_LIST),
  TEXT_ROW(struct override_options, weight_decay, "",
           "factors on train.weight_decay by tensor: GLOB:FACTOR, as in w_[qk]:10", OPTION_LIST),
  CHOICE_ROW(struct override_options, match, "lr", match_names,
             "what is equal between optimizers on hidden matrices: the learning rate, the RMS of the update, "
             "or its spectral norm",
             0),
  REAL_ROW(struct override_options, match_rms, "0.2", 0, 1e6, "1",
           "RMS of a matched update; the spectral norm is this times sqrt(max(out, in)), as if all singular "
           "values were equal",
           0),
  END_ROW};

/* --- patterns ----------------------------------------------------------------------------------------- */
struct patterns {
  struct updates *updates;
  const char *key;
  size_t factor; /* offset in struct rule of the value to set; 0: the optimizer */
  struct error *error;
};

/* Does the glob match the name, or its end after one of its dots? */
static int matches(const char *glob, const char *name)
{
  for (; name; name = strchr(name, '.') ? strchr(name, '.') + 1 : NULL)
    if (!fnmatch(glob, name, 0)) return 1;
  return 0;
}

/* Report an unknown name: `wanted` matches none of `names`; the nearest is suggested. `what` is the error's text. */
static int refuse(const struct patterns *p, const char *what, const char *wanted, const char *const *names,
                  size_t count)
{
  const char *near = text_nearest(wanted, names, count);
  return error_set(p->error, STATUS_USAGE, "%s: %s \"%s\"%s%s%s", p->key, what, wanted,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static int no_such_tensor(const struct patterns *p, const char *glob)
{
  const struct updates *u = p->updates;
  const char **names = arena_get(u->arena, 2 * (size_t)u->count, sizeof *names);
  for (int i = 0; i < u->count; i++) {
    const char *name = u->params[i]->name, *dot = strrchr(name, '.');
    names[2 * i] = dot ? dot + 1 : name;
    names[2 * i + 1] = name;
  }
  return refuse(p, "no tensor matches", glob, names, 2 * (size_t)u->count);
}

static int set_optimizer(const struct patterns *p, const struct param *param, struct rule *rule,
                         const char *value)
{
  rule->optimizer = optimizer_find(value);
  if (!rule->optimizer) {
    const char *names[64];
    size_t count = 0;
    for (const struct optimizer *const *o = optimizers; *o && count < 64; o++) names[count++] = (*o)->name;
    return refuse(p, "no optimizer is called", value, names, count);
  }
  int matrix = param->value.rows > 1 && param->value.cols > 1;
  if (rule->optimizer->takes && !rule->optimizer->takes(param) && !matrix)
    return error_set(p->error, STATUS_USAGE, "%s: %s takes matrices, and %s is [%ld, %ld]", p->key, value,
                     param->name, param->value.rows, param->value.cols);
  return STATUS_OK;
}

static int set_factor(const struct patterns *p, struct rule *rule, const char *value)
{
  char *end;
  double number = strtod(value, &end);
  if (*end || !(number >= 0 && number <= 1e6))
    return error_set(p->error, STATUS_USAGE, "%s: \"%s\" is not a factor: a number from 0 to 1e6", p->key,
                     value);
  memcpy((char *)rule + p->factor, &number, sizeof number);
  return STATUS_OK;
}

static int one_pattern(void *context, const char *part)
{
  const struct patterns *p = context;
  struct updates *u = p->updates;
  const char *colon = strchr(part, ':');
  if (!colon || colon == part || !colon[1])
    return error_set(p->error, STATUS_USAGE, "%s: \"%s\" is not GLOB:VALUE, as in w_q:0.1", p->key, part);
  const char *glob = arena_format(u->arena, "%.*s", (int)(colon - part), part), *value = colon + 1;
  int found = 0, status = STATUS_OK;
  for (int i = 0; i < u->count && !status; i++) {
    if (!matches(glob, u->params[i]->name)) continue;
    found = 1;
    status =
      p->factor ? set_factor(p, &u->rules[i], value) : set_optimizer(p, u->params[i], &u->rules[i], value);
  }
  return found ? status : no_such_tensor(p, glob);
}

static int apply_patterns(struct updates *u, const char *key, const char *list, size_t factor,
                          struct error *e)
{
  return *list ? text_split(list, '+', one_pattern, &(struct patterns){u, key, factor, e}) : STATUS_OK;
}

/* --- rules of parameters ---------------------------------------------------------------------------------- */

/* In the order of memory. */
static void gather(struct updates *u, const struct optimizer *standard)
{
  const struct params *all = &u->model->params;
  u->params = arena_get(u->arena, (size_t)all->count, sizeof *u->params);
  u->rules = arena_get(u->arena, (size_t)all->count, sizeof *u->rules);
  for (int i = 0; i < all->count; i++) {
    struct param *p = all->list[i];
    if (p->kind == PARAM_STATE) continue;
    int at = u->count++;
    for (; at > 0 && REALS(&u->params[at - 1]->value) > REALS(&p->value); at--)
      u->params[at] = u->params[at - 1];
    u->params[at] = p;
  }
  for (int i = 0; i < u->count; i++) {
    const struct param *p = u->params[i];
    int taken = !standard->takes || standard->takes(p);
    /* decay acts on every matrix, embedding and head included; on the rest where asked for */
    int decays = (p->kind != PARAM_GAIN && p->kind != PARAM_BIAS) || u->rule.decay_gains;
    u->rules[i] =
      (struct rule){.optimizer = taken ? standard : optimizer_find("adam"), .lr = 1, .weight_decay = decays};
  }
}

static int check_weights(const struct updates *u, struct error *e)
{
  for (int i = 0; i < u->count && u->model->params.shards; i++)
    if (u->rules[i].optimizer->reads_weights)
      return error_set(
        e, STATUS_USAGE,
        "optimizer: %s reads whole weights, of which comm.shard = weights leaves each rank pieces; "
        "allowed: others, or comm.shard = states",
        u->rules[i].optimizer->name);
  return STATUS_OK;
}

int updates_decide(struct updates *u, const char *optimizer, const struct override_options *o,
                   struct error *e)
{
  const struct optimizer *standard = optimizer_find(optimizer);
  if (!standard) return error_set(e, STATUS_USAGE, "optimizer: no optimizer is called \"%s\"", optimizer);
  gather(u, standard);
  int status = apply_patterns(u, "override.optimizer", o->optimizer, 0, e);
  if (!status) status = apply_patterns(u, "override.lr", o->lr, offsetof(struct rule, lr), e);
  if (!status)
    status =
      apply_patterns(u, "override.weight_decay", o->weight_decay, offsetof(struct rule, weight_decay), e);
  return status ? status : check_weights(u, e);
}
