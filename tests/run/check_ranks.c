/* check_ranks.c - a run on ranks, without MPI (tests/comm/letters.h): what each has of it, what is refused, in which
   words, and that all end with one status; the numbers of one rank, however it is divided; ranks that are not alike,
   that are to stop, that fail; the groups of a farm */
#include <math.h>
#include "base/memory.h"
#include "../comm/letters.h"
#include "base/file.h"
#include "../folder.h"
#include "run/claim.h"
#include "run/drive.h"
#include "run/farm.h"
#include "run/sweep_parts.h"
#include "run/trainer.h"
#include "storage/run_file.h"
#include "training/optimizer.h"

/* The configuration is in the environment; @ is the rank's number, # one more, ~ 1 on the first alone. */
static struct config *configured(struct error *e)
{
  char words[2000], *next = words;
  snprintf(words, sizeof words, "%s", getenv("MAXLOGIT_TEST_WORDS"));
  struct config *c = config_new();
  for (char *x = words; *x; x++)
    if (*x == '@' || *x == '#' || *x == '~')
      *x = (char)('0' + (*x == '~' ? all->rank == 0 : all->rank + (*x == '#')));
  for (char *word; !e->status && (word = strsep(&next, " "));)
    if (*word) config_assign(c, word, e);
  if (!e->status) config_finish(c, e);
  return c;
}

static int built(struct trainer **t, struct config **c, struct error *e)
{
  trainer_use_ranks(all);
  *t = NULL;
  *c = configured(e);
  return e->status ? e->status : trainer_init(t, *c, TRAINER_NO_RECORD, e);
}

/* What each rank has, told by rank 0. */
static int shares(struct error *e)
{
  struct trainer *t;
  struct config *c;
  int rank, status = built(&t, &c, e);
  if (!status) {
    const int ranks = trainer_ranks(t, &rank);
    must(ranks == all->ranks && rank == all->rank && trainer_ranks(t, NULL) == ranks, "who it is", rank);
    for (int i = 0; i < ranks && !rank; i++) {
      const struct rank_part p = trainer_part(t, i);
      printf("%ld+%ldx%ld %ld-%ld,%ld-%ld/%ld\n", p.first_micro, p.micro_batches, p.micro_stride, p.from[0],
             p.to[0], p.from[1], p.to[1], p.ranks);
    }
    trainer_abandon(t);
  }
  config_free(c);
  return status;
}

/* Some steps, a look at what was told of each; all ranks have the same. */
static int steps(struct error *e)
{
  struct trainer *t;
  struct config *c;
  int status = built(&t, &c, e), stops = 0;
  while (!status && trainer_more(t)) {
    status = trainer_barrier(t, &stops, e);
    if (!status) status = trainer_step(t, e);
    const double own[4] = {trainer_status(t).loss, trainer_status(t).grad_norm,
                           (double)trainer_status(t).max_logit[1], trainer_status(t).val_loss};
    double others[MOST][4];
    comm_gather(all, own, others, sizeof own);
    for (int i = 0; i < all->ranks; i++)
      must(!memcmp(own, others[i], 3 * sizeof *own), "what a rank tells", i);
    if (!all->rank) printf("%a %a %a %a\n", own[0], own[1], own[2], isnan(own[3]) ? 0 : own[3]);
  }
  if (t) trainer_abandon(t);
  config_free(c);
  return status;
}

/* The other steps, to the end; what its file then tells of: all steps with an event, or an event's values. */
static int finish(struct trainer *t, const char *event, struct error *e)
{
  struct run_file *r;
  struct run_event *x = NULL;
  long count = 0;
  int status = STATUS_OK, stops = 0;
  while (!status && trainer_more(t)) {
    status = trainer_barrier(t, &stops, e);
    if (!status) status = trainer_step(t, e);
  }
  if (!status) status = trainer_done(t, e);
  if (status || all->rank || (status = run_open(&r, "r.h5", e))) return status;
  status = run_events(r, &x, &count, e);
  for (long i = 0; i < count; i++) {
    if (!event) printf("%s %ld\n", x[i].kind, x[i].step);
    if (event && !strcmp(x[i].kind, event)) printf("%s %ld %g\n", event, x[i].step, x[i].value);
  }
  memory_free(x);
  run_close(r);
  return status;
}

