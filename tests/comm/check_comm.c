/* check_comm.c - what the program makes of ranks, without MPI (letters.h): what each has said, on both outputs, and how
   it has ended, against what comm.h promises; launchers, limits of time */
#include <sched.h>
#include "comm/guard.h"
#include "letters.h"

/* --- ranks --------------------------------------------------------------------------------------------------- */

static int messages(struct error *e)
{
  (void)e;
  const int ranks = all->ranks, rank = all->rank;
  must(ranks == launcher_ranks() && rank == launcher_rank() && all->number == 0 && !all->called &&
         !all->is_apart,
       "the world", 0);
  must(!strcmp(comm_library(), "Letters v1"), "the library", 0);
  must(comm_world(NULL) == all, "the world, again", 0);
  for (int i = 0; i < ranks; i++) {
    char here[64];
    gethostname(here, sizeof here);
    must(!strcmp(comm_host(all, i), here) && comm_number(all, i) == i && all->of_all[i] == i,
         "a rank's place", i);
  }
  for (int bytes = 1; bytes < 900; bytes += 299) {
    char own[900], had[900], gathered[MOST * 900 + 1];
    for (int i = 0; i < bytes; i++) own[i] = (char)(7 * rank + i);
    double sent = comm_sent();
    memset(gathered, 99, sizeof gathered);
    comm_gather(all, own, gathered, (size_t)bytes);
    for (int i = 0; i < ranks * bytes; i++)
      must(gathered[i] == (char)(7 * (i / bytes) + i % bytes), "what was gathered", i);
    must(gathered[ranks * bytes] == 99 && comm_sent() - sent == (ranks - 1) * bytes, "what was sent", bytes);
    for (int d = 0; d <= ranks; d++) {
      sent = comm_sent();
      comm_pass(all, d, own, had, (size_t)bytes);
      const int from = (rank - d + ranks) % ranks;
      for (int i = 0; i < bytes; i++) must(had[i] == (char)(7 * from + i), "what came round", d);
      must(comm_sent() - sent == (d % ranks ? bytes : 0), "what went round", d);
    }
  }
  must(ranks == 1 || (mail->seconds[self] == 600 && mail->channel[self] == 0), "how long is waited", 0);
  comm_patience(12);
  if (ranks > 1) { /* on a channel of their own, in their order, while others go by */
    int send[3] = {rank, rank + 100, rank + 200}, have[3] = {-1, -1, -1};
    struct transfer t[3];
    for (int i = 0; i < 3; i++) {
      const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
      t[i] = comm_begin(all, i < 2 ? 5 : COMM_CHANNELS, &(struct parcel){to, &send[i], sizeof(int)}, 1,
                        &(struct parcel){from, &have[i], sizeof(int)}, 1);
      must(mail->channel[self] == (i < 2 ? 5 : COMM_CHANNELS) && t[i].bytes == sizeof(int), "a transfer", i);
    }
    while (!comm_is_done(&t[2])) {}
    const double sent = comm_sent();
    for (int i = 2; i >= 0; i--) {
      comm_await(&t[i == 2 ? 2 : 1 - i]);
      must(!t[i == 2 ? 2 : 1 - i].handle, "what has ended", i);
    }
    for (int i = 0; i < 3; i++)
      must(have[i] == (rank + ranks - 1) % ranks + 100 * i, "what came on a channel", i);
    must(comm_sent() - sent == 3 * sizeof(int) && mail->seconds[self] == 12, "what was sent on channels", 0);
  }
  comm_transfer(all, NULL, 0, NULL, 0);
  unsigned flags = 1u << rank;
  struct error none = {0};
  must(comm_agree(all, &flags, &none) == STATUS_OK && flags == (ranks == 1 ? 1u : (1u << ranks) - 1),
       "the flags", flags);
  must(!comm_is_stopped(all), "a stop that nobody has said", 0);
  comm_gather(all, &rank, (int[MOST]){0}, sizeof rank);
  if (rank == 0) comm_stop(all);
  comm_gather(all, &rank, (int[MOST]){0}, sizeof rank);
  must(comm_is_stopped(all) == (rank > 0), "a stop", 0);
  printf("rank %d\n", rank);
  return STATUS_OK;
}

