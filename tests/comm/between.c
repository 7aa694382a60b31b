/* between.c - what ranks send each other, as one of them: sums, maxima, rings and shared rows of every size against
   what they are defined as, then a hash of the sums of 16 leaves, the same however many ranks there are (between.sh
   compares) */
#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "comm/launcher.h"
#include "numerics/ranks.h"
#include "numerics/sums.c" /* its rounds are set by hand in check_circle */

enum { LEAVES = 16 };
static const long sizes[] = {1, 7, 1024, 1025, 5000, 20011};
static const struct comm *all;

static real value(int leaf, long i)
{
  return (real)(draw_normal((struct draw){7, STREAM_TEST, (uint64_t)leaf}, (uint64_t)i) * exp(leaf % 7));
}

static void must(int holds, const char *what, long n)
{
  if (holds) return;
  printf("rank %d of %d: %s of %ld is wrong\n", all->rank, all->ranks, what, n);
  exit(1);
}

/* The balanced tree of leaves [first, first + count). */
static void tree(real *y, long n, int first, int count)
{
  real *right = memory_new((size_t)n, sizeof *right);
  if (count == 1) {
    for (long i = 0; i < n; i++) y[i] = value(first, i);
  } else {
    int left = 1;
    while (2 * left < count) left *= 2;
    tree(y, n, first, left);
    tree(right, n, first + left, count - left);
    for (long i = 0; i < n; i++) y[i] += right[i];
  }
  memory_free(right);
}

static void run(struct device *d, void (*record)(struct program *, struct tensor *), struct tensor *y)
{
  struct program *p = program_new(d);
  record(p, y);
  program_plan(p);
  program_run(p);
  program_free(p);
}

static void sum(struct program *p, struct tensor *y) { op_all_reduce_sum(p, y, RANKS_BATCH); }
/* In parts that are under way together, beside other calls. */
static void sum_parts(struct program *p, struct tensor *y, int parts)
{
  struct tensor *work = program_input(p, TENSOR_REAL, 1, y->cols, "work"),
                *other = program_temporary(p, 1, y->cols, "other");
  for (int i = 0; i < parts; i++) {
    long from = y->cols * i / parts, end = y->cols * (i + 1) / parts;
    if (all->ranks > 1 && end > from) {
      const struct sum_beginning part = {program_view(p, y, from, end - from),
                                         program_view(p, work, from, end - from), RANKS_BATCH};
      program_host(p, sums_begin, &part, sizeof part);
    }
    PROGRAM_CALL(p, fill, .y = other, .value = (double)i);
  }
  program_host(p, sums_end, &(char){0}, 1);
}

static void sum_in_parts(struct program *p, struct tensor *y) { sum_parts(p, y, 3); }
/* More than there are channels. */
static void sum_in_many_parts(struct program *p, struct tensor *y) { sum_parts(p, y, COMM_CHANNELS + 3); }

static void largest(struct program *p, struct tensor *y) { op_all_reduce_max(p, y, RANKS_BATCH); }
static void ring(struct program *p, struct tensor *y)
{
  PROGRAM_CALL(p, copy, .y = y, .x = op_ring_shift(p, op_ring_shift(p, y, RANKS_BATCH), RANKS_BATCH));
}

/* Each rank a part of the leaves; where they do not fall to all alike, one leaf each. */
static void check_sum(struct device *d, long n, void (*record)(struct program *, struct tensor *),
                      uint64_t *hash)
{
  int whole = LEAVES % all->ranks == 0, mine = whole ? LEAVES / all->ranks : 1;
  struct tensor *y = tensor_new(d, TENSOR_REAL, 1, n, "sum");
  real *want = memory_new((size_t)n, sizeof *want), *have = memory_new((size_t)n, sizeof *have);
  tree(have, n, all->rank * mine, mine);
  d->upload(d, y->data, have, (size_t)n * sizeof *have);
  run(d, record, y);
  d->download(d, have, y->data, (size_t)n * sizeof *have);
  tree(want, n, 0, whole ? LEAVES : all->ranks);
  must(!memcmp(have, want, (size_t)n * sizeof *have), "the sum", n);
  for (size_t i = 0; i < (size_t)n * sizeof *have; i++)
    *hash = (*hash ^ ((unsigned char *)have)[i]) * 1099511628211u;
  memory_free(want), memory_free(have);
  tensor_free(d, y);
}

/* A NaN on one rank, infinities, zeros of both signs. */
static real special(int rank, long i)
{
  if (i % 5 == 1) return rank == i % all->ranks ? (real)NAN : (real)i;
  if (i % 5 == 2) return -(real)INFINITY;
  if (i % 5 == 3) return rank ? (real)-0.0 : 0;
  return value(rank, i) - (i % 5 == 4 ? 100 : 0);
}

