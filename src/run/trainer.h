/* trainer.h - a run: init, step, done. Notebooks, tests and other programs drive these directly. */
#ifndef MAXLOGIT_RUN_TRAINER_H
#define MAXLOGIT_RUN_TRAINER_H
#include "model/model.h"
#include "comm/comm.h"
#include "config/config.h"

struct trainer;

enum {
  TRAINER_NO_RECORD = 1, /* record nothing (notebooks, bench, tests) */
  TRAINER_IN_MEMORY = 2  /* record, without files: trainer_recorder */
};

/* A fresh run from a finished configuration, which must outlive it; what follows from other options is
   filled in there (model_resolve). */
int trainer_init(struct trainer **, struct config *, unsigned flags, struct error *);
/* A fresh run that is written to `path`, whatever record.path says. */
int trainer_init_into(struct trainer **, struct config *, const char *path, struct error *);
/* Continue RUN.h5; `changes` are key=value texts that cannot change the past. */
int trainer_resume(struct trainer **, const char *run_path, const char *const *changes, int count,
                   struct error *);
/* The same on a device that the caller has opened and closes: a run's arena (numerics/run_arena.h). */
int trainer_init_on(struct trainer **, struct device *, struct config *, unsigned flags, struct error *);
int trainer_resume_on(struct trainer **, struct device *, const char *run_path, struct error *);
/* The run of `path` once more, into another file, from its newest checkpoint of at most `from` updates on: what was
   recorded before stays. The configuration may record otherwise. STATUS_USAGE: there is no such checkpoint. */
int trainer_repeat(struct trainer **, struct config *, const char *path, const char *into, long from,
                   struct error *);
/* Bytes of memory that a run holds once it is built, by what they are for; it takes them when it first writes there. */
enum memory_part { MEMORY_DATA, MEMORY_MODEL, MEMORY_UPDATES, MEMORY_RECORD, MEMORY_PASSES, MEMORY_PARTS };
extern const char *const memory_part_names[MEMORY_PARTS];
void trainer_memory(const struct trainer *, size_t bytes[MEMORY_PARTS]);
/* Numbers that are trained, and bytes of a checkpoint, its configuration and names aside. */
void trainer_sizes(struct trainer *, double *parameters, double *checkpoint);
/* Bytes of the device that a run of this structure owns, its calls on `threads` threads. One is built to know. */
int trainer_bytes(struct config *, int threads, size_t *bytes, struct error *);
/* The finished configuration that a run file tells, and its id (may be NULL). */
int trainer_config_of(const char *run_path, struct config **, char id[16], struct error *);
/* One step: forward, backward, update, stabilizers, record, checkpoint when due. A device that computes while the host
   goes on has then been told the step; its report is read some steps later, so that a divergence is noticed late, when
   the steps after it have changed nothing. */
int trainer_step(struct trainer *, struct error *);
/* The ranks of the runs of this process from now on, one run at a time; NULL, as at first: each has one. */
void trainer_use_ranks(struct comm *);
/* The ranks of the run meet between two steps: an error of one is all ranks'. `stops`: this one is to stop; on return,
   whether any is. */
int trainer_barrier(struct trainer *, int *stops, struct error *);
int trainer_ranks(const struct trainer *, int *rank); /* how many, and which of them this is (may be NULL) */
/* What a rank has: micro-batches of each batch, every micro_stride-th, and two pieces [from, to) of each sequence, one
   after the other where the context is not cut. */
struct rank_part {
  long first_micro, micro_stride, micro_batches, ranks, from[2], to[2]; /* ranks: along the context */
};
struct rank_part trainer_part(const struct trainer *, int rank);
/* Of a run in memory that goes on: key=value that trainer_resume would take, of the record its intervals alone. */
int trainer_change(struct trainer *, const char *change, struct error *);
/* Wait for the reports of all steps so far. */
int trainer_settle(struct trainer *, struct error *);
/* More steps to do (neither finished nor diverged)? */
int trainer_more(const struct trainer *);
/* The state so far on disk, so that resume continues here; nothing with TRAINER_NO_RECORD. */
int trainer_checkpoint(struct trainer *, struct error *);
/* Final snapshot (finished, diverged or stopped) and checkpoint, then free. */
int trainer_done(struct trainer *, struct error *);
/* Free without touching the disk again: after an error. */
void trainer_abandon(struct trainer *);

/* Two runs on one device: NULL if their programs are the same, each in its own arena; else the difference. */
const char *trainer_difference(const struct trainer *, const struct trainer *);

/* The largest max logit of the whole run, what was before a resume included; the first NaN counts as largest. */
struct peak {
  double value;  /* -INFINITY before the first step */
  long step, at; /* at: layer * heads + head; -1 */
};
/* What the last step saw whose report has been read (trainer_settle: the last). */
struct trainer_status {
  long done, steps;                 /* updates done, or queued on the device; of the whole run */
  double loss, val_loss, grad_norm; /* val_loss: the latest; NaN before the first */
  const real *max_logit;            /* [layers*heads] */
  struct peak peak;
  const char *state; /* finished, diverged or stopped */
};
struct trainer_status trainer_status(const struct trainer *);
const char *trainer_path(const struct trainer *);
/* Numbers that follow from others get them (muon.ns_steps), as before an id is made: all but the model's. */
void trainer_resolve(const struct config *);
const char *trainer_id(const struct trainer *);
struct model *trainer_model(struct trainer *);
struct device *trainer_device(const struct trainer *);
long trainer_context(const struct trainer *);
/* The weights of a head's attention on the first validation sequence, [context, context]. Changes no number. */
void trainer_attention(struct trainer *, int layer, int head, real *out);
/* Singular values of the head's w_q^T w_k, falling, NaN where they cannot be computed; returns how many (0: this
   attention has no such form). sigma may be NULL. */
long trainer_head_spectrum(struct trainer *, int layer, int head, double *sigma);
struct recorder;
const struct recorder *trainer_recorder(const struct trainer *);
const struct config *trainer_config(const struct trainer *);
const char *trainer_data(const struct trainer *); /* one line about the data */
/* Hashes of what the run draws its data from, and of the weights that it starts from (0: drawn). */
void trainer_contents(const struct trainer *, uint64_t *data, uint64_t *start);
double trainer_loss_floor(const struct trainer *); /* nat per token; NaN if unknown */
/* Mean loss on train.val_batches fixed validation batches, the same for every seed. by_position: NULL, or
   [context], the mean loss of the targets at each position (NaN where none counts). agreement: NULL, or [model.mtp],
   the share of a module's predictions that are those of the main head for the same token. */
double trainer_evaluate(struct trainer *, double *by_position, double *agreement);
/* Mean loss of a module of multi-token prediction, from 0, on the batches that were evaluated last. */
double trainer_ahead_loss(const struct trainer *, long module);
/* The same batches through a cache, `block` tokens of each sequence at a time, against the training form. */
struct decode_result {
  double training_loss, decoded_loss; /* means */
  double difference;                  /* the largest between the losses of one token, absolute */
  double rounding;                    /* the largest when every weight is off by one rounding */
  long tokens, cached; /* compared; numbers that the cache keeps a token, all layers together */
};
/* Refuses absorbed decoding, with the reason, where the model has none. */
int trainer_decode(struct trainer *, enum decode_form, long block, struct decode_result *, struct error *);
#endif
