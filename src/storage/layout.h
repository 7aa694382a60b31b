/* layout.h - the names and versions that writer and reader of a run file share */
#ifndef MAXLOGIT_STORAGE_LAYOUT_H
#define MAXLOGIT_STORAGE_LAYOUT_H
#include "storage/h5.h"

#define RUN_FORMAT "maxlogit run"
#define CHECKPOINT_FORMAT "maxlogit checkpoint"
/* Raise a version if an older reader would misread the file. */
enum { RUN_VERSION = 1, CHECKPOINT_WITH_ROWS = 2, CHECKPOINT_VERSION = 3 };

/* Keys of a head (storage/seal.h): attributes of the root and of /status by their names; a parameter; a series, with
   the number of its rows as value. */
#define HEAD_PARAMETER "parameters/"
#define HEAD_SERIES "series/"

#define DATA_RECORDED "recorded" /* the attribute `data` of a run by another program */

enum { SERIES_NAME = 96 }; /* bytes of a series' name, with its NUL */

/* A row of /events, as in memory and in the file. */
struct event_record {
  int64_t step;
  char kind[24];
  int32_t layer, head;
  double value;
};
extern const struct h5_shape event_shape;

/* The length of a run file's name or path before ".h5"; 0 if it has another ending. */
size_t run_stem(const char *path);
/* A file beside RUN.h5: "RUN" and a suffix such as ".ckpt"; "" if it would be longer than any path. */
void run_sibling(char out[4096], const char *run_path, const char *suffix);
#endif
