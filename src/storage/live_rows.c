#include "storage/live_rows.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "storage/layout.h"

static const char *const field_names[LIVE_FIELDS] = {"step",      "loss",  "val_loss",
                                                     "max_logit", "layer", "head"};
enum { MOST_COLUMNS = 32 };

void live_begin(struct live_rows *w, const char *run_path)
{
  *w = (struct live_rows){.last_news = clock_seconds()};
  run_sibling(w->path, run_path, ".live.tsv");
  run_sibling(w->lock_path, run_path, ".lock");
}

void live_end(struct live_rows *w)
{
  for (int f = 0; f < LIVE_FIELDS; f++) memory_free(w->value[f]);
  *w = (struct live_rows){0};
}

static int split_line(char *line, char *column[MOST_COLUMNS])
{
  int n = 0;
  for (char *rest = line, *part; n < MOST_COLUMNS && (part = strsep(&rest, "\t\n")) != NULL;)
    column[n++] = part;
  return n;
}

static int read_header(struct live_rows *w, char *line, struct error *error)
{
  char *column[MOST_COLUMNS];
  int n = split_line(line, column);
  for (int f = 0; f < LIVE_FIELDS; f++) {
    w->place[f] = -1;
    for (int c = 0; c < n; c++)
      if (strcmp(column[c], field_names[f]) == 0) w->place[f] = c;
    if (w->place[f] < 0)
      return error_set(error, STATUS_USAGE, "%s: not the rows of a run: its first line names no column '%s'",
                       w->path, field_names[f]);
  }
  return STATUS_OK;
}

static void read_row(struct live_rows *w, char *line)
{
  char *column[MOST_COLUMNS];
  int n = split_line(line, column);
  if (w->rows == w->room) {
    long room = 2 * w->room + 256;
    for (int f = 0; f < LIVE_FIELDS; f++)
      w->value[f] = memory_grow(w->value[f], (size_t)w->room, (size_t)room, sizeof *w->value[f]);
    w->room = room;
  }
  for (int f = 0; f < LIVE_FIELDS; f++)
    w->value[f][w->rows] = w->place[f] < n ? strtod(column[w->place[f]], NULL) : NAN;
  w->rows++;
}

int live_news(struct live_rows *w, long *from, struct error *error)
{
  char line[1024];
  struct stat info;
  int status = STATUS_OK;
  int fd = file_open(w->path, NULL);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
  *from = w->rows;
  if (!file) return STATUS_OK;
  if (fstat(fileno(file), &info) != 0) info.st_size = 0, info.st_ino = 0;
  if (info.st_size < w->offset || info.st_ino != w->inode) w->offset = w->rows = *from = 0;
  w->inode = info.st_ino;
  fseek(file, w->offset, SEEK_SET);
  while (!status && fgets(line, sizeof line, file) && strchr(line, '\n')) {
    int header = w->offset == 0;
    w->offset += (long)strlen(line);
    if (header)
      status = read_header(w, line, error);
    else
      read_row(w, line);
  }
  fclose(file);
  if (w->rows != *from) w->last_news = clock_seconds();
  return status;
}

/* A writer holds the lock and removes it at the end. Where one was killed the file stays, unlocked; it is
   only tried after a silence, since trying could disturb a writer that starts at that very moment. */
int live_is_over(const struct live_rows *w)
{
  int lock = open(w->lock_path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC), over = 1;
  if (lock < 0) return 1;
  if (clock_seconds() - w->last_news < 3)
    over = 0;
  else if (flock(lock, LOCK_SH | LOCK_NB) != 0)
    over = 0;
  close(lock);
  return over;
}