/* A run with its file; which steps have checkpoints. */
static int saves(struct error *e)
{
  struct trainer *t = NULL;
  trainer_use_ranks(all);
  struct config *c = configured(e);
  int status = e->status ? e->status : trainer_init(&t, c, 0, e);
  if (!status) status = finish(t, NULL, e);
  config_free(c);
  return status;
}

/* The run goes on: to so many steps, a digit for each rank, and a setting; where its sequences were cut anew. */
static int goes_on(struct error *e)
{
  char own[32];
  const char *words = getenv("MAXLOGIT_TEST_WORDS"), *more = strchr(words, ' ');
  const char *const change[] = {own, more ? more + 1 : NULL};
  struct trainer *t = NULL;
  trainer_use_ranks(all);
  snprintf(own, sizeof own, "train.steps=%c", words[all->rank]);
  int status = trainer_resume(&t, "r.h5", change, more ? 2 : 1, e);
  if (!status) status = finish(t, "context", e);
  return status;
}

/* One is to stop: all are. One has failed: all have, and meet no more. */
static int meetings(struct error *e)
{
  struct trainer *t;
  struct config *c;
  int status = built(&t, &c, e), stops = 0;
  must(!status && !trainer_barrier(t, &stops, e) && !stops, "a meeting", stops);
  stops = all->rank == all->ranks - 1;
  must(!trainer_barrier(t, &stops, e) && stops, "a stop", stops);
  stops = 0;
  must(!trainer_barrier(t, &stops, e) && !stops, "no stop", stops);
  if (all->rank == 1) error_set(e, STATUS_USAGE, "not so");
  must(trainer_barrier(t, &stops, e) == STATUS_USAGE, "an error", 0);
  trainer_abandon(t);
  config_free(c);
  return STATUS_OK;
}

/* A sweep's ranks: in groups, of which each has a run at a time. */
static int farm(struct error *e)
{
  must(!farm_is_open() && farm_tells(), "no farm", 0);
  if (farm_open(e)) return e->status;
  const struct comm_options o = {.ranks = strtol(getenv("MAXLOGIT_TEST_WORDS"), NULL, 10), .timeout = 7};
  must(farm_is_open() && farm_tells() == (all->rank == 0), "who tells", 0);
  uint64_t id = farm_id(), ids[MOST], self_of[MOST];
  comm_gather(all, &id, ids, sizeof id);
  id = farm_self();
  comm_gather(all, &id, self_of, sizeof id);
  for (int i = 1; i < all->ranks; i++)
    must(ids[i] == ids[0] && self_of[i] != self_of[0], "a name of a farm", i);
  for (int again = 0; again < 2; again++) {
    if (farm_join(&o, e)) return e->status;
    const struct comm *group = farm_group();
    const int size = o.ranks ? (int)o.ranks : 1;
    must(group->ranks == size && group->rank == all->rank % size && farm_groups() == all->ranks / size,
         "a group", size);
    must(comm_number(group, 0) == all->rank / size * size && group->is_apart == (all->rank >= size) &&
           !group->called,
         "whose group", group->rank);
    must(farm_patience() == 7, "patience", 0);
  }
  drive_catch_signals();
  must(!farm_barrier(e) && !farm_stops(), "nobody stops", 0);
  comm_gather(all, &id, self_of, sizeof id);
  if (all->rank == 1) raise(SIGTERM);
  if (all->rank == 1) must(farm_stops(), "a signal", 0);
  comm_gather(all, &id, self_of, sizeof id);
  must(farm_stops() && farm_stops(), "a signal to another", all->rank);
  must(mail->stopped[self] == (all->rank != 1), "who has been told", all->rank);
  if (all->rank == 1) return error_set(e, STATUS_FAIL, "one has failed");
  return STATUS_OK;
}

/* --- points among ranks --- */

static void together(void)
{
  int gathered[MOST];
  comm_gather(all, &all->rank, gathered, sizeof all->rank);
}

static struct sweep_point point_of(char *path)
{
  struct sweep_point p = {.path = path, .steps = 9};
  snprintf(p.id, sizeof p.id, "%.2s", path);
  snprintf(p.label, sizeof p.label, "of %.2s", path);
  return p;
}

