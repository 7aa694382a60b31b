/* status_line.h - a line of standard error that the next one overwrites, and the size of terminals */
#ifndef MAXLOGIT_BASE_STATUS_LINE_H
#define MAXLOGIT_BASE_STATUS_LINE_H
struct terminal_size {
  int columns, rows;
};
/* Queried by each call, because windows change; 80 x 24 if unknown. */
struct terminal_size terminal_size(int fd);
/* Has the user's locale UTF-8? Sets LC_CTYPE. */
int terminal_is_utf8(void);
/* Print parts from left to right, with two spaces between them; NULL ends the parts. Parts from the first that does not
   fit are omitted, and a first part that is too long is cut: the line never wraps. */
void status_line(const char *const *parts);
void status_line_clear(void);
/* "0:07", "12:34", "1:02:03", "3 d 04:05"; "?" if not finite. */
void duration_text(char out[32], double seconds);
#endif
