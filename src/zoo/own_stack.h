/* own_stack.h - a checkpoint of this program as the readers of other checkpoints see one */
#ifndef MAXLOGIT_OWN_STACK_H
#define MAXLOGIT_OWN_STACK_H
#include "storage/checkpoint.h"
#include "zoo/stack.h"

struct own_stack;
/* A checkpoint, or a run file: then the newest of its checkpoints. */
int own_stack_open(struct own_stack **, const char *path, struct error *);
void own_stack_close(struct own_stack *);
const struct checkpoint *own_stack_checkpoint(const struct own_stack *);
const struct model *own_stack_model(const struct own_stack *);
const struct config *own_stack_config(const struct own_stack *);
const struct weights *own_stack_weights(const struct own_stack *);
const struct stack *own_stack_stack(const struct own_stack *);
/* Write model.safetensors and config.json into a folder, in the naming of Llama, of Qwen3 (qk_norm), or of DeepSeek-V3
   (mla). STATUS_USAGE names what has no place there. */
int own_stack_export(const struct own_stack *, const char *folder, int overwrite, struct error *);
#endif
