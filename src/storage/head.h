/* head.h - what a run file tells in its head (storage/seal.h): read from the finished file */
#ifndef MAXLOGIT_STORAGE_HEAD_H
#define MAXLOGIT_STORAGE_HEAD_H
#include "storage/h5.h"

/* Its texts; memory_free. */
char *run_head_of(struct h5 *, size_t *size);

typedef int each_setting(void *, const char *key, const char *value, const char *origin);
/* The parameters; stops at the first non-zero. Returns their number, -1 where `each` has stopped. */
int64_t run_settings_of(struct h5 *, each_setting *each, void *context);
#endif
