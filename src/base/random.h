/* random.h - counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011)
   A draw is a pure function of (seed, stream, step, index): resume needs no state, and any thread or
   device draws the same numbers. */
#ifndef MAXLOGIT_BASE_RANDOM_H
#define MAXLOGIT_BASE_RANDOM_H
#include <stdint.h>

/* Streams of draws. Append only: the numbers are part of a run's identity. */
enum stream {
  STREAM_INIT = 1,       /* step = index of the parameter */
  STREAM_TRAIN_DATA = 2, /* step = training step */
  STREAM_VAL_DATA = 3,
  STREAM_PROBE_DATA = 4,
  STREAM_SOURCE = 5, /* tables that a data source draws once */
  STREAM_OPTIMIZER = 6,
  STREAM_SPECTRA = 7,
  STREAM_TEST = 8,
  STREAM_BOOTSTRAP = 9, /* step = resample */
  STREAM_LABELS = 10    /* step = training step */
};

/* The raw block: 4 words from a 4-word counter and a 2-word key. */
void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

struct draw {
  uint64_t seed;
  uint32_t stream;
  uint64_t step;
};

uint32_t draw_u32(struct draw, uint64_t index);
double draw_uniform(struct draw, uint64_t index); /* [0, 1), 32 random bits */
/* Every second draw, n of them, from index on, which must be a multiple of 4: two per block. */
void draw_uniforms(struct draw, uint64_t index, long n, double *out);
uint64_t draw_below(struct draw, uint64_t index, uint64_t n); /* [0, n) */
double draw_normal(struct draw, uint64_t index);              /* mean 0, variance 1; Box-Muller */

#endif
