/* maxlogit.h - the library's public header */
#ifndef MAXLOGIT_H
#define MAXLOGIT_H
#ifdef __cplusplus
extern "C" {
#endif
#include "run/trainer.h"
#ifdef __cplusplus
}
#endif
#endif