/* Groups: by their color, in their order, with the lowest number that is free with all. */
static int groups(struct error *e)
{
  struct comm *one[4];
  static const int colors[4][MOST] = {
    {0, 0, 0, 0, 0, 0}, {1, 0, 1, 0, 1, 0}, {7, 7, 7, -2, -2, -2}, {5, 4, 3, 2, 1, 0}};
  for (int k = 0; k < 4; k++) {
    int members = 0, place = 0;
    for (int i = 0; i < all->ranks; i++) {
      place += i < all->rank && colors[k][i] == colors[k][all->rank];
      members += colors[k][i] == colors[k][all->rank];
    }
    one[k] = comm_split(all, colors[k][all->rank], k % 2);
    must(one[k]->ranks == members && one[k]->rank == place && one[k]->number == k + 1, "the group", k);
    must(one[k]->called == (k % 2 ? NULL : all) && last_split.own_call == k % 2 &&
           last_split.tag == 2000 * (k + 1),
         "who is called", k);
    for (int i = 0, n = 0; i < all->ranks; i++)
      if (colors[k][i] == colors[k][all->rank]) must(comm_number(one[k], n++) == i, "a member", i);
  }
  if (all->rank % 2) comm_free(one[1]);                      /* not with all: its number stays taken */
  struct comm *within = comm_split(one[2], one[2]->rank, 0); /* one alone in each */
  must(within->number == 5 && within->ranks == 1 && within->called == all && within->of_all[0] == all->rank,
       "a group within", 0);
  comm_free(within);
  if (all->rank % 2 == 0) comm_free(one[1]);
  one[1] = comm_split(all, 3, 1);
  must(one[1]->number == 2 && one[1]->ranks == all->ranks, "a number that is free again", one[1]->number);
  one[1]->is_apart = 1;
  within = comm_split(one[1], 0, 0);
  must(within->is_apart && within->called == one[1], "what is apart", 0);
  comm_free(within);
  for (int k = 0; k < 4; k++) comm_free(one[k]);
  comm_free(NULL);
  must(dropped == 7, "what was given back", dropped);
  struct comm alone = {.ranks = 1}, *copy = comm_split(&alone, 3, 0);
  must(copy->ranks == 1 && copy->rank == 0 && !copy->handle && !copy->called && copy->number == 0, "a copy",
       0);
  must(comm_number(copy, 0) == 0 && !strcmp(comm_host(copy, 0), "this host") && !comm_is_stopped(copy),
       "one alone", 0);
  comm_stop(copy);
  comm_free(copy);
  (void)e;
  return STATUS_OK;
}

/* As many as may be open at a time, all ranks' among them; one more is a fault of ours. */
static int too_many_groups(struct error *e)
{
  (void)e;
  for (int i = 1; i < COMM_PARTS; i++) must(comm_split(all, 0, 0)->number == i, "a number", i);
  fprintf(stderr, "all of them\n");
  comm_split(all, 0, 0);
  return 8;
}

/* What each has to say is told once, by rank 0: first its own, then what others alone have said, with whose it is. */
static int words(struct error *e)
{
  (void)e;
  message("of all");
  warning("of rank %d", all->rank);
  comm_tell();
  comm_tell(); /* nothing is left */
  if (all->rank == 2) {
    warning("of rank 2");                                     /* again */
    for (int i = 0; i < 6; i++) message("%d%0*d", i, 998, 0); /* four of these are kept: 4 KiB */
  }
  comm_tell();
  if (all->rank == 1) message("last");
  return STATUS_OK;
}

/* Errors of some, as comm_end tells them; the status of all is the worst. */
static int error_of_one(struct error *e)
{
  if (all->rank == 2) error_set(e, STATUS_USAGE, "not so");
  if (all->rank == 2) return STATUS_FAIL;
  printf("printed\n");
  return STATUS_OK;
}
static int error_of_all(struct error *e) { return error_set(e, STATUS_FAIL, "so it is"); }
static int errors_that_differ(struct error *e)
{
  return all->rank ? error_set(e, all->rank == 1 ? STATUS_STOPPED : STATUS_FAIL, "%d\nlines", all->rank)
                   : STATUS_OK;
}
static int stopped(struct error *e)
{
  (void)e;
  return STATUS_STOPPED;
}
static int agreed_before(struct error *e)
{
  struct comm *part = comm_split(all, all->rank == 2, 1);
  struct error of_part = {0};
  if (all->rank == 1) error_set(&of_part, STATUS_USAGE, "in the part");
  must(comm_agree(part, NULL, &of_part) == (all->rank < 2 ? STATUS_USAGE : STATUS_OK), "the status of a part",
       0);
  must(!strcmp(of_part.text, "") == (all->rank != 0), "the text of a part", 0);
  of_part = (struct error){0};
  const int letters = mail->count;
  must(comm_agree(part, NULL, &of_part) == (all->rank < 2 ? STATUS_USAGE : STATUS_OK),
       "what a part has agreed on", 0);
  must(of_part.status == (all->rank < 2 ? STATUS_USAGE : STATUS_OK) &&
         (all->rank == 2 || mail->count >= letters),
       "again", 0);
  must(part->status == (all->rank < 2 ? STATUS_USAGE : STATUS_OK), "a part's status", part->status);
  (void)e;
  return STATUS_DIVERGED;
}

