/* boost.h - start chosen heads with larger logits: the seed of an explosion at a chosen place */
#ifndef MAXLOGIT_MODEL_BOOST_H
#define MAXLOGIT_MODEL_BOOST_H
#include "base/error.h"

struct model;

/* `list`: LAYER:HEAD:FACTOR joined by +, * for all; may be empty. Logits of the head start FACTOR^2 times as large;
   those of other heads do not change. FACTOR multiplies its query and key rows; query rows with a shared key get
   FACTOR^2 instead. Call it between params_draw and model_begin. STATUS_USAGE for a list that does not fit the
   model. */
int boost_heads(struct model *, const char *list, struct error *);
#endif
