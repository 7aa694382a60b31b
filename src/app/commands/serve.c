/* serve.c - the page of a set of runs while they are written */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "app/command.h"
#include "app/http.h"
#include "app/runs_page.h"
#include "app/selection.h"
#include "base/clock.h"
#include "run/drive.h"

struct options {
  struct selected_runs chosen;
  const char *address;
  long port;
};

static const struct command_option options[] = {
  WHOLE(port, 0, "N", "0", 0, 65535, "Port; 0 (default): any that is free"),
  TEXT(
    address, 0, "IPV4", "127.0.0.1",
    "Address to listen on. Any but that of this machine alone lets everybody who can reach it, and has the "
    "token, read these runs, unencrypted; by ssh -L nobody else can"),
  NO_OPTION,
};

struct serving {
  atomic_int asked;      /* requests that wait or are answered, on a thread of their own */
  pthread_mutex_t mutex; /* of all that is below */
  struct runs_page *page;
  double looked;
  int waiting; /* runs that are still to be read */
};

/* A request for the list of runs also looks for new runs. */
static int send_file(void *context, const char *name, const char *runs, const char *steps, char **text,
                     size_t *length, const char **type, struct error *e)
{
  struct serving *s = context;
  s->asked++;
  pthread_mutex_lock(&s->mutex);
  if (!s->waiting && !strcmp(name, "data/index.js") && clock_seconds() - s->looked > 0.5) {
    struct error none = {0}; /* if runs cannot be read now, the page keeps its earlier contents */
    runs_page_look(s->page, &none);
    s->waiting = 1;
    s->looked = clock_seconds();
  }
  int status = runs_page_file(s->page, *name ? name : "index.html", runs, steps, text, length, type, e);
  pthread_mutex_unlock(&s->mutex);
  s->asked--;
  return status;
}

/* A tenth of a second of reading waiting runs if there are no requests, or of sleep. */
static void read_on(struct serving *s)
{
  const struct timespec turn = {0, 1000000}, pause = {0, 100000000};
  double begun = clock_seconds();
  int more = 1;
  while (more && clock_seconds() - begun < 0.1) {
    pthread_mutex_lock(&s->mutex);
    if (s->waiting) s->waiting = runs_page_read(s->page);
    more = s->waiting;
    pthread_mutex_unlock(&s->mutex);
    if (more && s->asked) nanosleep(&turn, NULL);
  }
  if (!more) nanosleep(&pause, NULL);
}

static int serve(void *request, struct error *e)
{
  struct options *r = request;
  struct serving s = {0, PTHREAD_MUTEX_INITIALIZER,
                      runs_page_new(selected_runs_open(&r->chosen), RUNS_PAGE_LIVE), 0, 0};
  struct http *http;
  int port = (int)r->port;
  drive_catch_signals();
  int status = runs_page_look(s.page, e);
  if (!status) s.waiting = runs_page_read(s.page); /* the list of series */
  if (!status) status = http_start(&http, r->address, &port, send_file, &s, e);
  if (!status) {
    int count = runs_page_runs(s.page);
    printf("http://%s:%d/%s/\n", r->address, port, http_token(http));
    fflush(stdout);
    message("%d run%s; open this address in a browser. Ctrl-C ends", count, text_s(count));
    while (!drive_stopping()) {
      read_on(&s);
      http_tend(http);
    }
    http_stop(http);
  }
  runs_page_free(s.page);
  return status;
}

const struct command command_serve = {
  .name = "serve",
  .arguments = "RUN.h5 ...",
  .help = "the page of `report`, updated live",
  .about = "Show runs in a browser of this machine while they are being written: prints the address, which "
           "has a token "
           "in it, and answers nobody without it. Only reads, and only these runs. " SELECTION_HELP,
  .more = "maxlogit serve runs\n"
          "maxlogit serve runs --port=8421\n"
          "ssh -L 8421:127.0.0.1:8421 HOST maxlogit serve --port=8421 runs/sweep",
  OPTIONS,
  .shared = selection_options,
  .wanted = "which runs?",
  .most = MANY_WORDS,
  .run = serve,
};