static int forgets_the_end(struct error *e)
{
  (void)e;
  printf("printed"), fprintf(stdout, ", too");
  if (all->rank == 1) _exit(5);
  exit(3);
}

static void lose(enum transfer_end how, int whom)
{
  comm_patience(7);
  ends = how, ends_with = whom;
}
static int lost(struct error *e)
{
  (void)e;
  int x = 1, y;
  struct comm *part = comm_split(all, all->rank > 0, 0);
  if (all->rank == 0) _exit(0);
  printf("before"); /* of no use: it is not rank 0's */
  lose(all->rank == 1 ? TRANSFER_TELL : TRANSFER_LOST, 2);
  signal(SIGALRM, SIG_DFL), alarm(1);
  comm_pass(part, 1, &x, &y, sizeof x);
  return 8;
}
static int lost_apart(struct error *e)
{
  (void)e;
  int x = 1, y;
  struct comm *part = comm_split(all, all->rank > 0, 1);
  if (all->rank == 0) _exit(0);
  part->is_apart = 1;
  lose(all->rank == 1 ? TRANSFER_TELL : TRANSFER_LOST, 1);
  signal(SIGALRM, SIG_DFL), alarm(1);
  comm_pass(part, 1, &x, &y, sizeof x);
  return 8;
}
static int message_fails(struct error *e)
{
  (void)e;
  int x = 1, y;
  if (all->rank == 0) printf("before");
  lose(TRANSFER_TELL, -1);
  comm_pass(all, 1, &x, &y, sizeof x);
  return 8;
}

/* This process has one core alone. */
static void apart(void)
{
  cpu_set_t set, one;
  sched_getaffinity(0, sizeof set, &set);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
    if (CPU_ISSET(i, &set)) CPU_SET(i, &one);
  sched_setaffinity(0, sizeof one, &one);
}

/* Ranks that may run on the very cores that this one may. */
static int neighbours(struct error *e)
{
  (void)e;
  const int is_apart = launcher_rank() == 1;
  must(comm_neighbours() == (is_apart ? 1 : all->ranks - 1), "the neighbours", comm_neighbours());
  return STATUS_OK;
}
static int no_world(struct error *e) { return e->status; }

static const struct part parts[] = {{"messages", messages},
                                    {"groups", groups},
                                    {"too many groups", too_many_groups},
                                    {"words", words},
                                    {"error of one", error_of_one},
                                    {"error of all", error_of_all},
                                    {"errors that differ", errors_that_differ},
                                    {"stopped", stopped},
                                    {"agreed before", agreed_before},
                                    {"forgets the end", forgets_the_end},
                                    {"lost", lost},
                                    {"lost apart", lost_apart},
                                    {"message fails", message_fails},
                                    {"neighbours", neighbours},
                                    {"no world", no_world},
                                    {NULL, NULL}};

START_TEST(what_ranks_send)
{
  for (int ranks = 2; ranks <= MOST; ranks++) {
    play(ranks, "messages", "", NULL);
    told(ranks, (int[MOST]){0}, "rank 0\n", "%s", "");
  }
  play(MOST, "groups", "", NULL);
  told(MOST, (int[MOST]){0}, "", "%s", "");
  play(2, "too many groups", "", NULL);
  for (int i = 0; i < 2; i++)
    ck_assert_msg(heard[i].status == -SIGABRT && !strncmp(heard[i].err, "all of them\nmaxlogit: bug at ", 29),
                  "%d: %s", heard[i].status, heard[i].err);
  cpu_set_t set;
  if (!sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 1) {
    play(4, "neighbours", "", NULL);
    told(4, (int[MOST]){0}, "", "%s", "");
  }
}
END_TEST

