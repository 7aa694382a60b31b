/* ledger.h - claims settled: what is missing is run, in stages, and what came of it is judged
   Runs are points of one sweep, in one folder: two claims that ask for the same run share its file, a ledger that was
   stopped goes on where it was, and nothing but the files is remembered. */
#ifndef MAXLOGIT_LEDGER_LEDGER_H
#define MAXLOGIT_LEDGER_LEDGER_H
#include "ledger/claim.h"
#include "base/text.h"
#include "ledger/stages.h"
#include "ledger/tuning.h"
#include "run/sweep.h"

struct entry_run {
  long seed;
  char id[16], *path;
  enum sweep_fate fate;
  struct measured value;          /* of the arm's metric */
  double control[CLAIM_CONTROLS]; /* of the claim's controls; NAN: not of this arm, or without a value */
  double last_loss;               /* of its last step */
  int blew_up;                    /* counted, no more: verdicts take it as any finished run */
  double seconds;                 /* that it took */
};
struct entry_arm {
  struct entry_run *run; /* [runs], seeds upwards */
  int runs;
  struct interval mean; /* the median of those that count, and its 95 % interval: none of fewer than six */
  char unit[32];
};
/* Of a claim whose arms are tuned: a verdict stands only if it stands at the rates beside the best, too. */
enum { NEIGHBOURS = 4 }; /* the first arm a step below and above its best rate, then the second */
struct entry_rates {
  char best[2][32], beside[NEIGHBOURS][32]; /* "": not tuned yet; there is none */
  int kept;                                 /* they were chosen before (rates.h) */
  enum tuning_end end[2];
  struct entry_arm arm[NEIGHBOURS];
  struct judgement judgement[NEIGHBOURS]; /* of this arm with the other at its best */
  enum verdict at_best;                   /* before the neighbours were asked */
  int falls;                              /* 1 + the neighbour at which it does not stand; 0: none */
};
struct finding {
  enum verdict verdict;
  struct interval effect; /* as entry_effect tells it */
};
/* The same claim with other settings: another width, another text. */
struct replica {
  char settings[256];
  struct finding finding;
};
/* What stood in the ledger's file when the claim, its margins or the rule were changed (keep.h). */
struct former {
  char registered[16], verdict[32], made_by[256]; /* verdict "": nothing was changed */
  struct interval effect;
};
struct entry { /* a claim and what came of it */
  const struct claim *claim;
  const char *question;
  struct entry_arm arm[CLAIM_ARMS];
  struct entry_rates rates;
  struct replica *replica;
  int replicas;
  int stage;                  /* looks that were taken */
  struct judgement judgement; /* effects of ratios are logarithms here; entry_effect tells them as ratios */
  double holm,
    fdr; /* judgement.p corrected for the family: all rows that can be tested; family-wise, and by the
                       false discovery rate (statistics.h). NaN: not of the family */
  const struct claim *same_as; /* an earlier row with the same comparison, which counts once; or NULL */
  char registered[16];         /* registered.h */
  struct former former;
  int idle;         /* the arms' runs are the same training: what differs between them did not act */
  int silent;       /* every run of both arms gave one and the same value: no spike anywhere, say */
  int uncontrolled; /* 1 + the control that was not met; 0: all were */
  double control;   /* the median that was found of it */
  int diverged;     /* seeds left out because a run diverged, */
  int left_out;     /* or has no finite value, or none above zero for a ratio */
  int blown_up;     /* seeds that count, with a run that blew up (storage/blow_up.h) */
  int lacks_start;  /* no rates can be chosen: what the arms start from could not be done */
  char failed[256]; /* a run that could not be done; "" */
};

struct ledger {
  struct entry *entry;
  int entries;
  int family; /* comparisons of all rows that can be tested, each counted once, whichever were chosen */
  int stages; /* at most; STAGES */
  const char *const *assignment; /* "key=value" on top of every run */
  int assignments;
  long jobs;
  int choose; /* all rates anew, those that are kept (rates.h) as well */
  /* Heard by the sweeps: see sweep.h. Before each stage `begin` tells its number from 0, its seeds, and how many runs
     there are in all and how many of them are done; any may be NULL. */
  void (*begin)(void *context, const struct ledger *, int stage, const struct sweep *);
  void (*start)(void *context, const struct sweep *); /* runs that others start from */
  void (*tune)(void *context, const struct sweep *);  /* a round of runs that rates are chosen on */
  void (*look)(void *context, const struct sweep *, long point);
  void (*say)(void *context, const struct sweep *, long point, long count, const char *line);
  void *context;
  char *folder; /* of the runs, once planned */
};

/* Choose claims from `rows` by id, all where `ids` is 0. STATUS_USAGE names an unknown one and the nearest. */
int ledger_open(struct ledger *, const struct claim_row *rows, char *const *id, int ids, struct error *);
void ledger_close(struct ledger *);
/* Fill in the runs of a stage, from 0, as far as they are planned; nothing is run. STATUS_USAGE names the claim. */
int ledger_plan(struct ledger *, int stage, struct error *);
/* Run what rates are chosen on, and choose: of tuned arms whose rates are not kept. *failed is set where claims have
   nothing to start from, and say so. */
int ledger_choose(struct ledger *, int *failed, struct error *);
/* Run what is missing and judge, stage by stage. STATUS_STOPPED: start again to go on; STATUS_FAIL: some run could not
   be done, and its claims say so. */
int ledger_run(struct ledger *, struct error *);

/* Settle the same claims with further settings, "model.width=128 model.heads=8", and keep what they say as replicas;
   the file of the ledger has them as well. run = 0: only look whether they can be run. */
int ledger_replicate(struct ledger *, const struct claim_row *rows, const char *settings, int run,
                     struct error *);

/* The effect as it is told: ratios as ratios. */
struct interval entry_effect(const struct entry *);
/* Of one claim's verdicts at two widths, or on two texts: "stands", "flips" where the second is the other answer (what
   one says is denied, or the effect has the other sign), "open" where either leaves it open, or its size. */
const char *claim_standing(const struct claim *, const struct finding *, const struct finding *);
/* What every run was given, but for keys that cannot change its numbers: "data=bytes data.path=x"; "": nothing. */
void ledger_settings(const struct ledger *, struct buffer *);
/* Is entry i the first of its question? */
int ledger_asks_first(const struct ledger *, int i);
/* What the runs of entry i took that no earlier entry has. */
double entry_seconds(const struct ledger *, int i);
/* In a few words, why a verdict is what it is; and what would change it: how many more seeds, which rate, which
   width. */
void entry_reason(const struct entry *, char out[512]);
void entry_change(const struct entry *, char out[512]);
#endif
