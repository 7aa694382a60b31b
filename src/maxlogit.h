/* maxlogit.h - the library's public header */
#ifndef MAXLOGIT_MAXLOGIT_H
#define MAXLOGIT_MAXLOGIT_H
#ifdef __cplusplus
extern "C" {
#endif
#include "run/trainer.h"
#ifdef __cplusplus
}
#endif
#endif
