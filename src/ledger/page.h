/* page.h - the report: one self-contained page, FOLDER/index.html, for a screen of any width and for paper */
#ifndef MAXLOGIT_LEDGER_PAGE_H
#define MAXLOGIT_LEDGER_PAGE_H
#include "ledger/other_ledger.h"

#define LEDGER_PAGE_TITLE "maxlogit: the ledger of claims" /* of index.html, by which it is known again */

/* Write well-formed XML without scripts; figures by gnuplot are embedded as SVG. `beside`: a second ledger, shown in
   further columns; or NULL. `scripts`: the folder of the plot scripts. STATUS_FAIL if gnuplot is missing. */
int page_write(const struct ledger *, const struct other_ledger *beside, const char *folder,
               const char *scripts, struct error *);

/* figure_claim.c: the figure of a claim as SVG without its XML heading, every id beginning with `prefix`; the caller
   calls memory_free. NULL with STATUS_OK if there is nothing to draw. */
int claim_figure(const struct entry *, const char *scripts, const char *prefix, char **svg, struct error *);
#endif
