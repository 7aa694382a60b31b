/* page.h - the report: one self-contained page, FOLDER/index.html, for a screen of any width and for paper */
#ifndef MAXLOGIT_LEDGER_PAGE_H
#define MAXLOGIT_LEDGER_PAGE_H
#include "ledger/other_ledger.h"

/* Well-formed XML without a script; figures by gnuplot stand in it as SVG. `beside`: another ledger, whose
   verdicts and runs stand beside; or NULL. `scripts`: the folder of the plot scripts. STATUS_FAIL where gnuplot is
   missing. */
int page_write(const struct ledger *, const struct other_ledger *beside, const char *folder,
               const char *scripts, struct error *);

/* figure_claim.c: the figure of a claim as SVG without its XML heading, every id beginning with `prefix`; NULL with
   STATUS_OK where there is nothing to draw. memory_free. */
int claim_figure(const struct entry *, const char *scripts, const char *prefix, char **svg, struct error *);
#endif