static void check_max(struct device *d, long n)
{
  struct tensor *y = tensor_new(d, TENSOR_REAL, 1, n, "max");
  real *have = memory_new((size_t)n, sizeof *have);
  for (long i = 0; i < n; i++) have[i] = special(all->rank, i);
  d->upload(d, y->data, have, (size_t)n * sizeof *have);
  run(d, largest, y);
  d->download(d, have, y->data, (size_t)n * sizeof *have);
  for (long i = 0; i < n; i++) {
    double want = (double)special(0, i);
    for (int r = 1; r < all->ranks; r++) {
      double x = (double)special(r, i);
      if (isnan(x) || x > want) want = x;
    }
    must(isnan(want) ? isnan(have[i]) : (double)have[i] == want && !signbit(have[i]) == !signbit(want),
         "the largest", n);
  }
  memory_free(have);
  tensor_free(d, y);
}

static void check_ring(struct device *d, long n)
{
  struct tensor *y = tensor_new(d, TENSOR_REAL, n, 1, "ring");
  real *have = memory_new((size_t)n, sizeof *have);
  for (long i = 0; i < n; i++) have[i] = value(all->rank, i);
  d->upload(d, y->data, have, (size_t)n * sizeof *have);
  run(d, ring, y);
  d->download(d, have, y->data, (size_t)n * sizeof *have);
  for (long i = 0; i < n; i++)
    must(have[i] == value((all->rank + 2 * all->ranks - 2) % all->ranks, i), "the ring", n);
  memory_free(have);
  tensor_free(d, y);
}

/* A row of pieces of all lengths by turns, some ranks' none, with gaps; a range of it that begins within one. */
static void check_shards(struct device *d, long n)
{
  struct shards *s = shards_new(all);
  long at[8] = {0}, place = 0;
  const long from = n / 3, count = n - from - n / 5;
  for (int k = 0; place < n; k++) {
    long length = 1 + k * k % 977, left = n - place;
    if (length > left) length = left;
    int owner = (k * k + k / 3) % all->ranks;
    if (k % 5 != 3) shards_add(s, place, length, owner, at[owner]), at[owner] += length;
    place += length;
  }
  shards_reserve(s, n);
  shards_hold(d, s);
  device_set_shards(d, s);
  struct tensor *x = tensor_new(d, TENSOR_REAL, 1, count, "summed"),
                *y = tensor_new(d, TENSOR_REAL, 1, count, "gathered");
  real *want = memory_new((size_t)count, sizeof *want);
  for (long i = 0; i < count; i++) REALS(x)[i] = value(all->rank, i);
  for (long i = 0; i < s->own; i++) REALS(s->held[SHARD_GRADS])[i] = -1;
  struct program *p = program_new(d);
  PROGRAM_CALL(p, reduce_scatter, .y = s->held[SHARD_GRADS], .x = x, .from = from);
  PROGRAM_CALL(p, all_gather, .y = y, .x = s->held[SHARD_GRADS], .from = from);
  program_plan(p);
  program_run(p);
  tree(want, count, 0, all->ranks);
  for (const struct shard *k = s->piece; k < s->piece + s->count; k++)
    for (long i = k->from; i < k->from + k->n; i++) {
      const int within = i >= from && i < from + count;
      const double own = k->owner == all->rank ? (double)REALS(s->held[SHARD_GRADS])[k->at + i - k->from] : 0;
      if (within) must(!memcmp(&REALS(y)[i - from], &want[i - from], sizeof *want), "the gathered sum", n);
      must(k->owner != all->rank || own == (within ? (double)want[i - from] : -1), "the piece", n);
    }
  program_free(p);
  tensor_free(d, x);
  tensor_free(d, y);
  memory_free(want);
  shards_free(d, s);
  d->shards = NULL;
}

/* Two sums of which each rank has had messages as they may have come: nobody waits for one who waits for him. */
static void check_circle(struct device *d)
{
  static const int had[4][2] = {{1, 1}, {2, 3}, {2, 1}, {1, 3}};
  struct tensor *y[2], *work[2];
  if (all->ranks != 4 || d->enter) return;
  for (int i = 0; i < 2; i++) {
    y[i] = tensor_new(d, TENSOR_REAL, 1, 2000, "y");
    work[i] = tensor_new(d, TENSOR_REAL, 1, 2000, "work");
    struct sum_beginning x = {y[i], work[i], RANKS_BATCH};
    sums_begin(d, &x);
  }
  struct sum *s[2] = {d->sums, d->sums->next};
  for (int n = 0; n < 3; n++)
    for (int i = 0; i < 2; i++)
      if (n < had[all->rank][i]) next_message(s[i]);
  int one = 1, ones[4];
  comm_gather(all, &one, ones, sizeof one);
  alarm(60); /* a circle has no end */
  sums_end(d, NULL);
  alarm(0);
  for (int i = 0; i < 2; i++) {
    tensor_free(d, y[i]);
    tensor_free(d, work[i]);
  }
}