/* What the holder of a point tells by its file, and what another rank makes of it. */
static int claims(struct error *e)
{
  static char paths[8][8] = {"p0.h5", "p1.h5", "p2.h5", "p3.h5", "p4.h5", "p5.h5", "p6.h5", "p7.h5"};
  struct sweep_point p[8];
  struct lock *lock = NULL;
  enum sweep_fate fate;
  char reason[512], mark[200], *text;
  const int holds = all->rank == 0, looks = !holds;
  for (int i = 0; i < 8; i++) p[i] = point_of(paths[i]);
  if (chdir(getenv("MAXLOGIT_TEST_WORDS")) || farm_open(e)) return STATUS_FAIL;
  const struct comm_options o = {.ranks = 1, .timeout = 60};
  if (farm_join(&o, e)) return e->status;
  uint64_t own = farm_self(), holder[MOST];
  comm_gather(all, &own, holder, sizeof own);

  /* at work, then failed: the file stays, and says so; what it says is for this farm */
  if (holds) lock = lock_take("p0.point", NULL);
  if (holds) claim_mark(lock, &p[0], SWEEP_RUNNING, 5, "");
  together();
  if (looks) {
    p[0].step = 99;
    claim_look(&p[0]);
    must(p[0].fate == SWEEP_RUNNING && p[0].elsewhere && p[0].step == 5 && p[0].holder == holder[0] &&
           p[0].heard > 0,
         "a point at work", 0);
    must(!claim_ended(&p[0], &fate, reason), "the end of a point at work", 0);
  }
  together();
  if (holds) claim_mark(lock, &p[0], SWEEP_FAILED, 7, "why it failed\nand more");
  if (holds) claim_release(lock, &p[0]);
  together();
  must(claim_ended(&p[0], &fate, reason) && fate == SWEEP_FAILED && !strcmp(reason, "why it failed"),
       "the end of a point", 0);
  p[0].fate = SWEEP_WAITING;
  claim_look(&p[0]);
  must(p[0].fate == SWEEP_FAILED && !p[0].elsewhere && !strcmp(p[0].reason, "why it failed"),
       "a failed point", 0);
  snprintf(mark, sizeof mark, "%016llx %016llx 0 %d 7 why it failed\nand more\n",
           (unsigned long long)farm_id(), (unsigned long long)holder[0], SWEEP_FAILED);
  must(!file_read("p0.point", &text, NULL, e) && !strcmp(text, mark), "a mark", 0);
  memory_free(text);
  together();

  /* let go without an end: anybody's; left by one who was killed: anybody's */
  if (holds) {
    lock = lock_take("p1.point", NULL);
    claim_mark(lock, &p[1], SWEEP_RUNNING, 3, "");
    claim_release(lock, &p[1]);
    must(access("p1.point", F_OK) != 0, "a point that was let go", 1);
    lock = lock_take("p2.point", NULL);
    claim_mark(lock, &p[2], SWEEP_RUNNING, 3, "");
    lock_release(lock, NULL);
  }
  together();
  for (int i = 1; i < 3; i++) {
    p[i].fate = SWEEP_RUNNING, p[i].elsewhere = 1;
    claim_look(&p[i]);
    must(p[i].fate == SWEEP_WAITING && !p[i].elsewhere, "a free point", i);
  }
  together();

  /* written by somebody else: no fate, a fate that no holder writes, a link; a text is cleaned */
  if (holds) {
    static const char *const forged[] = {"0 77 7 x", "0 -3 7 x", "0 0 7 x",
                                         "0 5 7 x",  "-1 6 7 x", "0 6 -1 x"};
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
      snprintf(mark, sizeof mark, "%016llx %016llx %s\n", (unsigned long long)farm_id(),
               (unsigned long long)holder[0], forged[i]);
      must(!file_write("p7.point", mark, strlen(mark), e) && !claim_ended(&p[7], &fate, reason),
           "a forged mark", (int)i);
    }
    snprintf(mark, sizeof mark, "%016llx %016llx 0 6 7 \033[31mred\n", (unsigned long long)farm_id(),
             (unsigned long long)holder[0]);
    must(!file_write("p7.point", mark, strlen(mark), e) && claim_ended(&p[7], &fate, reason) &&
           !strcmp(reason, "?[31mred"),
         "a mark with an escape sequence", 7);
    must(!rename("p7.point", "elsewhere") && !symlink("elsewhere", "p7.point") &&
           !claim_ended(&p[7], &fate, reason),
         "a mark behind a link", 7);
  }
  together();

  /* killed: once more, then no more; ended by itself: no more */
  if (holds) {
    claim_bury(&p[3], SIGKILL, "killed by somebody");
    must(p[3].fate == SWEEP_WAITING && !claim_ended(&p[3], &fate, reason), "a first death", 3);
    claim_bury(&p[3], SIGKILL, "killed by somebody");
    must(p[3].fate == SWEEP_FAILED, "a second death", 3);
    claim_bury(&p[4], 0, "ended with status 3");
    must(p[4].fate == SWEEP_FAILED, "an end by itself", 4);
  }
  together();
  must(claim_ended(&p[3], &fate, reason) && fate == SWEEP_FAILED && !strcmp(reason, "killed by somebody"),
       "who was killed twice", 3);
  must(claim_ended(&p[4], &fate, reason) && !strcmp(reason, "ended with status 3"), "who has ended", 4);
  together();

  /* silent for too long: taken, unless it has told of a step meanwhile; of another farm: left alone */
  if (holds) {
    lock = lock_take("p5.point", NULL);
    claim_mark(lock, &p[5], SWEEP_RUNNING, 1, "");
    struct lock *other = lock_take("p6.point", NULL);
    lock_write(other, "0000000000000001 0000000000000002 0 1 4 \n");
    must(lock_take("p5.lock", NULL) != NULL, "a run's lock", 5);
  }
  together();
  if (looks) claim_look(&p[5]), claim_look(&p[6]);
  p[5].heard -= 59; /* so much later */
  together();
  if (holds) claim_mark(lock, &p[5], SWEEP_RUNNING, 2, "");
  together();
  if (looks) {
    claim_look(&p[5]);
    p[5].heard -= 50;
    claim_look(&p[5]);
    must(p[5].fate == SWEEP_RUNNING && p[5].elsewhere && p[5].step == 2, "a slow point", 5);
    p[5].heard -= 20, p[6].heard -= 70;
    claim_look(&p[5]), claim_look(&p[6]);
    must(p[5].fate == SWEEP_WAITING && access("p5.point", F_OK) && access("p5.lock", F_OK), "a silent point",
         5);
    must(p[6].fate == SWEEP_RUNNING && p[6].elsewhere && p[6].step == 4 && !access("p6.point", F_OK),
         "another farm's", 6);
    must(!claim_ended(&p[6], &fate, reason), "another farm's end", 6);
  }
  together();
  if (holds) must(lock_was_taken(lock, &(struct error){0}), "a lost point", 5);
  return STATUS_OK;
}

