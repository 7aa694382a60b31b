/* text.h - small things with strings */
#ifndef MAXLOGIT_BASE_TEXT_H
#define MAXLOGIT_BASE_TEXT_H
#include <stddef.h>

/* A growing string; zero-initialise, free with memory_free(b.text). */
struct buffer {
  char *text;
  size_t length, room;
};
void buffer_add(struct buffer *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Make a text that a file or a person brought fit for a terminal, a table and a page, in place; returns its
   new length. A control character (C0, DEL, C1), a bidi control, a line or paragraph separator and a byte
   that is not UTF-8 become '?'; those of `keep` ("" or "\n") stay. At most `room` bytes are read, and the
   text ends within them at a whole letter. */
size_t text_clean(char *text, size_t room, const char *keep);
/* Fill `out` with as many whole letters of `text` as it holds, cleaned like that; NULL is "". Returns the
   length. */
size_t text_fill(char *out, size_t room, const char *text);
/* A copy, cleaned; memory_free. */
char *text_cleaned(const char *text, const char *keep);
/* A line on standard output, cleaned: a path. */
void text_print_line(const char *text);

/* What of a path stands behind its last slash, or all of it. */
const char *text_file_name(const char *path);
/* The same without that ending, if it has more than that: "sweep" of "experiments/01-width/sweep.conf". */
char *text_stem(const char *path, const char *ending);

/* Its last part: "lr" of "train.lr"; all of it where there is no dot. */
const char *text_last_part(const char *name);
int text_ends_with(const char *text, const char *end);
/* Of two texts by strcmp, for qsort. */
int text_order(const void *, const void *);

/* What a count of things has behind their name: "" of 1, else "s". */
const char *text_s(long count);

/* A unit as it is printed: "" where it is 1. */
const char *text_unit(const char *unit);

/* The candidate nearest to `word` by edit distance, or NULL if none is near enough to suggest. */
const char *text_nearest(const char *word, const char *const *candidates, size_t count);

/* Shortest decimal that reads back as the same double ("0.03", "1e-08"). */
void text_number(double value, char out[32]);

/* Split a copy of `list` at `separator` (trimming blanks), calling `each`; stops at the first non-zero. */
int text_split(const char *list, char separator, int (*each)(void *, const char *part), void *context);
#endif
