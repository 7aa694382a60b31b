/* bits.h - a hash of a run's numbers, the same on every processor with a fused multiply-add (README: the same bits),
   and a warning on processors without one */
#ifndef MAXLOGIT_RUN_BITS_H
#define MAXLOGIT_RUN_BITS_H
#include "run/trainer.h"

enum { BITS_TEXT = 17 };
/* Run these settings ("key=value") in memory. Returns the run's bits in hexadecimal: XXH64 of every series, of the
   clip, spike and nonfinite events, and of the weights and states that a checkpoint at its end would have. All NaNs
   hash alike, because sign and payload depend on the processor. */
typedef void bits_look(void *context, const struct trainer *); /* before the first step; may be NULL */
int bits_of(const char *const *settings, size_t count, bits_look *, void *context, char bits[BITS_TEXT],
            struct error *);
/* The fixed run of `maxlogit doctor` is the default stack on the built-in source. Its bits are the same on every
   processor with a fused multiply-add, whatever the compiler and its flags: BITS_EXPECTED. */
#define BITS_EXPECTED "a0ba43b9a69948ea"
int bits_of_fixed_run(bits_look *, void *context, char bits[BITS_TEXT], struct error *);

/* Are the kernels of this processor (or those that MAXLOGIT_KERNELS names) without a fused multiply-add? */
int bits_are_own(void);
/* Warn about it before a run on `device`, once per process. */
void bits_warn(const char *device);
#endif