static const struct part parts[] = {{"shares", shares}, {"steps", steps},     {"meetings", meetings},
                                    {"saves", saves},   {"goes on", goes_on}, {"farm", farm},
                                    {"claims", claims}, {NULL, NULL}};

#define TINY \
  "device=cpu model.layers=1 model.width=8 model.heads=2 model.context=8 train.batch=4 train.warmup=2 " \
  "train.val_every=0 " \
  "train.val_batches=1 train.steps=3 record.spectra_every=0 device.threads=1 "

static void perform(int ranks, const char *part, const char *words)
{
  char all_words[2000];
  const int is_run = strcmp(part, "farm") && strcmp(part, "claims") && strcmp(part, "goes on");
  snprintf(all_words, sizeof all_words, "%s%s", is_run ? TINY : "", words);
  setenv("MAXLOGIT_TEST_WORDS", all_words, 1);
  play(ranks, part, "", NULL);
}

/* Micro-batches: neighbours, or each so-many-th where weights are shared out; of a sequence that is cut the n-th piece
   from both ends. */
START_TEST(what_each_rank_has)
{
  static const struct {
    int ranks, context, micro_batches, weights;
  } known[] = {{2, 1, 4, 0}, {4, 1, 4, 0}, {2, 1, 2, 0}, {2, 2, 3, 0},
               {4, 2, 4, 0}, {4, 4, 1, 0}, {2, 1, 4, 1}, {4, 1, 4, 1}};
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    const int ranks = known[k].ranks, cut = known[k].context, groups = ranks / cut, piece = 8 / (2 * cut);
    char words[200], wanted[500] = "";
    snprintf(words, sizeof words, "train.batch=12 train.micro_batches=%d comm.context=%d comm.shard=%s",
             known[k].micro_batches, cut, known[k].weights ? "weights" : "none");
    for (int i = 0; i < ranks; i++) {
      const int own = known[k].micro_batches / groups, first = known[k].weights ? i : i / cut * own,
                at = i % cut;
      snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%d+%dx%d %d-%d,%d-%d/%d\n", first,
               own, known[k].weights ? ranks : 1, at * piece, (at + 1) * piece, (2 * cut - 1 - at) * piece,
               (2 * cut - at) * piece, cut);
    }
    perform(ranks, "shares", words);
    told(ranks, (int[MOST]){0}, wanted, "%s", "");
  }
}
END_TEST

