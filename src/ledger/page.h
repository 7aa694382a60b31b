/* page.h - the report: one self-contained page, FOLDER/index.html, for a screen of any width and for paper */
#ifndef MAXLOGIT_PAGE_H
#define MAXLOGIT_PAGE_H
#include "ledger/ledger.h"

/* Well-formed XML without a script; figures by gnuplot stand in it as SVG. `other`: another ledger's file, or the
   folder of its runs, whose verdicts and runs stand beside; or NULL. `scripts`: the folder of the plot scripts.
   STATUS_FAIL where gnuplot is missing, STATUS_USAGE where the other one is no ledger. */
int page_write(const struct ledger *, const char *other, const char *folder, const char *scripts,
               struct error *);

/* figure_claim.c: the figure of a claim as SVG without its XML heading, every id beginning with `prefix`; NULL with
   STATUS_OK where there is nothing to draw. memory_free. */
int claim_figure(const struct entry *, const char *scripts, const char *prefix, char **svg, struct error *);
#endif
