/* trainer.h - a run: init, step, done. Notebooks, tests and other programs drive these directly. */
#ifndef MAXLOGIT_RUN_TRAINER_H
#define MAXLOGIT_RUN_TRAINER_H
#include "model/model.h"
#include "comm/comm.h"
#include "config/config.h"

struct trainer;

enum {
  TRAINER_NO_RECORD = 1,  /* record nothing (notebooks, bench, tests) */
  TRAINER_IN_MEMORY = 2,  /* record, without files: trainer_recorder */
  TRAINER_NO_WEIGHTS = 4, /* draw none: for what follows from the configuration alone, such as its id */
  TRAINER_NO_STEPS = 8    /* none follows, so stabilizers leave the initial weights as they are */
};

/* Begin a new run of a finished configuration, which must outlive it. Options that follow from others are filled in
   (model_resolve). */
int trainer_init(struct trainer **, struct config *, unsigned flags, struct error *);
/* Begin the run of this id (NULL: any) again, written to `path`. STATUS_FAIL, before anything is written, if it has
   another id now. */
int trainer_init_again(struct trainer **, struct config *, const char *path, const char *id, struct error *);
/* Continue RUN.h5; `changes` are key=value texts that cannot change the past. */
int trainer_resume(struct trainer **, const char *run_path, const char *const *changes, int count,
                   struct error *);
/* The same on a device that the caller opens and closes: a run's arena (numerics/run_arena.h). */
int trainer_init_on(struct trainer **, struct device *, struct config *, unsigned flags, struct error *);
int trainer_resume_on(struct trainer **, struct device *, const char *run_path, struct error *);
/* Repeat the run of `path` in another file, from its newest checkpoint of at most `from` updates on. Earlier records
   are kept. The configuration may record differently. STATUS_USAGE: there is no such checkpoint. */
int trainer_repeat(struct trainer **, struct config *, const char *path, const char *into, long from,
                   struct error *);
/* Bytes of memory that a built run holds, by purpose. Pages are committed when they are first written. */
enum memory_part { MEMORY_DATA, MEMORY_MODEL, MEMORY_UPDATES, MEMORY_RECORD, MEMORY_PASSES, MEMORY_PARTS };
extern const char *const memory_part_names[MEMORY_PARTS];
void trainer_memory(const struct trainer *, size_t bytes[MEMORY_PARTS]);
/* The number of trained parameters, and the bytes of a checkpoint without its configuration and names. */
void trainer_sizes(struct trainer *, double *parameters, double *checkpoint);
/* Bytes of device memory that a run of this structure owns, with `threads` threads. Builds one run to measure it. */
int trainer_bytes(struct config *, int threads, size_t *bytes, struct error *);
/* Read the finished configuration from a run file, and its id (may be NULL). */
int trainer_config_of(const char *run_path, struct config **, char id[16], struct error *);
/* One step: forward, backward, update, stabilizers, record, and a checkpoint when due. An asynchronous device only
   queues the step, and its report is read some steps later. A divergence is then noticed late, but the steps after it
   have changed nothing. */
int trainer_step(struct trainer *, struct error *);
/* Use these ranks for all further runs of this process, one run at a time. NULL (the default): one rank per run. */
void trainer_use_ranks(struct comm *);
/* Barrier of the run's ranks between two steps: an error of one rank becomes the error of all. `stops`: this rank must
   stop; on return, whether any must. */
int trainer_barrier(struct trainer *, int *stops, struct error *);
int trainer_ranks(const struct trainer *, int *rank); /* how many, and this rank's number (may be NULL) */
/* The share of a rank: every micro_stride-th micro-batch of each batch, and two pieces [from, to) of each sequence,
   which are adjacent if the context is not cut. */
struct rank_part {
  long first_micro, micro_stride, micro_batches, ranks, from[2], to[2]; /* ranks: along the context */
};
struct rank_part trainer_part(const struct trainer *, int rank);
/* Change an option of a live run, as trainer_resume would; of the record only intervals can change. */
int trainer_change(struct trainer *, const char *change, struct error *);
/* Wait for the reports of all steps so far. */
int trainer_settle(struct trainer *, struct error *);
/* Are there steps left (neither finished nor diverged)? */
int trainer_more(const struct trainer *);
/* Write the current state to disk, so that resume continues here; does nothing with TRAINER_NO_RECORD. */
int trainer_checkpoint(struct trainer *, struct error *);
/* Final snapshot (finished, diverged or stopped) and checkpoint, then free. */
int trainer_done(struct trainer *, struct error *);
/* Free without touching the disk again: after an error. */
void trainer_abandon(struct trainer *);

/* Two runs on one device: NULL if their programs are the same, each in its own arena; else the difference. */
const char *trainer_difference(const struct trainer *, const struct trainer *);

/* The largest max logit of the whole run, including steps before a resume; the first NaN counts as largest. */
struct peak {
  double value;  /* -INFINITY before the first step */
  long step, at; /* at: layer * heads + head; -1 */
};
/* Results of the last step with a report that has been read (after trainer_settle: the last step). */
struct trainer_status {
  long done, steps;                 /* updates done, or queued on the device; of the whole run */
  double loss, val_loss, grad_norm; /* val_loss: the latest; NaN before the first */
  const real *max_logit;            /* [layers*heads] */
  struct peak peak;
  const char *state; /* finished, diverged or stopped */
};
struct trainer_status trainer_status(const struct trainer *);
const char *trainer_path(const struct trainer *);
/* Fill in options that follow from others (muon.ns_steps), as before an id is computed, except those of the model. */
void trainer_resolve(const struct config *);
const char *trainer_id(const struct trainer *);
struct model *trainer_model(struct trainer *);
struct device *trainer_device(const struct trainer *);
long trainer_context(const struct trainer *);
/* The attention weights of a head on the first validation sequence, [context, context]. Does not change the run. */
void trainer_attention(struct trainer *, int layer, int head, real *out);
/* Singular values of the head's w_q^T w_k, in descending order, NaN where they cannot be computed. Returns their number
   (0: this attention has no such product). sigma may be NULL. */
long trainer_head_spectrum(struct trainer *, int layer, int head, double *sigma);
struct recorder;
const struct recorder *trainer_recorder(const struct trainer *);
const struct config *trainer_config(const struct trainer *);
const char *trainer_data(const struct trainer *); /* one line about the data */
/* Hashes of the run's data source, and of its initial weights (0: drawn at random). */
void trainer_contents(const struct trainer *, uint64_t *data, uint64_t *start);
double trainer_loss_floor(const struct trainer *); /* nat per token; NaN if unknown */
/* Mean loss on train.val_batches fixed validation batches, the same for every seed. by_position: NULL, or
   [context], the mean loss of the targets at each position (NaN where none counts). agreement: NULL, or [model.mtp],
   the share of a module's predictions that are those of the main head for the same token. */
double trainer_evaluate(struct trainer *, double *by_position, double *agreement);
/* Mean loss of module `module` (from 0) of multi-token prediction, on the batches of the last evaluation. */
double trainer_ahead_loss(const struct trainer *, long module);
/* Decode the same batches through a cache, `block` tokens of each sequence at a time, and compare with the training
   form. */
struct decode_result {
  double training_loss, decoded_loss; /* means */
  double difference;                  /* the largest between the losses of one token, absolute */
  double rounding;                    /* the largest when every weight is off by one rounding */
  long tokens, cached; /* tokens compared; numbers that the cache keeps per token, over all layers */
};
/* STATUS_USAGE, with the reason, if the model has no absorbed decoding. */
int trainer_decode(struct trainer *, enum decode_form, long block, struct decode_result *, struct error *);
#endif
