/* head.h - builds the head of a run file (storage/seal.h) from the finished file */
#ifndef MAXLOGIT_STORAGE_HEAD_H
#define MAXLOGIT_STORAGE_HEAD_H
#include "storage/h5.h"

/* The texts of the head; the caller calls memory_free. */
char *run_head_of(struct h5 *, size_t *size);

typedef int each_setting(void *, const char *key, const char *value, const char *origin);
/* Visit the parameters; stops at the first non-zero result. Returns their number, or -1 if `each` has stopped. */
int64_t run_settings_of(struct h5 *, each_setting *each, void *context);
#endif
