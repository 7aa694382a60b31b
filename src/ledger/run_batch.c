#include "ledger/run_batch.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "run/drive.h"

void run_batch_own(struct run_batch *r, struct config *config)
{
  r->config = memory_grow(r->config, r->configs, r->configs + 1, sizeof *r->config);
  r->config[r->configs++] = config;
}

void run_batch_join(struct run_batch *r, struct sweep *s, char **folder)
{
  if (!*folder && s->count) {
    *folder = memory_text(s->points->path);
    *strrchr(*folder, '/') = 0;
  }
  sweep_join(&r->sweep, s);
}

void run_batch_free(struct run_batch *r)
{
  sweep_free(&r->sweep);
  for (size_t i = 0; i < r->configs; i++) config_free(r->config[i]);
  memory_free(r->config);
  *r = (struct run_batch){0};
}

static long count_elsewhere(const struct sweep *s)
{
  long n = 0;
  for (long i = 0; i < s->count; i++) n += s->points[i].fate == SWEEP_ELSEWHERE;
  return n;
}

int run_batch_run(struct run_batch *r,
                  int (*plan)(void *context, struct run_batch *, int again, struct error *), void *context,
                  struct error *error)
{
  for (int again = 0;; again = 1) {
    int status = plan(context, r, again, error);
    if (!status && r->sweep.count) status = sweep_run(&r->sweep, error);
    long elsewhere = count_elsewhere(&r->sweep);
    if (status || !elsewhere) return status;
    if (!again)
      message("%ld run%s in the hands of another process, which is waited for", elsewhere,
              elsewhere == 1 ? " is" : "s are");
    for (int i = 0; i < 10 && !drive_stopping(); i++) usleep(100000);
    if (drive_stopping()) return STATUS_STOPPED;
    run_batch_free(r);
  }
}
