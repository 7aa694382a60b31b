/* registry.c - the generated tables of attention variants, feed-forward blocks and stabilisers */
#include <string.h>
#include "model/ffn.h"
#include "model/stabilizer.h"

#define ATTENTION(name) extern const struct attention attention_##name;
#define FFN(name) extern const struct ffn ffn_##name;
#define STABILIZER(name) extern const struct stabilizer stabilizer_##name;
#include "plugins.def"

const struct attention *const attentions[] = {
#define ATTENTION(name) &attention_##name,
#include "plugins.def"
  NULL};

const struct ffn *const ffns[] = {
#define FFN(name) &ffn_##name,
#include "plugins.def"
  NULL};

const struct stabilizer *const stabilizers[] = {
#define STABILIZER(name) &stabilizer_##name,
#include "plugins.def"
  NULL};

const struct attention *attention_find(const char *name)
{
  for (const struct attention *const *a = attentions; *a; a++)
    if (!strcmp((*a)->name, name)) return *a;
  return NULL;
}

const struct ffn *ffn_find(const char *name)
{
  for (const struct ffn *const *f = ffns; *f; f++)
    if (!strcmp((*f)->name, name)) return *f;
  return NULL;
}

const struct stabilizer *stabilizer_find(const char *name)
{
  for (const struct stabilizer *const *s = stabilizers; *s; s++)
    if (!strcmp((*s)->name, name)) return *s;
  return NULL;
}
