/* error.h - errors as return values, and messages on standard error */
#ifndef MAXLOGIT_BASE_ERROR_H
#define MAXLOGIT_BASE_ERROR_H

/* Exit statuses of the program; functions that can fail return one of these. */
enum status {
  STATUS_OK = 0,       /* done; a diverged run is done too */
  STATUS_FAIL = 1,     /* failed while running: disk full, no memory, locked run */
  STATUS_USAGE = 2,    /* wrong usage or input */
  STATUS_DIVERGED = 3, /* only with train.on_nonfinite=fail */
  STATUS_STOPPED = 75  /* stopped early by a signal or a time limit; resume continues */
};

/* One error: place, problem, allowed values. The first error is kept. */
struct error {
  int status;
  char text[2048];
};

/* Store a message and return `status`, so that `return error_set(e, ...)` is possible. `e` may be NULL. */
int error_set(struct error *e, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Put "prefix: " before the message (a file, a place). Returns e->status; STATUS_FAIL if `e` is NULL. */
int error_prefix(struct error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A programming error: print file and line, abort. */
void bug(const char *file, int line, const char *format, ...)
  __attribute__((noreturn, format(printf, 3, 4))); /* not _Noreturn: kernels include this from C++ */
#define BUG(...) bug(__FILE__, __LINE__, __VA_ARGS__)
#define REQUIRE(condition) \
  do { \
    if (!(condition)) BUG("%s is false", #condition); \
  } while (0)

/* Print a line on standard error: "maxlogit: ..." or "maxlogit: warning: ...". */
/* Install a message hook. If it returns 0 the line is not printed. NULL removes the hook. */
void messages_to(int (*take)(const char *line));
void message(const char *format, ...) __attribute__((format(printf, 1, 2)));
void warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