START_TEST(what_ranks_say)
{
  play(4, "words", "", NULL);
  told(4, (int[MOST]){0}, "",
       "maxlogit: of all\nmaxlogit: warning: of rank 0\nmaxlogit: rank 1 on %s: warning: of rank 1\n"
       "maxlogit: rank 2 on %s: warning: of rank 2\nmaxlogit: rank 3 on %s: warning: of rank 3\n"
       "maxlogit: rank 2 on %s: 0%0998d\nmaxlogit: rank 2 on %s: 1%0998d\nmaxlogit: rank 2 on %s: 2%0998d\n"
       "maxlogit: rank 2 on %s: 3%0998d\nmaxlogit: rank 1 on %s: last\n",
       host, host, host, host, 0, host, 0, host, 0, host, 0, host);
  play(3, "error of one", "", NULL);
  told(3, (int[]){2, 2, 2}, "printed\n", "maxlogit: rank 2 on %s: not so\n", host);
  play(3, "error of all", "", NULL);
  told(3, (int[]){1, 1, 1}, "", "maxlogit: so it is\n");
  play(3, "errors that differ", "", NULL);
  told(3, (int[]){75, 75, 75}, "", "maxlogit: rank 1 on %s: 1 lines\nmaxlogit: rank 2 on %s: 2 lines\n", host,
       host);
  play(2, "stopped", "", NULL);
  told(2, (int[]){75, 75}, "", "%s", "");
  play(3, "agreed before", "", NULL);
  told(3, (int[]){3, 3, 3}, "", "%s", "");
}
END_TEST

/* Who is silent is told by one rank, by its number among all; all then end, or wait to be ended. */
START_TEST(ranks_that_are_lost)
{
  struct heard apart[3];
  raise_curtain(apart, 3, "lost apart", "", NULL);
  struct mail *others = mail;
  mail = NULL;
  gethostname(host, sizeof host);
  raise_curtain(heard, 3, "lost", "", NULL);
  pid_t all_of_them[6];
  for (int i = 0; i < 6; i++) all_of_them[i] = i < 3 ? apart[i].pid : heard[i - 3].pid;
  for (int left = 6; left; left--) {
    int status, i = 0;
    pid_t pid = wait(&status);
    while (i < 6 && all_of_them[i] != pid) i++;
    struct heard *h = i < 3 ? &apart[i] : &heard[i - 3];
    ck_assert_int_lt(i, 6);
    h->status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < 3; i++) {
      struct heard *h = k ? &apart[i] : &heard[i];
      ssize_t n = pread(h->file[1], h->err, sizeof h->err - 1, 0);
      h->err[n > 0 ? n : 0] = 0;
    }
  char wanted[600];
  snprintf(wanted, sizeof wanted,
           "maxlogit: rank 2 of 3 on %s has not answered for 7 s: lost, or stuck (comm.timeout); what is "
           "done is kept: go "
           "on with `maxlogit resume`, or start a sweep again, on as many ranks as there are\n",
           host);
  ck_assert_str_eq(heard[1].err, wanted);
  ck_assert_int_eq(heard[1].status, ABORTED);
  ck_assert_int_eq(mail->aborted[1], 1 + STATUS_FAIL);
  ck_assert_str_eq(heard[2].err, ""); /* another one tells, and has time to */
  ck_assert_int_eq(heard[2].status, -SIGALRM);
  snprintf(wanted, sizeof wanted,
           "maxlogit: rank 2 of 3 on %s has not answered for 7 s: lost, or stuck (comm.timeout); others take "
           "its work\n",
           host);
  ck_assert_str_eq(apart[1].err, wanted);
  ck_assert_str_eq(apart[2].err, "");
  for (int i = 1; i < 3; i++) ck_assert(apart[i].status == -SIGALRM && others->aborted[i] == 0);
  ck_assert_double_eq(mail->seconds[1], 7);
  munmap(others, sizeof *others);
  play(2, "message fails", "", NULL);
  for (int i = 0; i < 2; i++) {
    snprintf(wanted, sizeof wanted, "maxlogit: rank %d of 2 on %s: a message between ranks has failed\n", i,
             host);
    ck_assert_str_eq(heard[i].err, wanted);
    ck_assert_str_eq(heard[i].out, i ? "" : "before");
    ck_assert(heard[i].status == ABORTED && mail->aborted[i] == 1 + STATUS_FAIL && !mail->closed[i]);
  }
  play(2, "forgets the end", "", NULL); /* ends the others, and loses nothing that was printed */
  ck_assert(heard[0].status == ABORTED && mail->aborted[0] == 1 + STATUS_FAIL);
  ck_assert_str_eq(heard[0].out, "printed, too");
  ck_assert_str_eq(heard[0].err, "");
}
END_TEST

