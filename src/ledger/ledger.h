/* ledger.h - settles claims: computes missing runs, in stages, and judges the results
   All runs are points of one sweep, in one folder. Two claims that need the same run share its file, and a stopped
   ledger continues from the files, which are its only state. */
#ifndef MAXLOGIT_LEDGER_LEDGER_H
#define MAXLOGIT_LEDGER_LEDGER_H
#include "ledger/claim.h"
#include "base/text.h"
#include "ledger/optimum.h"
#include "ledger/stages.h"
#include "ledger/tuning.h"
#include "run/sweep.h"

struct entry_run {
  long seed;
  char id[16], *path;
  enum sweep_fate fate;
  struct measured value;          /* of the arm's metric */
  double control[CLAIM_CONTROLS]; /* of the claim's controls; NAN: for another arm, or without a value */
  double last_loss;               /* of the last step */
  int blew_up;                    /* only reported: verdicts treat it as any finished run */
  double seconds;                 /* wall time */
};
struct entry_arm {
  struct entry_run *run; /* [runs], by increasing seed */
  int runs;
  struct interval mean; /* median of the runs that count, and its 95 % interval; none for fewer than six */
  char unit[32];
};
/* Rates of a claim with tuned arms. It is judged at the optimum between the rates of the grid (optimum.h), and its
   interval contains the uncertainty of that choice. */
enum { NEIGHBOURS = 4 }; /* one step below and above the best rate of the first arm, then of the second */
struct entry_rates {
  char best[2][32], beside[NEIGHBOURS][32];    /* best "": not tuned yet; beside "": no such rate */
  double loss[2][OPTIMUM_RATES][TUNING_SEEDS]; /* that chose it: below, at and above the best */
  int kept;                                    /* taken from the stored rates (tuned_rates.h) */
  enum tuning_end end[2];
  struct entry_arm arm[NEIGHBOURS];
  struct interval optimum[2]; /* a rate; n: seeds that chose it, 0: none was found */
  enum verdict if_known;      /* the verdict if the optimum were known exactly */
};
struct finding {
  enum verdict verdict;
  struct interval effect; /* as from entry_effect */
};
/* The same claim with other settings: for example another width or text. */
struct replica {
  char settings[256];
  struct finding finding;
};
/* The entry of the ledger's file before the claim, its margins or the rule were changed (ledger_file.h). */
struct former {
  char registered[16], verdict[32], made_by[256]; /* verdict "": nothing was changed */
  struct interval effect;
};
struct entry { /* a claim and its results */
  const struct claim *claim;
  const char *question;
  struct entry_arm arm[CLAIM_ARMS];
  struct entry_rates rates;
  struct replica *replica;
  int replicas;
  int stage;                  /* number of looks so far */
  struct judgement judgement; /* effects of ratios are logarithms here; entry_effect converts them */
  double holm,
    fdr; /* judgement.p corrected for the family of all testable rows: family-wise, and by the false discovery rate
            (statistics.h). NaN: not in the family */
  const struct claim *same_as; /* an earlier row with the same comparison, which is counted once; or NULL */
  char registered[16];         /* see registry_hash.h */
  struct former former;
  int idle;         /* the arms' runs are the same training: the tested option had no effect */
  int silent;       /* every run of both arms has the same value, for example no spikes */
  int uncontrolled; /* 1 + the control that was not met; 0: all were */
  double control;   /* the median of that control */
  int diverged;     /* seeds left out because a run diverged, */
  int left_out;     /* or has no finite value, or none above zero for a ratio */
  int blown_up;     /* seeds that count, with a run that blew up (storage/blow_up.h) */
  int lacks_start;  /* a first phase failed, so no rates can be chosen */
  char failed[256]; /* a run that could not be done; "" */
};

struct ledger {
  struct entry *entry;
  int entries;
  int family; /* comparisons of all testable rows, each counted once, whichever were chosen */
  int stages; /* the maximum number; STAGES */
  const char *const *assignment; /* "key=value" on top of every run */
  int assignments;
  long jobs;
  int choose; /* choose all rates again, including the stored ones (tuned_rates.h) */
  /* Hooks of the sweeps, see sweep.h; any may be NULL. Called before each stage: its number from 0, and its sweep. */
  void (*begin)(void *context, const struct ledger *, int stage, const struct sweep *);
  void (*start)(void *context, const struct sweep *); /* before runs of first phases */
  void (*tune)(void *context, const struct sweep *);  /* before a round of runs to choose rates */
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
/* Tune the arms without stored rates. *failed is set if first phases failed; their claims are marked. */
int ledger_choose(struct ledger *, int *failed, struct error *);
/* Compute missing runs and judge, stage by stage. STATUS_STOPPED: start again to continue. STATUS_FAIL: some run
   failed; its claims name it. */
int ledger_run(struct ledger *, struct error *);

/* Settle the same claims with further settings, "model.width=128 model.heads=8", and store the findings as replicas,
   also in the ledger's file. run = 0: only check whether they can be run. */
int ledger_replicate(struct ledger *, const struct claim_row *rows, const char *settings, int run,
                     struct error *);

/* The effect for reports: ratios instead of logarithms. */
struct interval entry_effect(const struct entry *);
/* Compare one claim's verdicts at two widths, or on two texts: "stands"; "flips" if the effect is denied or has the
   other sign; "open" if either verdict, or its size, is open. */
const char *claim_standing(const struct claim *, const struct finding *, const struct finding *);
/* Settings added to every run, except keys that cannot change its numbers: "data=bytes data.path=x"; "": none. */
void ledger_settings(const struct ledger *, struct buffer *);
/* Is entry i the first of its question? */
int ledger_asks_first(const struct ledger *, int i);
/* Wall time of the runs of entry i that no earlier entry has. */
double entry_seconds(const struct ledger *, int i);
/* The rates of a tuned arm's grid, from 0 (below the best; "": none) to 2, and the mean of the losses there. */
const char *entry_grid_rate(const struct entry *, int arm, int k);
double entry_grid_loss(const struct entry *, int arm, int k);
/* "0.0061 and 0.0094": the optimal rates of tuned arms; "" without them. */
const char *entry_rates_text(const struct entry *, char out[64]);
/* The reason for a verdict, in a few words; and the change that would decide it: more seeds, another rate or width. */
void entry_reason(const struct entry *, char out[512]);
void entry_change(const struct entry *, char out[512]);
#endif
