#include "model/boost.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/text.h"
#include "model/model.h"

/* May the key of this head's queries of `role` be scaled for this head alone? */
static int key_is_own(const struct logit_block *f, int count, enum role role)
{
  for (int i = 0; role == ROLE_Q_HEAD && i < count; i++)
    if (f[i].role == ROLE_K_HEAD) return 1;
  return 0;
}

static void boost_head(struct model *m, int layer, int head, double factor)
{
  struct logit_block f[MAX_LOGIT_BLOCKS];
  int count = m->attention->logit_blocks(m, layer, head, f);
  for (int i = 0; i < count; i++) switch (f[i].role) {
    case ROLE_K_HEAD: logit_block_scale(m, &f[i], factor); break;
    case ROLE_Q_HEAD:
    case ROLE_Q_ROPE:
      logit_block_scale(m, &f[i], key_is_own(f, count, f[i].role) ? factor : factor * factor);
      break;
    default: break; /* shared by several heads, or a factor of no logit */
    }
}

static int boost_one(void *context, const char *part)
{
  struct model *m = context;
  char layer[16], head[16], rest;
  double factor;
  if (sscanf(part, "%15[0-9*]:%15[0-9*]:%lf%c", layer, head, &factor, &rest) != 3 || !isfinite(factor))
    return 1;
  long only_layer = *layer == '*' ? -1 : strtol(layer, NULL, 10);
  long only_head = *head == '*' ? -1 : strtol(head, NULL, 10);
  if (only_layer >= model_blocks(&m->options) || only_head >= m->options.heads) return 1;
  for (int l = 0; l < model_blocks(&m->options); l++)
    for (int h = 0; h < m->options.heads; h++)
      if ((only_layer < 0 || only_layer == l) && (only_head < 0 || only_head == h))
        boost_head(m, l, h, factor);
  return 0;
}

int boost_heads(struct model *m, const char *list, struct error *e)
{
  if (!*list || !text_split(list, '+', boost_one, m)) return STATUS_OK;
  return error_set(e, STATUS_USAGE,
                   "train.plant = %s: wanted LAYER:HEAD:FACTOR+..., layers 0 to %ld, heads 0 "
                   "to %ld, * for all",
                   list, model_blocks(&m->options) - 1, m->options.heads - 1);
}
