/* own_run.h - a checkpoint of this program as the readers of other checkpoints see one */
#ifndef MAXLOGIT_ZOO_OWN_RUN_H
#define MAXLOGIT_ZOO_OWN_RUN_H
#include "storage/checkpoint.h"
#include "zoo/architecture.h"

struct own_run;
/* A checkpoint, or a run file: then the newest of its checkpoints. */
int own_run_open(struct own_run **, const char *path, struct error *);
void own_run_close(struct own_run *);
const struct checkpoint *own_run_checkpoint(const struct own_run *);
const struct model *own_run_model(const struct own_run *);
const struct config *own_run_config(const struct own_run *);
const struct weights *own_run_weights(const struct own_run *);
const struct architecture *own_run_architecture(const struct own_run *);
/* Write model.safetensors and config.json into a folder, in the naming of Llama, of Qwen3 (qk_norm), or of DeepSeek-V3
   (mla). STATUS_USAGE names what has no place there. */
int own_run_export(const struct own_run *, const char *folder, int overwrite, struct error *);
#endif
