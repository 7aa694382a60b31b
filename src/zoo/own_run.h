/* own_run.h - a checkpoint of this program, in the form of foreign checkpoints */
#ifndef MAXLOGIT_ZOO_OWN_RUN_H
#define MAXLOGIT_ZOO_OWN_RUN_H
#include "storage/checkpoint.h"
#include "zoo/architecture.h"

struct own_run;
/* Open a checkpoint, or the newest checkpoint of a run file. */
int own_run_open(struct own_run **, const char *path, struct error *);
void own_run_close(struct own_run *);
const struct checkpoint *own_run_checkpoint(const struct own_run *);
const struct model *own_run_model(const struct own_run *);
const struct config *own_run_config(const struct own_run *);
const struct weights *own_run_weights(const struct own_run *);
const struct architecture *own_run_architecture(const struct own_run *);
/* Write model.safetensors and config.json into a folder, in the naming of Llama, of Qwen3 (qk_norm), or of DeepSeek-V3
   (mla). STATUS_USAGE names a part that cannot be exported. */
int own_run_export(const struct own_run *, const char *folder, int overwrite, struct error *);
#endif
