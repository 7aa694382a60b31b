/* error.h - how functions of libmaxlogit fail: a status is returned, a message lies in the caller's struct
   Nothing is printed, nothing is kept between calls, and a NULL in the place of the struct is allowed. Two
   things end the process, as they do in the program: no memory left, and an error of this library's own. */
#ifndef MAXLOGIT_ERROR_H
#define MAXLOGIT_ERROR_H

#if defined __GNUC__
#define MAXLOGIT_API __attribute__((visibility("default")))
#else
#define MAXLOGIT_API
#endif

enum {
  MAXLOGIT_OK = 0,
  MAXLOGIT_FAIL =
    1, /* failed while working: a full disk, a damaged file, a file that another process writes */
  MAXLOGIT_USAGE = 2 /* what was asked for cannot be: an unknown name, a size that does not fit */
};

struct maxlogit_error {
  int status;
  char text[2048]; /* where, what, what is allowed; UTF-8 */
};
#endif
