/* boost.h - heads whose logits start larger than drawn: the seed of an explosion, put where it is wanted */
#ifndef MAXLOGIT_MODEL_BOOST_H
#define MAXLOGIT_MODEL_BOOST_H
#include "base/error.h"

struct model;

/* `list`: LAYER:HEAD:FACTOR joined by +, * for all; may be empty. Logits of the head start FACTOR^2 times as
   large and nobody else's change: FACTOR on its query and its key rows, and FACTOR^2 on the query rows whose
   key other heads share. Call it between params_draw and model_begin. STATUS_USAGE for a list that does not
   fit the model. */
int boost_heads(struct model *, const char *list, struct error *);
#endif
