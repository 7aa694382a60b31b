/* folder.h - a folder for a test's files */
#ifndef MAXLOGIT_TEST_FOLDER_H
#define MAXLOGIT_TEST_FOLDER_H
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { FOLDER_PATH = 32 };

static inline void folder_make(char path[FOLDER_PATH])
{
  snprintf(path, FOLDER_PATH, "/tmp/maxlogit-test.XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(path));
}

static inline void folder_remove(const char *path)
{
  char command[FOLDER_PATH + 16];
  snprintf(command, sizeof command, "rm -rf %s", path);
  ck_assert_int_eq(system(command), 0);
}
#endif