/* The same bits on any number of ranks, shared out or not; where sequences are cut, however else the run is divided. */
START_TEST(the_numbers_of_one_rank)
{
  static const char *const runs[] = {
    "preset=muonclip qk_clip.tau=0.3 train.micro_batches=4",
    "preset=adam train.micro_batches=4 train.grad_clip=0.1 comm.shard=states",
    "preset=adamclip qk_clip.tau=0.3 train.micro_batches=4 comm.shard=weights",
    "preset=muonclip qk_clip.tau=0.3 train.micro_batches=2 comm.context=2 train.val_every=1",
  };
  for (int k = 0; k < 4; k++) {
    char first[2000] = "";
    for (int ranks = k == 3 ? 2 : 1; ranks <= 4; ranks *= 2) {
      perform(ranks, "steps", runs[k]);
      for (int i = 0; i < ranks; i++)
        ck_assert_msg(heard[i].status == 0 && !*heard[i].err, "run %d, rank %d: %d: %s", k, i,
                      heard[i].status, heard[i].err);
      if (!*first) snprintf(first, sizeof first, "%s", heard[0].out);
      ck_assert_str_eq(heard[0].out, first);
    }
    int lines = 0;
    for (const char *c = first; *c; c++) lines += *c == '\n';
    ck_assert_int_eq(lines, 3);
  }
}
END_TEST

/* So of every optimizer, its states shared out, or weights with them. */
START_TEST(optimizers_on_two_ranks)
{
  for (int i = 0; optimizers[i]; i++)
    for (int weights = 0; weights < 2 - optimizers[i]->reads_weights; weights++) {
      char settings[128], alone[2000];
      snprintf(settings, sizeof settings, "optimizer=%s train.micro_batches=2 comm.shard=%s",
               optimizers[i]->name, weights ? "weights" : "states");
      perform(1, "steps", settings);
      snprintf(alone, sizeof alone, "%s", heard[0].out);
      perform(2, "steps", settings);
      for (int k = 0; k < 2; k++)
        ck_assert_msg(heard[k].status == 0 && !*heard[k].err, "%s, rank %d: %d: %s", settings, k,
                      heard[k].status, heard[k].err);
      ck_assert_msg(*alone && !strcmp(heard[0].out, alone), "%s:\n%s%s", settings, alone, heard[0].out);
    }
}
END_TEST

/* Names of this machine, and of runs: HOST, ID. */
static void anonymise(char *text)
{
  char out[8000] = "";
  for (const char *c = text; *c;) {
    size_t n = strlen(out);
    if (!strncmp(c, host, strlen(host)) && c > text && c[-1] == ' ') {
      snprintf(out + n, sizeof out - n, "HOST");
      c += strlen(host);
    } else if (strspn(c, "0123456789abcdef") == 12) {
      snprintf(out + n, sizeof out - n, "ID");
      c += 12;
    } else {
      out[n] = *c++;
      out[n + 1] = 0;
    }
  }
  snprintf(text, sizeof heard->err, "%s", out);
}

