/* status_line.h - a line of standard error that the next one overwrites, and the size of terminals */
#ifndef MAXLOGIT_BASE_STATUS_LINE_H
#define MAXLOGIT_BASE_STATUS_LINE_H
struct terminal_size {
  int columns, rows;
};
/* Asked anew by each call, since windows change; 80 x 24 where nothing is known. */
struct terminal_size terminal_size(int fd);
/* Parts from left to right, NULL behind the last, two spaces between them. From the first that does not fit on they are
   left out, and a first one that is too long is cut: the line never wraps. */
void status_line(const char *const *parts);
void status_line_clear(void);
/* "0:07", "12:34", "1:02:03", "3 d 04:05"; "?" where it is not finite. */
void duration_text(char out[32], double seconds);
#endif
