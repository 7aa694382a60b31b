/* trainer.h - a run: init, step, done. Notebooks, tests and other programs drive these directly. */
#ifndef MAXLOGIT_TRAINER_H
#define MAXLOGIT_TRAINER_H
#include "model/model.h"
#include "storage/config.h"

struct trainer;

enum { TRAINER_NO_RECORD = 1 };   /* keep nothing on disk (notebooks, bench, tests) */

/* A fresh run from a finished configuration. */
int trainer_init(struct trainer **, const struct config *, unsigned flags, struct error *);
/* Continue RUN.h5; `changes` are key=value texts that cannot change the past. */
int trainer_resume(struct trainer **, const char *run_path, const char *const *changes, int count,
                   struct error *);
/* One step: forward, backward, update, stabilisers, record, checkpoint when due. */
int trainer_step(struct trainer *, struct error *);
/* More steps to do (neither finished nor diverged)? */
int trainer_more(const struct trainer *);
/* The state so far on disk, so that resume continues here. */
int trainer_checkpoint(struct trainer *, struct error *);
/* Final snapshot with the right state, then free. `stopped`: by a signal or time limit. */
int trainer_done(struct trainer *, int stopped, struct error *);

/* What the last step saw. */
long trainer_step_count(const struct trainer *);  /* updates done */
long trainer_steps(const struct trainer *);
double trainer_loss(const struct trainer *);
double trainer_val_loss(const struct trainer *);  /* the latest; NaN before the first */
double trainer_grad_norm(const struct trainer *);
const real *trainer_max_logit(const struct trainer *); /* [layers*heads] */
const char *trainer_state(const struct trainer *);
const char *trainer_path(const struct trainer *);
const char *trainer_id(const struct trainer *);
struct model *trainer_model(struct trainer *);
struct device *trainer_device(struct trainer *);
/* Mean loss on fixed validation batches, per position [context]; NULL to skip positions. */
double trainer_evaluate(struct trainer *, double *by_position);
#endif