/* What cannot be is refused before anybody waits, told once, with what is allowed. */
START_TEST(what_ranks_cannot_do)
{
  static const struct {
    int ranks, status;
    const char *words, *says; /* HOST: this machine; ID: of some run */
  } known[] = {
    {2, 2, "comm.context=3", "comm.context = 3: allowed is a power of two"},
    {2, 2, "comm.context=2 model.context=6",
     "comm.context = 2 cannot cut model.context = 6: it is cut into 4 pieces of equal length, two for each "
     "rank"},
    {2, 2, "comm.context=4",
     "comm.context = 4, and 2 ranks are there: `mpirun -n 4 maxlogit ...` starts so many; allowed are "
     "multiples of it"},
    {3, 2, "comm.context=2",
     "comm.context = 2, and 3 ranks are there: `mpirun -n 2 maxlogit ...` starts so many; allowed are "
     "multiples of it"},
    {2, 1, "comm.context=# train.micro_batches=2",
     "rank 1 on HOST has comm.context = 2, and rank 0 has 1: all ranks must be alike"},
    {2, 2, "comm.ranks=4",
     "comm.ranks = 4, and 2 are there: `mpirun -n 4 maxlogit ...` starts so many; comm.ranks=0 takes what "
     "there is"},
    {3, 2, "train.micro_batches=3 train.batch=6",
     "3 ranks cannot divide train.micro_batches = 3: allowed is a power of two of ranks that divides it, so "
     "that the sums over "
     "micro-batches are one balanced tree on any of them"},
    {2, 2, "train.micro_batches=1",
     "2 ranks cannot divide train.micro_batches = 1: allowed is a power of two of ranks that divides it, so "
     "that the sums over "
     "micro-batches are one balanced tree on any of them"},
    {4, 2, "comm.context=2 train.micro_batches=3 train.batch=6",
     "2 ranks cannot divide train.micro_batches = 3: allowed is a power of two of ranks that divides it, so "
     "that the sums over "
     "micro-batches are one balanced tree on any of them"},
    {2, 2, "train.micro_batches=3", "train.micro_batches = 3 does not divide train.batch = 4"},
    {2, 2, "train.micro_batches=2 comm.shard=weights comm.context=2",
     "comm.shard = weights with comm.context = 2; allowed: one of the two"},
    {2, 2, "train.micro_batches=2 comm.shard=weights device=isolated",
     "comm.shard = weights with device = isolated; allowed: device = cpu"},
    {2, 2, "train.micro_batches=6 train.batch=6 comm.shard=weights",
     "comm.shard = weights with train.micro_batches = 6; allowed: a power of two, so that ranks can join "
     "their gradients after "
     "each"},
    {2, 2, "train.micro_batches=2 comm.shard=weights override.lr=w_q:0.5 override.match=update_rms",
     "comm.shard = weights with override.match: whole updates are on no rank; allowed: override.match = "
     "lr"},
    {2, 2, "train.micro_batches=2 comm.shard=weights override.optimizer=w_q:compositional",
     "optimizer: compositional reads whole weights, of which comm.shard = weights leaves each rank pieces; "
     "allowed: others, or comm.shard = states"},
    {2, 2, "train.micro_batches=2 comm.shard=weights stabilizers=soft_cap+hyperball",
     "stabilizers: hyperball changes whole matrices, of which comm.shard = weights leaves each rank pieces; "
     "allowed: others, or comm.shard = states"},
    {2, 2, "train.micro_batches=2 comm.context=2 record.observe=sink",
     "record.observe: sink looks at whole sequences, which comm.context = 2 cuts; allowed: without it, or "
     "comm.context = 1"},
    {2, 2, "train.micro_batches=2 comm.context=2 stabilizers=ssmax",
     "stabilizers: ssmax makes weights of whole rows of scores, which comm.context = 2 cuts; allowed: "
     "others, or comm.context = 1"},
    {2, 2, "train.micro_batches=2 comm.context=2 stabilizers=soft_cap+learned_sink",
     "stabilizers: learned_sink makes weights of whole rows of scores, which comm.context = 2 cuts; allowed: "
     "others, or "
     "comm.context = 1"},
    {2, 2, "train.micro_batches=2 comm.context=2 model.ffn=moe moe.experts=4 moe.active=2 moe.balance=aux",
     "moe.balance: the loss of balance is that of whole sequences, which comm.context = 2 cuts; allowed: "
     "bias, none, or "
     "comm.context = 1"},
    {2, 1, "train.micro_batches=2 train.lr=0.1@",
     "rank 1 on HOST has the configuration of the run ID, and rank 0 on HOST has ID: all ranks must be "
     "alike"},
    {4, 1, "train.micro_batches=4 train.seed=1@",
     "rank 1 on HOST has the configuration of the run ID, and rank 0 on HOST has ID: all ranks must be "
     "alike"},
    {2, 1, "train.micro_batches=2 markov.language=1@",
     "rank 1 on HOST has data of another content, and rank 0 on HOST has its own: all ranks must be alike"},
    {2, 2, "train.micro_batches=2 train.steps=#",
     "rank 1 on HOST has train.steps = 2, and rank 0 on HOST has 1: all ranks must be alike"},
    {1, 2, "comm.context=2",
     "comm.context = 2, and 1 rank is there: `mpirun -n 2 maxlogit ...` starts so many; allowed are "
     "multiples of it"},
    {1, 2, "comm.ranks=2",
     "comm.ranks = 2, and 1 is there: `mpirun -n 2 maxlogit ...` starts so many; comm.ranks=0 takes what "
     "there is"},
    {2, 2, "train.lrr=1", "command line: train.lrr: unknown key; did you mean 'train.lr'?"},
  };
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    char wanted[700];
    perform(known[k].ranks, "shares", known[k].words);
    snprintf(wanted, sizeof wanted, "maxlogit: %s\n", known[k].says ? known[k].says : "");
    anonymise(heard[0].err);
    for (int i = 0; i < known[k].ranks; i++) {
      ck_assert_msg(heard[i].status == known[k].status, "%s: rank %d: %d: %s", known[k].words, i,
                    heard[i].status, heard[i].err);
      ck_assert_str_eq(heard[i].out, "");
      if (known[k].says) ck_assert_str_eq(heard[i].err, i ? "" : wanted);
      if (!known[k].says)
        ck_assert_msg(!*heard[i].err == (i > 0), "%s: rank %d: %s", known[k].words, i, heard[i].err);
      ck_assert_int_eq(mail->aborted[i], 0);
    }
  }
}
END_TEST