/* Two groups, of even and odd ranks: each its own numbering; a lost rank is asked for among all, or in the group. */
static void check_split(int own_call)
{
  struct comm *part = comm_split(all, all->rank % 2, own_call);
  must(part->ranks == 1 || (part->called == all) == !own_call, "who is asked", own_call);
  int *have = memory_new((size_t)part->ranks, sizeof *have);
  must(part->rank == all->rank / 2 && part->ranks == (all->ranks + (all->rank % 2 == 0)) / 2, "the split",
       part->ranks);
  comm_gather(part, &all->rank, have, sizeof *have);
  for (int i = 0; i < part->ranks; i++) must(have[i] == 2 * i + all->rank % 2, "the gathered", i);
  memory_free(have);
  comm_free(part);
}

/* Groups within groups: numbers that others have in use are left alone, those that are free again are taken, and whose
   work others take is so in a part of it. */
static void check_groups(void)
{
  enum { MANY = 3 * COMM_PARTS };
  struct comm apart = *all, *half = comm_split(all, 2 * all->rank >= all->ranks, 0), *inner = NULL;
  apart.is_apart = 1;
  if (2 * all->rank < all->ranks) inner = comm_split(half, 0, 0); /* of the first half alone */
  for (int k = 0; k < MANY; k++) {
    struct comm *part = comm_split(&apart, all->rank % 2, 0);
    int have[8];
    must(part->is_apart, "whether others take the work of a part", k);
    alarm(60); /* ranks that do not meet wait longer */
    comm_gather(part, &all->rank, have, sizeof *have);
    alarm(0);
    for (int i = 0; i < part->ranks; i++) must(have[i] == 2 * i + all->rank % 2, "the gathered", i);
    comm_free(part);
  }
  comm_free(inner);
  comm_free(half);
}

/* Messages of a part and of all between the same two, begun in another order by each. */
static void check_apart(void)
{
  struct comm *part = comm_split(all, all->rank / 2, 0);
  const int partner = all->rank ^ 1, first = all->rank % 2;
  int send[2], have[2];
  struct transfer t[2];
  for (int k = 0; part->ranks == 2 && k < 2; k++) {
    const int i = k ^ first;
    send[i] = 10 * all->rank + i;
    t[i] = comm_begin(i ? part : all, 0, &(struct parcel){i ? !part->rank : partner, &send[i], sizeof *send},
                      1, &(struct parcel){i ? !part->rank : partner, &have[i], sizeof *have}, 1);
  }
  for (int i = 0; part->ranks == 2 && i < 2; i++) {
    comm_await(&t[i]);
    must(have[i] == 10 * partner + i, "the message of a group", i);
  }
  comm_free(part);
}

/* Of a group all have the same error, the last one alone has one, or each has its own: its first tells whose, others
   nothing. */
enum { SAME, ALONE, OWN };
static void check_agree(int alone, int groups)
{
  struct comm *part = comm_split(all, all->rank % groups, 1);
  struct error e = {0};
  unsigned flags = 1u << part->rank;
  char want[2048];
  size_t n = 0;
  must(!comm_agree(part, &flags, &e) && flags == (1u << part->ranks) - 1, "what all have said", (long)flags);
  if (alone != ALONE || part->rank == part->ranks - 1)
    error_set(&e, STATUS_USAGE, alone == OWN ? "not so: %d" : "not so", all->rank);
  must(comm_agree(part, NULL, &e) == STATUS_USAGE && e.status == STATUS_USAGE, "the status of all", alone);
  for (int i = alone == OWN ? 0 : part->ranks - 1; i < part->ranks; i++) {
    const int rank = all->rank % groups + i * groups; /* its number among all */
    if (alone != SAME && part->ranks > 1)
      n += (size_t)snprintf(want + n, sizeof want - n, "%srank %d on %s: ", n ? "\n" : "", rank,
                            comm_host(all, rank));
    n += (size_t)snprintf(want + n, sizeof want - n, alone == OWN ? "not so: %d" : "not so", rank);
  }
  must(!strcmp(e.text, part->rank ? "" : want), "the text", alone);
  comm_free(part);
}

/* Of 4 ranks the last, the second of its group, is silent; the first two wait to be ended. */
static void lose_one(void)
{
  int one = 1, other;
  struct comm *part = comm_split(all, all->rank / 2, 1);
  comm_patience(1);
  while (all->rank != 2) pause();
  comm_pass(part, 1, &one, &other, sizeof one);
}