/* Why there are no ranks, once, and as a wrong use; a limit holds where MPI itself waits. */
START_TEST(ranks_that_do_not_begin)
{
  static const char found[] =
    "maxlogit: a launcher has started 2 ranks, and they do not find each other%s by Letters v1: mpirun of "
    "another library? With Slurm: srun --mpi=pmix\n";
  static const struct {
    const char *how, *module, *says[2];
  } modules[] = {
    {"version",
     NULL,
     {"maxlogit: a launcher has started 2 ranks: the MPI module belongs to another build of this program: "
      "make, or install, both\n",
      ""}},
    {"",
     "/nonexistent/m.so",
     {"maxlogit: a launcher has started 2 ranks: the MPI module cannot be loaded: ", "/nonexistent/m.so: "}},
    {"",
     "libm.so.6",
     {"maxlogit: a launcher has started 2 ranks: the MPI module cannot be loaded: ", "maxlogit_mpi"}},
  };
  struct heard none[3][2];
  for (int k = 0; k < 3; k++) raise_curtain(none[k], 2, "no world", modules[k].how, modules[k].module);
  struct heard late[2][2];
  struct heard alone[2]; /* of two, as the launcher tells, of which the first is not there */
  raise_curtain(alone, 2, "no world", "begin late, alone", NULL);
  raise_curtain(late[0], 2, "no world", "begin late", NULL);
  raise_curtain(late[1], 2, "stopped", "end late", NULL);
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < 2; i++) {
      int status;
      ck_assert_int_eq(waitpid(late[k][i].pid, &status, 0), late[k][i].pid);
      late[k][i].seconds = clock_seconds() - late[k][i].seconds;
      ssize_t n = pread(late[k][i].file[1], late[k][i].err, sizeof late[k][i].err - 1, 0);
      late[k][i].err[n > 0 ? n : 0] = 0;
      ck_assert_int_eq(WIFEXITED(status) ? WEXITSTATUS(status) : -1, STATUS_FAIL);
      char wanted[300];
      gethostname(host, sizeof host);
      snprintf(wanted, sizeof wanted,
               "maxlogit: rank %d of 2 on %s has waited for 0 s (comm.timeout) for others to begin or end: "
               "one is lost, or "
               "stuck\n",
               i, host);
      ck_assert_str_eq(late[k][i].err, wanted);
      if (!k) ck_assert_double_ge(late[k][i].seconds, i ? 3 : 1); /* the first tells first */
    }
  int status_alone;
  char wanted_alone[300];
  ck_assert_int_eq(waitpid(alone[0].pid, &status_alone, 0), alone[0].pid);
  ck_assert_int_eq(waitpid(alone[1].pid, &status_alone, 0), alone[1].pid);
  ck_assert_int_eq(WIFEXITED(status_alone) ? WEXITSTATUS(status_alone) : -1, STATUS_FAIL);
  const ssize_t n_alone = pread(alone[1].file[1], alone[1].err, sizeof alone[1].err - 1, 0);
  alone[1].err[n_alone > 0 ? n_alone : 0] = 0;
  snprintf(wanted_alone, sizeof wanted_alone,
           "maxlogit: rank 0 of 2 on %s has not answered for 0 s: lost, or stuck (comm.timeout), while ranks "
           "begin or end\n",
           host);
  ck_assert_str_eq(alone[1].err, wanted_alone);
  for (int k = 0; k < 2; k++) {
    play(2, "no world", k ? "begin" : "fewer", NULL);
    char wanted[400];
    snprintf(wanted, sizeof wanted, found, k ? ": no friends" : "");
    for (int i = 0; i < 2; i++) {
      ck_assert_int_eq(heard[i].status, STATUS_USAGE);
      ck_assert_str_eq(heard[i].err, wanted);
    }
  }
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < 2; i++) {
      int status;
      struct heard *h = &none[k][i];
      ck_assert_int_eq(waitpid(h->pid, &status, 0), h->pid);
      h->seconds = clock_seconds() - h->seconds;
      ssize_t n = pread(h->file[1], h->err, sizeof h->err - 1, 0);
      h->err[n > 0 ? n : 0] = 0;
      ck_assert_int_eq(WIFEXITED(status) ? WEXITSTATUS(status) : -1, STATUS_USAGE);
      if (i) /* one of them tells; the launcher would end it by another's end */
        ck_assert(!*h->err && h->seconds >= 2);
      else
        ck_assert_msg(!strncmp(h->err, modules[k].says[0], strlen(modules[k].says[0])) &&
                        strstr(h->err, modules[k].says[1]),
                      "%s", h->err);
    }
}
END_TEST

