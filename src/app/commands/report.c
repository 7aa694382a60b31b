/* report.c - the page of a set of runs, in a folder */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "app/command.h"
#include "app/runs_page.h"
#include "app/selection.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

struct options {
  struct selected_runs chosen;
  const char *output;
  long bare;
};

static const struct command_option options[] = {
  TEXT(output, 'o', "DIR", "report", "Folder for the page"),
  FLAG(
    bare, 0,
    "For strangers: without folders, dates and what chose the runs; file names, parameters and numbers stay"),
  NO_OPTION,
};

struct report_writing {
  struct runs_page *page;
  const char *folder;
  struct error *error;
};

static int write_file(void *context, const char *name)
{
  const struct report_writing *w = context;
  char path[4200], folder[4200], *text = NULL;
  const char *type, *slash = strchr(name, '/');
  size_t length;
  int status = runs_page_file(w->page, name, NULL, NULL, &text, &length, &type, w->error);
  if (status) return status;
  snprintf(path, sizeof path, "%s/%s", w->folder, name);
  snprintf(folder, sizeof folder, "%s/%.*s", w->folder, slash ? (int)(slash - name) : 0, name);
  int fd = folder_open(folder, slash ? FOLDER_MAKE | FOLDER_REAL : FOLDER_MAKE, w->error);
  status = fd < 0 ? w->error->status : file_write_in(fd, path, text, length, w->error);
  if (fd >= 0) close(fd);
  memory_free(text);
  return status;
}

/* Remove files of series that only the page before had: with --bare they would be published, too. */
static int remove_left(const struct report_writing *w)
{
  char folder[4200];
  snprintf(folder, sizeof folder, "%s/data", w->folder);
  int fd = folder_open(folder, FOLDER_REAL, w->error), again = fd < 0 ? -1 : dup(fd), status = STATUS_OK;
  DIR *d = again < 0 ? NULL : fdopendir(again);
  if (!d) status = error_set(w->error, STATUS_FAIL, "cannot read %s: %s", folder, strerror(errno));
  for (struct dirent *entry; d && !status && (entry = readdir(d));)
    if (runs_page_lacks(w->page, entry->d_name) && file_remove_in(fd, entry->d_name))
      status = error_set(w->error, STATUS_FAIL, "cannot remove %s/%s", folder, entry->d_name);
  if (d) closedir(d);
  if (fd >= 0) close(fd);
  return status;
}

static int report(void *request, struct error *e)
{
  struct options *r = request;
  struct runs_page *page =
    runs_page_new(selected_runs_open(&r->chosen), r->bare ? RUNS_PAGE_BARE : RUNS_PAGE_WHOLE);
  struct report_writing w = {page, r->output, e};
  char index_path[4200];
  snprintf(index_path, sizeof index_path, "%s/index.html", r->output);
  const int is_page = !access(index_path, F_OK); /* of runs, or may_replace refuses */
  int status = runs_page_may_replace(r->output, e);
  if (!status) status = runs_page_look(page, e);
  if (!status) runs_page_all(page);
  if (!status) status = runs_page_names(page, write_file, &w);
  if (!status && is_page) status = remove_left(&w);
  if (!status) {
    text_print_line(index_path);
    status = runs_page_damage(page);
  }
  runs_page_free(page);
  return status;
}

const struct command command_report = {
  .name = "report",
  .arguments = "RUN.h5 ...",
  .help = "HTML page of runs: table, curves, heads, differences",
  .about = "Write a page of runs into a folder, whole: it opens from a disk and asks nothing of a "
           "network. " SELECTION_HELP
           " Curves are thinned to intervals of the steps, of which mean, smallest and largest value stay.",
  .more = "maxlogit report runs -o page\n"
          "maxlogit report runs -o page --bare\n\n"
          "`maxlogit serve` shows the same page while runs are being written.",
  OPTIONS,
  .shared = selection_options,
  .wanted = "which runs?",
  .most = MANY_WORDS,
  .run = report,
};
