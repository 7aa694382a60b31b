/* folder.h - a folder for a test's files, and to be in it */
#ifndef MAXLOGIT_TESTS_FOLDER_H
#define MAXLOGIT_TESTS_FOLDER_H
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

static inline void folder_enter(char path[FOLDER_PATH])
{
  folder_make(path);
  ck_assert_int_eq(chdir(path), 0);
}

static inline void folder_leave(const char *path)
{
  ck_assert_int_eq(chdir("/"), 0);
  folder_remove(path);
}
#endif
