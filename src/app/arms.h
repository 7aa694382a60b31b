/* arms.h - two arms as words of a command: two folders or files, or runs and two conditions */
#ifndef MAXLOGIT_APP_ARMS_H
#define MAXLOGIT_APP_ARMS_H
#include "app/selection.h"

/* The runs of A and B, and their names. STATUS_USAGE: the words are not two arms. The caller closes both sets
   (runset_close), also after an error. */
int arms_select(struct runset set[2], const char *name[2], struct selected_runs *, struct error *);
#endif
