/* bits.h - a run's numbers as one number, the same on every processor with a fused multiply-add (README: the same
   bits), and a word where the processor has none */
#ifndef MAXLOGIT_RUN_BITS_H
#define MAXLOGIT_RUN_BITS_H
#include "run/drive.h"

enum { BITS_TEXT = 17 };
/* Do the run of these settings ("key=value") in a folder that is removed again, and tell its bits in hexadecimal:
   XXH64 of every series, of the clip, spike and nonfinite events, and of all that the last checkpoint holds of weights
   and states. One NaN is as good as another here: sign and payload are the processor's own. */
int bits_of(const char *const *settings, size_t count, drive_tick *, void *context, char bits[BITS_TEXT],
            struct error *);

/* Are the kernels of this processor (or those that MAXLOGIT_KERNELS names) without a fused multiply-add? */
int bits_are_own(void);
/* Then say it, once a process, before a run on `device`. */
void bits_warn(const char *device);
#endif
