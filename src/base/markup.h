/* markup.h - texts on their way into HTML, and words on their way into a shell */
#ifndef MAXLOGIT_BASE_MARKUP_H
#define MAXLOGIT_BASE_MARKUP_H
#include "base/text.h"

/* Append markup. The format is markup and stands as it is; each text behind it (%s) is cleaned (text_clean,
   line ends stay) and escaped, for the inside of an element and of an attribute in double quotes alike.
   Conversions: %s %d %ld %g %f %%, without a star. */
void markup_add(struct buffer *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Append a word as a POSIX shell reads it back: as it is where it has only letters of the list, else in
   single quotes. A control character, which is invisible in the line, becomes '?'. */
void shell_add(struct buffer *, const char *word);

/* Append a cell of a table in CSV (separator ','), TSV ('\t') or columns (' '), cleaned. In CSV (RFC 4180) a
   text with a comma, a quote or a line's end stands in quotes, a quote doubled. In CSV and TSV a text, not a
   number, that begins with = + - or @ gets an apostrophe before it: a spreadsheet would compute it as a
   formula. */
void cell_add(struct buffer *, const char *text, char separator);
#endif
