/* text.h - helpers for strings */
#ifndef MAXLOGIT_BASE_TEXT_H
#define MAXLOGIT_BASE_TEXT_H
#include <stddef.h>

/* A growing string; initialize with zeros, free with memory_free(b.text). */
struct buffer {
  char *text;
  size_t length, room;
};
void buffer_add(struct buffer *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Clean a text from a file or user for terminals, tables and pages, in place; returns its new length. A control
   character (C0, DEL, C1), a bidi control, a line or paragraph separator and a byte that is not UTF-8 become '?',
   except those in `keep` ("" or "\n"). At most `room` bytes are read, and the text ends within them at a whole
   character. */
size_t text_clean(char *text, size_t room, const char *keep);
/* Fill `out` with as many whole characters of `text` as it holds, cleaned as above; NULL is "". Returns the length. */
size_t text_fill(char *out, size_t room, const char *text);
/* A cleaned copy; the caller calls memory_free. */
char *text_cleaned(const char *text, const char *keep);
/* Print a text, such as a path, as one cleaned line on standard output. */
void text_print_line(const char *text);

/* The columns of a terminal that the characters of UTF-8 take that begin in these bytes. A wide one (Chinese, for
   example) takes two, an accent that is written apart none; each takes one unless the locale has UTF-8. */
int text_columns(const char *text, size_t bytes);
int text_letters(const char *text); /* the characters of UTF-8, in any locale */
int text_letter(const char *text);  /* the bytes of the first character; 0 at the end */

/* The part of a path after its last slash, or all of it. */
const char *text_file_name(const char *path);
/* The same without that ending, unless nothing else remains: "sweep" of "experiments/01-width/sweep.conf". */
char *text_stem(const char *path, const char *ending);

/* The last part: "lr" of "train.lr"; all of it if there is no dot. */
const char *text_last_part(const char *name);
int text_ends_with(const char *text, const char *end);
/* Compare two texts by strcmp, for qsort. */
int text_order(const void *, const void *);

/* The plural ending for a count: "" for 1, else "s". */
const char *text_s(long count);

/* A unit for printing: "" for "1". */
const char *text_unit(const char *unit);

/* The candidate nearest to `word` by edit distance; NULL if none is near enough to suggest. */
const char *text_nearest(const char *word, const char *const *candidates, size_t count);

/* Shortest decimal that reads back as the same double ("0.03", "1e-08"). */
void text_number(double value, char out[32]);

/* Split a copy of `list` at `separator` (trimming blanks) and call `each`; stops at the first non-zero result. */
int text_split(const char *list, char separator, int (*each)(void *, const char *part), void *context);
#endif
