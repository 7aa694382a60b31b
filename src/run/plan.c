#include "run/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "numerics/run_arena.h"
#include "run/dist.h"
#include "run/trainer.h"

struct known { /* a structure that has been checked */
  uint64_t key, data, start;
  long vocab;
};

struct plan {
  struct known *known;
  size_t count;
};

struct plan *plan_new(void) { return memory_new(1, sizeof(struct plan)); }

void plan_free(struct plan *plan)
{
  if (plan) memory_free(plan->known);
  memory_free(plan);
}

long plan_trainers(const struct plan *plan) { return (long)plan->count; }

struct keying {
  struct buffer text;
  const char *data; /* the source's name: all its options determine its content */
  int by_seed;      /* each seed starts from another run */
};

static int is_in_section(const char *key, const char *section)
{
  size_t length = strlen(section);
  return !strncmp(key, section, length) && key[length] == '.';
}

static int add_key(void *context, const struct config_entry *x)
{
  struct keying *k = context;
  int of_data = is_in_section(x->key, "data") || is_in_section(x->key, k->data);
  int of_structure = !(x->row->flags & OPTION_FREE) && x->row->type != OPTION_REAL &&
                     (k->by_seed || strcmp(x->key, "train.seed"));
  if (x->used && (of_data || of_structure)) buffer_add(&k->text, "%s=%s\n", x->key, x->value);
  return 0;
}

static uint64_t structure_of(const struct config *c)
{
  struct keying k = {.data = ((const struct top_options *)config_section(c, ""))->data,
                     .by_seed =
                       file_is_folder(((const struct train_options *)config_section(c, "train"))->init_from)};
  config_each(c, add_key, &k);
  uint64_t key = XXH3_64bits(k.text.text, k.text.length);
  memory_free(k.text.text);
  return key;
}

static int build(struct config *c, struct known *k, struct error *e)
{
  struct trainer *t;
  int status = trainer_init(&t, c, TRAINER_NO_RECORD | TRAINER_NO_WEIGHTS, e);
  if (status) return status;
  k->vocab = trainer_model(t)->options.vocab;
  trainer_contents(t, &k->data, &k->start);
  trainer_abandon(t);
  return STATUS_OK;
}

/* The result of a child process. */
struct plan_finding {
  struct known known;
  struct error error;
};

static int read_finding(int fd, struct plan_finding *f)
{
  size_t have = 0;
  ssize_t n;
  while (have < sizeof *f &&
         ((n = read(fd, (char *)f + have, sizeof *f - have)) > 0 || (n < 0 && errno == EINTR)))
    have += n > 0 ? (size_t)n : 0;
  return have == sizeof *f;
}

static _Noreturn void find_out(struct config *c, int fd)
{
  struct plan_finding f = {0};
  build(c, &f.known, &f.error);
  for (size_t done = 0; done < sizeof f;) {
    ssize_t n = write(fd, (char *)&f + done, sizeof f - done);
    if (n < 0 && errno != EINTR) break;
    done += n > 0 ? (size_t)n : 0;
  }
  _exit(STATUS_OK); /* without the parent's buffers and exit handlers */
}

/* Build the trainer in a child process: this process will fork workers, and it could not after it has used a GPU
   (run_arena.h). */
static int build_apart(struct config *c, struct known *k, struct error *e)
{
  struct plan_finding f;
  int ends[2], ended;
  if (pipe(ends)) return error_set(e, STATUS_FAIL, "cannot open a pipe: %s", strerror(errno));
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) find_out(c, ends[1]);
  close(ends[1]);
  int have = pid > 0 && read_finding(ends[0], &f);
  close(ends[0]);
  while (pid > 0 && waitpid(pid, &ended, 0) < 0 && errno == EINTR) {}
  if (!have)
    return error_set(e, STATUS_FAIL, "the process that was to try this point has ended, or never began");
  if (f.error.status) return error_set(e, f.error.status, "%s", f.error.text);
  *k = f.known;
  return STATUS_OK;
}

static int learn(struct plan *plan, uint64_t key, struct config *c, struct error *e)
{
  const struct top_options *top = config_section(c, "");
  struct known k = {0};
  int status = run_arenas_in_one_call(top->device) && dist_ranks(0)->ranks == 1 ? build_apart(c, &k, e)
                                                                                : build(c, &k, e);
  if (status) return status;
  k.key = key;
  plan->known = memory_grow(plan->known, plan->count, plan->count + 1, sizeof *plan->known);
  plan->known[plan->count++] = k;
  return STATUS_OK;
}

int plan_check(struct plan *plan, struct config *c, char id[16], struct error *e)
{
  uint64_t key = structure_of(c);
  size_t i = 0;
  while (i < plan->count && plan->known[i].key != key) i++;
  int status = i < plan->count ? STATUS_OK : learn(plan, key, c, e);
  trainer_resolve(c);
  if (!status) status = model_resolve(config_section(c, "model"), plan->known[i].vocab, e);
  if (!status) config_id(c, plan->known[i].data, plan->known[i].start, id);
  return status;
}