/* Of 2 ranks the second is slow, twice, each time within the limit, but not both together: nobody is lost, and who is
   called answers at once. */
static int wait_for_slow(void)
{
  struct error e = {0};
  int send = all->rank, other;
  comm_patience(5);
  for (int turn = 0; turn < 2; turn++) {
    double began = clock_seconds();
    if (all->rank) usleep(turn ? 1500000 : 4250000);
    comm_pass(all, 1, &send, &other, sizeof send);
    must(other == !all->rank && (turn || clock_seconds() - began < 4.9), "the wait", turn);
  }
  return comm_end(0, &e);
}

/* Of 2 ranks the first sends more than the second takes, who alone sees it. */
static int send_more(void)
{
  struct error e = {0};
  int message[2] = {0};
  struct parcel p = {!all->rank, message, all->rank ? sizeof *message : sizeof message};
  comm_patience(5);
  comm_transfer(all, &p, !all->rank, &p, all->rank);
  return comm_end(0, &e);
}

/* The module with a rank 1 that leaves, stopped or gone: before MPI begins, before the first message, before MPI
   ends. */
static const struct comm_module *module;
static const char *leaves_at, *leaves_by;
static void may_leave(const char *at)
{
  if (strcmp(at, leaves_at) || launcher_rank() != 1) return;
  if (!strcmp(leaves_by, "gone")) _exit(0);
  raise(SIGSTOP);
}

static void *open_or_leave(int *rank, int *ranks, char *why, size_t room)
{
  may_leave("begin");
  void *handle = module->open(rank, ranks, why, room);
  may_leave("first");
  return handle;
}

static void leave_or_close(void)
{
  may_leave("end");
  module->close();
}

/* Where MAXLOGIT_MPI is not set the launcher takes this. */
const struct comm_module *maxlogit_mpi(void);
const struct comm_module *maxlogit_mpi(void)
{
  static struct comm_module own;
  void *library = dlopen("./maxlogit_mpi.so", RTLD_NOW | RTLD_GLOBAL);
  comm_module_entry *entry = NULL;
  if (library) *(void **)&entry = dlsym(library, COMM_MODULE_ENTRY);
  if (!entry) exit(1);
  own = *(module = entry());
  own.open = open_or_leave, own.close = leave_or_close;
  return &own;
}

static int leave(const char *at, const char *by)
{
  struct error e = {0};
  leaves_at = at, leaves_by = by;
  comm_patience(2);
  all = comm_world(&e);
  if (all && all->rank == 1 && !strcmp(at, "between")) exit(0); /* as a program that forgets comm_end */
  return comm_end(0, &e);
}

int main(int argc, char **argv)
{
  if (argc > 2) return leave(argv[1], argv[2]);
  struct error e = {0};
  struct device *d;
  uint64_t hash = 1469598103934665603u;
  all = comm_world(&e);
  if (all && argc > 1 && !strcmp(argv[1], "lost")) lose_one();
  if (all && argc > 1 && !strcmp(argv[1], "slow")) return wait_for_slow();
  if (all && argc > 1 && !strcmp(argv[1], "more")) return send_more();
  if (!all || device_open(&d, argc > 1 ? argv[1] : "cpu", 1, &e)) {
    fprintf(stderr, "%s\n", e.text);
    return 1;
  }
  device_set_ranks(d, RANKS_BATCH, all);
  const int is_power = !(all->ranks & (all->ranks - 1)),
            is_open = !d->enter; /* also while nothing is called */
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    check_sum(d, sizes[i], sum, &hash);
    if (is_power && is_open) check_sum(d, sizes[i], sum_in_parts, &hash);
    if (sizes[i] == 5000 && is_open && (all->ranks == 2 || all->ranks == 4)) /* not of the hash of all */
      check_sum(d, sizes[i], sum_in_many_parts, &(uint64_t){0});
    check_max(d, sizes[i]);
    check_ring(d, sizes[i]);
    if (sizes[i] > 1 && argc == 1 && is_power) check_shards(d, sizes[i]);
  }
  check_circle(d);
  for (int own_call = 0; own_call < 2; own_call++) check_split(own_call);
  check_apart();
  check_groups();
  for (int i = 0; i < 6; i++) check_agree(i % 3, 1 + i / 3);
  message("heard of all");
  if (all->rank) message("heard of rank %d", all->rank);
  device_close(d);
  if (all->rank == 0)
    printf("%d of %d: %016llx\n", LEAVES, LEAVES % all->ranks ? 0 : LEAVES, (unsigned long long)hash);
  return comm_end(0, &e);
}
