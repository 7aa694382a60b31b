/* sweep.h - the product of lists, run by worker processes, resumable */
#ifndef MAXLOGIT_SWEEP_H
#define MAXLOGIT_SWEEP_H
#include "storage/config.h"

struct sweep_options { const char *dir; long jobs; }; /* section [sweep] */
extern const struct option_row sweep_rows[];
#endif
