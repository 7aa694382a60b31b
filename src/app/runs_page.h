/* runs_page.h - the page of a set of runs, as files by name: `report` writes them, `serve` sends them
   index.html, draw.js, runs.js, runs.css, style.css, play.html (where it was built): as they come with the program.
   data/index.js: all but numbers of series.
   data/N.max.js, N.min.js, N.mean.js: series N of index.js, a number a step, of every run; data/N.heads.js: its largest
   values by head, layer or tensor; data/events.js. Scripts that call take(), so that the page opens from a disk, too.
   Series are thinned by steps, to mean, smallest and largest of an interval: peaks stay. */
#ifndef MAXLOGIT_APP_RUNS_PAGE_H
#define MAXLOGIT_APP_RUNS_PAGE_H
#include "analysis/runset.h"
#include "base/text.h"

struct runs_page;
/* live: for a server: new runs are not read before runs_page_read. bare: for strangers: without folders, dates and the
   conditions that chose the runs. The selection has to live as long. */
enum runs_page_kind { RUNS_PAGE_WHOLE, RUNS_PAGE_LIVE, RUNS_PAGE_BARE };
struct runs_page *runs_page_new(const struct selection *, enum runs_page_kind);
void runs_page_free(struct runs_page *);
/* Update the list of runs and their new rows; after an error nothing has changed. */
int runs_page_look(struct runs_page *, struct error *);
/* Read one of the runs that have not been read; returns how many are left. index.js lists those with an empty stamp and
   the facts of their file's head; no other file has them. */
int runs_page_read(struct runs_page *);
/* One file, and its media type ("text/css"). `runs`: the keys of the requested runs, separated by commas; NULL: all.
   `steps`: FIRST-LAST, of a series' file thinned no more than these steps need; it is then called
   N.max@FIRST-LAST. STATUS_USAGE: there is no such file. For memory_free. */
int runs_page_file(struct runs_page *, const char *name, const char *runs, const char *steps, char **text,
                   size_t *length, const char **type, struct error *);
/* Make all that can be asked for, each run read once. */
void runs_page_all(struct runs_page *);
/* See page_may_replace. */
int runs_page_may_replace(const char *folder, struct error *);
/* All names, one after the other. */
int runs_page_names(struct runs_page *, int (*each)(void *, const char *name), void *);
/* Is it, in the folder data, the name of a series that the page does not have? */
int runs_page_lacks(const struct runs_page *, const char *name);
int runs_page_runs(const struct runs_page *);
int runs_page_damage(const struct runs_page *); /* runset's */
#endif