START_TEST(ranks_that_meet)
{
  for (int ranks = 2; ranks <= 4; ranks += 2) {
    perform(ranks, "meetings", "train.micro_batches=4");
    int statuses[MOST] = {2, 2, 2, 2};
    told(ranks, statuses, "", "maxlogit: rank 1 on %s: not so\n", host);
  }
}
END_TEST

/* By the clock of the first alone all save at the same step. */
START_TEST(checkpoints_by_one_clock)
{
  char folder[FOLDER_PATH], here[4096];
  folder_make(folder);
  ck_assert(getcwd(here, sizeof here) && !chdir(folder));
  for (int k = 0; k < 2; k++) {
    char words[200];
    snprintf(
      words, sizeof words,
      "record.path=r.h5 record.overwrite=1 checkpoint.every=0 checkpoint.seconds=%ce-9 comm.shard=states "
      "optimizer=adam train.micro_batches=4",
      k ? '~' : '@');
    perform(2, "saves", words);
    told(2, (int[MOST]){0}, k ? "checkpoint 1\ncheckpoint 2\ncheckpoint 3\n" : "checkpoint 3\n", "%s", "");
  }
  ck_assert_int_eq(chdir(here), 0);
  folder_remove(folder);
}
END_TEST

/* All go on to the same step, or none of them does, which is told with both numbers; the file stays as it is. */
START_TEST(one_length_of_all)
{
  char folder[FOLDER_PATH], here[4096];
  struct run_file *r;
  struct error e = {0};
  static const struct {
    int ranks, status;
    const char *steps, *says;
    long last;
    const char *events;
  } known[] = {
    {2, 2, "67", "rank 1 on HOST has train.steps = 7, and rank 0 on HOST has 6: all ranks must be alike", 3,
     NULL},
    {2, 2, "54", "rank 1 on HOST has train.steps = 4, and rank 0 on HOST has 5: all ranks must be alike", 3,
     NULL},
    {4, 2, "4454", "rank 2 on HOST has train.steps = 5, and rank 0 on HOST has 4: all ranks must be alike", 3,
     NULL},
    {2, 2, "23", "rank 0 on HOST: train.steps = 2 is less than the run's 3", 3, NULL},
    {2, 0, "44", NULL, 4, NULL},
    {4, 0, "5555", NULL, 5, NULL},
    {2, 2, "66 comm.context=4",
     "comm.context = 4, and 2 ranks are there: `mpirun -n 4 maxlogit ...` starts so many; allowed are "
     "multiples of "
     "it. comm.context=1 goes on with one rank, to other roundings",
     5, NULL},
    {2, 0, "66 comm.context=2", NULL, 6, "context 5 2\n"},
    {2, 0, "77 comm.context=1", NULL, 7, "context 5 2\n"},
    {4, 0, "8888 comm.context=4", NULL, 8, "context 5 2\ncontext 7 4\n"},
  };
  folder_make(folder);
  ck_assert(getcwd(here, sizeof here) && !chdir(folder));
  perform(2, "saves", "record.path=r.h5 optimizer=adam train.micro_batches=4");
  told(2, (int[MOST]){0}, "checkpoint 3\n", "%s", "");
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    char wanted[500] = "";
    perform(known[k].ranks, "goes on", known[k].steps);
    anonymise(heard[0].err);
    if (known[k].says) snprintf(wanted, sizeof wanted, "maxlogit: %s\n", known[k].says);
    const int s = known[k].status;
    told(known[k].ranks, (int[MOST]){s, s, s, s}, known[k].events ? known[k].events : "", "%s", wanted);
    ck_assert(!run_open(&r, "r.h5", &e));
    ck_assert_int_eq(run_last_step(r), known[k].last);
    run_close(r);
  }
  ck_assert_int_eq(chdir(here), 0);
  folder_remove(folder);
}
END_TEST

