/* markup.h - escapes texts for HTML, shells and tables */
#ifndef MAXLOGIT_BASE_MARKUP_H
#define MAXLOGIT_BASE_MARKUP_H
#include "base/error.h"
#include "base/text.h"

/* Append markup. The format is markup and is copied unchanged. Each text argument (%s) is cleaned (text_clean, line
   ends stay) and escaped, for elements and for attributes in double quotes. Conversions: %s %d %ld %g %f %%, without a
   star. */
void markup_add(struct buffer *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Append a text of another author to Markdown, in one line and without markup. */
void markdown_add(struct buffer *, const char *text);

/* Append a word for a POSIX shell: unchanged if all its characters are safe, else in single quotes. A control
   character, which is invisible in the line, becomes '?'. */
void shell_add(struct buffer *, const char *word);
char *shell_word(const char *); /* for memory_free */

/* May a page with files of these names be written into the folder? STATUS_USAGE if one of them is there and index.html
   has not this title: they belong to another page. Names end with NULL. */
int page_may_replace(const char *folder, const char *title, const char *const *names, struct error *);

/* Append a cleaned cell of a table in CSV (separator ','), TSV ('\t') or columns (' '). In CSV (RFC 4180) a text with a
   comma, a quote or a line end is quoted, and quotes are doubled. In CSV and TSV a text that is not a number and begins
   with = + - or @ gets an apostrophe before it, because a spreadsheet would compute it as a formula. */
void cell_add(struct buffer *, const char *text, char separator);
#endif
