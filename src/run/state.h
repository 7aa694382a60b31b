/* state.h - the internals of a trainer, for the files that implement it */
#ifndef MAXLOGIT_RUN_STATE_H
#define MAXLOGIT_RUN_STATE_H
#include "run/batches.h"
#include "run/grad_reduce.h"
#include "run/health.h"
#include "run/observe.h"
#include "run/origin.h"
#include "run/trainer.h"
#include "storage/checkpoint.h"
#include "training/schedule.h"

/* Data that a step's rows need besides its report. */
struct flight {
  struct step_scalars now;
  double began;
  struct batch batch; /* a copy, where batches are recorded */
};

/* The programs of a step, and those of validation and probe. */
enum part {
  PART_BEGIN,
  PART_KEEP_VAL,
  PART_STEP,
  PART_LOOK,
  PART_UPDATES,
  PART_APPLY,
  PART_REDUCE, /* and so on: enum grad_reduce_part of the step's passes */
  PART_REDUCE_LOOK = PART_REDUCE + REDUCE_PARTS,
  PARTS = PART_REDUCE_LOOK + REDUCE_PARTS
};

/* The plan: the configuration and the settings that follow from it. */
struct trainer_plan {
  struct config *config;
  int owns_config;
  const struct origin *origin; /* while a run is resumed, else NULL */
  const struct top_options *top;
  const struct train_options *train;
  struct record_options record; /* if nothing is recorded, costly parts are off */
  const struct checkpoint_options *keep;
  const struct schedule *schedule;
  const void *schedule_options;
  uint64_t start_content; /* hash of the weights of train.init_from; 0: drawn */
  int undrawn;            /* the weights are not drawn, because no step follows */
  int kept;               /* stabilizers do not begin, because no step follows */
  char id[16], path[4096];
};

/* The ranks of the run, and which part of its work is this one's. */
struct trainer_ranks {
  struct comm *comm; /* ranks along the context are neighbors */
  struct comm
    *part[RANK_AXES];    /* the ranks along an axis, including this one; NULL where all are along the batch */
  long context;          /* ranks along the context; 0: not chosen yet */
  struct shards *shards; /* of the run's parameters; NULL: each rank has all */
  struct shards *early;  /* see dist_reduces_early; NULL: reduce at the end of a step's passes */
  long micro_batches, first_micro, micro_stride; /* this rank's of a batch: every micro_stride-th */
};

/* The engine: the model and its programs on a device. */
struct trainer_engine {
  struct device *device;
  int shares_device; /* the caller owns the device */
  struct data data;
  struct model model;
  struct updates *updates;
  struct model_program step_program, look_program; /* with and without backward */
  struct model_program decoder;                    /* token by token, for record.observe = decode */
  struct program *begin;                           /* the first program of a step */
  struct grad_reduce *step_reduce, *look_reduce;
  struct program *keep_val; /* copies a sum of losses from the probe's entry to the validation's */
  struct host_batch host;
  real *token_loss_host;
  int *columns; /* of some positions of a micro-batch: at most all */
};

/* Steps that are queued on the device, with reports that are not read yet, oldest first. */
struct trainer_ring {
  struct flight *flight; /* [AHEAD_MOST + 1] */
  int oldest, flying;
  long reading; /* the step of the report that is being read; later, of the last one read */
  double read_at;
};

/* The record of the run. */
struct trainer_record {
  struct recorder *recorder;
  struct observers *observers;
  struct row_writer *row_writer;
  struct outcome outcome;
  struct health health;
  struct heads_look *heads;              /* heads.c; NULL: before the first use */
  size_t memory[MEMORY_PARTS], unmarked; /* held at the last mark */
  int is_for_end;                        /* the last row exists only because the run ended there */
};

struct trainer {
  struct trainer_plan plan;
  struct trainer_ranks ranks;
  struct trainer_engine engine;
  struct trainer_ring ring;
  struct trainer_record record;
  struct arena *arena;
  double grad_norm, val_loss, earlier_wall, started, checkpointed_at;
  long done, checkpointed; /* updates done; updates at the last checkpoint */
  int diverged;
  int saves;          /* a checkpoint is due; with several ranks, by the clock of rank 0 */
  int halts;          /* the run stops after the current step: read its report, write a checkpoint */
  struct error error; /* of the current step */
};

/* setup.c: build everything but the run's files. With `keeps` 0 nothing costly is recorded. */
int trainer_build(struct trainer *, int keeps, struct error *);
void trainer_facts(struct trainer *, struct run_facts *);
/* Connect series and events to the recorder, which must exist. */
void trainer_observe(struct trainer *);
void trainer_release(struct trainer *);
/* Remove the row that a run had for its end, if it continues and record.every does not ask for that row. */
void trainer_forget_end(struct trainer *);
struct program *trainer_program(const struct trainer *, enum part);

struct batched;
/* look.c: run all validation batches of the chosen runs (NULL: all). Their losses are summed in the probe's entry. */
void trainer_run_validation(const struct batched *, int (*chosen)(const struct trainer *));
/* Copy those sums into the report, wait for it and read it. Returns the mean loss. */
double trainer_validated(struct trainer *);
double trainer_reported_val(const struct trainer *); /* the mean loss of the last report read */
/* The loss of every token of the program's last pass, [batch*context]. */
void trainer_token_losses(struct trainer *, const struct model_program *, real *out);

/* decode.c: the values of record.observe = decode at the end, if they are recorded; call after trainer_validated */
void trainer_decode_end(struct trainer *);

/* change.c: *context is the new number of ranks along the context, if it changes. The run's id stays, because its file
   keeps the original number. */
int trainer_change_config(struct config *, const char *const *changes, int count, long *context,
                          struct error *);

/* heads.c */
void trainer_heads_free(struct trainer *);

double trainer_wall(const struct trainer *); /* seconds, of the whole run */
/* tensors.c: the tensors of a checkpoint in a fixed order: parameters, optimizer states, the spike window (which lives
   on the host: device NULL). */
struct tensor_list {
  struct checkpoint_tensor *item;
  struct tensor **device;
  int count;
};
void trainer_tensors(struct trainer *, struct tensor_list *); /* without values */
void trainer_tensors_free(struct tensor_list *);
void trainer_tensors_fetch(struct trainer *, const struct tensor_list *);
void trainer_tensors_forget(struct tensor_list *); /* frees the fetched values, too */
/* The index of the i-th tensor among the optimizers' states; -1: it is not a state. */
int trainer_state_at(const struct trainer *, int i);

/* save.c */
/* As trainer_checkpoint; no step may be in flight. */
int trainer_save(struct trainer *, struct error *);
/* Copy a checkpoint's tensors into the run. */
int trainer_load(struct trainer *, const struct checkpoint *, struct error *);

/* trainer.c: one step of each run. Runs without steps left are first removed from the batch. A run's failure is in its
   `error`. */
void trainer_step_all(struct batched *);
/* Final validation and probe of runs that are at their end, after the last update. */
void trainer_finish_all(const struct batched *);
#endif