/* --- without a launcher ------------------------------------------------------------------------------------------ */

/* Of what launchers tell, in the order in which they are asked. */
START_TEST(what_launchers_tell)
{
  static const char *const names[] = {
    "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SMPI_GLOBAL_SIZE", "SLURM_STEP_NUM_TASKS",
    "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
  static const struct {
    const char *values[7];
    int ranks, rank, simulated;
  } known[] = {
    {{NULL}, 1, 0, 0},
    {{"4", NULL, NULL, NULL, "3"}, 4, 3, 0},
    {{NULL, "5", NULL, NULL, NULL, "2"}, 5, 2, 0},
    {{NULL, NULL, "6"}, 6, 0, 1},
    {{NULL, NULL, NULL, "7", NULL, NULL, "6"}, 7, 6, 0},
    {{NULL, NULL, NULL, "7", NULL, NULL, NULL}, 1, 0, 0}, /* a step that has its tasks for other reasons */
    {{NULL, NULL, NULL, "7", NULL, "1", NULL}, 1, 1, 0},
    {{"2", "3", "4", "5", "1", "0", "0"}, 2, 1, 1},
    {{NULL, "3", "4", "5", NULL, "2", "0"}, 3, 2, 1},
    {{NULL, NULL, NULL, NULL, NULL, NULL, "4"}, 1, 4, 0},
    {{"1", "9"}, 1, 0, 0},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    for (int k = 0; k < 7; k++)
      if (known[i].values[k])
        setenv(names[k], known[i].values[k], 1);
      else
        unsetenv(names[k]);
    ck_assert_msg(launcher_ranks() == known[i].ranks && launcher_rank() == known[i].rank &&
                    launcher_is_simulated() == known[i].simulated,
                  "%zu: rank %d of %d", i, launcher_rank(), launcher_ranks());
  }
  for (int k = 0; k < 7; k++) unsetenv(names[k]);
}
END_TEST

/* One rank alone: nothing is opened, nothing is sent, and each call does what it does among many. */
START_TEST(one_rank_alone)
{
  struct error e = {0};
  char lacks[256] = "?", host_of_one[64];
  ck_assert_ptr_null(comm_library());
  struct comm *one = comm_world(&e);
  ck_assert(one && one->ranks == 1 && one->rank == 0 && !one->handle && comm_world(&e) == one);
  snprintf(host_of_one, sizeof host_of_one, "%s", comm_host(one, 0));
  ck_assert_str_eq(host_of_one, "this host");
  ck_assert(comm_number(one, 0) == 0 && comm_neighbours() == 1 && comm_sent() == 0 && !comm_is_stopped(one));
  int x[3] = {1, 2, 3}, y[3] = {0};
  comm_gather(one, x, y, sizeof x);
  ck_assert_mem_eq(x, y, sizeof x);
  comm_pass(one, 5, x, y + 1, 2 * sizeof *x);
  ck_assert(y[1] == 1 && y[2] == 2 && comm_sent() == 0);
  unsigned flags = 6;
  ck_assert_int_eq(comm_agree(one, &flags, &e), STATUS_OK);
  ck_assert_uint_eq(flags, 6);
  comm_stop(one);
  comm_tell();
  comm_lacks(lacks, sizeof lacks);
  ck_assert_str_eq(lacks, "");
  ck_assert_str_eq(comm_library(), "Letters v1");
  error_set(&e, STATUS_USAGE, "why");
  ck_assert_int_eq(comm_agree(one, NULL, &e), STATUS_USAGE);
  ck_assert_str_eq(e.text, "why");
  for (int i = 0; i < 3; i++) { /* status of the end, and what is said */
    char said[64] = "";
    FILE *f = tmpfile();
    int err = dup(2);
    ck_assert(f && dup2(fileno(f), 2) == 2);
    e = (struct error){.status = i == 2 ? STATUS_USAGE : 0};
    if (i == 2) strcpy(e.text, "why");
    ck_assert_int_eq(comm_end(i == 1 ? STATUS_STOPPED : STATUS_OK, &e), i == 2 ? STATUS_USAGE
                                                                        : i    ? STATUS_STOPPED
                                                                               : STATUS_OK);
    dup2(err, 2);
    close(err);
    rewind(f);
    said[fread(said, 1, sizeof said - 1, f)] = 0;
    fclose(f);
    ck_assert_str_eq(said, i == 2 ? "maxlogit: why\n" : "");
  }
}
END_TEST

/* --- others on this host --------------------------------------------------------------------------------------- */

static void settle(pid_t pid, char letter)
{
  char path[64], words[4200];
  snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
  for (int is_there = letter == 'z'; !is_there;) {
    FILE *f = fopen(path, "r");
    const size_t n = f ? fread(words, 1, sizeof words, f) : 0;
    if (f) fclose(f);
    is_there = memmem(words, n, "\0child", 7) != NULL;
  }
  if (letter == 's') {
    kill(pid, SIGSTOP);
    waitpid(pid, NULL, WUNTRACED);
  }
  siginfo_t info;
  if (letter == 'z') waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
}

/* As a launcher: starts ranks by letters (r: runs, s: stopped, z: has ended, -: not here), then one that asks. */
static int as_launcher(const char *letters, const char *ask)
{
  const int ranks = (int)strlen(letters);
  pid_t child[MOST], asking = 0;
  char number[16], of[16];
  snprintf(of, sizeof of, "%d", ranks);
  setenv("OMPI_COMM_WORLD_SIZE", of, 1);
  for (int i = 0; i <= ranks; i++) {
    for (int k = 0; i == ranks && k < ranks; k++) /* they are what they are to be */
      if (letters[k] != '-') settle(child[k], letters[k]);
    if (i < ranks && letters[i] == '-') continue;
    snprintf(number, sizeof number, "%d", i % ranks);
    pid_t pid = fork();
    if (!pid) {
      setenv("OMPI_COMM_WORLD_RANK", number, 1);
      execl(own_program, own_program, "child", i == ranks ? ask : letters[i] == 'z' ? "ends" : "waits", NULL);
      _exit(97);
    }
    if (i < ranks) child[i] = pid;
    if (i == ranks) asking = pid;
  }
  int status;
  waitpid(asking, &status, 0);
  for (int i = 0; i < ranks; i++)
    if (letters[i] != '-') kill(child[i], SIGKILL);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 96;
}

static int as_child(const char *what)
{
  if (!strcmp(what, "waits")) pause();
  if (!strcmp(what, "ends")) return 0;
  return !strcmp(what, "stuck") ? launcher_stuck() + 1 : launcher_is_here(atoi(what));
}

/* Who is stuck, or gone, of those that the launcher has started on this host. The one that asks is another rank 0. */
START_TEST(who_is_here)
{
  static const struct {
    const char *letters, *here, *wrapper; /* how many are here, as a launcher tells */
    int stuck;
  } known[] = {
    {"rrr", NULL, NULL, -1}, {"rsr", NULL, NULL, 1},  {"rrs", "3", NULL, 2},  {"rzr", "3", NULL, 1},
    {"rss", NULL, NULL, 1},  {"r-r", NULL, NULL, -1}, {"r-r", "2", NULL, -1}, {"r-r", "3", NULL, 1},
    {"r-s", "3", NULL, 1},   {"r-s", NULL, NULL, 2},  {"r-r", "3", "1", -1}, /* a wrapper's child sees no other */
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    for (int ask = -1; ask < 3; ask++) {
      char what[16] = "stuck";
      if (ask >= 0) snprintf(what, sizeof what, "%d", ask);
      if (ask >= 0 && i % 3) continue;
      fflush(NULL);
      pid_t pid = fork();
      if (!pid) {
        if (known[i].here) setenv(i % 2 ? "OMPI_COMM_WORLD_LOCAL_SIZE" : "MPI_LOCALNRANKS", known[i].here, 1);
        if (known[i].wrapper) setenv("PMIX_RANK", known[i].wrapper, 1);
        execl(own_program, own_program, "launcher", known[i].letters, what, NULL);
        _exit(97);
      }
      int status;
      ck_assert_int_eq(waitpid(pid, &status, 0), pid);
      const int said = WIFEXITED(status) ? WEXITSTATUS(status) : 95;
      const int is_here =
        ask < 0 ? 0 : known[i].letters[ask] != '-' || (known[i].here && *known[i].here == '3');
      ck_assert_msg(said == (ask < 0 ? known[i].stuck + 1 : is_here), "%s, %s here: %s %d", known[i].letters,
                    known[i].here, what, said);
    }
  }
}
END_TEST

/* --- limits ---------------------------------------------------------------------------------------------------- */

static void too_late(void) { printf("late"), fflush(stdout); }
static void never(void) { printf("at exit"), fflush(stdout); }

/* A limit of so many whole seconds and the one begun: what comes back in time is left alone, what does not ends the
   process, by no handler. */
START_TEST(limits_of_time)
{
  static const struct {
    double seconds, takes; /* what the call takes */
    int tells, status;
    const char *says;
  } known[] = {
    {0, 0, 1, 7, ""}, {0, 9, 1, 1, "late"}, {0.9, 9, 0, 1, ""}, {1, 1.3, 1, 7, ""}, {1, 9, 1, 1, "late"}};
  enum { CASES = sizeof known / sizeof *known };
  pid_t pid[CASES];
  int ends_of[CASES][2];
  double began = clock_seconds();
  fflush(NULL);
  for (int i = 0; i < CASES; i++) {
    ck_assert_int_eq(pipe(ends_of[i]), 0);
    if (!(pid[i] = fork())) {
      dup2(ends_of[i][1], 1);
      atexit(never);
      guard_begin(30, NULL); /* of a call that is over */
      guard_end();
      guard_end();
      guard_begin(0, NULL);
      guard_begin(known[i].seconds, known[i].tells ? too_late : NULL); /* in its place */
      usleep((useconds_t)(known[i].takes * 1e6));
      guard_end();
      usleep(1200000); /* and no later */
      _exit(7);
    }
    close(ends_of[i][1]);
  }
  for (int i = 0; i < CASES; i++) {
    int status;
    char said[32];
    ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
    ck_assert_int_eq(WIFEXITED(status) ? WEXITSTATUS(status) : -1, known[i].status);
    if (known[i].status == 1) ck_assert_double_ge(clock_seconds() - began, known[i].seconds);
    said[read(ends_of[i][0], said, sizeof said - 1)] = 0;
    ck_assert_str_eq(said, known[i].says);
    close(ends_of[i][0]);
  }
  ck_assert_double_lt(clock_seconds() - began, 8);
}
END_TEST

int main(int argc, char **argv)
{
  if (argc == 2) return 0;
  if (argc > 2 && !realpath(argv[0], own_program)) return 99;
  if (argc > 2 && !strcmp(argv[1], "child")) return as_child(argv[2]);
  if (argc > 3 && !strcmp(argv[1], "launcher")) return as_launcher(argv[2], argv[3]);
  if (argc > 3 && !strcmp(argv[1], "neighbours") && launcher_rank() == 1) apart();
  if (argc > 3) return as_rank(parts, argv[1], atoi(argv[2]), argv[3]);
  if (!can_start(argv[0])) return 77;
  unsetenv("MAXLOGIT_MPI");
  Suite *suite = suite_create("comm");
  TCase *k = tcase_create("ranks");
  tcase_set_timeout(k, 60);
  tcase_add_test(k, what_launchers_tell);
  tcase_add_test(k, one_rank_alone);
  tcase_add_test(k, who_is_here);
  tcase_add_test(k, limits_of_time);
  tcase_add_test(k, what_ranks_send);
  tcase_add_test(k, what_ranks_say);
  tcase_add_test(k, ranks_that_are_lost);
  tcase_add_test(k, ranks_that_do_not_begin);
  suite_add_tcase(suite, k);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed > 0;
}