START_TEST(farms)
{
  static const struct {
    int ranks;
    const char *size;
  } known[] = {{2, "0"}, {2, "1"}, {4, "2"}, {6, "3"}, {4, "4"}, {3, "1"}};
  for (int k = 0; k < 6; k++) {
    perform(known[k].ranks, "farm", known[k].size);
    int statuses[MOST] = {1, 1, 1, 1, 1, 1};
    told(known[k].ranks, statuses, "", "maxlogit: rank 1 on %s: one has failed\n", host);
  }
  perform(3, "farm", "2");
  told(
    3, (int[]){2, 2, 2}, "",
    "maxlogit: comm.ranks = 2: 3 ranks cannot be cut into such groups, of which each has a run at a time\n");
}
END_TEST

START_TEST(points_among_ranks)
{
  char folder[FOLDER_PATH];
  folder_make(folder);
  perform(2, "claims", folder);
  told(2, (int[MOST]){0}, "",
       "maxlogit: p3 of p3: its process was killed by somebody; it is taken up again\n"
       "maxlogit: rank 1 on %s: p5 of p5: its process has not been heard of for 60 s (comm.timeout); it is "
       "taken up again\n",
       host);
  folder_remove(folder);
}
END_TEST

int main(int argc, char **argv)
{
  if (argc > 3) return as_rank(parts, argv[1], atoi(argv[2]), argv[3]);
  if (argc == 2) return 0;
  if (!can_start(argv[0])) return 77;
  unsetenv("MAXLOGIT_MPI");
  Suite *suite = suite_create("ranks");
  TCase *k = tcase_create("ranks");
  tcase_set_timeout(k, 120);
  tcase_add_test(k, what_each_rank_has);
  tcase_add_test(k, the_numbers_of_one_rank);
  tcase_add_test(k, optimizers_on_two_ranks);
  tcase_add_test(k, what_ranks_cannot_do);
  tcase_add_test(k, ranks_that_meet);
  tcase_add_test(k, checkpoints_by_one_clock);
  tcase_add_test(k, one_length_of_all);
  tcase_add_test(k, farms);
  tcase_add_test(k, points_among_ranks);
  suite_add_tcase(suite, k);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed > 0;
}
