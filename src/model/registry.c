/* registry.c - the generated tables of attention variants, feed-forward blocks and stabilizers */
#include "base/registry.h"
#include "model/ffn.h"
#include "model/stabilizer.h"

REGISTRY(attention)
REGISTRY(ffn)
REGISTRY(stabilizer)
