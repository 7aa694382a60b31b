/* status_line.c - a line of standard error that the next one overwrites, and the size of terminals */
#include "base/status_line.h"
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int terminal_is_utf8(void)
{
  setlocale(LC_CTYPE, "");
  return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

struct terminal_size terminal_size(int fd)
{
  struct winsize size;
  if (ioctl(fd, TIOCGWINSZ, &size) || !size.ws_col || !size.ws_row) return (struct terminal_size){80, 24};
  return (struct terminal_size){size.ws_col, size.ws_row};
}

void status_line(const char *const *parts)
{
  int room = terminal_size(STDERR_FILENO).columns - 1; /* some terminals wrap in the last column */
  status_line_clear();
  for (int i = 0; parts[i] && room > 0; i++) {
    int length = (int)strlen(parts[i]) + (i ? 2 : 0);
    if (i && length > room) break;
    fprintf(stderr, "%s%.*s", i ? "  " : "", room, parts[i]);
    room -= length;
  }
  fflush(stderr);
}

void status_line_clear(void)
{
  fputs("\r\033[K", stderr);
  fflush(stderr);
}

void duration_text(char out[32], double seconds)
{
  long s = isfinite(seconds) && seconds < 1e12 ? (long)seconds : -1, minutes = s / 60 % 60;
  if (s < 0)
    snprintf(out, 32, "?");
  else if (s < 3600)
    snprintf(out, 32, "%ld:%02ld", minutes, s % 60);
  else if (s < 86400)
    snprintf(out, 32, "%ld:%02ld:%02ld", s / 3600, minutes, s % 60);
  else
    snprintf(out, 32, "%ld d %02ld:%02ld", s / 86400, s / 3600 % 24, minutes);
}
